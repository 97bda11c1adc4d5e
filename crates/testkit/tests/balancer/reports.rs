//! Load reports: which are accepted, and the effect of a silent agent.

use super::world::*;
use pointsman_testkit::packet::{Packet, Report, Sum};

/// Milliseconds since the start, as agents write them into reports.
fn clock(w: &World) -> u32 {
    (w.rig.now.0 / 1_000_000) as u32
}

/// The bit of `metrics` for a failed health check.
const FAILED: u16 = 8;

fn state_of(w: &mut World, server: u64) -> u64 {
    w.rig.register("load.accel_state", server).expect("a register").low_u64()
}

#[test]
fn accepted() {
    let mut w = World::new();
    for v4 in [true, false] {
        for device in DEVICES {
            let bit = 1u8 << (device & 7);
            for available in [bit, 0] {
                w.wait(1);
                let report = Report::new(device >> 3, bit, available, clock(&w));
                w.dropped(device_port(device), &report_packet(device, v4, &report), "REPORT_ACCEPTED");
                assert_eq!(state_of(&mut w, u64::from(device >> 3)) as u8 & bit, available);
            }
        }
    }
}

/// A report changes the bits that it covers, no others.
#[test]
fn only_what_the_mask_says() {
    let mut w = World::new();
    w.report(8, true);
    w.report(9, true);
    assert_eq!(state_of(&mut w, 1), 3);
    // An availability outside of the mask is not looked at.
    let report = Report::new(1, 1, 0xfe, clock(&w) + 1);
    w.dropped(2, &report_packet(8, true, &report), "REPORT_ACCEPTED");
    assert_eq!(state_of(&mut w, 1), 2);
    assert_eq!(state_of(&mut w, 2), 0);
}

/// To any address of the switch, over IPv4 with or without checksum.
#[test]
fn ways_to_send_one() {
    let mut w = World::new();
    for i in 0..4 {
        w.wait(5);
        let report = report_packet(8, true, &Report::new(1, 1, 1, clock(&w)));
        let report = match i {
            0 => report.dst(VIP4),
            1 => without_checksum(report),
            2 => report.ttl(1),
            _ => report.with_ip(|ip| ip.options = vec![1; 8]),
        };
        w.dropped(2, &report, "REPORT_ACCEPTED");
    }
    w.wait(5);
    let report = report_packet(8, false, &Report::new(1, 1, 1, clock(&w)));
    w.dropped(2, &report.dst(VIP6), "REPORT_ACCEPTED");
}

/// Later versions append metrics: a report may be longer, as long as its lengths agree.
#[test]
fn longer_reports() {
    let mut w = World::new();
    for words in [4u8, 10, 255] {
        for v4 in [true, false] {
            w.wait(5);
            let report = Report { length: words, metrics: 0x50, ..Report::new(1, 1, 1, clock(&w)) };
            let mut bytes = report.bytes();
            bytes.resize(4 * usize::from(words), 0xab);
            w.dropped(2, &report_packet(8, v4, &report).payload(bytes), "REPORT_ACCEPTED");
        }
    }
}

/// Ethernet's padding is not part of a report or its checksum.
#[test]
fn padded_to_the_least_frame() {
    let mut w = World::new();
    let report = report_packet(8, true, &Report::new(1, 1, 1, clock(&w)));
    let padded = Packet { trailer: vec![0; 6], ..report };
    w.dropped(2, &padded, "REPORT_ACCEPTED");
    assert_eq!(state_of(&mut w, 1), 1);
}

/// The bits of a report that is not accepted change nothing, and the device does not count as reporting.
#[track_caller]
fn refused(change: impl FnOnce(Packet) -> (u32, Packet), reason: &str) {
    let mut w = World::new();
    w.report(8, true);
    w.wait(5);
    let heard = w.rig.register("load.device0.last_heard", 1).expect("a register");
    let (port, packet) = change(report_packet(8, true, &Report::new(1, 1, 0, clock(&w))));
    w.dropped(port, &packet, reason);
    assert_eq!(state_of(&mut w, 1), 1);
    assert_eq!(w.rig.register("load.device0.last_heard", 1).expect("a register"), heard);
}

fn changed(change: impl Fn(&mut Report) + Copy) -> impl FnOnce(Packet) -> (u32, Packet) {
    move |p| {
        let mut report = Report::new(1, 1, 0, 1100);
        change(&mut report);
        (2, p.payload(report.bytes()))
    }
}

#[test]
fn spoofed() {
    let wrong = "DROP_REPORT_SOURCE";
    // From another port than the device's.
    refused(|p| (1, p), wrong);
    refused(|p| (3, p), wrong);
    // From another address, be it that of another device of the server.
    refused(|p| (2, p.src("10.0.1.9")), wrong);
    refused(|p| (2, p.src("10.0.1.16")), wrong);
    refused(|p| (2, p.src("192.0.2.1")), wrong);
    // For another server, known or not, or for devices that the agent does not report for.
    refused(changed(|r| r.server = 2), wrong);
    refused(changed(|r| r.server = 0), wrong);
    refused(changed(|r| r.server = 0x2001), wrong);
    refused(changed(|r| r.mask = 2), wrong);
    refused(changed(|r| r.mask = 3), wrong);
    refused(changed(|r| r.mask = 0x81), wrong);
}

