//! The types of a program, interned.

use crate::program::Annotations;
use std::collections::HashMap;

/// Names a type of one [`Types`] table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub u32);

/// A P4 type after instantiation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// No value: the result of a procedure.
    Void,
    /// `bool`.
    Bool,
    /// `bit<W>`; W may be 0.
    Bit(u32),
    /// `int<W>`.
    Int(u32),
    /// `varbit<W>`; W is the maximum.
    Varbit(u32),
    /// The compile-time integer `int`. Only in constants that are arguments of extern constructors or annotations.
    InfInt,
    /// `error`; values index [`Program::errors`](crate::Program::errors).
    Error,
    /// `string`. Only in constants.
    String,
    /// An enum without representation; values are ordinals.
    Enum(EnumDef),
    /// An enum with representation: values are [`Value::Bits`](crate::Value::Bits) of `repr`, members or not.
    SerEnum {
        /// Name as declared.
        name: String,
        /// `bit<W>` or `int<W>`.
        repr: TypeId,
        /// Member names and values in declaration order.
        members: Vec<(String, crate::Bits)>,
    },
    /// `struct`.
    Struct(StructDef),
    /// `header`.
    Header(StructDef),
    /// `header_union`; every field is a header.
    HeaderUnion(StructDef),
    /// Stack of headers (or header unions).
    Stack {
        /// Element type.
        elem: TypeId,
        /// Number of elements.
        size: u32,
    },
    /// `tuple<...>`.
    Tuple(Vec<TypeId>),
    /// `list<T>`. Only in constants.
    List(TypeId),
    /// `type T N`: a new type with the representation of `base`.
    NewType {
        /// Name as declared.
        name: String,
        /// The type that represents it.
        base: TypeId,
        /// Such as `@p4runtime_translation`.
        annotations: Annotations,
    },
}

/// An enum without representation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EnumDef {
    /// Name as declared.
    pub name: String,
    /// Member names in declaration order; the ordinal is the index.
    pub members: Vec<String>,
}

/// Fields of a struct, header or header union.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StructDef {
    /// Name as declared, with type arguments if it was generic (`pair<bit<8>,bool>`).
    pub name: String,
    /// In declaration order.
    pub fields: Vec<Field>,
    /// On the declaration, such as `@controller_header("packet_in")`.
    pub annotations: Annotations,
}

/// One field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    /// Name as declared.
    pub name: String,
    /// Its type.
    pub ty: TypeId,
    /// On the field, such as `@field_list(1)`.
    pub annotations: Annotations,
}

impl StructDef {
    /// Index of the field `name`.
    pub fn field(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|f| f.name == name)
    }
}

/// Every type of a program, each once.
#[derive(Clone, Debug, Default)]
pub struct Types {
    types: Vec<Type>,
    // Only for finding; never iterated.
    index: HashMap<Type, TypeId>,
}

impl Types {
    /// The id of `ty`, added if it is new.
    pub fn intern(&mut self, ty: Type) -> TypeId {
        if let Some(id) = self.index.get(&ty) {
            return *id;
        }
        let id = TypeId(self.types.len() as u32);
        self.types.push(ty.clone());
        self.index.insert(ty, id);
        id
    }

    /// The id of `ty` if the program has it.
    pub fn find(&self, ty: &Type) -> Option<TypeId> {
        self.index.get(ty).copied()
    }

    /// The type that `id` names. `id` must come from this table.
    #[inline]
    pub fn get(&self, id: TypeId) -> &Type {
        &self.types[id.0 as usize]
    }

    /// Whether `id` belongs to this table.
    pub fn contains(&self, id: TypeId) -> bool {
        (id.0 as usize) < self.types.len()
    }

    /// Number of types.
    pub fn len(&self) -> usize {
        self.types.len()
    }

    /// No types at all?
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// Every type in order of its id.
    pub fn iter(&self) -> impl Iterator<Item = (TypeId, &Type)> {
        self.types.iter().enumerate().map(|(i, t)| (TypeId(i as u32), t))
    }

    /// The type whose values represent `id` at run time: new types and enums with representation are looked through.
    #[inline]
    pub fn repr(&self, id: TypeId) -> TypeId {
        match self.get(id) {
            Type::NewType { base, .. } => self.repr(*base),
            Type::SerEnum { repr, .. } => self.repr(*repr),
            _ => id,
        }
    }

    /// [`Types::repr`], dereferenced.
    #[inline]
    pub fn repr_type(&self, id: TypeId) -> &Type {
        self.get(self.repr(id))
    }

    /// Width in bits of a scalar (bool counts 1, enum and error 32), `None` for anything else.
    pub fn scalar_width(&self, id: TypeId) -> Option<u32> {
        match self.repr_type(id) {
            Type::Bool => Some(1),
            Type::Bit(w) | Type::Int(w) => Some(*w),
            Type::Enum(_) | Type::Error => Some(32),
            _ => None,
        }
    }

    /// Struct, header or header union behind `id`.
    pub fn struct_def(&self, id: TypeId) -> Option<&StructDef> {
        match self.repr_type(id) {
            Type::Struct(d) | Type::Header(d) | Type::HeaderUnion(d) => Some(d),
            _ => None,
        }
    }

    /// Total width in bits of a header, struct or scalar whose width is fixed; the maximum for `varbit`.
    pub fn total_width(&self, id: TypeId) -> Option<u32> {
        match self.repr_type(id) {
            Type::Varbit(w) => Some(*w),
            Type::Struct(d) | Type::Header(d) => d.fields.iter().map(|f| self.total_width(f.ty)).sum(),
            Type::Tuple(ts) => ts.iter().map(|t| self.total_width(*t)).sum(),
            Type::Stack { elem, size } => self.total_width(*elem).map(|w| w * size),
            _ => self.scalar_width(id),
        }
    }
}
