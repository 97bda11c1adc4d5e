//! TCP as a state machine: segments, time and commands in, segments out. No sockets, threads or clocks.
//!
//! Data is counted, not carried: a [`Connection`] is given the number of bytes to send, its segments have a length, and it reports
//! how many bytes have arrived in order. That is all a simulation needs, for many thousands of flows. [`Stream`] adds the
//! bytes, [`header`] the format of the wire, so that the same state machine talks to other hosts.
//!
//! | what | source |
//! |---|---|
//! | states, handshake, close, windows | RFC 9293; RFC 7323 (scale, timestamps, PAWS), RFC 5961 (challenge ACKs), RFC 1337 |
//! | retransmission | RFC 6298 (time-out), RFC 2018, 2883, 6675 (SACK), RFC 8985 (RACK-TLP); without SACK RFC 6582 (NewReno) |
//! | reductions | RFC 9937 (PRR); undone if spurious: RFC 3522, 3708, 4015 |
//! | congestion control | RFC 5681 with 3465 (Reno), RFC 9438 (CUBIC), RFC 8257 (DCTCP), RFC 6928, RFC 7661 |
//! | ECN | RFC 3168 |
//!
//! In one point it follows Linux instead: an ACK that acknowledges nothing new may not reduce the window (see the tests in
//! `tests/flow/hints.rs`). Not implemented: urgent data, Nagle's algorithm, keep-alive, fast open, path MTU discovery, HyStart, F-RTO, AccECN;
//! the time-out of 3 s after a lost SYN (RFC 6298, 5.7): it stays the initial one, which is a setting; the limit of one segment for each ACK in
//! slow start after a time-out (RFC 3465, section 2.3), which Linux does not have either.
//!
//! ```
//! use pointsman_transport::{Config, Connection, State};
//! use std::sync::Arc;
//!
//! let config = Arc::new(Config::default());
//! let mut client = Connection::connect(config.clone(), 0, 1000);
//! let syn = client.next_segment(0).expect("a SYN");
//! let mut server = Connection::accept(config, 0, 2000, &syn).expect("a SYN");
//! client.write(5000);
//! client.close();
//! server.close();
//! // A network without delay.
//! loop {
//!     let (to_client, to_server) = (server.next_segment(0), client.next_segment(0));
//!     to_client.iter().for_each(|s| drop(client.on_segment(0, s)));
//!     to_server.iter().for_each(|s| drop(server.on_segment(0, s)));
//!     if to_client.is_none() && to_server.is_none() {
//!         break;
//!     }
//! }
//! assert_eq!(server.take(), 5000);
//! assert!(server.peer_has_closed() && client.state() == State::TimeWait);
//! client.on_deadline(client.deadline().expect("the end of TIME_WAIT"));
//! assert_eq!(client.state(), State::Closed);
//! ```

#![forbid(unsafe_code)]

mod board;
mod config;
pub mod congestion;
mod connection;
pub mod header;
mod rack;
mod reassembly;
mod receiver;
mod rtt;
pub mod segment;
mod sender;
mod sequence;
mod stats;
mod stream;

pub use config::Config;
pub use congestion::Algorithm;
pub use connection::{Connection, End, State};
pub use receiver::Accepted;
pub use segment::{Ecn, Options, Sack, Segment, reset_for};
pub use stats::Stats;
pub use stream::Stream;
