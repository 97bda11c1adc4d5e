//! `pointsman switch` on real interfaces: the kernel's UDP and TCP through examples/forwarder, between network namespaces
//! created by the test. The hosts' traffic, the captures, the program's counters and the switch's own summary
//! must all agree.

use crate::support::controller::{Controller, connect};
use crate::support::python::Client;
use crate::support::{PATIENCE, Scratch, Switch, assert_no_panic, file, finish, pointsman, root};
use nix::sys::signal::Signal;
use pb::entity::Entity;
use pb::set_forwarding_pipeline_config_request::Action;
use pointsman_control::proto::p4rt as pb;
use pointsman_lab::Namespace;
use pointsman_lab::harness::Test;
use pointsman_lab::rack::{ClientSpec, Link, Mac, Rack, RackSpec, join, plug};
use pointsman_ports::pcap::{Reader, Record};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

pub const TESTS: &[(&str, Test)] = &[
    ("everything_that_is_sent_is_accounted_for", || good(everything_that_is_sent_is_accounted_for)),
    ("tcp_passes_with_the_offloads_of_veth", || good(tcp_passes_with_the_offloads_of_veth)),
    ("programs_are_replaced_between_two_packets", || good(programs_are_replaced_between_two_packets)),
    ("an_idle_switch_sleeps", || good(an_idle_switch_sleeps)),
    ("the_steps_of_the_example_work", || good(the_steps_of_the_example_work)),
    ("interfaces_come_and_go", || good(interfaces_come_and_go)),
    ("members_follow_the_link_that_they_watch", || good(members_follow_the_link_that_they_watch)),
    ("finsy_sees_interfaces_over_gnmi", || good(finsy_sees_interfaces_over_gnmi)),
    ("ports_that_cannot_be_opened", || good(ports_that_cannot_be_opened)),
];

/// Runs a test that panics if it fails.
fn good(test: fn()) -> Result<(), Box<dyn std::error::Error>> {
    test();
    Ok(())
}

const FORWARDER: &str = "examples/forwarder/main.p4";

/// Host `n` of one subnet, on port `n`. The lab's gateway address belongs to no host here.
fn link(n: u8) -> Link {
    let gateway = Ipv4Addr::new(10, 0, 50, 200 + n);
    let mut link = Link::in_subnet(n.into(), 50);
    link.ipv4 = Ipv4Addr::new(10, 0, 50, n);
    link.ipv6 = format!("fd00:50::{n}").parse().unwrap();
    // As in the example's README.
    link.mac = Mac([2, 0, 0, 0, 0, n]);
    link.gateway_ipv4 = gateway;
    link.gateway_ipv6 = format!("fd00:50::{}", 200 + u16::from(n)).parse().unwrap();
    link.gateway_mac = Mac::from_ipv4(gateway);
    link
}

/// Three hosts on ports 1 to 3, with the offloads that veth has by default.
fn rack() -> Rack {
    let client = |n| ClientSpec { name: format!("h{n}"), link: link(n), addresses: 1 };
    let clients = (1..=3).map(client).collect();
    let spec = RackSpec { clients, servers: Vec::new(), offloads: true, ..RackSpec::demo() };
    Rack::build(&spec).expect("the rack can be built")
}

fn host(rack: &Rack, n: u8) -> Namespace {
    rack.host(&format!("h{n}")).expect("the rack has it").namespace.clone()
}

/// The switch in the rack.
fn bare(rack: &Rack, extra: &[&str]) -> Switch {
    let ports: Vec<String> = rack.ports.iter().map(|p| format!("-i{}@{}", p.number, p.interface)).collect();
    let program = file(FORWARDER);
    let mut args: Vec<&str> = vec![&program];
    args.extend(ports.iter().map(String::as_str));
    args.extend_from_slice(extra);
    rack.switch.enter(|| Switch::start(&args)).expect("the namespace can be entered")
}

