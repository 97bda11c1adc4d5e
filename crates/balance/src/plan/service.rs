//! The desired entries of one service at one of its frontends.

use super::desired::{Plan, Situation, device_mac, policy_number};
use super::entries::{Action, BlockNumbers, Entries, Epoch, Key};
use super::generation::{Generation, Pool};
use super::share::{MAX_RING, assign_slots, ring};
use crate::blocks::{Blocks, Capacity, Counting, Factor, Narrow, Pick, Servers, inverses, ranked};
use crate::config::room;
use crate::config::{DirectReturn, Frontend, Member, MemberDevice, Rack, Service};
use crate::types::{DeviceKind, DeviceNumber, MAX_DEVICES, Policy};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `OPTION_*` of connections.p4.
const RESET_IDLE: u8 = 1;
const RESET_FAILED: u8 = 2;
const TUNNEL: u8 = 4;

/// Ring numbers: dense, since the data plane keeps a pointer for each.
pub(super) struct Rings {
    used: BTreeSet<u32>,
}

impl Rings {
    /// The numbers of the rings of these entries are taken.
    pub(super) fn used_by(entries: &Entries) -> Rings {
        let of = |a: &Action| match a {
            Action::SetPool { ring, .. } if *ring > 0 => Some(*ring),
            _ => None,
        };
        Rings { used: entries.values().filter_map(of).collect() }
    }

    fn next(&mut self) -> u32 {
        let free = (1..).find(|n| !self.used.contains(n)).unwrap_or(u32::MAX);
        self.used.insert(free);
        free
    }
}

/// The frontends of a rack's services, whose entries are planned one after the other.
pub(super) struct Frontends<'a> {
    pub(super) situation: &'a Situation<'a>,
    /// The current entries.
    pub(super) have: &'a Entries,
    pub(super) rings: Rings,
}

impl Frontends<'_> {
    /// Adds the entries of `service` at `frontend`, under the number of both.
    pub(super) fn serve(&mut self, service: &Service, frontend: Frontend, number: u16, plan: &mut Plan) {
        let blocks = blocks(service, frontend, &mut plan.notes);
        if let Some(note) = without_workers(self.situation.rack, service) {
            plan.notes.push(note);
        }
        let v6 = frontend.vip.is_ipv6();
        let mut pools = BTreeMap::new();
        let mut weights = BTreeMap::new();
        for member in &service.members {
            if let Some(pool) = pool(self.situation, service, v6, member, &blocks, &mut plan.notes) {
                weights.insert(member.server, server_weight(service.policy, member, &pool));
                pools.insert(member.server, pool);
            }
            self.backends(member, frontend, number, plan);
        }
        retain_reporting(self.situation.silent, &pools, &mut weights);
        let current = self.current(frontend, number);
        let wanted = wanted(service, &blocks, pools, &weights, current.as_ref());
        let epoch = self.write(number, current, &wanted, plan);
        let action = Action::SetService {
            service: number,
            policy: policy_number(service.policy),
            epoch,
            slots_mask: (service.slots - 1) as u16,
            idle_ms: service.idle_timeout_ms,
        };
        plan.entries.insert(Key::Service(frontend), action);
        options(self.situation.rack, service, number, &mut plan.entries);
    }

    /// The answers of a server's devices, which get the service's address.
    fn backends(&self, member: &Member, frontend: Frontend, number: u16, plan: &mut Plan) {
        let v6 = frontend.vip.is_ipv6();
        for device in &member.devices {
            let Some((_, found)) = self.situation.rack.device(device.number) else { continue };
            let Some(address) = found.address(v6) else { continue };
            if plan.entries.contains_key(&Key::Device { device: device.number, v6 }) {
                let (ingress, protocol) = (found.port, frontend.protocol.number());
                let key = Key::Backend { ingress, address, protocol, port: frontend.port };
                let action = Action::SetBackend { service: number, device: device.number, vip: frontend.vip };
                plan.entries.insert(key, action);
            }
        }
    }

    /// The generation in force, with its epoch.
    fn current(&self, frontend: Frontend, number: u16) -> Option<(u8, Generation)> {
        match self.have.get(&Key::Service(frontend)) {
            Some(Action::SetService { epoch, slots_mask, .. }) => {
                let of = Epoch { service: number, epoch: *epoch };
                Some((*epoch, Generation::read(self.have, of, *slots_mask)))
            }
            _ => None,
        }
    }

    /// Adds a generation's entries. Returns its epoch.
    fn write(
        &mut self,
        number: u16,
        current: Option<(u8, Generation)>,
        wanted: &Generation,
        plan: &mut Plan,
    ) -> u8 {
        // Servers come and go in the epoch in force, slot by slot. Everything else changes as a whole, in the other epoch, which packets
        // ignore until the service's entry names it.
        let epoch = match &current {
            None => 0,
            Some((epoch, g)) if !g.differs(wanted) => *epoch,
            Some((epoch, _)) => epoch ^ 1,
        };
        let same = current.is_some_and(|(e, _)| e == epoch);
        let of = Epoch { service: number, epoch };
        wanted.write(of, &mut plan.entries, |server| {
            let kept = match self.have.get(&Key::Pool { of, server }) {
                Some(Action::SetPool { ring, .. }) if same => Some(*ring),
                _ => None,
            };
            kept.unwrap_or_else(|| self.rings.next())
        });
        epoch
    }
}

