//! Reports with a digest: which are accepted, in datagrams and in separate frames.

use super::world::*;
use pointsman_balance::DeviceNumber;
use pointsman_balance::frame_report::{ETHERTYPE, FrameReport};
use pointsman_balance::report::{Load, METRICS_LOAD, METRICS_LOADS, Report as Datagram, Stamp};
use pointsman_balance::trust::ReportKey;
use pointsman_testkit::compile::{compile_text, own_includes, own_program};
use pointsman_testkit::packet::{Body, L4, Packet, Report, Sum};
use pointsman_testkit::random::Random;
use pointsman_v1model::SwitchConfig;

/// Numbers of the published vectors (message 0, 1, 2 ...; key 0, 1 ... 7) for the lengths that the data plane hashes.
const VECTORS: [(usize, [u8; 8]); 3] = [
    (16, [0x73, 0x36, 0xaa, 0xd2, 0x5f, 0x7b, 0xf3, 0xb5]),
    (20, [0x1b, 0xf5, 0x2b, 0x0a, 0x6f, 0xee, 0xa7, 0xdb]),
    (48, [0xa9, 0xea, 0xa8, 0xc0, 0x4b, 0xa9, 0x3e, 0x3e]),
];

/// A switch that hashes its input: a byte gives the number of words after the first four.
const HASHER: &str = r#"
#include <core.p4>
#include <v1model.p4>
#include <siphash.p4>
header question_t { bit<64> key; bit<8> count; bit<128> head; bit<256> words; }
header answer_t { bit<64> digest; }
struct headers_t { question_t question; answer_t answer; }
struct meta_t {}
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.question); transition accept; }
}
control Nothing(inout headers_t h, inout meta_t m) { apply {} }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    HalfSipHash() hash;
    apply {
        bit<64> digest;
        hash.apply(h.question.key, h.question.head, h.question.words, h.question.count[3:0], digest);
        h.answer.setValid();
        h.answer.digest = digest;
        s.egress_spec = 1;
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply {} }
control D(packet_out p, in headers_t h) { apply { p.emit(h.answer); } }
V1Switch(P(), Nothing(), I(), E(), Nothing(), D()) main;
"#;

#[test]
fn the_hash() {
    let directory = own_program("balancer").parent().expect("a directory").to_path_buf();
    let program = compile_text("hasher.p4", HASHER, &[&own_includes(), &directory])
        .unwrap_or_else(|(e, _)| panic!("{e}"));
    let mut rig: pointsman_testkit::Rig<super::Tested> =
        pointsman_testkit::Rig::on(program, SwitchConfig::default()).unwrap_or_else(|e| panic!("{e}"));
    let mut digest = |key: [u8; 8], message: &[u8]| -> [u8; 8] {
        let count = (message.len() / 4 - 4) as u8;
        let mut question = [&key[..], &[count], message].concat();
        question.resize(57, 0xa5);
        match rig.send(1, &question).as_slice() {
            [pointsman_v1model::Output::Port(1, answer)] => answer[..8].try_into().expect("eight bytes"),
            other => panic!("{other:?}"),
        }
    };
    let message: Vec<u8> = (0..48).collect();
    for (length, expected) in VECTORS {
        assert_eq!(digest([0, 1, 2, 3, 4, 5, 6, 7], &message[..length]), expected, "{length} bytes");
    }
    let mut random = Random::new(5);
    for _ in 0..300 {
        let key = random.next_u64().to_be_bytes();
        let length = *random.choose(&[16, 20, 48]);
        let message: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
        assert_eq!(digest(key, &message), ReportKey::new(key).digest(&message), "{key:?} {message:?}");
    }
}

fn key(device: u16, number: u8) -> ReportKey {
    ReportKey::new([device as u8, number, 0xa5, 1, 0xff, 0x80, 0, 7])
}

/// Agents have keys 1 and 2.
fn keyed() -> World {
    let mut w = World::new();
    for d in DEVICES {
        w.remove(&format!("report_keys agent={d} number=0 -> trust_source"));
        for n in [1, 2] {
            w.add(&format!("report_keys agent={d} number={n} -> set_key({})", key(d, n).bits()));
        }
    }
    w
}

