//! `pointsman p4 test`: finding, running and reporting tests.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A folder that goes when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("pointsman-p4-test-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, text).expect("a file");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Exit code, standard output and standard error.
fn run(args: &[&str]) -> (i32, String, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_pointsman"))
        .args(["p4", "test"])
        .args(args)
        .output()
        .expect("the binary runs");
    let text = |b: Vec<u8>| String::from_utf8(b).expect("text");
    (out.status.code().unwrap_or(-1), text(out.stdout), text(out.stderr))
}

fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or("")
}

/// Sends every packet back to its port.
const REFLECT: &str = r#"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<16> x; }
struct headers { h_t h; }
struct meta { }
parser P(packet_in b, out headers h, inout meta m, inout standard_metadata_t s) {
    state start { b.extract(h.h); transition accept; }
}
control C(inout headers h, inout meta m) { apply { } }
control I(inout headers h, inout meta m, inout standard_metadata_t s) {
    direct_counter(CounterType.packets) hits;
    action send(bit<9> port) { s.egress_spec = port; }
    action drop() { mark_to_drop(s); }
    action_selector(HashAlgorithm.crc16, 8, 8) spread;
    table t { key = { h.h.x : exact; } actions = { send; drop; } default_action = drop(); counters = hits; }
    table u {
        key = { h.h.x : exact; h.h.x : selector @name("seed"); }
        actions = { send; NoAction; }
        default_action = NoAction();
        implementation = spread;
    }
    apply { t.apply(); u.apply(); }
}
control E(inout headers h, inout meta m, inout standard_metadata_t s) { apply { } }
control D(packet_out b, in headers h) { apply { b.emit(h); } }
V1Switch(P(), C(), I(), E(), C(), D()) main;
"#;

/// The number of packet tests in a folder and those below it.
fn tests_below(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let count = |path: PathBuf| match path.is_dir() {
        true => tests_below(&path),
        false => usize::from(path.extension().is_some_and(|e| e == "stf")),
    };
    entries.map(count).sum()
}

#[test]
fn our_own_programs_pass() {
    let programs = repository().join("p4/programs");
    let last = format!("{} passed, 0 failed, 0 skipped", tests_below(&programs));
    for executor in ["engine", "interp"] {
        let (code, out, err) = run(&[programs.to_str().expect("text"), "--executor", executor]);
        assert_eq!((code, last_line(&out), err.as_str()), (0, last.as_str(), ""), "{out}");
    }
}

#[test]
fn generated_packets() {
    let example = repository().join("examples/heartbeat");
    for executor in ["engine", "interp"] {
        let (code, out, err) = run(&[example.to_str().expect("text"), "--executor", executor]);
        assert_eq!((code, last_line(&out), err.as_str()), (0, "1 passed, 0 failed, 0 skipped", ""), "{out}");
    }
}

#[test]
fn what_cannot_be_compiled_is_interpreted() {
    let dir = Folder::new("interpreted");
    dir.write("array.p4", &REFLECT.replace("{ bit<16> x; }", "{ bit<16> x; bit<8>[2] y; }"));
    let test = dir.write("array.stf", "add t h.x:1 send(port:3)\npacket 0 0001aabb\nexpect 3 0001aabb $\n");
    let test = test.to_str().expect("text");
    let (code, out, err) = run(&[test]);
    assert_eq!((code, last_line(&out)), (0, "1 passed, 0 failed, 0 skipped"), "{out}{err}");
    assert!(err.contains("interpreted") && err.contains("arrays in headers"), "{err}");
    // An explicit choice gives no warning.
    assert_eq!(run(&[test, "--executor", "interp"]).2, "");
}

