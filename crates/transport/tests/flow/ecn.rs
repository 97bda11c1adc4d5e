//! Marks instead of losses (RFC 3168), and DCTCP (RFC 8257).

use crate::net::{MS, Net, Path, US};
use pointsman_transport::segment::{ACK, CWR, ECE, SYN};
use pointsman_transport::{Algorithm, Config, Connection, Ecn, Segment};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

fn config(algorithm: Algorithm) -> Config {
    Config {
        algorithm,
        ecn: true,
        granularity_ns: US,
        min_rto_ns: 10 * MS,
        ack_delay_ns: MS,
        peer_ack_delay_ns: MS,
        ..Config::default()
    }
}

#[test]
fn both_ends_must_want_it() {
    for (ours, theirs) in [(true, true), (true, false), (false, true), (false, false)] {
        let configs = [ours, theirs].map(|ecn| Config { ecn, ..Config::default() });
        let mut net = Net::new(configs, Path::new(1_000_000_000, MS), 1);
        let flags: Rc<RefCell<Vec<u8>>> = Rc::default();
        let seen = flags.clone();
        net.filter = Box::new(move |_, _, packet| {
            seen.borrow_mut().push(packet.flags & (SYN | ACK | ECE | CWR));
            true
        });
        net.ends[0].write(100_000);
        assert!(net.run(|net| net.taken[1] == 100_000));
        let both = ours && theirs;
        assert_eq!(net.ends.iter().map(Connection::uses_ecn).collect::<Vec<_>>(), [both; 2]);
        let flags = flags.borrow();
        assert_eq!(flags[0], SYN | if ours { ECE | CWR } else { 0 });
        assert_eq!(flags[1], SYN | ACK | if both { ECE } else { 0 });
    }
}

/// A queue that marks instead of dropping: reductions, and nothing sent again.
#[test]
fn marks_reduce_the_window_without_losses() {
    let mut path = Path::new(1_000_000_000, 500 * US);
    (path.queue, path.mark) = (500_000, 60_000);
    let mut net = Net::established(config(Algorithm::Reno), path.clone(), 1);
    let marked: Rc<RefCell<[u32; 3]>> = Rc::default();
    let seen = marked.clone();
    net.filter = Box::new(move |_, _, packet| {
        let mut seen = seen.borrow_mut();
        seen[0] += u32::from(packet.is(CWR));
        seen[1] += u32::from(packet.is(ECE));
        // Only data is marked as capable.
        seen[2] += u32::from((packet.ecn == Ecn::NotCapable) != (packet.len == 0));
        true
    });
    let took = net.transfer(50_000_000);
    let stats = net.ends[0].stats();
    assert_eq!((stats.retransmitted_segments, net.drops[0]), (0, 0), "{stats:?}");
    assert!(stats.marked_acks > 10 && net.ends[1].stats().marks > 0, "{stats:?}");
    let [reductions, echoes, wrong] = *marked.borrow();
    assert!(reductions > 3 && echoes > reductions && wrong == 0, "{reductions} {echoes} {wrong}");
    assert!(took < 500 * MS, "{took}");
    // Without it the queue overflows.
    let without = Config { ecn: false, ..config(Algorithm::Reno) };
    let mut net = Net::established(without, path, 1);
    net.transfer(50_000_000);
    assert!(net.drops[0] > 0 && net.ends[0].stats().retransmitted_segments > 0);
}

/// RFC 3168, section 6.1.5: what is sent again is not capable. For DCTCP everything is, or queues would drop it.
#[test]
fn what_is_sent_again_is_capable_for_dctcp_only() {
    for algorithm in [Algorithm::Reno, Algorithm::Dctcp] {
        let lossy = Path { loss: 10_000, ..Path::new(1_000_000_000, MS) };
        let mut net = Net::established(config(algorithm), lossy, 1);
        let again: Rc<RefCell<[u32; 2]>> = Rc::default();
        let (seen, mut highest) = (again.clone(), None);
        net.filter = Box::new(move |way, _, packet| {
            if way == 0 && packet.len > 0 {
                let end = packet.seq.wrapping_add(packet.len);
                if highest.is_some_and(|highest| (end.wrapping_sub(highest) as i32) <= 0) {
                    seen.borrow_mut()[usize::from(packet.ecn == Ecn::Capable0)] += 1;
                } else {
                    highest = Some(end);
                }
            }
            true
        });
        net.transfer(2_000_000);
        let [not, capable] = *again.borrow();
        let dctcp = algorithm == Algorithm::Dctcp;
        assert!(not + capable > 5 && if dctcp { not == 0 } else { capable == 0 }, "{not} {capable}");
    }
}

