//! The balancer with `-D BALANCER_TEA`, its switch and services, and addresses.

use crate::switch::*;
use pointsman_ir::Executor;
use pointsman_remote::{Layout, RING, SLOT, Scratchpads, Table};
use pointsman_stf::Rig;
use pointsman_testkit::compile::own_program;
use pointsman_v1model::SwitchConfig;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

pub const LAYOUT: Layout = Layout { key: 20, value: 4, scratchpads: Scratchpads::Ring };
/// Ports.
pub const CLIENTS: u32 = 1;
pub const DEVICES: u32 = 2;
pub const PAIRS: u32 = 4;
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

fn number(address: IpAddr) -> String {
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

/// The program with these replacements, each of which must apply.
pub fn balancer<E>(changes: &[(&str, &str)]) -> App<E> {
    let path = own_program("balancer");
    let folder = path.parent().expect("a folder");
    let mut text = with_includes(&std::fs::read_to_string(&path).expect("readable"), folder);
    // Files are there as often as they are included.
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    App::of_text(&format!("#define BALANCER_TEA\n#define CONNECTION_PLACE_BITS 16\n{text}"))
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
        let (protocol, vip) = (if is_udp(service) { 17 } else { 6 }, number(vip(service)));
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
            let (number, address) = (FIRST_DEVICE + u32::from(slot), number(device(service, slot)));
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
fn server_entries(table: &Table, i: usize) -> Vec<String> {
    let (part, first) = (table.parts()[i], i as u32 * PAIRS);
    let mut all = vec![range(part, &alone(first, PAIRS))];
    for j in 0..PAIRS {
        let ring = ring(table.server_bytes(i)) + u64::from(j * RING * SLOT);
        all.push(peer(i, (first + j, 0x20 + j), REGION, ring, part.start));
    }
    all
}

/// The switch, with the table's servers.
pub fn rig<E: Executor + Send + Sync>(app: &App<E>, table: &Table) -> Rig<E> {
    let mut rig = app.rig(SwitchConfig { cpu_port: Some(510), ..SwitchConfig::default() });
    configure(&mut rig, "mirroring_add 1 2\n");
    set_groups(&mut rig, table.servers().map(|i| (group(i), (1..=3).map(|n| (n, port(i))).collect())));
    set_config(&mut rig, (0, table.parts().iter().map(|part| part.cells).sum()), TIMEOUT / US, WAIT);
    for entry in entries().into_iter().chain(table.servers().flat_map(|i| server_entries(table, i))) {
        rig.add(&entry).unwrap_or_else(|e| panic!("{e}"));
    }
    set_wait(&mut rig, 20 * US);
    rig
}
