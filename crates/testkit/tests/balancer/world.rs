//! The rack that every scenario starts from, and what can be done to it.
//!
//! ```text
//!  clients 192.0.2.0/24, 2001:db8::/64 -- router --1                      2-- server 1: devices 8 (cpu), 9 (nic)
//!  plain network 10.0.9.0/24, fd09::/64 --------- 4   switch 10.0.0.1    3-- server 2: devices 16 (cpu), 17 (nic)
//! ```
//! VIP 10.0.0.100 and fd00::100; TCP port 80 and UDP port 53 are services.

use pointsman_ir::Program;
use pointsman_testkit::Rig;
use pointsman_testkit::compile::{compile_with, own_includes, own_program};
use pointsman_testkit::packet::{Body, L4, Mac, Packet, Report, Sum, check_checksums, tcp_flags};
use pointsman_v1model::{DropReason, Output, Pipeline, Prepared, Replica, Switch, SwitchConfig};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

pub const SWITCH: Mac = [0x02, 0x50, 0x4d, 0, 0, 1];
pub const ROUTER: Mac = [2, 0, 0, 0, 0, 1];
pub const PLAIN: Mac = [2, 0, 0, 0, 0, 4];
pub const CLIENTS: u32 = 1;
pub const PLAIN_PORT: u32 = 4;
pub const CPU: u32 = 510;

pub const VIP4: &str = "10.0.0.100";
pub const VIP6: &str = "fd00::100";
pub const WEB4: &str = "10.0.0.100:80";
pub const WEB6: &str = "[fd00::100]:80";
pub const DNS4: &str = "10.0.0.100:53";
pub const DNS6: &str = "[fd00::100]:53";
/// VIP, protocol and port of each service, by its number less one.
pub const SERVICES: [(&str, u8, u16); 4] = [(VIP4, 6, 80), (VIP4, 17, 53), (VIP6, 6, 80), (VIP6, 17, 53)];
pub const DEVICES: [u16; 4] = [8, 9, 16, 17];

/// Slots of a server.
pub const SLOTS: usize = super::SERVER_DEVICES;
/// A bit for every device of a server.
pub const ALL: u16 = (u16::MAX as u32 >> (16 - SLOTS)) as u16;

/// The number of the device in a slot of server 1.
pub fn in_slot(slot: usize) -> usize {
    8 + slot % 8 + ((slot / 8) << 16)
}

/// By the number in its addresses, which no other device has.
pub fn named(slot: usize) -> u16 {
    if slot < 8 { 8 + slot as u16 } else { 64 + slot as u16 }
}

pub const HASH: u8 = 0;
pub const ROUND_ROBIN: u8 = 1;
pub const AVAILABILITY: u8 = 2;

/// Idle time of a connection, and how long it lingers after its end.
pub const IDLE_MS: u64 = 30_000;
pub const LINGER_MS: u64 = 2_000;
/// How much longer it may be: times are kept in units of 66 and 1.024 ms, and rounded up (connections.p4).
pub const UNIT_MS: u64 = 70;

pub fn program() -> Arc<Program> {
    static PROGRAM: OnceLock<Arc<Program>> = OnceLock::new();
    PROGRAM
        .get_or_init(|| {
            let devices = format!("SERVER_DEVICES={SLOTS}");
            compile_with(&own_program("balancer"), &[&own_includes()], &[&devices])
                .unwrap_or_else(|e| panic!("{e}"))
        })
        .clone()
}

/// Values of the constants DROP_* and REPORT_ACCEPTED of headers.p4.
pub fn reasons() -> BTreeMap<String, u64> {
    let path = own_program("balancer").with_file_name("headers.p4");
    let text = std::fs::read_to_string(path).expect("headers.p4 is readable");
    let constants = text.lines().filter_map(|l| {
        let (name, rest) = l.strip_prefix("const bit<8> ")?.split_once(" = ")?;
        let value = rest.split(';').next()?.parse().ok()?;
        (name.starts_with("DROP_") || name == "REPORT_ACCEPTED").then(|| (name.to_string(), value))
    });
    constants.collect()
}

