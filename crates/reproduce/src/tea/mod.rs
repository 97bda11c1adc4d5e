//! Chapter 3 of D. Kim's thesis (TEA): tables in the memory of servers, with our library and tables.

mod adapter;
mod chip;
mod failover;
mod functions;
mod lab;
mod memory;
mod nat;
mod regimes;
mod servers;

use crate::figure::{Figure, Quantity};

const RATE: Quantity =
    Quantity { name: "rate", unit: "m_per_s", label: "look-ups, millions a second", log: false };

/// In the order of the thesis.
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
];
