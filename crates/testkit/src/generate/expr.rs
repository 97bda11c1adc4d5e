//! Expressions of a wanted type.

use super::scope::{Builder, Where};
use super::tree::*;
use num_bigint::BigInt;

fn e(ty: &Ty, kind: Kind) -> Expr {
    Expr { ty: ty.clone(), kind }
}

impl Builder {
    /// A value that is written down.
    pub(super) fn constant(&mut self, ty: &Ty) -> Expr {
        let kind = match ty {
            Ty::Bool => Kind::Bool(self.r.one_in(2)),
            Ty::Bit(_) | Ty::Int(_) => Kind::Num(self.number(ty)),
            Ty::Ser(i) => Kind::Member(self.r.below(self.p.sers[*i].values.len())),
            Ty::Enum(i) => Kind::Member(self.r.below(self.p.enums[*i])),
            Ty::Error => {
                // Also ParserTimeout and ParserInvalidArgument.
                Kind::Member(self.r.below(CORE_ERRORS.len() + self.p.errors))
            }
            Ty::Header(_) | Ty::Struct(_) | Ty::Tuple(_) => {
                let parts = self.p.fields(ty).iter().map(|t| self.constant(t)).collect();
                let named = self.r.one_in(2) && !matches!(ty, Ty::Tuple(_));
                Kind::Aggregate(parts, named)
            }
            Ty::Union(_) => Kind::Invalid,
            Ty::Stack(..) | Ty::Varbit(_) => Kind::Bool(false),
        };
        e(ty, kind)
    }

    /// Whether `constant` can make one.
    fn has_constants(&self, ty: &Ty) -> bool {
        match ty {
            Ty::Stack(..) | Ty::Varbit(_) => false,
            Ty::Header(_) | Ty::Struct(_) | Ty::Tuple(_) => {
                self.p.fields(ty).iter().all(|t| self.has_constants(t))
            }
            _ => true,
        }
    }

    /// Reads a place; a field of a header that may be invalid only if it is not.
    fn guarded(&mut self, place: Place, header: Option<Place>) -> Expr {
        let ty = place.ty.clone();
        let read = e(&ty, Kind::Read(place));
        match header {
            Some(h) if !self.valid.contains(&format!("{h:?}")) && !self.r.one_in(200) => {
                let other = self.constant(&ty);
                let c = e(&Ty::Bool, Kind::IsValid(h));
                e(&ty, Kind::Mux(Box::new(c), Box::new(read), Box::new(other)))
            }
            _ => read,
        }
    }

    /// An l-value of this type; else a constant.
    pub(super) fn read(&mut self, ty: &Ty) -> Expr {
        let all = self.places(&|t| t == ty, false);
        if all.is_empty() {
            return self.constant(ty);
        }
        let (place, header) = self.r.choose(&all).clone();
        self.guarded(place, header)
    }

    /// A numeric l-value of any type.
    fn any_number(&mut self) -> Expr {
        if self.place == Where::Parser && self.r.one_in(8) {
            let stacks = self.places(&|t| matches!(t, Ty::Stack(..)), false);
            if !stacks.is_empty() {
                return e(&Ty::Bit(32), Kind::LastIndex(self.r.choose(&stacks).0.clone()));
            }
        }
        let all = self.places(&|t| matches!(t, Ty::Bit(_) | Ty::Int(_)), false);
        if all.is_empty() {
            let ty = self.number_type();
            return self.constant(&ty);
        }
        let (place, header) = self.r.choose(&all).clone();
        self.guarded(place, header)
    }

