//! Indices in [`Flow`]: which arrays they are of, how large they can be, what is reported.

use super::INDEX;
use super::bounds::{ANY, Bounds, Context, known};
use super::flow::Flow;
use super::state::Place;
use super::valid::path;
use crate::ast::Direction;
use crate::check::tree::{Arg, Call, Callee, Expr, ExprKind, KeySet, Param, Stmt, StmtKind, VarId};
use crate::check::types::Kind;
use crate::diag::{Diagnostic, elements};

/// How constructors of registers, counters and meters call the number of their elements.
const SIZES: [&str; 3] = ["size", "n_counters", "n_meters"];

impl Flow<'_> {
    pub(super) fn with_bounds(&mut self, f: impl FnOnce(&mut Bounds, Context<'_>)) {
        if let Some(now) = &mut self.now {
            f(&mut now.bounds, Context { tree: self.tree, names: &self.names, target: None });
        }
    }

    pub(super) fn bounds_of(&self, f: impl FnOnce(&Bounds, Context<'_>) -> u128) -> u128 {
        let context = Context { tree: self.tree, names: &self.names, target: None };
        self.now.as_ref().map_or(ANY, |now| f(&now.bounds, context))
    }

    /// A variable gets its first value; without one it is zero.
    pub(super) fn declare_bounds(&mut self, var: VarId, init: Option<&Expr>) {
        let own = Place { var, fields: Vec::new() };
        self.with_bounds(|b, context| match init {
            Some(e) => b.assign(own, e, context),
            None => b.set(own, 0),
        });
    }

    /// `l` becomes `r`, or an element of it.
    pub(super) fn assign_bounds(&mut self, l: &Expr, r: &Expr) {
        if let ExprKind::Slice(whole, ..) = &l.kind {
            return self.bound(whole, ANY);
        }
        self.with_bounds(|b, context| {
            let Some(place) = context.place(l) else { return };
            b.assign(place, r, Context { target: Some(l), ..context });
        });
    }

    /// `e` is `max` at most.
    pub(super) fn bound(&mut self, e: &Expr, max: u128) {
        self.with_bounds(|b, context| {
            if let Some(place) = context.place(e) {
                b.set(place, max);
            }
        });
    }

    /// What these statements assign can have any value.
    pub(super) fn unbound(&mut self, stmts: &[Stmt]) {
        for s in stmts {
            if let StmtKind::Assign(l, _) = &s.kind {
                self.bound(l, ANY);
            }
        }
    }

    /// The place that a parameter becomes for this argument, or else its largest value.
    pub(super) fn passed(&mut self, a: &Arg) -> (Option<Place>, u128) {
        let context = Context { tree: self.tree, names: &self.names, target: None };
        match a {
            Arg::In(e) => (None, self.bounds_of(|b, context| b.of(e, context))),
            Arg::InOut(e) => (context.place(e), ANY),
            Arg::Out(e) => {
                let place = context.place(e);
                self.bound(e, 0);
                (place, 0)
            }
            Arg::Ignore(_) | Arg::Missing => (None, 0),
        }
    }

    /// A table runs an action: its data come from the control plane.
    pub(super) fn controlled(&mut self, action: usize) {
        let params = self.tree.actions[action].sig.params.iter();
        let data: Vec<VarId> = params.filter(|p| p.direction == Direction::None).map(|p| p.var).collect();
        self.with_bounds(|b, _| data.into_iter().for_each(|var| b.set(Place { var, fields: Vec::new() }, 0)));
    }

    /// A table runs an action that is not its default: the control plane knows the keys that match exactly.
    pub(super) fn matched(&mut self, table: usize, action: usize) {
        let default = self.tree.tables[table].default.as_ref().map(|(a, _)| *a);
        if default.is_some_and(|a| a != action) {
            self.with_bounds(|b, context| b.matched(table, context));
        }
    }

    /// Parameters whose callers are not known.
    pub(super) fn unknown(&mut self, params: &[Param]) {
        self.with_bounds(|b, _| {
            params.iter().for_each(|p| b.set(Place { var: p.var, fields: Vec::new() }, 0));
        });
    }

    /// A parser state chooses its way where `on` matches `keys`.
    pub(super) fn select_bounds(&mut self, on: &[Expr], keys: &[KeySet]) {
        self.with_bounds(|b, context| {
            for (e, k) in on.iter().zip(keys) {
                b.select(e, std::iter::once(k), context);
            }
        });
    }

    /// The indices in a place that is written.
    pub(super) fn spine(&mut self, e: &Expr) {
        match &e.kind {
            ExprKind::Index(b, i) => {
                self.spine(b);
                self.expr(i);
                self.index(b, i);
            }
            ExprKind::Field(b, _) | ExprKind::Next(b) | ExprKind::Last(b) => self.spine(b),
            _ => {}
        }
    }

    /// `array[i]`
    pub(super) fn index(&mut self, array: &Expr, i: &Expr) {
        if let Kind::Stack(_, size) = self.tree.tys.get(array.ty) {
            let (size, name) = (u128::from(*size), path(self, array));
            self.check(&name, size, i);
        }
    }

    /// A call of a method of a register, counter or meter.
    pub(super) fn element(&mut self, c: &Call) {
        let Callee::Method(Expr { kind: ExprKind::Instance(instance), .. }, object, method) = &c.callee
        else {
            return;
        };
        let (instance, object) = (&self.tree.instances[*instance], &self.tree.externs[*object]);
        let Some(ctor) = object.ctors.get(instance.new.ctor) else { return };
        let size = ctor.params.iter().position(|p| SIZES.contains(&p.name.as_str()));
        let index = object.methods[*method].params.iter().position(|p| p.name == "index");
        let size = size.and_then(|i| instance.new.args.get(i)?.as_ref()).and_then(known);
        if let (Some(size), Some(Arg::In(i))) = (size, index.and_then(|i| c.args.get(i))) {
            let name = instance.name.clone();
            self.check(&name, size, i);
        }
    }

    fn check(&mut self, array: &str, size: u128, i: &Expr) {
        let max = self.bounds_of(|b, context| b.of(i, context));
        if max < size || max == ANY {
            return;
        }
        let elements = elements(size);
        let message = match known(i) {
            Some(n) => format!("index {n} is out of range: `{array}` has {elements}"),
            None => format!("this index can be up to {max}, but `{array}` has {elements}"),
        };
        let last = size.saturating_sub(1);
        let help = match known(i) {
            Some(_) => format!("use an index from 0 to {last}, or a larger size"),
            None if size.is_power_of_two() && size > 1 => format!(
                "check that it is below {size} before this, or use its low bits: `[{}:0]`",
                size.ilog2() - 1
            ),
            None => format!("check that it is below {size} before this"),
        };
        self.say(
            Diagnostic::warning(INDEX, i.span, message)
                .label(match known(i) {
                    Some(_) => "no such element",
                    None => "no condition before this bounds it",
                })
                .help(help),
        );
        // Once is enough.
        self.with_bounds(|b, context| b.cut(i, last, context));
    }
}
