//! Handshakes, ends, closed windows, and segments that do not belong.

use crate::net::{MS, Net, Path, SECOND};
use pointsman_transport::segment::{ACK, FIN, RST, SYN};
use pointsman_transport::{Config, Connection, End, Segment, State, reset_for};
use std::sync::Arc;

fn path() -> Path {
    Path::new(1_000_000_000, 5 * MS)
}

fn net() -> Net {
    Net::established(Config::default(), path(), 1)
}

fn states(net: &Net) -> (State, State) {
    (net.ends[0].state(), net.ends[1].state())
}

#[test]
fn options_are_agreed_on() {
    let theirs = Config { timestamps: false, mss: 1000, receive_buffer: 50_000, ..Config::default() };
    let mut net = Net::new([Config::default(), theirs], path(), 1);
    net.ends[0].write(10_000);
    assert!(net.run(|net| net.taken[1] == 10_000));
    for end in &net.ends {
        assert!(end.uses_sack() && !end.uses_timestamps());
        assert_eq!(end.packet_bytes(), 1000);
    }
    // 4 MiB need a scale of 7; 50,000 bytes need none, but allow the other's.
    assert_eq!((net.ends[0].scales(), net.ends[1].scales()), ((0, 7), (7, 0)));
    assert_eq!(net.ends[0].stats().peer_window, 50_000);
    // The round-trip time is known from the handshake.
    assert!((10 * MS..11 * MS).contains(&net.ends[0].stats().srtt_ns));
}

#[test]
fn one_closes_after_the_other() {
    let mut net = net();
    net.ends[0].write(100);
    net.ends[0].close();
    net.run_until(net.now + 30 * MS);
    assert_eq!(states(&net), (State::FinWait2, State::CloseWait));
    assert!(net.ends[1].peer_has_closed() && net.taken[1] == 100);
    // The other direction is still open.
    net.ends[1].write(70_000);
    net.run_until(net.now + 100 * MS);
    assert_eq!(net.taken[0], 70_000);
    net.ends[1].close();
    // Nothing is written after it.
    net.ends[1].write(5);
    net.run_until(net.now + 30 * MS);
    assert_eq!(states(&net), (State::TimeWait, State::Closed));
    let closed = net.now;
    net.run(|net| net.ends[0].state() == State::Closed);
    let waited = net.now - closed;
    assert!((59 * SECOND..=60 * SECOND).contains(&waited), "{waited}");
    assert_eq!((net.ends[0].end(), net.ends[1].end()), (Some(End::Closed), Some(End::Closed)));
    assert_eq!(net.taken, [70_000, 100]);
}

#[test]
fn both_close_at_once() {
    let mut net = net();
    net.ends.iter_mut().for_each(Connection::close);
    net.drain();
    assert_eq!(states(&net), (State::FinWait1, State::FinWait1));
    net.run_until(net.now + 6 * MS);
    assert_eq!(states(&net), (State::Closing, State::Closing));
    net.run_until(net.now + 6 * MS);
    assert_eq!(states(&net), (State::TimeWait, State::TimeWait));
    // A FIN that comes again is acknowledged, and the wait begins again.
    let expires = net.ends[0].deadline().expect("TIME_WAIT");
    net.run_until(net.now + SECOND);
    let fin = Segment { flags: ACK | FIN, seq: net.last[0].seq.wrapping_sub(1), ..net.last[0] };
    net.deliver(0, &fin);
    assert_eq!(net.ends[0].next_segment(net.now).map(|s| s.flags), Some(ACK));
    assert!(net.ends[0].deadline() > Some(expires));
    // A reset does not end it (RFC 1337).
    let reset = Segment { flags: RST, seq: net.last[0].seq.wrapping_add(1), ..net.last[0] };
    net.deliver(0, &reset);
    assert_eq!(net.ends[0].state(), State::TimeWait);
}

