//! Types and constants of the IR.

use super::Lower;
use crate::check::eval::Const;
use crate::check::tree::{Direction, StructKind};
use crate::check::types::{Kind, Ty};
use pointsman_ir::{self as ir, Bits, Span, Type, TypeId, Value};

impl Lower<'_> {
    /// `ty` with the type arguments of the function being lowered.
    pub fn concrete(&mut self, ty: Ty) -> Ty {
        if self.env.subst.0.is_empty() {
            return ty;
        }
        let (params, args) = self.env.subst.clone();
        self.tree.tys.subst(ty, &params, &args)
    }

    /// `ty` as the IR has it.
    pub fn ty(&mut self, ty: Ty) -> TypeId {
        let ty = self.concrete(ty);
        if let Some(id) = self.types.get(&ty) {
            return *id;
        }
        if let Some(problem) = self.tree.too_large(ty) {
            let message =
                format!("a generic function makes a type `{}`, which {problem}", self.tree.show(ty));
            self.error("P0506", self.span, message, "make it smaller");
            return self.program.types.intern(Type::Void);
        }
        let lowered = match self.tree.tys.get(ty).clone() {
            Kind::Bool => Type::Bool,
            Kind::Int => Type::InfInt,
            Kind::Bits { width, signed: false } => Type::Bit(width),
            Kind::Bits { width, signed: true } => Type::Int(width),
            Kind::Varbit(w) => Type::Varbit(w),
            Kind::String => Type::String,
            Kind::ErrorCode => Type::Error,
            Kind::Enum(d) => {
                let def = self.tree.enums[d].clone();
                match def.repr {
                    None => Type::Enum(ir::EnumDef {
                        name: def.name,
                        members: def.members.into_iter().map(|(n, _)| n).collect(),
                    }),
                    Some(repr) => Type::SerEnum {
                        name: def.name,
                        repr: self.ty(repr),
                        members: def.members.into_iter().filter_map(|(n, v)| Some((n, v?))).collect(),
                    },
                }
            }
            Kind::Struct(d, _) => {
                let name = self.tree.full_name(ty);
                let fields = self.tree.fields(ty).unwrap_or_default();
                let fields = fields
                    .into_iter()
                    .enumerate()
                    .map(|(i, (name, t))| ir::Field {
                        name,
                        ty: self.ty(t),
                        annotations: self.tree.structs[d].fields[i].annotations.clone(),
                    })
                    .collect();
                let def =
                    ir::StructDef { name, fields, annotations: self.tree.structs[d].annotations.clone() };
                match self.tree.structs[d].kind {
                    StructKind::Struct => Type::Struct(def),
                    StructKind::Header => Type::Header(def),
                    StructKind::HeaderUnion => Type::HeaderUnion(def),
                }
            }
            Kind::Stack(t, size) => Type::Stack { elem: self.ty(t), size },
            Kind::Tuple(ts) => Type::Tuple(ts.into_iter().map(|t| self.ty(t)).collect()),
            Kind::List(t) => Type::List(self.ty(t)),
            Kind::New(d) => {
                let def = self.tree.new_types[d].clone();
                Type::NewType { name: def.name, base: self.ty(def.base), annotations: def.annotations }
            }
            // Objects and errors have no values.
            _ => Type::Void,
        };
        let id = self.program.types.intern(lowered);
        self.types.insert(ty, id);
        id
    }

    /// The bit string type.
    pub fn bit_type(&mut self, width: u32) -> TypeId {
        self.program.types.intern(Type::Bit(width))
    }

    /// The boolean type.
    pub fn bool_type(&mut self) -> TypeId {
        self.program.types.intern(Type::Bool)
    }

    /// A constant of type `ty` as a value; reports those that exist only at compile time.
    pub fn const_value(&mut self, c: &Const, ty: Ty, span: Span) -> Option<Value> {
        let ty = self.concrete(ty);
        Some(match c {
            Const::Bool(b) => Value::Bool(*b),
            Const::Bits(b) => Value::Bits(b.clone()),
            Const::Str(s) => Value::String(s.as_str().into()),
            Const::Enum(n) => {
                // Architectures find the member's name by the type, so it must be in the program.
                self.ty(ty);
                Value::Enum(*n)
            }
            Const::Error(n) => Value::Error(*n),
            Const::Tuple(cs) if matches!(self.tree.tys.get(ty), Kind::Stack(..)) => {
                Value::Stack { next: 0, elems: self.const_values(cs, ty, span)? }
            }
            Const::Tuple(cs) => Value::Struct(self.const_values(cs, ty, span)?),
            Const::Header(cs) => Value::Header { valid: true, fields: self.const_values(cs, ty, span)? },
            Const::Int(_) | Const::MatchKind(_) => {
                let what = format!("a value of type `{}` at run time", self.tree.show(ty));
                self.unsupported(span, &what, "give it a width, as in `32w5`");
                return None;
            }
        })
    }

    fn const_values(&mut self, cs: &[Const], ty: Ty, span: Span) -> Option<Vec<Value>> {
        let tys: Vec<Ty> = match self.tree.tys.get(ty).clone() {
            Kind::Tuple(ts) => ts,
            Kind::Stack(t, n) => vec![t; n as usize],
            Kind::Struct(..) => self.tree.fields(ty)?.into_iter().map(|(_, t)| t).collect(),
            _ => {
                let what = format!("a constant of type `{}` at run time", self.tree.show(ty));
                self.unsupported(span, &what, "use a struct or a tuple");
                return None;
            }
        };
        cs.iter().zip(tys).map(|(c, t)| self.const_value(c, t, span)).collect()
    }

    /// A constant as an argument of a constructor.
    pub fn ctor_const(&mut self, c: &Const, ty: Ty, span: Span) -> Option<ir::Const> {
        match (c, self.tree.tys.get(ty).clone()) {
            (Const::Int(i), _) => Some(ir::Const::Int(i.clone())),
            (Const::Tuple(cs), Kind::List(t)) => {
                cs.iter().map(|c| self.ctor_const(c, t, span)).collect::<Option<_>>().map(ir::Const::List)
            }
            (Const::Tuple(cs), Kind::Tuple(ts)) => {
                let items = cs.iter().zip(ts).map(|(c, t)| self.ctor_const(c, t, span));
                items.collect::<Option<_>>().map(ir::Const::List)
            }
            (Const::MatchKind(k), _) => {
                let name = self.tree.match_kinds.get(*k as usize).cloned().unwrap_or_default();
                Some(ir::Const::Value(Value::String(name.into())))
            }
            _ => {
                // The names of an enum's members are found by its type, so the program must have it.
                self.ty(ty);
                self.const_value(c, ty, span).map(ir::Const::Value)
            }
        }
    }

    /// A scalar constant as bits, to be matched against keys of that type.
    pub fn const_bits(&mut self, c: &Const, ty: Ty, span: Span) -> Option<Bits> {
        self.const_value(c, ty, span)?.to_bits()
    }

    /// The default value of a type.
    pub fn default_value(&mut self, ty: TypeId) -> Value {
        Value::default_of(&self.program.types, ty)
    }
}

/// The direction as the IR has it.
pub fn direction(d: Direction) -> ir::Direction {
    match d {
        Direction::None => ir::Direction::None,
        Direction::In => ir::Direction::In,
        Direction::Out => ir::Direction::Out,
        Direction::InOut => ir::Direction::InOut,
    }
}
