//! CONGA (Alizadeh et al., SIGCOMM 2014): what `p4/programs/conga` needs in its tables.

use crate::book::{UnknownName, exact};
use crate::paths::{ECN, GAP, HASH, HOLD, Tables, gap, ticks};
use crate::scheme::{Place, Scheme, Setting, no_generators, one_queue};
use crate::tiers::Tiers;
use pointsman_control::proto::p4rt::Entity;
use pointsman_topology::{End, SwitchId};
use std::collections::BTreeMap;

/// Leaves report to each other how loaded the paths between them are; flowlets take the least loaded one.
pub const SCHEME: Scheme = Scheme {
    name: "conga",
    says: "leaves report to each other how loaded the paths are, and flowlets take the least loaded uplink",
    program: include_str!("../../../p4/programs/conga/main.p4"),
    settings: &[ECN, HASH, gap(500.0), TAU, AGE, HOLD],
    climbs: true,
    ordered: &[],
    instead: &[],
    entities,
    generators: no_generators,
    reporting: None,
    queues: one_queue,
    tallies: &[],
};

const TAU: Setting = tau(160.0);

/// The time over which loads are measured, with this default.
pub(crate) const fn tau(default: f64) -> Setting {
    let says =
        "microseconds over which the load of a line is measured: the next power of two, in nanoseconds";
    Setting::number("tau_us", default, (1.0, 1e6), says)
}

/// How long reports count.
pub(crate) const AGE: Setting = Setting::number(
    "age_us",
    10_000.0,
    (1.0, 2e6),
    "microseconds after which the load that another leaf reported counts as 0",
);

/// Uplinks that a leaf chooses among; others are for packets without an overlay header.
pub(crate) const UPLINKS: usize = 8;
/// Bits of a port's number.
pub(crate) const PORT_BITS: usize = 9;

fn entities(place: &Place<'_>) -> Result<Vec<Entity>, UnknownName> {
    let Place { topology, switch, choice, .. } = *place;
    let tiers = Tiers::of(topology);
    let uplinks = |s: SwitchId| tiers.ports(topology, s).0.into_iter().take(UPLINKS).collect::<Vec<u16>>();
    let own = uplinks(switch);
    let mut tables = Tables::new(place, "CongaIngress")?;
    tables.default("flowlet_config", "set_gap", &[("gap", ticks(choice.setting(GAP.name)))])?;
    let shift = ticks(choice.setting(TAU.name)).next_power_of_two().ilog2().clamp(8, 31);
    tables.default("load_config", "set_shift", &[("shift", shift.into())])?;
    let ports = own.iter().rev().fold(0u128, |all, port| all << PORT_BITS | u128::from(*port));
    let most = tiers.tors().iter().map(|s| uplinks(*s).len()).max().unwrap_or(0).max(1);
    let params = [
        ("leaf", tiers.number(switch).into()),
        ("uplinks", most as u128),
        ("ports", ports),
        ("max_age", ticks(choice.setting(AGE.name))),
    ];
    tables.default("leaf_config", "set_leaf", &params)?;
    tables.lines()?;
    tables.notices()?;
    for (port, _, end) in topology.ports(switch) {
        if let End::Switch(..) = end {
            tables.known("fabric_ports", exact("port", port.into()))?;
        }
    }
    for leaf in (1..).zip(tiers.tors()).filter(|(_, s)| **s != switch).map(|(n, _)| n) {
        tables.known("leaves", exact("leaf", leaf))?;
    }
    let mut usable: BTreeMap<u32, u128> = BTreeMap::new();
    for (leaf, port) in tiers.destinations(&mut tables)? {
        if let Some(uplink) = own.iter().position(|p| *p == port) {
            *usable.entry(leaf).or_default() |= 1 << uplink;
        }
    }
    for (leaf, uplinks) in usable {
        let does = tables.action("set_usable", &[("uplinks", uplinks)])?;
        tables.entry("usable", &[exact("leaf", leaf)], does)?;
    }
    tables.finish()
}
