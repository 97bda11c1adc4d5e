//! RoCEv2, remote direct memory access over UDP (InfiniBand Architecture Specification 1.4, volume 1, and its annex A17): packets as
//! bytes, a responder, which reads and writes memory as requested, and a requester.
//!
//! [`Host`] is a server with memory: a [`Responder`] with ports, and the channel ([`setup`]) by which a controller gets queue pairs.
//! [`Channel`] is the server's side of the channel alone, for servers whose network adapter has the queue pairs.
//!
//! [`Responder`], [`Requester`] and [`Host`] are state machines: packets go in, packets come out. There are no sockets, threads or clocks here. Packets are data from
//! strangers: [`Packet::decode`] gives an error for everything that is malformed or has a wrong check value.
#![forbid(unsafe_code)]

mod adverse;
mod channel;
mod check;
mod host;
mod packet;
mod pair;
mod region;
mod requester;
mod responder;
pub mod setup;

pub use channel::{Channel, ChannelStats, Pairs, RequestError};
pub use check::check_value;
pub use host::{Host, HostConfig, HostError, HostStats};
pub use packet::{Atomic, Malformed, Opcode, PORT, Packet, Remote, Syndrome};
pub use region::{Region, RegionError, Rights};
pub use requester::{Failure, Operation, Requester, StartError, WINDOW};
pub use responder::{MAX_MESSAGE, Responder, SetupError, Stats};

/// Packet sequence numbers have 24 bits.
pub(crate) const PSN: u32 = 0xff_ffff;

/// How far `psn` is behind `other`, by serial arithmetic: less than 2^23 if it is later or equal.
pub(crate) fn ahead(psn: u32, other: u32) -> u32 {
    psn.wrapping_sub(other) & PSN
}
