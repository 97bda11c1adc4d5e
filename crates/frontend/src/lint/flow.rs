//! Values that were never set, headers that may be invalid, statements that are never reached. The state of variables
//! is followed through the code of each block, optimistically: only what is plainly forgotten on some way is reported.
//! Headers are followed further: from the parser through the other blocks of its package, into the blocks, actions and
//! functions that they call.

use super::bounds::{ANY, known};
use super::elements::Elements;
use super::facts::Facts;
use super::state::{State, Value};
use super::valid::Names;
use super::{INDEX, INVALID_HEADER, MAYBE_INVALID, UNREACHABLE};
use crate::ast::StructKind;
use crate::check::tree::{Expr, ExprKind, KeySet, Stmt, StmtKind, Tree, VarId};
use crate::check::types::Kind;
use crate::diag::Diagnostic;
use std::collections::BTreeSet;

/// Statements looked at, those of actions again for each use; a program that needs more gets fewer warnings.
pub(super) const MAX_STEPS: usize = 4_000_000;
/// What is reported of the code that is analysed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    All,
    /// Headers that may be invalid and indices that may be too large: the rest is reported when the code is analysed by itself.
    Headers,
    /// The rest: headers and indices are followed where the code is called.
    Values,
}

/// Code that can be called, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unit {
    Block(usize),
    Function(usize),
    Action(usize),
}

pub(super) struct Flow<'a> {
    pub tree: &'a mut Tree,
    pub out: &'a mut Vec<Diagnostic>,
    pub report: Report,
    /// Nothing is reported now: the code is analysed again.
    pub quiet: bool,
    pub steps: usize,
    pub depth: usize,
    pub names: Names,
    pub facts: Facts,
    pub elements: Elements,
    /// Code that was analysed where it is called.
    pub covered: BTreeSet<Unit>,
    /// The state where the callable returns.
    pub ends: Option<State>,
    /// The state where the block exits.
    pub exits: Option<State>,
    /// The states where the loops around are left.
    pub breaks: Vec<Option<State>>,
    /// `None`: this is never reached.
    pub now: Option<State>,
}

pub(super) fn join(a: &mut Option<State>, b: Option<State>) {
    match (&mut *a, b) {
        (_, None) => {}
        (Some(a), Some(b)) => a.join(&b),
        (none, b) => *none = b,
    }
}

