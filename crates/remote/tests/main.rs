//! The table alone, and under look-ups of a switch.

mod changes;
mod lookups;
mod settled;
