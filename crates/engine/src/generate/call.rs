//! Calls: arguments from left to right, the callee, results back from left to right (P4_16 section 6.8).

use super::external::Called;
use super::place::{At, Place, Target, Val};
use super::{Flow, Gen, Scope};
use pointsman_ir::{Arg, Callee, Expr, ExprKind, Frame, LValue, Proj, TypeId};
use std::rc::Rc;

/// The values to copy back after a call.
pub(super) struct Back {
    target: Target,
    from: Place,
}

impl Gen<'_, '_> {
    /// A call. False if control never gets behind it.
    pub(super) fn call(
        &mut self,
        scope: &Rc<Scope>,
        result: Option<&LValue>,
        callee: Callee,
        type_args: &[TypeId],
        args: &[Arg],
    ) -> bool {
        let program = self.s.program;
        let result_target = result.map(|lv| (self.resolve(scope, lv, true), lv.ty));
        match callee {
            Callee::Extern { function, instance } if self.ahead.is_some() => {
                if result.is_some() {
                    return self.stop();
                }
                return self.foresee_extern(
                    scope,
                    Called { function, instance, type_args, bytes: None },
                    args,
                );
            }
            Callee::Extern { function, instance } => {
                self.call_extern(
                    scope,
                    Called { function, instance, type_args, bytes: None },
                    args,
                    result_target,
                );
                return true;
            }
            Callee::Action(id) => {
                let action = &program.actions[id.index()];
                // An action sees the control's variables, so it gets copies.
                let (vars, back) = self.pass(scope, &action.frame, args, action.control.is_none(), &[]);
                let inner = self.action_scope(scope, vars, action.control.is_some());
                let outer = self.begin(&back, None);
                let live = self.block(&inner, &action.body);
                self.end(outer, back, live)
            }
            Callee::Control(id) => {
                let control = &program.controls[id.index()];
                self.inlined(scope, &control.frame, args, |this, inner| this.block(inner, &control.body));
            }
            Callee::Parser(id) => {
                let parser = &program.parsers[id.index()];
                self.inlined(scope, &parser.frame, args, |this, inner| this.parser(inner, id));
            }
            Callee::Function(id) => {
                let function = &program.functions[id.index()];
                let (vars, back) = self.pass(scope, &function.frame, args, true, &[]);
                let inner = Rc::new(Scope { vars, outer: None, action: false });
                let value = match self.layouts().get(function.returns).shape {
                    crate::layout::Shape::Nothing => None,
                    // The end of a function that should return something: undefined, so the default.
                    _ => Some(self.fresh(function.returns)),
                };
                let outer = self.begin(&back, value);
                let live = self.block(&inner, &function.body);
                self.end(outer, back, live);
                if let (Some((target, _)), Some(value)) = (result_target, value) {
                    let v = self.get(value);
                    self.write(target, v);
                }
            }
        }
        true
    }

    /// The code of a callee that sees nothing of its caller and returns nothing.
    fn inlined(
        &mut self,
        scope: &Rc<Scope>,
        frame: &Frame,
        args: &[Arg],
        body: impl FnOnce(&mut Self, &Rc<Scope>) -> bool,
    ) {
        let (vars, back) = self.pass(scope, frame, args, true, &[]);
        let inner = Rc::new(Scope { vars, outer: None, action: false });
        let outer = self.begin(&back, None);
        let live = body(self, &inner);
        self.end(outer, back, live);
    }

    pub(super) fn action_scope(&self, caller: &Rc<Scope>, vars: Vec<Place>, of_control: bool) -> Rc<Scope> {
        let outer = match (of_control, caller.action) {
            (false, _) => None,
            (true, true) => caller.outer.clone(),
            (true, false) => Some(caller.clone()),
        };
        Rc::new(Scope { vars, outer, action: true })
    }

    /// Where the code of a callee leaves to.
    pub(super) fn begin(&mut self, back: &[Back], result: Option<Place>) -> Flow {
        let ret = self.new_block();
        // Values go back however a callee ends, by `exit` and `reject` too (P4_16 section 12.5).
        let fail = if back.is_empty() { self.flow.fail } else { self.new_block() };
        std::mem::replace(&mut self.flow, Flow { ret, fail, loops: Vec::new(), result })
    }

    /// Behind the code of a callee.
    pub(super) fn end(&mut self, outer: Flow, back: Vec<Back>, live: bool) {
        let inner = std::mem::replace(&mut self.flow, outer);
        if live {
            self.jump(inner.ret);
        }
        if !back.is_empty() {
            self.start(inner.fail);
            self.give_back(&back);
            let fail = self.flow.fail;
            self.jump(fail);
        }
        self.start(inner.ret);
        self.give_back(&back);
    }

