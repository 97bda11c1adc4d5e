//! AF_XDP ports between network namespaces that the test makes itself: `client/c0 -- s0/switch/s1 -- d0/server`, veth
//! pairs with their default offloads. AF_XDP needs root; tests that need less also run as an ordinary user.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use pointsman_needs::skip;
use pointsman_ports::{
    AfXdp, AfXdpConfig, DropReason, Frame, FramePool, LiveFrames, Observer, PollMode, Poller, Port,
    PortError, Want, Way, XdpMode, accept_live_frames, open_interface, open_interface_shared,
};

#[path = "support/rack.rs"]
mod rack;
mod support;
use rack::{
    Rack, STREAM_BYTES, Stopper, check_down_and_up, check_long_segments, check_removed_and_made_again,
    check_traffic, experimental, forward_between, ip, is_experimental, now_ns, receive, run, send, stream,
    stream_byte,
};
use support::Netns;

const TESTS: &[(&str, fn())] = &[
    ("a_tcp_stream_crosses_over_ipv4", || check_stream("10.9.0.2")),
    ("a_tcp_stream_crosses_over_ipv6", || check_stream("fd00:9::2")),
    ("udp_datagrams_cross", udp_datagrams_cross),
    ("frames_arrive_as_they_were_sent", frames_arrive_as_they_were_sent),
    ("more_frames_than_the_rings_hold_are_sent_in_turn", more_frames_than_the_rings_hold_are_sent_in_turn),
    ("frames_that_cannot_be_sent_are_counted", frames_that_cannot_be_sent_are_counted),
    ("long_segments_are_not_sent_together", long_segments_are_not_sent_together),
    ("queues_share_the_traffic", queues_share_the_traffic),
    ("an_interface_may_go_and_come_back", an_interface_may_go_and_come_back),
    ("an_interface_may_be_removed_and_made_again", an_interface_may_be_removed_and_made_again),
    ("an_idle_forwarder_sleeps", an_idle_forwarder_sleeps),
    ("a_port_may_be_opened_again_at_once", a_port_may_be_opened_again_at_once),
    ("the_kernel_gets_its_frames_back", the_kernel_gets_its_frames_back),
    (
        "interfaces_that_af_xdp_does_not_suit_get_af_packet",
        interfaces_that_af_xdp_does_not_suit_get_af_packet,
    ),
    ("live_frames_arrive_through_either_kind_of_port", live_frames_arrive_through_either_kind_of_port),
    ("the_generator_refuses_what_it_cannot_send", the_generator_refuses_what_it_cannot_send),
    ("generic_mode_works_where_it_is_asked_for", generic_mode_works_where_it_is_asked_for),
];

