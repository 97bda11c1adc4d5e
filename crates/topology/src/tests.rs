//! Tests of topologies.

use crate::reader::{Problems, Table};
use crate::{Builder, End, FatTree, HostId, LeafSpine, Line, LinkId, Mistake, Routes, SwitchId, Topology};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

fn parse(text: &str) -> Result<Topology, String> {
    let mut problems = Problems::new("net.toml", text);
    let document = problems.parse().expect("TOML");
    let mut top = Table::top(&document);
    let network = top.table("network", &mut problems).expect("a table");
    let found = crate::read(network, &mut problems);
    problems.into_result(found).map_err(|e| e.to_string())
}

fn leaf_spine() -> Topology {
    LeafSpine {
        leaves: 4,
        spines: 3,
        hosts_per_leaf: 2,
        host_line: Line::default(),
        fabric_line: Line::default(),
    }
    .build()
    .expect("good")
}

#[test]
fn a_leaf_spine_network() {
    let t = leaf_spine();
    assert_eq!((t.switches().len(), t.hosts().len(), t.links().len()), (7, 8, 8 + 12));
    assert_eq!(t.hosts()[7].address, Ipv4Addr::new(10, 0, 16, 3));
    // Hosts come first, then spines; of a spine, leaves.
    let leaf4: Vec<_> = t.ports(SwitchId(3)).collect();
    assert_eq!(leaf4[1], (2, t.link("h8-leaf4").expect("a link"), End::Host(HostId(7))));
    assert_eq!(leaf4[4], (5, t.link("leaf4-spine3").expect("a link"), End::Switch(SwitchId(6), 4)));
    assert_eq!(
        t.ports(SwitchId(6)).nth(3),
        Some((4, t.link("leaf4-spine3").expect("a link"), End::Switch(SwitchId(3), 5)))
    );
    assert_eq!(t.uplink(HostId(7)).map(|(s, p, _)| (s, p)), Some((SwitchId(3), 2)));
    // With more in it, sweeps would start over: a scenario is identified by this text.
    assert!(format!("{t:?}").ends_with(&format!("links: {:?} }}", t.links())));
}

#[test]
fn routes_avoid_links_that_are_down() {
    let t = leaf_spine();
    let all = Routes::of(&t, &BTreeSet::new());
    assert_eq!(all.ports(SwitchId(0), HostId(0)), [1]);
    assert_eq!(all.ports(SwitchId(0), HostId(7)), [3, 4, 5]);
    assert_eq!(all.ports(SwitchId(4), HostId(7)), [4]);
    let cut = |names: &[&str]| names.iter().map(|n| t.link(n).expect("a link")).collect::<BTreeSet<LinkId>>();
    // Leaf 1 must not use a spine that has lost leaf 4; and the spine itself makes no detour over other leaves.
    let one = Routes::of(&t, &cut(&["leaf4-spine1"]));
    assert_eq!(one.ports(SwitchId(0), HostId(7)), [4, 5]);
    assert!(one.ports(SwitchId(4), HostId(7)).is_empty());
    assert_eq!(one.ports(SwitchId(0), HostId(2)), [3, 4, 5]);
    let alone = Routes::of(&t, &cut(&["leaf4-spine1", "leaf4-spine2", "leaf4-spine3", "h1-leaf1"]));
    assert!(alone.ports(SwitchId(0), HostId(7)).is_empty() && alone.ports(SwitchId(0), HostId(0)).is_empty());
    assert_eq!(alone.ports(SwitchId(3), HostId(7)), [2]);
}