#[test]
fn results_of_every_kind() {
    let dir = Folder::new("kinds");
    dir.write("a.p4", REFLECT);
    dir.write("a.stf", "add t h.x:0x0102 send(port:3) = A\npacket 0 0102ff\nexpect 3 0102ff $\ncheck_counter hits($A) packets == 1\n");
    let indirect = "member_create spread 4 send(port:6)\ngroup_create spread 1 4\nadd u h.x:5 group(1)\nadd t h.x:5 send(port:1)\n";
    dir.write("sub/b.stf", &format!("{indirect}packet 0 0005\nexpect 6 0005\n"));
    dir.write("sub/main.p4", REFLECT);
    dir.write("wrong.p4", REFLECT);
    dir.write("wrong.stf", "add t h.x:1 send(port:3)\npacket 0 0001aa\nexpect 3 0001bb\n");
    dir.write("odd.p4", REFLECT);
    dir.write("odd.stf", "frobnicate 1\n");
    dir.write("broken.p4", "#include <core.p4>\n#include <v1model.p4>\nheader {");
    dir.write("broken.stf", "packet 0 00\n");
    dir.write("alone/c.stf", "packet 0 00\n");
    dir.write("other.p4", "#include <core.p4>\n#include <psa.p4>\n");
    dir.write("other.stf", "packet 0 00\n");
    dir.write("own.p4", "control C(); package top(C c); control I() { apply { } } top(I()) main;");
    dir.write("own.stf", "packet 0 00\n");
    dir.write("none.stf", "# nothing\n");
    let path = dir.0.to_str().expect("text");
    let (json, junit) = (dir.0.join("out.json"), dir.0.join("out.xml"));
    let text = |p: &Path| p.to_str().expect("text").to_string();
    let (code, out, _) = run(&[path, "--json", &text(&json), "--junit", &text(&junit), "--jobs", "3"]);
    assert_eq!((code, last_line(&out)), (1, "2 passed, 4 failed, 3 skipped"), "{out}");
    for want in [
        "a ... ok (",
        "sub/b ... ok (",
        "wrong.stf:3: expect 3 0001bb\n  port 3: differs at digit 4 (byte 2):\n    want 0001bb\n    got  0001aa\n             ^",
        "odd.stf:1: frobnicate 1\n  unknown command frobnicate",
        "broken ... FAILED",
        "error[P0",
        "alone/c.p4 next to it: give one with --program",
        "other ... skipped: for PSA (psa.p4)",
        "own ... skipped: for a custom architecture (package top)",
        "none ... skipped: it has no statements",
    ] {
        assert!(out.contains(want), "{want}\n{out}");
    }
    let report: Value = serde_json::from_str(&std::fs::read_to_string(json).expect("written")).expect("JSON");
    assert_eq!((&report["format"], &report["failed"]), (&"pointsman-p4-test-1".into(), &4.into()));
    let wrong = report["tests"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|t| t["file"].as_str().is_some_and(|f| f.ends_with("wrong.stf")));
    let wrong = wrong.expect("it is there");
    assert_eq!((&wrong["status"], &wrong["failures"][0]["line"]), (&"failed".into(), &3.into()));
    let xml = std::fs::read_to_string(junit).expect("written");
    assert!(xml.contains("tests=\"9\" failures=\"4\" errors=\"0\" skipped=\"3\""), "{xml}");
    assert!(xml.contains("<failure message=\"port 3: differs at digit 4 (byte 2):\">"), "{xml}");
    assert_eq!(xml.matches("<testcase").count(), 9);

    let (code, out, _) = run(&[path, "--filter", "sub/", "--filter", "/a"]);
    assert_eq!((code, last_line(&out)), (1, "2 passed, 1 failed, 0 skipped"), "{out}");
    let (code, out, _) = run(&[path, "--list"]);
    assert_eq!((code, out.lines().count()), (0, 9));
    let (code, out, _) = run(&[&format!("{path}/alone/c.stf"), "--program", &format!("{path}/a.p4")]);
    assert_eq!((code, last_line(&out)), (0, "1 passed, 0 failed, 0 skipped"), "{out}");
}

