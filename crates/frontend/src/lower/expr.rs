//! Expressions: those with effects become statements before them, in the order of P4_16 section 8.1.

use super::Lower;
use crate::check::eval::Const;
use crate::check::tree::{BinaryOp, Expr, ExprKind, UnaryOp, VarKind};
use crate::check::types::{Kind, Ty};
use pointsman_ir::{self as ir, Span, Stmt};

impl Lower<'_> {
    /// The statements that `f` adds.
    pub fn nested(&mut self, f: impl FnOnce(&mut Self)) -> Vec<Stmt> {
        let outer = std::mem::take(&mut self.body.out);
        f(self);
        std::mem::replace(&mut self.body.out, outer)
    }

    /// Whether the value depends on a constructor parameter.
    fn uses_ctor(&self, e: &Expr) -> bool {
        let mut found = match &e.kind {
            ExprKind::Var(v) => self.tree.vars[v.0].kind == VarKind::Ctor || self.env.ctor.contains_key(v),
            _ => false,
        };
        e.each_child(&mut |c| found = found || self.uses_ctor(c));
        found
    }

    /// An expression.
    pub fn expr(&mut self, e: &Expr) -> ir::Expr {
        if let ExprKind::Const(c) = &e.kind {
            return self.const_expr(c, e);
        }
        if !self.env.ctor.is_empty() && self.uses_ctor(e) {
            match self.eval(e) {
                Ok(c) => return self.const_expr(&c, e),
                Err(crate::check::eval::Stop::Bad(d)) => self.report(*d),
                Err(crate::check::eval::Stop::NotConstant(_)) => {}
            }
        }
        let ty = self.ty(e.ty);
        let kind = self.kind(e, ty);
        ir::Expr { kind, ty, span: e.span }
    }

    fn kind(&mut self, e: &Expr, ty: ir::TypeId) -> ir::ExprKind {
        let span = e.span;
        match &e.kind {
            ExprKind::Var(_) | ExprKind::Next(_) | ExprKind::Last(_) => self.read(e, ty),
            ExprKind::Field(b, i) => {
                if self.is_place(e) {
                    return self.read(e, ty);
                }
                self.field(b, *i, ty)
            }
            ExprKind::Index(b, i) => {
                if self.is_place(b) {
                    return self.read(e, ty);
                }
                let mut lv = self.place_of(b);
                let index = self.expr(i);
                lv.path.push(ir::Proj::Index(index));
                lv.ty = ty;
                ir::ExprKind::Read(lv)
            }
            ExprKind::LastIndex(b) => ir::ExprKind::LastIndex(self.place_of(b)),
            ExprKind::IsValid(b) => ir::ExprKind::IsValid(self.place_of(b)),
            ExprKind::Slice(b, hi, lo) => {
                if self.is_place(e) {
                    return self.read(e, ty);
                }
                ir::ExprKind::Slice(Box::new(self.expr(b)), *hi, *lo)
            }
            ExprKind::Unary(op, a) => {
                let a = Box::new(self.expr(a));
                match op {
                    UnaryOp::Not => ir::ExprKind::Unary(ir::UnaryOp::Not, a),
                    UnaryOp::BitNot => ir::ExprKind::Unary(ir::UnaryOp::BitNot, a),
                    UnaryOp::Neg => ir::ExprKind::Unary(ir::UnaryOp::Neg, a),
                    UnaryOp::Plus => a.kind,
                }
            }
            ExprKind::Binary(BinaryOp::And | BinaryOp::Or, _, b) if b.has_effects() => {
                self.short_circuit(e, ty)
            }
            ExprKind::Binary(op, a, b) => self.binary(*op, a, b, ty),
            ExprKind::Mux(c, a, b) => self.mux(c, a, b, ty, span),
            ExprKind::Cast(a) => {
                let a = self.expr(a);
                if a.ty == ty { a.kind } else { ir::ExprKind::Cast(Box::new(a)) }
            }
            ExprKind::Aggregate(parts) => self.aggregate(e, parts, ty),
            ExprKind::Invalid => ir::ExprKind::Invalid,
            ExprKind::Default => ir::ExprKind::Const(self.default_value(ty)),
            ExprKind::Call(call) => match self.call(call, e.ty, span) {
                Some(v) => v.kind,
                None => ir::ExprKind::Const(self.default_value(ty)),
            },
            ExprKind::Hit { table, negate } => self.hit(*table, *negate, ty, span),
            ExprKind::Target => match self.body.target.clone() {
                Some(lv) => ir::ExprKind::Read(lv),
                None => ir::ExprKind::Const(self.default_value(ty)),
            },
            // Constants were seen to above; the others have no value and were reported by the check.
            ExprKind::Const(_)
            | ExprKind::Error
            | ExprKind::Instance(_)
            | ExprKind::New(_)
            | ExprKind::Apply(_) => {
                let help = "use a value here";
                self.unsupported(span, "an object in this place", help);
                ir::ExprKind::Const(self.default_value(ty))
            }
        }
    }

    /// A field of a value.
    fn field(&mut self, of: &Expr, i: u32, ty: ir::TypeId) -> ir::ExprKind {
        let of = self.expr(of);
        // A field of `{...}` is its expression.
        if let ir::ExprKind::Aggregate(mut parts) = of.kind {
            if (i as usize) < parts.len() {
                return parts.swap_remove(i as usize).kind;
            }
            return ir::ExprKind::Const(self.default_value(ty));
        }
        ir::ExprKind::Field(Box::new(of), i)
    }

    fn binary(&mut self, op: BinaryOp, a: &Expr, b: &Expr, ty: ir::TypeId) -> ir::ExprKind {
        if matches!(op, BinaryOp::Shl | BinaryOp::Shr) {
            self.check_shift(b);
        }
        let mut parts = self.operands(&[a, b]).into_iter();
        match (parts.next(), parts.next()) {
            (Some(_), Some(b)) if matches!(op, BinaryOp::Div | BinaryOp::Mod) && is_zero(&b) => {
                self.error("P0503", b.span, "division by zero", "divide by something else");
                ir::ExprKind::Const(self.default_value(ty))
            }
            (Some(a), Some(b)) => ir::ExprKind::Binary(binary_op(op), Box::new(a), Box::new(b)),
            _ => ir::ExprKind::Const(self.default_value(ty)),
        }
    }

    fn mux(&mut self, c: &Expr, a: &Expr, b: &Expr, ty: ir::TypeId, span: Span) -> ir::ExprKind {
        if !a.has_effects() && !b.has_effects() {
            let c = Box::new(self.expr(c));
            let a = Box::new(self.expr(a));
            let b = Box::new(self.expr(b));
            return ir::ExprKind::Mux(c, a, b);
        }
        let c = self.expr(c);
        let temp = self.temp(ty);
        let mut branch = |e: &Expr| {
            self.nested(|l| {
                let v = l.expr(e);
                l.push(ir::StmtKind::Assign(temp.clone(), v), e.span);
            })
        };
        let (yes, no) = (branch(a), branch(b));
        self.push(ir::StmtKind::If(c, yes, no), span);
        ir::ExprKind::Read(temp)
    }

    fn hit(&mut self, table: usize, negate: bool, ty: ir::TypeId, span: Span) -> ir::ExprKind {
        let bool_ty = self.bool_type();
        let hit = self.temp(bool_ty);
        self.apply(table, Some(hit.clone()), None, span);
        let read = ir::ExprKind::Read(hit);
        if negate {
            ir::ExprKind::Unary(ir::UnaryOp::Not, Box::new(ir::Expr { kind: read, ty, span }))
        } else {
            read
        }
    }

    fn read(&mut self, e: &Expr, ty: ir::TypeId) -> ir::ExprKind {
        match self.place(e, false) {
            Some(lv) => ir::ExprKind::Read(lv),
            None => {
                self.unsupported(e.span, "this value in this place", "store it in a variable first");
                ir::ExprKind::Const(self.default_value(ty))
            }
        }
    }

    /// Several expressions, evaluated from left to right: one that is followed by a call is kept in a temporary.
    pub fn operands(&mut self, es: &[&Expr]) -> Vec<ir::Expr> {
        let mut out = Vec::new();
        for (i, e) in es.iter().enumerate() {
            let v = self.expr(e);
            let later = es[i + 1..].iter().any(|l| l.has_effects());
            out.push(if later { self.keep(v) } else { v });
        }
        out
    }

    /// An amount of type `int` that a constructor parameter makes negative.
    fn check_shift(&mut self, amount: &Expr) {
        let ExprKind::Cast(int) = &amount.kind else { return };
        if int.ty == Ty::INT
            && let Ok(Const::Int(i)) = self.eval(int)
            && i.sign() == num_bigint::Sign::Minus
        {
            let help = "shift the other way by a positive amount";
            self.error("P0503", amount.span, "shift by a negative amount", help);
        }
    }

    /// `a && b`, `a || b` where `b` calls something.
    fn short_circuit(&mut self, e: &Expr, ty: ir::TypeId) -> ir::ExprKind {
        let ExprKind::Binary(op, a, b) = &e.kind else { return ir::ExprKind::Const(self.default_value(ty)) };
        let a = self.expr(a);
        let temp = self.temp(ty);
        self.push(ir::StmtKind::Assign(temp.clone(), a), e.span);
        let right = self.nested(|l| {
            let v = l.expr(b);
            l.push(ir::StmtKind::Assign(temp.clone(), v), b.span);
        });
        let cond = ir::Expr { kind: ir::ExprKind::Read(temp.clone()), ty, span: e.span };
        let (yes, no) = if *op == BinaryOp::And { (right, Vec::new()) } else { (Vec::new(), right) };
        self.push(ir::StmtKind::If(cond, yes, no), e.span);
        ir::ExprKind::Read(temp)
    }

    fn aggregate(&mut self, e: &Expr, parts: &[(u32, Expr)], ty: ir::TypeId) -> ir::ExprKind {
        let concrete = self.concrete(e.ty);
        let tys: Vec<Ty> = match self.tree.tys.get(concrete).clone() {
            Kind::Tuple(ts) => ts,
            Kind::Struct(..) => {
                self.tree.fields(concrete).unwrap_or_default().into_iter().map(|(_, t)| t).collect()
            }
            Kind::Stack(t, n) => vec![t; n as usize],
            // A literal that is not converted to anything: its own parts.
            Kind::Record(fields, _) => fields.into_iter().map(|(_, t)| t).collect(),
            _ => {
                self.unsupported(e.span, "a list at run time", "use a struct or a tuple");
                return ir::ExprKind::Const(self.default_value(ty));
            }
        };
        let values = self.operands(&parts.iter().map(|(_, p)| p).collect::<Vec<_>>());
        let mut slots: Vec<Option<ir::Expr>> = vec![None; tys.len()];
        for ((i, _), v) in parts.iter().zip(values) {
            if let Some(slot) = slots.get_mut(*i as usize) {
                *slot = Some(v);
            }
        }
        let all = slots
            .into_iter()
            .zip(tys)
            .map(|(slot, t)| {
                slot.unwrap_or_else(|| {
                    let ty = self.ty(t);
                    ir::Expr { kind: ir::ExprKind::Const(self.default_value(ty)), ty, span: e.span }
                })
            })
            .collect();
        ir::ExprKind::Aggregate(all)
    }
}

