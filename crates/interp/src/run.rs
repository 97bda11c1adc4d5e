//! Statements, calls and tables.

use crate::Interp;
use crate::bitio::Writer;
use crate::eval::Eval;
use crate::place::{Place, Scope};
use crate::values::{self, conform};
use pointsman_ir::trace::Traced;
use pointsman_ir::{
    ActionId, Arg, Bits, Callee, ControlId, Env, Expr, ExprKind, ExternCall, LValue, MAX_LOOP_ROUNDS,
    MAX_TRANSITIONS, Program, Span, Stmt, StmtKind, TableId, TypeId, Value,
};

/// Why a sequence of statements ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// `break`.
    Break,
    /// `continue`.
    Continue,
    /// `return`; the value is in [`Run::returned`].
    Return,
    /// `exit`.
    Exit,
    /// The parser rejects with this error.
    Reject(u32),
}

pub(crate) type Outcome = Result<(), Stop>;

/// One block of the program at work on one packet.
pub(crate) struct Run<'a> {
    pub(crate) interp: &'a Interp,
    pub(crate) program: &'a Program,
    pub(crate) eval: Eval<'a>,
    pub(crate) env: &'a mut dyn Env,
    /// This packet is traced.
    pub(crate) tracing: bool,
    /// Whose code runs, for naming places.
    pub(crate) at: Callee,
    /// The statement that is traced.
    pub(crate) span: Span,
    /// The packet that a parser reads.
    pub(crate) packet: &'a [u8],
    /// The next bit of it.
    pub(crate) position: usize,
    /// Where `emit` writes.
    pub(crate) out: Writer<'a>,
    pub(crate) transitions_left: u32,
    loop_rounds_left: u32,
    /// The result of the function that is returning.
    returned: Value,
    /// Keys of the table that is being looked up, kept for their memory.
    key: Vec<Bits>,
    selectors: Vec<Bits>,
    /// Frames of completed calls, kept for their memory.
    frames: Vec<Vec<Value>>,
    /// Arguments of the active calls that have places.
    back: Vec<Back>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        interp: &'a Interp,
        env: &'a mut dyn Env,
        at: Callee,
        packet: &'a [u8],
        out: &'a mut Vec<u8>,
    ) -> Self {
        Run {
            interp,
            program: &interp.program,
            eval: interp.eval(),
            tracing: env.tracing(),
            at,
            span: Span::default(),
            env,
            packet,
            position: 0,
            out: Writer::new(out),
            transitions_left: MAX_TRANSITIONS,
            loop_rounds_left: MAX_LOOP_ROUNDS,
            returned: Value::Void,
            key: Vec::new(),
            selectors: Vec::new(),
            frames: Vec::new(),
            back: Vec::new(),
        }
    }

    /// Runs a control in its frame. `return` ends there, `exit` does not.
    pub(crate) fn control(&mut self, control: ControlId, frame: &mut [Value]) -> Outcome {
        let body = &self.program.controls[control.index()].body;
        let mut scope = Scope { local: frame, outer: &mut [], in_action: false };
        returned(self.block(&mut scope, body))
    }

    /// Runs statements until one of them stops.
    pub(crate) fn block(&mut self, scope: &mut Scope<'_>, stmts: &'a [Stmt]) -> Outcome {
        stmts.iter().try_for_each(|s| self.stmt(scope, s))
    }

    fn stmt(&mut self, scope: &mut Scope<'_>, stmt: &'a Stmt) -> Outcome {
        if self.tracing { self.traced(scope, stmt) } else { self.execute(scope, stmt) }
    }

    pub(crate) fn execute(&mut self, scope: &mut Scope<'_>, stmt: &'a Stmt) -> Outcome {
        let eval = self.eval;
        match &stmt.kind {
            StmtKind::Assign(lv, e) => {
                let value = eval.owned(scope, e)?;
                self.store(scope, lv, value)
            }
            StmtKind::SetValid(lv) => self.set_valid(scope, lv, true),
            StmtKind::SetInvalid(lv) => self.set_valid(scope, lv, false),
            StmtKind::PushFront(lv, n) => self.shift(scope, lv, i64::from(*n)),
            StmtKind::PopFront(lv, n) => self.shift(scope, lv, -i64::from(*n)),
            StmtKind::Call { result, callee, type_args, args } => {
                self.call(scope, result.as_ref(), *callee, type_args, args)
            }
            StmtKind::Apply { table, hit, action_run } => {
                self.apply(scope, *table, hit.as_ref(), action_run.as_ref())
            }
            StmtKind::If(cond, yes, no) => {
                let branch = if eval.condition(scope, cond)? { yes } else { no };
                self.block(scope, branch)
            }
            StmtKind::Switch { on, cases, default } => {
                let body = {
                    let v = eval.expr(scope, on)?;
                    cases.iter().find(|(labels, _)| labels.contains(&v)).map_or(default, |(_, body)| body)
                };
                self.block(scope, body)
            }
            StmtKind::Loop { cond, body, update } => self.repeat(scope, cond, body, update),
            StmtKind::Break => Err(Stop::Break),
            StmtKind::Continue => Err(Stop::Continue),
            StmtKind::Return(value) => {
                self.returned = match value {
                    Some(e) => eval.expr(scope, e)?.into_owned(),
                    None => Value::Void,
                };
                Err(Stop::Return)
            }
            StmtKind::Exit => Err(Stop::Exit),
            StmtKind::Extract { header, varbits } => self.extract(scope, header, varbits.as_ref()),
            StmtKind::Lookahead(lv) => self.lookahead(scope, lv),
            StmtKind::Advance(e) => self.advance(scope, e),
            StmtKind::PacketLength(lv) => {
                let length = Value::Bits(Bits::new(32, self.packet.len() as u128));
                self.store(scope, lv, length)
            }
            StmtKind::Verify(cond, error) => {
                if eval.condition(scope, cond)? {
                    return Ok(());
                }
                match &*eval.expr(scope, error)? {
                    Value::Error(e) => Err(Stop::Reject(*e)),
                    _ => Err(Stop::Reject(0)),
                }
            }
            StmtKind::Emit(e) => {
                values::pack(&*eval.expr(scope, e)?, &mut self.out);
                Ok(())
            }
        }
    }

    /// Resolves `lv` and writes there; lost if the place does not exist.
    pub(crate) fn store(&mut self, scope: &mut Scope<'_>, lv: &LValue, value: Value) -> Outcome {
        if let Some(v) = scope.peek_mut(lv) {
            values::put(v, value);
            return Ok(());
        }
        if let Some(place) = Place::resolve(self.eval, scope, lv)? {
            place.store(scope, value);
        }
        Ok(())
    }

    /// `setValid()` of an invalid header starts with default values; a valid header keeps its fields.
    fn set_valid(&mut self, scope: &mut Scope<'_>, lv: &LValue, to: bool) -> Outcome {
        let types = self.eval.types;
        if let Some(place) = Place::resolve(self.eval, scope, lv)? {
            place.update(scope, |v| {
                if to && !values::is_valid(v) {
                    *v = Value::default_of(types, lv.ty);
                }
                if let Value::Header { valid, .. } = v {
                    *valid = to;
                }
            });
        }
        Ok(())
    }

    /// `push_front(by)`, or `pop_front(-by)` (P4_16 section 8.18).
    fn shift(&mut self, scope: &mut Scope<'_>, lv: &LValue, by: i64) -> Outcome {
        let Some(place) = Place::resolve(self.eval, scope, lv)? else { return Ok(()) };
        place.update(scope, |v| {
            let Value::Stack { next, elems } = v else { return };
            let size = elems.len() as i64;
            let n = by.unsigned_abs().min(elems.len() as u64) as usize;
            let fresh = if by >= 0 {
                elems.rotate_right(n);
                0..n
            } else {
                elems.rotate_left(n);
                elems.len() - n..elems.len()
            };
            elems[fresh].iter_mut().for_each(invalidate);
            *next = (i64::from(*next) + by).clamp(0, size) as u32;
        });
        Ok(())
    }

    fn repeat(
        &mut self,
        scope: &mut Scope<'_>,
        cond: &'a Expr,
        body: &'a [Stmt],
        update: &'a [Stmt],
    ) -> Outcome {
        loop {
            let more = self.eval.condition(scope, cond)?;
            if self.tracing {
                self.tell_decision(cond.span, Traced::Condition(more));
            }
            if !more {
                break;
            }
            let Some(left) = self.loop_rounds_left.checked_sub(1) else { break };
            self.loop_rounds_left = left;
            match self.block(scope, body) {
                Ok(()) | Err(Stop::Continue) => self.block(scope, update)?,
                Err(Stop::Break) => break,
                Err(stop) => return Err(stop),
            }
        }
        Ok(())
    }

    /// A call: arguments from left to right, the callee, results back from left to right. They are copied back
    /// however the callee ends, by `exit` and `reject` too (P4_16 section 12.5).
    fn call(
        &mut self,
        scope: &mut Scope<'_>,
        result: Option<&LValue>,
        callee: Callee,
        type_args: &'a [TypeId],
        args: &'a [Arg],
    ) -> Outcome {
        let result_place = match result {
            Some(lv) => Place::resolve(self.eval, scope, lv)?,
            None => None,
        };
        let template = self.interp.template(callee);
        let mut call = self.copy_in(scope, callee, args)?;
        let caller = self.at;
        if !matches!(callee, Callee::Extern { .. }) {
            if self.tracing {
                self.tell_enter(callee, &call.frame);
            }
            self.at = callee;
        }
        let (outcome, value) = match callee {
            Callee::Extern { function, instance } => {
                let this =
                    ExternCall { function, instance, type_args, returns: result.map(|lv| lv.ty), rest: &[] };
                (Ok(()), self.call_extern(this, args, &mut call.frame))
            }
            Callee::Action(action) => {
                call.fill(template);
                (self.action(scope, action, &mut call.frame), None)
            }
            Callee::Control(control) => {
                call.fill(template);
                (self.control(control, &mut call.frame), None)
            }
            Callee::Parser(parser) => {
                call.fill(template);
                (self.parser(parser, &mut call.frame), None)
            }
            Callee::Function(function) => {
                call.fill(template);
                let function = &self.program.functions[function.index()];
                self.returned = Value::Void;
                let mut inner = Scope { local: &mut call.frame, outer: &mut [], in_action: false };
                let outcome = returned(self.block(&mut inner, &function.body));
                let value = match std::mem::replace(&mut self.returned, Value::Void) {
                    // The end of a function that should return something: undefined, so the default.
                    Value::Void => Value::default_of(&self.program.types, function.returns),
                    value => value,
                };
                (outcome, Some(value))
            }
        };
        self.leave(caller, callee);
        self.copy_out(scope, call);
        outcome?;
        if let (Some(place), Some(value)) = (result_place, value) {
            place.store(scope, value);
        }
        Ok(())
    }

    /// Calls the architecture's function. Its results are made to fit the places that they are for.
    fn call_extern(&mut self, this: ExternCall<'a>, args: &'a [Arg], frame: &mut [Value]) -> Option<Value> {
        let told = if self.tracing { self.extern_args(&this, args, frame) } else { Vec::new() };
        let value = self.env.call_extern(this, frame);
        for (value, arg) in frame.iter_mut().zip(args) {
            if let Arg::Out(lv) | Arg::InOut(lv) = arg {
                let v = std::mem::replace(value, Value::Void);
                *value = conform(&self.program.types, lv.ty, v);
            }
        }
        let value = this.returns.map(|ty| conform(&self.program.types, ty, value));
        if self.tracing {
            self.tell_extern(&this, told, args, frame, value.as_ref());
        }
        value
    }

    /// Back in `caller`'s code.
    fn leave(&mut self, caller: Callee, callee: Callee) {
        self.at = caller;
        if self.tracing && !matches!(callee, Callee::Extern { .. }) {
            self.tell(self.span, Traced::Leave);
        }
    }

    /// Runs an action in its frame; `caller` is the control that called it, or another action of that control.
    fn action(&mut self, caller: &mut Scope<'_>, action: ActionId, frame: &mut [Value]) -> Outcome {
        let action = &self.program.actions[action.index()];
        let outer: &mut [Value] = match (action.control, caller.in_action) {
            (None, _) => &mut [],
            (Some(_), true) => caller.outer,
            (Some(_), false) => caller.local,
        };
        let mut scope = Scope { local: frame, outer, in_action: true };
        returned(self.block(&mut scope, &action.body))
    }

    /// `table.apply()` (P4_16 section 14.2.4).
    fn apply(
        &mut self,
        scope: &mut Scope<'_>,
        id: TableId,
        hit: Option<&LValue>,
        action_run: Option<&LValue>,
    ) -> Outcome {
        let table = &self.program.tables[id.index()];
        let (mut key, mut selectors) = (std::mem::take(&mut self.key), std::mem::take(&mut self.selectors));
        key.clear();
        selectors.clear();
        for k in &table.keys {
            let bits = self.eval.expr(scope, &k.expr)?.to_bits().unwrap_or_else(|| Bits::zero(0));
            let selector = k.match_kind == pointsman_ir::MatchKind::Selector;
            if selector { selectors.push(bits) } else { key.push(bits) }
        }
        let found = self.env.lookup(id, &key, &selectors);
        if self.tracing {
            self.tell_lookup(id, &key, &selectors, &found);
        }
        (self.key, self.selectors) = (key, selectors);
        let mut ran = u32::MAX;
        if let Some(call) = &found.action
            && let Some(listed) = table.actions.get(call.action as usize)
        {
            ran = call.action;
            let callee = Callee::Action(listed.action);
            self.block(scope, &listed.setup)?;
            let template = self.interp.template(callee);
            let mut args = self.copy_in(scope, callee, &listed.bound)?;
            let params = &self.program.actions[listed.action.index()].frame.params;
            for (value, param) in call.args.iter().zip(params.iter().skip(listed.bound.len())) {
                args.frame.push(conform(&self.program.types, param.ty, value.clone()));
            }
            args.fill(template);
            let caller = self.at;
            if self.tracing {
                self.tell_enter(callee, &args.frame);
            }
            self.at = callee;
            let outcome = self.action(scope, listed.action, &mut args.frame);
            self.leave(caller, callee);
            self.copy_out(scope, args);
            outcome?;
        }
        if let Some(lv) = hit {
            self.store(scope, lv, Value::Bool(found.hit.is_some()))?;
        }
        if let Some(lv) = action_run {
            self.store(scope, lv, Value::Bits(Bits::new(32, u128::from(ran))))?;
        }
        Ok(())
    }
}

