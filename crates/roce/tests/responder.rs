//! Packets of an independent implementation, and a responder behind a network that loses, doubles and reorders.

use pointsman_roce::*;
use pointsman_wire::{Mac, Random};
use std::collections::VecDeque;

const HOP: (Mac, Mac) = (Mac([2, 0, 0, 0, 0, 2]), Mac([2, 0, 0, 0, 0, 1]));
const ALL: Rights = Rights { read: true, write: true, atomic: true };
const KEY: u32 = 0x1234;
const BASE: u64 = 0x1000;

/// Written by scapy 2.7 (`scapy.contrib.roce`), from port 49152.
const FRAMES: [(&str, &str); 8] = [
    (
        "v4 write",
        "02000000000202000000000108004500004400004000401126a70a0000010a000002c00012b70030b24e0a30ffff00000011800000050000000000001000000012340000000568656c6c6f000000a2f3d33f",
    ),
    (
        "v4 read",
        "02000000000202000000000108004500003c00004000401126af0a0000010a000002c00012b70028d8e40c00ffff0000001100fffffe000000000000100000001234000007d0b13e57ad",
    ),
    (
        "v4 add",
        "02000000000202000000000108004500004800004000401126a30a0000010a000002c00012b700345e731400ffff000000110000000700000000000010080000123400000000000000030000000000000000e4339fcd",
    ),
    (
        "v4 ack",
        "02000000000202000000000108004500003000004000401126bb0a0000010a000002c00012b7001c4fc01100ffff00000012000000071f000009706428b5",
    ),
    (
        "v6 write",
        "02000000000202000000000186dd6000000000301140fd000000000000000000000000000001fd000000000000000000000000000002c00012b7003030d50a30ffff00000011800000050000000000001000000012340000000568656c6c6f0000002bc9e5e1",
    ),
    (
        "v6 read",
        "02000000000202000000000186dd6000000000281140fd000000000000000000000000000001fd000000000000000000000000000002c00012b7002861130c00ffff0000001100fffffe000000000000100000001234000007d018398282",
    ),
    (
        "v6 add",
        "02000000000202000000000186dd6000000000341140fd000000000000000000000000000001fd000000000000000000000000000002c00012b7003467e61400ffff000000110000000700000000000010080000123400000000000000030000000000000000a054f437",
    ),
    (
        "v6 ack",
        "02000000000202000000000186dd60000000001c1140fd000000000000000000000000000001fd000000000000000000000000000002c00012b7001c78241100ffff00000012000000071f00000947a14312",
    ),
];

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |c: u8| (c as char).to_digit(16).expect("hexadecimal") as u8;
    hex.as_bytes().chunks(2).map(|c| digit(c[0]) << 4 | digit(c[1])).collect()
}

fn expected(name: &str) -> Packet<'static> {
    let remote = |bytes| Remote { address: BASE, key: KEY, bytes };
    match name {
        "write" => {
            Packet { ack: true, remote: remote(5), data: b"hello", ..Packet::new(Opcode::WriteOnly, 0x11, 5) }
        }
        "read" => Packet { remote: remote(2000), ..Packet::new(Opcode::Read, 0x11, 0xff_fffe) },
        "add" => {
            let atomic = Atomic { address: BASE + 8, key: KEY, number: 3, compare: 0 };
            Packet { atomic, ..Packet::new(Opcode::FetchAdd, 0x11, 7) }
        }
        _ => Packet { syndrome: (Syndrome::Done, 9), ..Packet::new(Opcode::Ack, 0x12, 7) },
    }
}

#[test]
fn packets_are_as_an_independent_implementation_writes_them() {
    for (name, hex) in FRAMES {
        let frame = bytes(hex);
        let (packet, from, to) = Packet::decode(&frame).expect(name);
        let (_, kind) = name.split_once(' ').expect("family and kind");
        assert_eq!(packet, expected(kind), "{name}");
        assert_eq!(packet.encode(HOP, (from, 49152), to), frame, "{name}");
        // A changed bit anywhere that routers do not change is found.
        for bit in 0..8 * frame.len() {
            let mut changed = frame.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let head = if name.starts_with("v4") { 20 } else { 40 };
            let at = bit / 8;
            let ip = at.wrapping_sub(14);
            let by_routers = at < 12
                || (head == 20 && [1, 8, 10, 11].contains(&ip))
                || (head == 40 && ([1, 2, 3, 7].contains(&ip) || (ip == 0 && bit % 8 < 4)))
                || [6, 7, 12].contains(&ip.wrapping_sub(head));
            assert_eq!(Packet::decode(&changed).is_ok(), by_routers, "{name}, bit {bit}");
        }
        for len in 0..frame.len() {
            assert!(Packet::decode(&frame[..len]).is_err(), "{name}, {len} bytes");
        }
    }
}

