//! Counters in servers' memory, with the compiled programs and everything that goes wrong on links.

mod counters;
mod world;
