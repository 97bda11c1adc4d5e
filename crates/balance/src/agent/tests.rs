use super::*;
use crate::report::Load;
use pointsman_wire::Random;

const RACK: &str = r#"
[switch]
reports = "unauthenticated"
mac = "02:50:4d:00:00:01"
gateways = ["10.0.0.1", "10.0.1.1", "fd00::1"]
[agent]
heartbeat_ms = 100
repeat_ms = 5
hold_ms = 20
smoothing = 0.5
latency_ms = { high = 20, low = 10 }
[[server]]
name = "s1"
[[server.device]]
name = "cpu"
kind = "cpu"
port = 2
address = "10.0.1.11"
address6 = "fd00::11"
[[server.device]]
name = "nic"
kind = "smartnic"
port = 3
address = "10.0.1.12"
address6 = "fd00::12"
[[service]]
name = "web"
vip = ["10.0.0.100", "fd00::100"]
protocol = ["tcp", "udp"]
port = 8000
policy = "p4mite"
"#;

fn agent_with(from: &str, to: &str) -> Agent {
    assert!(RACK.contains(from));
    let rack = Rack::parse("rack.toml", &RACK.replace(from, to)).expect("valid");
    Agent::new(AgentConfig::from_rack(&rack, "s1", "nic", "eth0").expect("known"))
}

fn agent() -> Agent {
    agent_with("", "")
}

fn at(us: u64) -> Duration {
    Duration::from_micros(us)
}

#[derive(Clone, Copy)]
struct Tcp {
    sequence: u32,
    flags: u8,
}

const DEVICE4: [u8; 4] = [10, 0, 1, 12];
const ACK: u8 = 0x10;

/// A frame of a client, to the device or (turned around) back.
fn frame(v6: bool, direction: Direction, port: u16, tcp: Option<Tcp>, payload: usize) -> Vec<u8> {
    let ports = match direction {
        Direction::In => [port, 8000],
        Direction::Out => [8000, port],
    };
    let mut l4: Vec<u8> = ports.iter().flat_map(|p| p.to_be_bytes()).collect();
    match tcp {
        Some(t) => {
            l4.extend(t.sequence.to_be_bytes());
            l4.extend([0, 0, 0, 0, 0x50, t.flags, 1, 0, 0, 0, 0, 0]);
        }
        None => {
            l4.extend(((payload + 8) as u16).to_be_bytes());
            l4.extend([0, 0]);
        }
    }
    let header = l4.len();
    l4.extend(std::iter::repeat_n(7, payload.min(60)));
    let number = if tcp.is_some() { 6 } else { 17 };
    let mut f = vec![2; 12];
    if v6 {
        f.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        f.extend(((header + payload) as u16).to_be_bytes());
        f.extend([number, 64]);
        let (device, client) = ("fd00::12", "fd00::2");
        let (s, d) = if direction == Direction::In { (client, device) } else { (device, client) };
        for a in [s, d] {
            f.extend(a.parse::<std::net::Ipv6Addr>().expect("valid").octets());
        }
    } else {
        f.extend([0x08, 0x00, 0x45, 0]);
        f.extend(((20 + header + payload) as u16).to_be_bytes());
        f.extend([0, 0, 0, 0, 64, number, 0, 0]);
        let (s, d) =
            if direction == Direction::In { ([10, 0, 0, 2], DEVICE4) } else { (DEVICE4, [10, 0, 0, 2]) };
        f.extend(s);
        f.extend(d);
    }
    f.extend(l4);
    f
}

fn udp(a: &mut Agent, now: Duration, direction: Direction, port: u16) -> Vec<Output> {
    a.step(now, Input::Packet { direction, frame: &frame(false, direction, port, None, 32) })
}

fn tcp(
    a: &mut Agent,
    now: Duration,
    direction: Direction,
    sequence: u32,
    flags: u8,
    payload: usize,
) -> Vec<Output> {
    let tcp = Some(Tcp { sequence, flags });
    a.step(now, Input::Packet { direction, frame: &frame(true, direction, 5000, tcp, payload) })
}

/// The reports among the outputs: is the device available?
fn reports(out: &[Output]) -> Vec<bool> {
    out.iter()
        .filter_map(|o| match o {
            Output::Send { to, payload } => {
                assert_eq!(to.to_string(), "10.0.1.1:9876");
                let r = Report::decode(payload).expect("a report");
                assert_eq!((r.server, r.mask, r.available & !2), (1, 2, 0));
                Some(r.available == 2)
            }
            _ => None,
        })
        .collect()
}

