//! Commands fail with messages on invalid files.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory for the files of one test.
fn scratch(test: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("rack-{test}-{}", std::process::id()));
    std::fs::create_dir_all(&path).expect("a directory for files");
    path
}

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/rack.toml")
}

/// Runs the program, which must exit with `status` and say all of `parts` on stderr.
fn check(arguments: &[&str], status: i32, parts: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_pointsman")).args(arguments).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
    for part in parts {
        assert!(said.contains(part), "{arguments:?}: {part:?} is not in {said:?}");
    }
    assert!(!said.contains("panicked"), "{said}");
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

#[test]
fn the_example_is_right() {
    let directory = scratch("right");
    let file = directory.join("rack.toml");
    std::fs::copy(example(), &file).expect("a file");
    // Its referenced files do not exist yet.
    check(&["controller", "--check", text(&file)], 1, &["report-keys.txt", "pointsman keys"]);
    check(&["keys", text(&file)], 0, &["tokens.txt: a token for `operator`", "report-keys.txt: 4 new keys"]);
    let hint = "hint: answers to 10.0.0.0/24 must pass through the switch";
    check(&["controller", "--check", text(&file)], 0, &[hint, "ip route replace 10.0.0.0/24 via 10.0.1.1"]);
    let tokens = directory.join("tokens.txt");
    let mode = |path: &Path| {
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(path).expect("a file").permissions())
    };
    assert_eq!(mode(&tokens) & 0o777, 0o600);
    let before = std::fs::read_to_string(&tokens).expect("a token");
    check(&["keys", text(&file)], 0, &["report-keys.txt: 0 new keys"]);
    assert_eq!(std::fs::read_to_string(&tokens).expect("a token"), before, "a second run leaves it");
    std::fs::remove_file(&tokens).expect("removed");
    check(&["controller", "--check", text(&file)], 1, &["tokens.txt", "api.tokens", "pointsman keys"]);
    let _ = std::fs::remove_dir_all(directory);
}

