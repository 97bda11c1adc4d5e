//! The balancer on two workers, in memory: threads that open, use and close connections, the same and others, in any
//! order. No connection changes its device, everything is counted once, and the count in flight equals the table's.
//!
//! The table is small, so that places are reused all the time.

use pointsman_engine::Engine;
use pointsman_interp::Interp;
use pointsman_ir::Executor;
use pointsman_testkit::Rig;
use pointsman_testkit::compile::{compile_text, compile_with, own_includes, own_program};
use pointsman_testkit::packet::{Packet, tcp_flags};
use pointsman_testkit::random::Random;
use pointsman_v1model::{Arrived, Output, Sink, Switch, SwitchConfig, Time, Worker};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

const VIP: &str = "10.0.0.100:80";
const SWITCH: [u8; 6] = [0x02, 0x50, 0x4d, 0, 0, 1];
/// Addresses of clients, and of devices 8 to 15.
const CLIENTS: u32 = 1;
const DEVICES: u32 = 2;

/// Places of one way: 2 to the power of it.
const PLACE_BITS: u64 = 5;

/// Idle time of connections, ms: the longest possible one.
const IDLE_MS: u32 = 0xff_ffff;

const ROUND_ROBIN: u8 = 1;
const BLOCKS: u8 = 3;

fn rig<E: Executor>(policy: u8) -> Rig<E> {
    let places = format!("CONNECTION_PLACE_BITS={PLACE_BITS}");
    let program = compile_with(&own_program("balancer"), &[&own_includes()], &[&places]);
    let program = program.unwrap_or_else(|e| panic!("{e}"));
    let mut rig = Rig::<E>::on(program, SwitchConfig::default()).expect("it can run");
    let mut add = |entry: &str| rig.add(entry).unwrap_or_else(|e| panic!("{entry}: {e}"));
    add("local_v4 address=10.0.0.100 -> is_local");
    add("routes_v4 prefix=0.0.0.0/0 -> next_hop(1, 02:00:00:00:00:01)");
    add(&format!(
        "services_v4 vip=10.0.0.100 protocol=6 port=80 -> set_service(1, {policy}, 0, 0, {IDLE_MS})"
    ));
    add("server_slots service=1 epoch=0 slot=0 -> use_server(1)");
    add("quiet_services service=1 -> is_quiet");
    add("pools service=1 epoch=0 server=1 -> set_pool(0xff, 101, 8, 0)");
    for slot in 0..8 {
        let d = 8 + slot;
        add(&format!("rings service=1 epoch=0 server=1 position={slot} -> use_device({slot})"));
        let (bit, priority) = (1 << slot, 10 - slot);
        add(&format!(
            "dip_table service=1 epoch=0 server=1 available={bit}&&&{bit} priority={priority} -> use_device({slot})"
        ));
        add(&format!(
            "devices_v4 device={d} -> set_device_v4(10.0.1.{d}, {DEVICES}, 02:00:00:00:01:{d:02x})"
        ));
        add(&format!(
            "backends_v4 ingress_port={DEVICES} address=10.0.1.{d} protocol=6 port=80 -> set_backend_v4(1, {d}, 10.0.0.100)"
        ));
    }
    if policy == BLOCKS {
        // The fewest connections in flight, which the switch counts.
        add("policies service=1 epoch=0 -> set_policy(0, 0, 0, 0, 32, 6, 1, 0, 0, 0, 0, 0, 0)");
    }
    rig
}

/// A connection.
struct Flow {
    client: String,
    device: u8,
}

/// The state that the threads share.
struct Shared<'a, E: Executor> {
    switch: &'a Switch<E>,
    flows: Mutex<Vec<Arc<Flow>>>,
    clock: AtomicU64,
    /// Time moves far only while no packet is on its way.
    gate: RwLock<()>,
    next: AtomicU64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    opened: u64,
    full: u64,
    sent: u64,
}

/// From one packet to the next. A handshake of a thread that waits for its turn stays younger than a millisecond, so that its
/// place is not taken.
const PACKET_NS: u64 = 20;

/// One of the threads.
struct Hand<'a, E: Executor> {
    shared: &'a Shared<'a, E>,
    worker: Worker<E>,
    random: Random,
    count: Count,
}

