//! What a connection has done.

/// Numbers of one end of a connection. Times are in nanoseconds, windows in bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Packets with data or FIN, sent again ones included. A train counts as its packets.
    pub segments: u64,
    /// Bytes sent, each once.
    pub bytes: u64,
    /// Packets sent again.
    pub retransmitted_segments: u32,
    /// Bytes sent again.
    pub retransmitted_bytes: u64,
    /// Expired retransmission timers, those of the handshake included.
    pub timeouts: u32,
    /// Recoveries from losses without a time-out.
    pub fast_recoveries: u32,
    /// Tail loss probes.
    pub probes: u32,
    /// Reductions that were undone, because nothing was lost.
    pub spurious: u32,
    /// Reports by the peer of data that has arrived twice.
    pub duplicates: u32,
    /// ACKs with ECE.
    pub marked_acks: u32,
    /// Received packets that queues had marked.
    pub marks: u32,
    /// Answers to segments that were not acceptable.
    pub challenges: u32,
    /// Smoothed round-trip time; 0 if there is none.
    pub srtt_ns: u64,
    /// Its mean deviation.
    pub rttvar_ns: u64,
    /// Least round-trip time, if there was one.
    pub min_rtt_ns: Option<u64>,
    /// The current time-out.
    pub rto_ns: u64,
    /// Congestion window.
    pub cwnd: u32,
    /// Slow-start threshold; `u32::MAX` before the first reduction.
    pub ssthresh: u32,
    /// The peer's window.
    pub peer_window: u32,
    /// DCTCP's estimate of the fraction of marked bytes.
    pub alpha: Option<f64>,
}
