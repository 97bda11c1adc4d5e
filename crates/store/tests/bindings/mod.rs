//! Bindings of address translation, message by message.

use super::{Answer, HOLD, MS, ask_key, config, head, only, rows, store, wake};
use pointsman_store::{Config, Flags, Head, Idle, Kind, LoadError, Pool, Saved, Status, Store};

const S: u64 = 1000 * MS;

fn pooled(ports: &str) -> Config {
    let pool: Pool = format!("203.0.113.1:{ports}").parse().expect("a pool");
    let idle = Idle { tcp_s: 100, udp_s: 50, brief_s: 10 };
    Config { pools: vec![pool], idle, durable: true, ..config() }
}

/// The key of packets of a flow from inside.
fn inside(host: u8, protocol: u8) -> [u8; 16] {
    [10, 0, 0, host, 9, 9, 9, 9, 0x10, 0, 0, 80, 0, 0, 0, protocol]
}

fn outside(port: u8, protocol: u8) -> [u8; 16] {
    [203, 0, 113, 1, 9, 9, 9, 9, 0, port, 0, 80, 0, 0, 1, protocol]
}

fn allocate(switch: u16) -> Head {
    Head { flags: Flags { allocate: true, ..Flags::default() }, ..head(Kind::New, switch, 0, 0) }
}

fn existing(switch: u16) -> Head {
    Head { flags: Flags { existing: true, ..Flags::default() }, ..head(Kind::New, switch, 0, 0) }
}

fn bind(s: &mut Store<u16>, now: u64, switch: u16, key: &[u8]) -> Answer {
    only(ask_key(s, now, allocate(switch), key, &[0, 0, 0, 0, 0, 0, 0, 5], b"packet"))
}

#[test]
fn both_keys_come_in_one_step_and_are_leased_apart() {
    let mut s = store(pooled("7-8"));
    let answer = bind(&mut s, 0, 1, &inside(5, 6));
    assert_eq!(answer.short(), (1, Kind::New, Status::Ok, 1, 0));
    assert_eq!((&answer.value[..], &answer.packet[..]), (&[203, 0, 113, 1, 0, 7, 0, 5][..], &b"packet"[..]));
    // Asked twice, as the answer may be lost: the same port.
    assert_eq!(bind(&mut s, 0, 1, &inside(5, 6)).value, answer.value);
    assert_eq!((s.keys(), s.ports().used, s.ports().all), (2, 1, 4));
    // The packets of the other side pass another switch.
    let other = only(ask_key(&mut s, 0, existing(2), &outside(7, 6), &[0; 8], b""));
    assert_eq!(other.short(), (2, Kind::New, Status::Ok, 1, 0));
    assert_eq!(other.value, [10, 0, 0, 5, 0x10, 0, 0, 5]);
    // A write changes the program's bytes, not the port.
    let write = only(ask_key(&mut s, 0, head(Kind::Write, 1, 1, 1), &inside(5, 6), &[9; 8], b""));
    assert_eq!(write.value, [203, 0, 113, 1, 0, 7, 9, 9]);
    // UDP has ports of its own. Both TCP ports are used: the third connection has none.
    assert_eq!(bind(&mut s, 0, 1, &inside(5, 17)).value[4..6], [0, 7]);
    assert_eq!(bind(&mut s, 0, 1, &inside(6, 6)).value[4..6], [0, 8]);
    let none = bind(&mut s, 0, 1, &inside(7, 6));
    assert_eq!((none.head.status, none.packet.len(), s.stats().exhausted), (Status::Exhausted, 0, 1));
}

#[test]
fn a_port_returns_when_no_switch_uses_the_binding() {
    let mut s = store(pooled("7-7"));
    bind(&mut s, 0, 1, &inside(5, 6));
    // Without an answer from outside, soon: after the lease and 10 s, at one of the looks, which are every 10 s.
    assert_eq!(s.deadline(), Some(10 * S));
    wake(&mut s, 10 * S);
    assert_eq!((s.keys(), s.deadline()), (2, Some(20 * S)));
    wake(&mut s, 20 * S);
    assert_eq!((s.keys(), s.deadline(), s.ports().used, s.ports().returned), (0, None, 0, 1));
    // R3: the next one of this name continues the numbers of grants, so that a late write is refused.
    let again = bind(&mut s, 20 * S, 1, &inside(5, 6));
    assert_eq!((again.head.grant, &again.value[4..6]), (2, &[0, 7][..]));
    let late = only(ask_key(&mut s, 20 * S, head(Kind::Write, 1, 1, 9), &inside(5, 6), &[0; 8], b""));
    assert_eq!(late.head.status, Status::Stale);
    // With an answer it is kept for as long as one side is used.
    let first = only(ask_key(&mut s, 20 * S, existing(2), &outside(7, 6), &[0; 8], b"")).head.grant;
    for second in (21..300).step_by(50) {
        let renew = head(Kind::Renew, 2, first, 0);
        assert_eq!(
            only(ask_key(&mut s, second * S, renew, &outside(7, 6), &[0; 8], b"")).head.status,
            Status::Ok
        );
        wake(&mut s, (second + 40) * S);
        assert_eq!(s.keys(), 2, "{second}");
    }
    wake(&mut s, 371 * S);
    assert_eq!(s.keys(), 2);
    // One side ends the connection: 10 s.
    let mut ends = head(Kind::Write, 1, 2, 1);
    ends.flags.ending = true;
    ask_key(&mut s, 372 * S, ends, &inside(5, 6), &[0; 8], b"");
    wake(&mut s, 382 * S);
    assert_eq!(s.keys(), 2);
    wake(&mut s, 393 * S);
    assert_eq!((s.keys(), s.ports().used), (0, 0));
}

