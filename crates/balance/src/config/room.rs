//! Room in the data plane's tables: what a rack takes of those that can be full.
//!
//! A change keeps the old entries until the new ones are complete, so each configuration may fill half of a table. Numbers do not
//! depend on policies, so that every policy can be chosen at run time.

use super::{Member, Rack, Service};
use std::fmt;
use std::net::IpAddr;

/// Places in the table `rings`.
pub const RINGS: u64 = 524_288;

/// Positions that a server's ring can have if the rings are as short as possible, however many devices it has.
pub const MIN_RING: u64 = 8;

/// A table that can be full. The other tables have room for every server, device or service that has a number.
pub struct Room {
    /// The table, and others of the same size that never have more entries, as the program names them in its ingress.
    pub tables: &'static [&'static str],
    /// Their `size` in the program.
    pub size: u64,
    /// The number of entries of one configuration.
    pub entries: fn(&Rack) -> u64,
    /// What they are.
    what: &'static str,
    advice: Advice,
}

/// A field of the rack's file, and what to write there.
type Advice = (&'static str, &'static str);

/// A table is too small for a rack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Full {
    table: &'static str,
    size: u64,
    entries: u64,
    what: &'static str,
    advice: Advice,
}

const SERVERS: Advice = ("service.servers", "list fewer servers, or use a second switch");
const VIPS: Advice = ("service.vip", "use fewer VIPs, or a second switch");

/// Every such table.
pub const ROOM: &[Room] = &[
    Room {
        tables: &["select_server.server_slots", "select_server.first.slots", "select_server.second.slots"],
        size: 262_144,
        entries: |r| each(r, |s| u64::from(s.slots)),
        what: "slots of all services",
        advice: ("service.slots", "lower `slots`"),
    },
    Room {
        tables: &["select_device.dip_table"],
        size: 262_144,
        entries: |r| each(r, |s| of_members(s, devices)),
        what: "devices of all services",
        advice: SERVERS,
    },
    Room {
        tables: &["select_device.rings"],
        size: RINGS,
        entries: |r| r.services.iter().map(shortest_rings).sum(),
        what: "positions of all services' shortest rings",
        advice: SERVERS,
    },
    Room {
        tables: &[
            "select_server.pools",
            "select_server.chosen_pools",
            "device_settings.device_factors",
            "device_settings.device_thresholds",
        ],
        size: 65_536,
        entries: |r| each(r, |s| s.members.len() as u64),
        what: "servers of all services",
        advice: SERVERS,
    },
    Room {
        tables: &["backends_v4", "backends_v6"],
        size: 262_144,
        entries: |r| by_family(|v6| frontends(r, v6).map(|s| of_members(s, devices)).sum()),
        what: "devices of all services with VIPs of one family",
        advice: SERVERS,
    },
    Room {
        tables: &["sources_v4", "sources_v6"],
        size: 262_144,
        entries: |r| {
            let devices = r.devices().flat_map(|(_, d)| d.addresses());
            let all: Vec<IpAddr> = devices.chain(local(r)).collect();
            by_family(|v6| all.iter().filter(|a| a.is_ipv6() == v6).count() as u64)
        },
        what: "addresses of one family",
        advice: ("service.vip", "use a second switch"),
    },
    Room {
        tables: &["services_v4", "services_v6"],
        size: 8192,
        entries: |r| by_family(|v6| frontends(r, v6).count() as u64),
        what: "VIPs of one family with protocol and port",
        advice: VIPS,
    },
    Room {
        tables: &["local_v4", "local_v6"],
        size: 8192,
        entries: |r| by_family(|v6| local(r).filter(|a| a.is_ipv6() == v6).count() as u64),
        what: "addresses of services and gateways of one family",
        advice: VIPS,
    },
    Room {
        tables: &["service_policy.policies"],
        size: 16_384,
        entries: |r| each(r, |_| 1),
        what: "VIPs with protocol and port",
        advice: VIPS,
    },
    Room {
        tables: &["bridge"],
        size: 16_384,
        entries: |r| r.bridge.len() as u64,
        what: "stations",
        advice: ("bridge.mac", "write fewer [[bridge]]"),
    },
    Room {
        tables: &["routes_v4", "routes_v6"],
        size: 65_536,
        entries: |r| {
            by_family(|v6| r.routes.iter().filter(|r| r.prefix.address().is_ipv6() == v6).count() as u64)
        },
        what: "routes of one family",
        advice: ("route.prefix", "write fewer [[route]]"),
    },
];

/// The sum over all frontends.
fn each(rack: &Rack, entries: impl Fn(&Service) -> u64) -> u64 {
    rack.services.iter().map(|s| entries(s) * s.frontends().count() as u64).sum()
}

/// The service of each frontend of a family.
fn frontends(rack: &Rack, v6: bool) -> impl Iterator<Item = &Service> {
    let of = move |s| Service::frontends(s).filter(move |f| f.vip.is_ipv6() == v6).map(move |_| s);
    rack.services.iter().flat_map(of)
}

/// That of the family with more.
fn by_family(entries: impl Fn(bool) -> u64) -> u64 {
    entries(false).max(entries(true))
}

/// Addresses of the switch.
fn local(rack: &Rack) -> impl Iterator<Item = IpAddr> {
    rack.services.iter().flat_map(|s| &s.vips).chain(&rack.switch.gateways).copied()
}

fn of_members(service: &Service, entries: fn(&Member) -> u64) -> u64 {
    service.members.iter().map(entries).sum()
}

fn devices(member: &Member) -> u64 {
    member.devices.len() as u64
}

fn shortest_ring(member: &Member) -> u64 {
    devices(member).max(MIN_RING)
}

/// Positions of a service's rings, at all its frontends, if they are as short as possible.
pub fn shortest_rings(service: &Service) -> u64 {
    of_members(service, shortest_ring) * service.frontends().count() as u64
}

/// Whether everything fits.
///
/// # Errors
/// The first table that is too small.
pub fn check(rack: &Rack) -> Result<(), Full> {
    for Room { tables, size, entries, what, advice } in ROOM {
        let entries = entries(rack);
        if entries * 2 > *size {
            return Err(Full { table: tables[0], size: *size, entries, what, advice: *advice });
        }
    }
    Ok(())
}

impl Full {
    /// The field of the rack's file that asks for too much.
    pub fn field(&self) -> &'static str {
        self.advice.0
    }
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Full { table, size, entries, what, advice: (_, remedy) } = self;
        let table = table.rsplit('.').next().unwrap_or(table);
        write!(
            f,
            "{entries} {what} are too many: twice that must fit into the switch's table `{table}` of {size} entries, as a change keeps the \
             old ones until the new ones are complete: {remedy}"
        )
    }
}

impl std::error::Error for Full {}
