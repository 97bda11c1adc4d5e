//! Entries and packets of a program: included programs by their tables, others by an entries file.

use super::error::ProgramError;
use super::frame::{Fields, SHORTEST, TCP};
use super::reference::Device;
use super::traffic::{CLIENT_MAC, CLIENT_PORT, Service, Source, plain};
use pointsman_ir::{Bits, Executor, KeyMatch, Program};
use pointsman_stf::entries::find_table;
use pointsman_stf::{Command, Line, Rig, run as run_lines};
use pointsman_wire::Random;

/// A program that is known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// `p4/programs/balancer`.
    Balancer,
    /// `p4/programs/router`.
    Router,
    /// `p4/programs/acl`.
    Acl,
}

impl Known {
    /// Finds out by the tables, so that changed copies count too.
    pub fn find(program: &Program) -> Option<Known> {
        let has = |names: &[&str]| names.iter().all(|n| find_table(program, n).is_ok());
        if has(&["services_v4", "server_slots", "pools", "rings", "devices_v4", "backends_v4"]) {
            Some(Known::Balancer)
        } else if has(&["stations", "routes", "next_hops"]) {
            Some(Known::Router)
        } else {
            has(&["AclIngress.rules"]).then_some(Known::Acl)
        }
    }

    /// Entries of its largest table unless the user wants another number.
    pub fn size(self) -> usize {
        match self {
            Known::Balancer => SERVERS * DEVICES,
            Known::Router => 10_000,
            Known::Acl => 4_000,
        }
    }
}

/// The rack that the balancer is measured with: servers, and devices in each.
pub const SERVERS: usize = 64;
/// See [`SERVERS`].
pub const DEVICES: usize = 3;

/// The service of that rack.
pub const SERVICE: Service =
    Service { vip: 0x0a00_0064, port: 80, switch_mac: [2, 0x50, 0x4d, 0, 0, 1], idle_us: 10_000_000 };

fn mac(bytes: [u8; 6]) -> String {
    let digits: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
    digits.join(":")
}

fn ipv4(address: u32) -> String {
    std::net::Ipv4Addr::from(address).to_string()
}

/// The devices of the rack, server by server.
pub fn devices() -> Vec<Device> {
    let at = |i: usize| {
        let (server, slot) = (1 + i / DEVICES, i % DEVICES);
        let address = 0x0a01_0000 | ((server as u32) << 8) | (slot as u32 + 1);
        Device { ipv4: address, mac: [2, 0, 0, 1, server as u8, slot as u8] }
    };
    (0..SERVERS * DEVICES).map(at).collect()
}

/// The balancer's entries: one service on all devices, chosen by hash.
fn balancer() -> Vec<String> {
    let vip = ipv4(SERVICE.vip);
    let (port, idle_ms, slots) = (SERVICE.port, SERVICE.idle_us / 1000, SERVERS - 1);
    let mut entries = vec![
        format!("local_v4 address={vip} -> is_local"),
        format!("routes_v4 prefix=0.0.0.0/0 -> next_hop({CLIENT_PORT}, {})", mac(CLIENT_MAC)),
        format!("services_v4 vip={vip} protocol=6 port={port} -> set_service(1, 0, 0, {slots}, {idle_ms})"),
    ];
    for server in 1..=SERVERS {
        let slot = server - 1;
        entries.push(format!("server_slots service=1 epoch=0 slot={slot} -> use_server({server})"));
        let bitmap = (1 << DEVICES) - 1;
        entries.push(format!(
            "pools service=1 epoch=0 server={server} -> set_pool({bitmap}, {server}, {DEVICES}, 0)"
        ));
        for at in 0..DEVICES {
            entries
                .push(format!("rings service=1 epoch=0 server={server} position={at} -> use_device({at})"));
        }
    }
    for (i, device) in devices().iter().enumerate() {
        let id = ((1 + i / DEVICES) << 3) | (i % DEVICES);
        let (address, station) = (ipv4(device.ipv4), mac(device.mac));
        // A port for each server, after the clients' port.
        let out = 2 + i / DEVICES;
        entries.push(format!("devices_v4 device={id} -> set_device_v4({address}, {out}, {station})"));
        entries.push(format!(
            "backends_v4 ingress_port={out} address={address} protocol=6 port={port} -> set_backend_v4(1, {id}, {vip})"
        ));
    }
    entries
}

