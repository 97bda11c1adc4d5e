//! The text form of a program.
use crate::Program;
use crate::types::{Type, TypeId, Types};

/// `program` as text, the same for the same program.
pub fn print(program: &Program) -> String {
    format!("package {}\n", program.package.name)
}

/// A type as it is written in P4: `bit<8>`, `ipv4_t`, `tag_t[3]`.
pub fn type_name(types: &Types, ty: TypeId) -> String {
    if !types.contains(ty) {
        return format!("type {}", ty.0);
    }
    match types.get(ty) {
        Type::Void => "void".into(),
        Type::Bool => "bool".into(),
        Type::Bit(w) => format!("bit<{w}>"),
        Type::Int(w) => format!("int<{w}>"),
        Type::Varbit(w) => format!("varbit<{w}>"),
        Type::InfInt => "int".into(),
        Type::Error => "error".into(),
        Type::String => "string".into(),
        Type::Enum(d) => d.name.clone(),
        Type::SerEnum { name, .. } | Type::NewType { name, .. } => name.clone(),
        Type::Struct(d) | Type::Header(d) | Type::HeaderUnion(d) => d.name.clone(),
        Type::Stack { elem, size } => format!("{}[{size}]", type_name(types, *elem)),
        Type::List(elem) => format!("list<{}>", type_name(types, *elem)),
        Type::Tuple(parts) => {
            let parts: Vec<_> = parts.iter().map(|t| type_name(types, *t)).collect();
            format!("tuple<{}>", parts.join(", "))
        }
    }
}