#[test]
fn configuration() {
    let a = agent();
    assert_eq!(a.config().device, DeviceNumber::new(1, 1));
    assert_eq!(a.config().ports, [(Protocol::Tcp, 8000), (Protocol::Udp, 8000)].into());
    let rack = Rack::parse("r", RACK).expect("valid");
    let fails = |s, d| AgentConfig::from_rack(&rack, s, d, "eth0").expect_err("unknown").to_string();
    assert!(fails("s2", "cpu").contains("there are: s1"));
    assert!(fails("s1", "gpu").contains("there are: cpu, nic"));
    let rack =
        Rack::parse("r", &RACK.replace("[\"10.0.0.1\", \"10.0.1.1\", \"fd00::1\"]", "[]")).expect("valid");
    let config = AgentConfig::from_rack(&rack, "s1", "cpu", "eth0").expect("a VIP will do");
    assert_eq!(config.report_to.to_string(), "10.0.0.100:9876");
}

/// Steps at every deadline up to `end`; the times of the reports, in milliseconds.
fn run(a: &mut Agent, end: Duration) -> Vec<(u64, bool)> {
    let mut sent = Vec::new();
    let mut last = None;
    while a.next_deadline() <= end {
        let now = a.next_deadline();
        assert_ne!(last, Some(now), "the deadline does not move");
        last = Some(now);
        sent.extend(reports(&a.step(now, Input::Tick)).into_iter().map(|r| (now.as_millis() as u64, r)));
    }
    sent
}

#[test]
fn heartbeat() {
    let mut a = agent();
    assert_eq!(run(&mut a, at(350_000)), [(0, true), (100, true), (200, true), (300, true)]);
}

/// An agent woken late sends as many reports as requested; missed ones are not made up for.
#[test]
fn heartbeats_do_not_drift() {
    let mut a = agent();
    let mut random = Random::new(3);
    let start = at(1_900_000_000_000_000);
    let mut sent = 0;
    a.step(start, Input::Tick);
    loop {
        let now = a.next_deadline() + at(random.below(60_000));
        if now > start + Duration::from_secs(100) {
            break;
        }
        sent += reports(&a.step(now, Input::Tick)).len();
    }
    assert!((998..=1000).contains(&sent), "{sent} in 100 s, every 100 ms");
    let mut a = agent();
    run(&mut a, at(100_000));
    assert_eq!(reports(&a.step(at(555_000), Input::Tick)), [true], "one for all that were missed");
    assert_eq!(run(&mut a, at(800_000)), [(600, true), (700, true), (800, true)]);
    // Reports in between count: the next is due an interval later.
    udp(&mut a, at(810_000), Direction::In, 1000);
    assert_eq!(run(&mut a, at(1_000_000)), [(830, false), (835, false), (935, false)]);
}

/// A device that stops answering is reported busy when its oldest request is as old as the threshold, twice.
#[test]
fn stuck() {
    let mut a = agent();
    run(&mut a, at(0));
    udp(&mut a, at(10_000), Direction::In, 1000);
    assert_eq!(a.next_deadline(), at(30_000));
    assert_eq!(run(&mut a, at(120_000)), [(30, false), (35, false)]);
    assert_eq!(run(&mut a, at(140_000)), [(135, false)], "heartbeats continue");
    // The answer comes: no request waits, so it is available, and reports that twice.
    assert_eq!(reports(&udp(&mut a, at(150_000), Direction::Out, 1000)), [true]);
    assert_eq!(run(&mut a, at(200_000)), [(155, true)]);
}

/// A device that answers nothing at all is given up and tried again.
#[test]
fn dead() {
    let mut a = agent();
    udp(&mut a, at(0), Direction::In, 1000);
    let sent = run(&mut a, at(11_000_000));
    assert!(sent.iter().filter(|(t, _)| (20..10_000).contains(t)).all(|(_, available)| !available));
    assert!(sent.iter().filter(|(t, _)| *t >= 10_000).all(|(_, available)| *available));
    assert_eq!(a.metrics(at(11_000_000)).lost, 1);
}

#[test]
fn crossing_and_hysteresis() {
    let mut a = agent();
    run(&mut a, at(0));
    // A queue: requests every 5 ms, each answered after 15 ms: between the thresholds, still available.
    for i in 0..20u64 {
        let out = udp(&mut a, at(i * 5_000 + 1), Direction::In, 1000 + i as u16);
        assert!(!out.iter().any(|o| matches!(o, Output::Busy(_))));
        if i >= 3 {
            udp(&mut a, at(i * 5_000 + 2), Direction::Out, 1000 + i as u16 - 3);
        }
        assert!(!a.is_busy(), "{i}");
    }
    let mut now = 100_000;
    // The queue grows: the oldest of four waits longer than 20 ms.
    let out = udp(&mut a, at(now + 20_000), Direction::In, 2000);
    assert!(matches!(&out[0], Output::Busy(why) if why.starts_with("s1/nic: latency_ms is 3")), "{out:?}");
    assert_eq!(reports(&out), [false]);
    // It shrinks: the average and the oldest fall below the high threshold, but not yet to the low one.
    for port in 1017..1020 {
        now += 9_000;
        udp(&mut a, at(now + 20_000), Direction::Out, port);
        assert!(a.is_busy());
    }
    // The last one is answered: nothing waits.
    let out = udp(&mut a, at(now + 25_000), Direction::Out, 2000);
    assert!(out.contains(&Output::Available("s1/nic".into())), "{out:?}");
}