/// The router's own MAC address.
const ROUTER: [u8; 6] = [2, 0x50, 0x4d, 0, 0, 1];

/// Stations of the bridge, and next hops.
const STATIONS: u64 = 1024;
const NEXT_HOPS: u64 = 64;

/// The router's entries.
fn router(routes: usize) -> Vec<String> {
    let mut random = Random::new(1);
    let mut entries = vec![format!("stations mac={} -> route()", mac(ROUTER))];
    let port = |i: u64| 2 + i % 62;
    for i in 0..STATIONS {
        let station = mac([2, 0, 1, 0, (i >> 8) as u8, i as u8]);
        entries.push(format!("stations mac={station} -> forward({})", port(i)));
    }
    for i in 0..NEXT_HOPS {
        let neighbour = mac([2, 0, 2, 0, 0, i as u8]);
        entries.push(format!("next_hops next_hop={i} -> send({}, {}, {neighbour})", port(i), mac(ROUTER)));
    }
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < routes {
        let length = match random.below(10) {
            0 => 8 + random.below(9),
            1..=7 => 17 + random.below(8),
            _ => 25 + random.below(8),
        } as u32;
        // Class A to C.
        let address = (0x0100_0000 + random.below(0xde00_0000)) as u32 & (u32::MAX << (32 - length));
        if seen.insert((address, length)) {
            let hop = random.below(NEXT_HOPS);
            entries.push(format!("routes prefix={}/{length} -> set_next_hop({hop})", ipv4(address)));
        }
    }
    entries
}

/// The filter's rules.
fn acl(rules: usize) -> Vec<String> {
    let mut random = Random::new(2);
    let mut seen = std::collections::BTreeSet::new();
    let mut entries = Vec::new();
    while entries.len() < rules {
        let mut prefix = |lengths: &[u32]| {
            let length = lengths[random.below(lengths.len() as u64) as usize];
            let address = (0x0100_0000 + random.below(0xde00_0000)) as u32;
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            format!("{}/{length}", ipv4(address & mask))
        };
        let (src, dst) = (prefix(&[0, 16, 24, 32]), prefix(&[16, 24, 32]));
        let mut keys = format!("src={src} dst={dst}");
        if random.below(10) != 0 {
            let protocol = if random.below(3) == 0 { 17 } else { 6 };
            keys.push_str(&format!(" proto={protocol}"));
        }
        if random.below(3) != 0 {
            keys.push_str(&format!(" dport={}", 1 + random.below(65_535)));
        }
        let action = if random.below(8) == 0 { "deny" } else { "permit" };
        if seen.insert(keys.clone()) {
            let priority = rules - entries.len();
            entries.push(format!("AclIngress.rules {keys} priority={priority} -> {action}()"));
        }
    }
    entries
}

/// Fills one of our programs and returns its packets.
///
/// # Errors
/// An entry does not fit.
pub fn fill<E: Executor>(
    known: Known,
    rig: &mut Rig<E>,
    size: usize,
    flows: usize,
) -> Result<Source, ProgramError> {
    let entries = match known {
        Known::Balancer => balancer(),
        Known::Router => router(size),
        Known::Acl => acl(size),
    };
    for entry in &entries {
        rig.add(entry)?;
    }
    match known {
        Known::Balancer => Ok(Source::Connections(SERVICE)),
        Known::Router => derive(rig, Some("routes"), flows),
        Known::Acl => derive(rig, Some("AclIngress.rules"), flows),
    }
}

