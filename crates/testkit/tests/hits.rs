//! What packets note about entries (direct counters and meters, times of hits) under random changes by the control plane: native code,
//! which notes it by itself, against the interpreter, and both against counts that are kept here.

use pointsman_engine::Engine;
use pointsman_interp::Interp;
use pointsman_ir::{ActionCall, Bits, Entry, EntryAction, EntryHandle, Executor, KeyMatch, TableId, Value};
use pointsman_testkit::compile::{compile_with, own_includes};
use pointsman_testkit::random::Random;
use pointsman_testkit::rig::Rig;
use pointsman_v1model::{
    Arrived, CounterCell, Group, GroupMember, Keep, MeterConfig, Output, Pipeline, State, SwitchConfig, Time,
    Worker,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Keys of entries. Packets have twice as many.
const KEYS: usize = 12;
const TABLES: [&str; 6] = ["I.exact_keys", "I.masked", "I.prefix", "I.timed", "I.spread", "E.out_keys"];
const GROUPS: u32 = 3;

/// A change of one table.
#[derive(Clone, Debug)]
enum Change {
    Put {
        table: usize,
        key: u8,
        value: u8,
        timeout: u64,
    },
    Delete {
        table: usize,
        key: u8,
    },
    /// Deletes an entry, puts another one into its place and takes that away again, then puts the first one back as it was.
    PutBack {
        table: usize,
        key: u8,
    },
    Count {
        table: usize,
        key: Option<u8>,
        cell: CounterCell,
    },
    Measure {
        key: Option<u8>,
        rate: u64,
    },
    /// The state becomes a value and is put back.
    Restore,
    /// The same program is loaded again and keeps what it can.
    Reload,
}

fn change(random: &mut Random) -> Change {
    let (table, key) = (random.below(TABLES.len()), random.below(KEYS) as u8);
    let some = |random: &mut Random| (!random.one_in(4)).then_some(key);
    match random.below(40) {
        0..=19 => {
            let timeout = if random.one_in(2) { 0 } else { 1_000 + random.below(20_000) as u64 };
            Change::Put { table, key, value: random.below(64) as u8, timeout }
        }
        20..=26 => Change::Delete { table, key },
        27..=30 => Change::PutBack { table, key },
        31..=34 => {
            let cell = CounterCell { packets: random.below(1000) as u64, bytes: random.below(1000) as u64 };
            Change::Count { table, key: some(random), cell }
        }
        35..=37 => Change::Measure { key: some(random), rate: random.below(3_000_000) as u64 },
        38 => Change::Restore,
        _ => Change::Reload,
    }
}

fn matches(table: usize, key: u8) -> Vec<KeyMatch> {
    let value = Bits::new(8, key.into());
    vec![match TABLES[table] {
        "I.masked" => KeyMatch::Ternary { value, mask: Bits::ones(8) },
        "I.prefix" => KeyMatch::Lpm { value, prefix_len: 8 },
        _ => KeyMatch::Exact(value),
    }]
}

fn entry(table: usize, key: u8, value: u8, timeout: u64) -> Entry {
    let call = ActionCall { action: 0, args: vec![Value::Bits(Bits::new(8, value.into()))] };
    let timed = ["I.exact_keys", "I.timed", "I.spread"].contains(&TABLES[table]);
    Entry {
        matches: matches(table, key),
        priority: i32::from(TABLES[table] == "I.masked"),
        action: match TABLES[table] {
            "I.spread" => EntryAction::Group(1 + u32::from(value) % GROUPS),
            _ => EntryAction::Call(Arc::new(call)),
        },
        is_const: false,
        metadata: Vec::new(),
        idle_timeout_ns: if timed { timeout } else { 0 },
    }
}

/// Deletes an entry, puts another one into its place, and puts the first one back as it was: where it was, if the other one leaves `first`.
fn put_back(state: &mut State, table: TableId, handle: EntryHandle, other: Entry, first: bool) -> String {
    let saved = state.save_entry(table, handle).expect("it is there");
    let remove = |state: &mut State, e: &Entry| {
        state.delete(table, &e.matches, e.priority).expect("it is there");
    };
    remove(state, saved.entry());
    state.insert(Time(0), table, other.clone()).expect("room");
    if first {
        remove(state, &other);
    }
    state.restore_entry(table, saved).expect("its place is free");
    if !first {
        remove(state, &other);
    }
    "back".into()
}

/// A switch, and who processes its packets: workers in turns, or the switch itself.
struct Subject<E: Executor> {
    rig: Rig<E>,
    workers: Vec<Worker<E>>,
    ids: Vec<TableId>,
    idle: u64,
}

impl<E: Executor> Subject<E> {
    fn new(workers: usize, macros: &[&str]) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/hits.p4");
        let program = compile_with(&path, &[&own_includes()], macros).unwrap_or_else(|e| panic!("{e}"));
        let id = |name: &&str| program.tables.iter().position(|t| t.name == **name).expect("a table");
        let ids = TABLES.iter().map(|name| TableId(id(name) as u32)).collect();
        let mut rig = Rig::<E>::on(program, SwitchConfig::default()).expect("a rig");
        rig.switch.executor().into_iter().for_each(E::complete);
        let workers = rig.switch.add_workers(workers);
        let mut subject = Subject { rig, workers, ids, idle: 0 };
        subject.fill_groups();
        subject
    }

    fn fill_groups(&mut self) {
        let state = self.rig.state();
        let spread = self.ids[4];
        let profile = state.table(spread).and_then(|t| t.profile()).expect("a selector");
        for id in 1..=4 {
            let call = ActionCall { action: 0, args: vec![Value::Bits(Bits::new(8, u128::from(id)))] };
            state.insert_member(profile, id, call).expect("a member");
        }
        // The last one has no members.
        for (id, members) in [(1, &[1, 2, 3][..]), (2, &[4]), (GROUPS, &[])] {
            let member = |m: &u32| GroupMember { member: *m, weight: 1, watch_port: None };
            let group = Group { members: members.iter().map(member).collect(), max_size: 0 };
            state.insert_group(profile, id, group).expect("a group");
        }
    }

    /// Makes a change; whether it was taken, in words.
    fn make(&mut self, change: &Change) -> String {
        let (now, ids) = (self.rig.now, self.ids.clone());
        let state = self.rig.state();
        let find = |state: &State, table: usize, key: u8| {
            let store = state.table(ids[table])?.store();
            store.find(&matches(table, key), i32::from(TABLES[table] == "I.masked"))
        };
        match *change {
            Change::Put { table, key, value, timeout } => {
                let entry = entry(table, key, value, timeout);
                match state.insert(now, ids[table], entry.clone()) {
                    Ok(_) => "inserted".into(),
                    Err(_) => format!("{:?}", state.modify(now, ids[table], entry).map(|_| ())),
                }
            }
            Change::Delete { table, key } => {
                let done =
                    state.delete(ids[table], &matches(table, key), i32::from(TABLES[table] == "I.masked"));
                format!("{:?}", done.is_ok())
            }
            Change::PutBack { table, key } => match find(state, table, key) {
                Some(handle) => put_back(state, ids[table], handle, entry(table, 100, 1, 0), key % 2 == 0),
                None => "none".into(),
            },
            Change::Count { table, key, cell } => {
                let handle = key.map(|key| find(state, table, key));
                match handle {
                    Some(None) => "none".into(),
                    handle => format!("{:?}", state.set_direct_counter(ids[table], handle.flatten(), cell)),
                }
            }
            Change::Measure { key, rate } => {
                let handle = key.map(|key| find(state, 2, key));
                let config = MeterConfig { cir: rate, cburst: 2, pir: 2 * rate, pburst: 3 };
                match handle {
                    Some(None) => "none".into(),
                    handle => {
                        format!("{:?}", state.set_direct_meter(now, ids[2], handle.flatten(), Some(config)))
                    }
                }
            }
            Change::Restore => {
                let saved = self.rig.switch.export(now).expect("a program");
                self.rig.switch.restore(now, &saved).expect("its own state");
                let again = self.rig.switch.export(now).expect("a program");
                assert_eq!(again, saved);
                "restored".into()
            }
            Change::Reload => {
                let pipeline = Pipeline::load(self.rig.program().clone()).expect("it was loaded before");
                self.rig.switch.set_pipeline(now, pipeline, Keep::Fitting).expect("it was loaded before");
                self.rig.switch.executor().into_iter().for_each(E::complete);
                "loaded".into()
            }
        }
    }

    /// A packet passes, `turn` says by which worker.
    fn send(&mut self, packet: &[u8], turn: usize) -> Vec<Output> {
        self.rig.now = self.rig.now.plus_ns(700);
        let now = self.rig.now;
        let count = self.workers.len();
        let Some(worker) = self.workers.get_mut(turn % (count + 1)) else { return self.rig.send(3, packet) };
        let mut buffer = [&[0; 32], packet].concat();
        let mut out = Vec::new();
        let arrived = Arrived { port: 3, buffer: &mut buffer, start: 32 };
        worker.process(&self.rig.switch, now, 100, &mut [arrived], &mut out);
        while worker.poll(&self.rig.switch, now, 100, &mut out).more {}
        out
    }

    fn expire(&mut self) -> String {
        let now = self.rig.now;
        let idle = self.rig.switch.take_idle(now, 100);
        self.idle += idle.len() as u64;
        format!("{idle:?}")
    }

    /// Everything that was noted.
    fn seen(&mut self) -> String {
        let (now, ids) = (self.rig.now, self.ids.clone());
        let state = self.rig.state();
        let always =
            TableId(state.program().tables.iter().position(|t| t.name == "I.always").expect("it") as u32);
        let mut all = Vec::new();
        for table in ids.into_iter().chain([always]) {
            for handle in state.entries(table).map(|(handle, _)| Some(handle)).chain([None]) {
                let counter = state.direct_counter(table, handle).ok();
                let meter = state.direct_meter(table, handle).map(|m| (m.config(), m.marked())).ok();
                let idle = handle.and_then(|h| state.idle_ns(now, table, h).ok());
                all.push((table, handle, counter, meter, idle));
            }
        }
        format!("{all:?}")
    }

    /// The counts of a table's entries by their keys, and those of the default action.
    fn counts(&mut self, table: usize) -> BTreeMap<Option<u8>, CounterCell> {
        let id = self.ids[table];
        let state = self.rig.state();
        let handles: Vec<_> = state.entries(id).map(|(h, e)| (Some(h), Some(e.matches))).collect();
        let key = |matches: &[KeyMatch]| match &matches[0] {
            KeyMatch::Exact(v) => v.low_u64() as u8,
            other => panic!("{other:?}"),
        };
        let count = |(handle, matches): (_, Option<Vec<KeyMatch>>)| {
            (matches.map(|m| key(&m)), state.direct_counter(id, handle).expect("a counter"))
        };
        handles.into_iter().chain([(None, None)]).map(count).collect()
    }
}

