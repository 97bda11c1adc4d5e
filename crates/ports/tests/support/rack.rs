//! The common part of the tests on interfaces: a rack of three namespaces, and actions on ports in it.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use etherparse::PacketBuilder;
use pointsman_ports::{
    AfPacket, AfPacketConfig, Counters, DropReason, Frame, FramePool, Poller, Port, PortError,
};

use super::support::Netns;

/// Runs a test and prints its result.
pub fn run(name: &str, test: fn()) -> bool {
    let start = Instant::now();
    let good = panic::catch_unwind(AssertUnwindSafe(test)).is_ok();
    let result = if good { "ok" } else { "FAILED" };
    println!("test {name} ... {result} in {:.2} s", start.elapsed().as_secs_f64());
    good
}

pub fn now_ns() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// `client/c0 -- s0/switch/s1 -- d0/server`.
pub struct Rack {
    pub client: Netns,
    pub switch: Netns,
    pub server: Netns,
}

impl Rack {
    pub fn new() -> Self {
        let [client, switch, server] = [(); 3].map(|()| Netns::new().expect("network namespace"));
        client.veth("c0", &switch, "s0").expect("veth pair");
        switch.veth("s1", &server, "d0").expect("veth pair");
        for (netns, interface, last) in [(&client, "c0", 1), (&server, "d0", 2)] {
            netns.address(interface, ip(&format!("10.9.0.{last}")), 24).expect("IPv4 address");
            netns.address(interface, ip(&format!("fd00:9::{last}")), 64).expect("IPv6 address");
        }
        Self { client, switch, server }
    }

    /// A port at the client's end.
    pub fn host(&self) -> AfPacket {
        self.client.run(|| AfPacket::open("c0", AfPacketConfig::default())).expect("open")
    }
}

/// Runs `work` while frames are forwarded between both ports; `look` sees each batch. The ports' counters at the end.
pub fn forward_between(
    ports: [Box<dyn Port>; 2],
    look: &mut (dyn FnMut(&[Frame]) + Send),
    work: impl FnOnce(),
) -> [Counters; 2] {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let forwarder = scope.spawn(|| forward(ports, look, &stop));
        let stopper = Stopper(&stop);
        work();
        drop(stopper);
        forwarder.join().expect("forwarder")
    })
}

/// Ends the forwarder, also when the test fails.
pub struct Stopper<'a>(pub &'a AtomicBool);

impl Drop for Stopper<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The plain loop: frames from one port go out on the other.
fn forward(
    mut ports: [Box<dyn Port>; 2],
    look: &mut (dyn FnMut(&[Frame]) + Send),
    stop: &AtomicBool,
) -> [Counters; 2] {
    let mut pool = FramePool::default();
    let (mut frames, mut ready) = (Vec::new(), Vec::new());
    let mut poller = Poller::new().expect("poller");
    for (key, port) in ports.iter().enumerate() {
        poller.add(key, port.raw_fd().expect("a descriptor"));
    }
    while !stop.load(Ordering::Relaxed) {
        poller.wait(Some(Instant::now() + Duration::from_millis(20)), &mut ready).expect("poll");
        for event in &ready {
            let now_ns = now_ns();
            ports[event.key].receive(now_ns, &mut pool, &mut frames).expect("receive");
            look(&frames);
            ports[1 - event.key].transmit(now_ns, &mut pool, &mut frames).expect("transmit");
            ports[1 - event.key].discard(&mut pool, &mut frames);
        }
    }
    ports.map(|mut port| port.counters())
}

pub const STREAM_BYTES: usize = 20_000_000;

/// The byte at a position of the stream. Its period is unrelated to segment sizes.
pub fn stream_byte(position: usize) -> u8 {
    (position % 251 + position / 65_521) as u8
}