fn responder(mtu: usize, psn: u32, rights: Rights) -> Responder {
    let mut responder = Responder::new(mtu).expect("a path MTU");
    responder.add_region(KEY, Region::new(BASE, 4096, rights).expect("a region")).expect("the first");
    responder.add_pair(0x11, 0x12, psn, &[KEY]).expect("a pair");
    responder
}

/// The answers to a packet: opcode, number, syndrome, data.
fn answers(responder: &mut Responder, packet: &Packet<'_>) -> Vec<(Opcode, u32, Syndrome, Vec<u8>)> {
    let mut out = Vec::new();
    responder.step(packet, &mut |a| out.push((a.opcode, a.psn, a.syndrome.0, a.data.to_vec())));
    out
}

#[test]
fn refusals() {
    let remote = |address, bytes| Remote { address, key: KEY, bytes };
    let read =
        |address, bytes| Packet { remote: remote(address, bytes), ..Packet::new(Opcode::Read, 0x11, 0) };
    let write =
        |opcode, data, bytes| Packet { remote: remote(BASE, bytes), data, ..Packet::new(opcode, 0x11, 0) };
    let add = |address| {
        let atomic = Atomic { address, key: KEY, number: 1, compare: 0 };
        Packet { atomic, ..Packet::new(Opcode::FetchAdd, 0x11, 0) }
    };
    let none = Rights::default();
    let long = [7; 300];
    let cases = [
        (read(BASE + 4000, 97), ALL, Syndrome::Access),
        (read(BASE - 1, 4), ALL, Syndrome::Access),
        (read(u64::MAX, 4), ALL, Syndrome::Access),
        (read(BASE, 4), none, Syndrome::Access),
        (read(BASE, u32::MAX), ALL, Syndrome::Invalid),
        (Packet { remote: Remote { key: 9, ..remote(BASE, 4) }, ..read(BASE, 4) }, ALL, Syndrome::Access),
        (write(Opcode::WriteOnly, b"1234", 4), Rights { read: true, ..none }, Syndrome::Access),
        (write(Opcode::WriteOnly, b"1234", 5), ALL, Syndrome::Invalid),
        (write(Opcode::WriteOnly, &long, 300), ALL, Syndrome::Invalid),
        (write(Opcode::WriteFirst, &long[..255], 300), ALL, Syndrome::Invalid),
        (write(Opcode::WriteFirst, &long[..256], 5000), ALL, Syndrome::Access),
        (write(Opcode::WriteMiddle, &long[..256], 0), ALL, Syndrome::Invalid),
        (add(BASE + 4), ALL, Syndrome::Invalid),
        (add(BASE + 4096), ALL, Syndrome::Access),
        (add(BASE), Rights { atomic: false, ..ALL }, Syndrome::Access),
    ];
    for (packet, rights, syndrome) in cases {
        let mut responder = responder(256, 0, rights);
        let answer = answers(&mut responder, &packet);
        assert_eq!(answer, [(Opcode::Ack, 0, syndrome, Vec::new())], "{packet:?}");
        assert_eq!(answers(&mut responder, &read(BASE, 4)), [], "the connection is dead");
        assert!(responder.region(KEY).is_some_and(|r| r.memory == [0; 4096]), "{packet:?} wrote something");
    }
    let mut responder = responder(256, 0, ALL);
    assert_eq!(responder.add_pair(0x11, 1, 0, &[KEY]), Err(SetupError::Twice(0x11)));
    assert_eq!(responder.add_pair(1, 1, 0, &[KEY]), Err(SetupError::Number(1)));
    assert_eq!(responder.add_pair(0x13, 1, 0, &[5]), Err(SetupError::Key(5)));
    assert!(Responder::new(1000).is_err() && Region::new(u64::MAX, 2, ALL).is_err());
}