fn datagram_of(device: u16, words: usize) -> Datagram {
    let bit = 1 << (device & 7);
    let metrics = [(0, 0), (1, METRICS_LOAD), (8, METRICS_LOADS)];
    let metrics = metrics.iter().find(|(n, _)| *n == words).expect("none, one or eight").1;
    let words = (0..words as u32).map(|i| 0x0a14_1e28 + i).collect();
    Datagram { server: device >> 3, high: false, mask: bit, available: bit, metrics, sequence: 0, words }
}

fn carried(device: u16, v4: bool, payload: Vec<u8>) -> Packet {
    report_packet(device, v4, &Report::new(1, 1, 1, 1)).payload(payload)
}

fn signed(device: u16, number: u8, sequence: u64) -> Packet {
    let report = datagram_of(device, 1);
    carried(device, true, report.encode_signed(&key(device, number), Stamp { number, sequence }))
}

fn frame_of(device: u16, number: u8, sequence: u64) -> FrameReport {
    let load = Load { compute: 10, memory: 20, network: 30, queue: 40 };
    FrameReport {
        device: DeviceNumber::from_bits(device.into()),
        busy: false,
        failed: false,
        load,
        stamp: Stamp { number, sequence },
    }
}

fn frame(device: u16, bytes: &[u8]) -> Packet {
    Packet::new(Body::Other { ethertype: ETHERTYPE, bytes: bytes.to_vec() }).macs(device_mac(device), SWITCH)
}

fn signed_frame(device: u16, number: u8, sequence: u64) -> Packet {
    frame(device, &frame_of(device, number, sequence).encode(Some(&key(device, number))))
}

/// The switch's data about a device, and their age.
fn state(w: &mut World, device: u16) -> [u64; 3] {
    let (server, slot) = (u64::from(device >> 3), device & 7);
    let mut register = |name: &str| w.rig.register(name, server).expect("a register").low_u64();
    let available = register("load.accel_state") >> slot & 1;
    [
        register(&format!("load.device{slot}.last_heard")),
        register(&format!("load.device{slot}.reported")),
        available,
    ]
}

#[test]
fn believed() {
    for device in DEVICES {
        for v4 in [true, false] {
            for words in [0, 1, 8] {
                let mut w = keyed();
                let stamp = Stamp { number: 1, sequence: 1_900_000_000_000_000 };
                let bytes = datagram_of(device, words).encode_signed(&key(device, 1), stamp);
                w.dropped(device_port(device), &carried(device, v4, bytes), "REPORT_ACCEPTED");
                let load = match words {
                    0 => 0,
                    1 => 0x0a14_1e28,
                    _ => 0x0a14_1e28 + u64::from(device & 7),
                };
                assert_eq!(state(&mut w, device), [w.rig.now.micros(), load << 32, 1]);
            }
        }
    }
}

/// The latency in a report is that of the agent's own device, whatever devices the report is about.
#[test]
fn latency_of_the_sender() {
    for words in [1, 8] {
        let mut w = keyed();
        w.fill_slots();
        let mut sequence = 0;
        let mut send = |w: &mut World, mask: u8, latency: u16| {
            sequence += 1;
            let mut report = datagram_of(8, words);
            report.mask = mask;
            report.metrics |= latency << 8;
            let bytes = report.encode_signed(&key(8, 1), Stamp { number: 1, sequence });
            w.dropped(2, &carried(8, true, bytes), "REPORT_ACCEPTED");
            [0, 1].map(|slot| {
                let cell = w.rig.register(&format!("load.device{slot}.reported"), 1).expect("a register");
                cell.low_u64() as u32
            })
        };
        assert_eq!(send(&mut w, 0b11, 0x5b), [0x5b_0000, 0], "{words}");
        assert_eq!(send(&mut w, 0b10, 0xff), [0x5b_0000, 0], "{words}: it is not about the agent's device");
        assert_eq!(send(&mut w, 0b01, 0), [0, 0], "{words}");
    }
}

