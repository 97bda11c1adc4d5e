//! The control plane's view of a running program.

use crate::State;
use crate::fake::{bits, program};
use crate::state::{Access, Own};
use crate::*;
use pointsman_ir::table::flat::row;
use pointsman_ir::*;

const EXACT: TableId = TableId(0);
const TERNARY: TableId = TableId(1);
const SELECTED: TableId = TableId(2);
const PROFILE: ExternInstanceId = ExternInstanceId(2);
const REGISTER: ExternInstanceId = ExternInstanceId(3);
const COUNTER: ExternInstanceId = ExternInstanceId(4);
const METER: ExternInstanceId = ExternInstanceId(5);

fn instance(name: &str, object: &str, type_args: Vec<TypeId>, args: &[(&str, Const)]) -> ExternInstance {
    ExternInstance {
        name: name.into(),
        object: object.into(),
        type_args,
        args: args.iter().map(|(n, c)| (n.to_string(), c.clone())).collect(),
        annotations: Annotations::default(),
        span: Span::default(),
    }
}

/// Tables: `exact` with direct counter, direct meter and idle timeouts, `ternary` with one entry of the program's,
/// `selected` with an action selector. Actions: 0 takes a byte, 1 takes nothing.
fn full_program() -> Program {
    let mut p = program();
    let byte = p.types.intern(Type::Bit(8));
    for (name, members) in [("CounterType", ["packets", "bytes"]), ("MeterType", ["packets", "bytes"])] {
        let members = members.map(String::from).to_vec();
        p.types.intern(Type::Enum(EnumDef { name: name.into(), members }));
    }
    let ordinal = |n| Const::Value(Value::Enum(n));
    let size = |n: i32| Const::Int(n.into());
    let selector = [("algorithm", ordinal(0)), ("size", size(4)), ("outputWidth", size(16))];
    p.externs = vec![
        instance("dc", "direct_counter", vec![], &[("type", ordinal(1))]),
        instance("dm", "direct_meter", vec![byte], &[("type", ordinal(0))]),
        instance("sel", "action_selector", vec![], &selector),
        instance("reg", "register", vec![byte], &[("size", size(3))]),
        instance("cnt", "counter", vec![], &[("size", size(3)), ("type", ordinal(0))]),
        instance("met", "meter", vec![], &[("size", size(3)), ("type", ordinal(0))]),
    ];
    p.value_sets.push(ValueSet {
        name: "vs".into(),
        elem: byte,
        size: 2,
        annotations: Annotations::default(),
    });
    for (name, params) in [("set", 1), ("nop", 0)] {
        let params: Vec<_> = (0..params)
            .map(|_| Param {
                name: "x".into(),
                direction: Direction::None,
                ty: byte,
                annotations: Annotations::default(),
            })
            .collect();
        p.actions.push(Action {
            name: name.into(),
            control: None,
            frame: Frame {
                vars: params.iter().map(|q| Var { name: "x".into(), ty: q.ty }).collect(),
                params,
            },
            body: vec![],
            annotations: Annotations::default(),
            span: Span::default(),
        });
    }
    let key = |match_kind| Key {
        name: "k".into(),
        expr: Expr { kind: ExprKind::Const(bits(8, 0)), ty: byte, span: Span::default() },
        match_kind,
        annotations: Annotations::default(),
    };
    let action = |i| TableAction {
        action: ActionId(i),
        setup: vec![],
        bound: vec![],
        default_only: false,
        table_only: false,
        annotations: Annotations::default(),
    };
    let table = |name: &str, keys: &[MatchKind], properties: &[(&str, u32)]| Table {
        name: name.into(),
        control: ControlId(1),
        keys: keys.iter().map(|k| key(*k)).collect(),
        actions: vec![action(0), action(1)],
        default_action: ActionCall { action: 1, args: vec![] },
        const_default: false,
        entries: vec![],
        const_entries: false,
        size: Some(2),
        extern_properties: properties.iter().map(|(n, e)| (n.to_string(), ExternInstanceId(*e))).collect(),
        const_properties: vec![],
        annotations: Annotations::default(),
        span: Span::default(),
    };
    let mut exact = table("exact", &[MatchKind::Exact], &[("counters", 0), ("meters", 1)]);
    exact.const_properties = vec![("support_timeout".into(), Const::Value(Value::Bool(true)))];
    let mut ternary = table("ternary", &[MatchKind::Ternary], &[]);
    ternary.entries =
        vec![Entry { matches: vec![mask(0, 0)], priority: 1, is_const: true, ..entry(1, set(9)) }];
    let selected = table("selected", &[MatchKind::Exact, MatchKind::Selector], &[("implementation", 2)]);
    p.tables = vec![exact, ternary, selected];
    p
}

