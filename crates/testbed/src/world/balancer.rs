//! The balancer on two switches that replace each other: every connection keeps its device, though the device was chosen by load.
//!
//! The checker looks at packets only: which device gets those of a client, and whether its answers come back from the service's address.

use super::*;
use crate::program::{App, SERVICE};
use pointsman_wire::frame::{ACK, FIN, RST, SYN, tcp};

const SWITCH: Mac = Mac([0x02, 0x50, 0x4d, 0, 0, 1]);
const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
/// Between two packets of a client at most, and after which a packet is sent again.
const PERIOD: u64 = 2 * S;
/// Ports to clients and devices.
const CLIENTS: u32 = 0;
const DEVICES: u32 = 1;
/// Timers with these numbers are takeovers, those below are of clients.
const TAKEOVER: u64 = 1 << 32;

/// What a client knows, and what the checker saw of it.
#[derive(Clone, Default)]
struct Client {
    /// Its handshake is complete.
    open: bool,
    /// The number of its last packet, and the last that was answered.
    sent: u32,
    answered: u32,
    /// The device that got its first packet.
    device: Option<Ipv4Addr>,
    /// A packet went to another one, an answer came from elsewhere, or it was reset.
    broken: bool,
}

/// A run of many clients.
#[derive(Clone, Copy)]
struct Run {
    clients: u64,
    /// When one switch fails, and the other one gets all packets.
    takeovers: &'static [u64],
    /// Clients are silent for this time, those with odd numbers.
    pause: (u64, u64),
    /// Clients whose number is divisible by this end their connections instead of pausing; 0: none.
    ends: u64,
    until: u64,
}

const USUAL_RUN: Run =
    Run { clients: 1_000, takeovers: &[100 * S, 130 * S], pause: (60 * S, 88 * S), ends: 0, until: 160 * S };

#[derive(Debug, Default, PartialEq, Eq)]
struct Verdict {
    broken: usize,
    /// Without an answer to their last packets.
    unanswered: usize,
    /// Connections of the device that has the most, and of that with the fewest.
    spread: (usize, usize),
}

struct World<'a> {
    testbed: Testbed<'a>,
    run: Run,
    clients: Vec<Client>,
    active: usize,
}

fn address(n: u64) -> (Ipv4Addr, u16) {
    (Ipv4Addr::new(10, 0, (n / 250) as u8, 1 + (n % 250) as u8), 40_000 + (n % 7) as u16)
}

fn number(address: Ipv4Addr) -> usize {
    let [_, _, high, low] = address.octets();
    usize::from(high) * 250 + usize::from(low) - 1
}

fn ip(frame: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::new(frame[at], frame[at + 1], frame[at + 2], frame[at + 3])
}

fn segment(from: Ipv4Addr, to: Ipv4Addr, ports: (u16, u16), sequence: u32, flags: u8) -> Vec<u8> {
    let hop = (SWITCH, Mac([2, 0, 0, 0, 0, 9]));
    packet(hop, from.into(), to.into(), 6, tcp(ports.0, ports.1, sequence, flags), USUAL)
}

impl World<'_> {
    fn send(&mut self, n: u64, sequence: u32, flags: u8) {
        let (from, port) = address(n);
        let frame = segment(from, SERVICE, (port, 80), sequence, flags);
        self.testbed.send(self.testbed.now(), (self.active, CLIENTS), frame, 0);
    }

    /// It is time for a client's next packet, or for its last one again.
    fn due(&mut self, n: u64) {
        let now = self.testbed.now();
        // Each at a pace of its own, so that their order changes.
        self.testbed.timer(now + PERIOD - n * 7_919 % 997 * MS / 2, n);
        let Run { pause, ends, .. } = self.run;
        let over = ends != 0 && n.is_multiple_of(ends) && now >= pause.0;
        let pauses = n % 2 == 1 && !over && (pause.0..pause.1).contains(&now);
        if pauses || over && now >= pause.0 + 2 * PERIOD {
            return;
        }
        let client = &mut self.clients[n as usize];
        client.sent += 1;
        let (sent, flags) = (
            client.sent,
            if over {
                ACK | FIN
            } else if client.open {
                ACK
            } else {
                SYN
            },
        );
        self.send(n, sent, flags);
    }

    /// A device answers whatever it gets, after a look at who should have got it.
    fn at_device(&mut self, frame: &[u8]) {
        let (from, to, flags) = (ip(frame, 26), ip(frame, 30), frame[47]);
        let client = &mut self.clients[number(from)];
        client.broken |= flags & RST != 0 || *client.device.get_or_insert(to) != to;
        let answer = if flags & SYN != 0 { SYN | ACK } else { ACK | (flags & FIN) };
        let port = u16::from_be_bytes([frame[34], frame[35]]);
        let sequence = u32::from_be_bytes([frame[38], frame[39], frame[40], frame[41]]);
        let frame = segment(to, from, (80, port), sequence, answer);
        self.testbed.send(self.testbed.now(), (self.active, DEVICES), frame, 0);
    }

    fn at_client(&mut self, frame: &[u8]) {
        let n = number(ip(frame, 30));
        let client = &mut self.clients[n];
        client.broken |= ip(frame, 26) != SERVICE || frame[47] & RST != 0;
        let sequence = u32::from_be_bytes([frame[38], frame[39], frame[40], frame[41]]);
        client.answered = client.answered.max(sequence);
        if frame[47] & SYN != 0 && !client.open {
            client.open = true;
            self.send(n as u64, 0, ACK);
        }
    }

    fn verdict(&self) -> Verdict {
        let broken = self.clients.iter().filter(|c| c.broken).count();
        // A packet may be lost with its message.
        let answered = |c: &&Client| c.answered + 4 >= c.sent;
        let unanswered = self.clients.iter().filter(|c| !answered(c)).count();
        let mut loads: BTreeMap<Ipv4Addr, usize> = BTreeMap::new();
        self.clients.iter().filter_map(|c| c.device).for_each(|d| *loads.entry(d).or_default() += 1);
        let spread = (loads.values().copied().max().unwrap_or(0), loads.values().copied().min().unwrap_or(0));
        Verdict { broken, unanswered, spread }
    }
}

