//! The counters of a port.

/// Which way a frame was going, seen from the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the wire into the switch.
    Receive,
    /// From the switch onto the wire.
    Transmit,
}

/// Why a port dropped a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropReason {
    /// The kernel's receive buffer was full: frames arrive faster than they are taken.
    RxSocketFull,
    /// Longer than the port can receive, or cut short in a capture file.
    RxTruncated,
    /// Shorter than an Ethernet header.
    RxTooShort,
    /// The kernel's note about missing checksums or segmentation contradicts the frame.
    RxBadOffload,
    /// A super-frame of a kind that cannot be cut: tunnels, fragments, SCTP.
    RxUnsupportedOffload,
    /// Injected by [`Faulty`](crate::Faulty).
    RxInjected,
    /// Longer than the interface's MTU allows.
    TxTooLong,
    /// Shorter than an Ethernet header.
    TxTooShort,
    /// The interface was down or missing.
    TxLinkDown,
    /// The kernel, the device or its queueing discipline refused the frame.
    TxRefused,
    /// The port could not take more and the caller did not wait.
    TxQueueFull,
    /// Injected by [`Faulty`](crate::Faulty).
    TxInjected,
}

impl DropReason {
    /// Every reason, in the order in which they are shown.
    pub const ALL: [Self; 12] = [
        Self::RxSocketFull,
        Self::RxTruncated,
        Self::RxTooShort,
        Self::RxBadOffload,
        Self::RxUnsupportedOffload,
        Self::RxInjected,
        Self::TxTooLong,
        Self::TxTooShort,
        Self::TxLinkDown,
        Self::TxRefused,
        Self::TxQueueFull,
        Self::TxInjected,
    ];

    /// The name under which the reason is shown and exported.
    pub fn name(self) -> &'static str {
        match self {
            Self::RxSocketFull => "rx_socket_full",
            Self::RxTruncated => "rx_truncated",
            Self::RxTooShort => "rx_too_short",
            Self::RxBadOffload => "rx_bad_offload",
            Self::RxUnsupportedOffload => "rx_unsupported_offload",
            Self::RxInjected => "rx_injected",
            Self::TxTooLong => "tx_too_long",
            Self::TxTooShort => "tx_too_short",
            Self::TxLinkDown => "tx_link_down",
            Self::TxRefused => "tx_refused",
            Self::TxQueueFull => "tx_queue_full",
            Self::TxInjected => "tx_injected",
        }
    }

    /// The direction in which the frame was going.
    pub fn direction(self) -> Direction {
        if self < Self::TxTooLong { Direction::Receive } else { Direction::Transmit }
    }
}

/// Totals of one port. Bytes count whole frames without the frame check sequence. A super-frame counts as the
/// frames that it was cut into; dropped as a whole, it counts as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    drops: [u64; DropReason::ALL.len()],
}

impl Counters {
    /// Frames dropped for one reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    /// Every reason with its count, zeros included.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.into_iter().map(|reason| (reason, self.dropped(reason)))
    }

    /// Frames dropped in one direction.
    pub fn dropped_total(&self, direction: Direction) -> u64 {
        self.drops().filter(|(reason, _)| reason.direction() == direction).map(|(_, count)| count).sum()
    }

    /// Adds the totals of another port, such as one that shares the interface.
    pub fn add(&mut self, other: &Counters) {
        self.rx_packets += other.rx_packets;
        self.rx_bytes += other.rx_bytes;
        self.tx_packets += other.tx_packets;
        self.tx_bytes += other.tx_bytes;
        self.drops.iter_mut().zip(other.drops).for_each(|(sum, more)| *sum += more);
    }

    pub(crate) fn add_drops(&mut self, reason: DropReason, frames: u64) {
        self.drops[reason as usize] += frames;
    }

    pub(crate) fn add_received(&mut self, frames: &[Vec<u8>]) {
        self.rx_packets += frames.len() as u64;
        self.rx_bytes += total_bytes(frames);
    }

    pub(crate) fn add_sent(&mut self, frames: &[Vec<u8>]) {
        self.tx_packets += frames.len() as u64;
        self.tx_bytes += total_bytes(frames);
    }
}

fn total_bytes(frames: &[Vec<u8>]) -> u64 {
    frames.iter().map(|frame| frame.len() as u64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_listed_once_each_under_their_direction() {
        let mut counters = Counters::default();
        for (index, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index, "{} is out of place in ALL", reason.name());
            let prefix = if reason.direction() == Direction::Receive { "rx_" } else { "tx_" };
            assert!(reason.name().starts_with(prefix), "{}", reason.name());
            counters.add_drops(reason, 1 << index);
        }
        counters.add(&Counters { rx_packets: 1, rx_bytes: 2, tx_packets: 3, tx_bytes: 4, ..counters });
        assert_eq!(
            (counters.rx_packets, counters.rx_bytes, counters.tx_packets, counters.tx_bytes),
            (1, 2, 3, 4)
        );
        counters.drops.iter_mut().for_each(|n| *n /= 2);
        assert_eq!(counters.dropped(DropReason::RxTooShort), 4);
        assert_eq!(counters.dropped_total(Direction::Receive), 0b11_1111);
        assert_eq!(counters.dropped_total(Direction::Transmit), 0b1111_1100_0000);
    }
}
