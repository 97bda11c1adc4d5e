//! Paths at random: for each flowlet (LetFlow), or for each packet.

use crate::paths::{ECN, GAP, HASH, HOLD, MAXIMUM_PATHS, Tables, routing, ticks};
use crate::scheme::{Scheme, no_generators, one_queue};

/// Each flowlet takes a random path. LetFlow (NSDI 2017) recommends gaps of several round-trip times.
pub const LETFLOW: Scheme = Scheme {
    name: "letflow",
    says: "each flowlet takes a random one of the shortest paths",
    program: include_str!("../../../p4/programs/letflow/main.p4"),
    settings: &[ECN, HASH, GAP, HOLD, MAXIMUM_PATHS],
    climbs: false,
    ordered: &[],
    instead: &[],
    entities: |place| {
        let mut tables = Tables::new(place, "LetflowIngress")?;
        tables.default("flowlet_config", "set_gap", &[("gap", ticks(place.choice.setting(GAP.name)))])?;
        tables.notices()?;
        tables.finish()
    },
    generators: no_generators,
    reporting: None,
    queues: one_queue,
    tallies: &[],
};

/// Each packet takes a random path.
pub const SPRAY: Scheme = Scheme {
    name: "spray",
    says: "each packet takes a random one of the shortest paths",
    program: include_str!("../../../p4/programs/spray/main.p4"),
    settings: &[ECN, HASH, HOLD, MAXIMUM_PATHS],
    climbs: false,
    ordered: &[],
    instead: &[],
    entities: |place| routing(place, "SprayIngress"),
    generators: no_generators,
    reporting: None,
    queues: one_queue,
    tallies: &[],
};