pub fn device_mac(device: u16) -> Mac {
    [2, 0, 0, 0, 1, device as u8]
}

pub fn device_address(device: u16, v4: bool) -> String {
    if v4 { format!("10.0.1.{device}") } else { format!("fd01::{device}") }
}

pub fn device_port(device: u16) -> u32 {
    1 + u32::from(device >> 3)
}

/// The `n`th client, with address and port.
pub fn client4(n: u32) -> String {
    format!("192.0.2.{}:{}", 1 + n / 50_000 % 250, 10_000 + n % 50_000)
}

/// The `n`th client, with address and port.
pub fn client6(n: u32) -> String {
    format!("[2001:db8::{:x}]:{}", 1 + n / 50_000, 10_000 + n % 50_000)
}

pub fn is_v4(packet: &Packet) -> bool {
    matches!(&packet.body, Body::Ip(ip) if ip.src.is_ipv4())
}

pub struct World {
    pub rig: Rig<super::Tested>,
    reasons: BTreeMap<String, u64>,
}

impl World {
    /// Both servers in all services, every device enabled, rings of five to one for the CPU, the policy `HASH`, no
    /// reports needed.
    pub fn new() -> World {
        let ports: BTreeSet<u32> = [1, 2, 3, 4, CPU].into();
        let config = SwitchConfig { cpu_port: Some(CPU), ports: Some(ports), ..SwitchConfig::default() };
        let switch = Switch::new(config).unwrap_or_else(|e| panic!("{e}"));
        // Native code takes longer to make than most of these tests to run.
        static PREPARED: OnceLock<Prepared<super::Tested>> = OnceLock::new();
        let prepared = PREPARED.get_or_init(|| {
            let pipeline = Pipeline::load(program()).unwrap_or_else(|e| panic!("{e:?}"));
            switch.preparer().prepare(pipeline).unwrap_or_else(|e| panic!("{e}"))
        });
        let rig = Rig::ready(prepared.clone(), switch).unwrap_or_else(|e| panic!("{e}"));
        let mut w = World { rig, reasons: reasons() };
        w.wait(1000);
        for a in ["10.0.0.1", VIP4] {
            w.add(&format!("local_v4 address={a} -> is_local"));
        }
        for a in ["fd00::1", VIP6] {
            w.add(&format!("local_v6 address={a} -> is_local"));
        }
        for a in ["10.0.0.1", VIP4] {
            w.add(&format!("sources_v4 address={a} -> only_from(511)"));
        }
        for a in ["fd00::1", VIP6] {
            w.add(&format!("sources_v6 address={a} -> only_from(511)"));
        }
        w.add("routes_v4 prefix=0.0.0.0/0 -> next_hop(1, 02:00:00:00:00:01)");
        w.add("routes_v6 prefix=::/0 -> next_hop(1, 02:00:00:00:00:01)");
        w.add("routes_v4 prefix=10.0.9.0/24 -> next_hop(4, 02:00:00:00:00:04)");
        w.add("routes_v6 prefix=fd09::/64 -> next_hop(4, 02:00:00:00:00:04)");
        for d in DEVICES {
            w.add_device(d);
        }
        for service in 1..=4 {
            w.fill(service, 0, &[1, 2], &[0, 0, 0, 0, 0, 1]);
            w.service(service, HASH, 0);
        }
        w
    }

    /// One server only, so that a scenario knows which.
    pub fn one_server(policy: u8) -> World {
        let mut w = World::new();
        for service in 1..=4 {
            w.slots(service, 0, &[1]);
            w.service(service, policy, 0);
        }
        w
    }

    pub fn add(&mut self, entry: &str) {
        self.rig.add(entry).unwrap_or_else(|e| panic!("{e}"));
    }

    pub fn set(&mut self, entry: &str) {
        self.rig.set(entry).unwrap_or_else(|e| panic!("{e}"));
    }

    pub fn remove(&mut self, entry: &str) {
        self.rig.remove(entry).unwrap_or_else(|e| panic!("{e}"));
    }

