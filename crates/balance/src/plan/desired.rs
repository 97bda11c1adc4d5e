//! The desired entries of the tables.

use super::entries::{Action, BlockNumbers, Entries, Epoch, Key, NO_PORT};
use super::generation::{Generation, Pool};
use super::share::{MAX_RING, assign_slots, ring};
use crate::blocks::{Blocks, Counting, Factor, Metric, Narrow, Pick, Servers, inverses, ranked};
use crate::config::{Device, DirectReturn, Frontend, Member, NextHop, Rack, ReportForm, Service};
use crate::trust::Trust;
use crate::types::{DeviceKind, DeviceNumber, MAX_DEVICES, Mac, Policy, Protocol};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// MAC addresses that were learnt, by the port and address of the neighbour.
pub type Neighbours = BTreeMap<(u16, IpAddr), Mac>;

/// `OPTION_*` of connections.p4.
const RESET_IDLE: u8 = 1;
const RESET_FAILED: u8 = 2;
const TUNNEL: u8 = 4;

/// The input of the desired entries, apart from the current ones.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The configuration.
    pub rack: &'a Rack,
    /// The results of ARP and neighbour discovery.
    pub neighbours: &'a Neighbours,
    /// Devices that did not report for too long.
    pub silent: &'a BTreeSet<DeviceNumber>,
    /// Devices that left the configuration and whose connections have ended.
    pub drained_devices: &'a BTreeSet<DeviceNumber>,
    /// Services (by number) that left the configuration and whose connections have ended.
    pub drained_services: &'a BTreeSet<u16>,
}