/// Waits for a client, but not for ever.
fn accept(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).expect("non-blocking");
    let deadline = Instant::now() + Duration::from_secs(12);
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).expect("blocking");
                return stream;
            }
            Err(error) => assert!(Instant::now() < deadline, "no connection came: {error}"),
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Sends a stream from the client to the listener at this address, and checks what arrives.
pub fn stream(client: &Netns, listener: &TcpListener, address: IpAddr) {
    thread::scope(|scope| {
        scope.spawn(|| {
            let to = SocketAddr::new(address, 7000);
            let connect = || TcpStream::connect_timeout(&to, Duration::from_secs(10));
            let mut stream = client.run(connect).expect("connect");
            stream.set_write_timeout(Some(Duration::from_secs(20))).expect("timeout");
            let bytes: Vec<u8> = (0..STREAM_BYTES).map(stream_byte).collect();
            stream.write_all(&bytes).expect("send");
        });
        let mut stream = accept(listener);
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("timeout");
        let mut received = Vec::new();
        stream.read_to_end(&mut received).expect("receive");
        assert_eq!(received.len(), STREAM_BYTES);
        let wrong = received.iter().enumerate().position(|(at, &byte)| byte != stream_byte(at));
        assert_eq!(wrong, None, "the first wrong byte");
    });
}

/// Waits for frames that `wanted` accepts, which the kernel's own chatter (IPv6) is not.
pub fn receive(port: &mut dyn Port, count: usize, wanted: impl Fn(&Frame) -> bool) -> Vec<Frame> {
    let (mut pool, mut frames) = (FramePool::default(), Vec::new());
    let mut poller = Poller::new().expect("poller");
    poller.add(0, port.raw_fd().expect("a descriptor"));
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut ready = Vec::new();
    while frames.len() < count && Instant::now() < deadline {
        poller.wait(Some(deadline), &mut ready).expect("poll");
        port.receive(now_ns(), &mut pool, &mut frames).expect("receive");
        frames.retain(&wanted);
    }
    frames
}

/// Receives until nothing is left: first frames, which may be the kernel's own chatter (IPv6), then the error of the
/// interface.
#[allow(dead_code)] // not every test that has this file needs it
pub fn receive_what_is_there(port: &mut dyn Port) {
    let (mut poller, mut ready) = (Poller::new().expect("poller"), Vec::new());
    poller.add(0, port.raw_fd().expect("a descriptor"));
    for _ in 0..1000 {
        poller.wait(Some(Instant::now()), &mut ready).expect("poll");
        if ready.is_empty() {
            return;
        }
        port.receive(now_ns(), &mut FramePool::default(), &mut Vec::new()).expect("receive");
    }
    panic!("there is always something");
}

/// A frame of an experimental ethertype (IEEE 802, local experimental 1), behind tags.
pub fn experimental(tags: &[u8], length: usize) -> Frame {
    let mut frame = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2], tags, &[0x88, 0xb5]].concat();
    frame.resize(length, 0x5a);
    frame
}

pub fn is_experimental(frame: &Frame) -> bool {
    frame.windows(2).take(25).any(|pair| pair == [0x88, 0xb5])
}

/// Segments of a TCP stream that follow each other, each a frame of this length.
pub fn segments(count: u32, length: usize) -> Vec<Frame> {
    let payload = vec![7; length - 74];
    let segment = |n| {
        let ethernet = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let ip = ethernet.ipv6([1; 16], [2; 16], 64);
        let mut frame = Vec::new();
        let tcp = ip.tcp(4000, 80, n * payload.len() as u32, 500).ack(77);
        tcp.write(&mut frame, &payload).expect("a frame");
        frame
    };
    (0..count).map(segment).collect()
}

/// What an interface sends does not depend on the frames next to it.
pub fn check_long_segments(port: &mut dyn Port, host: &mut dyn Port) {
    let good = segments(3, 1514);
    assert_eq!(send(port, &segments(3, 3000)), 0);
    assert_eq!(port.counters().dropped(DropReason::TxTooLong), 3);
    assert_eq!(send(port, &good), 3);
    let stream = |frame: &Frame| frame.get(20) == Some(&6);
    assert_eq!(receive(host, 3, stream), good);
}

pub fn send(port: &mut dyn Port, frames: &[Frame]) -> usize {
    let mut frames = frames.to_vec();
    let sent = port.transmit(now_ns(), &mut FramePool::default(), &mut frames).expect("transmit");
    assert!(frames.is_empty());
    sent
}