#[test]
fn hold_time() {
    let mut a = agent_with(
        "latency_ms = { high = 20, low = 10 }",
        "latency_ms = { high = 999, low = 999 }\noutstanding = { high = 2, low = 1 }",
    );
    run(&mut a, at(0));
    udp(&mut a, at(1_000), Direction::In, 1);
    let out = udp(&mut a, at(2_000), Direction::In, 2);
    assert_eq!(out[0], Output::Busy("s1/nic: outstanding is 2.0, threshold 2".into()));
    // Below the low threshold at once, but held for 20 ms.
    assert!(reports(&udp(&mut a, at(3_000), Direction::Out, 1)).is_empty());
    assert!(a.is_busy());
    assert_eq!(run(&mut a, at(21_999)), [(7, false)]);
    assert_eq!(run(&mut a, at(22_000)), [(22, true)]);
    assert!(!a.is_busy());
}

/// A slow answer makes the device busy for exactly the hold time, unless the last pulse still rests; unanswered requests do not count.
#[test]
fn pulses() {
    let mut a = agent_with("repeat_ms = 5\nhold_ms = 20", "repeat_ms = 0\nhold_ms = 5\nrest_ms = 40");
    assert_eq!(reports(&a.step(at(1_000_000), Input::Tick)), [true]);
    (0..4).for_each(|port| drop(udp(&mut a, at(1_000_000), Direction::In, 2000 + port)));
    // Long after the threshold of 20 ms, nothing was answered.
    assert!(run(&mut a, at(1_060_000)).is_empty());
    assert_eq!(reports(&udp(&mut a, at(1_060_000), Direction::Out, 2000)), [false]);
    assert!(reports(&udp(&mut a, at(1_062_000), Direction::Out, 2001)).is_empty(), "busy already");
    assert_eq!(run(&mut a, at(1_070_000)), [(1065, true)]);
    assert!(reports(&udp(&mut a, at(1_104_000), Direction::Out, 2002)).is_empty(), "it rests");
    assert_eq!(reports(&udp(&mut a, at(1_105_000), Direction::Out, 2003)), [false]);
    assert_eq!(run(&mut a, at(1_111_000)), [(1110, true)]);
    // A quick answer is not a reason.
    assert!(reports(&udp(&mut a, at(1_150_000), Direction::In, 3000)).is_empty());
    assert!(reports(&udp(&mut a, at(1_155_000), Direction::Out, 3000)).is_empty());
}

#[test]
fn requests_that_were_overtaken_are_lost() {
    let mut a = agent();
    udp(&mut a, at(0), Direction::In, 1);
    udp(&mut a, at(1_000), Direction::In, 2);
    udp(&mut a, at(2_000), Direction::Out, 2);
    run(&mut a, at(999_000));
    assert!(a.is_busy());
    run(&mut a, at(1_001_000));
    assert!(!a.is_busy());
    assert_eq!((a.metrics(at(1_001_000)).lost, a.metrics(at(1_001_000)).outstanding), (1, 0));
}

/// Reports say what 99 of 100 requests stayed within, lost ones included, until the requests are half a minute old.
#[test]
fn reports_have_the_latency() {
    let mut a = agent();
    let p99 = |a: &mut Agent, now| {
        let out = a.step(now, Input::Tick);
        let Some(Output::Send { payload, .. }) = out.last() else { panic!("no heartbeat: {out:?}") };
        let report = Report::decode(payload).expect("a report");
        Latency99::from_code((report.metrics >> METRICS_LATENCY) as u8).ms()
    };
    assert_eq!(p99(&mut a, at(0)), None);
    for n in 0..99 {
        udp(&mut a, at(1_000 + n), Direction::In, n as u16);
        udp(&mut a, at(6_000 + n), Direction::Out, n as u16);
    }
    let ms = p99(&mut a, at(200_000)).expect("known");
    assert!((5.0..5.7).contains(&ms), "{ms}");
    // Two of 102 are lost: a later one was answered.
    udp(&mut a, at(300_000), Direction::In, 200);
    udp(&mut a, at(300_001), Direction::In, 201);
    udp(&mut a, at(300_002), Direction::In, 202);
    udp(&mut a, at(300_500), Direction::Out, 202);
    let ms = p99(&mut a, at(2_000_000)).expect("known");
    assert!((1_000.0..2_000.0).contains(&ms), "{ms}");
    assert_eq!(a.metrics(at(2_000_000)).lost, 2);
    assert_eq!(p99(&mut a, at(40_000_000)), None);
}

