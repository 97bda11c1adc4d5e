//! Controller and agents against the real data plane: the balancer on Pointsman's own switch, through its own P4Runtime
//! server, in virtual time.

mod api;
mod conversation;
mod health;
mod lists;
mod world;

use conversation::OPS;
use pointsman_balance::api::{ROUTES, Request};
use pointsman_balance::controller::{Input, Status};
use pointsman_balance::plan::{Key, Schema};
use pointsman_balance::{DeviceNumber, Policy, Rack, agent};
use pointsman_control::ConnId;
use pointsman_control::proto::p4info::P4Info;
use pointsman_testkit::packet::{Body, L4, Packet};
use pointsman_testkit::random::Random;
use pointsman_wire::siphash::half_sip_hash;
use std::collections::BTreeMap;
use std::time::Duration;
use world::{CLIENT, SWITCH_MAC, VIP, World, example, larger, p4info, with_keys};

fn within(share: Option<&usize>, of: usize, expected: f64) {
    let share = share.copied().unwrap_or(0) as f64 / of as f64;
    assert!((share - expected).abs() < 0.06, "a share of {share} instead of {expected}");
}

/// The P4Info that the unit tests use is that of the present program.
#[test]
fn test_data_is_up_to_date() {
    let stored: P4Info =
        pointsman_control::text::from_text(include_str!("../data/balancer.p4info.txtpb")).expect("valid");
    assert_eq!(Schema::new(&stored), Schema::new(&p4info(&with_keys(&example()))));
}

#[test]
fn a_rack_is_balanced() {
    let mut w = World::new();
    w.run_for(Duration::from_secs(1));
    assert_eq!(w.controller.status(), Status::InSync);
    assert_eq!(w.controller.unresolved(), Vec::<String>::new(), "all devices answered ARP");

    // Policies, one after the other; connections stay where they are.
    let mut went: BTreeMap<u16, u16> = BTreeMap::new();
    let n = 300;
    for (i, policy) in [Policy::P4mite, Policy::Wrr, Policy::Ecmp, Policy::ServerOnly].into_iter().enumerate()
    {
        w.set_policy(policy);
        for (client, port) in went.clone() {
            assert_eq!(w.ask(client), port, "connection {client} moved under {policy}");
        }
        let first = 1000 + i as u16 * n;
        let mut shares: BTreeMap<u16, usize> = BTreeMap::new();
        for client in first..first + n {
            let port = w.ask(client);
            went.insert(client, port);
            *shares.entry(port).or_default() += 1;
        }
        let expected: [f64; 4] = match policy {
            Policy::Wrr => [5.0 / 12.0, 1.0 / 12.0, 5.0 / 12.0, 1.0 / 12.0],
            Policy::Ecmp => [0.25; 4],
            // P4Mite, with all CPUs available, and server-only.
            _ => [0.5, 0.0, 0.5, 0.0],
        };
        for (port, share) in (2..).zip(expected) {
            within(shares.get(&port), usize::from(n), share);
        }
    }

    // Both CPUs stop answering: their agents notice, and the SmartNICs take over.
    w.set_policy(Policy::P4mite);
    for (i, device) in [(0, "10.0.1.11"), (2, "10.0.1.21")] {
        let request = Packet::udp("10.0.0.3:5", format!("{device}:8000"), *b"never answered").bytes();
        w.agent(i, agent::Input::Packet { direction: agent::Direction::In, frame: &request });
    }
    assert_eq!(w.shares(5000..5010).keys().copied().collect::<Vec<_>>(), [2, 4]);
    w.run_for(Duration::from_millis(25));
    let shares = w.shares(5100..5200);
    assert_eq!(shares.keys().copied().collect::<Vec<_>>(), [3, 5]);
    within(shares.get(&3), 100, 0.5);

    // All agents of the second server die: it gets no new connections any more.
    w.agents.truncate(2);
    w.run_for(Duration::from_secs(2));
    assert_eq!(w.shares(5200..5300), [(3, 100)].into());
}

