//! Packets of an independent implementation, and a responder behind a network that loses, doubles and reorders.

use pointsman_roce::*;
use pointsman_wire::{Mac, Random};
use std::collections::BTreeMap;
use std::net::IpAddr;

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
        assert!(responder.region(KEY).is_some_and(|r| *r.memory == [0; 4096]), "{packet:?} wrote something");
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

fn random_op(random: &mut Random, slot: u64) -> Operation {
    let address = BASE + 1024 * slot;
    let atomic = |random: &mut Random| {
        let (number, compare) = (random.below(3), random.below(3));
        Atomic { address: address + 8 * random.below(4), key: KEY, number, compare }
    };
    match random.below(5) {
        0 => Operation::Read(address, KEY, random.below(1025) as u32),
        1 => Operation::Add(Atomic { compare: 0, ..atomic(random) }),
        2 => Operation::Swap(atomic(random)),
        _ => {
            let n = random.below(1025) as usize;
            Operation::Write(address, KEY, random.bytes(n))
        }
    }
}

/// What an operation does to a plain array, and what it gives.
fn apply(memory: &mut [u8], op: &Operation) -> Vec<u8> {
    let place = |address: u64| (address - BASE) as usize;
    match op {
        Operation::Read(address, _, n) => return memory[place(*address)..][..*n as usize].to_vec(),
        Operation::Write(address, _, data) => memory[place(*address)..][..data.len()].copy_from_slice(data),
        Operation::Add(atomic) | Operation::Swap(atomic) => {
            let cell = &mut memory[place(atomic.address)..][..8];
            let bytes = cell.to_vec();
            let old = u64::from_le_bytes(*cell.first_chunk().expect("eight bytes"));
            let new = match op {
                Operation::Add(_) => old.wrapping_add(atomic.number),
                _ if old == atomic.compare => atomic.number,
                _ => old,
            };
            cell.copy_from_slice(&new.to_le_bytes());
            return bytes;
        }
    }
    Vec::new()
}

/// A requester, a network that loses, doubles and delays, and a responder.
struct World {
    now: u64,
    random: Random,
    requester: Requester,
    responder: Responder,
    /// Frames by the time when they arrive; whether they are answers.
    wires: BTreeMap<(u64, u64), (bool, Vec<u8>)>,
    sent: u64,
}

impl World {
    fn new(seed: u64, retries: u32) -> World {
        let psn = 0xff_ff00;
        World {
            now: 0,
            random: Random::new(seed),
            requester: Requester::new(0x11, psn, 256, 100_000, retries).expect("a requester"),
            responder: responder(256, psn, ALL),
            wires: BTreeMap::new(),
            sent: 0,
        }
    }

    fn transmit(&mut self, answer: bool, frames: Vec<Vec<u8>>) {
        for frame in frames {
            let copies = [0, 1, 1, 1, 1, 1, 1, 1, 1, 2][self.random.below(10) as usize];
            for _ in 0..copies {
                // Most arrive in order.
                let late = if self.random.below(10) == 0 { self.random.below(30_000) } else { 0 };
                self.sent += 1;
                self.wires.insert((self.now + 5_000 + late, self.sent), (answer, frame.clone()));
            }
        }
    }

    fn start(&mut self, op: Operation) -> Result<u64, StartError> {
        let mut out = Vec::new();
        let result = self.requester.start(self.now, op, &mut |p| out.push(frame(p)));
        self.transmit(false, out);
        result
    }

    /// The next arrival or deadline: whether there was one.
    fn advance(&mut self) -> bool {
        let mut out = Vec::new();
        let arrival = self.wires.first_key_value().map(|((at, _), _)| *at);
        match (arrival, self.requester.deadline()) {
            (None, None) => return false,
            (None, Some(at)) => {
                self.now = at;
                self.requester.wake(at, &mut |p| out.push(frame(p)));
                self.transmit(false, out);
            }
            (Some(at), Some(deadline)) if deadline < at => {
                self.now = deadline;
                self.requester.wake(deadline, &mut |p| out.push(frame(p)));
                self.transmit(false, out);
            }
            (Some(_), _) => {
                let ((at, _), (answer, bytes)) = self.wires.pop_first().expect("an arrival");
                self.now = at;
                let (packet, ..) = Packet::decode(&bytes).expect("a packet");
                if answer {
                    self.requester.receive(at, &packet, &mut |p| out.push(frame(p)));
                } else {
                    self.responder.step(&packet, &mut |p| out.push(frame(p)));
                }
                self.transmit(!answer, out);
            }
        }
        true
    }
}

fn frame(packet: &Packet<'_>) -> Vec<u8> {
    let [from, to]: [IpAddr; 2] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
    packet.encode(HOP, (from, 49152), to)
}

/// Every operation is done exactly once and gives what a plain array gives, whatever is lost, doubled, late or out of order.
#[test]
fn memory_is_as_the_operations_say() {
    let mut longest = 0;
    for seed in 0..20 {
        let mut world = World::new(seed, 1000);
        let mut memory = vec![0; 4096];
        // Expected results by number. Operations in flight do not overlap: a repeated READ may see later WRITEs.
        let mut expected = BTreeMap::new();
        let mut busy: BTreeMap<u64, u64> = BTreeMap::new();
        let mut ended = 0;
        while ended < 300 {
            let slot = world.random.below(4);
            if !busy.values().any(|s| *s == slot) && expected.len() + (ended as usize) < 300 {
                let op = random_op(&mut world.random, slot);
                let id = world.start(op.clone()).expect("space");
                expected.insert(id, apply(&mut memory, &op));
                busy.insert(id, slot);
                longest = longest.max(busy.len());
            }
            assert!(world.advance(), "seed {seed}: nothing is left to happen");
            while let Some((id, result)) = world.requester.take_done() {
                assert_eq!(result.as_ref().ok(), expected.remove(&id).as_ref(), "seed {seed}, {id}");
                assert_eq!(id, ended, "seed {seed}: the order");
                busy.remove(&id);
                ended += 1;
            }
        }
        assert_eq!(world.requester.deadline(), None);
        assert_eq!(world.responder.region(KEY).expect("the region").memory[..], memory, "seed {seed}");
        let stats = world.responder.stats();
        assert!(stats.repeated > 100 && stats.gaps > 5, "{stats:?}");
        assert_eq!(stats.reads + stats.writes + stats.atomics, 300, "seed {seed}: each once");
    }
    assert!(longest > 2, "several in flight");
}