/// The switch in the rack, and a controller that has installed the hosts' locations.
fn start(rack: &Rack, extra: &[&str]) -> (Switch, Controller) {
    let switch = bare(rack, extra);
    let (mut controller, _) =
        rack.switch.enter(|| connect(switch.address, 1)).expect("the namespace can be entered");
    let (table, send) = (controller.table("Forward.forward"), controller.action("Forward.send"));
    let mut entities = vec![flood_to(1..=3)];
    entities.extend((1..=3).map(|n| entry(table, send, link(n).mac.0, n)));
    controller.insert(entities).expect("the entries are right");
    (switch, controller)
}

/// `send(port)` for a destination address.
fn entry(table: u32, action: u32, mac: [u8; 6], port: u8) -> Entity {
    let exact = pb::field_match::Exact { value: mac.to_vec() };
    let param = pb::action::Param { param_id: 1, value: vec![port] };
    let action = pb::Action { action_id: action, params: vec![param] };
    Entity::TableEntry(pb::TableEntry {
        table_id: table,
        r#match: vec![pb::FieldMatch {
            field_id: 1,
            field_match_type: Some(pb::field_match::FieldMatchType::Exact(exact)),
        }],
        action: Some(pb::TableAction { r#type: Some(pb::table_action::Type::Action(action)) }),
        ..Default::default()
    })
}