#[test]
fn several_datagrams_are_one_request() {
    let mut a = agent();
    for t in [0, 1_000, 2_000] {
        udp(&mut a, at(t), Direction::In, 1);
    }
    assert_eq!(a.metrics(at(5_000)).outstanding, 1);
    assert_eq!(a.metrics(at(5_000)).latency_ms, 5.0);
    udp(&mut a, at(6_000), Direction::Out, 1);
    udp(&mut a, at(7_000), Direction::Out, 1);
    assert_eq!((a.metrics(at(7_000)).answered, a.metrics(at(7_000)).outstanding), (1, 0));
}

#[test]
fn tcp_connections() {
    let mut a = agent();
    let outstanding = |a: &Agent| a.metrics(at(0)).outstanding;
    tcp(&mut a, at(0), Direction::In, 100, 0x02, 0);
    tcp(&mut a, at(0), Direction::Out, 900, 0x12, 0);
    tcp(&mut a, at(0), Direction::In, 101, ACK, 0);
    assert_eq!(outstanding(&a), 0, "a handshake is not a request");
    tcp(&mut a, at(1_000), Direction::In, 101, ACK, 1000);
    tcp(&mut a, at(2_000), Direction::In, 1101, ACK, 1000);
    assert_eq!(a.metrics(at(3_000)).latency_ms, 1.0, "from the last segment");
    tcp(&mut a, at(4_000), Direction::In, 1101, ACK, 1000);
    assert_eq!(a.metrics(at(5_000)).latency_ms, 3.0, "a retransmission does not count");
    tcp(&mut a, at(6_000), Direction::Out, 901, ACK, 0);
    assert_eq!(outstanding(&a), 1, "an acknowledgement is not an answer");
    tcp(&mut a, at(7_000), Direction::Out, 901, ACK, 500);
    assert_eq!(outstanding(&a), 0);
    tcp(&mut a, at(8_000), Direction::In, 2101, ACK, 10);
    tcp(&mut a, at(9_000), Direction::Out, 1401, 0x14, 0);
    assert_eq!(outstanding(&a), 0, "reset: no request waits");
    tcp(&mut a, at(10_000), Direction::In, 2111, ACK, 10);
    tcp(&mut a, at(11_000), Direction::In, 2121, 0x11, 0);
    assert_eq!(outstanding(&a), 0, "the client went away");
    tcp(&mut a, at(12_000), Direction::In, 5, 0x11 | 8, 10);
    assert_eq!(outstanding(&a), 1, "the last request comes with the FIN");
}

#[test]
fn other_traffic_does_not_count() {
    let mut a = agent();
    let mut f = frame(false, Direction::In, 9, None, 5);
    f[36] ^= 1; // another port
    a.step(at(0), Input::Packet { direction: Direction::In, frame: &f });
    let mut f = frame(false, Direction::In, 9, None, 5);
    f[33] ^= 1; // another address
    a.step(at(0), Input::Packet { direction: Direction::In, frame: &f });
    let mut f = frame(false, Direction::In, 9, None, 5);
    f[21] = 1; // a later fragment
    a.step(at(0), Input::Packet { direction: Direction::In, frame: &f });
    assert_eq!(a.metrics(at(0)).outstanding, 0);
    a.step(
        at(0),
        Input::Packet { direction: Direction::In, frame: &frame(false, Direction::In, 9, None, 5) },
    );
    assert_eq!(a.metrics(at(0)).outstanding, 1);
}

/// The frame, with a VIP of the service in the place of the device's address.
fn with_vip(v6: bool, mut frame: Vec<u8>) -> Vec<u8> {
    let octets = |a: &str| match a.parse().expect("valid") {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    };
    let (device, vip) =
        if v6 { (octets("fd00::12"), octets("fd00::100")) } else { (DEVICE4.to_vec(), octets("10.0.0.100")) };
    let at = frame.windows(device.len()).position(|w| w == device).expect("there");
    frame[at..at + vip.len()].copy_from_slice(&vip);
    frame
}

/// The frame in another packet to the device, as the switch makes it.
fn tunnelled(v6: bool, inner: &[u8]) -> Vec<u8> {
    let packet = &inner[14..];
    let mut outer = frame(v6, Direction::In, 0, None, packet.len());
    outer.truncate(if v6 { 54 } else { 34 });
    outer[if v6 { 20 } else { 23 }] = if v6 { 41 } else { 4 };
    outer.extend(packet);
    outer
}

