//! Shared leases, message by message.

use crate::{Answer, HOLD, KEY, MS, SECRET, ask, ask_key, config, head, only, rows, store, taken, wake};
use pointsman_store::{
    Config, Flags, Head, Kind, LoadError, MAX_READERS, Message, Outbox, Saved, Status, Store,
};

const READS: Flags = Flags {
    packet: false,
    input: false,
    created: false,
    existing: false,
    allocate: false,
    ending: false,
    session: false,
    fixed: false,
    shared: true,
};

/// A request of a switch that reads.
pub fn shared(kind: Kind, switch: u16, grant: u32) -> Head {
    Head { flags: READS, ..head(kind, switch, grant, 0) }
}

fn at_generation(head: Head, generation: u32) -> Head {
    Head { generation, ..head }
}

/// Receiver, kind, status, grant, whether the lease is shared, whether it has a term.
fn short(a: &Answer) -> (u16, Kind, Status, u32, bool, bool) {
    (a.to, a.head.kind, a.head.status, a.head.grant, a.head.flags.shared, a.head.lease_us > 0)
}

fn shorts(answers: &[Answer]) -> Vec<(u16, Kind, Status, u32, bool, bool)> {
    answers.iter().map(short).collect()
}

/// A store with a key that no switch has, after grant 1.
fn known(config: Config) -> Store<u16> {
    let mut s = store(config);
    ask(&mut s, 0, head(Kind::New, 9, 0, 0), 5, b"");
    ask(&mut s, 0, head(Kind::Release, 9, 1, 0), 5, b"");
    s
}

/// The same, with switches 1 and 2 as its readers, under grants 3 and 4.
fn read(config: Config) -> Store<u16> {
    let mut s = known(config);
    for (switch, grant) in [(1, 3), (2, 4)] {
        let lent = only(ask(&mut s, 0, shared(Kind::New, switch, 0), 0, b"input"));
        assert_eq!(short(&lent), (switch, Kind::New, Status::Ok, grant, true, true));
        assert_eq!((lent.value, lent.packet), (vec![0, 0, 0, 5], b"input".to_vec()));
    }
    s
}

#[test]
fn several_switches_read_a_key_at_once_and_none_of_them_writes() {
    let mut s = read(config());
    for (switch, grant) in [(1, 3), (2, 4)] {
        let renewed = only(ask(&mut s, MS, shared(Kind::Renew, switch, grant), 0, b""));
        assert_eq!(short(&renewed), (switch, Kind::Renew, Status::Ok, grant, true, true));
        // Its request repeated.
        let again = only(ask(&mut s, MS, shared(Kind::New, switch, 0), 0, b""));
        assert_eq!(short(&again), (switch, Kind::New, Status::Ok, grant, true, true));
        // Neither a write nor a renewal for an owner is made under it.
        for kind in [Kind::Write, Kind::Read, Kind::Renew, Kind::Snapshot] {
            let refused = only(ask(&mut s, MS, head(kind, switch, grant, 7), 9, b""));
            assert_eq!(refused.head.status, Status::Stale, "{kind:?}");
        }
    }
    // Under the other one's grant a switch cannot renew.
    assert_eq!(only(ask(&mut s, MS, shared(Kind::Renew, 1, 4), 0, b"")).head.status, Status::Stale);
    assert_eq!(s.value(0, &KEY), Some(&[0, 0, 0, 5][..]));
    let c = s.stats();
    assert_eq!((c.shared_grants, c.grants, c.repeated, c.renewals, c.stale), (2, 1, 2, 2, 9));
}

#[test]
fn a_new_key_has_an_owner_also_if_a_switch_asks_to_read_it() {
    let mut s = store(config());
    let first = only(ask(&mut s, 0, shared(Kind::New, 1, 0), 5, b""));
    assert_eq!((short(&first), first.head.flags.created), ((1, Kind::New, Status::Ok, 1, false, true), true));
    assert_eq!(only(ask(&mut s, 0, head(Kind::Write, 1, 1, 1), 6, b"")).head.status, Status::Ok);
    let again = only(ask(&mut s, 0, shared(Kind::New, 1, 0), 5, b""));
    assert_eq!(short(&again), (1, Kind::New, Status::Ok, 1, false, true));
    // A reader has it recalled; then both read.
    let recall = only(ask(&mut s, 0, shared(Kind::New, 2, 0), 0, b"p"));
    assert_eq!((short(&recall).1, recall.head.flags.shared), (Kind::Recall, false));
    let answers = ask(&mut s, 0, head(Kind::Release, 1, 1, 1), 6, b"");
    assert_eq!(shorts(&answers)[1..], [(2, Kind::New, Status::Ok, 3, true, true)]);
    let back = only(ask(&mut s, 0, at_generation(shared(Kind::New, 1, 0), 1), 0, b""));
    assert_eq!((short(&back), back.value), ((1, Kind::New, Status::Ok, 4, true, true), vec![0, 0, 0, 6]));
}