    pub fn wait(&mut self, ms: u64) {
        self.rig.wait_ms(ms);
    }

    /// Adds a device's entries: its place, the source of its answers, and the sender of its reports.
    pub fn add_device(&mut self, d: u16) {
        let (a4, a6, port) = (device_address(d, true), device_address(d, false), device_port(d));
        let mac = device_mac(d).map(|b| format!("{b:02x}")).join(":");
        self.add(&format!("devices_v4 device={d} -> set_device_v4({a4}, {port}, {mac})"));
        self.add(&format!("devices_v6 device={d} -> set_device_v6({a6}, {port}, {mac})"));
        self.add(&format!("sources_v4 address={a4} -> only_from({port})"));
        self.add(&format!("sources_v6 address={a6} -> only_from({port})"));
        for (i, (vip, proto, l4)) in SERVICES.iter().enumerate() {
            let (v, address) = if i < 2 { (4, &a4) } else { (6, &a6) };
            self.add(&format!(
                "backends_v{v} ingress_port={port} address={address} protocol={proto} port={l4} -> set_backend_v{v}({}, {d}, {vip})",
                i + 1
            ));
        }
        let (server, bit) = (d >> 3, 1 << (d & 7));
        self.add(&format!("report_keys agent={d} number=0 -> trust_source"));
        for (v, address) in [(4, &a4), (6, &a6)] {
            self.add(&format!(
                "report_sources_v{v} ingress_port={port} source={address} server={server} -> accept_reports({bit}, {d})"
            ));
        }
    }

    /// Server 1 gets a device in every slot, services 1 (TCP) and 2 (UDP) use them all, and the agent of the first reports for all.
    pub fn fill_slots(&mut self) {
        for slot in 2..SLOTS {
            let (d, name) = (in_slot(slot), named(slot));
            self.add(&format!(
                "devices_v4 device={d} -> set_device_v4(10.0.1.{name}, 2, 02:00:00:00:01:{name:02x})"
            ));
            for (service, protocol, port) in [(1, 6, 80), (2, 17, 53)] {
                self.add(&format!(
                    "backends_v4 ingress_port=2 address=10.0.1.{name} protocol={protocol} port={port} \
                     -> set_backend_v4({service}, {d}, {VIP4})"
                ));
            }
        }
        self.set(&format!(
            "report_sources_v4 ingress_port=2 source=10.0.1.8 server=1 -> accept_reports({ALL}, 8)"
        ));
        let order: Vec<u8> = (0..SLOTS as u8).collect();
        for service in [1, 2] {
            self.pool(service, 0, 1, ALL, 0, 0);
            self.priorities(service, 0, 1, &order);
        }
    }

    /// The agent of the first device reports for these devices of server 1, half by half; with their loads, if there are any.
    #[track_caller]
    pub fn report_slots(&mut self, mask: u16, available: u16, metrics: u16, loads: &[[u8; 4]]) {
        let sequence = (self.rig.now.0 / 1_000_000) as u32;
        for half in 0..SLOTS / 8 {
            let part = |bits: u16| (bits >> (8 * half)) as u8;
            if part(mask) == 0 {
                continue;
            }
            let server = 1 | (half as u16) << 13;
            let words = loads.chunks(8).nth(half).unwrap_or_default();
            let report = Report {
                length: 3 + words.len() as u8,
                metrics,
                ..Report::new(server, part(mask), part(available), sequence)
            };
            let mut bytes = report.bytes();
            bytes.extend(words.iter().flatten());
            self.dropped(2, &report_packet(8, true, &report).payload(bytes), "REPORT_ACCEPTED");
        }
    }

    /// Sixteen slots, dealt to these servers in turn.
    pub fn slots(&mut self, service: u16, epoch: u8, servers: &[u16]) {
        for slot in 0..16 {
            let server = servers[slot % servers.len()];
            self.set(&format!(
                "server_slots service={service} epoch={epoch} slot={slot} -> use_server({server})"
            ));
        }
    }