/// Obstacles to a later start of the controller: missing or invalid files, and likely mistakes.
#[test]
fn check_looks_at_what_the_description_names() {
    let directory = scratch("check");
    let file = directory.join("rack.toml");
    let good = std::fs::read_to_string(example()).expect("the example");
    let write = |from: &str, to: &str| {
        assert!(good.contains(from), "the example has no {from:?}");
        std::fs::write(&file, good.replacen(from, to, 1)).expect("a file");
    };
    std::fs::write(&file, &good).expect("a file");
    check(&["keys", text(&file)], 0, &[]);
    let authority = crate::support::certificates::authority("old");
    let (certificate, key) = crate::support::certificates::issue(&authority, |parameters| {
        parameters.not_before = rcgen::date_time_ymd(2020, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(2021, 1, 1);
    });
    std::fs::write(directory.join("c.pem"), certificate).expect("a file");
    std::fs::write(directory.join("c.key"), key).expect("a file");
    let tls = "tls_cert = \"c.pem\"\ntls_key = \"c.key\"\ntokens = ";
    write("tokens = ", tls);
    check(&["controller", "--check", text(&file)], 1, &["c.pem", "expired"]);
    write("\n[api]", "\n[api]\nstate = \"kept\"");
    std::fs::write(directory.join("kept"), "{").expect("a file");
    check(&["controller", "--check", text(&file)], 1, &["kept: ", "move the file away"]);
    write("[\"10.0.0.1\", \"10.0.1.1\", \"fd00:0:0:1::1\"]", "[]");
    check(&["controller", "--check", text(&file)], 0, &["hint: switch.gateways is empty"]);
    write("[\"10.0.0.1\", ", "[\"10.0.0.100\", ");
    check(&["controller", "--check", text(&file)], 1, &["service.vip", "10.0.0.100", "switch.gateways"]);
    let _ = std::fs::remove_dir_all(directory);
}

/// One line of the example replaced by a wrong one: place and remedy are named.
#[test]
fn wrong_lines_are_named() {
    let good = std::fs::read_to_string(example()).expect("the example");
    let directory = scratch("wrong");
    let cases: &[(&str, &str, &[&str])] = &[
        ("policy = \"p4mite\"", "policy = \"p4might\"", &["p4might", "p4mite"]),
        ("weight = 5 ", "wieght = 5 ", &["wieght", "weight"]),
        ("address = \"10.0.1.11\"", "address = \"10.0.1.311\"", &["10.0.1.311"]),
        ("address = \"10.0.1.12\"", "address = \"10.0.1.11\"", &["10.0.1.11"]),
        ("mac = \"02:50:4d:00:00:01\"", "mac = \"02:50:4d:00:00\"", &["02:50:4d:00:00"]),
        ("port = 8000", "port = 80000", &["80000"]),
        ("protocol = [\"tcp\", \"udp\"]", "protocol = [\"tcp\", \"sctp\"]", &["sctp", "udp"]),
        ("[switch]", "[switch", &[]),
    ];
    for (number, (from, to, parts)) in cases.iter().enumerate() {
        assert!(good.contains(from), "the example has no {from:?}");
        let file = directory.join(format!("case{number}.toml"));
        let bad = good.replacen(from, to, 1);
        // The last, since two devices with one address are reported at the second.
        let wrong = bad.lines().enumerate().filter(|(_, l)| l.contains(to)).last();
        let line = 1 + wrong.expect("the wrong line").0;
        std::fs::write(&file, bad).expect("a file");
        let place = format!("{}:{line}:", text(&file));
        let mut parts = parts.to_vec();
        parts.push(&place);
        check(&["controller", "--check", text(&file)], 1, &parts);
        // A column follows the line.
        let output = Command::new(env!("CARGO_BIN_EXE_pointsman"))
            .args(["controller", "--check", text(&file)])
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let after = said.split(&place).nth(1).expect("the place");
        assert!(after.starts_with(|c: char| c.is_ascii_digit()), "no column: {said:?}");
    }
    let _ = std::fs::remove_dir_all(directory);
}

#[test]
fn missing_files_are_named() {
    for command in [
        vec!["controller", "--check", "/nowhere/rack.toml"],
        vec!["agent", "/nowhere/rack.toml", "s1", "cpu"],
    ] {
        check(&command, 1, &["/nowhere/rack.toml", "No such file"]);
    }
    let directory = scratch("program");
    let file = directory.join("rack.toml");
    let good = std::fs::read_to_string(example()).expect("the example");
    let other = good.replacen("[switch]", "[switch]\nprogram = \"/nowhere/other.p4\"", 1);
    std::fs::write(&file, other).expect("a file");
    check(&["keys", text(&file)], 0, &["report-keys.txt", "tokens.txt"]);
    check(&["controller", "--check", text(&file)], 1, &["switch.program", "/nowhere/other.p4"]);
    let _ = std::fs::remove_dir_all(directory);
}

#[test]
fn unknown_devices_are_named_with_the_known_ones() {
    let directory = scratch("devices");
    let example = directory.join("rack.toml");
    std::fs::copy(self::example(), &example).expect("a file");
    // Without keys no reports are sent.
    for command in [&["agent", text(&example), "s1", "cpu"][..], &["controller", text(&example)]] {
        check(command, 1, &["report-keys.txt", "pointsman keys"]);
    }
    check(&["keys", text(&example)], 0, &["report-keys.txt: 4 new keys"]);
    check(&["keys", text(&example)], 0, &["report-keys.txt: 0 new keys"]);
    check(&["keys", text(&example), "--renew"], 0, &["report-keys.txt: 4 new keys"]);
    let keys = directory.join("report-keys.txt");
    let lines = std::fs::read_to_string(&keys).expect("keys");
    assert_eq!(lines.lines().filter(|l| l.starts_with("s2/nic ")).count(), 2, "{lines}");
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&keys).expect("keys").permissions());
    assert_eq!(mode & 0o777, 0o600);
    check(&["agent", text(&example), "s1", "gpu"], 1, &["gpu", "cpu", "nic"]);
    check(&["agent", text(&example), "s9", "cpu"], 1, &["s9", "s1", "s2"]);
    // A device that is not here.
    check(&["agent", text(&example), "s1", "cpu"], 1, &["10.0.1.11", "--interface"]);
    check(&["agent", text(&example), "s1", "cpu", "-i", "nowhere0"], 1, &["nowhere0"]);
    // An agent's own lines are all it needs; the controller needs all.
    let own: String = lines.lines().filter(|l| l.starts_with("s1/cpu")).map(|l| format!("{l}\n")).collect();
    std::fs::write(&keys, own).expect("a file");
    check(&["agent", text(&example), "s1", "cpu"], 1, &["10.0.1.11", "--interface"]);
    check(&["agent", text(&example), "s1", "nic"], 1, &["no key for `s1/nic`"]);
    check(&["controller", text(&example)], 1, &["s1/nic, s2/cpu, s2/nic have no key"]);
    std::fs::write(&keys, "s1/cpu 1 secret").expect("a file");
    check(&["controller", text(&example)], 1, &["report-keys.txt:1: ", "16 hexadecimal digits"]);
    let _ = std::fs::remove_dir_all(directory);
}

