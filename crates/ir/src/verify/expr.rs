//! Expressions and places.

use super::code::{Code, Kind};
use super::{same, types};
use crate::program::Direction;
use crate::stmt::{BinaryOp, Expr, ExprKind, LValue, Proj, UnaryOp, VarRef};
use crate::types::{Type, TypeId};
use std::borrow::Cow;

/// The use of a place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Read,
    Write,
}

/// What an expression is, for errors.
fn what(kind: &ExprKind) -> Cow<'static, str> {
    match kind {
        ExprKind::Const(_) => "constant".into(),
        ExprKind::Read(_) => "reading a place".into(),
        ExprKind::Unary(..) => "unary operator".into(),
        ExprKind::Binary(op, ..) => format!("operator {op:?}").into(),
        ExprKind::Mux(..) => "conditional expression".into(),
        ExprKind::Cast(_) => "cast".into(),
        ExprKind::Slice(..) => "slice".into(),
        ExprKind::Field(..) => "field".into(),
        ExprKind::Aggregate(_) => "aggregate".into(),
        ExprKind::Invalid => "{#}".into(),
        ExprKind::IsValid(_) => "isValid".into(),
        ExprKind::LastIndex(_) => "lastIndex".into(),
    }
}

impl Code<'_, '_> {
    /// Checks `e`; true if it is right, so that its type can be relied on.
    pub(super) fn expr(&mut self, e: &Expr) -> bool {
        let before = self.errors();
        self.deeper(|this| match this.known.why_not_value(e.ty) {
            Some(why) => this.error(format!("expression: {why}")),
            None => this.expr_kind(e),
        });
        self.errors() == before
    }

    /// `e` is right and of type `ty` (in words: `what`).
    pub(super) fn expr_of(&mut self, e: &Expr, ty: TypeId, what: &str) {
        if self.expr(e) && !same(self.types(), e.ty, ty) {
            let (is, should) = (self.name(e.ty), self.name(ty));
            self.error(format!("{what} is {is} instead of {should}"));
        }
    }

    /// `e` is right and its type is as `right` says.
    pub(super) fn expr_that(&mut self, e: &Expr, right: impl Fn(&Type) -> bool, what: &str) {
        if self.expr(e) && !right(self.types().repr_type(e.ty)) {
            let is = self.name(e.ty);
            self.error(format!("{what} cannot be {is}"));
        }
    }

    fn expr_kind(&mut self, e: &Expr) {
        let types = self.types();
        let ty = types.repr_type(e.ty);
        // The rule of this kind of expression, once its operands are known to be right.
        let right = match &e.kind {
            ExprKind::Const(v) => types::fits(types, self.program().errors.len(), e.ty, v),
            ExprKind::Read(lv) => !self.place(lv, Use::Read) || same(types, lv.ty, e.ty),
            ExprKind::Unary(op, a) => {
                !self.expr(a)
                    || same(types, a.ty, e.ty)
                        && match op {
                            UnaryOp::Not => matches!(ty, Type::Bool),
                            UnaryOp::BitNot | UnaryOp::Neg => number(ty),
                        }
            }
            ExprKind::Binary(op, a, b) => {
                !(self.expr(a) & self.expr(b)) || self.binary(*op, a.ty, b.ty, e.ty)
            }
            ExprKind::Mux(c, a, b) => {
                !(self.expr(c) & self.expr(a) & self.expr(b))
                    || matches!(types.repr_type(c.ty), Type::Bool)
                        && same(types, a.ty, e.ty)
                        && same(types, b.ty, e.ty)
            }
            ExprKind::Cast(a) => {
                !self.expr(a)
                    || same(types, a.ty, e.ty)
                    || match (types.repr_type(a.ty), ty) {
                        (Type::Bool, Type::Bit(w)) | (Type::Bit(w), Type::Bool) => *w == 1,
                        (from, to) => number(from) && number(to),
                    }
            }
            ExprKind::Slice(a, hi, lo) => !self.expr(a) || self.slice(a.ty, *hi, *lo, e.ty),
            ExprKind::Field(a, i) => {
                !self.expr(a) || self.field(a.ty, *i).is_some_and(|f| same(types, f, e.ty))
            }
            ExprKind::Aggregate(parts) => {
                let right = parts.iter().fold(true, |right, p| self.expr(p) & right);
                let tys: Option<Vec<TypeId>> = match ty {
                    Type::Struct(d) | Type::Header(d) => Some(d.fields.iter().map(|f| f.ty).collect()),
                    Type::Tuple(t) => Some(t.clone()),
                    Type::Stack { elem, size } => Some(vec![*elem; *size as usize]),
                    _ => None,
                };
                !right
                    || tys.is_some_and(|tys| {
                        tys.len() == parts.len() && tys.iter().zip(parts).all(|(t, p)| same(types, *t, p.ty))
                    })
            }
            ExprKind::Invalid => matches!(ty, Type::Header(_) | Type::HeaderUnion(_)),
            ExprKind::IsValid(lv) => {
                let header = |t: &Type| matches!(t, Type::Header(_) | Type::HeaderUnion(_));
                !self.place(lv, Use::Read) || header(types.repr_type(lv.ty)) && matches!(ty, Type::Bool)
            }
            ExprKind::LastIndex(lv) => {
                if self.kind != Kind::Parser {
                    self.error("lastIndex outside of a parser");
                }
                !self.place(lv, Use::Read)
                    || types::is_header_stack(types, types.repr_type(lv.ty)) && matches!(ty, Type::Bit(32))
            }
        };
        if !right {
            let (what, name) = (what(&e.kind), self.name(e.ty));
            self.error(format!("{what} of type {name} does not fit its operands"));
        }
    }