/// Fills any program from a file of STF statements and determines its packets: those of the file, else packets that
/// match entries.
///
/// # Errors
/// A statement does not fit the program.
pub fn from_file<E: Executor>(
    rig: &mut Rig<E>,
    lines: &[Line],
    flows: usize,
) -> Result<Source, ProgramError> {
    let (packets, others): (Vec<&Line>, Vec<&Line>) =
        lines.iter().partition(|l| matches!(l.command, Command::Packet { .. }));
    let tells = |l: &&Line| !matches!(l.command, Command::Expect { .. } | Command::NoPacket);
    let others: Vec<Line> = others.into_iter().filter(tells).cloned().collect();
    let report = run_lines(rig, &others).map_err(ProgramError::Statement)?;
    if let Some(failure) = report.failures.into_iter().next() {
        return Err(ProgramError::Failed(Box::new(failure)));
    }
    if packets.is_empty() {
        return derive(rig, None, flows);
    }
    let frame = |l: &Line| match &l.command {
        Command::Packet { port, bytes } => Some((*port, bytes.clone())),
        _ => None,
    };
    Ok(Source::Frames(packets.into_iter().filter_map(frame).collect()))
}

/// A field that a key may match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Port,
    DstMac,
    SrcMac,
    Src,
    Dst,
    Protocol,
    Sport,
    Dport,
}

impl Field {
    /// The field that a key of this name and width most likely means. Names are in users' notation: `hdr.ipv4.dstAddr`.
    fn find(name: &str, width: u32) -> Option<Field> {
        let name = name.to_ascii_lowercase();
        let last = name.rsplit('.').next().unwrap_or("");
        let has = |part: &str| last.contains(part);
        let destination = has("dst") || has("dest") || last.starts_with('d');
        let source = has("src") || has("source") || last.starts_with('s');
        match width {
            48 if destination || last == "mac" => Some(Field::DstMac),
            48 if source => Some(Field::SrcMac),
            32 if destination || last == "prefix" => Some(Field::Dst),
            32 if source => Some(Field::Src),
            16 if has("port") && destination => Some(Field::Dport),
            16 if has("port") && source => Some(Field::Sport),
            8 if has("proto") => Some(Field::Protocol),
            9 if has("ingress_port") => Some(Field::Port),
            _ => None,
        }
    }

    fn set(self, port: &mut u32, fields: &mut Fields, value: u64) {
        let as_mac = || {
            let mut mac = [0; 6];
            mac.copy_from_slice(&value.to_be_bytes()[2..]);
            mac
        };
        match self {
            Field::Port => *port = value as u32,
            Field::DstMac => fields.dst_mac = as_mac(),
            Field::SrcMac => fields.src_mac = as_mac(),
            Field::Src => fields.src = value as u32,
            Field::Dst => fields.dst = value as u32,
            Field::Protocol => fields.protocol = value as u8,
            Field::Sport => fields.sport = value as u16,
            Field::Dport => fields.dport = value as u16,
        }
    }
}

/// A matching value. `random` fills don't-care bits; `None`: no requirement.
fn matching(key: &KeyMatch, random: u64) -> Option<u64> {
    let low = |b: &Bits| b.low_u64();
    match key {
        KeyMatch::Exact(v) | KeyMatch::Optional(Some(v)) => Some(low(v)),
        KeyMatch::Lpm { value, prefix_len } => {
            let rest = value.width() - prefix_len;
            let mask = if rest == 0 { 0 } else { u64::MAX >> (64 - rest.min(64)) };
            (*prefix_len > 0).then(|| low(value) | random & mask)
        }
        KeyMatch::Ternary { mask, .. } if mask.is_zero() => None,
        KeyMatch::Ternary { value, mask } => Some(low(value) | random & !low(mask)),
        KeyMatch::Range { lo, hi } => {
            let span = (low(hi) - low(lo)).saturating_add(1);
            Some(low(lo) + if span == 0 { 0 } else { random % span })
        }
        KeyMatch::Optional(None) => None,
    }
}

