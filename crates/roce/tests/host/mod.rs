//! A server with memory: set-up by lines of text, frames in and out, and what InfiniBand allows it.

use pointsman_roce::setup::{GreetingError, Memory, Port, Reply, Request, Session};
use pointsman_roce::*;
use pointsman_wire::{Mac, Random, frame};
use std::net::{IpAddr, Ipv4Addr};

const OWN: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);
const PEER_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

fn config() -> HostConfig {
    HostConfig {
        bytes: 4096,
        ports: vec![(Port { number: 3, mac: MAC, addresses: vec![OWN] }, 1500)],
        secret: None,
        seed: 1,
        adverse_ns: None,
        answers_arp: false,
    }
}

fn host(change: impl FnOnce(&mut HostConfig)) -> Host {
    let mut config = config();
    change(&mut config);
    Host::new(config).expect("settings")
}

/// A host with a queue pair, and its number.
fn with_pair(change: impl FnOnce(&mut HostConfig)) -> (Host, u32) {
    let mut host = host(change);
    host.connect(0);
    let (Reply::Pair(pair), true) = host.line(0, "pair 0x90 7 10.0.0.1") else { panic!("no queue pair") };
    (host, pair)
}

fn frame(packet: &Packet<'_>) -> Vec<u8> {
    packet.encode((MAC, PEER_MAC), (PEER, 9), OWN)
}

/// Frames that leave.
fn sent(host: &mut Host, now: u64, frame: &[u8]) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    host.receive(now, 3, frame, &mut |port, frame| {
        assert_eq!(port, 3);
        out.push(frame);
    });
    out
}

#[test]
fn lines_read_as_they_were_written() {
    let from = "fd00::1".parse().expect("an address");
    for request in [Request::Memory, Request::Pair { peer: 0x90, psn: 7, from }, Request::Remove(9)] {
        assert_eq!(request.to_string().parse(), Ok(request));
    }
    let memory = Memory {
        address: 1 << 32,
        bytes: 4096,
        key: 7,
        mtu: 1024,
        ports: config().ports.into_iter().map(|p| p.0).collect(),
    };
    for reply in [Reply::Memory(memory), Reply::Pair(9), Reply::Removed, Reply::Refused("no room".into())] {
        assert_eq!(reply.to_string().parse(), Ok(reply));
    }
    for wrong in
        ["", "pair", "pair 1 2", "pair 1 2 3", "pair 1 2 10.0.0.1 4", "remove -1", "memory ", "Memory"]
    {
        assert!(wrong.parse::<Request>().is_err(), "{wrong}");
    }
    for wrong in
        ["", "ok", "memory 1 2 3", "memory 1 2 3 x", "memory 0xffffffffffffffff 2 3 1024", "removed 1"]
    {
        assert!(wrong.parse::<Reply>().is_err(), "{wrong}");
    }
}

#[test]
fn junk_on_the_channel_is_refused() {
    let mut random = Random::new(1);
    for n in 0..2000 {
        let mut host = host(|_| {});
        host.connect(n);
        let words =
            ["pair", "memory", "remove", " ", "1", "0x", "10.0.0.1", "\u{e9}", "-", "99999999999999999999"];
        let line: String = (0..random.below(6)).map(|_| words[random.below(10) as usize]).collect();
        let (reply, goes_on) = host.line(n, &line);
        assert!(goes_on == line.parse::<Request>().is_ok(), "{line}: {reply}");
    }
}