/// Multicast group 1 to these ports.
fn flood_to(ports: impl Iterator<Item = u8>) -> Entity {
    let replica = |port: u8| pb::Replica {
        port_kind: Some(pb::replica::PortKind::Port(vec![port])),
        ..Default::default()
    };
    let group = pb::MulticastGroupEntry {
        multicast_group_id: 1,
        replicas: ports.map(replica).collect(),
        ..Default::default()
    };
    let group = pb::packet_replication_engine_entry::Type::MulticastGroupEntry(group);
    Entity::PacketReplicationEngineEntry(pb::PacketReplicationEngineEntry { r#type: Some(group) })
}

/// A capture, which must be whole, of nanosecond resolution and in ascending order.
fn capture(dir: &Scratch, name: &str) -> Vec<(Record, Vec<u8>)> {
    let bytes = std::fs::read(dir.0.join(name)).expect("the capture exists");
    assert_eq!(bytes[..4], 0xa1b2_3c4du32.to_le_bytes(), "{name}: the magic number of nanoseconds");
    let mut reader = Reader::new(bytes.as_slice()).expect("a capture");
    let (mut records, mut frame) = (Vec::new(), Vec::new());
    while let Some(record) = reader.read(&mut frame).expect("a whole capture") {
        records.push((record, frame.clone()));
    }
    let times: Vec<u64> = records.iter().map(|(r, _)| r.time_ns).collect();
    assert!(times.is_sorted(), "{name}: times go back");
    assert!(times.iter().any(|t| t % 1000 != 0) || times.is_empty(), "{name}: only microseconds");
    records
}

/// The content of the UDP datagrams over IPv4 to this port.
fn datagrams(frames: &[(Record, Vec<u8>)], port: u16) -> Vec<Vec<u8>> {
    let is_ours =
        |f: &&[u8]| f.len() > 42 && f[12..14] == [8, 0] && f[23] == 17 && f[36..38] == port.to_be_bytes();
    let payload = |f: &[u8]| {
        let length = usize::from(u16::from_be_bytes([f[38], f[39]]));
        f[42..34 + length].to_vec()
    };
    frames.iter().map(|(_, f)| f.as_slice()).filter(is_ours).map(payload).collect()
}

/// Waits until the program's counters are stable.
fn settle(controller: &mut Controller) -> BTreeMap<u8, (i64, i64)> {
    let mut read = || (1..=3).map(|n| (n, controller.counter("Forward.received", n.into()))).collect();
    let mut before: BTreeMap<u8, (i64, i64)> = read();
    let deadline = Instant::now() + PATIENCE;
    loop {
        std::thread::sleep(Duration::from_millis(300));
        let after = read();
        if after == before {
            return after;
        }
        assert!(Instant::now() < deadline, "the hosts do not fall silent: {after:?}");
        before = after;
    }
}

/// The numbers of a summary line, in their order.
fn numbers(line: &str) -> Vec<u64> {
    line.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect()
}

fn everything_that_is_sent_is_accounted_for() {
    const SENT: usize = 500;
    let rack = rack();
    let dir = Scratch::new("captures");
    let (switch, mut controller) = start(&rack, &["--pcap", &dir.path("pcap")]);

    let server = host(&rack, 2)
        .enter(|| UdpSocket::bind((link(2).ipv4, 5000)).expect("the address is there"))
        .expect("the namespace can be entered");
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let client = host(&rack, 1)
        .enter(|| UdpSocket::bind((link(1).ipv4, 0)).expect("the address is there"))
        .expect("the namespace can be entered");
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut buffer = [0; 2048];
    let message = |i: usize| -> Vec<u8> { (0..20 + i % 1400).map(|j| (i + j) as u8).collect() };
    for i in 0..SENT {
        client.send_to(&message(i), (link(2).ipv4, 5000)).unwrap();
        let (length, from) = server.recv_from(&mut buffer).expect("no datagram is lost");
        assert_eq!(buffer[..length], message(i));
        server.send_to(&buffer[..length], from).unwrap();
        let (length, _) = client.recv_from(&mut buffer).expect("no answer is lost");
        assert_eq!(buffer[..length], message(i));
    }

    let received = settle(&mut controller);
    let table = controller.table("Forward.forward");
    let counted = controller.read(Entity::DirectCounterEntry(pb::DirectCounterEntry {
        table_entry: Some(pb::TableEntry { table_id: table, ..Default::default() }),
        ..Default::default()
    }));
    let finished = switch.stop(Signal::SIGINT);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_no_panic(&finished);

    // The captures hold the sockets' data, in both directions and on both sides, without duplicates.
    let pcap = Scratch(dir.0.join("pcap"));
    let files: BTreeMap<String, Vec<(Record, Vec<u8>)>> = (1..=3)
        .flat_map(|n| ["in", "out"].map(|way| format!("veth{n}_{way}.pcap")))
        .map(|name| (name.clone(), capture(&pcap, &name)))
        .collect();
    let requests: Vec<Vec<u8>> = (0..SENT).map(message).collect();
    for name in ["veth1_in.pcap", "veth2_out.pcap"] {
        assert_eq!(datagrams(&files[name], 5000), requests, "{name}");
    }
    let answers = client.local_addr().unwrap().port();
    for name in ["veth2_in.pcap", "veth1_out.pcap"] {
        assert_eq!(datagrams(&files[name], answers), requests, "{name}");
    }
    assert!(datagrams(&files["veth3_out.pcap"], 5000).is_empty(), "h3 is not concerned");

    // The program's counters match the captures.
    let bytes = |frames: &[(Record, Vec<u8>)]| frames.iter().map(|(_, f)| f.len() as i64).sum::<i64>();
    for n in 1..=3u8 {
        let frames = &files[&format!("veth{n}_in.pcap")];
        assert_eq!(received[&n], (frames.len() as i64, bytes(frames)), "port {n}");
    }
    let mut all_hits = 0;
    for counted in counted.expect("direct counters can be read") {
        let Entity::DirectCounterEntry(e) = counted else { panic!("{counted:?}") };
        let (entry, data) = (e.table_entry.expect("its entry"), e.data.expect("its data"));
        let to = entry.r#match.first().and_then(|m| m.field_match_type.clone());
        if let Some(pb::field_match::FieldMatchType::Exact(exact)) = to {
            let to_it = |(_, f): &&(Record, Vec<u8>)| f[..6].ends_with(&exact.value);
            let sent = (1..=3).flat_map(|n| files[&format!("veth{n}_in.pcap")].iter()).filter(to_it).count();
            assert_eq!(data.packet_count, sent as i64, "entry for {:x?}", exact.value);
            all_hits += data.packet_count;
        }
    }
    assert!(all_hits >= 2 * SENT as i64);

    // And so says the account at the end, in which nothing is missing.
    let total = finished.stderr.lines().find(|l| l.contains("packets: received")).expect("a summary");
    let dropped = total.split("dropped ").nth(1).map(numbers).expect("a count of drops");
    let waiting = *numbers(total).last().unwrap();
    let n = numbers(total);
    let (came, made, sent, to_cpu) = (n[0], n[2], n[3], n[4]);
    assert_eq!(came + made, sent + to_cpu + dropped[0] + waiting, "{total}");
    let sum = |way: &str| (1..=3).map(|n| files[&format!("veth{n}_{way}.pcap")].len() as u64).sum::<u64>();
    assert_eq!((came, sent), (sum("in"), sum("out")), "{total}");
    for n in 1..=3 {
        let line =
            finished.stderr.lines().find(|l| l.contains(&format!("port {n} (veth{n}): received"))).unwrap();
        let (frames_in, frames_out) =
            (&files[&format!("veth{n}_in.pcap")], &files[&format!("veth{n}_out.pcap")]);
        let expected = [
            frames_in.len() as u64,
            bytes(frames_in) as u64,
            frames_out.len() as u64,
            bytes(frames_out) as u64,
            0,
        ];
        // The first two numbers are the port's and the interface's.
        assert_eq!(numbers(line)[2..], expected, "{line}");
    }
}

fn tcp_passes_with_the_offloads_of_veth() {
    const BYTES: usize = 4 << 20;
    let rack = rack();
    let (switch, _controller) = start(&rack, &[]);
    for address in [SocketAddr::from((link(3).ipv4, 80)), SocketAddr::from((link(3).ipv6, 80))] {
        let listener =
            host(&rack, 3).enter(|| TcpListener::bind(address).expect("the address is there")).unwrap();
        let data: Vec<u8> = (0..BYTES as u32).map(|i| (i ^ (i >> 9)) as u8).collect();
        let expected = data.clone();
        let receiver = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).expect("all of it comes");
            stream.write_all(b"done").unwrap();
            all
        });
        let answer = host(&rack, 1)
            .enter(|| {
                let mut stream = TcpStream::connect_timeout(&address, PATIENCE).expect("a connection");
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                stream.set_write_timeout(Some(PATIENCE)).unwrap();
                stream.write_all(&data).expect("all of it goes");
                stream.shutdown(std::net::Shutdown::Write).unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).expect("an answer");
                answer
            })
            .unwrap();
        assert_eq!(answer, "done");
        assert!(receiver.join().unwrap() == expected, "received frames differ from sent ones");
    }
    assert_eq!(switch.stop(Signal::SIGTERM).code, Some(0));
}

