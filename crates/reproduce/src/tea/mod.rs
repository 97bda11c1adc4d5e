//! Chapter 3 of D. Kim's thesis (TEA): tables in the memory of servers, with our library and tables.

mod adapter;
mod bytes;
mod chip;
mod failover;
mod functions;
mod lab;
mod loss;
mod memory;
mod nat;
mod pairs;
mod regimes;
mod servers;

use crate::figure::{Figure, Quantity};
use pointsman_lab::load::nearest_rank;
use pointsman_remote::Scratchpads;

const RATE: Quantity =
    Quantity { name: "rate", unit: "m_per_s", label: "look-ups, millions a second", log: false };

/// Layouts of the servers' memory, and what `pointsman tea --layout` calls them.
const LAYOUTS: [(Scratchpads, &str); 2] = [(Scratchpads::Ring, "ring"), (Scratchpads::Inline, "inline")];
/// Places in [`LAYOUTS`].
const RING: usize = 0;
const INLINE: usize = 1;

/// A percentile of values in ascending order.
fn percentile(ascending: &[f64], percent: usize) -> f64 {
    nearest_rank(ascending, percent as f64).unwrap_or(f64::NAN)
}

/// In the order of the thesis, and three of our own.
pub const FIGURES: &[Figure] = &[
    regimes::TABLE,
    memory::BYTES,
    memory::COLLISIONS,
    adapter::FIGURE,
    servers::FIGURE,
    failover::FIGURE,
    functions::FIGURE,
    nat::FIGURE,
    chip::TABLE,
    bytes::FIGURE,
    pairs::FIGURE,
    loss::FIGURE,
];
