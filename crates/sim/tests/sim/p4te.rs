//! P4TE in networks: its events reach its controller, and paths follow.

use super::network::run;
use pointsman_sim::network::{Class, NetworkOutcome};

const SCHEME: &str = "[scheme]\nname = \"p4te\"\n";

/// Two leaves and two spines; the links to the second spine have a tenth of the rate.
fn uneven(scheme: &str, seed: u64) -> NetworkOutcome {
    let mut text = String::from(
        "name = \"test\"\nduration_s = 0.2\npatience_s = 5\n[network]\nline = { rate_gbit_s = 1, delay_us = 5, queue_kib = 256 }\n",
    );
    for leaf in 1..=2 {
        text += &format!("[[network.switch]]\nname = \"leaf{leaf}\"\n");
        text += &format!("[[network.switch]]\nname = \"spine{leaf}\"\n");
    }
    for leaf in 1..=2 {
        for host in 1..=4 {
            text +=
                &format!("[[network.host]]\nname = \"h{leaf}{host}\"\naddress = \"10.0.{leaf}.{host}\"\n");
            text += &format!("[[network.link]]\nends = [\"leaf{leaf}:{host}\", \"h{leaf}{host}\"]\n");
        }
        for (spine, rate) in [(1, 1.0), (2, 0.1)] {
            text += &format!(
                "[[network.link]]\nends = [\"leaf{leaf}:{}\", \"spine{spine}:{leaf}\"]\nrate_gbit_s = {rate}\n",
                10 + spine
            );
        }
    }
    text += "[flows]\nsize = [{ bytes = 30_000, weight = 9 }, { bytes = 600_000 }]\n\
             arrivals = { process = \"poisson\", load = 0.5, load_of = \"uplinks\" }\n";
    run(&format!("{text}{scheme}"), seed)
}

/// The share of packets that leave the leaves over the slow spine, and the mean time of all flows in milliseconds.
fn over_slow_spine(outcome: &NetworkOutcome) -> (f64, f64) {
    let fabric = outcome.fabric.as_ref().expect("flows");
    let sent = |port: u16| -> u64 {
        let leaves = outcome.switches.iter().filter(|(name, _)| name.starts_with("leaf"));
        leaves.flat_map(|(_, ports)| ports).filter(|(p, _)| *p == port).map(|(_, c)| c.packets).sum()
    };
    let all = fabric.flows.classes.iter().find(|c| c.class == Class::All).expect("all");
    (sent(12) as f64 / (sent(11) + sent(12)) as f64, all.times.mean_ms)
}

#[test]
fn a_slow_path_is_avoided() {
    let ecn = "ecn_kib = 30\n";
    let p4te = uneven(&format!("{SCHEME}{ecn}gap_us = 500\ndelta_kib = 4\nrange_kib = 8\n"), 1);
    let ecmp = uneven(&format!("[scheme]\nname = \"ecmp\"\n{ecn}"), 1);
    let (share, ms) = over_slow_spine(&p4te);
    let (ecmp_share, ecmp_ms) = over_slow_spine(&ecmp);
    // The fair share is 1 of 11.
    assert!(share < 0.25 && ecmp_share > 0.35, "{share} {ecmp_share}");
    assert!(ms < ecmp_ms / 2.0, "{ms} {ecmp_ms}");
    assert!(p4te.fabric.as_ref().expect("flows").control.events > 0);
}
