//! One direction of a link: a queue with tail drop in front of a wire with a rate and a delay.

use crate::packet::{Packet, is_marked, mark_congestion};
use crate::random::Stream;
use std::collections::VecDeque;

/// Bytes that a frame takes on an Ethernet in addition to itself: preamble, checksum and gap.
const OVERHEAD: u64 = 24;

/// The properties of a link. Both directions are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkModel {
    /// Bits per second; `None`: frames take no time.
    pub rate_bit_s: Option<f64>,
    /// Propagation.
    pub delay_ns: u64,
    /// Bytes that may wait, including the rest of the frame on the wire; more are dropped.
    pub queue_bytes: u64,
    /// A frame that meets more waiting bytes than this is marked, if its sender understands that.
    pub ecn_bytes: Option<u64>,
    /// Probability that a frame is lost on the wire.
    pub loss: f64,
}

impl Default for LinkModel {
    fn default() -> Self {
        LinkModel {
            rate_bit_s: Some(25e9),
            delay_ns: 1_000,
            queue_bytes: 512 << 10,
            ecn_bytes: None,
            loss: 0.0,
        }
    }
}

/// The fate of a link's frames. The rest are on their way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Frames sent.
    pub sent: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Those of them that were marked for congestion before.
    pub sent_marked: u64,
    /// Frames that arrived.
    pub delivered: u64,
    /// Dropped because the queue was full.
    pub full: u64,
    /// Lost on the wire.
    pub lost: u64,
    /// Sent, or on the wire, while the link was down.
    pub down: u64,
    /// Frames that were marked for congestion.
    pub marked: u64,
}

impl LinkCounts {
    /// Of these links together.
    pub fn of<'l>(links: impl IntoIterator<Item = &'l Link>) -> Self {
        let mut all = LinkCounts::default();
        links.into_iter().for_each(|link| all.add(&link.counts));
        all
    }

    /// Adds those of another direction or link.
    fn add(&mut self, o: &LinkCounts) {
        self.sent += o.sent;
        self.bytes += o.bytes;
        self.sent_marked += o.sent_marked;
        self.delivered += o.delivered;
        self.full += o.full;
        self.lost += o.lost;
        self.down += o.down;
        self.marked += o.marked;
    }
}

/// One direction of a link.
#[derive(Debug)]
pub struct Link {
    model: LinkModel,
    /// Picoseconds per byte.
    byte_ps: u64,
    /// When the wire is free, in picoseconds.
    free_ps: u64,
    wire: VecDeque<(u64, Packet)>,
    up: bool,
    /// Frames sent since the link went down, and when the last one was.
    refused: Option<(u64, u64)>,
    random: Stream,
    /// The fate of its frames.
    pub counts: LinkCounts,
}

impl Link {
    /// A link that is up and idle.
    pub fn new(model: &LinkModel, random: Stream) -> Self {
        let byte_ps = model.rate_bit_s.map_or(0, |r| (8e12 / r).round() as u64);
        Link {
            model: model.clone(),
            byte_ps,
            free_ps: 0,
            wire: VecDeque::new(),
            up: true,
            refused: None,
            random,
            counts: LinkCounts::default(),
        }
    }

    /// Sends a frame. `Ok`: if the wire was empty, when the frame arrives. `Err` returns the dropped frame.
    #[inline]
    pub fn send(&mut self, now: u64, mut packet: Packet) -> Result<Option<u64>, Packet> {
        self.counts.sent += 1;
        self.counts.bytes += packet.len() as u64;
        self.counts.sent_marked += u64::from(is_marked(&packet));
        if !self.up {
            self.counts.down += 1;
            let (before, _) = self.refused.unwrap_or_default();
            self.refused = Some((before + 1, now));
            return Err(packet);
        }
        let now_ps = now.saturating_mul(1000);
        let start = self.free_ps.max(now_ps);
        // If the wire is free, nothing waits.
        if start > now_ps
            && let Some(waiting) = (start - now_ps).checked_div(self.byte_ps)
        {
            if waiting > 0 && waiting + packet.len() as u64 > self.model.queue_bytes {
                self.counts.full += 1;
                return Err(packet);
            }
            if self.model.ecn_bytes.is_some_and(|limit| waiting > limit) && mark_congestion(&mut packet) {
                self.counts.marked += 1;
            }
        }
        self.free_ps = start + (packet.len() as u64 + OVERHEAD) * self.byte_ps;
        if self.random.happens(self.model.loss) {
            self.counts.lost += 1;
            return Err(packet);
        }
        let at = self.free_ps.div_ceil(1000) + self.model.delay_ns;
        self.wire.push_back((at, packet));
        Ok((self.wire.len() == 1).then_some(at))
    }

    /// When the last bit of all frames so far has left, in nanoseconds; 0 after the link went down.
    #[inline]
    pub fn busy_until(&self) -> u64 {
        self.free_ps.div_ceil(1000)
    }

