//! Segments that no TCP sends, and those of attackers.

use crate::net::{MS, Net, Path, US};
use pointsman_transport::{Algorithm, Config, Connection, Ecn, Options, Sack, Segment, State};
use pointsman_wire::Random;
use std::sync::Arc;

/// A number near one that matters, or any.
fn near(random: &mut Random, anchors: &[u32]) -> u32 {
    let anchor = anchors[random.below(anchors.len() as u64) as usize];
    let off = [0, 1, 2, 1448, 65_535, 1 << 20, 1 << 30, 1 << 31, random.next_u64() as u32]
        [random.below(9) as usize];
    if random.below(2) == 0 { anchor.wrapping_add(off) } else { anchor.wrapping_sub(off) }
}

/// Any segment, with numbers near those of a real one.
fn garbage(random: &mut Random, real: &Segment) -> Segment {
    let anchors = [real.seq, real.ack, 0];
    let mut sack = Sack::default();
    for _ in 0..random.below(6) {
        sack.push((near(random, &anchors), near(random, &anchors)));
    }
    let stamps = real.options.timestamps.unwrap_or_default();
    Segment {
        seq: near(random, &anchors),
        ack: near(random, &anchors),
        len: [0, 0, 1, 1448, 65_535, 1 << 20, u32::MAX][random.below(7) as usize],
        window: random.next_u64() as u16,
        // Resets end the connection too soon to be of interest; they come at the end.
        flags: random.next_u64() as u8 & !4 | if random.below(400) == 0 { 4 } else { 0 },
        ecn: Ecn::from_bits(random.next_u64() as u8),
        options: Options {
            mss: (random.below(2) == 0).then_some(random.next_u64() as u16),
            scale: (random.below(2) == 0).then_some(random.next_u64() as u8),
            sack_permitted: random.below(2) == 0,
            timestamps: (random.below(2) == 0)
                .then(|| (near(random, &[stamps.0, stamps.1]), near(random, &[stamps.0, stamps.1]))),
            sack,
        },
    }
}

#[test]
fn garbage_in_a_connection_causes_no_panic() {
    let mut survived = 0;
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let algorithm = [Algorithm::Reno, Algorithm::Cubic, Algorithm::Dctcp][random.below(3) as usize];
        let config = Config {
            algorithm,
            ecn: random.below(2) == 0,
            sack: random.below(4) > 0,
            timestamps: random.below(2) == 0,
            ranges: 8,
            challenge_interval_ns: 100 * US,
            ..Config::default()
        };
        let mut path = Path::new(100_000_000, MS);
        path.loss = 10_000;
        let mut net = Net::new([config.clone(), config], path, seed);
        net.ends[0].write(300_000);
        net.ends[0].close();
        for round in 0..400 {
            net.run_until(net.now + 200 * US);
            let end = random.below(net.ends.len() as u64) as usize;
            let fake = garbage(&mut random, &net.last[end].clone());
            // Not of the peer: what it carries is not checked.
            net.ends[end].on_segment(net.now, &fake);
            while net.ends[end].next_segment(net.now).is_some() {}
            if net.ends[end].readable() > 0 {
                net.ends[end].take();
            }
            survived += u64::from(round == 399 && net.ends[0].state() != State::Closed);
            // What the garbage has delivered is not the peer's.
            if net.ends.iter().any(|e| e.readable() > 0) || net.ends[end].stats().challenges > 1 {
                net.takes = [false; 2];
            }
        }
    }
    assert!(survived > 30, "{survived}");
}

/// Each step is garbage: nothing but the state machine in all of its states.
#[test]
fn garbage_alone_causes_no_panic() {
    for seed in 0..2000 {
        let mut random = Random::new(seed);
        let config = Arc::new(Config { timestamps: seed % 2 == 0, ranges: 4, ..Config::default() });
        let isn = random.next_u64() as u32;
        let mut end = Connection::connect(config.clone(), 0, isn);
        let mut last = end.next_segment(0).expect("a SYN");
        if seed % 3 > 0 {
            let syn = Segment { flags: 2, ..garbage(&mut random, &last) };
            end = Connection::accept(config, 0, isn, &syn).expect("a SYN");
        }
        let mut now = 0;
        for _ in 0..100 {
            let peers = Segment { seq: last.ack, ack: last.seq.wrapping_add(last.span() as u32), ..last };
            end.on_segment(now, &garbage(&mut random, &peers));
            match random.below(8) {
                0 => end.write(random.below(100_000)),
                1 => drop(end.take()),
                2 if random.below(10) == 0 => end.close(),
                3 => {
                    now = end.deadline().unwrap_or(now).max(now);
                    end.on_deadline(now);
                }
                _ => now += random.below(100 * MS),
            }
            let mut sent = 0;
            while let Some(segment) = end.next_segment(now) {
                last = segment;
                sent += 1;
                assert!(sent < 5000, "seed {seed}");
            }
        }
        end.abort();
        assert_eq!((end.state(), end.deadline()), (State::Closed, None));
    }
}
