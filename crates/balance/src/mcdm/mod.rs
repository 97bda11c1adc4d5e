//! Decisions by many criteria: the module of a controller that asks Prometheus ([`prometheus`]) and names the best device
//! ([`chooser`]).

pub mod chooser;
pub mod prometheus;

pub(crate) use pointsman_decide::{ahp, promethee};
