//! Memory stays flat for all kinds of packets; `examples/many_packets.rs` does the same for ten million of them.

#[allow(dead_code)]
#[path = "../examples/many_packets.rs"]
mod many_packets;

use many_packets::{Run, resident};

#[test]
fn memory_stays_flat() {
    let mut run = Run::new().unwrap();
    // Pools, queues, and what waits for the control plane fill up first.
    run.packets(60_000);
    let before = resident();
    run.packets(140_000);
    let (Some(before), Some(after)) = (before, resident()) else {
        pointsman_needs::skip("memory_stays_flat", "/proc/self/statm is missing");
        return;
    };
    let grown = after.saturating_sub(before);
    assert!(grown < 2_000_000, "{grown} bytes more after 140,000 packets");
    // Every path was taken.
    let [a, b] = run.stats();
    for stats in [&a, &b] {
        assert!(stats.is_conserved(), "{stats:?}");
        assert_eq!(stats.received, 100_000);
    }
    let paths = [a.ingress_clones, a.egress_clones, a.replicas, a.resubmitted, a.recirculated, a.to_cpu];
    assert!(paths.iter().all(|n| *n > 1000), "{paths:?}");
    let reasons = ["ingress", "egress", "queue_full"];
    let drops = |name: &str| a.drops.iter().find(|(r, _)| r.name() == name).map_or(0, |(_, n)| *n);
    assert!(reasons.iter().all(|r| drops(r) > 1000), "{:?}", a.drops);
    let lost = b.anomalies;
    assert!(lost.digests_lost > 100 && lost.events_lost > 100 && lost.register_index > 100, "{lost:?}");
    assert!(a.parser_errors.values().all(|n| *n > 100) && !a.parser_errors.is_empty());
}