/// None of this changes the switch's data, or which reports are accepted afterwards.
#[track_caller]
fn refused(w: &mut World, port: u32, packet: &Packet, reason: &str) {
    w.wait(1);
    let before = DEVICES.map(|d| state(w, d));
    w.dropped(port, packet, reason);
    assert_eq!(DEVICES.map(|d| state(w, d)), before);
}

#[test]
fn forged() {
    let mut w = keyed();
    for words in [0, 1, 8] {
        let stamp = Stamp { number: 1, sequence: 5 };
        let good = datagram_of(8, words).encode_signed(&key(8, 1), stamp);
        for bit in 0..8 * good.len() {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 0x80 >> (bit % 8);
            // Without checksum: only the digest shows it.
            let packet = without_checksum(carried(8, true, bytes));
            let before = DEVICES.map(|d| state(&mut w, d));
            assert_eq!(w.send(2, &packet.bytes()), []);
            assert_eq!(DEVICES.map(|d| state(&mut w, d)), before, "bit {bit} of {words} words");
        }
    }
    assert_eq!(w.rig.counter("drops", 32).expect("a counter").packets, 0, "none was accepted");
    // 256 + 288 + 512 - 3 * (version 8, length 8, mask up to 8 ...) bits: nearly all fell to the digest.
    assert!(w.rig.counter("drops", 22).expect("a counter").packets > 700);
    // A forged sequence number does not lock the agent out.
    let far = Stamp { number: 1, sequence: (1 << 56) - 1 };
    let bytes = datagram_of(8, 1).encode_signed(&key(9, 1), far);
    refused(&mut w, 2, &carried(8, true, bytes), "DROP_REPORT_DIGEST");
    w.dropped(2, &signed(8, 1, 1), "REPORT_ACCEPTED");
}

#[test]
fn replayed() {
    let mut w = keyed();
    let now = 1_900_000_000_000_000;
    w.dropped(2, &signed(8, 1, now), "REPORT_ACCEPTED");
    // Once each, and nothing older, however old.
    for old in [now, now - 1, now - 5_000_000, 1, 0] {
        refused(&mut w, 2, &signed(8, 1, old), "DROP_REPORT_REPLAYED");
        refused(&mut w, 2, &signed_frame(8, 1, old), "DROP_REPORT_SOURCE");
    }
    w.dropped(2, &signed(8, 1, now + 1), "REPORT_ACCEPTED");
    // A restarted agent continues with the wall clock, a little or much later.
    w.dropped(2, &signed(8, 1, now + 1_000_000_000_000), "REPORT_ACCEPTED");
    // Each agent has its own sequence.
    w.dropped(2, &signed(9, 1, 7), "REPORT_ACCEPTED");
    refused(&mut w, 2, &signed(9, 1, 7), "DROP_REPORT_REPLAYED");
    // A newer key starts over, and from its first report on the old one is invalid.
    w.dropped(2, &signed(8, 2, 3), "REPORT_ACCEPTED");
    refused(&mut w, 2, &signed(8, 1, now + 2_000_000_000_000), "DROP_REPORT_REPLAYED");
    refused(&mut w, 2, &signed(8, 2, 3), "DROP_REPORT_REPLAYED");
    w.dropped(2, &signed(8, 2, 4), "REPORT_ACCEPTED");
}

