//! Register arrays.

use pointsman_ir::{Bits, Type, TypeId, Types, Value};

/// The description of an array of registers. Its cells are in [`State`](crate::State).
#[derive(Clone, Debug)]
pub struct Register {
    /// Type of a cell: a scalar, or a struct, tuple or header of them.
    pub elem: TypeId,
    width: u32,
    len: u64,
}

impl Register {
    /// `len` cells of `width` bits.
    pub fn new(elem: TypeId, width: u32, len: u64) -> Self {
        Register { elem, width, len }
    }

    /// Width of a cell of type `ty`: its fields one after the other, a header with one bit before them that says whether
    /// it is valid. `None` if that is not fixed.
    pub fn cell_width(types: &Types, ty: TypeId) -> Option<u32> {
        let fields = |tys: &mut dyn Iterator<Item = TypeId>| {
            let widths: Option<Vec<u32>> = tys.map(|t| Register::cell_width(types, t)).collect();
            widths?.into_iter().try_fold(0, u32::checked_add)
        };
        match types.repr_type(ty) {
            Type::Struct(d) => fields(&mut d.fields.iter().map(|f| f.ty)),
            Type::Header(d) => fields(&mut d.fields.iter().map(|f| f.ty))?.checked_add(1),
            Type::Tuple(tys) => fields(&mut tys.iter().copied()),
            _ => types.scalar_width(ty),
        }
    }

    /// A value as the bits of a cell.
    pub fn pack(value: &Value) -> Bits {
        let all = |fields: &[Value], start: Bits| {
            fields.iter().fold(start, |bits, v| bits.concat(&Register::pack(v)))
        };
        match value {
            Value::Struct(fields) => all(fields, Bits::zero(0)),
            Value::Header { valid, fields } => all(fields, Bits::from(*valid)),
            _ => value.to_bits().unwrap_or_else(|| Bits::zero(0)),
        }
    }

    /// The value of type `ty` in the bits of a cell.
    pub fn unpack(types: &Types, ty: TypeId, bits: &Bits) -> Value {
        let fields = |tys: &mut dyn Iterator<Item = TypeId>, mut left: u32| -> Vec<Value> {
            let take = |ty| {
                let width = Register::cell_width(types, ty).unwrap_or(0).min(left);
                left -= width;
                let part = if width == 0 { Bits::zero(0) } else { bits.slice(left + width - 1, left) };
                Register::unpack(types, ty, &part)
            };
            tys.map(take).collect()
        };
        let width = bits.width();
        match types.repr_type(ty) {
            Type::Struct(d) => Value::Struct(fields(&mut d.fields.iter().map(|f| f.ty), width)),
            Type::Tuple(tys) => Value::Struct(fields(&mut tys.iter().copied(), width)),
            Type::Header(d) => Value::Header {
                valid: width > 0 && bits.bit(width - 1),
                fields: fields(&mut d.fields.iter().map(|f| f.ty), width.saturating_sub(1)),
            },
            _ => Value::from_bits(types, ty, bits).unwrap_or_else(|| Value::default_of(types, ty)),
        }
    }

    /// Width of a cell in bits.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Number of cells.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// No cells?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}
