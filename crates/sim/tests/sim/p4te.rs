//! P4TE in networks: its events reach its controller, and paths follow.

use super::network::run;
use pointsman_fabric::Quantity;
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
    // After the tables were filled, only reports make the controller write.
    let control = &p4te.fabric.as_ref().expect("flows").control;
    assert!(control.events > 0 && control.writes > 0, "{control:?}");
}

/// Large flows to one host over one path, with verdicts for each of their packets, and another setting of the scheme.
fn slowed(senders: u32, tcp: &str, settings: &str) -> NetworkOutcome {
    of_class(1000, senders, tcp, settings)
}

/// The same of flows that are large above so many bytes.
fn of_class(large_above: u32, senders: u32, tcp: &str, settings: &str) -> NetworkOutcome {
    run(
        &format!(
            "name = \"test\"\nduration_s = 0.01\npatience_s = 5\n\
             [network.leaf_spine]\nleaves = 3\nspines = 1\nhosts_per_leaf = 1\n\
             host_link = {{ rate_gbit_s = 1, delay_us = 100, queue_kib = 256 }}\n\
             fabric_link = {{ rate_gbit_s = 1, delay_us = 100, queue_kib = 256 }}\n\
             [flows]\nsize = [{{ bytes = 3_000_000 }}]\nlarge_above_bytes = {large_above}\n\
             pattern = \"incast\"\nsenders = {senders}\nreceivers = 1\narrivals = {{ process = \"at-once\", at_s = [0] }}\n\
             [flows.tcp]\n{tcp}\n\
             {SCHEME}burst_kib = 3\n{settings}"
        ),
        1,
    )
}

/// Milliseconds of the mean flow, packets sent again, and acknowledgments changed or made.
fn costs(outcome: &NetworkOutcome) -> (f64, u64, u64) {
    let fabric = outcome.fabric.as_ref().expect("flows");
    let all = fabric.flows.classes.iter().find(|c| c.class == Class::All).expect("all");
    assert_eq!(fabric.flows.finished, fabric.flows.started);
    let acks = fabric.control.tallies.get(&Quantity::Acks).copied().unwrap_or(0);
    (all.times.mean_ms, all.retransmitted, acks)
}

#[test]
fn marked_acknowledgments_reduce_the_window_before_packets_are_lost() {
    let tcp = "algorithm = \"cubic\"\necn = true";
    let (_, lost, none) = costs(&slowed(2, tcp, ""));
    let outcome = slowed(2, tcp, "rate_control = \"ece\"\nspacing_kib = 128\n");
    let (_, marked, acks) = costs(&outcome);
    assert_eq!((none, marked), (0, 0), "{lost}");
    assert!(lost > 0 && acks > 0, "{lost} {acks}");
    let fabric = outcome.fabric.as_ref().expect("flows");
    assert_eq!(fabric.rate_control, "ece");
    assert!(outcome.json().contains("\"rate_control\":\"ece\""));
    // Without ECN verdicts are of no use.
    let without = costs(&slowed(2, "algorithm = \"cubic\"", "rate_control = \"ece\"\nspacing_kib = 128\n"));
    assert!(without.1 > 0 && without.2 == 0, "{without:?}");
}

/// One flow at most is in flight as far as the window allows, once for each round trip.
#[test]
fn a_clamped_window_is_what_is_in_flight() {
    let tcp = "algorithm = \"cubic\"\nack_every = 1";
    let always = "red_percent = 0.2\ngreen_percent = 0.1\nlarge_percent = 0.1\n";
    let (free, ..) = costs(&slowed(1, tcp, always));
    let clamp = |kib: f64| {
        let settings = format!("{always}rate_control = \"clamp\"\nclamp_kib = {kib}\nclamp_us = 1e6\n");
        let (ms, again, acks) = costs(&slowed(1, tcp, &settings));
        assert_eq!(again, 0);
        assert!(acks > 100, "{acks}");
        ms
    };
    // Twenty segments and ten, for a round trip of 0.8 ms and the time of a packet on four wires.
    let round_trip = 0.8 + 4.0 * 1514.0 * 8.0 / 1e6;
    let expected = |segments: f64| 3_000_000.0 / (segments * 1460.0) * round_trip;
    // Half a segment more, because a scaled window is rounded down.
    let (twenty, ten) = (clamp(20.5 * 1460.0 / 1024.0), clamp(10.5 * 1460.0 / 1024.0));
    assert!((twenty / expected(20.0) - 1.0).abs() < 0.05, "{twenty} {}", expected(20.0));
    assert!((ten / expected(10.0) - 1.0).abs() < 0.05, "{ten} {}", expected(10.0));
    assert!(free < twenty / 2.0, "{free} {twenty}");
}

