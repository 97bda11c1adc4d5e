//! Our own scheme: two random uplinks for each packet, of which the less loaded one is taken, and two classes of packets. What `p4/programs/ours`
//! needs in its tables.

use crate::book::{UnknownName, exact};
use crate::conga::{AGE, PORT_BITS, UPLINKS, tau};
use crate::paths::{ECN, HASH, PAUSE, Tables, ticks};
use crate::scheme::{Place, Scheme, Setting, no_generators};
use crate::tiers::Tiers;
use pointsman_control::proto::p4rt::Entity;
use pointsman_topology::{End, SwitchId};
use std::collections::BTreeMap;

/// Two choices and two classes.
pub const SCHEME: Scheme = Scheme {
    name: "ours",
    says: "each packet takes the less loaded of two random uplinks, and the first bytes of flows are sent first",
    program: include_str!("../../../p4/programs/ours/main.p4"),
    settings: &[ECN, HASH, TAU, AGE, CLASS, PAUSE],
    climbs: true,
    ordered: &[],
    instead: &[],
    entities,
    generators: no_generators,
    reporting: None,
    queues: |choice| if choice.setting(CLASS.name) > 0.0 { 2 } else { 1 },
    tallies: &[],
};

const TAU: Setting = tau(32.0);

const CLASS: Setting = Setting::number(
    "class_kib",
    128.0,
    (0.0, 1e6),
    "KiB of a flow that are sent before the rest of other flows, from a queue of their own; 0: one class",
);

/// Bits of an uplink's number.
const NUMBER_BITS: usize = 3;

fn entities(place: &Place<'_>) -> Result<Vec<Entity>, UnknownName> {
    let Place { topology, switch, choice, .. } = *place;
    let tiers = Tiers::of(topology);
    let uplinks = |s: SwitchId| tiers.ports(topology, s).0.into_iter().take(UPLINKS).collect::<Vec<u16>>();
    let own = uplinks(switch);
    let mut tables = Tables::new(place, "OursIngress")?;
    let shift = ticks(choice.setting(TAU.name)).next_power_of_two().ilog2().clamp(8, 31);
    tables.default("load_config", "set_shift", &[("shift", shift.into())])?;
    let most = tiers.tors().iter().map(|s| uplinks(*s).len()).max().unwrap_or(0).max(1);
    let params = [
        ("leaf", tiers.number(switch).into()),
        ("uplinks", most as u128),
        ("ports", packed(own.iter().map(|p| u128::from(*p)), PORT_BITS)),
        ("max_age", ticks(choice.setting(AGE.name))),
    ];
    tables.default("leaf_config", "set_leaf", &params)?;
    tables.classes(choice.setting(CLASS.name))?;
    tables.lines()?;
    for (port, _, end) in topology.ports(switch) {
        if let End::Switch(..) = end {
            tables.known("fabric_ports", exact("port", port.into()))?;
        }
    }
    for leaf in (1..).zip(tiers.tors()).filter(|(_, s)| **s != switch).map(|(n, _)| n) {
        tables.known("leaves", exact("leaf", leaf))?;
    }
    let mut ways: BTreeMap<u32, Vec<u128>> = BTreeMap::new();
    for (leaf, port) in tiers.destinations(&mut tables)? {
        if let Some(uplink) = own.iter().position(|p| *p == port) {
            ways.entry(leaf).or_default().push(uplink as u128);
        }
    }
    for (leaf, uplinks) in ways {
        let params = [("ways", uplinks.len() as u128), ("numbers", packed(uplinks.into_iter(), NUMBER_BITS))];
        let does = tables.action("set_ways", &params)?;
        tables.entry("ways", &[exact("leaf", leaf)], does)?;
    }
    tables.finish()
}

/// Numbers of so many bits, the first in the lowest ones.
fn packed(numbers: impl DoubleEndedIterator<Item = u128>, bits: usize) -> u128 {
    numbers.rev().fold(0, |all, number| all << bits | number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::Choice;

    #[test]
    fn the_first_is_the_lowest() {
        assert_eq!(packed([3u128, 4].into_iter(), PORT_BITS), 3 | 4 << 9);
        assert_eq!(packed([0u128, 2, 3].into_iter(), NUMBER_BITS), 2 << 3 | 3 << 6);
        assert_eq!((SCHEME.queues)(&Choice::of(&SCHEME)), 2);
    }
}