#[test]
fn direct_answers_count() {
    for (setting, in_tunnel) in [("true", false), ("\"ipip\"", true)] {
        for v6 in [false, true] {
            let policy = format!("policy = \"p4mite\"\ndirect_return = {setting}");
            let mut a = agent_with("policy = \"p4mite\"", &policy);
            let [request, answer] =
                [Direction::In, Direction::Out].map(|d| with_vip(v6, frame(v6, d, 9, None, 32)));
            let request = if in_tunnel { tunnelled(v6, &request) } else { request };
            a.step(at(0), Input::Packet { direction: Direction::In, frame: &request });
            assert_eq!(a.metrics(at(0)).outstanding, 1, "{setting}, IPv6: {v6}");
            a.step(at(25_000), Input::Tick);
            assert!(a.is_busy(), "{setting}, IPv6: {v6}: 25 ms exceed 20 ms");
            a.step(at(26_000), Input::Packet { direction: Direction::Out, frame: &answer });
            let metrics = a.metrics(at(26_000));
            assert_eq!((metrics.answered, metrics.outstanding), (1, 0), "{setting}, IPv6: {v6}");
        }
    }
    let mut a = agent();
    let request = with_vip(false, frame(false, Direction::In, 9, None, 32));
    a.step(at(0), Input::Packet { direction: Direction::In, frame: &request });
    assert_eq!(a.metrics(at(0)).outstanding, 0, "a VIP for which the device does not answer directly");
}

#[test]
fn machine() {
    let settings = "outstanding = { high = 9, low = 9 }\ncpu_percent = { high = 90, low = 50 }\nmemory_percent = { high = 90, low = 80 }\nwindow_ms = 1\nnetwork_percent = { high = 50, low = 10 }\nnetwork_mbit_s = 8";
    let mut a = agent_with("latency_ms = { high = 20, low = 10 }", settings);
    a.step(at(0), Input::Stat("cpu  0 0 0 0 0 0 0 0"));
    let out = a.step(at(50_000), Input::Stat("cpu  95 0 0 5 0 0 0 0"));
    assert_eq!(out[0], Output::Busy("s1/nic: cpu_percent is 95.0, threshold 90".into()));
    a.step(at(200_000), Input::Stat("cpu  95 0 0 105 0 0 0 0"));
    assert!(!a.is_busy());
    let out = a.step(at(210_000), Input::MemInfo("MemTotal: 100 kB\nMemAvailable: 5 kB"));
    assert_eq!(out[0], Output::Busy("s1/nic: memory_percent is 95.0, threshold 90".into()));
    a.step(at(300_000), Input::MemInfo("MemTotal: 100 kB\nMemAvailable: 50 kB"));
    assert!(!a.is_busy());
    a.step(at(300_000), Input::NetDev("eth0: 0 0 0 0 0 0 0 0 0 0"));
    let out = a.step(at(400_000), Input::NetDev("eth0: 60000 0 0 0 0 0 0 0 9 0"));
    assert_eq!(out[0], Output::Busy("s1/nic: network_percent is 60.0, threshold 50".into()));
    let out = a.step(at(400_000), Input::MemInfo("nonsense"));
    assert_eq!(out, [Output::Problem("/proc/meminfo has no MemTotal".into())]);
    assert_eq!(a.step(at(400_000), Input::MemInfo("nonsense")), [], "said once");
}

/// Random frames, mangled frames: no panic, bounded memory, deadlines never in the past for long.
#[test]
fn random_frames() {
    let mut random = Random::new(11);
    let mut a = agent();
    let mut now = Duration::ZERO;
    for _ in 0..200_000 {
        now += at(random.below(50));
        let direction = if random.below(2) == 0 { Direction::In } else { Direction::Out };
        let tcp = (random.below(2) == 0)
            .then(|| Tcp { sequence: random.next_u64() as u32, flags: random.next_u64() as u8 });
        let payload = random.below(1400) as usize;
        let mut f = frame(random.below(2) == 0, direction, random.next_u64() as u16, tcp, payload);
        match random.below(4) {
            0 => f.truncate(random.below(f.len() as u64 + 1) as usize),
            1 => {
                let i = random.below(f.len() as u64) as usize;
                f[i] = random.next_u64() as u8;
            }
            _ => {}
        }
        a.step(now, Input::Packet { direction, frame: &f });
    }
    assert!(a.metrics(now).outstanding <= latency::MAX_PENDING);
    assert!(a.metrics(now).answered > 0);
}

#[test]
fn memory_is_bounded() {
    let mut l = Latency::default();
    for i in 0..latency::MAX_PENDING as u32 + 10 {
        let key = Key::new(Protocol::Udp, 1, IpAddr::from(i.to_be_bytes()).into(), 1);
        l.request(i.into(), Protocol::Udp, key, 0);
    }
    assert_eq!((l.outstanding(), l.lost), (latency::MAX_PENDING, 10));
    assert_eq!(l.oldest(), Some(10));
}