    /// Casts a number to another type of number, in the steps that P4 has.
    pub(super) fn converted(&mut self, from: Expr, to: &Ty) -> Expr {
        let cast =
            |from: Expr, to: &Ty| if from.ty == *to { from } else { e(to, Kind::Cast(Box::new(from))) };
        match (&from.ty, to) {
            (Ty::Bit(_), Ty::Bit(_)) | (Ty::Int(_), Ty::Int(_)) => cast(from, to),
            (Ty::Bit(a), Ty::Int(b)) | (Ty::Int(a), Ty::Bit(b)) => {
                // Either the sign first or the width first; `int<1>` is to be avoided.
                let signed = matches!(to, Ty::Int(_));
                let width_first =
                    if signed { *a < 2 || self.r.one_in(2) } else { *b > 1 && self.r.one_in(2) };
                let w = if width_first { *b } else { *a };
                let between = if width_first == signed { Ty::Bit(w) } else { Ty::Int(w) };
                let middle = cast(from, &between);
                cast(middle, to)
            }
            _ => from,
        }
    }

    /// An expression. Larger `depth`: deeper.
    pub(super) fn expr(&mut self, ty: &Ty, depth: usize) -> Expr {
        if depth == 0 || self.r.one_in(6) {
            return if self.r.one_in(4) && self.has_constants(ty) {
                self.constant(ty)
            } else {
                self.read(ty)
            };
        }
        if self.r.one_in(10)
            && let Some(call) = self.function_call(ty, depth - 1)
        {
            return call;
        }
        if self.r.one_in(12) && self.has_constants(ty) {
            let (c, a, b) =
                (self.expr(&Ty::Bool, depth - 1), self.expr(ty, depth - 1), self.expr(ty, depth - 1));
            return e(ty, Kind::Mux(Box::new(c), Box::new(a), Box::new(b)));
        }
        match ty {
            Ty::Bool => self.boolean(depth - 1),
            Ty::Bit(_) | Ty::Int(_) => self.numeric(ty, depth - 1),
            Ty::Ser(i) if self.r.one_in(3) => {
                let repr = self.p.sers[*i].repr.clone();
                let a = self.expr(&repr, depth - 1);
                e(ty, Kind::Cast(Box::new(a)))
            }
            Ty::Header(_) if self.r.one_in(8) => e(ty, Kind::Invalid),
            Ty::Header(_) | Ty::Struct(_) | Ty::Tuple(_)
                if self.place == Where::Parser
                    && self.r.one_in(4)
                    && (self.p.fields(ty).iter())
                        .all(|t| matches!(t, Ty::Bool | Ty::Bit(_) | Ty::Int(_) | Ty::Ser(_))) =>
            {
                e(ty, Kind::Lookahead)
            }
            Ty::Header(_) | Ty::Struct(_) | Ty::Tuple(_) if self.has_constants(ty) && self.r.one_in(2) => {
                let parts = self.p.fields(ty).iter().map(|t| self.expr(t, depth - 1)).collect();
                let named = self.r.one_in(2) && !matches!(ty, Ty::Tuple(_));
                e(ty, Kind::Aggregate(parts, named))
            }
            _ => self.read(ty),
        }
    }

    /// As the right operand of something that says the type: sometimes a number without one.
    pub(super) fn implicit(&mut self, ty: &Ty, depth: usize) -> Expr {
        if self.r.one_in(6)
            && let Some(i) = self.p.sers.iter().position(|s| s.repr == *ty)
        {
            return self.expr(&Ty::Ser(i), depth);
        }
        if !matches!(ty, Ty::Bit(_) | Ty::Int(_)) || !self.r.one_in(5) {
            return self.expr(ty, depth);
        }
        let n = self.number(ty);
        if self.r.one_in(2) {
            return e(ty, Kind::Untyped(n));
        }
        // n = (a * b + rest), or (n * c) / c, or (n + c * d) % c.
        let (a, b) = (BigInt::from(2 + self.r.below(9)), BigInt::from(1 + self.r.below(9)));
        let num = |n: BigInt| Box::new(Calc::Num(n));
        let op = |o, x, y| Box::new(Calc::Op(o, x, y));
        let calc = match self.r.below(3) {
            0 => op(Binary::Add, op(Binary::Mul, num(a.clone()), num(b.clone())), num(n - a * b)),
            1 if n >= BigInt::ZERO => {
                op(Binary::Div, op(Binary::Add, num(n * &a), num(BigInt::from(1))), num(a))
            }
            _ if n >= BigInt::ZERO => {
                let m = &n + &b;
                op(Binary::Mod, op(Binary::Add, num(n), op(Binary::Mul, num(a), num(m.clone()))), num(m))
            }
            _ => op(Binary::Sub, num(n + &a), num(a)),
        };
        e(ty, Kind::Known(calc))
    }

