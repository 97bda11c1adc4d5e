//! `pointsman switch --workers 2` on real interfaces: two threads that share tables, registers and counters.

use crate::support::controller::{Controller, connect};
use crate::support::{PATIENCE, Switch, assert_no_panic, file, finish, pointsman};
use nix::sys::signal::Signal;
use pb::entity::Entity;
use pb::stream_message_response::Update;
use pointsman_balance::Policy;
use pointsman_compile::executor::Choice;
use pointsman_control::proto::p4rt as pb;
use pointsman_demo::{PORT, SERVICE, Work, description, devices};
use pointsman_lab::harness::Test;
use pointsman_lab::load::{self, BulkConfig, ConsistencyConfig, Direction, SourcePorts};
use pointsman_lab::rack::{ClientSpec, Link, Mac, Rack, RackSpec};
use pointsman_lab::wire::Keyring;
use pointsman_lab::{Namespace, ensure};
use pointsman_live::{Live, Log, Ports};
use pointsman_needs::skip;
use pointsman_ports::Want;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

pub const TESTS: &[(&str, Test)] = &[
    ("nothing_is_lost_and_nothing_counted_twice", nothing_is_lost_and_nothing_counted_twice),
    ("connections_keep_their_devices", connections_keep_their_devices),
    ("what_several_workers_cannot_have", what_several_workers_cannot_have),
];

/// Without a second processor the calling test is skipped.
pub fn enough_processors() -> bool {
    let enough = std::thread::available_parallelism().is_ok_and(|n| n.get() >= 2);
    if !enough {
        skip("workers_wire", "two workers need two processors");
    }
    enough
}

fn is_root() -> bool {
    let uid = std::fs::metadata("/proc/self").map(|m| m.uid());
    uid.is_ok_and(|uid| uid == 0)
        && std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|m| m.contains("4294967295"))
}

/// The kinds of ports that can be tried here.
pub fn kinds() -> Vec<&'static str> {
    if is_root() {
        vec!["af-packet", "af-xdp"]
    } else {
        skip("workers_wire with AF_XDP", "it needs root");
        vec!["af-packet"]
    }
}

/// Host `n` of one subnet, on port `n`, with the other host as its neighbour.
pub fn link(n: u8) -> Link {
    let mut link = Link::in_subnet(n.into(), 50);
    link.ipv4 = Ipv4Addr::new(10, 0, 50, n);
    link.ipv6 = format!("fd00:50::{n}").parse().unwrap();
    link.mac = Mac([2, 0, 0, 0, 0, n]);
    link.gateway_ipv4 = Ipv4Addr::new(10, 0, 50, 200 + n);
    link.gateway_ipv6 = format!("fd00:50::{}", 200 + u16::from(n)).parse().unwrap();
    link.gateway_mac = Mac::from_ipv4(link.gateway_ipv4);
    link
}

/// Two hosts on ports 1 and 2, whose interfaces have two queues.
pub fn rack() -> Rack {
    let client = |n| ClientSpec { name: format!("h{n}"), link: link(n), addresses: 1 };
    let clients = (1..=2).map(client).collect();
    let spec = RackSpec { clients, servers: Vec::new(), offloads: true, queues: 2, ..RackSpec::demo() };
    Rack::build(&spec).expect("the rack can be built")
}

pub fn host(rack: &Rack, n: u8) -> Namespace {
    rack.host(&format!("h{n}")).expect("the rack has it").namespace.clone()
}

pub fn start(rack: &Rack, program: &str, extra: &[&str]) -> (Switch, Controller) {
    let ports: Vec<String> = rack.ports.iter().map(|p| format!("-i{}@{}", p.number, p.interface)).collect();
    let program = file(program);
    let mut args: Vec<&str> = vec![&program, "--workers", "2"];
    args.extend(ports.iter().map(String::as_str));
    args.extend_from_slice(extra);
    let inside = || {
        let switch = Switch::start(&args);
        let (controller, _) = connect(switch.address, 1);
        (switch, controller)
    };
    rack.switch.enter(inside).expect("the namespace can be entered")
}

