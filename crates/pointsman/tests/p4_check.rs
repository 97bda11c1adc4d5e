//! `pointsman p4 check --format json` and `p4 explain`, as specified in docs/diagnostics.md.

use crate::support::{Scratch, pointsman, run};
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

/// The lines that the command writes, each a JSON object.
fn objects(args: &[&str], code: i32) -> Vec<Value> {
    let finished = run(args);
    assert_eq!(finished.code, Some(code), "{args:?}: {finished:?}");
    finished.stderr.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"))).collect()
}

/// The fields of docs/diagnostics.md, and no others.
fn check_fields(d: &Value) {
    let place = ["file", "line", "column", "end_line", "end_column", "label"];
    let own = ["severity", "code", "message", "related", "notes", "help"];
    let check = |o: &Value, names: &[&str]| {
        let object = o.as_object().unwrap_or_else(|| panic!("{o}"));
        for name in names {
            assert!(object.contains_key(*name), "no {name} in {o}");
        }
        assert_eq!(object.len(), names.len(), "{o}");
        for name in ["line", "column", "end_line", "end_column"] {
            assert!(o[name].as_u64().is_some_and(|n| n > 0), "{name} of {o}");
        }
        assert!(o["file"].is_string() && o["label"].is_string(), "{o}");
    };
    check(d, &[place.as_slice(), &own].concat());
    assert!(matches!(d["severity"].as_str(), Some("error" | "warning")), "{d}");
    assert!(d["code"].as_str().is_some_and(|c| c.len() == 5 && c.starts_with('P')), "{d}");
    assert!(d["message"].as_str().is_some_and(|m| !m.is_empty() && !m.contains('\n')), "{d}");
    for r in d["related"].as_array().unwrap() {
        check(r, &place);
    }
    assert!(d["notes"].as_array().unwrap().iter().all(Value::is_string), "{d}");
    assert!(d["help"].is_null() || d["help"].is_string(), "{d}");
}

#[test]
fn json() {
    let dir = Scratch::new("json");
    let wrong = dir.write(
        "wrong.p4",
        "const bit<8> tèn = 10;\nconst bit<8> next = tèn + 16w1 /* \u{1} \"\\ */;\nbit<8> f(in bit<8> x, in bit<8> x) {\n    \
         return \"a\\\\b\\n\";\n}\n",
    );
    let found = objects(&["p4", "check", "--format", "json", &wrong], 1);
    found.iter().for_each(check_fields);
    let codes: Vec<&str> = found.iter().filter_map(|d| d["code"].as_str()).collect();
    assert!(codes.len() >= 2, "{found:?}");
    let twice = found.iter().find(|d| d["code"] == "P0302");
    if let Some(d) = twice {
        assert_eq!((d["line"].as_u64(), d["column"].as_u64()), (Some(3), Some(33)), "{d}");
        assert_eq!(d["related"][0]["column"].as_u64(), Some(20), "{d}");
    }

    let warned = dir.write("warned.p4", "#include <core.p4>\nvoid f() {\n    bit<8> x;\n}\n");
    let found = objects(&["p4", "check", "--format", "json", &warned], 0);
    found.iter().for_each(check_fields);
    let unused = found.iter().find(|d| d["code"] == "P0701").expect("a warning");
    assert_eq!(unused["severity"], "warning");
    assert_eq!(
        (unused["line"].as_u64(), unused["column"].as_u64(), unused["end_column"].as_u64()),
        (Some(3), Some(12), Some(13))
    );
}

/// Exit code and standard error of `p4 check` with these arguments, in `dir`, that reads `input`.
fn check_input(dir: &Path, args: &[&str], input: &[u8]) -> (Option<i32>, String) {
    let mut command = pointsman(&[&["p4", "check"], args].concat());
    command.current_dir(dir).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    // It may have ended already.
    let _ = stdin.write_all(input);
    drop(stdin);
    let out = child.wait_with_output().expect("it ends");
    (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
}

#[test]
fn standard_input() {
    let dir = Scratch::new("stdin");
    dir.write("own.p4", "const bit<8> N = 1;\n");
    std::fs::create_dir(dir.0.join("sub")).expect("a folder");
    dir.write("sub/near.p4", "const bit<8> N = 1;\n");
    let check = |args: &[&str], input: &str| check_input(&dir.0, args, input.as_bytes());
    let uses = "#include \"own.p4\"\nconst bit<8> M = N;\n";
    let (code, err) = check(&["-"], uses);
    assert!(code == Some(0) && !err.contains("error"), "{err}");
    let (code, err) = check(&["-"], "const bit<8> M = x;\n");
    assert!(code == Some(1) && err.contains("<stdin>:1:18"), "{err}");
    // With a name, includes are relative to its folder; the file itself is not read.
    let (code, err) =
        check(&["-", "--stdin-name", "sub/a.p4"], "#include \"near.p4\"\nconst bit<8> M = N;\n");
    assert!(code == Some(0) && !err.contains("error"), "{err}");
    let (code, err) = check(&["-", "--stdin-name", "sub/a.p4"], uses);
    assert!(code == Some(1) && err.contains("sub/a.p4:1:1") && err.contains("P0111"), "{err}");
    let (code, err) = check_input(&dir.0, &["-"], b"const \xff");
    assert!(
        code == Some(1) && err.contains("cannot read standard input") && err.contains("P4 source"),
        "{err}"
    );
}

#[test]
fn codes_are_explained() {
    let finished = run(&["p4", "explain", "p0401"]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(finished.stdout.starts_with("P0401: "), "{finished:?}");
    let finished = run(&["p4", "explain", "P9999"]);
    assert_ne!(finished.code, Some(0), "{finished:?}");
    assert!(finished.stderr.contains("docs/diagnostics.md"), "{finished:?}");
}
