//! The searching engine against an enumeration, and RedPlane with and without its rules.

mod engine;
mod redplane;
mod values;
