//! Generators, sinks and servers of rate measurements, and programs in namespaces. `pointsman_lab::harness` runs it.

use pointsman_lab::frames::{MIN_FRAME, Pace, PacketSender, Plan, Sink, Template, generate};
use pointsman_lab::harness::Test;
use pointsman_lab::load::{
    ClosedLoopConfig, Connections, EchoServer, EchoServers, SourcePorts, StreamsConfig, closed_loop, streams,
};
use pointsman_lab::process::{Process, installed};
use pointsman_lab::rack::{Link, allow_many_connections, join};
use pointsman_lab::{Namespace, ensure};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

type TestResult = Result<(), Box<dyn std::error::Error>>;

const PORT: u16 = 7100;

pub const TESTS: &[(&str, Test)] = &[
    ("frames_are_counted", frames_are_counted),
    ("requests_and_streams_reach_the_servers", requests_and_streams_reach_the_servers),
    ("a_missing_server_is_an_error", a_missing_server_is_an_error),
    ("programs_end_with_their_keeper", programs_end_with_their_keeper),
    ("programs_get_their_input_and_are_quoted", programs_get_their_input_and_are_quoted),
];

struct Cable {
    client: Namespace,
    server: Namespace,
    link: Link,
}

impl Cable {
    fn new() -> Result<Self, Box<dyn std::error::Error>> {
        let link = Link::in_subnet(1, 0);
        let mut server_link = link.clone();
        std::mem::swap(&mut server_link.ipv4, &mut server_link.gateway_ipv4);
        std::mem::swap(&mut server_link.ipv6, &mut server_link.gateway_ipv6);
        std::mem::swap(&mut server_link.mac, &mut server_link.gateway_mac);
        let (client, server) = (Namespace::new("client")?, Namespace::new("server")?);
        join((&client, &link), (&server, &server_link), 1500)?;
        allow_many_connections(&client)?;
        Ok(Self { client, server, link })
    }

    fn target(&self) -> SocketAddr {
        (self.link.gateway_ipv4, PORT).into()
    }

    fn sources(&self) -> pointsman_lab::Result<SourcePorts> {
        SourcePorts::new(vec![self.link.ipv4.into()], 1024..=65535, Duration::from_secs(2))
    }
}

fn frames_are_counted() -> TestResult {
    let cable = Cable::new()?;
    let template = Template {
        source_mac: cable.link.mac,
        destination_mac: cable.link.gateway_mac,
        source: cable.link.ipv4,
        destination: cable.link.gateway_ipv4,
        port: PORT,
        flows: 100,
        length: MIN_FRAME,
    };
    let mut sender = PacketSender::open(&cable.client, "eth0")?;
    let sink = Sink::open(&cable.server, "eth0")?;
    ensure!(sink.room() >= 100, "room for {} frames", sink.room());
    let duration = Duration::from_secs(5);
    let plan = Plan { probe: 1, pace: Pace::Rate(20_000.0), duration, limit: 2000, timed: 5000 };
    sink.begin(1)?;
    let offered = generate(&template, &plan, &mut sender)?;
    let arrived = sink.finish(Duration::from_secs(5))?;
    // Nothing in between could lose any.
    ensure!(offered.frames == 2000 && arrived.count == 2000, "{offered:?} {}", arrived.count);
    // One in twenty: 5000 times in 5 seconds of 20,000 frames each.
    ensure!(offered.timed == 100 && arrived.latencies.len() == 100, "{offered:?} {:?}", arrived.latencies);
    let latencies = arrived.latencies(offered.timed, Duration::from_secs(1));
    ensure!(latencies.max() < Duration::from_secs(1), "{latencies:?}");
    ensure!(latencies.percentile(50.0) > Duration::ZERO, "{latencies:?}");
    // A lost frame counts.
    let worse = arrived.latencies(offered.timed + 1, Duration::from_secs(9));
    ensure!(worse.max() == Duration::from_secs(9) && worse.len() == 101, "{worse:?}");

    // Frames of another probe are not of this one.
    sink.begin(3)?;
    generate(&template, &Plan { probe: 2, limit: 500, timed: 100, ..plan }, &mut sender)?;
    let flood = Plan { probe: 3, pace: Pace::Flood, limit: 700, timed: 0, duration };
    generate(&template, &flood, &mut sender)?;
    let arrived = sink.finish(Duration::from_secs(5))?;
    ensure!(arrived.count == 700 && arrived.latencies.is_empty(), "{}", arrived.count);
    Ok(())
}

