//! Values of the program as P4Runtime's `P4Data` (specification, "Representation of Arbitrary P4 Types").

use crate::bytestring::{self, BytestringError};
use crate::error::EntityError;
use crate::proto::p4rt::{self as pb, P4Data, p4_data::Data};
use crate::schema::{self, Scalar};
use crate::translate::Codec;
use pointsman_ir::{Bits, Program, Type, TypeId, Value};

/// The `P4Data` of a value of type `ty`.
pub(crate) fn encode(codec: &Codec, program: &Program, ty: TypeId, value: &Value) -> P4Data {
    P4Data { data: encode_data(codec, program, ty, value) }
}

fn encode_data(codec: &Codec, program: &Program, ty: TypeId, value: &Value) -> Option<Data> {
    if let Some(scalar) = translated(program, ty) {
        return value.to_bits().map(|b| Data::Bitstring(scalar.encode(codec, &b)));
    }
    // The names of enums with representation do not matter here, only their values.
    let serializable = matches!(under_new_types(program, ty), Type::SerEnum { .. });
    Some(match (program.types.repr_type(ty), value) {
        (Type::Bool, Value::Bool(b)) => Data::Bool(*b),
        (Type::Bit(_), Value::Bits(b)) if serializable => Data::EnumValue(bytestring::encode(b)),
        (Type::Int(_), Value::Bits(b)) if serializable => Data::EnumValue(bytestring::encode_signed(b)),
        (Type::Bit(_), Value::Bits(b)) => Data::Bitstring(bytestring::encode(b)),
        (Type::Int(_), Value::Bits(b)) => Data::Bitstring(bytestring::encode_signed(b)),
        (Type::Varbit(_), Value::Varbit(b)) => Data::Varbit(pb::P4Varbit {
            bitstring: b.to_be_bytes(),
            bitwidth: i32::try_from(b.width()).unwrap_or(i32::MAX),
        }),
        (Type::Enum(def), Value::Enum(n)) => Data::Enum(def.members.get(*n as usize)?.clone()),
        (Type::Error, Value::Error(n)) => Data::Error(program.errors.get(*n as usize)?.clone()),
        (Type::Struct(def), Value::Struct(values)) => {
            let members =
                def.fields.iter().zip(values).map(|(f, v)| encode(codec, program, f.ty, v)).collect();
            Data::Struct(pb::P4StructLike { members })
        }
        (Type::Tuple(types), Value::Struct(values)) => {
            let members = types.iter().zip(values).map(|(ty, v)| encode(codec, program, *ty, v)).collect();
            Data::Tuple(pb::P4StructLike { members })
        }
        (Type::Header(_), value) => Data::Header(encode_header(program, ty, value)),
        (Type::HeaderUnion(def), Value::Union(headers)) => {
            Data::HeaderUnion(encode_union(program, def, headers))
        }
        (Type::Stack { elem, .. }, Value::Stack { elems, .. }) => match program.types.repr_type(*elem) {
            Type::HeaderUnion(def) => {
                let union = |v: &Value| match v {
                    Value::Union(headers) => encode_union(program, def, headers),
                    _ => pb::P4HeaderUnion::default(),
                };
                Data::HeaderUnionStack(pb::P4HeaderUnionStack { entries: elems.iter().map(union).collect() })
            }
            _ => {
                let entries = elems.iter().map(|h| encode_header(program, *elem, h)).collect();
                Data::HeaderStack(pb::P4HeaderStack { entries })
            }
        },
        _ => return None,
    })
}

fn encode_header(program: &Program, ty: TypeId, value: &Value) -> pb::P4Header {
    fn flatten(program: &Program, ty: TypeId, value: &Value, out: &mut Vec<Vec<u8>>) {
        match (program.types.repr_type(ty), value) {
            (Type::Struct(def), Value::Struct(values)) => {
                def.fields.iter().zip(values).for_each(|(f, v)| flatten(program, f.ty, v, out));
            }
            (Type::Int(_), Value::Bits(b)) => out.push(bytestring::encode_signed(b)),
            (Type::Varbit(_), Value::Varbit(b)) => out.push(b.to_be_bytes()),
            (_, other) => out.push(bytestring::encode(&other.to_bits().unwrap_or(Bits::zero(1)))),
        }
    }
    match (program.types.struct_def(ty), value) {
        (Some(def), Value::Header { valid: true, fields }) => {
            let mut bitstrings = Vec::new();
            def.fields.iter().zip(fields).for_each(|(f, v)| flatten(program, f.ty, v, &mut bitstrings));
            pb::P4Header { is_valid: true, bitstrings }
        }
        _ => pb::P4Header::default(),
    }
}

