//! AF_PACKET ports between network namespaces that the test makes itself, as root and rootless.
//!
//! A client and a server namespace hang on a switch namespace by veth pairs with their default offloads:
//! `client/c0 -- s0/switch/s1 -- d0/server`.

use std::io::{self};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use pointsman_needs::skip;
use pointsman_ports::{
    AfPacket, AfPacketConfig, Counters, Direction, DropReason, Frame, FramePool, Observer, Port, PortError,
    Tap, Want, Way, open_interface, open_interface_shared,
};

#[path = "support/rack.rs"]
mod rack;
mod support;
use rack::{
    Rack, STREAM_BYTES, check_down_and_up, check_long_segments, check_removed_and_made_again, check_traffic,
    experimental, forward_between, ip, is_experimental, now_ns, receive, receive_what_is_there, run, send,
    stream, stream_byte, wait_for_error, wait_until_up,
};
use support::Netns;

const TESTS: &[(&str, fn())] = &[
    ("a_tcp_stream_crosses_over_ipv4", a_tcp_stream_crosses_over_ipv4),
    ("a_tcp_stream_crosses_over_ipv6", a_tcp_stream_crosses_over_ipv6),
    ("udp_super_frames_arrive_as_datagrams", udp_super_frames_arrive_as_datagrams),
    ("vlan_tags_are_kept", vlan_tags_are_kept),
    ("frames_of_this_machine_are_not_received", frames_of_this_machine_are_not_received),
    ("an_observer_sees_both_ways", an_observer_sees_both_ways),
    ("an_observer_takes_the_interface_that_has_the_name", an_observer_takes_the_interface_that_has_the_name),
    ("frames_that_cannot_be_sent_are_counted", frames_that_cannot_be_sent_are_counted),
    ("long_segments_are_not_sent_together", long_segments_are_not_sent_together),
    ("frames_that_overflow_the_socket_are_counted", frames_that_overflow_the_socket_are_counted),
    ("a_burst_waits_in_the_ring", a_burst_waits_in_the_ring),
    ("traffic_control_is_not_passed_by", traffic_control_is_not_passed_by),
    ("an_interface_may_go_and_come_back", an_interface_may_go_and_come_back),
    ("an_interface_may_be_removed_and_made_again", an_interface_may_be_removed_and_made_again),
    ("a_group_shares_the_traffic_by_flows", a_group_shares_the_traffic_by_flows),
    ("tap_interfaces_carry_streams", tap_interfaces_carry_streams),
    ("tap_interfaces_may_go_down_and_away", tap_interfaces_may_go_down_and_away),
    ("an_unknown_interface_is_named", an_unknown_interface_is_named),
];

