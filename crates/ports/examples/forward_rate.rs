//! The speed of the bare forwarder between two ports of one kind.
//!
//!     cargo run --release -p pointsman-ports --example forward_rate -- [KIND] [SECONDS] [FRAMES_PER_SECOND]
//!
//! KIND: `af_packet`, `af_xdp` or `both` (the default). FRAMES_PER_SECOND: 0, the default, for as many as possible.
//! Builds `client -- switch -- server` out of network namespaces and veth pairs (as root or rootless), floods it from
//! the client, and counts the frames sent to the server. Then it sends a TCP stream, also without a switch, and single
//! bytes to and fro.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

use pointsman_ports::{DropReason, LiveFrames, PollMode, Want, accept_live_frames, forward, open_interface};

#[path = "../tests/support/mod.rs"]
mod support;
use support::Netns;

fn main() {
    let kind = env::args().nth(1).unwrap_or_else(|| "both".into());
    let seconds = env::args().nth(2).and_then(|text| text.parse().ok()).unwrap_or(3.0);
    let per_second = env::args().nth(3).and_then(|text| text.parse().ok()).unwrap_or(0);
    if !support::is_root() {
        support::enter_user_namespace().expect("run as root, or allow user namespaces");
    }
    let wants: &[Want] = match kind.as_str() {
        "af_packet" => &[Want::AfPacket],
        "af_xdp" => &[Want::AfXdp],
        _ => &[Want::AfPacket, Want::AfXdp],
    };
    for &want in wants {
        for length in [64, 1514] {
            measure(&format!("{length}-byte frames"), seconds, want, |rack, _| {
                flood(rack, seconds, length, per_second)
            });
        }
        measure("TCP, one stream", seconds, want, stream);
        measure("TCP, requests and responses", seconds, want, requests);
    }
    direct(seconds);
}

struct Rack {
    client: Netns,
    switch: Netns,
    server: Netns,
}

fn measure(what: &str, seconds: f64, want: Want, load: impl Fn(&Rack, &AtomicBool) -> u64 + Sync) {
    let [client, switch, server] = [(); 3].map(|()| Netns::new().expect("network namespace"));
    client.veth("c0", &switch, "s0").expect("veth pair");
    switch.veth("s1", &server, "d0").expect("veth pair");
    client.address("c0", IpAddr::from([10, 9, 0, 1]), 24).expect("address");
    server.address("d0", IpAddr::from([10, 9, 0, 2]), 24).expect("address");
    let opened =
        switch.run(|| ["s0", "s1"].map(|name| open_interface(name, want).unwrap_or_else(|e| panic!("{e}"))));
    let kind = opened[0].1.clone();
    let mut ports = opened.map(|(port, _)| port);
    let rack = Rack { client, switch, server };
    let stop = AtomicBool::new(false);
    let start = Instant::now();
    let ([user, system], sent) = thread::scope(|scope| {
        let forwarder = scope.spawn(|| {
            forward(&mut ports, PollMode::Adaptive, &stop).expect("forward");
            cpu_seconds()
        });
        let load = scope.spawn(|| load(&rack, &stop));
        thread::sleep(Duration::from_secs_f64(seconds));
        stop.store(true, Ordering::Relaxed);
        (forwarder.join().expect("forwarder"), load.join().expect("load"))
    });
    let elapsed = start.elapsed().as_secs_f64();
    let _ = &rack.switch;
    let [left, right] = ports.map(|mut port| port.counters());
    println!(
        "{kind}, {what}: {:.0} frames/s, {:.2} Gbit/s forwarded ({sent} offered or delivered); {:.0} frames/s not received (socket full), \
         {:.0} refused; the loop's CPU time for each frame: {:.0} ns user, {:.0} ns system",
        right.tx_packets as f64 / elapsed,
        right.tx_bytes as f64 * 8e-9 / elapsed,
        left.dropped(DropReason::RxSocketFull) as f64 / elapsed,
        right.dropped(DropReason::TxRefused) as f64 / elapsed,
        user * 1e9 / (left.tx_packets + right.tx_packets) as f64,
        system * 1e9 / (left.tx_packets + right.tx_packets) as f64,
    );
}

