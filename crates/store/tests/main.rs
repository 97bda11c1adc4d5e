//! The store, message by message.

/// The fuzz target, here on random bytes and its seeds.
#[path = "../../../fuzz/src/store.rs"]
mod fuzz;

mod bindings;
mod chain;
mod failover;
mod fixed;
mod shared;
mod snapshots;

use pointsman_store::{
    Config, ConfigError, Flags, Head, Idle, Kind, LoadError, Message, Outbox, Saved, Status, Store,
};

const SECRET: [u8; 8] = *b"a secret";
const KEY: [u8; 8] = [7; 8];
const MS: u64 = 1_000_000;
/// The default lease with its drift: when another switch gets the key.
const HOLD: u64 = 1000 * MS + 1000 * MS / 128;

fn config() -> Config {
    Config { secret: SECRET, max_keys: 16, ..Config::default() }
}

fn store(config: Config) -> Store<u16> {
    Store::new(config).expect("settings")
}

/// A request of switch `switch`, in its first incarnation.
fn head(kind: Kind, switch: u16, grant: u32, sequence: u32) -> Head {
    Head { grant, sequence, ..Head::of(kind, switch) }
}

/// An answer: receiver, fields, value, packet.
#[derive(Debug)]
struct Answer {
    to: u16,
    head: Head,
    value: Vec<u8>,
    packet: Vec<u8>,
}

impl Answer {
    /// Receiver, kind, status, grant, sequence.
    fn short(&self) -> (u16, Kind, Status, u32, u32) {
        (self.to, self.head.kind, self.head.status, self.head.grant, self.head.sequence)
    }
}

fn taken(out: &Outbox<u16>) -> Vec<Answer> {
    let read = |(to, bytes)| {
        let m = Message::decode(SECRET, bytes).expect("the store's own message");
        assert!(m.head.answer);
        Answer { to, head: m.head, value: m.value.to_vec(), packet: m.packet.to_vec() }
    };
    out.iter().map(read).collect()
}

fn ask(store: &mut Store<u16>, now: u64, head: Head, value: u32, packet: &[u8]) -> Vec<Answer> {
    ask_key(store, now, head, &KEY, &value.to_be_bytes(), packet)
}

fn ask_key(
    store: &mut Store<u16>,
    now: u64,
    head: Head,
    key: &[u8],
    value: &[u8],
    packet: &[u8],
) -> Vec<Answer> {
    let mut bytes = Vec::new();
    Message { head, key, value, packet }.encode(SECRET, &mut bytes);
    let mut out = Outbox::default();
    store.receive(now, head.switch, &bytes, &mut out);
    taken(&out)
}

fn wake(store: &mut Store<u16>, now: u64) -> Vec<Answer> {
    let mut out = Outbox::default();
    store.wake(now, &mut out);
    taken(&out)
}

fn only(answers: Vec<Answer>) -> Answer {
    let [answer] = <[Answer; 1]>::try_from(answers).expect("one answer");
    answer
}

#[test]
fn a_key_moves_after_its_lease() {
    let mut s = store(Config { recall: false, ..config() });
    let first = only(ask(&mut s, 0, head(Kind::New, 1, 0, 0), 5, b"input"));
    assert_eq!(first.short(), (1, Kind::New, Status::Ok, 1, 0));
    assert_eq!((first.head.flags.created, first.head.lease_us), (true, 1_000_000));
    assert_eq!((first.value, first.packet), (vec![0, 0, 0, 5], b"input".to_vec()));
    let write = only(ask(&mut s, 100 * MS, head(Kind::Write, 1, 1, 1), 6, b"output"));
    assert_eq!((write.short(), write.packet), ((1, Kind::Write, Status::Ok, 1, 1), b"output".to_vec()));
    // The other waits until the lease as the store counts it, from the write on.
    assert!(ask(&mut s, 200 * MS, head(Kind::New, 2, 0, 0), 0, b"moved").is_empty());
    assert_eq!(s.deadline(), Some(100 * MS + HOLD));
    assert!(wake(&mut s, 100 * MS + HOLD - 1).is_empty());
    let moved = only(wake(&mut s, 100 * MS + HOLD));
    assert_eq!(moved.short(), (2, Kind::New, Status::Ok, 2, 1));
    assert_eq!((moved.value, moved.packet), (vec![0, 0, 0, 6], b"moved".to_vec()));
    assert!(!moved.head.flags.created);
    assert_eq!(s.deadline(), None);
    // The first owner's resent write is refused, and its output does not return.
    let stale = only(ask(&mut s, 100 * MS + HOLD, head(Kind::Write, 1, 1, 2), 9, b"output"));
    assert_eq!((stale.short().2, stale.packet.len()), (Status::Stale, 0));
    assert_eq!(s.value(0, &KEY), Some(&[0, 0, 0, 6][..]));
}