fn set(x: u32) -> EntryAction {
    EntryAction::Call(call(x).into())
}

fn call(x: u32) -> ActionCall {
    ActionCall { action: 0, args: vec![bits(8, x)] }
}

fn mask(value: u128, mask: u128) -> KeyMatch {
    KeyMatch::Ternary { value: Bits::new(8, value), mask: Bits::new(8, mask) }
}

fn entry(key: u128, action: EntryAction) -> Entry {
    Entry {
        matches: vec![KeyMatch::Exact(Bits::new(8, key))],
        priority: 0,
        action,
        is_const: false,
        metadata: vec![],
        idle_timeout_ns: 0,
    }
}

/// A state that keeps flat tables too, see [`look`].
fn state() -> State {
    let mut s = State::new(&Pipeline::load(full_program()).unwrap(), &SwitchConfig::default());
    s.build_flat();
    s
}

/// The row that the flat table gives, read like [`look`]; `None`: the store has to be asked.
fn look_flat(
    s: &State,
    own: &mut Own,
    table: TableId,
    key: u128,
    selectors: &[Bits],
) -> Option<(u64, String)> {
    let flat = &s.flat[table.index()];
    let mut found = flat.find(&[key as u64]);
    let head = found[0];
    if head & row::GROUP != 0 {
        let group = found[row::DATA];
        let mut packed = BitBuffer::default();
        selectors.iter().for_each(|b| packed.push(b));
        let hash = flat.knows_group(group).then(|| s.select(own, table, packed.bytes())).flatten()?;
        found = flat.member(group, hash)?;
    }
    let call = match found[0] & row::ACTION {
        row::ACTION => "nothing".into(),
        0 => format!("set {}", found[row::DATA]),
        _ => "nop".into(),
    };
    let hit = if found[0] & row::HIT != 0 { "hit" } else { "miss" };
    (found[0] & row::ASK == 0).then(|| (head, format!("{hit} {call}")))
}

/// The result of a packet of 100 bytes with this key: action and first argument. Store and flat table must agree.
fn look(s: &mut State, now: u64, table: TableId, key: u128, selectors: &[Bits]) -> String {
    let own = &mut Own::new(&SwitchConfig::default());
    let flat = look_flat(s, own, table, key, selectors);
    let found = Access::Alone(s).lookup(own, (Time(now), 100), table, &[Bits::new(8, key)], selectors);
    let call = found.action.map_or("nothing".into(), |c| match c.args.first() {
        Some(v) => format!("set {}", v.to_bits().unwrap().low_u64()),
        None => "nop".into(),
    });
    let found = format!("{} {call}", if found.hit.is_some() { "hit" } else { "miss" });
    match flat {
        Some((_, row)) => assert_eq!(row, found),
        None => assert_eq!(found, "hit nothing", "only a group without live members has to be asked for"),
    }
    found
}