    fn give_back(&mut self, back: &[Back]) {
        for Back { target, from } in back {
            let v = self.get(*from);
            self.write(*target, v);
        }
    }

    /// The callee's variables with the arguments in them. `hidden`: the callee sees nothing of the caller, so a place
    /// that no other argument overlaps can be lent instead of copied. `data` are places of further arguments.
    pub(super) fn pass(
        &mut self,
        scope: &Rc<Scope>,
        frame: &Frame,
        args: &[Arg],
        hidden: bool,
        data: &[Place],
    ) -> (Vec<Place>, Vec<Back>) {
        enum Passed {
            Value(Val, TypeId),
            /// The caller's own place; it is cleared first if true.
            Lent(Place, bool),
            /// A copy that goes back; the value is not passed if true.
            Copied(Target, TypeId, bool),
        }
        // All are evaluated before anything is written.
        let mut passed = Vec::with_capacity(args.len());
        for (n, arg) in args.iter().enumerate() {
            let lendable = |lv: &LValue| hidden && alone(args, n, lv);
            passed.push(match arg {
                Arg::In(Expr { kind: ExprKind::Read(lv), .. })
                    if self.reg_type(lv.ty).is_none() && lendable(lv) && !sliced(lv) =>
                {
                    Passed::Lent(self.resolve(scope, lv, false).place, false)
                }
                Arg::In(e) => Passed::Value(self.expr(scope, e), e.ty),
                Arg::Out(lv) | Arg::InOut(lv) => {
                    let target = self.resolve(scope, lv, true);
                    let out = matches!(arg, Arg::Out(_));
                    let cheap = self.reg_type(lv.ty).is_none() || matches!(target.place.at, At::Regs(_));
                    if cheap && target.slice.is_none() && target.union.is_none() && lendable(lv) {
                        Passed::Lent(target.place, out)
                    } else {
                        Passed::Copied(target, lv.ty, out)
                    }
                }
            });
        }
        let mut vars = Vec::with_capacity(frame.vars.len());
        let (mut back, mut cleared) = (Vec::new(), Vec::new());
        for one in passed {
            vars.push(match one {
                Passed::Value(v, ty) => {
                    let place = self.fresh_undefined(ty);
                    self.put(place, v);
                    place
                }
                Passed::Lent(place, clear) => {
                    cleared.extend(clear.then_some(place));
                    place
                }
                Passed::Copied(target, ty, out) => {
                    let place = self.copied(&target, ty, out);
                    back.push(Back { target, from: place });
                    place
                }
            });
        }
        // Last, because an argument may have been read from inside of it.
        cleared.into_iter().for_each(|place| self.clear(place));
        vars.extend_from_slice(data);
        for var in frame.vars.iter().skip(vars.len()) {
            vars.push(self.fresh(var.ty));
        }
        (vars, back)
    }

    /// A variable of the callee whose value goes back to the target, and comes from there unless it only goes `out`.
    fn copied(&mut self, target: &Target, ty: TypeId, out: bool) -> Place {
        if out {
            return self.fresh(ty);
        }
        let place = self.fresh_undefined(ty);
        let v = match target.slice {
            None => self.get(target.place),
            Some((hi, lo)) => self.part(target.place, hi, lo),
        };
        self.put(place, v);
        place
    }
}

/// Whether no other argument that is a place, or lent, can overlap argument `n`, whose place is `lv`.
pub(super) fn alone(args: &[Arg], n: usize, lv: &LValue) -> bool {
    args.iter().enumerate().filter(|(m, _)| *m != n).all(|(_, other)| match other {
        Arg::In(Expr { kind: ExprKind::Read(o), .. }) if !matches!(args[n], Arg::In(_)) => !overlap(lv, o),
        Arg::In(_) => true,
        Arg::Out(o) | Arg::InOut(o) => !overlap(lv, o),
    })
}

fn sliced(lv: &LValue) -> bool {
    matches!(lv.path.last(), Some(Proj::Slice { .. }))
}

/// Whether writing one can change the value of the other.
fn overlap(a: &LValue, b: &LValue) -> bool {
    a.root == b.root
        && a.path.iter().zip(&b.path).all(|(x, y)| match (x, y) {
            (Proj::Field(i), Proj::Field(j)) => i == j,
            (Proj::Index(i), Proj::Index(j)) => match (&i.kind, &j.kind) {
                (ExprKind::Const(i), ExprKind::Const(j)) => i == j,
                _ => true,
            },
            _ => true,
        })
}
