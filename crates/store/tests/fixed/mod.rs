//! Fixed keys, message by message.

use crate::{Answer, KEY, MS, OTHER, ask, ask_key, config, head, only, rows, store, wake};
use pointsman_store::{Config, Flags, Head, Kind, LoadError, Rule, Saved, Status, Store};

/// A request for a fixed key, to be kept for so many milliseconds.
fn fixed(switch: u16, ms: u32) -> Head {
    Head { flags: Flags { fixed: true, ..Flags::default() }, lease_us: ms, ..head(Kind::New, switch, 0, 0) }
}

fn existing(switch: u16) -> Head {
    let asked = fixed(switch, 0);
    Head { flags: Flags { existing: true, ..asked.flags }, ..asked }
}

fn ending(switch: u16, ms: u32) -> Head {
    let asked = existing(switch);
    Head { flags: Flags { ending: true, ..asked.flags }, lease_us: ms, ..asked }
}

/// Receiver, status, grant, value, whether it is the proposed one, term.
fn short(a: &Answer) -> (u16, Status, u32, u8, bool, u32) {
    (a.to, a.head.status, a.head.grant, a.value[3], a.head.flags.created, a.head.lease_us)
}

#[test]
fn all_switches_get_the_value_that_came_first() {
    let mut s = store(config());
    let mut asks = |now, head, value, packet| only(ask(&mut s, now, head, value, packet));
    let first = asks(0, fixed(1, 50), 5, b"input");
    assert_eq!((short(&first), first.packet), ((1, Status::Ok, 1, 5, true, 50), b"input".to_vec()));
    // Another switch gets it at once, with its packet, and so does the first one again.
    let second = asks(MS, fixed(2, 50), 6, b"other");
    assert_eq!((short(&second), second.packet), ((2, Status::Ok, 1, 5, false, 50), b"other".to_vec()));
    assert_eq!(short(&asks(MS, fixed(1, 50), 7, b"")), (1, Status::Ok, 1, 5, false, 50));
    assert_eq!(short(&asks(MS, existing(3), 0, b"")), (3, Status::Ok, 1, 5, false, 50));
    let c = s.stats();
    assert_eq!((c.fixed, c.fixed_known, c.grants, c.waited, c.recalls), (1, 3, 0, 0, 0));
}

#[test]
fn only_a_known_one_if_asked() {
    let mut s = store(config());
    assert_eq!(only(ask(&mut s, 0, existing(1), 0, b"")).head.status, Status::Unknown);
    assert_eq!(only(ask(&mut s, 0, ending(1, 50), 0, b"")).head.status, Status::Unknown);
    assert_eq!((s.keys(), s.stats().unknown, s.deadline()), (0, 2, None));
}

#[test]
fn a_value_is_replaced_under_its_grant_only() {
    let mut s = store(config());
    ask(&mut s, 0, fixed(1, 50), 5, b"");
    let replaces = |switch, grant| Head { grant, ..fixed(switch, 20) };
    assert_eq!(short(&only(ask(&mut s, 0, replaces(1, 9), 6, b""))), (1, Status::Ok, 1, 5, false, 50));
    assert_eq!(short(&only(ask(&mut s, 0, replaces(1, 1), 6, b""))), (1, Status::Ok, 2, 6, true, 20));
    // The other switch, which wanted the same, is too late; so is the doubled request.
    assert_eq!(short(&only(ask(&mut s, 0, replaces(2, 1), 7, b""))), (2, Status::Ok, 2, 6, false, 20));
    assert_eq!(short(&only(ask(&mut s, 0, replaces(1, 1), 6, b""))), (1, Status::Ok, 2, 6, false, 20));
    assert_eq!((s.stats().fixed_replaced, s.deadline()), (1, Some(20 * MS)));
}

#[test]
fn it_ends_when_it_is_not_extended() {
    let mut s = store(config());
    ask(&mut s, 0, fixed(1, 50), 5, b"");
    ask_key(&mut s, 0, fixed(1, 90), &OTHER, &[0; 4], b"");
    // Extended by either switch, and never shortened by a late request.
    ask(&mut s, 40 * MS, fixed(2, 50), 5, b"");
    ask(&mut s, 41 * MS, fixed(1, 10), 5, b"");
    assert_eq!(s.deadline(), Some(90 * MS));
    wake(&mut s, 90 * MS - 1);
    assert_eq!(s.keys(), 2);
    wake(&mut s, 90 * MS);
    assert_eq!((s.keys(), s.deadline()), (0, None));
    // Numbers continue (R3): who has the former grant replaces nothing.
    assert_eq!(short(&only(ask(&mut s, 91 * MS, fixed(1, 50), 6, b""))), (1, Status::Ok, 2, 6, true, 50));
    let late = Head { grant: 1, ..fixed(2, 50) };
    assert_eq!(short(&only(ask(&mut s, 92 * MS, late, 7, b""))), (2, Status::Ok, 2, 6, false, 50));
    // Its time is over, though nothing has woken the store.
    assert_eq!(short(&only(ask(&mut s, 500 * MS, fixed(2, 50), 8, b""))), (2, Status::Ok, 3, 8, true, 50));
    assert_eq!(only(ask(&mut s, 600 * MS, existing(2), 8, b"")).head.status, Status::Unknown);
}

