//! `pointsman siege`: cases end to end, bad input, and leftovers after it is killed.

use pointsman_lab::harness::Test;
use pointsman_lab::{Namespace, ensure};
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

pub const TESTS: &[(&str, Test)] = &[
    ("bad_input_is_refused", bad_input_is_refused),
    ("cases_are_listed", cases_are_listed),
    ("a_case_is_run_and_judged", a_case_is_run_and_judged),
    ("a_killed_siege_leaves_nothing", a_killed_siege_leaves_nothing),
];

fn siege(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pointsman"));
    command.arg("siege").args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn bad_input_is_refused() -> Fallible<()> {
    for (arguments, expected) in [
        (&["--case", "no-such-case"][..], "unknown case `no-such-case`: `pointsman siege --list`"),
        (&["--case", "arp-flood", "--quick"], "arp-flood is not part of --quick"),
        (&["--binary", "/nowhere/pointsman"], "--binary /nowhere/pointsman: "),
        (&["--json", "/nowhere/siege.json"], "cannot write /nowhere/siege.json"),
        (&["--json", "/dev/shm/siege.json"], "/dev/shm is reserved for the siege's own files"),
    ] {
        let output = siege(arguments).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(1) && said.contains(expected), "{arguments:?}: {said}");
        ensure!(output.stdout.is_empty(), "{arguments:?} began: {output:?}");
    }
    Ok(())
}

fn cases_are_listed() -> Fallible<()> {
    let lines = |arguments: &[&str]| -> Fallible<usize> {
        let output = siege(arguments).output()?;
        ensure!(output.status.success(), "{output:?}");
        Ok(String::from_utf8(output.stdout)?.lines().count())
    };
    let (all, quick) = (lines(&["--list"])?, lines(&["--list", "--quick"])?);
    ensure!(all >= 40 && (12..all).contains(&quick), "{all} cases, {quick} of them quick");
    Ok(())
}

/// Two gentle cases: the rack holds, the results are complete, and the attack has an effect.
fn a_case_is_run_and_judged() -> Fallible<()> {
    let file = std::env::temp_dir().join(format!("pointsman-siege-{}.json", std::process::id()));
    let outside = Namespace::new("outside")?;
    let arguments = ["--case", "p4runtime-silent", "--case", "link-cut-client", "--json"];
    let output = outside.enter(|| siege(&arguments).arg(&file).output())??;
    let text = std::fs::read_to_string(&file)?;
    std::fs::remove_file(&file)?;
    let said = String::from_utf8_lossy(&output.stdout);
    let results: Value = serde_json::from_str(&text)?;
    let cases = results["cases"].as_array().ok_or("no cases")?;
    ensure!(results["schema"] == 1 && cases.len() == 2, "{text}");
    let ok = cases.iter().all(|c| c["ok"] == true);
    ensure!(output.status.code() == Some(i32::from(!ok)), "{:?} {text}", output.status);
    for case in cases {
        let name = case["name"].as_str().ok_or("no name")?;
        ensure!(said.contains(name), "{said}");
        for field in ["requests", "lost", "violations", "recovery_ms", "memory_growth_mb", "log_bytes"] {
            ensure!(case[field].is_number(), "{field}: {text}");
        }
        ensure!(case["limits"].is_object() && case["broke"].as_array().is_some(), "{text}");
        ensure!(case["requests"].as_u64() > Some(100), "{text}");
        // A link that is down passes no packets, one that is up passes all.
        let cut = name == "link-cut-client";
        ensure!((case["lost"].as_u64() > Some(0)) == cut, "{text}");
        ensure!(case["violations"] == 0 && (cut || case["ok"] == true), "{text}");
    }
    Ok(())
}

/// Processes whose parent is this one.
fn children_of(parent: u32) -> Vec<u32> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|w| w.parse().ok()).collect()
}

fn runs(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with('Z') && !rest.is_empty())
}

fn a_killed_siege_leaves_nothing() -> Fallible<()> {
    let outside = Namespace::new("outside")?;
    let mut running = outside.enter(|| siege(&["--case", "p4runtime-silent"]).spawn())??;
    let until = Instant::now() + crate::support::PATIENCE;
    let mut children = Vec::new();
    // Four devices, the switch, a controller, four agents.
    while children.len() < 10 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
        children = children_of(running.id());
    }
    ensure!(children.len() >= 10, "{children:?}");
    running.kill()?;
    running.wait()?;
    while children.iter().any(|c| runs(*c)) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    ensure!(!children.iter().any(|c| runs(*c)), "{children:?}");
    ensure!(!std::path::Path::new("/dev/shm/rack-0.toml").exists(), "the machine sees the rack's files");
    Ok(())
}
