//! Single packets at two switches.

use super::*;
use pointsman_wire::frame::udp;

/// Two switches and single packets.
struct Bench<'a>(Testbed<'a>);

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 77);

impl Bench<'_> {
    /// The frames that leave within 50 ms, with their ports.
    fn pass(&mut self, switch: usize, port: u32, frame: Vec<u8>) -> Vec<(u32, Vec<u8>)> {
        let now = self.0.now();
        self.0.send(now, (switch, port), frame, 0);
        let mut out = Vec::new();
        while let Some(Happened::AtHost { port, frame, .. }) = self.0.next(now + 50 * MS) {
            out.push((port, frame));
        }
        out
    }

    /// The device that gets a segment of the client.
    fn device(&mut self, switch: usize, port: u16, flags: u8) -> Option<Ipv4Addr> {
        let out = self.pass(switch, CLIENTS, segment(CLIENT, SERVICE, (port, 80), 1, flags));
        out.iter().find(|(port, _)| *port == DEVICES).map(|(_, frame)| ip(frame, 30))
    }

    /// A device's answer reaches the client.
    fn answers(&mut self, switch: usize, device: Ipv4Addr, port: u16, flags: u8) -> bool {
        let out = self.pass(switch, DEVICES, segment(device, CLIENT, (80, port), 1, flags));
        out.iter().any(|(port, frame)| *port == CLIENTS && ip(frame, 26) == SERVICE)
    }

    /// A connection that is established.
    fn connect(&mut self, switch: usize, port: u16) -> Ipv4Addr {
        let device = self.device(switch, port, SYN).expect("a device");
        assert!(self.answers(switch, device, port, SYN | ACK));
        assert_eq!(self.device(switch, port, ACK), Some(device));
        device
    }

    fn wait(&mut self, ns: u64) {
        assert_eq!(self.0.next(self.0.now() + ns), None);
    }

    fn restart(&mut self, switch: usize) {
        self.0.crash(switch);
        self.0.start(switch).expect("a switch");
    }

    /// Only these devices of service 1 take new connections.
    fn takes(&mut self, devices: u8) {
        let pool = format!(
            "pools service=1 epoch=0 server=1 -> set_pool(devices={devices}, ring=1, ring_length=0, timeout_ms=0)"
        );
        (0..2).for_each(|n| self.0.set_entry(n, &pool).expect("a pool"));
    }
}

fn bench(build: &Build) -> Bench<'_> {
    Bench(Testbed::new(setup(build)).expect("a testbed"))
}

fn bit(device: Ipv4Addr) -> u8 {
    1 << (device.octets()[3] - 8)
}

/// What a SYN for a known connection gets, while that one's device takes new ones and not. Whether all of it is right.
pub(super) fn begins_again(build: &Build) -> bool {
    let mut b = bench(build);
    let device = b.connect(0, 1000);
    // By its own load the other switch would choose another one.
    assert!((2000..2020).any(|port| b.connect(1, port) == device));
    let same = b.device(1, 1000, SYN) == Some(device);
    b.restart(1);
    b.takes(!bit(device));
    // A connection that exists stays, also at the other switch.
    let stays = b.device(1, 1000, ACK) == Some(device);
    b.restart(1);
    b.takes(!bit(device));
    let other = b.device(1, 1000, SYN);
    let moved = other.is_some_and(|o| o != device);
    // All switches know the other one.
    b.restart(0);
    same && stays && moved && b.device(0, 1000, ACK) == other
}

#[test]
fn a_new_connection_gets_another_device_only_if_it_must() {
    assert!(begins_again(&build(false, &[])));
}

/// A packet that is too long for a request is lost, and the next one passes.
pub(super) fn long_packets(build: &Build) -> bool {
    let mut b = bench(build);
    let device = b.connect(0, 1000);
    let hop = (SWITCH, Mac([2, 0, 0, 0, 0, 9]));
    let long = [&tcp(1000, 80, 1, ACK)[..], &[0; 1460]].concat();
    let frame = packet(hop, CLIENT.into(), SERVICE.into(), 6, long, USUAL);
    let first = b.pass(1, CLIENTS, frame.clone());
    let second = b.pass(1, CLIENTS, frame);
    first.is_empty() && second.len() == 1 && ip(&second[0].1, 30) == device && second[0].1.len() == 1514
}

