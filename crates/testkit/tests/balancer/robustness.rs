//! Invalid frames: no panic, every packet has one fate, every drop a counted reason, and outgoing packets have right
//! checksums if the incoming ones had.

use super::world::*;
use pointsman_testkit::packet::numbers::*;
use pointsman_testkit::packet::{Body, L4, Packet, Report, check_checksums, checksum, tcp_flags::*};
use pointsman_testkit::random::Random;
use pointsman_v1model::{DropReason, Output};

/// Ports that frames come in on, one that does not exist among them.
const PORTS: [u32; 6] = [1, 2, 3, 4, CPU, 77];

/// A frame of every kind that the program distinguishes.
fn corpus() -> Vec<Packet> {
    let mut out = Vec::new();
    for (client, web, dns, vip, host, other, device) in [
        (client4(1), WEB4, DNS4, VIP4, "192.0.2.1", "10.0.9.9", "10.0.1.8"),
        (client6(1), WEB6, DNS6, VIP6, "2001:db8::1", "fd09::9", "fd01::8"),
    ] {
        let v4 = host.contains('.');
        let quoted = Packet::udp(dns, &client, "answer");
        let kind = if v4 { 3 } else { 1 };
        out.extend([
            syn(&client, web).with_tcp(|t| t.options = vec![2, 4, 5, 180]),
            ack(&client, web).payload(*b"GET /"),
            segment(&client, web, FIN | ACK),
            segment(&client, web, RST),
            datagram(&client, dns),
            reply(8, &ack(&client, web)),
            reply(8, &datagram(&client, dns)),
            Packet::echo(host, vip, "ping").macs(ROUTER, SWITCH),
            Packet::icmp_error(other, vip, kind, 1, &quoted, 8).macs(ROUTER, SWITCH),
            Packet::icmp_error(device, host, kind, 1, &World::towards_device(&ack(&client, web), 8), 8)
                .macs(device_mac(8), SWITCH),
            report_packet(8, v4, &Report::new(1, 1, 1, 1000)),
            Packet::ip(host, other, L4::Other { proto: 47, bytes: vec![1; 30] }).macs(ROUTER, SWITCH),
        ]);
    }
    let neighbour = |kind, target: &str| Packet::neighbour(kind, "2001:db8::7", target, 0, target, ROUTER);
    out.extend([
        syn(&client4(2), WEB4).with_ip(|ip| ip.options = vec![1; 12]),
        without_checksum(datagram(&client4(2), DNS4)),
        datagram(&client4(3), DNS4).with_ip(|ip| ip.more_fragments = true),
        Packet::arp(ARP_REQUEST, "192.0.2.1", VIP4).macs(ROUTER, [0xff; 6]),
        Packet::arp(ARP_REPLY, "10.0.1.8", "10.0.0.200").macs(ROUTER, SWITCH),
        neighbour(ND_SOLICITATION, VIP6).macs(ROUTER, SWITCH),
        neighbour(ND_ADVERTISEMENT, "fd01::8").macs(ROUTER, SWITCH),
        Packet::new(Body::Other { ethertype: 0x88cc, bytes: vec![0; 46] }).macs(ROUTER, SWITCH),
        datagram(&client4(1), DNS4).vlan(5),
    ]);
    out
}

/// A world in which frames of every fate exist, and its books.
struct Target {
    w: World,
    sent: u64,
}

impl Target {
    fn new() -> Target {
        let mut w = World::new();
        w.add("bridge mac=ff:ff:ff:ff:ff:ff -> flood(1)");
        w.add("bridge mac=02:00:00:00:05:05 -> forward(3)");
        w.rig.state().replication.insert_group(1, replicas(&[1, 2, 3, 4])).expect("a new group");
        w.service(1, AVAILABILITY, 0);
        w.service(2, ROUND_ROBIN, 0);
        w.device_of(&syn(&client4(1), WEB4));
        w.device_of(&syn(&client6(1), WEB6));
        Target { w, sent: 2 }
    }

    fn send(&mut self, port: u32, frame: &[u8]) {
        self.sent += 1;
        let out = self.w.rig.send(port, frame);
        let right = port != CPU && check_checksums(frame).is_ok();
        for packet in out {
            let bytes = match &packet {
                Output::Port(_, bytes) => &bytes[..],
                Output::Cpu(bytes) => bytes.get(2..).expect("a header in front"),
            };
            assert!(bytes.len() <= frame.len(), "it grew");
            if right && let Err(e) = check_checksums(bytes) {
                panic!("{e}\n in  {frame:02x?}\n out {bytes:02x?}");
            }
        }
        if self.sent.is_multiple_of(1000) {
            self.check();
        }
    }

