//! Single losses, lost tails, reordering: what is repaired how, and how fast.

use crate::net::{MS, Net, Path, US};
use pointsman_transport::segment::FIN;
use pointsman_transport::{Algorithm, Config, State, Stats};
use std::cell::RefCell;
use std::rc::Rc;

/// 10 Gbit/s, a round trip of 10 ms.
fn path() -> Path {
    Path::new(10_000_000_000, 5 * MS)
}

fn config() -> Config {
    Config {
        algorithm: Algorithm::Reno,
        granularity_ns: US,
        ack_delay_ns: 2 * MS,
        peer_ack_delay_ns: 2 * MS,
        ..Config::default()
    }
}

/// Lets the first end send `segments` full segments, of which those with these numbers are lost once. Returns its numbers, and the
/// time that the transfer took.
fn lose(config: Config, segments: u64, lost: &[u64]) -> (Stats, u64) {
    let mut net = Net::established(config, path(), 1);
    net.run_until(net.now + 50 * MS);
    let first = net.packets[0];
    let lost: Vec<u64> = lost.iter().map(|n| n + first).collect();
    net.filter = Box::new(move |way, number, _| way == 1 || !lost.contains(&number));
    let bytes = segments * u64::from(net.ends[0].packet_bytes());
    let took = net.transfer(bytes);
    (net.ends[0].stats(), took)
}

#[test]
fn a_single_loss_is_repaired_in_one_round_trip() {
    for (sack, timestamps) in [(true, true), (true, false), (false, true), (false, false)] {
        let config = || Config { sack, timestamps, initial_window: 40, ..config() };
        let (clean, usual) = lose(config(), 40, &[]);
        assert_eq!((clean.retransmitted_segments, clean.segments), (0, 40));
        assert!((10 * MS..11 * MS).contains(&usual), "{usual}");
        for at in [0, 3, 20, 36] {
            let (stats, took) = lose(config(), 40, &[at]);
            assert_eq!((stats.retransmitted_segments, stats.fast_recoveries), (1, 1), "{at}: {stats:?}");
            assert_eq!((stats.timeouts, stats.probes, stats.spurious), (0, 0, 0), "{at}: {stats:?}");
            // Half of what was outstanding.
            let mss = if timestamps { 1448 } else { 1460 };
            assert_eq!(stats.ssthresh, (40 - at as u32) * mss / 2, "{at}: {stats:?}");
            assert!((20 * MS..21 * MS).contains(&took), "{at}: {took}");
        }
    }
}

#[test]
fn several_losses_in_a_window() {
    let lost = [2, 3, 9, 17, 18, 19, 25];
    let config = || Config { initial_window: 40, ..config() };
    let (stats, took) = lose(config(), 40, &lost);
    assert_eq!((stats.retransmitted_segments, stats.fast_recoveries, stats.timeouts), (7, 1, 0), "{stats:?}");
    assert!(took < 22 * MS, "{took}");
    // Without SACK it takes a round trip for each (RFC 6582).
    let (stats, took) = lose(Config { sack: false, ..config() }, 40, &lost);
    assert_eq!((stats.retransmitted_segments, stats.fast_recoveries, stats.timeouts), (7, 1, 0), "{stats:?}");
    assert!((75 * MS..85 * MS).contains(&took), "{took}");
}

#[test]
fn a_lost_tail_is_found_by_a_probe() {
    for lost in [&[39u64][..], &[38, 39], &[30, 31, 32, 33, 34, 35, 36, 37, 38, 39]] {
        let (stats, took) = lose(Config { initial_window: 40, ..config() }, 40, lost);
        assert_eq!((stats.timeouts, stats.probes), (0, 1), "{lost:?} {stats:?}");
        assert_eq!(stats.retransmitted_segments as usize, lost.len(), "{stats:?}");
        // A round trip, two until the probe, one for it, and those in which the window grows again.
        assert!(took < if lost.len() > 2 { 90 } else { 60 } * MS, "{took}");
        assert!(stats.fast_recoveries == u32::from(lost.len() > 1), "{stats:?}");
    }
    // Without SACK there is no probe.
    let (stats, took) = lose(Config { initial_window: 40, sack: false, ..config() }, 40, &[39]);
    assert_eq!((stats.timeouts, stats.probes), (1, 0), "{stats:?}");
    assert!(took > 200 * MS, "{took}");
    // All of a flight, and the probe.
    let (stats, _) = lose(Config { initial_window: 4, ..config() }, 4, &[0, 1, 2, 3, 4]);
    assert_eq!((stats.timeouts, stats.probes), (1, 1), "{stats:?}");
    assert!((4..=6).contains(&stats.retransmitted_segments), "{stats:?}");
}

