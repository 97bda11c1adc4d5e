//! Topologies as TOML.

use crate::reader::{At, Problems, Table};
use crate::{Builder, FatTree, LAST_PORT, LeafSpine, Line, Mistake, Topology};
use pointsman_wire::Mac;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Nodes of a network. Each switch has a program's tables and registers in memory.
const MOST_SWITCHES: u64 = 1_000;
const MOST_HOSTS: u64 = 20_000;

/// About what a switch or a host takes in a simulator, in bytes, on top of the traffic.
const SWITCH_BYTES: u64 = 4 << 20;
const HOST_BYTES: u64 = 4 << 10;

/// Reads a table `[network]`: either `leaf_spine = { .. }` or `fat_tree = { .. }`, or lists of `switch`, `host` and `link`.
/// Problems have been reported if there is none.
pub fn read(mut t: Table<'_, '_>, problems: &mut Problems<'_>) -> Option<Topology> {
    let base = match t.table("line", problems) {
        Some(l) => line(l, &Line::default(), problems),
        None => Line::default(),
    };
    let (leaf_spine_table, fat_tree_table) = (t.table("leaf_spine", problems), t.table("fat_tree", problems));
    let generator = if leaf_spine_table.is_some() { "leaf_spine" } else { "fat_tree" };
    if leaf_spine_table.is_some() || fat_tree_table.is_some() {
        for other in ["switch", "host", "link"] {
            if !t.tables(other, problems).is_empty() {
                let message = format!("`{generator}` makes all of them: remove this");
                problems.add(&t.place_of(other), t.field(other), message);
            }
        }
        if leaf_spine_table.is_some() && fat_tree_table.is_some() {
            let message = "`leaf_spine` makes another network: remove one of the two";
            problems.add(&t.place_of("fat_tree"), t.field("fat_tree"), message);
        }
        let place = t.place_of(generator);
        let built = match (leaf_spine_table, fat_tree_table) {
            (Some(table), _) => leaf_spine(table, &base, problems).map(|wanted| wanted.build()),
            (None, Some(table)) => fat_tree(table, &base, problems).map(|wanted| wanted.build()),
            (None, None) => None,
        }?;
        let field = t.field(generator);
        t.finish(problems);
        return built.map_err(|e| problems.add(&place, field, e.to_string())).ok();
    }
    let builder = listed(&mut t, &base, problems);
    let place = t.place.clone();
    t.finish(problems);
    builder?.finish().map_err(|e| problems.add(&place, "network", e.to_string())).ok()
}

/// Reads the properties of links.
fn line(mut t: Table<'_, '_>, base: &Line, problems: &mut Problems<'_>) -> Line {
    let mut out = *base;
    line_into(&mut t, &mut out, problems);
    if let Some(rate) = rate(&mut t, problems) {
        out.bits_per_s = rate;
    }
    t.finish(problems);
    out
}

fn line_into(t: &mut Table<'_, '_>, out: &mut Line, problems: &mut Problems<'_>) {
    if let Some(delay) = t.number("delay_us", 0.0, 1e9, problems) {
        out.delay_ns = (delay.value * 1e3).round() as u64;
    }
    if let Some(queue) = t.number("queue_kib", 0.1, 1e9, problems) {
        out.queue_bytes = (queue.value * 1024.0) as u64;
    }
    if let Some(loss) = t.number("loss", 0.0, 1.0, problems) {
        if loss.value == 1.0 {
            let message =
                "a link that loses every frame connects nothing: write less than 1, or remove the link";
            problems.add(&loss.place, t.field("loss"), message);
        }
        out.loss = loss.value;
    }
}

/// The rate of a line, as `rate_gbit_s` or `rate_mbit_s`.
fn rate(t: &mut Table<'_, '_>, problems: &mut Problems<'_>) -> Option<u64> {
    let of = |rate: &At<f64>, unit: f64| (rate.value * unit).round() as u64;
    let gbit = t.number("rate_gbit_s", 1e-6, 1e5, problems);
    let mbit = t.number("rate_mbit_s", 1e-3, 1e8, problems);
    if let (Some(_), Some(mbit)) = (&gbit, &mbit) {
        problems.add(
            &mbit.place,
            t.field("rate_mbit_s"),
            "there is also a `rate_gbit_s`: remove one of the two",
        );
    }
    gbit.map(|r| of(&r, 1e9)).or(mbit.map(|r| of(&r, 1e6)))
}

