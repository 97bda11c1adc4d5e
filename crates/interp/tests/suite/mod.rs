//! The required behaviour of every executor. The root of a test binary names the executor ([`crate::Tested`]).

mod calls;
mod controls;
mod expressions;
mod fields;
pub mod fuzz;
mod parsers;
