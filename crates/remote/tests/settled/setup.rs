//! The balancer with `-D BALANCER_TEA`, its switch and services, and addresses.

use pointsman_ir::{Executor, Program};
use pointsman_net::Loader;
use pointsman_remote::{Layout, Scratchpads};
use pointsman_stf::Rig;
use pointsman_testkit::compile::{compile_text, own_includes, own_libraries, own_program};
use pointsman_v1model::{QueueConfig, Switch, SwitchConfig};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;

pub const US: u64 = 1000;
pub const LAYOUT: Layout = Layout { key: 20, value: 4, scratchpads: Scratchpads::Ring };
/// Ports: clients, devices, the first server with memory, the queue of packets that wait; what the switch sends to the controller.
pub const CLIENTS: u32 = 1;
pub const DEVICES: u32 = 2;
pub const SERVER: u32 = 3;
const WAIT: u32 = 8;
pub const MTU: usize = 2048;
pub const REGION: u32 = 0x77;
pub const BASE: u64 = 0x1_0000_0000;
pub const PAIRS: u32 = 4;
/// The longest time of a look-up, and of a frame under way.
pub const TIMEOUT: u64 = 200 * US;
pub const LIFE: u64 = 50 * US;
pub const HOLD: u64 = TIMEOUT + 2 * LIFE;
/// Devices of the only server, and the first one's number.
pub const SLOTS: u8 = 8;
pub const FIRST_DEVICE: u32 = 8;
/// How long the services' connections may stay unseen, in milliseconds.
pub const IDLE_MS: u64 = 6000;

/// Services: 1 and 2 are TCP over IPv4 and IPv6, 3 and 4 UDP.
pub const SERVICES: std::ops::RangeInclusive<u16> = 1..=4;

pub fn is_ipv6(service: u16) -> bool {
    service.is_multiple_of(2)
}

pub fn is_udp(service: u16) -> bool {
    service > 2
}

pub fn vip(service: u16) -> IpAddr {
    match is_ipv6(service) {
        false => Ipv4Addr::new(10, 0, 0, 100).into(),
        true => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0x100).into(),
    }
}

pub fn device(service: u16, slot: u8) -> IpAddr {
    match is_ipv6(service) {
        false => Ipv4Addr::new(10, 0, 1, slot).into(),
        true => Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, slot.into()).into(),
    }
}

/// The slot of a device's address.
pub fn slot(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(a) => a.octets()[3],
        IpAddr::V6(a) => a.octets()[15],
    }
}

pub fn client(service: u16, n: u32) -> IpAddr {
    match is_ipv6(service) {
        false => Ipv4Addr::from(0xc000_0000 + n).into(),
        true => Ipv6Addr::from((0x2001_0db8 << 96) + u128::from(n)).into(),
    }
}

pub fn server_address(i: usize) -> IpAddr {
    Ipv4Addr::new(10, 9, 1, i as u8 + 1).into()
}

fn hex(address: IpAddr) -> String {
    match address {
        IpAddr::V4(a) => format!("0x{:08x}", a.to_bits()),
        IpAddr::V6(a) => format!("0x{:032x}", a.to_bits()),
    }
}

/// Text with the files that it includes from its own folder.
fn with_includes(text: &str, folder: &Path) -> String {
    let mut all = String::new();
    for line in text.lines() {
        let name = line.strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"'));
        match name.map(|name| std::fs::read_to_string(folder.join(name)).expect("readable")) {
            Some(part) => all += &with_includes(&part, folder),
            None => all += &format!("{line}\n"),
        }
    }
    all
}

/// The program with an executor, which all switches share.
pub struct App<E> {
    pub program: Arc<Program>,
    pub loader: Loader<E>,
}

impl<E> App<E> {
    /// With these replacements, each of which must apply.
    pub fn new(changes: &[(&str, &str)]) -> Self {
        let path = own_program("balancer");
        let folder = path.parent().expect("a folder");
        let mut text = with_includes(&std::fs::read_to_string(&path).expect("readable"), folder);
        for (from, to) in changes {
            assert!(text.contains(from), "{from}");
            text = text.replace(from, to);
        }
        let text = format!("#define BALANCER_TEA\n#define CONNECTION_PLACE_BITS 16\n{text}");
        let program = compile_text("balancer.p4", &text, &[&own_includes(), &own_libraries()]);
        App { program: program.unwrap_or_else(|e| panic!("{e:?}")), loader: Loader::default() }
    }
}

/// The pool of a service, with the devices of a bitmap.
pub fn pool(service: u16, devices: u8) -> String {
    format!(
        "pools service={service} epoch=0 server=1 -> set_pool(devices={devices}, ring={service}, ring_length={SLOTS}, timeout_ms=0)"
    )
}

