//! The integration tests of this crate: one program, because each costs a link. Every file here is a module of it.

mod client;
mod corpus;
mod editing;
mod half_typed;
mod navigation;
mod protocol;
