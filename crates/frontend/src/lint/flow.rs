//! Values that were never set, headers that cannot be valid, statements that are never reached. The state of variables
//! is followed through the code of each block, optimistically: only headers that are invalid on every way, or values
//! that are plainly forgotten on some way, are reported.

use super::state::{Bad, Place, State, Value};
use super::{INVALID_HEADER, OUT_NOT_SET, UNINITIALISED, UNREACHABLE};
use crate::ast::{BinaryOp, Direction, StructKind, UnaryOp};
use crate::check::tree::{
    Arg, Block, Call, Callee, Expr, ExprKind, KeySet, Param, Stmt, StmtKind, Target, Transition, Tree,
};
use crate::check::types::Kind;
use crate::diag::Diagnostic;
use pointsman_ir::Span;

/// Statements looked at, those of actions again for each use; a program that needs more gets fewer warnings.
const MAX_STEPS: usize = 4_000_000;
/// Maximum iterations over the states of a parser until nothing changes.
const MAX_ROUNDS: usize = 50;

pub fn lint(tree: &mut Tree, is_own: &dyn Fn(Span) -> bool, out: &mut Vec<Diagnostic>) {
    let mut flow =
        Flow { tree, out, quiet: false, steps: 0, depth: 0, ends: None, breaks: Vec::new(), now: None };
    for i in 0..flow.tree.functions.len() {
        if is_own(flow.tree.functions[i].sig.span) {
            let (params, body) =
                (flow.tree.functions[i].sig.params.clone(), flow.tree.functions[i].body.clone());
            flow.callable(&params, &body, "function");
        }
    }
    for i in 0..flow.tree.actions.len() {
        // Those of controls are looked at where they run.
        if !flow.tree.actions[i].in_block && is_own(flow.tree.actions[i].sig.span) {
            let (params, body) = (flow.tree.actions[i].sig.params.clone(), flow.tree.actions[i].body.clone());
            flow.callable(&params, &body, "action");
        }
    }
    for i in 0..flow.tree.blocks.len() {
        if is_own(flow.tree.blocks[i].span) {
            let block = flow.tree.blocks[i].clone();
            match block.is_parser {
                true => flow.parser(&block),
                false => flow.control(&block),
            }
        }
    }
}

struct Flow<'a> {
    tree: &'a mut Tree,
    out: &'a mut Vec<Diagnostic>,
    /// Nothing is reported now: the code is analysed again.
    quiet: bool,
    steps: usize,
    depth: usize,
    /// The state where the callable returns.
    ends: Option<State>,
    /// The states where the loops around are left.
    breaks: Vec<Option<State>>,
    /// `None`: this is never reached.
    now: Option<State>,
}

fn join(a: &mut Option<State>, b: Option<State>) {
    match (&mut *a, b) {
        (_, None) => {}
        (Some(a), Some(b)) => a.join(&b),
        (none, b) => *none = b,
    }
}

