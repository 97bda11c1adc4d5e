//! Values of the reference, and arithmetic as chapter 8 of P4_16 defines it.

use crate::generate::tree::{Binary, Program, Ty, Unary};
use num_bigint::BigInt;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum V {
    /// Unknown: P4_16 leaves it open.
    Unknown,
    /// `bool`
    Bool(bool),
    /// `bit<W>` (never negative), `int<W>`, enums with a representation.
    Num(BigInt),
    /// An enum's member or an error.
    Member(usize),
    /// Bits, the first one first.
    Varbit(Vec<bool>),
    /// A struct or tuple.
    Parts(Vec<V>),
    /// A header. Fields of an invalid one are unknown.
    Header(bool, Vec<V>),
    /// The headers of a union.
    Union(Vec<V>),
    /// `nextIndex` and the elements of a stack.
    Stack(usize, Vec<V>),
}

/// Where a computation ends early.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop {
    /// It depends on something that P4_16 leaves open: the case has no result.
    Undefined(&'static str),
    /// `exit`
    Exit,
    /// `return`
    Return(Option<V>),
    /// `break`
    Break,
    /// `continue`
    Continue,
    /// The parser rejects with this error.
    Reject(usize),
}

/// The error of `Result`.
pub type R<T> = Result<T, Stop>;

/// 2^n
pub fn power(n: u32) -> BigInt {
    BigInt::from(1) << n
}

/// The value of `ty` that has the same low bits as `n`.
pub fn wrap(ty: &Ty, n: &BigInt) -> BigInt {
    let (Ty::Bit(w) | Ty::Int(w)) = ty else { return n.clone() };
    let modulus = power(*w);
    let low = ((n % &modulus) + &modulus) % &modulus;
    if matches!(ty, Ty::Int(_)) && *w > 0 && low >= power(w - 1) { low - modulus } else { low }
}

/// The nearest value of `ty`.
fn clamp(ty: &Ty, n: BigInt) -> BigInt {
    let (low, high) = match ty {
        Ty::Bit(w) => (BigInt::ZERO, power(*w) - 1),
        Ty::Int(w) => (-power(w - 1), power(w - 1) - 1),
        _ => return n,
    };
    n.clamp(low, high)
}

/// The pattern of `width` bits of a number, as a number that is not negative.
pub fn pattern(width: u32, n: &BigInt) -> BigInt {
    wrap(&Ty::Bit(width), n)
}

/// Bits of a number, the highest first.
pub fn to_bits(width: u32, n: &BigInt) -> Vec<bool> {
    let n = pattern(width, n);
    (0..u64::from(width)).rev().map(|i| n.bit(i)).collect()
}

/// The number that `ty` reads from bits, the highest first.
pub fn from_bits(ty: &Ty, bits: &[bool]) -> BigInt {
    let n = bits.iter().fold(BigInt::ZERO, |n, b| (n << 1) + u8::from(*b));
    wrap(ty, &n)
}

impl V {
    /// The number, or Undefined.
    pub fn num(&self) -> R<&BigInt> {
        match self {
            V::Num(n) => Ok(n),
            _ => Err(Stop::Undefined("a number that was never set")),
        }
    }

    /// The truth value, or Undefined.
    pub fn truth(&self) -> R<bool> {
        match self {
            V::Bool(b) => Ok(*b),
            _ => Err(Stop::Undefined("a truth value that was never set")),
        }
    }

    /// Whether the header, or a header of the union, is valid.
    pub fn is_valid(&self) -> bool {
        match self {
            V::Header(valid, _) => *valid,
            V::Union(headers) => headers.iter().any(V::is_valid),
            _ => false,
        }
    }

    /// Equality as each type has it.
    pub fn equals(&self, other: &V) -> R<bool> {
        let all = |a: &[V], b: &[V]| -> R<bool> {
            // All pairs are compared: an unknown one makes the whole unknown even if another differs.
            let mut equal = true;
            for (x, y) in a.iter().zip(b) {
                equal &= x.equals(y)?;
            }
            Ok(equal)
        };
        match (self, other) {
            (V::Unknown, _) | (_, V::Unknown) => Err(Stop::Undefined("comparison with an unknown value")),
            (V::Header(a, x), V::Header(b, y)) if *a && *b => all(x, y),
            (V::Header(a, _), V::Header(b, _)) => Ok(a == b),
            (V::Parts(a), V::Parts(b)) | (V::Union(a), V::Union(b)) | (V::Stack(_, a), V::Stack(_, b)) => {
                all(a, b)
            }
            (a, b) => Ok(a == b),
        }
    }
}

