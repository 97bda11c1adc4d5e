//! `pointsman reproduce`: its output as text and files.

use crate::support::{Scratch, assert_no_panic, run};
use serde_json::Value;

/// The quickest figure, with as many seeds as a test can wait for.
#[test]
fn a_figure() {
    let dir = Scratch::new("reproduce");
    let (json, csv, html) = (dir.path("r.json"), dir.path("r.csv"), dir.path("r.html"));
    let args = ["reproduce", "fig-5.10", "--quick", "--seeds", "2"];
    let files = ["--json", &json, "--csv", &csv, "--html", &html];
    let finished = run(&[&args[..], &files].concat());
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(finished.stdout.contains("fig-5.10") && finished.stderr.contains("fewer than 5"), "{finished:?}");
    let read = |path: &str| std::fs::read_to_string(path).expect("the file is there");
    let result: Value = serde_json::from_str(&read(&json)).expect("one line of JSON");
    assert_eq!(result["figure"], "fig-5.10");
    let claims = result["claims"].as_array().expect("claims");
    for claim in claims {
        assert!(claim["paper"].is_number() && claim["ours"].is_number(), "{claim}");
        assert_eq!((&claim["verdict"], &claim["seeds"]), (&"inconclusive".into(), &2.into()), "{claim}");
        assert!(["text", "log"].contains(&claim["source"].as_str().unwrap_or_default()), "{claim}");
        assert!(claim["ci95"].as_array().is_some_and(|ends| ends.len() == 2), "{claim}");
    }
    let table = read(&csv);
    let head = table.lines().next().unwrap_or_default();
    assert!(head.contains("reports_per_s") && head.contains("p99_median_ms"), "{head}");
    assert!(
        table.lines().any(|l| l.contains(",paper,1,")) && table.lines().any(|l| l.contains(",ours,2,")),
        "{table}"
    );
    assert!(read(&html).contains("class=\"companion\""), "the paper's curve");
    assert_eq!((&result["first_seed"], &result["last_seed"]), (&1.into(), &2.into()));
    // The same seeds give the same results; the last columns are version, command and machine.
    assert_eq!(run(&[&args[..], &["--csv", &csv]].concat()).code, Some(0));
    let results = |text: &str| -> Vec<String> {
        let end = concat!(",", env!("CARGO_PKG_VERSION"), ",pointsman reproduce ");
        text.lines().skip(1).map(|l| l.split_once(end).expect("what made it").0.to_owned()).collect()
    };
    assert_eq!(results(&read(&csv)), results(&table));
}

/// Probes of simulated devices reach the switch and count: the slower machine gets less.
#[test]
fn probes() {
    let dir = Scratch::new("reproduce-probes");
    let json = dir.path("r.json");
    let finished = run(&["reproduce", "probes-fig-7.1", "--quick", "--seeds", "2", "--json", &json]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let text = std::fs::read_to_string(&json).expect("the file is there");
    let result: Value = serde_json::from_str(&text).expect("one line of JSON");
    let ours = |id: &str| {
        let claims = result["claims"].as_array().expect("claims");
        claims.iter().find(|c| c["id"] == id).and_then(|c| c["ours"].as_f64()).expect("a number")
    };
    assert!((ours("rr-even") - 50.0).abs() < 1.0 && ours("probes-share") < 48.0, "{result}");
}

/// All schemes at 10 Gbit/s. Two parts leave in the file what the whole figure needs, which then simulates nothing.
#[test]
fn a_figure_of_networks_in_parts() {
    let dir = Scratch::new("reproduce-fabric");
    let (kept, json) = (dir.path("kept.jsonl"), dir.path("r.json"));
    let args = ["reproduce", "fabric-incast", "--quick", "--seeds", "1", "--keep", &kept];
    let lines = || std::fs::read_to_string(&kept).map_or(0, |text| text.lines().count());
    for (part, after) in [("1/2", 12), ("2/2", 21)] {
        let finished = run(&[&args[..], &["--shard", part]].concat());
        assert_eq!((finished.code, lines()), (Some(0), after), "{finished:?}");
        assert!(!finished.stdout.contains("claimed"), "{finished:?}");
    }
    let whole = run(&[&args[..], &["--json", &json]].concat());
    assert_eq!((whole.code, lines()), (Some(0), 21), "{whole:?}");
    let text = std::fs::read_to_string(&json).expect("the file is there");
    let result: Value = serde_json::from_str(&text).expect("one line of JSON");
    let claims = result["claims"].as_array().expect("claims");
    assert_eq!((claims.len(), &result["last_seed"]), (6, &1.into()));
    for claim in claims {
        let ours = claim["ours"].as_f64().unwrap_or(f64::NAN);
        assert!((0.2..5.0).contains(&ours) && claim["source"] == "ours", "{claim}");
    }
}

/// The thesis's table decides, so the ring has no effect, and the command says so.
#[test]
fn settings_without_effect_are_named() {
    let args = ["reproduce", "fig-5.13", "--quick", "--seeds", "5", "--as-published=lookup,ring"];
    let ended = run(&args);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("`ring` changes nothing"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("`lookup` changes nothing"), "{}", ended.stderr);
}

#[test]
fn the_list_and_mistakes() {
    let list = run(&["reproduce", "--list"]);
    assert_eq!(list.code, Some(0));
    for name in [
        "fig-4.4",
        "table-4.1",
        "fig-5.7",
        "table-5.4",
        "probes-fig-7.1",
        "goal-capacity",
        "staleness",
        "fabric-cdf",
    ] {
        assert!(list.stdout.contains(name), "{name} in {}", list.stdout);
    }
    let check = |args: &[&str], expected: &str| {
        let finished = run(&[&["reproduce"], args].concat());
        assert!(finished.code != Some(0) && finished.stderr.contains(expected), "{args:?}: {finished:?}");
        assert_no_panic(&finished);
    };
    check(&[], "FIGURE");
    check(&["fig-9.9"], "--list");
    check(&["fig-4.1"], "cannot be run: it is a drawing");
    check(&["fig-5.12", "--in", "lab"], "omit --in lab");
    check(&["table-5.4"], "add --in lab");
    check(&["goal-capacity", "--as-published"], "has no settings as published");
    check(&["fig-5.7", "--as-published", "--in", "lab"], "omit --in lab");
    check(&["p4te-fig-9", "--as-published=paths,ties"], "`ties` is a setting of racks");
    check(&["fig-5.7", "--as-published=paths"], "`paths` is a setting of the P4TE paper's network");
    check(&["fig-5.7", "--as-published=tie"], "possible values");
    check(&["fabric-cdf", "--as-published"], "has no settings as published");
    check(&["fabric-cdf", "--in", "lab"], "omit --in lab");
    check(
        &["redplane-fig-5.12", "--in", "lab"],
        "redplane-fig-5.12 runs only in the simulator: omit --in lab",
    );
    check(&["fabric-cdf", "--quick", "--full"], "cannot be used with");
    check(&["fabric-cdf", "--shard", "1/2"], "--keep");
    check(&["fabric-cdf", "--shard", "3/2", "--keep", "k.jsonl"], "write I/N with I from 1 to N");
    check(&["fabric-incast", "--seed", "1001"], "has tuned the schemes and cannot judge them");
    check(&["fig-5.7", "--seeds", "0"], "1..=10000");
    check(&["fig-5.7", "--json", "/nonexistent/r.json"], "choose another file with --json");
}
