//! The results of a run from what switches counted and hosts saw.

use super::hosts::Seen;
use pointsman_net::PortCounts;
use pointsman_ports::Direction;
use pointsman_sim::check::{Law, Violations};
use pointsman_sim::link::LinkCounts;
use pointsman_sim::network::Timeline;
use pointsman_sim::network::{
    ControlCounts, Distances, Fabric, NetworkOutcome, NetworkScenario, Port, uplink_ports,
};
use pointsman_topology::{End, LinkId, SwitchId, Topology};
use pointsman_v1model::Stats;
use std::collections::{BTreeMap, BTreeSet};

/// Counters of all switches at one point in time.
pub(super) struct Counters {
    /// By switch.
    pub stats: Vec<Stats>,
    pub ports: BTreeMap<Port, pointsman_ports::Counters>,
    /// Packets that found the queue of a port full.
    pub full: BTreeMap<Port, u64>,
    /// Updates that the controller has sent to switches.
    pub writes: u64,
}

/// What a port has counted since `before`: packets, bytes sent; packets received; packets that its driver or its queue dropped.
fn since(before: &Counters, now: &Counters, port: Port) -> (u64, u64, u64, u64) {
    let of = |c: &Counters| {
        let full = c.full.get(&port).copied().unwrap_or(0);
        c.ports.get(&port).map_or((0, 0, 0, full), |c| {
            (c.tx_packets, c.tx_bytes, c.rx_packets, c.dropped_total(Direction::Transmit) + full)
        })
    };
    let (a, b) = (of(before), of(now));
    (b.0 - a.0, b.1 - a.1, b.2 - a.2, b.3 - a.3)
}

/// What all switches together have counted.
#[derive(Default)]
struct Sums {
    received: u64,
    to_cpu: u64,
    recirculated: u64,
    drops: BTreeMap<String, u64>,
}

/// Sums over all switches, each of which has to account for all of its packets.
fn sums(topology: &Topology, before: &Counters, now: &Counters, violations: &mut Violations) -> Sums {
    let mut all = Sums::default();
    for (switch, (a, b)) in topology.switches().iter().zip(before.stats.iter().zip(&now.stats)) {
        all.received += b.received - a.received;
        all.to_cpu += b.to_cpu - a.to_cpu;
        all.recirculated += b.recirculated - a.recirculated;
        if !b.is_conserved() {
            violations
                .add(Law::Packets, 0, || format!("{} does not account for all packets: {b:?}", switch.name));
        }
        for (reason, n) in &b.drops {
            *all.drops.entry(reason.name().to_string()).or_default() += n - a.drops.get(reason).unwrap_or(&0);
        }
    }
    all.drops.retain(|_, n| *n > 0);
    all
}