/// The counts of an exact table, kept without a switch.
struct Expected {
    table: usize,
    bytes_only: bool,
    counts: BTreeMap<Option<u8>, CounterCell>,
}

impl Expected {
    fn new(table: usize, bytes_only: bool) -> Self {
        Expected { table, bytes_only, counts: [(None, CounterCell::default())].into() }
    }

    fn make(&mut self, change: &Change) {
        match *change {
            Change::Put { table, key, .. } if table == self.table => {
                self.counts.entry(Some(key)).or_default();
            }
            Change::Delete { table, key } if table == self.table => {
                self.counts.remove(&Some(key));
            }
            Change::Count { table, key, cell } if table == self.table => {
                if let Some(count) = self.counts.get_mut(&key) {
                    *count = if self.bytes_only { CounterCell { packets: 0, ..cell } } else { cell };
                }
            }
            _ => {}
        }
    }

    /// A packet passes, perhaps twice: the second time it has grown.
    fn send(&mut self, packet: &[u8]) {
        let Some([key, _, flags, _]) = packet.first_chunk::<4>() else { return };
        let bytes = packet.len() as u64;
        let grown = if flags & 1 != 0 { 4 } else { 0 };
        let passes = if flags & 2 != 0 { vec![bytes, bytes + grown] } else { vec![bytes] };
        for bytes in passes {
            let at = if self.counts.contains_key(&Some(*key)) { Some(*key) } else { None };
            let count = self.counts.entry(at).or_default();
            count.packets += u64::from(!self.bytes_only);
            count.bytes += bytes;
        }
    }
}