    /// Slots, pools (both devices), rings of these slots, priorities (the lower slot first).
    pub fn fill(&mut self, service: u16, epoch: u8, servers: &[u16], ring: &[u8]) {
        self.slots(service, epoch, servers);
        for server in servers {
            self.pool(service, epoch, *server, 3, ring.len() as u16, 0);
            self.ring(service, epoch, *server, ring);
            self.priorities(service, epoch, *server, &[0, 1]);
        }
    }

    pub fn ring(&mut self, service: u16, epoch: u8, server: u16, ring: &[u8]) {
        for (i, slot) in ring.iter().enumerate() {
            self.set(&format!(
                "rings service={service} epoch={epoch} server={server} position={i} -> use_device({slot})"
            ));
        }
    }

    /// Which devices a service uses of a server; its ring has the number 100 * service + server.
    pub fn pool(&mut self, service: u16, epoch: u8, server: u16, devices: u16, ring: u16, timeout_ms: u32) {
        let number = 100 * service + server;
        self.set(&format!(
            "pools service={service} epoch={epoch} server={server} -> set_pool({devices}, {number}, {ring}, {timeout_ms})"
        ));
    }

    /// Slots of a server in order of preference.
    pub fn priorities(&mut self, service: u16, epoch: u8, server: u16, slots: &[u8]) {
        for (slot, priority) in (0..SLOTS).flat_map(|s| (3..=18).map(move |p| (s, p))) {
            let bit = 1 << slot;
            // Most of them are missing.
            let _ = self.rig.remove(&format!(
                "dip_table service={service} epoch={epoch} server={server} available={bit}&&&{bit} \
                 priority={priority} -> use_device(0)"
            ));
        }
        for (i, slot) in slots.iter().enumerate() {
            let (bit, priority) = (1 << slot, 18 - i);
            self.set(&format!(
                "dip_table service={service} epoch={epoch} server={server} available={bit}&&&{bit} \
                 priority={priority} -> use_device({slot})"
            ));
        }
    }

    /// The entry of a service: all that is switched with one write.
    pub fn service(&mut self, service: u16, policy: u8, epoch: u8) {
        let (vip, proto, port) = SERVICES[usize::from(service) - 1];
        let v = if service <= 2 { 4 } else { 6 };
        self.set(&format!(
            "services_v{v} vip={vip} protocol={proto} port={port} \
             -> set_service({service}, {policy}, {epoch}, 15, {IDLE_MS})"
        ));
    }

    /// A frame arrives; outgoing frames must have right checksums if it had.
    pub fn send(&mut self, port: u32, frame: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let out: Vec<(u32, Vec<u8>)> = self
            .rig
            .send(port, frame)
            .into_iter()
            .map(|o| match o {
                Output::Port(p, bytes) => (p, bytes),
                Output::Cpu(bytes) => (CPU, bytes),
            })
            .collect();
        assert!(self.rig.stats().is_conserved(), "packets got lost: {:?}", self.rig.stats());
        if check_checksums(frame).is_ok() {
            for (p, bytes) in &out {
                let bytes = if *p == CPU { &bytes[2..] } else { &bytes[..] };
                if let Err(e) = check_checksums(bytes) {
                    panic!("{e}\n in  {:?}\n out {:?}", Packet::parse(frame), Packet::parse(bytes));
                }
            }
        }
        out
    }

    /// `packet` arrives and exactly one packet leaves; returns it and its port.
    pub fn forward(&mut self, port: u32, packet: &Packet) -> (u32, Packet) {
        match self.send(port, &packet.bytes()).as_slice() {
            [(port, bytes)] => (*port, Packet::parse(bytes).unwrap_or_else(|e| panic!("{e}: {bytes:02x?}"))),
            other => {
                let drops: Vec<_> = self.drop_counts().into_iter().filter(|(_, n)| *n != (0, 0)).collect();
                panic!("{} packets left for {packet:?}; drops so far: {drops:?}", other.len());
            }
        }
    }

