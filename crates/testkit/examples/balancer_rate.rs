//! How fast the balancer forwards on one core, in memory: packets of established connections.
//!
//! `cargo run --release -p pointsman-testkit --example balancer_rate [FLOWS [PACKETS [PAYLOAD [EXECUTOR [only]]]]]`
//!
//! `only`: IPv4 packets of established connections only, to count their instructions.

use pointsman_ir::Executor;
use pointsman_testkit::Rig;
use pointsman_testkit::compile::{own_includes, own_program};
use pointsman_testkit::packet::{Packet, tcp_flags};
use pointsman_v1model::{Arrived, Sink, SwitchConfig};
use std::error::Error;
use std::time::Instant;

/// Packets that are processed together, and room in front of each.
const BATCH: usize = 64;
const ROOM: usize = 64;

const SWITCH: [u8; 6] = [0x02, 0x50, 0x4d, 0, 0, 1];

/// Counts what leaves.
struct Count(u64);

impl Sink for Count {
    fn transmit(&mut self, _: u32, packet: &[u8]) {
        self.0 += u64::from(!packet.is_empty());
    }

    fn to_cpu(&mut self, _: &[u8]) {}
}

fn rack<E: Executor>() -> Result<Rig<E>, Box<dyn Error>> {
    let mut rig = pointsman_testkit::rig::load::<E>(
        &own_program("balancer"),
        &[&own_includes()],
        SwitchConfig::default(),
    )?;
    for entry in [
        "local_v4 address=10.0.0.100 -> is_local",
        "local_v6 address=fd00::100 -> is_local",
        "routes_v4 prefix=0.0.0.0/0 -> next_hop(1, 02:00:00:00:00:01)",
        "routes_v6 prefix=::/0 -> next_hop(1, 02:00:00:00:00:01)",
        "services_v4 vip=10.0.0.100 protocol=6 port=80 -> set_service(1, 0, 0, 0, 60000)",
        "services_v6 vip=fd00::100 protocol=6 port=80 -> set_service(2, 0, 0, 0, 60000)",
        "devices_v4 device=8 -> set_device_v4(10.0.1.8, 2, 02:00:00:00:01:08)",
        "devices_v6 device=8 -> set_device_v6(fd01::8, 2, 02:00:00:00:01:08)",
        "backends_v4 ingress_port=2 address=10.0.1.8 protocol=6 port=80 -> set_backend_v4(1, 8, 10.0.0.100)",
        "backends_v6 ingress_port=2 address=fd01::8 protocol=6 port=80 -> set_backend_v6(2, 8, fd00::100)",
    ] {
        rig.add(entry)?;
    }
    for service in [1, 2] {
        rig.add(&format!("server_slots service={service} epoch=0 slot=0 -> use_server(1)"))?;
        rig.add(&format!("pools service={service} epoch=0 server=1 -> set_pool(1, 0, 1, 0)"))?;
        rig.add(&format!("rings service={service} epoch=0 server=1 position=0 -> use_device(0)"))?;
    }
    Ok(rig)
}

/// Nanoseconds that this process has run, if Linux reports it; other processes do not count.
fn cpu_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

fn measure<E: Executor>(rig: &mut Rig<E>, name: &str, port: u32, frames: &[Vec<u8>], packets: usize) {
    let mut sink = Count(0);
    let mut buffers: Vec<Vec<u8>> = (0..BATCH).map(|_| vec![0; 2048]).collect();
    let (start, cpu) = (Instant::now(), cpu_ns());
    let mut sent = 0;
    while sent < packets {
        let n = BATCH.min(packets - sent);
        let filled = buffers.iter_mut().take(n).enumerate().map(|(i, buffer)| {
            // As a network card would: some room, then the packet.
            let frame = &frames[(sent + i) % frames.len()];
            buffer[ROOM..ROOM + frame.len()].copy_from_slice(frame);
            Arrived { port, buffer: &mut buffer[..ROOM + frame.len()], start: ROOM }
        });
        let mut batch: Vec<Arrived<'_>> = filled.collect();
        rig.switch.process(rig.now, 16, &mut batch, &mut sink);
        sent += n;
    }
    let ns = match (cpu, cpu_ns()) {
        (Some(before), Some(after)) => (after - before) as f64,
        _ => start.elapsed().as_nanos() as f64,
    } / packets as f64;
    println!("{name:<32} {ns:>8.0} ns/packet {:>10.0} packets/s   forwarded {}", 1e9 / ns, sink.0);
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1).map(|a| a.parse::<usize>().unwrap_or(1000));
    let flows = args.next().unwrap_or(1000) as u32;
    let packets = args.next().unwrap_or(200_000);
    let payload = args.next().unwrap_or(1000);
    if std::env::args().nth(4).is_none_or(|e| e == "interp") {
        println!("interpreter");
        rates::<pointsman_interp::Interp>(flows, packets, payload)?;
    }
    if std::env::args().nth(4).is_none_or(|e| e == "engine") {
        println!("engine");
        rates::<pointsman_engine::Engine>(flows, packets, payload)?;
    }
    Ok(())
}

fn rates<E: Executor>(flows: u32, packets: usize, payload: usize) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let mut rig = rack::<E>()?;
    println!("{:<32} {:>8.1} ms, front end included", "loading", start.elapsed().as_secs_f64() * 1e3);
    let frames = |make: &dyn Fn(u32) -> Packet| -> Vec<Vec<u8>> {
        (0..flows).map(|i| make(i).macs([2; 6], SWITCH).bytes()).collect()
    };
    let client4 = |i: u32| format!("192.0.2.{}:{}", 1 + i / 1000, 10_000 + i % 1000);
    let client6 = |i: u32| format!("[2001:db8::{:x}]:{}", 1 + i / 1000, 10_000 + i % 1000);
    let data = vec![7u8; payload];
    let from4 = |flags| {
        let data = data.clone();
        move |i| Packet::tcp(client4(i), "10.0.0.100:80", flags).payload(data.clone())
    };
    let from6 = |i| Packet::tcp(client6(i), "[fd00::100]:80", tcp_flags::SYN);
    let open = flows as usize;
    measure(&mut rig, "new connection, IPv4", 1, &frames(&from4(tcp_flags::SYN)), open);
    measure(&mut rig, "known connection, IPv4", 1, &frames(&from4(tcp_flags::ACK)), packets);
    if std::env::args().nth(5).is_some_and(|a| a == "only") {
        return Ok(());
    }
    let back4 = |i| Packet::tcp("10.0.1.8:80", client4(i), tcp_flags::ACK).payload(data.clone());
    measure(&mut rig, "answer, IPv4", 2, &frames(&back4), packets);
    measure(&mut rig, "new connection, IPv6", 1, &frames(&from6), open);
    measure(&mut rig, "known connection, IPv6", 1, &frames(&from6), packets);
    let routed = |i| Packet::tcp(client4(i), "8.8.8.8:80", tcp_flags::ACK).payload(data.clone());
    measure(&mut rig, "routed, IPv4", 1, &frames(&routed), packets);
    Ok(())
}
