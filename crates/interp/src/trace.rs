//! Reports of traced packets. Nothing here runs for others.

use crate::place::{Place, Scope};
use crate::run::{Outcome, Run, Stop};
use pointsman_ir::trace::{ExternArg, Named, TraceEvent, Traced};
use pointsman_ir::{
    Arg, Bits, Callee, Direction, ExprKind, ExternCall, LValue, Span, Stmt, StmtKind, Type, TypeId, Value,
    VarRef,
};

/// The state of a statement before it runs.
enum Before {
    Nothing,
    /// A place will be written; its value. `None`: it does not exist.
    Write(Option<(Place, Value)>, TypeId),
    /// `extract` into a place; the position in the packet.
    Extract(Option<Place>, TypeId, usize),
    /// `lookahead` into a place.
    Lookahead(Option<Place>, TypeId),
    /// `advance`.
    Skip(usize),
    /// Only its error would be reported.
    Leaf,
}

/// The parser's error, if a statement itself made it.
fn rejected(outcome: &Outcome) -> Option<u32> {
    match outcome {
        Err(Stop::Reject(error)) => Some(*error),
        _ => None,
    }
}

impl<'a> Run<'a> {
    pub(crate) fn tell(&mut self, span: Span, what: Traced) {
        self.env.trace(TraceEvent { span, what });
    }

    /// Reports a decision, unless the front end has added it: it has an empty place then.
    pub(crate) fn tell_decision(&mut self, span: Span, what: Traced) {
        if span.lo < span.hi {
            self.tell(span, what);
        }
    }

    /// Runs a statement and reports its effect.
    pub(crate) fn traced(&mut self, scope: &mut Scope<'_>, stmt: &'a Stmt) -> Outcome {
        let outer = std::mem::replace(&mut self.span, stmt.span);
        let before = self.before(scope, stmt);
        let outcome = self.execute(scope, stmt);
        self.after(scope, stmt.span, before, &outcome);
        self.span = outer;
        outcome
    }

    fn before(&mut self, scope: &mut Scope<'_>, stmt: &'a Stmt) -> Before {
        match &stmt.kind {
            StmtKind::Assign(lv, _)
            | StmtKind::SetValid(lv)
            | StmtKind::SetInvalid(lv)
            | StmtKind::PushFront(lv, _)
            | StmtKind::PopFront(lv, _)
            | StmtKind::PacketLength(lv) => self.before_write(scope, lv),
            StmtKind::Call { result: Some(lv), callee, .. } if !matches!(callee, Callee::Extern { .. }) => {
                match self.before_write(scope, lv) {
                    Before::Leaf => Before::Nothing,
                    write => write,
                }
            }
            StmtKind::Extract { header: lv, .. } => {
                let place = Place::resolve(self.eval, scope, lv).ok().flatten();
                Before::Extract(place, lv.ty, self.position)
            }
            StmtKind::Lookahead(lv) => {
                Before::Lookahead(Place::resolve(self.eval, scope, lv).ok().flatten(), lv.ty)
            }
            StmtKind::Advance(_) => Before::Skip(self.position),
            StmtKind::Verify(..) => Before::Leaf,
            StmtKind::If(cond, ..) => {
                if let Ok(value) = self.eval.condition(scope, cond) {
                    self.tell_decision(cond.span, Traced::Condition(value));
                }
                Before::Nothing
            }
            StmtKind::Switch { on, cases, .. } => {
                if let Ok(value) = self.eval.expr(scope, on).map(|v| v.into_owned()) {
                    let case = cases.iter().position(|(labels, _)| labels.contains(&value)).map(|i| i as u32);
                    let on = Named { name: String::new(), ty: on.ty, value };
                    self.tell_decision(stmt.span, Traced::Switch { on, case });
                }
                Before::Nothing
            }
            StmtKind::Emit(e) => {
                let name = match &e.kind {
                    ExprKind::Read(lv) => match Place::resolve(self.eval, scope, lv) {
                        Ok(Some(place)) => self.name(&place),
                        _ => String::new(),
                    },
                    _ => String::new(),
                };
                if let Ok(value) = self.eval.expr(scope, e).map(|v| v.into_owned()) {
                    let header = matches!(value, Value::Header { .. });
                    self.emitted(e.span, Named { name, ty: e.ty, value }, header);
                }
                Before::Nothing
            }
            StmtKind::Exit => {
                self.tell(stmt.span, Traced::Exit);
                Before::Nothing
            }
            StmtKind::Call { .. }
            | StmtKind::Apply { .. }
            | StmtKind::Loop { .. }
            | StmtKind::Break
            | StmtKind::Continue
            | StmtKind::Return(_) => Before::Nothing,
        }
    }

