//! Statements.

use super::scope::{Builder, Where};
use super::tree::*;
use num_bigint::BigInt;

impl Builder {
    /// Up to `n` statements in their own scope.
    pub(super) fn block(&mut self, n: usize) -> Vec<Stmt> {
        self.scoped(|b| b.list(n))
    }

    /// Up to `n` statements.
    pub(super) fn list(&mut self, n: usize) -> Vec<Stmt> {
        let mut out = Vec::new();
        for _ in 0..n {
            if self.budget == 0 {
                break;
            }
            self.budget -= 1;
            self.stmt(&mut out);
        }
        out
    }

    fn depth(&mut self) -> usize {
        1 + self.r.below(3)
    }

    fn is_control(&self) -> bool {
        matches!(self.place, Where::Inner | Where::Ingress | Where::Egress)
    }

    fn stmt(&mut self, out: &mut Vec<Stmt>) {
        let n = 1 + self.r.below(3);
        let depth = self.depth();
        match self.r.below(40) {
            0..=4 => self.declare(out),
            5..=8 => self.condition(n, depth, out),
            9 => {
                let b = self.block(n);
                out.push(Stmt::Block(b));
            }
            10 | 11 if self.place != Where::Parser => self.switch(out),
            12 | 13 if self.place != Where::Parser && !self.in_loop => self.repeat(out),
            14 if self.in_loop => {
                let c = self.expr(&Ty::Bool, depth);
                let end = if self.r.one_in(2) { Stmt::Break } else { Stmt::Continue };
                out.push(Stmt::If(c, vec![end], Vec::new()));
            }
            15 if self.is_control() => {
                let c = self.expr(&Ty::Bool, depth);
                let end = if self.r.one_in(2) { Stmt::Exit } else { Stmt::Return(None) };
                out.push(Stmt::If(c, vec![end], Vec::new()));
            }
            16..=18 => self.validity(out),
            19 | 20 => self.procedure(out),
            21..=24 if self.is_control() => self.invoke(out),
            25 | 26 if self.is_control() => self.external(out),
            27 | 28 => self.slice(depth, out),
            29 | 30 => self.update(depth, out),
            _ => {
                let places = self.places(&|t| !matches!(t, Ty::Varbit(_)), true);
                // Scalars most of the time.
                let scalars: Vec<_> = places.iter().filter(|(p, _)| p.ty.is_scalar()).collect();
                let chosen = match self.r.one_in(5) || scalars.is_empty() {
                    true if places.is_empty() => return,
                    true => self.r.choose(&places).0.clone(),
                    false => self.r.choose(&scalars).0.clone(),
                };
                self.assign(chosen, depth, out);
            }
        }
    }

    fn condition(&mut self, n: usize, depth: usize, out: &mut Vec<Stmt>) {
        // The body may use headers that the condition requires.
        let headers = self.places(&|t| matches!(t, Ty::Header(_)), false);
        if headers.is_empty() || self.r.one_in(2) {
            let c = self.expr(&Ty::Bool, depth);
            let then = self.block(n);
            let other = if self.r.one_in(2) { self.block(n) } else { Vec::new() };
            return out.push(Stmt::If(c, then, other));
        }
        let h = self.r.choose(&headers).0.clone();
        let then = self.scoped(|b| {
            b.valid.push(format!("{h:?}"));
            b.list(n + 1)
        });
        let other = if self.r.one_in(3) { self.block(n) } else { Vec::new() };
        out.push(Stmt::If(Expr { ty: Ty::Bool, kind: Kind::IsValid(h) }, then, other));
    }

    /// Assigns a part of a number.
    fn slice(&mut self, depth: usize, out: &mut Vec<Stmt>) {
        let places = self.places(&|t| matches!(t, Ty::Bit(w) | Ty::Int(w) if *w > 1), true);
        if places.is_empty() {
            return;
        }
        let place = self.r.choose(&places).0.clone();
        let w = self.p.width(&place.ty);
        let lo = self.r.below(w as usize) as u32;
        let hi = lo + self.r.below((w - lo) as usize) as u32;
        let from = self.number_type();
        let e = self.expr(&from, depth);
        let e = self.converted(e, &Ty::Bit(hi - lo + 1));
        out.push(Stmt::AssignSlice(place, hi, lo, e));
    }

    fn update(&mut self, depth: usize, out: &mut Vec<Stmt>) {
        use Binary::{Add, And, Mul, Or, SatAdd, SatSub, Shl, Shr, Sub, Xor};
        let mut places = self.places(&|t| matches!(t, Ty::Bit(_) | Ty::Int(_)), true);
        places.retain(|(_, h)| h.as_ref().is_none_or(|h| self.valid.contains(&format!("{h:?}"))));
        if places.is_empty() {
            return;
        }
        let place = self.r.choose(&places).0.clone();
        let op = *self.r.choose(&[Add, Sub, Mul, SatAdd, SatSub, And, Or, Xor, Shl, Shr]);
        let e = match op {
            Shl | Shr => Expr { ty: Ty::Bit(8), kind: Kind::Num(BigInt::from(self.r.below(20))) },
            _ => self.implicit(&place.ty, depth),
        };
        out.push(Stmt::Update(op, place, e));
    }

