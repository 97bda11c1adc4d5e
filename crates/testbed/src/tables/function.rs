//! The network functions whose entries are in the memory of servers: programs, keys, values, and what a packet shows of its entry.

use super::{OUT, TARGET, hex, hop};
use pointsman_remote::{Layout, Scratchpads};
use pointsman_wire::frame::{USUAL, packet, udp};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The port of the load balancer's service.
const SERVICE_PORT: u16 = 80;

/// Bytes of headers in front of a packet's data: Ethernet, IPv4, UDP.
const HEADERS: usize = 42;
/// An IPv6 header has so many bytes more.
const WIDE: usize = 20;
/// Those of a tunnel over IPv4.
const TUNNEL: usize = 28;
/// The network of the packets to the gateway.
const NETWORK: u32 = 7;

/// The address of IPv6 that stands for one of IPv4.
fn wide(address: Ipv4Addr) -> Ipv6Addr {
    Ipv6Addr::from(0xfd00 << 112 | u128::from(address.to_bits()))
}

/// A network function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// A flow gets the address and port of its entry as its source.
    Nat,
    /// The same with room for IPv6 addresses in its entries; the flows are of IPv6.
    Nat6,
    /// A flow from outside passes if it has an entry, and gets the DSCP of its entry.
    Firewall,
    /// A flow to a service gets the address and port of its entry as its destination.
    Balancer,
    /// A packet to a host enters the tunnel of its entry. Hosts and tunnels have IPv4 addresses.
    Vpn,
    /// The same with room for IPv6 addresses in its entries.
    Vpn6,
}

impl Function {
    /// All.
    pub const ALL: [Function; 6] = [
        Function::Nat,
        Function::Firewall,
        Function::Balancer,
        Function::Vpn,
        Function::Vpn6,
        Function::Nat6,
    ];

