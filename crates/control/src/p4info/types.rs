//! P4 types in P4Info (P4Runtime specification, "Representation of Arbitrary P4 Types").

use super::annotations;
use super::error::{Flaw, P4InfoError};
use crate::proto::p4info::{
    self as pb, P4DataTypeSpec, P4NamedType, P4TypeInfo, p4_data_type_spec::TypeSpec,
};
use pointsman_ir::{
    AnnotationBody, AnnotationToken, Annotations, Bits, EnumDef, Program, StructDef, Type, TypeId,
};

/// A controller's view of a new type with `@p4runtime_translation`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Translation {
    /// An unsigned integer of this width.
    Bits(u32),
    /// A string.
    String,
}

/// Reads `@p4runtime_translation(uri, type)`, where `type` is a number of bits, `bit<W>` or `string`.
///
/// # Errors
/// The annotation has another form.
pub(crate) fn translation(annotations: &Annotations) -> Result<Option<(String, Translation)>, Flaw> {
    let Some(a) = annotations.get("p4runtime_translation") else { return Ok(None) };
    const TAKES: &str = "a URI and a type: (\"uri\", 32), (\"uri\", bit<32>) or (\"uri\", string)";
    let wrong = || Flaw::form("p4runtime_translation", TAKES);
    let AnnotationBody::Tokens(tokens) = &a.body else { return Err(wrong()) };
    let [AnnotationToken::String(uri), AnnotationToken::Other(comma), ty @ ..] = tokens.as_slice() else {
        return Err(wrong());
    };
    let bits = |i: &num_bigint::BigInt| u32::try_from(i).ok().filter(|w| *w > 0 && i32::try_from(*w).is_ok());
    let found = match ty {
        [AnnotationToken::Int(width, _)] => bits(width).map(Translation::Bits),
        [AnnotationToken::Other(s)] if s == "string" => Some(Translation::String),
        [
            AnnotationToken::Other(b),
            AnnotationToken::Other(lt),
            AnnotationToken::Int(width, _),
            AnnotationToken::Other(gt),
        ] if b == "bit" && lt == "<" && gt == ">" => bits(width).map(Translation::Bits),
        _ => None,
    };
    match found {
        Some(t) if comma == "," => Ok(Some((uri.clone(), t))),
        _ => Err(wrong()),
    }
}

/// The name of a `type` declaration, for the fields called `type_name`.
pub(super) fn new_type_name(program: &Program, ty: TypeId) -> Option<P4NamedType> {
    match program.types.get(ty) {
        Type::NewType { name, .. } => Some(P4NamedType { name: name.clone() }),
        _ => None,
    }
}

/// The width of a value as a controller sees it; 0 for a string.
///
/// # Errors
/// The type is not a scalar, or its translation is malformed.
pub(super) fn controller_width(program: &Program, ty: TypeId) -> Result<i32, P4InfoError> {
    if let Type::NewType { name, annotations, .. } = program.types.get(ty) {
        match translation(annotations).map_err(|e| e.at(format_args!("type {name}")))? {
            Some((_, Translation::Bits(w))) => return Ok(width_i32(w)?),
            Some((_, Translation::String)) => return Ok(0),
            None => {}
        }
    }
    let width = program.types.scalar_width(ty).ok_or(Flaw::NotScalar)?;
    Ok(width_i32(width)?)
}

fn width_i32(width: u32) -> Result<i32, Flaw> {
    i32::try_from(width).map_err(|_| Flaw::Width(width))
}

/// A value of type `ty` in P4Info: as long as controllers' values of this type can be, as p4c writes it. The specification
/// allows zeros in front.
pub(super) fn padded(program: &Program, ty: TypeId, value: &Bits) -> Result<Vec<u8>, P4InfoError> {
    let signed = matches!(program.types.repr_type(ty), Type::Int(_));
    let width =
        u32::try_from(controller_width(program, ty)?).unwrap_or(0).max(value.width()).div_ceil(8).max(1) * 8;
    Ok(if signed { value.sign_extend(width) } else { value.zero_extend(width) }.to_be_bytes())
}

fn named(name: &str) -> P4NamedType {
    P4NamedType { name: name.to_string() }
}

fn bit(width: u32) -> Result<pb::P4BitstringLikeTypeSpec, Flaw> {
    let spec = pb::P4BitTypeSpec { bitwidth: width_i32(width)? };
    Ok(bitstring_like(pb::p4_bitstring_like_type_spec::TypeSpec::Bit(spec)))
}

fn bitstring_like(spec: pb::p4_bitstring_like_type_spec::TypeSpec) -> pb::P4BitstringLikeTypeSpec {
    pb::P4BitstringLikeTypeSpec { type_spec: Some(spec), ..Default::default() }
}

