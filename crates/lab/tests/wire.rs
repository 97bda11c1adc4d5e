//! Devices and load generator over real sockets, between namespaces that the test makes itself.

use pointsman_lab::device::{Calibration, Device, DeviceConfig, DeviceCounters, Model, ServiceTime};
use pointsman_lab::harness::Test;
use pointsman_lab::load::{
    self, Arrivals, BulkConfig, ConsistencyConfig, Direction, LoadConfig, LoadResult, SessionsConfig,
    SourcePorts,
};
use pointsman_lab::process::Process;
use pointsman_lab::proxy::{Front, NGINX_PACKAGES, NGINX_STREAM, nginx};
use pointsman_lab::rack::{Link, Rack, RackSpec, join};
use pointsman_lab::wire::{Key, Keyring, Kind, Request};
use pointsman_lab::{Namespace, ensure};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, SocketAddrV4, UdpSocket};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const SEED: u64 = 7;
const PORT: u16 = 7000;

type TestResult = Result<(), Box<dyn std::error::Error>>;

pub const TESTS: &[(&str, Test)] = &[
    ("namespaces_are_separate_and_vanish", namespaces_are_separate_and_vanish),
    ("below_saturation_latency_is_service_time", below_saturation_latency_is_service_time),
    ("a_device_tells_how_busy_it_is", a_device_tells_how_busy_it_is),
    ("a_device_that_computes_is_busy", a_device_that_computes_is_busy),
    ("above_saturation_queue_grows_and_overflows", above_saturation_queue_grows_and_overflows),
    ("no_receiver_means_all_lost", no_receiver_means_all_lost),
    ("answers_to_an_earlier_run_do_not_count", answers_to_an_earlier_run_do_not_count),
    ("an_impostor_is_noticed", an_impostor_is_noticed),
    ("consistency_over_udp_and_tcp", consistency_over_udp_and_tcp),
    ("a_device_that_changes_is_a_violation", a_device_that_changes_is_a_violation),
    ("bulk_transfers_are_intact", bulk_transfers_are_intact),
    ("sessions_join_and_are_answered", sessions_join_and_are_answered),
    ("a_proxy_answers_for_its_server", a_proxy_answers_for_its_server),
    ("a_program_has_a_quota", a_program_has_a_quota),
    ("the_rack_is_wired", the_rack_is_wired),
    ("what_the_switch_sees_is_complete", what_the_switch_sees_is_complete),
    ("cpu_model_computes_under_a_quota", cpu_model_computes_under_a_quota),
];

/// A client and a device at the two ends of a cable.
struct Cable {
    client: Namespace,
    server: Namespace,
    client_link: Link,
    server_link: Link,
    keys: Keyring,
}

impl Cable {
    fn new() -> Result<Self, Box<dyn std::error::Error>> {
        let client_link = Link::in_subnet(1, 0);
        let mut server_link = client_link.clone();
        std::mem::swap(&mut server_link.ipv4, &mut server_link.gateway_ipv4);
        std::mem::swap(&mut server_link.ipv6, &mut server_link.gateway_ipv6);
        std::mem::swap(&mut server_link.mac, &mut server_link.gateway_mac);
        let (client, server) = (Namespace::new("client")?, Namespace::new("server")?);
        join((&client, &client_link), (&server, &server_link), 1500)?;
        let keys = Keyring::derive(SEED, ["s1/cpu", "s1/nic"])?;
        Ok(Self { client, server, client_link, server_link, keys })
    }

    fn device(&self, name: &str) -> DeviceConfig {
        DeviceConfig {
            name: name.into(),
            key: Key::derive(SEED, name),
            addresses: vec![self.server_link.ipv4.into(), self.server_link.ipv6.into()],
            port: PORT,
            model: Model::Timed(ServiceTime::Deterministic),
            service: Duration::from_millis(2),
            speed: 1.0,
            servers: 1,
            buffer: 50,
            seed: SEED,
            metrics: None,
        }
    }