#[test]
fn listed_networks() {
    let text = "[network]\nline = { delay_us = 2 }\n\
        [[network.switch]]\nname = \"a\"\n[[network.switch]]\nname = \"b\"\nrate_gbit_s = 40\n\
        [[network.host]]\nname = \"x\"\naddress = \"10.0.0.1\"\n[[network.host]]\nname = \"y\"\naddress = \"10.0.0.2\"\n\
        address_v6 = \"2001:db8::2\"\nmac = \"02:00:5e:00:53:aF\"\n\
        [[network.link]]\nends = [\"x\", \"a:1\"]\n[[network.link]]\nends = [\"a:2\", \"b:1\"]\ndelay_us = 5\n\
        [[network.link]]\nends = [\"b:2\", \"y\"]\nrate_gbit_s = 1\nname = \"last\"\n";
    let t = parse(text).expect("good");
    let macs: Vec<_> = t.hosts().iter().map(|h| h.mac).collect();
    assert_eq!(macs, [[2, 0, 10, 0, 0, 1], [2, 0, 0x5e, 0, 0x53, 0xaf]]);
    let text: Vec<String> = t.hosts().iter().map(|h| format!("{h:?}")).collect();
    let x = "Host { name: \"x\", mac: [2, 0, 10, 0, 0, 1], address: 10.0.0.1 }";
    let y = "Host { name: \"y\", mac: [2, 0, 94, 0, 83, 175], address: 10.0.0.2, address_v6: 2001:db8::2 }";
    assert_eq!(text, [x, y]);
    let lines: Vec<_> =
        t.links().iter().map(|l| (l.name.as_str(), l.line.bits_per_s, l.line.delay_ns)).collect();
    assert_eq!(
        lines,
        [("x-a", 10_000_000_000, 2_000), ("a-b", 40_000_000_000, 5_000), ("last", 1_000_000_000, 2_000)]
    );
}

