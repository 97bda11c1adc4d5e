//! The egress queues of the traffic manager.
//!
//! A packet may leave a queue as soon as the queue's own rate and delay allow it. Of a port without a rate, that is when it leaves,
//! highest priority first. A port with a rate in bits sends one packet after the other, by strict priority.

mod config;
mod image;
#[cfg(test)]
mod tests;

pub(crate) use self::config::{Pace, PaceImage};
pub use self::config::{PortRate, QueueConfig, SharedBuffer};
pub(crate) use self::image::{PortPaces, PortSettings, QueueSettings};
use crate::stats::QueueCounts;
use crate::time::{Time, earlier};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

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
    pub fn get_mut(&mut self, port: u32, new: impl FnMut() -> T) -> &mut T {
        let at = port as usize;
        if at < self.low.len() { &mut self.low[at] } else { self.made(port, new) }
    }

    #[inline(never)]
    fn made(&mut self, port: u32, new: impl FnMut() -> T) -> &mut T {
        if port >= LOW_PORTS {
            return self.high.entry(port).or_insert_with(new);
        }
        self.low.resize_with(port as usize + 1, new);
        &mut self.low[port as usize]
    }

    pub fn find_mut(&mut self, port: u32) -> Option<&mut T> {
        if port < LOW_PORTS { self.low.get_mut(port as usize) } else { self.high.get_mut(&port) }
    }

    /// The same for something else.
    pub fn map<U>(&self, mut f: impl FnMut(&T) -> U) -> PortMap<U> {
        let high = self.high.iter().map(|(port, t)| (*port, f(t))).collect();
        PortMap { low: self.low.iter().map(f).collect(), high }
    }

    /// All that exist, by port.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let low = self.low.iter().enumerate().map(|(port, t)| (port as u32, t));
        low.chain(self.high.iter().map(|(port, t)| (*port, t)))
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.low.iter_mut().chain(self.high.values_mut())
    }
}

/// Counters of one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct QueueStats {
    /// Packets in it now.
    queued: u32,
    /// Bytes in it now, as the packets came in.
    queued_bytes: u64,
    /// Packets that came into it, and that left it.
    enqueued: u64,
    dequeued: u64,
}

/// A packet in a queue.
#[derive(Debug)]
pub(crate) struct Waiting<P> {
    /// The queue lets it go.
    pub ready: Time,
    seq: u64,
    pub port: u32,
    bytes: u32,
    pub packet: P,
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
        (o.ready, o.seq).cmp(&(self.ready, self.seq))
    }
}

#[derive(Debug)]
struct Queue<P> {
    config: QueueConfig,
    stats: QueueStats,
    pace: Pace,
    /// The packets of a port with a rate. Others are in [`Queues::waiting`].
    packets: VecDeque<Waiting<P>>,
}

impl<P> Queue<P> {
    fn new(config: QueueConfig) -> Self {
        Queue { config, stats: QueueStats::default(), pace: Pace::default(), packets: VecDeque::new() }
    }

    /// When a packet that comes now may leave.
    fn ready(&mut self, now: Time) -> Time {
        let held = now.plus_ns(self.config.delay_ns);
        let Some(rate) = self.config.rate_pps else { return held };
        self.pace.begin(held.0);
        let at = Time(self.pace.free_ns);
        self.pace.send(1, rate);
        at
    }
}

/// The queues of a port, by priority.
#[derive(Debug)]
struct Port<P> {
    queues: Vec<Queue<P>>,
    rate: Option<PortRate>,
    pace: Pace,
    /// Packets in all its queues.
    len: u64,
    /// It is in [`Queues::agenda`].
    listed: bool,
    /// It is counted in [`Queues::holding`].
    holds: bool,
}

impl<P> Port<P> {
    /// No packet waits, and none would have to.
    fn is_plain(&self) -> bool {
        self.len == 0 && self.rate.is_none() && self.queues.iter().all(|q| q.config.is_prompt())
    }

    /// When it may send the next packet.
    fn free(&self) -> Time {
        Time(self.pace.free_ns.saturating_sub(self.rate.map_or(0, |rate| rate.burst_ns)))
    }

