//! Conditions that may imply which headers are valid without asking them: they read what a parser chose its way by, or
//! what was assigned before.

use super::state::Place;
use crate::check::tree::{Callee, Expr, ExprKind, Tree, VarId, VarKind};
use crate::check::types::Kind;
use std::collections::{BTreeMap, BTreeSet};

/// A variable, or a field of a type of struct, wherever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fact {
    Var(VarId),
    Field(usize, u32),
}

pub(super) fn fact(tree: &Tree, e: &Expr) -> Option<Fact> {
    match &e.kind {
        ExprKind::Var(v) => Some(Fact::Var(*v)),
        ExprKind::Field(b, i) => match tree.tys.get(b.ty) {
            Kind::Struct(d, _) => Some(Fact::Field(*d, *i)),
            _ => fact(tree, b),
        },
        ExprKind::Slice(b, ..) | ExprKind::Cast(b) => fact(tree, b),
        _ => None,
    }
}

/// A state of a parser: block and state.
pub type At = (usize, usize);

/// What was assigned and chosen by so far.
#[derive(Default)]
pub struct Facts {
    assigned: BTreeSet<Fact>,
    selected: BTreeMap<Fact, BTreeSet<At>>,
    /// Parameters' fields may have been assigned elsewhere.
    pub open: bool,
}

impl Facts {
    /// Nothing so far, in a block by itself.
    pub fn open() -> Facts {
        Facts { open: true, ..Facts::default() }
    }

    /// `e` is assigned. Structs and headers as a whole are no facts: nearly all conditions are on parts of them.
    pub fn assign(&mut self, tree: &Tree, e: &Expr) {
        if !matches!(tree.tys.get(e.ty), Kind::Struct(..) | Kind::Stack(..)) {
            self.assigned.extend(fact(tree, e));
        }
    }

    /// `var` gets a value that is not constant.
    pub fn assign_var(&mut self, var: VarId) {
        self.assigned.insert(Fact::Var(var));
    }

    /// A parser state chooses its way by `e`.
    pub fn select(&mut self, tree: &Tree, at: At, e: &Expr) {
        match fact(tree, e) {
            Some(f) => drop(self.selected.entry(f).or_default().insert(at)),
            None => e.each_child(&mut |c| self.select(tree, at, c)),
        }
    }

    /// The parts of `e` that may imply which headers are valid; in a parser's `select`, by other states than `here`.
    pub fn telling<'e>(&self, tree: &Tree, e: &'e Expr, here: Option<At>, out: &mut Vec<&'e Expr>) {
        let fact = fact(tree, e);
        let tells = match &e.kind {
            ExprKind::IsValid(_) | ExprKind::LastIndex(_) => true,
            ExprKind::Call(c) => here.is_none() || !matches!(c.callee, Callee::Method(..)),
            ExprKind::Apply(t) | ExprKind::Hit { table: t, .. } => {
                let mut keys = Vec::new();
                tree.tables[*t].keys.iter().for_each(|k| self.telling(tree, &k.expr, None, &mut keys));
                !keys.is_empty()
            }
            _ => fact.is_some_and(|f| {
                self.assigned.contains(&f)
                    || self.selected.get(&f).is_some_and(|at| at.iter().any(|a| Some(*a) != here))
                    || self.open && is_param(tree, e)
            }),
        };
        if tells {
            out.push(e);
        }
        if fact.is_none() {
            e.each_child(&mut |c| self.telling(tree, c, here, out));
        }
    }
}

fn is_param(tree: &Tree, e: &Expr) -> bool {
    e.root_var().is_some_and(|v| matches!(tree.vars[v.0].kind, VarKind::Param(_)))
}

/// The variable and fields that `e` is, if it is nothing else.
pub fn place(e: &Expr) -> Option<Place> {
    match &e.kind {
        ExprKind::Var(v) => Some(Place { var: *v, fields: Vec::new() }),
        ExprKind::Field(b, i) => {
            let mut p = place(b)?;
            p.fields.push(*i);
            Some(p)
        }
        _ => None,
    }
}
