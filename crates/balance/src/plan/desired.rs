//! The desired entries of the tables.

use super::entries::{Action, Entries, Key, NO_PORT};
use super::service::{Frontends, Rings};
use crate::blocks::Metric;
use crate::config::{Device, Frontend, NextHop, Rack, ReportForm, Service};
use crate::trust::Trust;
use crate::types::{DeviceNumber, Mac, Policy, Protocol};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// MAC addresses that were learnt, by the port and address of the neighbour.
pub type Neighbours = BTreeMap<(u16, IpAddr), Mac>;

/// The input of the desired entries, apart from the current ones.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The configuration.
    pub rack: &'a Rack,
    /// The switch, by its place in `switch.p4runtime`.
    pub switch: usize,
    /// The results of ARP and neighbour discovery.
    pub neighbours: &'a Neighbours,
    /// Devices that did not report for too long.
    pub silent: &'a BTreeSet<DeviceNumber>,
    /// Devices that left the configuration and whose connections have ended.
    pub drained_devices: &'a BTreeSet<DeviceNumber>,
    /// Services (by number) that left the configuration and whose connections have ended.
    pub drained_services: &'a BTreeSet<u16>,
}

/// The desired entries of the tables.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Every entry.
    pub entries: Entries,
    /// Devices that cannot be used yet because their MAC address is unknown.
    pub unresolved: BTreeSet<DeviceNumber>,
    /// Differences from the configuration.
    pub notes: Vec<String>,
}

/// Number of a policy in the data plane (`POLICY_*`).
pub fn policy_number(policy: Policy) -> u8 {
    match policy {
        Policy::ServerOnly | Policy::Ecmp => 0,
        Policy::Wrr => 1,
        Policy::P4mite => 2,
        _ => 3,
    }
}

/// The MAC address of a device: configured, else learnt.
pub fn device_mac(device: &Device, neighbours: &Neighbours) -> Option<Mac> {
    device.mac.or_else(|| device.addresses().find_map(|a| neighbours.get(&(device.port, a)).copied()))
}

/// Numbers of services in `have`, by frontend.
fn known_services(have: &Entries) -> BTreeMap<Frontend, u16> {
    let of = |(k, a): (&Key, &Action)| match (k, a) {
        (Key::Service(f), Action::SetService { service, .. }) => Some((*f, *service)),
        _ => None,
    };
    have.iter().filter_map(of).collect()
}

/// The desired entries of the tables, given the current ones: numbers, epochs and slots stay the same wherever
/// possible, so that a restarted controller finds nothing to do.
pub fn desired(s: &Situation<'_>, have: &Entries) -> Plan {
    let mut plan = Plan::default();
    stations(s, &mut plan);
    let known = known_services(have);
    // Services that left the configuration while connections may be alive keep their entry, so that the connections continue.
    let configured: BTreeSet<Frontend> = s.rack.services.iter().flat_map(Service::frontends).collect();
    let mut numbers: BTreeSet<u16> = BTreeSet::new();
    for (frontend, number) in &known {
        let leaving = !configured.contains(frontend) && !s.drained_services.contains(number);
        if leaving && let Some(action) = have.get(&Key::Service(*frontend)) {
            plan.entries.insert(Key::Service(*frontend), *action);
            plan.entries.insert(Key::Local(frontend.vip), Action::IsLocal);
        }
        if leaving || configured.contains(frontend) {
            numbers.insert(*number);
        }
    }
    devices(s, have, &mut plan);
    resets(s, &mut plan.entries);
    let mut frontends = Frontends { situation: s, have, rings: Rings::used_by(have) };
    // The entry of a removed service exists until those of new ones are written: they cannot have its number yet.
    let mut taken: BTreeSet<u16> = known.values().copied().collect();
    for service in &s.rack.services {
        for frontend in service.frontends() {
            let number =
                known.get(&frontend).copied().or_else(|| (1..=u16::MAX).find(|n| !taken.contains(n)));
            // 65535 frontends do not fit into the slot table, which the configuration was checked for.
            let Some(number) = number else { continue };
            taken.insert(number);
            numbers.insert(number);
            frontends.serve(service, frontend, number, &mut plan);
        }
    }
    // Answers of connections that may be alive: the device stays, perhaps without new ones.
    for (key, action) in have {
        if let Key::Tunnel { service } = key
            && numbers.contains(service)
        {
            plan.entries.entry(*key).or_insert(*action);
        }
        if let (Key::Backend { ingress, .. }, Action::SetBackend { service, device, vip }) = (key, action) {
            let place = plan.entries.get(&Key::Device { device: *device, v6: vip.is_ipv6() });
            let still_there = matches!(place, Some(Action::SetDevice { port, .. }) if port == ingress);
            if still_there && numbers.contains(service) {
                plan.entries.entry(*key).or_insert(*action);
            }
        }
    }
    sources(s, have, &mut plan.entries);
    plan
}