    fn ports(&self, v6: bool) -> SourcePorts {
        let address: IpAddr = if v6 { self.client_link.ipv6.into() } else { self.client_link.ipv4.into() };
        SourcePorts::new(vec![address], 1024..=65535, Duration::from_secs(5)).expect("a valid range")
    }

    fn target(&self, v6: bool) -> SocketAddr {
        let ip: IpAddr = if v6 { self.server_link.ipv6.into() } else { self.server_link.ipv4.into() };
        SocketAddr::new(ip, PORT)
    }

    fn load(&self, config: &LoadConfig) -> Result<LoadResult, Box<dyn std::error::Error>> {
        let mut ports = self.ports(config.target.is_ipv6());
        Ok(self.client.enter(|| load::run(config, &mut ports, &self.keys, |_| {}))??)
    }
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn namespaces_are_separate_and_vanish() -> TestResult {
    let inside = || std::fs::read_link("/proc/thread-self/ns/net").map(|p| p.display().to_string());
    let (a, b) = (Namespace::new("a")?, Namespace::new("b")?);
    let (in_a, in_b, outside) = (a.enter(inside)??, b.enter(inside)??, inside()?);
    ensure!(in_a != in_b && in_a != outside, "{in_a} {in_b} {outside}");
    let thread = a.spawn("in a", inside)?.join().map_err(|_| "panicked")??;
    ensure!(thread == in_a, "{thread} {in_a}");
    let grandchild =
        a.enter(|| std::thread::scope(|s| s.spawn(inside).join()))?.map_err(|_| "panicked")??;
    ensure!(grandchild == in_a, "{grandchild} {in_a}");
    // Many more than any limit would allow if they stayed.
    for i in 0..50 {
        Namespace::new(format!("n{i}"))?;
    }
    Ok(())
}

/// A device's counters, once it has counted this many answers and no request waits: the client may have the last answer
/// before.
fn counted(device: &Device, answers: u64) -> DeviceCounters {
    for _ in 0..2000 {
        let counters = device.stats().read();
        if counters.answers >= answers && counters.in_system == 0 {
            break;
        }
        std::thread::sleep(ms(1));
    }
    device.stats().read()
}

fn below_saturation_latency_is_service_time() -> TestResult {
    let cable = Cable::new()?;
    let ten_ms = DeviceConfig { service: ms(10), servers: 2, ..cable.device("s1/cpu") };
    let device = Device::start(&cable.server, ten_ms)?;
    for v6 in [false, true] {
        // 75 % of the capacity of 200/s, at equal gaps: no request ever waits for another.
        let config = LoadConfig {
            arrivals: Arrivals::Constant,
            ..LoadConfig::new(cable.target(v6), 150.0, ms(1000), SEED)
        };
        let result = cable.load(&config)?;
        ensure!(result.sent == 150 && result.answered == 150 && result.lost == 0, "{result:?}");
        ensure!(result.bad_signatures == 0 && result.wrong_source == 0, "{result:?}");
        // The kernel and two wake-ups add some 0.1 ms to the best; the rest is room for a busy machine. With one
        // worker instead of two the median would be a quarter of a second.
        let (best, p50) = (result.latencies.percentile(5.0), result.latencies.percentile(50.0));
        ensure!(best >= ms(10) && best < Duration::from_micros(10_500), "best {best:?}");
        ensure!(p50 >= ms(10) && p50 < ms(20), "p50 {p50:?}");
        ensure!(result.share() == [("s1/cpu".into(), 1.0), ("s1/nic".into(), 0.0)].into(), "{result:?}");
    }
    let counters = counted(&device, 300);
    ensure!(counters.requests == 300 && counters.answers == 300, "{counters:?}");
    ensure!(counters.busy == ms(10) * 300 && counters.in_system == 0, "{counters:?}");
    device.stop()?;
    Ok(())
}

/// The page of a device's counters.
fn metrics(cable: &Cable, at: SocketAddr) -> Result<String, Box<dyn std::error::Error>> {
    let mut stream = cable.server.enter(|| std::net::TcpStream::connect(at))??;
    stream.set_read_timeout(Some(ms(5000)))?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// A counter of the time that workers were busy, in Prometheus' text format.
fn a_device_tells_how_busy_it_is() -> TestResult {
    let cable = Cable::new()?;
    let at: SocketAddr = "127.0.0.1:9100".parse()?;
    let config = DeviceConfig { service: ms(10), servers: 2, metrics: Some(at), ..cable.device("s1/cpu") };
    let device = Device::start(&cable.server, config)?;
    let ask = || metrics(&cable, at);
    let page = ask()?;
    ensure!(page.starts_with("HTTP/1.0 200 OK\r\n"), "{page}");
    ensure!(page.contains("\npointsman_device_busy_seconds_total{device=\"s1/cpu\"} 0\n"), "{page}");
    ensure!(page.contains("\npointsman_device_workers{device=\"s1/cpu\"} 2\n"), "{page}");
    // A client that connects and sends nothing, or leaves, delays no other.
    let silent = cable.server.enter(|| std::net::TcpStream::connect(at))??;
    drop(cable.server.enter(|| std::net::TcpStream::connect(at))??);
    let result = cable.load(&LoadConfig::new(cable.target(false), 100.0, ms(500), SEED))?;
    ensure!(result.answered == 50, "{result:?}");
    counted(&device, 50);
    let page = ask()?;
    ensure!(page.contains("\npointsman_device_busy_seconds_total{device=\"s1/cpu\"} 0.5\n"), "{page}");
    ensure!(page.contains("\npointsman_device_answers_total{device=\"s1/cpu\"} 50\n"), "{page}");
    drop(silent);
    device.stop()?;
    Ok(())
}

/// A request that is computed counts before it ends.
fn a_device_that_computes_is_busy() -> TestResult {
    let cable = Cable::new()?;
    let at: SocketAddr = "127.0.0.1:9100".parse()?;
    let model = Model::Cpu { calibration: Calibration::measure(), quota: None };
    let config = DeviceConfig { model, service: ms(400), metrics: Some(at), ..cable.device("s1/cpu") };
    let device = Device::start(&cable.server, config)?;
    let request = Request { kind: Kind::Work, connection: 1, sequence: 0, argument: 0 };
    let mut bytes = Vec::new();
    request.encode(64, &mut bytes);
    cable.client.enter(|| UdpSocket::bind("0.0.0.0:0")?.send_to(&bytes, cable.target(false)))??;
    let busy = |page: &str| {
        let number = page.split("busy_seconds_total{device=\"s1/cpu\"} ").nth(1)?.lines().next()?;
        number.parse::<f64>().ok()
    };
    let (mut before, mut meanwhile) = (0.0, 0);
    while device.stats().read().answers == 0 {
        let page = metrics(&cable, at)?;
        let now = busy(&page).ok_or("no such counter")?;
        ensure!(now >= before, "{now} after {before}");
        meanwhile += u32::from(now > before && page.contains("answers_total{device=\"s1/cpu\"} 0\n"));
        before = now;
        std::thread::sleep(ms(10));
    }
    ensure!(meanwhile > 5, "{meanwhile} pages showed that it works");
    device.stop()?;
    Ok(())
}

fn above_saturation_queue_grows_and_overflows() -> TestResult {
    let cable = Cable::new()?;
    // Five times slower than the other: 100/s at most. 300/s are offered.
    let slow = DeviceConfig { speed: 0.2, ..cable.device("s1/nic") };
    ensure!((slow.capacity_rps() - 100.0).abs() < 1e-6, "{}", slow.capacity_rps());
    let device = Device::start(&cable.server, slow)?;
    let config = LoadConfig::new(cable.target(false), 300.0, ms(1500), SEED);
    let result = cable.load(&config)?;
    let overflowed = device.stats().read().overflowed;
    ensure!(result.lost == overflowed && result.lost > 150, "lost {} overflowed {overflowed}", result.lost);
    ensure!(result.answered + result.lost == result.sent, "{result:?}");
    ensure!(result.latencies.len() as u64 == result.sent, "{result:?}");
    // A full buffer is 50 requests of 10 ms.
    let median = result.latencies.percentile(50.0);
    ensure!(median > ms(400), "p50 {median:?}");
    ensure!(result.latencies.percentile(99.0) == config.timeout, "p99 is the time-out of the lost");
    Ok(())
}

fn no_receiver_means_all_lost() -> TestResult {
    let cable = Cable::new()?;
    let config =
        LoadConfig { timeout: ms(100), ..LoadConfig::new(cable.target(false), 200.0, ms(300), SEED) };
    let result = cable.load(&config)?;
    ensure!(result.sent == 60 && result.lost == result.sent && result.answered == 0, "{result:?}");
    ensure!(result.latencies.percentile(1.0) == ms(100), "{result:?}");
    // And without a route: the kernel refuses, and the requests still count.
    let nowhere = LoadConfig { target: "127.0.0.2:1".parse()?, ..config };
    let result = cable.load(&nowhere)?;
    ensure!(result.sent == result.lost, "{result:?}");
    Ok(())
}

/// Two runs of equal seed and source ports, as two processes have: the second one begins while the device works on the requests that the first one
/// has given up.
fn answers_to_an_earlier_run_do_not_count() -> TestResult {
    let cable = Cable::new()?;
    let device = Device::start(&cable.server, DeviceConfig { service: ms(100), ..cable.device("s1/cpu") })?;
    let run = |timeout| {
        cable.load(&LoadConfig {
            arrivals: Arrivals::Constant,
            timeout,
            ..LoadConfig::new(cable.target(false), 40.0, ms(250), SEED)
        })
    };
    let first = run(ms(50))?;
    ensure!(first.sent == 10 && first.answered == 0, "{first:?}");
    let second = run(ms(400))?;
    let answers = device.stats().read().answers;
    ensure!(second.bad_signatures > 0, "{second:?}");
    ensure!(second.answered <= answers.saturating_sub(first.sent), "{answers} answers, {second:?}");
    device.stop()?;
    Ok(())
}

fn an_impostor_is_noticed() -> TestResult {
    let cable = Cable::new()?;
    let false_key = DeviceConfig { key: Key::derive(99, "s1/cpu"), ..cable.device("s1/cpu") };
    let _device = Device::start(&cable.server, false_key)?;
    let config =
        LoadConfig { timeout: ms(100), ..LoadConfig::new(cable.target(false), 100.0, ms(200), SEED) };
    let result = cable.load(&config)?;
    ensure!(result.answered == 0 && result.bad_signatures == result.sent, "{result:?}");
    let bulk = BulkConfig {
        target: cable.target(false),
        bytes: 1000,
        direction: Direction::Download,
        seed: 1,
        stall: ms(1000),
    };
    let result = cable.client.enter(|| load::transfer(&bulk, &cable.keys, |_| {}))??;
    ensure!(!result.intact && result.device.is_none(), "{result:?}");
    Ok(())
}

fn consistency(cable: &Cable, connections: usize) -> ConsistencyConfig {
    let target = cable.target(false);
    ConsistencyConfig {
        tcp_share: 0.1,
        interval: ms(700),
        ..ConsistencyConfig::new(target, target, connections, ms(2000), SEED)
    }
}

fn consistency_over_udp_and_tcp() -> TestResult {
    let cable = Cable::new()?;
    let device = Device::start(&cable.server, cable.device("s1/nic"))?;
    let config = consistency(&cable, 500);
    let mut ports = cable.ports(false);
    let stop = AtomicBool::new(false);
    let result =
        cable.client.enter(|| load::check_consistency(&config, &mut ports, &cable.keys, &stop, |_| {}))??;
    ensure!(result.connections == 500 && result.tcp_connections == 50, "{result:?}");
    ensure!(result.requests > 1400 && result.answered == result.requests, "{result:?}");
    ensure!(result.violations == 0 && result.bad_signatures == 0 && result.tcp_resets == 0, "{result:?}");
    ensure!(result.connections_by_device["s1/nic"] == 500, "{result:?}");
    ensure!(result.first_error.is_none(), "{result:?}");
    device.stop()?;
    Ok(())
}

fn a_device_that_changes_is_a_violation() -> TestResult {
    let cable = Cable::new()?;
    let first = Device::start(&cable.server, cable.device("s1/cpu"))?;
    let config = consistency(&cable, 100);
    let mut ports = cable.ports(false);
    let stop = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        let check = scope.spawn(|| {
            cable.client.enter(|| load::check_consistency(&config, &mut ports, &cable.keys, &stop, |_| {}))
        });
        // Every connection has its first answer after one interval; then another device takes the address.
        std::thread::sleep(ms(1000));
        first.stop()?;
        let second = Device::start(&cable.server, cable.device("s1/nic"))?;
        let result = check.join().map_err(|_| "panicked")???;
        second.stop()?;
        Ok::<_, Box<dyn std::error::Error>>(result)
    })?;
    ensure!(result.violations >= 90, "{result:?}");
    ensure!(result.examples[0].first == "s1/cpu" && result.examples[0].later == "s1/nic", "{result:?}");
    ensure!(result.tcp_resets + result.tcp_failures == 10, "{result:?}");
    Ok(())
}