#[test]
fn a_switch_that_writes_waits_for_all_readers() {
    let mut s = read(config());
    let recalls = ask(&mut s, MS, head(Kind::New, 3, 0, 0), 0, b"write");
    let recall = |switch, grant| (switch, Kind::Recall, Status::Ok, grant, true, false);
    assert_eq!(shorts(&recalls), [recall(1, 3), recall(2, 4)]);
    // No reader gets a longer lease meanwhile, and a new one waits behind.
    let renewed = only(ask(&mut s, MS, shared(Kind::Renew, 1, 3), 0, b""));
    assert_eq!(short(&renewed), (1, Kind::Renew, Status::Ok, 3, true, false));
    assert_eq!(shorts(&ask(&mut s, MS, shared(Kind::New, 4, 0), 0, b"read")), [recall(1, 3), recall(2, 4)]);
    let released = ask(&mut s, MS, shared(Kind::Release, 1, 3), 0, b"");
    assert_eq!(shorts(&released), [(1, Kind::Release, Status::Ok, 3, true, false)]);
    // Twice is once.
    let doubled = only(ask(&mut s, MS, shared(Kind::Release, 1, 3), 0, b""));
    assert_eq!((doubled.head.status, s.stats().needless_releases), (Status::Ok, 1));
    let answers = ask(&mut s, MS, shared(Kind::Release, 2, 4), 0, b"");
    assert_eq!(
        shorts(&answers),
        [
            (2, Kind::Release, Status::Ok, 4, true, false),
            (3, Kind::New, Status::Ok, 5, false, true),
            (3, Kind::Recall, Status::Ok, 5, false, false),
        ]
    );
    assert_eq!(only(ask(&mut s, MS, head(Kind::Write, 3, 5, 1), 6, b"")).head.status, Status::Ok);
    // The readers' grants are over.
    assert_eq!(only(ask(&mut s, MS, shared(Kind::Renew, 2, 4), 0, b"")).head.status, Status::Stale);
    let answers = ask(&mut s, MS, head(Kind::Release, 3, 5, 1), 6, b"");
    assert_eq!(shorts(&answers)[1..], [(4, Kind::New, Status::Ok, 7, true, true)]);
    assert_eq!(answers[1].value, [0, 0, 0, 6]);
    assert_eq!((s.stats().reader_recalls, s.waiting(), s.deadline()), (4, 0, None));
}

#[test]
fn a_reader_that_does_not_answer_is_waited_for() {
    let mut s = read(Config { recall: false, ..config() });
    ask(&mut s, 100 * MS, shared(Kind::Renew, 2, 4), 0, b"");
    assert!(ask(&mut s, 200 * MS, head(Kind::New, 1, 0, 0), 0, b"write").is_empty());
    // The first switch waits for the second one only.
    assert_eq!(s.deadline(), Some(100 * MS + HOLD));
    ask(&mut s, 300 * MS, shared(Kind::Renew, 2, 4), 0, b"");
    assert!(wake(&mut s, 100 * MS + HOLD - 1).is_empty());
    let moved = only(wake(&mut s, 100 * MS + HOLD));
    assert_eq!(short(&moved), (1, Kind::New, Status::Ok, 5, false, true));
}

#[test]
fn a_reader_that_wants_to_write_gives_its_lease_up_first() {
    let mut s = read(config());
    // Both want to write. What the first one has given up is not waited for.
    let wants = |switch| at_generation(head(Kind::New, switch, 0, 0), 1);
    let recall = only(ask(&mut s, MS, wants(1), 0, b"write"));
    assert_eq!(short(&recall), (2, Kind::Recall, Status::Ok, 4, true, false));
    let answers = ask(&mut s, MS, wants(2), 0, b"too");
    let granted = (1, Kind::New, Status::Ok, 5, false, true);
    assert_eq!(shorts(&answers), [granted, (1, Kind::Recall, Status::Ok, 5, false, false)]);
    // What is late changes nothing: a request from before, a release of the former lease.
    assert!(ask(&mut s, MS, shared(Kind::New, 1, 0), 0, b"").is_empty());
    ask(&mut s, MS, shared(Kind::Release, 1, 3), 0, b"");
    assert_eq!((s.stats().late, s.stats().needless_releases), (1, 1));
    assert_eq!(only(ask(&mut s, MS, head(Kind::Write, 1, 5, 1), 6, b"")).head.status, Status::Ok);
    let answers = ask(&mut s, MS, head(Kind::Release, 1, 5, 1), 6, b"");
    assert_eq!(shorts(&answers)[1..], [(2, Kind::New, Status::Ok, 7, false, true)]);
}

