//! Time of a look-up in servers' memory, in memory, on one core: `cargo run --release -p pointsman-remote --example lookup`.
//!
//! The switch runs the NAT as native code; the server is `roce`'s responder. Rounds of packets of 60 and 1,500 bytes, with and without TEA, in turns. With `-- cache` instead: packets whose entries are
//! in the switch's cache, and the same packets by the plain program, in turns.

use pointsman_engine::Engine;
use pointsman_ir::Executor;
use pointsman_remote::{Config, Layout, RING, SLOT, Scratchpads, Table};
use pointsman_roce::{Packet, Region, Responder, Rights};
use pointsman_stf::Rig;
use pointsman_testkit::compile::{compile_with, own_includes, own_libraries, own_program};
use pointsman_v1model::{Arrived, Sink, SwitchConfig, Time};
use pointsman_wire::{Mac, Random, frame};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

const CELLS: u32 = 1 << 20;
const ENTRIES: u32 = 600_000;
const BASE: u64 = 1 << 32;
const LAYOUT: Layout = Layout { key: 16, value: 8, scratchpads: Scratchpads::Ring };
const SWITCH: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 1));
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 9, 1, 1));
const PACKETS: u32 = 4_000;
const ROUNDS: usize = 55;
const ROUTES: &str = "add routes prefix:198.51.0.0/16 forward(port:1, mac:02:00:00:00:00:22)\n";
/// Entries of the cache, packets that come at once, and rounds, short so that a busy machine disturbs few of them.
const CACHE: u32 = 1024;
const BATCH: usize = 32;
const SHORT: u32 = 500;
const SHORT_ROUNDS: usize = 501;

fn source(n: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0000 + n)
}

fn key(n: u32) -> Vec<u8> {
    let ports = [4000u16.to_be_bytes(), 80u16.to_be_bytes()].concat();
    [&source(n).octets()[..], &[198, 51, 100, 1], &ports, &[0, 0, 0, 17]].concat()
}

fn value(n: u32) -> Vec<u8> {
    [&[0, 0, 0x13, 0x88][..], &(0x0ac8_0000 | n & 0xffff).to_be_bytes()].concat()
}

fn packet(n: u32, bytes: usize) -> Vec<u8> {
    let udp = frame::udp(4000, 80, &vec![0; bytes - 42]);
    let to = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));
    frame::packet((Mac::from_u64(1), Mac::from_u64(2)), source(n).into(), to, frame::UDP, udp, frame::USUAL)
}

fn rig(macros: &[&str], statements: &str) -> Rig<Engine> {
    let program =
        compile_with(&own_program("nat"), &[&own_includes(), &own_libraries()], macros).expect("compiles");
    let config = SwitchConfig { nanoseconds: true, ..SwitchConfig::default() };
    let mut rig = Rig::<Engine>::on(program, config).expect("a switch");
    let lines = pointsman_stf::parse(statements).expect("statements");
    // As on a switch that has run for a moment.
    rig.switch.executor().into_iter().for_each(Engine::complete);
    let now = rig.now;
    pointsman_stf::fill(rig.state(), now, &lines).expect("tables");
    rig
}

/// Frames that leave, in memory that is used again and again.
#[derive(Default)]
struct Left {
    frames: Vec<(u32, Vec<u8>)>,
    count: usize,
}

impl Sink for Left {
    fn transmit(&mut self, port: u32, packet: &[u8]) {
        if self.frames.len() == self.count {
            self.frames.push((0, Vec::with_capacity(2048)));
        }
        let (to, frame) = &mut self.frames[self.count];
        *to = port;
        frame.clear();
        frame.extend_from_slice(packet);
        self.count += 1;
    }

    fn to_cpu(&mut self, _: &[u8]) {}
}