fn bulk_transfers_are_intact() -> TestResult {
    let cable = Cable::new()?;
    let device = Device::start(&cable.server, cable.device("s1/cpu"))?;
    for direction in [Direction::Download, Direction::Upload] {
        for bytes in [0, 1, 65_536, 20_000_003] {
            let target = cable.target(bytes == 1);
            let config = BulkConfig { target, bytes, direction, seed: 5, stall: Duration::from_secs(10) };
            let mut seen = 0;
            let result = cable.client.enter(|| load::transfer(&config, &cable.keys, |n| seen = n))??;
            ensure!(result.intact && result.bytes == bytes && seen == bytes, "{direction:?} {result:?}");
            ensure!(result.device.as_deref() == Some("s1/cpu"), "{result:?}");
        }
    }
    device.stop()?;
    let config = BulkConfig {
        target: cable.target(false),
        bytes: 1,
        direction: Direction::Upload,
        seed: 1,
        stall: ms(500),
    };
    let error = cable.client.enter(|| load::transfer(&config, &cable.keys, |_| {}))?.unwrap_err();
    ensure!(error.to_string().contains("failed after 0 of 1 bytes"), "{error}");
    Ok(())
}

/// Clients that join one after the other get all their content; without a server they give up.
fn sessions_join_and_are_answered() -> TestResult {
    let cable = Cable::new()?;
    let device = Device::start(&cable.server, cable.device("s1/cpu"))?;
    let config = SessionsConfig {
        target: cable.target(false),
        clients: 5,
        join: ms(20),
        requests: 3,
        gap: ms(50),
        bytes: 200_003,
        request_bytes: 250,
        timeout: Duration::from_secs(5),
        seed: SEED,
    };
    let mut ports = cable.ports(false);
    let r = cable.client.enter(|| load::sessions(&config, &mut ports, &cable.keys))??;
    ensure!((r.planned, r.answered, r.latencies.len(), r.moved) == (15, 15, 15, 0), "{r:?}");
    ensure!(r.clients_by_device.get("s1/cpu") == Some(&5) && r.loss_percent() == 0.0, "{r:?}");
    ensure!(r.bytes_by_device.get("s1/cpu") == Some(&(15 * 200_003)), "{r:?}");
    // The last one joins after 80 ms, and its last request is 100 ms later.
    ensure!(r.elapsed >= ms(180) && r.latencies.max() < ms(2000), "{r:?}");
    device.stop()?;
    let config = SessionsConfig { clients: 2, timeout: ms(200), ..config };
    let r = cable.client.enter(|| load::sessions(&config, &mut ports, &cable.keys))??;
    ensure!(r.answered == 0 && r.loss_percent() == 100.0 && r.first_error.is_some(), "{r:?}");
    Ok(())
}

