//! Effects that happen again because a packet comes back.
//!
//! A control with `@restarts` may send the packet back to the start of the program. Everything on a path to its `apply` is then executed again. Headers and
//! metadata begin again with the packet. Registers, counters, meters, messages and copies do not: such an effect in front of the `apply` is an error, unless it
//! is in code with `@repeatable`.
//!
//! The walk is backwards: at each statement it knows whether such an `apply` can follow. It follows packages, blocks, states, tables, actions and functions, and
//! `exit`, `return` and loops. Values are not followed: each branch counts as possible.

mod effects;

use crate::check::tree::{
    Arg, BinaryOp, Call, Callee, Expr, ExprKind, KeySet, New, State, Stmt, StmtKind, Transition, Tree,
    UnaryOp, VarId,
};
use crate::check::types::Kind;
use crate::diag::Diagnostic;
use pointsman_ir::{Annotations, Span};
use std::collections::{BTreeMap, BTreeSet};

/// An effect that happens again.
const AGAIN: &str = "P0611";
/// A control that may send the packet back to the start.
const RESTARTS: &str = "restarts";
/// Code that may be executed again.
pub const REPEATABLE: &str = "repeatable";
/// Calls inside of calls that are followed.
const MAX_DEPTH: usize = 100;

/// The next `apply` of a control with `@restarts` that may follow: where it is, and the block.
type Next = Option<(Span, usize)>;

/// What follows where code is left.
#[derive(Clone, Copy, Default)]
struct Ways {
    ends: Next,
    exits: Next,
    breaks: Next,
    continues: Next,
}

/// A parser or control with what its constructor parameters are; `None` for those that are no blocks.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Made {
    block: usize,
    args: Vec<Option<Made>>,
}

/// Code that can be called.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Unit {
    Block(Made),
    Function(usize),
    Action(usize),
}

/// What the result of [`Walk::enter`] depends on: code, what follows it and an `exit` in it, `quiet` and `table`.
type Key = (Unit, Next, Next, bool, Option<usize>);

struct Walk<'a> {
    tree: &'a Tree,
    found: Vec<Diagnostic>,
    said: BTreeSet<Span>,
    ways: Ways,
    /// In code with `@repeatable`.
    quiet: bool,
    /// The calls around, the outermost first.
    calls: Vec<Span>,
    /// The table that is applied.
    table: Option<usize>,
    /// What the constructor parameters of the block are.
    params: BTreeMap<VarId, Made>,
    /// Blocks that were looked at.
    covered: BTreeSet<usize>,
    done: BTreeMap<Key, Next>,
}

/// Looks for effects that happen again: in the packages that `main` is made of, in the order of their blocks, then in each block that they do not use.
pub fn check(tree: &Tree, diagnostics: &mut Vec<Diagnostic>) {
    if !tree.blocks.iter().any(|b| b.annotations.has(RESTARTS)) {
        return;
    }
    let mut walk = Walk {
        tree,
        found: Vec::new(),
        said: BTreeSet::new(),
        ways: Ways::default(),
        quiet: false,
        calls: Vec::new(),
        table: None,
        params: BTreeMap::new(),
        covered: BTreeSet::new(),
        done: BTreeMap::new(),
    };
    if let Some(main) = tree.main {
        walk.package(&tree.instances[main].new, None);
    }
    // Blocks follow those that they apply.
    for block in (0..tree.blocks.len()).rev() {
        if !walk.covered.contains(&block) {
            walk.ways = Ways::default();
            walk.block(Made { block, args: Vec::new() }, None, None);
        }
    }
    walk.found.sort_by_key(|d| d.span);
    diagnostics.extend(walk.found);
}

impl<'a> Walk<'a> {
    /// The blocks of a package, of which each passes the packet to the next one.
    fn package(&mut self, package: &'a New, after: Next) -> Next {
        package.args.iter().flatten().rev().fold(after, |after, part| {
            let Some(new) = self.tree.made(part) else { return after };
            if matches!(self.tree.tys.get(new.ty), Kind::Package(..)) {
                return self.package(new, after);
            }
            self.ways = Ways { exits: after, ..Ways::default() };
            self.made(part).map_or(after, |made| self.block(made, None, after))
        })
    }

