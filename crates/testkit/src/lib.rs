//! Tools for tests: frames with right checksums, programs on a switch in virtual time, packet tests written as text.

pub mod compile;
pub mod packet;
pub mod random;
pub mod rig;
pub mod stf;

pub use pointsman_stf::{Rig, entries};