/// Datagrams pass while the program is replaced, with its state, again and again: each goes through one program from
/// beginning to end, and none is lost, whatever runs the programs.
fn programs_are_replaced_between_two_packets() {
    const SENT: u32 = 1500;
    const SWAPS: u8 = 8;
    let rack = rack();
    let two = if std::thread::available_parallelism().is_ok_and(|n| n.get() >= 2) { "2" } else { "1" };
    for (executor, workers) in [("engine", "1"), ("interp", "1"), ("engine", two)] {
        let program = file("tests/programs/tagged.p4");
        let mut args = vec![program.as_str(), "--executor", executor, "--workers", workers];
        let ports: Vec<String> =
            rack.ports.iter().map(|p| format!("-i{}@{}", p.number, p.interface)).collect();
        args.extend(ports.iter().map(String::as_str));
        let switch = rack.switch.enter(|| Switch::start(&args)).unwrap();
        let (mut controller, _) = rack.switch.enter(|| connect(switch.address, 1)).unwrap();
        let server = host(&rack, 2).enter(|| UdpSocket::bind((link(2).ipv4, 5000)).unwrap()).unwrap();
        server.set_read_timeout(Some(PATIENCE)).unwrap();
        let client = host(&rack, 1).enter(|| UdpSocket::bind((link(1).ipv4, 0)).unwrap()).unwrap();
        let sender = std::thread::spawn(move || {
            for sequence in 0..SENT {
                let mut datagram = sequence.to_be_bytes().to_vec();
                datagram.extend([0; 60]);
                client.send_to(&datagram, (link(2).ipv4, 5000)).unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let receiver = std::thread::spawn(move || {
            let mut buffer = [0; 128];
            let mut tags = Vec::new();
            for expected in 0..SENT {
                let (length, _) = server.recv_from(&mut buffer).expect("no datagram is lost");
                let sequence = u32::from_be_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]);
                assert_eq!((length, sequence), (64, expected), "in order, each once");
                assert_eq!(buffer[4], buffer[5], "datagram {sequence} went through one program");
                tags.push(buffer[4]);
            }
            tags
        });
        let text = std::fs::read_to_string(&program).unwrap();
        for tag in 2..2 + SWAPS {
            std::thread::sleep(Duration::from_millis(100));
            let next = format!("#define TAG {tag}\n{text}");
            controller.replace_pipeline(next.as_bytes(), Action::ReconcileAndCommit).expect("it fits");
        }
        sender.join().expect("all is sent");
        let mut tags = receiver.join().expect("all is right");
        assert!(tags.is_sorted(), "{executor}: no datagram goes through a program that was replaced");
        tags.dedup();
        assert!(tags.len() > 2, "{executor}: programs {tags:?} saw traffic");
        assert_eq!(controller.counter("TaggedIngress.seen", 0).0, i64::from(SENT), "{executor}: state stays");
        let finished = switch.stop(Signal::SIGINT);
        assert_eq!(finished.code, Some(0), "{finished:?}");
        assert_no_panic(&finished);
    }
}

/// A switch with nothing to do leaves the processor to others.
fn an_idle_switch_sleeps() {
    let rack = rack();
    let (switch, _controller) = start(&rack, &[]);
    // Start-up is not counted: neighbour discovery ends within a second or two.
    std::thread::sleep(Duration::from_secs(3));
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", switch.pid())).expect("it runs");
        // User and system time: fields 14 and 15, of which the name, in brackets, is the second.
        let rest = stat.rsplit(')').next().unwrap_or("");
        rest.split_whitespace().skip(11).take(2).map(|n| n.parse::<u64>().unwrap()).sum::<u64>()
    };
    let (before, start) = (ticks(), Instant::now());
    std::thread::sleep(Duration::from_secs(4));
    // Linux counts in hundredths of a second, so this is also the share of a core in percent of a second.
    let share = (ticks() - before) as f64 / 100.0 / start.elapsed().as_secs_f64();
    assert!(share < 0.01, "an idle switch used {:.1} % of a core", share * 100.0);
    assert_eq!(switch.stop(Signal::SIGTERM).code, Some(0));
}

