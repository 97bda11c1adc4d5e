//! `pointsman tea --nftables`: the kernel in the switch's place, under the same load and the same checker.

use crate::support::{Scratch, pointsman};
use crate::tea_wire::{Outcome, number};
use pointsman_lab::ensure;
use pointsman_lab::harness::Test;
use pointsman_tea::{App, Held, Options, Times, measure};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

pub const TESTS: &[(&str, Test)] = &[
    ("rules_do_what_the_programs_do", rules_do_what_the_programs_do),
    ("a_wrong_entry_is_found", a_wrong_entry_is_found),
    ("what_nftables_cannot_do_is_refused", what_nftables_cannot_do_is_refused),
];

const ENTRIES: u32 = 5000;

fn is_installed() -> bool {
    pointsman_needs::programs("tea_nftables_wire", &["nftables:nft"])
}

/// Every packet of every length is compared, with an entry and without one; none is lost.
fn rules_do_what_the_programs_do() -> Outcome {
    if !is_installed() {
        return Ok(());
    }
    let dir = Scratch::new("tea-nftables");
    let second = Duration::from_secs(1);
    let times = Times {
        warm: second / 4,
        alone: second / 2,
        before: second,
        broken: Duration::ZERO,
        after: second / 4,
    };
    for app in [App::Nat, App::Nat6, App::Firewall, App::Lb] {
        let options = Options {
            held: Held::Kernel,
            entries: ENTRIES,
            absent: ENTRIES / 4,
            times,
            ..Options::new(app, PathBuf::from(env!("CARGO_BIN_EXE_pointsman")), dir.0.join("bed"))
        };
        std::fs::create_dir_all(&options.folder)?;
        let outcome = measure(&options, &mut |_| {})?;
        ensure!(outcome.fine(), "{app:?}: {}", outcome.text());
        let verdict = &outcome.verdict;
        ensure!(verdict.found > 1000 && verdict.absent > 200, "{app:?}: {}", outcome.text());
        // On a busy machine a packet may be late.
        let lost = verdict.sent - verdict.found - verdict.absent;
        ensure!(lost * 100 < verdict.sent, "{app:?}: {}", outcome.text());
        ensure!(outcome.found.entries == u64::from(ENTRIES), "{app:?}: {}", outcome.text());
    }
    Ok(())
}

/// Another `nft`, which gives flow 7 the address of flow 9, runs the real one.
fn a_wrong_entry_is_found() -> Outcome {
    if !is_installed() {
        return Ok(());
    }
    let dir = Scratch::new("tea-nftables-fault");
    let real = pointsman_lab::process::installed("nft").ok_or("nft is installed")?;
    let wrong =
        dir.write("nft", format!("#!/bin/sh\nsed 's/ : 11[.]0[.]0[.]7,/ : 11.0.0.9,/' | {real} \"$@\"\n"));
    std::fs::set_permissions(&wrong, std::fs::Permissions::from_mode(0o755))?;
    let path = format!("{}:{}", dir.0.display(), std::env::var("PATH").unwrap_or_default());
    let json = dir.path("r.json");
    let run = ["tea", "--app", "nat", "--nftables", "--quick", "--entries", "64", "--json", &json];
    let output = pointsman(&run).env("PATH", path).output()?;
    ensure!(output.status.code() == Some(1), "{output:?}");
    let result: Value = serde_json::from_str(&std::fs::read_to_string(&json)?)?;
    let violations = &result["violations"];
    ensure!(result["nftables"] == true && result["switch_bytes"].is_null(), "{result:#}");
    ensure!(number(&violations["wrong"]) > 10, "{result:#}");
    for name in ["missing", "altered", "doubled"] {
        ensure!(violations[name] == 0, "{result:#}");
    }
    Ok(())
}

fn what_nftables_cannot_do_is_refused() -> Outcome {
    for (app, more, code, says) in [
        ("vpn", "--quick", 1, "IP in IP"),
        ("policy", "--quick", 1, "a MAC address"),
        ("nat", "--plain", 2, "cannot be used with"),
        ("nat", "--churn", 1, "no memory servers"),
        ("nat", "--pcap=x", 1, "omit --pcap"),
    ] {
        let output = pointsman(&["tea", "--app", app, "--nftables", more]).output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.code() == Some(code) && said.contains(says), "{app} {more}: {said}");
    }
    Ok(())
}
