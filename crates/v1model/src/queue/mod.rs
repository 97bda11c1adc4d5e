//! The egress queues of the traffic manager.

use crate::time::Time;
use std::collections::{BTreeMap, BinaryHeap};

/// Something per port: an array for the usual small numbers, a map for the others.
#[derive(Clone, Debug)]
pub(crate) struct PortMap<T> {
    low: Vec<T>,
    high: BTreeMap<u32, T>,
}

const LOW_PORTS: u32 = 1024;

impl<T> PortMap<T> {
    pub fn new() -> Self {
        PortMap { low: Vec::new(), high: BTreeMap::new() }
    }

    pub fn get(&self, port: u32) -> Option<&T> {
        if port < LOW_PORTS { self.low.get(port as usize) } else { self.high.get(&port) }
    }

    /// The data of `port`, made by `new` the first time.
    #[inline]
    pub fn get_mut(&mut self, port: u32, mut new: impl FnMut() -> T) -> &mut T {
        if port < LOW_PORTS {
            if self.low.len() <= port as usize {
                self.low.resize_with(port as usize + 1, &mut new);
            }
            &mut self.low[port as usize]
        } else {
            self.high.entry(port).or_insert_with(new)
        }
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.low.iter_mut().chain(self.high.values_mut())
    }
}

/// Depth and rate of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Packets that it holds.
    pub depth_packets: u32,
    /// Packets per second at which it is served; `None` for no limit.
    pub rate_pps: Option<u64>,
}

/// Counters of one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Packets in it now.
    pub queued: u32,
    /// Packets dropped because it was full.
    pub full: u64,
}

#[derive(Clone, Debug)]
struct Queue {
    config: QueueConfig,
    depth: u32,
    /// Packets dropped because it was full.
    full: u64,
    /// When the packet that was queued last may leave.
    last_send: Option<Time>,
    /// Billionths of a nanosecond per packet that did not make a whole nanosecond yet, times the rate.
    remainder: u64,
}

const SECOND_NS: u64 = 1_000_000_000;

impl Queue {
    /// When a packet that comes now may leave.
    fn schedule(&mut self, now: Time) -> Time {
        let Some(rate) = self.config.rate_pps.filter(|r| *r > 0) else { return now };
        let earliest = match self.last_send {
            None => now,
            Some(last) => {
                let (mut gap, rest) = (SECOND_NS / rate, SECOND_NS % rate);
                self.remainder += rest;
                if self.remainder >= rate {
                    self.remainder -= rate;
                    gap += 1;
                }
                last.plus_ns(gap)
            }
        };
        if earliest <= now {
            self.remainder = 0;
        }
        let at = earliest.max(now);
        self.last_send = Some(at);
        at
    }
}

#[derive(Debug)]
struct Waiting<P> {
    send: Time,
    seq: u64,
    port: u32,
    packet: P,
}

impl<P> PartialEq for Waiting<P> {
    fn eq(&self, o: &Self) -> bool {
        self.seq == o.seq
    }
}

impl<P> Eq for Waiting<P> {}

impl<P> PartialOrd for Waiting<P> {
    fn partial_cmp(&self, o: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(o))
    }
}

impl<P> Ord for Waiting<P> {
    /// Greatest is what leaves first: `BinaryHeap` gives the greatest.
    fn cmp(&self, o: &Self) -> std::cmp::Ordering {
        (o.send, o.seq).cmp(&(self.send, self.seq))
    }
}

/// A packet that leaves its queue.
#[derive(Debug)]
pub(crate) struct Departure<P> {
    pub port: u32,
    pub packet: P,
    /// Packets left in its queue.
    pub depth: u32,
}

/// All queues of all ports. Among packets that may leave, higher priority goes first, then earlier time, then first come.
#[derive(Debug)]
pub(crate) struct Queues<P> {
    /// By priority.
    waiting: Vec<BinaryHeap<Waiting<P>>>,
    queues: PortMap<Vec<Queue>>,
    default: QueueConfig,
    /// Some queue has, or had, a rate.
    limited: bool,
    seq: u64,
    len: u64,
}

