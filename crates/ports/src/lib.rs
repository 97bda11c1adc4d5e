//! Packets in and out: AF_XDP, AF_PACKET, tap, pcap, in-memory.
//!
//! A [`Port`] moves whole Ethernet frames in batches. It is independent of P4, switches and time: the caller
//! passes the time (`now_ns`) and owns the buffers (a [`FramePool`]). Callers always get complete,
//! ordinary packets: [`AfPacket`] finishes checksums that the kernel left to the hardware and cuts segmentation
//! super-frames, so that a program may rewrite headers with incremental checksums.
//!
//! | port | what it is |
//! |---|---|
//! | [`AfPacket`] | a Linux network interface, as root or rootless in a user namespace |
//! | [`AfXdp`] | the same, faster, as root; received frames do not reach the kernel's own network stack |
//! | [`Tap`] | a network interface that it creates, with the kernel at the other end |
//! | [`PcapPort`] | replays one capture file, records into another |
//! | [`MemoryPort`] | one end of a cable inside the process, for tests |
//! | [`Traced`] | any port, with everything that passes written to `<name>_in.pcap` and `<name>_out.pcap` |
//! | [`Faulty`] | any port, behind a cable that loses, doubles and reorders frames |
//!
//! [`open_interface`] chooses between the first two and reports how an interface is used. [`forward`] is the bare forwarder, a
//! switch without a program; [`LiveFrames`] the load to measure both with. A slower generator or a sink is a port in another
//! network namespace, used in batches.
//!
//! A forwarding loop waits with a [`Poller`], then, for each ready port, receives a batch and transmits it
//! ([`PollStrategy`] says when to look again instead of waiting):
//!
//! ```
//! use pointsman_ports::{FramePool, MemoryPort, Port, PortError};
//!
//! fn forward(now_ns: u64, from: &mut dyn Port, to: &mut dyn Port, pool: &mut FramePool) -> Result<(), PortError> {
//!     let mut frames = Vec::new();
//!     from.receive(now_ns, pool, &mut frames)?;
//!     to.transmit(now_ns, pool, &mut frames)?;
//!     to.discard(pool, &mut frames); // or keep them and wait until the port can take more
//!     Ok(())
//! }
//!
//! let mut pool = FramePool::default();
//! let (mut host_a, mut left) = MemoryPort::pair("host-a", "left", 64)?;
//! let (mut right, mut host_b) = MemoryPort::pair("right", "host-b", 64)?;
//! host_a.send(&[0xff; 60]);
//! forward(0, &mut left, &mut right, &mut pool)?;
//! assert_eq!(host_b.take(), [[0xff; 60]]);
//! # Ok::<(), PortError>(())
//! ```

mod af_packet;
mod af_xdp;
mod assembler;
mod btf;
mod counters;
mod error;
mod faulty;
mod forward;
mod frame;
mod generator;
mod join;
mod link;
mod link_state;
mod memory;
mod observer;
mod offload;
mod open;
pub mod pcap;
mod poll;
mod poller;
mod port;
mod shaping;
#[allow(unsafe_code)]
mod sys;
mod tap;
mod traced;

pub use af_packet::{AfPacket, AfPacketConfig};
pub use af_xdp::{AfXdp, AfXdpConfig, XdpMode};
pub use counters::{Counters, Direction, DropReason};
pub use error::PortError;
pub use faulty::{FaultConfig, Faults, Faulty};
pub use forward::forward;
pub use frame::{Frame, FramePool};
pub use generator::{LiveFrames, LiveFramesAccepted, LiveRun, accept_live_frames};
pub use link::LinkEvents;
pub use memory::MemoryPort;
pub use observer::{Observer, Way};
pub use open::{Want, mtu, open_interface, open_interface_shared};
pub use pcap::{Pace, PcapPort};
pub use poll::{PollMode, PollStrategy, Step};
pub use poller::{Poller, Ready, Waker};
pub use port::Port;
pub use sys::lower_priority;
pub use tap::Tap;
pub use traced::Traced;