/// Full packets have no room for SACK blocks: ACKs of their own carry them.
#[test]
fn losses_in_both_directions_at_once() {
    let lossy = Path { loss: 10_000, ..Path::new(1_000_000_000, 5 * MS) };
    let mut net = Net::established(config(), lossy, 1);
    net.ends.iter_mut().for_each(|end| end.write(3_000_000));
    assert!(net.run(|net| net.taken == [3_000_000; 2]));
    for end in &net.ends {
        let stats = end.stats();
        assert!(stats.timeouts == 0 && stats.fast_recoveries > 3, "{stats:?}");
    }
    let again: u64 = net.ends.iter().map(|end| u64::from(end.stats().retransmitted_segments)).sum();
    assert!(again < net.drops.iter().sum::<u64>() * 5 / 4, "{again} {:?}", net.drops);
}

/// The ACK of a single segment may be delayed: it is not a reason for a probe.
#[test]
fn a_delayed_ack_is_waited_for() {
    let slow = Config { quick_acks: 0, ack_delay_ns: 40 * MS, peer_ack_delay_ns: 40 * MS, ..config() };
    let mut net = Net::established(slow, path(), 1);
    // The first ACK also announces the scaled window.
    net.transfer(1448);
    let took = net.transfer(1448);
    assert!((50 * MS..51 * MS).contains(&took), "{took}");
    assert_eq!(net.ends[0].stats().probes, 0);
}

/// RFC 8985, section 7.4: a loss that the probe alone has repaired is a loss.
#[test]
fn a_probe_that_repairs_reduces_the_window() {
    for lost in [true, false] {
        let mut net = Net::established(Config { initial_window: 40, ..config() }, path(), 1);
        net.run_until(net.now + 50 * MS);
        let first = net.packets[0];
        // Either the last segment is lost, or its ACKs are, so that the receiver reports the probe as a duplicate.
        let from = net.now;
        let until = from + 15 * MS;
        net.filter = Box::new(move |way, number, _| way == 1 || !lost || number != first + 39);
        net.ends[0].write(40 * 1448);
        net.run_until(from + MS);
        if !lost {
            net.filter = Box::new(|way, _, _| way == 0);
            net.run_until(until);
            net.filter = Box::new(|_, _, _| true);
        }
        net.run_until(from + 100 * MS);
        net.transfer(5 * 1448);
        let stats = net.ends[0].stats();
        assert_eq!((stats.probes, stats.timeouts, stats.retransmitted_segments), (1, 0, 1), "{stats:?}");
        assert_eq!(stats.ssthresh < u32::MAX, lost, "{stats:?}");
    }
}

/// RFC 6582: what arrives twice after a time-out causes repeated ACKs, which are no sign of a loss.
#[test]
fn repeated_acks_after_a_timeout_start_no_recovery() {
    let config = Config { sack: false, timestamps: false, initial_window: 40, ..config() };
    let mut net = Net::established(config, path(), 1);
    net.paths[1].delay_ns += 300 * MS;
    net.transfer(40 * 1460);
    net.paths[1].delay_ns -= 300 * MS;
    net.transfer(40 * 1460);
    let stats = net.ends[0].stats();
    assert!(stats.timeouts > 0 && stats.fast_recoveries == 0, "{stats:?}");
}

/// What was received behind a gap was sent a round trip before it is acknowledged: that is not its round-trip time.
#[test]
fn repaired_losses_are_not_measured() {
    let config = Config { sack: false, timestamps: false, initial_window: 5, ..config() };
    let (stats, _) = lose(config, 5, &[0]);
    assert!(stats.retransmitted_segments == 1 && stats.srtt_ns < 10_300_000, "{stats:?}");
}

