//! Racks that are too large for the switch's tables.

use super::*;
use crate::members::{Document, Entry};
use crate::plan::tests::p4info;
use crate::types::DeviceNumber;
use std::fmt::Write;

/// 64 servers with 16 devices each, which serve all of `services` (an empty text: all servers; otherwise the servers by name).
fn large(services: &[&str]) -> String {
    let mut text =
        "[switch]\nmac = \"02:50:4d:00:00:01\"\ngateways = [\"10.0.0.1\"]\nreports = \"unauthenticated\"\n"
            .to_string();
    for server in 0..64 {
        let _ = writeln!(text, "[[server]]\nname = \"s{server}\"");
        for device in 0..16 {
            let at = format!("port = 2\naddress = \"10.1.{server}.{device}\"");
            let _ = writeln!(text, "[[server.device]]\nname = \"d{device}\"\nkind = \"cpu\"\n{at}");
        }
    }
    for (i, servers) in services.iter().enumerate() {
        let at = format!("vip = \"10.0.0.100\"\nprotocol = \"tcp\"\nport = {}", 8000 + i);
        let _ = writeln!(text, "[[service]]\nname = \"p{i}\"\n{at}\npolicy = \"p4mite\"\n{servers}");
    }
    text
}

#[test]
fn sizes_are_those_of_the_program() {
    let info = p4info();
    let mut sizes: BTreeMap<&str, i64> = BTreeMap::new();
    for table in info.tables.iter().filter(|t| !t.match_fields.is_empty()) {
        let name = table.preamble.as_ref().map_or("", |p| p.name.as_str());
        sizes.insert(name.strip_prefix("BalancerIngress.").expect("in the ingress"), table.size);
    }
    for room in room::ROOM {
        for table in room.tables {
            assert_eq!(sizes.remove(table), Some(room.size as i64), "{table}");
        }
    }
    // Where the key is a number of a device or service, or a place of one.
    assert!(sizes.values().all(|size| *size >= 65_536), "{sizes:?}");
}

#[test]
fn racks_that_do_not_fit_are_refused() {
    // Half of `dip_table`: 128 times 1,024.
    let fits = large(&[""; 128]);
    assert_eq!(good(&fits).services.len(), 128);
    let errors = Rack::parse("rack.toml", &large(&[""; 129])).map(drop);
    let message = errors.expect_err("too large").to_string();
    for part in ["service.servers", "132096 devices", "`dip_table` of 262144", "list fewer servers"] {
        assert!(message.contains(part), "{message}");
    }
    // More slots than `server_slots` has for a generation.
    let slots = fits.replace("\"p4mite\"\n", "\"p4mite\"\nslots = 2048\n");
    let message = Rack::parse("rack.toml", &slots).map(drop).expect_err("too large").to_string();
    assert!(message.contains("service.slots") && message.contains("lower `slots`"), "{message}");
}

#[test]
fn members_come_as_long_as_the_tables_have_room() {
    let names: Vec<String> = (0..63).map(|i| format!("\"s{i}\"")).collect();
    let all_but_one = format!("servers = [{}]", names.join(", "));
    let mut services = vec![""; 127];
    services.push(&all_but_one);
    let source = "[api]\ntokens = \"t\"\nstate = \"s\"\n[[members]]\nname = \"pool\"\napi = true\nservices = [\"p0\"]\nnetworks = [\"10.2.0.0/16\"]\nports = [6]\n";
    let rack = good(&format!("{}{source}", large(&services)));
    let entries: Vec<Entry> = (0..18)
        .map(|i| {
            let document = serde_json::json!({"name": format!("m{i:02}/cpu"), "kind": "cpu", "address": format!("10.2.0.{i}"), "port": 6});
            let document: Document = serde_json::from_value(document).expect("valid");
            Entry::new(&document, &rack.sources[0]).expect("valid")
        })
        .collect();
    let placed: Vec<Placed<'_>> = (5000..)
        .zip(&entries)
        .map(|(n, entry)| Placed {
            entry,
            number: DeviceNumber::new(n, 0),
            source: &rack.sources[0],
            key: None,
        })
        .collect();
    // The devices of one server more: 16 members with one device each.
    let (with, left_out) = rack.with_members(&placed[..16]);
    assert_eq!((with.servers.len(), left_out.len()), (80, 0));
    let (with, left_out) = rack.with_members(&placed);
    assert_eq!((with.servers.len(), with.services[0].members.len()), (80, 80));
    let names: Vec<String> = left_out.keys().map(ToString::to_string).collect();
    assert_eq!(names, ["m16/cpu", "m17/cpu"]);
    assert!(left_out.values().all(|why| why.to_string().contains("`dip_table`")), "{left_out:?}");
}
