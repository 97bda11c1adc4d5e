//! The memory layout of values.
//!
//! *Natural* form: scalars little-endian in 1, 2, 4, 8 or 16 bytes, wider ones as 64-bit limbs, the least significant
//! first; bits above the width are zero. Structs, unions and stacks are their parts one after the other.
//!
//! *Packed* form: the fields of a header, as in a packet: most significant bit first, without gaps. So
//! `extract` and `emit` are copies, and only fields that the program uses are ever shifted and masked. A varbit field
//! is separate, in natural form, because everything else would move with its width.
//!
//! All zero bytes are the default value of every type.

use pointsman_ir::{Spans, Type, TypeId, Types};

/// The kind of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Bool,
    Bits,
    Enum,
    Error,
    /// Index into the engine's list of strings.
    String,
}

/// A field of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderField {
    /// First bit of the packed data.
    Packed(u32),
    /// Byte offset of a varbit.
    Varbit(u32),
}

/// How a type is made up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// No values of it exist at run time.
    Nothing,
    Scalar(Scalar, u32),
    /// A `u64` with the current width, then limbs for the maximum.
    Varbit(u32),
    /// Struct or tuple: types and byte offsets.
    Struct(Vec<(TypeId, u32)>),
    Header(Header),
    /// Types and byte offsets.
    Union(Vec<(TypeId, u32)>),
    /// A `u32` with `nextIndex`, then the elements.
    Stack {
        elem: TypeId,
        size: u32,
        first: u32,
        stride: u32,
    },
}

/// A header: packed data, varbit fields, validity byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) fields: Vec<(TypeId, HeaderField)>,
    /// Bits of the packed data.
    pub(crate) bits: u32,
    /// Byte offset of the validity byte.
    pub(crate) valid: u32,
    /// Position of the (first) varbit among the packed bits, and its maximum.
    pub(crate) varbit: Option<(u32, u32)>,
}

impl Header {
    /// Bytes of the packed data.
    pub(crate) fn bytes(&self) -> u32 {
        self.bits.div_ceil(8)
    }

    /// Whole bytes before its only varbit, and where that is.
    pub(crate) fn loose(&self) -> Option<(u32, u32)> {
        let mut varbits = self.fields.iter().filter_map(|(_, field)| match field {
            HeaderField::Varbit(at) => Some(*at),
            HeaderField::Packed(_) => None,
        });
        match (varbits.next(), varbits.next(), self.varbit) {
            (Some(at), None, Some((bit, _))) if bit % 8 == 0 => Some((bit / 8, at)),
            _ => None,
        }
    }
}

/// A type's place in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Bytes in natural form, a multiple of `align`.
    pub(crate) size: u32,
    pub(crate) align: u32,
    pub(crate) shape: Shape,
    /// Registers that a variable of the type takes; `None` if it must be in memory.
    pub(crate) regs: Option<u32>,
    /// Bits in packed form; `None` if it has none.
    pub(crate) packed: Option<u32>,
}

/// More scalars than this stay in memory.
const MAX_REGS: u32 = 32;

/// Also numbers of more 64-bit limbs than this.
pub(crate) const MOST_LIMBS: usize = 8;

/// The layouts of a program's types.
#[derive(Debug)]
pub(crate) struct Layouts {
    by_type: Vec<Layout>,
}

/// Bytes of a scalar in natural form.
pub(crate) fn scalar_size(width: u32) -> u32 {
    match width {
        0 => 0,
        1..=8 => 1,
        9..=16 => 2,
        17..=32 => 4,
        33..=64 => 8,
        _ => width.div_ceil(64) * 8,
    }
}

impl Layouts {
    /// Lays out every type. Types come after their parts in the table.
    pub(crate) fn new(types: &Types) -> Self {
        let mut all = Layouts { by_type: Vec::with_capacity(types.len()) };
        for (id, _) in types.iter() {
            let repr = types.repr(id);
            let layout = match all.by_type.get(repr.0 as usize) {
                Some(same) if repr != id => same.clone(),
                _ => all.layout(types, types.repr_type(id)),
            };
            all.by_type.push(layout);
        }
        all
    }

    /// Bytes of the largest value.
    pub(crate) fn largest(&self) -> u32 {
        self.by_type.iter().map(|l| l.size).max().unwrap_or(0)
    }

    pub(crate) fn get(&self, ty: TypeId) -> &Layout {
        &self.by_type[ty.0 as usize]
    }