/// Every step moves the next deadline into the future, for any thresholds. Otherwise the agent would loop without waiting.
#[test]
fn deadlines_pass() {
    let mut random = Random::new(5);
    for _ in 0..300 {
        let high = 0.1 + random.below(100_000) as f64 / 3000.0;
        let low = high / 2.0;
        let to = format!("latency_ms = {{ high = {high}, low = {low} }}");
        let mut a = agent_with("latency_ms = { high = 20, low = 10 }", &to);
        let mut now = Duration::ZERO;
        let mut spins = 0;
        for _ in 0..100 {
            let next = a.next_deadline();
            spins = if next <= now { spins + 1 } else { 0 };
            assert!(spins < 3, "high {high}: {next:?} at {now:?}");
            now = now.max(next.min(now + at(random.below(20_000))));
            let direction = if random.below(2) == 0 { Direction::In } else { Direction::Out };
            if random.below(2) == 0 {
                udp(&mut a, now, direction, random.below(5) as u16);
            } else {
                a.step(now, Input::Tick);
            }
        }
    }
}

fn keyed(settings: &str) -> Agent {
    let text = RACK.replace("reports = \"unauthenticated\"", "report_keys = \"keys\"");
    let mut rack = Rack::parse(
        "rack.toml",
        &text.replace("repeat_ms = 5", &format!("{settings}\nhealth = {{ kind = \"none\" }}")),
    )
    .expect("valid");
    let no_key = AgentConfig::from_rack(&rack, "s1", "nic", "eth0").expect_err("no key").to_string();
    assert!(no_key.contains("no key for `s1/nic` in keys"), "{no_key}");
    rack.read_keys("keys", "s1/nic 1 0101010101010101\ns1/nic 2 0202020202020202\n").expect("valid");
    Agent::new(AgentConfig::from_rack(&rack, "s1", "nic", "eth0").expect("known"))
}

/// Reports are signed with the newest key, each with a higher number than all before it, also those of a restarted
/// agent.
#[test]
fn signed_reports() {
    let key = |n| (n == 2).then(|| ReportKey::new([2; 8]));
    let mut highest = 0;
    for start in [1_900_000_000u64, 1_900_000_100] {
        let mut a = keyed("repeat_ms = 1");
        let now = Duration::from_secs(start);
        for n in 0..50 {
            // The clock does not advance.
            let mut out = a.step(now, Input::Tick);
            a.heartbeat_at = now;
            assert_eq!(out.len(), 1, "{n}");
            let Some(Output::Send { payload, .. }) = out.pop() else { panic!("no report") };
            let (report, stamp) = Report::decode_signed(&payload, key).expect("signed");
            assert_eq!((report.server, report.mask, stamp.number), (1, 2, 2));
            assert!(stamp.sequence > highest, "{n}");
            highest = stamp.sequence;
        }
        assert_eq!(highest, start * 1_000_000 + 49);
    }
}

#[test]
fn reports_in_frames() {
    let mut a = keyed("repeat_ms = 1\nform = \"frame\"");
    let out = a.step(Duration::from_secs(5), Input::Tick);
    let [Output::Frame { to, payload }] = out.as_slice() else { panic!("{out:?}") };
    assert_eq!(to.to_string(), "02:50:4d:00:00:01");
    let report = FrameReport::decode(payload, |_| Some(ReportKey::new([2; 8]))).expect("signed");
    assert_eq!((report.device, report.busy), (DeviceNumber::new(1, 1), false));
    assert_eq!(report.stamp, Stamp { number: 2, sequence: 5_000_000 });
}