#[test]
fn malformed() {
    let wrong = "DROP_REPORT_MALFORMED";
    refused(changed(|r| r.version = 0), wrong);
    refused(changed(|r| r.version = 2), wrong);
    refused(changed(|r| r.length = 0), wrong);
    refused(changed(|r| r.length = 2), wrong);
    refused(changed(|r| r.length = 4), wrong);
    refused(changed(|r| r.mask = 0), wrong);
    // Too short for a report.
    for len in [0, 1, 11] {
        refused(move |p| (2, p.payload(vec![1; len])), wrong);
    }
    // More or less than the report says.
    refused(|p| (2, p.payload([Report::new(1, 1, 0, 1100).bytes(), vec![0; 4]].concat())), wrong);
    refused(|p| (2, p.payload([Report::new(1, 1, 0, 1100).bytes(), vec![0]].concat())), wrong);
}

#[test]
fn wrong_checksum() {
    refused(|p| (2, p.with_udp(|u| u.checksum = Sum::Is(0x1234))), "DROP_CHECKSUM");
    let mut w = World::new();
    let report = report_packet(8, false, &Report::new(1, 1, 1, clock(&w)));
    w.dropped(2, &report.clone().with_udp(|u| u.checksum = Sum::Is(0x1234)), "DROP_CHECKSUM");
    // Over IPv6 there must be one (RFC 8200, section 8.1).
    w.dropped(2, &without_checksum(report.clone()), "DROP_CHECKSUM");
    assert_eq!(state_of(&mut w, 1), 0);
    // Damage anywhere in it.
    for byte in 62..report.bytes().len() {
        let mut frame = report.bytes();
        frame[byte] ^= 0x04;
        w.dropped_frame(2, &frame, "DROP_CHECKSUM");
    }
}

/// A checksum of all ones means zero and may be right.
#[test]
fn checksum_of_all_ones() {
    let mut w = World::new();
    let mut found = 0;
    for sequence in 5000..5000 + 66_000u32 {
        for v4 in [true, false] {
            let report = report_packet(8, v4, &Report::new(1, 1, 1, sequence));
            let frame = report.bytes();
            let at = if v4 { 40 } else { 60 };
            if frame[at..at + 2] == [0xff, 0xff] {
                w.dropped_frame(2, &frame, "REPORT_ACCEPTED");
                found += 1;
            }
        }
    }
    assert!(found > 0);
}

/// Cut anywhere: never accepted.
#[test]
fn cut_short() {
    let mut w = World::new();
    for v4 in [true, false] {
        let frame = report_packet(8, v4, &Report::new(1, 1, 1, clock(&w))).bytes();
        for len in 0..frame.len() {
            w.send(2, &frame[..len]);
        }
        // The IP header says less than the UDP header.
        let mut short = report_packet(8, v4, &Report::new(1, 1, 1, clock(&w)))
            .with_udp(|u| u.checksum = Sum::Is(0))
            .bytes();
        if v4 {
            short[16..18].copy_from_slice(&39u16.to_be_bytes());
            short[24..26].copy_from_slice(&[0, 0]);
            let sum = pointsman_testkit::packet::checksum(&short[14..34]);
            short[24..26].copy_from_slice(&sum.to_be_bytes());
            w.dropped_frame(2, &short, "DROP_MALFORMED");
        }
    }
    let accepted = w.rig.counter("drops", 32).expect("a counter").packets;
    assert_eq!((accepted, state_of(&mut w, 1)), (0, 0));
}

#[test]
fn overtaken() {
    let mut w = World::new();
    let send = |w: &mut World, sequence: u32, available: u8, reason: &str| {
        w.dropped(2, &report_packet(8, true, &Report::new(1, 1, available, sequence)), reason);
        assert_eq!(state_of(w, 1) & 1, if reason == "REPORT_ACCEPTED" { u64::from(available) } else { 1 });
    };
    send(&mut w, 100_000, 1, "REPORT_ACCEPTED");
    for old in [99_999, 99_500, 99_000] {
        send(&mut w, old, 0, "DROP_REPORT_STALE");
    }
    // A repetition is harmless; newer ones are newer however far.
    send(&mut w, 100_000, 1, "REPORT_ACCEPTED");
    send(&mut w, 100_001, 1, "REPORT_ACCEPTED");
    send(&mut w, 5_000_000, 1, "REPORT_ACCEPTED");
    // A restarted agent starts over: its clock is far behind.
    send(&mut w, 4_998_999, 1, "REPORT_ACCEPTED");
    send(&mut w, 17, 1, "REPORT_ACCEPTED");
    // The clock wraps.
    send(&mut w, 4_000_000_000, 1, "REPORT_ACCEPTED");
    send(&mut w, u32::MAX - 5, 1, "REPORT_ACCEPTED");
    send(&mut w, 10, 1, "REPORT_ACCEPTED");
    send(&mut w, u32::MAX, 0, "DROP_REPORT_STALE");
    // Each agent has its own sequence.
    w.dropped(2, &report_packet(9, true, &Report::new(1, 2, 2, 3)), "REPORT_ACCEPTED");
    assert_eq!(state_of(&mut w, 1), 3);
}

