//! The description of a rack: plain data, checked before anything is built.

use crate::error::{Error, Result};
use pointsman_wire::Mac;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// MAC addresses as text.
pub(crate) mod mac_text {
    use pointsman_wire::Mac;
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    pub fn serialize<S: Serializer>(mac: &Mac, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(mac)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Mac, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// How one host is plugged into the switch: its own port with its own subnet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The switch's port number (1 to 510: 511 is v1model's drop port, 0 is left free).
    pub port: u16,
    /// The host's address.
    pub ipv4: Ipv4Addr,
    /// The switch's address on this port: the host's default route, for which the switch answers ARP.
    pub gateway_ipv4: Ipv4Addr,
    /// Length of the on-link IPv4 prefix.
    pub prefix_ipv4: u8,
    /// The host's address.
    pub ipv6: Ipv6Addr,
    /// The switch's address on this port, for which it answers neighbour solicitations.
    pub gateway_ipv6: Ipv6Addr,
    /// Length of the on-link IPv6 prefix.
    pub prefix_ipv6: u8,
    /// The host's Ethernet address.
    #[serde(with = "mac_text")]
    pub mac: Mac,
    /// The Ethernet address that the switch answers with for its gateway addresses.
    #[serde(with = "mac_text")]
    pub gateway_mac: Mac,
}

impl Link {
    /// The link of this crate's own numbering plan: subnet 10.0.`subnet`.0/24 and
    /// fd00:`subnet`::/64 (written with the same digits), the switch at .1 and ::1, the host at .2 and ::2.
    pub fn in_subnet(port: u16, subnet: u8) -> Self {
        // fd00:12::2 corresponds to 10.0.12.2: the decimal digits read as hexadecimal.
        let decimal = u16::from(subnet);
        let digits = ((decimal / 100) << 8) | ((decimal / 10 % 10) << 4) | (decimal % 10);
        let v4 = |host| Ipv4Addr::new(10, 0, subnet, host);
        let v6 = |host| Ipv6Addr::new(0xfd00, digits, 0, 0, 0, 0, 0, host);
        Self {
            port,
            ipv4: v4(2),
            gateway_ipv4: v4(1),
            prefix_ipv4: 24,
            ipv6: v6(2),
            gateway_ipv6: v6(1),
            prefix_ipv6: 64,
            mac: Mac::from_ipv4(v4(2)),
            gateway_mac: Mac::from_ipv4(v4(1)),
        }
    }
}

/// A host that sends requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientSpec {
    /// Its name in messages and reports.
    pub name: String,
    /// Its place on the switch.
    pub link: Link,
    /// How many consecutive addresses it has of each family, beginning with those of `link`: each adds
    /// some 60,000 source ports.
    pub addresses: u8,
}

impl ClientSpec {
    /// All IPv4 addresses of the client.
    pub fn ipv4_addresses(&self) -> Vec<IpAddr> {
        let first = u32::from(self.link.ipv4);
        (0..u32::from(self.addresses)).map(|i| Ipv4Addr::from(first.wrapping_add(i)).into()).collect()
    }

    /// All IPv6 addresses of the client.
    pub fn ipv6_addresses(&self) -> Vec<IpAddr> {
        let first = u128::from(self.link.ipv6);
        (0..u128::from(self.addresses)).map(|i| Ipv6Addr::from(first.wrapping_add(i)).into()).collect()
    }
}

/// The kind of processor of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// The server's own processors.
    Cpu,
    /// A network card that computes.
    SmartNic,
    /// A graphics or inference accelerator.
    Gpu,
}

/// Something in a server that can handle requests: a separate host on the network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceSpec {
    /// Its name within the server, such as `nic`.
    pub name: String,
    /// Its kind.
    pub kind: DeviceKind,
    /// Its place on the switch.
    pub link: Link,
    /// How fast it is compared to the reference device: 0.2 takes five times as long.
    pub speed: f64,
}

/// A server and its devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerSpec {
    /// Its name, such as `s1`.
    pub name: String,
    /// The devices in it, in order of preference.
    pub devices: Vec<DeviceSpec>,
}