#[test]
fn an_ending_one_ends_sooner_unless_it_is_used_again() {
    let mut s = store(config());
    ask(&mut s, 0, fixed(1, 5000), 5, b"");
    assert_eq!(short(&only(ask(&mut s, 0, ending(1, 20), 0, b""))), (1, Status::Ok, 1, 5, false, 20));
    assert_eq!(s.deadline(), Some(20 * MS));
    assert_eq!(short(&only(ask(&mut s, 10 * MS, fixed(2, 300), 7, b""))), (2, Status::Ok, 1, 5, false, 300));
    assert_eq!(s.deadline(), Some(310 * MS));
}

#[test]
fn a_full_store_refuses_and_others_are_not_mixed_up() {
    let mut s = store(Config { max_keys: 1, ..config() });
    ask(&mut s, 0, fixed(1, 50), 5, b"");
    let full = only(ask_key(&mut s, 0, fixed(1, 50), &OTHER, &[0, 0, 0, 9], b"packet"));
    assert_eq!((full.head.status, full.value, full.packet.len()), (Status::Full, vec![0, 0, 0, 9], 0));
    // A key with an owner and a fixed key are different things.
    assert_eq!(only(ask(&mut s, 0, head(Kind::New, 1, 0, 0), 0, b"")).head.status, Status::Size);
    assert_eq!(only(ask_key(&mut s, 0, fixed(1, 9), &KEY, &[0; 8], b"")).head.status, Status::Size);
    wake(&mut s, 50 * MS);
    ask(&mut s, 60 * MS, head(Kind::New, 1, 0, 0), 0, b"");
    assert_eq!(only(ask(&mut s, 60 * MS, fixed(1, 50), 0, b"")).head.status, Status::Size);
    assert_eq!((s.stats().full, s.stats().sizes), (1, 3));
    // What a fixed key cannot be.
    let all = Flags { fixed: true, ..Flags::default() };
    let new = fixed(1, 50);
    for head in [
        Head { flags: Flags { allocate: true, ..all }, ..new },
        Head { flags: Flags { session: true, ..all }, ..new },
        Head { kind: Kind::Write, ..new },
        Head { kind: Kind::Snapshot, ..new },
        Head { kind: Kind::Release, ..new },
    ] {
        assert!(ask(&mut s, 70 * MS, head, 0, b"").is_empty());
    }
    assert_eq!(s.stats().malformed, 5);
}

#[test]
fn a_store_from_disk_keeps_it_for_its_whole_term() {
    let durable = Config { durable: true, ..config() };
    let mut first = store(durable.clone());
    ask(&mut first, 0, fixed(1, 50), 5, b"");
    let (key, row) = rows(&mut first).remove(0);
    ask(&mut first, 40 * MS, fixed(1, 50), 5, b"");
    assert!(rows(&mut first).is_empty(), "when it ends is not on disk");
    ask(&mut first, 41 * MS, fixed(1, 70), 5, b"");
    let (_, longer) = rows(&mut first).remove(0);
    let load = |row: &[u8]| {
        let mut second: Store<u16> = store(durable.clone());
        second.load(7, 9999 * MS, Saved::decode(&key, row).expect("a row")).expect("room");
        second
    };
    assert_eq!(load(&row).deadline(), Some(7 + 50 * MS));
    let mut second = load(&longer);
    assert_eq!(second.deadline(), Some(7 + 70 * MS));
    assert_eq!(short(&only(ask(&mut second, 8, fixed(2, 50), 9, b""))), (2, Status::Ok, 1, 5, false, 70));
    // It ends, and its row with it.
    wake(&mut second, 7 + 70 * MS);
    assert_eq!(second.removed().collect::<Vec<_>>(), [key.as_slice()]);
    assert_eq!((second.last_grant(), second.changes().count()), (1, 0));
    let mut other = row.clone();
    other[8] |= 8;
    assert_eq!(Saved::decode(&key, &other), Err(LoadError::Malformed));
}

#[test]
fn a_state_as_a_value() {
    let mut s = store(config());
    ask(&mut s, 0, fixed(1, 50), 5, b"");
    let image = s.image(20 * MS).expect("no pools");
    let mut again: Store<u16> = store(config());
    again.restore(1000 * MS, &image).expect("room");
    assert_eq!(again.deadline(), Some(1030 * MS));
    assert_eq!(again.image(1000 * MS), Some(image));
}

#[test]
fn without_the_rule_the_last_one_counts() {
    let mut s = store(Config { without: Some(Rule::FirstStays), ..config() });
    ask(&mut s, 0, fixed(1, 50), 5, b"");
    assert_eq!(short(&only(ask(&mut s, 0, fixed(2, 50), 6, b""))), (2, Status::Ok, 2, 6, true, 50));
}