/// Makes changes and sends packets to all; how many entries were idle.
fn run(seed: u64, macros: &[&str]) -> u64 {
    let mut random = Random::new(seed);
    let (mut slow, mut fast) = (Subject::<Interp>::new(0, macros), Subject::<Engine>::new(0, macros));
    let mut shared = Subject::<Engine>::new(2, macros);
    let mut expected = [Expected::new(0, false), Expected::new(5, true)];
    let mut done = Vec::new();
    for _ in 0..120 {
        let change = change(&mut random);
        let results = [slow.make(&change), fast.make(&change), shared.make(&change)];
        expected.iter_mut().for_each(|e| e.make(&change));
        done.push(change);
        assert!(results.iter().all(|r| *r == results[0]), "seed {seed}: {results:?} after {done:?}");
        for _ in 0..6 {
            let more = random.below(20);
            let mut packet = random.bytes(4 + more);
            packet[0] %= 2 * KEYS as u8;
            let turn = random.below(3);
            let left = [slow.send(&packet, turn), fast.send(&packet, turn), shared.send(&packet, turn)];
            expected.iter_mut().for_each(|e| e.send(&packet));
            assert!(left.iter().all(|l| *l == left[0]), "seed {seed}: {packet:?} {left:?} after {done:?}");
        }
        let seen = [slow.seen(), fast.seen(), shared.seen()];
        assert_eq!(seen[0], seen[1], "seed {seed}: after {done:?}");
        assert_eq!(seen[0], seen[2], "seed {seed}, workers: after {done:?}");
        for expected in &expected {
            assert_eq!(fast.counts(expected.table), expected.counts, "seed {seed}: after {done:?}");
        }
        let idle = [slow.expire(), fast.expire(), shared.expire()];
        assert!(idle.iter().all(|i| *i == idle[0]), "seed {seed}: {idle:?} after {done:?}");
    }
    assert_eq!(slow.rig.switch.stats(), fast.rig.switch.stats(), "seed {seed}: {done:?}");
    slow.idle
}

