//! Slices whose low bit is known only at run time (P4_16 section 8.6): shifts and masks.

use super::Checker;
use super::eval::Const;
use super::tree::{Expr, ExprKind, Stmt, StmtKind, VarKind};
use super::types::Ty;
use crate::ast::{self, BinaryOp};
use pointsman_ir::{Bits, Span};

impl Checker<'_> {
    /// `base[lo+:width] = rhs`, or with `op` as a compound assignment. Bits beyond the base are left out.
    pub fn assign_moving_slice(
        &mut self,
        base: &ast::Expr,
        lo: Expr,
        width: &ast::Expr,
        op: Option<BinaryOp>,
        rhs: &ast::Expr,
        span: Span,
    ) -> Option<StmtKind> {
        let b = self.value(base);
        let w = self.value(width);
        let w = self.const_u32(&w, "the width of a slice")?;
        let lo = self.enum_to_repr(lo);
        if !self.check_lvalue(&b, "assigned to") {
            return None;
        }
        let (Some((whole, _)), Some((_, false))) = (self.tree.tys.bits(b.ty), self.tree.tys.bits(lo.ty))
        else {
            let help = "slice `bit<W>` or `int<W>`, from a low bit of type `bit<W>`";
            self.error("P0402", span, "this does not support slices with a variable bound", help);
            return None;
        };
        if w == 0 || w > 1 << 16 {
            self.error("P0411", span, format!("a slice of {w} bits is not possible"), "use a positive width");
            return None;
        }
        // The low bit is evaluated once, before the right side.
        let name = ast::Ident { name: "$low".into(), span: lo.span };
        let var = self.new_var(&name, lo.ty, VarKind::Local);
        let low = Expr { kind: ExprKind::Var(var), ty: lo.ty, span: lo.span };
        let unsigned = self.tree.tys.bit(whole);
        let part = self.tree.tys.bit(w);
        let target = Expr { kind: ExprKind::Target, ty: b.ty, span: b.span };
        let old = self.cast_to(target, unsigned);
        let value = self.value(rhs);
        let value = match op {
            None => value,
            Some(op) => {
                let shifted = self.binary(BinaryOp::Shr, old.clone(), low.clone(), span);
                let now = self.cast_to(shifted, part);
                self.binary(op, now, value, span)
            }
        };
        let value = self.coerce(value, part, "the assigned value");
        if value.ty == Ty::ERROR || matches!(value.kind, ExprKind::Error) {
            return None;
        }
        let ones = Expr::constant(Const::Bits(Bits::ones(w.min(whole)).zero_extend(whole)), unsigned, span);
        let mask = self.binary(BinaryOp::Shl, ones, low.clone(), span);
        let hole = self.unary(ast::UnaryOp::BitNot, mask.clone(), span);
        let kept = self.binary(BinaryOp::BitAnd, old, hole, span);
        let wide = self.cast_to(value, unsigned);
        let moved = self.binary(BinaryOp::Shl, wide, low, span);
        let moved = self.binary(BinaryOp::BitAnd, moved, mask, span);
        let all = self.binary(BinaryOp::BitOr, kept, moved, span);
        let all = self.cast_to(all, b.ty);
        let steps = [StmtKind::Declare(var, Some(lo)), StmtKind::Assign(b, all)];
        Some(StmtKind::Block(steps.into_iter().map(|kind| Stmt { kind, span }).collect()))
    }
}
