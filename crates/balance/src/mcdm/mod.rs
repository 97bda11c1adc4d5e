//! Decisions by many criteria: weights by the analytic hierarchy process ([`ahp`]), a ranking by PROMETHEE II ([`promethee`]), and
//! the module of a controller that asks Prometheus ([`prometheus`]) and names the best device ([`chooser`]).

pub mod ahp;
pub mod chooser;
pub mod promethee;
pub mod prometheus;
