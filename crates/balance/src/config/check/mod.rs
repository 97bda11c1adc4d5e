//! Consistency checks between the tables of a configuration.

mod members;
mod stations;

use super::read::{Raw, RawDevice, RawServer, RawService};
use super::reader::Problems;
use super::{Frontend, PrometheusChoice, Rack, Server, Service};
use super::{room, source};
use crate::trust::ReportKeys;
use crate::types::{DeviceNumber, Protocol, REPORT_PORT};
pub(super) use members::{adoption_needs, policy_needs};
use stations::Addresses;
pub(super) use stations::in_use;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

pub(super) fn rack(mut raw: Raw, problems: &mut Problems<'_>) -> Option<Rack> {
    let mut addresses = Addresses::default();
    stations::switch(&raw, &mut addresses, problems);
    stations::servers(&raw, &mut addresses, problems);
    let services = services(&raw, &addresses, problems);
    let sources =
        source::resolve(std::mem::take(&mut raw.sources), &services, &raw.switch, raw.api.as_ref(), problems);
    let choices = choices(&mut raw.services, &services, &raw.servers, problems);
    let learn = raw.learn.take().and_then(|l| l.resolve(&services, &raw.servers, &raw.switch, problems));
    if !problems.is_empty() {
        return None;
    }
    let place = raw.services.last().map(|s| s.place.clone());
    let rack = Rack {
        switch: raw.switch,
        routes: raw.routes.into_iter().map(|(r, _)| r).collect(),
        bridge: raw.bridge.into_iter().map(|(s, _)| s).collect(),
        servers: raw.servers.into_iter().map(server).collect(),
        services,
        keys: ReportKeys::default(),
        choices,
        api: raw.api,
        learn,
        sources,
    };
    if let (Err(full), Some(place)) = (room::check(&rack), place) {
        problems.add(&place, full.field(), full.to_string());
        return None;
    }
    Some(rack)
}

/// A checked server.
fn server(raw: RawServer) -> Server {
    let numbers: BTreeMap<String, DeviceNumber> =
        raw.devices.iter().map(|d| (d.device.name.clone(), d.device.number)).collect();
    let device = |d: RawDevice| {
        let reporter = d.reported_by.and_then(|by| numbers.get(&by.value).copied());
        super::Device { reporter: reporter.unwrap_or(d.device.number), ..d.device }
    };
    Server {
        name: raw.name.value,
        number: raw.number.value as u16,
        class: raw.class.map(|c| c.value),
        devices: raw.devices.into_iter().map(device).collect(),
        source: None,
        reports: true,
    }
}

/// All services with their members. No two have the same name, frontend, or answers.
fn services(raw: &Raw, addresses: &Addresses, problems: &mut Problems<'_>) -> Vec<Service> {
    let mut services = Vec::new();
    let mut names = BTreeSet::new();
    let mut frontends: BTreeMap<Frontend, String> = BTreeMap::new();
    let mut backends: BTreeMap<(IpAddr, Protocol, u16), String> = BTreeMap::new();
    for s in &raw.services {
        if !names.insert(s.service.name.clone()) {
            let message = format!("two services are called `{}`: rename one", s.service.name);
            problems.add(&s.place, "service.name", message);
        }
        stations::vips(s, addresses, problems);
        let fed = raw.sources.iter().any(|r| source::feeds(r, &s.service.name));
        let Some(service) = members::members(s, &raw.servers, fed, &raw.switch, problems) else {
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
    services
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