/// How the process runs itself again as an ordinary user.
const ROOTLESS: &str = "--rootless";
const NOBODY: u32 = 65534;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    if !support::is_root() {
        if !arguments.iter().any(|argument| argument == ROOTLESS) {
            skip("af_xdp", "AF_XDP needs root");
        }
        if let Err(error) = support::enter_user_namespace() {
            skip("af_xdp, rootless", &format!("user namespaces are not allowed here: {error}"));
            return ExitCode::SUCCESS;
        }
        let good = run("without_permission_there_is_af_packet", without_permission_there_is_af_packet);
        return if good { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let status =
        Command::new("/proc/self/exe").arg(ROOTLESS).uid(NOBODY).gid(NOBODY).current_dir("/").status();
    let mut good = match status {
        Ok(status) => status.success(),
        Err(error) => {
            skip("af_xdp, rootless", &format!("this test cannot run as an ordinary user: {error}"));
            true
        }
    };
    let rack = match Netns::new() {
        Ok(_) => Rack::new(),
        Err(error) => {
            skip("af_xdp", &format!("network namespaces are not allowed here: {error}"));
            return if good { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        }
    };
    if let Err(error) = rack.switch.run(|| AfXdp::open("s0", AfXdpConfig::default())) {
        skip("af_xdp", &format!("no AF_XDP: {error}"));
        return if good { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    drop(rack);
    let filters: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    for (name, test) in TESTS {
        if filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str())) {
            good &= run(name, *test);
        }
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Rack {
    fn open(&self, interface: &str, config: AfXdpConfig) -> AfXdp {
        self.switch.run(|| AfXdp::open(interface, config)).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Runs `work` while frames are forwarded between both ports; every frame is looked at on its way.
    fn forward(&self, config: AfXdpConfig, work: impl FnOnce()) -> Seen {
        let open = |name| -> Box<dyn Port> { Box::new(self.open(name, config)) };
        let mut seen = Seen::default();
        let mut look = |frames: &[Frame]| frames.iter().for_each(|frame| seen.look_at(frame));
        forward_between([open("s0"), open("s1")], &mut look, work);
        seen
    }
}

/// The observed traffic: segments and datagrams, and how many of them had a wrong checksum.
#[derive(Debug, Default)]
struct Seen {
    transport: usize,
    wrong: usize,
    longest: usize,
}

impl Seen {
    fn look_at(&mut self, frame: &[u8]) {
        self.longest = self.longest.max(frame.len());
        let Ok(packet) = SlicedPacket::from_ethernet(frame) else {
            return;
        };
        let (Some(net), Some(transport)) = (packet.net, packet.transport) else {
            return;
        };
        let (found, expected) = match (net, transport) {
            (NetSlice::Ipv4(ip), TransportSlice::Tcp(tcp)) => {
                let ip = ip.header();
                (tcp.checksum(), tcp.calc_checksum_ipv4(ip.source(), ip.destination()))
            }
            (NetSlice::Ipv6(ip), TransportSlice::Tcp(tcp)) => {
                let ip = ip.header();
                (tcp.checksum(), tcp.calc_checksum_ipv6(ip.source(), ip.destination()))
            }
            (NetSlice::Ipv4(ip), TransportSlice::Udp(udp)) => {
                let ip = ip.header().to_header();
                (udp.checksum(), udp.to_header().calc_checksum_ipv4(&ip, udp.payload()))
            }
            (NetSlice::Ipv6(ip), TransportSlice::Udp(udp)) => {
                let ip = ip.header().to_header();
                (udp.checksum(), udp.to_header().calc_checksum_ipv6(&ip, udp.payload()))
            }
            _ => return,
        };
        self.transport += 1;
        // Zero has two forms.
        let plain = |checksum: u16| if checksum == 0xffff { 0 } else { checksum };
        self.wrong += usize::from(expected.is_ok_and(|expected| plain(expected) != plain(found)));
    }
}

/// Kernel TCP on both ends, with default offloads: passing frames have good checksums and are not too long.
fn check_stream(address: &str) {
    let rack = Rack::new();
    let listener = rack.server.run(|| TcpListener::bind((ip(address), 7000))).expect("listen");
    let mut observer = rack.server.run(|| Observer::open("d0")).expect("observe");
    let seen = rack.forward(AfXdpConfig::default(), || stream(&rack.client, &listener, ip(address)));
    let mut longest = 0;
    let mut look = |way, frame: &[u8]| longest = longest.max(if way == Way::In { frame.len() } else { 0 });
    while observer.observe(now_ns(), &mut look).expect("observe") > 0 {}
    assert!(longest > 1514, "no segments were sent as one");
    assert_eq!(seen.wrong, 0, "{seen:?}");
    assert!(seen.transport > STREAM_BYTES / 1448 && seen.longest == 1514, "{seen:?}");
}

#[allow(unsafe_code)]
fn udp_datagrams_cross() {
    let rack = Rack::new();
    for (from, to) in [("10.9.0.1", "10.9.0.2"), ("fd00:9::1", "fd00:9::2")] {
        let sender = rack.client.run(|| UdpSocket::bind((ip(from), 0))).expect("bind");
        let receiver = rack.server.run(|| UdpSocket::bind((ip(to), 7001))).expect("bind");
        receiver.set_read_timeout(Some(Duration::from_secs(10))).expect("timeout");
        // A super-frame, which the kernel cuts because an XDP program is on the other end.
        let segment: libc::c_int = 1000;
        // SAFETY: the pointer and the length describe `segment`.
        unsafe {
            let (fd, length) = (sender.as_raw_fd(), size_of_val(&segment) as libc::socklen_t);
            libc::setsockopt(fd, libc::SOL_UDP, libc::UDP_SEGMENT, (&raw const segment).cast(), length);
        }
        let bytes: Vec<u8> = (0..5500).map(stream_byte).collect();
        let seen = rack.forward(AfXdpConfig::default(), || {
            sender.send_to(&bytes, SocketAddr::new(ip(to), 7001)).expect("send");
            let mut received = Vec::new();
            let mut buffer = [0; 9000];
            while received.len() < bytes.len() {
                let count = receiver.recv(&mut buffer).expect("receive");
                received.extend_from_slice(&buffer[..count]);
            }
            assert_eq!(received, bytes);
        });
        assert_eq!(seen.wrong, 0, "{seen:?}");
        assert!(seen.transport >= 6, "{seen:?}");
    }
}

fn frames_arrive_as_they_were_sent() {
    let rack = Rack::new();
    let mut host = rack.host();
    let mut port = rack.open("s0", AfXdpConfig::default());
    let frames = [
        experimental(&[], 60),
        experimental(&[], 14),
        experimental(&[0x81, 0x00, 0x20, 0x05], 64),
        experimental(&[0x88, 0xa8, 0x00, 0x07, 0x81, 0x00, 0x0f, 0xff], 1514),
        experimental(&[], 1514),
    ];
    assert_eq!(send(&mut host, &frames), frames.len());
    assert_eq!(receive(&mut port, frames.len(), is_experimental), frames);
    assert_eq!(send(&mut port, &frames), frames.len());
    assert_eq!(receive(&mut host, frames.len(), is_experimental), frames);
    let counters = port.counters();
    let bytes = frames.iter().map(|frame| frame.len() as u64).sum::<u64>();
    assert_eq!((counters.tx_packets, counters.tx_bytes), (frames.len() as u64, bytes));
    assert!(counters.rx_packets >= frames.len() as u64 && counters.rx_bytes >= bytes);
}

fn more_frames_than_the_rings_hold_are_sent_in_turn() {
    let rack = Rack::new();
    let mut host = rack.host();
    let mut port = rack.open("s0", AfXdpConfig { ring: 64, ..Default::default() });
    for round in 0..20u8 {
        let mut frames: Vec<Frame> = (0..50).map(|_| experimental(&[], 60 + usize::from(round))).collect();
        let expected = frames.clone();
        let mut pool = FramePool::default();
        let deadline = Instant::now() + Duration::from_secs(10);
        while !frames.is_empty() {
            port.transmit(now_ns(), &mut pool, &mut frames).expect("transmit");
            assert!(Instant::now() < deadline, "{} frames are stuck", frames.len());
        }
        assert_eq!(receive(&mut host, 50, is_experimental), expected);
    }
    // And the other way: a ring that overflows loses frames, and counts them.
    assert_eq!(send(&mut host, &vec![experimental(&[], 60); 400]), 400);
    thread::sleep(Duration::from_millis(50));
    let received = receive(&mut port, 1, is_experimental).len() as u64;
    assert!((1..=64).contains(&received), "{received}");
    // The veth pair's own queue may have lost some more, which only its other end knows.
    assert!(port.counters().dropped(DropReason::RxSocketFull) > 0);
    assert_eq!(port.counters(), port.counters());
    // It continues afterwards.
    assert_eq!(send(&mut host, &[experimental(&[], 61)]), 1);
    assert_eq!(receive(&mut port, 1, is_experimental).last(), Some(&experimental(&[], 61)));
}

fn frames_that_cannot_be_sent_are_counted() {
    let rack = Rack::new();
    let mut port = rack.open("s0", AfXdpConfig::default());
    let good = experimental(&[], 1514);
    let tagged = experimental(&[0x81, 0x00, 0x20, 0x05], 1518);
    let frames = [good.clone(), experimental(&[], 1515), vec![1; 13], vec![], tagged, vec![7; 70_000], good];
    assert_eq!(send(&mut port, &frames), 3);
    let counters = port.counters();
    assert_eq!((counters.tx_packets, counters.tx_bytes), (3, 2 * 1514 + 1518));
    assert_eq!(counters.dropped(DropReason::TxTooLong), 2);
    assert_eq!(counters.dropped(DropReason::TxTooShort), 2);
}

fn long_segments_are_not_sent_together() {
    let rack = Rack::new();
    check_long_segments(&mut rack.open("s0", AfXdpConfig::default()), &mut rack.host());
}

/// Each queue may be a separate port, or all be one.
fn queues_share_the_traffic() {
    let [client, switch] = [(); 2].map(|()| Netns::new().expect("network namespace"));
    client.veth_with_queues("c0", &switch, "s0", 3).expect("veth pair");
    client.address("c0", ip("10.9.0.1"), 24).expect("address");
    let sockets: Vec<UdpSocket> =
        (0..32).map(|_| client.run(|| UdpSocket::bind("10.9.0.1:0")).expect("bind")).collect();
    for (ports, how) in [
        (1, "AF_XDP, native mode, copy, 3 queues"),
        (2, "AF_XDP, native mode, copy, 2 queues, 2 ports"),
        (3, "AF_XDP, native mode, copy, 3 ports"),
        (9, "AF_XDP, native mode, copy, 3 ports"),
    ] {
        let opened = switch.run(|| open_interface_shared("s0", Want::AfXdp, ports));
        let (mut opened, description) = opened.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((opened.len(), &*description), (ports.min(3), how));
        for socket in &sockets {
            socket.set_broadcast(true).expect("broadcast");
            socket.send_to(&[b'a'; 20], "10.9.0.255:7005").expect("send");
        }
        let mut seen = vec![0; opened.len()];
        let deadline = Instant::now() + Duration::from_secs(10);
        while seen.iter().sum::<usize>() < sockets.len() && Instant::now() < deadline {
            for (port, seen) in opened.iter_mut().zip(&mut seen) {
                let (mut poller, mut frames) = (Poller::new().expect("poller"), Vec::new());
                poller.add(0, port.raw_fd().expect("a descriptor"));
                poller.wait(Some(Instant::now() + Duration::from_millis(1)), &mut Vec::new()).expect("poll");
                port.receive(now_ns(), &mut FramePool::default(), &mut frames).expect("receive");
                *seen += frames.iter().filter(|frame| frame.ends_with(&[b'a'; 20])).count();
            }
        }
        assert_eq!(seen.iter().sum::<usize>(), sockets.len(), "{seen:?}");
        assert!(seen.iter().all(|&count| count > 0), "{seen:?}");
        // Any of them sends.
        for port in &mut opened {
            assert_eq!(send(&mut **port, &[experimental(&[], 60)]), 1);
        }
    }
    let error = switch.run(|| AfXdp::open("s0", AfXdpConfig { queue: Some(3), ..Default::default() }));
    let error = error.err().expect("an error").to_string();
    assert!(error.contains("receive queue 3 does not exist: it has 3"), "{error}");
}

fn an_interface_may_go_and_come_back() {
    let rack = Rack::new();
    check_down_and_up(&rack, &|| Box::new(rack.open("s0", AfXdpConfig::default())));
}

fn an_interface_may_be_removed_and_made_again() {
    let rack = Rack::new();
    check_removed_and_made_again(&rack, &mut rack.open("s0", AfXdpConfig::default()));
}

fn a_port_may_be_opened_again_at_once() {
    let rack = Rack::new();
    for _ in 0..3 {
        let mut port = rack.open("s0", AfXdpConfig::default());
        check_traffic(&rack, &mut port);
    }
    // A second one on the same interface cannot be.
    let _port = rack.open("s0", AfXdpConfig::default());
    let error = rack.switch.run(|| AfXdp::open("s0", AfXdpConfig::default())).err().expect("an error");
    assert!(matches!(error, PortError::NoAfXdp { .. }), "{error}");
    assert!(error.to_string().contains("there is another on the interface"), "{error}");
}

/// While a port is open the kernel's stack gets nothing from the interface; afterwards all is as it was.
fn the_kernel_gets_its_frames_back() {
    let rack = Rack::new();
    rack.switch.address("s0", ip("10.9.0.3"), 24).expect("address");
    let from = rack.client.run(|| UdpSocket::bind("10.9.0.1:7002")).expect("bind");
    let to = rack.switch.run(|| UdpSocket::bind("10.9.0.3:7003")).expect("bind");
    to.set_read_timeout(Some(Duration::from_secs(10))).expect("timeout");
    let port = rack.open("s0", AfXdpConfig::default());
    drop(port);
    from.send_to(b"hello", "10.9.0.3:7003").expect("send");
    let mut buffer = [0; 100];
    assert_eq!(to.recv(&mut buffer).expect("receive"), 5);
}

/// Idling costs almost nothing: less than 1 % of a core.
fn an_idle_forwarder_sleeps() {
    for want in [Want::AfXdp, Want::AfPacket] {
        let rack = Rack::new();
        let open = |name| rack.switch.run(|| open_interface(name, want)).expect("open").0;
        let mut ports = [open("s0"), open("s1")];
        // The kernel's own chatter after an interface came up has to be over.
        thread::sleep(Duration::from_millis(300));
        let stop = AtomicBool::new(false);
        let cpu_ms = thread::scope(|scope| {
            let forwarder = scope.spawn(|| {
                pointsman_ports::forward(&mut ports, PollMode::Adaptive, &stop).expect("forward");
                thread_cpu_time()
            });
            let stopper = Stopper(&stop);
            thread::sleep(Duration::from_secs(2));
            drop(stopper);
            forwarder.join().expect("forwarder").as_secs_f64() * 1e3
        });
        assert!(cpu_ms < 20.0, "{want:?}: {cpu_ms} ms in two seconds");
    }
}

/// Of the calling thread.
#[allow(unsafe_code)]
fn thread_cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn choose(netns: &Netns, name: &str, want: Want) -> Result<String, String> {
    netns.run(|| open_interface(name, want)).map(|(_, how)| how).map_err(|error| error.to_string())
}

fn interfaces_that_af_xdp_does_not_suit_get_af_packet() {
    let rack = Rack::new();
    assert_eq!(choose(&rack.switch, "s0", Want::Auto).as_deref(), Ok("AF_XDP, native mode, copy"));
    assert_eq!(choose(&rack.switch, "s0", Want::AfXdp).as_deref(), Ok("AF_XDP, native mode, copy"));
    assert_eq!(choose(&rack.switch, "s0", Want::AfPacket).as_deref(), Ok("AF_PACKET"));
    let how = choose(&rack.client, "c0", Want::Auto).expect("open");
    assert!(how.starts_with("AF_PACKET (no AF_XDP: the interface has an IP address"), "{how}");
    // It has got a link-local address of IPv6 when it was brought up.
    rack.switch.address("s1", ip("fe80::7"), 64).expect("IPv6 address");
    assert_eq!(choose(&rack.switch, "s1", Want::Auto).as_deref(), Ok("AF_XDP, native mode, copy"));
    rack.switch.address("s1", ip("fd00:9::7"), 64).expect("IPv6 address");
    let how = choose(&rack.switch, "s1", Want::Auto).expect("open");
    assert!(how.starts_with("AF_PACKET (no AF_XDP: the interface has an IP address"), "{how}");
    assert_eq!(choose(&rack.switch, "s0", Want::Auto).as_deref(), Ok("AF_XDP, native mode, copy"));
    let how = choose(&rack.switch, "lo", Want::Auto).expect("open");
    assert!(how.starts_with("AF_PACKET (no AF_XDP: "), "{how}");
    // Its other end may send frames that are too long.
    rack.client.mtu("c0", 9000).expect("MTU");
    let how = choose(&rack.switch, "s0", Want::Auto).expect("open");
    assert!(how.starts_with("AF_PACKET (no AF_XDP: ") && how.contains("MTU"), "{how}");
    rack.switch.mtu("s0", 9000).expect("MTU");
    let how = choose(&rack.switch, "s0", Want::Auto).expect("open");
    assert!(how.contains("its MTU is 9000"), "{how}");
    let error = choose(&rack.switch, "s0", Want::AfXdp).unwrap_err();
    assert!(error.contains("its MTU is 9000"), "{error}");
    let error = choose(&rack.switch, "none", Want::Auto).unwrap_err();
    assert!(error.starts_with("no such interface 'none'"), "{error}");
}

fn generic_mode_works_where_it_is_asked_for() {
    let rack = Rack::new();
    let mut port = rack.open("s0", AfXdpConfig { mode: XdpMode::Generic, ..Default::default() });
    assert_eq!(port.description(), "AF_XDP, generic mode, copy");
    check_traffic(&rack, &mut port);
}

/// Frames from the generator arrive in turn, evenly spaced, with the time of sending.
fn live_frames_arrive_through_either_kind_of_port() {
    for want in [Want::AfXdp, Want::AfPacket] {
        let rack = Rack::new();
        let (mut port, _) = rack.switch.run(|| open_interface("s0", want)).expect("open");
        let accepted = rack.switch.run(|| accept_live_frames("s0"));
        assert_eq!(accepted.is_ok(), want == Want::AfPacket);
        let frames: Vec<Frame> = (0..3)
            .map(|number| {
                let mut frame = experimental(&[], 100);
                frame[20] = number;
                frame
            })
            .collect();
        let run = thread::scope(|scope| {
            let generator = scope.spawn(|| {
                rack.client.run(|| {
                    let generator = LiveFrames::new("c0", &frames, Some(24)).expect("generator");
                    generator.run(2000, Duration::from_millis(700)).expect("run")
                })
            });
            // Thirty times as many are due, but a busy machine may let the generator run only now and then.
            let received = receive(&mut *port, 40, is_experimental);
            assert!(received.len() >= 40, "{}", received.len());
            let mut last = 0;
            for (at, frame) in received.iter().enumerate() {
                let time = u64::from_ne_bytes(frame[24..32].try_into().expect("eight bytes"));
                assert!(time > last, "a frame was sent at {time} after one at {last}");
                last = time;
                assert_eq!(frame[20], (at % 3) as u8);
                let mut expected = frames[at % 3].clone();
                expected[24..32].copy_from_slice(&time.to_ne_bytes());
                assert_eq!(*frame, expected);
            }
            generator.join().expect("generator")
        });
        // At most the requested rate times the elapsed time: beginning and ending take a while.
        let most = 2000 * run.elapsed_ns / 1_000_000_000 + 1;
        assert!((40..=most).contains(&run.frames) && run.elapsed_ns >= 700_000_000, "{run:?}");
    }
}

fn the_generator_refuses_what_it_cannot_send() {
    let rack = Rack::new();
    let refused = |frames: &[Frame], stamp| {
        let made = rack.client.run(|| LiveFrames::new("c0", frames, stamp));
        made.err().expect("an error").to_string()
    };
    let frame = experimental(&[], 100);
    assert_eq!(refused(&[], None), "frames must be at least one of at least 64 bytes");
    assert_eq!(refused(&[experimental(&[], 60)], None), "frames must be at least one of at least 64 bytes");
    let mut other = frame.clone();
    other[64] = 1;
    assert_eq!(refused(&[frame.clone(), other], None), "frames must be alike from byte 64 on");
    assert_eq!(refused(&[frame], Some(57)), "stamp must be at most 56");
}

fn without_permission_there_is_af_packet() {
    let rack = Rack::new();
    let how = choose(&rack.switch, "s0", Want::Auto).expect("open");
    assert!(how.starts_with("AF_PACKET (no AF_XDP: no permission to make a BPF map"), "{how}");
    let error = choose(&rack.switch, "s0", Want::AfXdp).unwrap_err();
    assert!(error.contains("CAP_BPF"), "{error}");
}
