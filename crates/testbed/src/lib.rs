//! Testbeds in virtual time. [`Testbed`] is RedPlane's (figure 5.9 of D. Kim's thesis): hosts at a core switch, two programmable switches that run compiled
//! programs with the library, and stores in racks: one store, or a chain of three. The programs, the store and the chain are those of
//! `pointsman switch` and `pointsman store`; the core and the switches of racks are delays.
#![forbid(unsafe_code)]

mod frames;
pub mod payloads;
mod program;
pub mod rnic;
mod stores;
pub mod tables;
mod times;
pub mod trace;
mod world;

pub use program::{App, Build, ProgramError};
pub use times::Times;
pub use world::{Bytes, Faults, Happened, Setup, Snapshots, Testbed, TestbedError};