/// Every policy, one after the other, on the real data plane: its entries are accepted, new connections are served, those that exist
/// stay where they are.
#[test]
fn every_policy() {
    let mut w = World::new();
    w.run_for(Duration::from_secs(1));
    let mut went: BTreeMap<u16, u16> = BTreeMap::new();
    for (i, policy) in Policy::ALL.into_iter().enumerate() {
        w.set_policy(policy);
        for (client, port) in went.clone() {
            assert_eq!(w.ask(client), port, "connection {client} moved under {policy}");
        }
        let first = 2000 + i as u16 * 20;
        let shares: BTreeMap<u16, usize> = (first..first + 20).fold(BTreeMap::new(), |mut shares, client| {
            let port = w.ask(client);
            went.insert(client, port);
            *shares.entry(port).or_default() += 1;
            shares
        });
        // Both servers serve, whatever the policy does inside of them.
        assert!(shares.keys().any(|p| *p < 4) && shares.keys().any(|p| *p >= 4), "{policy}: {shares:?}");
    }
    // The controller names a device, which may be of the other server than the hash says.
    for (device, port) in [(DeviceNumber::new(2, 1), 5), (DeviceNumber::new(1, 0), 2)] {
        w.set_policy(Policy::Chosen);
        w.input(Input::Choose { service: "inference".into(), device: Some(device) });
        w.run_for(Duration::from_millis(10));
        assert_eq!(w.shares(4000 + 100 * port..4020 + 100 * port), [(port, 20)].into());
    }
}

/// With more than eight devices on a server all of them serve, under every policy that spreads connections over them; existing connections stay;
/// reports of both halves are accepted; devices of the second half that fail or fall silent get no new connections.
#[test]
fn more_than_eight_devices() {
    for devices in [12, 16] {
        let mut w = World::of(with_keys(&larger(devices)));
        w.run_for(Duration::from_secs(1));
        assert_eq!((w.controller.status(), w.controller.unresolved()), (Status::InSync, Vec::new()));
        let mut went: BTreeMap<u16, u16> = BTreeMap::new();
        for (i, policy) in Policy::ALL.into_iter().enumerate() {
            w.set_policy(policy);
            for (client, port) in went.clone() {
                assert_eq!(w.ask(client), port, "connection {client} moved under {policy}");
            }
            let first = 2000 + i as u16 * 10;
            went.extend((first..first + 10).map(|client| (client, w.ask(client))).collect::<Vec<_>>());
        }
        let last = 3 + devices;
        let all: Vec<u16> = (2..=last).collect();
        for policy in [Policy::Wrr, Policy::Ecmp, Policy::LeastConnections] {
            w.set_policy(policy);
            let first = 10_000 + 1000 * policy as u16;
            let shares = w.shares(first..first + 400);
            assert_eq!(shares.keys().copied().collect::<Vec<_>>(), all, "{policy}");
        }
        w.set_policy(Policy::Chosen);
        let device = Some(DeviceNumber::new(2, (devices - 1) as u8));
        w.input(Input::Choose { service: "inference".into(), device });
        w.run_for(Duration::from_millis(10));
        assert_eq!(w.shares(4000..4020), [(last, 20)].into());
        // The application in slot 8 fails, the agent in slot 10 falls silent.
        w.set_policy(Policy::Ecmp);
        w.dead.insert(12);
        w.agents.retain(|(port, _)| *port != 14);
        w.run_for(Duration::from_secs(3));
        let left: Vec<u16> = all.into_iter().filter(|p| ![12, 14].contains(p)).collect();
        assert_eq!(w.shares(5000..5400).keys().copied().collect::<Vec<_>>(), left);
    }
}

#[test]
fn a_device_leaves_and_the_controller_restarts() {
    let mut w = World::new();
    w.run_for(Duration::from_secs(1));
    w.set_policy(Policy::Ecmp);
    let before: Vec<u16> = (1000..1100).map(|p| w.ask(p)).collect();
    let full = example();
    let (start, end) =
        (full.rfind("[[server.device]]").expect("there"), full.find("[[service]]").expect("there"));
    let without =
        format!("{}{}", &full[..start], &full[end..]).replace("\"p4mite\"", "\"ecmp\"\nidle_reset = true");
    let rack = with_keys(&without);
    assert_eq!(rack.servers[1].devices.len(), 1);
    w.input(Input::Config(Box::new(rack.clone())));
    w.run_for(Duration::from_millis(100));
    assert_eq!(w.shares(2000..2100).len(), 3, "no new connections");
    let gone = Key::Device { device: DeviceNumber::new(2, 1), v6: false };
    for _ in 0..4 {
        w.run_for(Duration::from_secs(20));
        let now: Vec<u16> = (1000..1100).map(|p| w.ask(p)).collect();
        assert_eq!(now, before, "existing connections continue");
        assert!(w.controller.entries().contains_key(&gone));
    }

    // A new controller finds nothing to do.
    let held = w.controller.entries().clone();
    w.controller = World::controller(&rack);
    w.inbox.clear();
    let outputs = w.server.connection_closed(ConnId(1));
    w.deliver(outputs);
    w.run_for(Duration::from_secs(1));
    assert_eq!((w.controller.status(), w.controller.entries()), (Status::InSync, &held));
    // The clone session of resets is among the entries found.
    assert!(
        held.contains_key(&Key::ResetSession)
            && w.switch.state().is_some_and(|s| s.replication.session(1).is_some())
    );
    let now: Vec<u16> = (1000..1100).map(|p| w.ask(p)).collect();
    assert_eq!(now, before);

    // Nothing more is sent: when the last connection must be over, the device goes.
    w.run_for(Duration::from_secs(32));
    assert!(!w.controller.entries().contains_key(&gone));
}