#[test]
fn late_and_doubled_messages_change_nothing() {
    let mut s = store(config());
    ask(&mut s, 0, head(Kind::New, 1, 0, u32::MAX - 1), 0, b"");
    for (sequence, applied) in
        [(u32::MAX, u32::MAX), (1, 1), (0, 1), (u32::MAX, 1), (1, 1), (0x8000_0000, 0x8000_0000)]
    {
        let answer = only(ask(&mut s, MS, head(Kind::Write, 1, 1, sequence), sequence, b""));
        assert_eq!(answer.head.sequence, applied, "write {sequence}");
        assert_eq!(answer.value, applied.to_be_bytes(), "write {sequence}");
    }
    assert_eq!((s.stats().writes, s.stats().renewals), (3, 3));
    // A doubled request for the grant gets the same one.
    let again = only(ask(&mut s, 2 * MS, head(Kind::New, 1, 0, 0), 0, b""));
    assert_eq!((again.head.grant, again.head.sequence), (1, 0x8000_0000));
    // The switch gave the state up, or was restarted: another grant, at once. Its earlier requests are late.
    let given_up = Head { generation: 1, ..head(Kind::New, 1, 0, 0) };
    assert_eq!(only(ask(&mut s, 3 * MS, given_up, 0, b"")).head.grant, 2);
    assert!(ask(&mut s, 3 * MS, head(Kind::New, 1, 0, 0), 0, b"").is_empty());
    let restarted = Head { incarnation: 2, ..head(Kind::New, 1, 0, 0) };
    let restarted = only(ask(&mut s, 4 * MS, restarted, 0, b""));
    assert_eq!((restarted.head.grant, restarted.head.sequence), (3, 0x8000_0000));
    assert!(ask(&mut s, 4 * MS, given_up, 0, b"").is_empty());
    assert_eq!(s.stats().late, 2);
    assert_eq!(only(ask(&mut s, 5 * MS, head(Kind::Write, 1, 2, 9), 9, b"")).head.status, Status::Stale);
}

#[test]
fn a_live_owner_releases_a_key_that_is_recalled() {
    let mut s = store(config());
    ask(&mut s, 0, head(Kind::New, 1, 0, 0), 0, b"");
    let recall = only(ask(&mut s, MS, head(Kind::New, 2, 0, 0), 0, b"moved"));
    assert_eq!(recall.short(), (1, Kind::Recall, Status::Ok, 1, 0));
    // While others wait, a write applies and extends nothing.
    let write = only(ask(&mut s, 2 * MS, head(Kind::Write, 1, 1, 1), 1, b""));
    assert_eq!((write.head.lease_us, write.head.sequence), (0, 1));
    let answers = ask(&mut s, 3 * MS, head(Kind::Release, 1, 1, 2), 2, b"");
    let short: Vec<_> = answers.iter().map(Answer::short).collect();
    assert_eq!(short, [(1, Kind::Release, Status::Ok, 1, 2), (2, Kind::New, Status::Ok, 3, 2)]);
    assert_eq!(answers[1].value, [0, 0, 0, 2]);
    assert_eq!(s.deadline(), None);
    // Its doubled release and its late write are of an old grant.
    ask(&mut s, 4 * MS, head(Kind::Release, 1, 1, 2), 2, b"");
    assert_eq!(s.stats().needless_releases, 1);
    assert_eq!(only(ask(&mut s, 4 * MS, head(Kind::Write, 1, 1, 3), 3, b"")).head.status, Status::Stale);
    assert_eq!(s.value(0, &KEY), Some(&[0, 0, 0, 2][..]));
}