/// Receives until the port returns an error, and returns that.
pub fn wait_for_error(port: &mut dyn Port) -> PortError {
    let deadline = Instant::now() + Duration::from_secs(10);
    while Instant::now() < deadline {
        if let Err(error) = port.receive(now_ns(), &mut FramePool::default(), &mut Vec::new()) {
            return error;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("nothing was said");
}

/// Waits as a switch does: for the descriptor or the time at which the port wants to be called.
pub fn wait_until_up(port: &mut dyn Port) {
    let mut poller = Poller::new().expect("poller");
    poller.add(0, port.raw_fd().expect("a descriptor"));
    let end = Instant::now() + Duration::from_secs(10);
    while !port.is_up() && Instant::now() < end {
        let due_ns = port.due().expect("a port that is down wants to be called");
        let deadline = Instant::now() + Duration::from_nanos(due_ns.saturating_sub(now_ns()));
        poller.wait(Some(deadline), &mut Vec::new()).expect("poll");
        port.receive(now_ns(), &mut FramePool::default(), &mut Vec::new()).expect("receive");
    }
    assert!(port.is_up());
}

pub fn check_traffic(rack: &Rack, port: &mut dyn Port) {
    let mut host = rack.host();
    let frame = experimental(&[], 80);
    assert_eq!(send(&mut host, std::slice::from_ref(&frame)), 1);
    assert_eq!(receive(port, 1, is_experimental), std::slice::from_ref(&frame));
    assert_eq!(send(port, std::slice::from_ref(&frame)), 1);
    assert_eq!(receive(&mut host, 1, is_experimental), [frame]);
}

/// `s0` goes down and comes up again under a port, receiving and sending; is down when the port opens.
pub fn check_down_and_up(rack: &Rack, open: &dyn Fn() -> Box<dyn Port>) {
    let down = || rack.switch.link_down("s0").expect("down");
    let up = || {
        rack.switch.link_up("s0").expect("up");
        rack.switch.wait_running("s0").expect("running");
        rack.client.wait_running("c0").expect("running");
    };
    let mut port = open();
    check_traffic(rack, &mut *port);
    down();
    let error = wait_for_error(&mut *port);
    assert!(matches!(error, PortError::LinkDown { .. }), "{error}");
    assert!(error.to_string().contains("ip link set s0 up"), "{error}");
    assert!(!port.is_up());
    // Reported once; from then on the port is quiet and counts.
    assert_eq!(send(&mut *port, &vec![experimental(&[], 60); 3]), 0);
    assert_eq!(port.counters().dropped(DropReason::TxLinkDown), 3);
    up();
    wait_until_up(&mut *port);
    check_traffic(rack, &mut *port);

    // A frame to send leaves as soon as the interface is up again.
    down();
    wait_for_error(&mut *port);
    up();
    std::thread::sleep(std::time::Duration::from_millis(2));
    assert_eq!(send(&mut *port, &[experimental(&[], 60)]), 1);
    wait_until_up(&mut *port);

    // Transmitting may be the first to notice.
    down();
    let mut frames = vec![experimental(&[], 60); 2];
    let error = port.transmit(now_ns(), &mut FramePool::default(), &mut frames).unwrap_err();
    assert!(matches!(error, PortError::LinkDown { .. }), "{error}");
    assert!(frames.is_empty());

    // An interface that is down can be opened, and works once it is up.
    drop(port);
    let mut late = open();
    assert!(!late.is_up());
    up();
    wait_until_up(&mut *late);
    check_traffic(rack, &mut *late);
}

/// `s0` is removed under a port, and another of its name is made, which the port takes under the same descriptor.
pub fn check_removed_and_made_again(rack: &Rack, port: &mut dyn Port) {
    check_traffic(rack, port);
    let fd = port.raw_fd();
    rack.switch.link_delete("s0").expect("delete");
    let error = wait_for_error(port);
    assert!(matches!(error, PortError::LinkGone { .. }), "{error}");
    assert!(error.to_string().starts_with("'s0' was removed"), "{error}");
    assert_eq!(send(port, &vec![experimental(&[], 60); 3]), 0);
    assert_eq!(port.counters().dropped(DropReason::TxLinkDown), 3);
    rack.client.veth("c0", &rack.switch, "s0").expect("veth pair");
    wait_until_up(port);
    assert_eq!(port.raw_fd(), fd);
    check_traffic(rack, port);
}