    /// Everything adds up.
    fn check(&mut self) {
        let stats = self.w.rig.stats().clone();
        assert!(stats.is_conserved(), "{stats:?}");
        assert_eq!(stats.queued, 0);
        assert_eq!(stats.received, self.sent);
        let mut count = |i| self.w.rig.counter("drops", i).expect("a counter").packets;
        let counted = (0..64).map(&mut count).sum::<u64>() - stats.consumed;
        // Segments of unknown connections are counted, and most of them are answered.
        let answered = 0..=count(reasons()["DROP_NO_CONNECTION"]);
        let dropped = stats.dropped_by(DropReason::Ingress);
        assert!(answered.contains(&(counted - dropped)), "{dropped} drops, {counted} with a reason");
        let explained = [DropReason::Ingress, DropReason::UnknownIngressPort, DropReason::UnknownEgressPort];
        let others: Vec<_> = stats.drops.keys().filter(|r| !explained.contains(r)).collect();
        assert!(others.is_empty(), "{others:?}");
        assert_eq!(stats.anomalies, Default::default());
    }
}

#[test]
fn cut_anywhere() {
    let mut t = Target::new();
    for p in corpus() {
        let frame = p.bytes();
        for port in PORTS {
            for len in 0..=frame.len() {
                t.send(port, &frame[..len]);
            }
        }
    }
    t.check();
}

#[test]
fn every_bit_flipped() {
    let mut t = Target::new();
    for p in corpus() {
        let frame = p.bytes();
        for bit in 0..8 * frame.len() {
            let mut wrong = frame.clone();
            wrong[bit / 8] ^= 0x80 >> (bit % 8);
            t.send(if bit % 2 == 0 { 1 } else { 2 }, &wrong);
        }
        t.w.wait(10);
    }
    t.check();
}

/// Makes the IPv4 header's checksum right, so that the packet gets further.
fn repair(frame: &mut [u8]) {
    if frame.len() >= 34 && frame[12..14] == [8, 0] {
        let header = usize::from(frame[14] & 15) * 4;
        if header >= 20 && frame.len() >= 14 + header {
            frame[24..26].copy_from_slice(&[0, 0]);
            let sum = checksum(&frame[14..14 + header]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
    }
}

fn mutate(r: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut frame = r.choose(corpus).clone();
    for _ in 0..=r.below(3) {
        let at = r.below(frame.len());
        match r.below(7) {
            0 => frame[at] ^= 1 << r.below(8),
            1 => frame[at] = *r.choose(&[0, 1, 4, 5, 6, 17, 58, 0x7f, 0x80, 0xff]),
            2 => frame[at] = r.next_u64() as u8,
            3 => frame.truncate(at.max(1)),
            4 => {
                let n = r.below(80);
                frame.extend(r.bytes(n));
            }
            5 => {
                // The rest of another frame.
                let other = r.choose(corpus);
                frame.truncate(at);
                frame.extend(&other[at.min(other.len() - 1)..]);
            }
            _ => {
                // A field of two bytes: a length, a port, an ethertype.
                let value =
                    *r.choose(&[0u16, 1, 7, 8, 19, 20, 53, 80, 9876, 0x0800, 0x0806, 0x86dd, 0x7fff, 0xffff]);
                let at = at & !1;
                if at + 2 <= frame.len() {
                    frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
                }
            }
        }
    }
    if r.one_in(2) {
        repair(&mut frame);
    }
    frame
}

#[test]
fn mutated_frames() {
    let corpus: Vec<Vec<u8>> = corpus().iter().map(Packet::bytes).collect();
    for seed in 0..4 {
        let mut t = Target::new();
        let mut r = Random::new(seed);
        for _ in 0..32_000 {
            let frame = mutate(&mut r, &corpus);
            t.send(*r.choose(&PORTS[..5]), &frame);
            if r.one_in(50) {
                t.w.wait(r.below(3000) as u64);
            }
        }
        t.check();
    }
}

#[test]
fn random_bytes() {
    let mut t = Target::new();
    let mut r = Random::new(99);
    for _ in 0..40_000 {
        let n = r.below(1600);
        let mut frame = r.bytes(n.min(r.clone().below(1600)));
        // Half of them start like something.
        if frame.len() >= 14 && r.one_in(2) {
            frame[..6].copy_from_slice(&SWITCH);
            let ethertype = *r.choose(&[0x0800u16, 0x0806, 0x86dd]);
            frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
            if frame.len() > 14 {
                frame[14] = *r.choose(&[0x45, 0x46, 0x4f, 0x60]);
            }
            repair(&mut frame);
        }
        t.send(*r.choose(&PORTS), &frame);
    }
    t.check();
}

/// The largest possible packets.
#[test]
fn large_packets() {
    let mut t = Target::new();
    for len in [1472, 8972, 65_535 - 14 - 28, 65_535 - 14 - 27, 100_000] {
        let mut frame = datagram(&client4(1), DNS4).payload(vec![7; len.min(65_000)]).bytes();
        frame.resize(14 + 28 + len, 0);
        t.w.rig.send(1, &frame);
    }
    let stats = t.w.rig.stats().clone();
    assert!(stats.is_conserved());
    assert_eq!(stats.dropped_by(DropReason::TooLong), 2, "longer than 65535");
}
