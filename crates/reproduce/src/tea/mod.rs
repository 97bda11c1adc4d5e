//! Chapter 3 of D. Kim's thesis (TEA): tables in the memory of servers, with our library and tables.

mod chip;
mod memory;
mod servers;

use crate::figure::{Figure, Place};

/// In the order of the thesis.
pub const FIGURES: &[Figure] = &[
    memory::BYTES,
    memory::COLLISIONS,
    nowhere(
        "tea-fig-3.9",
        "Latency and rate of look-ups by size of packets",
        "a network adapter with the paper's times is needed, as a model; `pointsman tea` measures this machine",
    ),
    servers::FIGURE,
    nowhere(
        "tea-fig-3.11",
        "Look-ups while a server is lost, and while its link is full",
        "the meter for links that are full is not written yet; `pointsman tea --fault port` and `--fault hang` lose a server",
    ),
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