    pub(super) fn text(self) -> &'static str {
        match self {
            Function::Nat | Function::Nat6 => include_str!("../../../../p4/programs/nat/main.p4"),
            Function::Firewall => include_str!("../../../../p4/programs/tea-firewall/main.p4"),
            Function::Balancer => include_str!("../../../../p4/programs/tea-lb/main.p4"),
            Function::Vpn | Function::Vpn6 => include_str!("../../../../p4/programs/tea-vpn/main.p4"),
        }
    }

    /// Lines in front of the program.
    pub(super) fn defines(self) -> &'static str {
        match self {
            Function::Vpn => "#define VPN_IPV4\n",
            Function::Nat6 => "#define NAT_IPV6\n",
            _ => "",
        }
    }

    /// Sizes of its keys and values.
    pub const fn layout(self) -> Layout {
        let (key, value) = match self {
            Function::Nat | Function::Balancer => (16, 8),
            Function::Firewall => (16, 4),
            Function::Vpn => (8, 8),
            Function::Vpn6 => (20, 20),
            Function::Nat6 => (40, 20),
        };
        Layout { key, value, scratchpads: Scratchpads::Ring }
    }

    /// Statements that fill its other tables: all packets leave by one port.
    pub(super) fn entries(self) -> String {
        let (prefix, more) = match self {
            Function::Nat | Function::Firewall => ("198.51.0.0/16", String::new()),
            Function::Nat6 => ("fd00::/16", String::new()),
            Function::Balancer => {
                ("11.0.0.0/8", format!("add virtual address:{TARGET} port:{SERVICE_PORT} balanced()\n"))
            }
            Function::Vpn => ("11.0.0.0/8", format!("add networks port:0 network(number:{NETWORK})\n")),
            Function::Vpn6 => {
                ("::ffff:11.0.0.0/104", format!("add networks port:0 network(number:{NETWORK})\n"))
            }
        };
        format!("add routes prefix:{prefix} forward(port:{OUT}, mac:02:00:00:00:00:22)\n{more}")
    }

    /// Source address and the two ports of a flow.
    fn parts(self, key: u64) -> (Ipv4Addr, u16, u16) {
        let to = if self == Function::Balancer { SERVICE_PORT } else { key as u16 };
        (Ipv4Addr::from((key >> 32) as u32), (key >> 16) as u16, to)
    }

    /// An IPv4 address in an entry of the gateway.
    fn address(self, address: [u8; 4]) -> Vec<u8> {
        let front: &[u8] =
            if self == Function::Vpn6 { &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff] } else { &[] };
        [front, &address].concat()
    }

    /// The key of a flow in the table.
    pub(super) fn key(self, key: u64) -> Vec<u8> {
        let (address, from, to) = self.parts(key);
        if self == Function::Nat6 {
            let ends = [wide(address).octets(), wide(TARGET).octets()].concat();
            return [&ends[..], &from.to_be_bytes(), &to.to_be_bytes(), &[0, 0, 0, 17]].concat();
        }
        if matches!(self, Function::Vpn | Function::Vpn6) {
            return [NETWORK.to_be_bytes().to_vec(), self.address(address.octets())].concat();
        }
        let (source, target) = ((address.octets(), from.to_be_bytes()), (TARGET.octets(), to.to_be_bytes()));
        // A connection through the firewall has one key: its inner end comes first.
        let [first, second] = if self == Function::Firewall { [target, source] } else { [source, target] };
        [&first.0[..], &second.0, &first.1, &second.1, &[0, 0, 0, 17]].concat()
    }

    /// The value of a flow's entry, by the flow's number.
    pub(super) fn value(self, flow: u32) -> Vec<u8> {
        match self {
            Function::Nat | Function::Balancer => {
                [&[0, 0, 0x13, 0x88, 11][..], &flow.to_be_bytes()[1..]].concat()
            }
            Function::Nat6 => {
                let [_, rest @ ..] = flow.to_be_bytes();
                let address = wide(Ipv4Addr::new(11, rest[0], rest[1], rest[2]));
                [&[0, 0, 0x13, 0x88][..], &address.octets()].concat()
            }
            Function::Firewall => vec![0x80, 0, 0, flow as u8 & 0x3f],
            Function::Vpn | Function::Vpn6 => {
                let [_, rest @ ..] = flow.to_be_bytes();
                [self.address([11, rest[0], rest[1], rest[2]]), (!flow).to_be_bytes().to_vec()].concat()
            }
        }
    }

    /// A packet of a flow, with this data.
    pub(super) fn frame(self, key: u64, data: &[u8]) -> Vec<u8> {
        let (address, from, to) = self.parts(key);
        // A flow of the gateway is a host to which packets go.
        let is_vpn = matches!(self, Function::Vpn | Function::Vpn6);
        let [source, target] = if is_vpn { [TARGET, address] } else { [address, TARGET] };
        let [source, target]: [IpAddr; 2] = if self == Function::Nat6 {
            [wide(source).into(), wide(target).into()]
        } else {
            [source.into(), target.into()]
        };
        packet(hop(), source, target, 17, udp(from, to, data), USUAL)
    }

    /// Bytes of headers in front of the data of a packet that comes.
    pub(super) fn headers(self) -> usize {
        HEADERS + if self == Function::Nat6 { WIDE } else { 0 }
    }

    /// The same when it leaves.
    pub(super) fn headers_behind(self) -> usize {
        self.headers() + if matches!(self, Function::Vpn | Function::Vpn6) { TUNNEL } else { 0 }
    }

    /// Whether a packet that leaves shows its flow's entry.
    pub(super) fn shows(self, frame: &[u8], flow: u32) -> bool {
        let value = self.value(flow);
        let has = |address: usize, port: usize| {
            frame.get(address..address + 4) == Some(&value[4..])
                && frame.get(port..port + 2) == Some(&value[2..4])
        };
        match self {
            Function::Nat => has(26, 34),
            Function::Nat6 => {
                frame.get(22..38) == Some(&value[4..]) && frame.get(54..56) == Some(&value[2..4])
            }
            Function::Balancer => has(30, 36),
            Function::Firewall => frame.get(15).map(|tos| tos >> 2) == Some(value[3]),
            Function::Vpn | Function::Vpn6 => {
                let shown = [frame.get(30..34), frame.get(38..42)].map(Option::unwrap_or_default).concat();
                value.ends_with(&shown) && shown.len() == 8
            }
        }
    }

    /// The switch's own entry for a key.
    pub(super) fn cached(self, key: u64, flow: u32) -> String {
        format!("tea_cache key=0x{} -> cached(value=0x{})", hex(&self.key(key)), hex(&self.value(flow)))
    }
}