/// User and system CPU time of this thread, in seconds. On a busy machine they say more than rates do.
#[allow(unsafe_code)]
fn cpu_seconds() -> [f64; 2] {
    // SAFETY: all-zero is a value of this plain structure, which the call fills.
    let usage: libc::rusage = unsafe {
        let mut usage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage
    };
    [usage.ru_utime, usage.ru_stime].map(|time| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6)
}

/// Sends frames of one length; returns their number.
fn flood(rack: &Rack, seconds: f64, length: usize, per_second: u64) -> u64 {
    let mut frame = vec![0; length];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5]);
    // An AF_XDP port takes them anyway, and refuses this.
    let _accepted = rack.switch.run(|| accept_live_frames("s0"));
    rack.client.run(|| {
        let frames = LiveFrames::new("c0", &[frame], None).unwrap_or_else(|e| panic!("{e}"));
        frames.run(per_second, Duration::from_secs_f64(seconds)).expect("live frames").frames
    })
}

/// Sends a stream from the client to the server; returns the number of received bytes.
fn stream(rack: &Rack, stop: &AtomicBool) -> u64 {
    let listener = rack.server.run(|| TcpListener::bind("10.9.0.2:7000").expect("listen"));
    let arrived = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("accept");
            let mut buffer = vec![0; 1 << 16];
            let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                arrived.fetch_add(count as u64, Ordering::Relaxed);
            }
        });
        let mut stream = rack.client.run(|| TcpStream::connect("10.9.0.2:7000").expect("connect"));
        let _ = stream.set_write_timeout(Some(Duration::from_secs(1)));
        let bytes = vec![0x5a; 1 << 16];
        while !stop.load(Ordering::Relaxed) && stream.write_all(&bytes).is_ok() {}
    });
    arrived.into_inner()
}

/// Sends a byte to and fro between the client and the server; returns how often.
fn requests(rack: &Rack, stop: &AtomicBool) -> u64 {
    let listener = rack.server.run(|| TcpListener::bind("10.9.0.2:7000").expect("listen"));
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("accept");
            let _ = stream.set_nodelay(true);
            let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
            let mut byte = [0];
            while stream.read_exact(&mut byte).and_then(|()| stream.write_all(&byte)).is_ok() {}
        });
        let mut stream = rack.client.run(|| TcpStream::connect("10.9.0.2:7000").expect("connect"));
        let _ = stream.set_nodelay(true);
        let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
        let (mut byte, mut count) = ([0], 0);
        while !stop.load(Ordering::Relaxed)
            && stream.write_all(&byte).and_then(|()| stream.read_exact(&mut byte)).is_ok()
        {
            count += 1;
        }
        count
    })
}

/// A stream over one veth pair, without a switch.
fn direct(seconds: f64) {
    let [client, switch, server] = [(); 3].map(|()| Netns::new().expect("network namespace"));
    client.veth("c0", &server, "d0").expect("veth pair");
    client.address("c0", IpAddr::from([10, 9, 0, 1]), 24).expect("address");
    server.address("d0", IpAddr::from([10, 9, 0, 2]), 24).expect("address");
    let rack = Rack { client, switch, server };
    let stop = AtomicBool::new(false);
    let start = Instant::now();
    let bytes = thread::scope(|scope| {
        let load = scope.spawn(|| stream(&rack, &stop));
        thread::sleep(Duration::from_secs_f64(seconds));
        stop.store(true, Ordering::Relaxed);
        load.join().expect("load")
    });
    println!("no switch, TCP, one stream: {:.2} Gbit/s", bytes as f64 * 8e-9 / start.elapsed().as_secs_f64());
}
