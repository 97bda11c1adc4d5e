//! The type table.

use super::{MAX_LEAVES, MAX_TOTAL_WIDTH, MAX_TYPE_DEPTH, MAX_WIDTH, Report};
use crate::types::{Type, TypeId, Types};
use crate::value::Value;

/// The facts about each type.
pub(crate) struct Known {
    facts: Vec<Facts>,
}

struct Facts {
    /// Scalars in a value.
    leaves: u64,
    /// Bits in a value.
    bits: u64,
    depth: u32,
    /// The reason why no value of it can exist at run time.
    flaw: Option<String>,
}

impl Known {
    /// Scalars in a value of `ty`, which is of the table.
    pub(crate) fn leaves(&self, ty: TypeId) -> u64 {
        self.facts[ty.0 as usize].leaves
    }

    /// Why an expression cannot have this type, which may be out of range.
    pub(crate) fn why_not_value(&self, ty: TypeId) -> Option<String> {
        match self.facts.get(ty.0 as usize) {
            None => Some(format!("there is no type {}", ty.0)),
            Some(facts) => facts.flaw.clone(),
        }
    }

    /// Why a variable cannot have this type.
    pub(crate) fn why_not_variable(&self, types: &Types, ty: TypeId) -> Option<String> {
        self.why_not_value(ty).or_else(|| {
            matches!(types.repr_type(ty), Type::String).then(|| "strings are constants only".to_string())
        })
    }
}

/// `None`: ids are wrong, so that nothing else can be looked at.
///
/// Types that only constants have (`int`, `list<T>` ...) may be in the table and even in each other; [`Known`] says
/// which types can be of run-time values.
pub(crate) fn check(report: &mut Report<'_>) -> Option<Known> {
    let types = report.types();
    let before = report.messages.len();
    for (id, ty) in types.iter() {
        // A type is interned after its parts. This also keeps types from containing themselves.
        if parts(ty).iter().any(|part| part.0 >= id.0) {
            report.add(&format!("type {}", id.0), "it uses a type that is not declared before it");
        }
    }
    if report.messages.len() > before {
        return None;
    }
    let mut known = Known { facts: Vec::with_capacity(types.len()) };
    for (id, ty) in types.iter() {
        let facts = facts(types, &known, ty);
        if let Some(wrong) = wrong(types, ty, &facts) {
            report.add(&format!("type {} ({})", id.0, report.name(id)), wrong);
            // Later types look at this one: stop before sizes explode.
            return None;
        }
        known.facts.push(facts);
    }
    Some(known)
}

/// The reason why executors cannot have the type at all.
fn wrong(types: &Types, ty: &Type, facts: &Facts) -> Option<String> {
    if facts.leaves > MAX_LEAVES {
        return Some(format!("it holds {} values, more than {MAX_LEAVES}", facts.leaves));
    }
    if facts.depth > MAX_TYPE_DEPTH {
        return Some(format!("it is nested deeper than {MAX_TYPE_DEPTH}"));
    }
    match ty {
        Type::Bit(w) | Type::Int(w) | Type::Varbit(w) if *w > MAX_WIDTH => {
            return Some(format!("it is wider than {MAX_WIDTH} bits"));
        }
        Type::SerEnum { repr, members, .. } => match types.repr_type(*repr) {
            Type::Bit(w) | Type::Int(w) => {
                if let Some((name, _)) = members.iter().find(|(_, v)| v.width() != *w) {
                    return Some(format!("its member {name} is not {w} bits wide"));
                }
            }
            _ => return Some("only bit<W> and int<W> can represent an enum".into()),
        },
        _ => {}
    }
    (facts.bits > MAX_TOTAL_WIDTH)
        .then(|| format!("it holds {} bits, more than {MAX_TOTAL_WIDTH}", facts.bits))
}

fn parts(ty: &Type) -> Vec<TypeId> {
    match ty {
        Type::SerEnum { repr, .. } => vec![*repr],
        Type::Struct(d) | Type::Header(d) | Type::HeaderUnion(d) => d.fields.iter().map(|f| f.ty).collect(),
        Type::Stack { elem, .. } | Type::List(elem) => vec![*elem],
        Type::Tuple(parts) => parts.clone(),
        Type::NewType { base, .. } => vec![*base],
        _ => Vec::new(),
    }
}