/// Each with the field that the message names, and a part of the message.
#[test]
fn bad_networks() {
    let switches = "[[network.switch]]\nname = \"a\"\n[[network.switch]]\nname = \"b\"\nrate_gbit_s = 40\n";
    let host =
        "[[network.host]]\nname = \"x\"\naddress = \"10.0.0.1\"\n[[network.link]]\nends = [\"x\", \"a:1\"]\n";
    let listed = |rest: &str| format!("[network]\n{switches}{host}{rest}");
    let link = |ends: &str| listed(&format!("[[network.link]]\nends = {ends}\n"));
    let with_mac = |mac: &str| {
        let host = format!("[[network.host]]\nname = \"y\"\naddress = \"10.0.0.2\"\nmac = \"{mac}\"\n");
        link("[\"a:2\", \"b:1\"]") + &host
    };
    let with_v6 = |address: &str| {
        let host =
            format!("[[network.host]]\nname = \"y\"\naddress = \"10.0.0.2\"\naddress_v6 = \"{address}\"\n");
        link("[\"a:2\", \"b:1\"]") + &host
    };
    for (text, field, part) in [
        ("[network]\n".into(), "network.switch", "leaf_spine"),
        (link("[\"a:2\", \"a:3\"]"), "network.link.ends", "both ends are at a"),
        (link("[\"a:1\", \"b:1\"]"), "network.link.ends", "port 1 of a has two links"),
        (link("[\"x\", \"b:1\"]"), "network.link.ends", "host x has two links"),
        (link("[\"a:2\", \"c:1\"]"), "network.link.ends", "no switch or host is called `c`"),
        (link("[\"a:2\", \"b:510\"]"), "network.link.ends", "write 1 to 508"),
        (link("[\"a:2\", \"b:0\"]"), "network.link.ends", "write 1 to 508"),
        (link("[\"a:2\", \"b\"]"), "network.link.ends", "SWITCH:PORT"),
        (link("[\"a:2\"]"), "network.link.ends", "two ends"),
        (listed(""), "network", "b has no link"),
        (
            format!("{}[[network.switch]]\nname = \"a\"\n", link("[\"a:2\", \"b:1\"]")),
            "network.switch.name",
            "two nodes",
        ),
        (
            format!("{}[[network.host]]\nname = \"y\"\naddress = \"10.0.0.1\"\n", link("[\"a:2\", \"b:1\"]")),
            "network.host.address",
            "two hosts have the address",
        ),
        (
            format!(
                "{}[[network.host]]\nname = \"y\"\naddress = \"224.0.0.1\"\n",
                link("[\"a:2\", \"b:1\"]")
            ),
            "network.host.address",
            "unicast",
        ),
        (with_v6("10.0.0.9"), "network.host.address_v6", "write an IPv6 address"),
        (
            with_v6("ff02::1"),
            "network.host.address_v6",
            "ff02::1 is not a host's address: write a unicast one",
        ),
        (with_v6("fe80::1"), "network.host.address_v6", "unicast"),
        (with_v6("::1"), "network.host.address_v6", "unicast"),
        (with_v6("::"), "network.host.address_v6", "unicast"),
        (
            with_v6("fd00::1")
                + "[[network.host]]\nname = \"z\"\naddress = \"10.0.0.3\"\naddress_v6 = \"fd00:0::1\"\n",
            "network.host.address_v6",
            "two hosts have the address fd00::1",
        ),
        (with_mac("02:00:5e:00:53"), "network.host.mac", "such as 02:00:5e"),
        (with_mac("02:00:5e:00:53:0g"), "network.host.mac", "such as 02:00:5e"),
        (with_mac("01:00:5e:00:53:00"), "network.host.mac", "unicast"),
        (with_mac("+2:00:5e:00:53:01"), "network.host.mac", "such as 02:00:5e"),
        // The default of another host, also of one that follows, and a switch's.
        (with_mac("02:00:0a:00:00:01"), "network.host.mac", "two nodes have the Ethernet address 02:00:0a"),
        (
            with_mac("02:00:0a:00:00:03") + "[[network.host]]\nname = \"z\"\naddress = \"10.0.0.3\"\n",
            "network.host.address",
            "two nodes have the Ethernet address 02:00:0a:00:00:03",
        ),
        (with_mac("02:50:4d:00:00:00"), "network.host.mac", "two nodes have the Ethernet address 02:50:4d"),
        (
            listed(
                "[[network.switch]]\nname = \"c\"\nrate_gbit_s = 10\n[[network.link]]\nends = [\"c:1\", \"b:1\"]\n",
            ),
            "network.link.ends",
            "the ends of c-b have 10 and 40 Gbit/s",
        ),
        (
            "[network.leaf_spine]\nleaves = 1000000000000\nspines = 4\nhosts_per_leaf = 100\n".into(),
            "network.leaf_spine.leaves",
            "GiB of memory",
        ),
        (
            "[network.leaf_spine]\nleaves = 4\nspines = 4\nhosts_per_leaf = 1000000000\n".into(),
            "network.leaf_spine.hosts_per_leaf",
            "GiB of memory",
        ),
        (
            "[network.leaf_spine]\nleaves = 2\nspines = 4\nhosts_per_leaf = 508\n".into(),
            "network.leaf_spine.hosts_per_leaf",
            "512 ports",
        ),
        (
            "[network.leaf_spine]\nleaves = 0\nspines = 4\nhosts_per_leaf = 2\n".into(),
            "network.leaf_spine.leaves",
            "0",
        ),
        (
            "[network.leaf_spine]\nleaves = 1\nspines = 4\n".into(),
            "network.leaf_spine.hosts_per_leaf",
            "missing",
        ),
    ] {
        let message = parse(&text).expect_err(part);
        assert!(message.contains(&format!("{field}: ")) && message.contains(part), "{part}: {message}");
        // What follows from a mistake is not reported.
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}

#[test]
fn what_a_builder_refuses() {
    let mut b = Builder::new();
    let (a, c) = (b.switch("a", None).expect("new"), b.switch("c", None).expect("new"));
    let x = b.host("x", Ipv4Addr::new(10, 0, 0, 1), None, None).expect("new");
    let y = b.host("y", Ipv4Addr::new(10, 0, 0, 2), None, None).expect("new");
    let mac = |last| Some([2, 0, 10, 0, 0, last]);
    let mut host = |name: &str, last, mac| b.host(name, Ipv4Addr::new(10, 0, 0, last), mac, None);
    assert_eq!(host("z", 3, mac(2)), Err(Mistake::MacTaken([2, 0, 10, 0, 0, 2])));
    // What was refused takes nothing.
    assert_eq!(host("z", 3, mac(4)), Ok(HostId(2)));
    assert_eq!(host("u", 4, None), Err(Mistake::MacTaken([2, 0, 10, 0, 0, 4])));
    assert_eq!(host("u", 4, mac(3)), Ok(HostId(3)));
    let mut link = |ends| b.link(None, ends, None, Line::default());
    assert_eq!(link([End::Host(x), End::Host(y)]), Err(Mistake::NoSwitch("x-y".into())));
    assert_eq!(link([End::Switch(a, 1), End::Switch(c, 1)]), Ok(LinkId(0)));
    assert_eq!(link([End::Switch(a, 2), End::Switch(c, 2)]), Err(Mistake::LinkTaken("a-c".into())));
    assert_eq!(b.finish().err(), Some(Mistake::Unconnected("u".into())));
}

/// Sixteen hosts, eight leaves, eight aggregation switches and four cores; every core has a link to every pod.
#[test]
fn a_fat_tree() {
    let line = Line::default();
    let t = FatTree { k: 4, host_line: line, fabric_line: line }.build().expect("good");
    assert_eq!((t.switches().len(), t.hosts().len(), t.links().len()), (20, 16, 16 + 16 + 16));
    assert_eq!((FatTree::switches(4), FatTree::hosts(4)), (20, 16));
    assert!((0..20).all(|s| t.ports(SwitchId(s)).map(|p| p.0).eq(1..=4)));
    assert_eq!(t.tiers(), [[0; 8].as_slice(), &[1; 8], &[2; 4]].concat());
    assert_eq!(leaf_spine().tiers(), [0, 0, 0, 0, 1, 1, 1]);
    let routes = Routes::of(&t, &BTreeSet::new());
    // To another host of the leaf, of the pod, of another pod: two links up from each tier.
    let leaf1 = |host| routes.ports(SwitchId(0), HostId(host)).to_vec();
    assert_eq!((leaf1(1), leaf1(3), leaf1(15)), (vec![2], vec![3, 4], vec![3, 4]));
    let agg1 = |host| routes.ports(SwitchId(8), HostId(host)).to_vec();
    assert_eq!((agg1(3), agg1(15)), (vec![2], vec![3, 4]));
    assert_eq!(routes.ports(SwitchId(16), HostId(15)), [4]);
    assert!(t.link("leaf8-agg8").is_some() && t.link("agg8-core4").is_some());
}

#[test]
fn fat_trees_as_text() {
    let text = |rest: &str| format!("[network]\n{rest}\n");
    let read = parse(&text("fat_tree = { k = 4, host_link = { rate_mbit_s = 0.48 } }")).expect("good");
    assert_eq!((read.hosts().len(), read.links()[0].line.bits_per_s), (16, 480_000));
    for (bad, message) in [
        ("fat_tree = { k = 5 }", "network.fat_tree.k: 5 is odd"),
        ("fat_tree = { k = 0 }", "network.fat_tree.k: 0 is out of range"),
        ("fat_tree = { }", "network.fat_tree.k: missing"),
        ("fat_tree = { k = 64 }", "5120 switches and 65536 hosts would need about 20.2 GiB of memory"),
        (
            "fat_tree = { k = 4 }\nleaf_spine = { leaves = 1, spines = 1, hosts_per_leaf = 1 }",
            "network.fat_tree: `leaf_spine` makes another",
        ),
        (
            "fat_tree = { k = 4 }\n[[network.switch]]\nname = \"s\"",
            "network.switch: `fat_tree` makes all of them",
        ),
        (
            "fat_tree = { k = 4 }\nline = { rate_mbit_s = 1, rate_gbit_s = 1 }",
            "network.line.rate_mbit_s: there is also",
        ),
    ] {
        let error = parse(&text(bad)).expect_err(message);
        assert!(error.contains(message), "{message}: {error}");
    }
    let parts = "switch = [{ name = \"a\" }, { name = \"b\" }]\n\
        host = [{ name = \"h\", address = \"10.0.0.1\" }, { name = \"i\", address = \"10.0.0.2\" }]\n\
        link = [{ ends = [\"a:1\", \"h\"] }, { ends = [\"b:1\", \"i\"] }]\n";
    let error = parse(&text(parts)).expect_err("two parts");
    assert!(error.contains("no path leads from a to b"), "{error}");
}

#[test]
fn a_queue_without_room_is_refused() {
    let text =
        "[network.leaf_spine]\nleaves = 2\nspines = 1\nhosts_per_leaf = 1\nfabric_link = { queue_kib = 0 }\n";
    let error = parse(text).expect_err("no room");
    assert!(
        error.contains("net.toml:5:") && error.contains("fabric_link.queue_kib: the number 0: write"),
        "{error}"
    );
}