    /// `packet` arrives on `port` and `want` leaves on `out`.
    #[track_caller]
    pub fn expect(&mut self, port: u32, packet: &Packet, out: u32, want: &Packet) {
        let (got_out, got) = self.forward(port, packet);
        assert_eq!(got, *want);
        assert_eq!(got_out, out);
    }

    fn drop_counts(&mut self) -> BTreeMap<String, (u64, u64)> {
        let names: Vec<(String, u64)> = self.reasons.iter().map(|(n, i)| (n.clone(), *i)).collect();
        let mut out = BTreeMap::new();
        for (name, index) in names {
            let cell = self.rig.counter("drops", index).expect("a counter");
            out.insert(name, (cell.packets, cell.bytes));
        }
        out
    }

    /// `frame` arrives, nothing leaves, and just this reason is counted, with packet and bytes. Reports that are accepted are counted
    /// there, too, but are consumed, not dropped.
    #[track_caller]
    pub fn dropped_frame(&mut self, port: u32, frame: &[u8], reason: &str) {
        let mut want = self.drop_counts();
        let accepted = u64::from(reason == "REPORT_ACCEPTED");
        let fates = |w: &mut World| (w.rig.stats().dropped_by(DropReason::Ingress), w.rig.stats().consumed);
        let (dropped, consumed) = fates(self);
        let cell = want.get_mut(reason).unwrap_or_else(|| panic!("no reason {reason}"));
        cell.0 += 1;
        cell.1 += frame.len() as u64;
        let out = self.send(port, frame);
        let got = self.drop_counts();
        let changes: Vec<_> = got.iter().filter(|(k, v)| want.get(*k) != Some(v)).collect();
        assert!(changes.is_empty(), "wanted {reason}, changed {changes:?}; left: {out:?}");
        assert_eq!(out, [], "dropped and sent");
        assert_eq!(fates(self), (dropped + 1 - accepted, consumed + accepted));
    }

    #[track_caller]
    pub fn dropped(&mut self, port: u32, packet: &Packet, reason: &str) {
        self.dropped_frame(port, &packet.bytes(), reason);
    }

    /// A packet from a client to a service: as it must leave, given the device.
    pub fn towards_device(packet: &Packet, device: u16) -> Packet {
        let v4 = is_v4(packet);
        packet
            .clone()
            .macs(SWITCH, device_mac(device))
            .dst(&device_address(device, v4))
            .with_ip(|ip| ip.ttl -= 1)
    }

    /// An answer of a device: as it must leave for the client.
    pub fn towards_client(packet: &Packet) -> Packet {
        let vip = if is_v4(packet) { VIP4 } else { VIP6 };
        packet.clone().macs(SWITCH, ROUTER).src(vip).with_ip(|ip| ip.ttl -= 1)
    }

    /// A packet of a client; returns its device. Everything else about it is checked.
    #[track_caller]
    pub fn device_of(&mut self, packet: &Packet) -> u16 {
        let packet = packet.clone().macs(ROUTER, SWITCH);
        let (port, got) = self.forward(CLIENTS, &packet);
        let Body::Ip(ip) = &got.body else { panic!("no IP: {got:?}") };
        let device = DEVICES.into_iter().find(|d| device_address(*d, is_v4(&got)) == ip.dst.to_string());
        let device = device.unwrap_or_else(|| panic!("no device: {got:?}"));
        assert_eq!(got, World::towards_device(&packet, device));
        assert_eq!(port, device_port(device));
        device
    }

    /// An answer of `device` to a client; `from` is the service's port, as in `:80`.
    #[track_caller]
    pub fn answer(&mut self, device: u16, packet: &Packet) {
        let packet = packet.clone().macs(device_mac(device), SWITCH);
        self.expect(device_port(device), &packet, CLIENTS, &World::towards_client(&packet));
    }

    /// A connection that is established, both ends having spoken twice; and its device.
    #[track_caller]
    pub fn establish(&mut self, client: &str, service: &str) -> u16 {
        let (first, next) = match service {
            DNS4 | DNS6 => (datagram(client, service), datagram(client, service)),
            _ => (syn(client, service), ack(client, service)),
        };
        let device = self.device_of(&first);
        self.answer(device, &reply(device, &first));
        assert_eq!(self.device_of(&next), device);
        device
    }