/// Packets for this many flows, each matching an entry of every table (or of one), as far as the names of the keys
/// determine the header field; if two tables match a field, the first one counts.
fn derive<E: Executor>(rig: &mut Rig<E>, only: Option<&str>, flows: usize) -> Result<Source, ProgramError> {
    let program = rig.program().clone();
    let only = only.map(|name| find_table(&program, name)).transpose().map_err(ProgramError::Text)?;
    let mut taken = Vec::new();
    let mut tables = Vec::new();
    for (i, table) in program.tables.iter().enumerate() {
        let id = pointsman_ir::TableId(i as u32);
        if only.is_some_and(|t| t != id) {
            continue;
        }
        let field = |(at, key): (usize, &pointsman_ir::Key)| {
            let field = Field::find(&key.name, program.types.scalar_width(key.expr.ty)?)?;
            Some((at, field))
        };
        let mut fields: Vec<(usize, Field)> = table.keys.iter().enumerate().filter_map(field).collect();
        fields.retain(|(_, f)| !taken.contains(f));
        taken.extend(fields.iter().map(|(_, f)| *f));
        let entries: Vec<Vec<KeyMatch>> = rig.state().entries(id).map(|(_, e)| e.matches.clone()).collect();
        if !entries.is_empty() && !fields.is_empty() {
            tables.push((fields, entries));
        }
    }
    let frame = |flow: usize| {
        let mut random = Random::new(flow as u64 ^ 0x5eed);
        let (mut port, mut fields) = (CLIENT_PORT, plain(flow as u32));
        for (places, entries) in &tables {
            let entry = &entries[flow % entries.len()];
            for (at, field) in places {
                let value = entry.get(*at).and_then(|key| matching(key, random.next_u64()));
                if let Some(value) = value {
                    field.set(&mut port, &mut fields, value);
                }
            }
        }
        let flags = if fields.protocol == TCP { 0x10 } else { 0 };
        let mut bytes = [0; SHORTEST];
        Fields { flags, ..fields }.write(&mut bytes);
        (port, bytes.to_vec())
    };
    Ok(Source::Frames((0..flows).map(frame).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_by_name() {
        let check = |name, width, want| assert_eq!(Field::find(name, width), want, "{name}");
        check("hdr.ethernet.dstAddr", 48, Some(Field::DstMac));
        check("mac", 48, Some(Field::DstMac));
        check("hdr.ipv4.srcAddr", 32, Some(Field::Src));
        check("hdr.ipv4.dst_addr", 32, Some(Field::Dst));
        check("prefix", 32, Some(Field::Dst));
        check("hdr.tcp.dport", 16, Some(Field::Dport));
        check("hdr.udp.srcPort", 16, Some(Field::Sport));
        check("hdr.ipv4.protocol", 8, Some(Field::Protocol));
        check("standard_metadata.ingress_port", 9, Some(Field::Port));
        check("meta.next_hop", 16, None);
    }

    #[test]
    fn values_match() {
        let b = |v| Bits::new(32, v);
        let check = |key: KeyMatch| {
            let random = Random::new(3).next_u64();
            let value = matching(&key, random).map(|v| Bits::new(32, u128::from(v)));
            assert!(value.is_none_or(|v| key.matches(&v)), "{key:?}");
        };
        check(KeyMatch::Exact(b(5)));
        check(KeyMatch::Lpm { value: b(0x0a00_0000), prefix_len: 8 });
        check(KeyMatch::Lpm { value: b(7), prefix_len: 32 });
        check(KeyMatch::Lpm { value: b(0), prefix_len: 0 });
        check(KeyMatch::Ternary { value: b(0x50), mask: b(0xf0) });
        check(KeyMatch::Range { lo: b(10), hi: b(12) });
        check(KeyMatch::Optional(Some(b(3))));
    }
}
