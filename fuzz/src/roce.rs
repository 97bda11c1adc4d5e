//! RoCEv2's packets and responder, with requests as switches send them, and with junk.

use pointsman_balance::Mac;
use pointsman_roce::setup::{Port, Reply, Request, Session};
use pointsman_roce::{
    Atomic, Host, HostConfig, Opcode, Operation, Packet, Region, Remote, Requester, Responder, Rights,
    Syndrome, check_value,
};
use std::net::IpAddr;

const MTU: usize = 256;
const OPCODES: [Opcode; 8] = [
    Opcode::WriteFirst,
    Opcode::WriteMiddle,
    Opcode::WriteLast,
    Opcode::WriteOnly,
    Opcode::Read,
    Opcode::CompareSwap,
    Opcode::FetchAdd,
    Opcode::Ack,
];

/// Acknowledgments are more frequent.
const ANSWERS: [Opcode; 8] = [
    Opcode::ReadFirst,
    Opcode::ReadMiddle,
    Opcode::ReadLast,
    Opcode::ReadOnly,
    Opcode::Ack,
    Opcode::Ack,
    Opcode::Ack,
    Opcode::AtomicAck,
];

/// A frame with the remainder, then requests of eight bytes each.
pub fn run(data: &[u8]) {
    junk(data);
    answers(data);
    channel(data);
    let mut responder = Responder::new(MTU).expect("a path MTU");
    let rights = [(true, true, true), (true, false, false), (false, true, false)];
    for (key, (read, write, atomic)) in (0..).zip(rights) {
        let region =
            Region::new(64 * u64::from(key), 1000, Rights { read, write, atomic }).expect("a region");
        responder.add_region(key, region).expect("another key");
    }
    for pair in 0..3 {
        responder.add_pair(2 + pair, 7, 0xff_fffa, &[pair % 2, 2]).expect("another number");
    }
    let bytes = [0x5a; MTU + 1];
    for step in data.as_chunks::<8>().0 {
        let (address, key) = (u64::from(step[2]) * 8 + u64::from(step[3] / 64), u32::from(step[3] % 4));
        let length = u32::from(u16::from_be_bytes([step[4], step[5]]) % 1200);
        let number = 0xff_fffau32.wrapping_add(u32::from(step[1])) & 0xff_ffff;
        let mut packet = Packet::new(OPCODES[usize::from(step[0] % 8)], 2 + u32::from(step[0] / 64), number);
        packet.ack = step[0] & 8 != 0;
        packet.remote = Remote { address, key, bytes: length };
        packet.atomic = Atomic { address, key, number: step[6].into(), compare: step[7].into() };
        if (packet.opcode as u8) < Opcode::Read as u8 {
            packet.data = &bytes[..usize::from(u16::from_be_bytes([step[6], step[7]])) % bytes.len()];
        }
        responder.step(&packet, &mut |answer| {
            assert!(answer.pair == 7 && answer.data.len() <= MTU);
            assert!(answer.syndrome.0 == Syndrome::Done || answer.opcode == Opcode::Ack);
            same(answer);
        });
    }
}

/// A requester, with answers from anyone. Each operation ends once, in order, with as many bytes as it asked for.
fn answers(data: &[u8]) {
    let mut requester = Requester::new(2, 0xff_fffa, MTU, 1000, 3).expect("a path MTU");
    let (mut now, mut expected, mut ended) = (0, Vec::new(), 0);
    let bytes = [0x5a; MTU + 1];
    for step in data.as_chunks::<8>().0 {
        let length = u16::from_be_bytes([step[4], step[5]]) % 1200;
        let atomic = Atomic { address: 8, key: 0, number: step[6].into(), compare: step[7].into() };
        let (operation, gives) = match step[0] % 8 {
            0 => (Operation::Write(0, 0, vec![1; length.into()]), 0),
            1 => (Operation::Read(0, 0, length.into()), length.into()),
            2 => (Operation::Add(atomic), 8),
            3 => (Operation::Swap(atomic), 8),
            4 => {
                now += u64::from(length);
                requester.wake(now, &mut same_request);
                continue;
            }
            kind => {
                let opcode = if kind == 5 { Opcode::Ack } else { ANSWERS[usize::from(step[1] % 8)] };
                let mut packet = Packet::new(opcode, 7, 0xff_fffau32.wrapping_add(u32::from(step[2] % 64)));
                packet.data = &bytes[..usize::from(length) % bytes.len()];
                packet.syndrome.0 = match step[3] {
                    0 => Syndrome::Access,
                    1..64 => Syndrome::Sequence,
                    _ => Syndrome::Done,
                };
                requester.receive(now, &packet, &mut same_request);
                while let Some((id, result)) = requester.take_done() {
                    assert_eq!(id, ended);
                    assert!(result.is_err() || result.is_ok_and(|data| data.len() == expected[id as usize]));
                    ended += 1;
                }
                continue;
            }
        };
        if requester.start(now, operation, &mut same_request).is_ok() {
            expected.push(gives);
        }
    }
}

