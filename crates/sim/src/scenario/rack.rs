//! A generated rack: a number of equal servers, as a `rack.toml`, which is then read like any other.

use pointsman_balance::config::file::{
    AgentSection, DeviceSection, RackFile, ServerSection, ServiceSection, SwitchSection,
};
use pointsman_balance::config::{AgentSettings, NextHop, Route};
use pointsman_balance::trust::ReportKeys;
use pointsman_balance::types::CONSUME_PORT;
use pointsman_balance::{DeviceKind, Mac, Policy, Prefix, Protocol, Rack};
use pointsman_wire::random::STEP;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Ports of the switch for clients and servers: 1 to this. The next ones are those of packets that the program consumes, and the controller's.
const LAST_PORT: usize = CONSUME_PORT as usize - 1;

/// First addresses: of the servers' network, and of the first client's (others are /16s apart).
const SERVERS: u32 = 10 << 24 | 32 << 16;
const CLIENTS: u32 = 10 << 24 | 64 << 16;
/// Port of the first switch's P4Runtime server; the others follow.
const P4RUNTIME: u16 = 9559;
/// The service.
pub const VIP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 100);
/// Its port.
pub const PORT: u16 = 8000;
/// Most clients of a generated rack.
pub const MAX_CLIENTS: usize = 64;

/// A kind of device that every server has.
#[derive(Clone, Debug)]
pub struct Each {
    pub name: String,
    pub kind: DeviceKind,
    pub weight: u32,
    pub priority: u8,
    pub enabled: bool,
}

/// The description of a generated rack.
#[derive(Clone, Debug)]
pub struct Generated {
    pub servers: u32,
    pub switches: u16,
    pub policy: Policy,
    pub slots: Option<u32>,
    pub idle_timeout_ms: u32,
    pub report_timeout_ms: u32,
    pub poll_interval_ms: Option<u32>,
    pub agent: AgentSettings,
    pub devices: Vec<Each>,
}

/// The networks of servers and clients, and the service's address, in IPv6.
const SERVERS6: u128 = 0xfd00_0000_0000_0001 << 64;
const CLIENTS6: u128 = 0xfd00_0000_0000_0100 << 64;
const VIP6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0x100);

/// First address of a client.
pub fn client_address(index: usize, v6: bool) -> IpAddr {
    if v6 {
        return Ipv6Addr::from(CLIENTS6 + ((index as u128) << 64) + 2).into();
    }
    Ipv4Addr::from(CLIENTS + ((index as u32) << 16) + 2).into()
}

/// Gives every agent a key. No secret is needed, because no other sender exists.
pub fn simulated_keys(mut rack: Rack) -> Rack {
    let mut keys = ReportKeys::default();
    let mut n = 0u64;
    let next = || {
        n = n.wrapping_add(STEP);
        n.to_be_bytes()
    };
    // It fails only for an agent whose keys are used up.
    let _ = keys.extend(&rack, false, next);
    rack.keys = keys;
    rack
}

impl Generated {
    /// Its `rack.toml`, for clients of which these speak IPv6. Servers share ports where there are more of them than ports.
    pub fn file(&self, v6: &[bool], transport: Protocol) -> RackFile {
        let any6 = v6.contains(&true);
        let servers = (0..self.servers as usize).map(|server| ServerSection {
            name: format!("s{}", server + 1),
            devices: self.devices(server, v6.len(), any6),
            ..ServerSection::default()
        });
        let slots = self.slots.unwrap_or_else(|| (self.servers * 8).next_power_of_two().clamp(256, 65_536));
        RackFile {
            switch: SwitchSection {
                p4runtime: (0..self.switches).map(|n| (Ipv4Addr::LOCALHOST, P4RUNTIME + n).into()).collect(),
                gateways: vec![Ipv4Addr::from(SERVERS + 1).into()],
                report_keys: Some("simulated".into()),
                report_timeout_ms: Some(self.report_timeout_ms),
                poll_interval_ms: self.poll_interval_ms,
                ..SwitchSection::default()
            },
            agent: AgentSection::from(&self.agent),
            routes: v6.iter().enumerate().map(|(i, v6)| route(i, *v6)).collect(),
            servers: servers.collect(),
            services: vec![ServiceSection {
                vips: [VIP.into()].into_iter().chain(any6.then(|| VIP6.into())).collect(),
                protocols: vec![transport],
                slots: Some(slots),
                idle_timeout_ms: Some(self.idle_timeout_ms),
                ..ServiceSection::new("service", PORT, self.policy)
            }],
            ..RackFile::default()
        }
    }

    /// The devices of a server, from 0, behind the clients' ports.
    fn devices(&self, server: usize, clients: usize, v6: bool) -> Vec<DeviceSection> {
        let port = clients + 1 + server % (LAST_PORT - clients);
        let device = |(i, each): (usize, &Each)| {
            let number = (server * self.devices.len() + i) as u32;
            let [_, more, high, low] = number.to_be_bytes();
            DeviceSection {
                address: Some(Ipv4Addr::from(SERVERS + 16 + number)),
                address6: v6.then(|| Ipv6Addr::from(SERVERS6 + 16 + u128::from(number))),
                mac: Some(Mac([2, 0, more, 2, high, low])),
                weight: Some(each.weight),
                priority: Some(each.priority),
                enabled: Some(each.enabled),
                ..DeviceSection::new(&each.name, each.kind, port as u16)
            }
        };
        self.devices.iter().enumerate().map(device).collect()
    }
}