/// Marks are echoed until CWR arrives, a round trip later: still one reduction.
#[test]
fn one_mark_is_one_reduction() {
    let mut net = Net::established(config(Algorithm::Reno), Path::new(100_000_000, 5 * MS), 1);
    let reductions: Rc<RefCell<u32>> = Rc::default();
    let (seen, first) = (reductions.clone(), net.packets[0]);
    net.filter = Box::new(move |way, number, packet| {
        *seen.borrow_mut() += u32::from(packet.is(CWR));
        if way == 0 && number == first + 200 {
            packet.ecn = Ecn::Congested;
        }
        true
    });
    net.transfer(2_000_000);
    let stats = net.ends[0].stats();
    assert!(*reductions.borrow() == 1 && net.ends[1].stats().marks == 1, "{stats:?}");
    assert!(stats.marked_acks > 10 && stats.ssthresh > 40 * 1448, "{stats:?}");
}

/// The queue stays at the threshold, with hardly any loss of throughput (RFC 8257, section 1), and alpha is what was marked.
#[test]
fn dctcp_keeps_the_queue_short() {
    // 10 Gbit/s, 100 us: 125 kB are on their way. The threshold is above a seventh of that.
    let mut path = Path::new(10_000_000_000, 50 * US);
    (path.queue, path.mark) = (2_000_000, 30_000);
    let mut net = Net::established(config(Algorithm::Dctcp), path, 1);
    net.ends[0].write(1 << 40);
    net.run_until(100 * MS);
    let (bytes, marks, packets) = (net.taken[1], net.ends[1].stats().marks, net.packets[0]);
    net.run_until(300 * MS);
    let rate = (net.taken[1] - bytes) as f64 * 8.0 / 0.2;
    assert!(rate > 0.9 * 1e10 * 1448.0 / 1538.0, "{rate}");
    let stats = net.ends[0].stats();
    assert_eq!(stats.retransmitted_segments, 0, "{stats:?}");
    // Window: what is on its way and the queue.
    assert!(stats.srtt_ns < 100 * US + 60 * US, "{stats:?}");
    let fraction = f64::from(net.ends[1].stats().marks - marks) / (net.packets[0] - packets) as f64;
    let alpha = stats.alpha.expect("DCTCP");
    assert!((alpha - fraction).abs() < 0.12 && fraction > 0.01, "{alpha} {fraction}");
}

/// Alpha against a known fraction: every fifth packet is marked.
#[test]
fn alpha_is_the_marked_fraction() {
    for every in [2u64, 5, 20] {
        let mut net = Net::established(config(Algorithm::Dctcp), Path::new(10_000_000_000, 200 * US), 1);
        net.filter = Box::new(move |way, number, packet| {
            if way == 0 && packet.len > 0 && number.is_multiple_of(every) {
                packet.ecn = Ecn::Congested;
            }
            true
        });
        net.transfer(20_000_000);
        let alpha = net.ends[0].stats().alpha.expect("DCTCP");
        let expected = 1.0 / every as f64;
        assert!((alpha - expected).abs() < 0.05 + 0.1 * expected, "{every}: {alpha}");
    }
}

/// Two ends without a path: the second one after its handshake, and a full segment from the first with number `n`.
fn receiver(algorithm: Algorithm) -> (Connection, impl Fn(u32, Ecn, u8) -> Segment) {
    let config = Arc::new(Config { quick_acks: 0, timestamps: false, ..config(algorithm) });
    let mut a = Connection::connect(config.clone(), 0, 0);
    let syn = a.next_segment(0).expect("a SYN");
    let mut b = Connection::accept(config, 0, 0, &syn).expect("a SYN");
    a.on_segment(0, &b.next_segment(0).expect("an answer"));
    b.on_segment(0, &a.next_segment(0).expect("an ACK"));
    assert!(b.next_segment(0).is_none());
    let segment = |n: u32, ecn, flags| Segment {
        seq: 1 + n * 1460,
        ack: 1,
        len: 1460,
        window: 1000,
        flags: ACK | flags,
        ecn,
        ..Segment::default()
    };
    (b, segment)
}

/// ACKs as (segments acknowledged, whether with ECE), for packets marked or not.
fn acks(algorithm: Algorithm, marked: &[bool], cwr: &[usize]) -> Vec<(u32, bool)> {
    let (mut b, segment) = receiver(algorithm);
    let mut out = Vec::new();
    for (n, marked) in marked.iter().enumerate() {
        let ecn = if *marked { Ecn::Congested } else { Ecn::Capable0 };
        b.on_segment(1, &segment(n as u32, ecn, if cwr.contains(&n) { CWR } else { 0 }));
        while let Some(ack) = b.next_segment(1) {
            out.push(((ack.ack - 1) / 1460, ack.is(ECE)));
        }
    }
    out
}

#[test]
fn receivers_report_marks() {
    let (y, n) = (true, false);
    // RFC 3168: until CWR.
    let classic = acks(Algorithm::Reno, &[n, n, y, n, n, n, n, n], &[6]);
    assert_eq!(classic, [(2, n), (4, y), (6, y), (8, n)]);
    // RFC 8257, section 3.2: an ACK for what came before each change, and one at once for what changed.
    let dctcp = acks(Algorithm::Dctcp, &[n, n, n, y, y, y, n, n, n, y, n], &[]);
    assert_eq!(dctcp, [(2, n), (3, n), (4, y), (6, y), (7, n), (9, n), (10, y), (11, n)]);
}
