//! Properties of a program that are determined before any code is generated.

use crate::generate::Entry;
use crate::layout::{Layouts, Shape};
use pointsman_ir::{Callee, LoadError, Parser, Program, StateRef, Stmt, StmtKind, Transition};
use std::collections::HashMap;

/// Blocks whose code, with everything that they call in place, has more statements than this are refused.
const MAX_STATEMENTS: u64 = 60_000;

/// See the fields.
#[derive(Debug)]
pub(crate) struct Survey {
    /// Every extraction starts at a whole byte.
    pub(crate) aligned: bool,
    /// Some parser can come back to a state.
    pub(crate) cyclic: bool,
    /// There are loops.
    pub(crate) loops: bool,
}

impl Survey {
    pub(crate) fn new(program: &Program, layouts: &Layouts) -> Self {
        let mut aligned = true;
        let mut check = |s: &Stmt| {
            if let StmtKind::Extract { header, .. } = &s.kind
                && let Shape::Header(h) = &layouts.get(header.ty).shape
            {
                aligned &= h.bits.is_multiple_of(8);
            }
        };
        for p in &program.parsers {
            each(&p.init, &mut check);
            p.states.iter().for_each(|s| each(&s.body, &mut check));
        }
        let cyclic = program.parsers.iter().any(cyclic);
        let mut loops = false;
        let mut check = |s: &Stmt| loops |= matches!(s.kind, StmtKind::Loop { .. });
        program.parsers.iter().for_each(|p| {
            each(&p.init, &mut check);
            p.states.iter().for_each(|s| each(&s.body, &mut check));
        });
        program.controls.iter().for_each(|c| each(&c.body, &mut check));
        program.actions.iter().for_each(|a| each(&a.body, &mut check));
        program.functions.iter().for_each(|f| each(&f.body, &mut check));
        program.tables.iter().flat_map(|t| &t.actions).for_each(|a| each(&a.setup, &mut check));
        Survey { aligned, cyclic, loops }
    }

    /// Refuses a block that would become too much code; returns the number of its statements (and states).
    pub(crate) fn check(&self, program: &Program, entry: Entry) -> Result<u64, LoadError> {
        let callee = match entry {
            Entry::Parser(id) => Callee::Parser(id),
            Entry::Control(id) => Callee::Control(id),
        };
        let statements = size(program, callee, &mut HashMap::new());
        if statements <= MAX_STATEMENTS {
            return Ok(statements);
        }
        let name = match entry {
            Entry::Parser(id) => &program.parsers[id.index()].name,
            Entry::Control(id) => &program.controls[id.index()].name,
        };
        Err(LoadError(format!(
            "{name}: with everything that it calls it has {statements} statements; native code is made of at most \
             {MAX_STATEMENTS}"
        )))
    }
}

/// Every statement, the inner ones too.
fn each<'a>(stmts: &'a [Stmt], f: &mut dyn FnMut(&'a Stmt)) {
    for s in stmts {
        f(s);
        match &s.kind {
            StmtKind::If(_, yes, no) => {
                each(yes, f);
                each(no, f);
            }
            StmtKind::Switch { cases, default, .. } => {
                cases.iter().for_each(|(_, body)| each(body, f));
                each(default, f);
            }
            StmtKind::Loop { body, update, .. } => {
                each(body, f);
                each(update, f);
            }
            _ => {}
        }
    }
}

/// Statements of a callable with everything that it calls in place.
fn size(program: &Program, callee: Callee, known: &mut HashMap<(u8, u32), u64>) -> u64 {
    let key = match callee {
        Callee::Action(id) => (0, id.0),
        Callee::Function(id) => (1, id.0),
        Callee::Control(id) => (2, id.0),
        Callee::Parser(id) => (3, id.0),
        Callee::Extern { .. } => return 1,
    };
    if let Some(n) = known.get(&key) {
        return *n;
    }
    let bodies: Vec<&[Stmt]> = match callee {
        Callee::Action(id) => vec![&program.actions[id.index()].body],
        Callee::Function(id) => vec![&program.functions[id.index()].body],
        Callee::Control(id) => vec![&program.controls[id.index()].body],
        Callee::Parser(id) => {
            let p = &program.parsers[id.index()];
            p.states.iter().map(|s| s.body.as_slice()).chain([p.init.as_slice()]).collect()
        }
        Callee::Extern { .. } => Vec::new(),
    };
    let (mut own, mut calls, mut todo) = (1u64, Vec::new(), bodies);
    while let Some(body) = todo.pop() {
        own += 1;
        each(body, &mut |s| {
            own += 1;
            match &s.kind {
                StmtKind::Call { callee, .. } => calls.push(*callee),
                StmtKind::Apply { table, .. } => {
                    for listed in &program.tables[table.index()].actions {
                        calls.push(Callee::Action(listed.action));
                        todo.push(&listed.setup);
                    }
                }
                _ => {}
            }
        });
    }
    let total = calls.into_iter().fold(own, |n, c| n.saturating_add(size(program, c, known)));
    known.insert(key, total);
    total
}

/// Whether the parser can come back to a state.
fn cyclic(parser: &Parser) -> bool {
    let nexts = |i: usize| -> Vec<usize> {
        let of = |s: &StateRef| match s {
            StateRef::State(i) => Some(*i as usize),
            _ => None,
        };
        match &parser.states[i].transition {
            Transition::Goto(next) => of(next).into_iter().collect(),
            Transition::Select { cases, .. } => cases.iter().filter_map(|c| of(&c.next)).collect(),
        }
    };
    let n = parser.states.len();
    let mut incoming = vec![0usize; n];
    (0..n).for_each(|i| nexts(i).into_iter().for_each(|j| incoming[j] += 1));
    let mut ready: Vec<usize> = (0..n).filter(|i| incoming[*i] == 0).collect();
    let mut gone = 0;
    while let Some(i) = ready.pop() {
        gone += 1;
        for j in nexts(i) {
            incoming[j] -= 1;
            if incoming[j] == 0 {
                ready.push(j);
            }
        }
    }
    gone < n
}
