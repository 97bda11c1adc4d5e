//! States and transitions of parsers.

use super::Lower;
use crate::check::tree::{Expr, KeySet, State, Target, Transition};
use pointsman_ir::{self as ir, StateRef};

impl Lower<'_> {
    /// A state.
    pub fn state(&mut self, s: &State) -> ir::State {
        let mut transition = ir::Transition::Goto(StateRef::Reject);
        let body = self.nested(|l| {
            l.stmts(&s.body);
            transition = l.transition(&s.next);
        });
        ir::State { name: s.name.clone(), body, transition, span: s.span }
    }

    fn transition(&mut self, t: &Transition) -> ir::Transition {
        match t {
            Transition::Goto(t) => ir::Transition::Goto(target(*t)),
            Transition::Select { on, cases } => {
                let on = self.operands(&on.iter().collect::<Vec<_>>());
                let cases = cases
                    .iter()
                    .map(|(keys, next)| ir::SelectCase {
                        keys: keys.iter().filter_map(|k| self.key_set(k)).collect(),
                        next: target(*next),
                    })
                    .collect();
                ir::Transition::Select { on, cases }
            }
        }
    }

    fn key_set(&mut self, k: &KeySet) -> Option<ir::KeySet> {
        Some(match k {
            KeySet::Any => ir::KeySet::Any,
            KeySet::Value(e) => ir::KeySet::Value(self.key_expr(e)),
            KeySet::Mask(a, b) => ir::KeySet::Mask(self.key_expr(a), self.key_expr(b)),
            KeySet::Range(a, b) => ir::KeySet::Range(self.key_expr(a), self.key_expr(b)),
            KeySet::ValueSet(i) => ir::KeySet::ValueSet(self.env.value_sets.get(i).copied()?),
        })
    }

    fn key_expr(&mut self, e: &Expr) -> ir::Expr {
        if e.has_effects() {
            self.unsupported(e.span, "a call in a label of `select`", "store its result in a variable first");
        }
        self.expr(e)
    }
}

fn target(t: Target) -> StateRef {
    match t {
        Target::Accept => StateRef::Accept,
        Target::Reject => StateRef::Reject,
        Target::State(i) => StateRef::State(i as u32),
    }
}