fn fat_tree(mut t: Table<'_, '_>, base: &Line, problems: &mut Problems<'_>) -> Option<FatTree> {
    let k = t.integer("k", 2, u64::from(LAST_PORT), problems);
    if k.is_none() && t.place_of("k") == t.place {
        t.missing("k", "write the number of ports of a switch, an even number", problems);
    }
    let host_line = t.table("host_link", problems).map_or(*base, |l| line(l, base, problems));
    let fabric_line = t.table("fabric_link", problems).map_or(*base, |l| line(l, base, problems));
    let field = t.field("k");
    t.finish(problems);
    let k = k?;
    let mistake = if k.value % 2 == 1 {
        Some(format!("{} is odd: half of a switch's ports lead up; write an even number", k.value))
    } else {
        too_large(FatTree::switches(k.value), FatTree::hosts(k.value))
    };
    if let Some(message) = mistake {
        problems.add(&k.place, field, message);
        return None;
    }
    Some(FatTree { k: k.value as u32, host_line, fabric_line })
}

fn leaf_spine(mut t: Table<'_, '_>, base: &Line, problems: &mut Problems<'_>) -> Option<LeafSpine> {
    let most = u64::from(LAST_PORT);
    let mut count = |name: &'static str, remedy: &str, problems: &mut Problems<'_>| {
        let found = t.integer(name, 1, u64::MAX >> 1, problems);
        if found.is_none() && t.place_of(name) == t.place {
            t.missing(name, remedy, problems);
        }
        found
    };
    let leaves = count("leaves", "write the number of leaves", problems);
    let spines = count("spines", "write the number of spines", problems);
    let hosts = count("hosts_per_leaf", "write the number of hosts of each leaf", problems);
    let host_line = t.table("host_link", problems).map_or(*base, |l| line(l, base, problems));
    let fabric_line = t.table("fabric_link", problems).map_or(*base, |l| line(l, base, problems));
    let (leaves, spines, hosts) = (leaves?, spines?, hosts?);
    let (switches, all_hosts) =
        (leaves.value.saturating_add(spines.value), leaves.value.saturating_mul(hosts.value));
    if let Some(message) = too_large(switches, all_hosts) {
        let counts = [("hosts_per_leaf", &hosts), ("spines", &spines), ("leaves", &leaves)];
        if let Some((name, largest)) = counts.into_iter().max_by_key(|(_, count)| count.value) {
            problems.add(&largest.place, t.field(name), message);
        }
        return None;
    }
    let mut ports = |at: &At<u64>, name: &str, value: u64| {
        if value > most {
            problems.add(
                &at.place,
                t.field(name),
                format!("a switch would need {value} ports; it has {most}"),
            );
        }
        value <= most
    };
    let good = ports(&leaves, "leaves", leaves.value)
        && ports(&hosts, "hosts_per_leaf", hosts.value.saturating_add(spines.value));
    t.finish(problems);
    good.then_some(LeafSpine {
        leaves: leaves.value as u32,
        spines: spines.value as u32,
        hosts_per_leaf: hosts.value as u32,
        host_line,
        fabric_line,
    })
}

/// Why so many nodes are refused.
fn too_large(switches: u64, hosts: u64) -> Option<String> {
    let bytes = u128::from(switches) * u128::from(SWITCH_BYTES) + u128::from(hosts) * u128::from(HOST_BYTES);
    (switches > MOST_SWITCHES || hosts > MOST_HOSTS).then(|| {
        format!(
            "{switches} switches and {hosts} hosts would need about {:.1} GiB of memory: at most {MOST_SWITCHES} switches and \
             {MOST_HOSTS} hosts",
            bytes as f64 / f64::from(1 << 30)
        )
    })
}