    fn without_packets<Q>(&self) -> Port<Q> {
        let queues = self.queues.iter().map(|q| Queue::new(q.config)).collect();
        let plain =
            Port { queues, rate: self.rate, pace: Pace::default(), len: 0, listed: false, holds: false };
        Port { holds: !plain.is_plain(), ..plain }
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
    /// Packets of ports without a rate, by priority.
    waiting: Vec<BinaryHeap<Waiting<P>>>,
    /// Ports with a rate that have packets: when each of them has to be looked at.
    agenda: BinaryHeap<Reverse<(Time, u64, u32)>>,
    ports: PortMap<Port<P>>,
    default: QueueConfig,
    buffer: Option<SharedBuffer>,
    /// Ports where packets wait, or would have to.
    holding: usize,
    seq: u64,
    len: u64,
    /// Bytes in all queues.
    bytes: u64,
}

/// A port that is served late makes up for this long at most: it does not send a burst after a long pause.
const MOST_LATE_NS: u64 = 1_000_000;

impl<P> Queues<P> {
    pub fn new(priorities: u8, default: QueueConfig) -> Self {
        Queues {
            waiting: (0..priorities.max(1)).map(|_| BinaryHeap::new()).collect(),
            agenda: BinaryHeap::new(),
            ports: PortMap::new(),
            holding: 0,
            default,
            buffer: None,
            seq: 0,
            len: 0,
            bytes: 0,
        }
    }

    fn port(&mut self, port: u32) -> &mut Port<P> {
        let (n, config) = (self.waiting.len(), self.default);
        let queues = || (0..n).map(|_| Queue::new(config)).collect();
        self.ports.get_mut(port, || Port {
            queues: queues(),
            rate: None,
            pace: Pace::default(),
            len: 0,
            listed: false,
            holds: false,
        })
    }

    /// After a change of a port.
    fn count_holding(&mut self, port: u32) {
        let Some(p) = self.ports.find_mut(port) else { return };
        match (p.holds, !p.is_plain()) {
            (false, true) => self.holding += 1,
            (true, false) => self.holding -= 1,
            _ => return,
        }
        p.holds = !p.holds;
    }

    /// After a change of all ports.
    fn recount_holding(&mut self) {
        self.holding = 0;
        for p in self.ports.values_mut() {
            p.holds = !p.is_plain();
            self.holding += usize::from(p.holds);
        }
    }

    /// The queue of a priority; priorities that do not exist mean the highest.
    fn queue(&mut self, port: u32, priority: u8) -> (usize, &mut Queue<P>) {
        let at = usize::from(priority).min(self.waiting.len() - 1);
        (at, &mut self.port(port).queues[at])
    }

    /// Packets in a queue, if neither it nor the shared buffer is too full for another one.
    pub fn admits(&mut self, port: u32, priority: u8, bytes: u32) -> Option<u32> {
        let (buffer, used, more) = (self.buffer, self.bytes, u64::from(bytes));
        let q = self.queue(port, priority).1;
        let queued = q.stats.queued_bytes;
        let full = q.stats.queued >= q.config.depth_packets
            || q.config.depth_bytes.is_some_and(|most| queued + more > most)
            || buffer.is_some_and(|b| !b.admits(used, queued, more));
        (!full).then_some(q.stats.queued)
    }

    /// Counters of a queue.
    #[cfg(test)]
    fn stats(&self, port: u32, priority: u8) -> QueueStats {
        let queue = self.ports.get(port).and_then(|p| p.queues.get(usize::from(priority)));
        queue.map_or_else(QueueStats::default, |q| q.stats)
    }

    /// By priority: the packets that have entered the queues of a port and left them, and those that are in them. Empty if the port has none yet.
    pub fn counts(&self, port: u32) -> Vec<QueueCounts> {
        let Some(p) = self.ports.get(port) else { return Vec::new() };
        let of = |(q, heap): (&Queue<P>, &BinaryHeap<Waiting<P>>)| QueueCounts {
            enqueued: q.stats.enqueued,
            dequeued: q.stats.dequeued,
            waiting: (q.packets.len() + heap.iter().filter(|w| w.port == port).count()) as u64,
        };
        p.queues.iter().zip(&self.waiting).map(of).collect()
    }

