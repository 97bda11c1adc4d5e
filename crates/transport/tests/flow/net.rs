//! Two connections and the path between them: rate, delay, a queue that marks and drops, and faults. Everything follows from a
//! seed. It checks on the way that the stream arrives as it was sent.

use pointsman_transport::segment::{ACK, SYN};
use pointsman_transport::{Accepted, Config, Connection, Ecn, Segment, State};
use pointsman_wire::Random;
use std::collections::BTreeMap;
use std::sync::Arc;

pub const US: u64 = 1000;
pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000_000_000;

/// One direction of a path.
#[derive(Clone, Debug)]
pub struct Path {
    /// Bits per second.
    pub rate: u64,
    pub delay_ns: u64,
    /// Bytes that may wait.
    pub queue: u64,
    /// A packet that finds more bytes waiting is marked.
    pub mark: u64,
    /// Of a million packets, so many are lost, arrive twice, or later by up to `late_ns`.
    pub loss: u64,
    pub twice: u64,
    pub late: u64,
    pub late_ns: u64,
}

impl Path {
    pub fn new(rate: u64, delay_ns: u64) -> Self {
        Path { rate, delay_ns, queue: 10 << 20, mark: u64::MAX, loss: 0, twice: 0, late: 0, late_ns: 0 }
    }
}

/// What a test does with a packet, by direction and number: see [`Net::filter`].
type Filter = Box<dyn FnMut(usize, u64, &mut Segment) -> bool>;

pub struct Net {
    pub now: u64,
    pub ends: Vec<Connection>,
    /// From the first end, and from the second.
    pub paths: [Path; 2],
    /// Whether an end takes its received bytes.
    pub takes: [bool; 2],
    /// Bytes taken by each end.
    pub taken: [u64; 2],
    /// Packets that each end has sent, and those that were dropped.
    pub packets: [u64; 2],
    pub drops: [u64; 2],
    /// Segments with data that the first end has sent: trains, before they are cut.
    pub trains: u64,
    /// The packet that each end has received last.
    pub last: [Segment; 2],
    /// Returns whether a packet passes; may change it.
    pub filter: Filter,
    free: [u64; 2],
    travelling: BTreeMap<(u64, u64), (usize, Segment)>,
    serial: u64,
    random: Random,
    isns: [u32; 2],
    configs: [Arc<Config>; 2],
    /// What each end has accepted: a beginning, and ranges after it.
    accepted: [(u64, Vec<(u64, u64)>); 2],
}

impl Net {
    /// The first end connects; the second one accepts.
    pub fn new(configs: [Config; 2], path: Path, seed: u64) -> Self {
        let mut random = Random::new(seed);
        // Often close to where numbers wrap.
        let mut isn = || random.next_u64() as u32 | if seed.is_multiple_of(2) { 0xffff_f000 } else { 0 };
        let isns = [isn(), isn()];
        let configs = configs.map(Arc::new);
        Net {
            now: 1,
            ends: vec![Connection::connect(configs[0].clone(), 1, isns[0])],
            paths: [path.clone(), path],
            takes: [true; 2],
            taken: [0; 2],
            packets: [0; 2],
            drops: [0; 2],
            trains: 0,
            last: Default::default(),
            filter: Box::new(|_, _, _| true),
            free: [0; 2],
            travelling: BTreeMap::new(),
            serial: 0,
            random,
            isns,
            configs,
            accepted: Default::default(),
        }
    }

    /// With equal ends, until the connection is established.
    pub fn established(config: Config, path: Path, seed: u64) -> Self {
        let mut net = Net::new([config.clone(), config], path, seed);
        net.run(|net| net.ends.len() == 2 && net.ends[1].state() == State::Established);
        net
    }

    fn happens(&mut self, per_million: u64) -> bool {
        per_million > 0 && self.random.below(1_000_000) < per_million
    }

    /// A packet enters the path.
    pub fn send(&mut self, way: usize, mut packet: Segment) {
        let number = self.packets[way];
        self.packets[way] += 1;
        let size = packet.header_bytes() as u64 + u64::from(packet.len) + 38;
        let path = self.paths[way].clone();
        let waiting = (u128::from(self.free[way].saturating_sub(self.now)) * u128::from(path.rate)
            / 8_000_000_000) as u64;
        if !(self.filter)(way, number, &mut packet) || waiting + size > path.queue || self.happens(path.loss)
        {
            self.drops[way] += 1;
            return;
        }
        if waiting > path.mark && packet.ecn != Ecn::NotCapable {
            packet.ecn = Ecn::Congested;
        }
        let takes = (u128::from(size) * 8_000_000_000 / u128::from(path.rate)) as u64;
        self.free[way] = self.free[way].max(self.now) + takes;
        let mut at = self.free[way] + path.delay_ns;
        if self.happens(path.late) {
            at += 1 + self.random.below(path.late_ns);
        }
        let copies = 1 + u64::from(self.happens(path.twice));
        for copy in 0..copies {
            self.serial += 1;
            self.travelling.insert((at + copy * path.delay_ns / 3, self.serial), (way, packet));
        }
    }