/// Where packets with the addresses of the rack may come from: those of devices from their port, ours from nowhere.
fn sources(s: &Situation<'_>, have: &Entries, out: &mut Entries) {
    let mut places: BTreeMap<IpAddr, BTreeSet<u16>> = BTreeMap::new();
    for (_, device) in s.rack.devices() {
        for address in device.addresses() {
            places.entry(address).or_default().insert(device.port);
        }
    }
    for action in out.values() {
        if let Action::SetDevice { address, port, .. } = action {
            places.entry(*address).or_default().insert(*port);
        }
    }
    for (address, ports) in places {
        // An address that moves is let through from both ports until it has.
        if let (Some(port), 1) = (ports.first(), ports.len()) {
            out.insert(Key::Source(address), Action::OnlyFrom { port: *port });
        }
    }
    let direct = |a: &IpAddr| s.rack.services.iter().any(|s| s.direct_return.is_some() && s.vips.contains(a));
    let local: Vec<IpAddr> =
        out.keys().filter_map(|k| if let Key::Local(a) = k { Some(*a) } else { None }).collect();
    for address in local {
        let key = Key::Source(address);
        // Devices of a service that has left the configuration may still answer clients themselves.
        let action = match have.get(&key) {
            _ if direct(&address) => Action::NoClient,
            Some(Action::NoClient) => Action::NoClient,
            _ => Action::OnlyFrom { port: NO_PORT },
        };
        out.insert(key, action);
    }
}

/// Tables that have nothing to do with services.
fn stations(s: &Situation<'_>, plan: &mut Plan) {
    let out = &mut plan.entries;
    out.insert(Key::SwitchConfig, Action::SetSwitch { mac: s.rack.switch.mac });
    if let Some((store, address)) = s.rack.switch.store_of(s.switch)
        && let Some(secret) = store.secret
    {
        let (number, port, mac) = (s.switch as u16 + 1, store.port, store.mac);
        out.insert(
            Key::StoreConfig,
            Action::Configure { number, secret, address, store: store.address, port, mac },
        );
    }
    for station in &s.rack.bridge {
        out.insert(Key::Bridge(station.mac), Action::Forward { port: station.port });
    }
    for route in &s.rack.routes {
        let mac = match route.hop {
            NextHop::Mac(mac) => Some(mac),
            NextHop::Neighbour(via) => s.neighbours.get(&(route.port, via)).copied(),
        };
        if let Some(mac) = mac {
            out.insert(Key::Route(route.prefix), Action::NextHop { port: route.port, mac });
        }
    }
    let vips = s.rack.services.iter().flat_map(|s| s.vips.iter());
    for address in s.rack.switch.gateways.iter().chain(vips) {
        out.insert(Key::Local(*address), Action::IsLocal);
    }
}

