//! `pointsman p4 resources`, as specified in docs/resources.md.

use crate::support::{Scratch, run};
use serde_json::Value;

const ECMP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4/programs/ecmp/main.p4");
const ACL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4/programs/acl/main.p4");

#[test]
fn the_report_as_text_json_and_page() {
    let dir = Scratch::new("resources");
    let (json, html) = (dir.write("r.json", ""), dir.write("r.html", ""));
    let done = run(&["p4", "resources", ECMP, "--target", "tofino", "--json", &json, "--html", &html]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stdout.contains(" on tofino: fits\n"), "{done:?}");
    let text = std::fs::read_to_string(&json).expect("written");
    let report: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    let keys = |v: &Value| v.as_object().map(|o| o.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
    assert_eq!(
        keys(&report),
        ["fits", "per_stage", "phv", "program", "resources", "stages", "target", "violations"]
    );
    assert_eq!(report["program"], ECMP);
    assert_eq!((&report["target"], &report["fits"]), (&Value::from("tofino"), &Value::from(true)));
    assert_eq!(keys(&report["stages"]), ["available", "critical_path", "lower_bound", "used"]);
    assert_eq!(report["stages"]["available"], 12);
    assert_eq!(keys(&report["phv"]["words"]), ["16", "32", "8"]);
    assert!(report["phv"]["percent"].as_f64().is_some_and(|p| p > 0.0 && p < 100.0));
    assert_eq!(keys(&report["resources"]["sram"]), ["available", "percent", "used"]);
    assert_eq!(report["resources"]["sram"]["available"], 960);
    let used = report["stages"]["used"].as_u64().expect("a number") as usize;
    assert_eq!(report["per_stage"].as_array().map(Vec::len), Some(used));
    assert_eq!(report["violations"], Value::Array(vec![]));
    let page = std::fs::read_to_string(&html).expect("written");
    assert!(page.starts_with("<!doctype html>") && page.contains("It fits."), "{page}");
    assert!(page.contains("EcmpIngress.routes_v4") && !page.contains("<script"), "{page}");
}

#[test]
fn exit_status_says_whether_it_fits() {
    let dir = Scratch::new("resources-fit");
    let json = dir.write("r.json", "");
    let done = run(&["p4", "resources", ACL, "--target", "tofino", "--json", &json]);
    assert_eq!(done.code, Some(1), "{done:?}");
    let report: Value =
        serde_json::from_str(&std::fs::read_to_string(&json).expect("written")).expect("JSON");
    assert_eq!(report["fits"], false);
    let why = report["violations"][0]["why"].as_str().expect("a reason");
    assert!(why.contains("stages, and tofino has 12"), "{why}");
    assert_eq!(run(&["p4", "resources", ACL, "--target", "tofino2"]).code, Some(0));
}

/// Libraries are named `<folder/file.p4>`.
#[test]
fn places_in_libraries() {
    let hula = concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4/programs/hula/main.p4");
    let done = run(&["p4", "resources", hula, "--target", "tofino"]);
    let line = done.stdout.lines().find(|l| l.contains("HulaIngress.flowlets: what is written in"));
    assert!(line.is_some_and(|l| l.contains(" in flowlets.p4:") && !l.contains('>')), "{done:?}");
}

#[test]
fn table_graphs() {
    let dir = Scratch::new("resources-graph");
    let graph = dir.write(
        "g.toml",
        "name = \"g\"\n[[table]]\nname = \"a\"\nmatch = \"exact\"\nkey_bits = 32\nentries = 1000\n[[table]]\nname = \"b\"\n\
         match = \"lpm\"\nkey_bits = 32\nentries = 1000\nmatch_after = [\"a\"]\n",
    );
    let done = run(&["p4", "resources", &graph, "--target", "rmt"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stdout.contains("stages: 2 of 32") && done.stdout.contains("stage 1: b"), "{done:?}");
    let wide = dir.write(
        "w.toml",
        "name = \"w\"\n[[table]]\nname = \"a\"\nmatch = \"exact\"\nkey_bits = 640\nentries = 1000\n",
    );
    let done = run(&["p4", "resources", &wide, "--target", "rmt"]);
    let why = "  a: an entry takes 8 blocks of sram side by side, and rmt has words of at most 4\n";
    assert!(done.code == Some(1) && done.stdout.contains(why), "{done:?}");
}

#[test]
fn entries_of_tables() {
    let blocks = |more: &[&str]| {
        let done = run(&[&["p4", "resources", ECMP, "--target", "tofino"], more].concat());
        let line = done.stdout.lines().find(|l| l.starts_with("tcam")).expect("a line").to_string();
        line.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok()).expect("a number")
    };
    let few = ["--entries", "routes_v4=512", "--entries", "EcmpIngress.routes_v6=512"];
    assert!(blocks(&few) < blocks(&[]) / 4);
    for (entries, message) in [
        ("routes=5", "no table has this name"),
        ("routes_v4=0", "a number"),
        ("routes_v4=4294967297", "a number from 1 to 4294967296"),
    ] {
        let done = run(&["p4", "resources", ECMP, "--target", "rmt", "--entries", entries]);
        assert!(done.code == Some(2) && done.stderr.contains(message), "{entries}: {done:?}");
    }
}

#[test]
fn bad_input() {
    let dir = Scratch::new("resources-bad");
    let tofino = include_str!("../../pisa/src/targets/tofino.toml");
    let words = dir.write("w.toml", tofino.replacen("overhead_bits = 4", "overhead_bits = 200", 1));
    let target = dir.write("t.toml", "name = \"t\"\nstages = 0\n");
    let graph = dir.write("g.toml", "name = \"g\"\n[[table]]\nname = \"a\"\nmatch = \"fuzzy\"\n");
    let wrong = dir.write("w.p4", "#include <core.p4>\nconst bit<8> x = y;\n");
    let no_main = dir.write("n.p4", "#include <core.p4>\n");
    for (file, target, message) in [
        (ECMP, "tofino9", "unknown target 'tofino9': use rmt, tofino, tofino2"),
        (ECMP, target.as_str(), "t.toml:2:10: stages: 0 is out of range"),
        (ECMP, words.as_str(), "w.toml:29:17: sram.overhead_bits: a word of SRAM has 128 bits"),
        (ECMP, "missing.toml", "missing.toml"),
        ("missing.p4", "rmt", "missing.p4"),
        (graph.as_str(), "rmt", "g.toml:4:9: table.match"),
        (wrong.as_str(), "rmt", "P0301"),
        (no_main.as_str(), "rmt", "has no `main`"),
    ] {
        let done = run(&["p4", "resources", file, "--target", target]);
        assert_eq!(done.code, Some(2), "{file} {target}: {done:?}");
        assert!(done.stderr.contains(message) && done.stdout.is_empty(), "{file} {target}: {done:?}");
    }
}
