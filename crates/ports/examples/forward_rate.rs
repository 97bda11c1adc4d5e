//! How fast the plain loop forwards frames between two AF_PACKET ports.
//!
//!     cargo run --release -p pointsman-ports --example forward_rate [SECONDS]
//!
//! Builds `client -- switch -- server` out of network namespaces and veth pairs (as root or rootless), floods it from
//! the client, and counts what the loop has transmitted. Then it sends a TCP stream.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

use pointsman_ports::{AfPacket, AfPacketConfig, Counters, DropReason, FramePool, Poller, Port};

#[path = "../tests/support/mod.rs"]
mod support;
use support::Netns;

fn main() {
    let seconds = env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(3.0);
    if !support::is_root() {
        support::enter_user_namespace().expect("run as root, or allow user namespaces");
    }
    for (length, bypass_qdisc) in [(60, false), (60, true), (1514, false)] {
        let config = AfPacketConfig { bypass_qdisc, ..Default::default() };
        measure(
            &format!("{length}-byte frames, bypass_qdisc {bypass_qdisc}"),
            seconds,
            config,
            |rack, stop| {
                flood(rack, length, stop);
            },
        );
    }
    measure("TCP, one stream", seconds, AfPacketConfig::default(), stream);
}

struct Rack {
    client: Netns,
    switch: Netns,
    server: Netns,
}

fn measure(what: &str, seconds: f64, config: AfPacketConfig, load: impl Fn(&Rack, &AtomicBool) + Sync) {
    let [client, switch, server] = [(); 3].map(|()| Netns::new().expect("network namespace"));
    client.veth("c0", &switch, "s0").expect("veth pair");
    switch.veth("s1", &server, "d0").expect("veth pair");
    client.address("c0", IpAddr::from([10, 9, 0, 1]), 24).expect("address");
    server.address("d0", IpAddr::from([10, 9, 0, 2]), 24).expect("address");
    let ports = switch.run(|| ["s0", "s1"].map(|name| AfPacket::open(name, config).expect("port")));
    let rack = Rack { client, switch, server };
    let stop = AtomicBool::new(false);
    let start = Instant::now();
    let ([left, right], [user, system]) = thread::scope(|scope| {
        let forwarder = scope.spawn(|| forward(ports, &stop));
        scope.spawn(|| load(&rack, &stop));
        thread::sleep(Duration::from_secs_f64(seconds));
        stop.store(true, Ordering::Relaxed);
        forwarder.join().expect("forwarder")
    });
    let elapsed = start.elapsed().as_secs_f64();
    let _ = &rack.switch;
    println!(
        "{what}: {:.0} frames/s, {:.2} Gbit/s forwarded; {:.0} frames/s not received (socket full); \
         the loop's CPU time for each frame: {:.0} ns user, {:.0} ns system",
        right.tx_packets as f64 / elapsed,
        right.tx_bytes as f64 * 8e-9 / elapsed,
        left.dropped(DropReason::RxSocketFull) as f64 / elapsed,
        user * 1e9 / (left.tx_packets + right.tx_packets) as f64,
        system * 1e9 / (left.tx_packets + right.tx_packets) as f64,
    );
}

/// User and system CPU time of this thread, in seconds. On a busy machine they say more than rates do.
fn cpu_seconds() -> [f64; 2] {
    // SAFETY: all-zero is a value of this plain structure, which the call fills.
    let usage: libc::rusage = unsafe {
        let mut usage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage
    };
    [usage.ru_utime, usage.ru_stime].map(|time| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6)
}

fn forward(mut ports: [AfPacket; 2], stop: &AtomicBool) -> ([Counters; 2], [f64; 2]) {
    let mut pool = FramePool::default();
    let (mut frames, mut ready) = (Vec::new(), Vec::new());
    let mut poller = Poller::new().expect("poller");
    for (key, port) in ports.iter().enumerate() {
        poller.add(key, port.raw_fd().expect("a descriptor"));
    }
    while !stop.load(Ordering::Relaxed) {
        poller.wait(Some(Instant::now() + Duration::from_millis(50)), &mut ready).expect("poll");
        for event in &ready {
            ports[event.key].receive(0, &mut pool, &mut frames).expect("receive");
            ports[1 - event.key].transmit(0, &mut pool, &mut frames).expect("transmit");
            ports[1 - event.key].discard(&mut pool, &mut frames);
        }
    }
    (ports.map(|mut port| port.counters()), cpu_seconds())
}

fn flood(rack: &Rack, length: usize, stop: &AtomicBool) {
    let mut port = rack.client.run(|| AfPacket::open("c0", AfPacketConfig::default()).expect("port"));
    let mut pool = FramePool::default();
    let mut frame = vec![0; length];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5]);
    let mut frames = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        frames.resize_with(64, || pool.copy_of(&frame));
        port.transmit(0, &mut pool, &mut frames).expect("transmit");
    }
}

fn stream(rack: &Rack, stop: &AtomicBool) {
    let listener = rack.server.run(|| TcpListener::bind("10.9.0.2:7000").expect("listen"));
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("accept");
            let mut buffer = vec![0; 1 << 16];
            let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
            while stream.read(&mut buffer).is_ok_and(|count| count > 0) {}
        });
        let mut stream = rack.client.run(|| TcpStream::connect("10.9.0.2:7000").expect("connect"));
        let _ = stream.set_write_timeout(Some(Duration::from_secs(1)));
        let bytes = vec![0x5a; 1 << 16];
        while !stop.load(Ordering::Relaxed) && stream.write_all(&bytes).is_ok() {}
    });
}