#[test]
fn a_packet_that_is_too_long_is_asked_for_without_it() {
    assert!(long_packets(&build(false, &[])));
}

/// The device's packet comes first at the other switch; a RST that is not from an end; a stranger's segment.
pub(super) fn either_side(build: &Build) -> bool {
    let mut b = bench(build);
    let device = b.connect(0, 1000);
    let first = b.answers(1, device, 1000, ACK);
    let known = b.device(1, 1000, ACK) == Some(device);
    // Another device's is not translated, and a segment of an unknown connection is answered with a RST where it came in.
    let other = Ipv4Addr::new(10, 128, 0, if device.octets()[3] == 8 { 9 } else { 8 });
    let strange = !b.answers(1, other, 1000, ACK);
    let reset = b.pass(1, CLIENTS, segment(CLIENT, SERVICE, (1001, 80), 1, ACK));
    let reset = matches!(&reset[..], [(CLIENTS, frame)] if frame[47] & RST != 0);
    // The connection continues after a RST: the store keeps it.
    let forged = b.device(1, 1000, RST) == Some(device);
    let continues = b.device(1, 1000, ACK) == Some(device);
    b.wait(15 * S);
    b.restart(0);
    first && known && strange && reset && forged && continues && b.device(0, 1000, ACK) == Some(device)
}

#[test]
fn either_side_may_come_first() {
    assert!(either_side(&build(false, &[])));
}

#[test]
fn switches_may_have_different_numbers_of_services() {
    let build = build(false, &[]);
    let mut b = bench(&build);
    for (protocol, number) in [(6, 2), (17, 1)] {
        let service = format!("services_v4 vip={SERVICE} protocol={protocol} port=80");
        b.0.set_entry(1, &format!("{service} -> set_service({number}, 3, 0, 0, 30000)")).expect("a service");
        for n in 8..16 {
            let backend =
                format!("backends_v4 ingress_port=1 address=10.128.0.{n} protocol={protocol} port=80");
            b.0.set_entry(1, &format!("{backend} -> set_backend_v4({number}, {n}, {SERVICE})"))
                .expect("a backend");
        }
    }
    let hop = (SWITCH, Mac([2, 0, 0, 0, 0, 9]));
    let datagram = packet(hop, CLIENT.into(), SERVICE.into(), 17, udp(1000, 80, &[1; 40]), USUAL);
    let device = b.connect(0, 1000);
    assert_eq!(b.device(1, 1000, ACK), Some(device));
    // The other protocol's flow from the same address and port is another one.
    for port in 2000..2003 {
        b.connect(0, port);
    }
    let other = b.pass(0, CLIENTS, datagram.clone());
    assert_ne!(ip(&other[0].1, 30), device);
    assert_eq!(ip(&b.pass(1, CLIENTS, datagram)[0].1, 30), ip(&other[0].1, 30));
    // Its time is extended by either switch.
    for _ in 0..5 {
        b.wait(14 * S);
        assert_eq!(b.device(1, 1000, ACK), Some(device));
    }
    b.restart(0);
    assert_eq!(b.device(0, 1000, ACK), Some(device));
}

#[test]
fn another_idle_time_counts_at_once() {
    let build = build(false, &[]);
    let mut b = bench(&build);
    let device = b.connect(0, 1000);
    for n in 0..2 {
        let service =
            format!("services_v4 vip={SERVICE} protocol=6 port=80 -> set_service(1, 3, 0, 0, 600000)");
        b.0.set_entry(n, &service).expect("a service");
    }
    assert_eq!(b.device(0, 1000, ACK), Some(device));
    b.wait(590 * S);
    b.restart(0);
    assert_eq!(b.device(1, 1000, ACK), Some(device));
    assert_eq!(b.0.store_keys(), 1);
}

