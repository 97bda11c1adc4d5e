//! RSTs to both ends of connections that were idle for too long, or whose device failed, if the service requests it.

use super::world::*;
use pointsman_testkit::packet::{Body, L4, Packet, Sum, tcp_flags::*};
use pointsman_v1model::{CloneSession, DropReason};

/// OPTION_RESET_IDLE, OPTION_RESET_FAILED
const IDLE: u8 = 1;
const FAILED: u8 = 2;

/// Services, one after the other; service 1 and 3 (TCP) with these options.
fn world(options: u8) -> World {
    let mut w = World::one_server(AVAILABILITY);
    for service in [1, 3] {
        w.add(&format!("service_options service={service} -> set_options(0, {options})"));
    }
    let session = CloneSession { replicas: replicas(&[4]), ..CloneSession::default() };
    w.rig.state().replication.insert_session(1, session).expect("a new session");
    w
}

/// The RST that answers a segment (RFC 9293, 3.10.7.1).
pub fn back(to: &Packet) -> Packet {
    let Body::Ip(ip) = &to.body else { panic!("no IP: {to:?}") };
    let L4::Tcp(tcp) = &ip.l4 else { panic!("no TCP: {to:?}") };
    let socket = |address: std::net::IpAddr, port: u16| std::net::SocketAddr::new(address, port).to_string();
    let (from, client) = (socket(ip.dst, tcp.dport), socket(ip.src, tcp.sport));
    let rst = Packet::tcp(from, client, RST).macs(SWITCH, to.src_mac);
    let rst = if tcp.flags & ACK != 0 {
        rst.with_tcp(|t| (t.seq, t.ack) = (tcp.ack, 0))
    } else {
        let length = tcp.payload.len() as u32 + (tcp.flags & (SYN | FIN)).count_ones();
        rst.with_tcp(|t| (t.seq, t.ack, t.flags) = (0, tcp.seq.wrapping_add(length), RST | ACK))
    };
    bare(rst)
}

/// The RST that it becomes for the other end.
fn onward(packet: &Packet) -> Packet {
    let rst = packet.clone().payload("").with_tcp(|t| {
        t.flags = RST | (t.flags & ACK);
        t.options.clear();
    });
    bare(rst)
}

/// As the switch makes it.
fn bare(packet: Packet) -> Packet {
    let packet = packet.ttl(64).with_tcp(|t| (t.window, t.checksum) = (0, Sum::Right));
    packet.with_ip(|ip| {
        ip.options.clear();
        if ip.src.is_ipv4() {
            (ip.id, ip.dont_fragment) = (0, true);
        }
    })
}

/// `packet` makes two RSTs: one for its sender, and one for the other end.
#[track_caller]
fn resets_both(w: &mut World, port: u32, packet: &Packet, other: u32, onward: &Packet) {
    let dropped = w.rig.stats().dropped_by(DropReason::Ingress);
    let out = w.send(port, &packet.bytes());
    let parsed: Vec<(u32, Packet)> =
        out.iter().map(|(p, b)| (*p, Packet::parse(b).expect("a packet"))).collect();
    assert_eq!(parsed, [(port, back(packet)), (other, onward.clone())]);
    assert_eq!(w.rig.stats().dropped_by(DropReason::Ingress), dropped);
}

fn drops(w: &mut World, reason: u64) -> u64 {
    w.rig.counter("drops", reason).expect("a counter").packets
}