/// The value of a variable before any assignment: headers are invalid, all else is unknown.
pub fn fresh(p: &Program, ty: &Ty) -> V {
    let many = |tys: Vec<Ty>| tys.iter().map(|t| fresh(p, t)).collect();
    match ty {
        Ty::Struct(_) | Ty::Tuple(_) => V::Parts(many(p.fields(ty))),
        Ty::Header(_) => V::Header(false, vec![V::Unknown; p.fields(ty).len()]),
        Ty::Union(_) => V::Union(many(p.fields(ty))),
        Ty::Stack(elem, n) => V::Stack(0, vec![fresh(p, elem); *n as usize]),
        _ => V::Unknown,
    }
}

/// All zero: metadata as our switch (and BMv2's) begins a packet.
pub fn zero(p: &Program, ty: &Ty) -> V {
    let many = |tys: Vec<Ty>| tys.iter().map(|t| zero(p, t)).collect();
    match ty {
        Ty::Bool => V::Bool(false),
        Ty::Bit(_) | Ty::Int(_) | Ty::Ser(_) => V::Num(BigInt::ZERO),
        Ty::Enum(_) | Ty::Error => V::Member(0),
        Ty::Varbit(_) => V::Varbit(Vec::new()),
        Ty::Struct(_) | Ty::Tuple(_) => V::Parts(many(p.fields(ty))),
        _ => fresh(p, ty),
    }
}

/// `+a`, `-a`, `~a` of a value of type `ty`.
pub fn unary(ty: &Ty, op: Unary, a: &V) -> R<V> {
    Ok(match op {
        Unary::Not => V::Bool(!a.truth()?),
        Unary::Plus => a.clone(),
        Unary::Neg => V::Num(wrap(ty, &-(a.num()?.clone()))),
        Unary::BitNot => V::Num(wrap(ty, &(-(a.num()?.clone()) - 1))),
    })
}

/// `a op b`, both evaluated; `left` and `right` are their types (representations of enums).
pub fn binary(op: Binary, left: &Ty, right: &Ty, a: &V, b: &V) -> R<V> {
    let order = || -> R<std::cmp::Ordering> { Ok(a.num()?.cmp(b.num()?)) };
    let width = |ty: &Ty| match ty {
        Ty::Bit(w) | Ty::Int(w) => *w,
        _ => 0,
    };
    let bitwise = |f: fn(BigInt, BigInt) -> BigInt| -> R<V> {
        let w = width(left);
        Ok(V::Num(wrap(left, &f(pattern(w, a.num()?), pattern(w, b.num()?)))))
    };
    let number = |n: BigInt| Ok(V::Num(wrap(left, &n)));
    match op {
        Binary::Eq => Ok(V::Bool(a.equals(b)?)),
        Binary::Ne => Ok(V::Bool(!a.equals(b)?)),
        Binary::Lt => Ok(V::Bool(order()?.is_lt())),
        Binary::Le => Ok(V::Bool(order()?.is_le())),
        Binary::Gt => Ok(V::Bool(order()?.is_gt())),
        Binary::Ge => Ok(V::Bool(order()?.is_ge())),
        Binary::Add => number(a.num()? + b.num()?),
        Binary::Sub => number(a.num()? - b.num()?),
        Binary::Mul => number(a.num()? * b.num()?),
        Binary::SatAdd => Ok(V::Num(clamp(left, a.num()? + b.num()?))),
        Binary::SatSub => Ok(V::Num(clamp(left, a.num()? - b.num()?))),
        Binary::And => bitwise(|x, y| x & y),
        Binary::Or => bitwise(|x, y| x | y),
        Binary::Xor => bitwise(|x, y| x ^ y),
        Binary::Shl | Binary::Shr => {
            let (n, by) = (a.num()?, b.num()?);
            let most = BigInt::from(width(left));
            // Further than the width changes nothing more.
            let by = u32::try_from(by.clone().min(most)).unwrap_or(0);
            // The big integer shifts as the signed type demands: towards minus infinity.
            number(if op == Binary::Shl { n << by } else { n >> by })
        }
        Binary::Concat => {
            let (wl, wr) = (width(left), width(right));
            let joined = (pattern(wl, a.num()?) << wr) + pattern(wr, b.num()?);
            let ty = if matches!(left, Ty::Int(_)) { Ty::Int(wl + wr) } else { Ty::Bit(wl + wr) };
            Ok(V::Num(wrap(&ty, &joined)))
        }
        Binary::Div | Binary::Mod | Binary::AndAnd | Binary::OrOr => Err(Stop::Undefined("not at run time")),
    }
}

/// `(to)a`; both types are representations.
pub fn cast(from: &Ty, to: &Ty, a: &V) -> R<V> {
    Ok(match (from, to) {
        (Ty::Bool, Ty::Bit(_)) => V::Num(BigInt::from(u8::from(a.truth()?))),
        (Ty::Bit(_), Ty::Bool) => V::Bool(*a.num()? != BigInt::ZERO),
        (Ty::Bit(_) | Ty::Int(_), Ty::Bit(_) | Ty::Int(_)) => V::Num(wrap(to, a.num()?)),
        _ => a.clone(),
    })
}
