//! Consistency checks between the tables of a configuration.

use super::read::{Raw, RawServer, RawService};
use super::reader::{Place, Problems};
use super::{
    DirectReturn, Frontend, Member, MemberDevice, NextHop, PrometheusChoice, Rack, Server, Service, Switch,
};
use crate::blocks::{Blocks, Limits, Metric, Tuning};
use crate::trust::ReportKeys;
use crate::types::{DeviceKind, DeviceNumber, MAX_DEVICES, Policy, Protocol, REPORT_PORT};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Places in the data plane's table `server_slots`; two generations of every service must fit.
const SLOT_TABLE_SIZE: u64 = 262_144;

pub(super) fn rack(mut raw: Raw, problems: &mut Problems<'_>) -> Option<Rack> {
    let mut addresses = Addresses::default();
    switch(&raw, &mut addresses, problems);
    servers(&raw, &mut addresses, problems);
    let mut services = Vec::new();
    let mut names = BTreeSet::new();
    let mut frontends: BTreeMap<Frontend, String> = BTreeMap::new();
    let mut backends: BTreeMap<(IpAddr, Protocol, u16), String> = BTreeMap::new();
    for s in &raw.services {
        if !names.insert(s.service.name.clone()) {
            problems.add(
                &s.place,
                "service.name",
                format!("two services are called `{}`: rename one", s.service.name),
            );
        }
        vips(s, &addresses, problems);
        let Some(service) = members(s, &raw.servers, &raw.switch, problems) else {
            continue;
        };
        for f in service.frontends() {
            if f.protocol == Protocol::Udp && f.port == REPORT_PORT {
                let message = format!(
                    "load reports use UDP port {REPORT_PORT} of every local address: use another port"
                );
                problems.add(&s.place, "service.port", message);
            }
            if let Some(other) = frontends.insert(f, service.name.clone()) {
                let message =
                    format!("service `{other}` already has {f}: change VIP, protocol or port of one");
                problems.add(&s.place, "service.vip", message);
            }
        }
        for (address, protocol, device) in served(&service, &raw.servers) {
            let key = (address, protocol, service.port);
            if let Some(other) =
                backends.insert(key, service.name.clone()).filter(|other| *other != service.name)
            {
                let message = format!(
                    "device `{device}` already serves {protocol} port {} for service `{other}`, so its answers are ambiguous: \
                     give one service another port or other servers",
                    service.port
                );
                problems.add(&s.place, "service.servers", message);
                break;
            }
        }
        services.push(service);
    }
    let choices = choices(&mut raw.services, &services, &raw.servers, problems);
    let learn = raw.learn.take().and_then(|l| l.resolve(&services, &raw.servers, &raw.switch, problems));
    let total: u64 = services.iter().map(|s| u64::from(s.slots) * s.frontends().count() as u64).sum();
    if total * 2 > SLOT_TABLE_SIZE
        && let Some(last) = raw.services.last()
    {
        let message = format!(
            "all services together have {total} slots, twice that must fit into {SLOT_TABLE_SIZE}: lower `slots`"
        );
        problems.add(&last.place, "service.slots", message);
    }
    if !problems.is_empty() {
        return None;
    }
    let server = |s: RawServer| {
        let numbers: BTreeMap<String, DeviceNumber> =
            s.devices.iter().map(|d| (d.device.name.clone(), d.device.number)).collect();
        let device = |d: super::read::RawDevice| {
            let reporter = d.reported_by.and_then(|by| numbers.get(&by.value).copied());
            super::Device { reporter: reporter.unwrap_or(d.device.number), ..d.device }
        };
        Server {
            name: s.name.value,
            number: s.number.value as u16,
            class: s.class.map(|c| c.value),
            devices: s.devices.into_iter().map(device).collect(),
        }
    };
    Some(Rack {
        switch: raw.switch,
        routes: raw.routes.into_iter().map(|(r, _)| r).collect(),
        bridge: raw.bridge.into_iter().map(|(s, _)| s).collect(),
        servers: raw.servers.into_iter().map(server).collect(),
        services,
        keys: ReportKeys::default(),
        choices,
        api: raw.api,
        learn,
    })
}