/// The commands in examples/forwarder/README.md, typed into p4runtime-shell.
fn the_steps_of_the_example_work() {
    let Some(python) = Client::Shell.python("the_steps_of_the_example_work") else { return };
    let readme = std::fs::read_to_string(file("examples/forwarder/README.md")).unwrap();
    let typed: Vec<&str> = readme.lines().filter_map(|l| l.trim_start().strip_prefix(">>> ")).collect();
    assert!(typed.len() > 5, "{typed:?}");
    let rack = rack();
    let switch = bare(&rack, &[]);
    let dir = Scratch::new("shell");
    let input = std::fs::File::open(dir.write("typed", typed.join("\n") + "\n")).unwrap();
    let mut shell = Command::new(python);
    shell
        .args(["-m", "p4runtime_sh", "--grpc-addr", &switch.address.to_string()])
        .args(["--device-id", "1", "--election-id", "0,1"])
        .env("IPYTHONDIR", dir.path("ipython"))
        .stdin(input);
    let finished = rack.switch.enter(|| finish(shell)).unwrap();
    assert_eq!(finished.code, Some(0), "{finished:?}");
    for bad in ["Traceback", "Error", "Exception"] {
        assert!(!finished.stdout.contains(bad) && !finished.stderr.contains(bad), "{finished:?}");
    }
    assert_eq!(finished.stdout.matches("P4Runtime sh >>>").count(), typed.len() + 1, "{}", finished.stdout);
    for read in ["(\"Forward.send\")", "(\"Forward.received\")", "table_entry {"] {
        assert!(finished.stdout.contains(read), "no {read} in {}", finished.stdout);
    }
    // And now the two hosts reach each other.
    let server = host(&rack, 2).enter(|| UdpSocket::bind((link(2).ipv4, 5000)).unwrap()).unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let client = host(&rack, 1).enter(|| UdpSocket::bind((link(1).ipv4, 0)).unwrap()).unwrap();
    client.send_to(b"hello", (link(2).ipv4, 5000)).unwrap();
    let (length, from) = server.recv_from(&mut [0; 16]).expect("it arrives");
    assert_eq!((length, from), (5, client.local_addr().unwrap()));
}