#[test]
fn without_the_right_key() {
    let mut w = keyed();
    let plain = report_packet(8, true, &Report::new(1, 1, 1, 5));
    refused(&mut w, 2, &plain, "DROP_REPORT_UNSIGNED");
    refused(&mut w, 2, &signed(8, 3, 5), "DROP_REPORT_KEY");
    // Signed with another one's key, or with the key of another number.
    for (by, number) in [(9, 1), (16, 1), (8, 2)] {
        let bytes = datagram_of(8, 1).encode_signed(&key(by, number), Stamp { number: 1, sequence: 5 });
        refused(&mut w, 2, &carried(8, true, bytes), "DROP_REPORT_DIGEST");
    }
    // The right key, from the wrong place.
    refused(&mut w, 3, &signed(8, 1, 5), "DROP_REPORT_SOURCE");
    refused(&mut w, 2, &signed(8, 1, 5).src("10.0.1.9"), "DROP_REPORT_SOURCE");
    // An agent that needs no digest has no key, and a digest that cannot be verified is rejected.
    w.add("report_keys agent=8 number=0 -> trust_source");
    w.remove("report_keys agent=8 number=1 -> set_key(0)");
    refused(&mut w, 2, &signed(8, 1, 5), "DROP_REPORT_KEY");
    w.dropped(2, &plain, "REPORT_ACCEPTED");
    // Nothing from an unknown agent is accepted.
    w.rig.clear("report_keys").expect("a table");
    refused(&mut w, 2, &signed(8, 1, 5), "DROP_REPORT_KEY");
    refused(&mut w, 2, &plain, "DROP_REPORT_UNSIGNED");
}

#[test]
fn malformed() {
    let mut w = keyed();
    let stamp = Stamp { number: 1, sequence: 5 };
    let good = datagram_of(8, 1).encode_signed(&key(8, 1), stamp);
    let mut check = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        refused(&mut w, 2, &carried(8, true, bytes), "DROP_REPORT_MALFORMED");
    };
    check(&|b| b[0] = 3);
    check(&|b| b[0] = 18);
    check(&|b| b[1] = 6);
    check(&|b| b[1] = 8);
    check(&|b| b[4] = 0);
    check(&|b| b[7] = 0);
    check(&|b| b[7] = 2);
    check(&|b| b[7] = 3);
    check(&|b| b[8] = 0);
    check(&|b| b.truncate(24));
    check(&|b| b.truncate(23));
    // Data that the digest does not cover are ignored.
    check(&|b| {
        b.extend([0; 4]);
        b[1] += 1;
    });
    w.dropped(2, &carried(8, true, good), "REPORT_ACCEPTED");
}

fn keyed_frames() -> World {
    let mut w = keyed();
    for d in DEVICES {
        let (port, server, bit) = (device_port(d), d >> 3, 1 << (d & 7));
        let mac = device_mac(d).map(|b| format!("{b:02x}")).join(":");
        w.add(&format!(
            "report_sources_mac ingress_port={port} source={mac} server={server} -> accept_reports({bit}, {d})"
        ));
    }
    w
}

#[test]
fn frames() {
    let mut w = keyed_frames();
    for d in DEVICES {
        w.wait(1);
        w.dropped(device_port(d), &signed_frame(d, 1, 9), "REPORT_ACCEPTED");
        assert_eq!(state(&mut w, d), [w.rig.now.micros(), 0x0a14_1e28 << 32, 1]);
    }
    // Padding is not looked at.
    let padded = Packet { trailer: vec![0x5a; 22], ..signed_frame(8, 1, 10) };
    w.dropped(2, &padded, "REPORT_ACCEPTED");
    refused(&mut w, 2, &padded, "DROP_REPORT_REPLAYED");
    // Datagrams and frames share one sequence.
    refused(&mut w, 2, &signed(8, 1, 10), "DROP_REPORT_REPLAYED");
    w.dropped(2, &signed(8, 1, 11), "REPORT_ACCEPTED");
    refused(&mut w, 2, &signed_frame(8, 1, 11), "DROP_REPORT_REPLAYED");
    let busy = FrameReport { busy: true, ..frame_of(8, 1, 12) };
    w.dropped(2, &frame(8, &busy.encode(Some(&key(8, 1)))), "REPORT_ACCEPTED");
    assert_eq!(state(&mut w, 8)[2], 0);
}

