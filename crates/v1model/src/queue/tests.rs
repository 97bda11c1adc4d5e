use super::*;

fn queues(priorities: u8, rate_pps: Option<u64>) -> Queues<u32> {
    Queues::new(priorities, QueueConfig { depth_packets: 4, rate_pps, ..QueueConfig::default() })
}

/// A packet of 100 bytes.
fn push(q: &mut Queues<u32>, now: u64, port: u32, priority: u8, packet: u32) {
    assert!(q.admits(port, priority, 100).is_some(), "packet {packet}");
    q.push(Time(now), port, priority, 100, packet);
}

/// Takes every packet out as soon as it may leave, and sends it with 100 bytes: when, which, and how many are left there.
fn serve(q: &mut Queues<u32>) -> Vec<(u64, u32, u32)> {
    let mut all = Vec::new();
    let mut now = Time(0);
    while let Some(next) = q.next() {
        now = now.max(next);
        if let Some(d) = q.pop(now) {
            q.sent(d.port, 100);
            all.push((now.0, d.packet, d.depth));
        }
    }
    assert!(q.len() == 0 && q.bytes == 0);
    all
}

#[test]
fn unlimited_is_first_come_first_served() {
    let mut q = queues(1, None);
    for i in 0..3 {
        push(&mut q, 5, 3 - i, 0, i);
    }
    let order: Vec<_> = std::iter::from_fn(|| q.pop(Time(5))).map(|d| (d.port, d.packet)).collect();
    assert_eq!(order, [(3, 0), (2, 1), (1, 2)]);
    assert_eq!(q.next(), None);
}

#[test]
fn rate_spaces_departures_exactly() {
    let mut q = queues(1, Some(3));
    for i in 0..4 {
        push(&mut q, 0, 1, 0, i);
    }
    assert!(q.admits(1, 0, 100).is_none() && q.admits(2, 0, 100).is_some());
    assert_eq!(q.stats(1, 0), QueueStats { queued: 4, queued_bytes: 400, enqueued: 4, dequeued: 0 });
    assert!(q.pop(Time(0)).is_some() && q.pop(Time(333_333_332)).is_none());
    assert_eq!(q.counts(1), [QueueCounts { enqueued: 4, dequeued: 1, waiting: 3 }]);
    let rest = serve(&mut q);
    assert_eq!(rest, [(333_333_333, 1, 2), (666_666_666, 2, 1), (1_000_000_000, 3, 0)]);
    // After a pause the next one goes at once.
    push(&mut q, 9_000_000_000, 1, 0, 9);
    assert_eq!(q.next(), Some(Time(9_000_000_000)));
}

#[test]
fn higher_priority_first() {
    let mut q = queues(3, None);
    for (priority, packet) in [(0, 0), (1, 1), (2, 2), (7, 7), (0, 3)] {
        push(&mut q, 0, 1, priority, packet);
    }
    assert_eq!(q.port_len(1), 5);
    // Priorities above the highest one are that.
    assert_eq!(q.counts(1).iter().map(|c| c.waiting).collect::<Vec<_>>(), [2, 1, 2]);
    let order: Vec<_> = std::iter::from_fn(|| q.pop(Time(0))).map(|d| d.packet).collect();
    assert_eq!(order, [2, 7, 1, 0, 3]);
}

#[test]
fn ports_beyond_the_array() {
    let mut q = queues(1, None);
    q.configure(70_000, None, QueueConfig { depth_packets: 1, ..QueueConfig::default() });
    push(&mut q, 0, 70_000, 0, 1);
    assert!(q.admits(70_000, 0, 100).is_none());
    assert_eq!(q.config(70_001, 0).depth_packets, 4);
    assert_eq!(q.drain().iter().map(|(_, w)| w.packet).collect::<Vec<_>>(), [1]);
    assert_eq!((q.len(), q.port_len(70_000)), (0, 0));
    assert_eq!(q.counts(70_000), [QueueCounts { enqueued: 1, dequeued: 1, waiting: 0 }]);
}

/// 100 bytes and 24 more take 992 ns at a gigabit a second.
#[test]
fn a_port_sends_one_packet_after_the_other() {
    let mut q = queues(2, None);
    q.set_rate(1, Some(PortRate::ethernet(1_000_000_000)));
    for (priority, packet) in [(0, 0), (0, 1), (1, 2), (0, 3)] {
        push(&mut q, 0, 1, priority, packet);
    }
    push(&mut q, 0, 2, 0, 9);
    // The packet of the port without a rate does not wait for others.
    assert_eq!(serve(&mut q), [(0, 9, 0), (0, 2, 0), (992, 0, 2), (1984, 1, 1), (2976, 3, 0)]);
    // What leaves decides on the time, not what came in: nothing was sent for this one.
    push(&mut q, 10_000, 1, 0, 4);
    push(&mut q, 10_000, 1, 0, 5);
    assert!(q.pop(Time(10_000)).is_some() && q.pop(Time(10_000)).is_some());
}

/// Late service does not lower the rate.
#[test]
fn a_port_that_is_served_late() {
    let mut q = queues(1, None);
    q.set_rate(1, Some(PortRate { bits_per_s: 800_000_000, overhead_bytes: 0, burst_ns: 0 }));
    for packet in 0..4 {
        push(&mut q, 0, 1, 0, packet);
    }
    let mut serve_at = |now: u64| {
        let gone = q.pop(Time(now)).is_some();
        if gone {
            q.sent(1, 100);
        }
        (gone, q.next().map(|t| t.0))
    };
    assert_eq!(serve_at(0), (true, Some(0)));
    // Each takes 1,000 ns, however late the one before it left.
    assert_eq!(serve_at(0), (false, Some(1000)));
    assert_eq!(serve_at(1700), (true, Some(1000)));
    assert_eq!(serve_at(1700), (false, Some(2000)));
    // After a long pause only a millisecond is made up for.
    assert_eq!(serve_at(5_000_000), (true, Some(4_000_000)));
    assert!(serve_at(5_000_000).0);
    assert!(q.opens(Time(4_002_000), 1) && !q.opens(Time(4_001_999), 1));
}