impl<E: Executor> Hand<'_, E> {
    /// Sends a packet through the switch and returns the outgoing packet, if any.
    fn send(&mut self, port: u32, packet: Packet) -> Option<Vec<u8>> {
        let mut buffer = vec![0; 64];
        let start = buffer.len();
        buffer.extend(packet.macs([2; 6], SWITCH).bytes());
        let mut out: Vec<Output> = Vec::new();
        let now = Time(self.shared.clock.fetch_add(PACKET_NS, Ordering::Relaxed));
        let mut batch = [Arrived { port, buffer: &mut buffer, start }];
        self.worker.process(self.shared.switch, now, 16, &mut batch, &mut out);
        assert!(out.len() <= 1, "{out:?}");
        match out.pop()? {
            Output::Port(_, bytes) => Some(bytes),
            Output::Cpu(_) => panic!("nothing is for the control plane"),
        }
    }

    fn request(&mut self, client: &str, flags: u8) -> Option<u8> {
        let got = self.send(CLIENTS, Packet::tcp(client, VIP, flags))?;
        self.count.sent += 1;
        // The last byte of the device's Ethernet address.
        got.get(5).copied()
    }

    fn answer(&mut self, flow: &Flow, flags: u8) {
        let from = format!("10.0.1.{}:80", flow.device);
        let got = self.send(DEVICES, Packet::tcp(from, flow.client.clone(), flags)).expect("it has a route");
        // The connection is known: the source is the VIP.
        assert_eq!(got[26..30], [10, 0, 0, 100], "{} device {}", flow.client, flow.device);
    }

    /// Opens a connection, if there is room.
    fn open(&mut self) {
        let n = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let client = format!("192.0.{}.{}:{}", 2 + n / 12_500_000, n / 50_000 % 250 + 1, 10_000 + n % 50_000);
        match self.request(&client, tcp_flags::SYN) {
            None => self.count.full += 1,
            Some(device) => {
                self.count.opened += 1;
                // Its place is its own from here on.
                assert_eq!(self.request(&client, tcp_flags::ACK), Some(device));
                let flow = Flow { client, device };
                self.flows().push(Arc::new(flow));
            }
        }
    }

    fn flows(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Flow>>> {
        self.shared.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn use_one(&mut self, flow: &Flow) {
        if self.random.below(2) == 0 {
            let device = self.request(&flow.client, tcp_flags::ACK);
            assert_eq!(device, Some(flow.device), "{} changed its device", flow.client);
        } else {
            self.answer(flow, tcp_flags::ACK);
        }
    }

    fn close(&mut self, flow: &Flow) {
        if self.random.below(4) == 0 {
            assert_eq!(self.request(&flow.client, tcp_flags::RST), Some(flow.device));
        } else {
            let fin = tcp_flags::FIN | tcp_flags::ACK;
            assert_eq!(self.request(&flow.client, fin), Some(flow.device));
            self.answer(flow, fin);
        }
    }

    fn step(&mut self) {
        let shared = self.shared;
        let _gate = shared.gate.read().unwrap_or_else(PoisonError::into_inner);
        let dice = self.random.below(100);
        let picked = {
            let mut flows = self.flows();
            let n = flows.len();
            match dice {
                _ if n < 16 => None,
                // Taken away first: it is unused once it is closed.
                0..3 => Some(flows.swap_remove(self.random_below(n))),
                3..7 if n < 48 => None,
                _ => Some(flows[self.random_below(n)].clone()),
            }
        };
        match picked {
            None => self.open(),
            Some(flow) if dice < 3 => self.close(&flow),
            Some(flow) => self.use_one(&flow),
        }
    }

    fn random_below(&self, n: usize) -> usize {
        // Which one does not matter, only that it varies.
        (self.shared.clock.load(Ordering::Relaxed) / PACKET_NS * 7919) as usize % n
    }
}

fn check<E>(policy: u8, steps: u32)
where
    E: Executor + Send + Sync,
    E::Frame: Send + Sync,
{
    let mut rig = rig::<E>(policy);
    let workers = rig.switch.add_workers(2);
    let shared = Shared {
        switch: &rig.switch,
        flows: Mutex::default(),
        clock: AtomicU64::new(1_000_000_000),
        gate: RwLock::default(),
        next: AtomicU64::new(0),
    };
    let shared = &shared;
    let run = |(n, worker): (usize, Worker<E>)| {
        let random = Random::new(n as u64 + 1);
        let mut hand = Hand { shared, worker, random, count: Count::default() };
        for step in 0..steps {
            hand.step();
            if n == 0 && step % 150 == 0 {
                // Ended connections make room.
                let _gate = shared.gate.write().unwrap_or_else(PoisonError::into_inner);
                shared.clock.fetch_add(2_100_000_000, Ordering::Relaxed);
            }
        }
        hand.count
    };
    let run = &run;
    let counts: Vec<Count> = std::thread::scope(|scope| {
        let threads: Vec<_> = workers.into_iter().enumerate().map(|w| scope.spawn(move || run(w))).collect();
        threads.into_iter().map(|t| t.join().expect("no invariant is broken")).collect()
    });
    let sum = |f: fn(&Count) -> u64| counts.iter().map(f).sum::<u64>();
    let (opened, full, sent) = (sum(|c| c.opened), sum(|c| c.full), sum(|c| c.sent));
    assert!(opened > 200, "{counts:?}");

    let mut counter = |name: &str, index: u64| rig.counter(name, index).expect("a counter").packets;
    let devices: u64 = (8..16).map(|d| counter("device_connections", d)).sum();
    assert_eq!(devices, opened, "connections");
    assert_eq!(counter("service_packets", 1), sent, "packets to the service");
    assert_eq!((8..16).map(|d| counter("device_packets", d)).sum::<u64>(), sent, "packets to devices");
    assert!(rig.stats().is_conserved());
    assert_eq!(rig.stats().dropped(), full, "nothing is dropped but what found no room");

    check_in_flight(&mut rig, policy);
}

/// The count in flight equals the table's.
fn check_in_flight<E: Executor>(rig: &mut Rig<E>, policy: u8) {
    let mut register = |name: &str, index: u64| rig.register(name, index).expect("a register").low_u64();
    let mut standing = 0;
    for way in 0..4 {
        for place in 0..1 << PLACE_BITS {
            let flags = register(&format!("way{way}.state"), place) & 0xff;
            standing += u64::from(flags & 0x11 == 0x11);
        }
    }
    let counted: u64 = (0..8).map(|d| register(&format!("load.device{d}.in_flight"), 1)).sum();
    assert_eq!(counted, standing, "policy {policy}: in flight");
}

/// Where the packets of a batch went: the last byte of the device's Ethernet address.
struct Went(Vec<Option<u8>>);

impl Sink for Went {
    fn transmit(&mut self, _: u32, _: &[u8]) {
        panic!("it leaves in its buffer");
    }

    fn to_cpu(&mut self, _: &[u8]) {
        panic!("nothing is for the control plane");
    }

    fn transmit_buffer(&mut self, _: u32, number: usize, packet: &[u8]) {
        assert!(self.0[number].is_none(), "it leaves once");
        self.0[number] = packet.get(5).copied();
    }
}

/// Whose turn it is: both threads begin a round together, since a handshake that is older than a millisecond may lose its place. One that
/// ends, be it by a panic, is waited for no longer.
struct Turn<'a>(&'a [AtomicU64; 2], usize);

