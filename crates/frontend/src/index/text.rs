//! Declarations in short, as P4 source, and values.

use crate::check::eval::{Const, to_int};
use crate::check::tree::{Direction, Param, Sig, StructKind, Tree};
use crate::check::types::{Kind, Ty};

/// Elements of lists after which the rest is left out.
const MAX_ELEMENTS: usize = 8;

/// The keyword of a direction, with a space behind it.
pub fn direction(d: Direction) -> &'static str {
    match d {
        Direction::None => "",
        Direction::In => "in ",
        Direction::Out => "out ",
        Direction::InOut => "inout ",
    }
}

/// The keyword of a kind of structure.
pub fn structure(kind: StructKind) -> &'static str {
    match kind {
        StructKind::Struct => "struct",
        StructKind::Header => "header",
        StructKind::HeaderUnion => "header_union",
    }
}

/// One parameter.
pub fn param(tree: &Tree, p: &Param) -> String {
    let optional = if p.optional { "@optional " } else { "" };
    format!("{optional}{}{} {}", direction(p.direction), tree.show(p.ty), p.name)
}

/// `(in T a, out U b)`
pub fn params(tree: &Tree, list: &[Param]) -> String {
    let all: Vec<String> = list.iter().map(|p| param(tree, p)).collect();
    format!("({})", all.join(", "))
}

/// `<T, U>`, or nothing.
pub fn type_params(tree: &Tree, list: &[Ty]) -> String {
    if list.is_empty() {
        return String::new();
    }
    let all: Vec<String> = list.iter().map(|t| tree.show(*t)).collect();
    format!("<{}>", all.join(", "))
}

/// `R name<T>(in T a)`; with `result` false without `R`.
pub fn signature(tree: &Tree, sig: &Sig, result: bool) -> String {
    let returns = if result { format!("{} ", tree.show(sig.returns)) } else { String::new() };
    let (types, params) = (type_params(tree, &sig.type_params), params(tree, &sig.params));
    format!("{returns}{}{types}{params}", sig.name)
}

/// A value as P4 source; integers also in hexadecimal. `None` if it is too long to show.
pub fn value(tree: &Tree, c: &Const, ty: Ty) -> Option<String> {
    let number = |i: &num_bigint::BigInt, bits: u64| {
        (bits <= 512).then(|| match i.sign() {
            num_bigint::Sign::Plus if i.magnitude().bits() > 3 => format!("{i} (0x{i:x})"),
            _ => i.to_string(),
        })
    };
    Some(match c {
        Const::Bool(b) => b.to_string(),
        Const::Int(i) => number(i, i.bits())?,
        Const::Bits(b) => {
            let signed = tree.tys.bits(tree.repr(ty)).is_some_and(|(_, s)| s);
            number(&to_int(b, signed), u64::from(b.width()))?
        }
        Const::Str(s) if s.len() <= 200 => format!("{s:?}"),
        Const::Str(_) => return None,
        Const::Enum(i) => match tree.tys.get(ty) {
            Kind::Enum(d) => tree.enums[*d].members.get(*i as usize)?.0.clone(),
            _ => return None,
        },
        Const::Error(i) => format!("error.{}", tree.errors.get(*i as usize)?),
        Const::MatchKind(i) => tree.match_kinds.get(*i as usize)?.clone(),
        Const::Tuple(all) | Const::Header(all) if all.len() > MAX_ELEMENTS => return None,
        Const::Tuple(all) | Const::Header(all) => {
            let tys: Vec<Ty> = match tree.tys.get(ty) {
                Kind::Tuple(ts) => ts.clone(),
                Kind::List(t) | Kind::Stack(t, _) => vec![*t; all.len()],
                _ => return None,
            };
            let shown: Option<Vec<String>> = all.iter().zip(tys).map(|(c, t)| value(tree, c, t)).collect();
            format!("{{ {} }}", shown?.join(", "))
        }
    })
}
