//! Capture files: writing pcap, reading pcap and pcapng, and a port that replays them.
//!
//! Files are written as classic pcap with nanosecond time stamps, which tcpdump and Wireshark read
//! (draft-ietf-opsawg-pcap). Reading also takes microseconds, the other byte order, and pcapng
//! (draft-ietf-opsawg-pcapng), Wireshark's own format.

mod ng;
mod read;
mod replay;
mod write;

pub use read::{ReadError, Reader, Record};
pub use replay::{Pace, PcapPort};
pub(crate) use write::append_record;
pub use write::{Writer, file_name};

/// No frame of a capture is longer than this. It is the limit that libpcap uses, and more than any interface sends.
const MAX_FRAME_BYTES: usize = 262_144;

/// LINKTYPE_ETHERNET
const ETHERNET: u32 = 1;

/// First word of a file with microseconds, and with nanoseconds, in the byte order of its writer.
const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
