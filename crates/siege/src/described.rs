//! What the rack under siege consists of, and the files that describe it to the product.

use crate::management;
use crate::rack::{ATTACKER, PORT, SERVICE, SWITCH_MAC, api, p4runtime};
use crate::roster::SOURCES;
use pointsman_balance::config::file::{
    AgentSection, ApiSection, DeviceSection, MembersSection, RackFile, ServerSection, ServiceSection,
    SwitchSection,
};
use pointsman_balance::config::{NextHop, Route, Threshold};
use pointsman_balance::{DeviceKind, Policy, Prefix, Protocol};
use pointsman_lab::rack::{ClientSpec, DeviceKind as LabKind, DeviceSpec, Link, RackSpec, ServerSpec};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The server that no description lists: its device registers by API.
pub const MEMBER: &str = "m1";
/// The service of members that come and go: no client connects to it.
const DRIFT: (&str, u16) = ("drift", 8001);

/// The wiring: the demonstration's rack with an attacker on an additional port.
/// With `etcd` it has a server that only members know.
pub fn spec(etcd: bool) -> RackSpec {
    let mut spec = RackSpec { offloads: true, ..RackSpec::demo() };
    let attacker = ClientSpec { name: ATTACKER.into(), link: Link::in_subnet(6, 1), addresses: 1 };
    spec.clients.push(attacker);
    if etcd {
        let link = Link::in_subnet(7, 31);
        let device = DeviceSpec { name: "cpu".into(), kind: LabKind::Cpu, link, speed: 1.0 };
        spec.servers.push(ServerSpec { name: MEMBER.into(), devices: vec![device] });
    }
    spec
}

/// The description for one controller: they differ only in the controllers' settings. With `etcd` it reaches the switch from a
/// namespace of its own.
pub fn description(spec: &RackSpec, controller: u8, etcd: bool) -> RackFile {
    let gateways = spec.hosts().flat_map(|(_, l)| [l.gateway_ipv4.into(), l.gateway_ipv6.into()]);
    let routes = spec.clients.iter().flat_map(|client| {
        let (link, port) = (&client.link, client.link.port);
        let hop = NextHop::Neighbour;
        [
            Route { prefix: Prefix::containing(link.ipv4.into(), 24), port, hop: hop(link.ipv4.into()) },
            Route { prefix: Prefix::containing(link.ipv6.into(), 64), port, hop: hop(link.ipv6.into()) },
        ]
    });
    let device = |device: &DeviceSpec| {
        let kind = if device.speed < 1.0 { DeviceKind::SmartNic } else { DeviceKind::Cpu };
        DeviceSection {
            address: Some(device.link.ipv4),
            address6: Some(device.link.ipv6),
            ..DeviceSection::new(&device.name, kind, device.link.port)
        }
    };
    let listed = spec.servers.iter().filter(|s| s.name != MEMBER);
    let servers = listed.map(|server| ServerSection {
        name: server.name.clone(),
        devices: server.devices.iter().map(device).collect(),
        ..ServerSection::default()
    });
    let service = |(name, port): (&str, u16)| ServiceSection {
        vips: vec![spec.vip_ipv4.into(), spec.vip_ipv6.into()],
        protocols: vec![Protocol::Tcp, Protocol::Udp],
        ..ServiceSection::new(name, port, Policy::Wrr)
    };
    RackFile {
        switch: SwitchSection {
            p4runtime: vec![match etcd {
                true => management::switch_address(controller, p4runtime().port()),
                false => p4runtime(),
            }],
            election_id: Some(u32::from(2 - controller)),
            mac: SWITCH_MAC,
            gateways: gateways.collect(),
            report_keys: Some("report-keys.txt".into()),
            ..SwitchSection::default()
        },
        api: Some(ApiSection {
            listen: Some(api(controller)),
            tokens: "tokens".into(),
            state: Some(format!("disk/policies-{controller}.json")),
        }),
        agent: AgentSection {
            latency_ms: Some(Threshold { high: 500.0, low: 250.0 }),
            ..AgentSection::default()
        },
        routes: routes.collect(),
        servers: servers.collect(),
        services: [(SERVICE, PORT)].into_iter().chain(etcd.then_some(DRIFT)).map(service).collect(),
        ..RackFile::default()
    }
}