    /// The block that an expression is.
    fn made(&self, e: &Expr) -> Option<Made> {
        if let ExprKind::Var(v) = &e.kind {
            return self.params.get(v).cloned();
        }
        let new = self.tree.made(e)?;
        let Kind::Block(block, _) = self.tree.tys.get(new.ty) else { return None };
        let args = new.args.iter().map(|a| self.made(a.as_ref()?)).collect();
        Some(Made { block: *block, args })
    }

    /// `apply` of a parser or control.
    fn apply(&mut self, e: &'a Expr, span: Span, after: Next) -> Next {
        let Kind::Block(ty, _) = self.tree.tys.get(e.ty) else { return after };
        let made = self.made(e).unwrap_or(Made { block: *ty, args: Vec::new() });
        let block = made.block;
        let before = self.block(made, Some(span), after);
        if self.tree.blocks[block].annotations.has(RESTARTS) { Some((span, block)) } else { before }
    }

    /// The body of a parser or control that is applied at `span`.
    fn block(&mut self, made: Made, span: Option<Span>, after: Next) -> Next {
        self.covered.insert(made.block);
        let block = &self.tree.blocks[made.block];
        let Some(body) = &block.body else { return after };
        let args = block.ctor_params.iter().zip(&made.args);
        let params = args.filter_map(|(p, a)| Some((p.var, a.clone()?))).collect();
        let outer = std::mem::replace(&mut self.params, params);
        let before = self.enter(Unit::Block(made), &block.annotations, span, after, |w| {
            let before = match block.is_parser {
                true => w.repeat(after, |w, next| w.states(&body.states, next)),
                false => w.stmts(&body.apply, after),
            };
            w.stmts(&body.locals, before)
        });
        self.params = outer;
        before
    }

    /// Code that is called at `span`, unless that is known already.
    fn enter(
        &mut self,
        unit: Unit,
        annotations: &Annotations,
        span: Option<Span>,
        after: Next,
        body: impl FnOnce(&mut Self) -> Next,
    ) -> Next {
        if self.calls.len() >= MAX_DEPTH {
            self.too_deep(span.unwrap_or_default());
            return after;
        }
        let quiet = self.quiet || annotations.has(REPEATABLE);
        let key = (unit, after, self.ways.exits, quiet, self.table);
        if let Some(before) = self.done.get(&key) {
            return *before;
        }
        let calls = self.calls.len();
        self.calls.extend(span);
        let inside = Ways { ends: after, exits: self.ways.exits, ..Ways::default() };
        let ways = std::mem::replace(&mut self.ways, inside);
        let before = self.quietly(quiet, body);
        self.ways = ways;
        self.calls.truncate(calls);
        self.done.insert(key, before);
        before
    }

    fn quietly(&mut self, quiet: bool, run: impl FnOnce(&mut Self) -> Next) -> Next {
        let outer = std::mem::replace(&mut self.quiet, quiet);
        let before = run(self);
        self.quiet = outer;
        before
    }

    /// Code that is executed any number of times; `run` gets what follows one time.
    fn repeat(&mut self, after: Next, mut run: impl FnMut(&mut Self, Next) -> Next) -> Next {
        let before = run(self, after);
        if after.is_none() && before.is_some() {
            run(self, before);
        }
        before.or(after)
    }

