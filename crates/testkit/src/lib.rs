//! Tools for tests: frames with right checksums, programs on a switch in virtual time, packet tests written as text.

#![forbid(unsafe_code)]

pub mod compile;
pub mod differential;
mod error;
pub mod generate;
pub mod packet;
pub mod random;
pub mod reference;
pub mod rig;
pub mod stf;
pub mod ways;

pub use error::ProgramError;
pub use pointsman_stf::{Rig, entries};