/// A position of a service's ring.
pub fn ring_of(service: u16, position: u8, device: u8) -> String {
    format!("rings service={service} epoch=0 server=1 position={position} -> use_device(device={device})")
}

/// Entries of the services, of their devices, and of the ways to both.
fn entries() -> Vec<String> {
    let mut all = vec![
        format!("routes_v4 prefix=0x00000000/0 -> next_hop(port={CLIENTS}, mac=0x020000000001)"),
        format!("routes_v6 prefix=0x0/0 -> next_hop(port={CLIENTS}, mac=0x020000000001)"),
    ];
    for service in SERVICES {
        let family = if is_ipv6(service) { "v6" } else { "v4" };
        let (protocol, vip) = (if is_udp(service) { 17 } else { 6 }, hex(vip(service)));
        all.push(format!(
            "services_{family} vip={vip} protocol={protocol} port=80 -> \
             set_service(service={service}, policy=1, epoch=0, slots_mask=0, idle_ms={IDLE_MS})"
        ));
        all.push(format!("server_slots service={service} epoch=0 slot=0 -> use_server(server=1)"));
        all.push(pool(service, 0xff));
        if !is_udp(service) {
            all.push(format!("local_{family} address={vip} -> is_local()"));
        }
        for slot in 0..SLOTS {
            let (number, address) = (FIRST_DEVICE + u32::from(slot), hex(device(service, slot)));
            all.push(ring_of(service, slot, slot));
            all.push(format!(
                "backends_{family} ingress_port={DEVICES} address={address} protocol={protocol} port=80 -> \
                 set_backend_{family}(service={service}, device={number}, vip={vip})"
            ));
            if !is_udp(service) {
                all.push(format!(
                    "devices_{family} device={number} -> set_device_{family}(address={address}, port={DEVICES}, mac=0x020000000100)"
                ));
            }
        }
    }
    all
}

/// A server's entries: its share of the cells, and its queue pairs.
fn server(i: usize, (start, cells): (u32, u32), ring: u64) -> Vec<String> {
    let (first, port) = (i as u32 * PAIRS, SERVER + i as u32);
    let mut all = vec![format!(
        "tea_servers cell={start}..{} priority=1 -> server(first_pair={first}, pair_mask={})",
        start + cells - 1,
        PAIRS - 1
    )];
    for j in 0..PAIRS {
        let ring = ring + u64::from(j * pointsman_remote::RING * pointsman_remote::SLOT);
        all.push(format!(
            "tea_pairs pair={} -> peer(pair={}, mac=0x02, address={}, port={port}, group={}, region={REGION}, cells={BASE}, ring={ring}, start={start})",
            first + j,
            0x20 + j,
            server_address(i),
            i + 1
        ));
    }
    all
}

/// The address of a server's scratchpads, behind so many bytes of cells.
pub fn ring(bytes: u64) -> u64 {
    BASE + bytes.next_multiple_of(4096)
}

/// The switch, with these servers: first cell, cells, bytes.
pub fn rig<E: Executor + Send + Sync>(app: &App<E>, servers: &[(u32, u32, u64)]) -> Rig<E> {
    let config = SwitchConfig { cpu_port: Some(510), ..SwitchConfig::default() };
    let switch = Switch::with_shared(config, app.loader.load()).expect("settings");
    let mut rig = Rig::with(app.program.clone(), switch).expect("a switch");
    let mut text = "value_set_add tea_addresses 10.9.0.1\nmirroring_add 1 2\n".to_string();
    for i in 0..servers.len() {
        let (group, port) = (i + 1, SERVER + i as u32);
        text += &format!("mc_mgrp_create {group}\n");
        for n in 1..=3 {
            text += &format!("mc_node_create {n} {port}\nmc_node_associate {group} {}\n", 3 * i + n - 1);
        }
    }
    let lines = pointsman_stf::parse(&text).expect("statements");
    let now = rig.now;
    pointsman_stf::fill(rig.state(), now, &lines).expect("groups");
    let cells: u32 = servers.iter().map(|(_, cells, _)| cells).sum();
    let settings = format!(
        "configure(address=10.9.0.1, mac=0x99, cells={cells}, timeout={}, wait_port={WAIT}, first=0)",
        TIMEOUT / US
    );
    rig.set_default("tea_config", &settings).expect("the settings");
    for entry in entries() {
        rig.add(&entry).unwrap_or_else(|e| panic!("{e}"));
    }
    for (i, (start, cells, bytes)) in servers.iter().enumerate() {
        for entry in server(i, (*start, *cells), ring(*bytes)) {
            rig.add(&entry).unwrap_or_else(|e| panic!("{e}"));
        }
    }
    let queue = QueueConfig { delay_ns: 20 * US, depth_packets: 64, ..QueueConfig::default() };
    rig.switch.configure_queue(WAIT, None, queue).expect("a queue");
    rig
}
