//! State as statements, and back.

use pointsman_frontend::source::Loader;
use pointsman_ir::{ExternInstanceId, TableId, ValueSetId};
use pointsman_stf::{Part, Rig, dump, fill, parse};
use pointsman_v1model::{State, SwitchConfig, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The includes of this repository.
struct Own;

impl Loader for Own {
    fn include(&self, name: &str, _: bool, _: &str) -> Option<(String, String)> {
        let path = format!("{}/../../p4/include/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(path).ok().map(|text| (format!("<{name}>"), text))
    }
}

/// Every kind of key, table, profile and cell.
const PROGRAM: &str = include_str!("every_kind.p4");

fn rig() -> Rig {
    let compiled = pointsman_frontend::compile("main.p4", PROGRAM, &Own, &[]);
    let compiled = compiled.unwrap_or_else(|e| {
        panic!("{}", pointsman_frontend::render::all_to_text(&e.source_map, &e.diagnostics, false))
    });
    Rig::new(Arc::new(compiled.program), SwitchConfig::default()).expect("a rig")
}

/// Everything that statements can change.
fn all(state: &State) -> String {
    let program = state.program().clone();
    let mut out = String::new();
    for (i, table) in program.tables.iter().enumerate() {
        let id = TableId(i as u32);
        let store = state.table(id).expect("a table").store();
        let mut entries: Vec<String> = state
            .entries(id)
            .map(|(handle, e)| {
                let counter = state.direct_counter(id, Some(handle));
                let meter = state.direct_meter(id, Some(handle)).map(|m| m.config());
                let idle = e.idle_timeout_ns;
                format!("{:?} {:?} {:?} {idle} {counter:?} {meter:?}", e.matches, e.priority, e.action)
            })
            .collect();
        entries.sort();
        let default = (state.direct_counter(id, None), state.direct_meter(id, None).map(|m| m.config()));
        out.push_str(&format!("{}: {:?} {default:?}\n", table.name, store.default_action()));
        out.push_str(&entries.join("\n"));
    }
    for i in 0..program.externs.len() as u32 {
        let id = ExternInstanceId(i);
        if let Some(profile) = state.profile(id) {
            out.push_str(&format!(
                "{:?} {:?}\n",
                profile.members().collect::<Vec<_>>(),
                profile.groups().collect::<Vec<_>>()
            ));
        }
        for at in 0..8 {
            out.push_str(&format!(
                "{:?} {:?} {:?}\n",
                state.read_register(id, at),
                state.read_counter(id, at),
                state.read_meter(id, at)
            ));
        }
    }
    out.push_str(&format!("{:?}\n", state.value_set(ValueSetId(0))));
    out.push_str(&format!("{:?}\n", state.replication.groups().collect::<Vec<_>>()));
    out.push_str(&format!("{:?}\n", state.replication.sessions().collect::<Vec<_>>()));
    out
}

fn filled(stf: &str) -> Rig {
    let mut rig = rig();
    let lines = parse(stf).unwrap_or_else(|e| panic!("{e}\n{stf}"));
    fill(rig.state(), Time::from_millis(1), &lines).unwrap_or_else(|e| panic!("{e}\n{stf}"));
    rig
}

const STATE: &str = include_str!("every_kind.stf");

#[test]
fn a_state_comes_back() {
    let mut rig = filled(STATE);
    let dumped = dump(rig.state(), &BTreeSet::new());
    assert_eq!(dumped.lost, Vec::<String>::new());
    let mut again = filled(&dumped.text);
    assert_eq!(all(again.state()), all(rig.state()), "{}", dumped.text);
    // A dump of the same state is the same.
    assert_eq!(dump(again.state(), &BTreeSet::new()), dumped);
    let mut fresh = self::rig();
    assert_eq!(dump(fresh.state(), &BTreeSet::new()).text, "", "nothing was changed");
}

/// Each statement is needed: without any of them the state is another one.
#[test]
fn every_statement_counts() {
    let mut rig = filled(STATE);
    let whole = all(rig.state());
    let text = dump(rig.state(), &BTreeSet::new()).text;
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() >= 30, "{text}");
    for i in 0..lines.len() {
        let less: String =
            lines.iter().enumerate().filter(|(n, _)| *n != i).map(|(_, l)| format!("{l}\n")).collect();
        let mut rig = self::rig();
        let done = fill(rig.state(), Time::from_millis(1), &parse(&less).expect("statements"));
        assert!(done.is_err() || all(rig.state()) != whole, "{} changes nothing", lines[i]);
    }
}

/// Numbers with a sign have the range of their type.
#[test]
fn signed_numbers_fit() {
    for (n, fits) in
        [("-128", true), ("-129", false), ("-200", false), ("-300", false), ("-0", true), ("255", true)]
    {
        let lines = parse(&format!("add exactly h.h.a:2 \"low half\":1 set(yes:true, n:{n}, k:B)"))
            .expect("a statement");
        let done = fill(rig().state(), Time::from_millis(1), &lines);
        assert_eq!(
            done.as_ref().map_err(|e| e.to_string().contains("does not fit 8 bits")),
            if fits { Ok(&()) } else { Err(true) },
            "{n}"
        );
    }
}

#[test]
fn parts_may_be_left_out() {
    let mut rig = filled(STATE);
    let text = dump(rig.state(), &[Part::Registers, Part::Counters, Part::Meters].into()).text;
    assert!(
        !text.contains("register_write") && !text.contains("counter_write") && !text.contains("meter_set")
    );
    assert!(text.contains("add I.exactly"), "{text}");
}

/// What no statement can express is named.
#[test]
fn losses_are_named() {
    let mut rig = filled("add longest h.h.b:10.0.0.0/8 send(port:2)\n");
    let id =
        TableId(rig.program().tables.iter().position(|t| t.name == "I.longest").expect("it exists") as u32);
    let state = rig.state();
    let (_, mut entry) = state.entries(id).next().expect("an entry");
    entry.metadata = vec![1];
    state.modify(Time::from_millis(2), id, entry).expect("it exists");
    let dumped = dump(state, &BTreeSet::new());
    assert_eq!(dumped.lost, ["the metadata of entry h.h.b:0x0a000000/8 of I.longest"]);
    assert!(
        dumped.text.ends_with("# not in this file: the metadata of entry h.h.b:0x0a000000/8 of I.longest\n")
    );
    filled(&dumped.text);
}
