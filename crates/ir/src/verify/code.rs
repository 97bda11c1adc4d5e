//! Statements and parser states.

use super::calls::{Node, Work};
use super::expr::{Use, number};
use super::types::{Known, emittable, fits, is_header_stack, readable, varbits};
use super::{MAX_NESTING, Report, fields_of_value_set, same};
use crate::program::{Frame, Parser, Program, SelectCase, StateRef, TableId, Transition};
use crate::stmt::{Expr, KeySet, LValue, Stmt, StmtKind};
use crate::types::{Type, TypeId, Types};

/// The owner of the code, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Parser,
    Control(usize),
    /// Of this control, or top-level.
    Action(Option<usize>),
    /// Returns this type.
    Function(TypeId),
}

/// The code of one callable (or the expressions of a table) being checked.
pub(super) struct Code<'a, 'r> {
    report: &'r mut Report<'a>,
    pub(super) known: &'r Known,
    /// `control ingress`.
    block: String,
    /// The place in it: `body[2]`, `then[0]`.
    path: Vec<(&'static str, usize)>,
    pub(super) kind: Kind,
    pub(super) local: &'a Frame,
    /// Of the control around an action.
    pub(super) outer: Option<&'a Frame>,
    loops: usize,
    depth: usize,
    work: Work,
}

impl<'a, 'r> Code<'a, 'r> {
    pub(super) fn new(
        report: &'r mut Report<'a>,
        known: &'r Known,
        block: String,
        kind: Kind,
        local: &'a Frame,
    ) -> Self {
        Code {
            report,
            known,
            block,
            path: vec![],
            kind,
            local,
            outer: None,
            loops: 0,
            depth: 0,
            work: Work::default(),
        }
    }

    /// The results about nesting and calls.
    pub(super) fn finish(self) -> Work {
        self.work
    }

    pub(super) fn program(&self) -> &'a Program {
        self.report.program
    }