    fn binary(&self, op: BinaryOp, a: TypeId, b: TypeId, result: TypeId) -> bool {
        let types = self.types();
        let (ta, tb, tr) = (types.repr_type(a), types.repr_type(b), types.repr_type(result));
        let bool_result = matches!(tr, Type::Bool);
        match op {
            BinaryOp::Div | BinaryOp::Mod => {
                same(types, a, b) && same(types, a, result) && matches!(ta, Type::Bit(_))
            }
            BinaryOp::Add
            | BinaryOp::Sub
            | BinaryOp::Mul
            | BinaryOp::SatAdd
            | BinaryOp::SatSub
            | BinaryOp::BitAnd
            | BinaryOp::BitOr
            | BinaryOp::BitXor => same(types, a, b) && same(types, a, result) && number(ta),
            BinaryOp::Shl | BinaryOp::Shr => {
                number(ta) && matches!(tb, Type::Bit(_)) && same(types, a, result)
            }
            BinaryOp::Concat => match (ta, tb, tr) {
                (Type::Bit(x), Type::Bit(y) | Type::Int(y), Type::Bit(z))
                | (Type::Int(x), Type::Bit(y) | Type::Int(y), Type::Int(z)) => x + y == *z,
                _ => false,
            },
            BinaryOp::Eq | BinaryOp::Ne => same(types, a, b) && bool_result,
            BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => {
                same(types, a, b) && number(ta) && bool_result
            }
            BinaryOp::And | BinaryOp::Or => matches!((ta, tb), (Type::Bool, Type::Bool)) && bool_result,
        }
    }

    /// Bits `hi..=lo` of a number of type `of` are a `result`.
    fn slice(&self, of: TypeId, hi: u32, lo: u32, result: TypeId) -> bool {
        match (self.types().repr_type(of), self.types().repr_type(result)) {
            (Type::Bit(w) | Type::Int(w), Type::Bit(r)) => lo <= hi && hi < *w && hi - lo + 1 == *r,
            _ => false,
        }
    }

    /// Type of field `i` of a struct, header, header union or tuple.
    fn field(&self, of: TypeId, i: u32) -> Option<TypeId> {
        match self.types().repr_type(of) {
            Type::Struct(d) | Type::Header(d) | Type::HeaderUnion(d) => {
                d.fields.get(i as usize).map(|f| f.ty)
            }
            Type::Tuple(t) => t.get(i as usize).copied(),
            _ => None,
        }
    }

    /// Checks a place; true if it is right, so that its type can be relied on.
    pub(super) fn place(&mut self, lv: &LValue, usage: Use) -> bool {
        let before = self.errors();
        self.deeper(|this| this.place_path(lv, usage));
        self.errors() == before
    }

    fn place_path(&mut self, lv: &LValue, usage: Use) {
        if let Some(why) = self.known.why_not_value(lv.ty) {
            return self.error(format!("place: {why}"));
        }
        let (frame, i) = match lv.root {
            VarRef::Local(i) => (Some(self.local), i as usize),
            VarRef::Outer(i) => (self.outer, i as usize),
        };
        let Some(var) = frame.and_then(|f| f.vars.get(i)) else {
            return self.error(format!("there is no variable {:?}", lv.root));
        };
        let param = frame.and_then(|f| f.params.get(i));
        if let (Use::Write, Some(param)) = (usage, param)
            && matches!(param.direction, Direction::In | Direction::None)
        {
            return self.error(format!("the parameter {} cannot be written", param.name));
        }
        let mut ty = var.ty;
        for (n, step) in lv.path.iter().enumerate() {
            let next = match (step, self.types().repr_type(ty)) {
                (Proj::Field(i), _) => self.field(ty, *i),
                (Proj::Index(e), Type::Stack { elem, .. }) => {
                    self.expr_that(e, number, "a stack index");
                    Some(*elem)
                }
                (Proj::Next | Proj::Last, stack @ Type::Stack { elem, .. })
                    if types::is_header_stack(self.types(), stack) =>
                {
                    if self.kind != Kind::Parser {
                        self.error("next or last of a stack outside of a parser");
                    }
                    Some(*elem)
                }
                (Proj::Slice { hi, lo }, _) if n + 1 == lv.path.len() => {
                    self.slice(ty, *hi, *lo, lv.ty).then_some(lv.ty)
                }
                _ => None,
            };
            let Some(next) = next else {
                let name = self.name(ty);
                return self.error(format!("{name} has no {}", step_name(step)));
            };
            ty = next;
        }
        if !same(self.types(), ty, lv.ty) {
            let (is, says) = (self.name(ty), self.name(lv.ty));
            self.error(format!("the place is {is}, but says {says}"));
        }
    }
}

/// `bit<W>` or `int<W>`.
pub(super) fn number(ty: &Type) -> bool {
    matches!(ty, Type::Bit(_) | Type::Int(_))
}

fn step_name(step: &Proj) -> String {
    match step {
        Proj::Field(i) => format!("field {i}"),
        Proj::Index(_) => "elements".into(),
        Proj::Next => "next".into(),
        Proj::Last => "last".into(),
        Proj::Slice { hi, lo } => format!("slice [{hi}:{lo}] here"),
    }
}