impl Flow<'_> {
    pub(super) fn say(&mut self, d: Diagnostic) {
        let of_headers = matches!(d.code, INVALID_HEADER | MAYBE_INVALID | INDEX);
        let wanted = match self.report {
            Report::All => true,
            Report::Headers => of_headers,
            Report::Values => !of_headers,
        };
        if wanted && !self.quiet {
            self.out.push(d);
        }
    }

    pub(super) fn key_set(&mut self, k: &KeySet) {
        match k {
            KeySet::Value(e) => self.expr(e),
            KeySet::Mask(a, b) | KeySet::Range(a, b) => {
                self.expr(a);
                self.expr(b);
            }
            KeySet::Any | KeySet::ValueSet(_) => {}
        }
    }

    pub(super) fn stmts(&mut self, stmts: &[Stmt]) {
        for s in stmts {
            self.steps += 1;
            if self.steps > MAX_STEPS {
                return;
            }
            if self.now.is_none() {
                self.say(
                    Diagnostic::warning(UNREACHABLE, s.span, "this statement is never reached")
                        .label("the code before it always leaves")
                        .help("remove it, or move it up"),
                );
                return;
            }
            self.stmt(s);
        }
    }

    fn stmt(&mut self, s: &Stmt) {
        match &s.kind {
            StmtKind::Declare(v, init) => self.declare(*v, init.as_ref()),
            StmtKind::Assign(l, r) => self.assign(l, r),
            StmtKind::Eval(e) => self.expr(e),
            StmtKind::Block(b) | StmtKind::Atomic(b) | StmtKind::Repeatable(b) => self.stmts(b),
            StmtKind::If(c, a, b) => {
                self.expr(c);
                let before = self.now.clone();
                self.assume(c, true);
                self.stmts(a);
                let after = std::mem::replace(&mut self.now, before.clone());
                self.assume(c, false);
                self.stmts(b);
                self.meet(after, before.as_ref());
            }
            StmtKind::Switch { on, cases, default } => self.switch(on, cases, default),
            StmtKind::ActionSwitch { table, cases, default } => self.action_switch(*table, cases, default),
            StmtKind::For { init, cond, update, body } => {
                self.stmts(init);
                self.expr(cond);
                self.repeat(|f| {
                    // Any turn, not just the first.
                    f.unbound(update);
                    f.with_bounds(|b, context| b.assume(cond, true, context));
                    f.stmts(body);
                    if f.now.is_some() {
                        f.stmts(update);
                    }
                });
            }
            StmtKind::ForRange { var, lo, hi, body } => {
                self.expr(lo);
                self.expr(hi);
                self.each(var, hi, body);
            }
            StmtKind::ForEach { var, over, body } => {
                self.expr(over);
                self.each(var, over, body);
            }
            StmtKind::Return(e) => {
                e.iter().for_each(|e| self.expr(e));
                let now = self.now.take();
                join(&mut self.ends, now);
            }
            // Variables on a way that the packet never takes need not be set.
            StmtKind::Exit => {
                let now = self.now.take();
                join(&mut self.exits, now);
            }
            StmtKind::Break | StmtKind::Continue => {
                let now = self.now.take();
                if let Some(exit) = self.breaks.last_mut() {
                    join(exit, now);
                }
            }
        }
    }

    fn declare(&mut self, v: VarId, init: Option<&Expr>) {
        let ty = self.tree.vars[v.0].ty;
        let value = match init {
            Some(e) => {
                self.expr(e);
                if !matches!(e.kind, ExprKind::Const(_)) && !matches!(self.tree.tys.get(ty), Kind::Struct(..))
                {
                    self.facts.assign_var(v);
                }
                Value::Set
            }
            None => Value::new(self.tree, ty),
        };
        if let Some(now) = &mut self.now {
            now.set_var(v, value);
        }
        self.declare_headers(v, init);
        self.declare_bounds(v, init);
    }

    fn assign(&mut self, l: &Expr, r: &Expr) {
        self.expr(r);
        self.write(l);
        if let Some(to) = self.resolve(l) {
            self.assign_headers(&to, l.ty, r);
        }
        self.assign_bounds(l, r);
        // Values of these types pass on what is valid in values of the same type.
        let kinds = [StructKind::Struct, StructKind::HeaderUnion];
        if !self.tree.is_struct(l.ty, &kinds) || !matches!(r.kind, ExprKind::Var(_) | ExprKind::Field(..)) {
            self.made_valid(l);
        }
    }

    /// A loop that sets a variable before each turn, to `last` or a part of it at most.
    fn each(&mut self, var: &Expr, last: &Expr, body: &[Stmt]) {
        self.repeat(|f| {
            f.write(var);
            f.assign_bounds(var, last);
            f.stmts(body);
        });
    }

    fn switch(&mut self, on: &Expr, cases: &[(Vec<Expr>, Vec<Stmt>)], default: &[Stmt]) {
        self.expr(on);
        let before = self.now.clone();
        self.imply(std::iter::once(on), None);
        let chosen = self.now.clone();
        let mut after = None;
        for (labels, body) in cases {
            self.now = chosen.clone();
            labels.iter().for_each(|e| self.expr(e));
            let max = labels.iter().map(|e| known(e).unwrap_or(ANY)).max().unwrap_or(ANY);
            self.with_bounds(|b, context| b.cut(on, max, context));
            self.stmts(body);
            join(&mut after, self.now.take());
        }
        self.now = chosen;
        self.stmts(default);
        join(&mut self.now, after);
        self.unmute(before.as_ref());
    }

    fn action_switch(&mut self, table: usize, cases: &[(Vec<usize>, Vec<Stmt>)], default: &[Stmt]) {
        let before = self.now.clone();
        let ways = self.apply(table);
        let mut after = None;
        let mut rest = None;
        for (k, state) in ways.into_iter().enumerate() {
            match cases.iter().find(|(labels, _)| labels.contains(&k)) {
                Some((_, body)) => {
                    self.now = state;
                    self.stmts(body);
                    join(&mut after, self.now.take());
                }
                None => join(&mut rest, state),
            }
        }
        self.now = rest;
        if self.now.is_some() {
            self.stmts(default);
        }
        join(&mut self.now, after);
        self.unmute(before.as_ref());
    }

    /// The two ways of a condition meet; what it implied on one of them is forgotten, unless only that one comes here.
    fn meet(&mut self, other: Option<State>, before: Option<&State>) {
        let arrives = |s: &Option<State>| s.as_ref().is_some_and(|s| s.headers.is_reached());
        let both = arrives(&self.now) && arrives(&other);
        join(&mut self.now, other);
        if both {
            self.unmute(before);
        }
    }

    /// What conditions implied is as in `before`.
    pub(super) fn unmute(&mut self, before: Option<&State>) {
        if let (Some(now), Some(before)) = (&mut self.now, before) {
            now.headers.unmute(&before.headers);
        }
    }

    /// A loop: its body runs any number of times.
    fn repeat(&mut self, body: impl FnOnce(&mut Self)) {
        let before = self.now.clone();
        self.breaks.push(None);
        body(self);
        join(&mut self.now, before);
        let left = self.breaks.pop().flatten();
        join(&mut self.now, left);
    }
}