/// Without timestamps the back-off lasts until something is measured, but slow progress is not silence.
#[test]
fn many_timeouts_with_progress_end_nothing() {
    let config =
        Config { sack: false, timestamps: false, ranges: 1, initial_window: 40, retries: 4, ..config() };
    let mut net = Net::established(config, path(), 1);
    let mut n = 0;
    net.filter = Box::new(move |way, _, _| {
        n += u32::from(way == 0);
        way == 1 || n % 3 > 0
    });
    net.transfer(60_000);
    assert!(net.ends[0].stats().timeouts > 4, "{:?}", net.ends[0].stats());
}

#[test]
fn two_packets_that_overtake_one_are_no_loss() {
    let mut net = Net::established(Config { initial_window: 40, ..config() }, path(), 1);
    net.run_until(net.now + 50 * MS);
    let (first, held) = (net.packets[0], Rc::new(RefCell::new(None)));
    let holds = held.clone();
    net.filter = Box::new(move |way, number, packet| {
        let hold = way == 0 && number == first + 5;
        if hold {
            *holds.borrow_mut() = Some(*packet);
        }
        !hold
    });
    net.ends[0].write(8 * 1448);
    net.run(|net| net.ends[1].readable() + net.taken[1] == 5 * 1448);
    net.run_until(net.now + 100 * US);
    let packet = held.borrow_mut().take().expect("it was held");
    net.deliver(1, &packet);
    assert!(net.run(|net| net.ends[0].unacknowledged() == 0));
    let stats = net.ends[0].stats();
    assert_eq!((stats.retransmitted_segments, stats.fast_recoveries), (0, 0), "{stats:?}");
}

/// A time-out in a recovery belongs to the same loss: one reduction. The first retransmission leaves with the ACK that has
/// revealed the loss.
#[test]
fn a_timeout_during_a_recovery_reduces_once() {
    let mut net = Net::established(Config { initial_window: 40, ..config() }, path(), 1);
    net.run_until(net.now + 50 * MS);
    let first = net.packets[0];
    net.filter = Box::new(move |way, number, _| {
        way == 1 || number < first + 5 || (first + 6..first + 40).contains(&number)
    });
    net.ends[0].write(40 * 1448);
    net.run(|net| net.ends[0].stats().fast_recoveries == 1);
    let begun = net.ends[0].stats();
    assert_eq!(begun.retransmitted_segments, 1);
    net.run(|net| net.ends[0].stats().timeouts == 1);
    net.filter = Box::new(|_, _, _| true);
    assert!(net.run(|net| net.ends[0].unacknowledged() == 0));
    let stats = net.ends[0].stats();
    assert_eq!((stats.ssthresh, stats.timeouts), (begun.ssthresh, 2), "{stats:?}");
}

#[test]
fn a_lost_retransmission_needs_no_timeout() {
    // Packet 40 is the retransmission of packet 5, if no new data leaves before it.
    let mut net = Net::established(Config { initial_window: 40, ..config() }, path(), 1);
    net.run_until(net.now + 50 * MS);
    let first = net.packets[0];
    let mut victim = None;
    let mut losses = 0;
    net.filter = Box::new(move |way, number, packet| {
        if way == 0 && number == first + 5 {
            victim = Some(packet.seq);
        }
        let lost = way == 0 && victim == Some(packet.seq) && losses < 2;
        losses += u32::from(lost);
        !lost
    });
    net.transfer(200 * 1448);
    let stats = net.ends[0].stats();
    assert_eq!((stats.retransmitted_segments, stats.timeouts, stats.fast_recoveries), (2, 0, 1), "{stats:?}");
}

#[test]
fn reordering_is_no_loss() {
    // A hundredth of the packets is late by up to a fifth of the round trip.
    let late = Path { late: 10_000, late_ns: 2 * MS, ..Path::new(100_000_000, 5 * MS) };
    let mut net = Net::established(config(), late, 3);
    net.transfer(20_000_000);
    let stats = net.ends[0].stats();
    assert!(stats.segments > 13_000, "{stats:?}");
    // The first time it cannot know.
    assert!(stats.retransmitted_segments <= 20, "{stats:?}");
    assert!(stats.fast_recoveries <= 2 && stats.timeouts == 0, "{stats:?}");
}