#[test]
fn a_late_release_does_not_end_a_later_lease() {
    let mut s = read(config());
    ask(&mut s, MS, shared(Kind::Release, 1, 3), 0, b"");
    ask(&mut s, MS, at_generation(shared(Kind::New, 1, 0), 1), 0, b"");
    ask(&mut s, MS, shared(Kind::Release, 1, 3), 0, b"");
    ask(&mut s, MS, shared(Kind::Release, 2, 4), 0, b"");
    let recall = only(ask(&mut s, MS, head(Kind::New, 3, 0, 0), 0, b"write"));
    assert_eq!(short(&recall), (1, Kind::Recall, Status::Ok, 5, true, false));
}

#[test]
fn a_restarted_switch_does_not_wait_for_itself() {
    let mut s = known(config());
    ask(&mut s, 0, shared(Kind::New, 1, 0), 0, b"");
    let restarted = Head { incarnation: 2, ..head(Kind::New, 1, 0, 0) };
    assert_eq!(short(&only(ask(&mut s, MS, restarted, 0, b""))), (1, Kind::New, Status::Ok, 4, false, true));
    assert!(ask(&mut s, MS, shared(Kind::New, 1, 0), 0, b"").is_empty(), "late");
}

#[test]
fn a_reader_elsewhere_is_another_switch() {
    let mut s = known(config());
    let send = |s: &mut Store<u16>, from: u16, head: Head| {
        let (mut bytes, mut out) = (Vec::new(), Outbox::default());
        Message { head, key: &KEY, value: &[0; 4], packet: &[] }.encode(SECRET, &mut bytes);
        s.receive(MS, from, &bytes, &mut out);
        shorts(&taken(&out))
    };
    send(&mut s, 10, shared(Kind::New, 1, 0));
    let elsewhere = Head { incarnation: 2, ..head(Kind::New, 1, 0, 0) };
    assert_eq!(send(&mut s, 11, elsewhere), [(10, Kind::Recall, Status::Ok, 3, true, false)]);
    assert_eq!(wake(&mut s, MS + HOLD)[0].head.grant, 4);
}

#[test]
fn only_so_many_switches_read_a_key() {
    let mut s = known(config());
    let most = MAX_READERS as u16;
    for switch in 1..=most {
        ask(&mut s, 0, shared(Kind::New, switch, 0), 0, b"");
    }
    // One more has the others release the key.
    let recalls = ask(&mut s, MS, shared(Kind::New, 50, 0), 0, b"input");
    assert_eq!((recalls.len(), s.stats().readers_full), (MAX_READERS, 1));
    let answers = ask(&mut s, MS, shared(Kind::Release, 1, 3), 0, b"");
    assert_eq!(short(&answers[1]), (50, Kind::New, Status::Ok, 3 + u32::from(most), true, true));
    // Leases that have ended make room.
    let lent = only(ask(&mut s, MS + 2 * HOLD, shared(Kind::New, 51, 0), 0, b""));
    assert_eq!((lent.head.status, lent.head.flags.shared), (Status::Ok, true));
    assert_eq!(s.stats().readers_full, 1);
}