/// How the process runs itself again as an ordinary user.
const ROOTLESS: &str = "--rootless";
const NOBODY: u32 = 65534;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let again = arguments.iter().any(|argument| argument == ROOTLESS);
    let mode = if support::is_root() { "root" } else { "rootless" };
    let mut good = true;
    if !support::is_root() {
        good &= run(&format!("permission_is_asked_for ({mode})"), permission_is_asked_for);
        if let Err(error) = support::enter_user_namespace() {
            skip("namespaces, rootless", &format!("user namespaces are not allowed here: {error}"));
            return if good { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        }
    } else if !again {
        let status = Command::new("/proc/self/exe")
            .args(&arguments)
            .arg(ROOTLESS)
            .uid(NOBODY)
            .gid(NOBODY)
            .current_dir("/")
            .status();
        match status {
            Ok(status) => good &= status.success(),
            Err(error) => {
                skip("namespaces, rootless", &format!("this test cannot run as an ordinary user: {error}"));
            }
        }
    }
    match Netns::new() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            skip(
                &format!("namespaces ({mode})"),
                &format!("network namespaces are not allowed here: {error}"),
            );
            return if good { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        }
        other => drop(other.expect("network namespace")),
    }
    let filters: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    for (name, test) in TESTS {
        if filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str())) {
            good &= run(&format!("{name} ({mode})"), *test);
        }
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Rack {
    fn open(&self, interface: &str, config: AfPacketConfig) -> AfPacket {
        self.switch.run(|| AfPacket::open(interface, config)).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Runs `work` while frames are forwarded between both ports, and returns the observations.
    fn forward(&self, config: AfPacketConfig, work: impl FnOnce()) -> Seen {
        let open = |name| -> Box<dyn Port> { Box::new(self.open(name, config)) };
        Seen::between([open("s0"), open("s1")], work)
    }
}

#[derive(Default)]
struct Seen {
    longest_frame: usize,
    largest_batch: usize,
    counters: [Counters; 2],
}

impl Seen {
    /// Runs `work` while frames are forwarded between both ports, and returns the observations.
    fn between(ports: [Box<dyn Port>; 2], work: impl FnOnce()) -> Seen {
        let mut seen = Seen::default();
        let mut look = |frames: &[Frame]| {
            seen.largest_batch = seen.largest_batch.max(frames.len());
            for frame in frames {
                seen.longest_frame = seen.longest_frame.max(frame.len());
            }
        };
        let counters = forward_between(ports, &mut look, work);
        Seen { counters, ..seen }
    }
}

fn check_stream(address: &str, ring_bytes: usize) {
    let rack = Rack::new();
    let listener = rack.server.run(|| TcpListener::bind((ip(address), 7000))).expect("listen");
    let mut observer = rack.server.run(|| Observer::open("d0")).expect("observe");
    // Fewer messages in a batch than a single super-frame has pieces.
    let config = AfPacketConfig { batch: 16, ring_bytes, ..Default::default() };
    let seen = rack.forward(config, || stream(&rack.client, &listener, ip(address)));
    let mut longest = 0;
    let mut look = |way, frame: &[u8]| longest = longest.max(if way == Way::In { frame.len() } else { 0 });
    while observer.observe(now_ns(), &mut look).expect("observe") > 0 {}
    assert!(longest > 1514, "no segments were sent as one");
    assert!(seen.longest_frame <= 1514, "a frame of {} bytes", seen.longest_frame);
    assert!(seen.largest_batch > 16, "no super-frames came: this test does not show that they are cut");
    let [left, right] = seen.counters;
    assert!(left.rx_packets as usize > STREAM_BYTES / 1448 && left.rx_bytes as usize > STREAM_BYTES);
    assert_eq!(left.rx_packets, right.tx_packets + right.dropped_total(Direction::Transmit));
    for reason in [DropReason::RxBadOffload, DropReason::RxUnsupportedOffload, DropReason::RxTruncated] {
        assert_eq!(left.dropped(reason) + right.dropped(reason), 0, "{}", reason.name());
    }
}

fn a_tcp_stream_crosses_over_ipv4() {
    check_stream("10.9.0.2", 1 << 20);
    check_stream("10.9.0.2", 0);
}

fn a_tcp_stream_crosses_over_ipv6() {
    check_stream("fd00:9::2", 1 << 20);
}

#[allow(unsafe_code)]
fn udp_super_frames_arrive_as_datagrams() {
    let rack = Rack::new();
    for (from, to) in [("10.9.0.1", "10.9.0.2"), ("fd00:9::1", "fd00:9::2")] {
        let sender = rack.client.run(|| UdpSocket::bind((ip(from), 0))).expect("bind");
        let receiver = rack.server.run(|| UdpSocket::bind((ip(to), 7001))).expect("bind");
        receiver.set_read_timeout(Some(Duration::from_secs(10))).expect("timeout");
        let segment: libc::c_int = 1000;
        // SAFETY: the pointer and the length describe `segment`.
        let result = unsafe {
            let (fd, length) = (sender.as_raw_fd(), size_of_val(&segment) as libc::socklen_t);
            libc::setsockopt(fd, libc::SOL_UDP, libc::UDP_SEGMENT, (&raw const segment).cast(), length)
        };
        if result != 0 {
            let error = io::Error::last_os_error();
            return skip(
                "udp_super_frames_arrive_as_datagrams",
                &format!("this kernel has no UDP_SEGMENT: {error}"),
            );
        }
        let bytes: Vec<u8> = (0..5500).map(stream_byte).collect();
        let seen = rack.forward(AfPacketConfig { batch: 1, ..Default::default() }, || {
            sender.send_to(&bytes, SocketAddr::new(ip(to), 7001)).expect("send");
            let mut received = Vec::new();
            let mut buffer = [0; 9000];
            for length in [1000, 1000, 1000, 1000, 1000, 500] {
                let count = receiver.recv(&mut buffer).expect("receive");
                assert_eq!(count, length);
                received.extend_from_slice(&buffer[..count]);
            }
            assert_eq!(received, bytes);
        });
        assert_eq!(
            seen.largest_batch, 6,
            "the datagrams came one by one: this test does not show that they are cut"
        );
    }
}

fn vlan_tags_are_kept() {
    for ring_bytes in [1 << 20, 0] {
        check_vlan_tags(AfPacketConfig { ring_bytes, ..Default::default() });
    }
}

fn check_vlan_tags(config: AfPacketConfig) {
    let rack = Rack::new();
    let mut host = rack.host();
    let mut port = rack.open("s0", config);
    let frames = [
        experimental(&[], 60),
        experimental(&[0x81, 0x00, 0x20, 0x05], 64),
        experimental(&[0x88, 0xa8, 0x00, 0x07], 64),
        experimental(&[0x88, 0xa8, 0x00, 0x07, 0x81, 0x00, 0x0f, 0xff], 1514),
        // Priority only.
        experimental(&[0x81, 0x00, 0xe0, 0x00], 64),
    ];
    assert_eq!(send(&mut host, &frames), frames.len());
    assert_eq!(receive(&mut port, frames.len(), is_experimental), frames);
    // Frames that the port sent do not come back to it.
    assert_eq!(send(&mut port, &frames), frames.len());
    assert_eq!(receive(&mut host, frames.len(), is_experimental), frames);
}

fn frames_of_this_machine_are_not_received() {
    let rack = Rack::new();
    let mut port = rack.open("s0", AfPacketConfig::default());
    let mut other = rack.open("s0", AfPacketConfig::default());
    let mut host = rack.host();
    assert_eq!(send(&mut other, &vec![experimental(&[], 60); 3]), 3);
    // The first that comes is the one from the far end, to both.
    assert_eq!(send(&mut host, &[experimental(&[], 61)]), 1);
    for port in [&mut port, &mut other] {
        assert_eq!(receive(port, 1, is_experimental), [experimental(&[], 61)]);
    }
}

/// The frames of both ways that an observer of `c0` sees, after one was sent each way.
fn observed(rack: &Rack, observer: &mut Observer) -> Vec<(Way, usize)> {
    let mut port = rack.open("s0", AfPacketConfig::default());
    let mut host = rack.host();
    assert_eq!(send(&mut host, &[experimental(&[], 61)]), 1);
    assert_eq!(send(&mut port, &[experimental(&[], 62)]), 1);
    let mut seen = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(10);
    while seen.len() < 2 && Instant::now() < deadline {
        let each = |way, frame: &[u8]| {
            if is_experimental(&frame.to_vec()) {
                seen.push((way, frame.len()));
            }
        };
        observer.observe(now_ns(), each).expect("observe");
        thread::sleep(Duration::from_millis(1));
    }
    seen.sort_by_key(|(_, length)| *length);
    seen
}

fn an_observer_sees_both_ways() {
    let rack = Rack::new();
    let mut observer = rack.client.run(|| Observer::open("c0")).expect("open");
    assert_eq!(observed(&rack, &mut observer), [(Way::Out, 61), (Way::In, 62)]);
    let error = rack.client.run(|| Observer::open("none")).err().expect("no such interface");
    assert!(error.to_string().contains("none"));
}

fn an_observer_takes_the_interface_that_has_the_name() {
    let rack = Rack::new();
    let mut observer = rack.client.run(|| Observer::open("c0")).expect("open");
    let (fd, before) = (observer.raw_fd(), observer.mac());
    assert!(observer.is_up() && before.is_some());
    rack.client.link_delete("c0").expect("delete");
    // What the interface carried before is seen first.
    let error = (0..1000).find_map(|_| observer.observe(now_ns(), |_, _| {}).err()).expect("an error");
    assert!(matches!(error, PortError::LinkGone { .. }), "{error}");
    assert!(!observer.is_up() && observer.mac().is_none());
    // Reported once.
    thread::sleep(Duration::from_millis(101));
    assert_eq!(observer.observe(now_ns(), |_, _| {}).expect("observe"), 0);
    rack.client.veth("c0", &rack.switch, "s0").expect("veth pair");
    thread::sleep(Duration::from_millis(101));
    observer.observe(now_ns(), |_, _| {}).expect("observe");
    assert_eq!(observed(&rack, &mut observer), [(Way::Out, 61), (Way::In, 62)]);
    assert!(observer.is_up() && observer.mac().is_some_and(|mac| Some(mac) != before));
    assert_eq!(observer.raw_fd(), fd);
}

fn frames_that_cannot_be_sent_are_counted() {
    let rack = Rack::new();
    let mut port = rack.open("s0", AfPacketConfig::default());
    let good = experimental(&[], 1514);
    let frames =
        [good.clone(), experimental(&[], 1515), vec![1; 13], vec![], good.clone(), vec![7; 70_000], good];
    assert_eq!(send(&mut port, &frames), 3);
    let counters = port.counters();
    assert_eq!((counters.tx_packets, counters.tx_bytes), (3, 3 * 1514));
    assert_eq!(counters.dropped(DropReason::TxTooLong), 2);
    assert_eq!(counters.dropped(DropReason::TxTooShort), 2);
    assert_eq!(counters.dropped_total(Direction::Transmit), 4);
}

fn long_segments_are_not_sent_together() {
    let rack = Rack::new();
    check_long_segments(&mut rack.open("s0", AfPacketConfig::default()), &mut rack.host());
}

fn frames_that_overflow_the_socket_are_counted() {
    let rack = Rack::new();
    let small =
        AfPacketConfig { socket_buffer_bytes: 16 * 1024, ring_bytes: 16 * 1024, ..Default::default() };
    let mut port = rack.open("s0", small);
    let mut host = rack.host();
    assert_eq!(send(&mut host, &vec![experimental(&[], 1000); 200]), 200);
    let received = receive(&mut port, 1, is_experimental).len() as u64;
    assert!((1..200).contains(&received));
    assert!(port.counters().dropped(DropReason::RxSocketFull) >= 200 - received);
    assert_eq!(
        port.counters().dropped(DropReason::RxSocketFull),
        port.counters().dropped(DropReason::RxSocketFull)
    );
}

/// A switch that gets no processor for some time must not lose frames: these are what arrives in 400 ms at 10,000 a second.
fn a_burst_waits_in_the_ring() {
    let rack = Rack::new();
    let mut port = rack.open("s0", AfPacketConfig::default());
    let mut host = rack.host();
    for _ in 0..80 {
        assert_eq!(send(&mut host, &vec![experimental(&[], 80); 50]), 50);
    }
    assert_eq!(receive(&mut port, 4000, is_experimental).len(), 4000);
    assert_eq!(port.counters().dropped(DropReason::RxSocketFull), 0);
}

fn traffic_control_is_not_passed_by() {
    let (here, there) = (Netns::new().expect("a namespace"), Netns::new().expect("a namespace"));
    here.veth("s0", &there, "c0").expect("a veth pair");
    let how = || here.run(|| open_interface("s0", Want::Auto)).expect("open").1;
    assert!(!how().contains("tbf"), "{}", how());
    here.token_bucket("s0", 125_000).expect("a queueing discipline");
    assert_eq!(how(), "AF_PACKET (no AF_XDP: it would send past the queueing discipline tbf)");
}

fn an_interface_may_go_and_come_back() {
    let rack = Rack::new();
    check_down_and_up(&rack, &|| Box::new(rack.open("s0", AfPacketConfig::default())));
}

fn an_interface_may_be_removed_and_made_again() {
    let rack = Rack::new();
    let mut port = rack.open("s0", AfPacketConfig::default());
    check_removed_and_made_again(&rack, &mut port);
    // So fast that the port never sees it missing, with a frame still to be read.
    assert_eq!(send(&mut rack.host(), &[experimental(&[], 80)]), 1);
    rack.switch.link_delete("s0").expect("delete");
    rack.client.veth("c0", &rack.switch, "s0").expect("veth pair");
    receive_what_is_there(&mut port);
    assert!(port.is_up());
    check_traffic(&rack, &mut port);
}

/// The flow's number is in the source port; both ends get the datagrams of the same flow at the same socket.
fn a_group_shares_the_traffic_by_flows() {
    let rack = Rack::new();
    let open = || open_interface_shared("s0", Want::AfPacket, 3);
    let (mut ports, how) = rack.switch.run(open).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((ports.len(), &*how), (3, "AF_PACKET, 3 sockets"));
    let check = |ports: &mut Vec<Box<dyn Port>>| {
        let sockets: Vec<UdpSocket> =
            (0..32).map(|_| rack.client.run(|| UdpSocket::bind("10.9.0.1:0")).expect("bind")).collect();
        for round in 0..3 {
            for socket in &sockets {
                socket.set_broadcast(true).expect("broadcast");
                socket.send_to(&[b'a' + round; 20], "10.9.0.255:7005").expect("send");
            }
        }
        let mut seen = vec![Vec::new(); ports.len()];
        let deadline = Instant::now() + Duration::from_secs(10);
        while seen.iter().map(Vec::len).sum::<usize>() < 96 && Instant::now() < deadline {
            for (port, seen) in ports.iter_mut().zip(&mut seen) {
                let mut frames = Vec::new();
                port.receive(now_ns(), &mut FramePool::default(), &mut frames).expect("receive");
                let datagrams =
                    frames.iter().filter(|frame| frame.ends_with(&[frame[61]; 20]) && frame.len() == 62);
                seen.extend(datagrams.map(|frame| u16::from_be_bytes([frame[34], frame[35]])));
            }
        }
        assert_eq!(seen.iter().map(Vec::len).sum::<usize>(), 96, "each once: {seen:?}");
        assert!(seen.iter().all(|flows| !flows.is_empty()), "one port got them all: {seen:?}");
        for socket in &sockets {
            let flow = socket.local_addr().expect("address").port();
            let owners = seen.iter().filter(|flows| flows.contains(&flow)).count();
            assert_eq!(owners, 1, "flow {flow}: {seen:?}");
        }
    };
    check(&mut ports);
    // A new interface of the same name.
    rack.switch.link_delete("s0").expect("delete");
    for port in &mut ports {
        let error = wait_for_error(&mut **port);
        assert!(matches!(error, PortError::LinkGone { .. }), "{error}");
    }
    rack.client.veth("c0", &rack.switch, "s0").expect("veth pair");
    rack.client.address("c0", ip("10.9.0.1"), 24).expect("address");
    for port in &mut ports {
        wait_until_up(&mut **port);
    }
    check(&mut ports);
}

/// Two taps, each with the kernel of a namespace at its other end.
fn tap_interfaces_carry_streams() {
    let [client, server] = [(); 2].map(|()| Netns::new().expect("network namespace"));
    let tap = |netns: &Netns, name: &str| netns.run(|| open_interface(&format!("tap:{name}"), Want::Auto));
    let (left, right) = match (tap(&client, "t0"), tap(&server, "t1")) {
        (Ok(left), Ok(right)) => (left, right),
        (Err(error), _) | (_, Err(error)) => {
            return without_tap("tap_interfaces_carry_streams", &error);
        }
    };
    assert_eq!((left.0.name(), &*left.1), ("t0", "tap"));
    client.address("t0", ip("10.9.0.1"), 24).expect("address");
    server.address("t1", ip("10.9.0.2"), 24).expect("address");
    let listener = server.run(|| TcpListener::bind("10.9.0.2:7000")).expect("listen");
    let seen = Seen::between([left.0, right.0], || stream(&client, &listener, ip("10.9.0.2")));
    assert!(seen.longest_frame <= 1514, "a frame of {} bytes", seen.longest_frame);
    let [left, right] = seen.counters;
    assert!(left.rx_packets as usize > STREAM_BYTES / 1448 && left.rx_bytes as usize > STREAM_BYTES);
    assert_eq!(left.rx_packets, right.tx_packets + right.dropped_total(Direction::Transmit));
}

/// An ordinary user may lack permission for `/dev/net/tun`, also as root of a namespace: then the error must name it.
/// Everything else is a reason to skip the test.
fn without_tap(test: &str, error: &PortError) {
    assert!(error.to_string().starts_with("cannot create the tap interface 't0': "), "{error}");
    match std::fs::File::options().read(true).write(true).open("/dev/net/tun") {
        Err(denied) if denied.kind() == io::ErrorKind::PermissionDenied => {
            assert!(error.to_string().contains("no permission"), "{error}");
        }
        _ => skip(test, &format!("no tap interfaces: {error}")),
    }
}

fn tap_interfaces_may_go_down_and_away() {
    let netns = Netns::new().expect("network namespace");
    let mut port = match netns.run(|| Tap::open("t0")) {
        Ok(port) => port,
        Err(error) => return without_tap("tap_interfaces_may_go_down_and_away", &error),
    };
    assert!(port.is_up() && port.has_carrier());
    assert_eq!(send(&mut port, &[experimental(&[], 60), experimental(&[], 1514)]), 2);
    assert_eq!(send(&mut port, &[vec![0; 13], experimental(&[], 1515)]), 0);
    assert_eq!(port.counters().dropped(DropReason::TxTooShort), 1);
    assert_eq!(port.counters().dropped(DropReason::TxTooLong), 1);

    netns.link_down("t0").expect("down");
    let error = wait_for_error(&mut port);
    assert!(matches!(error, PortError::LinkDown { .. }), "{error}");
    assert_eq!(send(&mut port, &vec![experimental(&[], 60); 3]), 0);
    assert_eq!(port.counters().dropped(DropReason::TxLinkDown), 3);
    netns.link_up("t0").expect("up");
    wait_until_up(&mut port);
    assert_eq!(send(&mut port, &[experimental(&[], 60)]), 1);

    let second = netns.run(|| Tap::open("t0")).err().expect("an error").to_string();
    assert!(second.contains("another process is using it"), "{second}");
    let other = netns.run(|| Tap::open("lo")).err().expect("an error").to_string();
    assert!(other.contains("something else"), "{other}");

    netns.link_delete("t0").expect("delete");
    let error = wait_for_error(&mut port);
    assert!(matches!(error, PortError::LinkGone { .. }), "{error}");
    drop(port);
    // Without the port the interface is gone.
    drop(netns.run(|| Tap::open("t0")).expect("open"));
    let error = netns.run(|| AfPacket::open("t0", AfPacketConfig::default())).err().expect("an error");
    assert!(matches!(error, PortError::NoSuchInterface { .. }), "{error}");
}

fn an_unknown_interface_is_named() {
    let rack = Rack::new();
    let error =
        rack.switch.run(|| AfPacket::open("veth9", AfPacketConfig::default())).err().expect("an error");
    let message = error.to_string();
    assert!(
        message.starts_with("no such interface 'veth9': choose one that `ip -br link` lists"),
        "{message}"
    );
}

fn permission_is_asked_for() {
    let error = AfPacket::open("lo", AfPacketConfig::default()).err().expect("an error").to_string();
    assert!(error.contains("permission denied") && error.contains("'lo'"), "{error}");
    assert!(error.contains("run as root, with CAP_NET_RAW, or inside `unshare -Urn`"), "{error}");
}