#[test]
fn a_timeout_without_a_loss_is_undone() {
    let mut net = Net::established(Config { timestamp_unit_ns: US, ..config() }, path(), 1);
    net.transfer(30 * 1448);
    let before = net.ends[0].stats();
    // The path becomes slower by half a second.
    net.paths[1].delay_ns += 500 * MS;
    net.transfer(10 * 1448);
    let stats = net.ends[0].stats();
    assert!(stats.timeouts >= 1 && stats.spurious == 1, "{stats:?}");
    // One segment for the probe and each time-out; the others are taken to be on their way again.
    assert_eq!(stats.retransmitted_segments, stats.probes + stats.timeouts, "{stats:?}");
    assert!(stats.cwnd >= before.cwnd && stats.ssthresh == u32::MAX, "{stats:?} {before:?}");
}

#[test]
fn duplicates_undo_a_recovery() {
    // Packets 5 to 9 are late by more than RACK waits the first time; all arrive.
    let mut net = Net::established(Config { initial_window: 40, timestamps: false, ..config() }, path(), 1);
    net.run_until(net.now + 50 * MS);
    let first = net.packets[0];
    let mut held = Vec::new();
    let sent: Rc<RefCell<Vec<_>>> = Rc::default();
    let kept = sent.clone();
    net.filter = Box::new(move |way, number, packet| {
        let hold = way == 0 && (first + 5..first + 10).contains(&number);
        if hold {
            held.push(*packet);
            kept.borrow_mut().push(*packet);
        }
        !hold
    });
    net.ends[0].write(40 * 1460);
    net.run(|net| net.ends[0].stats().fast_recoveries == 1);
    net.run_until(net.now + 2 * MS);
    let packets = sent.borrow().clone();
    packets.iter().for_each(|packet| net.deliver(1, packet));
    assert!(net.run(|net| net.ends[0].unacknowledged() == 0));
    net.run_until(net.now + 20 * MS);
    let stats = net.ends[0].stats();
    assert!(stats.duplicates > 0 && stats.spurious == 1, "{stats:?}");
    assert!(stats.ssthresh == u32::MAX && stats.cwnd >= 40 * 1460, "{stats:?}");
}

#[test]
fn lost_parts_of_handshake_and_close() {
    for lost in 0..6u64 {
        for way in 0..2 {
            let mut net = Net::new([config(), config()], path(), 9);
            net.filter = Box::new(move |w, number, _| w != way || number != lost);
            net.ends[0].write(3000);
            assert!(net.run(|net| net.ends.len() == 2));
            net.finish();
            assert_eq!(net.taken, [0, 3000], "{way} {lost}");
        }
    }
    // After a lost SYN the window is one segment (RFC 5681, section 3.1).
    for lost in [false, true] {
        let mut net = Net::new([config(), config()], path(), 9);
        net.filter = Box::new(move |way, number, _| !lost || way != 0 || number != 0);
        assert!(net.run(|net| net.ends.len() == 2 && net.ends[0].state() == State::Established));
        assert_eq!(net.ends[0].stats().cwnd, 1448 * if lost { 1 } else { 10 });
    }
    // A FIN whose every first copy is lost, with data.
    let mut net = Net::established(config(), path(), 2);
    let mut seen = false;
    net.filter =
        Box::new(move |way, _, packet| way == 1 || !packet.is(FIN) || std::mem::replace(&mut seen, true));
    net.ends[0].write(5000);
    net.finish();
    assert_eq!(net.taken[1], 5000);
}

/// As Linux does under load: an ACK that includes what was received out of order repeats the block.
#[test]
fn a_block_that_was_reported_before_is_no_duplicate() {
    let mut net = Net::established(Config { initial_window: 40, ..config() }, path(), 1);
    net.run_until(net.now + 50 * MS);
    let (first, mut last) = (net.packets[0], None);
    net.filter = Box::new(move |way, number, packet| {
        if way == 0 {
            return number != first + 5;
        }
        match packet.options.sack.blocks().first() {
            Some(block) => last = Some(*block),
            None => last.take().into_iter().for_each(|block| packet.options.sack.push(block)),
        }
        true
    });
    net.transfer(40 * 1448);
    let stats = net.ends[0].stats();
    assert_eq!((stats.retransmitted_segments, stats.duplicates, stats.spurious), (1, 0, 0), "{stats:?}");
}