#[test]
fn entries_are_checked_and_found() {
    let mut s = state();
    s.insert(Time(0), EXACT, entry(1, set(5))).unwrap();
    assert_eq!(look(&mut s, 0, EXACT, 1, &[]), "hit set 5");
    assert_eq!(look(&mut s, 0, EXACT, 2, &[]), "miss nop");
    assert_eq!(s.insert(Time(0), EXACT, entry(1, set(6))), Err(TableError::Duplicate));
    s.modify(Time(0), EXACT, entry(1, set(6))).unwrap();
    assert_eq!(look(&mut s, 0, EXACT, 1, &[]), "hit set 6");
    s.set_default(EXACT, call(8)).unwrap();
    assert_eq!(look(&mut s, 0, EXACT, 2, &[]), "miss set 8");
    assert!(!s.table(EXACT).unwrap().default_is_initial());
    s.reset_default(EXACT).unwrap();
    assert!(s.table(EXACT).unwrap().default_is_initial());
    s.insert(Time(0), EXACT, entry(2, set(7))).unwrap();
    assert_eq!(s.insert(Time(0), EXACT, entry(3, set(7))), Err(TableError::Full));
    assert_eq!(s.delete(EXACT, &entry(1, set(0)).matches, 0).unwrap().action, set(6));
    assert_eq!(s.delete(EXACT, &entry(1, set(0)).matches, 0), Err(TableError::NotFound));
    assert_eq!(s.entries(EXACT).count(), 1);
    assert_eq!(look(&mut s, 0, TERNARY, 77, &[]), "hit set 9");

    let mut bad = |table, change: &dyn Fn(&mut Entry)| {
        let mut e = entry(9, set(1));
        change(&mut e);
        s.insert(Time(0), table, e).unwrap_err().to_string()
    };
    let contains = |text: String, part: &str| assert!(text.contains(part), "{text}");
    contains(bad(TableId(9), &|_| {}), "no such table");
    contains(bad(EXACT, &|e| e.matches.clear()), "0 key fields given, the table has 1");
    contains(bad(EXACT, &|e| e.matches = vec![mask(1, 1)]), "kind exact");
    contains(bad(EXACT, &|e| e.matches = vec![KeyMatch::Exact(Bits::zero(9))]), "9 bits for a field of 8");
    contains(bad(EXACT, &|e| e.priority = 1), "set it to 0");
    contains(bad(EXACT, &|e| e.action = EntryAction::Member(1)), "no action profile");
    contains(
        bad(EXACT, &|e| e.action = EntryAction::Call(ActionCall { action: 2, args: vec![] }.into())),
        "number 2",
    );
    contains(
        bad(EXACT, &|e| e.action = EntryAction::Call(ActionCall { action: 0, args: vec![] }.into())),
        "takes 1",
    );
    let wide = ActionCall { action: 0, args: vec![bits(9, 1)] };
    contains(bad(EXACT, &|e| e.action = EntryAction::Call(wide.clone().into())), "another type");
    let ternary = |e: &mut Entry, v, m| e.matches = vec![mask(v, m)];
    contains(bad(TERNARY, &|e| ternary(e, 1, 1)), "give 1 or more");
    contains(bad(TERNARY, &|e| ternary(e, 3, 1)), "outside of the mask");
    let timed = |e: &mut Entry| {
        ternary(e, 1, 1);
        e.priority = 1;
        e.idle_timeout_ns = 1;
    };
    contains(bad(TERNARY, &timed), "support_timeout");
    contains(bad(SELECTED, &|_| {}), "member or group");
    contains(bad(SELECTED, &|e| e.action = EntryAction::Member(1)), "no member 1");
}

