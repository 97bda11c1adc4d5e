//! Settings of a connection's end.

use crate::congestion::Algorithm;

/// Nanoseconds of a millisecond.
const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

/// Settings of a connection's end. The defaults are close to Linux's.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Most bytes of data and options in a packet: the MTU without the fixed parts of IP and TCP headers. The peer's option
    /// may lower it.
    pub mss: u16,
    /// Congestion control.
    pub algorithm: Algorithm,
    /// Initial congestion window in segments (RFC 6928: 10).
    pub initial_window: u16,
    /// Most segments that one ACK adds to the window in slow start (RFC 3465's L; Linux has no limit).
    pub byte_counting_limit: u16,
    /// Whether the window falls back to the initial one after an idle time longer than RTO (RFC 5681, section 4.1).
    pub restart_after_idle: bool,
    /// Retransmission time-out before the first measurement (RFC 6298: 1 s).
    pub initial_rto_ns: u64,
    /// Least retransmission time-out (RFC 6298: 1 s; Linux: 200 ms).
    pub min_rto_ns: u64,
    /// Largest retransmission time-out, back-off included.
    pub max_rto_ns: u64,
    /// Clock granularity G in RFC 6298: least contribution of the variance.
    pub granularity_ns: u64,
    /// Whether to use timestamps (RFC 7323) if the peer does.
    pub timestamps: bool,
    /// Unit of the timestamps (RFC 7323: 1 ms to 1 s; less is of use in fast networks only).
    pub timestamp_unit_ns: u64,
    /// Whether to use SACK, and so RACK-TLP, if the peer does; otherwise NewReno (RFC 6582).
    pub sack: bool,
    /// Whether to use ECN if the peer does.
    pub ecn: bool,
    /// Bytes received and not taken, at most: the largest window. 1 GiB at most.
    pub receive_buffer: u32,
    /// Most separate ranges that are kept out of order.
    pub ranges: u16,
    /// An ACK after this many full segments (RFC 5681: 2).
    pub ack_every: u16,
    /// Longest time without an ACK for received data (RFC 5681: at most 500 ms).
    pub ack_delay_ns: u64,
    /// That many segments at the start are acknowledged at once.
    pub quick_acks: u16,
    /// How long the peer may delay its ACK of a single segment (RFC 8985's WCDelAckT).
    pub peer_ack_delay_ns: u64,
    /// Most full packets in one segment, as with TSO: see [`Segment::cut`](crate::Segment::cut).
    pub burst: u16,
    /// Time in TIME_WAIT.
    pub time_wait_ns: u64,
    /// Retransmissions of a SYN before giving up.
    pub syn_retries: u8,
    /// Time-outs in a row before giving up.
    pub retries: u8,
    /// Least time between two answers to segments without data that are not acceptable (RFC 5961, section 7).
    pub challenge_interval_ns: u64,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            mss: 1460,
            algorithm: Algorithm::Cubic,
            initial_window: 10,
            byte_counting_limit: 2,
            restart_after_idle: true,
            initial_rto_ns: SECOND,
            min_rto_ns: 200 * MS,
            max_rto_ns: 120 * SECOND,
            granularity_ns: MS,
            timestamps: true,
            timestamp_unit_ns: MS,
            sack: true,
            ecn: false,
            receive_buffer: 4 << 20,
            ranges: 1024,
            ack_every: 2,
            ack_delay_ns: 40 * MS,
            quick_acks: 16,
            peer_ack_delay_ns: 200 * MS,
            burst: 1,
            time_wait_ns: 60 * SECOND,
            syn_retries: 6,
            retries: 15,
            challenge_interval_ns: 500 * MS,
        }
    }
}

impl Config {
    /// The least scale with which the receive buffer fits the header's window field (RFC 7323, section 2.3).
    pub(crate) fn scale(&self) -> u8 {
        (0..14).find(|scale| self.receive_buffer >> scale <= u32::from(u16::MAX)).unwrap_or(14)
    }

    /// The time as a timestamp.
    #[inline]
    pub(crate) fn timestamp(&self, now: u64) -> u32 {
        // 0 is what a SYN echoes: the clock begins later.
        (now / self.timestamp_unit_ns.max(1)).wrapping_add(1) as u32
    }
}
