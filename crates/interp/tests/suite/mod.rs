//! The required behaviour of every executor. The module above names the executor (`Tested`).

mod calls;
mod controls;
mod expressions;
mod fields;
pub mod fuzz;
mod parsers;