pub(super) fn outcome(
    scenario: &NetworkScenario,
    seed: u64,
    seen: Seen,
    (before, now): (&Counters, &Counters),
    cut: &BTreeSet<LinkId>,
    spread_percent: Option<f64>,
) -> NetworkOutcome {
    let topology = &scenario.topology;
    let mut violations = Violations::default();
    let sums = sums(topology, before, now, &mut violations);
    let (on_links, from_hosts) = links(topology, (before, now), cut, &mut violations);
    let cut_host = topology
        .links()
        .iter()
        .zip(0..)
        .any(|(l, id)| cut.contains(&LinkId(id)) && l.ends.iter().any(|end| matches!(end, End::Host(_))));
    if let Some(sent) = seen.sent.filter(|sent| *sent != from_hosts && !cut_host) {
        violations
            .add(Law::Packets, 0, || format!("hosts sent {sent} packets, switches received {from_hosts}"));
    }
    loops(scenario, &seen, from_hosts, sums.received, &mut violations);
    if seen.wrong > 0 {
        violations.add(Law::Translation, 0, || format!("{} wrong answers", seen.wrong));
    }
    let count = |port: Port| {
        let (packets, bytes, _, drops) = since(before, now, port);
        PortCounts { packets, bytes, drops, marks: 0 }
    };
    let switches = (0..).map(SwitchId).zip(topology.switches()).map(|(id, switch)| {
        let ports = topology.ports(id).map(|(port, ..)| (port, count((id, port))));
        (switch.name.clone(), ports.collect())
    });
    let control = ControlCounts {
        events: sums.to_cpu,
        writes: now.writes - before.writes,
        recirculated: sums.recirculated,
        // Counters of programs are not read in the lab.
        tallies: BTreeMap::new(),
    };
    let fabric = seen.flows.map(|flows| Fabric {
        scheme: scenario.choice.scheme.name.into(),
        rate_control: scenario.choice.rate_control().into(),
        flows,
        uplinks: uplink_ports(topology).into_iter().map(|port| (port, count(port))).collect(),
        control,
        timeline: Timeline::default(),
    });
    NetworkOutcome {
        scenario: scenario.name.clone(),
        point: scenario.point.clone(),
        seed,
        fingerprint: String::new(),
        packets: sums.received,
        wall_s: 0.0,
        virtual_s: scenario.duration_ns as f64 / 1e9,
        requests: seen.requests,
        latency: seen.latency,
        drops: sums.drops,
        on_links,
        strays: seen.wrong,
        fabric,
        switches: switches.collect(),
        spread_percent,
        violations,
    }
}

/// No packet passes more switches than the longest shortest path has. Hosts may see how many those that arrive have passed. All others
/// entered no more switches each than that, or switches have received too many packets (unless switches generate packets too).
fn loops(
    scenario: &NetworkScenario,
    seen: &Seen,
    from_hosts: u64,
    received: u64,
    violations: &mut Violations,
) {
    let (topology, choice) = (&scenario.topology, &scenario.choice);
    let longest = u64::from(Distances::new(topology).longest());
    let (mut arrived, mut entered) = (0, 0);
    for (switches, n) in seen.passed.iter().map(|(switches, n)| (u64::from(*switches), *n)) {
        arrived += n;
        entered += n * switches;
        if switches > longest {
            violations.add(Law::Loops, 0, || {
                format!("{n} packets passed {switches} switches, not at most {longest}")
            });
        }
    }
    let others = from_hosts.saturating_sub(arrived);
    let mut switches = (0..topology.switches().len() as u32).map(SwitchId);
    let generated = switches.any(|s| !(choice.scheme.generators)(topology, s, choice).is_empty());
    if !generated && received > entered + others * longest {
        violations.add(Law::Loops, 0, || {
            format!("switches received {received} packets: {entered} times {arrived} packets, and the other {others} too often")
        });
    }
}

/// The fate of frames on links, and the number of packets from hosts. What a switch sends on a link that was never cut arrives.
fn links(
    topology: &Topology,
    (before, now): (&Counters, &Counters),
    cut: &BTreeSet<LinkId>,
    violations: &mut Violations,
) -> (LinkCounts, u64) {
    let mut all = LinkCounts::default();
    let mut from_hosts = 0;
    for (id, link) in (0..).map(LinkId).zip(topology.links()) {
        match link.ends {
            [End::Switch(a, p), End::Switch(b, q)] => {
                for (from, to) in [((a, p), (b, q)), ((b, q), (a, p))] {
                    let (sent, arrived) = (since(before, now, from).0, since(before, now, to).2);
                    all.sent += sent;
                    all.delivered += arrived;
                    let missing = sent.saturating_sub(arrived);
                    if cut.contains(&id) {
                        all.down += missing;
                        continue;
                    }
                    all.lost += missing;
                    if sent != arrived {
                        violations.add(Law::Packets, 0, || {
                            format!("link {}: {sent} packets sent, {arrived} received", link.name)
                        });
                    }
                }
            }
            [End::Switch(s, port), End::Host(_)] | [End::Host(_), End::Switch(s, port)] => {
                from_hosts += since(before, now, (s, port)).2;
            }
            [End::Host(_), End::Host(_)] => {}
        }
    }
    (all, from_hosts)
}