fn build(plain: bool, changes: &[(&str, &str)]) -> Build {
    Build::new(App::Balancer, plain, "", changes).unwrap_or_else(|e| panic!("{e}"))
}

fn setup(build: &Build) -> Setup<'_> {
    Setup {
        build,
        store: Config::default(),
        stores: 1,
        shards: 1,
        times: Times::default(),
        resend_ns: 0,
        renew_ns: 0,
        buffer: 0,
        loss: 0.0,
        disorder_ns: 0,
        snapshots: Snapshots::default(),
        faults: Faults::default(),
        seed: 1,
    }
}

fn run<'a>(
    setup: Setup<'a>,
    run: Run,
    at_takeover: &mut dyn FnMut(&mut Testbed<'a>),
) -> (Verdict, Testbed<'a>) {
    let testbed = Testbed::new(setup).expect("a testbed");
    let clients = vec![Client::default(); run.clients as usize];
    let mut world = World { testbed, run, clients, active: 0 };
    for n in 0..run.clients {
        world.testbed.timer(n * PERIOD / run.clients, n);
    }
    for at in run.takeovers {
        world.testbed.timer(*at, TAKEOVER);
    }
    while let Some(happened) = world.testbed.next(run.until) {
        match happened {
            Happened::AtHost { port: CLIENTS, frame, .. } => world.at_client(&frame),
            Happened::AtHost { frame, .. } => world.at_device(&frame),
            Happened::Timer(TAKEOVER) => {
                // It comes back, empty, for the next time.
                at_takeover(&mut world.testbed);
                world.testbed.crash(world.active);
                world.testbed.start(world.active).expect("a switch");
                world.active = 1 - world.active;
            }
            Happened::Timer(n) => world.due(n),
        }
    }
    (world.verdict(), world.testbed)
}

/// A run with all faults of messages.
fn faulty(build: &Build, stores: usize) -> Setup<'_> {
    let faults = Faults { answers_lost: 0.02, doubled: 0.1 };
    Setup { stores, loss: 0.02, disorder_ns: 300_000, faults, ..setup(build) }
}

#[test]
fn connections_keep_their_devices_when_switches_fail() {
    let build = build(false, &[]);
    let (verdict, testbed) = run(setup(&build), USUAL_RUN, &mut |_| ());
    // The devices were chosen by load.
    assert_eq!(verdict, Verdict { broken: 0, unanswered: 0, spread: (125, 125) });
    assert_eq!((testbed.store_keys(), testbed.store_stats().fixed), (1_000, 1_000));
    // An eighth to a quarter of the idle time, for packets of both sides, and a question at each takeover.
    let asked = testbed.store_stats().fixed_known;
    assert!((20_000..60_000).contains(&asked), "{asked}");
}

#[test]
fn ten_thousand_connections() {
    let build = build(false, &[]);
    let short =
        Run { clients: 10_000, takeovers: &[40 * S], pause: (16 * S, 38 * S), until: 52 * S, ..USUAL_RUN };
    let (verdict, _) = run(setup(&build), short, &mut |_| ());
    println!("{verdict:?}");
    assert_eq!((verdict.broken, verdict.unanswered), (0, 0), "{verdict:?}");
}

#[test]
fn messages_are_lost_doubled_and_reordered() {
    let build = build(false, &[]);
    for stores in [1, 3] {
        let (verdict, testbed) = run(faulty(&build, stores), USUAL_RUN, &mut |_| ());
        println!("{stores} stores: {verdict:?} {:?}", testbed.requests());
        assert_eq!((verdict.broken, verdict.unanswered), (0, 0), "{verdict:?}");
    }
}