#[test]
fn a_binding_under_a_lease_is_kept() {
    // Leases longer than the idle time.
    let mut s = store(Config { lease_us: 60_000_000, ..pooled("7-7") });
    bind(&mut s, 0, 1, &inside(5, 17));
    for second in (0..=70).step_by(10) {
        wake(&mut s, second * S);
        assert_eq!(s.keys(), 2, "{second}");
    }
    wake(&mut s, 80 * S);
    assert_eq!(s.keys(), 0);
}

#[test]
fn bad_requests_for_ports() {
    let mut s = store(pooled("7-8"));
    let refused = |s: &mut Store<u16>, key: &[u8], value: &[u8]| {
        only(ask_key(s, 0, allocate(1), key, value, b"")).head.status
    };
    assert_eq!(refused(&mut s, &inside(5, 1), &[0; 8]), Status::Size, "ICMP");
    assert_eq!(refused(&mut s, &inside(5, 6)[4..], &[0; 8]), Status::Size);
    assert_eq!(refused(&mut s, &inside(5, 6), &[0; 4]), Status::Size);
    assert_eq!(refused(&mut s, &outside(7, 6), &[0; 8]), Status::Size);
    // A key of a binding's form that a switch added: its port is left out.
    ask_key(&mut s, 0, head(Kind::New, 1, 0, 0), &outside(7, 6), &[0; 4], b"");
    assert_eq!(refused(&mut s, &inside(5, 6), &[0; 8]), Status::Exhausted);
    assert_eq!(refused(&mut s, &inside(5, 6), &[0; 8]), Status::Ok);
    assert_eq!(s.ports().used, 1);
    // Room for one key is too little for two.
    let mut s = store(Config { max_keys: 1, ..pooled("7-8") });
    assert_eq!(refused(&mut s, &inside(5, 6), &[0; 8]), Status::Full);
    assert_eq!((s.keys(), s.ports().used), (0, 0));
    let mut s = store(config());
    assert_eq!(refused(&mut s, &inside(5, 6), &[0; 8]), Status::Exhausted);
}

#[test]
fn bindings_continue_from_the_disk() {
    let mut first = store(pooled("7-8"));
    bind(&mut first, 0, 1, &inside(5, 6));
    bind(&mut first, 0, 1, &inside(6, 6));
    let saved = rows(&mut first);
    assert_eq!(saved.len(), 4);
    let load = |s: &mut Store<u16>, row: &(Vec<u8>, Vec<u8>)| {
        s.load(0, HOLD, Saved::decode(&row.0, &row.1).expect("a row"))
    };
    let mut second = store(pooled("7-9"));
    for row in &saved {
        load(&mut second, row).expect("room");
    }
    // A port that is in use is not given again; one of a pool that the store no longer has is kept.
    assert_eq!((second.ports().used, bind(&mut second, 0, 1, &inside(7, 6)).value[5]), (2, 9));
    assert_eq!(bind(&mut second, 0, 1, &inside(5, 6)).value[4..6], [0, 7]);
    let mut third = store(pooled("100-200"));
    saved.iter().for_each(|row| load(&mut third, row).expect("room"));
    assert_eq!((third.keys(), third.ports().used), (4, 0));
    // Two bindings with one port: a damaged file.
    let mut twice = saved.iter().find(|(key, _)| key[2..] == inside(5, 6)).expect("the first").clone();
    twice.0[5] = 9;
    assert_eq!(load(&mut second, &twice), Err(LoadError::Port));
    assert_eq!(Saved::decode(&twice.0, &twice.1[..23]), Err(LoadError::Malformed));

    // What is removed goes from the disk, and the number of grants stays.
    wake(&mut first, 20 * S);
    let removed: Vec<Vec<u8>> = first.removed().map(<[u8]>::to_vec).collect();
    let mut keys: Vec<Vec<u8>> = saved.iter().map(|(key, _)| key.clone()).collect();
    keys.sort();
    let mut gone = removed.clone();
    gone.sort();
    assert_eq!((gone, first.last_grant(), first.changes().count()), (keys, 1, 0));
    first.saved();
    assert_eq!(first.removed().count(), 0);
    let mut fourth = store(pooled("7-8"));
    fourth.continue_grants(first.last_grant());
    assert_eq!(bind(&mut fourth, 0, 1, &inside(5, 6)).head.grant, 2);
}