    fn assign(&mut self, place: Place, depth: usize, out: &mut Vec<Stmt>) {
        let e = self.implicit(&place.ty, depth);
        // No value of that type is available.
        if matches!(e.kind, Kind::Bool(_)) && place.ty != Ty::Bool {
            return;
        }
        out.push(Stmt::Assign(place, e));
    }

    fn declare(&mut self, out: &mut Vec<Stmt>) {
        let ty = self.any_type();
        let depth = self.depth();
        let first = self.implicit(&ty, depth);
        let nothing = matches!(first.kind, Kind::Bool(_)) && ty != Ty::Bool;
        let bare = nothing || matches!(ty, Ty::Header(_) | Ty::Union(_)) && self.r.one_in(2);
        let v = self.variable(&ty, true);
        out.push(Stmt::Declare(v, (!bare).then_some(first)));
    }

    /// Something different from all in `seen`.
    fn label(&mut self, ty: &Ty, seen: &mut Vec<BigInt>) -> Option<Expr> {
        let e = self.constant(ty);
        let n = match &e.kind {
            Kind::Num(n) => n.clone(),
            Kind::Member(i) => match ty {
                Ty::Ser(s) => self.p.sers[*s].values[*i].clone(),
                _ => BigInt::from(*i),
            },
            _ => return None,
        };
        if seen.contains(&n) {
            return None;
        }
        seen.push(n.clone());
        Some(match e.kind {
            Kind::Num(_) if self.r.one_in(2) => Expr { ty: ty.clone(), kind: Kind::Untyped(n) },
            _ => e,
        })
    }

    fn switch(&mut self, out: &mut Vec<Stmt>) {
        if self.can_apply_tables() && self.r.one_in(2) {
            let t = self.r.below(self.control.tables.len());
            let mut cases = Vec::new();
            for action in 0..self.control.tables[t].actions.len() {
                if self.r.one_in(2) {
                    let body = if self.r.one_in(4) { None } else { Some(self.block(2)) };
                    cases.push((action, body));
                }
            }
            let default = if self.r.one_in(2) || cases.is_empty() { Some(self.block(2)) } else { None };
            return out.push(Stmt::SwitchAction(t, cases, default));
        }
        let mut ty = self.scalar_type();
        if ty == Ty::Bool {
            ty = Ty::Bit(2);
        }
        // Few values, so that labels are met.
        let e = match &ty {
            Ty::Bit(w) if *w > 3 && self.r.one_in(2) => {
                let a = self.expr(&ty, 1);
                let few = Expr { ty: ty.clone(), kind: Kind::Num(BigInt::from(3)) };
                Expr { ty: ty.clone(), kind: Kind::Binary(Binary::And, Box::new(a), Box::new(few)) }
            }
            _ => self.expr(&ty, 2),
        };
        let (mut seen, mut cases) = (Vec::new(), Vec::new());
        for _ in 0..1 + self.r.below(4) {
            if let Some(label) = self.label(&ty, &mut seen) {
                let body = if self.r.one_in(4) { None } else { Some(self.block(2)) };
                cases.push((label, body));
            }
        }
        let default = if self.r.one_in(2) || cases.is_empty() { Some(self.block(2)) } else { None };
        out.push(Stmt::Switch(e, cases, default));
    }

    /// A small number of type `ty`, not always known at compile time.
    fn small(&mut self, ty: &Ty) -> Expr {
        let n = 3.min((1 << self.p.width(ty).min(4)) - 1);
        if self.r.one_in(2) {
            return Expr { ty: ty.clone(), kind: Kind::Num(BigInt::from(self.r.below(n + 1))) };
        }
        let a = self.expr(ty, 1);
        let most = Expr { ty: ty.clone(), kind: Kind::Num(BigInt::from(n)) };
        Expr { ty: ty.clone(), kind: Kind::Binary(Binary::And, Box::new(a), Box::new(most)) }
    }