fn interfaces_come_and_go() {
    let switch_side = Namespace::new("switch").unwrap();
    let plug = |n: u8| {
        let host = Namespace::new(format!("h{n}")).unwrap();
        join((&switch_side, &link(9)), (&host, &link(n)), 1500).unwrap();
        host
    };
    let first = plug(1);
    let (switch, mut controller) = switch_side
        .enter(|| {
            let switch = Switch::start(&[&file(FORWARDER), "-i", "1@eth0"]);
            let (controller, _) = connect(switch.address, 1);
            (switch, controller)
        })
        .unwrap();
    // Unused addresses: the host tries to resolve them, and the switch sees the requests.
    let mut passes = |host: &Namespace, what: &str| {
        let before = controller.counter("Forward.received", 1).0;
        let deadline = Instant::now() + PATIENCE;
        let socket = host.enter(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
        for nobody in (100..200).cycle() {
            let _ = socket.send_to(b"?", (Ipv4Addr::new(10, 0, 50, nobody), 9));
            std::thread::sleep(Duration::from_millis(20));
            if controller.counter("Forward.received", 1).0 > before {
                break;
            }
            assert!(Instant::now() < deadline, "nothing arrives {what}");
        }
    };
    passes(&first, "at first");
    // The namespace goes, and with it the cable.
    drop(first);
    switch.wait_for("port 1: 'eth0' was removed: traffic resumes when");
    let second = plug(2);
    passes(&second, "after the interface came back");
    switch.wait_for("port 1: 'eth0' is up again");
    let finished = switch.stop(Signal::SIGINT);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_no_panic(&finished);
}

/// A selector with a member on each of two ports: when the cable of one is pulled out, all packets take the other.
fn members_follow_the_link_that_they_watch() {
    let switch_side = Namespace::new("switch").unwrap();
    let host = Namespace::new("h1").unwrap();
    join((&switch_side, &link(9)), (&host, &link(1)), 1500).unwrap();
    let (switch, mut controller) = switch_side
        .enter(|| {
            let switch = Switch::start(&[&file("tests/programs/watched.p4"), "-i", "1@eth0"]);
            let (controller, _) = connect(switch.address, 1);
            (switch, controller)
        })
        .unwrap();
    let (profile, table) =
        (controller.info.action_profiles[0].preamble.as_ref().unwrap().id, controller.table("Pick.spread"));
    let action = controller.action("Pick.out_of");
    let member = |id: u32, port: u8| {
        let param = pb::action::Param { param_id: 1, value: vec![port] };
        Entity::ActionProfileMember(pb::ActionProfileMember {
            action_profile_id: profile,
            member_id: id,
            action: Some(pb::Action { action_id: action, params: vec![param] }),
        })
    };
    let watching = |member_id, port: u8| pb::action_profile_group::Member {
        member_id,
        weight: 1,
        watch_kind: Some(pb::action_profile_group::member::WatchKind::WatchPort(vec![port])),
    };
    let group = Entity::ActionProfileGroup(pb::ActionProfileGroup {
        action_profile_id: profile,
        group_id: 1,
        // Port 510 leads to the control plane and is always there.
        members: vec![
            watching(1, 1),
            pb::action_profile_group::Member { member_id: 2, weight: 1, watch_kind: None },
        ],
        max_size: 2,
    });
    let entry = Entity::TableEntry(pb::TableEntry {
        table_id: table,
        r#match: vec![pb::FieldMatch {
            field_id: 1,
            field_match_type: Some(pb::field_match::FieldMatchType::Exact(pb::field_match::Exact {
                value: vec![0],
            })),
        }],
        action: Some(pb::TableAction { r#type: Some(pb::table_action::Type::ActionProfileGroupId(1)) }),
        ..Default::default()
    });
    controller.insert(vec![member(1, 1), member(2, 2), group, entry]).unwrap();
    // Packets from the control plane, each with another hash; the program counts where they go.
    let mut send = || {
        let before = [1, 2].map(|port| controller.counter("Pick.picked", port).0);
        for n in 0..64u8 {
            let packet = pb::PacketOut { payload: [&[n; 14][..], &[0; 50]].concat(), metadata: Vec::new() };
            controller.tell(pb::stream_message_request::Update::Packet(packet));
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let after = [1, 2].map(|port| controller.counter("Pick.picked", port).0);
            let picked = [after[0] - before[0], after[1] - before[1]];
            // The host also sends packets on its own.
            if picked[0] + picked[1] >= 64 {
                return picked;
            }
            assert!(Instant::now() < deadline, "{picked:?} of 64");
        }
    };
    let [one, two] = send();
    assert!(one > 8 && two > 8, "{one} and {two}: spread over both");
    plug(&host, false).unwrap();
    switch.wait_for("port 1: carrier lost on 'eth0'");
    assert_eq!(send()[0], 0);
    plug(&host, true).unwrap();
    switch.wait_for("port 1: carrier up on 'eth0'");
    assert!(send()[0] > 8);
    let finished = switch.stop(Signal::SIGINT);
    assert!(finished.stderr.contains("link lost once"), "{}", finished.stderr);
}

fn finsy_sees_interfaces_over_gnmi() {
    let Some(python) = Client::Finsy.python("finsy_sees_interfaces_over_gnmi") else { return };
    let switch_side = Namespace::new("switch").unwrap();
    let host = Namespace::new("h1").unwrap();
    join((&switch_side, &link(9)), (&host, &link(1)), 1500).unwrap();
    let switch = switch_side.enter(|| Switch::start(&[&file(FORWARDER), "-i", "1@eth0"])).unwrap();
    let mut tests = Command::new(python);
    tests
        .args(["-m", "unittest", "--quiet", "test_gnmi"])
        .current_dir(root().join("tests/clients"))
        .env("POINTSMAN_TARGET", switch.address.to_string())
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let inside = switch_side.clone();
    let tests = std::thread::spawn(move || inside.enter(|| finish(tests)).unwrap());
    let mut plugged = true;
    while !tests.is_finished() {
        plugged = !plugged;
        plug(&host, plugged).unwrap();
        std::thread::sleep(Duration::from_millis(500));
    }
    let finished = tests.join().unwrap();
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert!(finished.stderr.contains("\nOK") && !finished.stderr.contains("Ran 0"), "{}", finished.stderr);
    assert_no_panic(&switch.stop(Signal::SIGTERM));
}

fn ports_that_cannot_be_opened() {
    let namespace = Namespace::new("empty").unwrap();
    let check = |args: &[&str], parts: &[&str]| {
        let mut command = pointsman(&["switch", "--p4runtime", "127.0.0.1:0"]);
        command.args(args);
        let finished = namespace.enter(|| finish(command)).unwrap();
        assert_eq!(finished.code, Some(1), "{args:?}: {finished:?}");
        assert_no_panic(&finished);
        for part in parts {
            assert!(finished.stderr.contains(part), "{args:?}: no '{part}' in:\n{}", finished.stderr);
        }
    };
    let program = file(FORWARDER);
    check(&[&program, "-i", "1@nosuch"], &["no such interface 'nosuch'", "ip link"]);
    check(&[&program, "-i", "511@lo"], &["port 511 is the drop port", "another number"]);
    check(&[&program, "-i", "600@lo"], &["port 600 does not fit PortId_t", "9 bits", "smaller number"]);
    let dir = Scratch::new("in-the-way");
    std::fs::create_dir(dir.0.join("lo_in.pcap")).unwrap();
    check(&[&program, "-i", "1@lo", "--pcap", &dir.path("")], &["lo_in.pcap", "could not write the capture"]);
    // An interface that is down is opened: it may come up later. A message says so, though.
    // (While it is down, 127.0.0.1 is missing too.)
    let switch = namespace.enter(|| Switch::start_at("0.0.0.0:0", &[&program, "-i", "1@lo"])).unwrap();
    switch.wait_for("port 1: 'lo' is down: bring it up with `ip link set lo up`");
}
