//! How large types are, and how they are written.

use super::tree::{StructKind, Tree};
use super::types::{Kind, Ty};
use pointsman_ir::verify;

/// How large the values of a type are.
#[derive(Clone, Copy)]
pub struct Size {
    /// Values in it, itself included.
    leaves: u64,
    bits: u64,
    depth: u32,
}

/// Types in messages are cut off here.
const MAX_SHOWN: usize = 160;

impl Tree {
    /// `ty` as a person would write it, shortened if it is very long.
    pub fn show(&self, ty: Ty) -> String {
        let mut out = String::new();
        self.write(ty, MAX_SHOWN, &mut out);
        if out.len() > MAX_SHOWN {
            let end = (0..=MAX_SHOWN).rev().find(|i| out.is_char_boundary(*i)).unwrap_or(0);
            out.truncate(end);
            out.push_str("...");
        }
        out
    }

    /// `ty` in full.
    pub fn full_name(&self, ty: Ty) -> String {
        let mut out = String::new();
        self.write(ty, usize::MAX, &mut out);
        out
    }

    /// Appends `ty`; stops somewhere beyond `limit`.
    fn write(&self, ty: Ty, limit: usize, out: &mut String) {
        if out.len() > limit {
            return;
        }
        let named = |name: &str, ts: &[Ty], out: &mut String| {
            out.push_str(name);
            if !ts.is_empty() {
                self.write_all("<", ts, ">", limit, out);
            }
        };
        match self.tys.get(ty) {
            Kind::Error => out.push_str("<unknown>"),
            Kind::Void => out.push_str("void"),
            Kind::Bool => out.push_str("bool"),
            Kind::Int => out.push_str("int"),
            Kind::Bits { width, signed } => {
                out.push_str(&format!("{}<{width}>", if *signed { "int" } else { "bit" }));
            }
            Kind::Varbit(w) => out.push_str(&format!("varbit<{w}>")),
            Kind::String => out.push_str("string"),
            Kind::ErrorCode => out.push_str("error"),
            Kind::MatchKind => out.push_str("match_kind"),
            Kind::Enum(d) => out.push_str(&self.enums[*d].name),
            Kind::Struct(d, ts) => named(&self.structs[*d].name, ts, out),
            Kind::Stack(t, n) => {
                self.write(*t, limit, out);
                out.push_str(&format!("[{n}]"));
            }
            Kind::Tuple(ts) => self.write_all("tuple<", ts, ">", limit, out),
            Kind::OpenTuple(ts) if ts.is_empty() => out.push_str("{...}"),
            Kind::OpenTuple(ts) => self.write_all("{", ts, ", ...}", limit, out),
            Kind::List(t) => self.write_all("list<", &[*t], ">", limit, out),
            Kind::New(d) => out.push_str(&self.new_types[*d].name),
            Kind::Extern(d, ts) => named(&self.externs[*d].name, ts, out),
            Kind::Block(d, ts) => named(&self.blocks[*d].name, ts, out),
            Kind::Package(d, ts) => named(&self.packages[*d].name, ts, out),
            Kind::Param(d) => out.push_str(&self.type_params[*d].name),
            Kind::Infer(_) => out.push('_'),
            Kind::Record(fields, rest) => {
                out.push('{');
                for (i, (name, t)) in fields.iter().enumerate() {
                    out.push_str(if i == 0 { "" } else { ", " });
                    out.push_str(&format!("{name} = "));
                    self.write(*t, limit, out);
                }
                out.push_str(if *rest { ", ...}" } else { "}" });
            }
            Kind::Invalid => out.push_str("{#}"),
            Kind::Dots => out.push_str("..."),
            Kind::Applied(_) => out.push_str("the result of apply()"),
        }
    }

    fn write_all(&self, before: &str, ts: &[Ty], after: &str, limit: usize, out: &mut String) {
        out.push_str(before);
        for (i, t) in ts.iter().enumerate() {
            out.push_str(if i == 0 { "" } else { ", " });
            self.write(*t, limit, out);
        }
        out.push_str(after);
    }

    /// `minSizeInBits` and `maxSizeInBits` (P4_16 chapter 9); `None` if they are not defined.
    pub fn size_in_bits(&mut self, ty: Ty, max: bool) -> Option<u64> {
        match self.tys.get(ty).clone() {
            Kind::Bool => Some(1),
            Kind::Bits { width, .. } => Some(u64::from(width)),
            Kind::Varbit(w) => Some(if max { u64::from(w) } else { 0 }),
            Kind::Enum(_) => self.enum_repr(ty).and_then(|r| self.size_in_bits(r, max)),
            Kind::New(d) => self.size_in_bits(self.new_types[d].base, max),
            Kind::Stack(t, n) => self.size_in_bits(t, max)?.checked_mul(u64::from(n)),
            Kind::Tuple(ts) => {
                ts.into_iter().try_fold(0u64, |sum, t| sum.checked_add(self.size_in_bits(t, max)?))
            }
            Kind::Struct(d, _) => {
                let union = self.structs[d].kind == StructKind::HeaderUnion;
                let mut total = 0u64;
                for (_, t) in self.fields(ty)? {
                    let n = self.size_in_bits(t, max)?;
                    total = if union { total.max(n) } else { total.checked_add(n)? };
                }
                Some(total)
            }
            _ => None,
        }
    }

    /// The part of a type that is too large for every executor, if any.
    pub fn too_large(&mut self, ty: Ty) -> Option<String> {
        let size = self.size(ty);
        if size.leaves > verify::MAX_LEAVES {
            Some(format!("holds more than {} values", verify::MAX_LEAVES))
        } else if size.bits > verify::MAX_TOTAL_WIDTH {
            Some(format!("holds more than {} bits", verify::MAX_TOTAL_WIDTH))
        } else if size.depth > verify::MAX_TYPE_DEPTH {
            Some(format!("is nested deeper than {} levels", verify::MAX_TYPE_DEPTH))
        } else {
            None
        }
    }

    /// Parts were asked for before: their sizes are known.
    fn size(&mut self, ty: Ty) -> Size {
        if let Some(s) = self.sizes.get(&ty) {
            return *s;
        }
        let parts: Vec<Ty> = match self.tys.get(ty).clone() {
            Kind::Stack(t, _) | Kind::List(t) => vec![t],
            Kind::Tuple(ts) => ts,
            Kind::Struct(..) => self.fields(ty).unwrap_or_default().into_iter().map(|(_, t)| t).collect(),
            Kind::New(d) => vec![self.new_types[d].base],
            _ => Vec::new(),
        };
        let mut total = Size { leaves: 1, bits: 0, depth: 1 };
        for p in parts {
            let s = self.size(p);
            total.leaves = total.leaves.saturating_add(s.leaves);
            total.bits = total.bits.saturating_add(s.bits);
            total.depth = total.depth.max(s.depth + 1);
        }
        match self.tys.get(ty) {
            Kind::Stack(_, n) => {
                total.leaves = (total.leaves - 1).saturating_mul(u64::from(*n)).saturating_add(1);
                total.bits = total.bits.saturating_mul(u64::from(*n));
            }
            Kind::Bits { width, .. } | Kind::Varbit(width) => total.bits = u64::from(*width),
            Kind::Enum(_) | Kind::ErrorCode => total.bits = 32,
            _ => {}
        }
        self.sizes.insert(ty, total);
        total
    }
}