fn encode_union(program: &Program, def: &pointsman_ir::StructDef, headers: &[Value]) -> pb::P4HeaderUnion {
    let valid = def.fields.iter().zip(headers).find(|(_, h)| matches!(h, Value::Header { valid: true, .. }));
    match valid {
        Some((f, h)) => pb::P4HeaderUnion {
            valid_header_name: f.name.clone(),
            valid_header: Some(encode_header(program, f.ty, h)),
        },
        None => pb::P4HeaderUnion::default(),
    }
}

/// How a type with `@p4runtime_translation` is seen.
fn translated(program: &Program, ty: TypeId) -> Option<Scalar> {
    match program.types.get(ty) {
        Type::NewType { annotations, .. } if annotations.has("p4runtime_translation") => {
            schema::scalar(program, ty).ok()
        }
        _ => None,
    }
}

/// `type` declarations are looked through, enums with representation are not.
fn under_new_types(program: &Program, ty: TypeId) -> &Type {
    match program.types.get(ty) {
        Type::NewType { base, .. } => under_new_types(program, *base),
        other => other,
    }
}

/// The value of type `ty` that `data` holds.
///
/// # Errors
/// The data is of another type, or too wide; the error has the place inside a struct.
pub(crate) fn decode(
    codec: &Codec,
    program: &Program,
    ty: TypeId,
    data: &P4Data,
) -> Result<Value, EntityError> {
    let Some(data) = &data.data else { return Err(EntityError::invalid("no data is set")) };
    let wrong = |expected: &str| {
        Err(EntityError::invalid(format!("the data is a {}, the type is {expected}", name_of(data))))
    };
    if let Some(scalar) = translated(program, ty) {
        let Data::Bitstring(bytes) = data else {
            return wrong("translated: set bitstring");
        };
        return scalar.decode(codec, bytes).map(Value::Bits).map_err(|e| EntityError::invalid(e.message));
    }
    let serializable = matches!(under_new_types(program, ty), Type::SerEnum { .. });
    match (program.types.repr_type(ty), data) {
        (Type::Bool, Data::Bool(b)) => Ok(Value::Bool(*b)),
        (Type::Bool, _) => wrong("bool"),
        (Type::Bit(w), Data::EnumValue(bytes)) if serializable => bits(bytestring::decode(*w, bytes)),
        (Type::Int(w), Data::EnumValue(bytes)) if serializable => bits(bytestring::decode_signed(*w, bytes)),
        (Type::Bit(_) | Type::Int(_), _) if serializable => wrong("a serializable enum: set enum_value"),
        (Type::Bit(w), Data::Bitstring(bytes)) => bits(bytestring::decode(*w, bytes)),
        (Type::Int(w), Data::Bitstring(bytes)) => bits(bytestring::decode_signed(*w, bytes)),
        (Type::Bit(w), _) => wrong(&format!("bit<{w}>: set bitstring")),
        (Type::Int(w), _) => wrong(&format!("int<{w}>: set bitstring")),
        (Type::Varbit(max), Data::Varbit(v)) => {
            let width = u32::try_from(v.bitwidth).map_err(|_| EntityError::invalid("a negative width"))?;
            if width > *max {
                return Err(EntityError::invalid(format!("{width} bits for a varbit<{max}>")));
            }
            if width == 0 {
                return Ok(Value::Varbit(Bits::zero(0)));
            }
            let bits = bytestring::decode(width, &v.bitstring).map_err(unreadable)?;
            Ok(Value::Varbit(bits))
        }
        (Type::Varbit(w), _) => wrong(&format!("varbit<{w}>")),
        (Type::Enum(def), Data::Enum(name)) => match (0u32..).zip(&def.members).find(|(_, m)| *m == name) {
            Some((ordinal, _)) => Ok(Value::Enum(ordinal)),
            None => Err(EntityError::invalid(format!("enum {} has no member {name}", def.name))),
        },
        (Type::Enum(def), _) => wrong(&format!("enum {}", def.name)),
        (Type::Error, Data::Error(name)) => match (0u32..).zip(&program.errors).find(|(_, m)| *m == name) {
            Some((index, _)) => Ok(Value::Error(index)),
            None => Err(EntityError::invalid(format!("unknown error `{name}`"))),
        },
        (Type::Error, _) => wrong("error"),
        (Type::Struct(def), Data::Struct(s)) => {
            let types: Vec<_> = def.fields.iter().map(|f| (f.name.as_str(), f.ty)).collect();
            decode_members(codec, program, &types, &s.members)
        }
        (Type::Struct(def), _) => wrong(&format!("struct {}", def.name)),
        (Type::Tuple(types), Data::Tuple(s)) => {
            let types: Vec<_> = types.iter().map(|t| ("member", *t)).collect();
            decode_members(codec, program, &types, &s.members)
        }
        (Type::Tuple(_), _) => wrong("tuple"),
        (Type::Header(_), Data::Header(h)) => decode_header(program, ty, h),
        (Type::Header(def), _) => wrong(&format!("header {}", def.name)),
        _ => Err(EntityError::invalid("values of this type cannot be written")),
    }
}

