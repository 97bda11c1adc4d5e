//! What nftables is told, as text: rules that do with a packet what the application's program does, and the entries of its maps.
//!
//! The rules are in the hook in which a port's packets enter the kernel. They change packets without connection tracking, and send them out of another port
//! without routing, so that a packet differs from the sent one in what the application changes, and in nothing else.

use crate::App;
use crate::bed::{FOUND, UNKNOWN};
use crate::checker::{ROUTED, SOURCES, TARGET, TARGETS, TRANSLATED, TWINS};
use pointsman_lab::rack::SwitchPort;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{IpAddr, Ipv6Addr};
use std::ops::Range;

/// The table of nftables.
const TABLE: &str = "netdev tea";
/// DSCPs.
const DSCPS: u8 = 64;
const TRANSPORTS: [&str; 2] = ["udp", "tcp"];

/// What rules need to know of a family of addresses.
struct Family {
    /// As fields of nftables have it, and the type of its addresses.
    ip: &'static str,
    address: &'static str,
    /// Whether the program takes a packet: with the shortest header, not a fragment. The field with its protocol.
    taken: &'static str,
    protocol: &'static str,
    /// Rules for packets without an entry which the program does not take, because of their addresses.
    refused: &'static str,
}

const IPV4: Family = Family {
    ip: "ip",
    address: "ipv4_addr",
    taken: "meta protocol ip @nh,0,8 0x45 ip frag-off & 0x3fff 0",
    protocol: "ip protocol",
    refused: "",
};

const IPV6: Family = Family {
    ip: "ip6",
    address: "ipv6_addr",
    taken: "meta protocol ip6",
    protocol: "ip6 nexthdr",
    refused: "    ip6 saddr { fe80::/10, ::ffff:0:0/96 } drop\n    ip6 daddr { fe80::/10, ff00::/8, ::ffff:0:0/96 } drop\n",
};

/// The families of an application's packets.
fn families(app: App) -> &'static [Family] {
    if app == App::Nat6 { &[IPV4, IPV6] } else { &[IPV4] }
}

/// Rules and empty maps for so many entries, with these ports of the switch; or why there are none for this application.
pub fn ruleset(app: App, entries: u32, ports: &[SwitchPort]) -> Result<String, &'static str> {
    let flow: fn(App, &Family, u32) -> String = match app {
        App::Nat | App::Nat6 | App::Lb => translation,
        App::Firewall => firewall,
        App::Vpn => return Err("nftables cannot put a packet into another one, or take it out (IP in IP)"),
        App::Policy => {
            return Err("nftables cannot take a key from an entry and write a MAC address from another one");
        }
    };
    let interface = |number| ports.iter().find(|p| p.number == number).map_or("", |p| &p.interface);
    let devices: Vec<&str> = ports.iter().map(|p| p.interface.as_str()).collect();
    let mut text = format!(
        "table {TABLE} {{\n\
         chain found {{\n    ether daddr set {ROUTED} fwd to \"{}\"\n}}\n\
         chain unknown {{\n    fwd to \"{}\"\n}}\n",
        interface(FOUND.1),
        interface(UNKNOWN.1)
    );
    let mut enter = String::new();
    for family in families(app) {
        text += &routes(family);
        text += &flow(app, family, entries);
        let _ = writeln!(enter, "    {} goto flow_{}", family.taken, family.ip);
    }
    let hook =
        format!("type filter hook ingress devices = {{ {} }} priority 0; policy drop", devices.join(", "));
    let _ = writeln!(text, "chain ports {{\n    {hook}\n{enter}}}\n}}");
    Ok(text)
}

/// A map of prefixes to which packets with an entry go, a chain that sends them there, and one for packets without an entry.
fn routes(Family { ip, address, refused, .. }: &Family) -> String {
    let of = |(prefix, bits): (IpAddr, u32)| format!("{prefix}/{bits} : goto found");
    let all = if *ip == "ip" {
        [TARGETS, TRANSLATED].map(|(prefix, bits)| of((prefix.into(), bits))).join(", ")
    } else {
        of((TWINS.0.into(), TWINS.1))
    };
    format!(
        "map routes_{ip} {{\n    type {address} : verdict; flags interval; elements = {{ {all} }}\n}}\n\
         chain route_{ip} {{\n    {ip} daddr vmap @routes_{ip}\n    drop\n}}\n\
         chain unknown_{ip} {{\n{refused}    goto unknown\n}}\n"
    )
}