/// Before the run, not after it.
#[test]
fn the_demo_says_at_once_that_a_file_cannot_be_written() {
    let directory = scratch("demo");
    let page = directory.join("page.html");
    for option in ["--json", "--html"] {
        let start = std::time::Instant::now();
        let mut arguments = vec!["demo", "--quick", option, "/nowhere/file"];
        if option == "--json" {
            arguments.extend(["--html", text(&page)]);
        }
        check(&arguments, 1, &["/nowhere/file", "No such file"]);
        assert!(start.elapsed() < std::time::Duration::from_secs(5), "{option}: {:?}", start.elapsed());
    }
    assert!(!page.exists(), "a page without a run");
    let _ = std::fs::remove_dir_all(directory);
}

/// `doctor` says what is missing, with remedies and an exit code.
#[test]
fn doctor() {
    let directory = scratch("doctor");
    let file = directory.join("rack.toml");
    let rack = std::fs::read_to_string(example()).expect("the example");
    // Port 1 of this machine, where nothing listens.
    std::fs::write(&file, rack.replace("127.0.0.1:9559", "127.0.0.1:1")).expect("a file");
    let doctor = |arguments: &[&str]| {
        let all = [&["doctor", text(&file), "--json"], arguments].concat();
        let output = Command::new(env!("CARGO_BIN_EXE_pointsman")).args(&all).output().expect("it runs");
        let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (output.status.code(), found)
    };
    let (code, found) = doctor(&["-i", "lo", "-i", "none-of-that-name"]);
    assert_eq!((code, &found["level"]), (Some(2), &"fail".into()), "{found}");
    let of = |check: &str, part: &str| {
        let all = found["findings"].as_array().expect("findings");
        let one =
            all.iter().find(|f| f["check"] == check && f["text"].as_str().is_some_and(|t| t.contains(part)));
        one.unwrap_or_else(|| panic!("{check}: {part}: {found}")).clone()
    };
    assert_eq!(of("files", "report-keys.txt")["remedy"], format!("pointsman keys {}", text(&file)));
    assert_eq!(
        (of("interface", "lo")["level"].as_str(), of("interface", "none-of")["level"].as_str()),
        (Some("ok"), Some("fail"))
    );
    assert_eq!(of("switch", "127.0.0.1:1")["level"], "fail");
    // An API at every address of its machine, which is not this one; and nodes of etcd, and another controller, that do not answer.
    let anywhere = rack.replace("127.0.0.1:9559", "127.0.0.1:1").replacen(
        "# listen = \"127.0.0.1:9560\"",
        "listen = \"0.0.0.0:1\"\ntls_cert = \"a.pem\"\ntls_key = \"a.key\"",
        1,
    );
    std::fs::write(&file, anywhere).expect("a file");
    let all = |found: &serde_json::Value, check: &str| -> Vec<(String, String)> {
        let of = |f: &serde_json::Value, field: &str| f[field].as_str().expect("text").to_string();
        let findings = found["findings"].as_array().expect("findings").iter().filter(|f| f["check"] == check);
        findings.map(|f| (of(f, "level"), of(f, "text"))).collect()
    };
    let found = doctor(&[]).1;
    assert!(
        matches!(&all(&found, "api")[..], [(level, text)] if level == "note" && text.contains("--api")),
        "{found}"
    );
    let found = doctor(&["--api", "http://127.0.0.1:1,http://127.0.0.1:2", "--etcd", "http://127.0.0.1:3"]).1;
    let warns = |text: &str| ("warn".to_string(), text.to_string());
    assert_eq!(all(&found, "api"), [1, 2].map(|n| warns(&format!("nothing listens at 127.0.0.1:{n}"))));
    assert!(
        matches!(&all(&found, "etcd")[..], [(level, text)] if level == "warn" && text.contains("127.0.0.1:3")),
        "{found}"
    );
    std::fs::write(&file, "[switch]\n").expect("a file");
    let (code, found) = doctor(&[]);
    assert!(code == Some(2) && found["findings"][0]["check"] == "rack", "{found}");
}
