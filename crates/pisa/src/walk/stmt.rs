//! Statements.

use super::expr::{Found, sliced};
use super::state::{State, Val};
use super::{Around, Frame, OpId, Place, Walk, What};
use crate::arch::Role;
use crate::graph::Dependency;
use crate::report::Violation;
use pointsman_ir::{
    ActionId, Arg, Callee, Expr, ExprKind, ExternFnId, ExternInstanceId, LValue, Program, Stmt, StmtKind,
    TableId, Value,
};
use std::rc::Rc;

/// The state behind statements, and where it is; `None` if they are never left at their end.
pub(super) type End = Option<(State, Around)>;

impl<'a> Walk<'a> {
    pub(super) fn run(&mut self, body: &'a [Stmt], now: State, around: Around) -> End {
        let (mut now, mut around) = (now, around);
        for s in body {
            around.at = s.span;
            // Statements of an action or function count as those of the call.
            if !self.frames.last().is_some_and(|f| f.called) {
                around.span = s.span;
            }
            (now, around) = self.step(s, now, around)?;
        }
        Some((now, around))
    }

    fn step(&mut self, s: &'a Stmt, mut now: State, around: Around) -> End {
        match &s.kind {
            StmtKind::Assign(to, e) => self.assign_to(to, e, &around, &mut now),
            StmtKind::SetValid(to) | StmtKind::SetInvalid(to) => {
                for place in self.places(to) {
                    self.validate(&place, matches!(s.kind, StmtKind::SetValid(_)), &around, &mut now);
                }
            }
            StmtKind::PushFront(to, _) | StmtKind::PopFront(to, _) => {
                for field in self.fields_of(to) {
                    let val = self.get(field, &now);
                    self.store(field, &Found::Value(val), false, &around, &mut now);
                }
            }
            StmtKind::Call { result, callee, args, .. } => {
                return self.call(result.as_ref(), *callee, args, now, around);
            }
            StmtKind::Apply { table, hit, action_run } => {
                return self.apply(*table, [hit.as_ref(), action_run.as_ref()], now, around);
            }
            StmtKind::If(c, yes, no) => {
                let c = self.eval(c, &around, &mut now);
                return match c.constant {
                    Some(0) => self.run(no, now, around),
                    Some(_) => self.run(yes, now, around),
                    None => self.branch(&c, &[yes, no], now, around),
                };
            }
            StmtKind::Switch { on, cases, default } => {
                let on = self.eval(on, &around, &mut now);
                let mut bodies: Vec<&[Stmt]> = cases.iter().map(|(_, body)| body.as_slice()).collect();
                bodies.push(default);
                return self.branch(&on, &bodies, now, around);
            }
            StmtKind::Loop { body, .. } => {
                let why = "a pipeline has no loops".to_string();
                self.violations.push(Violation { object: around.control.to_string(), why });
                return self.run(body, now, around);
            }
            StmtKind::Return(value) => {
                let result = self.frames.last().and_then(|f| f.result.clone());
                if let (Some(e), Some(place)) = (value, result) {
                    self.assign(&place, e, &around, &mut now);
                }
                self.frames.last_mut().expect("a frame").returned.push(now);
                return None;
            }
            StmtKind::Exit => {
                self.exited.push(now);
                return None;
            }
            StmtKind::Break | StmtKind::Continue => return None,
            StmtKind::Emit(e) => {
                let val = self.eval(e, &around, &mut now);
                self.late.extend(val.sources.iter());
            }
            // In parsers only.
            _ => {}
        }
        Some((now, around))
    }

    fn assign_to(&mut self, to: &LValue, e: &Expr, around: &Around, now: &mut State) {
        match self.places(to).as_slice() {
            [place] if !sliced(to) => self.assign(&place.clone(), e, around, now),
            _ => {
                let found = self.find(e, around, now);
                for field in self.fields_of(to) {
                    self.store(field, &found, false, around, now);
                }
            }
        }
    }

