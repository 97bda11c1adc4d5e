//! `pointsman p4 trace`: the example in the documentation, copies, errors.

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Exit code, standard output and standard error, run in the repository.
fn run(args: &[&str]) -> (i32, String, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_pointsman"))
        .args(["p4", "trace"])
        .args(args)
        .current_dir(repository())
        .output()
        .expect("the binary runs");
    let text = |b: Vec<u8>| String::from_utf8(b).expect("text");
    (out.status.code().unwrap_or(-1), text(out.stdout), text(out.stderr))
}

/// A file that goes when the test ends.
struct File(PathBuf);

impl File {
    fn new(name: &str, bytes: &[u8]) -> File {
        let path = std::env::temp_dir().join(format!("pointsman-p4-trace-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).expect("a file");
        File(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("text")
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn json(args: &[&str]) -> Value {
    let (code, out, err) = run(&[args, &["--json"]].concat());
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}"))
}

fn steps(document: &Value) -> &[Value] {
    document["steps"].as_array().map_or(&[], Vec::as_slice)
}

fn documentation() -> String {
    std::fs::read_to_string(repository().join("docs/trace.md")).expect("it is there")
}

/// The block of the documentation that starts with this fence.
fn block<'a>(text: &'a str, fence: &str) -> &'a str {
    let start = text.find(fence).unwrap_or_else(|| panic!("no {fence}")) + fence.len();
    let rest = &text[start..];
    &rest[..rest.find("```").expect("an end")]
}

const FORWARDER: &str = "examples/forwarder/main.p4";
const PACKET: &str = "0200000000020200000000010800beef";
const ENTRIES: &str = "add forward dst:02:00:00:00:00:02 send(port:2)\n";

#[test]
fn the_documentation_shows_what_is_printed() {
    let entries = File::new("entries.stf", ENTRIES.as_bytes());
    let args = [FORWARDER, "--entries", entries.path(), "--port", "1", "--packet", PACKET];
    let (code, out, err) = run(&args);
    assert_eq!((code, err.as_str()), (0, ""));
    let doc = documentation();
    assert!(doc.contains(PACKET));
    assert_eq!(block(&doc, "```text\n"), out);
    let (_, out, _) = run(&[&args[..], &["--json"]].concat());
    let shown = block(&doc, "```json\n");
    assert!(shown.lines().count() > 8 && out.starts_with(shown), "{out}");
}

/// The members and events of every trace here are in the documentation.
fn documented(document: &Value) {
    let doc = documentation();
    for step in steps(document) {
        let event = step["event"].as_str().expect("a name");
        let row = doc.lines().find(|l| l.starts_with(&format!("| `{event}` |")));
        let row = row.unwrap_or_else(|| panic!("{event} is not documented"));
        for name in step.as_object().expect("an object").keys() {
            let common = ["thread", "time_us", "event", "source"].contains(&name.as_str());
            assert!(common || row.contains(&format!("`{name}`")), "{name} of {event} is not documented");
        }
    }
}

#[test]
fn copies_are_followed() {
    let entries = File::new(
        "groups.stf",
        b"mc_mgrp_create 1\nmc_node_create 7 1 2\nmc_node_associate 1 0\npacket 1 0200000000020200000000010800\nexpect 9 00\n",
    );
    let trace = json(&[FORWARDER, "--entries", entries.path()]);
    documented(&trace);
    let copied = steps(&trace).iter().find(|s| s["event"] == "copied").expect("a copy");
    assert_eq!(
        (&copied["parent"], &copied["origin"], &copied["thread"]),
        (&1.into(), &"replica".into(), &2.into())
    );
    let results = trace["results"].as_array().expect("a list");
    // The copy to port 1 is pruned, since the frame came from there.
    let dropped = results.iter().find(|r| r["thread"] == 2).expect("its fate");
    assert_eq!((&dropped["dropped"], &dropped["packet"]), (&"egress".into(), &1.into()));
    let sent = results.iter().find(|r| r["thread"] == 1).expect("its fate");
    assert_eq!(sent["sent"]["port"], 2);
    let (_, text, _) = run(&[FORWARDER, "--entries", entries.path()]);
    assert!(
        text.contains("multicast to group 1: 2 copies") && text.contains("#2 (from #1): dropped: egress"),
        "{text}"
    );
}

#[test]
fn parser_errors() {
    let trace = json(&[FORWARDER, "--packet", "0102"]);
    documented(&trace);
    let of = |event: &str| {
        steps(&trace).iter().find(|s| s["event"] == event).unwrap_or_else(|| panic!("no {event}"))
    };
    assert_eq!(
        (&of("parser_error")["error"], &of("parser_error")["source"]["line"]),
        (&"PacketTooShort".into(), &21.into())
    );
    assert_eq!(of("parsed")["accepted"], false);
}

/// A program with a bit of everything: the packets of tests like the balancer's `registers.stf` touch most events.
#[test]
fn whole_tests_are_followed() {
    let mut events = BTreeSet::new();
    for name in ["translation", "round_robin", "drops", "availability", "answers"] {
        let stf = format!("p4/programs/balancer/tests/{name}.stf");
        let trace = json(&["p4/programs/balancer/main.p4", "--entries", &stf]);
        documented(&trace);
        assert!(steps(&trace).len() > 500);
        events.extend(steps(&trace).iter().filter_map(|s| s["event"].as_str()).map(String::from));
        // Every step of the source has its location.
        for step in steps(&trace) {
            let inside = ["change", "lookup", "extern", "condition", "extract", "state", "emit"];
            let event = step["event"].as_str().unwrap_or("");
            assert!(!inside.contains(&event) || step["source"]["line"].is_u64(), "{step}");
        }
    }
    for event in [
        "enter",
        "leave",
        "lookup",
        "entry",
        "change",
        "extern",
        "condition",
        "emit",
        "transition",
        "dropped",
    ] {
        assert!(events.contains(event), "{event} never happened");
    }
}

/// Bytes of a capture with one packet.
fn capture(packet: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for n in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65535, 1, 0, 0, packet.len() as u32, packet.len() as u32] {
        out.extend_from_slice(&n.to_le_bytes());
    }
    out.extend_from_slice(packet);
    out
}

#[test]
fn packets_from_captures() {
    let pcap = File::new("one.pcap", &capture(&[0xff; 14]));
    let trace = json(&[FORWARDER, "--pcap", pcap.path(), "--port", "3"]);
    assert_eq!((&steps(&trace)[0]["bytes"], &steps(&trace)[0]["port"]), (&"ff".repeat(14).into(), &3.into()));
}

#[test]
fn what_cannot_be_done() {
    let check = |args: &[&str], want: &str| {
        let (code, _, err) = run(args);
        assert!(code == 1 && err.contains(want), "{code} {err}");
    };
    let odd = File::new("odd.stf", b"add nowhere x:1 go()\n");
    check(&[FORWARDER], "no packet to trace: give one with --packet");
    check(&[FORWARDER, "--packet", "0g"], "--packet 0g: write an even number of hexadecimal digits");
    check(&[FORWARDER, "--packet", "00", "--entries", odd.path()], "line 1: no table nowhere");
    check(&["/nonexistent.p4", "--packet", "00"], "cannot read /nonexistent.p4");
    check(&[FORWARDER, "--pcap", "/nonexistent.pcap"], "cannot read /nonexistent.pcap");
}

/// With p4c's programs: whatever its tests send can be followed, and following changes no output.
#[test]
fn p4c_programs() {
    let Some(p4c) = pointsman_needs::p4c("p4c_programs") else { return };
    let samples = p4c.join("testdata/p4_16_samples");
    let mut followed = 0;
    let mut events = BTreeSet::new();
    for entry in std::fs::read_dir(&samples).expect("a folder").filter_map(|e| e.ok()) {
        let stf = entry.path();
        let program = stf.with_extension("p4");
        let is_ours =
            || std::fs::read(&program).is_ok_and(|t| String::from_utf8_lossy(&t).contains("v1model.p4"));
        if stf.extension().is_none_or(|e| e != "stf") || !is_ours() {
            continue;
        }
        let text = |p: &Path| p.to_str().expect("text").to_string();
        let (code, out, err) = run(&[&text(&program), "--entries", &text(&stf), "--json"]);
        if code != 0 {
            assert!(code == 1 && !err.contains("panicked"), "{}: {err}", stf.display());
            continue;
        }
        let trace: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{}: {e}", stf.display()));
        documented(&trace);
        events.extend(steps(&trace).iter().filter_map(|s| s["event"].as_str()).map(String::from));
        followed += 1;
    }
    println!("{followed} programs, events: {events:?}");
    assert!(followed > 180, "{followed}");
    for event in ["switch", "advance", "lookahead", "not_cloned", "again", "copied", "exit", "lost"] {
        if !events.contains(event) {
            println!("never seen: {event}");
        }
    }
}