#[test]
fn several_wait_for_one_key() {
    let mut s = store(Config { recall: false, queue_per_key: 3, ..config() });
    ask(&mut s, 0, head(Kind::New, 1, 0, 0), 0, b"");
    for switch in [2, 3, 2, 2] {
        assert!(ask(&mut s, MS, head(Kind::New, switch, 0, 0), 0, b"p").is_empty());
    }
    assert_eq!((s.stats().waited, s.stats().queue_full), (3, 1));
    // Both requests of the second switch get its grant; the third waits for the end of that one.
    let granted: Vec<_> = wake(&mut s, HOLD).iter().map(|a| (a.to, a.head.grant)).collect();
    assert_eq!(granted, [(2, 2), (2, 2)]);
    assert_eq!(s.deadline(), Some(2 * HOLD));
    let granted: Vec<_> = wake(&mut s, 2 * HOLD).iter().map(|a| (a.to, a.head.grant)).collect();
    assert_eq!(granted, [(3, 3)]);
}

/// The packets of a switch that has more requests than the queue: the last ones are kept, in the places of the first ones, and those of another switch stay.
#[test]
fn the_last_packets_of_a_switch_wait() {
    let mut s = store(Config { recall: false, queue_per_key: 4, ..config() });
    ask(&mut s, 0, head(Kind::New, 1, 0, 0), 0, b"");
    for (switch, packet) in [(2, b"a"), (2, b"b"), (3, b"x"), (2, b"c"), (2, b"d"), (2, b"e"), (4, b"y")] {
        let flags = Flags { input: true, ..Flags::default() };
        let new = Head { flags, ..head(Kind::New, switch, 0, 0) };
        assert!(ask(&mut s, MS, new, 0, packet).is_empty());
    }
    // A request for another kind of lease replaces none.
    let shared = Flags { input: true, shared: true, ..Flags::default() };
    assert!(ask(&mut s, MS, Head { flags: shared, ..head(Kind::New, 2, 0, 0) }, 0, b"z").is_empty());
    assert_eq!((s.stats().waited, s.stats().queue_full, s.waiting()), (4, 4, 4));
    let granted: Vec<_> = wake(&mut s, HOLD).into_iter().map(|a| (a.to, a.packet)).collect();
    assert_eq!(granted, [(2, b"c".to_vec()), (2, b"d".to_vec()), (2, b"e".to_vec())]);
    let granted: Vec<_> = wake(&mut s, 2 * HOLD).into_iter().map(|a| (a.to, a.packet)).collect();
    assert_eq!(granted, [(3, b"x".to_vec())]);
}

#[test]
fn bad_requests_have_a_counter_and_an_answer() {
    let mut s = store(Config { max_keys: 1, ..config() });
    ask(&mut s, 0, head(Kind::New, 1, 0, 0), 0, b"");
    let status = |answers: Vec<Answer>| only(answers).head.status;
    let new = head(Kind::New, 1, 0, 0);
    assert_eq!(status(ask_key(&mut s, 0, new, &[8; 8], &[0; 4], b"")), Status::Full);
    assert_eq!(status(ask_key(&mut s, 0, new, &KEY, &[0; 8], b"")), Status::Size);
    assert_eq!(status(ask(&mut s, 0, Head { shard: 1, ..new }, 0, b"")), Status::Shard);
    assert_eq!(status(ask_key(&mut s, 0, head(Kind::Write, 1, 1, 1), &[9; 8], &[0; 4], b"")), Status::Stale);
    // An input returns with the refusal: the switch asks again.
    let input = Head { flags: Flags { input: true, ..Flags::default() }, ..head(Kind::Renew, 1, 9, 0) };
    assert_eq!(only(ask(&mut s, 0, input, 0, b"input")).packet, b"input");
    assert!(ask(&mut s, 0, Head { answer: true, ..new }, 0, b"").is_empty());
    assert!(ask(&mut s, 0, head(Kind::Recall, 1, 0, 0), 0, b"").is_empty());
    let mut out = Outbox::default();
    s.receive(0, 1, b"junk", &mut out);
    let mut bytes = Vec::new();
    Message { head: new, key: &KEY, value: &[0; 4], packet: &[] }.encode([0; 8], &mut bytes);
    s.receive(0, 1, &bytes, &mut out);
    assert_eq!(out.iter().count(), 0);
    let c = s.stats();
    assert_eq!((c.full, c.sizes, c.shards, c.stale), (1, 1, 1, 2));
    assert_eq!((c.answers, c.malformed, c.forged), (2, 1, 1));
}