/// Describes types, and collects the named ones that it meets.
pub(super) struct TypeTable<'a> {
    program: &'a Program,
    pub info: P4TypeInfo,
}

impl<'a> TypeTable<'a> {
    pub fn new(program: &'a Program) -> Self {
        TypeTable { program, info: P4TypeInfo::default() }
    }

    /// The description of `ty`.
    ///
    /// # Errors
    /// A type that has no values at run time.
    pub fn spec(&mut self, ty: TypeId) -> Result<P4DataTypeSpec, P4InfoError> {
        let program = self.program;
        let spec = match program.types.get(ty) {
            Type::Bool => TypeSpec::Bool(pb::P4BoolType {}),
            Type::Bit(_) | Type::Int(_) | Type::Varbit(_) => TypeSpec::Bitstring(self.bitstring(ty)?),
            Type::Error => {
                let members = program.errors.clone();
                self.info.error.get_or_insert(pb::P4ErrorTypeSpec { members });
                TypeSpec::Error(pb::P4ErrorType {})
            }
            Type::Enum(def) => {
                self.add_enum(def);
                TypeSpec::Enum(named(&def.name))
            }
            Type::SerEnum { name, repr, members } => {
                self.add_serializable_enum(name, *repr, members)?;
                TypeSpec::SerializableEnum(named(name))
            }
            Type::Struct(def) => {
                self.add_struct(def)?;
                TypeSpec::Struct(named(&def.name))
            }
            Type::Header(def) => {
                self.add_header(def)?;
                TypeSpec::Header(named(&def.name))
            }
            Type::HeaderUnion(def) => {
                self.add_header_union(def)?;
                TypeSpec::HeaderUnion(named(&def.name))
            }
            Type::Stack { elem, size } => {
                let size = width_i32(*size)?;
                match self.spec(*elem)?.type_spec {
                    Some(TypeSpec::Header(header)) => {
                        TypeSpec::HeaderStack(pb::P4HeaderStackTypeSpec { header: Some(header), size })
                    }
                    Some(TypeSpec::HeaderUnion(union)) => {
                        TypeSpec::HeaderUnionStack(pb::P4HeaderUnionStackTypeSpec {
                            header_union: Some(union),
                            size,
                        })
                    }
                    _ => return Err(Flaw::StackElement.into()),
                }
            }
            Type::Tuple(members) => {
                let members = members.iter().map(|m| self.spec(*m)).collect::<Result<_, _>>()?;
                TypeSpec::Tuple(pb::P4TupleTypeSpec { members })
            }
            Type::NewType { name, base, annotations } => {
                self.add_new_type(name, *base, annotations)?;
                TypeSpec::NewType(named(name))
            }
            Type::Void | Type::InfInt | Type::String | Type::List(_) => return Err(Flaw::NoValues.into()),
        };
        Ok(P4DataTypeSpec { type_spec: Some(spec) })
    }

    /// The description of `bit<W>`, `int<W>` or `varbit<W>`.
    fn bitstring(&self, ty: TypeId) -> Result<pb::P4BitstringLikeTypeSpec, Flaw> {
        use pb::p4_bitstring_like_type_spec::TypeSpec as Bitstring;
        Ok(match self.program.types.repr_type(ty) {
            Type::Bit(w) => bit(*w)?,
            // Headers may hold bool; P4Info has only bit strings there.
            Type::Bool => bit(1)?,
            Type::Int(w) => bitstring_like(Bitstring::Int(pb::P4IntTypeSpec { bitwidth: width_i32(*w)? })),
            Type::Varbit(w) => {
                bitstring_like(Bitstring::Varbit(pb::P4VarbitTypeSpec { max_bitwidth: width_i32(*w)? }))
            }
            _ => return Err(Flaw::NotBitString),
        })
    }

    fn add_struct(&mut self, def: &StructDef) -> Result<(), P4InfoError> {
        if self.info.structs.contains_key(&def.name) {
            return Ok(());
        }
        let mut members = Vec::new();
        for f in &def.fields {
            let type_spec = self.spec(f.ty).map_err(|e| e.at(format_args!("{}.{}", def.name, f.name)))?;
            members
                .push(pb::p4_struct_type_spec::Member { name: f.name.clone(), type_spec: Some(type_spec) });
        }
        self.info.structs.insert(def.name.clone(), pb::P4StructTypeSpec { members, ..Default::default() });
        Ok(())
    }