    /// The frame that arrives now, and when the next one does.
    #[inline]
    pub fn arrive(&mut self) -> (Option<Packet>, Option<u64>) {
        let packet = self.wire.pop_front().map(|(_, packet)| packet);
        self.counts.delivered += u64::from(packet.is_some());
        (packet, self.wire.front().map(|(at, _)| *at))
    }

    /// The link goes up or down; frames on the wire are lost, and its queue with them. Callers waiting for an arrival have to
    /// forget it: the frames come back.
    pub fn set_up(&mut self, up: bool) -> VecDeque<(u64, Packet)> {
        if self.up != up {
            self.refused = None;
        }
        self.up = up;
        if up {
            return VecDeque::new();
        }
        self.free_ps = 0;
        self.counts.down += self.wire.len() as u64;
        std::mem::take(&mut self.wire)
    }

    /// Whether it is up.
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// Frames sent since the link went down, and when the last one was; `None`: none, or it is up.
    pub fn refused(&self) -> Option<(u64, u64)> {
        self.refused
    }

    /// When the first frame arrives.
    pub fn next_at(&self) -> Option<u64> {
        self.wire.front().map(|(at, _)| *at)
    }

    /// Frames on their way.
    pub fn frames(&self) -> impl Iterator<Item = &[u8]> {
        self.wire.iter().map(|(_, packet)| packet.as_slice())
    }

    /// How many these are.
    pub fn in_flight(&self) -> u64 {
        self.wire.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Part;

    fn link(model: LinkModel) -> Link {
        Link::new(&model, Stream::new(1, Part::Link, 0))
    }

    #[test]
    fn rate_delay_and_order() {
        // 8 Mbit/s is a byte in a microsecond.
        let mut l = link(LinkModel { rate_bit_s: Some(8e6), delay_ns: 500, ..LinkModel::default() });
        assert_eq!(l.send(0, vec![0; 76].into()), Ok(Some(100_500)));
        assert_eq!(l.send(10, vec![1; 76].into()), Ok(None));
        assert_eq!(l.arrive(), (Some(vec![0; 76].into()), Some(200_500)));
        assert_eq!(l.arrive(), (Some(vec![1; 76].into()), None));
        assert_eq!(l.send(300_000, vec![2; 76].into()), Ok(Some(400_500)));
    }

    #[test]
    fn tail_drop_and_marks() {
        let model = LinkModel {
            rate_bit_s: Some(8e6),
            queue_bytes: 250,
            ecn_bytes: Some(150),
            ..LinkModel::default()
        };
        let mut l = link(model);
        let mut packet = Packet::from(vec![0; 76]);
        packet[12..16].copy_from_slice(&[8, 0, 0x45, 2]);
        let sent: Vec<bool> = (0..4).map(|_| l.send(0, packet.clone()).is_ok()).collect();
        // Waiting: 0, 100, 200 bytes, then 300.
        assert_eq!(sent, [true, true, false, false]);
        assert_eq!((l.counts.full, l.counts.marked), (2, 0));
        assert!(l.send(30_000, packet).is_ok());
        assert_eq!(l.counts.marked, 1);
    }

    #[test]
    fn loss_and_failure() {
        let mut l = link(LinkModel { loss: 0.25, ..LinkModel::default() });
        for i in 0..10_000 {
            let _ = l.send(i * 1000, vec![0; 64].into());
        }
        assert!((2300..2700).contains(&l.counts.lost), "{:?}", l.counts);
        let on_wire = l.in_flight();
        assert_eq!(l.set_up(false).len() as u64, on_wire);
        assert!(l.send(1 << 40, vec![0; 64].into()).is_err());
        let c = l.counts;
        assert_eq!((c.down, c.sent), (on_wire + 1, c.delivered + c.lost + c.full + c.down));
        l.set_up(true);
        assert_eq!(l.next_at(), None);
    }

    #[test]
    fn no_frame_waits_for_those_that_a_failure_removed() {
        let mut l = link(LinkModel {
            rate_bit_s: Some(8e6),
            delay_ns: 500,
            queue_bytes: 350,
            ..LinkModel::default()
        });
        let sent: Vec<bool> = (0..5).map(|_| l.send(0, vec![0; 76].into()).is_ok()).collect();
        assert_eq!(sent, [true, true, true, false, false]);
        l.set_up(false);
        assert_eq!(l.busy_until(), 0);
        l.set_up(true);
        assert_eq!(l.send(1_000, vec![1; 76].into()), Ok(Some(101_500)));
        // A link that stays up keeps its queue.
        l.set_up(true);
        assert_eq!(l.send(1_000, vec![2; 76].into()), Ok(None));
        assert_eq!(l.busy_until(), 201_000);
    }
}