/// Frames of the first device's agent about the device in every slot: flags and number together name it.
#[test]
fn frames_of_all_slots() {
    let mut w = keyed_frames();
    w.set(&format!(
        "report_sources_mac ingress_port=2 source=02:00:00:00:01:08 server=1 -> accept_reports({ALL}, 8)"
    ));
    for slot in 0..SLOTS {
        let report = FrameReport {
            device: DeviceNumber::new(1, slot as u8),
            load: Load { compute: slot as u8, ..Load::default() },
            ..frame_of(8, 1, 10 + slot as u64)
        };
        w.wait(1);
        w.dropped(2, &frame(8, &report.encode(Some(&key(8, 1)))), "REPORT_ACCEPTED");
        for other in 0..SLOTS {
            let cell = w.rig.register(&format!("load.device{other}.reported"), 1).expect("a register");
            let compute = if other <= slot { other as u64 } else { 0 };
            assert_eq!(cell.low_u64() >> 56, compute, "{other} after {slot}");
        }
    }
}

#[test]
fn frames_refused() {
    let mut w = keyed_frames();
    let good = frame_of(8, 1, 9).encode(Some(&key(8, 1)));
    for bit in 0..8 * good.len() {
        let mut bytes = good;
        bytes[bit / 8] ^= 0x80 >> (bit % 8);
        let before = DEVICES.map(|d| state(&mut w, d));
        assert_eq!(w.send(2, &frame(8, &bytes).bytes()), []);
        assert_eq!(DEVICES.map(|d| state(&mut w, d)), before, "bit {bit}");
    }
    assert_eq!(w.rig.counter("drops", 32).expect("a counter").packets, 0);
    let of = |bytes: &[u8]| frame(8, bytes);
    refused(&mut w, 3, &of(&good), "DROP_REPORT_SOURCE");
    refused(&mut w, 2, &frame(9, &good), "DROP_REPORT_SOURCE");
    refused(&mut w, 2, &signed_frame(8, 3, 9), "DROP_REPORT_KEY");
    refused(&mut w, 2, &of(&frame_of(8, 1, 9).encode(None)), "DROP_REPORT_UNSIGNED");
    refused(&mut w, 2, &of(&frame_of(8, 1, 9).encode(Some(&key(9, 1)))), "DROP_REPORT_DIGEST");
    refused(&mut w, 2, &of(&frame_of(8, 0, 9).encode(Some(&key(8, 1)))), "DROP_REPORT_MALFORMED");
    refused(&mut w, 2, &of(&[2; 24]), "DROP_REPORT_MALFORMED");
    for len in 0..24 {
        refused(&mut w, 2, &of(&good[..len]), "DROP_MALFORMED");
    }
    // The bytes of one, in a datagram: a report signed for one form is invalid in the other.
    refused(&mut w, 2, &carried(8, true, good.to_vec()), "DROP_REPORT_MALFORMED");
    // For another station.
    w.add("bridge mac=02:00:00:00:00:04 -> forward(4)");
    let through = of(&good).to_mac(PLAIN);
    w.expect(2, &through, 4, &through);
    w.dropped(2, &of(&good), "REPORT_ACCEPTED");
}

/// Without a digest: a second late is overtaken, more is a clock that was set back.
#[test]
fn frames_without_digest() {
    let mut w = keyed_frames();
    w.add("report_keys agent=8 number=0 -> trust_source");
    let at = |sequence| frame(8, &frame_of(8, 0, sequence).encode(None));
    w.dropped(2, &at(9_000_000), "REPORT_ACCEPTED");
    for late in [8_999_999, 8_000_000] {
        refused(&mut w, 2, &at(late), "DROP_REPORT_STALE");
    }
    w.dropped(2, &at(7_999_999), "REPORT_ACCEPTED");
    w.dropped(2, &at(17), "REPORT_ACCEPTED");
}

/// A datagram in transit to another station is unchanged.
#[test]
fn not_for_us() {
    let mut w = keyed();
    let through = signed(8, 1, 5).dst("10.0.9.9");
    w.expect(2, &through, PLAIN_PORT, &through.clone().macs(SWITCH, PLAIN).ttl(63));
    let mut damaged = signed(8, 1, 5);
    if let Body::Ip(ip) = &mut damaged.body
        && let L4::Udp(u) = &mut ip.l4
    {
        u.checksum = Sum::Is(0x1234);
    }
    w.dropped(2, &damaged, "DROP_CHECKSUM");
}
