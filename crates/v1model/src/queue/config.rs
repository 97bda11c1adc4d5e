//! Settings of the traffic manager.

/// Depth, rate and delay of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Packets that it holds.
    pub depth_packets: u32,
    /// Bytes that it holds; `None` for no limit.
    pub depth_bytes: Option<u64>,
    /// Packets per second at which it is served; `None` for no limit.
    pub rate_pps: Option<u64>,
    /// Nanoseconds for which it holds each packet at least.
    pub delay_ns: u64,
}

impl Default for QueueConfig {
    fn default() -> Self {
        QueueConfig { depth_packets: 64, depth_bytes: None, rate_pps: None, delay_ns: 0 }
    }
}

impl QueueConfig {
    /// It holds no packet longer than its port does.
    pub(super) fn is_prompt(&self) -> bool {
        self.rate_pps.is_none() && self.delay_ns == 0
    }
}

/// How fast a port sends. Its queues are served by strict priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRate {
    /// Bits per second on the wire.
    pub bits_per_s: u64,
    /// Bytes that the wire carries for each packet besides the packet.
    pub overhead_bytes: u32,
    /// Nanoseconds by which it may be ahead of its rate: as many packets as take this time leave at once. All packets of a batch come
    /// at the same time, so without it a switch that takes batches lets all but one of them wait.
    pub burst_ns: u64,
}

impl PortRate {
    /// Preamble, start of frame, checksum and gap (IEEE 802.3, clauses 3 and 4).
    pub const ETHERNET_OVERHEAD: u32 = 24;

    /// That of an Ethernet link, packet by packet.
    pub fn ethernet(bits_per_s: u64) -> PortRate {
        PortRate { bits_per_s, overhead_bytes: PortRate::ETHERNET_OVERHEAD, burst_ns: 0 }
    }
}

/// A buffer that all queues share. Each queue is limited to a percentage of the bytes that are free at the moment, so a few full
/// queues cannot use up the buffer (dynamic thresholds: Choudhury and Hahne, 1998).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedBuffer {
    /// Its size.
    pub bytes: u64,
    /// The percentage; 100 for as much as is free.
    pub threshold_percent: u32,
}

impl SharedBuffer {
    /// Whether a queue with `queued` bytes may take `more` while `used` bytes of all are taken.
    pub(super) fn admits(&self, used: u64, queued: u64, more: u64) -> bool {
        let free = self.bytes.saturating_sub(used);
        let threshold = u128::from(free) * u128::from(self.threshold_percent) / 100;
        more <= free && u128::from(queued + more) <= threshold
    }
}

/// A rate's clock: when what was sent is over. Fractions of nanoseconds add up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    pub free_ns: u64,
    /// Of a nanosecond, times the rate.
    remainder: u64,
}

/// A rate's clock at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PaceImage {
    pub left_ns: u64,
    /// Of a nanosecond, times the rate.
    pub remainder: u64,
}

impl Pace {
    /// What is sent next begins at this time, or as soon as what was sent before is over.
    pub fn begin(&mut self, at_ns: u64) {
        if self.free_ns < at_ns {
            *self = Pace { free_ns: at_ns, remainder: 0 };
        }
    }

    /// The time that is left until what was sent is over; `None` if it is.
    pub fn image(&self, now_ns: u64) -> Option<PaceImage> {
        let left_ns = self.free_ns.checked_sub(now_ns)?;
        (left_ns > 0 || self.remainder > 0).then_some(PaceImage { left_ns, remainder: self.remainder })
    }

    /// As an image shows it.
    pub fn of_image(now_ns: u64, image: PaceImage) -> Pace {
        Pace { free_ns: now_ns.saturating_add(image.left_ns), remainder: image.remainder }
    }

    /// Sends `amount` of something at `rate` a second.
    pub fn send(&mut self, amount: u64, rate: u64) {
        let rate = u128::from(rate.max(1));
        let total = u128::from(amount) * 1_000_000_000 + u128::from(self.remainder);
        self.free_ns = self.free_ns.saturating_add((total / rate) as u64);
        self.remainder = (total % rate) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_loses_no_fraction() {
        let mut pace = Pace::default();
        for _ in 0..3 {
            pace.begin(5);
            pace.send(1, 3);
        }
        assert_eq!(pace.free_ns, 1_000_000_005);
        // After a pause nothing is left over.
        pace.begin(2_000_000_000);
        pace.send(10, 1_000_000_000);
        assert_eq!(pace.free_ns, 2_000_000_010);
    }

    #[test]
    fn a_buffer_leaves_room_for_others() {
        let buffer = SharedBuffer { bytes: 1000, threshold_percent: 100 };
        assert!(buffer.admits(0, 0, 1000) && !buffer.admits(0, 0, 1001));
        assert!(buffer.admits(500, 400, 100) && !buffer.admits(500, 400, 101));
        let half = SharedBuffer { threshold_percent: 50, ..buffer };
        assert!(half.admits(0, 0, 500) && !half.admits(0, 0, 501));
        assert!(!SharedBuffer { threshold_percent: 800, ..buffer }.admits(990, 0, 20));
    }
}