pub const DPORT: u16 = 5000;

/// `value` for datagrams to [`DPORT`].
fn entry(controller: &Controller, name: &str, value: u8, idle_timeout_ns: i64, dport: u16) -> Entity {
    let exact = pb::field_match::Exact { value: dport.to_be_bytes().to_vec() };
    let action = pb::Action {
        action_id: controller.action(&format!("TallyIngress.set_{name}")),
        params: vec![pb::action::Param { param_id: 1, value: vec![value] }],
    };
    Entity::TableEntry(pb::TableEntry {
        table_id: controller.table(&format!("TallyIngress.{name}")),
        r#match: vec![pb::FieldMatch {
            field_id: 1,
            field_match_type: Some(pb::field_match::FieldMatchType::Exact(exact)),
        }],
        action: Some(pb::TableAction { r#type: Some(pb::table_action::Type::Action(action)) }),
        idle_timeout_ns,
        ..Default::default()
    })
}

/// Clone session 7 to the control plane, and a digest for each message.
fn copies(controller: &Controller) -> Vec<Entity> {
    let replica =
        pb::Replica { port_kind: Some(pb::replica::PortKind::Port(vec![0x01, 0xfe])), ..Default::default() };
    let session = pb::CloneSessionEntry { session_id: 7, replicas: vec![replica], ..Default::default() };
    let session = pb::packet_replication_engine_entry::Type::CloneSessionEntry(session);
    let digest = controller.info.digests[0].preamble.as_ref().expect("a preamble").id;
    vec![
        Entity::PacketReplicationEngineEntry(pb::PacketReplicationEngineEntry { r#type: Some(session) }),
        Entity::DigestEntry(pb::DigestEntry {
            digest_id: digest,
            config: Some(pb::digest_entry::Config { max_list_size: 1, ..Default::default() }),
        }),
    ]
}

/// Content of a datagram that has passed: its flow, its sequence number there, and the value written by the switch.
#[derive(Debug)]
struct Tally {
    flow: u16,
    sequence: u32,
    ticket: u32,
    of_flow: u32,
    values: [u8; 2],
}

impl Tally {
    fn read(from: SocketAddr, b: &[u8]) -> Tally {
        let number = |at: usize| u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
        let values = [b[12], b[13]];
        Tally { flow: from.port(), sequence: number(0), ticket: number(4), of_flow: number(8), values }
    }
}

fn nothing_is_lost_and_nothing_counted_twice() -> Fallible<()> {
    if !enough_processors() {
        return Ok(());
    }
    for kind in kinds() {
        for executor in ["engine", "interp"] {
            for poll in if executor == "engine" { &["adaptive", "busy"][..] } else { &["adaptive"] } {
                tally(kind, executor, poll)?;
            }
        }
    }
    Ok(())
}

/// Datagrams of many flows, of which each worker gets some. Every register is read and written by one packet at a time, no
/// packet sees half of a batch of writes, and what packets make besides arrives once.
fn tally(kind: &str, executor: &str, poll: &str) -> Fallible<()> {
    const FLOWS: u16 = 16;
    const EACH: u32 = 256;
    const ALL: u32 = FLOWS as u32 * EACH;
    let rack = rack();
    let flags = ["--port-kind", kind, "--executor", executor, "--poll", poll];
    let (switch, mut controller) = start(&rack, "tests/programs/tally.p4", &flags);
    switch.wait_for("flows are spread over 2 workers");
    let both =
        |c: &Controller, value| [entry(c, "first", value, 0, DPORT), entry(c, "second", value, 0, DPORT)];
    let mut entities = copies(&controller);
    entities.extend(both(&controller, 1));
    // Unused ports.
    entities.push(entry(&controller, "second", 9, 300_000_000, 9));
    controller.insert(entities)?;

    let server = host(&rack, 2).enter(|| UdpSocket::bind((link(2).ipv4, DPORT)))??;
    server.set_read_timeout(Some(PATIENCE))?;
    let client = host(&rack, 1);
    let bind = |n: u16| client.enter(|| UdpSocket::bind((link(1).ipv4, 20_000 + n)));
    let sockets = (0..FLOWS).map(|n| Ok(bind(n)??)).collect::<Fallible<Vec<UdpSocket>>>()?;
    let (done, came) = (AtomicBool::new(false), AtomicU32::new(0));
    let tallies = std::thread::scope(|scope| -> Fallible<Vec<Tally>> {
        let receiver = scope.spawn(|| {
            let mut buffer = [0; 128];
            let one = |_| {
                let (length, from) = server.recv_from(&mut buffer)?;
                came.fetch_add(1, Ordering::Relaxed);
                Ok(Tally::read(from, &buffer[..length]))
            };
            let all: std::io::Result<Vec<Tally>> = (0..ALL).map(one).collect();
            done.store(true, Ordering::Relaxed);
            all
        });
        scope.spawn(|| {
            for sequence in 0..EACH {
                let mut datagram = [0; 64];
                datagram[..4].copy_from_slice(&sequence.to_be_bytes());
                for socket in &sockets {
                    let _ = socket.send_to(&datagram, (link(2).ipv4, DPORT));
                }
                // More than the receiver's buffer holds must not be on the way.
                let sent = (sequence + 1) * u32::from(FLOWS);
                while !done.load(Ordering::Relaxed) && sent - came.load(Ordering::Relaxed) > 96 {
                    std::thread::sleep(Duration::from_micros(100));
                }
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        let mut value = 1;
        while !done.load(Ordering::Relaxed) {
            value = value % 250 + 1;
            let entities = both(&controller, value).into();
            controller.write(pb::update::Type::Modify, entities)?;
        }
        let all = receiver.join().map_err(|_| "the receiver panicked")?;
        let came = came.load(Ordering::Relaxed);
        Ok(all.map_err(|e| format!("{kind} {executor} {poll}: {came} of {ALL} came: {e}"))?)
    })?;

    // Both registers were used by one packet at a time.
    let tickets: BTreeSet<u32> = tallies.iter().map(|t| t.ticket).collect();
    ensure!(tickets == (1..=ALL).collect(), "{kind} {executor}: {} tickets of {ALL}", tickets.len());
    let mut flows: BTreeMap<u16, BTreeMap<u32, u32>> = BTreeMap::new();
    for t in &tallies {
        flows.entry(t.flow).or_default().insert(t.of_flow, t.sequence);
        ensure!(t.values[0] == t.values[1], "half of a batch of writes was seen: {t:?}");
    }
    ensure!(flows.len() == usize::from(FLOWS), "{} flows", flows.len());
    for (flow, seen) in &flows {
        ensure!(seen.keys().copied().eq(1..=EACH), "flow {flow}: {} numbers", seen.len());
    }
    let values: BTreeSet<u8> = tallies.iter().map(|t| t.values[0]).collect();
    ensure!(values.len() > 1, "no entry changed while datagrams came");

    // Counters, of both workers together.
    ensure!(controller.counter("TallyIngress.seen", 0).0 == i64::from(ALL), "the counter");
    let table = controller.table("TallyIngress.first");
    let counted = controller.read(Entity::DirectCounterEntry(pb::DirectCounterEntry {
        table_entry: Some(pb::TableEntry { table_id: table, ..Default::default() }),
        ..Default::default()
    }))?;
    let hits: i64 = counted
        .iter()
        .map(|e| match e {
            Entity::DirectCounterEntry(e) => e.data.as_ref().map_or(0, |d| d.packet_count),
            _ => 0,
        })
        .sum();
    ensure!(hits == i64::from(ALL), "{hits} hits of {ALL}");

    // Clones, digests and idle notifications caused by the packets.
    let (mut clones, mut digests, mut idle) = (0, BTreeSet::new(), 0);
    let expected = ALL / 64;
    let start = Instant::now();
    while clones < expected || digests.len() < expected as usize || idle == 0 {
        ensure!(start.elapsed() < PATIENCE, "{clones} clones, {} digests, {idle} idle", digests.len());
        match controller.hear()? {
            Some(Update::Packet(_)) => clones += 1,
            Some(Update::Digest(list)) => digests.extend(list.data.iter().map(|d| format!("{d:?}"))),
            Some(Update::IdleTimeoutNotification(_)) => idle += 1,
            other => return Err(format!("{other:?}").into()),
        }
    }
    ensure!((clones, digests.len()) == (expected, expected as usize), "{clones}, {}", digests.len());

    // A packet of the control plane, which enters on its own port and is dropped there.
    let packet = pb::PacketOut { payload: vec![0; 60], metadata: Vec::new() };
    controller.tell(pb::stream_message_request::Update::Packet(packet));
    // The client sends while it is used.
    for _ in 0..20 {
        controller.counter("TallyIngress.seen", 0);
        std::thread::sleep(Duration::from_millis(5));
    }
    let finished = switch.stop(Signal::SIGINT);
    assert_no_panic(&finished);
    ensure!(finished.code == Some(0), "{finished:?}");
    let line = |text: &str| finished.stderr.lines().find(|l| l.contains(text)).map(str::to_string);
    let shares = line("workers: received").ok_or("no shares")?;
    let busy = shares.rsplit("received").next().unwrap_or("").split(',').filter(|s| s.trim() != "0").count();
    ensure!(busy == 2, "{kind}: {shares}");
    let total = line("packets: received").ok_or("no summary")?;
    ensure!(total.contains("(from the control plane 1)"), "{total}");
    let ports: Vec<&str> = finished.stderr.lines().filter(|l| l.contains("(veth")).collect();
    ensure!(ports.iter().all(|l| !l.contains("rx_socket_full")), "{ports:?}");
    Ok(())
}

/// Connections through the balancer, over UDP and TCP, while its tables are changed: none changes its device.
fn connections_keep_their_devices() -> Fallible<()> {
    if !enough_processors() {
        return Ok(());
    }
    const SEED: u64 = 12;
    for kind in kinds() {
        let want = if kind == "af-xdp" { Want::AfXdp } else { Want::AfPacket };
        let spec = RackSpec { offloads: true, queues: 2, ..RackSpec::demo() };
        let configs = devices(&spec, Work::Timed, SEED);
        let names: Vec<String> = configs.iter().map(|c| c.name.clone()).collect();
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let log: Log = {
            let lines = lines.clone();
            Arc::new(Mutex::new(move |line: &str| lines.lock().unwrap().push(line.to_string())))
        };
        let mut file = description(&spec, Policy::P4mite, None);
        file.switch.report_timeout_ms = Some(1500);
        let ports = Ports { kind: want, workers: 2 };
        let mut live = Live::start_on(&spec, configs, &file, Choice::default(), ports, log)?;
        live.start_controller()?;
        live.wait_for_reports(PATIENCE)?;
        let client = spec.clients.first().ok_or("no client")?;
        let namespace = live.rack.host(&client.name)?.namespace.clone();
        let keys = Keyring::derive(SEED, names)?;
        let mut ports = SourcePorts::new(client.ipv4_addresses(), 1024..=60_000, PATIENCE)?;
        let target = SocketAddr::new(spec.vip_ipv4.into(), PORT);
        let config = ConsistencyConfig {
            tcp_share: 0.3,
            interval: Duration::from_millis(250),
            grace: Duration::from_secs(1),
            ..ConsistencyConfig::new(target, target, 200, Duration::from_secs(4), SEED)
        };
        let stop = AtomicBool::new(false);
        let result = std::thread::scope(|scope| -> Fallible<_> {
            let check = scope.spawn(|| {
                namespace.enter(|| load::check_consistency(&config, &mut ports, &keys, &stop, |_| {}))
            });
            for policy in [Policy::Ecmp, Policy::P4mite].into_iter().cycle().take(6) {
                std::thread::sleep(Duration::from_millis(500));
                live.set_policy(SERVICE, policy)?;
            }
            Ok(check.join().map_err(|_| "the check panicked")???)
        })?;
        ensure!(result.connections == 200 && result.tcp_connections == 60, "{kind}: {result:?}");
        ensure!(result.violations == 0 && result.bad_signatures == 0, "{kind}: {result:?}");
        ensure!(result.tcp_resets == 0 && result.tcp_failures == 0, "{kind}: {result:?}");
        let bulk = BulkConfig {
            target,
            bytes: 4 << 20,
            direction: Direction::Upload,
            seed: SEED,
            stall: Duration::from_secs(10),
        };
        let moved = namespace.enter(|| load::transfer(&bulk, &keys, |_| {}))??;
        ensure!(moved.intact && moved.bytes == bulk.bytes, "{kind}: {moved:?}");
        let stats = live.stats()?;
        ensure!(stats.is_conserved(), "{kind}: {stats:?}");
        let told = lines.lock().map_err(|_| "the log panicked")?;
        let how = if kind == "af-xdp" { "2 ports" } else { "2 sockets" };
        ensure!(told.iter().any(|l| l.contains(how)), "{kind}: {told:#?}");
    }
    Ok(())
}

fn what_several_workers_cannot_have() -> Fallible<()> {
    if !enough_processors() {
        return Ok(());
    }
    let rack = Rack::build(&RackSpec { offloads: true, ..RackSpec::demo() })?;
    let ports: Vec<String> = rack.ports.iter().map(|p| format!("-i{}@{}", p.number, p.interface)).collect();
    let check = |args: &[&str], parts: &[&str]| -> Fallible<()> {
        let mut command = pointsman(&["switch", "--p4runtime", "127.0.0.1:0"]);
        command.args(args);
        let finished = rack.switch.enter(|| finish(command))?;
        ensure!(finished.code == Some(1), "{args:?}: {finished:?}");
        assert_no_panic(&finished);
        for part in parts {
            ensure!(finished.stderr.contains(part), "{args:?}: no '{part}' in:\n{}", finished.stderr);
        }
        Ok(())
    };
    check(&["--workers", "0"], &["--workers 0: at least 1 is needed"])?;
    check(&["--workers", "100000"], &["--workers 100000: this machine has", "give at most that many"])?;
    check(&["--workers", "2", "-i", "1@tap:t0"], &["'tap:t0' is a tap", "omit --workers"])?;
    check(&["--workers", "2", "--pcap", "captures"], &["omit --workers or --pcap"])?;
    check(&["--workers", "2", "--use-files", "0"], &["omit --workers or --use-files"])?;
    if is_root() {
        let port = ports[0].as_str();
        let xdp = ["--workers", "2", "--port-kind", "af-xdp", port];
        check(&xdp, &["has 1 receive queue(s) for AF_XDP", "numrxqueues 2", "--port-kind af-packet"])?;
    }
    // The default takes what works, and logs it.
    let program = file("examples/forwarder/main.p4");
    let args = [program.as_str(), "--workers", "2", ports[0].as_str()];
    let switch = rack.switch.enter(|| Switch::start(&args))?;
    switch.wait_for("AF_PACKET, 2 sockets");
    // An idle worker sleeps.
    std::thread::sleep(Duration::from_secs(3));
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", switch.pid())).unwrap_or_default();
        let rest = stat.rsplit(')').next().unwrap_or("").to_string();
        rest.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<u64>().ok()).sum::<u64>()
    };
    let before = ticks();
    std::thread::sleep(Duration::from_secs(4));
    let used = ticks() - before;
    ensure!(used < 4, "two idle workers used {used} hundredths of a second in 4 s");
    ensure!(switch.stop(Signal::SIGTERM).code == Some(0), "it ends well");
    Ok(())
}
