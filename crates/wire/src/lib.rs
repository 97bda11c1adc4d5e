//! What several crates need to write packets and to repeat runs, once: checksums, frames, MAC addresses,
//! random numbers, hashes, text encodings, and moments as text.
//!
//! Checkers and `testkit` do not use it: their copies are independent of the code that they check.

pub mod checksum;
pub mod crc;
pub mod frame;
mod mac;
pub mod random;
pub mod siphash;
pub mod text;
pub mod time;

pub use mac::{Mac, MacError};
pub use random::Random;
