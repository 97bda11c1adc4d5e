//! Action selectors under random changes: native code, which has groups as rows of its own, against the interpreter.

use pointsman_engine::Engine;
use pointsman_interp::Interp;
use pointsman_ir::{ActionCall, Bits, Entry, EntryAction, Executor, KeyMatch, TableId, Value};
use pointsman_testkit::compile::{compile, own_includes};
use pointsman_testkit::random::Random;
use pointsman_testkit::rig::Rig;
use pointsman_v1model::{
    Group, GroupMember, HashAlgorithm, OneShot, OneShotMember, State, SwitchConfig, Time,
};
use std::path::Path;
use std::sync::Arc;

const KEYS: u64 = 4;
const GROUPS: u32 = 4;
const MEMBERS: u32 = 6;
const PORTS: u32 = 4;

/// A change of one of the program's selectors or its tables. Some are refused, by both alike.
#[derive(Clone, Debug)]
enum Change {
    Member { id: u32, call: ActionCall, new: bool },
    Group { id: u32, group: Group, new: bool },
    DeleteGroup(u32),
    DeleteMember(u32),
    Entry { table: usize, key: u64, action: EntryAction },
    OneShot { table: usize, key: u64, group: OneShot },
    DeleteEntry { table: usize, key: u64 },
    Port { port: u32, up: bool },
}

/// Tables of a selector that one-shot groups use, or members and groups; the calls that members may have; the file of their program, from
/// this crate.
struct Subject {
    file: &'static str,
    tables: &'static [&'static str],
    actions: u32,
    one_shots: bool,
}

fn call(random: &mut Random, actions: u32) -> ActionCall {
    let action = random.below(actions as usize) as u32;
    ActionCall { action, args: vec![Value::Bits(Bits::new(16, random.below(1 << 16) as u128))] }
}

fn watch(random: &mut Random) -> Option<u32> {
    random.one_in(2).then(|| random.below(PORTS as usize) as u32)
}

fn change(random: &mut Random, subject: &Subject) -> Change {
    let (table, key) = (random.below(subject.tables.len()), random.below(KEYS as usize) as u64);
    let (id, member) = (random.below(GROUPS as usize) as u32, random.below(MEMBERS as usize) as u32);
    let size = random.below(4);
    match random.below(9) {
        0 => Change::Port { port: random.below(PORTS as usize) as u32, up: random.one_in(2) },
        1 => Change::DeleteEntry { table, key },
        _ if subject.one_shots => {
            let of = |random: &mut Random| OneShotMember {
                call: Arc::new(call(random, subject.actions)),
                weight: 1 + random.below(3) as u32,
                watch_port: watch(random),
            };
            let members = (0..size).map(|_| of(random)).collect();
            let algorithm = random.one_in(4).then_some(HashAlgorithm::Crc16);
            Change::OneShot { table, key, group: OneShot { members, algorithm, counts_members: None } }
        }
        2 => Change::Member { id: member, call: call(random, subject.actions), new: true },
        3 => Change::Member { id: member, call: call(random, subject.actions), new: false },
        4 => Change::DeleteMember(member),
        5 => Change::DeleteGroup(id),
        n @ (6 | 7) => {
            let of = |random: &mut Random| GroupMember {
                member: random.below(MEMBERS as usize) as u32,
                weight: 1 + random.below(3) as u32,
                watch_port: watch(random),
            };
            let members = (0..size).map(|_| of(random)).collect();
            Change::Group { id, group: Group { members, max_size: 0 }, new: n == 6 }
        }
        _ if random.one_in(4) => Change::Entry { table, key, action: EntryAction::Member(member) },
        _ => Change::Entry { table, key, action: EntryAction::Group(id) },
    }
}

