//! P4Info and P4Runtime as pure functions over a switch.

pub mod proto;