/// As measured on Linux: a repeated acknowledgment with a smaller window is ignored.
#[test]
fn repeated_acknowledgments_with_a_smaller_window_change_nothing() {
    let tcp = "algorithm = \"cubic\"\ntimestamps = true";
    let always = "red_percent = 0.2\ngreen_percent = 0.1\nlarge_percent = 0.1\nspacing_kib = 16\n";
    let (free, again, none) = costs(&slowed(1, tcp, always));
    let (ms, again_too, acks) = costs(&slowed(1, tcp, &format!("{always}rate_control = \"fack\"\n")));
    assert_eq!((again, again_too, none), (0, 0, 0));
    assert!(acks > 20, "{acks}");
    assert!((ms / free - 1.0).abs() < 0.02, "{ms} {free}");
}

#[test]
fn settings_that_are_names() {
    let bad = format!("{}{SCHEME}rate_control = \"nak\"\n", super::network::NETWORK);
    let told = super::network::read(&bad).expect_err("no such name");
    assert!(told.contains("scheme.rate_control: `nak`: write one of none, ece, clamp, fack"), "{told}");
    let bad = format!("{}{SCHEME}rate_control = 1\n", super::network::NETWORK);
    assert!(super::network::read(&bad).expect_err("a number").contains("scheme.rate_control"));
}

/// By DSCP the flows are short, and no verdict is about them: their share of a port is all that a line carries.
#[test]
fn flows_are_large_by_the_bytes_that_a_switch_sees() {
    let slowed = |settings: &str| {
        let settings = format!("large_percent = 0.1\nrate_control = \"ece\"\nspacing_kib = 128\n{settings}");
        costs(&of_class(10_000_000, 2, "algorithm = \"cubic\"\necn = true", &settings))
    };
    let ((_, lost, none), (_, marked, acks)) = (slowed(""), slowed("class_kib = 64\n"));
    assert!(lost > 0 && none == 0, "{lost} {none}");
    assert!(marked == 0 && acks > 0, "{marked} {acks}");
    // More than a flow has.
    let (_, lost, none) = slowed("class_kib = 10_000\n");
    assert!(lost > 0 && none == 0, "{lost} {none}");
}

/// Each of three leaves sends a probe for each period, and the spine repeats it to the two others.
#[test]
fn probes_are_counted() {
    let probes = |setting: &str| {
        let text = format!(
            "name = \"test\"\nduration_s = 0.01\npatience_s = 5\n\
             [network.leaf_spine]\nleaves = 3\nspines = 1\nhosts_per_leaf = 1\n\
             [flows]\nsize = [{{ bytes = 30_000_000 }}]\npattern = \"incast\"\nsenders = 1\nreceivers = 1\n\
             arrivals = {{ process = \"at-once\", at_s = [0] }}\n[scheme]\nname = \"hula\"\n{setting}"
        );
        let outcome = run(&text, 1);
        let control = &outcome.fabric.as_ref().expect("flows").control;
        assert!(outcome.virtual_s > 0.01, "{}", outcome.virtual_s);
        (control.tallies[&Quantity::ProbeBytes] as f64 / 60.0, 9.0 * outcome.virtual_s)
    };
    let (sent, each_s) = probes("");
    assert!((sent - each_s / 200e-6).abs() < 20.0, "{sent} {each_s}");
    // Three probes of 64 bytes for each period are one per cent of 10 Gbit/s.
    let (sent, each_s) = probes("overhead_percent = 1\n");
    let share = sent / each_s * 3.0 * 64.0 * 8.0 / 10e9;
    assert!((share - 0.01).abs() < 0.0005, "{share}");
}