/// The whole TCP port of that number, and UDP from us to others, are not reports.
#[test]
fn only_udp_to_us_is_a_report() {
    let mut w = World::new();
    let tcp = Packet::tcp("10.0.1.8:5000", "10.0.0.1:9876", 2).macs(device_mac(8), SWITCH);
    w.dropped(2, &tcp, "DROP_VIP_NO_SERVICE");
    let through = report_packet(8, true, &Report::new(1, 1, 1, 5)).dst("10.0.9.9");
    w.expect(2, &through, PLAIN_PORT, &through.clone().macs(SWITCH, PLAIN).ttl(63));
    assert_eq!(state_of(&mut w, 1), 0);
}

/// A device whose agent is silent gets no new connections, under any policy; the other one gets them.
#[test]
fn silent_agents() {
    for policy in [HASH, ROUND_ROBIN, AVAILABILITY] {
        let mut w = World::one_server(policy);
        w.fill(1, 0, &[1], &[0, 1]);
        w.pool(1, 0, 1, 3, 2, 500);
        w.report(8, true);
        w.report(9, true);
        let mut n = 0;
        let mut seen = |w: &mut World| {
            let mut devices: Vec<u16> = (0..24).map(|i| w.device_of(&syn(&client4(n + i), WEB4))).collect();
            n += 24;
            devices.sort();
            devices.dedup();
            devices
        };
        let both = if policy == AVAILABILITY { vec![8] } else { vec![8, 9] };
        assert_eq!(seen(&mut w), both);
        w.wait(400);
        w.report(9, false);
        w.wait(100);
        assert_eq!(seen(&mut w), both, "500 ms are not too long");
        w.wait(1);
        assert_eq!(seen(&mut w), [9], "busy, but alive");
        // It is back with its first report.
        w.report(8, false);
        assert_eq!(seen(&mut w), both);
        w.report(8, true);
        // All of them silent: more likely the agents' fault than the devices'.
        w.wait(10_000);
        assert_eq!(seen(&mut w), both);
        // Established connections are unaffected.
        assert_eq!(w.device_of(&ack(&client4(0), WEB4)) >> 3, 1);
    }
}

/// If no agent reports, a device whose last health check failed gets a new connection only if all others failed theirs, too.
#[test]
fn a_device_that_failed_before_all_fell_silent() {
    for policy in [HASH, ROUND_ROBIN, AVAILABILITY] {
        let mut w = World::one_server(policy);
        w.fill(1, 0, &[1], &[0, 1]);
        w.pool(1, 0, 1, 3, 2, 500);
        w.report(9, true);
        let failed = |w: &mut World, device: u16| {
            let report = Report { metrics: FAILED, ..Report::new(1, 1 << (device & 7), 0, clock(w)) };
            w.dropped(device_port(device), &report_packet(device, true, &report), "REPORT_ACCEPTED");
        };
        let seen = |w: &mut World, from: u32| {
            let mut devices: Vec<u16> =
                (from..from + 24).map(|i| w.device_of(&syn(&client4(i), WEB4))).collect();
            devices.sort();
            devices.dedup();
            devices
        };
        failed(&mut w, 8);
        w.wait(10_000);
        assert_eq!(seen(&mut w, 0), [9]);
        w.wait(1);
        failed(&mut w, 9);
        assert!(seen(&mut w, 100).contains(&8), "better any device than none");
    }
}

/// Devices that never reported count as silent, if reports are needed.
#[test]
fn never_heard_of() {
    let mut w = World::one_server(AVAILABILITY);
    w.pool(1, 0, 1, 3, 6, 500);
    w.report(9, false);
    assert_eq!(w.device_of(&syn(&client4(1), WEB4)), 9);
    // The switch is younger than the timeout: that makes no difference.
    w.pool(1, 0, 1, 3, 6, 3_600_000);
    assert_eq!(w.device_of(&syn(&client4(2), WEB4)), 9);
    // Without a timeout they are not needed.
    w.pool(1, 0, 1, 3, 6, 0);
    assert_eq!(w.device_of(&syn(&client4(3), WEB4)), 8);
}

/// A silent device that a pool does not enable does not count as alive either.
#[test]
fn silence_and_pools() {
    let mut w = World::one_server(AVAILABILITY);
    w.pool(1, 0, 1, 1, 6, 500);
    w.report(9, true);
    assert_eq!(w.device_of(&syn(&client4(1), WEB4)), 8);
}