fn requests_and_streams_reach_the_servers() -> TestResult {
    let cable = Cable::new()?;
    let server = EchoServer { namespace: cable.server.clone(), address: cable.target() };
    let servers = EchoServers::start(&[server])?;
    let mut ports = cable.sources()?;
    for (connections, clients) in [(Connections::New, 3), (Connections::KeepAlive, 3)] {
        let config = ClosedLoopConfig {
            target: cable.target(),
            clients,
            connections,
            duration: Duration::from_millis(200),
            warm_up: Duration::from_millis(20),
            timeout: Duration::from_secs(5),
        };
        let result = cable.client.enter(|| closed_loop(&config, &mut ports))??;
        ensure!(result.answered > 0 && result.errors == 0 && result.lost == 0, "{result:?}");
        ensure!(result.by_server.get(&1) == Some(&result.answered), "{result:?}");
        ensure!(result.latencies.len() as u64 == result.answered, "{result:?}");
        ensure!(result.per_second() > 0.0, "{result:?}");
    }
    let config = StreamsConfig {
        target: cable.target(),
        connections: 2,
        duration: Duration::from_millis(200),
        warm_up: Duration::from_millis(20),
    };
    let result = cable.client.enter(|| streams(&config, &servers.counters))??;
    ensure!(result.bytes > 0 && result.failed == 0, "{result:?}");
    Ok(())
}

fn a_missing_server_is_an_error() -> TestResult {
    let cable = Cable::new()?;
    let config = ClosedLoopConfig {
        target: cable.target(),
        clients: 2,
        connections: Connections::New,
        duration: Duration::from_millis(100),
        warm_up: Duration::ZERO,
        timeout: Duration::from_millis(50),
    };
    let mut ports = cable.sources()?;
    let refused = cable.client.enter(|| closed_loop(&config, &mut ports))??;
    ensure!(refused.answered == 0 && refused.errors > 0, "{refused:?}");
    // An unused address: requests to it are never answered.
    let lost = ClosedLoopConfig { target: "10.0.0.77:1".parse()?, ..config };
    let result = cable.client.enter(|| closed_loop(&lost, &mut ports))??;
    ensure!(result.answered == 0 && result.lost > 0, "{result:?}");
    ensure!(result.latencies.max() == Duration::from_millis(50), "{result:?}");
    Ok(())
}

/// Whether a process has ended, even if its exit code was not collected.
fn gone(process: u32) -> bool {
    let deadline = Instant::now() + Duration::from_secs(5);
    while Instant::now() < deadline {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        if stat.is_empty() || stat.contains(") Z ") {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

fn programs_end_with_their_keeper() -> TestResult {
    let namespace = Namespace::new("program")?;
    let sleep = installed("sleep").ok_or("no sleep")?;
    let process = Process::start(&namespace, &sleep, &["600"], "")?;
    let number = process.number();
    ensure!(Path::new(&format!("/proc/{number}")).exists(), "it runs");
    drop(process);
    ensure!(gone(number), "process {number} outlives its keeper");

    // The thread that started it ends without a message.
    let number = std::thread::scope(|scope| {
        let start = || {
            Process::start(&namespace, &sleep, &["600"], "").map(|process| {
                let number = process.number();
                std::mem::forget(process);
                number
            })
        };
        scope.spawn(start).join()
    });
    let number = number.map_err(|_| "the thread panicked")??;
    ensure!(gone(number), "process {number} outlives the thread that started it");
    Ok(())
}

fn programs_get_their_input_and_are_quoted() -> TestResult {
    let namespace = Namespace::new("program")?;
    let cat = installed("cat").ok_or("no cat")?;
    let said =
        Process::start(&namespace, &cat, &["/dev/stdin"], "one\n\ntwo\n")?.finish(Duration::from_secs(10))?;
    ensure!(said == "one | two", "{said}");
    let error = Process::start(&namespace, &cat, &["/nowhere"], "")?.finish(Duration::from_secs(10));
    let error = error.err().ok_or("a failure succeeded")?.to_string();
    ensure!(error.contains("/nowhere") && error.contains("exit status: 1"), "{error}");
    let error = Process::start(&namespace, "/nowhere", &[], "").err().ok_or("it started")?.to_string();
    ensure!(error.contains("cannot start /nowhere"), "{error}");
    ensure!(installed("no-such-program-anywhere").is_none(), "it is not installed");
    Ok(())
}
