//! The searching engine against an enumeration, and RedPlane with and without its rules.

mod command;
mod engine;
mod redplane;
mod values;
