//! Chapter 3 of D. Kim's thesis (TEA): tables in the memory of servers, with our library and tables.

mod adapter;
mod chip;
mod failover;
mod memory;
mod servers;

use crate::figure::{Figure, Place, Quantity};

const RATE: Quantity =
    Quantity { name: "rate", unit: "m_per_s", label: "look-ups, millions a second", log: false };

/// In the order of the thesis.
pub const FIGURES: &[Figure] = &[
    memory::BYTES,
    memory::COLLISIONS,
    adapter::FIGURE,
    servers::FIGURE,
    failover::FIGURE,
    nowhere(
        "tea-table-3.3",
        "Latency and rate of four network functions",
        "a switch chip and a network adapter are needed: a model would return the rates that it was given",
    ),
    chip::TABLE,
];

const fn nowhere(id: &'static str, title: &'static str, why: &'static str) -> Figure {
    Figure {
        id,
        title,
        source: "TEA, thesis section 3.5",
        place: Place::Nowhere(why),
        remarks: &[],
        claims: &[],
    }
}