    fn repeat(&mut self, out: &mut Vec<Stmt>) {
        let n = 1 + self.r.below(3);
        let w = *self.r.choose(&self.widths);
        let ty = Ty::Bit(w.max(3));
        // The body runs after the head was evaluated, and must not see its variable before.
        let body = |b: &mut Self, ty: &Ty| {
            b.scoped(|b| {
                let v = b.variable(ty, false);
                // Made first, so it cannot use the body's declarations.
                let c = b.expr(&Ty::Bool, 2);
                b.in_loop = true;
                let mut body = b.list(n);
                b.in_loop = false;
                if b.r.one_in(2) {
                    let end = if b.r.one_in(3) { Stmt::Break } else { Stmt::Continue };
                    let at = b.r.below(body.len().min(1) + 1);
                    body.insert(at, Stmt::If(c, vec![end], Vec::new()));
                }
                (v, body)
            })
        };
        match self.r.below(4) {
            0 => {
                let end = self.small(&ty);
                let (v, body) = body(self, &ty);
                out.push(Stmt::ForCount(v, end, body));
            }
            1 => {
                let (lo, hi) = (self.small(&ty), self.small(&ty));
                let (v, body) = body(self, &ty);
                out.push(Stmt::ForRange(v, lo, hi, body));
            }
            2 => {
                let ty = self.number_type();
                let list = (0..1 + self.r.below(3)).map(|_| self.expr(&ty, 1)).collect();
                let (v, body) = body(self, &ty);
                out.push(Stmt::ForList(v, list, body));
            }
            _ => {
                let stacks = self.places(&|t| matches!(t, Ty::Stack(..)), false);
                if stacks.is_empty() {
                    return;
                }
                let stack = self.r.choose(&stacks).0.clone();
                let Ty::Stack(elem, _) = stack.ty.clone() else { return };
                let (v, body) = body(self, &elem);
                out.push(Stmt::ForStack(v, stack, body));
            }
        }
    }

    /// Headers become valid or invalid, stacks move.
    fn validity(&mut self, out: &mut Vec<Stmt>) {
        let stacks = self.places(&|t| matches!(t, Ty::Stack(..)), true);
        if !stacks.is_empty() && self.r.one_in(3) {
            let place = self.r.choose(&stacks).0.clone();
            let n = 1 + self.r.below(3) as u32;
            return out.push(if self.r.one_in(2) { Stmt::Push(place, n) } else { Stmt::Pop(place, n) });
        }
        let headers = self.places(&|t| matches!(t, Ty::Header(_)), true);
        if headers.is_empty() {
            return;
        }
        let place = self.r.choose(&headers).0.clone();
        if self.r.one_in(3) {
            return out.push(Stmt::SetValid(place, false));
        }
        if self.r.one_in(2) {
            let depth = self.depth();
            return self.assign(place, depth, out);
        }
        out.push(Stmt::SetValid(place.clone(), true));
        for (i, t) in self.p.fields(&place.ty).iter().enumerate() {
            // The omitted fields keep their values: zero, if the header was invalid.
            if !matches!(t, Ty::Varbit(_)) && !self.r.one_in(3) {
                let e = self.constant(t);
                out.push(Stmt::Assign(place.step(Step::Field(i), t), e));
            }
        }
    }

    fn procedure(&mut self, out: &mut Vec<Stmt>) {
        let n = self.p.functions.len();
        if n == 0 {
            return;
        }
        let f = self.r.below(n);
        let params = self.p.functions[f].params.clone();
        if let Some(args) = self.arguments(&params, 1) {
            out.push(Stmt::Call(f, args));
        }
    }

    /// An action, a table or another control.
    fn invoke(&mut self, out: &mut Vec<Stmt>) {
        if self.r.one_in(3) && !self.control.actions.is_empty() {
            let a = self.r.below(self.control.actions.len());
            let params = self.control.actions[a].params.clone();
            if let Some(args) = self.arguments(&params, 1) {
                out.push(Stmt::Action(a, args));
            }
        } else if self.r.one_in(2) && !self.in_action && !self.control.instances.is_empty() {
            let i = self.r.below(self.control.instances.len());
            let params = self.p.controls[self.control.instances[i].0].params.clone();
            if let Some(args) = self.arguments(&params, 1) {
                out.push(Stmt::Control(i, args));
            }
        } else if self.can_apply_tables() {
            out.push(Stmt::Table(self.r.below(self.control.tables.len())));
        }
    }

    /// Registers and counters.
    fn external(&mut self, out: &mut Vec<Stmt>) {
        let cell = |b: &mut Self, size: u32| {
            let ty = Ty::Bit(32);
            let a = b.read(&Ty::Bit(8));
            let a = b.converted(a, &ty);
            let most = Expr { ty: ty.clone(), kind: Kind::Num(BigInt::from(size - 1)) };
            Expr { ty, kind: Kind::Binary(Binary::And, Box::new(a), Box::new(most)) }
        };
        if !self.control.counters.is_empty() && self.r.one_in(3) {
            let c = self.r.below(self.control.counters.len());
            let index = cell(self, self.control.counters[c]);
            return out.push(Stmt::Count(c, index));
        }
        if self.control.registers.is_empty() {
            return;
        }
        let r = self.r.below(self.control.registers.len());
        let (w, size) = self.control.registers[r];
        let ty = Ty::Bit(w);
        let index = cell(self, size);
        if self.r.one_in(2) {
            let e = self.expr(&ty, 2);
            return out.push(Stmt::RegisterWrite(r, index, e));
        }
        let places = self.places(&|t| *t == ty, true);
        if !places.is_empty() {
            out.push(Stmt::RegisterRead(r, self.r.choose(&places).0.clone(), index));
        }
    }
}