    /// Adds a packet to a queue that is not full.
    pub fn push(&mut self, now: Time, port: u32, priority: u8, bytes: u32, packet: P) {
        let ready = self.queue(port, priority).1.ready(now);
        self.put(ready, port, priority, bytes, packet);
    }

    /// Adds a packet that its queue lets go at `ready`.
    pub fn put(&mut self, ready: Time, port: u32, priority: u8, bytes: u32, packet: P) {
        self.seq += 1;
        self.len += 1;
        self.bytes += u64::from(bytes);
        let waiting = Waiting { ready, seq: self.seq, port, bytes, packet };
        let at = usize::from(priority).min(self.waiting.len() - 1);
        let of_port = self.port(port);
        of_port.len += 1;
        let (holds, paced, queue) = (of_port.holds, of_port.rate.is_some(), &mut of_port.queues[at]);
        queue.stats.queued += 1;
        queue.stats.queued_bytes += u64::from(bytes);
        queue.stats.enqueued += 1;
        if paced {
            queue.packets.push_back(waiting);
            self.list(port);
        } else {
            self.waiting[at].push(waiting);
        }
        if !holds {
            self.count_holding(port);
        }
    }

    /// Enters a port with packets in the agenda, unless it is there.
    fn list(&mut self, port: u32) {
        let seq = self.seq;
        let Some(p) = self.ports.find_mut(port).filter(|p| !p.listed) else { return };
        let ready = p.queues.iter().filter_map(|q| q.packets.front().map(|w| w.ready)).min();
        let Some(ready) = ready else { return };
        p.listed = true;
        self.agenda.push(Reverse((ready.max(p.free()), seq, port)));
    }

    /// The next packet that may leave by now.
    pub fn pop(&mut self, now: Time) -> Option<Departure<P>> {
        for priority in (0..self.waiting.len()).rev() {
            if self.waiting[priority].peek().is_some_and(|w| w.ready <= now)
                && let Some(w) = self.waiting[priority].pop()
            {
                return Some(self.departs(priority, w));
            }
        }
        while let Some(Reverse((_, _, port))) = self.agenda.peek().copied().filter(|r| r.0.0 <= now) {
            self.agenda.pop();
            let Some(p) = self.ports.find_mut(port) else { continue };
            p.listed = false;
            let free = p.free() <= now;
            let may_go = |q: &Queue<P>| q.packets.front().is_some_and(|w| w.ready <= now);
            let chosen = p.queues.iter().rposition(may_go).filter(|_| free);
            let gone = chosen.and_then(|at| Some((at, p.queues[at].packets.pop_front()?)));
            // A switch that is polled late does not lose the time for which packets waited.
            if let Some((_, w)) = &gone {
                p.pace.begin(w.ready.0.max(now.0.saturating_sub(MOST_LATE_NS)));
            }
            // If it sends this packet, it is free later: then it is listed again.
            self.list(port);
            if let Some((priority, w)) = gone {
                return Some(self.departs(priority, w));
            }
        }
        None
    }

    fn departs(&mut self, priority: usize, w: Waiting<P>) -> Departure<P> {
        self.len -= 1;
        self.bytes -= u64::from(w.bytes);
        let port = self.port(w.port);
        port.len -= 1;
        let stats = &mut port.queues[priority].stats;
        stats.queued -= 1;
        stats.queued_bytes -= u64::from(w.bytes);
        stats.dequeued += 1;
        let depth = stats.queued;
        if port.len == 0 {
            self.count_holding(w.port);
        }
        Departure { port: w.port, packet: w.packet, depth }
    }

    /// A packet of this length goes out on a port: the last one that left a queue of it, or one for which it opened.
    #[inline]
    pub fn sent(&mut self, port: u32, bytes: usize) {
        if self.may_hold()
            && let Some(p) = self.ports.find_mut(port)
            && let Some(rate) = p.rate
        {
            let bits = 8 * (bytes as u64 + u64::from(rate.overhead_bytes));
            p.pace.send(bits, rate.bits_per_s);
        }
    }