#[test]
fn direct_counters_and_meters_follow_hits() {
    let mut s = state();
    let h = s.insert(Time(0), EXACT, entry(1, set(5))).unwrap();
    look(&mut s, 0, EXACT, 1, &[]);
    look(&mut s, 0, EXACT, 1, &[]);
    look(&mut s, 0, EXACT, 2, &[]);
    let bytes = |bytes| CounterCell { packets: 0, bytes };
    assert_eq!(s.direct_counter(EXACT, Some(h)), Ok(bytes(200)));
    assert_eq!(s.direct_counter(EXACT, None), Ok(bytes(100)));
    s.set_direct_counter(EXACT, Some(h), bytes(7)).unwrap();
    s.modify(Time(0), EXACT, entry(1, set(6))).unwrap();
    assert_eq!(s.direct_counter(EXACT, Some(h)), Ok(bytes(7)));
    assert_eq!(s.direct_counter(TERNARY, None), Err(TableError::NoDirectResource));
    let config = MeterConfig { cir: 1, cburst: 1, pir: 1, pburst: 2 };
    s.set_direct_meter(Time(0), EXACT, Some(h), Some(config)).unwrap();
    assert_eq!(s.direct_meter(EXACT, Some(h)).map(|m| m.config()), Ok(Some(config)));
    let own = &mut Own::new(&SwitchConfig::default());
    own.colors = vec![Color::Red; s.instances.len()];
    let mut color = |access: Access<'_>, key| {
        let mut access = access;
        access.lookup(own, (Time(0), 100), EXACT, &[Bits::new(8, key)], &[]);
        own.colors[1]
    };
    assert_eq!(color(Access::Alone(&mut s), 1), Color::Green);
    assert_eq!(color(Access::Shared(&s), 1), Color::Yellow);
    assert_eq!(color(Access::Alone(&mut s), 1), Color::Red);
    assert_eq!(color(Access::Shared(&s), 2), Color::Green);
    s.delete(EXACT, &entry(1, set(0)).matches, 0).unwrap();
    assert_eq!(s.direct_counter(EXACT, Some(h)), Err(TableError::NotFound));
}

/// A row of a flat table is counted as the look-up would have been, and names the entry that was hit.
#[test]
fn hits_of_flat_tables_count() {
    let (mut s, mut flat) = (state(), state());
    let config = MeterConfig { cir: 1, cburst: 1, pir: 1, pburst: 2 };
    for s in [&mut s, &mut flat] {
        let timed = |key| Entry { idle_timeout_ns: 100, ..entry(key, set(5)) };
        s.insert(Time(0), EXACT, timed(1)).unwrap();
        s.insert(Time(0), EXACT, timed(2)).unwrap();
        s.delete(EXACT, &timed(1).matches, 0).unwrap();
        s.insert(Time(0), EXACT, timed(3)).unwrap();
        s.set_direct_meter(Time(0), EXACT, None, Some(config)).unwrap();
        for h in [2, 3] {
            s.set_direct_meter(Time(0), EXACT, Some(EntryHandle(h)), Some(config)).unwrap();
        }
    }
    for (now, key) in [2, 3, 3, 1, 1, 3, 2].into_iter().enumerate() {
        look(&mut s, now as u64, EXACT, key, &[]);
        let own = &mut Own::new(&SwitchConfig::default());
        let head = look_flat(&flat, own, EXACT, key, &[]).unwrap().0;
        assert_ne!(head & row::REPORT, 0);
        let place = head >> row::PLACE_SHIFT;
        flat.hits.of(0)[EXACT.index()].note(place, now as u64, 100);
        Access::Alone(&mut flat).measure_hit(own, (Time(now as u64), 100), EXACT, place);
        let seen = |s: &State| {
            let one = |h| (s.direct_counter(EXACT, h), s.direct_meter(EXACT, h));
            let idle = [2, 3].map(|h| s.idle_ns(Time(10), EXACT, EntryHandle(h)));
            format!(
                "{:?} {idle:?} {:?}",
                [None, Some(2), Some(3)].map(|h| one(h.map(EntryHandle))),
                s.instances[1]
            )
        };
        assert_eq!(seen(&s), seen(&flat));
    }
    let own = &mut Own::new(&SwitchConfig::default());
    assert_eq!(look_flat(&flat, own, TERNARY, 1, &[]).map(|r| r.0 & row::REPORT), Some(0));
}

/// Entries that are put back are in the flat table again, and a state that takes another's place keeps flat tables.
#[test]
fn flat_tables_follow_what_is_put_back() {
    let mut s = state();
    let low = |key, x| Entry { priority: 2, matches: vec![mask(key, key)], ..entry(0, set(x)) };
    let first = s.insert(Time(0), TERNARY, low(1, 3)).unwrap();
    let saved = s.save_entry(TERNARY, first).unwrap();
    s.modify(Time(0), TERNARY, low(1, 4)).unwrap();
    assert_eq!(look(&mut s, 0, TERNARY, 3, &[]), "hit set 4");
    s.restore_entry(TERNARY, saved.clone()).unwrap();
    assert_eq!(look(&mut s, 0, TERNARY, 3, &[]), "hit set 3");
    s.delete(TERNARY, &[mask(1, 1)], 2).unwrap();
    s.insert(Time(0), TERNARY, low(2, 5)).unwrap();
    assert_eq!(look(&mut s, 0, TERNARY, 3, &[]), "hit set 5");
    s.restore_entry(TERNARY, saved).unwrap();
    assert_eq!(look(&mut s, 0, TERNARY, 3, &[]), "hit set 3");
}