    fn branch(&mut self, on: &Val, bodies: &[&'a [Stmt]], now: State, around: Around) -> End {
        self.branches += 1;
        let branch = self.branches;
        let outcome = on.defs.iter().all(|d| d.outcome) && !on.defs.is_empty();
        let mut ends = Vec::new();
        for (arm, body) in (0..).zip(bodies) {
            let mut inner = around.clone();
            Rc::make_mut(&mut inner.arms).push((branch, arm));
            // What a table decides costs no comparison.
            inner.bits = if outcome { 0 } else { on.bits.max(1) };
            inner.condition = inner.condition.depends(on);
            ends.extend(self.run(body, now.clone(), inner));
        }
        if ends.len() == 1 && bodies.len() > 1 {
            // The others ended the control: what follows is only for packets on this way.
            let (now, inner) = ends.pop()?;
            return Some((now, Around { bits: around.bits, ..inner }));
        }
        let now = self.join_all(ends.into_iter().map(|(now, _)| now).collect())?;
        Some((now, around))
    }

    fn apply(&mut self, table: TableId, outs: [Option<&LValue>; 2], mut now: State, around: Around) -> End {
        let t = &self.program.tables[table.index()];
        let around = Around { span: t.span, at: t.span, ..around };
        let keys: Vec<Val> = t.keys.iter().map(|k| self.eval(&k.expr, &around, &mut now)).collect();
        let inputs: Vec<_> = keys.iter().map(|k| (k, Dependency::Match)).collect();
        let op = self.emit(What::Table(table), &inputs, &around, &mut now);
        self.branches += 1;
        let branch = self.branches;
        let mut ends = Vec::new();
        for (arm, listed) in (0..).zip(&t.actions) {
            let mut inner = around.clone();
            Rc::make_mut(&mut inner.arms).push((branch, arm));
            inner.condition = inner.condition.depends(&Val::from_op(op, true, 0));
            inner.site = Some(op);
            let Some((before, inner)) = self.run(&listed.setup, now.clone(), inner) else { continue };
            let end = self.action(listed.action, &listed.bound, before, inner, Some(op));
            ends.extend(end);
        }
        if !t.actions.is_empty() {
            now = self.join_all(ends.into_iter().map(|(now, _)| now).collect())?;
        }
        for out in outs.into_iter().flatten() {
            for field in self.fields_of(out) {
                let val = Val::from_op(op, true, self.numbers.fresh());
                self.set(field, val, true, &mut now);
            }
        }
        Some((now, around))
    }

    /// Walks an action. `data`: the table that its parameters without direction come from.
    fn action(
        &mut self,
        id: ActionId,
        args: &'a [Arg],
        mut now: State,
        around: Around,
        data: Option<usize>,
    ) -> End {
        let action = &self.program.actions[id.index()];
        let here = self.frames.len() - 1;
        // For an action called by an action: also the control's frame.
        let outer = self.frames[here].outer.unwrap_or(here);
        let vars = self.pass(&action.name, &action.frame, args, &around, &mut now);
        for place in &vars[args.len().min(action.frame.params.len())..action.frame.params.len()] {
            for field in self.fields.leaves(&self.program.types, place) {
                let op = data.unwrap_or_default();
                let number = self.numbers.fresh();
                let val = if data.is_some() { Val::from_op(op, true, number) } else { Val::new(number) };
                self.set(field, val, true, &mut now);
            }
        }
        let frame = Frame { outer: Some(outer), ..Frame::of(vars, true) };
        self.inside(&action.body, frame, now, around)
    }

    /// Runs a callable's body in a frame of its own.
    pub(super) fn inside(&mut self, body: &'a [Stmt], frame: Frame, now: State, around: Around) -> End {
        self.frames.push(frame);
        let end = self.run(body, now, around.clone());
        let frame = self.frames.pop().expect("pushed above");
        if frame.returned.is_empty() {
            // Where it went on is known exactly.
            return end.map(|(now, inner)| (now, Around { span: around.span, ..inner }));
        }
        let states = end.map(|(now, _)| now).into_iter().chain(frame.returned).collect();
        Some((self.join_all(states)?, around))
    }

    /// The variables of a callable. Arguments that are places are not copied.
    pub(super) fn bind(&mut self, name: &str, frame: &pointsman_ir::Frame, args: &[Arg]) -> Vec<Place> {
        let mut vars = Vec::new();
        for (i, v) in frame.vars.iter().enumerate() {
            let passed = match args.get(i).filter(|_| i < frame.params.len()) {
                Some(Arg::Out(l) | Arg::InOut(l) | Arg::In(Expr { kind: ExprKind::Read(l), .. }))
                    if !sliced(l) =>
                {
                    let mut places = self.places(l);
                    if places.len() == 1 { places.pop() } else { None }
                }
                _ => None,
            };
            let new = || self.fields.variable(&format!("{name}.{}", v.name), v.ty, true);
            vars.push(passed.unwrap_or_else(new));
        }
        vars
    }

    /// The same, with the values of the other arguments.
    fn pass(
        &mut self,
        name: &str,
        frame: &pointsman_ir::Frame,
        args: &'a [Arg],
        around: &Around,
        now: &mut State,
    ) -> Vec<Place> {
        let vars = self.bind(name, frame, args);
        for (var, arg) in vars.iter().zip(args).take(frame.params.len()) {
            match arg {
                Arg::In(Expr { kind: ExprKind::Read(l), .. }) if self.places(l).contains(var) => {}
                Arg::In(e) => self.assign(var, e, around, now),
                _ => {}
            }
        }
        vars
    }

    fn call(
        &mut self,
        result: Option<&'a LValue>,
        callee: Callee,
        args: &'a [Arg],
        mut now: State,
        around: Around,
    ) -> End {
        let program: &'a Program = self.program;
        match callee {
            Callee::Extern { function, instance } => {
                self.call_extern(function, instance, result, args, &around, &mut now);
                Some((now, around))
            }
            Callee::Control(id) => {
                let c = &program.controls[id.index()];
                let vars = self.pass(&c.name, &c.frame, args, &around, &mut now);
                let inner = Around { control: c.name.as_str().into(), ..around.clone() };
                let (now, inner) = self.inside(&c.body, Frame::of(vars, false), now, inner)?;
                Some((now, Around { control: around.control, ..inner }))
            }
            Callee::Action(id) => self.action(id, args, now, around, None),
            Callee::Function(id) => {
                let f = &program.functions[id.index()];
                let vars = self.pass(&f.name, &f.frame, args, &around, &mut now);
                let place = self.fields.variable(&format!("{}.$result", f.name), f.returns, true);
                let frame = Frame { result: Some(place.clone()), ..Frame::of(vars, true) };
                let (mut now, around) = self.inside(&f.body, frame, now, around)?;
                if let Some(to) = result {
                    let fields = self.fields.leaves(&program.types, &place);
                    let whole = !sliced(to);
                    for (from, to) in fields.into_iter().zip(self.fields_of(to)) {
                        let val = self.get(from, &now);
                        self.store(to, &Found::Value(val), whole, &around, &mut now);
                    }
                }
                Some((now, around))
            }
            // Not in a control.
            Callee::Parser(_) => Some((now, around)),
        }
    }

    fn call_extern(
        &mut self,
        function: ExternFnId,
        instance: Option<ExternInstanceId>,
        result: Option<&LValue>,
        args: &[Arg],
        around: &Around,
        now: &mut State,
    ) {
        let f = &self.program.extern_fns[function.index()];
        let role = self.arch.role(f.object.as_deref(), &f.name);
        let mut vals = Vec::new();
        let mut outs: Vec<&LValue> = result.into_iter().collect();
        for arg in args {
            vals.push(match arg {
                Arg::In(e) => self.eval(e, around, now),
                Arg::Out(l) | Arg::InOut(l) => {
                    outs.push(l);
                    Val::new(0)
                }
            });
        }
        let hidden = instance.filter(|i| self.program.implementations.iter().any(|m| m.object == *i));
        if let (Some(object), false) = (hidden, matches!(role, Role::Program { .. })) {
            self.unseen(object, "what its code does cannot be counted", around);
        }
        let (what, inputs) = match role {
            Role::Nothing => return,
            Role::Checksum => {
                let written: Vec<_> = outs.iter().flat_map(|l| self.fields_of(l)).collect();
                self.late.extend(vals.iter().flat_map(|v| v.sources.iter().copied()).chain(written));
                return;
            }
            Role::Sets { of, fields } => return self.sets(&args[of], fields, around, now),
            Role::Program { index } => {
                let index = index.and_then(|i| Some((vals.get(i)?, self.arg_bits(args.get(i)?))));
                let Some(instance) = instance else { return };
                return self.run_program(instance, index, &outs, around, now);
            }
            Role::Signal => {
                let inputs = vals.iter().map(|v| (v, Dependency::Action)).collect();
                (What::Alu, inputs)
            }
            Role::Hash { data } => {
                let input = data.map_or(0, |d| vals[d].bits.min(self.arg_bits(&args[d])));
                let data = data.map(|d| (&vals[d], Dependency::Match));
                (What::Hash { input, output: self.width(&outs) }, Vec::from_iter(data))
            }
            Role::Access { index: None, .. } => (What::Alu, Vec::new()),
            Role::Access { index: Some(index), writes } => {
                let Some(object) = instance.map(|i| i.index()) else { return };
                let i = &vals[index];
                let index_bits =
                    if i.sources.is_empty() { 0 } else { i.bits.min(self.arg_bits(&args[index])) };
                let mut inputs = vec![(i, Dependency::Match)];
                inputs.extend(writes.map(|w| (&vals[w], Dependency::Action)));
                (What::Access { object, index: i.number, index_bits, writes: writes.is_some() }, inputs)
            }
        };
        let op = self.emit(what, &inputs, around, now);
        self.results(op, &outs, around, now);
    }

    /// Notes that an operation writes these l-values.
    pub(super) fn results(&mut self, op: OpId, outs: &[&LValue], around: &Around, now: &mut State) {
        for to in outs {
            let whole = !sliced(to);
            for field in self.fields_of(to) {
                let bits = self.fields.all[field as usize].bits;
                let sources = Rc::new([field].into());
                let val = Val { sources, bits, ..Val::from_op(op, false, self.numbers.fresh()) };
                self.write(op, field, val, whole, around, now);
            }
        }
    }

    /// Width of an argument, in bits.
    fn arg_bits(&self, arg: &Arg) -> u64 {
        let ty = match arg {
            Arg::In(e) => e.ty,
            Arg::Out(l) | Arg::InOut(l) => l.ty,
        };
        u64::from(self.program.types.total_width(ty).unwrap_or(0))
    }

    /// Widths of l-values together, in bits.
    fn width(&mut self, outs: &[&LValue]) -> u64 {
        let fields: Vec<_> = outs.iter().flat_map(|l| self.fields_of(l)).collect();
        fields.into_iter().map(|f| self.fields.all[f as usize].bits).sum()
    }

    /// Sets fields of a struct to constants.
    fn sets(&mut self, arg: &Arg, names: &[&str], around: &Around, now: &mut State) {
        let (Arg::Out(l) | Arg::InOut(l)) = arg else { return };
        let types = &self.program.types;
        for place in self.places(l) {
            let Some(def) = types.struct_def(place.ty) else { continue };
            for name in names {
                let Some(i) = def.field(name) else { continue };
                let child = super::Fields::children(types, &place).swap_remove(i);
                let zero = Expr { kind: ExprKind::Const(Value::Void), ty: child.ty, span: around.span };
                self.assign(&child, &zero, around, now);
            }
        }
    }
}