/// Looks up the devices that Prometheus chooses among.
fn choices(
    raw: &mut [RawService],
    services: &[Service],
    servers: &[RawServer],
    problems: &mut Problems<'_>,
) -> Vec<PrometheusChoice> {
    let mut out = Vec::new();
    for r in raw {
        let (Some(p), Some(service)) =
            (r.prometheus.take(), services.iter().find(|s| s.name == r.service.name))
        else {
            continue;
        };
        let device = |name: &str| {
            let (server, device) = name.split_once('/')?;
            let server = servers.iter().find(|s| s.name.value == server)?;
            let number = server.devices.iter().find(|d| d.device.name == device)?.device.number;
            service.members.iter().any(|m| m.server == number.server()).then_some(number)
        };
        out.push(p.resolve(&service.name, device, problems));
    }
    out
}

/// The owner of each address.
#[derive(Default)]
struct Addresses {
    gateways: BTreeSet<IpAddr>,
    devices: BTreeMap<IpAddr, String>,
}

/// Why an address is unusable: the data plane drops packets from it.
fn unusable(address: IpAddr) -> Option<&'static str> {
    match address {
        a if a.is_unspecified() => Some("is the unspecified address"),
        a if a.is_multicast() => Some("is a multicast address"),
        a if a.is_loopback() => Some("is a loopback address"),
        IpAddr::V4(a) if a.is_broadcast() => Some("is the broadcast address"),
        _ => None,
    }
}

fn usable(address: IpAddr, place: &Place, field: &str, problems: &mut Problems<'_>) {
    if let Some(why) = unusable(address) {
        problems.add(place, field, format!("{address} {why}: write an address of one station"));
    }
}

fn in_use(cpu_port: u16, port: u16, place: &Place, field: &str, problems: &mut Problems<'_>) {
    if port == cpu_port {
        problems.add(place, field, format!("port {port} is the controller's (switch.cpu_port): use another"));
    }
}

fn switch(raw: &Raw, addresses: &mut Addresses, problems: &mut Problems<'_>) {
    let Switch { gateways, cpu_port, .. } = &raw.switch;
    for (gateway, place) in gateways.iter().zip(&raw.switch_places.gateways) {
        usable(*gateway, place, "switch.gateways", problems);
        if !addresses.gateways.insert(*gateway) {
            problems.add(place, "switch.gateways", format!("{gateway} is listed twice: remove one"));
        }
    }
    let mut prefixes = BTreeSet::new();
    for (route, place) in &raw.routes {
        if !prefixes.insert(route.prefix) {
            problems.add(place, "route.prefix", format!("two routes for {}: remove one", route.prefix));
        }
        in_use(*cpu_port, route.port, place, "route.port", problems);
        if let NextHop::Neighbour(via) = route.hop {
            usable(via, place, "route.via", problems);
            if addresses.gateways.contains(&via) {
                problems.add(
                    place,
                    "route.via",
                    format!("{via} is the switch's own address: write the neighbour's"),
                );
            }
        }
    }
    let mut stations = BTreeSet::new();
    for (station, place) in &raw.bridge {
        in_use(*cpu_port, station.port, place, "bridge.port", problems);
        if !stations.insert(station.mac) {
            problems.add(place, "bridge.mac", format!("two stations have {}: remove one", station.mac));
        }
        if station.mac == raw.switch.mac {
            problems.add(place, "bridge.mac", "this is the switch's own address: remove the entry");
        }
    }
}