/// The example with a store, whose secret is known, at an address, and the switch's address.
fn with_store((store, own): (&str, &str)) -> Rack {
    let store = format!(
        "[switch.store]\naddress = \"{store}\"\nport = 9\nmac = \"02:00:0a:00:5a:02\"\nswitches = [\"{own}\"]\nsecret = \"s\"\n"
    );
    let text = example().replacen("[api]", &format!("{store}\n[api]"), 1);
    let mut rack = with_keys(&text);
    rack.take_store_secret("6120736563726574\n").expect("a secret");
    rack
}

/// New connections go to the store, signed, from the switch's address; without the other parts of the rack's file having changed.
#[test]
fn the_controller_sets_up_the_store() {
    let (v4, v6) = (("10.9.1.1", "10.9.1.2"), ("fd09::1", "fd09::a09:102"));
    sets_up_the_store(v4, "10.9.1.7", v6);
    sets_up_the_store(v6, "fd09::7", v4);
}

/// With the addresses of store and switch, another address of the store, and those of the other version of IP.
fn sets_up_the_store(ends: (&str, &str), other: &str, foreign: (&str, &str)) {
    let rack = with_store(ends);
    let mut w = World::of(rack.clone());
    w.run_for(Duration::from_secs(1));
    assert_eq!(w.controller.status(), Status::InSync);
    let session = w.switch.state().is_some_and(|s| s.replication.session(1).is_some());
    assert!(session, "requests that extend a time are copies");
    let request = Packet::udp(format!("{CLIENT}:1000"), format!("{VIP}:8000"), *b"question");
    w.wire.push_back((1, request.macs([2, 0, 0, 0, 0, 1], SWITCH_MAC).bytes()));
    w.left.clear();
    w.run_for(Duration::from_micros(100));
    let (port, packet) = w.left.pop().expect("a request");
    assert_eq!((port, packet.src_mac, packet.dst_mac), (9, [2, 0, 10, 9, 1, 2], [2, 0, 10, 0, 0x5a, 2]));
    let Body::Ip(ip) = &packet.body else { panic!("{packet:?}") };
    assert_eq!((ip.dst.to_string().as_str(), ip.src.to_string().as_str()), ends);
    let L4::Udp(udp) = &ip.l4 else { panic!("{packet:?}") };
    // 48 bytes, key, value, digest; the first switch is number 1.
    let (signed, rest) = udp.payload.split_at(48 + 40 + 4);
    assert_eq!((udp.dport, signed[1], signed[2], signed[9]), (4791, 1, 128 | 2 | 1, 1));
    assert_eq!(rest[..8], half_sip_hash(*b"a secret", signed));
    // A new controller finds nothing to do, and needs the store.
    let held = w.controller.entries().clone();
    assert!(held.contains_key(&Key::StoreConfig));
    w.controller = World::controller(&rack);
    w.inbox.clear();
    let outputs = w.server.connection_closed(ConnId(1));
    w.deliver(outputs);
    w.told.clear();
    w.run_for(Duration::from_secs(1));
    assert_eq!((w.controller.status(), w.controller.entries()), (Status::InSync, &held));
    let found = format!("entries on the switch: {}", held.len());
    assert!(w.told.iter().any(|t| t.ends_with(&found)), "{found}: {:?}", w.told);
    for without in [with_keys(&example()), with_store(foreign)] {
        w.told.clear();
        w.input(Input::Config(Box::new(without)));
        assert!(w.told.iter().any(|t| t.contains("[switch.store] needs another program")), "{:?}", w.told);
    }
    // Another store has the same program.
    w.input(Input::Config(Box::new(with_store((other, ends.1)))));
    w.run_for(Duration::from_millis(100));
    assert_ne!(w.controller.entries().get(&Key::StoreConfig), held.get(&Key::StoreConfig));
    assert_eq!(w.controller.status(), Status::InSync);
}