impl Flow<'_> {
    fn enter(&mut self, params: &[Param]) -> State {
        let mut state = State::default();
        for p in params.iter().filter(|p| p.direction == Direction::Out) {
            let v = Value::new(self.tree, p.ty);
            state.set_var(p.var, v);
        }
        state
    }

    /// At the end of `what`, all `out` parameters should be set.
    fn leave(&mut self, params: &[Param], what: &str, state: Option<State>) {
        let Some(state) = state else { return };
        for p in params.iter().filter(|p| p.direction == Direction::Out) {
            let how = match state.var(p.var).missing() {
                Some(Bad::Unset) => "may not be set",
                Some(_) => "may be set only in part",
                None => continue,
            };
            let message = format!("`out` parameter `{}` {how} when the {what} ends", p.name);
            self.say(
                Diagnostic::warning(OUT_NOT_SET, p.span, message)
                    .label("declared here")
                    .help("set it on every path"),
            );
        }
    }

    fn say(&mut self, d: Diagnostic) {
        if !self.quiet {
            self.out.push(d);
        }
    }

    fn callable(&mut self, params: &[Param], body: &[Stmt], what: &str) {
        self.now = Some(self.enter(params));
        self.ends = None;
        self.stmts(body);
        let mut end = self.now.take();
        join(&mut end, self.ends.take());
        self.leave(params, what, end);
    }

    fn control(&mut self, b: &Block) {
        let Some(body) = &b.body else { return };
        self.now = Some(self.enter(&b.params));
        self.ends = None;
        self.stmts(&body.locals);
        self.stmts(&body.apply);
        let mut end = self.now.take();
        join(&mut end, self.ends.take());
        self.leave(&b.params, "control", end);
    }

    fn parser(&mut self, b: &Block) {
        let Some(body) = &b.body else { return };
        self.now = Some(self.enter(&b.params));
        self.ends = None;
        self.stmts(&body.locals);
        let mut before: Vec<Option<State>> = vec![None; body.states.len()];
        if let Some(first) = before.first_mut() {
            *first = self.now.take();
        }
        let mut accepted = None;
        // Until nothing changes, without reports; then once more.
        self.quiet = true;
        for _ in 0..MAX_ROUNDS {
            let old = before.clone();
            accepted = self.states(body, &mut before);
            if before == old {
                break;
            }
        }
        self.quiet = false;
        let mut again = before.clone();
        self.states(body, &mut again);
        self.leave(&b.params, "parser", accepted);
    }

    /// Goes through all states once; returns the state at `accept`.
    fn states(&mut self, body: &crate::check::tree::Body, before: &mut [Option<State>]) -> Option<State> {
        let mut accepted = None;
        for (i, s) in body.states.iter().enumerate() {
            self.now = before[i].clone();
            if self.now.is_none() {
                continue;
            }
            self.stmts(&s.body);
            let mut goto = |target: &Target, state: Option<State>| match target {
                Target::Accept => join(&mut accepted, state),
                Target::Reject => {}
                Target::State(k) => {
                    if let Some(b) = before.get_mut(*k) {
                        join(b, state);
                    }
                }
            };
            match &s.next {
                Transition::Goto(t) => goto(t, self.now.take()),
                Transition::Select { on, cases } => {
                    on.iter().for_each(|e| self.expr(e));
                    for (keys, t) in cases {
                        keys.iter().for_each(|k| self.key_set(k));
                        goto(t, self.now.clone());
                    }
                }
            }
        }
        accepted
    }

    fn key_set(&mut self, k: &KeySet) {
        match k {
            KeySet::Value(e) => self.expr(e),
            KeySet::Mask(a, b) | KeySet::Range(a, b) => {
                self.expr(a);
                self.expr(b);
            }
            KeySet::Any | KeySet::ValueSet(_) => {}
        }
    }

    fn stmts(&mut self, stmts: &[Stmt]) {
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
            StmtKind::Declare(v, init) => {
                let ty = self.tree.vars[v.0].ty;
                let value = match init {
                    Some(e) => {
                        self.expr(e);
                        Value::Set
                    }
                    None => Value::new(self.tree, ty),
                };
                if let Some(now) = &mut self.now {
                    now.set_var(*v, value);
                }
            }
            StmtKind::Assign(l, r) => {
                self.expr(r);
                self.write(l, matches!(r.kind, ExprKind::Invalid));
            }
            StmtKind::Eval(e) => self.expr(e),
            StmtKind::Block(b) | StmtKind::Atomic(b) => self.stmts(b),
            StmtKind::If(c, a, b) => {
                self.expr(c);
                let before = self.now.clone();
                self.assume(c, true);
                self.stmts(a);
                let after = std::mem::replace(&mut self.now, before);
                self.assume(c, false);
                self.stmts(b);
                join(&mut self.now, after);
            }
            StmtKind::Switch { on, cases, default } => self.switch(on, cases, default),
            StmtKind::ActionSwitch { table, cases, default } => self.action_switch(*table, cases, default),
            StmtKind::For { init, cond, update, body } => {
                self.stmts(init);
                self.expr(cond);
                self.repeat(|f| {
                    f.stmts(body);
                    if f.now.is_some() {
                        f.stmts(update);
                    }
                });
            }
            StmtKind::ForRange { var, lo, hi, body } => {
                self.expr(lo);
                self.expr(hi);
                self.each(var, body);
            }
            StmtKind::ForEach { var, over, body } => {
                self.expr(over);
                self.each(var, body);
            }
            StmtKind::Return(e) => {
                e.iter().for_each(|e| self.expr(e));
                let now = self.now.take();
                join(&mut self.ends, now);
            }
            // Variables on a way that the packet never takes need not be set.
            StmtKind::Exit => self.now = None,
            StmtKind::Break | StmtKind::Continue => {
                let now = self.now.take();
                if let Some(exit) = self.breaks.last_mut() {
                    join(exit, now);
                }
            }
        }
    }

    /// A loop that sets a variable before each turn.
    fn each(&mut self, var: &Expr, body: &[Stmt]) {
        self.repeat(|f| {
            f.write(var, false);
            f.stmts(body);
        });
    }

    fn switch(&mut self, on: &Expr, cases: &[(Vec<Expr>, Vec<Stmt>)], default: &[Stmt]) {
        self.expr(on);
        let before = self.now.clone();
        let mut after = None;
        for (labels, body) in cases {
            self.now = before.clone();
            labels.iter().for_each(|e| self.expr(e));
            self.stmts(body);
            join(&mut after, self.now.take());
        }
        self.now = before;
        self.stmts(default);
        join(&mut self.now, after);
    }

    fn action_switch(&mut self, table: usize, cases: &[(Vec<usize>, Vec<Stmt>)], default: &[Stmt]) {
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

    /// After a condition: the consequence of its `isValid()`.
    fn assume(&mut self, cond: &Expr, holds: bool) {
        match &cond.kind {
            ExprKind::IsValid(e) => {
                let (place, header) = (place(e), self.is_header(e));
                if let (Some(place), Some(now), true) = (place, &mut self.now, header) {
                    now.set(&place, if holds { Value::Set } else { Value::Invalid });
                }
            }
            ExprKind::Unary(UnaryOp::Not, e) => self.assume(e, !holds),
            ExprKind::Binary(BinaryOp::And, a, b) if holds => {
                self.assume(a, true);
                self.assume(b, true);
            }
            ExprKind::Binary(BinaryOp::Or, a, b) if !holds => {
                self.assume(a, false);
                self.assume(b, false);
            }
            _ => {}
        }
    }

    fn is_header(&self, e: &Expr) -> bool {
        self.tree.is_struct(e.ty, &[StructKind::Header])
    }

    fn write(&mut self, l: &Expr, invalid: bool) {
        let (_, header) = (place(l), self.is_header(l));
        match &l.kind {
            ExprKind::Index(_, i) => self.expr(i),
            // Bits around it stay as they were.
            ExprKind::Slice(b, ..) => return self.write(b, false),
            ExprKind::Field(b, _) => self.field_of(b, l),
            _ => {}
        }
        if let (Some(place), Some(now)) = (place(l), &mut self.now) {
            now.set(&place, if invalid && header { Value::Invalid } else { Value::Set });
        }
    }

    /// `e` is a field of `base`, which should not be a header that is invalid.
    fn field_of(&mut self, base: &Expr, e: &Expr) {
        if self.is_header(base)
            && let (Some(p), Some(now)) = (place(base), &self.now)
            && now.read(&p, false) == Some(Bad::Invalid)
        {
            let name = self.text(base);
            let message = format!("this is a field of {name}, which cannot be valid here");
            self.say(
                Diagnostic::warning(INVALID_HEADER, e.span, message)
                    .label("reading gives an undefined value, writing does nothing")
                    .help("extract the header, or call `setValid()`, before this"),
            );
        }
    }

    fn text(&self, e: &Expr) -> String {
        match &e.kind {
            ExprKind::Var(v) => format!("`{}`", self.tree.vars[v.0].name),
            ExprKind::Field(b, i) => match self.tree.tys.get(b.ty) {
                Kind::Struct(d, _) => self.tree.structs[*d]
                    .fields
                    .get(*i as usize)
                    .map_or("a header".into(), |f| format!("header `{}`", f.name)),
                _ => "a header".into(),
            },
            _ => "a header".into(),
        }
    }

    /// Evaluates `e`.
    fn expr(&mut self, e: &Expr) {
        match &e.kind {
            ExprKind::Var(_) | ExprKind::Field(..) => self.read(e),
            ExprKind::Call(c) => self.call(c),
            ExprKind::Apply(t) | ExprKind::Hit { table: t, .. } => {
                let mut after = None;
                for way in self.apply(*t) {
                    join(&mut after, way);
                }
                self.now = after;
            }
            // Whether it is valid may always be asked.
            ExprKind::IsValid(b) if place(b).is_some() => {}
            ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
                self.expr(a);
                let before = self.now.clone();
                self.assume(a, *op == BinaryOp::And);
                self.expr(b);
                join(&mut self.now, before);
            }
            ExprKind::Mux(c, a, b) => {
                self.expr(c);
                let before = self.now.clone();
                self.assume(c, true);
                self.expr(a);
                let after = std::mem::replace(&mut self.now, before);
                self.assume(c, false);
                self.expr(b);
                join(&mut self.now, after);
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
                self.expr(b);
            }
            return;
        };
        let header = self.is_header(e);
        let Some(now) = &self.now else { return };
        let how = match now.read(&p, header) {
            None => return,
            Some(Bad::Invalid) => {
                if let ExprKind::Field(b, _) = &e.kind {
                    self.field_of(b, e);
                }
                return;
            }
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
        if let Callee::Action(a) = &c.callee {
            let a = *a;
            self.action(a);
        }
        for a in &c.args {
            if let Arg::Out(e) | Arg::InOut(e) = a {
                self.write(e, false);
            }
        }
        let (target, value) = match &c.callee {
            Callee::SetValid(e) => (e, Value::Set),
            Callee::SetInvalid(e) => (e, Value::Invalid),
            _ => return,
        };
        if let (Some(p), Some(now)) = (place(target), &mut self.now) {
            now.set(&p, value);
        }
    }

    /// Runs the body of an action with the state of the control's variables.
    fn action(&mut self, index: usize) {
        self.depth += 1;
        if self.depth < 30 && self.steps < MAX_STEPS {
            let action = self.tree.actions[index].clone();
            let ends = self.ends.take();
            self.stmts(&action.body);
            let back = std::mem::replace(&mut self.ends, ends);
            join(&mut self.now, back);
        }
        self.depth -= 1;
    }

    /// Applies a table: the state after each of its actions.
    fn apply(&mut self, table: usize) -> Vec<Option<State>> {
        let t = self.tree.tables[table].clone();
        t.keys.iter().for_each(|k| self.expr(&k.expr));
        let before = self.now.clone();
        let mut out = Vec::new();
        for a in &t.actions {
            self.now = before.clone();
            for b in &a.bound {
                if let Arg::In(e) = b {
                    self.expr(e);
                }
            }
            self.action(a.action);
            for b in &a.bound {
                if let Arg::Out(e) | Arg::InOut(e) = b {
                    self.write(e, false);
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

/// The variable and fields that `e` is, if it is nothing else.
fn place(e: &Expr) -> Option<Place> {
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
