//! `pointsman reproduce --in lab`: racks of namespaces, and the processes of TEA and RedPlane.

use crate::support::{Finished, Scratch, run};
use pointsman_lab::ensure;
use pointsman_lab::harness::Test;
use serde_json::Value;

pub const TESTS: &[(&str, Test)] = &[
    ("frequent_reports_help_on_racks", frequent_reports_help_on_racks),
    ("proxies_with_and_without_a_quota", proxies_with_and_without_a_quota),
    ("look_ups_bare_reads_and_bare_echoes", look_ups_bare_reads_and_bare_echoes),
    ("round_trips_through_real_switches", round_trips_through_real_switches),
    ("as_many_packets_as_pass", as_many_packets_as_pass),
    ("as_many_updates_as_stores_take", as_many_updates_as_stores_take),
];

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// A figure, once: its claims have numbers, and its table has these words.
fn once(figure: &str, claims: usize, words: &[&str]) -> Outcome<Finished> {
    let dir = Scratch::new("reproduce-lab");
    let ended = launch(&dir, figure, "1");
    judge(&dir, &ended, claims, words)?;
    Ok(ended)
}

/// Runs a figure with so many seeds.
fn launch(dir: &Scratch, figure: &str, seeds: &str) -> Finished {
    let files = ["--json", &dir.path("r.json"), "--csv", &dir.path("r.csv")];
    run(&[&["reproduce", figure, "--quick", "--in", "lab", "--seeds", seeds][..], &files].concat())
}

/// Checks the files that a run has written, and returns its result.
fn judge(dir: &Scratch, ended: &Finished, claims: usize, words: &[&str]) -> Outcome<Value> {
    ensure!(ended.code == Some(0), "{ended:?}");
    let result: Value = serde_json::from_str(&std::fs::read_to_string(dir.path("r.json"))?)?;
    ensure!(result["place"] == "lab", "{result}");
    let found = result["claims"].as_array().map_or(&[][..], |all| all);
    ensure!(found.len() == claims, "{result}");
    for claim in found {
        // How large depends on what else the machine does.
        ensure!(claim["ours"].as_f64().is_some_and(|n| n.is_finite() && n > 0.0), "{claim}");
        ensure!(claim["loss_percent"].as_f64().is_some_and(|lost| lost < 50.0), "{claim}");
    }
    let table = std::fs::read_to_string(dir.path("r.csv"))?;
    for word in words {
        ensure!(table.contains(word), "{word}: {table}");
    }
    Ok(result)
}

/// Reports a hundred times as often make requests faster, as in the simulator.
fn frequent_reports_help_on_racks() -> Outcome<()> {
    let dir = Scratch::new("reproduce-lab");
    let ended = launch(&dir, "fig-5.10", "2");
    let result = judge(&dir, &ended, 3, &[])?;
    let often = result["claims"].as_array().and_then(|c| c.iter().find(|c| c["id"] == "often"));
    ensure!(often.and_then(|c| c["ours"].as_f64()).is_some_and(|r| r < 0.8), "{result}");
    ensure!(ended.stdout.contains("in the lab: 8 runs"), "{ended:?}");
    Ok(())
}

/// nginx in the place of the switch.
fn proxies_with_and_without_a_quota() -> Outcome<()> {
    const NAME: &str = "proxies_with_and_without_a_quota";
    if !pointsman_needs::programs(NAME, &["nginx-light:nginx"]) {
        return Ok(());
    }
    let dir = Scratch::new("reproduce-lab");
    let ended = launch(&dir, "table-5.4", "1");
    if ended.code != Some(0) && (ended.stderr.contains("quota") || ended.stderr.contains("apt-get install")) {
        pointsman_needs::skip(NAME, ended.stderr.lines().last().unwrap_or_default());
        return Ok(());
    }
    judge(&dir, &ended, 8, &[])?;
    ensure!(ended.stdout.contains("in the lab: 6 runs"), "{ended:?}");
    Ok(())
}

/// TEA: packets of two sizes that are looked up in a memory server, READs of its memory without a switch, and the same packets without
/// look-ups, of which none is lost on its way or changed.
fn look_ups_bare_reads_and_bare_echoes() -> Outcome<()> {
    let ended = once("tea-fig-3.9", 8, &["bare READ", "bare echo"])?;
    ensure!(ended.stdout.contains("4 runs; checkers found no violations"), "{ended:?}");
    Ok(())
}

/// RedPlane: packets pass without it, with one store and with a chain, whose answers the first packets of flows wait for.
fn round_trips_through_real_switches() -> Outcome<()> {
    once("redplane-fig-5.10", 3, &["plain", "RedPlane", "one store"]).map(|_| ())
}

/// RedPlane: packets that only read, and those of a counter, which wait for a chain.
fn as_many_packets_as_pass() -> Outcome<()> {
    once("redplane-fig-5.14", 2, &["without RedPlane", "RedPlane"]).map(|_| ())
}

/// RedPlane: a key-value store, whose keys are spread over one to three stores.
fn as_many_updates_as_stores_take() -> Outcome<()> {
    once("redplane-fig-5.15", 4, &["without RedPlane", "1 store", "3 stores"]).map(|_| ())
}