#[test]
fn a_new_program_takes_over_what_is_kept() {
    // Entries that a program declares would be compared with the new program's.
    let state = || {
        let mut program = full_program();
        program.tables[TERNARY.index()].entries.clear();
        let mut s = State::new(&Pipeline::load(program).unwrap(), &SwitchConfig::default());
        s.build_flat();
        s
    };
    let (mut old, mut new) = (state(), state());
    let low = |key, x| Entry { priority: 2, matches: vec![mask(key, key)], ..entry(0, set(x)) };
    old.insert(Time(0), TERNARY, low(1, 3)).unwrap();
    assert!(old.can_keep_table(TERNARY, &new, TERNARY));
    new.take_kept(&mut old, &Kept { tables: vec![(TERNARY, TERNARY)], externs: vec![] });
    assert_eq!(look(&mut new, 0, TERNARY, 3, &[]), "hit set 3");
    // Its flat table came along, and follows.
    new.insert(Time(0), TERNARY, low(2, 5)).unwrap();
    new.delete(TERNARY, &[mask(1, 1)], 2).unwrap();
    assert_eq!(look(&mut new, 0, TERNARY, 3, &[]), "hit set 5");
}

/// What all workers have noted about a kept table's entries moves with it, and a copy of a state has it, too.
#[test]
fn what_is_noted_is_kept_and_copied() {
    // Timers are not moved.
    let state = || {
        let mut program = full_program();
        program.tables[EXACT.index()].const_properties.clear();
        let mut s = State::new(&Pipeline::load(program).unwrap(), &SwitchConfig::default());
        s.build_flat();
        s.share(2);
        s
    };
    let (mut old, mut new) = (state(), state());
    let handles = [1, 2].map(|key| old.insert(Time(0), EXACT, entry(key, set(5))).unwrap());
    for (worker, key) in [(0, 1), (1, 1), (2, 1), (2, 2), (1, 3)] {
        let own = &mut Own::new(&SwitchConfig::default());
        own.worker = worker;
        Access::Shared(&old).lookup(own, (Time(5), 100), EXACT, &[Bits::new(8, key)], &[]);
    }
    let seen = |s: &State| [Some(handles[0]), Some(handles[1]), None].map(|h| s.direct_counter(EXACT, h));
    let bytes = |bytes| Ok(CounterCell { packets: 0, bytes });
    let all = [bytes(300), bytes(100), bytes(100)];
    assert_eq!(seen(&old), all);
    let mut copy = old.clone();
    assert!(old.can_keep_table(EXACT, &new, EXACT));
    new.take_kept(&mut old, &Kept { tables: vec![(EXACT, EXACT)], externs: vec![] });
    assert_eq!(seen(&new), all);
    look(&mut new, 0, EXACT, 1, &[]);
    let own = &mut Own::new(&SwitchConfig::default());
    own.worker = 2;
    Access::Shared(&new).lookup(own, (Time(0), 100), EXACT, &[Bits::new(8, 1)], &[]);
    assert_eq!((&seen(&new)[0], seen(&copy)), (&bytes(500), all));
    copy.share(2);
    Access::Shared(&copy).lookup(own, (Time(0), 100), EXACT, &[Bits::new(8, 1)], &[]);
    assert_eq!((&seen(&copy)[0], &seen(&new)[0]), (&bytes(400), &bytes(500)));
    // An entry in the place of another one, or a table that had none, begins at zero.
    for key in [1, 2] {
        new.delete(EXACT, &entry(key, set(5)).matches, 0).unwrap();
        let handle = new.insert(Time(0), EXACT, entry(9, set(5))).unwrap();
        assert_eq!(new.direct_counter(EXACT, Some(handle)), bytes(0));
        new.delete(EXACT, &entry(9, set(5)).matches, 0).unwrap();
    }
    assert_eq!(new.direct_counter(EXACT, None), bytes(100));
}