    fn pair(&mut self, op: Binary, result: &Ty, operand: &Ty, depth: usize) -> Expr {
        let a = self.expr(operand, depth);
        let b = self.implicit(operand, depth);
        e(result, Kind::Binary(op, Box::new(a), Box::new(b)))
    }

    fn boolean(&mut self, depth: usize) -> Expr {
        let ty = Ty::Bool;
        match self.r.below(9) {
            0 => {
                let a = self.expr(&ty, depth);
                e(&ty, Kind::Unary(Unary::Not, Box::new(a)))
            }
            1 => {
                let op = *self.r.choose(&[Binary::AndAnd, Binary::OrOr]);
                let (a, b) = (self.expr(&ty, depth), self.expr(&ty, depth));
                e(&ty, Kind::Binary(op, Box::new(a), Box::new(b)))
            }
            2 => {
                let headers = self.places(&|t| matches!(t, Ty::Header(_) | Ty::Union(_)), false);
                if headers.is_empty() {
                    return self.constant(&ty);
                }
                e(&ty, Kind::IsValid(self.r.choose(&headers).0.clone()))
            }
            3 => {
                let a = self.expr(&Ty::Bit(1), depth);
                e(&ty, Kind::Cast(Box::new(a)))
            }
            4 => {
                let op = *self.r.choose(&[Binary::Eq, Binary::Ne]);
                let aggregates = self.places(&|t| !t.is_scalar() && !matches!(t, Ty::Varbit(_)), false);
                let operand = match aggregates.is_empty() || self.r.one_in(4) {
                    true => self.any_type(),
                    false => self.r.choose(&aggregates).0.ty.clone(),
                };
                let (a, b) = (self.read(&operand), self.read(&operand));
                if matches!(a.kind, Kind::Bool(_)) && operand != Ty::Bool {
                    return self.constant(&ty);
                }
                e(&ty, Kind::Binary(op, Box::new(a), Box::new(b)))
            }
            5 if self.can_apply_tables() && self.r.one_in(2) => {
                let t = self.r.below(self.control.tables.len());
                let hit = self.r.one_in(2);
                e(&ty, Kind::Hit(t, hit))
            }
            _ => {
                let op =
                    *self.r.choose(&[Binary::Eq, Binary::Ne, Binary::Lt, Binary::Le, Binary::Gt, Binary::Ge]);
                let operand = self.number_type();
                self.pair(op, &ty, &operand, depth)
            }
        }
    }

    pub(super) fn can_apply_tables(&self) -> bool {
        matches!(self.place, Where::Inner | Where::Ingress | Where::Egress)
            && !self.in_action
            && !self.control.tables.is_empty()
    }