fn servers(raw: &Raw, addresses: &mut Addresses, problems: &mut Problems<'_>) {
    let mut names = BTreeSet::new();
    let mut numbers = BTreeMap::new();
    for server in &raw.servers {
        let name = &server.name.value;
        if !names.insert(name.clone()) {
            problems.add(
                &server.name.place,
                "server.name",
                format!("two servers are called `{name}`: rename one"),
            );
        }
        if let Some(other) = numbers.insert(server.number.value, name.clone()) {
            let message = format!(
                "`{other}` and `{name}` both have number {}: give one of them another `id` (without `id` it is the \
                 position in the file)",
                server.number.value
            );
            problems.add(&server.number.place, "server.id", message);
        }
        let mut device_names = BTreeSet::new();
        let mut slots = BTreeMap::new();
        for raw_device in &server.devices {
            let device = &raw_device.device;
            let full = format!("{name}/{}", device.name);
            if !device_names.insert(device.name.clone()) {
                let message = format!("two devices of `{name}` are called `{}`: rename one", device.name);
                problems.add(&raw_device.place, "server.device.name", message);
            }
            let [slot, port, address, address6, mac] = &raw_device.places;
            if let Some(other) = slots.insert(device.number.slot(), device.name.clone()) {
                let message = format!(
                    "`{other}` and `{}` both have slot {} of `{name}`: give one of them another `slot` (without `slot` \
                     it is the position in the server)",
                    device.name,
                    device.number.slot()
                );
                problems.add(slot, "server.device.slot", message);
            }
            if let Some(by) = &raw_device.reported_by {
                match server.devices.iter().find(|d| d.device.name == by.value) {
                    None => {
                        let message =
                            format!("no device `{}` in `{name}`: write one of the same server", by.value);
                        problems.add(&by.place, "server.device.reported_by", message);
                    }
                    // A device that another agent reports for has no agent.
                    Some(d) if d.reported_by.as_ref().is_some_and(|b| b.value != d.device.name) => {
                        let message = format!("another agent reports for `{}`: write that device", by.value);
                        problems.add(&by.place, "server.device.reported_by", message);
                    }
                    Some(_) => {}
                }
            }
            in_use(raw.switch.cpu_port, device.port, port, "server.device.port", problems);
            if device.mac == Some(raw.switch.mac) {
                problems.add(
                    mac,
                    "server.device.mac",
                    "this is the switch's own address: write the device's",
                );
            }
            for (a, place, field) in [
                (device.address(false), address, "server.device.address"),
                (device.address(true), address6, "server.device.address6"),
            ] {
                let Some(a) = a else { continue };
                usable(a, place, field, problems);
                if addresses.gateways.contains(&a) {
                    problems.add(
                        place,
                        field,
                        format!("{a} is the switch's own address: write the device's"),
                    );
                }
                if let Some(other) = addresses.devices.insert(a, full.clone()) {
                    let message = format!("`{other}` already has {a}: every device needs its own address");
                    problems.add(place, field, message);
                }
            }
        }
    }
    let slowest = raw.servers.iter().flat_map(|s| s.devices.iter().map(move |d| (&s.name.value, &d.device)));
    if let Some((server, device)) = slowest.max_by_key(|(_, d)| d.agent.heartbeat_ms) {
        let (timeout, heartbeat) = (raw.switch.report_timeout_ms, device.agent.heartbeat_ms);
        if timeout != 0 && heartbeat.saturating_mul(2) > timeout {
            let message = format!(
                "{timeout} ms, but the agent of `{server}/{}` reports every {heartbeat} ms, so one lost report would make \
                 it unavailable: write at least twice as much, or lower agent.heartbeat_ms",
                device.name
            );
            problems.add(&raw.switch_places.report_timeout, "switch.report_timeout_ms", message);
        }
    }
}

fn vips(s: &RawService, addresses: &Addresses, problems: &mut Problems<'_>) {
    for (vip, place) in s.service.vips.iter().zip(&s.vip_places) {
        usable(*vip, place, "service.vip", problems);
        if addresses.gateways.contains(vip) {
            let message = format!("{vip} is one of `switch.gateways`, to which agents report: write another");
            problems.add(place, "service.vip", message);
        }
        if s.service.direct_return == Some(DirectReturn::Tunnel)
            && !addresses.gateways.iter().any(|g| g.is_ipv4() == vip.is_ipv4())
        {
            let message = format!(
                "the IP-in-IP tunnel for {vip} needs a source address of the switch: add one of that family to \
                 `switch.gateways`"
            );
            problems.add(place, "service.direct_return", message);
        }
        if let Some(device) = addresses.devices.get(vip) {
            problems.add(
                place,
                "service.vip",
                format!("{vip} is the address of device `{device}`: write another"),
            );
        }
    }
}

/// Addresses and protocols that a service needs of its devices.
fn served<'a>(
    service: &'a Service,
    servers: &'a [RawServer],
) -> impl Iterator<Item = (IpAddr, Protocol, String)> + 'a {
    service.members.iter().flat_map(move |m| {
        let server = servers.iter().find(|s| s.number.value as u16 == m.server);
        server.into_iter().flat_map(move |server| {
            server.devices.iter().flat_map(move |d| {
                let name = format!("{}/{}", server.name.value, d.device.name);
                service
                    .frontends()
                    .filter_map(move |f| Some((d.device.address(f.vip.is_ipv6())?, f.protocol, name.clone())))
            })
        })
    })
}