#[test]
fn datagrams_keep_their_device() {
    let build = build(false, &[]);
    let mut b = bench(&build);
    let hop = (SWITCH, Mac([2, 0, 0, 0, 0, 9]));
    let asks = packet(hop, CLIENT.into(), SERVICE.into(), 17, udp(1000, 80, &[1; 40]), USUAL);
    let to = |out: Vec<(u32, Vec<u8>)>| out.first().map(|(_, frame)| ip(frame, 30));
    let from = |out: Vec<(u32, Vec<u8>)>| out.first().map(|(_, frame)| ip(frame, 26));
    let device = to(b.pass(0, CLIENTS, asks.clone())).expect("a device");
    let answer = packet(hop, device.into(), CLIENT.into(), 17, udp(80, 1000, &[2; 40]), USUAL);
    assert_eq!(from(b.pass(0, DEVICES, answer.clone())), Some(SERVICE));
    assert_eq!(to(b.pass(0, CLIENTS, asks.clone())), Some(device));
    // Other flows, so that the load says otherwise.
    for port in 2000..2003 {
        let frame = packet(hop, CLIENT.into(), SERVICE.into(), 17, udp(port, 80, &[1; 40]), USUAL);
        b.pass(1, CLIENTS, frame);
    }
    b.wait(20 * S);
    b.restart(0);
    assert_eq!(from(b.pass(1, DEVICES, answer)), Some(SERVICE));
    assert_eq!(to(b.pass(0, CLIENTS, asks)), Some(device));
    // Those without an answer are forgotten soon.
    assert_eq!(b.0.store_keys(), 1);
}

/// An answer of the store for a connection that it does not know, from this port and with this secret, sent so long ago.
fn forged(port: u32, secret: [u8; 8], age_us: u64, to: Ipv4Addr) -> (u32, Vec<u8>) {
    use pointsman_store::{Flags, Head, Kind, Message, Status};
    let flags = Flags { packet: true, input: true, created: true, fixed: true, ..Flags::default() };
    let head = Head {
        kind: Kind::New,
        answer: true,
        flags,
        status: Status::Ok,
        object: 0,
        shard: 0,
        switch: 0,
        port: CLIENTS as u16,
        incarnation: 1,
        generation: 0,
        grant: 1,
        sequence: 0,
        request: 0,
        // The bench has run for five seconds.
        stamp: 5_000_000 - age_us,
        lease_us: 60_000,
    };
    let inner = segment(CLIENT, SERVICE, (3000, 80), 1, ACK);
    let ports = [3000u16.to_be_bytes(), 80u16.to_be_bytes()].concat();
    let ends = [&[0; 12][..], &SERVICE.octets(), &[0; 12], &CLIENT.octets()].concat();
    let key = [&ends[..], &ports, &[0, 0, 4, 6]].concat();
    let mut payload = Vec::new();
    Message { head, key: &key, value: &[0, 0, 0, 9], packet: &inner }.encode(secret, &mut payload);
    let hop = (SWITCH, Mac([2, 0, 0, 0, 0, 9]));
    let from = Ipv4Addr::new(10, 9, 1, 1);
    (port, packet(hop, from.into(), to.into(), 17, udp(4791, 4791, &payload), USUAL))
}

/// Which of these answers are taken: the right one, one from another port, with another secret, a late one.
pub(super) fn taken(build: &Build) -> [bool; 4] {
    let own = Ipv4Addr::new(10, 9, 0, 1);
    [(STORE, SECRET, 0), (CLIENTS, SECRET, 0), (STORE, *b"A secret", 0), (STORE, SECRET, 2_000_000)].map(
        |(port, secret, age)| {
            let mut b = bench(build);
            b.wait(5 * S);
            let (port, frame) = forged(port, secret, age, own);
            !b.pass(0, port, frame).is_empty()
        },
    )
}

#[test]
fn only_the_stores_answers_are_taken() {
    assert_eq!(taken(&build(false, &[])), [true, false, false, false]);
}

#[test]
fn messages_to_others_pass() {
    let build = build(false, &[]);
    let mut b = bench(&build);
    let (_, frame) = forged(STORE, SECRET, 0, CLIENT);
    let out = b.pass(0, STORE, frame.clone());
    assert_eq!(out.len(), 1, "{out:?}");
    let (port, passed) = &out[0];
    // One hop less, other MAC addresses, and nothing else.
    assert_eq!((*port, passed[22]), (CLIENTS, frame[22] - 1));
    assert_eq!(
        (passed[26..].to_vec(), passed[14..22].to_vec()),
        (frame[26..].to_vec(), frame[14..22].to_vec())
    );
}