/// A lost answer is noticed by the next one, once, without waiting for the deadline.
#[test]
fn a_lost_answer_is_noticed() {
    let mut requester = Requester::new(0x11, 0, 256, 100_000, 7).expect("a requester");
    for at in [0, 8, 16] {
        requester.start(0, Operation::Read(BASE + at, KEY, 8), &mut |_| {}).expect("space");
    }
    let mut again = Vec::new();
    for psn in [1, 2] {
        let answer = Packet { data: &[0; 8], ..Packet::new(Opcode::ReadOnly, 0x12, psn) };
        requester.receive(psn.into(), &answer, &mut |p| again.push(p.psn));
    }
    assert_eq!((again, requester.take_done()), (vec![0, 1, 2], None));
}

#[test]
fn a_reported_gap_and_wrong_answers() {
    let mut requester = Requester::new(0x11, 0, 256, 100_000, 1).expect("a requester");
    let mut first = Vec::new();
    for data in [vec![1], vec![2; 300]] {
        requester
            .start(0, Operation::Write(BASE, KEY, data), &mut |p| first.push((p.psn, p.ack)))
            .expect("space");
    }
    requester.start(0, Operation::Read(BASE, KEY, 8), &mut |_| {}).expect("space");
    assert_eq!(first, [(0, true), (1, false), (2, true)], "the last packet asks for an acknowledgment");
    let receive = |requester: &mut Requester, now, answer: Packet<'_>| {
        let mut again = Vec::new();
        requester.receive(now, &answer, &mut |p| again.push(p.psn));
        again
    };
    let ack = |syndrome, psn| Packet { syndrome: (syndrome, 0), ..Packet::new(Opcode::Ack, 0x12, psn) };
    assert_eq!(receive(&mut requester, 10, ack(Syndrome::Sequence, 1)), [1, 2, 3]);
    assert_eq!(requester.take_done(), Some((0, Ok(Vec::new()))));
    assert_eq!(receive(&mut requester, 20, ack(Syndrome::Done, 1)), [], "a part of a WRITE");
    assert_eq!(receive(&mut requester, 20, ack(Syndrome::Done, 9)), [], "nothing has this number");
    assert_eq!(requester.take_done(), None);
    // One repetition is allowed, and one more after progress.
    requester.wake(100_010, &mut |_| {});
    receive(&mut requester, 100_020, ack(Syndrome::Done, 2));
    assert_eq!(requester.take_done(), Some((1, Ok(Vec::new()))));
    requester.wake(200_020, &mut |_| {});
    let short = Packet { data: &[9; 7], ..Packet::new(Opcode::ReadOnly, 0x12, 3) };
    let right = Packet { data: &[9; 8], ..short.clone() };
    receive(&mut requester, 200_030, short);
    receive(&mut requester, 200_030, Packet::new(Opcode::AtomicAck, 0x12, 3));
    assert_eq!(requester.take_done(), None);
    receive(&mut requester, 200_040, right);
    assert_eq!((requester.take_done(), requester.deadline()), (Some((2, Ok(vec![9; 8]))), None));
}

#[test]
fn failures_of_a_connection() {
    // Without a right: all that is in flight fails, and nothing can be started.
    let mut world = World::new(1, 1000);
    let ids = [8, 8000, 16].map(|at| world.start(Operation::Read(BASE + at, KEY, 8)).expect("space"));
    while world.advance() {}
    let mut done = Vec::new();
    while let Some((id, result)) = world.requester.take_done() {
        done.push((id, result.err()));
    }
    assert_eq!(done.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ids);
    assert_eq!(done[1..], [1, 2].map(|id| (id, Some(Failure::Refused(Syndrome::Access)))));
    assert_eq!(world.start(Operation::Read(BASE, KEY, 8)), Err(StartError::Dead));

    // Without a responder.
    let mut world = World::new(1, 3);
    world.responder.remove_pair(0x11);
    world.start(Operation::Write(BASE, KEY, vec![1])).expect("space");
    while world.advance() {}
    assert_eq!(world.requester.take_done(), Some((0, Err(Failure::Timeout))));
    assert_eq!((world.now, world.requester.take_done()), (400_000, None), "the first attempt and three more");

    // Limits.
    let mut world = World::new(1, 3);
    for _ in 0..16 {
        world.start(Operation::Read(BASE, KEY, 8)).expect("space");
    }
    assert_eq!(world.start(Operation::Read(BASE, KEY, 8)), Err(StartError::Full));
    assert_eq!(world.start(Operation::Read(BASE, KEY, 256 * (WINDOW + 1))), Err(StartError::Long));
    assert!(world.start(Operation::Write(BASE, KEY, vec![1])).is_ok());
    assert!(Requester::new(1, 0, 256, 1, 1).is_err() && Requester::new(2, 0, 1500, 1, 1).is_err());
}