    /// When the next packet may leave.
    #[inline]
    pub fn next(&self) -> Option<Time> {
        if self.len == 0 {
            return None;
        }
        let paced = self.agenda.peek().map(|r| r.0.0);
        self.waiting.iter().fold(paced, |first, heap| earlier(first, heap.peek().map(|w| w.ready)))
    }

    /// Packets in all queues.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// No packet has to leave now.
    #[inline]
    pub fn are_quiet(&self, now: Time) -> bool {
        self.next().is_none_or(|t| t > now)
    }

    /// Whether a packet that comes now may leave now, past the empty queues of the port.
    pub fn opens(&mut self, now: Time, port: u32) -> bool {
        let Some(p) = self.ports.find_mut(port) else { return self.default.is_prompt() };
        let open = p.len == 0 && p.free() <= now && p.queues.iter().all(|q| q.config.is_prompt());
        if open {
            p.pace.begin(now.0);
        }
        open
    }

    /// Whether there is a port for which [`Queues::opens`] has to be asked.
    #[inline]
    pub fn may_hold(&self) -> bool {
        self.holding != 0 || !self.default.is_prompt()
    }

    /// Packets in the queues of `port`.
    pub fn port_len(&self, port: u32) -> u64 {
        self.ports.get(port).map_or(0, |p| p.len)
    }

    /// Settings of a queue.
    #[cfg(test)]
    pub fn config(&self, port: u32, priority: u8) -> QueueConfig {
        let queue = self.ports.get(port).and_then(|p| p.queues.get(usize::from(priority)));
        queue.map_or(self.default, |q| q.config)
    }

    /// Configures one queue, or all queues of a port. Packets that wait already keep their times.
    pub fn configure(&mut self, port: u32, priority: Option<u8>, config: QueueConfig) {
        match priority {
            Some(p) => self.queue(port, p).1.config = config,
            None => self.port(port).queues.iter_mut().for_each(|q| q.config = config),
        }
        self.count_holding(port);
    }

    /// Configures all queues, also of ports that are added later, and takes the ports' rates away.
    pub fn configure_all(&mut self, config: QueueConfig) {
        self.default = config;
        for port in self.ports.values_mut() {
            port.rate = None;
            port.queues.iter_mut().for_each(|q| q.config = config);
        }
        self.recount_holding();
    }

    /// Sets the rate of a port. Packets that wait already are sent at the new rate, or at once.
    pub fn set_rate(&mut self, port: u32, rate: Option<PortRate>) {
        self.port(port).rate = rate;
        self.count_holding(port);
    }

    /// Sets or removes the buffer that all queues share.
    pub fn set_buffer(&mut self, buffer: Option<SharedBuffer>) {
        self.buffer = buffer;
    }

    /// Queues with the same settings, empty.
    pub fn alike<Q>(&self) -> Queues<Q> {
        let ports = self.ports.map(Port::without_packets);
        Queues {
            holding: ports.iter().filter(|(_, p)| p.holds).count(),
            ports,
            buffer: self.buffer,
            ..Queues::new(self.waiting.len() as u8, self.default)
        }
    }

    /// Takes every packet out, with the priority of its queue, in the order in which the queues let them go.
    pub fn drain(&mut self) -> Vec<(u8, Waiting<P>)> {
        let heaps = (0u8..).zip(&mut self.waiting);
        let mut all: Vec<(u8, Waiting<P>)> =
            heaps.flat_map(|(n, heap)| std::mem::take(heap).into_iter().map(move |w| (n, w))).collect();
        for port in self.ports.values_mut() {
            (port.len, port.listed, port.pace) = (0, false, Pace::default());
            for (n, q) in (0u8..).zip(&mut port.queues) {
                q.stats.dequeued += u64::from(q.stats.queued);
                (q.stats.queued, q.stats.queued_bytes, q.pace) = (0, 0, Pace::default());
                all.extend(q.packets.drain(..).map(|w| (n, w)));
            }
        }
        (self.len, self.bytes) = (0, 0);
        self.agenda.clear();
        self.recount_holding();
        all.sort_unstable_by_key(|(_, w)| (w.ready, w.seq));
        all
    }
}
