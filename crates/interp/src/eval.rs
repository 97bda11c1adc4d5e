//! Expressions. They have no side effects; in a parser `next` and `last` can fail.

use crate::place::Scope;
use crate::run::Stop;
use crate::values::{self, bits, equal, is_true, step};
use pointsman_ir::{
    BinaryOp, Bits, CoreErrors, Expr, ExprKind, LValue, Proj, Type, TypeId, Types, UnaryOp, Value,
};
use std::borrow::Cow;
use std::cmp::Ordering;

type Result<T> = std::result::Result<T, Stop>;

/// The context of evaluation besides the variables.
#[derive(Clone, Copy)]
pub(crate) struct Eval<'a> {
    pub(crate) types: &'a Types,
    pub(crate) errors: CoreErrors,
}

impl Eval<'_> {
    /// The value of `e`; borrowed if it is already stored, so that reading a place copies nothing.
    pub(crate) fn expr<'v>(self, scope: &'v Scope<'_>, e: &'v Expr) -> Result<Cow<'v, Value>> {
        Ok(Cow::Owned(match &e.kind {
            ExprKind::Const(v) => return Ok(Cow::Borrowed(v)),
            ExprKind::Read(lv) => {
                return match scope.peek(lv) {
                    Some(v) => Ok(Cow::Borrowed(v)),
                    None => self.read(scope, lv),
                };
            }
            ExprKind::Unary(UnaryOp::Not, _) | ExprKind::Binary(BinaryOp::And | BinaryOp::Or, ..) => {
                Value::Bool(self.condition(scope, e)?)
            }
            ExprKind::Unary(op, a) => unary(*op, &*self.expr(scope, a)?),
            ExprKind::Binary(op, a, b) => {
                self.operands(scope, a, b, |x, y| binary(*op, || self.signed(a.ty), x, y))?
            }
            ExprKind::Mux(c, a, b) => {
                return self.expr(scope, if self.condition(scope, c)? { a } else { b });
            }
            ExprKind::Cast(a) => {
                let v = self.expr(scope, a)?;
                self.cast(v, a.ty, e.ty)
            }
            ExprKind::Slice(a, hi, lo) => match bits(&*self.expr(scope, a)?) {
                Some(b) => Value::Bits(b.slice(*hi, *lo)),
                None => Value::Void,
            },
            ExprKind::Field(a, i) => match self.expr(scope, a)? {
                Cow::Borrowed(v) => match step(v, *i) {
                    Some(f) => return Ok(Cow::Borrowed(f)),
                    None => Value::Void,
                },
                Cow::Owned(mut v) => {
                    values::step_mut(&mut v, *i).map_or(Value::Void, |f| std::mem::replace(f, Value::Void))
                }
            },
            ExprKind::Aggregate(exprs) => {
                let mut parts = Vec::with_capacity(exprs.len());
                for e in exprs {
                    parts.push(self.owned(scope, e)?);
                }
                match self.types.repr_type(e.ty) {
                    Type::Header(_) => Value::Header { valid: true, fields: parts },
                    Type::Stack { .. } => Value::Stack { next: 0, elems: parts },
                    _ => Value::Struct(parts),
                }
            }
            ExprKind::Invalid => Value::default_of(self.types, e.ty),
            ExprKind::IsValid(_) => Value::Bool(self.condition(scope, e)?),
            ExprKind::LastIndex(lv) => match &*self.read(scope, lv)? {
                // Undefined for an empty stack (P4_16 section 8.18): all ones here.
                Value::Stack { next, .. } => Value::Bits(Bits::new(32, u128::from(next.wrapping_sub(1)))),
                _ => Value::Void,
            },
        }))
    }

    /// A `bool` expression.
    pub(crate) fn condition(self, scope: &Scope<'_>, e: &Expr) -> Result<bool> {
        match &e.kind {
            ExprKind::Unary(UnaryOp::Not, a) => Ok(!self.condition(scope, a)?),
            ExprKind::Binary(BinaryOp::And, a, b) => {
                Ok(self.condition(scope, a)? && self.condition(scope, b)?)
            }
            ExprKind::Binary(BinaryOp::Or, a, b) => {
                Ok(self.condition(scope, a)? || self.condition(scope, b)?)
            }
            ExprKind::Binary(op, a, b) => {
                let result = |x: &_, y: &_| relation(*op, || self.signed(a.ty), x, y);
                Ok(self.operands(scope, a, b, result)?.unwrap_or(false))
            }
            ExprKind::IsValid(lv) => match scope.peek(lv) {
                Some(v) => Ok(values::is_valid(v)),
                None => Ok(values::is_valid(&*self.read(scope, lv)?)),
            },
            _ => Ok(is_true(&*self.expr(scope, e)?)),
        }
    }

    /// The value of `e` if it is stored and found without evaluating anything.
    #[inline]
    pub(crate) fn peek<'v>(self, scope: &'v Scope<'_>, e: &'v Expr) -> Option<&'v Value> {
        match &e.kind {
            ExprKind::Const(v) => Some(v),
            ExprKind::Read(lv) => scope.peek(lv),
            _ => None,
        }
    }

    /// The value of `e`, copied.
    #[inline]
    pub(crate) fn owned(self, scope: &Scope<'_>, e: &Expr) -> Result<Value> {
        match self.peek(scope, e) {
            Some(v) => Ok(v.clone()),
            None => self.expr(scope, e).map(Cow::into_owned),
        }
    }

    /// `apply` to the values of two operands.
    #[inline]
    fn operands<R>(
        self,
        scope: &Scope<'_>,
        a: &Expr,
        b: &Expr,
        apply: impl FnOnce(&Value, &Value) -> R,
    ) -> Result<R> {
        Ok(match (self.peek(scope, a), self.peek(scope, b)) {
            (Some(x), Some(y)) => apply(x, y),
            (Some(x), None) => apply(x, &*self.expr(scope, b)?),
            (None, Some(y)) => apply(&*self.expr(scope, a)?, y),
            (None, None) => {
                let x = self.expr(scope, a)?;
                apply(&x, &*self.expr(scope, b)?)
            }
        })
    }

    /// A `bit<32>` expression that counts something.
    pub(crate) fn count(self, scope: &Scope<'_>, e: &Expr) -> Result<u32> {
        Ok(bits(&*self.expr(scope, e)?).map_or(0, |b| b.low_u64() as u32))
    }

    /// An index; `None` if it is not a valid index (negative or huge).
    pub(crate) fn index(self, scope: &Scope<'_>, e: &Expr) -> Result<Option<u32>> {
        let v = self.expr(scope, e)?;
        let Some(b) = bits(&v) else { return Ok(None) };
        if self.signed(e.ty) && b.is_negative() {
            return Ok(None);
        }
        Ok(u32::try_from(b.saturating_u64()).ok())
    }

    /// `nextIndex`, if the element exists.
    pub(crate) fn next_index(self, stack: &Value) -> Result<u32> {
        match stack {
            Value::Stack { next, elems } if (*next as usize) < elems.len() => Ok(*next),
            _ => Err(Stop::Reject(self.errors.stack_out_of_bounds)),
        }
    }

    /// Index of the element before `next`, if it exists.
    pub(crate) fn last_index(self, stack: &Value) -> Result<u32> {
        match stack {
            Value::Stack { next, elems } if *next >= 1 && *next as usize <= elems.len() => Ok(*next - 1),
            _ => Err(Stop::Reject(self.errors.stack_out_of_bounds)),
        }
    }

    /// The value of a place; the default value of its type where an index is out of range.
    pub(crate) fn read<'v>(self, scope: &'v Scope<'_>, lv: &'v LValue) -> Result<Cow<'v, Value>> {
        let nowhere = || Ok(Cow::Owned(Value::default_of(self.types, lv.ty)));
        let Some(mut value) = scope.var(lv.root) else { return nowhere() };
        for proj in &lv.path {
            let i = match proj {
                Proj::Field(i) => *i,
                Proj::Index(e) => match self.index(scope, e)? {
                    Some(i) => i,
                    None => return nowhere(),
                },
                Proj::Next => self.next_index(value)?,
                Proj::Last => self.last_index(value)?,
                Proj::Slice { hi, lo } => {
                    return match bits(value) {
                        Some(b) => Ok(Cow::Owned(Value::Bits(b.slice(*hi, *lo)))),
                        None => nowhere(),
                    };
                }
            };
            match step(value, i) {
                Some(inner) => value = inner,
                None => return nowhere(),
            }
        }
        Ok(Cow::Borrowed(value))
    }

    /// Whether it is an `int<W>`, or represented as one.
    pub(crate) fn signed(self, ty: TypeId) -> bool {
        matches!(self.types.repr_type(ty), Type::Int(_))
    }

    fn cast<'v>(self, value: Cow<'v, Value>, from: TypeId, to: TypeId) -> Value {
        match (self.types.repr_type(to), &*value) {
            (Type::Bit(w) | Type::Int(w), Value::Bits(b)) if b.width() == *w => value.into_owned(),
            (Type::Bit(w) | Type::Int(w), Value::Bits(b)) => {
                Value::Bits(if self.signed(from) { b.sign_extend(*w) } else { b.zero_extend(*w) })
            }
            (Type::Bit(w) | Type::Int(w), Value::Bool(b)) => Value::Bits(Bits::new(*w, u128::from(*b))),
            (Type::Bool, Value::Bits(b)) => Value::Bool(!b.is_zero()),
            _ => value.into_owned(),
        }
    }
}