/// nginx in front of a device, with a part of a processor.
fn a_proxy_answers_for_its_server() -> TestResult {
    const NAME: &str = "a_proxy_answers_for_its_server";
    if !pointsman_needs::programs(NAME, &["nginx-light:nginx"]) {
        return Ok(());
    }
    if !Path::new(NGINX_STREAM).exists() {
        pointsman_needs::skip(NAME, &format!("to run it: apt-get install {NGINX_PACKAGES}"));
        return Ok(());
    }
    let cable = Cable::new()?;
    let device = Device::start(&cable.server, cable.device("s1/cpu"))?;
    let at = |port| SocketAddrV4::new(cable.server_link.ipv4, port);
    let front = Front { at: at(PORT + 1), datagrams: true, servers: vec![(at(PORT), 1)], patience_s: 30 };
    let _nginx = nginx(&cable.server, &front)?;
    let probes =
        LoadConfig { kind: Kind::Probe, ..LoadConfig::new(at(PORT + 1).into(), 200.0, ms(500), SEED) };
    let r = cable.load(&probes)?;
    ensure!(r.answered == r.sent && r.sent == 100 && r.wrong_source == 0, "{r:?}");
    device.stop()?;
    Ok(())
}

/// A program that computes all the time gets its part of a processor.
fn a_program_has_a_quota() -> TestResult {
    let namespace = Namespace::new("busy")?;
    let mut busy = Process::start(&namespace, "/bin/sh", &["-c", "while :; do :; done"], "")?;
    if let Err(e) = busy.limit(0.1) {
        let text = e.to_string();
        ensure!(text.contains("CPU quota") || text.contains("cgroup"), "{text}");
        pointsman_needs::skip("a_program_has_a_quota", &text);
        return Ok(());
    }
    // proc(5): the first number is time on the processor in nanoseconds.
    let used = || -> Result<u64, Box<dyn std::error::Error>> {
        let text = std::fs::read_to_string(format!("/proc/{}/schedstat", busy.number()))?;
        Ok(text.split_whitespace().next().ok_or("no number")?.parse()?)
    };
    let (before, start) = (used()?, Instant::now());
    std::thread::sleep(ms(1000));
    let part = (used()? - before) as f64 / start.elapsed().as_nanos() as f64;
    ensure!(part < 0.15, "{part} of a processor");
    Ok(())
}

