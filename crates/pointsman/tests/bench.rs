//! `pointsman bench`: measurements, output and refusals. Figures are not judged: test machines are busy.

use crate::support::{Scratch, assert_no_panic, file, run};
use serde_json::Value;
use std::time::Duration;

/// Measures briefly; returns the JSON.
fn measure(name: &str, args: &[&str]) -> Value {
    let dir = Scratch::new(&format!("bench-{name}"));
    let path = dir.path("figures.json");
    let small = ["--runs", "2", "--packets", "3000", "--json", &path];
    let finished = run(&[&["bench"], args, &small].concat());
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_no_panic(&finished);
    assert!(finished.stdout.contains("ratio of the medians"), "{finished:?}");
    serde_json::from_str(&std::fs::read_to_string(&path).expect("the file is there")).expect("JSON")
}

/// Checks the common parts of every report, and that packets were forwarded (`share` of them at least).
fn check(name: &str, args: &[&str], share: f64) -> Value {
    let json = measure(name, args);
    let number = |v: &Value| v.as_f64().unwrap_or_else(|| panic!("no number: {v} in {json:#}"));
    for spread in ["ns_per_packet", "reference_ns_per_packet"] {
        let spread = &json[spread];
        let (min, median, max) = (number(&spread["min"]), number(&spread["median"]), number(&spread["max"]));
        assert!(0.0 < min && min <= median && median <= max, "{json:#}");
        assert_eq!(spread["n"], 2, "{json:#}");
    }
    let ratio = number(&json["ns_per_packet"]["median"]) / number(&json["reference_ns_per_packet"]["median"]);
    assert!((number(&json["ratio_to_reference"]) - ratio).abs() < 0.02 * ratio, "{json:#}");
    assert_eq!(json["workers"], 1);
    for stage in ["parser", "verify", "ingress", "egress", "compute", "deparser", "shell"] {
        assert!(number(&json["stages_ns"][stage]) >= 0.0, "{stage}: {json:#}");
    }
    assert!(number(&json["stages_ns"]["ingress"]) > 0.0, "{json:#}");
    assert!(number(&json["memory"]["program_bytes"]) > 0.0, "{json:#}");
    assert!(number(&json["forwarded"]) >= share, "{json:#}");
    json
}

#[test]
fn the_balancer() {
    for mix in ["hit", "miss", "churn"] {
        let json = check(mix, &["balancer", "--flows", "2000", "--mix", mix], 0.999);
        assert_eq!((&json["program"], &json["mix"]), (&"balancer".into(), &mix.into()));
        assert_eq!((&json["flows"], &json["executor"]), (&2000.into(), &"engine".into()));
    }
    let path = file("p4/programs/balancer/main.p4");
    let json = check("interp", &[&path, "--flows", "200", "--executor", "interp"], 0.999);
    assert_eq!((&json["program"], &json["executor"]), (&path.into(), &"interp".into()));
}

#[test]
fn several_workers() {
    let json = measure("workers", &["balancer", "--flows", "3000", "--mix", "churn", "--workers", "2"]);
    assert_eq!(json["workers"], 2);
    assert_eq!(json["one_worker_ns_per_packet"]["n"], 2);
    assert!(json["ratio_to_one_worker"].as_f64().is_some_and(|g| g > 0.0), "{json:#}");
    // Each flow is opened and found, whichever worker has it.
    assert!(json["forwarded"].as_f64().is_some_and(|f| f > 0.999), "{json:#}");
}

/// So few that opened flows come again while the outputs are compared.
#[test]
fn few_flows_that_come_and_go() {
    let args = ["balancer", "--flows", "300", "--mix", "churn"];
    check("few", &args, 0.999);
}

#[test]
fn a_larger_table_holds_more_connections() {
    // Twice the current places of the table: it has to grow.
    let args = ["balancer", "--flows", "150000", "--mix", "hit"];
    check("large", &args, 0.999);
}

#[test]
fn our_other_programs() {
    check("router", &[&file("p4/programs/router/main.p4"), "--flows", "3000", "--size", "500"], 0.999);
    // One rule of eight denies, and more that are shadowed.
    let json = check("acl", &[&file("p4/programs/acl/main.p4"), "--flows", "3000", "--size", "300"], 0.5);
    assert!(json["forwarded"].as_f64().is_some_and(|f| f < 0.99), "{json:#}");
}