#[test]
fn only_existing_keys_if_asked() {
    let mut store = store(config());
    let mut asks = head(Kind::New, 1, 0, 0);
    asks.flags.existing = true;
    let unknown = only(ask(&mut store, 0, asks, 5, &[]));
    assert_eq!(unknown.short(), (1, Kind::New, Status::Unknown, 0, 0));
    assert_eq!((store.keys(), store.stats().unknown), (0, 1));
    ask(&mut store, 0, head(Kind::New, 2, 0, 0), 5, &[]);
    ask(&mut store, 0, head(Kind::Release, 2, 1, 0), 5, &[]);
    let known = only(ask(&mut store, 0, asks, 9, &[]));
    assert_eq!((known.head.status, known.value), (Status::Ok, 5u32.to_be_bytes().to_vec()));
}

/// What a durable store would write to its disk.
fn rows(store: &mut Store<u16>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let rows = store.changes().map(|saved| saved.encode()).collect();
    store.saved();
    rows
}

#[test]
fn a_store_continues_from_its_disk() {
    let durable = Config { durable: true, ..config() };
    let mut first = store(durable.clone());
    ask(&mut first, 0, head(Kind::New, 1, 0, 0), 5, &[]);
    let granted = rows(&mut first);
    ask(&mut first, 0, head(Kind::Write, 1, 1, 1), 6, &[]);
    let written = rows(&mut first);
    ask(&mut first, 0, head(Kind::Renew, 1, 1, 1), 6, &[]);
    // The end of a lease is not on disk: a lease is waited for.
    assert_eq!((granted.len(), written.len(), rows(&mut first).len()), (1, 1, 0));

    let mut second = store(durable.clone());
    let (key, row) = &written[0];
    second.load(7, HOLD, Saved::decode(key, row).expect("a row")).expect("room");
    assert_eq!(second.load(7, HOLD, Saved::decode(key, row).expect("a row")), Err(LoadError::Twice));
    // Another switch waits for the lease that the first store granted; the owner continues.
    assert!(ask(&mut second, 8, head(Kind::New, 2, 0, 0), 0, &[]).is_empty());
    assert_eq!(second.deadline(), Some(7 + HOLD));
    let owner = only(ask(&mut second, 9, head(Kind::Write, 1, 1, 2), 7, &[]));
    assert_eq!((owner.head.status, owner.head.lease_us), (Status::Ok, 0));
    let moved = only(wake(&mut second, 7 + HOLD));
    assert_eq!(moved.short(), (2, Kind::New, Status::Ok, 2, 2));
    assert_eq!(moved.value, 7u32.to_be_bytes());

    // Every row that is not one is refused, and none is taken for another.
    for at in 0..row.len() {
        assert!(Saved::decode(key, &row[..at]).is_err(), "{at}");
    }
    for marks in [32 | 64, 32 | 128, 1 | 128] {
        let mut owner = row.clone();
        owner[8] = marks;
        assert_eq!(Saved::decode(key, &owner), Err(LoadError::Malformed));
    }
    assert_eq!(Saved::decode(&key[..5], row), Err(LoadError::Malformed));
}

/// A request with a session's lease.
fn in_session(kind: Kind, switch: u16, grant: u32) -> Head {
    Head { flags: Flags { session: true, ..Flags::default() }, ..head(kind, switch, grant, 0) }
}

const OTHER: [u8; 8] = [8; 8];