/// The demo's rack with a kernel router for a switch: every device answers the client on both families.
fn the_rack_is_wired() -> TestResult {
    let spec = RackSpec::demo();
    let mut rack = Rack::build(&spec)?;
    for warning in &rack.warnings {
        println!("note: {warning}");
    }
    rack.route_by_kernel()?;
    let names: Vec<String> = spec.devices().map(|(name, _)| name).collect();
    let keys = Keyring::derive(SEED, names.clone())?;
    let client = rack.host("client")?.namespace.clone();
    let mut devices = Vec::new();
    for name in &names {
        let host = rack.host(name)?;
        let config = DeviceConfig {
            name: name.clone(),
            key: Key::derive(SEED, name),
            addresses: vec![host.link.ipv4.into(), host.link.ipv6.into()],
            port: PORT,
            model: Model::Timed(ServiceTime::Exponential),
            service: Duration::from_micros(200),
            speed: 1.0,
            servers: 2,
            buffer: 100,
            seed: SEED,
            metrics: None,
        };
        devices.push(Device::start(&host.namespace, config)?);
        for (sources, target) in [
            (spec.clients[0].ipv4_addresses(), IpAddr::from(host.link.ipv4)),
            (spec.clients[0].ipv6_addresses(), IpAddr::from(host.link.ipv6)),
        ] {
            let mut ports = SourcePorts::new(sources, 1024..=65535, ms(5000))?;
            let config = LoadConfig::new(SocketAddr::new(target, PORT), 500.0, ms(200), SEED);
            let result = client.enter(|| load::run(&config, &mut ports, &keys, |_| {}))??;
            ensure!(result.answered == result.sent && result.sent == 100, "{name} {target}: {result:?}");
            ensure!(result.answered_by[name] == result.sent, "{name}: {result:?}");
        }
        let config = BulkConfig {
            target: SocketAddr::new(host.link.ipv4.into(), PORT),
            bytes: 3_000_000,
            direction: Direction::Download,
            seed: 9,
            stall: ms(5000),
        };
        let result = client.enter(|| load::transfer(&config, &keys, |_| {}))??;
        ensure!(result.intact && result.device.as_ref() == Some(name), "{result:?}");
    }
    ensure!(rack.host("s3/cpu").is_err(), "a host that is not there");
    Ok(())
}