fn devices(s: &Situation<'_>, have: &Entries, plan: &mut Plan) {
    let mut configured = BTreeSet::new();
    // Probes are rejected if no policy uses them.
    let probes = s.rack.services.iter().any(|service| {
        let blocks = service.blocks(Protocol::Tcp);
        blocks.metrics.iter().any(|(m, w)| *m == Metric::Weight && *w > 0)
    });
    for (_, device) in s.rack.devices() {
        let number = device.number;
        configured.insert(number);
        report_keys(s, number, &mut plan.entries);
        let Some(mac) = device_mac(device, s.neighbours) else {
            plan.unresolved.insert(number);
            // Until it answers at the new place, its old one stays.
            for address in device.addresses() {
                let key = Key::Device { device: number, v6: address.is_ipv6() };
                if let Some(action @ Action::SetDevice { address: was, .. }) = have.get(&key)
                    && *was == address
                {
                    plan.entries.insert(key, *action);
                }
            }
            continue;
        };
        for address in device.addresses() {
            let key = Key::Device { device: number, v6: address.is_ipv6() };
            plan.entries.insert(key, Action::SetDevice { address, port: device.port, mac });
            if probes {
                let source = Key::ProbeSource { port: device.port, source: address, id: device.probe_id };
                plan.entries.insert(source, Action::AcceptProbe { device: number });
            }
        }
    }
    for (server, device) in s.rack.devices() {
        // Only devices whose MAC address is known.
        let Some(mac) = device_mac(device, s.neighbours) else { continue };
        let number = device.number;
        let reported = server.devices.iter().filter(|d| d.reporter == number);
        let devices = reported.fold(0u16, |bits, d| bits | 1 << d.number.slot());
        if devices == 0 {
            continue; // another agent reports for it
        }
        let action = Action::AcceptReports { devices, agent: number };
        let (port, server) = (device.port, number.server());
        match device.agent.form {
            ReportForm::Frame => {
                plan.entries.insert(Key::ReportSourceMac { port, source: mac, server }, action);
            }
            ReportForm::Datagram => {
                for source in device.addresses() {
                    plan.entries.insert(Key::ReportSource { port, source, server }, action);
                }
            }
        }
    }
    for (key, action) in have {
        if let Key::Device { device, .. } = key
            && !configured.contains(device)
            && !s.drained_devices.contains(device)
        {
            plan.entries.insert(*key, *action);
        }
    }
}

/// The entries for resetting connections: the copies' session, and the failed devices.
fn resets(s: &Situation<'_>, out: &mut Entries) {
    let services = &s.rack.services;
    let resets = services.iter().any(|service| service.idle_reset || service.failure_reset);
    // Requests that extend a connection's time in the store are such copies.
    if resets || s.rack.switch.store.is_some() {
        out.insert(Key::ResetSession, Action::Mirror { port: s.rack.switch.cpu_port });
    }
    let all: BTreeSet<DeviceNumber> =
        s.rack.devices().filter(|(_, d)| d.enabled).map(|(_, d)| d.number).collect();
    // All of them silent at once is more likely the agents' fault than the devices'.
    if services.iter().any(|service| service.failure_reset) && !all.is_subset(s.silent) {
        let failed = s.silent.iter().filter(|d| s.rack.device(**d).is_some());
        out.extend(failed.map(|d| (Key::FailedDevice(*d), Action::IsFailed)));
    }
}

/// The keys that must sign an agent's reports.
fn report_keys(s: &Situation<'_>, agent: DeviceNumber, out: &mut Entries) {
    match s.rack.switch.reports {
        Trust::Closed => {}
        Trust::Unauthenticated => {
            out.insert(Key::ReportKey { agent, number: 0 }, Action::TrustSource);
        }
        Trust::Keys(_) => {
            for (number, key) in s.rack.keys.of(agent) {
                out.insert(Key::ReportKey { agent, number }, Action::SetReportKey(key));
            }
        }
    }
}
