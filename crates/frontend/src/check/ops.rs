//! Operators and casts (P4_16 sections 8.3 to 8.11).

use super::Checker;
use super::eval::{self, Const};
use super::tree::{BinaryOp, Expr, ExprKind, UnaryOp};
use super::types::{Kind, Ty};
use crate::diag::Diagnostic;
use num_bigint::{BigInt, Sign};
use pointsman_ir::Span;

/// The operator as written.
pub fn symbol(op: BinaryOp) -> &'static str {
    use BinaryOp::*;
    match op {
        Add => "+",
        Sub => "-",
        Mul => "*",
        Div => "/",
        Mod => "%",
        SatAdd => "|+|",
        SatSub => "|-|",
        BitAnd => "&",
        BitOr => "|",
        BitXor => "^",
        Shl => "<<",
        Shr => ">>",
        Concat => "++",
        Eq => "==",
        Ne => "!=",
        Lt => "<",
        Le => "<=",
        Gt => ">",
        Ge => ">=",
        And => "&&",
        Or => "||",
    }
}

impl Checker<'_> {
    /// `op a`
    pub fn unary(&mut self, op: UnaryOp, a: Expr, span: Span) -> Expr {
        if a.ty == Ty::ERROR {
            return Expr::error(span);
        }
        let a = if op == UnaryOp::Not { a } else { self.enum_to_repr(a) };
        let fine = match op {
            UnaryOp::Not => a.ty == Ty::BOOL,
            UnaryOp::BitNot => self.tree.tys.bits(a.ty).is_some(),
            UnaryOp::Neg | UnaryOp::Plus => a.ty == Ty::INT || self.tree.tys.bits(a.ty).is_some(),
        };
        if !fine {
            let sign = match op {
                UnaryOp::Not => "!",
                UnaryOp::BitNot => "~",
                UnaryOp::Neg => "-",
                UnaryOp::Plus => "+",
            };
            let help = match op {
                UnaryOp::Not => "compare with `== 0` instead",
                UnaryOp::BitNot if a.ty == Ty::INT => "give the number a width, as in `8w1`",
                UnaryOp::BitNot if a.ty == Ty::BOOL => "use `!`",
                _ => "cast the operand to `bit<W>` or `int<W>`",
            };
            let message = format!("`{sign}` is not defined for `{}`", self.show(a.ty));
            self.error("P0402", span, message, help);
            return Expr::error(span);
        }
        if op == UnaryOp::Plus {
            return Expr { span, ..a };
        }
        let ty = a.ty;
        self.fold(Expr { kind: ExprKind::Unary(op, Box::new(a)), ty, span })
    }

    /// `a op b`
    pub fn binary(&mut self, op: BinaryOp, a: Expr, b: Expr, span: Span) -> Expr {
        use BinaryOp::*;
        if a.ty == Ty::ERROR || b.ty == Ty::ERROR {
            let ty = if matches!(op, Eq | Ne | Lt | Le | Gt | Ge | And | Or) { Ty::BOOL } else { Ty::ERROR };
            return Expr { kind: ExprKind::Error, ty, span };
        }
        let equality = matches!(op, Eq | Ne);
        if [a.ty, b.ty].contains(&Ty::DOTS) || (!equality && [a.ty, b.ty].contains(&Ty::INVALID)) {
            return self.undefined(op, &a, &b, span);
        }
        match op {
            And | Or => {
                let what = format!("an operand of `{}`", symbol(op));
                let a = self.coerce(a, Ty::BOOL, &what);
                let b = self.coerce(b, Ty::BOOL, &what);
                self.node(op, a, b, Ty::BOOL, span)
            }
            Eq | Ne => self.equality(op, a, b, span),
            Shl | Shr => self.shift(op, a, b, span),
            Concat => self.concat(a, b, span),
            _ => self.arithmetic(op, a, b, span),
        }
    }

    fn node(&mut self, op: BinaryOp, a: Expr, b: Expr, ty: Ty, span: Span) -> Expr {
        self.fold(Expr { kind: ExprKind::Binary(op, Box::new(a), Box::new(b)), ty, span })
    }

    fn undefined(&mut self, op: BinaryOp, a: &Expr, b: &Expr, span: Span) -> Expr {
        let (x, y) = (self.show(a.ty), self.show(b.ty));
        let mut d =
            Diagnostic::error("P0402", span, format!("`{}` is not defined for `{x}` and `{y}`", symbol(op)))
                .related(a.span, format!("this is `{x}`"))
                .related(b.span, format!("this is `{y}`"));
        let bits = (self.tree.tys.bits(a.ty), self.tree.tys.bits(b.ty));
        d = match bits {
            (Some((v, s)), Some((w, t))) if v != w && s == t => {
                d.help(format!("make the widths equal with a cast: `({x})` or `({y})`"))
            }
            (Some((v, s)), Some((w, t))) if s != t && v == w => {
                d.help(format!("make the signs equal with a cast: `({x})` or `({y})`"))
            }
            (Some(_), Some(_)) => d.help("make widths and signs equal with separate casts"),
            _ if matches!(self.tree.tys.get(a.ty), Kind::New(_))
                || matches!(self.tree.tys.get(b.ty), Kind::New(_)) =>
            {
                d.help("a type declared by `type` has no arithmetic: cast to its base type first")
            }
            _ if a.ty == Ty::INT && b.ty == Ty::INT => d.help("give one of them a width, as in `8w5`"),
            _ => d.help("use operands of one numeric type"),
        };
        self.report(d);
        Expr::error(span)
    }

    /// Both operands as one type, if implicit casts can make them so.
    fn unify_numeric(&mut self, a: Expr, b: Expr) -> (Expr, Expr) {
        let (a, b) = if a.ty == b.ty { (a, b) } else { (self.enum_to_repr(a), self.enum_to_repr(b)) };
        match (self.tree.tys.bits(a.ty), self.tree.tys.bits(b.ty)) {
            (Some(_), None) if b.ty == Ty::INT => {
                let ty = a.ty;
                let b = self.cast_int(b, ty);
                (a, b)
            }
            (None, Some(_)) if a.ty == Ty::INT => {
                let ty = b.ty;
                let a = self.cast_int(a, ty);
                (a, b)
            }
            _ => (a, b),
        }
    }

    fn arithmetic(&mut self, op: BinaryOp, a: Expr, b: Expr, span: Span) -> Expr {
        use BinaryOp::*;
        let (a, b) = (self.enum_to_repr(a), self.enum_to_repr(b));
        if let (true, Some(_), ExprKind::Const(Const::Int(i))) =
            (matches!(op, Div | Mod), self.tree.tys.bits(a.ty), &b.kind)
            && i.sign() == Sign::Minus
        {
            let message = format!("`{}` is not defined for negative numbers", symbol(op));
            self.error("P0503", b.span, message, "divide by a positive number");
            return Expr::error(span);
        }
        let (a, b) = self.unify_numeric(a, b);
        let compare = matches!(op, Lt | Le | Gt | Ge);
        // The specification leaves out bitwise operators on `int`; p4c has them, and flags are written so.
        let int_ok = compare || !matches!(op, SatAdd | SatSub);
        let bits = self.tree.tys.bits(a.ty);
        if a.ty != b.ty || !(bits.is_some() || (a.ty == Ty::INT && int_ok)) {
            return self.undefined(op, &a, &b, span);
        }
        if matches!(op, Div | Mod) && bits.is_some() {
            if bits.is_some_and(|(_, signed)| signed) {
                let message = format!("`{}` is not defined for signed numbers", symbol(op));
                self.error("P0402", span, message, "cast to `bit<W>` first");
                return Expr::error(span);
            }
            // P4_16 section 8.6 has no division of `bit<W>`; by a constant it is multiplication and shifts.
            if !self.compile_time(&b) {
                let help = "divide by a constant, or shift right by a power of two";
                self.error("P0402", b.span, "division by a value known only at run time", help);
                return Expr::error(span);
            }
            if let ExprKind::Const(Const::Bits(d)) = &b.kind
                && d.is_zero()
            {
                self.error("P0503", b.span, "division by zero", "divide by something else");
                return Expr::error(span);
            }
        }
        let ty = if compare { Ty::BOOL } else { a.ty };
        self.node(op, a, b, ty, span)
    }

    fn equality(&mut self, op: BinaryOp, a: Expr, b: Expr, span: Span) -> Expr {
        let (a, b) = self.unify_numeric(a, b);
        let open = |c: &Self, t: Ty| {
            matches!(
                c.tree.tys.get(t),
                Kind::Tuple(_) | Kind::OpenTuple(_) | Kind::Record(..) | Kind::Invalid | Kind::Dots
            )
        };
        let (a, b) = if a.ty == b.ty {
            (a, b)
        } else if open(self, b.ty) && !(open(self, a.ty) && matches!(a.kind, ExprKind::Aggregate(_))) {
            let ty = a.ty;
            (a, self.coerce(b, ty, "the right side of a comparison"))
        } else if open(self, a.ty) {
            let ty = b.ty;
            (self.coerce(a, ty, "the left side of a comparison"), b)
        } else {
            (a, b)
        };
        if a.ty != b.ty {
            return self.undefined(op, &a, &b, span);
        }
        let open = matches!(
            self.tree.tys.get(a.ty),
            Kind::Param(_)
                | Kind::Record(..)
                | Kind::OpenTuple(_)
                | Kind::Invalid
                | Kind::Dots
                | Kind::List(_)
        );
        let comparable = !open && self.is_value_type(a.ty);
        if !comparable {
            return self.undefined(op, &a, &b, span);
        }
        self.node(op, a, b, Ty::BOOL, span)
    }

    fn shift(&mut self, op: BinaryOp, a: Expr, b: Expr, span: Span) -> Expr {
        let (a, b) = (self.enum_to_repr(a), self.enum_to_repr(b));
        let left_bits = self.tree.tys.bits(a.ty);
        if left_bits.is_none() && a.ty != Ty::INT {
            return self.undefined(op, &a, &b, span);
        }
        let b = match self.tree.tys.bits(b.ty) {
            Some((_, false)) => b,
            Some((_, true)) => {
                let known = match &b.kind {
                    ExprKind::Const(Const::Bits(v)) => Some(v.is_negative()),
                    _ => None,
                };
                match known {
                    Some(false) => {
                        let (width, _) = self.tree.tys.bits(b.ty).unwrap_or((8, true));
                        let ty = self.tree.tys.bit(width);
                        self.cast_to(b, ty)
                    }
                    Some(true) => {
                        self.error("P0503", b.span, "shift by a negative amount", "shift the other way");
                        return Expr::error(span);
                    }
                    _ => {
                        let message =
                            format!("a shift amount cannot be signed, but this is `{}`", self.show(b.ty));
                        self.error("P0402", b.span, message, "cast it to `bit<W>`");
                        return Expr::error(span);
                    }
                }
            }
            None if b.ty == Ty::INT => {
                if let ExprKind::Const(Const::Int(i)) = &b.kind {
                    if i.sign() == Sign::Minus {
                        let help = "shift the other way by a positive amount";
                        self.error("P0503", b.span, "shift by a negative amount", help);
                        return Expr::error(span);
                    }
                    if let Some((w, _)) = left_bits
                        && *i >= BigInt::from(w)
                        && w > 0
                    {
                        let message = format!("shifting `{}` by {i} loses every bit", self.show(a.ty));
                        self.report(Diagnostic::warning("P0502", span, message).help("shift by less"));
                    }
                    let width = (i.bits() as u32).max(8);
                    let ty = self.tree.tys.bit(width);
                    self.cast_to(b, ty)
                } else {
                    self.cast_to(b, Ty::BIT32)
                }
            }
            None => return self.undefined(op, &a, &b, span),
        };
        if a.ty == Ty::INT && !self.compile_time(&b) {
            self.error(
                "P0402",
                span,
                "an `int` can be shifted only by an amount known at compile time",
                "give the left operand a width, as in `32w1`",
            );
            return Expr::error(span);
        }
        let ty = a.ty;
        self.node(op, a, b, ty, span)
    }

    fn concat(&mut self, a: Expr, b: Expr, span: Span) -> Expr {
        if a.ty == Ty::STRING && b.ty == Ty::STRING {
            return self.node(BinaryOp::Concat, a, b, Ty::STRING, span);
        }
        let (a, b) = (self.enum_to_repr(a), self.enum_to_repr(b));
        for e in [&a, &b] {
            if e.ty == Ty::INT {
                let help = "give the number a width, as in `8w5`";
                self.error("P0414", e.span, "the width of this operand of `++` is not known", help);
                return Expr::error(span);
            }
        }
        match (self.tree.tys.bits(a.ty), self.tree.tys.bits(b.ty)) {
            (Some((v, signed)), Some((w, _))) => {
                let width = v.saturating_add(w);
                if width > 1 << 16 {
                    self.error(
                        "P0506",
                        span,
                        format!("a result of {width} bits is too wide"),
                        "concatenate less",
                    );
                    return Expr::error(span);
                }
                let ty = self.tree.tys.intern(Kind::Bits { width, signed });
                self.node(BinaryOp::Concat, a, b, ty, span)
            }
            _ => self.undefined(BinaryOp::Concat, &a, &b, span),
        }
    }

    /// `c ? a : b`
    pub fn mux(&mut self, c: Expr, a: Expr, b: Expr, span: Span) -> Expr {
        let c = self.coerce(c, Ty::BOOL, "the condition");
        if a.ty == Ty::ERROR || b.ty == Ty::ERROR || c.ty == Ty::ERROR {
            return Expr::error(span);
        }
        let (a, b) = self.unify_numeric(a, b);
        let (a, b) = if a.ty == b.ty {
            (a, b)
        } else if matches!(a.kind, ExprKind::Aggregate(_)) || matches!(a.ty, Ty::INVALID | Ty::DOTS) {
            let ty = b.ty;
            (self.coerce(a, ty, "the second operand of `?:`"), b)
        } else {
            let ty = a.ty;
            (a, self.coerce(b, ty, "the third operand of `?:`"))
        };
        if a.ty == Ty::INT && !self.compile_time(&c) {
            self.error(
                "P0414",
                span,
                "the width of the result is not known: both alternatives are `int`",
                "give one of them a width, as in `8w5`",
            );
            return Expr::error(span);
        }
        if !self.is_value_type(a.ty) {
            let message = format!("`?:` is not defined for `{}`", self.show(a.ty));
            self.error("P0402", span, message, "use `if`");
            return Expr::error(span);
        }
        let ty = a.ty;
        self.fold(Expr { kind: ExprKind::Mux(Box::new(c), Box::new(a), Box::new(b)), ty, span })
    }

    /// `(to) e`
    pub fn explicit_cast(&mut self, e: Expr, to: Ty, span: Span) -> Expr {
        if e.ty == Ty::ERROR || to == Ty::ERROR {
            return Expr { kind: ExprKind::Error, ty: to, span };
        }
        if e.ty == to {
            if !self.is_value_type(to) || to == Ty::STRING {
                return self.bad_cast(&e, to, span);
            }
            return Expr { span, ..e };
        }
        let (from_kind, to_kind) = (self.tree.tys.get(e.ty).clone(), self.tree.tys.get(to).clone());
        if let (
            Kind::Tuple(_) | Kind::OpenTuple(_) | Kind::Record(..) | Kind::Invalid | Kind::Dots,
            Kind::Struct(..) | Kind::Stack(..) | Kind::List(_) | Kind::Tuple(_),
        ) = (&from_kind, &to_kind)
        {
            let e = self.coerce(e, to, "the operand of the cast");
            return Expr { span, ..e };
        }
        if !self.cast_allowed(&e, &from_kind, &to_kind) {
            return self.bad_cast(&e, to, span);
        }
        // Via the representations, one step each.
        let mut e = e;
        while let Kind::Enum(_) | Kind::New(_) = self.tree.tys.get(e.ty) {
            let next = match self.tree.tys.get(e.ty) {
                Kind::New(d) => self.tree.new_types[*d].base,
                _ => self.tree.repr(e.ty),
            };
            if next == e.ty || next == to {
                break;
            }
            e = self.cast_to(e, next);
        }
        let target = self.tree.repr(to);
        if e.ty != to && e.ty != target {
            e = if e.ty == Ty::INT && self.tree.tys.bits(target).is_some() {
                self.warn_lost(&e, target);
                self.cast_to(e, target)
            } else {
                self.cast_to(e, target)
            };
        }
        let e = self.cast_to(e, to);
        Expr { span, ..e }
    }

    fn warn_lost(&mut self, e: &Expr, to: Ty) {
        if let (ExprKind::Const(Const::Int(i)), Some((width, signed))) = (&e.kind, self.tree.tys.bits(to))
            && eval::truncate(i, width, signed).1
            && eval::truncate(i, width, !signed).1
        {
            let message = format!("{i} does not fit `{}`: its high bits are lost", self.show(to));
            self.report(
                Diagnostic::warning("P0502", e.span, message).help("use a smaller number or a wider type"),
            );
        }
    }

    fn bad_cast(&mut self, e: &Expr, to: Ty, span: Span) -> Expr {
        let (have, want) = (self.show(e.ty), self.show(to));
        let mut d = Diagnostic::error("P0407", span, format!("`{have}` cannot be cast to `{want}`"));
        d = match (self.tree.tys.bits(e.ty), self.tree.tys.bits(to)) {
            (Some((w, _)), Some((_, t))) => {
                let sign = if t { "int" } else { "bit" };
                d.help(format!("a cast cannot change both width and sign: write `({want})({sign}<{w}>)`"))
            }
            (None, Some(_)) if e.ty == Ty::BOOL => d.help("cast to `bit<1>` first"),
            (Some(_), None) if to == Ty::BOOL => d.help("compare instead: `... != 0`"),
            _ => d.help("see P4_16 section 8.11.1 for the valid casts"),
        };
        self.report(d);
        Expr { kind: ExprKind::Error, ty: to, span }
    }

    fn cast_allowed(&self, e: &Expr, from: &Kind, to: &Kind) -> bool {
        match (from, to) {
            (Kind::Bits { width: a, signed: s }, Kind::Bits { width: b, signed: t }) => s == t || a == b,
            (Kind::Bits { width: 1, signed: false }, Kind::Bool) => true,
            (Kind::Bool, Kind::Bits { width: 1, signed: false }) => true,
            (Kind::Int, Kind::Bool) => match &e.kind {
                ExprKind::Const(Const::Int(i)) => *i == BigInt::from(0) || *i == BigInt::from(1),
                _ => true,
            },
            (Kind::Int, Kind::Bits { .. }) => true,
            (Kind::Bits { .. }, Kind::Int) => self.compile_time(e),
            (Kind::Enum(d), _) => match self.tree.enums[*d].repr {
                Some(repr) => {
                    self.cast_allowed(e, self.tree.tys.get(repr), to) || self.tree.tys.get(repr) == to
                }
                None => false,
            },
            (_, Kind::Enum(d)) => match self.tree.enums[*d].repr {
                Some(repr) => {
                    let repr = self.tree.tys.get(repr);
                    from == repr || *from == Kind::Int
                }
                None => false,
            },
            (Kind::New(a), Kind::New(b)) => {
                let (base_a, base_b) = (self.tree.new_types[*a].base, self.tree.new_types[*b].base);
                let (base_a, base_b) = (self.tree.tys.get(base_a), self.tree.tys.get(base_b));
                base_a == to
                    || base_b == from
                    || (matches!(base_a, Kind::New(_)) && self.cast_allowed(e, base_a, to))
                    || (matches!(base_b, Kind::New(_)) && self.cast_allowed(e, from, base_b))
            }
            // Only to and from the original type, but through any number of new types.
            (Kind::New(d), _) => {
                let base = self.tree.tys.get(self.tree.new_types[*d].base);
                base == to || (matches!(base, Kind::New(_)) && self.cast_allowed(e, base, to))
            }
            (_, Kind::New(d)) => {
                let base = self.tree.tys.get(self.tree.new_types[*d].base);
                base == from
                    || (matches!((from, base), (Kind::Int, _) | (_, Kind::New(_)))
                        && self.cast_allowed(e, from, base))
            }
            (Kind::Bool, Kind::Bool) => true,
            _ => false,
        }
    }
}