fn same_request(packet: &Packet<'_>) {
    assert!(packet.pair == 2 && packet.data.len() <= MTU);
    same(packet);
}

/// A packet decodes as what it was.
fn same(packet: &Packet<'_>) {
    let [from, to]: [IpAddr; 2] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
    let frame = packet.encode((Mac([2; 6]), Mac([2; 6])), (from, 9), to);
    let (again, ..) = Packet::decode(&frame).expect("our own packet");
    assert_eq!((again.opcode, again.psn, again.data), (packet.opcode, packet.psn, packet.data));
}

/// Lines of two controllers, and frames between them. What reads as a line is written as one that reads the same; queue pairs are of one controller.
fn channel(data: &[u8]) {
    let own: IpAddr = [10, 0, 0, 2].into();
    let mac = Mac([2; 6]);
    let config = HostConfig {
        bytes: 4096,
        ports: vec![(Port { number: 0, mac, addresses: vec![own] }, 1500)],
        secret: data.first().is_some_and(|b| b & 1 == 1).then_some([7; 8]),
        seed: 1,
        adverse_ns: data.first().is_some_and(|b| b & 2 == 2).then_some(1000),
        answers_arp: true,
    };
    let secret = config.secret;
    let mut host = Host::new(config).expect("settings");
    let greetings = [host.connect(0), host.connect(1)];
    let mut sessions = greetings.map(|g| Session::greeted(&g, secret).expect("a greeting"));
    let mut first = None;
    for (now, line) in (0..).zip(data.split(|b| *b == b'\n')) {
        let text = String::from_utf8_lossy(line);
        let who = u64::from(line.first().is_some_and(|b| b & 0x40 == 0));
        if let Ok(reply) = text.parse::<Reply>() {
            assert_eq!(reply.to_string().parse(), Ok(reply));
        }
        let _ = Session::greeted(&text, secret);
        let (reply, goes_on) = match text.parse::<Request>() {
            Ok(request) => {
                assert_eq!(request.to_string().parse(), Ok(request));
                host.line(who, &sessions[who as usize].line(&request))
            }
            Err(_) => host.line(who, &text),
        };
        if let Reply::Pair(_) = reply {
            assert_eq!(*first.get_or_insert(who), who, "two controllers");
        }
        if !goes_on {
            assert!(matches!(reply, Reply::Refused(_)));
            host.disconnect(who);
            first = first.filter(|f| *f != who);
            sessions[who as usize] = Session::greeted(&host.connect(who), secret).expect("a greeting");
        }
        let mut frame = [&mac.0[..], line].concat();
        let mut left = 0;
        host.receive(now * 100, 0, &frame, &mut |_, _| left += 1);
        frame.splice(..6, [0xff; 6]);
        host.receive(now * 100, 0, &frame, &mut |_, _| left += 1);
        host.wake(now * 100, &mut |_, _| left += 1);
    }
}

/// A frame from anyone: as it is, and with a right check value.
fn junk(data: &[u8]) {
    let mut frame = data.to_vec();
    let head = if frame.get(12) == Some(&8) { 20 } else { 40 };
    if let Some(end) = frame.len().checked_sub(4).filter(|end| *end > 14 + head) {
        let sum = check_value(&frame[14..14 + head], &frame[14 + head..end]);
        frame[end..].copy_from_slice(&sum);
    }
    for frame in [data, &frame] {
        if let Ok((packet, ..)) = Packet::decode(frame) {
            same(&packet);
        }
    }
}