    fn before_write(&mut self, scope: &mut Scope<'_>, lv: &LValue) -> Before {
        if self.is_temporary(lv.root) {
            return Before::Leaf;
        }
        match Place::resolve(self.eval, scope, lv) {
            Ok(Some(place)) => {
                let old = place.clone_value(scope).unwrap_or(Value::Void);
                Before::Write(Some((place, old)), lv.ty)
            }
            Ok(None) => Before::Write(None, lv.ty),
            Err(_) => Before::Leaf,
        }
    }

    fn after(&mut self, scope: &mut Scope<'_>, span: Span, before: Before, outcome: &Outcome) {
        let error = match before {
            Before::Nothing => None,
            _ => rejected(outcome),
        };
        if let Some(error) = error {
            return self.tell(span, Traced::ParserError(error));
        }
        if outcome.is_err() {
            return;
        }
        match before {
            Before::Nothing | Before::Leaf => {}
            Before::Write(None, _) => self.tell(span, Traced::Lost),
            Before::Write(Some((place, old)), ty) => {
                let new = self.named(scope, &place, ty);
                self.tell(span, Traced::Change { new, old });
            }
            Before::Extract(place, ty, at_bit) => {
                let header = self.named_or_lost(scope, place, ty);
                self.tell(span, Traced::Extract { header, at_bit, bits: self.position - at_bit });
            }
            Before::Lookahead(place, ty) => {
                let into = self.named_or_lost(scope, place, ty);
                self.tell(span, Traced::Lookahead { into, at_bit: self.position });
            }
            Before::Skip(at_bit) => {
                self.tell(span, Traced::Advance { at_bit, bits: self.position - at_bit });
            }
        }
    }

    /// Every header inside a value that is emitted; invalid ones only if they are alone.
    fn emitted(&mut self, span: Span, what: Named, alone: bool) {
        let Named { name, ty, value } = what;
        let program = self.program;
        match (program.types.repr_type(ty), value) {
            (Type::Struct(d) | Type::HeaderUnion(d), Value::Struct(vs) | Value::Union(vs)) => {
                for (f, value) in d.fields.iter().zip(vs) {
                    let name = format!("{name}.{}", f.name);
                    self.emitted(span, Named { name, ty: f.ty, value }, false);
                }
            }
            (Type::Stack { elem, .. }, Value::Stack { elems, .. }) => {
                for (i, value) in elems.into_iter().enumerate() {
                    self.emitted(span, Named { name: format!("{name}[{i}]"), ty: *elem, value }, false);
                }
            }
            (_, value @ Value::Header { valid, .. }) if valid || alone => {
                self.tell(span, Traced::Emit(Named { name, ty, value }));
            }
            _ => {}
        }
    }

    /// The callable whose code runs, and its variables.
    fn frame(&self, root: VarRef) -> Option<(&'a pointsman_ir::Frame, u32)> {
        let program = self.program;
        let local = match self.at {
            Callee::Action(id) => &program.actions[id.index()].frame,
            Callee::Function(id) => &program.functions[id.index()].frame,
            Callee::Control(id) => &program.controls[id.index()].frame,
            Callee::Parser(id) => &program.parsers[id.index()].frame,
            Callee::Extern { .. } => return None,
        };
        match (root, self.at) {
            (VarRef::Local(i), _) => Some((local, i)),
            (VarRef::Outer(i), Callee::Action(id)) => {
                let control = program.actions[id.index()].control?;
                Some((&program.controls[control.index()].frame, i))
            }
            (VarRef::Outer(_), _) => None,
        }
    }

    fn is_temporary(&self, root: VarRef) -> bool {
        let var = self.frame(root).and_then(|(f, i)| f.vars.get(i as usize));
        var.is_none_or(|v| v.name.starts_with('$'))
    }