/// Hosts complete their checksums and know their gateways: switch programs rely on that.
fn what_the_switch_sees_is_complete() -> TestResult {
    let spec = RackSpec { static_neighbours: true, ..RackSpec::demo() };
    let rack = Rack::build(&spec)?;
    ensure!(rack.warnings.is_empty(), "{:?}", rack.warnings);
    let all_protocols = Protocol::from(i32::from((libc::ETH_P_ALL as u16).to_be()));
    let mut capture = rack.switch.enter(|| Socket::new(Domain::PACKET, Type::RAW, Some(all_protocols)))??;
    capture.set_read_timeout(Some(ms(5000)))?;
    let client = rack.host("client")?;
    let (source, vip) = (client.link.ipv4, spec.vip_ipv4);
    client.namespace.enter(|| {
        UdpSocket::bind((source, 4321))?.send_to(b"odd length", (vip, PORT)).map(drop)?;
        UdpSocket::bind((source, 4321))?.send_to(b"even length", (vip, PORT)).map(drop)
    })??;
    for _ in 0..2 {
        let frame = loop {
            let mut frame = vec![0; 2000];
            let n = capture.read(&mut frame)?;
            frame.truncate(n);
            // The kernel's own multicast reports may come first.
            if n > 42 && frame[12..14] == [8, 0] && frame[23] == 17 {
                break frame;
            }
        };
        ensure!(frame[..6] == client.link.gateway_mac.0, "{frame:x?}");
        ensure!(frame[6..12] == client.link.mac.0, "{frame:x?}");
        // RFC 768: pseudo-header, header and data add up to 0xffff if the checksum is right.
        let mut sum = u32::from(u16::try_from(frame.len() - 34)?) + 17;
        for pair in frame[26..].chunks(2) {
            sum += u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
        }
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        ensure!(sum == 0xffff && frame[40..42] != [0, 0], "checksum of {frame:x?}");
    }
    Ok(())
}

