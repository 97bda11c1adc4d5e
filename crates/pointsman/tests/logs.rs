//! `--log-format json`: every line of the programs that serve others is an object with time, level, component and message.

use crate::support::{Finished, Running, Scratch, file, finish, pointsman};
use nix::sys::signal::Signal;
use serde_json::Value;

const JSON: [&str; 2] = ["--log-format", "json"];

/// The lines of a program that has ended.
#[track_caller]
fn lines(done: &Finished, component: &str) -> Vec<Value> {
    let all: Vec<Value> = done
        .stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect();
    for line in &all {
        let text = |field: &str| line[field].as_str().unwrap_or_else(|| panic!("no `{field}`: {line}"));
        let time = text("time").as_bytes();
        let form: Vec<u8> = time.iter().map(|b| if b.is_ascii_digit() { b'0' } else { *b }).collect();
        assert_eq!(form, b"0000-00-00T00:00:00.000Z", "{line}");
        assert!(["debug", "info", "warn", "error"].contains(&text("level")), "{line}");
        assert_eq!(text("component"), component, "{line}");
        assert!(!text("message").is_empty(), "{line}");
    }
    all
}

/// The line with this text.
#[track_caller]
fn with<'a>(lines: &'a [Value], text: &str) -> &'a Value {
    let found = lines.iter().find(|l| l["message"].as_str().is_some_and(|m| m.contains(text)));
    found.unwrap_or_else(|| panic!("no line with `{text}`: {lines:#?}"))
}

/// The rest of the line with this text behind it.
fn behind(running: &Running, text: &str) -> String {
    let line: Value = serde_json::from_str(&running.wait_for(text)).expect("an object");
    line["message"].as_str().and_then(|m| m.split(text).nth(1)).expect("a message").to_string()
}

#[test]
fn switch_and_controller() {
    let dir = Scratch::new("logs");
    let switch =
        Running::of(pointsman(&[&["switch", "--p4runtime", "127.0.0.1:0", "balancer"][..], &JSON].concat()));
    let rest = behind(&switch, "P4Runtime on ");
    let address = rest.split(',').next().expect("an address");
    let example = std::fs::read_to_string(file("examples/rack.toml")).expect("the example");
    let text = example
        .replacen("report_keys = \"report-keys.txt\"", "reports = \"unauthenticated\"", 1)
        .replacen("127.0.0.1:9559", address, 1)
        .replacen("# listen = \"127.0.0.1:9560\"", "listen = \"127.0.0.1:0\"", 1);
    dir.write("tokens.txt", "ops 0123456789abcdef0123\n");
    let rack = dir.write("rack.toml", &text);
    let controller = Running::of(pointsman(&[&["controller", &rack][..], &JSON].concat()));
    controller.wait_for("the switch is up to date");
    controller.wait_for("device s1/cpu is silent");
    // Without its services it may be half-written.
    dir.write("rack.toml", &text[..text.find("[[service]]").expect("services")]);
    controller.wait_for("keeping the previous configuration");
    let said = lines(&controller.end(Signal::SIGTERM), "controller");
    let silent = with(&said, "device s1/cpu is silent");
    for (field, value) in
        [("level", "warn"), ("event", "silent"), ("server", "s1"), ("device", "s1/cpu"), ("switch", address)]
    {
        assert_eq!(silent[field], value, "{silent}");
    }
    let synced = with(&said, "the switch is up to date");
    assert_eq!((&synced["level"], &synced["event"]), (&"info".into(), &"in_sync".into()));
    assert_eq!(with(&said, "possibly half-written")["level"], "warn");
    let said = lines(&switch.end(Signal::SIGTERM), "switch");
    assert_eq!(with(&said, "P4Runtime on ")["level"], "info");
}

#[test]
fn errors_that_end_a_program() {
    let dir = Scratch::new("logs-errors");
    let example = std::fs::read_to_string(file("examples/rack.toml")).expect("the example");
    let text = example.replacen("report_keys = \"report-keys.txt\"", "reports = \"unauthenticated\"", 1);
    let rack = dir.write("rack.toml", text);
    let wrong = dir.write("wrong.toml", "[switch]\n");
    let p4 = dir.write("wrong.p4", "parser\n");
    let cases: [(&str, &[&str], &str); 5] = [
        ("agent", &["agent", &rack, "s1", "cpu", "-i", "nowhere0"], "nowhere0"),
        ("controller", &["controller", &wrong], "wrong.toml"),
        ("switch", &["switch", "--p4runtime", "127.0.0.1:0", &p4], "wrong.p4"),
        ("store", &["store", "--listen", "127.0.0.1:0", "--data", &rack], "rack.toml"),
        ("memory", &["memory", "--listen", "127.0.0.1:0", "-i", "1@nowhere0", "--size", "4096"], "nowhere0"),
    ];
    for (component, command, text) in cases {
        let done = finish(pointsman(&[command, &JSON].concat()));
        assert_eq!(done.code, Some(1), "{component}: {}", done.stderr);
        let said = lines(&done, component);
        let last = said.last().expect("a line");
        assert!(last["message"].as_str().is_some_and(|m| m.contains(text)), "{last}");
        assert_eq!(last["level"], "error", "{last}");
        if component == "agent" {
            assert_eq!((&last["server"], &last["device"]), (&"s1".into(), &"s1/cpu".into()));
        }
        let full = finish(pointsman(&[command, &["--log-format", "full"]].concat()));
        let mut all = full.stderr.lines().filter(|l| l.contains("[error]"));
        let last = all.find(|l| l.contains(text)).unwrap_or_else(|| panic!("{}", full.stderr));
        let form: String = last.chars().take(32).map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(form, "0000-00-00T00:00:00.000Z [error]", "{}", full.stderr);
        // People read what they always did.
        let plain = finish(pointsman(command));
        assert!(
            plain.stderr.lines().any(|l| l.starts_with("pointsman: ") || l.contains("wrong.p4")),
            "{}",
            plain.stderr
        );
    }
}