    /// Both ends send what they can.
    pub fn drain(&mut self) {
        for way in 0..self.ends.len() {
            if self.takes[way] {
                self.taken[way] += self.ends[way].take();
                let (prefix, _) = self.accepted[way];
                assert!(self.taken[way] <= prefix, "took {} of {prefix}", self.taken[way]);
            }
            let mut guard = 0;
            while let Some(segment) = self.ends[way].next_segment(self.now) {
                let mss = self.ends[way].packet_bytes();
                self.trains += u64::from(way == 0 && segment.len > 0);
                segment.cut(mss).for_each(|packet| self.send(way, packet));
                guard += 1;
                assert!(guard < 100_000, "segments without end");
            }
        }
    }

    /// What is accepted must be at its place in the stream.
    fn note(&mut self, end: usize, packet: &Segment, accepted: Accepted) {
        if accepted.len == 0 {
            return;
        }
        let place = packet.seq.wrapping_sub(self.isns[1 - end]).wrapping_sub(1);
        assert_eq!(place.wrapping_add(accepted.skip), accepted.offset as u32, "{packet:?} {accepted:?}");
        assert!(accepted.skip + accepted.len <= packet.len, "{packet:?} {accepted:?}");
        let (prefix, later) = &mut self.accepted[end];
        later.push((accepted.offset, accepted.offset + u64::from(accepted.len)));
        later.sort_unstable();
        later.retain(|range| {
            if range.0 <= *prefix {
                *prefix = range.1.max(*prefix);
                return false;
            }
            true
        });
    }

    /// Hands a packet to an end.
    pub fn deliver(&mut self, end: usize, packet: &Segment) {
        self.last[end] = *packet;
        if end == 1 && self.ends.len() == 1 {
            let accepted = Connection::accept(self.configs[1].clone(), self.now, self.isns[1], packet);
            self.ends.extend(accepted);
            return;
        }
        // Whoever comes with another SYN is not of this connection.
        let foreign = packet.is(SYN) && !packet.is(ACK) && packet.seq != self.isns[1 - end];
        let accepted = self.ends[end].on_segment(self.now, packet);
        if !foreign {
            self.note(end, packet, accepted);
        }
    }

    /// When something happens next.
    pub fn next_at(&self) -> Option<u64> {
        let arrival = self.travelling.first_key_value().map(|((at, _), _)| *at);
        self.ends.iter().filter_map(Connection::deadline).chain(arrival).min()
    }

    /// Runs until `done` or nothing is left to happen, for at most a simulated day. Returns whether it is done.
    pub fn run(&mut self, done: impl Fn(&Net) -> bool) -> bool {
        for _ in 0..20_000_000u64 {
            self.drain();
            if done(self) {
                return true;
            }
            let Some(at) = self.next_at() else { return false };
            self.now = self.now.max(at);
            assert!(self.now < 86_400 * SECOND, "a day has passed");
            while let Some(entry) = self.travelling.first_entry().filter(|e| e.key().0 <= self.now) {
                let (way, packet) = entry.remove();
                self.deliver(1 - way, &packet);
                self.drain();
            }
            for end in &mut self.ends {
                if end.deadline().is_some_and(|at| at <= self.now) {
                    end.on_deadline(self.now);
                }
            }
        }
        panic!("no end in sight");
    }

    /// Runs until this time.
    pub fn run_until(&mut self, at: u64) {
        self.run(|net| net.next_at().is_none_or(|next| next > at));
        self.now = self.now.max(at);
    }

    /// Sends bytes from the first end, and runs until they have arrived and are acknowledged. Returns the time it took.
    pub fn transfer(&mut self, bytes: u64) -> u64 {
        let (began, before) = (self.now, self.taken[1]);
        self.ends[0].write(bytes);
        assert!(self.run(|net| net.taken[1] == before + bytes && net.ends[0].unacknowledged() == 0));
        self.now - began
    }

    /// Both ends close, and the connection ends.
    pub fn finish(&mut self) {
        self.ends.iter_mut().for_each(Connection::close);
        assert!(self.run(|net| net.ends.iter().all(|end| end.state() == State::Closed)), "it does not end");
    }
}