#[test]
fn idle_entries_are_reported_when_due() {
    let mut s = state();
    let timed = |key, ns| Entry { idle_timeout_ns: ns, ..entry(key, set(5)) };
    let a = s.insert(Time(0), EXACT, timed(1, 100)).unwrap();
    let b = s.insert(Time(0), EXACT, timed(2, 1000)).unwrap();
    let idle = |handle| IdleEntry { table: EXACT, handle };
    assert_eq!(s.next_idle(), Some(Time(100)));
    look(&mut s, 60, EXACT, 1, &[]);
    assert_eq!(s.idle_ns(Time(70), EXACT, a), Ok(10));
    // The timer comes, but the entry was used: it is due 100 ns after that.
    assert_eq!(s.take_idle(Time(100), usize::MAX), []);
    assert_eq!(s.next_idle(), Some(Time(160)));
    assert_eq!(s.take_idle(Time(159), usize::MAX), []);
    assert_eq!(s.take_idle(Time(160), usize::MAX), [idle(a)]);
    // Still idle: again after another timeout.
    assert_eq!(s.take_idle(Time(259), usize::MAX), []);
    assert_eq!(s.take_idle(Time(1000), usize::MAX), [idle(a), idle(b)]);
    s.modify(Time(1000), EXACT, timed(1, 0)).unwrap();
    s.delete(EXACT, &entry(2, set(0)).matches, 0).unwrap();
    assert_eq!(s.next_idle(), None);
}

#[test]
fn selectors_spread_packets() {
    let mut s = state();
    for m in 1..=2 {
        s.insert_member(PROFILE, m, call(m)).unwrap();
    }
    let wrong = ActionCall { action: 7, args: vec![] };
    assert!(matches!(s.insert_member(PROFILE, 3, wrong), Err(ProfileError::BadAction(_))));
    let member = |member, weight| GroupMember { member, weight, watch_port: None };
    let group = |members: &[GroupMember]| Group { members: members.to_vec(), max_size: 0 };
    s.insert_group(PROFILE, 1, group(&[member(1, 1), member(2, 3)])).unwrap();
    s.insert_group(PROFILE, 2, group(&[])).unwrap();
    s.insert(Time(0), SELECTED, entry(1, EntryAction::Group(1))).unwrap();
    s.insert(Time(0), SELECTED, entry(2, EntryAction::Member(2))).unwrap();
    assert_eq!(look(&mut s, 0, SELECTED, 2, &[Bits::zero(8)]), "hit set 2");
    let mut found = [0; 3];
    for i in 0..256 {
        let first = look(&mut s, 0, SELECTED, 1, &[Bits::new(8, i)]);
        assert_eq!(first, look(&mut s, 1, SELECTED, 1, &[Bits::new(8, i)]), "the same flow, the same member");
        found[first[8..].parse::<usize>().unwrap()] += 1;
    }
    assert!((40..90).contains(&found[1]) && found[1] + found[2] == 256, "{found:?}");
    assert_eq!(s.delete_member(PROFILE, 2), Err(ProfileError::InUse));
    assert_eq!(s.delete_group(PROFILE, 1), Err(ProfileError::InUse));
    s.modify_member(PROFILE, 2, call(9)).unwrap();
    assert_eq!(look(&mut s, 0, SELECTED, 2, &[Bits::zero(8)]), "hit set 9");
    s.modify(Time(0), SELECTED, entry(1, EntryAction::Group(2))).unwrap();
    assert_eq!(look(&mut s, 0, SELECTED, 1, &[Bits::zero(8)]), "hit nothing");
    let own = &mut Own::new(&SwitchConfig::default());
    Access::Shared(&s).lookup(own, (Time(0), 100), SELECTED, &[Bits::new(8, 1)], &[Bits::zero(8)]);
    assert_eq!(own.anomalies.empty_group, 1);
    s.delete_group(PROFILE, 1).unwrap();
}