    fn numeric(&mut self, ty: &Ty, depth: usize) -> Expr {
        let w = self.p.width(ty);
        let signed = matches!(ty, Ty::Int(_));
        match self.r.below(14) {
            0 => {
                let op = *self.r.choose(&[Unary::Neg, Unary::Plus, Unary::BitNot]);
                let a = self.expr(ty, depth);
                e(ty, Kind::Unary(op, Box::new(a)))
            }
            1 | 2 => {
                let op = *self.r.choose(&[Binary::Shl, Binary::Shr]);
                let a = self.expr(ty, depth);
                let b = if self.r.one_in(2) {
                    let by = *self.r.choose(&[0, 1, w - 1, w, w + 1, 7]);
                    e(&Ty::Bit(32), Kind::Untyped(BigInt::from(by)))
                } else {
                    let width = *self.r.choose(&self.widths);
                    self.expr(&Ty::Bit(width), depth)
                };
                e(ty, Kind::Binary(op, Box::new(a), Box::new(b)))
            }
            3 if w >= 4 => {
                // The left part decides the sign.
                let left = 2 + self.r.below(w as usize - 3) as u32;
                let right = w - left;
                let a = if signed { Ty::Int(left) } else { Ty::Bit(left) };
                let b = if self.r.one_in(2) && right > 1 { Ty::Int(right) } else { Ty::Bit(right) };
                let (a, b) = (self.convertible(&a, depth), self.convertible(&b, depth));
                e(ty, Kind::Binary(Binary::Concat, Box::new(a), Box::new(b)))
            }
            4 | 5 if !signed => {
                let from = self.any_number();
                let have = self.p.width(&from.ty);
                if have < w {
                    return self.converted(from, ty);
                }
                let lo = self.r.below((have - w) as usize + 1) as u32;
                e(ty, Kind::Slice(Box::new(from), lo + w - 1, lo))
            }
            6 | 7 => {
                let from = self.any_number();
                self.converted(from, ty)
            }
            8 if w == 1 && !signed => {
                let a = self.expr(&Ty::Bool, depth);
                e(ty, Kind::Cast(Box::new(a)))
            }
            9 if self.p.sers.iter().any(|s| s.repr == *ty) => {
                let i = self.p.sers.iter().position(|s| s.repr == *ty).unwrap_or(0);
                let a = self.expr(&Ty::Ser(i), depth);
                e(ty, Kind::Cast(Box::new(a)))
            }
            10 if self.place == Where::Parser && self.r.one_in(2) => e(ty, Kind::Lookahead),
            _ => {
                use Binary::{Add, And, Mul, Or, SatAdd, SatSub, Sub, Xor};
                let op = *self.r.choose(&[Add, Sub, Mul, SatAdd, SatSub, And, Or, Xor]);
                self.pair(op, ty, ty, depth)
            }
        }
    }

    /// Of a type that nothing else has: made from something else.
    fn convertible(&mut self, ty: &Ty, depth: usize) -> Expr {
        let from = if self.r.one_in(3) {
            let other = self.number_type();
            self.expr(&other, depth)
        } else {
            self.any_number()
        };
        self.converted(from, ty)
    }

    /// A call of a function that returns `ty`.
    fn function_call(&mut self, ty: &Ty, depth: usize) -> Option<Expr> {
        let fits: Vec<usize> = (0..self.p.functions.len())
            .filter(|f| self.p.functions[*f].returns.as_ref() == Some(ty))
            .collect();
        if fits.is_empty() {
            return None;
        }
        let f = *self.r.choose(&fits);
        let params = self.p.functions[f].params.clone();
        let args = self.arguments(&params, depth.min(1))?;
        Some(e(ty, Kind::Call(f, args)))
    }

    /// Arguments for parameters; `None` without a place to write to.
    pub(super) fn arguments(&mut self, params: &[(Dir, VarId)], depth: usize) -> Option<Vec<Arg>> {
        let mut args = Vec::new();
        for (dir, v) in params {
            let ty = self.p.vars[*v].clone();
            args.push(match dir {
                Dir::In | Dir::None => {
                    if !self.has_constants(&ty) && self.places(&|t| *t == ty, false).is_empty() {
                        return None;
                    }
                    Arg::In(self.expr(&ty, depth))
                }
                Dir::Out | Dir::InOut => {
                    let mut fits = self.places(&|t| *t == ty, true);
                    if let (Ty::Bit(w), true) = (&ty, self.r.one_in(4)) {
                        let w = *w;
                        let numbers = self.places(&|t| matches!(t, Ty::Bit(n) | Ty::Int(n) if *n > w), true);
                        for (p, h) in numbers {
                            let lo = self.r.below((self.p.width(&p.ty) - w) as usize + 1) as u32;
                            fits.push((p.step(Step::Slice(lo + w - 1, lo), &ty), h));
                        }
                    }
                    if *dir == Dir::InOut {
                        fits.retain(|(_, h)| {
                            h.as_ref().is_none_or(|h| self.valid.contains(&format!("{h:?}")))
                        });
                    }
                    if fits.is_empty() {
                        return None;
                    }
                    Arg::Out(self.r.choose(&fits).0.clone())
                }
            });
        }
        Some(args)
    }
}