/// Requests that are nearly right, one changed a little at a time.
#[test]
fn random_requests() {
    let mut o = conversation::Office::default();
    let mut random = Random::new(5);
    let bodies = [
        r#"{"block": "min-finder", "metric": "cpu", "weight": 2, "step": 0}"#,
        r#"{"policy": "prt", "high": 90, "low": 80, "metric2": "network", "weight2": 3}"#,
        r#"{"block": "round-robin", "weights": {"s1/cpu": 5, "s1/nic": 1}, "note": "x"}"#,
        r#"{"policy": "chosen", "servers": "power-of-two", "count": "requests", "priorities": {"s2/cpu": 3}}"#,
    ];
    let queries =
        ["", "?dry_run=true", "?wait_ms=10&limit=3", "?service=inference&limit=5", "?service=%69nference"];
    let mut change = |text: &str| -> String {
        let mut bytes = text.as_bytes().to_vec();
        for _ in 0..random.below(4) {
            let at = random.below(bytes.len() + 1);
            match random.below(4) {
                0 if at < bytes.len() => bytes[at] = random.below(256) as u8,
                1 => bytes.insert(at, b"{}[]\",:/?&=%+0-9.e\\u"[random.below(20)]),
                2 if at < bytes.len() => drop(bytes.remove(at)),
                _ if !bytes.is_empty() => bytes.truncate(at),
                _ => {}
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let mut by_status: BTreeMap<u16, usize> = BTreeMap::new();
    for i in 0..20_000 {
        let (method, path) = ROUTES[i % ROUTES.len()];
        let path = path.replace("{service}", "inference").replace("{change}", "3");
        let target = change(&format!("{path}{}", queries[i / 7 % queries.len()]));
        let body = change(bodies[i / 3 % bodies.len()]);
        let authorization = if i % 5 == 0 { change(OPS) } else { OPS.into() };
        let method = if i % 11 == 0 { change(method) } else { method.into() };
        let status = o.ask(&Request {
            method: &method,
            target: &target,
            authorization: Some(&authorization),
            body: body.as_bytes(),
        });
        *by_status.entry(status).or_default() += 1;
        if i % 1000 == 0 {
            o.turn_page();
            o.restart();
        }
    }
    assert!(
        [200, 202, 400, 401, 404, 405].iter().all(|s| by_status.get(s).is_some_and(|n| *n > 20)),
        "{by_status:?}"
    );
}

/// The fuzz target's entry, with examples of its seeds.
#[test]
fn lists_and_requests_in_any_order() {
    lists::lists(include_bytes!("../../../../fuzz/seeds/members/day"));
    lists::lists(b"");
    let dns = include_bytes!("../../../../fuzz/seeds/members/dns");
    (0..=dns.len()).for_each(|end| lists::lists(&dns[..end]));
    lists::lists(include_bytes!("../../../../fuzz/seeds/members/dns-alias"));
    // The pieces of a day, in random order and cut off anywhere.
    let day = include_str!("../../../../fuzz/seeds/members/day");
    let pieces: Vec<&str> = day.split("---\n").collect();
    let mut random = pointsman_wire::Random::new(7);
    for _ in 0..2_000 {
        let mut text = String::new();
        for _ in 0..random.below(40) {
            let piece = pieces[random.below(pieces.len() as u64) as usize];
            let end = if random.below(10) == 0 {
                random.below(piece.len() as u64 + 1) as usize
            } else {
                piece.len()
            };
            text +=
                &(piece[..end].to_string() + if piece[..end].ends_with('\n') { "---\n" } else { "\n---\n" });
        }
        lists::lists(text.as_bytes());
    }
}

#[test]
fn a_conversation() {
    conversation::conversation(include_bytes!("../../../../fuzz/seeds/api/day"));
    conversation::conversation(b"");
    conversation::conversation(b"PUT\xff\n---\nFILE\n---\nFILE");
}