/// An address and its port are replaced: those of the source, with a load balancer those of the destination. The mark has both ports as they came, because the
/// port is written before the address is looked up.
fn translation(app: App, family: &Family, entries: u32) -> String {
    let Family { ip, address, protocol, .. } = family;
    let side = if app == App::Lb { "d" } else { "s" };
    let map = |name: &str, value: &str| {
        format!(
            "map {name}_{ip} {{\n    type {address} . {address} . mark . inet_proto : {value}; size {entries}\n}}\n"
        )
    };
    let mut text = map("ports", "inet_service") + &map("addresses", address);
    let _ = writeln!(text, "chain flow_{ip} {{\n    meta mark set @th,0,32");
    let entry = format!("{ip} saddr . {ip} daddr . meta mark . {protocol} map");
    for transport in TRANSPORTS {
        let of = format!("{protocol} {transport}");
        if app == App::Lb {
            let (virtual_address, port) = TARGET;
            let others = format!("ip daddr . {transport} dport != {{ {virtual_address} . {port} }}");
            let _ = writeln!(text, "    {of} {others} goto route_{ip}");
        }
        let _ = writeln!(
            text,
            "    {of} {transport} {side}port set {entry} @ports_{ip} {ip} {side}addr set {entry} @addresses_{ip} goto route_{ip}\n    \
             {of} goto unknown_{ip}"
        );
    }
    text + "}\n"
}

/// Packets get the DSCP of their connection, whose key is that of packets from inside. Those from outside pass only with an entry.
fn firewall(_: App, family: &Family, entries: u32) -> String {
    let Family { ip, address, protocol, .. } = family;
    let mut text = format!(
        "map connections_{ip} {{\n    type {address} . {address} . inet_service . inet_service . inet_proto : verdict; size {entries}\n}}\n"
    );
    for dscp in 0..DSCPS {
        let _ = writeln!(text, "chain dscp_{dscp} {{\n    {ip} dscp set {dscp} goto route_{ip}\n}}");
    }
    let (inside, bits) = SOURCES;
    let entry = |from, to| {
        format!(
            "{ip} {from}addr . {ip} {to}addr . th {from}port . th {to}port . {protocol} vmap @connections_{ip}"
        )
    };
    let _ = writeln!(
        text,
        "chain inside_{ip} {{\n    {}\n    {protocol} {{ {} }} goto unknown_{ip}\n    drop\n}}\n\
         chain flow_{ip} {{\n    {ip} saddr {inside}/{bits} goto inside_{ip}\n    {}\n}}",
        entry("s", "d"),
        TRANSPORTS.join(", "),
        entry("d", "s"),
    );
    text
}

/// Bytes as an address of the family that they have.
fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Some(v4.into());
    }
    let v6 = Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?);
    Some(v6.to_canonical())
}

/// An entry, as a key and a value of the program have it: its elements, each behind the name of its map.
fn elements_of(app: App, key: &[u8], value: &[u8]) -> Option<Vec<(String, String)>> {
    let (ends, last) = key.split_at_checked(key.len().checked_sub(8)?)?;
    let (from, to) = ends.split_at(ends.len() / 2);
    let (from, to) = (address(from)?, address(to)?);
    let protocol = last[7];
    let ip = if from.is_ipv4() { IPV4.ip } else { IPV6.ip };
    let port = |bytes: &[u8]| u16::from_be_bytes([bytes[0], bytes[1]]);
    if app == App::Firewall {
        let ports = format!("{} . {}", port(last), port(&last[2..]));
        let element = format!("{from} . {to} . {ports} . {protocol} : goto dscp_{}", value.last()? % DSCPS);
        return Some(vec![(format!("connections_{ip}"), element)]);
    }
    // The kernel has a mark in its own order of bytes.
    let mark = u32::from_ne_bytes(last[..4].try_into().ok()?);
    let (head, new) = value.split_at_checked(4)?;
    let key = format!("{from} . {to} . {mark} . {protocol}");
    Some(vec![
        (format!("ports_{ip}"), format!("{key} : {}", port(&head[2..]))),
        (format!("addresses_{ip}"), format!("{key} : {}", address(new)?)),
    ])
}

/// What adds the entries of these flows, an element in each line.
pub fn elements(app: App, flows: Range<u32>) -> String {
    let mut by_map: BTreeMap<String, String> = BTreeMap::new();
    let shown = app.shown();
    for flow in flows {
        let elements = elements_of(app, &shown.key(flow), &shown.value(flow, 0));
        for (map, element) in elements.into_iter().flatten() {
            let text = by_map.entry(map).or_default();
            *text += &element;
            *text += ",\n";
        }
    }
    by_map.iter().map(|(map, text)| format!("add element {TABLE} {map} {{\n{text}}}\n")).collect()
}