    /// The states of a parser, in any order. A packet that is rejected counts as one that continues.
    fn states(&mut self, states: &'a [State], after: Next) -> Next {
        states.iter().fold(after, |all, s| {
            let before = match &s.next {
                Transition::Goto(_) => after,
                Transition::Select { on, cases } => {
                    let keys = cases.iter().flat_map(|(keys, _)| keys);
                    let before = keys.fold(after, |after, k| match k {
                        KeySet::Value(e) => self.expr(e, after),
                        KeySet::Mask(a, b) | KeySet::Range(a, b) => {
                            let before = self.expr(b, after);
                            self.expr(a, before)
                        }
                        KeySet::Any | KeySet::ValueSet(_) => after,
                    });
                    on.iter().rev().fold(before, |after, e| self.expr(e, after))
                }
            };
            let before = self.stmts(&s.body, before);
            all.or(before)
        })
    }

    fn stmts(&mut self, stmts: &'a [Stmt], after: Next) -> Next {
        stmts.iter().rev().fold(after, |after, s| self.stmt(s, after))
    }

    fn stmt(&mut self, s: &'a Stmt, after: Next) -> Next {
        match &s.kind {
            StmtKind::Declare(_, init) => init.as_ref().map_or(after, |e| self.expr(e, after)),
            StmtKind::Assign(to, e) => {
                let before = self.expr(e, after);
                self.expr(to, before)
            }
            StmtKind::Eval(e) => self.expr(e, after),
            StmtKind::Block(b) | StmtKind::Atomic(b) => self.stmts(b, after),
            StmtKind::Repeatable(b) => self.quietly(true, |w| w.stmts(b, after)),
            StmtKind::If(c, a, b) => {
                let yes = self.stmts(a, after);
                let no = self.stmts(b, after);
                self.cond(c, yes, no)
            }
            StmtKind::Switch { on, cases, default } => {
                let default = self.stmts(default, after);
                let bodies = cases.iter().rev();
                let before = bodies.fold(default, |all, (_, body)| self.stmts(body, after).or(all));
                self.expr(on, before)
            }
            StmtKind::ActionSwitch { table, cases, default } => {
                let default = self.stmts(default, after);
                let bodies = cases.iter().map(|(labels, body)| (labels, self.stmts(body, after)));
                let ways: Vec<_> = bodies.collect();
                self.apply_table(*table, s.span, &|action, _| {
                    let case = ways.iter().find(|(labels, _)| action.is_some_and(|a| labels.contains(&a)));
                    case.map_or(default, |(_, before)| *before)
                })
            }
            StmtKind::For { init, cond, update, body } => {
                let before = self.repeat(after, |w, next| {
                    let next = w.expr(cond, next);
                    let next = w.stmts(update, next);
                    w.turn(body, after, next).or(after)
                });
                self.stmts(init, before)
            }
            StmtKind::ForRange { lo, hi, body, .. } => {
                let before = self.repeat(after, |w, next| w.turn(body, after, next));
                let before = self.expr(hi, before);
                self.expr(lo, before)
            }
            StmtKind::ForEach { over, body, .. } => {
                let before = self.repeat(after, |w, next| w.turn(body, after, next));
                self.expr(over, before)
            }
            StmtKind::Return(e) => e.as_ref().map_or(self.ways.ends, |e| self.expr(e, self.ways.ends)),
            StmtKind::Exit => self.ways.exits,
            StmtKind::Break => self.ways.breaks,
            StmtKind::Continue => self.ways.continues,
        }
    }

    /// The body of a loop, once: `next` follows it, and `after` the loop.
    fn turn(&mut self, body: &'a [Stmt], after: Next, next: Next) -> Next {
        let inside = Ways { breaks: after, continues: next, ..self.ways };
        let ways = std::mem::replace(&mut self.ways, inside);
        let before = self.stmts(body, next);
        self.ways = ways;
        before
    }

    /// A condition, with what follows if it is true, or false.
    fn cond(&mut self, e: &'a Expr, yes: Next, no: Next) -> Next {
        match &e.kind {
            ExprKind::Unary(UnaryOp::Not, e) => self.cond(e, no, yes),
            ExprKind::Binary(BinaryOp::And, a, b) => {
                let second = self.cond(b, yes, no);
                self.cond(a, second, no)
            }
            ExprKind::Binary(BinaryOp::Or, a, b) => {
                let second = self.cond(b, yes, no);
                self.cond(a, yes, second)
            }
            ExprKind::Hit { table, negate } => {
                self.apply_table(*table, e.span, &|_, hit| if hit != *negate { yes } else { no })
            }
            _ => self.expr(e, yes.or(no)),
        }
    }