    /// A place as the source names it.
    fn name(&self, place: &Place) -> String {
        let Some(var) = self.frame(place.root).and_then(|(f, i)| f.vars.get(i as usize)) else {
            return String::new();
        };
        let types = &self.program.types;
        let (mut name, mut ty) = (var.name.clone(), Some(var.ty));
        for i in &place.path {
            let i = *i as usize;
            ty = ty.and_then(|t| match types.repr_type(t) {
                Type::Struct(d) | Type::Header(d) | Type::HeaderUnion(d) => {
                    let field = d.fields.get(i)?;
                    name.push('.');
                    name.push_str(&field.name);
                    Some(field.ty)
                }
                Type::Stack { elem, .. } => {
                    name.push_str(&format!("[{i}]"));
                    Some(*elem)
                }
                Type::Tuple(ts) => {
                    name.push_str(&format!("[{i}]"));
                    ts.get(i).copied()
                }
                _ => None,
            });
        }
        if let Some((hi, lo)) = place.slice {
            name.push_str(&format!("[{hi}:{lo}]"));
        }
        name
    }

    fn named(&self, scope: &mut Scope<'_>, place: &Place, ty: TypeId) -> Named {
        Named { name: self.name(place), ty, value: place.clone_value(scope).unwrap_or(Value::Void) }
    }

    /// The place, without a name if it is a temporary or does not exist.
    fn named_or_lost(&self, scope: &mut Scope<'_>, place: Option<Place>, ty: TypeId) -> Named {
        let Some(place) = place else { return Named { name: String::new(), ty, value: Value::Void } };
        let named = self.named(scope, &place, ty);
        if self.is_temporary(place.root) { Named { name: String::new(), ..named } } else { named }
    }

    /// Reports that a callee starts, with the values that it only reads.
    pub(crate) fn tell_enter(&mut self, callee: Callee, frame: &[Value]) {
        let before = std::mem::replace(&mut self.at, callee);
        let params = self.frame(VarRef::Local(0)).map_or(&[][..], |(f, _)| &f.params);
        self.at = before;
        let read = |d: Direction| matches!(d, Direction::None | Direction::In);
        let given = params.iter().zip(frame).filter(|(p, v)| read(p.direction) && v.to_bits().is_some());
        let args = given.map(|(p, v)| Named { name: p.name.clone(), ty: p.ty, value: v.clone() }).collect();
        self.tell(self.span, Traced::Enter(callee, args));
    }

    /// The arguments of an extern before the call.
    pub(crate) fn extern_args(
        &self,
        call: &ExternCall<'_>,
        args: &[Arg],
        values: &[Value],
    ) -> Vec<ExternArg> {
        let names = &self.program.extern_fns[call.function.index()].params;
        let one = |(i, (arg, value)): (usize, (&Arg, &Value))| {
            let ty = match arg {
                Arg::In(e) => e.ty,
                Arg::Out(lv) | Arg::InOut(lv) => lv.ty,
            };
            let name = names.get(i).cloned().unwrap_or_default();
            ExternArg { before: Named { name, ty, value: value.clone() }, after: None }
        };
        args.iter().zip(values).enumerate().map(one).collect()
    }

    /// Reports a call of an extern after it returned.
    pub(crate) fn tell_extern(
        &mut self,
        call: &ExternCall<'_>,
        mut told: Vec<ExternArg>,
        args: &[Arg],
        values: &[Value],
        returned: Option<&Value>,
    ) {
        for ((told, arg), value) in told.iter_mut().zip(args).zip(values) {
            told.after = (!matches!(arg, Arg::In(_))).then(|| value.clone());
        }
        let returned = call.returns.zip(returned);
        let returned = returned.map(|(ty, value)| Named { name: String::new(), ty, value: value.clone() });
        let (function, instance) = (call.function, call.instance);
        self.tell(self.span, Traced::Extern { function, instance, args: told, returned });
    }

    /// Reports the values of a table's key and the result of the look-up.
    pub(crate) fn tell_lookup(
        &mut self,
        table: pointsman_ir::TableId,
        key: &[Bits],
        selectors: &[Bits],
        found: &pointsman_ir::Lookup,
    ) {
        let (key, selectors, found) = (key.to_vec(), selectors.to_vec(), found.clone());
        self.tell(self.span, Traced::Lookup { table, key, selectors, found });
    }
}