/// Client and service, each family.
fn families() -> [(String, &'static str); 2] {
    [(client4(1), WEB4), (client6(1), WEB6)]
}

/// A connection that is established; and its device.
fn connect(w: &mut World, client: &str, service: &str) -> u16 {
    let device = w.device_of(&syn(client, service));
    w.answer(device, &reply(device, &syn(client, service)));
    assert_eq!(w.device_of(&ack(client, service)), device);
    device
}

#[test]
fn an_idle_connection_is_reset_by_its_next_segment() {
    for (client, service) in families() {
        for from_device in [false, true] {
            let mut w = world(IDLE);
            let device = connect(&mut w, &client, service);
            w.wait(IDLE_MS);
            let data = ack(&client, service).payload("still there?").with_tcp(|t| {
                (t.flags, t.options) = (ACK | PSH, vec![1; 12]);
            });
            let answer = reply(device, &data);
            // In time: nothing happens.
            assert_eq!(w.device_of(&data), device);
            w.wait(IDLE_MS + UNIT_MS);
            let out = device_port(device);
            for round in 1..=2 {
                if from_device {
                    resets_both(&mut w, out, &answer, CLIENTS, &World::towards_client(&onward(&answer)));
                } else {
                    resets_both(&mut w, CLIENTS, &data, out, &World::towards_device(&onward(&data), device));
                }
                assert_eq!(drops(&mut w, 25), round);
                // It stays so, from wherever a segment comes.
                w.wait(1);
            }
            // Its own RST passes.
            w.device_of(&segment(&client, service, RST));
            // A SYN is a new connection at once.
            w.priorities(if service == WEB4 { 1 } else { 3 }, 0, 1, &[1, 0]);
            assert_eq!(w.device_of(&syn(&client, service)), device ^ 1);
            assert_eq!(w.device_of(&ack(&client, service)), device ^ 1);
        }
    }
}

/// A segment without acknowledgement, and one with FIN: the RST acknowledges the sent data.
#[test]
fn numbers_of_the_answer() {
    for (client, service) in families() {
        for flags in [0, FIN, PSH, FIN | ACK] {
            let mut w = world(IDLE);
            let device = connect(&mut w, &client, service);
            w.wait(IDLE_MS + UNIT_MS);
            let data = segment(&client, service, flags).payload("12345");
            resets_both(
                &mut w,
                CLIENTS,
                &data,
                device_port(device),
                &World::towards_device(&onward(&data), device),
            );
        }
    }
}

/// Handshakes, datagrams, and services that do not ask for it are left alone.
#[test]
fn what_is_not_reset() {
    let mut w = world(IDLE);
    let device = w.device_of(&syn(&client4(1), WEB4));
    w.wait(10_000);
    assert_eq!(w.device_of(&ack(&client4(1), WEB4)), device);
    w.add("service_options service=2 -> set_options(0, 1)");
    let device = w.device_of(&datagram(&client4(2), DNS4));
    w.wait(IDLE_MS + UNIT_MS);
    w.answer(device, &reply(device, &datagram(&client4(2), DNS4)));
    let mut w = world(FAILED);
    let device = connect(&mut w, &client4(1), WEB4);
    w.wait(2 * IDLE_MS);
    assert_eq!(w.device_of(&ack(&client4(1), WEB4)), device);
}

/// Requests in flight end with the connection.
#[test]
fn a_reset_connection_counts_no_longer() {
    let mut w = world(IDLE);
    w.service(1, 3, 0);
    w.set("policies service=1 epoch=0 -> set_policy(0, 0, 0, 0, 32, 6, 1, 0, 0, 0, 0, 0, 0)");
    let device = connect(&mut w, &client4(1), WEB4);
    let register = format!("load.device{}.in_flight", device & 7);
    let in_flight =
        |w: &mut World| w.rig.register(&register, u64::from(device >> 3)).expect("a register").low_u64();
    assert_eq!(in_flight(&mut w), 1);
    w.wait(IDLE_MS + UNIT_MS);
    for _ in 0..3 {
        assert_eq!(w.send(CLIENTS, &ack(&client4(1), WEB4).bytes()).len(), 2);
        assert_eq!(in_flight(&mut w), 0);
    }
}

/// Without the clone session the sender is still reset.
#[test]
fn without_a_session_the_sender_alone() {
    let mut w = world(IDLE);
    w.rig.state().replication.delete_session(1).expect("it is there");
    connect(&mut w, &client4(1), WEB4);
    w.wait(IDLE_MS + UNIT_MS);
    let data = ack(&client4(1), WEB4);
    w.expect(CLIENTS, &data, CLIENTS, &back(&data));
}

/// Connections of a device that failed: reset if the service requests it, otherwise kept.
#[test]
fn a_device_that_failed() {
    for (client, service) in families() {
        let mut w = world(FAILED);
        let device = connect(&mut w, &client, service);
        let data = ack(&client, service).payload("hello");
        w.add(&format!("failed_devices device={device} -> is_failed()"));
        let onward = World::towards_device(&onward(&data), device);
        resets_both(&mut w, CLIENTS, &data, device_port(device), &onward);
        assert_eq!((drops(&mut w, 25), drops(&mut w, 26)), (0, 1));
        // For good, even if the device comes back: its other end knows no connection any more.
        w.remove(&format!("failed_devices device={device} -> is_failed()"));
        resets_both(&mut w, CLIENTS, &data, device_port(device), &onward);
        for options in [0, IDLE] {
            let mut w = world(options);
            let device = connect(&mut w, &client, service);
            w.add(&format!("failed_devices device={device} -> is_failed()"));
            assert_eq!(w.device_of(&data), device);
        }
    }
}

/// Unknown connections: every kind of segment but SYN and RST, each family; nothing is remembered of them.
#[test]
fn segments_of_unknown_connections() {
    let mut w = World::one_server(AVAILABILITY);
    for (client, service) in families() {
        for flags in [0, ACK, FIN, SYN | ACK, SYN | FIN, PSH | ACK, FIN | ACK, SYN | FIN | ACK] {
            w.unknown(CLIENTS, &segment(&client, service, flags));
            let data =
                segment(&client, service, flags).payload("12345").with_tcp(|t| t.options = vec![1; 12]);
            w.unknown(CLIENTS, &data);
        }
        // Fragments of a datagram have no port numbers.
        let part = ack(&client, service);
        let part = if service == WEB4 { part.with_ip(|ip| ip.more_fragments = true) } else { continue };
        w.dropped(CLIENTS, &part, "DROP_NO_CONNECTION");
    }
    // A device's segment of no connection is its own: it may talk to this client by itself.
    let own = reply(8, &ack(&client4(1), WEB4));
    w.expect(device_port(8), &own, CLIENTS, &own.clone().macs(SWITCH, ROUTER).with_ip(|ip| ip.ttl -= 1));
    assert_eq!(w.rig.counter("service_connections", 1).expect("a counter").packets, 0);
    // A service may keep silent.
    w.add("quiet_services service=1 -> is_quiet");
    w.dropped(CLIENTS, &ack(&client4(1), WEB4), "DROP_NO_CONNECTION");
    w.unknown(CLIENTS, &ack(&client6(1), WEB6));
}

/// A switch that lost its connections resets them at once, and new ones work.
#[test]
fn after_a_loss_of_state() {
    let mut w = World::one_server(AVAILABILITY);
    let device = w.establish(&client4(1), WEB4);
    let mut other = World::one_server(AVAILABILITY);
    other.unknown(CLIENTS, &ack(&client4(1), WEB4).payload("more"));
    assert_eq!(other.establish(&client4(1), WEB4), device);
}