    fn add_header(&mut self, def: &StructDef) -> Result<(), P4InfoError> {
        if self.info.headers.contains_key(&def.name) {
            return Ok(());
        }
        let mut members = Vec::new();
        for (name, ty) in flat_fields(self.program, def) {
            let type_spec = self.bitstring(ty).map_err(|e| e.at(format_args!("{}.{name}", def.name)))?;
            members.push(pb::p4_header_type_spec::Member { name, type_spec: Some(type_spec) });
        }
        self.info.headers.insert(def.name.clone(), pb::P4HeaderTypeSpec { members, ..Default::default() });
        Ok(())
    }

    fn add_header_union(&mut self, def: &StructDef) -> Result<(), P4InfoError> {
        if self.info.header_unions.contains_key(&def.name) {
            return Ok(());
        }
        let mut members = Vec::new();
        for f in &def.fields {
            let Some(TypeSpec::Header(header)) = self.spec(f.ty)?.type_spec else {
                return Err(Flaw::NotHeader.at(format_args!("{}.{}", def.name, f.name)));
            };
            members
                .push(pb::p4_header_union_type_spec::Member { name: f.name.clone(), header: Some(header) });
        }
        let spec = pb::P4HeaderUnionTypeSpec { members, ..Default::default() };
        self.info.header_unions.insert(def.name.clone(), spec);
        Ok(())
    }

    fn add_enum(&mut self, def: &EnumDef) {
        self.info.enums.entry(def.name.clone()).or_insert_with(|| {
            let member =
                |name: &String| pb::p4_enum_type_spec::Member { name: name.clone(), ..Default::default() };
            pb::P4EnumTypeSpec { members: def.members.iter().map(member).collect(), ..Default::default() }
        });
    }

    fn add_serializable_enum(
        &mut self,
        name: &str,
        repr: TypeId,
        members: &[(String, Bits)],
    ) -> Result<(), P4InfoError> {
        if self.info.serializable_enums.contains_key(name) {
            return Ok(());
        }
        let width = self.program.types.scalar_width(repr).ok_or(Flaw::Representation)?;
        let member = |(name, value): &(String, Bits)| {
            let value = padded(self.program, repr, value)?;
            let name = name.clone();
            Ok::<_, P4InfoError>(pb::p4_serializable_enum_type_spec::Member {
                name,
                value,
                ..Default::default()
            })
        };
        let spec = pb::P4SerializableEnumTypeSpec {
            underlying_type: Some(pb::P4BitTypeSpec { bitwidth: width_i32(width)? }),
            members: members.iter().map(member).collect::<Result<_, _>>()?,
            ..Default::default()
        };
        self.info.serializable_enums.insert(name.to_string(), spec);
        Ok(())
    }

    fn add_new_type(&mut self, name: &str, base: TypeId, on: &Annotations) -> Result<(), P4InfoError> {
        use pb::p4_new_type_spec::Representation;
        use pb::p4_new_type_translation::{SdnString, SdnType};
        if self.info.new_types.contains_key(name) {
            return Ok(());
        }
        // The chain of new types ends at the type that the values have.
        let mut base = base;
        while let Type::NewType { base: next, .. } = self.program.types.get(base) {
            base = *next;
        }
        let representation = match translation(on).map_err(|e| e.at(format_args!("type {name}")))? {
            Some((uri, controller)) => {
                if !matches!(self.program.types.get(base), Type::Bit(_)) {
                    return Err(Flaw::TranslatedBase.at(format_args!("type {name}")));
                }
                let sdn_type = match controller {
                    Translation::Bits(w) => SdnType::SdnBitwidth(width_i32(w)?),
                    Translation::String => SdnType::SdnString(SdnString {}),
                };
                Representation::TranslatedType(pb::P4NewTypeTranslation { uri, sdn_type: Some(sdn_type) })
            }
            None => Representation::OriginalType(self.spec(base)?),
        };
        let sorted = annotations::sort(on, &["p4runtime_translation"])?;
        let spec = pb::P4NewTypeSpec {
            representation: Some(representation),
            annotations: sorted.text,
            structured_annotations: sorted.structured,
            ..Default::default()
        };
        self.info.new_types.insert(name.to_string(), spec);
        Ok(())
    }
}

/// The fields of a header, with those of structs inside it in their place, named by their path.
pub(crate) fn flat_fields(program: &Program, def: &StructDef) -> Vec<(String, TypeId)> {
    let mut flat = Vec::new();
    for f in &def.fields {
        match program.types.repr_type(f.ty) {
            Type::Struct(inner) => {
                let inside = flat_fields(program, inner);
                flat.extend(inside.into_iter().map(|(name, ty)| (format!("{}.{name}", f.name), ty)));
            }
            _ => flat.push((f.name.clone(), f.ty)),
        }
    }
    flat
}