impl ServerSpec {
    /// The full name of one of its devices, as in reports: `s1/nic`.
    pub fn device_name(&self, device: &DeviceSpec) -> String {
        format!("{}/{}", self.name, device.name)
    }
}

/// The most switches of a rack.
const MAX_SWITCHES: u16 = 8;

/// A rack: its switches, and the devices connected to them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RackSpec {
    /// The number of switches. Every host has a link to the same port of each, and uses the first with a carrier.
    pub switches: u16,
    /// The virtual address of the service.
    pub vip_ipv4: Ipv4Addr,
    /// The virtual address of the service.
    pub vip_ipv6: Ipv6Addr,
    /// The hosts that send requests.
    pub clients: Vec<ClientSpec>,
    /// The servers.
    pub servers: Vec<ServerSpec>,
    /// Largest IP packet on every link, bytes.
    pub mtu: u32,
    /// Whether hosts hand unfinished checksums and oversized segments to the wire, as veth allows. Off
    /// unless the switch completes them itself.
    pub offloads: bool,
    /// Whether hosts get the MAC address of their gateways statically instead of resolving it.
    pub static_neighbours: bool,
    /// Queues of every interface, in each direction.
    pub queues: u32,
}

impl RackSpec {
    /// The rack of the demonstration: a client and two servers, each with a CPU and a SmartNIC that is
    /// five times slower.
    pub fn demo() -> Self {
        let device = |name: &str, kind, port, subnet, speed| DeviceSpec {
            name: name.to_owned(),
            kind,
            link: Link::in_subnet(port, subnet),
            speed,
        };
        let server = |n: u8| ServerSpec {
            name: format!("s{n}"),
            devices: vec![
                device("cpu", DeviceKind::Cpu, u16::from(n) * 2, n * 10 + 1, 1.0),
                device("nic", DeviceKind::SmartNic, u16::from(n) * 2 + 1, n * 10 + 2, 0.2),
            ],
        };
        Self {
            switches: 1,
            vip_ipv4: Ipv4Addr::new(10, 0, 100, 1),
            vip_ipv6: Ipv6Addr::new(0xfd00, 0x100, 0, 0, 0, 0, 0, 1),
            clients: vec![ClientSpec { name: "client".into(), link: Link::in_subnet(1, 0), addresses: 8 }],
            servers: vec![server(1), server(2)],
            mtu: 1500,
            offloads: false,
            static_neighbours: false,
            queues: 1,
        }
    }

    /// All devices with their full names (`s1/cpu`), server by server.
    pub fn devices(&self) -> impl Iterator<Item = (String, &DeviceSpec)> {
        self.servers.iter().flat_map(|s| s.devices.iter().map(|d| (s.device_name(d), d)))
    }

    /// All hosts (clients, then devices) with their names and links.
    pub fn hosts(&self) -> impl Iterator<Item = (String, &Link)> {
        let clients = self.clients.iter().map(|c| (c.name.clone(), &c.link));
        clients.chain(self.devices().map(|(name, d)| (name, &d.link)))
    }