fn is_zero(e: &ir::Expr) -> bool {
    matches!(&e.kind, ir::ExprKind::Const(ir::Value::Bits(b)) if b.is_zero())
}

/// The operator as the IR has it.
fn binary_op(op: BinaryOp) -> ir::BinaryOp {
    use ir::BinaryOp as I;
    match op {
        BinaryOp::Add => I::Add,
        BinaryOp::Sub => I::Sub,
        BinaryOp::Mul => I::Mul,
        BinaryOp::Div => I::Div,
        BinaryOp::Mod => I::Mod,
        BinaryOp::SatAdd => I::SatAdd,
        BinaryOp::SatSub => I::SatSub,
        BinaryOp::BitAnd => I::BitAnd,
        BinaryOp::BitOr => I::BitOr,
        BinaryOp::BitXor => I::BitXor,
        BinaryOp::Shl => I::Shl,
        BinaryOp::Shr => I::Shr,
        BinaryOp::Concat => I::Concat,
        BinaryOp::Eq => I::Eq,
        BinaryOp::Ne => I::Ne,
        BinaryOp::Lt => I::Lt,
        BinaryOp::Le => I::Le,
        BinaryOp::Gt => I::Gt,
        BinaryOp::Ge => I::Ge,
        BinaryOp::And => I::And,
        BinaryOp::Or => I::Or,
    }
}