#[test]
fn objects_are_read_and_written() {
    let mut s = state();
    s.write_register(REGISTER, 2, &Bits::new(8, 7)).unwrap();
    assert_eq!(s.read_register(REGISTER, 2), Ok(Bits::new(8, 7)));
    assert_eq!(s.read_register(REGISTER, 3), Err(StateError::IndexOutOfRange(3)));
    assert_eq!(s.read_register(COUNTER, 0), Err(StateError::UnknownObject));
    let wide = s.write_register(REGISTER, 0, &Bits::zero(9));
    assert_eq!(wide, Err(StateError::BadWidth { want: 8, got: 9 }));
    let cell = CounterCell { packets: 3, bytes: 0 };
    s.write_counter(COUNTER, 1, cell).unwrap();
    assert_eq!(s.read_counter(COUNTER, 1), Ok(cell));
    assert_eq!(s.write_counter(COUNTER, u64::MAX, cell), Err(StateError::IndexOutOfRange(3)));
    let config = MeterConfig { cir: 1, cburst: 1, pir: 2, pburst: 2 };
    s.write_meter(Time(0), METER, 1, Some(config)).unwrap();
    assert_eq!(s.read_meter(METER, 1), Ok(Some(config)));
    let bad = MeterConfig { pir: 0, ..config };
    assert!(matches!(s.write_meter(Time(0), METER, 1, Some(bad)), Err(StateError::BadMeterConfig(_))));
    s.write_meter(Time(0), METER, 1, None).unwrap();
    assert_eq!(s.read_meter(METER, 1), Ok(None));
    let vs = ValueSetId(0);
    let member = |w| vec![KeyMatch::Exact(Bits::zero(w))];
    s.set_value_set(vs, vec![member(8)]).unwrap();
    assert_eq!(s.value_set(vs).map(<[_]>::len), Some(1));
    assert!(matches!(s.set_value_set(vs, vec![member(9)]), Err(StateError::BadMember(_))));
    assert!(matches!(s.set_value_set(vs, vec![vec![]]), Err(StateError::BadMember(_))));
    assert_eq!(s.set_value_set(vs, vec![member(8); 3]), Err(StateError::TooManyMembers(2)));
}

/// A new program takes over only state with the same name and shape.
#[test]
fn adopting_state() {
    let mut old = state();
    let h = old.insert(Time(0), EXACT, Entry { idle_timeout_ns: 50, ..entry(1, set(5)) }).unwrap();
    look(&mut old, 0, EXACT, 1, &[]);
    let low = Entry { priority: 2, matches: vec![mask(1, 1)], ..entry(0, set(3)) };
    old.insert(Time(0), TERNARY, low).unwrap();
    old.set_default(EXACT, call(8)).unwrap();
    old.write_register(REGISTER, 0, &Bits::new(8, 7)).unwrap();
    old.write_counter(COUNTER, 0, CounterCell { packets: 3, bytes: 0 }).unwrap();
    let mut changed = full_program();
    changed.externs[4].args[0].1 = Const::Int(9.into());
    changed.tables[1].keys.clear();
    changed.tables[1].entries.clear();
    let mut new = State::new(&Pipeline::load(changed).unwrap(), &SwitchConfig::default());
    new.adopt(&old);
    new.arm_all(Time(10));
    new.build_flat();
    assert_eq!(look(&mut new, 20, EXACT, 1, &[]), "hit set 5");
    assert_eq!(look(&mut new, 0, EXACT, 2, &[]), "miss set 8");
    assert_eq!(new.entries(TERNARY).count(), 0);
    assert_eq!(new.direct_counter(EXACT, Some(h)), Ok(CounterCell { packets: 0, bytes: 200 }));
    assert_eq!(new.read_register(REGISTER, 0), Ok(Bits::new(8, 7)));
    assert_eq!(new.read_counter(COUNTER, 0), Ok(CounterCell::default()));
    assert_eq!(new.next_idle(), Some(Time(60)));
}