    /// Checks what building relies on: unique names, ports and addresses, sensible numbers.
    pub fn validate(&self) -> Result<()> {
        let fail = |text: String| Err(Error::new(format!("rack: {text}")));
        if !(1280..=65535).contains(&self.mtu) {
            return fail(format!("mtu is {}: it must be 1280 (IPv6's minimum) to 65535", self.mtu));
        }
        if !(1..=MAX_SWITCHES).contains(&self.switches) {
            return fail(format!("{} switches: it must be 1 to {MAX_SWITCHES}", self.switches));
        }
        if let Some(c) = self.clients.iter().find(|c| c.addresses == 0) {
            return fail(format!("client '{}' has 0 addresses: give it at least 1", c.name));
        }
        if let Some((name, d)) = self.devices().find(|(_, d)| !(d.speed > 0.0 && d.speed.is_finite())) {
            return fail(format!("{name}: speed is {}: it must be above 0", d.speed));
        }
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        let mut claim = |what: String, owner: &str| match seen.insert(what.clone(), owner.to_owned()) {
            Some(first) => fail(format!("{what} is used by both {first} and {owner}")),
            None => Ok(()),
        };
        claim(format!("address {}", self.vip_ipv4), "the VIP")?;
        claim(format!("address {}", self.vip_ipv6), "the VIP")?;
        for (name, link) in self.hosts() {
            if link.port == 0 || link.port > 510 {
                return fail(format!("{name}: port is {}: it must be 1 to 510", link.port));
            }
            if link.prefix_ipv4 > 30 || link.prefix_ipv6 > 126 {
                return fail(format!("{name}: the prefix leaves no room for host and gateway"));
            }
            claim(format!("name '{name}'"), &name)?;
            claim(format!("port {}", link.port), &name)?;
            claim(format!("MAC {}", link.mac), &name)?;
            claim(format!("address {}", link.gateway_ipv4), &format!("the gateway of {name}"))?;
            claim(format!("address {}", link.gateway_ipv6), &format!("the gateway of {name}"))?;
        }
        for client in &self.clients {
            for address in client.ipv4_addresses().into_iter().chain(client.ipv6_addresses()) {
                claim(format!("address {address}"), &client.name)?;
            }
        }
        for (name, device) in self.devices() {
            claim(format!("address {}", device.link.ipv4), &name)?;
            claim(format!("address {}", device.link.ipv6), &name)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut RackSpec), expected: &str) {
        let mut spec = RackSpec::demo();
        change(&mut spec);
        let error = spec.validate().unwrap_err().to_string();
        assert!(error.contains(expected), "'{error}' does not contain '{expected}'");
    }

    #[test]
    fn the_demo_rack_is_valid_and_numbered_as_documented() {
        let spec = RackSpec::demo();
        spec.validate().unwrap();
        let hosts: Vec<String> =
            spec.hosts().map(|(n, l)| format!("{} {n} {} {} {}", l.port, l.ipv4, l.ipv6, l.mac)).collect();
        assert_eq!(
            hosts,
            [
                "1 client 10.0.0.2 fd00::2 02:00:0a:00:00:02",
                "2 s1/cpu 10.0.11.2 fd00:11::2 02:00:0a:00:0b:02",
                "3 s1/nic 10.0.12.2 fd00:12::2 02:00:0a:00:0c:02",
                "4 s2/cpu 10.0.21.2 fd00:21::2 02:00:0a:00:15:02",
                "5 s2/nic 10.0.22.2 fd00:22::2 02:00:0a:00:16:02",
            ]
        );
        assert_eq!(spec.clients[0].ipv4_addresses()[7].to_string(), "10.0.0.9");
        assert_eq!(spec.clients[0].ipv6_addresses()[7].to_string(), "fd00::9");
    }

    #[test]
    fn mistakes_are_named() {
        check(|s| s.mtu = 576, "mtu is 576");
        check(|s| s.switches = 0, "0 switches");
        check(|s| s.switches = 9, "9 switches");
        check(|s| s.servers[0].devices[1].speed = 0.0, "s1/nic: speed is 0");
        check(|s| s.servers[0].devices[1].speed = f64::NAN, "s1/nic: speed is NaN");
        check(|s| s.servers[1].devices[0].link.port = 2, "port 2 is used by both s1/cpu and s2/cpu");
        check(|s| s.servers[1].devices[0].link.port = 511, "s2/cpu: port is 511");
        check(|s| s.servers[1].name = "s1".into(), "name 's1/cpu' is used by both");
        check(|s| s.clients[0].addresses = 0, "client 'client' has 0 addresses");
        check(|s| s.vip_ipv4 = "10.0.11.2".parse().unwrap(), "10.0.11.2 is used by both the VIP and s1/cpu");
        check(|s| s.servers[0].devices[0].link.prefix_ipv4 = 32, "leaves no room");
    }

    #[test]
    fn a_spec_survives_json() {
        let spec = RackSpec::demo();
        let text = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<RackSpec>(&text).unwrap(), spec);
        let bad = text.replace("02:00:0a:00:0b:02", "02:00:0a:00:0b");
        assert!(
            serde_json::from_str::<RackSpec>(&bad).unwrap_err().to_string().contains("not a MAC address")
        );
    }
}
