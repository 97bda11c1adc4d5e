//! `pointsman p4 fmt`: files, folders, standard input, `--check`.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Exit code, standard output and standard error.
fn run(args: &[&str], input: &str) -> (i32, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_pointsman"))
        .args(["p4", "fmt"])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    // It may have ended already.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let out = child.wait_with_output().expect("it ends");
    let text = |b: Vec<u8>| String::from_utf8(b).expect("text");
    (out.status.code().unwrap_or(-1), text(out.stdout), text(out.stderr))
}

const BAD: &str = "header h {bit<8>a;}\n";
const GOOD: &str = "header h { bit<8> a; }\n";

#[test]
fn files_and_standard_input() {
    assert_eq!(run(&["-"], BAD), (0, GOOD.into(), "".into()));
    assert_eq!(run(&["--check", "-"], GOOD), (0, "".into(), "".into()));
    assert_eq!(run(&["--check", "-"], BAD), (1, "<stdin>\n".into(), "".into()));
    assert_eq!(run(&["--check", "-", "--stdin-name", "a.p4"], BAD), (1, "a.p4\n".into(), "".into()));
    let (code, out, err) = run(&["-"], "header h { /*");
    assert!(code == 1 && out.is_empty() && err.contains("<stdin> was not formatted"), "{out}{err}");
    let dir = std::env::temp_dir().join(format!("pointsman-p4-fmt-{}", std::process::id()));
    std::fs::create_dir_all(dir.join("sub")).expect("a folder");
    let (a, b) = (dir.join("a.p4"), dir.join("sub/b.p4"));
    std::fs::write(&a, BAD).expect("a file");
    std::fs::write(&b, GOOD).expect("a file");
    std::fs::write(dir.join("c.txt"), BAD).expect("a file");
    let path = dir.to_str().expect("text");
    assert_eq!(run(&["--check", path], ""), (1, format!("{}\n", a.display()), "".into()));
    assert_eq!(std::fs::read_to_string(&a).expect("it is there"), BAD, "a check changes nothing");
    assert_eq!(run(&[path], ""), (0, "".into(), "".into()));
    assert_eq!(std::fs::read_to_string(&a).expect("it is there"), GOOD);
    assert_eq!(std::fs::read_to_string(dir.join("c.txt")).expect("it is there"), BAD);
    assert_eq!(run(&["--check", path], "").0, 0);
    // An unterminated file is left alone; the others are still formatted.
    std::fs::write(&b, BAD).expect("a file");
    std::fs::write(&a, "header h { /*").expect("a file");
    let (code, _, err) = run(&[path], "");
    assert!(code == 1 && err.contains("a.p4 was not formatted") && err.contains("P0102"), "{err}");
    assert_eq!(std::fs::read_to_string(&b).expect("it is there"), GOOD);
    let _ = std::fs::remove_dir_all(&dir);
    let (code, _, err) = run(&["/nonexistent.p4"], "");
    assert!(code == 1 && err.contains("cannot read /nonexistent.p4"), "{err}");
}

#[test]
fn lines_of_a_width() {
    let long = "header a_header { bit<8> first; bit<8> second; }\n";
    let wrapped = "header a_header {\n    bit<8> first;\n    bit<8> second;\n}\n";
    assert_eq!(run(&["--width", "40", "-"], long), (0, wrapped.into(), "".into()));
    assert_eq!(run(&["--width", "80", "--check", "-"], long), (0, "".into(), "".into()));
    assert_eq!(run(&["--width", "40", "--check", "-"], long).0, 1);
    for bad in ["0", "39", "401", "-1", "wide"] {
        let (code, out, err) = run(&[&format!("--width={bad}"), "-"], long);
        assert!(code == 2 && out.is_empty() && err.contains("columns, 40 to 400"), "{bad}: {out}{err}");
    }
}

#[test]
fn our_programs_are_formatted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = ["p4", "examples", "tests/programs"].map(|f| root.join(f).display().to_string());
    let args: Vec<&str> = ["--check"].into_iter().chain(folders.iter().map(String::as_str)).collect();
    assert_eq!(
        run(&args, ""),
        (0, "".into(), "".into()),
        "run `pointsman p4 fmt p4 examples tests/programs`"
    );
}
