//! Constants.

use super::named;
use crate::bits::Bits;
use crate::program::Program;
use crate::types::{StructDef, Type, TypeId, Types};
use crate::value::{Const, Value};

/// Bits as a constant of type `ty`: `8w5`, `16w0xbeef`, `8s-3`, `true`, a member of an enum.
pub(super) fn literal(types: &Types, ty: TypeId, bits: &Bits) -> String {
    let number = |b: &Bits| match b.to_u128() {
        Some(v) if v < 10 => v.to_string(),
        Some(v) => format!("{v:#x}"),
        None => format!("{:#x}", b.to_biguint()),
    };
    if !types.contains(ty) {
        return number(bits);
    }
    match types.get(ty) {
        Type::SerEnum { name, repr, members } => match members.iter().find(|(_, v)| v == bits) {
            Some((member, _)) => format!("{name}.{member}"),
            None => format!("({name}){}", literal(types, *repr, bits)),
        },
        Type::NewType { base, .. } => literal(types, *base, bits),
        Type::Int(w) if bits.is_negative() => format!("{w}s-{}", number(&bits.neg())),
        Type::Int(w) => format!("{w}s{}", number(bits)),
        Type::Bool => (!bits.is_zero()).to_string(),
        _ => format!("{}w{}", bits.width(), number(bits)),
    }
}

/// A constant of type `ty`.
pub(super) fn value(program: &Program, ty: TypeId, v: &Value) -> String {
    let types = &program.types;
    let list = |def: Option<&StructDef>, values: &[Value]| {
        let values: Vec<_> = values
            .iter()
            .enumerate()
            .map(|(i, v)| match def.and_then(|d| d.fields.get(i)) {
                Some(f) => format!("{} = {}", f.name, value(program, f.ty, v)),
                None => match types.contains(ty).then(|| types.repr_type(ty)) {
                    Some(Type::Tuple(t)) if i < t.len() => value(program, t[i], v),
                    Some(Type::Stack { elem, .. }) => value(program, *elem, v),
                    _ => "?".into(),
                },
            })
            .collect();
        format!("{{{}}}", values.join(", "))
    };
    let def = types.contains(ty).then(|| types.struct_def(ty)).flatten();
    match v {
        Value::Void => "void".into(),
        Value::Bool(b) => b.to_string(),
        Value::Bits(b) | Value::Varbit(b) => literal(types, ty, b),
        Value::Enum(n) => match types.contains(ty).then(|| types.repr_type(ty)) {
            Some(Type::Enum(d)) => format!("{}.{}", d.name, named(&d.members, *n as usize, |m| m)),
            _ => format!("?{n}"),
        },
        Value::Error(n) => format!("error.{}", named(&program.errors, *n as usize, |e| e)),
        Value::String(s) => format!("{s:?}"),
        Value::Struct(f) | Value::Union(f) => list(def, f),
        Value::Header { valid: true, fields } => list(def, fields),
        Value::Header { valid: false, .. } => "{#}".into(),
        Value::Stack { elems, .. } => list(None, elems),
    }
}

/// A compile-time constant of unknown type.
pub(super) fn constant(program: &Program, c: &Const) -> String {
    match c {
        Const::Int(i) => i.to_string(),
        Const::List(l) => {
            let l: Vec<_> = l.iter().map(|c| constant(program, c)).collect();
            format!("{{{}}}", l.join(", "))
        }
        Const::Object(i) => format!("object {}", named(&program.externs, i.index(), |x| &x.name)),
        Const::Value(Value::Bits(b)) => b.to_string(),
        Const::Value(Value::Enum(n)) => format!("enum {n}"),
        Const::Value(v) => value(program, TypeId(u32::MAX), v),
    }
}