fn members(
    s: &RawService,
    servers: &[RawServer],
    switch: &Switch,
    problems: &mut Problems<'_>,
) -> Option<Service> {
    let mut chosen: Vec<(&RawServer, u32)> = Vec::new();
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
    if chosen.is_empty() {
        problems.add(
            &s.place,
            "service.servers",
            "no server: write at least one [[server]] and list it here",
        );
        return None;
    }
    if chosen.len() as u32 > s.service.slots {
        let message =
            format!("{} servers need at least as many slots: write a larger power of two", chosen.len());
        problems.add(&s.place, "service.slots", message);
    }
    let overrides = |table: &[(super::reader::At<String>, u64)], field: &str, problems: &mut Problems<'_>| {
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
                    let message =
                        format!("no device `{}` of this service: write \"server/device\"", name.value);
                    problems.add(&name.place, field, message);
                }
            }
        }
        found
    };
    let priorities = overrides(&s.priorities, "service.priority", problems);
    let weights = overrides(&s.weights, "service.weight", problems);
    let mut service = s.service.clone();
    for (server, weight) in &chosen {
        let mut devices: Vec<MemberDevice> = server
            .devices
            .iter()
            .map(|d| {
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
            })
            .collect();
        debug_assert!(devices.len() <= MAX_DEVICES);
        devices.sort_by_key(|d| (d.priority, d.number));
        for d in server.devices.iter().filter(|d| d.device.enabled) {
            for vip in &service.vips {
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
        service.members.push(Member { server: server.number.value as u16, weight: *weight, devices });
    }
    let name_of = |number: u16| {
        let found = servers.iter().find(|s| s.number.value as u16 == number);
        found.map_or_else(|| number.to_string(), |s| s.name.value.clone())
    };
    if let Err(e) = policy_needs(service.policy, &service.tuning, &service.members, switch, &name_of) {
        problems.add(&s.policy_place, "service.policy", e);
    }
    Some(service)
}

/// Whether a service meets the requirements of a policy.
pub(super) fn policy_needs(
    policy: Policy,
    tuning: &Tuning,
    members: &[Member],
    switch: &Switch,
    name_of: &dyn Fn(u16) -> String,
) -> Result<(), String> {
    match policy {
        Policy::ServerOnly => {
            let without =
                members.iter().find(|m| m.weight > 0 && m.devices.iter().all(|d| d.kind != DeviceKind::Cpu));
            match without {
                Some(m) => Err(format!(
                    "server-only needs a device of kind \"cpu\" in every server, `{}` has none: add it, set the \
                     server's weight to 0, or choose another policy",
                    name_of(m.server)
                )),
                None => Ok(()),
            }
        }
        Policy::P4mite if switch.report_timeout_ms == 0 => {
            Err("p4mite needs reports: write a switch.report_timeout_ms above 0, or choose another policy"
                .into())
        }
        _ => {
            let blocks = Blocks::new(policy, tuning, Protocol::Tcp, super::tell_workers(members));
            if switch.report_timeout_ms == 0 && blocks.needs_reports() {
                return Err(format!(
                    "{policy} needs reports of devices: write a switch.report_timeout_ms above 0, or choose another \
                     policy or metric"
                ));
            }
            if !switch.believes_probes && blocks.metrics.iter().any(|(m, w)| *m == Metric::Weight && *w > 0) {
                return Err(format!(
                    "{policy} needs probes, which are not authenticated: write probes = \"unauthenticated\" in [switch], \
                     or choose another policy or metric"
                ));
            }
            if blocks.complement
                && blocks.metrics.iter().any(|(m, _)| matches!(m, Metric::InFlight | Metric::Queue))
            {
                return Err(format!(
                    "{policy} uses 100 minus the metric: it must be a percentage, \"compute\", \
                     \"memory\" or \"network\""
                ));
            }
            if let Limits::Fixed { high, low } = blocks.limits
                && low >= high
            {
                return Err(format!(
                    "{policy}: tuning.low is {low} and tuning.high {high}: `low` must be below \
                     `high`"
                ));
            }
            Ok(())
        }
    }
}