    pub(super) fn types(&self) -> &'a Types {
        self.report.types()
    }

    pub(super) fn name(&self, ty: TypeId) -> String {
        self.report.name(ty)
    }

    pub(super) fn errors(&self) -> usize {
        self.report.messages.len()
    }

    pub(super) fn error(&mut self, message: impl AsRef<str>) {
        let mut place = self.block.clone();
        for (i, (part, n)) in self.path.iter().enumerate() {
            place.push_str(&format!("{}{part}[{n}]", if i == 0 { ": " } else { "." }));
        }
        self.report.add(&place, message);
    }

    /// Records that the code calls `node` from here.
    pub(super) fn calls(&mut self, node: Node) {
        self.work.calls.push((node, self.depth));
    }

    /// Runs `check` at the place `part[n]`.
    pub(super) fn at(&mut self, part: &'static str, n: usize, check: impl FnOnce(&mut Self)) {
        self.path.push((part, n));
        check(self);
        self.path.pop();
    }

    /// Goes a level down, unless that is too deep.
    pub(super) fn deeper(&mut self, check: impl FnOnce(&mut Self)) {
        if self.depth >= MAX_NESTING {
            return self.error(format!("the code is nested deeper than {MAX_NESTING}"));
        }
        self.depth += 1;
        self.work.deepest = self.work.deepest.max(self.depth);
        check(self);
        self.depth -= 1;
    }

    /// The body of a callable.
    pub(super) fn root(&mut self, body: &[Stmt]) {
        self.block("body", body);
    }

    pub(super) fn block(&mut self, name: &'static str, stmts: &[Stmt]) {
        for (n, stmt) in stmts.iter().enumerate() {
            self.at(name, n, |this| this.deeper(|this| this.stmt(stmt)));
        }
    }

    fn only_in(&mut self, right: bool, what: &str, place: &str) {
        if !right {
            self.error(format!("{what} outside of a {place}"));
        }
    }

    fn only_in_parser(&mut self, what: &str) {
        self.only_in(self.kind == Kind::Parser, what, "parser");
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Assign(lv, e) => {
                if self.place(lv, Use::Write) {
                    self.expr_of(e, lv.ty, "the assigned value");
                }
            }
            StmtKind::SetValid(lv) | StmtKind::SetInvalid(lv) => {
                self.written(lv, |_, t| matches!(t, Type::Header(_)), "setValid or setInvalid");
            }
            StmtKind::PushFront(lv, _) | StmtKind::PopFront(lv, _) => {
                self.written(lv, |c, t| is_header_stack(c.types(), t), "push_front or pop_front");
            }
            StmtKind::Call { result, callee, type_args, args } => {
                self.call(result.as_ref(), *callee, type_args, args);
            }
            StmtKind::Apply { table, hit, action_run } => {
                self.apply(*table, hit.as_ref(), action_run.as_ref())
            }
            StmtKind::If(cond, yes, no) => {
                self.condition(cond);
                self.block("then", yes);
                self.block("else", no);
            }
            StmtKind::Switch { on, cases, default } => {
                if self.expr(on) {
                    self.labels(on, cases);
                }
                for (n, (_, body)) in cases.iter().enumerate() {
                    self.at("case", n, |this| this.block("body", body));
                }
                self.block("default", default);
            }
            StmtKind::Loop { cond, body, update } => self.repeated(cond, body, update),
            StmtKind::Break => self.only_in(self.loops > 0, "break", "loop"),
            StmtKind::Continue => self.only_in(self.loops > 0, "continue", "loop"),
            StmtKind::Return(value) => self.returns(value.as_ref()),
            StmtKind::Exit => {
                let right = matches!(self.kind, Kind::Control(_) | Kind::Action(_));
                self.only_in(right, "exit", "control or action");
            }
            StmtKind::Extract { header, varbits } => self.extract(header, varbits.as_ref()),
            StmtKind::Lookahead(lv) => {
                self.only_in_parser("lookahead");
                self.written(lv, |this, _| readable(this.types(), lv.ty), "lookahead");
            }
            StmtKind::Advance(e) => {
                self.only_in_parser("advance");
                self.expr_that(e, |t| matches!(t, Type::Bit(32)), "the distance of advance");
            }
            StmtKind::PacketLength(lv) => {
                self.only_in_parser("length");
                self.written(lv, |_, t| matches!(t, Type::Bit(32)), "length");
            }
            StmtKind::Verify(cond, error) => {
                self.only_in_parser("verify");
                self.condition(cond);
                self.expr_that(error, |t| matches!(t, Type::Error), "the error of verify");
            }
            StmtKind::Emit(e) => {
                self.only_in(matches!(self.kind, Kind::Control(_)), "emit", "control");
                if self.expr(e) && !emittable(self.types(), e.ty) {
                    let name = self.name(e.ty);
                    self.error(format!("{name} cannot be emitted"));
                }
            }
        }
    }

    /// A loop.
    fn repeated(&mut self, cond: &Expr, body: &[Stmt], update: &[Stmt]) {
        self.condition(cond);
        self.loops += 1;
        self.block("loop", body);
        self.loops -= 1;
        // `break` and `continue` of the update would be of a loop around this one.
        let outer = std::mem::take(&mut self.loops);
        self.block("update", update);
        self.loops = outer;
    }

    fn condition(&mut self, e: &Expr) {
        self.expr_that(e, |t| matches!(t, Type::Bool), "a condition");
    }

    /// `lv` is right, can be written and its type is as `right` says.
    fn written(&mut self, lv: &LValue, right: impl Fn(&Self, &Type) -> bool, what: &str) {
        if self.place(lv, Use::Write) && !right(self, self.types().repr_type(lv.ty)) {
            let name = self.name(lv.ty);
            self.error(format!("{what} cannot be applied to {name}"));
        }
    }

    fn labels(&mut self, on: &Expr, cases: &[(Vec<crate::Value>, Vec<Stmt>)]) {
        if self.types().scalar_width(on.ty).is_none() {
            let name = self.name(on.ty);
            self.error(format!("a switch cannot be on {name}"));
        }
        let errors = self.program().errors.len();
        for (n, (labels, _)) in cases.iter().enumerate() {
            if !labels.iter().all(|v| fits(self.types(), errors, on.ty, v)) {
                let name = self.name(on.ty);
                self.at("case", n, |this| this.error(format!("a label is not of type {name}")));
            }
        }
    }

    fn returns(&mut self, value: Option<&Expr>) {
        let wanted = match self.kind {
            Kind::Function(ty) if *self.types().get(ty) != Type::Void => Some(ty),
            _ => None,
        };
        match (wanted, value) {
            (Some(ty), Some(e)) => self.expr_of(e, ty, "the returned value"),
            (None, None) => {}
            (Some(_), None) => self.error("return without the function's value"),
            (None, Some(_)) => self.error("return of an unexpected value"),
        }
    }

    fn extract(&mut self, header: &LValue, width: Option<&Expr>) {
        self.only_in_parser("extract");
        self.written(header, |_, t| matches!(t, Type::Header(_)), "extract");
        if let Some(e) = width {
            self.expr_that(e, |t| matches!(t, Type::Bit(32)), "the width of a varbit field");
        }
        if self.known.why_not_value(header.ty).is_none() {
            let fields = varbits(self.types(), header.ty);
            if fields != usize::from(width.is_some()) {
                self.error(format!("extract into a header with {fields} varbit fields"));
            }
        }
    }

    fn apply(&mut self, id: TableId, hit: Option<&LValue>, action_run: Option<&LValue>) {
        match (self.kind, self.program().tables.get(id.index())) {
            (_, None) => self.error(format!("there is no table {}", id.0)),
            (Kind::Control(here), Some(t)) if t.control.index() == here => {}
            (_, Some(t)) => self.error(format!("table {} is applied outside of its control", t.name)),
        }
        self.calls(Node::Table(id.index()));
        if let Some(lv) = hit {
            self.written(lv, |_, t| matches!(t, Type::Bool), "hit");
        }
        if let Some(lv) = action_run {
            self.written(lv, |_, t| matches!(t, Type::Bit(32)), "action_run");
        }
    }

    /// Everything in a parser.
    pub(super) fn parser(&mut self, parser: &Parser) {
        self.block("init", &parser.init);
        if parser.states.is_empty() {
            self.error("a parser needs a start state");
        }
        for state in &parser.states {
            let block = std::mem::take(&mut self.block);
            self.block = format!("{block} state {}", state.name);
            self.block("body", &state.body);
            match &state.transition {
                Transition::Goto(next) => self.state(parser, *next),
                Transition::Select { on, cases } => self.select(parser, on, cases),
            }
            self.block = block;
        }
    }

    fn state(&mut self, parser: &Parser, next: StateRef) {
        if let StateRef::State(i) = next
            && i as usize >= parser.states.len()
        {
            self.error(format!("there is no state {i}"));
        }
    }

    fn select(&mut self, parser: &Parser, on: &[Expr], cases: &[SelectCase]) {
        let mut right = true;
        for e in on {
            right &= self.expr(e);
            if right && self.types().scalar_width(e.ty).is_none() {
                let name = self.name(e.ty);
                self.error(format!("a select cannot be on {name}"));
                right = false;
            }
        }
        for (n, case) in cases.iter().enumerate() {
            self.at("case", n, |this| {
                this.state(parser, case.next);
                if right {
                    this.case_keys(on, &case.keys);
                }
            });
        }
    }

    fn case_keys(&mut self, on: &[Expr], keys: &[KeySet]) {
        let mut rest = on;
        for key in keys {
            let width = match key {
                KeySet::ValueSet(set) => match self.program().value_sets.get(set.index()) {
                    Some(set) => match self.known.why_not_value(set.elem) {
                        None => fields_of_value_set(self.types(), set.elem).len(),
                        Some(why) => return self.error(why),
                    },
                    None => return self.error(format!("there is no value set {}", set.0)),
                },
                _ => 1,
            };
            let Some((these, others)) = rest.split_at_checked(width) else {
                return self.error("more keys than the select has expressions");
            };
            rest = others;
            self.key(these, key);
        }
        if !rest.is_empty() {
            self.error("fewer keys than the select has expressions");
        }
    }

    fn key(&mut self, on: &[Expr], key: &KeySet) {
        match (key, on) {
            (KeySet::Value(e), [on]) => self.expr_of(e, on.ty, "the key"),
            (KeySet::Mask(a, b) | KeySet::Range(a, b), [on]) => {
                self.expr_of(a, on.ty, "the key");
                self.expr_of(b, on.ty, "the key");
                if !number(self.types().repr_type(on.ty)) {
                    let name = self.name(on.ty);
                    self.error(format!("{name} has neither masks nor ranges"));
                }
            }
            (KeySet::ValueSet(id), _) => {
                if let Some(set) = self.program().value_sets.get(id.index()) {
                    let fields = fields_of_value_set(self.types(), set.elem);
                    if !fields.iter().zip(on).all(|(ty, e)| same(self.types(), *ty, e.ty)) {
                        self.error(format!("the value set {} has other types than the select", set.name));
                    }
                }
            }
            _ => {}
        }
    }
}
