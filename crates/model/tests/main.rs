//! The searching engine against an enumeration.

mod engine;