#[test]
fn both_open_at_once() {
    let config = Arc::new(Config::default());
    let mut a = Connection::connect(config.clone(), 0, 1000);
    let mut b = Connection::connect(config, 0, u32::MAX);
    let (to_b, to_a) = (a.next_segment(0).expect("a SYN"), b.next_segment(0).expect("a SYN"));
    a.on_segment(0, &to_a);
    b.on_segment(0, &to_b);
    assert_eq!((a.state(), b.state()), (State::SynReceived, State::SynReceived));
    a.write(10_000);
    for _ in 0..20 {
        while let Some(segment) = a.next_segment(0) {
            b.on_segment(0, &segment);
        }
        while let Some(segment) = b.next_segment(0) {
            a.on_segment(0, &segment);
        }
    }
    assert_eq!((a.state(), b.state(), b.take()), (State::Established, State::Established, 10_000));
}

#[test]
fn nobody_answers() {
    let mut alone = Connection::connect(Arc::new(Config::default()), 0, 7);
    let (mut now, mut times) = (0, Vec::new());
    while alone.state() != State::Closed {
        while alone.next_segment(now).is_some() {
            times.push(now / SECOND);
        }
        now = alone.deadline().expect("a deadline");
        alone.on_deadline(now);
    }
    assert_eq!(times, [0, 1, 3, 7, 15, 31, 63]);
    assert_eq!((alone.end(), now / SECOND), (Some(End::TimedOut), 127));
    // In the middle of a connection.
    let mut net = Net::established(Config { retries: 5, ..Config::default() }, path(), 1);
    net.filter = Box::new(|_, _, _| false);
    net.ends[0].write(1000);
    assert!(net.run(|net| net.ends[0].state() == State::Closed));
    assert_eq!(net.ends[0].end(), Some(End::TimedOut));
    let stats = net.ends[0].stats();
    assert_eq!((stats.timeouts, stats.probes), (6, 1), "{stats:?}");
}

#[test]
fn resets_end_a_connection() {
    let mut refused = Connection::connect(Arc::new(Config::default()), 0, 7);
    let syn = refused.next_segment(0).expect("a SYN");
    let reset = reset_for(&syn).expect("a reset");
    refused.on_segment(0, &Segment { ack: reset.ack + 1, ..reset });
    assert_eq!(refused.state(), State::SynSent);
    refused.on_segment(0, &reset);
    assert_eq!(refused.end(), Some(End::Refused));
    // Data that waits to be read stays, and reading it starts nothing.
    let mut net = Net::established(Config { receive_buffer: 20_000, ..Config::default() }, path(), 1);
    net.takes[1] = false;
    net.ends[0].write(20_000);
    net.run_until(net.now + 50 * MS);
    net.ends[0].abort();
    net.run_until(net.now + 10 * MS);
    assert_eq!(net.ends[1].readable(), 20_000);
    assert_eq!((net.ends[0].end(), net.ends[1].end()), (Some(End::Aborted), Some(End::Reset)));
    net.ends[1].take();
    assert!(net.ends.iter().all(|end| end.deadline().is_none()));
    assert!(net.ends.iter_mut().all(|end| end.next_segment(0).is_none()));
}

/// Makes a forged segment of a real one.
type Forge = fn(Segment) -> Segment;

/// RFC 5961: what could be forged is answered with an ACK, and not too often.
#[test]
fn forged_segments_are_challenged() {
    let template = |net: &Net| Segment { len: 0, ..net.last[0] };
    let forged: [(&str, Forge); 6] = [
        ("RST in the window", |s| Segment { seq: s.seq.wrapping_add(100), flags: RST, ..s }),
        ("SYN in the window", |s| Segment { flags: SYN, ..s }),
        ("SYN outside", |s| Segment { seq: s.seq.wrapping_sub(1 << 30), flags: SYN, ..s }),
        ("ACK of what was not sent", |s| Segment { ack: s.ack.wrapping_add(100_000), flags: ACK, ..s }),
        ("ACK of long ago", |s| Segment { ack: s.ack.wrapping_sub(1 << 30), flags: ACK, ..s }),
        ("beyond the window", |s| Segment { seq: s.seq.wrapping_add(1 << 30), flags: ACK, ..s }),
    ];
    for (name, forge) in forged {
        let mut net = net();
        net.ends[0].write(10_000);
        net.run_until(net.now + 50 * MS);
        let fake = forge(template(&net));
        let mut answers = 0;
        for _ in 0..10 {
            net.ends[0].on_segment(net.now, &fake);
            answers +=
                u32::from(net.ends[0].next_segment(net.now).is_some_and(|s| s.flags == ACK && s.len == 0));
        }
        assert_eq!((net.ends[0].state(), answers), (State::Established, 1), "{name}");
        net.run_until(net.now + SECOND);
        net.ends[0].on_segment(net.now, &fake);
        assert!(net.ends[0].next_segment(net.now).is_some(), "{name}");
    }
    // Ignored: a RST outside of the window.
    let mut net = net();
    net.ends[0].write(100);
    net.run_until(net.now + 50 * MS);
    let fake = Segment { seq: net.last[0].seq.wrapping_sub(1), flags: RST, ..net.last[0] };
    net.ends[0].on_segment(net.now, &fake);
    assert!(net.ends[0].next_segment(net.now).is_none() && net.ends[0].state() == State::Established);
}

