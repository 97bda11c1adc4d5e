//! Routing over equal-cost paths: what `p4/programs/ecmp` needs in its tables.

use crate::paths::{ECN, HASH, HOLD, MAXIMUM_PATHS, routing};
use crate::scheme::{Scheme, no_generators, one_queue};

/// Flows spread by a hash over equal-cost paths.
pub const SCHEME: Scheme = Scheme {
    name: "ecmp",
    says: "a hash of the flow chooses among the shortest paths",
    program: include_str!("../../../p4/programs/ecmp/main.p4"),
    settings: &[ECN, HASH, HOLD, MAXIMUM_PATHS],
    climbs: false,
    ordered: &[],
    instead: &[],
    entities: |place| routing(place, "EcmpIngress"),
    generators: no_generators,
    reporting: None,
    queues: one_queue,
    tallies: &[],
};