/// The blocks of a service's policy, as far as the way of its answers allows them.
fn blocks(service: &Service, frontend: Frontend, notes: &mut Vec<String>) -> Blocks {
    let mut blocks = service.blocks(frontend.protocol);
    if service.direct_return.is_some() && blocks.count == Some(Counting::Requests) {
        // Answers do not pass the switch.
        blocks.count = Some(Counting::Connections);
        notes.push(format!(
            "service `{}`: its devices answer clients directly, so connections are counted instead of requests",
            service.name
        ));
    }
    blocks
}

/// A note if a policy by utilisation ignores a device because only others have `workers`.
fn without_workers(rack: &Rack, service: &Service) -> Option<String> {
    let taking = || service.members.iter().flat_map(|m| &m.devices).filter(|d| d.enabled);
    let without = taking().find(|d| d.workers.is_none())?;
    let compares =
        matches!(service.policy, Policy::LeastUtilised | Policy::Prt | Policy::Jiq | Policy::Spillover);
    (compares && taking().any(|d| d.workers.is_some())).then(|| {
        format!(
            "service `{}`: device `{}` has no `workers` but others do, so {} ignores them",
            service.name,
            rack.device_name(without.number),
            service.policy
        )
    })
}

/// Removes the weights of silent servers. A server is silent if none of its pool's devices reports. All of them silent at once
/// is more likely the agents' fault than the devices'.
fn retain_reporting(
    silent: &BTreeSet<DeviceNumber>,
    pools: &BTreeMap<u16, Pool>,
    weights: &mut BTreeMap<u16, u64>,
) {
    let reports = |server: &u16| {
        pools.get(server).is_some_and(|pool| {
            pool.order.iter().any(|slot| !silent.contains(&DeviceNumber::new(*server, *slot)))
        })
    };
    if weights.keys().any(reports) {
        weights.retain(|server, _| reports(server));
    }
}

/// The desired generation of a service. Its slots change as little as possible.
fn wanted(
    service: &Service,
    blocks: &Blocks,
    pools: BTreeMap<u16, Pool>,
    weights: &BTreeMap<u16, u64>,
    current: Option<&(u8, Generation)>,
) -> Generation {
    let size = service.slots as usize;
    let previous = match current {
        Some((_, g)) if g.slots.len() == size => g.slots.clone(),
        _ => vec![None; size],
    };
    let mut costs = BTreeMap::new();
    if blocks.servers.compares() {
        let list: Vec<u64> = weights.values().copied().collect();
        costs = weights.keys().copied().zip(inverses(&list)).collect();
    }
    Generation {
        pools,
        slots: assign_slots(&previous, weights),
        policy: (policy_number(service.policy) == 3 || !blocks.is_plain())
            .then(|| BlockNumbers::from(blocks)),
        chosen: blocks.servers == Servers::Chosen,
        costs,
    }
}