/// The same as text, with the sources of members.
pub fn text(spec: &RackSpec, controller: u8, etcd: bool) -> String {
    RackFile { sources: sources(spec), ..description(spec, controller, etcd) }.to_toml()
}

/// Where members come from: the one that stays, and those that come and go. None without etcd.
fn sources(spec: &RackSpec) -> Vec<MembersSection> {
    let Some((_, device)) = member(spec) else { return Vec::new() };
    let [stay, drift] = SOURCES;
    let source = |name: &str, service: &str, networks, reports| MembersSection {
        name: name.into(),
        api: true,
        services: vec![service.into()],
        networks,
        ports: vec![device.link.port],
        reports,
        ..MembersSection::default()
    };
    let own = vec![
        Prefix::containing(device.link.ipv4.into(), 32),
        Prefix::containing(device.link.ipv6.into(), 128),
    ];
    let wide = vec![
        Prefix::containing(Ipv4Addr::new(10, 77, 0, 0).into(), 16),
        Prefix::containing(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 0).into(), 64),
    ];
    vec![source(stay, SERVICE, own, Some(false)), source(drift, DRIFT.0, wide, None)]
}

/// The server and the device of the member that stays.
fn member(spec: &RackSpec) -> Option<(&ServerSpec, &DeviceSpec)> {
    let server = spec.servers.iter().find(|s| s.name == MEMBER)?;
    Some((server, server.devices.first()?))
}

/// The member that stays, if there is one: its name and its description.
pub fn stays(spec: &RackSpec) -> Option<(String, Value)> {
    let (server, device) = member(spec)?;
    let link = &device.link;
    let member = json!({ "kind": "cpu", "address": link.ipv4, "address6": link.ipv6, "port": link.port });
    Some((server.device_name(device), member))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Content;
    use crate::rack::made_of;

    #[test]
    fn descriptions_are_right_and_differ_in_their_controller() {
        let spec = spec(false);
        for c in [0, 1] {
            let file = description(&spec, c, false);
            let (rack, text) = (file.rack().expect("right"), file.to_toml());
            assert_eq!(rack.devices().count(), 4);
            assert_eq!(rack.api.map(|a| a.listen), Some(api(c)));
            assert_eq!(rack.switch.election_id, 2 - u64::from(c));
            // Cut-off descriptions must be valid, or the cases would show nothing.
            for cut in crate::cases::CUTS {
                let part = made_of(&text, Content::Before(cut));
                let part = String::from_utf8(part).expect("text");
                assert!((500..text.len()).contains(&part.len()), "{cut}");
                pointsman_balance::Rack::parse("rack.toml", &part).expect("valid as far as it goes");
            }
        }
    }

    #[test]
    fn members_are_only_with_etcd() {
        let (spec, without) = (spec(true), spec(false));
        assert!(stays(&without).is_none() && !text(&without, 0, false).contains("[[members]]"));
        let rack = pointsman_balance::Rack::parse("rack.toml", &text(&spec, 1, true)).expect("valid");
        assert_eq!((rack.sources.len(), rack.devices().count()), (2, 4), "the member is not in the file");
        let [stay, drift] = &rack.sources[..] else { panic!("{:?}", rack.sources) };
        assert_eq!(
            (&stay.services[..], &drift.services[..]),
            (&[SERVICE.to_string()][..], &[DRIFT.0.to_string()][..])
        );
        assert_eq!((stay.networks.len(), &stay.ports, &drift.ports), (2, &vec![7], &vec![7]));
        assert_eq!(stays(&spec).expect("a member").0, "m1/cpu");
    }
}