    fn expr(&mut self, e: &'a Expr, after: Next) -> Next {
        let before = match &e.kind {
            ExprKind::Binary(BinaryOp::And | BinaryOp::Or, ..) | ExprKind::Hit { .. } => {
                return self.cond(e, after, after);
            }
            ExprKind::Mux(c, a, b) => {
                let yes = self.expr(a, after);
                let no = self.expr(b, after);
                return self.cond(c, yes, no);
            }
            ExprKind::Apply(t) => self.apply_table(*t, e.span, &|_, _| after),
            ExprKind::Call(c) => self.call(c, e.span, after),
            _ => after,
        };
        let mut parts = Vec::new();
        e.each_child(&mut |part| parts.push(part));
        parts.into_iter().rev().fold(before, |after, part| self.expr(part, after))
    }

    fn call(&mut self, c: &'a Call, span: Span, after: Next) -> Next {
        match &c.callee {
            Callee::Function(f) => self.function(*f, span, after),
            Callee::Action(a) => self.action(*a, span, after),
            Callee::Block(e) => self.apply(e, span, after),
            Callee::ExternFn(f) => {
                self.extern_function(*f, span, after);
                after
            }
            Callee::Method(object, _, method) => match self.implementation(object, *method) {
                Some(f) => self.function(f, span, after),
                None => {
                    self.method(c, span, after);
                    after
                }
            },
            Callee::SetValid(_) | Callee::SetInvalid(_) | Callee::PushFront(_) | Callee::PopFront(_) => after,
        }
    }

    fn function(&mut self, f: usize, span: Span, after: Next) -> Next {
        let function = &self.tree.functions[f];
        let run = |w: &mut Self| w.stmts(&function.body, after);
        self.enter(Unit::Function(f), &function.sig.annotations, Some(span), after, run)
    }

    fn action(&mut self, a: usize, span: Span, after: Next) -> Next {
        let action = &self.tree.actions[a];
        let run = |w: &mut Self| w.stmts(&action.body, after);
        self.enter(Unit::Action(a), &action.sig.annotations, Some(span), after, run)
    }

    /// `apply` of a table. `next` says what follows an action, by its index, on a hit or a miss.
    fn apply_table(&mut self, t: usize, span: Span, next: &dyn Fn(Option<usize>, bool) -> Next) -> Next {
        let table = &self.tree.tables[t];
        let outer = self.table.replace(t);
        let quiet = self.quiet || table.annotations.has(REPEATABLE);
        let default = table.default.as_ref().map(|(a, _)| *a);
        let before = self.quietly(quiet, |w| {
            let mut before = None;
            for (k, action) in table.actions.iter().enumerate() {
                let hits = !table.keys.is_empty() && !action.annotations.has("defaultonly");
                // A control plane may choose another default action.
                let misses =
                    default == Some(k) || !(table.const_default || action.annotations.has("tableonly"));
                for hit in [true, false] {
                    if if hit { hits } else { misses } {
                        let way = w.action(action.action, span, next(Some(k), hit));
                        before = before.or(way);
                    }
                }
            }
            if default.is_none() {
                before = before.or(next(None, false));
            }
            w.attached(table, span, before);
            let bound = table.actions.iter().flat_map(|a| &a.bound);
            bound.fold(before, |after, arg| match arg {
                Arg::In(e) | Arg::Out(e) | Arg::InOut(e) => w.expr(e, after),
                Arg::Ignore(_) | Arg::Missing => after,
            })
        });
        self.table = outer;
        table.keys.iter().rev().fold(before, |after, k| self.expr(&k.expr, after))
    }
}
