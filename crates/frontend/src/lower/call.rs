//! Calls: copy-in, copy-out and the order of evaluation of P4_16 section 6.8.

use super::Lower;
use super::instance::Inst;
use crate::check::eval::Const;
use crate::check::tree::{self, Arg, Call, Callee, Expr, ExprKind, Param};
use crate::check::types::{Kind, Ty};
use pointsman_ir::{self as ir, LValue, Span, StmtKind};

impl Lower<'_> {
    /// A call; its value, if it has one.
    pub fn call(&mut self, call: &Call, returns: Ty, span: Span) -> Option<ir::Expr> {
        match &call.callee {
            Callee::SetValid(h) => self.on_place(h, StmtKind::SetValid, span),
            Callee::SetInvalid(h) => self.on_place(h, StmtKind::SetInvalid, span),
            Callee::PushFront(s) => self.shift(s, call, StmtKind::PushFront, span),
            Callee::PopFront(s) => self.shift(s, call, StmtKind::PopFront, span),
            Callee::Method(receiver, d, m) if self.is_packet(receiver.ty) => {
                let name = self.tree.externs[*d].methods[*m].name.clone();
                self.packet_method(&name, call, returns, span)
            }
            Callee::Method(receiver, d, m) => {
                let def = &self.tree.externs[*d];
                let (object, sig) = (def.name.clone(), def.methods[*m].clone());
                let is_abstract = def.is_abstract.get(*m).copied().unwrap_or(false);
                let Inst::Extern(instance) = self.instance_of(receiver)? else { return None };
                if let (true, Some((i, _))) = (is_abstract, self.implemented.get(&instance))
                    && let Some((_, f)) = self.tree.instances[*i].methods.iter().find(|(k, _)| k == m)
                {
                    return self.call_implementation(instance, *f, call, returns, span);
                }
                self.note_implementations(instance, span);
                let function = self.extern_fn(Some(object), &sig.name, &sig.params, call, sig.span);
                let callee = ir::Callee::Extern { function, instance: Some(instance) };
                self.plain_call(callee, call, returns, span)
            }
            Callee::ExternFn(i) => {
                let sig = self.tree.extern_fns[*i].clone();
                if sig.name == "verify" && call.args.len() == 2 {
                    return self.verify(call, span);
                }
                if sig.name == "static_assert" {
                    return self.static_assert(call, span);
                }
                let function = self.extern_fn(None, &sig.name, &sig.params, call, sig.span);
                self.plain_call(ir::Callee::Extern { function, instance: None }, call, returns, span)
            }
            Callee::Function(i) => {
                let targs: Vec<Ty> = call.type_args.iter().map(|t| self.concrete(*t)).collect();
                let id = self.function(*i, targs, &call.args, None, span)?;
                self.plain_call(ir::Callee::Function(id), call, returns, span)
            }
            Callee::Action(i) => {
                let id = self.env.actions.get(i).copied()?;
                self.plain_call(ir::Callee::Action(id), call, returns, span)
            }
            Callee::Block(b) => {
                let inst = match self.instance_of(b)? {
                    Inst::Deferred(i) => self.apply_deferred(i, &call.args, span)?,
                    inst => inst,
                };
                let callee = match inst {
                    Inst::Control(id) => ir::Callee::Control(id),
                    Inst::Parser(id) => ir::Callee::Parser(id),
                    _ => return None,
                };
                self.plain_call(callee, call, returns, span)
            }
        }
    }

    fn on_place(&mut self, e: &Expr, make: impl FnOnce(LValue) -> StmtKind, span: Span) -> Option<ir::Expr> {
        let lv = self.place(e, false)?;
        self.push(make(lv), span);
        None
    }

    fn shift(
        &mut self,
        stack: &Expr,
        call: &Call,
        make: impl FnOnce(LValue, u32) -> StmtKind,
        span: Span,
    ) -> Option<ir::Expr> {
        let Some(Arg::In(count)) = call.args.first() else { return None };
        let n = self.constant_u64(count)?;
        if n == 0 {
            let help = "remove the statement, or shift by 1 or more";
            self.error("P0506", count.span, "a stack cannot be shifted by 0 elements", help);
        }
        let lv = self.place(stack, false)?;
        // Beyond the size of any stack, more makes no difference.
        self.push(make(lv, u32::try_from(n).unwrap_or(u32::MAX)), span);
        None
    }

    /// The extern function or method; the parameters are those for which there is an argument.
    fn extern_fn(
        &mut self,
        object: Option<String>,
        name: &str,
        params: &[Param],
        call: &Call,
        span: Span,
    ) -> ir::ExternFnId {
        let params: Vec<String> = params
            .iter()
            .zip(&call.args)
            .filter(|(_, a)| !matches!(a, Arg::Missing))
            .map(|(p, _)| p.name.clone())
            .collect();
        let same = |f: &ir::ExternFn| f.object == object && f.name == name && f.params == params;
        let index = match self.program.extern_fns.iter().position(same) {
            Some(i) => i,
            None => {
                self.program.extern_fns.push(ir::ExternFn { object, name: name.to_string(), params, span });
                self.program.extern_fns.len() - 1
            }
        };
        ir::ExternFnId(index as u32)
    }

    /// A call whose arguments are passed unchanged.
    pub fn plain_call(
        &mut self,
        callee: ir::Callee,
        call: &Call,
        returns: Ty,
        span: Span,
    ) -> Option<ir::Expr> {
        let (args, after) = self.args(callee, call);
        if !after.is_empty() && self.may_exit(callee, &mut Vec::new()) {
            let help = "store the results of calls among the arguments in variables first";
            self.unsupported(span, "a call among the arguments of something that can `exit`", help);
        }
        let type_args = match callee {
            ir::Callee::Extern { .. } => call.type_args.iter().map(|t| self.ty(*t)).collect(),
            _ => Vec::new(),
        };
        let result = (returns != Ty::VOID).then(|| {
            let ty = self.ty(returns);
            self.temp(ty)
        });
        self.push(StmtKind::Call { result: result.clone(), callee, type_args, args }, span);
        self.body.out.extend(after);
        result.map(|lv| ir::Expr { ty: lv.ty, kind: ir::ExprKind::Read(lv), span })
    }

    /// Arguments in order of the parameters, and statements that copy results back after the call.
    fn args(&mut self, callee: ir::Callee, call: &Call) -> (Vec<ir::Arg>, Vec<ir::Stmt>) {
        let mut out: Vec<Option<ir::Arg>> = vec![None; call.args.len()];
        let mut back: Vec<(usize, LValue, LValue, Span)> = Vec::new();
        // As written, then those left to default values.
        let rest: Vec<usize> = (0..call.args.len()).filter(|i| !call.order.contains(i)).collect();
        let order: Vec<usize> = call.order.iter().copied().chain(rest).collect();
        let effects = |i: usize| match &call.args[i] {
            Arg::In(e) | Arg::Out(e) | Arg::InOut(e) => e.has_effects(),
            Arg::Ignore(_) | Arg::Missing => false,
        };
        let block = !matches!(callee, ir::Callee::Extern { .. });
        // A call among the arguments may change the value of a place before it: then the results are copied back here,
        // in order. Which place it is cannot change: indices are kept.
        let changed = |n: usize, i: usize| match &call.args[i] {
            Arg::Out(e) | Arg::InOut(e) => order[n + 1..].iter().any(|j| match &call.args[*j] {
                Arg::In(l) | Arg::Out(l) | Arg::InOut(l) => self.may_write(l, e),
                Arg::Ignore(_) | Arg::Missing => false,
            }),
            _ => false,
        };
        let copies = order.iter().enumerate().any(|(n, i)| changed(n, *i));
        for (n, i) in order.iter().enumerate() {
            let later = order[n + 1..].iter().any(|j| effects(*j));
            out[*i] = match &call.args[*i] {
                // Externs have overloads for that; anything else has a parameter to fill.
                Arg::Missing if block => self.filler(callee, *i),
                Arg::Missing => None,
                // Blocks know these already.
                Arg::In(e) if block && self.is_compile_time(e.ty) => None,
                Arg::In(e) if matches!(self.tree.tys.get(e.ty), Kind::Extern(..)) => {
                    let help = "use it directly where it is declared";
                    self.unsupported(e.span, "an extern object as an argument", help);
                    None
                }
                Arg::In(e) if matches!(e.ty, Ty::INT | Ty::MATCH_KIND) => self.compile_time_argument(e),
                Arg::In(e) => {
                    let v = self.expr(e);
                    Some(ir::Arg::In(if later { self.keep(v) } else { v }))
                }
                Arg::Ignore(ty) => {
                    let ty = self.ty(*ty);
                    Some(ir::Arg::Out(self.temp(ty)))
                }
                Arg::Out(e) | Arg::InOut(e) => {
                    let Some(lv) = self.place(e, true) else { continue };
                    let inout = matches!(&call.args[*i], Arg::InOut(_));
                    let make = if inout { ir::Arg::InOut } else { ir::Arg::Out };
                    if copies {
                        let temp = self.temp(lv.ty);
                        if inout {
                            let value = Self::get(&lv, e.span);
                            self.push(StmtKind::Assign(temp.clone(), value), e.span);
                        }
                        back.push((*i, lv, temp.clone(), e.span));
                        Some(make(temp))
                    } else {
                        Some(make(lv))
                    }
                }
            };
        }
        back.sort_by_key(|(i, ..)| *i);
        let after = back
            .into_iter()
            .map(|(_, lv, temp, span)| ir::Stmt { kind: StmtKind::Assign(lv, Self::get(&temp, span)), span })
            .collect();
        (out.into_iter().flatten().collect(), after)
    }

    /// Whether arguments of this type are part of the instance of a block.
    fn is_compile_time(&self, ty: Ty) -> bool {
        ty == Ty::STRING || matches!(self.tree.tys.get(ty), Kind::Extern(..) | Kind::Int | Kind::MatchKind)
    }

    /// An `int` for an extern, as wide as it needs; a match kind as its name.
    fn compile_time_argument(&mut self, e: &Expr) -> Option<ir::Arg> {
        let (ty, value) = match self.constant(e)? {
            Const::Int(i) => {
                let width = (i.bits() as u32).saturating_add(1).max(64);
                (ir::Type::Int(width), ir::Value::Bits(crate::check::eval::truncate(&i, width, true).0))
            }
            Const::MatchKind(k) => {
                let name = self.tree.match_kinds.get(k as usize).cloned().unwrap_or_default();
                (ir::Type::String, ir::Value::String(name.into()))
            }
            _ => return None,
        };
        let ty = self.program.types.intern(ty);
        Some(ir::Arg::In(ir::Expr { kind: ir::ExprKind::Const(value), ty, span: e.span }))
    }

    /// An argument for an optional parameter that nothing is given for.
    fn filler(&mut self, callee: ir::Callee, i: usize) -> Option<ir::Arg> {
        let params = match callee {
            ir::Callee::Action(id) => &self.program.actions[id.index()].frame.params,
            ir::Callee::Function(id) => &self.program.functions[id.index()].frame.params,
            ir::Callee::Control(id) => &self.program.controls[id.index()].frame.params,
            ir::Callee::Parser(id) => &self.program.parsers[id.index()].frame.params,
            ir::Callee::Extern { .. } => return None,
        };
        let param = params.get(i)?;
        let (ty, direction) = (param.ty, param.direction);
        let value = ir::Expr { kind: ir::ExprKind::Const(self.default_value(ty)), ty, span: self.span };
        Some(match direction {
            ir::Direction::None | ir::Direction::In => ir::Arg::In(value),
            ir::Direction::Out => ir::Arg::Out(self.temp(ty)),
            ir::Direction::InOut => {
                let temp = self.temp(ty);
                self.push(StmtKind::Assign(temp.clone(), value), self.span);
                ir::Arg::InOut(temp)
            }
        })
    }

    /// Whether evaluating `e` can write the place. Calls write their arguments, and implementations of abstract methods
    /// the variables around them.
    fn may_write(&self, e: &Expr, place: &Expr) -> bool {
        let mut found = match &e.kind {
            ExprKind::Call(c) => {
                let object = if let Callee::Method(_, d, _) = &c.callee { Some(*d) } else { None };
                let method = object.is_some_and(|d| self.tree.externs[d].is_abstract.contains(&true));
                let written = |a: &Arg| match a {
                    Arg::Out(p) | Arg::InOut(p) => self.overlap(p, place),
                    _ => false,
                };
                method || c.args.iter().any(written)
            }
            _ => false,
        };
        e.each_child(&mut |c| found = found || self.may_write(c, place));
        found
    }

    /// Whether writing one of two places can change the other.
    fn overlap(&self, a: &Expr, b: &Expr) -> bool {
        let apart =
            self.steps(a).iter().zip(&self.steps(b)).any(|(i, j)| i.is_some() && j.is_some() && i != j);
        a.root_var() == b.root_var() && !apart
    }

    /// From the variable to the place; `None` for an index, and for members of a header union, which depend on each
    /// other.
    fn steps(&self, e: &Expr) -> Vec<Option<u32>> {
        let (base, step) = match &e.kind {
            ExprKind::Field(b, i) => {
                let union = self.tree.is_struct(b.ty, &[tree::StructKind::HeaderUnion]);
                (b, Some((!union).then_some(*i)))
            }
            ExprKind::Index(b, _) | ExprKind::Next(b) | ExprKind::Last(b) => (b, Some(None)),
            ExprKind::Slice(b, ..) => (b, None),
            _ => return Vec::new(),
        };
        let mut steps = self.steps(base);
        steps.extend(step);
        steps
    }

    /// Whether running it can end in `exit`. `seen`: blocks already visited.
    fn may_exit(&self, callee: ir::Callee, seen: &mut Vec<ir::Callee>) -> bool {
        if seen.contains(&callee) {
            return false;
        }
        seen.push(callee);
        match callee {
            ir::Callee::Action(id) => self.exits(&self.program.actions[id.index()].body, seen),
            ir::Callee::Control(id) => self.exits(&self.program.controls[id.index()].body, seen),
            ir::Callee::Function(_) | ir::Callee::Parser(_) | ir::Callee::Extern { .. } => false,
        }
    }

    fn exits(&self, stmts: &[ir::Stmt], seen: &mut Vec<ir::Callee>) -> bool {
        stmts.iter().any(|s| match &s.kind {
            StmtKind::Exit => true,
            StmtKind::Call { callee, .. } => self.may_exit(*callee, seen),
            StmtKind::Apply { table, .. } => {
                let actions = &self.program.tables[table.index()].actions;
                actions.iter().any(|a| self.may_exit(ir::Callee::Action(a.action), seen))
            }
            StmtKind::If(_, a, b) => self.exits(a, seen) || self.exits(b, seen),
            StmtKind::Switch { cases, default, .. } => {
                self.exits(default, seen) || cases.iter().any(|(_, b)| self.exits(b, seen))
            }
            StmtKind::Loop { body, update, .. } => self.exits(body, seen) || self.exits(update, seen),
            _ => false,
        })
    }

    /// `verify(condition, error)`
    fn verify(&mut self, call: &Call, span: Span) -> Option<ir::Expr> {
        if !self.body.in_parser {
            self.error(
                "P0413",
                span,
                "`verify` can be called only in parsers",
                "set a field of the metadata instead",
            );
            return None;
        }
        let es: Vec<&Expr> =
            call.args.iter().filter_map(|a| if let Arg::In(e) = a { Some(e) } else { None }).collect();
        let mut values = self.operands(&es).into_iter();
        if let (Some(cond), Some(error)) = (values.next(), values.next()) {
            self.push(StmtKind::Verify(cond, error), span);
        }
        None
    }

    /// `static_assert` of something that depends on constructor parameters.
    fn static_assert(&mut self, call: &Call, span: Span) -> Option<ir::Expr> {
        let mut args = call.args.iter().filter_map(|a| if let Arg::In(e) = a { Some(e) } else { None });
        let holds = self.constant(args.next()?)?;
        if holds == Const::Bool(false) {
            let text = match args.next().map(|m| self.eval(m)) {
                Some(Ok(Const::Str(s))) => format!("static assertion failed: {s}"),
                _ => "static assertion failed".to_string(),
            };
            self.error("P0504", span, text, "change the assertion, or the arguments of the instance");
        }
        Some(self.bool_expr(true, span))
    }

    /// Methods of `packet_in` and `packet_out`, which are statements of the IR.
    fn packet_method(&mut self, name: &str, call: &Call, returns: Ty, span: Span) -> Option<ir::Expr> {
        let emit = name == "emit";
        if emit == self.body.in_parser {
            let message =
                format!("`{name}` can be called only in {}", if emit { "controls" } else { "parsers" });
            self.error("P0413", span, message, "move it there");
            return None;
        }
        match (name, call.args.as_slice()) {
            ("extract", [Arg::Out(h)]) => self.extract(h, None, span),
            ("extract", [Arg::Out(h), Arg::In(n)]) => self.extract(h, Some(n), span),
            ("extract", [Arg::Ignore(ty), ..]) => {
                let ty = self.ty(*ty);
                let header = self.temp(ty);
                let varbits = match call.args.get(1) {
                    Some(Arg::In(n)) => Some(self.expr(n)),
                    _ => None,
                };
                self.push(StmtKind::Extract { header, varbits }, span);
            }
            ("lookahead", []) => {
                let ty = self.ty(returns);
                let temp = self.temp(ty);
                self.push(StmtKind::Lookahead(temp.clone()), span);
                return Some(ir::Expr { kind: ir::ExprKind::Read(temp), ty, span });
            }
            ("advance", [Arg::In(n)]) => {
                let n = self.expr(n);
                self.push(StmtKind::Advance(n), span);
            }
            ("length", []) => {
                let ty = self.ty(returns);
                let temp = self.temp(ty);
                self.push(StmtKind::PacketLength(temp.clone()), span);
                return Some(ir::Expr { kind: ir::ExprKind::Read(temp), ty, span });
            }
            ("emit", [Arg::In(e)]) => {
                let v = self.expr(e);
                self.push(StmtKind::Emit(v), span);
            }
            _ => {
                let help = "use the methods that core.p4 declares";
                self.unsupported(span, &format!("the packet method `{name}`"), help);
            }
        }
        None
    }

    fn extract(&mut self, header: &Expr, bits: Option<&Expr>, span: Span) {
        let Some(lv) = self.place(header, bits.is_some_and(|b| b.has_effects())) else { return };
        let bits = bits.map(|b| self.expr(b));
        self.push(StmtKind::Extract { header: lv, varbits: bits }, span);
    }

    /// `t.apply()`: keys that call something are evaluated first.
    pub fn apply(&mut self, table: usize, hit: Option<LValue>, action_run: Option<LValue>, span: Span) {
        let Some(id) = self.env.tables.get(&table).copied() else { return };
        for (var, e) in self.env.key_calls.get(&table).cloned().unwrap_or_default() {
            let v = self.expr(&e);
            let place = LValue::var(ir::VarRef::Local(var), v.ty);
            self.push(StmtKind::Assign(place, v), e.span);
        }
        self.push(StmtKind::Apply { table: id, hit, action_run }, span);
    }

    /// A constant action argument as a value.
    pub fn action_data(&mut self, e: &Expr) -> Option<ir::Value> {
        if let ExprKind::Default = e.kind {
            let ty = self.ty(e.ty);
            return Some(self.default_value(ty));
        }
        let c: Const = self.constant(e)?;
        self.const_value(&c, e.ty, e.span)
    }
}