/// The switch takes a frame: what leaves, and the time added to `spent`.
fn step(
    rig: &mut Rig<Engine>,
    (buffer, out): (&mut [u8], &mut Left),
    port: u32,
    frame: &[u8],
    spent: &mut Duration,
) -> Vec<(u32, Vec<u8>)> {
    out.count = 0;
    let end = 128 + frame.len();
    buffer[128..end].copy_from_slice(frame);
    rig.now = Time(rig.now.0 + 1000);
    let start = Instant::now();
    let arrived = Arrived { port, buffer: &mut buffer[..end], start: 128 };
    rig.switch.process(rig.now, 1000, &mut [arrived], out);
    while rig.switch.poll(rig.now, 1000, out).more {}
    *spent += start.elapsed();
    out.frames[..out.count].to_vec()
}

fn server(table: &Table) -> (Responder, u64) {
    let ring = BASE + LAYOUT.region_bytes(CELLS);
    let rights = Rights { read: true, write: true, atomic: false };
    let bytes = LAYOUT.region_bytes(CELLS) + u64::from(RING * SLOT);
    let mut region = Region::new(BASE, bytes as usize, rights).expect("a region");
    for (offset, bytes) in table.images(0, 4096) {
        region.memory[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
    }
    let mut server = Responder::new(2048).expect("a path MTU");
    server.add_region(1, region).expect("a key");
    server.add_pair(0x20, 0x100, 0, &[1]).expect("a queue pair");
    (server, ring)
}

fn median(mut all: Vec<f64>) -> String {
    all.sort_by(f64::total_cmp);
    format!("{:8.0} ({:.0} to {:.0})", all[all.len() / 2], all[0], all[all.len() - 1])
}

fn middle(mut all: Vec<f64>) -> String {
    all.sort_by(f64::total_cmp);
    let at = |quarters: usize| all[all.len() * quarters / 4];
    format!("{:8.0} ({:.0} to {:.0})", at(2), at(1), at(3))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Nanoseconds a packet, while so many come at once; all must leave.
fn pass(rig: &mut Rig<Engine>, frames: &[Vec<u8>], at_once: usize, out: &mut Left) -> f64 {
    let mut buffers = vec![vec![0; 4096]; at_once];
    let mut left = 0;
    let start = Instant::now();
    for batch in frames.chunks(at_once) {
        rig.now = Time(rig.now.0 + 1000);
        out.count = 0;
        let fill = |(buffer, frame): (&'_ mut Vec<u8>, &Vec<u8>)| {
            buffer[128..128 + frame.len()].copy_from_slice(frame);
        };
        buffers.iter_mut().zip(batch).for_each(fill);
        let mut arrived: Vec<_> = buffers
            .iter_mut()
            .zip(batch)
            .map(|(buffer, frame)| Arrived { port: 0, buffer: &mut buffer[..128 + frame.len()], start: 128 })
            .collect();
        rig.switch.process(rig.now, 1000, &mut arrived, out);
        left += out.count;
    }
    let spent = start.elapsed();
    assert_eq!(left, frames.len(), "packets that left");
    spent.as_nanos() as f64 / frames.len() as f64
}

/// A packet whose entry is in the cache, and the same packet in the plain program with as many entries.
fn cache() {
    let settings = "value_set_add tea_addresses 10.9.0.1\nsetdefault tea_config configure(address:10.9.0.1, mac:1, cells:8, timeout:1000, wait_port:0, first:0)\n";
    let mut cached = rig(&[&format!("TEA_CACHE={CACHE}")], &format!("{ROUTES}{settings}"));
    let mut plain = rig(&["PLAIN"], ROUTES);
    for n in 0..CACHE {
        let (key, value) = (hex(&key(n)), hex(&value(n)));
        cached.add(&format!("tea_cache key=0x{key} -> cached(value=0x{value})")).expect("an entry");
        plain.add(&format!("entries key=0x{key} -> entry(value=0x{value})")).expect("an entry");
    }
    let (mut random, mut left) = (Random::new(1), Left::default());
    for bytes in [60, 1500] {
        for at_once in [1, BATCH] {
            let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..SHORT_ROUNDS {
                let flow = |_| packet(random.below(CACHE.into()) as u32, bytes);
                let frames: Vec<_> = (0..SHORT).map(flow).collect();
                ours.push(pass(&mut cached, &frames, at_once, &mut left));
                theirs.push(pass(&mut plain, &frames, at_once, &mut left));
                ratios.push(1000.0 * ours[ours.len() - 1] / theirs[theirs.len() - 1]);
            }
            println!(
                "{bytes} bytes, {at_once} at once, ns a packet, median of {SHORT_ROUNDS} (range of the middle half):\n  cache   {}\n  plain   {}\n  ratio, thousandths {}",
                middle(ours),
                middle(theirs),
                middle(ratios)
            );
        }
    }
}

/// What the switch is set to, with one server, whose scratchpads begin at `ring`.
fn settings(ring: u64) -> String {
    let mut text = format!(
        "{ROUTES}value_set_add tea_addresses 10.9.0.1\nsetdefault tea_config configure(address:10.9.0.1, mac:1, cells:{CELLS}, timeout:1000000000, \
         wait_port:0, first:0)\nadd tea_servers 1 cell:0->{} server(first_pair:0, pair_mask:0)\nadd tea_pairs pair:0 peer(pair:32, mac:2, address:10.9.1.1, port:3, \
         group:1, region:1, cells:{BASE}, ring:{ring}, start:0)\nmc_mgrp_create 1\n",
        CELLS - 1
    );
    for n in 1..=3 {
        text += &format!("mc_node_create {n} 3\nmc_node_associate 1 {}\n", n - 1);
    }
    text
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some("cache") {
        return cache();
    }
    let config =
        Config { layout: LAYOUT, cells: vec![CELLS], stash: 4096, hold_ns: 0, replicas: false, cache: 0 };
    let mut table = Table::new(config).expect("settings");
    let entries: Vec<_> = (0..ENTRIES).map(|n| (key(n), value(n))).collect();
    let start = Instant::now();
    table.load(entries.iter().map(|(k, v)| (&k[..], &v[..]))).expect("room");
    println!(
        "{ENTRIES} entries in {CELLS} cells: {} collide; loaded in {:?}",
        table.collisions(),
        start.elapsed()
    );
    let (mut server, ring) = server(&table);
    let mut tea = rig(&[], &settings(ring));
    let mut plain = rig(&["PLAIN"], ROUTES);
    for (k, v) in &entries {
        plain.add(&format!("entries key=0x{} -> entry(value=0x{})", hex(k), hex(v))).expect("an entry");
    }
    let mut random = Random::new(1);
    let (mut buffer, mut left) = (vec![0; 4096], Left::default());
    for bytes in [60, 1500] {
        let (mut requests, mut answers, mut memory, mut local) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let mut spent = [Duration::ZERO; 4];
            let mut passed = 0;
            for _ in 0..PACKETS {
                let n = random.below(ENTRIES.into()) as u32;
                let frame = packet(n, bytes);
                let sent = step(&mut tea, (&mut buffer, &mut left), 0, &frame, &mut spent[0]);
                let mut back = Vec::new();
                let start = Instant::now();
                for (_, request) in &sent {
                    let (request, ..) = Packet::decode(request).expect("a request");
                    server.step(&request, &mut |a| {
                        back.push(a.encode((Mac::from_u64(1), Mac::from_u64(2)), (SERVER, 9), SWITCH))
                    });
                }
                spent[2] += start.elapsed();
                let mut out = Vec::new();
                back.iter()
                    .for_each(|b| out.extend(step(&mut tea, (&mut buffer, &mut left), 3, b, &mut spent[1])));
                let direct = step(&mut plain, (&mut buffer, &mut left), 0, &frame, &mut spent[3]);
                // Both are the same packet, unless its entry collides.
                passed += u32::from(!out.is_empty() && out == direct);
            }
            assert!(passed > PACKETS - PACKETS / 50, "{passed} of {PACKETS} packets passed");
            let each = |i: usize| spent[i].as_nanos() as f64 / f64::from(PACKETS);
            requests.push(each(0));
            answers.push(each(1));
            memory.push(each(2));
            local.push(each(3));
        }
        println!("{bytes} bytes, ns a packet, median of {ROUNDS} (range):");
        println!(
            "  request {}\n  answers {}\n  server  {}\n  plain   {}",
            median(requests),
            median(answers),
            median(memory),
            median(local)
        );
    }
}
