//! Parser states that go to themselves although nothing has changed.

use super::ENDLESS;
use crate::check::tree::{Callee, Expr, ExprKind, State, StmtKind, Target, Transition, Tree};
use crate::diag::Diagnostic;

/// Looks at all parsers.
pub fn lint(tree: &Tree, out: &mut Vec<Diagnostic>) {
    let bodies = tree.blocks.iter().filter_map(|b| b.body.as_ref());
    for (i, state) in bodies.flat_map(|b| b.states.iter().enumerate()) {
        if repeats(tree, i, state) {
            let message = format!("state `{}` goes to itself, and nothing changes before that", state.name);
            out.push(
                Diagnostic::warning(ENDLESS, state.name_span, message)
                    .label("a packet that comes here again stays here for ever")
                    .help("extract or advance before the transition, or go to another state"),
            );
        }
    }
}

/// Whether the state chooses itself by values that it leaves as they are.
fn repeats(tree: &Tree, index: usize, state: &State) -> bool {
    // Anything but a declaration may change what the transition looks at.
    if state.body.iter().any(|s| !matches!(s.kind, StmtKind::Declare(..))) {
        return false;
    }
    match &state.next {
        Transition::Goto(t) => *t == Target::State(index),
        Transition::Select { on, cases } => {
            cases.iter().any(|(_, t)| *t == Target::State(index)) && on.iter().all(|e| same(tree, e))
        }
    }
}

/// Whether an expression has the same value whenever it is evaluated in a row: of calls, only `lookahead` does.
fn same(tree: &Tree, e: &Expr) -> bool {
    let calls = match &e.kind {
        ExprKind::Call(c) => match &c.callee {
            Callee::Method(_, object, method) => {
                let object = &tree.externs[*object];
                object.name != "packet_in" || object.methods[*method].name != "lookahead"
            }
            _ => true,
        },
        ExprKind::Apply(_) | ExprKind::Hit { .. } => true,
        _ => false,
    };
    let mut all = !calls;
    e.each_child(&mut |c| all = all && same(tree, c));
    all
}