#[test]
fn a_session_holds_all_keys_of_a_switch() {
    let mut s = store(Config { recall: false, durable: true, ..config() });
    for key in [KEY, OTHER] {
        ask_key(&mut s, 0, in_session(Kind::New, 1, 0), &key, &[0; 4], &[]);
    }
    let disk = rows(&mut s);
    // One key is renewed, and the other one is held with it; its owner is asked for it, again and again.
    let renew = |s: &mut Store<u16>, at: u64| {
        only(ask_key(s, at, in_session(Kind::Renew, 1, 1), &OTHER, &[0; 4], &[])).short().2
    };
    assert_eq!(renew(&mut s, 900 * MS), Status::Ok);
    let recall = only(ask(&mut s, HOLD + MS, head(Kind::New, 2, 0, 0), 0, &[]));
    assert_eq!(recall.short(), (1, Kind::Recall, Status::Ok, 1, 0));
    assert_eq!(s.deadline(), Some(900 * MS + HOLD));
    assert_eq!(renew(&mut s, 1800 * MS), Status::Ok);
    assert_eq!(only(wake(&mut s, 900 * MS + HOLD)).short(), (1, Kind::Recall, Status::Ok, 1, 0));
    // The session ends: so do the leases of both keys.
    let moved = only(wake(&mut s, 1800 * MS + HOLD));
    assert_eq!(moved.short(), (2, Kind::New, Status::Ok, 2, 0));
    // It begins again with one of them. The other one has another owner now.
    assert_eq!(renew(&mut s, 5000 * MS), Status::Ok);
    ask(&mut s, 5000 * MS, head(Kind::Release, 2, 2, 0), 0, &[]);
    assert_eq!(only(ask(&mut s, 5000 * MS, in_session(Kind::New, 1, 0), 0, &[])).head.grant, 4);

    // From the disk: a message about one key holds the other one, as the switch assumes.
    let mut second = store(config());
    for (key, row) in &disk {
        second.load(7, HOLD, Saved::decode(key, row).expect("a row")).expect("room");
    }
    assert_eq!(renew(&mut second, 500 * MS), Status::Ok);
    let recall = only(ask(&mut second, HOLD + MS, head(Kind::New, 2, 0, 0), 0, &[]));
    assert_eq!((recall.head.kind, second.deadline()), (Kind::Recall, Some(500 * MS + HOLD)));
}

#[test]
fn a_new_incarnation_is_another_session() {
    let mut s = store(config());
    for key in [KEY, OTHER] {
        ask_key(&mut s, 0, in_session(Kind::New, 1, 0), &key, &[0; 4], &[]);
    }
    let restarted = Head { incarnation: 2, ..in_session(Kind::New, 1, 0) };
    assert_eq!(only(ask_key(&mut s, 900 * MS, restarted, &OTHER, &[0; 4], &[])).head.grant, 2);
    // The key that it does not ask for is free after the lease of the former one.
    assert_eq!(only(ask(&mut s, HOLD, head(Kind::New, 2, 0, 0), 0, &[])).head.grant, 2);
    // A late message of the former one gets no lease.
    let late = only(ask(&mut s, HOLD, in_session(Kind::New, 3, 0), 0, &[]));
    assert_eq!(late.head.kind, Kind::Recall);
    ask(&mut s, HOLD, head(Kind::Release, 2, 2, 0), 0, &[]);
    let late = only(ask_key(&mut s, HOLD, in_session(Kind::New, 1, 0), &[9; 8], &[0; 4], &[]));
    assert_eq!((late.head.status, late.head.lease_us), (Status::Ok, 0));
}

#[test]
fn a_store_without_a_past_waits_for_a_lease() {
    let mut store = store(config());
    store.hold_back(5);
    assert!(ask(&mut store, 5 + HOLD - 1, head(Kind::New, 1, 0, 0), 5, &[]).is_empty());
    assert_eq!((store.keys(), store.stats().early), (0, 1));
    assert_eq!(ask(&mut store, 5 + HOLD, head(Kind::New, 1, 0, 0), 5, &[]).len(), 1);
}