fn unary(op: UnaryOp, value: &Value) -> Value {
    match (op, value) {
        (UnaryOp::BitNot, Value::Bits(b)) => Value::Bits(b.not()),
        (UnaryOp::Neg, Value::Bits(b)) => Value::Bits(b.neg()),
        _ => Value::Void,
    }
}

/// Compares as the type demands.
pub(crate) fn compare(signed: bool, a: &Bits, b: &Bits) -> Ordering {
    if signed { a.cmp_signed(b) } else { a.cmp_unsigned(b) }
}

/// The result of an operator that compares; `None` for the others. `signed`: is the left operand an `int<W>`?
fn relation(op: BinaryOp, signed: impl Fn() -> bool, a: &Value, b: &Value) -> Option<bool> {
    let order = || Some(compare(signed(), bits(a)?, bits(b)?));
    match op {
        BinaryOp::Eq => Some(equal(a, b)),
        BinaryOp::Ne => Some(!equal(a, b)),
        BinaryOp::Lt => Some(order()?.is_lt()),
        BinaryOp::Le => Some(order()?.is_le()),
        BinaryOp::Gt => Some(order()?.is_gt()),
        BinaryOp::Ge => Some(order()?.is_ge()),
        _ => None,
    }
}

/// An operator whose operands are both evaluated.
fn binary(op: BinaryOp, signed: impl Fn() -> bool, x: &Value, y: &Value) -> Value {
    let (Some(a), Some(b)) = (bits(x), bits(y)) else {
        return relation(op, signed, x, y).map_or(Value::Void, Value::Bool);
    };
    Value::Bits(match op {
        BinaryOp::Add => a.add(b),
        BinaryOp::Sub => a.sub(b),
        BinaryOp::Mul => a.mul(b),
        // Division by zero gives zero: P4 has no run-time division, so nothing else defines it.
        BinaryOp::Div => a.div(b).unwrap_or_else(|| Bits::zero(a.width())),
        BinaryOp::Mod => a.rem(b).unwrap_or_else(|| Bits::zero(a.width())),
        BinaryOp::SatAdd if signed() => a.sat_add_signed(b),
        BinaryOp::SatAdd => a.sat_add_unsigned(b),
        BinaryOp::SatSub if signed() => a.sat_sub_signed(b),
        BinaryOp::SatSub => a.sat_sub_unsigned(b),
        BinaryOp::BitAnd => a.and(b),
        BinaryOp::BitOr => a.or(b),
        BinaryOp::BitXor => a.xor(b),
        BinaryOp::Shl => a.shl(b.saturating_u64()),
        BinaryOp::Shr if signed() => a.shr_signed(b.saturating_u64()),
        BinaryOp::Shr => a.shr(b.saturating_u64()),
        BinaryOp::Concat => a.concat(b),
        _ => return relation(op, signed, x, y).map_or(Value::Void, Value::Bool),
    })
}