/// A host reports for its GPUs from their exporter's metrics; it omits one whose source is silent.
#[test]
fn several_devices() {
    let gpus: String = (0..2)
        .map(|i| {
            format!(
                "[[server.device]]\nname = \"gpu{i}\"\nslot = {}\nkind = \"gpu\"\nport = 2\naddress = \"10.0.1.2{i}\"\n\
                 reported_by = \"cpu\"\n[server.device.agent]\nhold_ms = 0\ncpu_percent = {{ high = 90, low = 50 }}\n\
                 [[server.device.agent.source]]\nprometheus = \"http://127.0.0.1:9400/metrics\"\nstale_ms = 300\n\
                 compute = 'DCGM_FI_DEV_GPU_UTIL{{gpu=\"{i}\"}}'\nqueue = 'sum(waiting)'\n",
                4 + i
            )
        })
        .collect();
    let text = RACK
        .replace("[[service]]", &format!("{gpus}[[service]]"))
        .replace("fd00::100", "10.0.0.100")
        .replace("[\"10.0.0.100\", \"10.0.0.100\"]", "\"10.0.0.100\"");
    let rack = Rack::parse("rack.toml", &text).unwrap_or_else(|e| panic!("{e}"));
    let gpu = AgentConfig::from_rack(&rack, "s1", "gpu0", "eth0").expect_err("it has no agent").to_string();
    assert!(gpu.contains("agent of `s1/cpu` reports for `s1/gpu0`"), "{gpu}");
    let config = AgentConfig::from_rack(&rack, "s1", "cpu", "eth0").expect("known");
    assert_eq!(config.others.iter().map(|o| o.name.as_str()).collect::<Vec<_>>(), ["s1/gpu0", "s1/gpu1"]);
    let mut a = Agent::new(config);
    let last = |out: &[Output]| {
        let found = out.iter().rev().find_map(|o| match o {
            Output::Send { payload, .. } => Some(Report::decode(payload).expect("a report")),
            _ => None,
        });
        found.map(|r| (r.mask, r.available, [r.words[0], r.words[4], r.words[5]].map(Load::from_word)))
    };
    let at = |n: u64| Duration::from_millis(1_000_000 + n);
    // Before their sources have answered nothing is known of the GPUs.
    let (mask, ..) = last(&a.step(at(0), Input::Tick)).expect("a report");
    assert_eq!(mask, 1);
    let page = |a: &mut Agent, now, busy: u8| {
        let page = format!(
            "HTTP/1.0 200 OK\r\n\r\nDCGM_FI_DEV_GPU_UTIL{{gpu=\"0\"}} {busy}\nDCGM_FI_DEV_GPU_UTIL{{gpu=\"1\"}} 7\nwaiting 3\n"
        );
        let mut out = Vec::new();
        for device in [1, 2] {
            out.extend(
                a.step(now, Input::Source { device, source: 0, answer: Answer::Bytes(page.as_bytes()) }),
            );
        }
        out
    };
    page(&mut a, at(10), 40);
    let (mask, available, [_, gpu0, gpu1]) = last(&a.step(at(100), Input::Tick)).expect("a heartbeat");
    assert_eq!((mask, available), (0b11_0001, 0b11_0001));
    assert_eq!((gpu0.compute, gpu0.queue, gpu1.compute, gpu1.queue), (40, 3, 7, 3));
    // One gets busy: reported at once.
    let out = page(&mut a, at(110), 95);
    assert_eq!(out[0], Output::Busy("s1/gpu0: cpu_percent is 95.0, threshold 90".into()));
    assert_eq!(last(&out).map(|(mask, available, _)| (mask, available)), Some((0b11_0001, 0b10_0001)));
    let out = page(&mut a, at(120), 50);
    assert!(out.contains(&Output::Available("s1/gpu0".into())), "{out:?}");
    // No answer for too long: the GPUs are not spoken of, the host itself is.
    let failed = Input::Source { device: 1, source: 0, answer: Answer::Failed("refused") };
    let out = a.step(at(150), failed);
    assert!(out.contains(&Output::Problem("http://127.0.0.1:9400/metrics: refused".into())), "{out:?}");
    assert_eq!(last(&a.step(at(500), Input::Tick)).map(|(mask, ..)| mask), Some(1));
    let figures = a.figures(at(500));
    assert_eq!(figures.failures, 1);
    let [_, gpu0, gpu1] = &figures.devices[..] else { panic!("{figures:?}") };
    assert_eq!((gpu0.name.as_str(), gpu0.reported), ("s1/gpu0", false));
    assert_eq!((gpu1.name.as_str(), gpu1.load.compute), ("s1/gpu1", 7));
    // One line when it answers again, although both GPUs ask there; then its problems are news once more.
    let is_line = |o: &Output| matches!(o, Output::Problem(_) | Output::Answers(_));
    let lines = |out: Vec<Output>| out.into_iter().filter(is_line).collect::<Vec<_>>();
    assert_eq!(lines(page(&mut a, at(510), 40)), [Output::Answers("http://127.0.0.1:9400/metrics".into())]);
    assert_eq!(last(&a.step(at(600), Input::Tick)).map(|(mask, ..)| mask), Some(0b11_0001));
    assert_eq!((lines(a.step(at(610), failed)).len(), lines(a.step(at(620), failed)).len()), (1, 0));
    // After a short silence there is nothing to say.
    assert_eq!(lines(page(&mut a, at(630), 40)), []);
    assert_eq!(lines(a.step(at(640), failed)), []);
}

/// The probes among the outputs, by target.
fn probes(out: &[Output]) -> Vec<usize> {
    let probe = |o: &Output| match o {
        Output::Probe { device: 0, target, .. } => Some(*target),
        _ => None,
    };
    out.iter().filter_map(probe).collect()
}

fn probed(a: &mut Agent, now: Duration, result: Result<(), &str>) -> Vec<Output> {
    a.step(now, Input::Probed { device: 0, target: 0, result })
}

/// An agent with one target.
fn checked(health: &str) -> Agent {
    let text = RACK.replace("vip = [\"10.0.0.100\", \"fd00::100\"]", "vip = \"10.0.0.100\"");
    let rack =
        Rack::parse("rack.toml", &text.replace("[agent]", &format!("[agent]\n{health}"))).expect("valid");
    let config = AgentConfig::from_rack(&rack, "s1", "nic", "eth0").expect("known");
    assert_eq!(config.checks.len(), 1);
    assert_eq!(config.checks[0].to.to_string(), "10.0.1.12:8000");
    Agent::new(config)
}

