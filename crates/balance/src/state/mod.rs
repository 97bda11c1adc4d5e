//! What the data plane keeps in its registers and counters, decoded: here alone, for all that read it.
//!
//! Numbers and names are those of `p4/programs/balancer`; tests compare them with its source.

mod census;
mod decisions;
pub mod entry;

pub use self::census::{Census, Connections};
pub use self::decisions::{AGES, Decisions, REASONS, Staleness};
use crate::report::Latency99;
use crate::types::{DeviceNumber, MAX_DEVICES};
use std::collections::BTreeSet;

/// The registers and counters of a switch that runs the balancer, wherever they are read.
pub trait Cells {
    /// An array.
    type Array: Copy;

    /// The array of this name; `None` if the program has none.
    fn find(&self, name: &str) -> Option<Self::Array>;

    /// Cells of an array.
    fn len(&self, array: Self::Array) -> u64;

    /// The low 64 bits of a register's cell; `None` out of range.
    fn register(&self, array: Self::Array, index: u64) -> Option<u64>;

    /// Packets and bytes of a counter's cell; `None` out of range.
    fn counter(&self, array: Self::Array, index: u64) -> Option<[u64; 2]>;
}

/// Reasons for which packets are dropped (`DROP_*` of headers.p4), by number from 1, each with its meaning.
pub const DROPS: [(&str, &str); 27] = [
    ("malformed", "Headers were cut short or contradicted each other."),
    ("checksum", "The IPv4 checksum was wrong."),
    ("unknown_mac", "The frame was for a station that is in no table."),
    ("no_route", "The destination is in no table of routes, servers or devices."),
    ("ttl", "Its TTL or hop limit ran out: look for a loop of routes."),
    ("vip_no_service", "It was for a VIP at a port or protocol that no service has."),
    ("fragment", "A fragment for a VIP whose first fragment was not seen before it."),
    ("no_connection", "A TCP segment from the middle of an unknown connection; its sender gets a RST."),
    ("table_full", "A new connection, while all its places in the connection table held live connections."),
    ("no_server", "The service had no server."),
    ("no_device", "The chosen server had no device."),
    ("report_malformed", "A report of another version or length."),
    ("report_source", "A report that did not come from the port and address of its device."),
    ("report_stale", "A report that was overtaken by a newer one."),
    ("icmp_unmatched", "An ICMP error about a connection that does not exist."),
    ("arp", "ARP or neighbour discovery for an address that is not in the rack."),
    ("ethertype", "A frame for the switch that is neither ARP nor IP."),
    ("address", "A source address that no host has: broadcast, multicast, loopback, link-local or zero."),
    ("packet_out", "A frame from the controller to a port that cannot exist."),
    ("report_unsigned", "A report without a digest, while the device has a key."),
    (
        "report_key",
        "A report signed with a key number that the switch does not have: `pointsman keys`, then restart the agent.",
    ),
    ("report_digest", "A report with a wrong digest: forged, damaged, or signed with an old key."),
    ("report_replayed", "A report whose number was used before: a replay, or a clock that was set back."),
    ("rate", "A new connection beyond `new_connections` of its service."),
    ("idle", "A packet of a TCP connection that was idle for too long; both ends get a RST."),
    ("device_failed", "A packet of a connection whose device failed; both ends get a RST."),
    ("spoofed", "The source address belongs to the switch, or to a device behind another port."),
];

/// A reason for dropped packets, by its number: its name and meaning. `None` for other numbers, such as [`REPORT_ACCEPTED`], whose
/// packets are no drops.
pub fn drop_reason(number: u64) -> Option<(&'static str, &'static str)> {
    number.checked_sub(1).and_then(|i| DROPS.get(usize::try_from(i).ok()?)).copied()
}

/// `REPORT_ACCEPTED` of headers.p4.
pub const REPORT_ACCEPTED: u64 = 32;

/// The program's messages to a store, by outcome, by cell of `redplane_fixed_counts` (the library `redplane/fixed.p4`).
pub const STORE_MESSAGES: [&str; 6] = ["asked", "answered", "refused", "forged", "late", "long"];

/// Metrics reported by a device, by place in the register `reported` (`Metric` of load.p4), from its highest byte.
pub const METRICS: [&str; 4] = ["compute", "memory", "network", "queue"];

/// What a device reported, of the bytes of its register `reported`: by [`METRICS`].
pub fn reported(register: [u8; 8]) -> [u8; 4] {
    let [compute, memory, network, queue, ..] = register;
    [compute, memory, network, queue]
}

/// The latency that a device reported, of the bytes of its register `reported`.
pub fn latency(register: [u8; 8]) -> Latency99 {
    Latency99::from_code(register[5])
}

/// A device with its counters.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceFigures {
    /// Its number.
    pub device: DeviceNumber,
    /// Connections that were opened to it.
    pub connections: u64,
    /// Packets and bytes to it.
    pub traffic: [u64; 2],
    /// Count in flight.
    pub in_flight: u64,
    /// Microseconds since its last report; None without a report.
    pub report_age_us: Option<u64>,
    /// Its last report.
    pub reported: [u8; 4],
    /// What 99 of 100 requests of the last seconds stayed within, by its last report.
    pub latency: Latency99,
}