/// A packet of high priority that comes while another one is sent goes next.
#[test]
fn priorities_within_a_port() {
    let mut q = queues(2, None);
    q.set_rate(1, Some(PortRate { bits_per_s: 800_000_000, overhead_bytes: 0, burst_ns: 0 }));
    push(&mut q, 0, 1, 0, 0);
    push(&mut q, 0, 1, 0, 1);
    assert_eq!(q.pop(Time(0)).unwrap().packet, 0);
    q.sent(1, 100);
    push(&mut q, 500, 1, 1, 2);
    assert!(q.pop(Time(999)).is_none());
    assert_eq!(q.next(), Some(Time(1000)));
    assert_eq!(serve(&mut q), [(1000, 2, 0), (2000, 1, 0)]);
}

#[test]
fn a_delay_holds_each_packet() {
    let mut q = queues(1, None);
    q.configure(1, None, QueueConfig { delay_ns: 700, ..QueueConfig::default() });
    push(&mut q, 0, 1, 0, 0);
    push(&mut q, 100, 1, 0, 1);
    assert_eq!(serve(&mut q), [(700, 0, 1), (800, 1, 0)]);
    // Behind a rate in bits it is the same, as long as the port is free.
    q.set_rate(1, Some(PortRate { bits_per_s: 8_000_000_000, overhead_bytes: 0, burst_ns: 0 }));
    push(&mut q, 10_000, 1, 0, 2);
    push(&mut q, 10_010, 1, 0, 3);
    assert_eq!(serve(&mut q), [(10_700, 2, 1), (10_800, 3, 0)]);
}

#[test]
fn depth_in_bytes_and_a_shared_buffer() {
    let mut q = queues(1, Some(1));
    q.configure(1, None, QueueConfig { depth_bytes: Some(250), rate_pps: Some(1), ..QueueConfig::default() });
    push(&mut q, 0, 1, 0, 0);
    push(&mut q, 0, 1, 0, 1);
    assert!(q.admits(1, 0, 51).is_none() && q.admits(1, 0, 50).is_some());
    // Of 500 bytes 200 are taken: a queue may have as much as is free.
    q.set_buffer(Some(SharedBuffer { bytes: 500, threshold_percent: 100 }));
    assert!(q.admits(2, 0, 300).is_some() && q.admits(2, 0, 301).is_none());
    push(&mut q, 0, 2, 0, 2);
    assert!(q.admits(2, 0, 100).is_some() && q.admits(2, 0, 101).is_none() && q.admits(3, 0, 200).is_some());
}

/// Packets of 124 bytes on the wire, which take 992 ns each.
#[test]
fn a_port_is_ahead_of_its_rate_by_its_burst() {
    let mut q = queues(1, None);
    q.set_rate(1, Some(PortRate { burst_ns: 2_000, ..PortRate::ethernet(1_000_000_000) }));
    for _ in 0..3 {
        assert!(q.opens(Time(0), 1));
        q.sent(1, 100);
    }
    assert!(!q.opens(Time(0), 1));
    for i in 0..3 {
        push(&mut q, 0, 1, 0, i);
    }
    let times: Vec<u64> = serve(&mut q).iter().map(|d| d.0).collect();
    assert_eq!(times, [976, 1_968, 2_960]);
    assert!(!q.opens(Time(3_951), 1) && q.opens(Time(3_952), 1));
}

/// The fast path asks only for ports that may be closed.
#[test]
fn open_and_held_ports() {
    let mut q = queues(1, None);
    assert!(!q.may_hold() && q.opens(Time(0), 1));
    q.set_rate(1, Some(PortRate::ethernet(1_000_000_000)));
    q.configure(2, None, QueueConfig { delay_ns: 1, ..QueueConfig::default() });
    assert_eq!(q.holding, 2);
    assert!(q.opens(Time(0), 1) && !q.opens(Time(0), 2) && q.opens(Time(0), 3));
    // An idle port with a rate lets a packet through, then it is busy.
    q.sent(1, 100);
    assert!(!q.opens(Time(991), 1) && q.opens(Time(992), 1));
    // A packet that waits holds its port only.
    push(&mut q, 0, 3, 0, 0);
    push(&mut q, 0, 100, 0, 1);
    assert!(!q.opens(Time(0), 3) && q.opens(Time(0), 4) && !q.are_quiet(Time(0)));
    assert_eq!(q.holding, 4);
    assert_eq!(serve(&mut q).len(), 2);
    assert_eq!(q.holding, 2);
    assert!(q.opens(Time(0), 3) && q.are_quiet(Time(0)));
    // Settings that hold nothing, and queues that are emptied.
    q.set_rate(1, None);
    push(&mut q, 0, 3, 0, 0);
    assert_eq!(q.holding, 2);
    q.drain();
    assert_eq!((q.holding, q.alike::<u32>().holding), (1, 1));
    q.configure_all(QueueConfig { delay_ns: 1, ..QueueConfig::default() });
    assert!(q.may_hold() && !q.opens(Time(0), 1) && !q.opens(Time(0), 9));
    q.configure_all(QueueConfig::default());
    assert!(!q.may_hold() && q.opens(Time(0), 9));
}
