//! Members from a file and by API: a real switch (without interfaces), a real controller.

use crate::policy_api::{Bench, OPS};
use crate::support::PATIENCE;
use serde_json::Value;
use std::time::{Duration, Instant};

pub const SOURCES: &str = "\n[[members]]\nname = \"pool\"\napi = true\nnetworks = [\"10.0.2.0/24\", \"fd00:0:0:2::/64\"]\nports = [6]\n\
                       [[members]]\nname = \"batch\"\nfile = \"members.json\"\nnetworks = [\"10.0.3.0/24\", \"fd00:0:0:3::/64\"]\nports = [7]\n";

pub const LIST: &str = r#"[
  {"name": "b1/cpu", "kind": "cpu", "address": "10.0.3.1", "address6": "fd00:0:0:3::1"},
  {"name": "b2/cpu", "kind": "cpu", "address": "10.0.3.2", "address6": "fd00:0:0:3::2", "weight": 3}
]
"#;

fn members(b: &Bench) -> Value {
    let (status, body) = b.ask("GET", "/v1/members", Some(OPS), None);
    assert_eq!(status, 200);
    serde_json::from_slice(&body).expect("JSON")
}

fn wait_for(b: &Bench, what: &str, found: impl Fn(&Value) -> bool) {
    let start = Instant::now();
    while !found(&members(b)) {
        assert!(start.elapsed() < PATIENCE, "{what}: {}", members(b));
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn count(m: &Value, state: &str) -> usize {
    m["members"].as_array().expect("a list").iter().filter(|m| m["state"] == state).count()
}

#[test]
fn members_of_a_file_and_by_request() {
    let mut b = Bench::with("members", SOURCES);
    b.controller.wait_for("members of `batch`: cannot read");
    b.write("members.json", LIST);
    wait_for(&b, "both are there", |m| count(m, "present") == 2);
    // Half of the file.
    b.write("members.json", &LIST[..100]);
    let line = b.controller.wait_for("members of `batch`: not a list of members");
    assert!(line.contains("at line 3 column") && line.contains("those that it had stay"), "{line}");
    assert_eq!(count(&members(&b), "present"), 2);
    let body = r#"{"member": {"kind": "cpu", "address": "10.0.2.1", "address6": "fd00:0:0:2::1"}}"#;
    let (status, said) = b.ask("PUT", "/v1/members/m1%2Fcpu", Some(OPS), Some(body.to_string()));
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&said));
    wait_for(&b, "a third one", |m| count(m, "present") == 3);
    let (code, out, err) = b.command("status", &[]);
    assert_eq!(code, Some(0), "{out}{err}");
    let line = out.lines().find(|l| l.starts_with("m1/cpu")).expect("a line for the member").to_string();
    assert!(line.contains("  pool  ") && out.contains("SOURCE  TO LIVE"), "{line}");
    // A restart: all of them at once, with the same numbers; the file is still refused.
    let number = |m: &Value| {
        m["members"].as_array().expect("a list").iter().map(|m| m["number"].clone()).collect::<Vec<_>>()
    };
    let before = number(&members(&b));
    b.restart();
    assert_eq!(number(&members(&b)), before);
    b.write("members.json", "[]\n");
    wait_for(&b, "those of the file left", |m| count(m, "present") == 1);
}