#[test]
fn old_timestamps_are_refused() {
    let mut net = net();
    net.ends[0].write(1000);
    net.run_until(net.now + 100 * MS);
    let sent = net.last[1];
    net.ends[0].write(1000);
    net.run_until(net.now + 100 * MS);
    let (value, echo) = sent.options.timestamps.expect("timestamps");
    // New data in the window, with an older timestamp than the last one.
    let stale = Segment { seq: net.last[1].seq.wrapping_add(1000), ..sent };
    net.ends[1].on_segment(net.now, &stale);
    assert_eq!(net.ends[1].readable(), 0);
    assert!(net.ends[1].next_segment(net.now).is_some_and(|s| s.flags == ACK));
    let fresh = Segment {
        options: pointsman_transport::Options { timestamps: Some((value + 10_000, echo)), ..stale.options },
        ..stale
    };
    net.ends[1].on_segment(net.now, &fresh);
    assert_eq!(net.ends[1].readable(), 1000);
}

#[test]
fn a_closed_window_is_probed_until_it_opens() {
    let config = Config { receive_buffer: 20_000, ..Config::default() };
    let mut net = Net::established(config, path(), 1);
    net.takes[1] = false;
    net.ends[0].write(100_000);
    net.run_until(net.now + 60 * SECOND);
    assert_eq!(net.ends[1].readable(), 20_000);
    assert_eq!(net.ends[0].stats().peer_window, 0);
    let probes = net.packets[0];
    // The update after the buffer was read is lost: a probe finds out.
    net.filter = Box::new(|way, _, _| way == 0);
    net.takes[1] = true;
    net.run_until(net.now + MS);
    net.filter = Box::new(|_, _, _| true);
    assert!(net.run(|net| net.taken[1] == 100_000));
    assert!((5..40).contains(&probes), "{probes}");
    assert_eq!(net.ends[0].stats().retransmitted_segments, 0);
    // Probes get answers: the connection may wait for longer than it waits for a silent peer.
    let config = Config { receive_buffer: 20_000, retries: 3, ..Config::default() };
    let mut net = Net::established(config, path(), 1);
    net.takes[1] = false;
    net.ends[0].write(100_000);
    net.run_until(net.now + 600 * SECOND);
    assert_eq!(net.ends[0].state(), State::Established);
    net.takes[1] = true;
    assert!(net.run(|net| net.taken[1] == 100_000));
}

/// RFC 9293, section 3.8.6.1: also if nothing was left to be sent when the window closed.
#[test]
fn data_written_into_a_closed_window_is_probed_for() {
    for close in [false, true] {
        let config = Config { receive_buffer: 20_000, ..Config::default() };
        let mut net = Net::established(config, path(), 1);
        net.takes[1] = false;
        net.ends[0].write(20_000);
        net.run_until(net.now + SECOND);
        assert_eq!((net.ends[1].readable(), net.ends[0].stats().peer_window), (20_000, 0));
        match close {
            false => net.ends[0].write(80_000),
            true => net.ends[0].close(),
        }
        // The update after the buffer was read is lost.
        net.filter = Box::new(|way, _, _| way == 0);
        net.takes[1] = true;
        net.run_until(net.now + MS);
        net.filter = Box::new(|_, _, _| true);
        let done = |net: &Net| if close { net.ends[1].peer_has_closed() } else { net.taken[1] == 100_000 };
        assert!(net.run(done), "close: {close}");
    }
}