fn cpu_model_computes_under_a_quota() -> TestResult {
    let cable = Cable::new()?;
    let calibration = Calibration::measure();
    // A fifth of a processor and 1 ms of work: at most 200 requests a second.
    let config = DeviceConfig {
        model: Model::Cpu { calibration, quota: Some(0.2) },
        service: ms(1),
        ..cable.device("s1/cpu")
    };
    let device = match Device::start(&cable.server, config) {
        Ok(device) => device,
        Err(e) => {
            let text = e.to_string();
            ensure!(text.contains("CPU quota") || text.contains("cgroup"), "{text}");
            pointsman_needs::skip("cpu_model_computes_under_a_quota", &text);
            let free = Model::Cpu { calibration, quota: None };
            let config = DeviceConfig { model: free, service: ms(1), ..cable.device("s1/cpu") };
            let device = Device::start(&cable.server, config)?;
            let result = cable.load(&LoadConfig::new(cable.target(false), 100.0, ms(500), SEED))?;
            ensure!(result.answered > 0 && result.bad_signatures == 0, "{result:?}");
            device.stop()?;
            return Ok(());
        }
    };
    let load = LoadConfig::new(cable.target(false), 600.0, ms(1500), SEED);
    let result = cable.load(&load)?;
    let rate = result.answered as f64 / result.elapsed.as_secs_f64();
    ensure!(result.answered > 50 && rate < 300.0, "{rate} answers a second, {result:?}");
    ensure!(result.lost > 0 && result.bad_signatures == 0, "{result:?}");
    // Probes pass the queue by.
    let probes =
        LoadConfig { kind: Kind::Probe, ..LoadConfig::new(cable.target(false), 100.0, ms(200), SEED) };
    let result = cable.load(&probes)?;
    ensure!(result.answered == result.sent, "{result:?}");
    device.stop()?;
    Ok(())
}
