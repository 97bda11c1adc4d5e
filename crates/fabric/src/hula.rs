//! HULA (Katta et al., SOSR 2016): what `p4/programs/hula` needs in its tables.

use crate::book::{UnknownName, exact};
use crate::paths::{ECN, GAP, HASH, Tables, ticks};
use crate::scheme::{Choice, Place, Scheme, Setting, one_queue};
use crate::tally::{Quantity, Tally};
use crate::tiers::Tiers;
use pointsman_control::proto::p4rt::Entity;
use pointsman_topology::{End, HostId, Link, SwitchId, Topology};
use pointsman_v1model::{Generator, Trigger};
use std::collections::BTreeSet;

/// Probes hop by hop; flowlets take the best next hop.
pub const SCHEME: Scheme = Scheme {
    name: "hula",
    says: "probes find the least busy path to each switch with hosts, and flowlets take it",
    program: include_str!("../../../p4/programs/hula/main.p4"),
    settings: &[ECN, HASH, GAP, PERIOD, OVERHEAD, PROBES],
    climbs: true,
    ordered: &[],
    instead: &[(OVERHEAD.name, PERIOD.name)],
    entities,
    generators,
    reporting: None,
    queues: one_queue,
    tallies: &[Tally { quantity: Quantity::ProbeBytes, counter: "HulaEgress.probes", index: 0 }],
};

const PERIOD: Setting = Setting::number(
    "probe_period_us",
    200.0,
    PERIODS_US,
    "microseconds between two probes of a switch with hosts; a path without one for three of them is not taken",
);

const OVERHEAD: Setting = Setting::number(
    "overhead_percent",
    0.0,
    (0.0, 50.0),
    "per cent of the slowest line between switches that probes may take, which sets the period: at least 1 us, at most 1 s; 0: \
     `probe_period_us` does",
);

const PERIODS_US: (f64, f64) = (1.0, 1e6);

/// With `own`, generators of a switch with hosts make probes of all others that seem to come in through its uplinks: they find these lines busy or idle,
/// and nothing of what is behind them.
const PROBES: Setting = Setting::names(
    "probes",
    &["network", "own"],
    "the source of utilisations: probes through the network, or a switch's own uplinks alone, for comparison",
);

/// The generator's packets come in as from this port, which no link has.
const GENERATOR_PORT: u16 = 0;
const ETHERTYPE: u16 = 0x88b5;
/// To the next switch and no further (IEEE 802.1Q, table 8-1).
const NEXT_SWITCH: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e];
/// Without the frame's checksum.
const PROBE_BYTES: usize = 60;
const CHECKSUM_BYTES: usize = 4;
/// Periods without a probe after which a best hop is none.
const AGE_PERIODS: f64 = 3.0;

/// Microseconds between two probes of a switch.
fn period_us(topology: &Topology, choice: &Choice) -> f64 {
    let share = choice.setting(OVERHEAD.name) / 100.0;
    let between = |l: &&Link| l.ends.iter().all(|end| matches!(end, End::Switch(..)));
    let slowest = topology.links().iter().filter(between).map(|l| l.line.bits_per_s).min();
    match slowest {
        Some(bits_per_s) if share > 0.0 => {
            // A probe of each switch with hosts passes each line.
            let bits = ((PROBE_BYTES + CHECKSUM_BYTES) * 8 * Tiers::of(topology).tors().len()) as f64;
            (bits / (share * bits_per_s as f64) * 1e6).clamp(PERIODS_US.0, PERIODS_US.1)
        }
        _ => choice.setting(PERIOD.name),
    }
}

fn entities(place: &Place<'_>) -> Result<Vec<Entity>, UnknownName> {
    let Place { topology, routes, switch, choice, .. } = *place;
    let tiers = Tiers::of(topology);
    let (up, down) = tiers.ports(topology, switch);
    let mut tables = Tables::new(place, "HulaIngress")?;
    let period = period_us(topology, choice);
    tables.default("flowlet_config", "set_gap", &[("gap", ticks(choice.setting(GAP.name)))])?;
    tables.default("probe_config", "set_age", &[("max_age", ticks(AGE_PERIODS * period))])?;
    // Load is measured over two periods or more.
    let shift = ticks(2.0 * period).next_power_of_two().ilog2().clamp(8, 31);
    tables.default("load_config", "set_shift", &[("shift", shift.into())])?;
    tables.lines()?;
    // Probes are repeated only where packets could come back.
    let hosts = || (0..topology.hosts().len() as u32).map(HostId);
    let live: BTreeSet<u16> = hosts().flat_map(|h| routes.ports(switch, h)).copied().collect();
    let mut repeat = |port: u16, from: &[u16]| {
        let on: Vec<u16> = from.iter().copied().filter(|p| *p != port && live.contains(p)).collect();
        let group = if on.is_empty() { 0 } else { port + 1 };
        if group != 0 {
            tables.multicast(group, &on);
        }
        let does = tables.action("accept_probe", &[("group", group.into())])?;
        tables.entry("probe_ports", &[exact("port", port.into())], does)
    };
    let both: Vec<u16> = up.iter().chain(&down).copied().collect();
    up.iter().try_for_each(|port| repeat(*port, &down))?;
    down.iter().try_for_each(|port| repeat(*port, &both))?;
    let own = tiers.number(switch);
    if own != 0 {
        repeat(GENERATOR_PORT, &up)?;
    }
    for tor in (1..).zip(tiers.tors()).filter(|(_, s)| **s != switch).map(|(n, _)| n) {
        tables.known("probe_tors", exact("tor", tor))?;
    }
    tiers.destinations(&mut tables)?;
    tables.finish()
}