/// Places in the data plane's table `rings`.
const RING_TABLE_SIZE: u32 = 262_144;

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
    let mut rings = Rings { used: used_rings(have) };
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
            serve(s, have, service, frontend, number, &mut rings, &mut plan);
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
    if services.iter().any(|service| service.idle_reset || service.failure_reset) {
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

/// Ring numbers: dense, since the data plane keeps a pointer for each.
struct Rings {
    used: BTreeSet<u32>,
}

impl Rings {
    fn next(&mut self) -> u32 {
        let free = (1..).find(|n| !self.used.contains(n)).unwrap_or(u32::MAX);
        self.used.insert(free);
        free
    }
}

fn used_rings(have: &Entries) -> BTreeSet<u32> {
    let of = |a: &Action| match a {
        Action::SetPool { ring, .. } if *ring > 0 => Some(*ring),
        _ => None,
    };
    have.values().filter_map(of).collect()
}

/// A service's devices on one server, as bits and orders of slots.
fn pool(
    s: &Situation<'_>,
    service: &Service,
    v6: bool,
    member: &Member,
    blocks: &Blocks,
    notes: &mut Vec<String>,
) -> Option<Pool> {
    let usable: Vec<_> = member
        .devices
        .iter()
        .filter(|d| {
            let known = s.rack.device(d.number).is_some_and(|(_, device)| {
                device.address(v6).is_some() && device_mac(device, s.neighbours).is_some()
            });
            d.enabled && known && (service.policy != Policy::ServerOnly || d.kind == DeviceKind::Cpu)
        })
        .collect();
    if usable.is_empty() || member.weight == 0 {
        return None;
    }
    let order: Vec<u8> = usable.iter().map(|d| d.number.slot()).collect();
    let mut by_slot: Vec<(u8, u32)> = usable.iter().map(|d| (d.number.slot(), d.weight)).collect();
    by_slot.sort_unstable();
    let ring = match service.policy {
        Policy::ServerOnly | Policy::Ecmp => by_slot.iter().map(|(slot, _)| *slot).collect(),
        Policy::Wrr => {
            let (ring, error) = ring(&by_slot, longest_ring(s.rack));
            if error > 0.0 {
                notes.push(format!(
                    "service `{}`: the weights of server `{}` need too long a ring; shares are off by up to {:.2} % of it",
                    service.name,
                    s.rack.server_name(member.server),
                    error * 100.0
                ));
            }
            ring
        }
        _ => Vec::new(),
    };
    let workers = |slot: u8| usable.iter().find(|d| d.number.slot() == slot).and_then(|d| d.workers);
    let per_slot = |values: Vec<u16>| {
        let mut out = [0; MAX_DEVICES];
        for ((slot, _), value) in by_slot.iter().zip(values) {
            out[usize::from(*slot)] = value;
        }
        out
    };
    let factors = match blocks.factor {
        Factor::One => None,
        Factor::Weight => Some(by_slot.iter().map(|(_, w)| *w as u16).collect()),
        Factor::Inverse => Some(inverses(&by_slot.iter().map(|(_, w)| u64::from(*w)).collect::<Vec<_>>())),
        Factor::Ranked => {
            let place = |slot: u8| order.iter().position(|s| *s == slot).unwrap_or(0);
            Some(by_slot.iter().map(|(slot, _)| ranked(place(*slot))).collect())
        }
        Factor::PerWorker(all) => {
            let each = |workers: u16| ((all + workers / 2) / workers.max(1)).max(1);
            Some(by_slot.iter().map(|(slot, _)| each(workers(*slot).unwrap_or(1))).collect())
        }
    };
    let narrowed = matches!(blocks.narrow, Narrow::Below | Narrow::Idle);
    let limits = narrowed.then(|| {
        let mut limits = ([0; MAX_DEVICES], [0; MAX_DEVICES]);
        for (slot, _) in &by_slot {
            let at = usize::from(*slot);
            (limits.0[at], limits.1[at]) = blocks.thresholds(workers(*slot));
        }
        limits
    });
    Some(Pool {
        timeout_ms: s.rack.switch.report_timeout_ms,
        ring,
        order,
        state: blocks.narrow == Narrow::Below || matches!(blocks.pick, Pick::Weighted | Pick::Chance),
        factors: factors.map(per_slot),
        thresholds: limits,
    })
}

/// How long a ring may be so that two generations of all of them fit into their table.
fn longest_ring(rack: &Rack) -> u32 {
    let rings: usize = rack
        .services
        .iter()
        .filter(|s| s.policy == Policy::Wrr)
        .map(|s| s.frontends().count() * s.members.len())
        .sum();
    (RING_TABLE_SIZE / 2 / (rings.max(1) as u32)).clamp(8, MAX_RING)
}

/// A server's weight in the slot table: under policies that spread over all devices it counts once for each (ECMP) or
/// with their weights (WRR), so that shares are right in the whole rack, not only inside each server.
fn server_weight(policy: Policy, member: &Member, pool: &Pool) -> u64 {
    let devices = match policy {
        Policy::ServerOnly | Policy::P4mite => 1,
        Policy::Ecmp => pool.order.len() as u64,
        // Policies that use load or weight make use of all devices, each as far as it can serve.
        _ => {
            let used = member.devices.iter().filter(|d| pool.order.contains(&d.number.slot()));
            used.map(|d| u64::from(d.weight)).sum()
        }
    };
    u64::from(member.weight) * devices
}

fn serve(
    s: &Situation<'_>,
    have: &Entries,
    service: &Service,
    frontend: Frontend,
    number: u16,
    rings: &mut Rings,
    plan: &mut Plan,
) {
    let v6 = frontend.vip.is_ipv6();
    let current = match have.get(&Key::Service(frontend)) {
        Some(Action::SetService { epoch, slots_mask, .. }) => {
            Some((*epoch, Generation::read(have, Epoch { service: number, epoch: *epoch }, *slots_mask)))
        }
        _ => None,
    };
    let mut blocks = service.blocks(frontend.protocol);
    if service.direct_return.is_some() && blocks.count == Some(Counting::Requests) {
        // Answers do not pass the switch.
        blocks.count = Some(Counting::Connections);
        plan.notes.push(format!(
            "service `{}`: its devices answer clients directly, so connections are counted instead of requests",
            service.name
        ));
    }
    let taking = || service.members.iter().flat_map(|m| &m.devices).filter(|d| d.enabled);
    if let Some(without) = taking().find(|d| d.workers.is_none())
        && taking().any(|d| d.workers.is_some())
        && matches!(service.policy, Policy::LeastUtilised | Policy::Prt | Policy::Jiq)
    {
        plan.notes.push(format!(
            "service `{}`: device `{}` has no `workers` but others do, so {} ignores them",
            service.name,
            s.rack.device_name(without.number),
            service.policy
        ));
    }
    let mut pools = BTreeMap::new();
    let mut weights = BTreeMap::new();
    for member in &service.members {
        if let Some(pool) = pool(s, service, v6, member, &blocks, &mut plan.notes) {
            weights.insert(member.server, server_weight(service.policy, member, &pool));
            pools.insert(member.server, pool);
        }
        for device in &member.devices {
            let Some((_, found)) = s.rack.device(device.number) else { continue };
            let Some(address) = found.address(v6) else { continue };
            if plan.entries.contains_key(&Key::Device { device: device.number, v6 }) {
                let (ingress, protocol) = (found.port, frontend.protocol.number());
                let key = Key::Backend { ingress, address, protocol, port: frontend.port };
                let action = Action::SetBackend { service: number, device: device.number, vip: frontend.vip };
                plan.entries.insert(key, action);
            }
        }
    }
    // A server is silent if none of its pool's devices reports. All of them silent at once is more likely the agents'
    // fault than the devices'.
    let heard = |server: &u16| {
        pools.get(server).is_some_and(|p: &Pool| {
            p.order.iter().any(|slot| !s.silent.contains(&DeviceNumber::new(*server, *slot)))
        })
    };
    if weights.keys().any(heard) {
        weights.retain(|server, _| heard(server));
    }
    let size = service.slots as usize;
    let previous = match &current {
        Some((_, g)) if g.slots.len() == size => g.slots.clone(),
        _ => vec![None; size],
    };
    let mut costs = BTreeMap::new();
    if blocks.servers.compares() {
        let list: Vec<u64> = weights.values().copied().collect();
        costs = weights.keys().copied().zip(inverses(&list)).collect();
    }
    let wanted = Generation {
        pools,
        slots: assign_slots(&previous, &weights),
        policy: (policy_number(service.policy) == 3 || !blocks.is_plain())
            .then(|| BlockNumbers::from(&blocks)),
        chosen: blocks.servers == Servers::Chosen,
        costs,
    };
    // Slots can change one by one: every server that they name has its pool. Everything else changes as a whole, in the
    // other epoch, which packets ignore until the service's entry names it.
    let epoch = match &current {
        None => 0,
        Some((epoch, g)) if !g.differs(&wanted) => *epoch,
        Some((epoch, _)) => epoch ^ 1,
    };
    let same = current.as_ref().is_some_and(|(e, _)| *e == epoch);
    let of = Epoch { service: number, epoch };
    wanted.write(of, &mut plan.entries, |server| {
        let kept = match have.get(&Key::Pool { of, server }) {
            Some(Action::SetPool { ring, .. }) if same => Some(*ring),
            _ => None,
        };
        kept.unwrap_or_else(|| rings.next())
    });
    let action = Action::SetService {
        service: number,
        policy: policy_number(service.policy),
        epoch,
        slots_mask: (service.slots - 1) as u16,
        idle_ms: service.idle_timeout_ms,
    };
    plan.entries.insert(Key::Service(frontend), action);
    let tunnel = service.direct_return == Some(DirectReturn::Tunnel);
    let options = [(service.idle_reset, RESET_IDLE), (service.failure_reset, RESET_FAILED), (tunnel, TUNNEL)];
    let more = options.iter().filter(|(set, _)| *set).fold(0, |all, (_, bit)| all | bit);
    if service.direct_return.is_some() || more != 0 || service.limit.is_some() {
        let direct = service.direct_return.is_some();
        let options = Action::SetOptions { direct, more, limit: service.limit };
        plan.entries.insert(Key::Options { service: number }, options);
    }
    if !service.unknown_reset {
        plan.entries.insert(Key::QuietService { service: number }, Action::IsQuiet);
    }
    if tunnel {
        let gateways = &s.rack.switch.gateways;
        let v4 = gateways.iter().find_map(|g| if let IpAddr::V4(a) = g { Some(*a) } else { None });
        let v6 = gateways.iter().find_map(|g| if let IpAddr::V6(a) = g { Some(*a) } else { None });
        let (v4, v6) = (v4.unwrap_or(Ipv4Addr::UNSPECIFIED), v6.unwrap_or(Ipv6Addr::UNSPECIFIED));
        plan.entries.insert(Key::Tunnel { service: number }, Action::SetTunnel { v4, v6 });
    }
}
