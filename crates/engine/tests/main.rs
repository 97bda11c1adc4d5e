//! The integration tests of this crate: one program, because each costs a link. Every file here is a module of it.

mod executor;
mod meanings;
mod wide;