/// Inside of data, every wrong byte string is an invalid argument.
fn unreadable(error: BytestringError) -> EntityError {
    EntityError::invalid(error.to_string())
}

fn bits(decoded: Result<Bits, BytestringError>) -> Result<Value, EntityError> {
    decoded.map(Value::Bits).map_err(unreadable)
}

fn decode_members(
    codec: &Codec,
    program: &Program,
    types: &[(&str, TypeId)],
    members: &[P4Data],
) -> Result<Value, EntityError> {
    if types.len() != members.len() {
        let message = format!("{} members are given, the type has {}", members.len(), types.len());
        return Err(EntityError::invalid(message));
    }
    let member = |((name, ty), data): (&(&str, TypeId), &P4Data)| {
        decode(codec, program, *ty, data).map_err(|e| e.at(name))
    };
    types.iter().zip(members).map(member).collect::<Result<_, _>>().map(Value::Struct)
}

fn decode_header(program: &Program, ty: TypeId, header: &pb::P4Header) -> Result<Value, EntityError> {
    /// Fills the scalars of `ty` from the flat list.
    fn fill<'a>(
        program: &Program,
        ty: TypeId,
        strings: &mut impl Iterator<Item = &'a Vec<u8>>,
    ) -> Result<Value, EntityError> {
        if let Type::Struct(def) = program.types.repr_type(ty) {
            let fields = def.fields.iter().map(|f| fill(program, f.ty, strings)).collect::<Result<_, _>>()?;
            return Ok(Value::Struct(fields));
        }
        let none = || EntityError::invalid("headers with such fields cannot be written");
        let bytes =
            strings.next().ok_or_else(|| EntityError::invalid("too few bitstrings for the header"))?;
        let width = program.types.scalar_width(ty).ok_or_else(none)?;
        let value = match program.types.repr_type(ty) {
            Type::Int(_) => bytestring::decode_signed(width, bytes),
            _ => bytestring::decode(width, bytes),
        };
        Value::from_bits(&program.types, ty, &value.map_err(unreadable)?).ok_or_else(none)
    }
    if !header.is_valid {
        if !header.bitstrings.is_empty() {
            return Err(EntityError::invalid("an invalid header has no bitstrings"));
        }
        return Ok(Value::default_of(&program.types, ty));
    }
    let def = program.types.struct_def(ty).ok_or_else(|| EntityError::invalid("the type is not a header"))?;
    let mut strings = header.bitstrings.iter();
    let fields = def.fields.iter().map(|f| fill(program, f.ty, &mut strings)).collect::<Result<_, _>>()?;
    if strings.next().is_some() {
        return Err(EntityError::invalid("too many bitstrings for the header"));
    }
    Ok(Value::Header { valid: true, fields })
}