#[test]
fn a_store_that_restarts_waits_for_readers() {
    let durable = Config { durable: true, ..config() };
    let mut first = read(durable.clone());
    let disk = rows(&mut first);
    ask(&mut first, 0, shared(Kind::Renew, 1, 3), 0, b"");
    assert_eq!((disk.len(), rows(&mut first).len()), (1, 0), "a longer lease is not on disk");
    let (key, row) = &disk[0];
    let mut second = store(durable.clone());
    second.load(7, HOLD, Saved::decode(key, row).expect("a row")).expect("room");
    // Readers continue, and one more comes.
    let renewed = only(ask(&mut second, 8, shared(Kind::Renew, 1, 3), 0, b""));
    assert_eq!(short(&renewed), (1, Kind::Renew, Status::Ok, 3, true, true));
    assert_eq!(only(ask(&mut second, 8, shared(Kind::New, 3, 0), 0, b"")).head.grant, 5);
    // The second one was not heard since: no recall, its lease is waited for.
    let recalls = ask(&mut second, 9, head(Kind::New, 4, 0, 0), 0, b"");
    assert_eq!(recalls.iter().map(|a| a.to).collect::<Vec<_>>(), [1, 3]);
    ask(&mut second, 9, shared(Kind::Release, 1, 3), 0, b"");
    ask(&mut second, 9, shared(Kind::Release, 3, 5), 0, b"");
    assert!(wake(&mut second, 7 + HOLD - 1).is_empty());
    let moved = only(wake(&mut second, 8 + HOLD));
    assert_eq!(short(&moved), (4, Kind::New, Status::Ok, 6, false, true));
    let mut ending = row.clone();
    ending[8] |= 8;
    assert!(Saved::decode(key, &ending).is_ok());
    // A released key has no readers on disk either, and rows of former versions read as before.
    let released = rows(&mut second);
    assert_eq!(released[0].1.len(), row.len() - 2 * 14);
    let mut many = row.clone();
    many[10] = 1 + MAX_READERS as u8;
    assert_eq!(Saved::decode(key, &many), Err(LoadError::Malformed));
    // Readers next to an owner, a session, or a key of another kind.
    for mark in [1, 16, 32, 64, 128] {
        let mut other = row.clone();
        other[8] |= mark;
        assert_eq!(Saved::decode(key, &other), Err(LoadError::Malformed), "{mark}");
    }
}

/// The lease is given up with the request already, though that one has to wait.
#[test]
fn what_a_waiting_reader_gave_up_does_not_come_back_with_a_restart() {
    let durable = Config { durable: true, ..config() };
    let mut first = read(durable.clone());
    rows(&mut first);
    let recall = only(ask(&mut first, MS, at_generation(head(Kind::New, 1, 0, 0), 1), 0, b"write"));
    assert_eq!(short(&recall), (2, Kind::Recall, Status::Ok, 4, true, false));
    let disk = rows(&mut first);
    assert_eq!(only(ask(&mut first, MS, shared(Kind::Renew, 1, 3), 0, b"")).head.status, Status::Stale);
    let [(key, row)] = &disk[..] else { panic!("{disk:?}") };
    let mut second = store(durable);
    second.load(2 * MS, HOLD, Saved::decode(key, row).expect("a row")).expect("room");
    for (switch, grant, status) in [(1, 3, Status::Stale), (2, 4, Status::Ok)] {
        let renewed = only(ask(&mut second, 2 * MS, shared(Kind::Renew, switch, grant), 0, b""));
        assert_eq!(renewed.head.status, status, "switch {switch}");
    }
}

#[test]
fn contradictions_are_malformed() {
    let mut s = known(config());
    let of = |flags: Flags| Head { flags, ..shared(Kind::New, 1, 0) };
    let contradictions = [
        shared(Kind::Write, 1, 1),
        shared(Kind::Read, 1, 1),
        shared(Kind::Snapshot, 1, 1),
        of(Flags { fixed: true, ..READS }),
        of(Flags { allocate: true, ..READS }),
        of(Flags { session: true, ..READS }),
    ];
    for contradiction in contradictions {
        assert!(ask(&mut s, 0, contradiction, 0, b"").is_empty());
    }
    assert_eq!(s.stats().malformed, 6);
}

#[test]
fn keys_of_bindings_are_not_shared() {
    let pools = vec!["203.0.113.1:1024-1025".parse().expect("a pool")];
    let mut s = store(Config { pools, ..config() });
    let inside = [10, 0, 0, 1, 10, 1, 0, 1, 0, 9, 0, 7, 0, 0, 0, 17];
    let binds = Head { flags: Flags { allocate: true, ..Flags::default() }, ..head(Kind::New, 1, 0, 0) };
    ask_key(&mut s, 0, binds, &inside, &[0; 8], b"");
    ask_key(&mut s, 0, head(Kind::Release, 1, 1, 0), &inside, &[0; 8], b"");
    let granted = only(ask_key(&mut s, 0, shared(Kind::New, 2, 0), &inside, &[0; 8], b""));
    assert_eq!((granted.head.status, granted.head.flags.shared), (Status::Ok, false));
}
