//! Running small programs: an environment of tables in memory and externs that record their calls.
#![allow(dead_code)]

#[path = "../../../ir/tests/common/mod.rs"]
pub mod common;

use super::Tested;
pub use common::build::*;
use pointsman_ir::trace::{TraceEvent, Traced};
use pointsman_ir::*;
use std::sync::Arc;

/// The tables of a program at their initial entries; externs are looked up by name.
pub struct World {
    pub program: Arc<Program>,
    pub tables: Vec<TableStore>,
    pub value_sets: Vec<Vec<Vec<KeyMatch>>>,
    pub log: Vec<String>,
    pub tracing: bool,
    pub trace: Vec<TraceEvent>,
}

impl World {
    pub fn new(program: &Arc<Program>) -> Self {
        let tables = program.tables.iter().map(|t| {
            let kinds = t.keys.iter().map(|k| k.match_kind).filter(|k| *k != MatchKind::Selector).collect();
            let mut store = TableStore::new(kinds, 1024, Arc::new(t.default_action.clone()));
            t.entries.iter().for_each(|e| assert!(store.insert(e.clone()).is_ok()));
            store
        });
        World {
            tables: tables.collect(),
            value_sets: vec![vec![]; program.value_sets.len()],
            log: vec![],
            tracing: true,
            trace: vec![],
            program: program.clone(),
        }
    }
}

impl World {
    /// The parser states that were entered.
    pub fn states(&self) -> Vec<u32> {
        let state = |e: &TraceEvent| if let Traced::State(_, s) = e.what { Some(s) } else { None };
        self.trace.iter().filter_map(state).collect()
    }

    /// The actions that tables ran: each is entered right behind its look-up.
    pub fn ran(&self) -> Vec<u32> {
        let action = |w: &[TraceEvent]| match (&w[0].what, &w[1].what) {
            (Traced::Lookup { .. }, Traced::Enter(Callee::Action(a), _)) => Some(a.0),
            _ => None,
        };
        self.trace.windows(2).filter_map(action).collect()
    }
}

impl Env for World {
    fn lookup(&mut self, table: TableId, key: &[Bits], selectors: &[Bits]) -> Lookup {
        self.log.push(format!("{} {key:?} {selectors:?}", self.program.tables[table.index()].name));
        let store = &self.tables[table.index()];
        match store.lookup(key) {
            Some((handle, entry)) => {
                let action = match &entry.action {
                    EntryAction::Call(call) => Some(call.clone()),
                    _ => None,
                };
                Lookup { hit: Some(handle), action }
            }
            None => Lookup { hit: None, action: Some(store.default_action().clone()) },
        }
    }

    fn call_extern(&mut self, call: ExternCall<'_>, args: &mut [Value]) -> Value {
        let f = &self.program.extern_fns[call.function.index()];
        self.log.push(format!("{} {args:?}", f.name));
        match f.name.as_str() {
            // bump(in amount, inout counter) returns the old value
            "bump" => match args {
                [Value::Bits(by), Value::Bits(counter)] => {
                    let old = counter.clone();
                    *counter = counter.add(by);
                    Value::Bits(old)
                }
                _ => Value::Void,
            },
            // breaks the rules: everything gets another type
            "vandal" => {
                args.iter_mut().for_each(|a| *a = Value::String("broken".into()));
                Value::Bits(Bits::new(77, 5))
            }
            _ => Value::Void,
        }
    }

    fn value_set(&self, set: ValueSetId) -> &[Vec<KeyMatch>] {
        &self.value_sets[set.index()]
    }

    fn tracing(&self) -> bool {
        self.tracing
    }

    fn trace(&mut self, event: TraceEvent) {
        self.trace.push(event);
    }
}

/// A small deterministic generator (splitmix64).
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Less than `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }

    /// Up to `most` bytes; often small values, so that packets get past the first select.
    pub fn packet(&mut self, most: usize) -> Vec<u8> {
        let small = self.below(2) == 0;
        (0..self.below(most + 1))
            .map(|_| if small { self.below(4) as u8 } else { self.next() as u8 })
            .collect()
    }
}

/// A program that is loaded with one slot per parameter of the block that is run.
pub struct Rig<E: Executor = Tested> {
    pub exec: E,
    pub world: World,
    pub slots: E::Frame,
    pub emitted: Vec<u8>,
}

impl Rig {
    /// `like`: the frame whose parameters are the slots.
    pub fn new(b: &Builder, like: &Frame) -> Self {
        Rig::with(b, like)
    }
}

impl<E: Executor> Rig<E> {
    /// With any executor.
    pub fn with(b: &Builder, like: &Frame) -> Self {
        let types: Vec<TypeId> = like.params.iter().map(|p| p.ty).collect();
        let program = b.finish();
        let exec = E::load(program.clone(), &types).unwrap_or_else(|e| panic!("{e}"));
        let slots = exec.new_frame();
        Rig { world: World::new(&program), slots, exec, emitted: vec![] }
    }

    fn all(&self, params: usize) -> Vec<usize> {
        (0..params).collect()
    }

    pub fn parse(&mut self, parser: u32, packet: &[u8]) -> ParseOutcome {
        let n = self.exec.program().parsers[parser as usize].frame.params.len();
        self.exec.parse(ParserId(parser), &self.all(n), &mut self.slots, packet, &mut self.world)
    }

    pub fn control(&mut self, control: u32) -> ControlOutcome {
        let n = self.exec.program().controls[control as usize].frame.params.len();
        let slots = self.all(n);
        self.exec.control(ControlId(control), &slots, &mut self.slots, &mut self.emitted, &mut self.world)
    }

    /// A scalar of a slot as a number.
    pub fn get(&self, slot: usize, path: &[u32]) -> u128 {
        self.exec.get(&self.slots, slot, path).unwrap().to_u128().unwrap()
    }

    pub fn set(&mut self, slot: usize, path: &[u32], width: u32, value: u128) {
        assert!(self.exec.set(&mut self.slots, slot, path, &Bits::new(width, value)));
    }

    pub fn value(&self, slot: usize) -> Value {
        self.exec.value(&self.slots, slot)
    }
}
