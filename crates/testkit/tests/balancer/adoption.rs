//! A connection that another switch began continues here, if its service adopts unknown connections.

use super::world::*;
use pointsman_testkit::packet::tcp_flags::*;

/// REASON_ADOPTED
const ADOPTED: u64 = 14;

/// Two servers by hash; both TCP services adopt.
fn world() -> World {
    let mut w = World::new();
    for service in [1, 3] {
        w.add(&format!("quiet_services service={service} -> adopt"));
    }
    w
}

/// Connections of many clients, in both families, with the device that a switch chose for each.
fn begun(w: &mut World) -> Vec<(String, &'static str, u16)> {
    let clients = (1..=40).flat_map(|n| [(client4(n), WEB4), (client6(n), WEB6)]);
    clients
        .map(|(client, service)| (w.establish(&client, service), client, service))
        .map(|(d, c, s)| (c, s, d))
        .collect()
}

fn opened(w: &mut World, device: u16) -> u64 {
    w.rig.counter("device_connections", device.into()).expect("a counter").packets
}

fn adopted(w: &mut World, device: u16) -> u64 {
    let index = u64::from(device) * 16 + ADOPTED;
    w.rig.counter("tally.dispatches", index).expect("a counter").packets
}

#[test]
fn a_segment_of_the_client_goes_where_the_other_switch_sent_it() {
    let connections = begun(&mut World::new());
    let used: std::collections::BTreeSet<u16> = connections.iter().map(|c| c.2).collect();
    assert_eq!(used.len(), DEVICES.len(), "devices of all kinds");
    let mut w = world();
    for (client, service, device) in &connections {
        assert_eq!(w.device_of(&ack(client, service).payload("more")), *device, "{client}");
        // Its answers are translated, and it is an ordinary connection from now on.
        w.answer(*device, &reply(*device, &ack(client, service)).payload("answer"));
        assert_eq!(w.device_of(&ack(client, service)), *device);
    }
    for device in DEVICES {
        assert_eq!(adopted(&mut w, device), opened(&mut w, device));
    }
    assert_eq!(DEVICES.iter().map(|d| opened(&mut w, *d)).sum::<u64>(), connections.len() as u64);
    // It outlives a handshake's time: the client has acknowledged.
    w.wait(20_000);
    let (client, service, device) = &connections[0];
    assert_eq!(w.device_of(&ack(client, service)), *device);
    assert_eq!(adopted(&mut w, *device), opened(&mut w, *device));
}

#[test]
fn a_segment_of_the_device_names_the_device() {
    let connections = begun(&mut World::new());
    let mut w = world();
    for (client, service, device) in &connections {
        w.answer(*device, &reply(*device, &ack(client, service)).payload("data"));
        assert_eq!(w.device_of(&ack(client, service)), *device);
    }
    // Even where the hash names another one: weights have changed since.
    let mut w = world();
    let (client, service, device) = &connections[0];
    let other = DEVICES.into_iter().find(|d| d >> 3 == device >> 3 && d != device).expect("two a server");
    w.answer(other, &reply(other, &ack(client, service)).payload("data"));
    assert_eq!(w.device_of(&ack(client, service)), other);
    assert_eq!((adopted(&mut w, other), opened(&mut w, other)), (1, 1));
}

#[test]
fn handshakes_resets_and_fragments_are_not_adopted() {
    let mut w = world();
    for (client, service) in [(client4(1), WEB4), (client6(1), WEB6)] {
        w.unknown(CLIENTS, &segment(&client, service, SYN | ACK));
        w.dropped(CLIENTS, &segment(&client, service, RST), "DROP_NO_CONNECTION");
        w.dropped(CLIENTS, &segment(&client, service, RST | ACK), "DROP_NO_CONNECTION");
        // A device that answers a SYN of a client to its own address is left alone.
        let own = reply(8, &segment(&client, service, SYN | ACK));
        w.expect(device_port(8), &own, CLIENTS, &own.clone().macs(SWITCH, ROUTER).with_ip(|ip| ip.ttl -= 1));
    }
    let part = ack(&client4(1), WEB4).with_ip(|ip| ip.more_fragments = true);
    w.dropped(CLIENTS, &part, "DROP_NO_CONNECTION");
    let none: u64 = DEVICES.iter().map(|d| opened(&mut w, *d)).sum();
    assert_eq!(none, 0);
    // Other services are as before.
    let mut plain = World::new();
    plain.unknown(CLIENTS, &ack(&client4(1), WEB4));
}

/// What opens a connection has a source of its own, and is given up as a handshake is unless the client continues.
#[test]
fn spoofed_and_forgotten() {
    let mut w = world();
    let source = "sources_v4 address=192.0.2.1 -> only_from(511)";
    w.add(source);
    let first = ack(&client4(1), WEB4);
    w.dropped(CLIENTS, &first, "DROP_SPOOFED");
    w.remove(source);
    let device = w.device_of(&first);
    w.wait(6_000);
    assert_eq!(w.device_of(&first), device);
    assert_eq!(opened(&mut w, device), 1, "a segment still finds it");
}

/// The end of a connection that moved is an end here, too.
#[test]
fn fins() {
    let mut w = world();
    let client = client4(1);
    let device = w.device_of(&segment(&client, WEB4, FIN | ACK));
    w.answer(device, &reply(device, &ack(&client, WEB4)).with_tcp(|t| t.flags = FIN | ACK));
    assert_eq!(opened(&mut w, device), 1);
    w.device_of(&ack(&client, WEB4));
    // Over: its next segment begins it once more.
    w.wait(LINGER_MS + UNIT_MS);
    w.device_of(&ack(&client, WEB4));
    assert_eq!(opened(&mut w, device), 1, "a segment still finds it");
    let next = w.device_of(&syn(&client, WEB4));
    assert_eq!(opened(&mut w, next), 2);
}