#[test]
fn settings_are_checked() {
    let error = |config: Config| Store::<u16>::new(config).err();
    assert_eq!(error(config()), None);
    assert_eq!(error(Config { lease_us: 999, ..config() }), Some(ConfigError::Lease));
    assert_eq!(error(Config { drift_shift: 0, ..config() }), Some(ConfigError::Drift));
    assert_eq!(error(Config { shards: 0, ..config() }), Some(ConfigError::Shards));
    assert_eq!(error(Config { max_keys: 0, ..config() }), Some(ConfigError::Keys));
    let pools = |texts: &[&str]| texts.iter().map(|t| t.parse().expect("a pool")).collect();
    let apart = pools(&["1.1.1.1:1-9", "1.1.1.1:10-19", "1.1.1.2:1-9"]);
    assert_eq!(error(Config { pools: apart, ..config() }), None);
    let common = pools(&["1.1.1.1:1-9", "1.1.1.1:9-19"]);
    assert_eq!(error(Config { pools: common, ..config() }), Some(ConfigError::Pools));
    let idle = Idle { udp_s: 0, ..Idle::default() };
    assert_eq!(error(Config { idle, ..config() }), Some(ConfigError::Idle));
}

#[test]
fn junk_and_seeds_of_the_fuzzer() {
    let mut random = pointsman_wire::Random::new(1);
    for round in 0..2000 {
        // Small numbers make requests that fit each other.
        let small = if round % 2 == 0 { 8 } else { 256 };
        let bytes: Vec<u8> = (0..800).map(|_| random.below(small) as u8).collect();
        fuzz::run(&bytes);
        fuzz::chain::run(&bytes);
    }
    let seeds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/store");
    for seed in std::fs::read_dir(seeds).expect("seeds") {
        fuzz::run(&std::fs::read(seed.expect("an entry").path()).expect("readable"));
    }
}

/// Two starts of "switch 1" that are in two places, both with session leases or not.
fn twins(session: bool) {
    let config = Config { recall: false, ..config() };
    let lease = u64::from(config.lease_us) * 1000;
    let mut s = store(config);
    let mut out = Outbox::default();
    let mut send = |now: u64, from: u16, incarnation: u32, kind: Kind, grant: u32| {
        let flags = Flags { session, ..Flags::default() };
        let head = Head { incarnation, flags, ..head(kind, 1, grant, 1) };
        let mut bytes = Vec::new();
        Message { head, key: &KEY, value: &[0; 4], packet: &[] }.encode(SECRET, &mut bytes);
        out.clear();
        s.receive(now, from, &bytes, &mut out);
        (taken(&out).iter().map(Answer::short).collect::<Vec<_>>(), s.shared_numbers(), s.stats())
    };
    let (answers, ..) = send(0, 10, 5, Kind::New, 0);
    assert_eq!(answers, [(10, Kind::New, Status::Ok, 1, 1)]);
    // A later start at another place is not known to be the same switch: it waits for the end of the lease.
    let (answers, shared, stats) = send(lease / 2, 11, 6, Kind::New, 0);
    // A session's keys are always asked for, where their owner is.
    let recalls = session.then_some((10, Kind::Recall, Status::Ok, 1, 1));
    assert_eq!(answers, recalls.into_iter().collect::<Vec<_>>());
    assert!(shared.is_empty() && stats.waited == 1, "{shared:?} {stats:?}");
    // The former start still sends, and keeps its key; the number is reported once.
    let (answers, shared, stats) = send(lease / 2 + 1, 10, 5, Kind::Write, 1);
    assert_eq!((answers[0].2, answers[0].3), (Status::Ok, 1));
    assert_eq!((shared, stats.twins), (vec![1], 1));
    let (_, shared, stats) = send(lease / 2 + 2, 10, 5, Kind::Write, 1);
    assert_eq!((shared, stats.twins), (vec![], 2));
    // After the lease the later start gets the key.
    let answers = wake(&mut s, lease * 3);
    assert_eq!(answers.iter().map(|a| (a.to, a.head.grant)).collect::<Vec<_>>(), [(11, 2)]);
}

#[test]
fn two_switches_with_one_number_do_not_share_a_key() {
    twins(false);
    twins(true);
}

#[test]
fn a_switch_that_restarts_where_it_was_gets_its_keys_at_once() {
    let mut s = store(config());
    ask(&mut s, 0, head(Kind::New, 1, 0, 0), 5, b"");
    let again = only(ask(&mut s, 1, Head { incarnation: 2, ..head(Kind::New, 1, 0, 0) }, 5, b""));
    assert_eq!(again.short(), (1, Kind::New, Status::Ok, 2, 0));
    assert!(s.shared_numbers().is_empty() && s.stats().twins == 0);
}
