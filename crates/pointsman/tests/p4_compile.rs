//! `pointsman p4 compile`: p4c's command line.

use crate::support::controller::connect;
use crate::support::{Scratch, Switch, file, run};

const BASIC: &str = "examples/forwarder/main.p4";

/// As the tutorials call p4c: a device config that the switch runs, from the command line and from a controller, and P4Info.
#[test]
fn as_scripts_call_p4c() {
    let dir = Scratch::new("p4c");
    let (text, binary, build) =
        (dir.path("build/main.p4.p4info.txtpb"), dir.path("info/main.bin"), dir.path("build"));
    let main = file(BASIC);
    let files = format!("{text},{binary}");
    let done = run(&[
        "p4",
        "compile",
        "--target",
        "bmv2",
        "--arch",
        "v1model",
        "--p4runtime-files",
        &files,
        "-o",
        &build,
        &main,
    ]);
    assert_eq!((done.code, done.stdout.as_str(), done.stderr.as_str()), (Some(0), "", ""));
    let read = |path: &str| std::fs::read(path).expect("written");
    assert_eq!(String::from_utf8(read(&text)).expect("text"), run(&["p4", "info", &main]).stdout);
    assert!(!read(&binary).is_empty() && read(&binary) != read(&text));
    let json = dir.path("build/main.json");
    let switch = Switch::start(&[&json]);
    let (mut controller, _) = connect(switch.address, 1);
    let config = read(&json);
    let object: serde_json::Value = serde_json::from_slice(&config).expect("as tools that use p4c check");
    let program = object["pointsman_p4"].as_str().expect("the program");
    assert_eq!(controller.device_config().expect("it has a program"), program.as_bytes());
    controller.set_pipeline(&config).expect("the file is a device config");
    assert_eq!(run(&["p4", "info", &json]).stdout, run(&["p4", "info", &main]).stdout);
    let broken = dir.write("broken.json", &config[..config.len() / 2]);
    let refused = run(&["p4", "check", &broken]);
    assert!(refused.code == Some(1) && refused.stderr.contains("broken.json:1:"), "{}", refused.stderr);
}

#[test]
fn other_spellings() {
    let dir = Scratch::new("p4c-other");
    let (main, out) = (file(BASIC), dir.path("out.json"));
    for args in [
        &["-b", "bmv2-v1model", "-o", &out][..],
        &["--p4v", "16", "-o", &out],
        &["--std", "P4-16", "-o", &out],
        &["-DX=1", "-U", "Y", "-I", "/tmp", "-o", &out],
    ] {
        let done = run(&[&["p4", "compile", &main], args].concat());
        assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{args:?}");
        std::fs::remove_file(&out).expect("written");
    }
    let done = run(&[
        "p4",
        "compile",
        "-g",
        "--Wdisable=unused",
        "--Werror",
        "--emit-externs",
        "-T",
        "x:3",
        &main,
        "-o",
        &out,
    ]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    for flag in ["-g", "--Wdisable", "--Werror", "--emit-externs", "-T"] {
        assert!(done.stderr.contains(&format!("warning: {flag} has no effect here")), "{}", done.stderr);
    }
}

/// `--pp` writes a file that compiles to the same program.
#[test]
fn the_program_as_one_text() {
    let dir = Scratch::new("p4c-pp");
    let (main, out, one) = (file("p4/programs/ecmp/main.p4"), dir.path("out.json"), dir.path("pp/one.p4"));
    let done = run(&["p4", "compile", &main, "-o", &out, "--pp", &one]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
    assert_eq!(run(&["p4", "info", &one]).stdout, run(&["p4", "info", &main]).stdout);
    let text = std::fs::read_to_string(&one).expect("written");
    assert!(!text.contains("#include \"") && text.contains("#include <v1model.p4>"), "{text}");
}

#[test]
fn what_is_not_compiled() {
    let dir = Scratch::new("p4c-bad");
    let (main, out) = (file(BASIC), dir.path("out"));
    let check = |args: &[&str], code: i32, want: &[&str]| {
        let done = run(&[&["p4", "compile", "-o", &out], args].concat());
        let all = want.iter().all(|w| done.stderr.contains(w));
        assert!(done.code == Some(code) && all, "{done:?}");
        assert!(!std::path::Path::new(&out).exists(), "nothing is written");
    };
    check(&["--target", "dpdk", &main], 1, &["--target dpdk", "give --target bmv2"]);
    check(&["--arch", "psa", &main], 1, &["psa: only programs for v1model"]);
    check(&["--target", "bmv2-psa", &main], 1, &["only programs for v1model"]);
    check(&["--std", "p4-14", &main], 1, &["--std p4-14 --pp new.p4", "https://github.com/p4lang/p4c"]);
    check(&["-E", &main], 1, &["-E: preprocessed text is not written; --pp FILE writes"]);
    check(&["--toJSON", "z.json", &main], 1, &["--toJSON: ", "remove the flag"]);
    check(
        &["--p4runtime-entries-files", "e.txt", &main],
        1,
        &["--p4runtime-entries-files: ", "remove the flag"],
    );
    check(&["--frobnicate", &main], 2, &["--frobnicate"]);
    check(&[], 2, &["<FILE>"]);
    let old = dir.write("old.p4", "header_type h_t {\n");
    check(&[&old], 1, &["error[P1003]"]);
    check(&["/nonexistent.p4"], 1, &["cannot read /nonexistent.p4"]);
    let done = run(&["p4", "compile", &main, "-o", &out, "--p4runtime-files", &dir.path("a.json")]);
    assert!(
        done.code == Some(1) && done.stderr.contains("not as JSON: give a name that ends in .txtpb"),
        "{done:?}"
    );
}