#[test]
fn one_controller_at_a_time() {
    let mut host = host(|_| {});
    let greeting = host.connect(1);
    assert!(greeting.starts_with("pointsman-memory 1 ") && greeting.ends_with(" open"), "{greeting}");
    host.connect(2);
    let (Reply::Pair(first), true) = host.line(1, "pair 0x90 7 10.0.0.1") else { panic!("no pair") };
    let refused = |reply: (Reply, bool)| match reply {
        (Reply::Refused(why), true) => why,
        other => panic!("{other:?}"),
    };
    assert!(refused(host.line(2, "pair 0x91 7 10.0.0.1")).contains("another controller"));
    assert!(refused(host.line(2, &format!("remove {first}"))).contains("another controller"));
    // Everyone may read where the memory is.
    assert!(matches!(host.line(2, "memory"), (Reply::Memory(_), true)));
    assert!(refused(host.line(1, "remove 1")).contains("unknown queue pair 1"));
    assert!(refused(host.line(1, "pair 1 7 10.0.0.1")).contains("queue pair 1"));
    assert!(refused(host.line(1, "pair 0x90 0x1000000 10.0.0.1")).contains("24 bits"));
    // Queue pairs outlive the connection, until another controller sets up its own.
    host.disconnect(1);
    assert_eq!((host.stats().channel.pairs, host.stats().channel.controlled), (1, false));
    assert!(matches!(host.line(2, "pair 0x91 7 10.0.0.1"), (Reply::Pair(n), true) if n != first));
    assert_eq!((host.stats().channel.pairs, host.stats().channel.controlled), (1, true));
    for n in 1..4096 {
        assert!(matches!(host.line(2, "pair 0x91 7 10.0.0.1"), (Reply::Pair(_), true)), "{n}");
    }
    assert!(refused(host.line(2, "pair 0x91 7 10.0.0.1")).contains("4096 queue pairs"));
    assert_eq!(host.stats().channel.setups, [4098, 6]);
}

#[test]
fn secrets() {
    let secret = Some(*b"8 bytes!");
    let mut host = host(|c| c.secret = secret);
    let greeting = host.connect(1);
    assert_eq!(Session::greeted(&greeting, None).err(), Some(GreetingError::Needed));
    assert_eq!(Session::greeted("pointsman-memory 1 0 open", secret).err(), Some(GreetingError::Unknown));
    assert!(matches!(Session::greeted("SSH-2.0", secret), Err(GreetingError::Foreign(_))));
    let mut session = Session::greeted(&greeting, secret).expect("a greeting");
    let pair = Request::Pair { peer: 2, psn: 0, from: PEER };
    let line = session.line(&pair);
    assert!(matches!(host.line(1, &line), (Reply::Pair(_), true)));
    // The same line again, on this or another connection, is nothing any more; nor is one without a digest, or with that of another secret.
    assert!(matches!(host.line(1, &line), (Reply::Refused(_), false)));
    let greeting = host.connect(2);
    let other = Session::greeted(&greeting, Some([0; 8])).expect("a greeting").line(&pair);
    for line in [&line, "pair 2 0 10.0.0.1", "memory", &other] {
        let (reply, goes_on) = host.line(2, line);
        assert!(!goes_on && reply.to_string().contains("wrong digest"), "{line}: {reply}");
    }
}

/// The state of SplitMix64 that gives this output.
fn state_of(output: u64) -> u64 {
    // Multiplies by the inverse of an odd number, by Newton's method.
    let divided = |v: u64, by: u64| {
        v.wrapping_mul((0..6).fold(by, |i, _| i.wrapping_mul(2u64.wrapping_sub(by.wrapping_mul(i)))))
    };
    let unfolded = |v: u64, by: u32| (0..64 / by).fold(v, |r, _| v ^ r >> by);
    unfolded(
        divided(unfolded(divided(unfolded(output, 31), 0x94d0_49bb_1331_11eb), 27), 0xbf58_476d_1ce4_e5b9),
        30,
    )
}

#[test]
fn greetings_tell_nothing_of_the_key() {
    let outputs = Random::new(9).next_u64();
    let step = 0x9e37_79b9_7f4a_7c15;
    assert_eq!(state_of(outputs), 9u64.wrapping_add(step));
    let mut host = host(|c| c.secret = Some(*b"8 bytes!"));
    let mut nonce = |n| {
        let greeting = host.connect(n);
        u64::from_str_radix(greeting.split(' ').nth(2).expect("a nonce"), 16).expect("a number")
    };
    let (first, second) = (nonce(1), nonce(2));
    assert_ne!(state_of(second).wrapping_sub(state_of(first)), step, "an attacker could calculate back");
}

