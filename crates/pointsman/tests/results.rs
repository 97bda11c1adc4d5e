//! `-` as a file of results: standard output, which then has nothing else.

use crate::support::{Finished, Scratch, run};
use serde_json::{Value, json};
use std::path::Path;

const ECMP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4/programs/ecmp/main.p4");
const PACKETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4/programs/ecmp/tests");

/// Runs a command with more arguments, which makes no file `-`.
fn done(command: &[&str], more: &[&str]) -> Finished {
    let done = run(&[command, more].concat());
    assert!(!Path::new("-").exists(), "{command:?} {more:?}: standard output is not a file");
    done
}

#[test]
fn json_on_standard_output() {
    let dir = Scratch::new("results-json");
    let history = dir.write("one.jsonl", one_packet());
    for (command, field) in [
        (&["p4", "resources", ECMP, "--target", "tofino"][..], "per_stage"),
        (&["p4", "test", PACKETS], "tests"),
        (&["model", "redplane", "--scope", "restarts"], "states"),
        (&["history", "check", &history], "linearizable"),
    ] {
        let found = done(command, &["--json", "-"]);
        assert_eq!(found.code, Some(0), "{found:?}");
        let result: Value = serde_json::from_str(&found.stdout).unwrap_or_else(|e| panic!("{e}: {found:?}"));
        assert!(result.get(field).is_some(), "{command:?}: {result}");
    }
}

/// The history of a packet through a program that drops everything.
fn one_packet() -> String {
    let program = "#include <core.p4>\n#include <v1model.p4>\nstruct none { }\n\
         parser P(packet_in b, out none h, inout none m, inout standard_metadata_t s) { state start { transition accept; } }\n\
         control C(inout none h, inout none m) { apply { } }\n\
         control I(inout none h, inout none m, inout standard_metadata_t s) { apply { mark_to_drop(s); } }\n\
         control D(packet_out b, in none h) { apply { } }\n\
         V1Switch(P(), C(), I(), I(), C(), D()) main;\n";
    let header = json!({ "schema": 1, "program": program, "entries": "" });
    let packet = json!({ "key": "a", "call": 5, "in": { "port": 1, "frame": "00" } });
    format!("{header}\n{packet}\n")
}

#[test]
fn pages_and_other_forms() {
    let page = done(&["p4", "resources", ECMP, "--target", "tofino"], &["--html", "-"]);
    assert!(page.code == Some(0) && page.stdout.starts_with("<!doctype html>"), "{page:?}");
    assert!(page.stdout.trim_end().ends_with("</html>"), "{page:?}");
    let junit = done(&["p4", "test", PACKETS], &["--junit", "-"]);
    assert!(junit.code == Some(0) && junit.stdout.starts_with("<?xml"), "{junit:?}");
    assert!(!junit.stdout.contains("passed,"), "{junit:?}");
    let bundle = done(&["p4", "bundle", ECMP], &["-o", "-"]);
    assert!(bundle.code == Some(0) && bundle.stdout.contains("V1Switch("), "{bundle:?}");
}

#[test]
fn one_result_only() {
    let both = done(&["p4", "resources", ECMP, "--target", "tofino"], &["--json", "-", "--html", "-"]);
    assert!(both.code == Some(2) && both.stdout.is_empty(), "{both:?}");
    assert!(
        both.stderr.contains("another result is written there; choose another file with --html"),
        "{both:?}"
    );
}