fn generators(topology: &Topology, switch: SwitchId, choice: &Choice) -> Vec<(u16, Generator)> {
    let tiers = Tiers::of(topology);
    let tor = tiers.number(switch);
    if tor == 0 {
        return Vec::new();
    }
    let mac = topology.switches()[switch.0 as usize].mac;
    let trigger = Trigger::Period((period_us(topology, choice) * 1e3).round() as u64);
    let probe = |tor: u32, port: u16| {
        let mut template =
            [&NEXT_SWITCH[..], &mac, &ETHERTYPE.to_be_bytes(), &tor.to_be_bytes()[1..]].concat();
        template.resize(PROBE_BYTES, 0);
        Generator { trigger, packets: 1, port: port.into(), header: false, template }
    };
    if choice.place_of(PROBES.name) == 0 {
        return vec![(1, probe(tor, GENERATOR_PORT))];
    }
    let (up, _) = tiers.ports(topology, switch);
    let others = (1..=tiers.tors().len() as u32).filter(|other| *other != tor);
    let probes = others.flat_map(|other| up.iter().map(move |port| (other, *port)));
    // In two rounds: that the best port has become busier is known only after its own probe. If a huge network needs more generators than there are,
    // the last ToRs have none, and routes decide.
    let rounds = [(); 2].iter().flat_map(|()| probes.clone());
    (1..=u16::MAX).zip(rounds.map(|(other, port)| probe(other, port))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_topology::reader::{Problems, Table};
    use pointsman_topology::{LeafSpine, Line};

    fn network(leaves: u32, bits_per_s: u64) -> Topology {
        let fabric_line = Line { bits_per_s, ..Line::default() };
        let host_line = Line { bits_per_s: 1_000_000, ..Line::default() };
        let network = LeafSpine { leaves, spines: 2, hosts_per_leaf: 2, host_line, fabric_line };
        network.build().expect("a network")
    }

    fn choice(settings: &str) -> Choice {
        let text = format!("name = \"hula\"\n{settings}");
        let mut problems = Problems::new("test", &text);
        let document = problems.parse().expect("TOML");
        let choice = Choice::read(Table::top(&document), &mut problems).expect("a scheme");
        assert_eq!(problems.count(), 0, "{text}");
        choice
    }

    fn period(leaves: u32, bits_per_s: u64, settings: &str) -> f64 {
        period_us(&network(leaves, bits_per_s), &choice(settings))
    }

    #[test]
    fn own_probes_are_of_all_others_through_all_uplinks() {
        let topology = network(3, 1_000_000_000);
        let probes = |choice: &Choice, switch| -> Vec<(u32, u8)> {
            let made = generators(&topology, SwitchId(switch), choice);
            made.iter().map(|(_, g)| (g.port, g.template[16])).collect()
        };
        assert_eq!(probes(&choice(""), 1), [(0, 2)]);
        let own = choice("probes = \"own\"");
        let round = [(3, 1), (4, 1), (3, 3), (4, 3)];
        assert_eq!(probes(&own, 1), [round, round].concat());
        assert_eq!(probes(&own, 3), [], "a spine");
    }

    #[test]
    fn the_period_follows_from_the_overhead() {
        assert_eq!(period(4, 10_000_000_000, ""), 200.0);
        // As in the README: 1.28 per cent of 40 Gbit/s for 1,000 ToRs and 1 ms; so many ToRs are 40 times as fast.
        assert_eq!(period(25, 40_000_000_000, "overhead_percent = 1.28").round(), 25.0);
        assert_eq!(period(4, 10_000_000_000, "overhead_percent = 0"), 200.0);
        assert_eq!(period(2, 1_000_000_000_000, "overhead_percent = 50"), 1.0);
        assert_eq!(period(2, 1_000, "overhead_percent = 0.1"), 1e6);
    }
}