#[test]
fn native_hits_are_those_of_the_interpreter() {
    let idle: u64 = (0..12).map(|seed| run(seed, &[])).sum();
    assert!(idle > 50, "{idle}");
}

/// Blocks one by one: code that is not one piece notes hits, too.
#[test]
fn hits_of_blocks_are_those_of_the_interpreter() {
    (0..4).for_each(|seed| {
        run(seed, &["BLOCKS"]);
    });
}

/// The time of a hit is that of its packet.
#[test]
fn times_of_hits() {
    let mut subject = Subject::<Engine>::new(1, &[]);
    subject.make(&Change::Put { table: 3, key: 1, value: 0, timeout: 5_000 });
    let id = subject.ids[3];
    let handle = subject.rig.state().entries(id).next().expect("an entry").0;
    let begin = subject.rig.now;
    for turn in [0, 1, 0] {
        subject.rig.now = subject.rig.now.plus_ns(3_000);
        subject.send(&[1, 0, 0, 0], turn);
        subject.send(&[2, 0, 0, 0], turn);
        let now = subject.rig.now;
        assert_eq!(subject.rig.state().idle_ns(now, id, handle), Ok(700), "worker {turn}");
        assert_eq!(subject.expire(), "[]");
    }
    assert_eq!(subject.rig.now, Time(begin.0 + 3 * (3_000 + 2 * 700)));
    // The control plane is ahead of the packet.
    let later = subject.rig.now.plus_ns(5_000);
    subject.rig.state().modify(later, id, entry(3, 1, 0, 5_000)).expect("an entry");
    subject.send(&[1, 0, 0, 0], 1);
    assert_eq!(subject.rig.state().idle_ns(later.plus_ns(9), id, handle), Ok(9));
    subject.rig.now = later.plus_ns(5_000);
    assert!(subject.expire().contains("IdleEntry"), "nothing has hit it for so long");
}
