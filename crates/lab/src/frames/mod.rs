//! Packet rates: frames by the million from one namespace, counted in another.
//!
//! A [`Template`] makes frames of many flows; a [`Transmitter`] takes them to an interface, paced by [`generate`]; a
//! [`Sink`] counts them in the kernel, at a cost that is small and independent of the forwarder. [`loss_free`] searches
//! for the highest rate at which nothing is lost.
//!
//! A frame is UDP over IPv4 with correct checksums. Its payload begins with the fields used by the sink:
//!
//! | payload | bytes |
//! |---|---|
//! | magic `PMb1` | 4 |
//! | number of the probe, bit 15 set in frames whose latency is measured | 2 |
//! | number of the frame within the probe | 4 |
//! | time of sending, nanoseconds of the system's clock; zero if it is not measured | 8 |
//!
//! With Ethernet, IP and UDP headers that is 60 bytes, the shortest frame (64 with its frame check sequence).

mod generator;
mod search;
mod sink;
mod socket;
mod template;

pub use generator::{Offered, Pace, Plan, generate};
pub use search::{LossFree, LossRule, Probe, loss_free};
pub use sink::{Arrived, Sink};
pub use socket::PacketSender;
pub use template::{MIN_FRAME, Template};

use crate::error::Result;

/// Something that takes frames to a wire.
pub trait Transmitter {
    /// Sends consecutive frames of `length` bytes in `frames`; returns how many were taken. Those that
    /// were not are sent again.
    fn transmit(&mut self, frames: &[u8], length: usize) -> Result<usize>;
}
