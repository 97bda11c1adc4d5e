//! What a sender does with ACKs that a switch has changed or made up. The expected answers were measured on Linux 6.18: one bulk
//! flow over 20 ms each way, both ends the kernel's, frames injected in between.

use crate::net::{MS, Net, Path};
use pointsman_transport::segment::ECE;
use pointsman_transport::{Algorithm, Config, Segment};

/// A bulk flow, after a while, just after an ACK has arrived and everything was sent.
fn bulk() -> Net {
    let config = Config {
        algorithm: Algorithm::Reno,
        ecn: true,
        receive_buffer: 12 << 20,
        ack_delay_ns: 5 * MS,
        ..Config::default()
    };
    let mut net = Net::established(config, Path::new(50_000_000, 20 * MS), 1);
    net.paths[0].queue = 200_000;
    net.ends[0].write(1 << 40);
    net.run_until(20_000 * MS);
    let seen = net.last[0].ack;
    net.run(|net| net.last[0].ack != seen);
    net
}

/// The peer's window before and after an injected ACK, and after the next real one.
fn inject(change: impl Fn(&mut Segment)) -> (u64, u64, u64) {
    let mut net = bulk();
    let window = |net: &Net| u64::from(net.ends[0].stats().peer_window);
    let (before, real) = (window(&net), net.last[0]);
    let mut fake = real;
    change(&mut fake);
    net.ends[0].on_segment(net.now, &fake);
    net.drain();
    let after = window(&net);
    net.run(|net| net.last[0] != real);
    (before, after, window(&net))
}

/// What an injected ACK has different from the last real one.
type Change = Box<dyn Fn(&mut Segment)>;

#[test]
fn the_measured_table() {
    let half = |fake: &mut Segment| fake.window /= 2;
    let rows: [(&str, Change, f64); 8] = [
        ("half", Box::new(half), 1.0),
        ("half, no timestamp", Box::new(move |f| (half(f), f.options.timestamps = None).1), 1.0),
        ("half, ack older", Box::new(move |f| (half(f), f.ack = f.ack.wrapping_sub(1448)).1), 1.0),
        ("a quarter more", Box::new(|f| f.window += f.window / 4), 1.25),
        ("zero", Box::new(|f| f.window = 0), 0.0),
        ("half, later seq", Box::new(move |f| (half(f), f.seq = f.seq.wrapping_add(1)).1), 0.5),
        (
            "half, later seq, no timestamp",
            Box::new(move |f| (half(f), f.seq = f.seq.wrapping_add(1), f.options.timestamps = None).1),
            0.5,
        ),
        ("half, ack later", Box::new(move |f| (half(f), f.ack = f.ack.wrapping_add(1448)).1), 0.5),
    ];
    for (name, change, factor) in rows {
        let (before, after, later) = inject(change);
        assert!(before > 10_000_000, "{name}: {before}");
        let ratio = after as f64 / before as f64;
        assert!((ratio - factor).abs() < 0.001, "{name}: {before} to {after}");
        if name != "half, ack later" {
            // Until the next real ACK.
            assert_eq!(later, before, "{name}");
        }
    }
}

#[test]
fn repeated_acks_cause_no_retransmission() {
    let mut net = bulk();
    let (before, real) = (net.ends[0].stats(), net.last[0]);
    for _ in 0..10 {
        net.ends[0].on_segment(net.now, &real);
        net.drain();
    }
    let after = net.ends[0].stats();
    assert_eq!(after.retransmitted_segments, before.retransmitted_segments);
    assert_eq!((after.cwnd, after.fast_recoveries), (before.cwnd, before.fast_recoveries));
}

#[test]
fn a_repeated_ack_with_ece_reduces_the_window_at_once() {
    let mut net = bulk();
    let (before, mut fake) = (net.ends[0].stats(), net.last[0]);
    fake.flags |= ECE;
    net.ends[0].on_segment(net.now, &fake);
    net.drain();
    let begun = net.ends[0].stats();
    assert!(begun.ssthresh.abs_diff(before.cwnd / 2) <= 2 * 1448, "{before:?} {begun:?}");
    // Further copies in the same window change nothing.
    for _ in 0..3 {
        net.ends[0].on_segment(net.now, &fake);
        net.drain();
    }
    assert_eq!(net.ends[0].stats().ssthresh, begun.ssthresh);
    let sent = net.packets[0];
    net.run_until(net.now + 2 * MS);
    assert!(net.packets[0] - sent < 6, "half of the packets at most");
    net.run_until(net.now + 100 * MS);
    let done = net.ends[0].stats();
    assert!(done.cwnd.abs_diff(before.cwnd / 2) < 6 * 1448, "{before:?} {done:?}");
    assert_eq!(done.retransmitted_segments, before.retransmitted_segments);
}

#[test]
fn a_clamped_window_is_obeyed() {
    let mut net = bulk();
    let resent = net.ends[0].stats().retransmitted_segments;
    let (_, scale) = net.ends[1].scales();
    let clamp = ((40 * 1448) >> scale) as u16;
    net.filter = Box::new(move |way, _, packet| {
        if way == 1 {
            packet.window = packet.window.min(clamp);
        }
        true
    });
    net.run_until(net.now + 1000 * MS);
    let mut flights = Vec::new();
    for _ in 0..500 {
        net.run_until(net.now + MS);
        let end = &net.ends[0];
        flights.push((end.unacknowledged() - end.unsent()) as f64 / 1448.0);
    }
    let mean = flights.iter().sum::<f64>() / 500.0;
    assert!((38.0..=40.0).contains(&mean) && flights.iter().all(|f| *f <= 40.0), "{mean} {flights:?}");
    assert_eq!(net.ends[0].stats().retransmitted_segments, resent);
}