#[test]
fn a_gap_is_reported_once() {
    let mut responder = responder(256, 100, ALL);
    let write = |psn| {
        let remote = Remote { address: BASE, key: KEY, bytes: 1 };
        Packet { remote, ack: true, data: &[1], ..Packet::new(Opcode::WriteOnly, 0x11, psn) }
    };
    let done = |psn| vec![(Opcode::Ack, psn, Syndrome::Done, Vec::new())];
    assert_eq!(answers(&mut responder, &write(100)), done(100));
    assert_eq!(answers(&mut responder, &write(102)), [(Opcode::Ack, 101, Syndrome::Sequence, Vec::new())]);
    assert_eq!(answers(&mut responder, &write(103)), []);
    assert_eq!(answers(&mut responder, &write(101)), done(101));
    assert_eq!(answers(&mut responder, &write(101)), done(101), "again");
    assert_eq!(answers(&mut responder, &write(102)), done(102));
    let stats = responder.stats();
    assert_eq!((stats.writes, stats.gaps, stats.repeated, stats.ignored), (3, 1, 1, 1));
}

/// An operation of the requester.
#[derive(Clone, Debug)]
enum Op {
    Write(usize, Vec<u8>),
    Read(usize, usize),
    Add(usize, u64),
    Swap(usize, u64, u64),
}

/// The packets of an operation from `psn` on.
fn packets<'a>(op: &'a Op, mtu: usize, psn: u32) -> Vec<Packet<'a>> {
    let remote = |at: &usize, n: usize| Remote { address: BASE + *at as u64, key: KEY, bytes: n as u32 };
    let atomic =
        |at: &usize, number, compare| Atomic { address: BASE + *at as u64, key: KEY, number, compare };
    match op {
        Op::Read(at, n) => vec![Packet { remote: remote(at, *n), ..Packet::new(Opcode::Read, 0x11, psn) }],
        Op::Add(at, n) => {
            vec![Packet { atomic: atomic(at, *n, 0), ..Packet::new(Opcode::FetchAdd, 0x11, psn) }]
        }
        Op::Swap(at, n, old) => {
            vec![Packet { atomic: atomic(at, *n, *old), ..Packet::new(Opcode::CompareSwap, 0x11, psn) }]
        }
        Op::Write(at, data) => {
            let count = data.len().div_ceil(mtu).max(1);
            let one = |n: usize| {
                let opcode = match (n == 0, n + 1 == count) {
                    (true, true) => Opcode::WriteOnly,
                    (true, false) => Opcode::WriteFirst,
                    (false, false) => Opcode::WriteMiddle,
                    (false, true) => Opcode::WriteLast,
                };
                let part = &data[n * mtu..data.len().min((n + 1) * mtu)];
                let packet = Packet::new(opcode, 0x11, psn.wrapping_add(n as u32));
                Packet {
                    remote: if n == 0 { remote(at, data.len()) } else { Remote::default() },
                    ack: n + 1 == count,
                    data: part,
                    ..packet
                }
            };
            (0..count).map(one).collect()
        }
    }
}

fn random_op(random: &mut Random) -> Op {
    let at = 8 * random.below(128) as usize;
    match random.below(5) {
        0 => Op::Read(at, random.below(1500) as usize),
        1 => Op::Add(at, random.below(3)),
        2 => Op::Swap(at, random.below(3), random.below(3)),
        _ => {
            let n = random.below(900) as usize;
            Op::Write(at, random.bytes(n))
        }
    }
}

/// What a READ or an atomic operation gives, and what every operation does.
fn apply(memory: &mut [u8], op: &Op) -> Vec<u8> {
    let number =
        |memory: &[u8], at: usize| u64::from_le_bytes(*memory[at..].first_chunk().expect("in bounds"));
    match op {
        Op::Read(at, n) => return memory[*at..at + n].to_vec(),
        Op::Write(at, data) => memory[*at..at + data.len()].copy_from_slice(data),
        Op::Add(at, _) | Op::Swap(at, ..) => {
            let old = number(memory, *at);
            let new = match op {
                Op::Add(_, n) => old.wrapping_add(*n),
                Op::Swap(_, n, compare) if old == *compare => *n,
                _ => old,
            };
            memory[*at..at + 8].copy_from_slice(&new.to_le_bytes());
            return old.to_le_bytes().to_vec();
        }
    }
    Vec::new()
}

