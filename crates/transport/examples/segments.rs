//! How long a segment takes: `cargo run --release -p pointsman-transport --example segments`.

use pointsman_transport::{Algorithm, Config, Connection, Segment};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// Two ends, and what is on its way between them, in the order of sending.
struct Pair {
    ends: [Connection; 2],
    wires: [VecDeque<Segment>; 2],
    now: u64,
}

impl Pair {
    fn new(config: Config) -> Self {
        let config = Arc::new(config);
        let mut client = Connection::connect(config.clone(), 0, 1);
        let syn = client.next_segment(0).expect("a SYN");
        let server = Connection::accept(config, 0, 2, &syn).expect("a SYN");
        let mut pair = Pair { ends: [client, server], wires: Default::default(), now: 1 };
        pair.drain(1);
        pair.step();
        pair
    }

    fn drain(&mut self, end: usize) {
        while let Some(segment) = self.ends[end].next_segment(self.now) {
            self.wires[end].push_back(segment);
        }
    }

    /// Hands a packet over in each direction. Returns whether there was any.
    fn step(&mut self) -> bool {
        let mut any = false;
        for from in 0..2 {
            if let Some(segment) = self.wires[from].pop_front() {
                any = true;
                self.now += 100;
                self.ends[1 - from].on_segment(self.now, &segment);
                self.ends[1 - from].take();
                self.drain(1 - from);
            }
        }
        any
    }
}

/// Of transfers without losses; the best of 40 rounds.
fn time_per_segment() {
    for (algorithm, timestamps) in [
        (Algorithm::Reno, false),
        (Algorithm::Reno, true),
        (Algorithm::Cubic, true),
        (Algorithm::Dctcp, true),
    ] {
        let config = Config { algorithm, timestamps, receive_buffer: 100 * 1460, ..Config::default() };
        let mut pair = Pair::new(config);
        let mut best = f64::INFINITY;
        for _ in 0..40 {
            let before = pair.ends[0].stats();
            pair.ends[0].write(200_000 * 1448);
            let start = Instant::now();
            pair.drain(0);
            while pair.step() {}
            let after = pair.ends[0].stats();
            let segments = (after.segments - before.segments) as f64;
            assert_eq!(after.retransmitted_segments, 0, "{after:?}");
            best = best.min(start.elapsed().as_nanos() as f64 / segments);
        }
        println!(
            "{algorithm:?}, timestamps {timestamps}: {best:.0} ns for a data segment and its share of an ACK"
        );
    }
}

/// The same with a window of 1,000 segments, of which every 100th is lost, or every third overtaken by up to eight others.
fn time_per_segment_on_bad_paths() {
    for lost in [true, false] {
        let config = Config { receive_buffer: 1000 * 1460, algorithm: Algorithm::Reno, ..Config::default() };
        let mut pair = Pair::new(config);
        pair.ends[0].write(500_000 * 1448);
        let start = Instant::now();
        pair.drain(0);
        let mut n = 0u64;
        loop {
            n += 1;
            if lost && n.is_multiple_of(100) {
                pair.wires[0].pop_front();
            } else if !lost && n.is_multiple_of(3) && pair.wires[0].len() > 8 {
                pair.wires[0].swap(0, 1 + n as usize % 8);
            }
            if pair.step() {
                continue;
            }
            let waits = pair.ends[0].unacknowledged() > 0;
            let Some(at) = pair.ends[0].deadline().filter(|_| waits) else { break };
            pair.now = pair.now.max(at);
            pair.ends[0].on_deadline(pair.now);
            pair.drain(0);
        }
        let stats = pair.ends[0].stats();
        let each = start.elapsed().as_nanos() as f64 / stats.segments as f64;
        let name = if lost { "losses" } else { "reordering" };
        println!("{name}: {each:.0} ns a segment, {stats:?}");
    }
}

fn main() {
    time_per_segment();
    time_per_segment_on_bad_paths();
}