#[test]
fn frames_are_answered_the_way_they_came() {
    let (mut host, pair) = with_pair(|_| {});
    let memory = host.memory().clone();
    assert_eq!((memory.bytes, memory.mtu), (4096, 1024));
    let remote = Remote { address: memory.address + 8, key: memory.key, bytes: 5 };
    let write = Packet { ack: true, remote, data: b"hello", ..Packet::new(Opcode::WriteOnly, pair, 7) };
    let answers = sent(&mut host, 0, &frame(&write));
    let (ack, from, to) = Packet::decode(&answers[0]).expect("an answer");
    assert_eq!((ack.opcode, ack.pair, ack.psn, from, to), (Opcode::Ack, 0x90, 7, OWN, PEER));
    assert_eq!((&answers[0][..6], &answers[0][6..12]), (&PEER_MAC.0[..], &MAC.0[..]));
    let read = Packet { remote, ..Packet::new(Opcode::Read, pair, 8) };
    let answers = sent(&mut host, 0, &frame(&read));
    assert_eq!(Packet::decode(&answers[0]).expect("an answer").0.data, b"hello");
    // Another sender, another receiver, another Ethernet address: nothing.
    let read = Packet { psn: 9, ..read };
    let hop = (MAC, PEER_MAC);
    let other: IpAddr = [10, 0, 0, 9].into();
    assert!(sent(&mut host, 0, &read.encode(hop, (other, 9), OWN)).is_empty());
    assert!(sent(&mut host, 0, &read.encode(hop, (PEER, 9), other)).is_empty());
    assert!(sent(&mut host, 0, &read.encode((PEER_MAC, MAC), (PEER, 9), OWN)).is_empty());
    let mut changed = frame(&read);
    changed[60] ^= 1;
    assert!(sent(&mut host, 0, &changed).is_empty());
    assert!(sent(&mut host, 0, &[]).is_empty());
    let stats = host.stats();
    assert_eq!((stats.strangers, stats.malformed["check_value"], stats.messages.reads), (2, 1, 1));
    // A wrong key ends the queue pair.
    let wrong = Remote { key: memory.key ^ 2, ..remote };
    let answers = sent(&mut host, 0, &frame(&Packet { remote: wrong, ..read.clone() }));
    assert_eq!(Packet::decode(&answers[0]).expect("an answer").0.syndrome.0, Syndrome::Access);
    assert!(sent(&mut host, 0, &frame(&read)).is_empty());
}

#[test]
fn settings_are_checked() {
    let error = |change: &dyn Fn(&mut HostConfig)| {
        let mut config = config();
        change(&mut config);
        Host::new(config).expect_err("refused")
    };
    assert_eq!(error(&|c| c.ports[0].1 = 315), HostError::Mtu(3, 315));
    assert_eq!(error(&|c| c.ports[0].0.addresses.clear()), HostError::NoAddress(3));
    assert_eq!(error(&|c| c.ports.clear()), HostError::NoPort);
    for (bytes, mtu) in [(316, 256), (2107, 1024), (2108, 2048), (9000, 4096)] {
        assert_eq!(host(|c| c.ports[0].1 = bytes).memory().mtu, mtu, "{bytes}");
    }
}

#[test]
fn arp_is_answered_if_wanted() {
    let ask = frame::arp(
        (Mac::BROADCAST, PEER_MAC),
        1,
        (PEER_MAC, [10, 0, 0, 1].into()),
        (Mac([0; 6]), [10, 0, 0, 2].into()),
    );
    assert!(sent(&mut host(|_| {}), 0, &ask).is_empty());
    let mut host = host(|c| c.answers_arp = true);
    let answer =
        frame::arp((PEER_MAC, MAC), 2, (MAC, [10, 0, 0, 2].into()), (PEER_MAC, [10, 0, 0, 1].into()));
    assert_eq!(sent(&mut host, 0, &ask), [answer]);
    let other = frame::arp(
        (Mac::BROADCAST, PEER_MAC),
        1,
        (PEER_MAC, [10, 0, 0, 1].into()),
        (Mac([0; 6]), [10, 0, 0, 3].into()),
    );
    assert!(sent(&mut host, 0, &other).is_empty());
}

