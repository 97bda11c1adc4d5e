//! How fast the router forwards on one core, in memory, and how many instructions that takes: run it under
//! `valgrind --tool=callgrind` with two numbers of packets, and take the difference.
//!
//! `cargo run --profile profiling -p pointsman-testkit --example router_rate [PACKETS [ROUTES]]`

use pointsman_engine::Engine;
use pointsman_ir::Executor;
use pointsman_testkit::compile::{own_includes, own_program};
use pointsman_testkit::packet::{Packet, tcp_flags};
use pointsman_v1model::{Arrived, Sink, SwitchConfig};
use std::error::Error;
use std::time::Instant;

/// Packets that are processed together, and room in front of each.
const BATCH: usize = 64;
const ROOM: usize = 64;

/// Counts what leaves.
struct Count(u64);

impl Sink for Count {
    fn transmit(&mut self, _: u32, packet: &[u8]) {
        self.0 += u64::from(!packet.is_empty());
    }

    fn to_cpu(&mut self, _: &[u8]) {}
}

fn run<E: Executor>(packets: usize, routes: u32) -> Result<(), Box<dyn Error>> {
    let router = [2, 0x50, 0x4d, 0, 0, 1];
    let start = Instant::now();
    let config = SwitchConfig::default();
    let mut rig = pointsman_testkit::rig::load::<E>(&own_program("router"), &[&own_includes()], config)?;
    println!("{:.1} ms to load, front end included", start.elapsed().as_secs_f64() * 1e3);
    rig.add("stations mac=02:50:4d:00:00:01 -> route()")?;
    rig.add("next_hops next_hop=1 -> send(2, 02:50:4d:00:00:01, 02:00:02:00:00:01)")?;
    for n in 0..routes {
        rig.add(&format!("routes prefix=10.{}.{}.0/24 -> set_next_hop(1)", n >> 8, n & 255))?;
    }
    let frame = |n: u32| {
        let to = format!("10.{}.{}.7:80", (n % routes) >> 8, (n % routes) & 255);
        Packet::tcp("192.0.2.1:1000", to, tcp_flags::ACK).macs([2; 6], router).bytes()
    };
    let frames: Vec<Vec<u8>> = (0..1000).map(|n| frame(n * 37)).collect();
    let mut sink = Count(0);
    let mut buffers: Vec<Vec<u8>> = (0..BATCH).map(|_| vec![0; 2048]).collect();
    let mut sent = 0;
    let start = Instant::now();
    while sent < packets {
        let n = BATCH.min(packets - sent);
        let filled = buffers.iter_mut().take(n).enumerate().map(|(i, buffer)| {
            let frame = &frames[(sent + i) % frames.len()];
            buffer[ROOM..ROOM + frame.len()].copy_from_slice(frame);
            Arrived { port: 1, buffer: &mut buffer[..ROOM + frame.len()], start: ROOM }
        });
        let mut batch: Vec<Arrived<'_>> = filled.collect();
        rig.switch.process(rig.now, 16, &mut batch, &mut sink);
        sent += n;
    }
    let ns = start.elapsed().as_nanos() as f64 / packets.max(1) as f64;
    println!("{ns:.0} ns a packet, {} of {packets} forwarded", sink.0);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1).map(|a| a.parse::<usize>().ok());
    let packets = args.next().flatten().unwrap_or(1_000_000);
    run::<Engine>(packets, args.next().flatten().unwrap_or(10_000) as u32)
}