impl<P> Queues<P> {
    pub fn new(priorities: u8, default: QueueConfig) -> Self {
        let waiting = (0..priorities.max(1)).map(|_| BinaryHeap::new()).collect();
        Queues {
            waiting,
            queues: PortMap::new(),
            limited: default.rate_pps.is_some(),
            default,
            seq: 0,
            len: 0,
        }
    }

    fn queue(&mut self, port: u32, priority: u8) -> (usize, &mut Queue) {
        let n = self.waiting.len();
        let at = usize::from(priority).min(n - 1);
        let config = self.default;
        let new = Queue { config, depth: 0, full: 0, last_send: None, remainder: 0 };
        let queues = self.queues.get_mut(port, || vec![new.clone(); n]);
        (at, &mut queues[at])
    }

    /// Packets in a queue; priorities that do not exist mean the highest.
    pub fn depth(&mut self, port: u32, priority: u8) -> u32 {
        self.queue(port, priority).1.depth
    }

    /// Whether a queue is full. Then it counts the packet as dropped.
    pub fn refuses(&mut self, port: u32, priority: u8) -> bool {
        let q = self.queue(port, priority).1;
        let full = q.depth >= q.config.depth_packets;
        q.full += u64::from(full);
        full
    }

    /// Counters of a queue.
    pub fn stats(&self, port: u32, priority: u8) -> QueueStats {
        let queue = self.queues.get(port).and_then(|q| q.get(usize::from(priority)));
        queue.map_or_else(QueueStats::default, |q| QueueStats { queued: q.depth, full: q.full })
    }

    /// Adds a packet to a queue that is not full.
    pub fn push(&mut self, now: Time, port: u32, priority: u8, packet: P) {
        self.seq += 1;
        self.len += 1;
        let seq = self.seq;
        let (at, queue) = self.queue(port, priority);
        queue.depth += 1;
        let send = queue.schedule(now);
        self.waiting[at].push(Waiting { send, seq, port, packet });
    }

    /// The next packet that may leave by now.
    pub fn pop(&mut self, now: Time) -> Option<Departure<P>> {
        for priority in (0..self.waiting.len()).rev() {
            if self.waiting[priority].peek().is_some_and(|w| w.send <= now)
                && let Some(w) = self.waiting[priority].pop()
            {
                self.len -= 1;
                let (_, queue) = self.queue(w.port, priority as u8);
                queue.depth -= 1;
                let depth = queue.depth;
                return Some(Departure { port: w.port, packet: w.packet, depth });
            }
        }
        None
    }

    /// When the next packet may leave.
    pub fn next(&self) -> Option<Time> {
        self.waiting.iter().filter_map(|h| h.peek().map(|w| w.send)).min()
    }

    /// Packets in all queues.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Nothing waits, and a packet that is pushed now may leave now.
    #[inline]
    pub fn are_open(&self) -> bool {
        self.len == 0 && !self.limited
    }

    /// Packets in the queues of `port`.
    pub fn port_len(&self, port: u32) -> u64 {
        self.queues.get(port).map_or(0, |q| q.iter().map(|q| u64::from(q.depth)).sum())
    }

    /// Depth and rate of a queue.
    pub fn config(&self, port: u32, priority: u8) -> QueueConfig {
        let queue = self.queues.get(port).and_then(|q| q.get(usize::from(priority)));
        queue.map_or(self.default, |q| q.config)
    }

    /// Configures one queue, or all queues of a port. Packets that wait already keep their times.
    pub fn configure(&mut self, port: u32, priority: Option<u8>, config: QueueConfig) {
        self.limited |= config.rate_pps.is_some();
        match priority {
            Some(p) => self.queue(port, p).1.config = config,
            None => {
                for p in 0..self.waiting.len() {
                    self.queue(port, p as u8).1.config = config;
                }
            }
        }
    }