/// Makes a change; whether it was taken, in words.
fn make(state: &mut State, now: Time, tables: &[TableId], change: &Change) -> String {
    let profile = state.table(tables[0]).and_then(|t| t.profile()).expect("a selector");
    let matches = |key: u64| vec![KeyMatch::Exact(Bits::new(8, key.into()))];
    let entry = |key, action| Entry {
        matches: matches(key),
        priority: 0,
        is_const: false,
        metadata: Vec::new(),
        action,
        idle_timeout_ns: 0,
    };
    let put = |state: &mut State, table: TableId, entry: Entry| match state.insert(now, table, entry.clone())
    {
        Err(_) => format!("{:?}", state.modify(now, table, entry).map(|_| ())),
        Ok(_) => "inserted".into(),
    };
    match change.clone() {
        Change::Member { id, call, new: true } => format!("{:?}", state.insert_member(profile, id, call)),
        Change::Member { id, call, new: false } => format!("{:?}", state.modify_member(profile, id, call)),
        Change::Group { id, group, new: true } => format!("{:?}", state.insert_group(profile, id, group)),
        Change::Group { id, group, new: false } => format!("{:?}", state.modify_group(profile, id, group)),
        Change::DeleteGroup(id) => format!("{:?}", state.delete_group(profile, id)),
        Change::DeleteMember(id) => format!("{:?}", state.delete_member(profile, id)),
        Change::Entry { table, key, action } => put(state, tables[table], entry(key, action)),
        Change::OneShot { table, key, group } => match state.insert_one_shot(profile, group) {
            Err(e) => format!("{e:?}"),
            Ok(number) => {
                // An entry has one; that of the entry that it replaces goes.
                let old = remove(state, tables[table], &matches(key));
                format!("{old:?} {}", put(state, tables[table], entry(key, EntryAction::Group(number))))
            }
        },
        Change::DeleteEntry { table, key } => format!("{:?}", remove(state, tables[table], &matches(key))),
        Change::Port { port, up } => {
            state.set_port_status(port, up);
            String::new()
        }
    }
}

/// Removes an entry, with its one-shot group.
fn remove(state: &mut State, table: TableId, matches: &[KeyMatch]) -> Option<EntryAction> {
    let action = state.delete(table, matches, 0).ok()?.action;
    let profile = state.table(table).and_then(|t| t.profile())?;
    if let EntryAction::Group(number) = action
        && state.profile(profile).is_some_and(|p| p.one_shot(number).is_some())
    {
        state.delete_one_shot(profile, number).expect("it was there");
    }
    Some(action)
}

fn rig<E: Executor>(file: &str) -> Rig<E> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let program = compile(&path, &[&own_includes()]).unwrap_or_else(|e| panic!("{e}"));
    Rig::on(program, SwitchConfig::default()).expect("a rig")
}

/// Makes changes and sends packets to both; how many packets got an action from a group.
fn run(seed: u64, subject: &Subject) -> u64 {
    let (mut random, mut spread) = (Random::new(seed), 0);
    let (mut slow, mut fast) = (rig::<Interp>(subject.file), rig::<Engine>(subject.file));
    let mut done = Vec::new();
    for n in 0..60 {
        let change = match u32::try_from(n) {
            Ok(id) if id < MEMBERS && !subject.one_shots => {
                Change::Member { id, call: call(&mut random, subject.actions), new: true }
            }
            _ => change(&mut random, subject),
        };
        fn apply<E: Executor>(rig: &mut Rig<E>, subject: &Subject, change: &Change) -> String {
            let now = rig.now;
            let state = rig.switch.state_mut().expect("a program");
            let id = |name: &&str| {
                let found = state.program().tables.iter().position(|t| t.name == *name);
                TableId(found.expect("a table") as u32)
            };
            let tables: Vec<TableId> = subject.tables.iter().map(id).collect();
            make(state, now, &tables, change)
        }
        let results = (apply(&mut slow, subject, &change), apply(&mut fast, subject, &change));
        assert_eq!(results.0, results.1, "seed {seed}: {change:?}");
        done.push(change);
        for _ in 0..8 {
            let packet = [random.below(KEYS as usize) as u8, random.below(256) as u8, 0, 0];
            let (a, b) = (slow.send(0, &packet), fast.send(0, &packet));
            assert_eq!(a, b, "seed {seed}: {packet:?} after {done:?}");
            spread += u64::from(
                format!("{a:?}")
                    != format!("{:?}", vec![pointsman_v1model::Output::Port(1, packet.to_vec())]),
            );
        }
    }
    assert_eq!(slow.switch.stats(), fast.switch.stats(), "seed {seed}: {done:?}");
    spread
}

#[test]
fn native_groups_are_those_of_the_interpreter() {
    let (file, widths) = ("tests/v1model/selector.p4", "tests/data/selectors.p4");
    let subjects = [
        Subject { file, tables: &["I.selected"], actions: 2, one_shots: false },
        Subject { file, tables: &["I.selected"], actions: 2, one_shots: true },
        Subject { file, tables: &["I.first", "I.second"], actions: 3, one_shots: false },
        Subject { file, tables: &["I.first"], actions: 3, one_shots: true },
        Subject { file: widths, tables: &["I.selected"], actions: 2, one_shots: false },
        Subject { file: widths, tables: &["I.selected"], actions: 2, one_shots: true },
    ];
    for subject in &subjects {
        let spread: u64 = (0..60).map(|seed| run(seed, subject)).sum();
        assert!(spread > 1000, "{:?}: {spread}", subject.tables);
    }
}
