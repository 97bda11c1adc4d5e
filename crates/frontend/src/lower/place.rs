//! Places: variables and the way into them.

use super::Lower;
use crate::check::eval::Const;
use crate::check::tree::{Expr, ExprKind};
use pointsman_ir::{self as ir, LValue, Proj, VarRef};

/// More statements than this, all instances together, are refused.
const MAX_STATEMENTS: u32 = 2_000_000;

impl Lower<'_> {
    /// Whether `e` is a variable or a part of one.
    pub fn is_place(&self, e: &Expr) -> bool {
        match &e.kind {
            ExprKind::Var(v) => self.body.map.contains_key(v) || self.body.outer.contains_key(v),
            ExprKind::Field(b, _)
            | ExprKind::Index(b, _)
            | ExprKind::Next(b)
            | ExprKind::Last(b)
            | ExprKind::Slice(b, ..) => self.is_place(b),
            _ => false,
        }
    }

    /// The place that `e` names. `save`: indices are kept as they are now, whatever happens until the place is used.
    pub fn place(&mut self, e: &Expr, save: bool) -> Option<LValue> {
        let ty = self.ty(e.ty);
        match &e.kind {
            ExprKind::Var(v) => {
                let root = match (self.body.map.get(v), self.body.outer.get(v)) {
                    (Some(i), _) => VarRef::Local(*i),
                    (None, Some(i)) => VarRef::Outer(*i),
                    (None, None) => return None,
                };
                Some(LValue::var(root, ty))
            }
            ExprKind::Field(b, i) => self.step(b, Proj::Field(*i), ty, save),
            ExprKind::Next(b) => self.step(b, Proj::Next, ty, save),
            ExprKind::Last(b) => self.step(b, Proj::Last, ty, save),
            ExprKind::Index(b, i) => {
                let mut lv = self.place(b, save)?;
                let index = self.expr(i);
                let index = if save || i.has_effects() { self.keep(index) } else { index };
                lv.path.push(Proj::Index(index));
                lv.ty = ty;
                Some(lv)
            }
            ExprKind::Slice(b, hi, lo) => {
                let mut lv = self.place(b, save)?;
                // A slice of a slice is a slice.
                let (hi, lo) = match lv.path.last() {
                    Some(Proj::Slice { lo: inner, .. }) => {
                        let inner = *inner;
                        lv.path.pop();
                        (hi + inner, lo + inner)
                    }
                    _ => (*hi, *lo),
                };
                lv.path.push(Proj::Slice { hi, lo });
                lv.ty = ty;
                Some(lv)
            }
            _ => None,
        }
    }

    fn step(&mut self, base: &Expr, step: Proj, ty: ir::TypeId, save: bool) -> Option<LValue> {
        let mut lv = self.place(base, save)?;
        lv.path.push(step);
        lv.ty = ty;
        Some(lv)
    }

    /// The value of `e`, safe from later statements' changes of variables.
    pub fn keep(&mut self, e: ir::Expr) -> ir::Expr {
        if matches!(e.kind, ir::ExprKind::Const(_)) {
            return e;
        }
        let (ty, span) = (e.ty, e.span);
        let temp = self.temp(ty);
        self.push(ir::StmtKind::Assign(temp.clone(), e), span);
        ir::Expr { kind: ir::ExprKind::Read(temp), ty, span }
    }

    /// A place that holds the value of `e`: its own if it has one, else a temporary.
    pub fn place_of(&mut self, e: &Expr) -> LValue {
        if self.is_place(e)
            && let Some(lv) = self.place(e, false)
        {
            return lv;
        }
        let value = self.expr(e);
        let (ty, span) = (value.ty, value.span);
        let temp = self.temp(ty);
        self.push(ir::StmtKind::Assign(temp.clone(), value), span);
        temp
    }

    /// Whether that was reported.
    pub fn too_much_code(&self) -> bool {
        self.statements >= MAX_STATEMENTS
    }

    /// Adds a statement.
    pub fn push(&mut self, kind: ir::StmtKind, span: ir::Span) {
        self.statements += 1;
        if self.statements == MAX_STATEMENTS {
            let message = format!("the program expands to more than {MAX_STATEMENTS} statements");
            self.error("P0510", span, message, "use fewer instances of large blocks");
        }
        if self.statements < MAX_STATEMENTS {
            self.body.out.push(ir::Stmt { kind, span });
        }
    }

    /// The boolean constant.
    pub fn bool_expr(&mut self, value: bool, span: ir::Span) -> ir::Expr {
        let ty = self.bool_type();
        ir::Expr { kind: ir::ExprKind::Const(ir::Value::Bool(value)), ty, span }
    }

    /// A constant.
    pub fn const_expr(&mut self, c: &Const, e: &Expr) -> ir::Expr {
        let ty = self.ty(e.ty);
        let value = match self.const_value(c, e.ty, e.span) {
            Some(v) => v,
            None => self.default_value(ty),
        };
        ir::Expr { kind: ir::ExprKind::Const(value), ty, span: e.span }
    }
}