/// Sends the packets of an operation until it is answered, over a network with faults: what it gave.
fn complete(
    responder: &mut Responder,
    random: &mut Random,
    late: &mut VecDeque<Vec<u8>>,
    op: &Op,
    psn: u32,
) -> Vec<u8> {
    let (from, to) = ("10.0.0.1".parse().expect("an address"), "10.0.0.2".parse().expect("an address"));
    let mut parts =
        vec![
            None;
            packets(op, 256, psn).len().max(if let Op::Read(_, n) = op { n.div_ceil(256).max(1) } else { 1 })
        ];
    for _ in 0..1000 {
        let mut frames: Vec<Vec<u8>> =
            packets(op, 256, psn).iter().map(|p| p.encode(HOP, (from, 49152), to)).collect();
        if frames.len() > 1 && random.below(5) == 0 {
            let n = random.below(frames.len() as u64 - 1) as usize;
            frames.swap(n, n + 1);
        }
        let mut came = Vec::new();
        for frame in frames {
            if random.below(8) == 0 {
                late.push_back(frame.clone());
            }
            if random.below(6) == 0 {
                continue;
            }
            let again = (random.below(6) == 0).then(|| late.pop_front()).flatten();
            for frame in again.into_iter().chain([frame]) {
                let (packet, ..) = Packet::decode(&frame).expect("a packet");
                responder.step(&packet, &mut |a| came.push(a.encode(HOP, (to, 49152), from)));
            }
        }
        for frame in came.iter().filter(|_| random.below(6) != 0) {
            let (answer, ..) = Packet::decode(frame).expect("a packet");
            assert!(answer.pair == 0x12 && matches!(answer.syndrome.0, Syndrome::Done | Syndrome::Sequence));
            let n = answer.psn.wrapping_sub(psn) & 0xff_ffff;
            match (op, answer.opcode) {
                (Op::Write(..), Opcode::Ack)
                    if answer.syndrome.0 == Syndrome::Done && n as usize == parts.len() - 1 =>
                {
                    return Vec::new();
                }
                (Op::Add(..) | Op::Swap(..), Opcode::AtomicAck) if n == 0 => {
                    return answer.original.to_le_bytes().to_vec();
                }
                (
                    Op::Read(..),
                    Opcode::ReadOnly | Opcode::ReadFirst | Opcode::ReadMiddle | Opcode::ReadLast,
                ) => {
                    if let Some(part) = parts.get_mut(n as usize) {
                        *part = Some(answer.data.to_vec());
                    }
                }
                _ => {}
            }
        }
        if let (Op::Read(..), true) = (op, parts.iter().all(Option::is_some)) {
            return parts.into_iter().flatten().flatten().collect();
        }
    }
    panic!("{op:?} is never answered");
}

/// Every operation is done exactly once, whatever is lost, doubled, late or out of order.
#[test]
fn memory_is_as_the_operations_say() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        // Numbers wrap soon.
        let mut psn = 0xff_ff00;
        let mut responder = responder(256, psn, ALL);
        let (mut memory, mut late) = (vec![0; 4096], VecDeque::new());
        for _ in 0..300 {
            let op = random_op(&mut random);
            let given = complete(&mut responder, &mut random, &mut late, &op, psn);
            assert_eq!(given, apply(&mut memory, &op), "seed {seed}, {op:?}");
            let numbers = match &op {
                Op::Read(_, n) => n.div_ceil(256).max(1),
                op => packets(op, 256, 0).len(),
            };
            psn = psn.wrapping_add(numbers as u32) & 0xff_ffff;
        }
        assert_eq!(responder.region(KEY).expect("the region").memory, memory, "seed {seed}");
        assert!(responder.stats().repeated > 100 && responder.stats().gaps > 5, "{:?}", responder.stats());
    }
}
