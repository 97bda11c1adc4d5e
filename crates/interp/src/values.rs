//! The parts of values' meaning that `ir::Value` leaves to executors: steps into them, equality, packing.

use crate::bitio::{self, Writer};
use pointsman_ir::{Bits, Type, TypeId, Types, Value};

/// Field or element `i` of an aggregate.
#[inline]
pub(crate) fn step(value: &Value, i: u32) -> Option<&Value> {
    match value {
        Value::Struct(v)
        | Value::Union(v)
        | Value::Header { fields: v, .. }
        | Value::Stack { elems: v, .. } => v.get(i as usize),
        _ => None,
    }
}

/// Field or element `i` of an aggregate, to change it.
#[inline]
pub(crate) fn step_mut(value: &mut Value, i: u32) -> Option<&mut Value> {
    match value {
        Value::Struct(v)
        | Value::Union(v)
        | Value::Header { fields: v, .. }
        | Value::Stack { elems: v, .. } => v.get_mut(i as usize),
        _ => None,
    }
}

/// The bit string of a `bit`, `int` or `varbit`.
#[inline]
pub(crate) fn bits(value: &Value) -> Option<&Bits> {
    match value {
        Value::Bits(b) | Value::Varbit(b) => Some(b),
        _ => None,
    }
}

/// Whether it is true. Only for `bool`.
#[inline]
pub(crate) fn is_true(value: &Value) -> bool {
    matches!(value, Value::Bool(true))
}

/// Whether the header, or a header of the union, is valid.
pub(crate) fn is_valid(value: &Value) -> bool {
    match value {
        Value::Header { valid, .. } => *valid,
        Value::Union(members) => members.iter().any(is_valid),
        _ => false,
    }
}

/// `==` of P4: invalid headers are equal whatever their fields (P4_16 section 8.17), and `nextIndex` of stacks does
/// not count (section 8.18).
pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    let all = |a: &[Value], b: &[Value]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b));
    match (a, b) {
        (Value::Header { valid: v, fields: f }, Value::Header { valid: w, fields: g }) => {
            v == w && (!v || all(f, g))
        }
        (Value::Struct(f), Value::Struct(g)) | (Value::Union(f), Value::Union(g)) => all(f, g),
        (Value::Stack { elems: f, .. }, Value::Stack { elems: g, .. }) => all(f, g),
        _ => a == b,
    }
}

/// `source` copied into `target`, reusing its memory where the two have the same shape.
pub(crate) fn copy(target: &mut Value, source: &Value) {
    let all = |t: &mut [Value], s: &[Value]| {
        t.iter_mut().zip(s).for_each(|(t, s)| match (t, s) {
            // Most fields: not worth a call.
            (Value::Bits(t), Value::Bits(s)) => t.clone_from(s),
            (t, s) => copy(t, s),
        });
    };
    match (&mut *target, source) {
        (Value::Struct(t), Value::Struct(s)) | (Value::Union(t), Value::Union(s)) if t.len() == s.len() => {
            all(t, s)
        }
        (Value::Header { valid, fields: t }, Value::Header { valid: v, fields: s }) if t.len() == s.len() => {
            *valid = *v;
            all(t, s);
        }
        (Value::Stack { next, elems: t }, Value::Stack { next: n, elems: s }) if t.len() == s.len() => {
            *next = *n;
            all(t, s);
        }
        _ => *target = source.clone(),
    }
}

/// `*target = value`, without a call if nothing has to be freed.
#[inline]
pub(crate) fn put(target: &mut Value, value: Value) {
    match (target, value) {
        (Value::Bits(t), Value::Bits(v)) => *t = v,
        (Value::Bool(t), Value::Bool(v)) => *t = v,
        (t, v) => *t = v,
    }
}

/// `value` as a value of type `ty`: unchanged if it is one, widths adjusted, the default value if it does not fit at
/// all. For values from outside the program (externs, the control plane, the architecture).
pub(crate) fn conform(types: &Types, ty: TypeId, value: Value) -> Value {
    let all = |tys: &mut dyn Iterator<Item = TypeId>, v: Vec<Value>| {
        v.into_iter().zip(tys).map(|(v, t)| conform(types, t, v)).collect::<Vec<_>>()
    };
    match (types.repr_type(ty), value) {
        (Type::Bit(w) | Type::Int(w), Value::Bits(b)) => {
            Value::Bits(if b.width() == *w { b } else { b.zero_extend(*w) })
        }
        (Type::Varbit(w), Value::Varbit(b)) => {
            Value::Varbit(if b.width() <= *w { b } else { b.zero_extend(*w) })
        }
        (Type::Struct(d), Value::Struct(v)) if v.len() == d.fields.len() => {
            Value::Struct(all(&mut d.fields.iter().map(|f| f.ty), v))
        }
        (Type::Tuple(t), Value::Struct(v)) if v.len() == t.len() => {
            Value::Struct(all(&mut t.iter().copied(), v))
        }
        (Type::HeaderUnion(d), Value::Union(v)) if v.len() == d.fields.len() => {
            Value::Union(all(&mut d.fields.iter().map(|f| f.ty), v))
        }
        (Type::Header(d), Value::Header { valid, fields }) if fields.len() == d.fields.len() => {
            Value::Header { valid, fields: all(&mut d.fields.iter().map(|f| f.ty), fields) }
        }
        (Type::Stack { elem, size }, Value::Stack { next, elems }) if elems.len() == *size as usize => {
            Value::Stack { next: next.min(*size), elems: all(&mut std::iter::repeat(*elem), elems) }
        }
        (Type::Bool, v @ Value::Bool(_))
        | (Type::Error, v @ Value::Error(_))
        | (Type::Enum(_), v @ Value::Enum(_))
        | (Type::String, v @ Value::String(_)) => v,
        _ => Value::default_of(types, ty),
    }
}

/// Fills `value` from the packet at bit `at`; its headers become valid, a varbit takes `varbits` bits. Returns the bit
/// behind it. The caller has checked that the packet is long enough.
pub(crate) fn unpack(value: &mut Value, packet: &[u8], mut at: usize, varbits: u32) -> usize {
    match value {
        Value::Bool(b) => {
            *b = !bitio::read(packet, at, 1).is_zero();
            at + 1
        }
        Value::Bits(b) => {
            *b = bitio::read(packet, at, b.width());
            at + b.width() as usize
        }
        Value::Varbit(b) => {
            *b = bitio::read(packet, at, varbits);
            at + varbits as usize
        }
        Value::Struct(fields) => {
            fields.iter_mut().for_each(|f| at = unpack(f, packet, at, varbits));
            at
        }
        Value::Header { valid, fields } => {
            *valid = true;
            fields.iter_mut().for_each(|f| at = unpack(f, packet, at, varbits));
            at
        }
        Value::Stack { elems, .. } => {
            elems.iter_mut().for_each(|e| at = unpack(e, packet, at, varbits));
            at
        }
        _ => at,
    }
}

/// Appends what `emit(value)` puts into a packet (P4_16 section 16.1): valid headers, in order.
pub(crate) fn pack(value: &Value, out: &mut Writer<'_>) {
    match value {
        Value::Bool(b) => out.write(&Bits::from(*b)),
        Value::Bits(b) | Value::Varbit(b) => out.write(b),
        Value::Header { valid: false, .. } => {}
        Value::Header { fields: v, .. }
        | Value::Struct(v)
        | Value::Union(v)
        | Value::Stack { elems: v, .. } => v.iter().for_each(|v| pack(v, out)),
        _ => {}
    }
}