/// Makes `return` the normal end of a callable.
pub(crate) fn returned(outcome: Outcome) -> Outcome {
    match outcome {
        // The verifier keeps `break` and `continue` inside loops.
        Err(Stop::Return | Stop::Break | Stop::Continue) => Ok(()),
        other => other,
    }
}

fn invalidate(value: &mut Value) {
    match value {
        Value::Header { valid, .. } => *valid = false,
        Value::Union(members) => members.iter_mut().for_each(invalidate),
        _ => {}
    }
}

/// A call on its way.
struct Call {
    /// The callee's frame.
    frame: Vec<Value>,
    /// The values to copy back after the call: [`Run::back`] from here on.
    back: usize,
}

/// An argument that has a place.
struct Back {
    /// Index of the argument.
    arg: usize,
    place: Place,
    passed: Passed,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Passed {
    Out,
    InOut,
    /// An `in` argument whose value is moved into the callee, which cannot write it, and back.
    Lent,
    /// An `in` argument that was copied.
    Copied,
}

impl<'a> Run<'a> {
    /// Evaluates arguments from left to right. Structs and headers that are invisible during the call are moved, not
    /// copied: passing all headers to a control costs nothing.
    fn copy_in(&mut self, scope: &mut Scope<'_>, callee: Callee, args: &'a [Arg]) -> Result<Call, Stop> {
        // Actions see the control's variables; an extern might change lent values.
        let (hidden, lend) = match callee {
            Callee::Action(a) => (self.program.actions[a.index()].control.is_none(), false),
            Callee::Extern { .. } => (true, false),
            _ => (true, true),
        };
        let mut call = Call { frame: self.frames.pop().unwrap_or_default(), back: self.back.len() };
        if let Err(stop) = self.evaluate(scope, &mut call.frame, lend, args) {
            self.back.truncate(call.back);
            return Err(stop);
        }
        // All are evaluated, so from here on values can be moved.
        for n in call.back..self.back.len() {
            let Back { arg, place, passed } = &self.back[n];
            if *passed == Passed::Out {
                continue;
            }
            let others = self.back[call.back..].iter().enumerate().filter(|(m, _)| call.back + m != n);
            let alone = others.into_iter().all(|(_, other)| !place.overlaps(&other.place));
            let value = if hidden && alone { place.take(scope) } else { place.clone_value(scope) };
            if let (Some(value), Some(slot)) = (value, call.frame.get_mut(*arg)) {
                *slot = value;
            }
            if !alone && *passed == Passed::Lent {
                self.back[n].passed = Passed::Copied;
            }
        }
        Ok(call)
    }

