//! Expressions in [`Flow`]: what they read and write, calls, tables.

use super::UNINITIALISED;
use super::facts::place;
use super::flow::{Flow, join};
use super::state::{Bad, State, Value};
use super::valid::reads_packet;
use crate::ast::{BinaryOp, Direction, StructKind};
use crate::check::tree::{Arg, Call, Callee, Expr, ExprKind, Param};
use crate::check::types::Kind;
use crate::diag::Diagnostic;

impl Flow<'_> {
    /// `l` is set.
    pub(super) fn write(&mut self, l: &Expr) {
        self.facts.assign(self.tree, l);
        self.spine(l);
        match &l.kind {
            // Bits around it stay as they were.
            ExprKind::Slice(b, ..) => return self.write(b),
            ExprKind::Field(..) => self.access(l, false),
            _ => {}
        }
        if let (Some(place), Some(now)) = (place(l), &mut self.now) {
            now.set(&place, Value::Set);
        }
    }

    /// Evaluates `e`.
    pub(super) fn expr(&mut self, e: &Expr) {
        match &e.kind {
            ExprKind::Var(_) | ExprKind::Field(..) => self.read(e),
            ExprKind::Call(c) => self.call(c),
            ExprKind::Apply(t) | ExprKind::Hit { table: t, .. } => {
                let before = self.now.clone();
                let mut after = None;
                for way in self.apply(*t) {
                    join(&mut after, way);
                }
                self.now = after;
                self.unmute(before.as_ref());
            }
            // Whether it is valid may always be asked.
            ExprKind::IsValid(b) if place(b).is_some() => self.asked(b),
            ExprKind::IsValid(b) => {
                self.asked(b);
                self.expr(b);
            }
            ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
                self.expr(a);
                let before = self.now.clone();
                self.assume(a, *op == BinaryOp::And);
                self.expr(b);
                join(&mut self.now, before.clone());
                self.unmute(before.as_ref());
            }
            ExprKind::Index(b, i) => {
                self.expr(b);
                self.expr(i);
                self.index(b, i);
            }
            ExprKind::Mux(c, a, b) => {
                self.expr(c);
                let before = self.now.clone();
                self.assume(c, true);
                self.expr(a);
                let after = std::mem::replace(&mut self.now, before.clone());
                self.assume(c, false);
                self.expr(b);
                join(&mut self.now, after);
                self.unmute(before.as_ref());
            }
            _ => {
                let mut children = Vec::new();
                e.each_child(&mut |c| children.push(c));
                children.into_iter().for_each(|c| self.expr(c));
            }
        }
    }

    fn read(&mut self, e: &Expr) {
        let Some(p) = place(e) else {
            if let ExprKind::Field(b, _) = &e.kind {
                self.access(e, true);
                self.expr(b);
            }
            return;
        };
        self.access(e, true);
        let Some(now) = &self.now else { return };
        let how = match now.read(&p) {
            None => return,
            Some(Bad::Unset) => "may not be set",
            Some(Bad::Partly) => "may be set only in part",
        };
        let var = &self.tree.vars[p.var.0];
        let message = match p.fields.is_empty() {
            true => format!("`{}` {how} here", var.name),
            false => format!("this part of `{}` {how} here", var.name),
        };
        let at = var.span;
        self.say(
            Diagnostic::warning(UNINITIALISED, e.span, message)
                .label("read here")
                .related(at, "declared here")
                .help("give it a value first; it would be zero here, undefined on other targets"),
        );
        // Once is enough.
        if let Some(now) = &mut self.now {
            now.set(&p, Value::Set);
        }
    }

    fn call(&mut self, c: &Call) {
        match &c.callee {
            Callee::Method(e, ..) | Callee::PushFront(e) | Callee::PopFront(e)
                if !matches!(e.kind, ExprKind::Var(_) | ExprKind::Field(..)) =>
            {
                self.expr(e);
            }
            _ => {}
        }
        // What a condition among the arguments says holds for the others.
        let condition = self.conditional(&c.callee, &c.args);
        let before = condition.and_then(|_| self.now.as_ref().map(|n| n.headers.clone()));
        if let Some(cond) = condition {
            self.expr(cond);
            self.assume(cond, true);
        }
        for a in &c.args {
            match a {
                Arg::In(e) => self.expr(e),
                // Headers and structs that hold them may come in incomplete; scalars should not.
                Arg::InOut(e) => {
                    if !matches!(self.tree.tys.get(e.ty), Kind::Struct(..) | Kind::Stack(..)) {
                        self.expr(e);
                    }
                }
                Arg::Out(_) | Arg::Ignore(_) | Arg::Missing => {}
            }
        }
        if let (Some(now), Some(before)) = (&mut self.now, before) {
            now.headers = before;
        }
        self.element(c);
        let max = self.bounds_of(|b, context| b.call(c, context));
        let followed = self.callee(c);
        let extracts = reads_packet(self.tree, &c.callee, "extract");
        for a in &c.args {
            if let Arg::Out(e) | Arg::InOut(e) = a {
                self.write(e);
                if !followed {
                    self.returned(e, extracts);
                    self.bound(e, max);
                }
                let kinds = [StructKind::Struct, StructKind::HeaderUnion];
                if !followed || !self.tree.is_struct(e.ty, &kinds) {
                    self.made_valid(e);
                }
            }
        }
        match &c.callee {
            Callee::PushFront(e) => self.made_valid(e),
            Callee::SetValid(e) | Callee::SetInvalid(e) => {
                self.spine(e);
                self.made_valid(e);
                self.set_validity(e, matches!(c.callee, Callee::SetValid(_)), e.span);
            }
            _ => {}
        }
    }

    /// Applies a table: the state after each of its actions.
    pub(super) fn apply(&mut self, table: usize) -> Vec<Option<State>> {
        let t = self.tree.tables[table].clone();
        // Its entries may say for which packets an action is.
        self.imply(t.keys.iter().map(|k| &k.expr), None);
        t.keys.iter().for_each(|k| self.expr(&k.expr));
        let before = self.now.clone();
        let mut out = Vec::new();
        for (k, a) in t.actions.iter().enumerate() {
            self.now = before.clone();
            self.matched(table, k);
            for b in &a.bound {
                if let Arg::In(e) = b {
                    self.expr(e);
                }
            }
            let params = self.tree.actions[a.action].sig.params.iter();
            let params: Vec<Param> = params.filter(|p| p.direction != Direction::None).cloned().collect();
            self.bind(&params, &a.bound);
            self.controlled(a.action);
            self.action(a.action);
            for b in &a.bound {
                if let Arg::Out(e) | Arg::InOut(e) = b {
                    self.write(e);
                }
            }
            out.push(self.now.take());
        }
        if out.is_empty() {
            out.push(before);
        }
        out
    }
}