    fn layout(&self, types: &Types, ty: &Type) -> Layout {
        match ty {
            Type::Bool => scalar(Scalar::Bool, 1),
            Type::Bit(w) | Type::Int(w) => scalar(Scalar::Bits, *w),
            Type::Enum(_) => scalar(Scalar::Enum, 32),
            Type::Error => scalar(Scalar::Error, 32),
            Type::String => scalar(Scalar::String, 32),
            Type::Varbit(w) => Layout {
                size: 8 + w.div_ceil(64) * 8,
                align: 8,
                shape: Shape::Varbit(*w),
                regs: None,
                packed: None,
            },
            Type::Struct(d) => self.structure(d.fields.iter().map(|f| f.ty), Shape::Struct),
            Type::Tuple(t) => self.structure(t.iter().copied(), Shape::Struct),
            Type::HeaderUnion(d) => {
                let mut layout = self.structure(d.fields.iter().map(|f| f.ty), Shape::Union);
                (layout.regs, layout.packed) = (None, None);
                layout
            }
            Type::Header(d) => self.header(d.fields.iter().map(|f| f.ty)),
            Type::Stack { elem, size } => {
                let part = self.get(*elem);
                let (align, stride) = (part.align.max(4), part.size.next_multiple_of(part.align));
                let first = 4u32.next_multiple_of(align);
                Layout {
                    size: first.saturating_add(stride.saturating_mul(*size)).next_multiple_of(align),
                    align,
                    shape: Shape::Stack { elem: types.repr(*elem), size: *size, first, stride },
                    regs: None,
                    packed: None,
                }
            }
            Type::Void | Type::InfInt | Type::List(_) | Type::NewType { .. } | Type::SerEnum { .. } => {
                Layout { size: 0, align: 1, shape: Shape::Nothing, regs: Some(0), packed: None }
            }
        }
    }

    fn structure(
        &self,
        parts: impl Iterator<Item = TypeId>,
        shape: impl FnOnce(Vec<(TypeId, u32)>) -> Shape,
    ) -> Layout {
        let (mut at, mut align, mut fields) = (0u32, 1, Vec::new());
        let (mut regs, mut packed) = (Some(0u32), Some(0u32));
        for ty in parts {
            let part = self.get(ty);
            at = at.next_multiple_of(part.align);
            fields.push((ty, at));
            at = at.saturating_add(part.size);
            align = align.max(part.align);
            regs = regs.zip(part.regs).map(|(a, b)| a + b).filter(|n| *n <= MAX_REGS);
            packed = packed.zip(part.packed).map(|(a, b)| a + b);
        }
        Layout { size: at.next_multiple_of(align), align, shape: shape(fields), regs, packed }
    }

    fn header(&self, parts: impl Iterator<Item = TypeId>) -> Layout {
        let (mut bits, mut fields, mut varbits) = (0u32, Vec::new(), Vec::new());
        let (mut regs, mut varbit) = (Some(1u32), None);
        for ty in parts {
            let part = self.get(ty);
            match (&part.shape, part.packed) {
                (Shape::Varbit(most), _) => {
                    varbit.get_or_insert((bits, *most));
                    varbits.push((fields.len(), part.size));
                    fields.push((ty, HeaderField::Varbit(0)));
                    regs = None;
                }
                (_, Some(width)) => {
                    fields.push((ty, HeaderField::Packed(bits)));
                    bits += width;
                    regs = regs.zip(part.regs).map(|(a, b)| a + b).filter(|n| *n <= MAX_REGS);
                }
                // The verifier keeps such headers from having values.
                (_, None) => fields.push((ty, HeaderField::Packed(bits))),
            }
        }
        let mut at = bits.div_ceil(8);
        for (field, size) in varbits {
            at = at.next_multiple_of(8);
            fields[field].1 = HeaderField::Varbit(at);
            at += size;
        }
        let shape = Shape::Header(Header { fields, bits, valid: at, varbit });
        Layout { size: (at + 1).next_multiple_of(8), align: 8, shape, regs, packed: None }
    }

    /// The byte offsets of values one after the other, and their size together.
    pub(crate) fn area(&self, parts: impl Iterator<Item = TypeId>) -> (Vec<u32>, u32) {
        let mut at = 0u32;
        let offsets = parts
            .map(|ty| {
                let part = self.get(ty);
                let offset = at.next_multiple_of(part.align);
                at = offset + part.size;
                offset
            })
            .collect();
        (offsets, at.next_multiple_of(8))
    }

    /// Whether it has fields of variable length.
    pub(crate) fn is_loose(&self, ty: TypeId) -> bool {
        match &self.get(ty).shape {
            Shape::Struct(parts) | Shape::Union(parts) => parts.iter().any(|(ty, _)| self.is_loose(*ty)),
            Shape::Header(h) => h.varbit.is_some(),
            Shape::Stack { elem, .. } => self.is_loose(*elem),
            Shape::Varbit(_) => true,
            Shape::Scalar(..) | Shape::Nothing => false,
        }
    }

