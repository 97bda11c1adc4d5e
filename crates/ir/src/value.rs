//! Values at run time and constants.

use crate::bits::Bits;
use crate::types::{Type, TypeId, Types};
use num_bigint::BigInt;
use std::sync::Arc;

/// A value at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Nothing: the result of a procedure.
    Void,
    /// `bool`.
    Bool(bool),
    /// `bit<W>`, `int<W>` and enums with representation.
    Bits(Bits),
    /// `varbit<W>` with its current width.
    Varbit(Bits),
    /// Ordinal of an enum without representation.
    Enum(u32),
    /// Index into [`Program::errors`](crate::Program::errors).
    Error(u32),
    /// `string`: arguments of externs such as `log_msg`.
    String(Arc<str>),
    /// Struct or tuple.
    Struct(Vec<Value>),
    /// Header. The fields of an invalid header keep their values; nothing may depend on them.
    Header {
        /// Validity bit.
        valid: bool,
        /// In declaration order.
        fields: Vec<Value>,
    },
    /// Header union: its headers, at most one of them valid.
    Union(Vec<Value>),
    /// Header stack.
    Stack {
        /// `nextIndex` (P4_16 section 8.18).
        next: u32,
        /// The elements.
        elems: Vec<Value>,
    },
}

impl Value {
    /// Bits of every valid header inside.
    pub fn header_bits(&self) -> u64 {
        fn field_bits(value: &Value) -> u64 {
            match value {
                Value::Bits(b) | Value::Varbit(b) => u64::from(b.width()),
                Value::Bool(_) => 1,
                Value::Struct(vs) => vs.iter().map(field_bits).sum(),
                _ => 0,
            }
        }
        match self {
            Value::Struct(vs) | Value::Union(vs) => vs.iter().map(Value::header_bits).sum(),
            Value::Stack { elems, .. } => elems.iter().map(Value::header_bits).sum(),
            Value::Header { valid: true, fields } => fields.iter().map(field_bits).sum(),
            _ => 0,
        }
    }

    /// The value that a variable of type `ty` starts with in our executors: zero, false, invalid, first member.
    ///
    /// P4_16 leaves uninitialised variables undefined; zero everywhere keeps every run the same.
    pub fn default_of(types: &Types, ty: TypeId) -> Value {
        match types.repr_type(ty) {
            Type::Bool => Value::Bool(false),
            Type::Bit(w) | Type::Int(w) => Value::Bits(Bits::zero(*w)),
            Type::Varbit(_) => Value::Varbit(Bits::zero(0)),
            Type::Error => Value::Error(0),
            Type::Enum(_) => Value::Enum(0),
            Type::String => Value::String("".into()),
            Type::Struct(d) => {
                Value::Struct(d.fields.iter().map(|f| Value::default_of(types, f.ty)).collect())
            }
            Type::Header(d) => Value::Header {
                valid: false,
                fields: d.fields.iter().map(|f| Value::default_of(types, f.ty)).collect(),
            },
            Type::HeaderUnion(d) => {
                Value::Union(d.fields.iter().map(|f| Value::default_of(types, f.ty)).collect())
            }
            Type::Stack { elem, size } => {
                Value::Stack { next: 0, elems: vec![Value::default_of(types, *elem); *size as usize] }
            }
            Type::Tuple(ts) => Value::Struct(ts.iter().map(|t| Value::default_of(types, *t)).collect()),
            Type::Void | Type::InfInt | Type::List(_) | Type::NewType { .. } | Type::SerEnum { .. } => {
                Value::Void
            }
        }
    }

    /// A scalar as bits: bool as 1 bit, enum and error as 32-bit ordinals; `None` for anything else.
    pub fn to_bits(&self) -> Option<Bits> {
        match self {
            Value::Bool(b) => Some(Bits::from(*b)),
            Value::Bits(b) | Value::Varbit(b) => Some(b.clone()),
            Value::Enum(n) | Value::Error(n) => Some(Bits::new(32, u128::from(*n))),
            _ => None,
        }
    }

    /// The reverse of [`Value::to_bits`] for a scalar of type `ty`, truncated or zero-extended to its width.
    pub fn from_bits(types: &Types, ty: TypeId, bits: &Bits) -> Option<Value> {
        match types.repr_type(ty) {
            Type::Bool => Some(Value::Bool(!bits.is_zero())),
            Type::Bit(w) | Type::Int(w) => Some(Value::Bits(bits.zero_extend(*w))),
            Type::Enum(_) => Some(Value::Enum(bits.low_u64() as u32)),
            Type::Error => Some(Value::Error(bits.low_u64() as u32)),
            _ => None,
        }
    }
}

/// A compile-time constant. Unlike [`Value`] it can be an integer of arbitrary precision or a list, which only
/// constructors of externs and packages see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Const {
    /// A value that also exists at run time.
    Value(Value),
    /// `int`.
    Int(BigInt),
    /// `list<T>` and tuples of constants.
    List(Vec<Const>),
    /// An extern instance, as an argument of the constructor of another.
    Object(crate::program::ExternInstanceId),
}

impl Const {
    /// The constant as an unsigned integer, if it is one and fits.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Const::Int(i) => u64::try_from(i).ok(),
            Const::Value(Value::Bits(b)) => b.to_u128().and_then(|v| u64::try_from(v).ok()),
            _ => None,
        }
    }
}