/// Reads lists of switches, hosts and links. None if something is wrong with them: what is missing then would be no news.
fn listed(t: &mut Table<'_, '_>, base: &Line, problems: &mut Problems<'_>) -> Option<Builder> {
    let mut builder = Builder::new();
    let before = problems.count();
    let (switches, hosts, links) =
        (t.tables("switch", problems), t.tables("host", problems), t.tables("link", problems));
    if switches.is_empty() {
        t.missing(
            "switch",
            "write `leaf_spine = { .. }`, `fat_tree = { .. }`, or [[network.switch]] tables",
            problems,
        );
        return None;
    }
    if let Some(message) = too_large(switches.len() as u64, hosts.len() as u64) {
        problems.add(&t.place, t.field("switch"), message);
        return None;
    }
    for mut s in switches {
        let (field, rate) = (s.field("name"), rate(&mut s, problems));
        let name = s.name("name", "give the switch a name", problems);
        s.finish(problems);
        let Some(name) = name else { continue };
        if let Err(e) = builder.switch(&name.value, rate) {
            problems.add(&name.place, field, e.to_string());
        }
    }
    for h in hosts {
        host(h, &mut builder, problems);
    }
    for l in links {
        link(l, &mut builder, base, problems);
    }
    (problems.count() == before).then_some(builder)
}

fn host(mut h: Table<'_, '_>, builder: &mut Builder, problems: &mut Problems<'_>) {
    let (place, path, rate) = (h.place.clone(), h.field("name"), rate(&mut h, problems));
    let name = h.name("name", "give the host a name", problems);
    let address: Option<At<Ipv4Addr>> = h.text("address", "write an IPv4 address", problems);
    if address.is_none() && h.place_of("address") == place {
        h.missing("address", "write its IPv4 address", problems);
    }
    let address_v6: Option<At<Ipv6Addr>> = h.text("address_v6", "write an IPv6 address", problems);
    let (field, field_v6, mac_field) = (h.field("address"), h.field("address_v6"), h.field("mac"));
    let mac: Option<At<Mac>> =
        h.text("mac", "write an Ethernet address, such as 02:00:5e:00:53:01", problems);
    h.finish(problems);
    let (Some(name), Some(address)) = (name, address) else { return };
    let given = mac.as_ref().map(|mac| mac.value.0);
    let (place, field, e) = match (builder.host(&name.value, address.value, given, rate), &mac) {
        (Ok(id), _) => {
            let Some(At { value, place }) = address_v6 else { return };
            let Err(e) = builder.address_v6(id, value) else { return };
            return problems.add(&place, field_v6, e.to_string());
        }
        (Err(e @ Mistake::NameTaken(_)), _) => (&name.place, path, e),
        (Err(e @ (Mistake::MacTaken(_) | Mistake::NoHostMac(_))), Some(mac)) => (&mac.place, mac_field, e),
        (Err(e), _) => (&address.place, field, e),
    };
    problems.add(place, field, e.to_string());
}

fn link(mut t: Table<'_, '_>, builder: &mut Builder, base: &Line, problems: &mut Problems<'_>) {
    let name = if t.place_of("name") == t.place { None } else { t.name("name", "", problems) };
    let rate = rate(&mut t, problems);
    let mut line = *base;
    line_into(&mut t, &mut line, problems);
    let ends: Option<Vec<At<String>>> = t.list("ends", "write a list of strings", problems);
    let place = t.place_of("ends");
    if ends.is_none() && place == t.place {
        t.missing("ends", "write the two ends: [\"leaf1:1\", \"spine1:1\"]", problems);
    }
    let field = t.field("ends");
    t.finish(problems);
    let Some(ends) = ends else { return };
    let [a, b] = ends.as_slice() else {
        return problems.add(&place, field, "write two ends: [\"leaf1:1\", \"spine1:1\"]");
    };
    let mut found = |end: &At<String>| {
        builder.end(&end.value).map_err(|e| problems.add(&end.place, field.clone(), e.to_string())).ok()
    };
    let (Some(a), Some(b)) = (found(a), found(b)) else { return };
    if let Err(e) = builder.link(name.as_ref().map(|n| n.value.as_str()), [a, b], rate, line) {
        problems.add(&place, field, e.to_string());
    }
}