/// The route to a client's network.
fn route(client: usize, v6: bool) -> Route {
    Route {
        prefix: Prefix::containing(client_address(client, v6), if v6 { 64 } else { 16 }),
        port: client as u16 + 1,
        hop: NextHop::Mac(Mac([2, 0, 0, 1, 0, client as u8])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_balance::config::Threshold;

    fn device(name: &str, kind: DeviceKind, weight: u32, priority: u8, enabled: bool) -> Each {
        Each { name: name.into(), kind, weight, priority, enabled }
    }

    fn small() -> Generated {
        Generated {
            servers: 2,
            switches: 1,
            policy: Policy::Wrr,
            slots: None,
            idle_timeout_ms: 5000,
            report_timeout_ms: 500,
            poll_interval_ms: None,
            agent: AgentSettings::default(),
            devices: vec![device("cpu", DeviceKind::Cpu, 5, 1, true)],
        }
    }

    /// The generated rack is the one that this text describes.
    fn check(rack: &Generated, v6: &[bool], transport: Protocol, text: &str) {
        let expected = Rack::parse("rack.toml", text).expect("valid");
        assert_eq!(rack.file(v6, transport).rack().expect("valid"), expected);
    }

    #[test]
    fn a_small_rack_is_as_written() {
        let text = r#"
            [switch]
            mac = "02:50:4d:00:00:01"
            gateways = ["10.32.0.1"]
            report_keys = "simulated"
            report_timeout_ms = 500
            [[route]]
            prefix = "10.64.0.0/16"
            port = 1
            mac = "02:00:00:01:00:00"
            [[server]]
            name = "s1"
            [[server.device]]
            name = "cpu"
            kind = "cpu"
            port = 2
            address = "10.32.0.16"
            mac = "02:00:00:02:00:00"
            weight = 5
            [[server]]
            name = "s2"
            [[server.device]]
            name = "cpu"
            kind = "cpu"
            port = 3
            address = "10.32.0.17"
            mac = "02:00:00:02:00:01"
            weight = 5
            [[service]]
            name = "service"
            vip = ["10.0.0.100"]
            protocol = "udp"
            port = 8000
            policy = "wrr"
            slots = 256
            idle_timeout_ms = 5000
        "#;
        check(&small(), &[false], Protocol::Udp, text);
    }

    #[test]
    fn a_rack_with_all_settings_is_as_written() {
        let rack = Generated {
            servers: 1,
            switches: 2,
            slots: Some(16),
            poll_interval_ms: Some(70),
            agent: AgentSettings {
                heartbeat_ms: 10,
                smoothing: 0.125,
                latency_ms: Some(Threshold { high: 1e3 / 3.0, low: 10.0 }),
                network_percent: Some(Threshold { high: 90.0, low: 80.5 }),
                network_mbit_s: Some(1e4),
                ..AgentSettings::default()
            },
            devices: vec![
                device("cpu", DeviceKind::Cpu, 1, 2, true),
                device("nic", DeviceKind::SmartNic, 7, 1, false),
            ],
            ..small()
        };
        let text = r#"
            [switch]
            p4runtime = ["127.0.0.1:9559", "127.0.0.1:9560"]
            mac = "02:50:4d:00:00:01"
            gateways = ["10.32.0.1"]
            report_keys = "simulated"
            report_timeout_ms = 500
            poll_interval_ms = 70
            [agent]
            heartbeat_ms = 10
            smoothing = 0.125
            latency_ms = { high = 333.3333333333333, low = 10 }
            network_percent = { high = 90, low = 80.5 }
            network_mbit_s = 10000
            [[route]]
            prefix = "10.64.0.0/16"
            port = 1
            mac = "02:00:00:01:00:00"
            [[route]]
            prefix = "fd00:0:0:101::/64"
            port = 2
            mac = "02:00:00:01:00:01"
            [[server]]
            name = "s1"
            [[server.device]]
            name = "cpu"
            kind = "cpu"
            port = 3
            address = "10.32.0.16"
            address6 = "fd00:0:0:1::10"
            mac = "02:00:00:02:00:00"
            priority = 2
            [[server.device]]
            name = "nic"
            kind = "smartnic"
            port = 3
            address = "10.32.0.17"
            address6 = "fd00:0:0:1::11"
            mac = "02:00:00:02:00:01"
            weight = 7
            priority = 1
            enabled = false
            [[service]]
            name = "service"
            vip = ["10.0.0.100", "fd00::100"]
            protocol = "tcp"
            port = 8000
            policy = "wrr"
            slots = 16
            idle_timeout_ms = 5000
        "#;
        check(&rack, &[false, true], Protocol::Tcp, text);
    }
}
