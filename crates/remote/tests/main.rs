//! The table alone, and under look-ups of a switch.

mod changes;
mod dram;
mod lookups;
mod routes;
mod settled;
mod switch;
