//! HULA (Katta et al., SOSR 2016): what `p4/programs/hula` needs in its tables.

use crate::book::{UnknownName, exact};
use crate::paths::{ECN, GAP, HASH, Tables, ticks};
use crate::scheme::{Choice, Place, Scheme, Setting, one_queue};
use crate::tally::{Quantity, Tally};
use crate::tiers::Tiers;
use pointsman_control::proto::p4rt::Entity;
use pointsman_topology::{HostId, SwitchId, Topology};
use pointsman_v1model::{Generator, Trigger};
use std::collections::BTreeSet;

/// Probes hop by hop; flowlets take the best next hop.
pub const SCHEME: Scheme = Scheme {
    name: "hula",
    says: "probes find the least busy path to each switch with hosts, and flowlets take it",
    program: include_str!("../../../p4/programs/hula/main.p4"),
    settings: &[ECN, HASH, GAP, PERIOD],
    climbs: true,
    ordered: &[],
    entities,
    generators,
    reporting: None,
    queues: one_queue,
    tallies: &[Tally { quantity: Quantity::ProbeBytes, counter: "HulaEgress.probes", index: 0 }],
};

const PERIOD: Setting = Setting::number(
    "probe_period_us",
    200.0,
    (1.0, 1e6),
    "microseconds between two probes of a switch with hosts; a path without one for three of them is not taken",
);

/// The generator's packets come in as from this port, which no link has.
const GENERATOR_PORT: u16 = 0;
const ETHERTYPE: u16 = 0x88b5;
/// To the next switch and no further (IEEE 802.1Q, table 8-1).
const NEXT_SWITCH: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e];
/// A probe takes 64 bytes with the frame's checksum.
const PROBE_BYTES: usize = 60;
/// Periods without a probe after which a best hop is none.
const AGE_PERIODS: f64 = 3.0;

fn entities(place: &Place<'_>) -> Result<Vec<Entity>, UnknownName> {
    let Place { topology, routes, switch, choice, .. } = *place;
    let tiers = Tiers::of(topology);
    let (up, down) = tiers.ports(topology, switch);
    let mut tables = Tables::new(place, "HulaIngress")?;
    let period = choice.setting(PERIOD.name);
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
    let tor = Tiers::of(topology).number(switch);
    if tor == 0 {
        return Vec::new();
    }
    let own = topology.switches()[switch.0 as usize].mac;
    let mut template = [&NEXT_SWITCH[..], &own, &ETHERTYPE.to_be_bytes(), &tor.to_be_bytes()[1..]].concat();
    template.resize(PROBE_BYTES, 0);
    let period = Trigger::Period((choice.setting(PERIOD.name) * 1e3).round() as u64);
    let port = GENERATOR_PORT.into();
    vec![(1, Generator { trigger: period, packets: 1, port, header: false, template })]
}