/// Snapshot of the counters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Dropped packets, by number of the reason.
    pub drops: Vec<(u64, u64)>,
    /// Messages to a store and its answers, by place in [`STORE_MESSAGES`]. Empty without a store.
    pub store: Vec<(u64, u64)>,
    /// Connections opened, by number of the service.
    pub services: Vec<(u64, u64)>,
    /// Devices with traffic, or configured.
    pub devices: Vec<DeviceFigures>,
    /// Why devices were chosen.
    pub decisions: Decisions,
}

impl Figures {
    /// Reads them. `configured` devices count even without traffic. `now_us` is the time that the program sees.
    pub fn read<C: Cells>(cells: &C, configured: &BTreeSet<DeviceNumber>, now_us: u64) -> Figures {
        let connections = counts(cells, "BalancerIngress.device_connections");
        let packets = counts(cells, "BalancerIngress.device_packets");
        let used = connections.iter().chain(&packets).map(|(i, _)| DeviceNumber::from_bits(*i as u32));
        let devices: BTreeSet<DeviceNumber> = used.chain(configured.iter().copied()).collect();
        let of = |list: &[(u64, [u64; 2])], device: DeviceNumber| {
            let found = list.binary_search_by_key(&u64::from(device.bits()), |(i, _)| *i);
            found.map_or([0, 0], |at| list[at].1)
        };
        let slot =
            |register: &str, slot: u64| cells.find(&format!("BalancerIngress.load.device{slot}.{register}"));
        let registers: Vec<[Option<C::Array>; 3]> = (0..MAX_DEVICES as u64)
            .map(|s| ["last_heard", "in_flight", "reported"].map(|r| slot(r, s)))
            .collect();
        let read = |array: Option<C::Array>, index: u64| {
            array.and_then(|array| cells.register(array, index)).unwrap_or(0)
        };
        let devices = devices.into_iter().map(|device| {
            let [last_heard, in_flight, reported] = registers[usize::from(device.slot())];
            let server = u64::from(device.server());
            let heard = read(last_heard, server);
            let bytes = read(reported, server).to_be_bytes();
            DeviceFigures {
                device,
                connections: of(&connections, device)[0],
                traffic: of(&packets, device),
                in_flight: read(in_flight, server),
                // Never, or a failed health check: no times (`load.p4`).
                report_age_us: (heard > 1).then(|| now_us.saturating_sub(heard)),
                reported: self::reported(bytes),
                latency: latency(bytes),
            }
        });
        let first = |(i, c): (u64, [u64; 2])| (i, c[0]);
        let services: Vec<(u64, u64)> =
            counts(cells, "BalancerIngress.service_connections").into_iter().map(first).collect();
        let got_some = connections.iter().map(|(i, _)| DeviceNumber::from_bits(*i as u32));
        Figures {
            drops: counts(cells, "BalancerIngress.drops").into_iter().map(first).collect(),
            store: counts(cells, "redplane_fixed_counts").into_iter().map(first).collect(),
            decisions: Decisions::read(cells, got_some, services.iter().map(|(i, _)| *i)),
            services,
            devices: devices.collect(),
        }
    }
}

/// Non-zero values of a counter array.
fn counts<C: Cells>(cells: &C, name: &str) -> Vec<(u64, [u64; 2])> {
    let Some(array) = cells.find(name) else { return Vec::new() };
    let all = (0..cells.len(array)).filter_map(|i| Some((i, cells.counter(array, i)?)));
    all.filter(|(_, c)| *c != [0, 0]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program;

    /// The names are those of the data plane.
    #[test]
    fn reasons_are_those_of_the_program() {
        let mut found = Vec::new();
        for line in program::file("headers.p4").unwrap_or_default().lines() {
            let Some(rest) = line.strip_prefix("const bit<8> ") else { continue };
            let Some((name, value)) = rest.split_once(" = ") else { continue };
            let number: u64 = value.split(';').next().and_then(|n| n.parse().ok()).expect("a number");
            match name.strip_prefix("DROP_") {
                Some("NONE") => {}
                Some(reason) => found.push((number, reason.to_lowercase())),
                None if name == "REPORT_ACCEPTED" => assert_eq!(number, REPORT_ACCEPTED),
                None => {}
            }
        }
        let known: Vec<(u64, String)> = (1..).zip(DROPS.iter().map(|(d, _)| d.to_string())).collect();
        assert_eq!(found, known);
    }

    #[test]
    fn messages_to_a_store_are_those_of_the_library() {
        let library = include_str!("../../../../p4/lib/pointsman/redplane/fixed.p4");
        let found = library.lines().filter_map(|line| {
            let (name, value) = line.strip_prefix("const bit<32> REDPLANE_FIXED_")?.split_once(" = ")?;
            Some((value.split(';').next()?.parse().expect("a number"), name.to_lowercase()))
        });
        let known: Vec<(usize, String)> =
            STORE_MESSAGES.iter().map(|name| name.to_string()).enumerate().collect();
        assert_eq!(found.collect::<Vec<_>>(), known);
    }
}