#[test]
fn other_programs_with_entries() {
    let dir = Scratch::new("bench-entries");
    let program = file("p4/programs/router/main.p4");
    let derived = "add stations mac:0x0200000000ff forward(port:7)\n";
    let entries = dir.write("derived.stf", derived);
    check("derived", &[&program, "--entries", &entries, "--flows", "10"], 0.999);
    // The packet goes to an unknown station.
    let given = format!("{derived}packet 1 020000000001 020000000002 1234 00\nexpect 2 00\n");
    let entries = dir.write("given.stf", given);
    let json = measure("given", &[&program, "--entries", &entries, "--flows", "10"]);
    assert_eq!(json["forwarded"], 0.0);
    assert!(json["drops"]["ingress"].as_u64().is_some_and(|n| n >= 6000), "{json:#}");
}

/// The command fails, and says `parts`, without a panic.
fn refused(args: &[&str], parts: &[&str]) {
    let finished = run(&[&["bench"], args].concat());
    assert!(finished.code.is_some_and(|c| c != 0), "{args:?}: {finished:?}");
    for part in parts {
        assert!(finished.stderr.contains(part), "{args:?}: no {part:?} in {}", finished.stderr);
    }
    assert_no_panic(&finished);
}

#[test]
fn what_cannot_be_measured() {
    let dir = Scratch::new("bench-refused");
    refused(&[], &["no program", "`balancer`"]);
    refused(&["balancer", "--flowz", "1"], &["--flowz", "--flows"]);
    refused(&["balancer", "--mix", "some"], &["hit, miss, churn"]);
    refused(&["balancer", "--flows", "0"], &["--flows 0", "at least 1"]);
    refused(&["balancer", "--flows", "-1"], &["-1"]);
    refused(&["balancer", "--flows", "1000000000000"], &["GiB of memory", "at most"]);
    refused(&["balancer", "--workers", "0"], &["--workers 0", "at least 1"]);
    refused(&["balancer", "--workers", "300"], &["--workers 300", "at most 256"]);
    refused(&["balancer", "--runs", "0"], &["--runs"]);
    refused(&["balancer", "--packets", "0"], &["--packets"]);
    refused(
        &["balancer", "--json", "/nowhere/figures.json"],
        &["cannot write /nowhere/figures.json", "--json"],
    );
    for (queue, parts) in [
        ("delay", &["'delay' has no `=`", "PORT[:PRIORITY]=RATE[,DEPTH][,delay=TIME]"][..]),
        ("all=max,delay=9", &["not like 5us"]),
        ("64=1Gbit", &["port 64 does not exist", "from 0 to 63, or `all`"]),
        ("1:1=max", &["no queue of priority 1", "omit the priority"]),
        (
            "all=max,delay=1ms",
            &["--queue all=max,delay=1000000ns: packets wait", "no delay, such as all=100Gbit"],
        ),
        ("all=1", &["--queue all=1: packets wait", "rates above the load"]),
    ] {
        refused(&["balancer", "--flows", "10", "--queue", queue], parts);
    }
    refused(&["/nowhere.p4"], &["cannot read /nowhere.p4", "check the path"]);
    refused(&[&file("README.md")], &["README.md"]);

    let router = file("p4/programs/router/main.p4");
    refused(&[&router, "--entries", "/nowhere.stf"], &["cannot read /nowhere.stf"]);
    let check = |name: &str, text: &str, parts: &[&str]| {
        let path = dir.write(name, text);
        refused(&[&router, "--entries", &path], &[&[name], parts].concat());
    };
    check("words.stf", "add\n", &["line 1"]);
    check("table.stf", "\nadd nothing mac:1 forward(port:1)\n", &["line 2", "no table nothing", "stations"]);
    check("wide.stf", "add next_hops next_hop:65536 drop()\n", &["line 1", "65536 does not fit 16 bits"]);
    check("twice.stf", "add next_hops next_hop:1 drop()\nadd next_hops next_hop:1 drop()\n", &["line 2"]);

    let other = "#include <core.p4>\nparser P(packet_in b); package Other(P p);\nparser Q(packet_in b) { state start { transition accept; } }\nOther(Q()) main;\n";
    refused(&[&dir.write("other.p4", other)], &["Other", "V1Switch"]);
}

/// The delay of a controller that sends the balancer: the front end and the code generator. The target is 100 ms in a
/// release build on an idle machine; the bound leaves room for debug builds and busy machines.
#[test]
fn compiling_the_balancer_is_quick() {
    let limit = Duration::from_secs(if cfg!(debug_assertions) { 20 } else { 1 });
    let json = measure("compile", &["balancer", "--flows", "10"]);
    let ms = |part: &str| json["compile_ms"][part].as_f64().expect("a number");
    assert!(ms("executor") > 0.0 && ms("executor") < limit.as_millis() as f64, "{json:#}");
    assert!(ms("front_end") > 0.0 && ms("front_end") < limit.as_millis() as f64, "{json:#}");
}