#[test]
fn nothing_to_run_is_an_error() {
    let dir = Folder::new("nothing");
    let path = dir.0.to_str().expect("text");
    let check = |args: &[&str], want: &str| {
        let (code, _, err) = run(args);
        assert!(code == 1 && err.contains(want), "{code} {err}");
    };
    check(&[path], "packet tests are files named NAME.stf");
    check(&["/nonexistent"], "cannot read /nonexistent");
    dir.write("a.stf", "packet 0 00");
    check(&[path, "--filter", "zz"], "no test's name contains zz");
}

/// A failed test names the statement that decided, and prints the whole trace on request.
#[test]
fn failures_have_reasons() {
    let dir = Folder::new("reasons");
    let program = dir.write("a.p4", REFLECT);
    dir.write(
        "a.stf",
        "add t h.x:1 send(port:3)\npacket 0 0001aa\npacket 0 0002aa\nexpect 3 0001bb\nexpect 4\n",
    );
    let (path, json) = (dir.0.to_str().expect("text"), dir.0.join("out.json"));
    let (code, out, _) = run(&[path, "--json", json.to_str().expect("text")]);
    assert_eq!(code, 1, "{out}");
    let at = |text: &str| {
        let line = REFLECT.lines().position(|l| l.contains(text)).expect("a line") + 1;
        format!("{}:{line}", program.display())
    };
    let dropped = format!(
        "the packet of line 3: dropped at {} by mark_to_drop in action I.drop of table I.t (miss: h.h.x = 0x0002)",
        at("action drop()")
    );
    for want in [
        "\n  it comes from the packet of line 2\n",
        "  payload byte 0 (byte 2 of the packet) is aa, not bb\n",
        &dropped,
    ] {
        assert!(out.contains(want), "{want}\n{out}");
    }
    assert!(!out.contains("verdict"), "{out}");
    let report: Value = serde_json::from_str(&std::fs::read_to_string(json).expect("written")).expect("JSON");
    let why = &report["tests"][0]["failures"][0]["why"];
    assert_eq!(why[0], "it comes from the packet of line 2", "{report}");
    let (_, out, _) = run(&[path, "--trace"]);
    assert!(out.contains("table I.t: miss") && out.contains("\nverdict\n  #1: port 3: 0001aa\n"), "{out}");
}

/// Coverage of several tests of one program; that of a program that does not compile is left out.
#[test]
fn coverage_of_tests() {
    let dir = Folder::new("coverage");
    dir.write("main.p4", REFLECT);
    dir.write("a.stf", "add t h.x:1 send(port:3)\npacket 0 0001\nexpect 3\n");
    dir.write("b.stf", "packet 0 0001\n");
    dir.write("broken.p4", "header {");
    dir.write("broken.stf", "packet 0 00\n");
    let path = dir.0.to_str().expect("text");
    let (page, info) = (dir.0.join("out.html"), dir.0.join("out.info"));
    let text = |p: &Path| p.to_str().expect("text").to_string();
    let (code, out, _) = run(&[path, "--coverage", "html", "--coverage-out", &text(&page)]);
    assert_eq!((code, last_line(&out)), (1, "2 passed, 1 failed, 0 skipped"), "{out}");
    let words = out.split(' ').filter(|w| !w.is_empty()).collect::<Vec<_>>().join(" ");
    for want in [
        "main.p4 by 2 tests\n",
        " parser states 1/1 (100 %)\n",
        " table hits and misses 3/4 (75 %)\n",
        " tables without a hit: I.u\n",
        &format!("coverage written to {}\n", page.display()),
    ] {
        assert!(words.contains(want), "{want}\n{out}");
    }
    let html = std::fs::read_to_string(&page).expect("written");
    assert!(html.starts_with("<!doctype html>") && html.contains("state start { b.extract(h.h)"), "{html}");
    assert!(!html.contains("<script") && !html.contains("http"), "the page loads nothing");
    let (_, _, err) = run(&[path, "--coverage", "lcov", "--coverage-out", &text(&info)]);
    assert_eq!(err, "");
    let info = std::fs::read_to_string(info).expect("written");
    let main = std::fs::canonicalize(dir.0.join("main.p4")).expect("it exists");
    assert!(
        info.contains(&format!("SF:{}\n", main.display())) && info.contains("FNDA:2,P.start\n"),
        "{info}"
    );
    let (code, _, err) = run(&[path, "--coverage-out", "x"]);
    assert!(code == 2 && err.contains("--coverage <FORMAT>"), "{err}");
}