    /// Puts the values of arguments into `frame` and places on [`Run::back`]; values that may be moved come later.
    fn evaluate(
        &mut self,
        scope: &Scope<'_>,
        frame: &mut Vec<Value>,
        lend: bool,
        args: &'a [Arg],
    ) -> Outcome {
        for (arg, how) in args.iter().enumerate() {
            let (lv, passed) = match how {
                Arg::In(Expr { kind: ExprKind::Read(lv), .. }) if lend && self.interp.aggregate(lv.ty) => {
                    (lv, Passed::Lent)
                }
                Arg::In(e) => {
                    frame.push(self.eval.owned(scope, e)?);
                    continue;
                }
                Arg::Out(lv) => (lv, Passed::Out),
                Arg::InOut(lv) => (lv, Passed::InOut),
            };
            let place = Place::resolve(self.eval, scope, lv)?;
            frame.push(match passed {
                Passed::InOut | Passed::Lent if place.is_some() => Value::Void,
                _ => Value::default_of(self.eval.types, lv.ty),
            });
            self.back.extend(place.map(|place| Back { arg, place, passed }));
        }
        Ok(())
    }

    /// Returns arguments to their places, from left to right.
    fn copy_out(&mut self, scope: &mut Scope<'_>, mut call: Call) {
        for Back { arg, place, passed } in self.back.drain(call.back..) {
            let Some(value) = call.frame.get_mut(arg) else { continue };
            let value = std::mem::replace(value, Value::Void);
            match passed {
                Passed::Out | Passed::InOut => place.store(scope, value),
                Passed::Lent => place.put_back(scope, value),
                Passed::Copied => {}
            }
        }
        call.frame.clear();
        self.frames.push(call.frame);
    }
}

impl Call {
    /// Completes the frame with default values.
    fn fill(&mut self, template: &[Value]) {
        self.frame.extend_from_slice(template.get(self.frame.len()..).unwrap_or_default());
    }
}
