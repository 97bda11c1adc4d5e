//! Plans and the sizes of the switch's tables.

use super::*;
use crate::config::room::{RINGS, ROOM};

/// Entries of each table, by the last part of its name.
fn by_table(entries: &Entries) -> BTreeMap<String, u64> {
    let mut out = BTreeMap::new();
    for key in entries.keys() {
        *out.entry(key.table()).or_default() += 1;
    }
    out
}

/// No table gets more entries than the check of the configuration counts, whatever the policy.
#[test]
fn plans_have_no_more_entries_than_were_counted() {
    for policy in Policy::ALL {
        let mut shape = Shape::with_devices(16, policy);
        shape.services.insert(8001, (Policy::P4mite, &[Protocol::Tcp], 16, vec![(2, 1)]));
        let rack = shape.rack();
        let have = by_table(&State::default().plan(&rack, &Entries::new()));
        for room in ROOM {
            for name in room.tables {
                let of = |(table, n): (&String, &u64)| name.ends_with(&format!(".{table}")).then_some(*n);
                let found = have.get(*name).copied().or_else(|| have.iter().find_map(of)).unwrap_or(0);
                // Rings are as long as the table allows.
                let most = if *name == "select_device.rings" { room.size / 2 } else { (room.entries)(&rack) };
                assert!(found <= most, "{policy}: {name} has {found} entries, {most} were counted");
            }
        }
        let counted = |name: &str| have.get(name).copied();
        assert_eq!(counted("pools"), Some(2 * 2 * 2 + 2), "{policy}");
        assert!(
            counted("sources_v4") == Some(18 + 2) && counted("backends_v6") == Some(2 * 18 + 16),
            "{policy}"
        );
    }
}

/// Rings of weights are as long as the rest of the table allows.
#[test]
fn rings_share_their_table() {
    let mut shape = Shape::new(40, Policy::Wrr);
    for devices in shape.servers.values_mut() {
        devices.insert(0, ("cpu", 997, true));
        devices.insert(1, ("smartnic", 1000, true));
    }
    shape.services.insert(8001, (Policy::Ecmp, &[Protocol::Udp, Protocol::Tcp], 64, vec![]));
    let rings = by_table(&State::default().plan(&shape.rack(), &Entries::new()))["rings"];
    assert!((240_000..=RINGS / 2).contains(&rings), "{rings} positions");
}