fn name_of(data: &Data) -> &'static str {
    match data {
        Data::Bitstring(_) => "bitstring",
        Data::Varbit(_) => "varbit",
        Data::Bool(_) => "bool",
        Data::Tuple(_) => "tuple",
        Data::Struct(_) => "struct",
        Data::Header(_) => "header",
        Data::HeaderUnion(_) => "header union",
        Data::HeaderStack(_) => "header stack",
        Data::HeaderUnionStack(_) => "header union stack",
        Data::Enum(_) => "enum",
        Data::Error(_) => "error",
        Data::EnumValue(_) => "serializable enum value",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_ir::{Annotations, EnumDef, Field, StructDef};

    fn field(name: &str, ty: TypeId) -> Field {
        Field { name: name.into(), ty, annotations: Annotations::default() }
    }

    fn struct_def(name: &str, fields: Vec<Field>) -> StructDef {
        StructDef { name: name.into(), fields, annotations: Annotations::default() }
    }

    /// Encodes, decodes again, and compares.
    fn check(program: &Program, ty: TypeId, value: Value, expected: Data) {
        let (names, ports) = Default::default();
        let codec = Codec { names: &names, ports: &ports, learn: false };
        let data = encode(&codec, program, ty, &value);
        assert_eq!(data.data, Some(expected));
        assert_eq!(decode(&codec, program, ty, &data), Ok(value));
    }

    #[test]
    fn every_kind() {
        let mut p = Program { errors: vec!["NoError".into(), "Bad".into()], ..Default::default() };
        let bit = p.types.intern(Type::Bit(12));
        let int = p.types.intern(Type::Int(12));
        let boolean = p.types.intern(Type::Bool);
        let error = p.types.intern(Type::Error);
        let varbit = p.types.intern(Type::Varbit(16));
        let color =
            p.types.intern(Type::Enum(EnumDef { name: "C".into(), members: vec!["A".into(), "B".into()] }));
        let ser = p.types.intern(Type::SerEnum { name: "S".into(), repr: bit, members: vec![] });
        let pair = p.types.intern(Type::Struct(struct_def("P", vec![field("x", bit), field("ok", boolean)])));
        let header = p.types.intern(Type::Header(struct_def("H", vec![field("x", bit), field("y", ser)])));
        let v = |n: u128| Value::Bits(Bits::new(12, n));
        check(&p, bit, v(99), Data::Bitstring(vec![99]));
        check(&p, int, v(0xfff), Data::Bitstring(vec![0xff]));
        check(&p, boolean, Value::Bool(true), Data::Bool(true));
        check(&p, error, Value::Error(1), Data::Error("Bad".into()));
        check(&p, color, Value::Enum(1), Data::Enum("B".into()));
        check(&p, ser, v(7), Data::EnumValue(vec![7]));
        let varbits = pb::P4Varbit { bitstring: vec![1, 2], bitwidth: 16 };
        check(&p, varbit, Value::Varbit(Bits::new(16, 0x102)), Data::Varbit(varbits));
        let (names, ports) = Default::default();
        let codec = Codec { names: &names, ports: &ports, learn: false };
        let members = vec![encode(&codec, &p, bit, &v(1)), encode(&codec, &p, boolean, &Value::Bool(false))];
        check(
            &p,
            pair,
            Value::Struct(vec![v(1), Value::Bool(false)]),
            Data::Struct(pb::P4StructLike { members }),
        );
        let data = pb::P4Header { is_valid: true, bitstrings: vec![vec![1], vec![2]] };
        check(&p, header, Value::Header { valid: true, fields: vec![v(1), v(2)] }, Data::Header(data));
        check(&p, header, Value::default_of(&p.types, header), Data::Header(pb::P4Header::default()));
    }

    #[test]
    fn wrong_data_is_explained() {
        let mut p = Program::default();
        let bit = p.types.intern(Type::Bit(8));
        let pair = p.types.intern(Type::Struct(struct_def("P", vec![field("x", bit)])));
        let check = |ty, data: Option<Data>, part: &str| {
            let (names, ports) = Default::default();
            let codec = Codec { names: &names, ports: &ports, learn: false };
            let e = decode(&codec, &p, ty, &P4Data { data }).expect_err("wrong");
            assert!(e.message.contains(part), "{e}");
        };
        check(bit, None, "no data");
        check(bit, Some(Data::Bool(true)), "is a bool, the type is bit<8>");
        check(bit, Some(Data::Bitstring(vec![1, 0])), "needs 9 bits");
        check(bit, Some(Data::Bitstring(vec![])), "empty");
        check(pair, Some(Data::Struct(pb::P4StructLike::default())), "0 members are given, the type has 1");
        let member = P4Data { data: Some(Data::Bitstring(vec![1, 1])) };
        check(pair, Some(Data::Struct(pb::P4StructLike { members: vec![member] })), "x: the value needs");
    }
}
