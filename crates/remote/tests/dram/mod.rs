//! Counters and packets in servers' memory, with the compiled programs and everything that goes wrong on links.

mod buffer;
mod counters;
mod world;