impl Turn<'_> {
    fn begin(&self, round: u64) {
        self.0[self.1].store(round, Ordering::SeqCst);
        while self.0[1 - self.1].load(Ordering::SeqCst) < round {
            std::thread::yield_now();
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0[self.1].store(u64::MAX, Ordering::SeqCst);
    }
}

/// Two threads that do nothing else but open connections, use them and end them, in batches, as fast as they can, in a table
/// that is too small for all.
fn hammer<E>(policy: u8, rounds: u64)
where
    E: Executor + Send + Sync,
    E::Frame: Send + Sync,
{
    const FLOWS: usize = 64;
    let mut rig = rig::<E>(policy);
    let workers = rig.switch.add_workers(2);
    let switch = &rig.switch;
    let turns = &[const { AtomicU64::new(0) }; 2];
    let frames = |thread: usize, flags: u8| -> Vec<Vec<u8>> {
        let frame = |n: usize| {
            let client = format!("192.0.{}.9:{}", 2 + thread, 10_000 + n);
            Packet::tcp(client, VIP, flags).macs([2; 6], SWITCH).bytes()
        };
        (0..FLOWS).map(frame).collect()
    };
    let run = |(thread, mut worker): (usize, Worker<E>)| {
        let kinds = [tcp_flags::SYN, tcp_flags::ACK, tcp_flags::RST].map(|f| frames(thread, f));
        let mut opened = 0;
        let turn = Turn(turns, thread);
        for round in 0..rounds {
            turn.begin(round);
            // Connections that ended in the last round have lingered enough, but none is idle too long at the end.
            let now = Time(1_000_000_000 + round * 2_100_000_000);
            let mut send = |frames: &[Vec<u8>]| {
                let mut buffers = frames.to_vec();
                let arrived = |b| Arrived { port: CLIENTS, buffer: b, start: 0 };
                let mut batch: Vec<Arrived<'_>> =
                    buffers.iter_mut().map(|b| arrived(b.as_mut_slice())).collect();
                let mut went = Went(vec![None; FLOWS]);
                worker.process(switch, now, 256, &mut batch, &mut went);
                went.0
            };
            let [devices, used, ended] = [0, 1, 2].map(|k| send(&kinds[k]));
            assert_eq!(devices, used, "the table holds exactly these connections");
            assert_eq!(devices, ended);
            opened += devices.iter().flatten().count() as u64;
        }
        opened
    };
    let run = &run;
    let opened: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = workers.into_iter().enumerate().map(|w| scope.spawn(move || run(w))).collect();
        threads.into_iter().map(|t| t.join().expect("no invariant is broken")).sum()
    });
    assert!(opened > rounds, "{opened} in {rounds} rounds");
    let mut counter = |name: &str, index: u64| rig.counter(name, index).expect("a counter").packets;
    assert_eq!((8..16).map(|d| counter("device_connections", d)).sum::<u64>(), opened);
    assert_eq!(counter("service_packets", 1), 3 * opened);
    assert!(rig.stats().is_conserved());
    assert_eq!(rig.stats().dropped(), 3 * (2 * rounds * FLOWS as u64 - opened));
    check_in_flight(&mut rig, policy);
}