/// A child that ends with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `--watch` runs the tests again after a change of a program, of an included file, of a test, and for a new test.
#[test]
fn tests_run_again_when_a_file_changes() {
    let dir = Folder::new("watch");
    let port = dir.write("port.p4", "const bit<9> PORT = 3;\n");
    dir.write(
        "main.p4",
        &REFLECT.replace("control C(", "#include \"port.p4\"\ncontrol C(").replace("= port;", "= PORT;"),
    );
    let stf = "add t h.x:1 send(port:0)\npacket 0 0001\nexpect 3\n";
    let test = dir.write("a.stf", stf);
    let command = Command::new(env!("CARGO_BIN_EXE_pointsman"))
        .args(["p4", "test", "--watch", dir.0.to_str().expect("text")])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut child = Running(command);
    let mut lines = BufReader::new(child.0.stdout.take().expect("a pipe")).lines();
    let mut round = || {
        let mut seen = Vec::new();
        for line in lines.by_ref() {
            let line = line.expect("text");
            if line.starts_with("watching") {
                break;
            }
            seen.push(line);
        }
        seen.into_iter().rfind(|l| l.contains(" passed, ")).expect("a result")
    };
    assert_eq!(round(), "1 passed, 0 failed, 0 skipped");
    std::fs::write(&port, "const bit<9> PORT = 300;\n").expect("written");
    assert_eq!(round(), "0 passed, 1 failed, 0 skipped");
    std::fs::write(&test, stf.replace("expect 3", "expect 300")).expect("written");
    assert_eq!(round(), "1 passed, 0 failed, 0 skipped");
    dir.write("b.stf", "packet 0 0002\nno_packet\n");
    assert_eq!(round(), "2 passed, 0 failed, 0 skipped");
    // A program that no longer compiles is watched on.
    std::fs::write(&port, "const bit<9> PORT = \n").expect("written");
    assert_eq!(round(), "0 passed, 2 failed, 0 skipped");
    std::fs::write(&port, "const bit<9> PORT = 300;\n").expect("written");
    assert_eq!(round(), "2 passed, 0 failed, 0 skipped");
}

/// p4c's tests, all of them: at most the listed ones fail, and every test for another architecture is a visible skip.
#[test]
fn the_tests_of_p4c() {
    let Some(p4c) = pointsman_needs::p4c("the_tests_of_p4c") else { return };
    let known = include_str!("../../testkit/tests/data/stf_known_failures.txt");
    let known: Vec<&str> = known
        .lines()
        .filter(|l| !l.starts_with('#'))
        .filter_map(|l| l.split_once(": ").map(|(n, _)| n))
        .collect();
    let samples = p4c.join("testdata/p4_16_samples");
    let (_, out, _) = run(&[samples.to_str().expect("text")]);
    let failed: Vec<&str> = out
        .lines()
        .filter_map(|l| l.strip_prefix("test ")?.split_once(" ... FAILED"))
        .map(|(n, _)| n)
        .collect();
    for name in &failed {
        assert!(known.iter().any(|k| name.ends_with(k)), "{name} fails");
    }
    let numbers: Vec<usize> =
        last_line(&out).split_whitespace().filter_map(|w| w.trim_end_matches(',').parse().ok()).collect();
    let [passed, failed, skipped] = numbers[..] else { panic!("{out}") };
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    assert!(passed * 100 >= 95 * (passed + failed), "{passed} of {}", passed + failed);
    assert!(passed + failed >= 200 && skipped >= 50);
}