/// Mask, available devices and whether they failed, of the reports among the outputs.
fn said(out: &[Output]) -> Vec<(u8, u8, bool)> {
    let report = |o: &Output| match o {
        Output::Send { payload, .. } => Some(Report::decode(payload).expect("a report")),
        _ => None,
    };
    out.iter().filter_map(report).map(|r| (r.mask, r.available, r.metrics & METRICS_FAILED != 0)).collect()
}

#[test]
fn a_failed_health_check_is_reported_at_once_and_every_heartbeat() {
    let mut a = checked("health = { fall = 2, rise = 2, interval_ms = 250, timeout_ms = 100 }");
    assert_eq!(probes(&a.step(at(0), Input::Tick)), [0]);
    assert_eq!(said(&probed(&mut a, at(1_000), Err("connection refused"))), []);
    let mut out = Vec::new();
    while a.next_deadline() <= at(250_000) {
        let now = a.next_deadline();
        out.extend(a.step(now, Input::Tick));
    }
    assert_eq!((probes(&out), said(&out)), (vec![0], vec![(2, 2, false); 2]));
    let out = probed(&mut a, at(251_000), Err("connection refused"));
    assert_eq!(said(&out), [(2, 0, true)]);
    let why = "s1/nic failed its health check: 10.0.1.12:8000: connection refused";
    assert!(out.contains(&Output::Failed(why.into())), "{out:?}");
    assert_eq!(said(&a.step(at(256_000), Input::Tick)), [(2, 0, true)], "said twice");
    assert_eq!(said(&a.step(at(356_000), Input::Tick)), [(2, 0, true)], "heartbeats continue");
    // Two have to pass; the result of a probe that timed out does not count.
    a.step(at(500_000), Input::Tick);
    assert_eq!(said(&probed(&mut a, at(501_000), Ok(()))), []);
    assert_eq!(said(&probed(&mut a, at(502_000), Ok(()))), []);
    a.step(at(750_000), Input::Tick);
    let out = probed(&mut a, at(751_000), Ok(()));
    assert_eq!(said(&out), [(2, 2, false)]);
    assert!(out.contains(&Output::Healthy("s1/nic".into())), "{out:?}");
}

/// The agent itself sees to it that a probe without end has failed.
#[test]
fn probes_without_an_answer_have_failed() {
    let mut a = checked("health = { fall = 2, interval_ms = 250, timeout_ms = 100 }");
    let mut now = at(0);
    let mut out = Vec::new();
    while !out.iter().any(|o| matches!(o, Output::Failed(_))) {
        out.extend(a.step(now, Input::Tick));
        now = a.next_deadline().max(now + at(1));
        assert!(now < at(5_000_000), "it has not failed");
    }
    assert!(out.iter().any(|o| matches!(o, Output::Failed(why) if why.ends_with("no answer within 100 ms"))));
}

/// Without a configured check, a port that has never answered says nothing about the device.
#[test]
fn an_implied_check_counts_once_it_has_passed() {
    let mut a = checked("");
    let mut problems = 0;
    for i in 0..10 {
        a.step(at(i * 250_000), Input::Tick);
        let out = probed(&mut a, at(i * 250_000 + 1), Err("connection refused"));
        assert!(!out.iter().any(|o| matches!(o, Output::Failed(_))));
        problems += out.iter().filter(|o| matches!(o, Output::Problem(_))).count();
    }
    assert_eq!(problems, 1, "said once");
    // And again an hour later.
    let hour = 3_600_000_000;
    for (late, said) in [(0, false), (1_000_000, true), (2_000_000, false)] {
        a.step(at(hour + late), Input::Tick);
        let out = probed(&mut a, at(hour + late + 1), Err("connection refused"));
        assert_eq!(out.iter().any(|o| matches!(o, Output::Problem(_))), said, "{late} us after an hour");
    }
    let (mut failed, mut checked) = (Vec::new(), Vec::new());
    let results = [Ok(()), Ok(()), Err("connection refused"), Err("connection refused")];
    for (i, result) in (0..).zip(results) {
        a.step(at(hour + 3_000_000 + i * 250_000), Input::Tick);
        let out = probed(&mut a, at(hour + 3_000_000 + i * 250_000 + 1), result);
        failed.push(out.iter().any(|o| matches!(o, Output::Failed(_))));
        checked.extend(
            out.into_iter().filter_map(|o| if let Output::Checked(text) = o { Some(text) } else { None }),
        );
    }
    assert_eq!(failed, [false, false, false, true]);
    assert!(
        matches!(&checked[..], [text] if text.ends_with(" answers: its health is checked from now on")),
        "{checked:?}"
    );
}