#[test]
fn connections_that_are_not_counted() {
    check::<Engine>(ROUND_ROBIN, 40_000);
    check::<Interp>(ROUND_ROBIN, 4_000);
    hammer::<Engine>(ROUND_ROBIN, 2_000);
    hammer::<Interp>(ROUND_ROBIN, 20);
}

#[test]
fn connections_that_are_counted() {
    check::<Engine>(BLOCKS, 40_000);
    check::<Interp>(BLOCKS, 4_000);
    hammer::<Engine>(BLOCKS, 2_000);
    hammer::<Interp>(BLOCKS, 20);
}

/// A program that counts packets in a register, by these statements.
fn counting(declarations: &str, body: &str) -> String {
    format!(
        "#include <core.p4>
         #include <v1model.p4>
         struct headers_t {{}}
         struct metadata_t {{}}
         parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{
             state start {{ transition accept; }}
         }}
         control V(inout headers_t hdr, inout metadata_t meta) {{ apply {{}} }}
         control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{
             {declarations}
             apply {{
                 sm.egress_spec = 1;
                 {body}
             }}
         }}
         control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{ apply {{}} }}
         control C(inout headers_t hdr, inout metadata_t meta) {{ apply {{}} }}
         control D(packet_out packet, in headers_t hdr) {{ apply {{}} }}
         V1Switch(P(), V(), I(), E(), C(), D()) main;"
    )
}

/// Two workers, each with as many packets: none is forgotten.
fn check_count<E>(declarations: &str, body: &str)
where
    E: Executor + Send + Sync,
    E::Frame: Send + Sync,
{
    const EACH: u64 = 20_000;
    let text = counting(declarations, body);
    let program = compile_text("t.p4", &text, &[&own_includes()]).unwrap_or_else(|(_, e)| panic!("{e}"));
    let mut rig = Rig::<E>::on(program, SwitchConfig::default()).expect("it can run");
    let workers = rig.switch.add_workers(2);
    let switch = &rig.switch;
    std::thread::scope(|scope| {
        for mut worker in workers {
            scope.spawn(move || {
                let mut out: Vec<Output> = Vec::new();
                for n in 0..EACH {
                    let mut buffer = [0; 60];
                    let mut batch = [Arrived { port: 0, buffer: &mut buffer, start: 0 }];
                    worker.process(switch, Time(n), 16, &mut batch, &mut out);
                    out.clear();
                }
            });
        }
    });
    let counted = rig.register("n", 0).expect("a register").low_u64();
    assert_eq!(counted, 2 * EACH, "{declarations} {body}");
}

#[test]
fn registers_lose_nothing() {
    let add = "n.read(v, 0); v = v + 1; n.write(0, v);";
    let both = |declarations: &str, body: &str| {
        check_count::<Engine>(declarations, body);
        check_count::<Interp>(declarations, body);
    };
    // As on BMv2: the program does not mark what belongs together.
    both("register<bit<32>>(1) n;", &format!("bit<32> v; {add}"));
    // As the program says, where a packet leaves the block early, and in blocks inside of blocks.
    both("register<bit<32>>(1) n;", &format!("bit<32> v; @atomic {{ {add} }}"));
    both("register<bit<32>>(1) n;", &format!("bit<32> v; @atomic {{ {add} exit; }}"));
    both("register<bit<32>>(1) n;", &format!("bit<32> v; @atomic {{ @atomic {{ v = 0; }} {add} }}"));
    both(
        "register<bit<32>>(1) n; action a() @atomic { bit<32> v; n.read(v, 0); n.write(0, v + 1); }",
        "a();",
    );
    // Cells of more than a word take more than one step to read.
    both("register<bit<96>>(1) n;", &format!("bit<96> v; @atomic {{ v = 0; }} {add}"));
}
