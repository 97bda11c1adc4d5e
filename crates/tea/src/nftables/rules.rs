//! The text for nftables: rules that do with a packet what the application's program does, and the entries of its maps.
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
    /// Rules for packets with an entry, behind the change.
    changed: &'static str,
    /// Rules for packets without an entry which the program does not take, because of their addresses.
    refused: &'static str,
}

const IPV4: Family = Family {
    ip: "ip",
    address: "ipv4_addr",
    taken: "meta protocol ip @nh,0,8 0x45 ip frag-off & 0x3fff 0",
    protocol: "ip protocol",
    // The kernel writes a checksum of 0 as 0xffff, which is as right, but not what RFC 1624 and the program give.
    changed: "    @nh,80,16 0xffff @nh,80,16 set 0\n",
    refused: "",
};

const IPV6: Family = Family {
    ip: "ip6",
    address: "ipv6_addr",
    taken: "meta protocol ip6",
    protocol: "ip6 nexthdr",
    changed: "",
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
        App::Balancer => return Err("nftables cannot choose a device by its load"),
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

/// A chain that sends packets with an entry to the routes' prefixes, and one for packets without an entry. A route is a rule, because for two of them a look-up in a
/// map costs more.
fn routes(Family { ip, changed, refused, .. }: &Family) -> String {
    let of = |(prefix, bits): (IpAddr, u32)| format!("    {ip} daddr {prefix}/{bits} goto found\n");
    let all = if *ip == IPV4.ip {
        [TARGETS, TRANSLATED].map(|(prefix, bits)| of((prefix.into(), bits))).concat()
    } else {
        of((TWINS.0.into(), TWINS.1))
    };
    format!(
        "chain route_{ip} {{\n{changed}{all}    drop\n}}\nchain unknown_{ip} {{\n{refused}    goto unknown\n}}\n"
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

/// What adds the entries of these flows, an element in each line. `None`: a key or a value has another length than the application's.
pub fn elements(app: App, flows: Range<u32>) -> Option<String> {
    let mut by_map: BTreeMap<String, String> = BTreeMap::new();
    let shown = app.shown();
    for flow in flows {
        for (map, element) in elements_of(app, &shown.key(flow), &shown.value(flow, 0))? {
            let text = by_map.entry(map).or_default();
            *text += &element;
            *text += ",\n";
        }
    }
    Some(by_map.iter().map(|(map, text)| format!("add element {TABLE} {map} {{\n{text}}}\n")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(app: App, flow: u32) -> Vec<String> {
        let text = elements(app, flow..flow + 1).expect("keys and values of the application");
        text.lines().filter(|l| l.contains(" : ")).map(String::from).collect()
    }

    #[test]
    fn entries_are_elements_of_maps() {
        // Flow 9 comes from port 4001, to port 80.
        let mark = u32::from_ne_bytes([0x0f, 0xa1, 0, 80]);
        let key = format!("10.0.0.1 . 198.51.100.1 . {mark} . 17");
        for app in [App::Nat, App::Lb, App::Nat6] {
            assert_eq!(added(app, 9), [format!("{key} : 11.0.0.9,"), format!("{key} : 0,")], "{app:?}");
        }
        assert_eq!(added(App::Firewall, 9), ["10.0.0.1 . 198.51.100.1 . 4001 . 80 . 17 : goto dscp_9,"]);
        let mark = u32::from_ne_bytes([0x0f, 0xa3, 0, 80]);
        let key = format!("fd00:0:a00:1::1 . fd00:0:c633:6401::1 . {mark} . 17");
        assert_eq!(added(App::Nat6, 11), [format!("{key} : fd00:0:b00:b::1,"), format!("{key} : 0,")]);
        let both = elements(App::Nat6, 9..12).expect("keys and values of the application");
        assert_eq!(both.matches("add element netdev tea ").count(), 4);
        assert_eq!(elements_of(App::Nat, &[0; 7], &[0; 8]), None);
        assert_eq!(elements_of(App::Nat, &[0; 16], &[0; 3]), None);
    }

    #[test]
    fn maps_have_room_for_all_entries() {
        for (app, maps) in [(App::Nat, 2), (App::Lb, 2), (App::Firewall, 1), (App::Nat6, 4)] {
            let text = ruleset(app, 12_345, &[]).expect("rules");
            assert_eq!(text.matches("size 12345").count(), maps, "{app:?}");
        }
        for app in [App::Vpn, App::Policy, App::Balancer] {
            assert!(ruleset(app, 1, &[]).is_err(), "{app:?}");
        }
    }
}
