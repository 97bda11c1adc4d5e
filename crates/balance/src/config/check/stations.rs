//! Checks of the switch, its neighbours and the servers: names, numbers, and addresses with one owner each.

use super::super::read::{Raw, RawDevice, RawServer, RawService, consumed};
use super::super::reader::{Place, Problems};
use super::super::{DirectReturn, NextHop, Switch};
use crate::members::unusable;
use crate::types::CONSUME_PORT;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The owner of each address.
#[derive(Default)]
pub(super) struct Addresses {
    gateways: BTreeSet<IpAddr>,
    devices: BTreeMap<IpAddr, String>,
}

fn usable(address: IpAddr, place: &Place, field: &str, problems: &mut Problems<'_>) {
    if let Some(why) = unusable(address) {
        problems.add(place, field, format!("{address} {why}: write an address of one station"));
    }
}

/// Refuses ports that no station can be at.
pub(in super::super) fn in_use(
    cpu_port: u16,
    port: u16,
    place: &Place,
    field: &str,
    problems: &mut Problems<'_>,
) {
    if port == CONSUME_PORT {
        problems.add(place, field, consumed());
    } else if port == cpu_port {
        problems.add(place, field, format!("port {port} is the controller's (switch.cpu_port): use another"));
    }
}

pub(super) fn switch(raw: &Raw, addresses: &mut Addresses, problems: &mut Problems<'_>) {
    let Switch { gateways, cpu_port, .. } = &raw.switch;
    for (gateway, place) in gateways.iter().zip(&raw.switch_places.gateways) {
        usable(*gateway, place, "switch.gateways", problems);
        if !addresses.gateways.insert(*gateway) {
            problems.add(place, "switch.gateways", format!("{gateway} is listed twice: remove one"));
        }
    }
    if let (Some(store), Some(place)) = (&raw.switch.store, &raw.switch_places.store) {
        in_use(*cpu_port, store.port, place, "switch.store.port", problems);
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

/// Checks all servers, and notes the owners of their addresses.
pub(super) fn servers(raw: &Raw, addresses: &mut Addresses, problems: &mut Problems<'_>) {
    let mut names = BTreeSet::new();
    let mut numbers = BTreeMap::new();
    for server in &raw.servers {
        let name = &server.name.value;
        if !names.insert(name.clone()) {
            let message = format!("two servers are called `{name}`: rename one");
            problems.add(&server.name.place, "server.name", message);
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
        for device in &server.devices {
            if !device_names.insert(device.device.name.clone()) {
                let message =
                    format!("two devices of `{name}` are called `{}`: rename one", device.device.name);
                problems.add(&device.place, "server.device.name", message);
            }
            if let Some(other) = slots.insert(device.device.number.slot(), device.device.name.clone()) {
                let message = format!(
                    "`{other}` and `{}` both have slot {} of `{name}`: give one of them another `slot` (without `slot` \
                     it is the position in the server)",
                    device.device.name,
                    device.device.number.slot()
                );
                problems.add(&device.places[0], "server.device.slot", message);
            }
            reporter(server, device, problems);
            reach(&raw.switch, server, device, addresses, problems);
        }
    }
    heartbeats(raw, problems);
}

/// Checks the device that reports for another one.
fn reporter(server: &RawServer, device: &RawDevice, problems: &mut Problems<'_>) {
    let Some(by) = &device.reported_by else { return };
    let message = match server.devices.iter().find(|d| d.device.name == by.value) {
        None => format!("no device `{}` in `{}`: write one of the same server", by.value, server.name.value),
        // A device that another agent reports for has no agent.
        Some(d) if d.reported_by.as_ref().is_some_and(|b| b.value != d.device.name) => {
            format!("another agent reports for `{}`: write that device", by.value)
        }
        Some(_) => return,
    };
    problems.add(&by.place, "server.device.reported_by", message);
}

/// Checks the port and the addresses of a device.
fn reach(
    switch: &Switch,
    server: &RawServer,
    raw: &RawDevice,
    addresses: &mut Addresses,
    problems: &mut Problems<'_>,
) {
    let device = &raw.device;
    let [_, port, address, address6, mac] = &raw.places;
    in_use(switch.cpu_port, device.port, port, "server.device.port", problems);
    if device.mac == Some(switch.mac) {
        let message = "this is the switch's own address: write the device's";
        problems.add(mac, "server.device.mac", message);
    }
    for (a, place, field) in [
        (device.address(false), address, "server.device.address"),
        (device.address(true), address6, "server.device.address6"),
    ] {
        let Some(a) = a else { continue };
        usable(a, place, field, problems);
        if addresses.gateways.contains(&a) {
            let message = format!("{a} is the switch's own address: write the device's");
            problems.add(place, field, message);
        }
        let full = format!("{}/{}", server.name.value, device.name);
        if let Some(other) = addresses.devices.insert(a, full) {
            let message = format!("`{other}` already has {a}: every device needs its own address");
            problems.add(place, field, message);
        }
    }
}

/// Checks that one lost report makes no device unavailable.
fn heartbeats(raw: &Raw, problems: &mut Problems<'_>) {
    let all = raw.servers.iter().flat_map(|s| s.devices.iter().map(move |d| (&s.name.value, &d.device)));
    let Some((server, device)) = all.max_by_key(|(_, d)| d.agent.heartbeat_ms) else { return };
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

/// Checks the addresses of a service.
pub(super) fn vips(s: &RawService, addresses: &Addresses, problems: &mut Problems<'_>) {
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