    /// Configures all queues, also of ports that are added later.
    pub fn configure_all(&mut self, config: QueueConfig) {
        self.limited |= config.rate_pps.is_some();
        self.default = config;
        self.queues.values_mut().flatten().for_each(|q| q.config = config);
    }

    /// Queues with the same settings, empty.
    pub fn alike<Q>(&self) -> Queues<Q> {
        let empty = |q: &Queue| Queue { config: q.config, depth: 0, full: 0, last_send: None, remainder: 0 };
        let queues = PortMap {
            low: self.queues.low.iter().map(|q| q.iter().map(empty).collect()).collect(),
            high: self.queues.high.iter().map(|(p, q)| (*p, q.iter().map(empty).collect())).collect(),
        };
        let waiting = self.waiting.iter().map(|_| BinaryHeap::new()).collect();
        Queues { waiting, queues, default: self.default, limited: self.limited, seq: 0, len: 0 }
    }

    /// Takes every packet out.
    pub fn drain(&mut self) -> Vec<P> {
        self.queues.values_mut().flatten().for_each(|q| {
            q.depth = 0;
            q.last_send = None;
        });
        self.len = 0;
        self.waiting.iter_mut().flat_map(|h| std::mem::take(h).into_sorted_vec()).map(|w| w.packet).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(priorities: u8, rate_pps: Option<u64>) -> Queues<u32> {
        Queues::new(priorities, QueueConfig { depth_packets: 4, rate_pps })
    }

    #[test]
    fn unlimited_is_first_come_first_served() {
        let mut q = queues(1, None);
        for i in 0..3 {
            q.push(Time(5), 3 - i, 0, i);
        }
        let order: Vec<_> = std::iter::from_fn(|| q.pop(Time(5))).map(|d| (d.port, d.packet)).collect();
        assert_eq!(order, [(3, 0), (2, 1), (1, 2)]);
        assert_eq!(q.next(), None);
    }

    #[test]
    fn rate_spaces_departures_exactly() {
        let mut q = queues(1, Some(3));
        for i in 0..4 {
            assert!(!q.refuses(1, 0));
            q.push(Time(0), 1, 0, i);
        }
        assert!(q.refuses(1, 0) && !q.refuses(2, 0));
        assert_eq!(q.stats(1, 0), QueueStats { queued: 4, full: 1 });
        let mut times = Vec::new();
        while let Some(t) = q.next() {
            assert!(t == Time(0) || q.pop(Time(t.0 - 1)).is_none());
            let d = q.pop(t).unwrap();
            times.push((t.0, d.depth));
        }
        assert_eq!(times, [(0, 3), (333_333_333, 2), (666_666_666, 1), (1_000_000_000, 0)]);
        // After a pause the next one goes at once.
        q.push(Time(9_000_000_000), 1, 0, 9);
        assert_eq!(q.next(), Some(Time(9_000_000_000)));
    }

    #[test]
    fn higher_priority_first() {
        let mut q = queues(3, None);
        for (priority, packet) in [(0, 0), (1, 1), (2, 2), (7, 7), (0, 3)] {
            q.push(Time(0), 1, priority, packet);
        }
        assert_eq!(q.port_len(1), 5);
        let order: Vec<_> = std::iter::from_fn(|| q.pop(Time(0))).map(|d| d.packet).collect();
        assert_eq!(order, [2, 7, 1, 0, 3]);
    }

    #[test]
    fn ports_beyond_the_array() {
        let mut q = queues(1, None);
        q.configure(70_000, None, QueueConfig { depth_packets: 1, rate_pps: None });
        q.push(Time(0), 70_000, 0, 1);
        assert!(q.refuses(70_000, 0));
        assert_eq!(q.config(70_001, 0).depth_packets, 4);
        assert_eq!(q.drain(), [1]);
        assert_eq!((q.len(), q.port_len(70_000)), (0, 0));
    }
}
