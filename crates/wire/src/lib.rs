//! What several crates need to write packets and to repeat runs, once: the Internet checksum, frames, MAC addresses,
//! random numbers, hashes, and text encodings.
//!
//! Checkers and `testkit` do not use it: their copies are independent of the code that they check.

#![forbid(unsafe_code)]

pub mod checksum;
pub mod frame;
mod mac;
pub mod random;
pub mod siphash;
pub mod text;

pub use mac::{Mac, MacError};
pub use random::Random;