/// Reads 64 bytes, writes others over them before the answer has left: what the READ saw, by seed.
fn mixture(seed: u64) -> Vec<u8> {
    let (mut host, pair) = with_pair(|c| (c.seed, c.adverse_ns) = (seed, Some(1000)));
    let remote = Remote { address: host.memory().address, key: host.memory().key, bytes: 64 };
    let read = Packet { remote, ..Packet::new(Opcode::Read, pair, 7) };
    let write = Packet { ack: true, remote, data: &[1; 64], ..Packet::new(Opcode::WriteOnly, pair, 8) };
    let mut answers = sent(&mut host, 0, &frame(&read));
    answers.extend(sent(&mut host, 0, &frame(&write)));
    while let Some(due) = host.deadline() {
        assert!(due <= 1000);
        host.wake(due, &mut |_, frame| answers.push(frame));
    }
    let packets: Vec<_> = answers.iter().map(|a| Packet::decode(a).expect("an answer").0).collect();
    let kinds: Vec<_> = packets.iter().map(|p| (p.opcode, p.psn)).collect();
    assert_eq!(kinds, [(Opcode::ReadOnly, 7), (Opcode::Ack, 8)], "answers keep their order");
    packets[0].data.to_vec()
}

#[test]
fn an_adverse_server_reads_late_and_in_pieces() {
    let mixtures: Vec<_> = (0..20).map(mixture).collect();
    let pieces = |data: &[u8]| data.chunks(8).all(|c| c == [0; 8] || c == [1; 8]);
    assert!(mixtures.iter().all(|m| m.len() == 64 && pieces(m)));
    let torn = mixtures.iter().filter(|m| m.contains(&0) && m.contains(&1)).count();
    assert!(torn >= 15, "{torn} of 20 are mixed");
    assert_eq!(mixture(3), mixtures[3], "equal seeds, equal runs");
}

/// Operations of a requester that waits for each before the next see an adverse server as any other.
#[test]
fn an_adverse_server_keeps_its_promises() {
    for seed in 0..10 {
        let (mut host, pair) = with_pair(|c| (c.seed, c.adverse_ns) = (seed, Some(3000)));
        let (address, key) = (host.memory().address, host.memory().key);
        let mut requester = Requester::new(pair, 7, 1024, 1_000_000, 3).expect("a requester");
        let mut random = Random::new(seed);
        let (mut plain, mut now) = (vec![0; 4096], 0);
        for _ in 0..200 {
            let (at, bytes) = (random.below(2000) as usize, 1 + random.below(2000) as usize);
            let write = random.below(2) == 0;
            let operation = if write {
                plain[at..at + bytes].copy_from_slice(&random.bytes(bytes));
                Operation::Write(address + at as u64, key, plain[at..at + bytes].to_vec())
            } else {
                Operation::Read(address + at as u64, key, bytes as u32)
            };
            let mut requests = Vec::new();
            requester.start(now, operation, &mut |p| requests.push(frame(p))).expect("room");
            let mut answers: Vec<_> = requests.iter().flat_map(|r| sent(&mut host, now, r)).collect();
            while let Some(due) = host.deadline() {
                now = now.max(due);
                host.wake(now, &mut |_, frame| answers.push(frame));
            }
            for answer in &answers {
                let (packet, ..) = Packet::decode(answer).expect("an answer");
                requester.receive(now, &packet, &mut |p| panic!("{p:?} is not needed"));
            }
            let (_, result) = requester.take_done().expect("it has ended");
            let expected = if write { Vec::new() } else { plain[at..at + bytes].to_vec() };
            assert_eq!(result, Ok(expected), "seed {seed}");
        }
    }
}