/// A window that counts in large units does not open beyond the buffer.
#[test]
fn no_more_is_received_than_the_buffer_takes() {
    for (buffer, unit) in [(4 << 20, 1448), (4 << 20, 100), (64 << 20, 1448)] {
        let config = Config { receive_buffer: buffer, ..Config::default() };
        let mut net = Net::established(config, path(), 1);
        net.takes[1] = false;
        for _ in 0..2 * u64::from(buffer) / (1000 * unit) {
            net.ends[0].write(1000 * unit);
            net.run_until(net.now + 30 * MS);
        }
        net.run_until(net.now + SECOND);
        let readable = net.ends[1].readable();
        assert!(
            readable <= u64::from(buffer) && readable > u64::from(buffer) / 20,
            "{buffer} {unit}: {readable}"
        );
    }
}

#[test]
fn a_reader_announces_the_window_that_it_opens() {
    let config = Config { receive_buffer: 20_000, ..Config::default() };
    let mut net = Net::established(config, path(), 1);
    net.takes[1] = false;
    net.ends[0].write(40_000);
    net.run_until(net.now + 300 * MS);
    assert_eq!(net.ends[1].readable(), 20_000);
    net.takes[1] = true;
    net.run_until(net.now + 11 * MS);
    assert_eq!(net.taken[1], 40_000);
}

#[test]
fn windows_smaller_than_a_packet() {
    let config = Config { receive_buffer: 900, ..Config::default() };
    let mut net = Net::established(config, path(), 1);
    net.transfer(20_000);
    net.finish();
    assert_eq!(net.taken[1], 20_000);
    // A reader that takes little by little sees no tiny segments.
    let config = Config { receive_buffer: 20_000, ..Config::default() };
    let mut net = Net::established(config, path(), 1);
    net.transfer(100_000);
    assert!(net.ends[0].stats().segments <= 72, "{:?}", net.ends[0].stats());
}

/// RFC 9293, section 3.5.1, figure 9: the peer still has an earlier connection, which has to end first.
#[test]
fn a_forgotten_connection_is_reset() {
    let config = Arc::new(Config::default());
    let mut connection = Connection::connect(config.clone(), 0, 100);
    connection.next_segment(0).expect("a SYN");
    connection.on_segment(0, &Segment { seq: 7, ack: 300, flags: ACK, ..Segment::default() });
    let reset = connection.next_segment(0).expect("a reset");
    assert_eq!((reset.seq, reset.flags, connection.state()), (300, RST, State::SynSent));
    connection.on_segment(0, &Segment { seq: 7, ack: 300, flags: RST | ACK, ..Segment::default() });
    assert!(connection.next_segment(0).is_none() && connection.state() == State::SynSent);
    // The same for one that has accepted.
    let syn = Segment { seq: 100, flags: SYN, ..Segment::default() };
    let mut connection = Connection::accept(config, 0, 100, &syn).expect("a SYN");
    connection.next_segment(0).expect("an answer");
    connection.on_segment(0, &Segment { seq: 101, ack: 100, flags: ACK, ..Segment::default() });
    let reset = connection.next_segment(0).expect("a reset");
    assert_eq!((reset.seq, reset.flags, connection.state()), (100, RST, State::SynReceived));
}

#[test]
fn a_fin_needs_no_packet_of_its_own() {
    for lost in [false, true] {
        let mut net = net();
        net.run_until(net.now + 20 * MS);
        let last = net.packets[0] + 9;
        net.filter = Box::new(move |way, number, _| !lost || way != 0 || number != last);
        net.ends[0].write(10 * 1448);
        net.ends[0].close();
        net.run_until(net.now + SECOND);
        let stats = net.ends[0].stats();
        assert_eq!((stats.segments, stats.retransmitted_segments), (10 + u64::from(lost), u32::from(lost)));
        assert_eq!((net.taken[1], states(&net)), (14_480, (State::FinWait2, State::CloseWait)));
    }
}