    /// A segment of a connection that is not known arrives: its sender gets a RST for it, no longer than the segment, and it is counted.
    #[track_caller]
    pub fn unknown(&mut self, port: u32, packet: &Packet) {
        let count = |w: &mut World| {
            w.rig.counter("drops", w.reasons["DROP_NO_CONNECTION"]).expect("a counter").packets
        };
        let (before, frame) = (count(self), packet.bytes());
        let out = self.send(port, &frame);
        let parsed: Vec<(u32, Packet)> =
            out.iter().map(|(p, b)| (*p, Packet::parse(b).expect("a packet"))).collect();
        assert_eq!(parsed, [(port, super::resets::back(packet))]);
        assert!(out[0].1.len() <= frame.len(), "it grew");
        assert_eq!(count(self), before + 1);
        // A RST is never answered, so that two hosts that do not know a connection do not answer each other for ever.
        let rst = packet.clone().with_tcp(|t| t.flags |= tcp_flags::RST);
        self.dropped(port, &rst, "DROP_NO_CONNECTION");
    }

    /// The agent of `device` reports that it can take connections, or cannot.
    #[track_caller]
    pub fn report(&mut self, device: u16, available: bool) {
        let bit = 1 << (device & 7);
        let sequence = (self.rig.now.0 / 1_000_000) as u32;
        let report = Report::new(device >> 3, bit, if available { bit } else { 0 }, sequence);
        self.dropped(device_port(device), &report_packet(device, true, &report), "REPORT_ACCEPTED");
    }
}

/// A report as the agent on `device` sends it.
pub fn report_packet(device: u16, v4: bool, report: &Report) -> Packet {
    let from = device_address(device, v4);
    let (from, to) = if v4 {
        (format!("{from}:5000"), "10.0.0.1:9876")
    } else {
        (format!("[{from}]:5000"), "[fd00::1]:9876")
    };
    Packet::udp(from, to, report.bytes()).macs(device_mac(device), SWITCH)
}

/// A SYN from a client.
pub fn syn(client: &str, service: &str) -> Packet {
    Packet::tcp(client, service, tcp_flags::SYN).macs(ROUTER, SWITCH)
}

/// A segment from a client in the middle of a connection.
pub fn ack(client: &str, service: &str) -> Packet {
    Packet::tcp(client, service, tcp_flags::ACK).macs(ROUTER, SWITCH)
}

/// A segment from a client with these flags.
pub fn segment(client: &str, service: &str, flags: u8) -> Packet {
    Packet::tcp(client, service, flags).macs(ROUTER, SWITCH)
}

/// A datagram from a client.
pub fn datagram(client: &str, service: &str) -> Packet {
    Packet::udp(client, service, "question").macs(ROUTER, SWITCH)
}

/// The other way: from the service's port on `device` to the client.
pub fn reply(device: u16, to: &Packet) -> Packet {
    let Body::Ip(ip) = &to.body else { panic!("no IP: {to:?}") };
    let mut back = to.clone().macs(device_mac(device), SWITCH).src(&device_address(device, ip.src.is_ipv4()));
    let Body::Ip(b) = &mut back.body else { unreachable!() };
    b.dst = ip.src;
    match &mut b.l4 {
        L4::Tcp(t) => {
            (t.sport, t.dport) = (t.dport, t.sport);
            t.flags = tcp_flags::ACK | (t.flags & tcp_flags::SYN);
        }
        L4::Udp(u) => (u.sport, u.dport) = (u.dport, u.sport),
        _ => panic!("no ports: {to:?}"),
    }
    back
}

/// Without a UDP checksum.
pub fn without_checksum(packet: Packet) -> Packet {
    packet.with_udp(|u| u.checksum = Sum::Is(0))
}

/// Replicas for a multicast group.
pub fn replicas(ports: &[u32]) -> Vec<Replica> {
    ports.iter().map(|p| Replica { port: *p, instance: 0 }).collect()
}
