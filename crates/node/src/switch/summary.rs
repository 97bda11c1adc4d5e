//! The packet summary printed when a switch stops.

use super::wires::PortState;
use pointsman_ports::{Counters, Direction};
use pointsman_v1model::Stats;

/// Every packet of the switch: received or created, and its fate. Both sides are equal.
pub fn switch(stats: &Stats) -> String {
    let reasons: Vec<String> = stats.drops.iter().map(|(r, n)| format!("{} {n}", r.name())).collect();
    format!(
        "packets: received {} (from the control plane {}), made {}; sent {}, to the control plane {}, consumed {}, \
         dropped {}, waiting {}",
        stats.received,
        stats.received_from_cpu,
        stats.created(),
        stats.transmitted,
        stats.to_cpu,
        stats.consumed,
        with_reasons(stats.dropped(), &reasons),
        stats.queued,
    )
}

/// How the frames were spread over workers, each with its own port counters.
pub fn workers(all: &[Vec<Counters>]) -> String {
    let received = |ports: &Vec<Counters>| ports.iter().map(|c| c.rx_packets).sum::<u64>().to_string();
    let shares: Vec<String> = all.iter().map(received).collect();
    format!("workers: received {}", shares.join(", "))
}

/// The frames of one port.
pub fn port(state: PortState, name: &str, counters: &Counters) -> String {
    let number = state.number;
    let reasons: Vec<String> =
        counters.drops().filter(|(_, n)| *n > 0).map(|(r, n)| format!("{} {n}", r.name())).collect();
    let dropped = counters.dropped_total(Direction::Receive) + counters.dropped_total(Direction::Transmit);
    let links = match state.lost {
        0 => String::new(),
        1 => ", link lost once".to_string(),
        n => format!(", link lost {n} times"),
    };
    format!(
        "port {number} ({name}): received {} ({} bytes), sent {} ({} bytes), dropped {}{links}",
        counters.rx_packets,
        counters.rx_bytes,
        counters.tx_packets,
        counters.tx_bytes,
        with_reasons(dropped, &reasons),
    )
}

fn with_reasons(total: u64, reasons: &[String]) -> String {
    if reasons.is_empty() { total.to_string() } else { format!("{total} ({})", reasons.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_v1model::DropReason;

    #[test]
    fn lines() {
        let drops = [(DropReason::Ingress, 2), (DropReason::QueueFull, 1)].into();
        let stats =
            Stats { received: 9, received_from_cpu: 1, transmitted: 5, to_cpu: 1, drops, ..Stats::default() };
        assert!(stats.is_conserved());
        assert_eq!(
            switch(&stats),
            "packets: received 9 (from the control plane 1), made 0; sent 5, to the control plane 1, consumed 0, \
             dropped 3 (ingress 2, queue_full 1), waiting 0"
        );
        #[allow(clippy::field_reassign_with_default, reason = "it has private fields")]
        let received = |rx_packets| {
            let mut counters = Counters::default();
            counters.rx_packets = rx_packets;
            counters
        };
        let shares = [vec![received(1), received(2)], vec![received(4), received(0)]];
        assert_eq!(workers(&shares), "workers: received 3, 4");
        assert_eq!(
            port(PortState { number: 3, carrier: true, lost: 0 }, "veth3", &Counters::default()),
            "port 3 (veth3): received 0 (0 bytes), sent 0 (0 bytes), dropped 0"
        );
        let lost = port(PortState { number: 3, carrier: true, lost: 2 }, "veth3", &Counters::default());
        assert!(lost.ends_with("dropped 0, link lost 2 times"), "{lost}");
    }
}