#[test]
fn without_the_store_they_break() {
    let build = build(true, &[]);
    let (verdict, _) = run(setup(&build), USUAL_RUN, &mut |_| ());
    assert_eq!(verdict.broken, 1_000, "{verdict:?}");
    // Also if the other switch adopts them, with a device of its own choice.
    let adopts = |testbed: &mut Testbed<'_>| {
        for n in 0..2 {
            testbed.set_entry(n, "quiet_services service=1 -> adopt()").expect("a table");
        }
    };
    let (verdict, _) = run(setup(&build), USUAL_RUN, &mut { adopts });
    assert!(verdict.broken > 500, "{verdict:?}");
}

#[test]
fn the_store_forgets_connections_that_end() {
    let build = build(false, &[]);
    let ending = Run { takeovers: &[], ends: 1, until: 80 * S, ..USUAL_RUN };
    let (verdict, testbed) = run(setup(&build), ending, &mut |_| ());
    assert_eq!((verdict.broken, testbed.store_keys()), (0, 0), "{verdict:?}");
    // Without FINs they are kept for longer.
    let silent = Run { takeovers: &[], pause: (60 * S, 200 * S), until: 80 * S, ..USUAL_RUN };
    let (_, testbed) = run(setup(&build), silent, &mut |_| ());
    assert_eq!(testbed.store_keys(), 1_000);
    let silent = Run { until: 125 * S, ..silent };
    let (_, testbed) = run(setup(&build), silent, &mut |_| ());
    assert_eq!(testbed.store_keys(), 500);
}

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
fn begins_again(build: &Build) -> bool {
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
fn long_packets(build: &Build) -> bool {
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
fn either_side(build: &Build) -> bool {
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
    let device = to(b.pass(0, CLIENTS, asks.clone())).expect("a device");
    let answer = packet(hop, device.into(), CLIENT.into(), 17, udp(80, 1000, &[2; 40]), USUAL);
    assert_eq!(to(b.pass(0, DEVICES, answer.clone())), Some(CLIENT));
    assert_eq!(to(b.pass(0, CLIENTS, asks.clone())), Some(device));
    // Other flows, so that the load says otherwise.
    for port in 2000..2003 {
        let frame = packet(hop, CLIENT.into(), SERVICE.into(), 17, udp(port, 80, &[1; 40]), USUAL);
        b.pass(1, CLIENTS, frame);
    }
    b.wait(20 * S);
    b.restart(0);
    assert_eq!(to(b.pass(1, DEVICES, answer)), Some(CLIENT));
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
fn taken(build: &Build) -> [bool; 4] {
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

#[test]
fn every_part_that_is_missing_is_found() {
    let new_period =
        ("bool new_period = (conn.seen ^ now[41:10]) >= (seen_t)conn.idle << 3;", "bool new_period = false;");
    let established = ("meta.extends = true;\n            idle = meta.idle;", "idle = meta.idle;");
    let own_choice = (
        "conn.device = meta.device;\n        conn.flags = CONN_LIVE | flags |",
        "conn.device = KEPT_DEVICE(meta.store.proposed);\n        conn.flags = CONN_LIVE | flags |",
    );
    for change in [new_period, established, own_choice] {
        let build = build(false, &[change]);
        let (verdict, _) = run(setup(&build), USUAL_RUN, &mut |_| ());
        assert!(verdict.broken + verdict.unanswered > 100, "{change:?}: {verdict:?}");
    }
    let ended = build(false, &[("meta.extends = !was_over;", "meta.extends = false;")]);
    let ending = Run { takeovers: &[], ends: 1, until: 80 * S, ..USUAL_RUN };
    assert_eq!(run(setup(&ended), ending, &mut |_| ()).1.store_keys(), 1_000);
    let unchecked = ("&& meta.device != KEPT_DEVICE(proposal);", "&& false;");
    let always = ("meta.usable = (fresh &", "meta.usable = false && (fresh &");
    let blind = ("meta.checks ? meta.store.grant : 0", "0");
    for change in [unchecked, always, blind] {
        assert!(!begins_again(&build(false, &[change])), "{change:?}");
    }
    assert!(!long_packets(&build(false, &[("m.lost = message.flags[1:0] == 2;", "m.lost = false;")])));
    for change in [
        ("meta.extends = was_over || new_period;", "meta.extends = new_period;"),
        ("egress_spec = CAME_IN", "egress_spec = standard_metadata.ingress_port"),
    ] {
        assert!(!either_side(&build(false, &[change])), "{change:?}");
    }
    let port = ("|| sm.ingress_port != m.store_port", "");
    let digest = ("expected != message.digest || (message.flags", "(message.flags");
    for (change, n) in [(port, 1), (digest, 2), (("age > m.late", "false"), 3)] {
        assert!(taken(&build(false, &[change]))[n], "{change:?}");
    }
}
