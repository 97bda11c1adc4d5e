//! A configuration with members that came by themselves.

use super::{Device, Full, Member, MemberDevice, MemberSource, PolicyNeed, Rack, Server, check, room};
use crate::members::{Entry, Name};
use crate::trust::{ReportKey, Trust};
use crate::types::DeviceNumber;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

/// The number of a member's key: it has only one.
pub const MEMBER_KEY: u8 = 1;

/// A member with its number.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    /// What its source says.
    pub entry: &'a Entry,
    /// Its number in the data plane.
    pub number: DeviceNumber,
    /// Its source.
    pub source: &'a MemberSource,
    /// The key of its agent's reports.
    pub key: Option<ReportKey>,
}

/// Why the rack has no room for a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// A server of this name is in the rack's file.
    Server(String),
    /// Its number is that of a server in the rack's file.
    Number(u16, String),
    /// Something in the rack's file has its address.
    Address(IpAddr, String),
    /// It lacks an address of the family of a service's VIP.
    Family(String, IpAddr),
    /// A service has no slots for more servers.
    Slots(String, u32),
    /// A table of the switch has no room.
    Table(Full),
    /// A service cannot use it: a requirement of its policy.
    Service(String, PolicyNeed),
    /// Reports need a key, and it has none.
    NoKey,
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoRoom::Server(name) => {
                write!(
                    f,
                    "server `{name}` is in the rack's file: members need servers of their own, use another name"
                )
            }
            NoRoom::Number(number, name) => write!(
                f,
                "server `{name}` in the rack's file has number {number} now, which this member has: write another `id` for \
                 that server"
            ),
            NoRoom::Address(address, owner) => {
                write!(f, "{address} is the address of {owner}: every device needs its own")
            }
            NoRoom::Family(service, vip) => write!(
                f,
                "service `{service}` has the VIP {vip}, and the member no address of this family: give it one, or leave \
                 the service out of `services`"
            ),
            NoRoom::Slots(service, slots) => {
                write!(f, "service `{service}` has {slots} slots, one for each server: write larger `slots`")
            }
            NoRoom::Table(full) => full.fmt(f),
            NoRoom::Service(service, why) => write!(f, "service `{service}`: {why}"),
            NoRoom::NoKey => f.write_str("it has no key for its reports: register it again"),
        }
    }
}

impl std::error::Error for NoRoom {}