fn facts(types: &Types, known: &Known, ty: &Type) -> Facts {
    let parts = parts(ty);
    let of = |id: &TypeId| &known.facts[id.0 as usize];
    let sum = parts.iter().map(|p| of(p).leaves).sum::<u64>();
    let leaves = match ty {
        Type::Stack { size, .. } => 1 + sum.saturating_mul(u64::from(*size)),
        _ => 1 + sum,
    };
    let inner = parts.iter().map(|p| of(p).bits).sum::<u64>();
    let bits = match ty {
        Type::Stack { size, .. } => inner.saturating_mul(u64::from(*size)),
        Type::Bit(w) | Type::Int(w) | Type::Varbit(w) => u64::from(*w),
        Type::Enum(_) | Type::Error => 32,
        Type::Bool => 1,
        _ => inner,
    };
    let depth = 1 + parts.iter().map(|p| of(p).depth).max().unwrap_or(0);
    let wrong_part = |right: &dyn Fn(&Type) -> bool| parts.iter().any(|p| !right(types.repr_type(*p)));
    let flaw = match ty {
        Type::Void => Some("it has no values".to_string()),
        Type::InfInt | Type::List(_) => Some("it exists only at compile time".to_string()),
        Type::Header(_) if wrong_part(&|t| in_header(types, t)) => {
            Some("a field of the header has no representation in packets".to_string())
        }
        Type::HeaderUnion(_) if wrong_part(&|t| matches!(t, Type::Header(_))) => {
            Some("a field of the header union is not a header".to_string())
        }
        Type::Stack { .. } if wrong_part(&|t| !matches!(t, Type::Tuple(_) | Type::String)) => {
            Some("its elements are of a type that arrays cannot have".to_string())
        }
        _ => parts.iter().find_map(|p| of(p).flaw.clone()),
    };
    Facts { leaves, bits, depth, flaw }
}

/// Whether it may be a field of a header (P4_16 section 7.2.8).
fn in_header(types: &Types, ty: &Type) -> bool {
    matches!(ty, Type::Varbit(_)) || packable(types, ty)
}

/// Has it a fixed form in packets: scalars without enums that have no representation, structs, tuples, headers.
fn packable(types: &Types, ty: &Type) -> bool {
    let one = |p: TypeId| packable(types, types.repr_type(p));
    match ty {
        Type::Bool | Type::Bit(_) | Type::Int(_) => true,
        Type::Struct(d) => d.fields.iter().all(|f| one(f.ty)),
        Type::Tuple(t) => t.iter().all(|t| one(*t)),
        Type::Stack { elem, .. } => one(*elem),
        _ => false,
    }
}

/// An array of headers or header unions, which has `next`, `push_front` and so on.
pub(crate) fn is_header_stack(types: &Types, ty: &Type) -> bool {
    let Type::Stack { elem, .. } = ty else { return false };
    matches!(types.repr_type(*elem), Type::Header(_) | Type::HeaderUnion(_))
}

/// Whether `lookahead` can read it.
pub(crate) fn readable(types: &Types, ty: TypeId) -> bool {
    let all = |d: &crate::StructDef| d.fields.iter().all(|f| readable(types, f.ty));
    match types.repr_type(ty) {
        Type::Header(d) | Type::Struct(d) => all(d),
        Type::Tuple(t) => t.iter().all(|t| readable(types, *t)),
        Type::Stack { elem, .. } => readable(types, *elem),
        other => packable(types, other),
    }
}

/// Whether `emit` can write it (P4_16 section 16.1).
pub(crate) fn emittable(types: &Types, ty: TypeId) -> bool {
    match types.repr_type(ty) {
        Type::Header(_) | Type::HeaderUnion(_) => true,
        Type::Stack { elem, .. } => emittable(types, *elem),
        Type::Struct(d) => d.fields.iter().all(|f| emittable(types, f.ty)),
        _ => false,
    }
}

/// Varbit fields of a header.
pub(crate) fn varbits(types: &Types, ty: TypeId) -> usize {
    match types.struct_def(ty) {
        Some(d) => d.fields.iter().filter(|f| matches!(types.repr_type(f.ty), Type::Varbit(_))).count(),
        None => 0,
    }
}

/// Whether `value` has type `ty`. `errors`: how many errors the program has.
pub(crate) fn fits(types: &Types, errors: usize, ty: TypeId, value: &Value) -> bool {
    let all = |tys: &mut dyn ExactSizeIterator<Item = TypeId>, values: &[Value]| {
        tys.len() == values.len() && tys.zip(values).all(|(t, v)| fits(types, errors, t, v))
    };
    match (types.repr_type(ty), value) {
        (Type::Bool, Value::Bool(_)) | (Type::String, Value::String(_)) => true,
        (Type::Bit(w) | Type::Int(w), Value::Bits(b)) => b.width() == *w,
        (Type::Varbit(w), Value::Varbit(b)) => b.width() <= *w,
        (Type::Error, Value::Error(n)) => (*n as usize) < errors,
        (Type::Enum(d), Value::Enum(n)) => (*n as usize) < d.members.len(),
        (Type::Struct(d), Value::Struct(v))
        | (Type::Header(d), Value::Header { fields: v, .. })
        | (Type::HeaderUnion(d), Value::Union(v)) => all(&mut d.fields.iter().map(|f| f.ty), v),
        (Type::Tuple(t), Value::Struct(v)) => all(&mut t.iter().copied(), v),
        (Type::Stack { elem, size }, Value::Stack { next, elems }) => {
            next <= size
                && elems.len() == *size as usize
                && elems.iter().all(|v| fits(types, errors, *elem, v))
        }
        _ => false,
    }
}