    /// Adds where a value at this byte is, without what fields of variable length do not use.
    pub(crate) fn add_spans(&self, ty: TypeId, at: usize, to: &mut Spans) {
        let layout = self.get(ty);
        let end = at + layout.size as usize;
        if !self.is_loose(ty) {
            return to.add(at..end);
        }
        match &layout.shape {
            Shape::Struct(parts) | Shape::Union(parts) => {
                let ends = parts.iter().skip(1).map(|(_, offset)| at + *offset as usize).chain([end]);
                for ((ty, offset), end) in parts.iter().zip(ends) {
                    let start = at + *offset as usize;
                    match self.is_loose(*ty) {
                        true => self.add_spans(*ty, start, to),
                        // With what fills up the next one's alignment: fewer pieces.
                        false => to.add(start..end.max(start)),
                    }
                }
            }
            Shape::Header(h) => {
                to.add(at..at + h.bytes() as usize);
                for (_, field) in &h.fields {
                    if let HeaderField::Varbit(offset) = field {
                        to.varbits.push(at + *offset as usize);
                    }
                }
                to.add(at + h.valid as usize..end);
            }
            Shape::Stack { elem, size, first, stride } => {
                to.add(at..at + 4);
                (0..*size).for_each(|i| self.add_spans(*elem, at + (first + i * stride) as usize, to));
            }
            Shape::Varbit(_) => to.varbits.push(at),
            Shape::Scalar(..) | Shape::Nothing => {}
        }
    }

    /// Width of a scalar; `None` for anything else.
    pub(crate) fn width(&self, ty: TypeId) -> Option<u32> {
        match self.get(ty).shape {
            Shape::Scalar(_, w) => Some(w),
            _ => None,
        }
    }

    /// Type of part `i` of a struct, tuple, header, union or stack.
    pub(crate) fn part(&self, ty: TypeId, i: u32) -> Option<TypeId> {
        match &self.get(ty).shape {
            Shape::Struct(f) | Shape::Union(f) => f.get(i as usize).map(|f| f.0),
            Shape::Header(h) => h.fields.get(i as usize).map(|f| f.0),
            Shape::Stack { elem, size, .. } => (i < *size).then_some(*elem),
            _ => None,
        }
    }
}

fn scalar(kind: Scalar, width: u32) -> Layout {
    let size = scalar_size(width);
    Layout {
        size,
        align: size.clamp(1, 8),
        shape: Shape::Scalar(kind, width),
        regs: match width.div_ceil(64) {
            0..=2 => Some(1),
            limbs => (limbs as usize <= MOST_LIMBS).then_some(limbs),
        },
        packed: matches!(kind, Scalar::Bool | Scalar::Bits).then_some(width),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_ir::{Annotations, Field, StructDef};

    fn header(types: &mut Types, parts: &[TypeId]) -> TypeId {
        let field = |(i, ty): (usize, &TypeId)| Field {
            name: format!("f{i}"),
            ty: *ty,
            annotations: Annotations::default(),
        };
        let fields = parts.iter().enumerate().map(field).collect();
        types.intern(Type::Header(StructDef {
            name: "h".into(),
            fields,
            annotations: Annotations::default(),
        }))
    }

    #[test]
    fn headers_are_packed_and_varbits_stand_apart() {
        let mut types = Types::default();
        let (b4, b9, b16) =
            (types.intern(Type::Bit(4)), types.intern(Type::Bit(9)), types.intern(Type::Bit(16)));
        let varbit = types.intern(Type::Varbit(70));
        let h = header(&mut types, &[b4, varbit, b16, b4]);
        let stack = types.intern(Type::Stack { elem: h, size: 3 });
        let pair = types.intern(Type::Tuple(vec![b4, b9, b4]));
        let layouts = Layouts::new(&types);
        let Shape::Header(header) = &layouts.get(h).shape else { panic!("no header") };
        assert_eq!((header.bits, header.bytes(), header.varbit), (24, 3, Some((4, 70))));
        let at: Vec<_> = header.fields.iter().map(|f| f.1).collect();
        use HeaderField::*;
        assert_eq!(at, [Packed(0), Varbit(8), Packed(4), Packed(20)]);
        assert_eq!((header.valid, layouts.get(h).size), (32, 40));
        assert_eq!(layouts.get(stack).size, 8 + 3 * 40);
        assert_eq!(layouts.get(pair).shape, Shape::Struct(vec![(b4, 0), (b9, 2), (b4, 4)]));
        assert_eq!(layouts.get(pair).regs, Some(3));
        assert_eq!(layouts.area([b4, b16].into_iter()), (vec![0, 2], 8));
    }
}