impl Rack {
    /// The configuration with these members, and those for which it has no room, each with the reason. Members with the same server
    /// come together or not at all.
    pub fn with_members(&self, placed: &[Placed<'_>]) -> (Rack, BTreeMap<Name, NoRoom>) {
        let all = self.with_servers(placed, false);
        // Usually there is room, and one check for all of them suffices.
        if room::check(&all.0).is_ok() { all } else { self.with_servers(placed, true) }
    }

    /// `checks`: whether the switch's tables have room is checked for each server.
    fn with_servers(&self, placed: &[Placed<'_>], checks: bool) -> (Rack, BTreeMap<Name, NoRoom>) {
        let mut rack = self.clone();
        let mut left_out = BTreeMap::new();
        let owners = self.owners();
        let mut servers: BTreeMap<&str, Vec<&Placed<'_>>> = BTreeMap::new();
        for p in placed {
            servers.entry(&p.entry.name.server).or_default().push(p);
        }
        for (name, devices) in servers {
            if let Err(why) =
                self.check_server(name, &devices, &owners).and_then(|()| rack.admit(name, &devices, checks))
            {
                left_out.extend(devices.iter().map(|p| (p.entry.name.clone(), why.clone())));
            }
        }
        (rack, left_out)
    }

    /// Who has an address.
    fn owners(&self) -> BTreeMap<IpAddr, String> {
        let vips =
            self.services.iter().flat_map(|s| s.vips.iter().map(|v| (*v, format!("service `{}`", s.name))));
        let gateways = self.switch.gateways.iter().map(|g| (*g, "the switch".to_string()));
        let devices = self.devices().flat_map(|(s, d)| {
            d.addresses().map(move |a| (a, format!("device `{}/{}` in the rack's file", s.name, d.name)))
        });
        vips.chain(gateways).chain(devices).collect()
    }

    fn check_server(
        &self,
        name: &str,
        devices: &[&Placed<'_>],
        owners: &BTreeMap<IpAddr, String>,
    ) -> Result<(), NoRoom> {
        if self.server(name).is_some() {
            return Err(NoRoom::Server(name.into()));
        }
        for p in devices {
            if let Some(other) = self.servers.iter().find(|s| s.number == p.number.server()) {
                return Err(NoRoom::Number(other.number, other.name.clone()));
            }
            if let Some((address, owner)) = p.entry.addresses().find_map(|a| Some((a, owners.get(&a)?))) {
                return Err(NoRoom::Address(address, owner.clone()));
            }
            let needs_key = p.source.reports && matches!(self.switch.reports, Trust::Keys(_));
            if needs_key && p.key.is_none() {
                return Err(NoRoom::NoKey);
            }
        }
        Ok(())
    }

    /// Adds a server with its devices.
    fn admit(&mut self, name: &str, devices: &[&Placed<'_>], checks: bool) -> Result<(), NoRoom> {
        let Some(first) = devices.first() else { return Ok(()) };
        let (number, reports) = (first.number.server(), first.source.reports);
        let switch = self.switch.clone();
        let label = |n: u16| if n == number { name.to_string() } else { self.server_name(n) };
        let mut services = self.services.clone();
        for service in services.iter_mut().filter(|s| first.source.services.contains(&s.name)) {
            let lacking = |vip: &&IpAddr| {
                devices.iter().any(|p| p.entry.addresses().all(|a| a.is_ipv6() != vip.is_ipv6()))
            };
            if let Some(vip) = service.vips.iter().find(lacking) {
                return Err(NoRoom::Family(service.name.clone(), *vip));
            }
            if service.members.len() as u32 >= service.slots {
                return Err(NoRoom::Slots(service.name.clone(), service.slots));
            }
            service.members.push(member(number, devices));
            let no = |why| NoRoom::Service(service.name.clone(), why);
            check::policy_needs(service.policy, &service.tuning, &service.members, &switch, &label)
                .map_err(no)?;
            if service.adopt_unknown {
                check::adoption_needs(service.policy, &service.tuning, &service.members).map_err(no)?;
            }
        }
        let before = std::mem::replace(&mut self.services, services);
        self.servers.push(Server {
            name: name.into(),
            number,
            class: None,
            devices: devices.iter().map(|p| device(p)).collect(),
            source: Some(first.source.name.clone()),
            reports,
        });
        if checks && let Err(full) = room::check(self) {
            self.services = before;
            self.servers.pop();
            return Err(NoRoom::Table(full));
        }
        for p in devices {
            if let Some(key) = p.key {
                self.keys.insert(p.number, MEMBER_KEY, key);
            }
        }
        Ok(())
    }
}

fn device(p: &Placed<'_>) -> Device {
    Device {
        name: p.entry.name.device.clone(),
        number: p.number,
        kind: p.entry.kind,
        port: p.entry.port,
        address: p.entry.address,
        address6: p.entry.address6,
        mac: p.entry.mac,
        enabled: true,
        // A narrow probe with the id 15 is a wide one.
        probe_id: if p.number.slot() == 15 { 16 } else { p.number.slot() },
        reporter: p.number,
        agent: p.source.agent.clone(),
    }
}

fn member(server: u16, devices: &[&Placed<'_>]) -> Member {
    let mut all: Vec<MemberDevice> = devices
        .iter()
        .map(|p| MemberDevice {
            number: p.number,
            kind: p.entry.kind,
            enabled: true,
            held: false,
            priority: p.entry.priority,
            weight: p.entry.weight,
            workers: p.entry.workers,
        })
        .collect();
    all.sort_by_key(|d| (d.priority, d.number));
    Member { server, weight: 1, devices: all }
}
