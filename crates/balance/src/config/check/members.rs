//! Checks of a service's servers and devices, and of what its policy needs of them.

use super::super::read::{RawDevice, RawServer, RawService};
use super::super::reader::{At, Problems};
use super::super::{Member, MemberDevice, PolicyNeed, Service, Switch, tell_workers};
use crate::blocks::{Blocks, Limits, Metric, Tuning};
use crate::types::{DeviceKind, DeviceNumber, MAX_DEVICES, Policy, Protocol};
use std::collections::BTreeMap;

/// A server of a service, with its weight.
type Chosen<'a> = (&'a RawServer, u32);

/// The service with its members. `fed`: more may come by themselves.
pub(super) fn members(
    s: &RawService,
    servers: &[RawServer],
    fed: bool,
    switch: &Switch,
    problems: &mut Problems<'_>,
) -> Option<Service> {
    let chosen = chosen(s, servers, fed, problems)?;
    let priorities = overrides(&chosen, &s.priorities, "service.priority", problems);
    let weights = overrides(&chosen, &s.weights, "service.weight", problems);
    let mut service = s.service.clone();
    for (server, weight) in &chosen {
        let device = |d: &RawDevice| {
            let number = d.device.number;
            MemberDevice {
                number,
                kind: d.device.kind,
                enabled: d.device.enabled,
                held: false,
                priority: priorities.get(&number).map_or(d.priority, |p| *p as u8),
                weight: weights.get(&number).map_or(d.weight, |w| *w as u32),
                workers: d.workers,
            }
        };
        let mut devices: Vec<MemberDevice> = server.devices.iter().map(device).collect();
        debug_assert!(devices.len() <= MAX_DEVICES);
        devices.sort_by_key(|d| (d.priority, d.number));
        families(s, server, problems);
        service.members.push(Member { server: server.number.value as u16, weight: *weight, devices });
    }
    let name_of = |number: u16| {
        let found = servers.iter().find(|s| s.number.value as u16 == number);
        found.map_or_else(|| number.to_string(), |s| s.name.value.clone())
    };
    if let Err(e) = policy_needs(service.policy, &service.tuning, &service.members, switch, &name_of) {
        problems.add(&s.policy_place, "service.policy", e.to_string());
    }
    if service.adopt_unknown
        && let Err(e) = adoption_needs(service.policy, &service.tuning, &service.members)
    {
        problems.add(&s.policy_place, "service.policy", e.to_string());
    }
    Some(service)
}

/// The servers that a service lists; all of them if it lists none.
fn chosen<'a>(
    s: &RawService,
    servers: &'a [RawServer],
    fed: bool,
    problems: &mut Problems<'_>,
) -> Option<Vec<Chosen<'a>>> {
    let mut chosen: Vec<Chosen<'a>> = Vec::new();
    match &s.servers {
        None => chosen.extend(servers.iter().map(|s| (s, 1))),
        Some(list) => {
            for (name, weight) in list {
                let Some(server) = servers.iter().find(|s| s.name.value == name.value) else {
                    let known: Vec<&str> = servers.iter().map(|s| s.name.value.as_str()).collect();
                    let message = format!("no server `{}`; there are: {}", name.value, known.join(", "));
                    problems.add(&name.place, "service.servers", message);
                    return None;
                };
                if chosen.iter().any(|(c, _)| c.number.value == server.number.value) {
                    let message = format!("`{}` is listed twice: remove one", name.value);
                    problems.add(&name.place, "service.servers", message);
                }
                chosen.push((server, *weight));
            }
        }
    }
    if chosen.is_empty() && !fed {
        let message = "no server: write at least one [[server]] and list it here, or [[members]]";
        problems.add(&s.place, "service.servers", message);
        return None;
    }
    if chosen.len() as u32 > s.service.slots {
        let message =
            format!("{} servers need at least as many slots: write a larger power of two", chosen.len());
        problems.add(&s.place, "service.slots", message);
    }
    Some(chosen)
}

/// Values that a service gives to single devices, by "server/device".
fn overrides(
    chosen: &[Chosen<'_>],
    table: &[(At<String>, u64)],
    field: &str,
    problems: &mut Problems<'_>,
) -> BTreeMap<DeviceNumber, u64> {
    let mut found: BTreeMap<DeviceNumber, u64> = BTreeMap::new();
    for (name, value) in table {
        let device = chosen.iter().find_map(|(server, _)| {
            let (of, device) = name.value.split_once('/')?;
            let device = server.devices.iter().find(|d| d.device.name == device)?;
            (server.name.value == of).then_some(device.device.number)
        });
        match device {
            Some(number) => {
                found.insert(number, *value);
            }
            None => {
                let message = format!("no device `{}` of this service: write \"server/device\"", name.value);
                problems.add(&name.place, field, message);
            }
        }
    }
    found
}

/// Checks that each device has an address of each VIP's family.
fn families(s: &RawService, server: &RawServer, problems: &mut Problems<'_>) {
    for d in server.devices.iter().filter(|d| d.device.enabled) {
        for vip in &s.service.vips {
            if d.device.address(vip.is_ipv6()).is_none() {
                let family = if vip.is_ipv6() { "IPv6" } else { "IPv4" };
                let message = format!(
                    "{vip} is {family}, but device `{}/{}` has no {family} address: give it one, or leave the VIP or \
                     the server out",
                    server.name.value, d.device.name
                );
                problems.add(&s.place, "service.vip", message);
            }
        }
    }
}

/// Whether switches that do not share connections choose the same device for one, so that one can continue what another began.
pub(in crate::config) fn adoption_needs(
    policy: Policy,
    tuning: &Tuning,
    members: &[Member],
) -> Result<(), PolicyNeed> {
    let by_hash = matches!(policy, Policy::Ecmp | Policy::ServerOnly);
    if by_hash && Blocks::new(policy, tuning, Protocol::Tcp, tell_workers(members)).is_plain() {
        return Ok(());
    }
    Err(PolicyNeed::ByHash(policy))
}

/// Whether a service meets the requirements of a policy.
pub(in crate::config) fn policy_needs(
    policy: Policy,
    tuning: &Tuning,
    members: &[Member],
    switch: &Switch,
    name_of: &dyn Fn(u16) -> String,
) -> Result<(), PolicyNeed> {
    let has_reports = switch.report_timeout_ms > 0;
    match policy {
        Policy::ServerOnly => {
            let without =
                members.iter().find(|m| m.weight > 0 && m.devices.iter().all(|d| d.kind != DeviceKind::Cpu));
            return without.map_or(Ok(()), |m| Err(PolicyNeed::Cpu(name_of(m.server))));
        }
        Policy::P4mite if !has_reports => return Err(PolicyNeed::Reports(policy)),
        _ => {}
    }
    let blocks = Blocks::new(policy, tuning, Protocol::Tcp, tell_workers(members));
    if !has_reports && blocks.needs_reports() {
        return Err(PolicyNeed::Reports(policy));
    }
    if !switch.believes_probes && blocks.metrics.iter().any(|(m, w)| *m == Metric::Weight && *w > 0) {
        return Err(PolicyNeed::Probes(policy));
    }
    if blocks.complement && blocks.metrics.iter().any(|(m, _)| matches!(m, Metric::InFlight | Metric::Queue))
    {
        return Err(PolicyNeed::Percentage(policy));
    }
    match blocks.limits {
        Limits::Fixed { high, low } if low >= high => Err(PolicyNeed::Limits { policy, low, high }),
        _ => Ok(()),
    }
}