/// The entries of a service's settings.
fn options(rack: &Rack, service: &Service, number: u16, out: &mut Entries) {
    let tunnel = service.direct_return == Some(DirectReturn::Tunnel);
    let options = [(service.idle_reset, RESET_IDLE), (service.failure_reset, RESET_FAILED), (tunnel, TUNNEL)];
    let more = options.iter().filter(|(set, _)| *set).fold(0, |all, (_, bit)| all | bit);
    let direct = service.direct_return.is_some();
    if direct || more != 0 || service.limit.is_some() {
        let options = Action::SetOptions { direct, more, limit: service.limit };
        out.insert(Key::Options { service: number }, options);
    }
    match (service.adopt_unknown, service.unknown_reset) {
        (true, _) => drop(out.insert(Key::QuietService { service: number }, Action::Adopt)),
        (false, false) => drop(out.insert(Key::QuietService { service: number }, Action::IsQuiet)),
        (false, true) => {}
    }
    if tunnel {
        let gateways = &rack.switch.gateways;
        let v4 = gateways.iter().find_map(|g| if let IpAddr::V4(a) = g { Some(*a) } else { None });
        let v6 = gateways.iter().find_map(|g| if let IpAddr::V6(a) = g { Some(*a) } else { None });
        let (v4, v6) = (v4.unwrap_or(Ipv4Addr::UNSPECIFIED), v6.unwrap_or(Ipv6Addr::UNSPECIFIED));
        out.insert(Key::Tunnel { service: number }, Action::SetTunnel { v4, v6 });
    }
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
    let mut by_slot: Vec<(u8, u32)> = usable.iter().map(|d| (d.number.slot(), d.weight)).collect();
    by_slot.sort_unstable();
    let workers = |slot: u8| usable.iter().find(|d| d.number.slot() == slot).and_then(|d| d.workers);
    let capacity = |d: &MemberDevice| Capacity { workers: d.workers, weight: d.weight };
    let narrowed = matches!(blocks.narrow, Narrow::Below | Narrow::Idle);
    let limits = narrowed.then(|| {
        let mut limits = ([0; MAX_DEVICES], [0; MAX_DEVICES]);
        for (i, device) in usable.iter().enumerate() {
            let (at, next) = (usize::from(device.number.slot()), usable.get(i + 1));
            (limits.0[at], limits.1[at]) = blocks.thresholds(capacity(device), next.map(|d| capacity(d)));
        }
        limits
    });
    let order: Vec<u8> = usable.iter().map(|d| d.number.slot()).collect();
    let reports = s.rack.servers.iter().find(|o| o.number == member.server).is_none_or(|o| o.reports);
    Some(Pool {
        timeout_ms: if reports { s.rack.switch.report_timeout_ms } else { 0 },
        ring: order_of_turns(s.rack, service, member, &by_slot, notes),
        state: blocks.narrow == Narrow::Below || matches!(blocks.pick, Pick::Weighted | Pick::Chance),
        factors: factors(blocks.factor, &by_slot, &order, workers),
        order,
        thresholds: limits,
    })
}

/// The ring of a server's pool, for policies that have one. `by_slot`: slots with their weights.
fn order_of_turns(
    rack: &Rack,
    service: &Service,
    member: &Member,
    by_slot: &[(u8, u32)],
    notes: &mut Vec<String>,
) -> Vec<u8> {
    match service.policy {
        Policy::ServerOnly | Policy::Ecmp => by_slot.iter().map(|(slot, _)| *slot).collect(),
        Policy::Wrr => {
            let (ring, error) = ring(by_slot, longest_ring(rack).max(by_slot.len() as u32));
            if error > 0.0 {
                notes.push(format!(
                    "service `{}`: the weights of server `{}` need too long a ring; shares are off by up to {:.2} % of it",
                    service.name,
                    rack.server_name(member.server),
                    error * 100.0
                ));
            }
            ring
        }
        _ => Vec::new(),
    }
}

/// What the load of each slot's device is multiplied by. `order`: the slots by priority.
fn factors(
    factor: Factor,
    by_slot: &[(u8, u32)],
    order: &[u8],
    workers: impl Fn(u8) -> Option<u16>,
) -> Option<[u16; MAX_DEVICES]> {
    let values: Vec<u16> = match factor {
        Factor::One => return None,
        Factor::Weight => by_slot.iter().map(|(_, w)| *w as u16).collect(),
        Factor::Inverse => inverses(&by_slot.iter().map(|(_, w)| u64::from(*w)).collect::<Vec<_>>()),
        Factor::Ranked => {
            let place = |slot: u8| order.iter().position(|s| *s == slot).unwrap_or(0);
            by_slot.iter().map(|(slot, _)| ranked(place(*slot))).collect()
        }
        Factor::PerWorker(all) => {
            let each = |workers: u16| ((all + workers / 2) / workers.max(1)).max(1);
            by_slot.iter().map(|(slot, _)| each(workers(*slot).unwrap_or(1))).collect()
        }
    };
    let mut out = [0; MAX_DEVICES];
    for ((slot, _), value) in by_slot.iter().zip(values) {
        out[usize::from(*slot)] = value;
    }
    Some(out)
}

/// How long a ring may be so that two generations of all of them fit into their table.
fn longest_ring(rack: &Rack) -> u32 {
    let (mut rings, mut taken) = (0, 0);
    for service in &rack.services {
        match service.policy {
            Policy::Wrr => rings += service.frontends().count() * service.members.len(),
            Policy::ServerOnly | Policy::Ecmp => {}
            _ => continue,
        }
        taken += room::shortest_rings(service);
    }
    let free = (room::RINGS / 2).saturating_sub(taken);
    (room::MIN_RING + free / rings.max(1) as u64).min(MAX_RING.into()) as u32
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
