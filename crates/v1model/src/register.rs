//! Register arrays.

use pointsman_ir::{Bits, Type, TypeId, Types, Value};

/// The cells, as compact as the width allows.
#[derive(Clone, Debug)]
enum Cells {
    Narrow(Vec<u64>),
    Wide(Vec<u128>),
    Any(Vec<Bits>),
}

/// An array of equal cells.
#[derive(Clone, Debug)]
pub struct Register {
    /// Type of a cell: a scalar, or a struct, tuple or header of them.
    pub elem: TypeId,
    width: u32,
    cells: Cells,
    /// Reads and writes by packets whose index was out of range.
    pub out_of_range: u64,
}

impl Register {
    /// `size` cells of `width` bits, all zero.
    pub fn new(elem: TypeId, width: u32, size: usize) -> Self {
        let cells = match width {
            0..=64 => Cells::Narrow(vec![0; size]),
            65..=128 => Cells::Wide(vec![0; size]),
            _ => Cells::Any(vec![Bits::zero(width); size]),
        };
        Register { elem, width, cells, out_of_range: 0 }
    }

    /// Memory that an array takes, in bytes.
    pub fn bytes(width: u32, size: u64) -> u64 {
        let cell = match width {
            0..=64 => 8,
            65..=128 => 16,
            _ => 64 + u64::from(width.div_ceil(8)),
        };
        cell * size
    }

    /// Width of a cell of type `ty`: its fields one after the other, a header with one bit before them that says whether
    /// it is valid. `None` where that is not fixed.
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
    pub fn len(&self) -> usize {
        match &self.cells {
            Cells::Narrow(c) => c.len(),
            Cells::Wide(c) => c.len(),
            Cells::Any(c) => c.len(),
        }
    }

    /// No cells?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Cell `index`, if there is one.
    pub fn get(&self, index: u64) -> Option<Bits> {
        let i = usize::try_from(index).ok()?;
        match &self.cells {
            Cells::Narrow(c) => c.get(i).map(|v| Bits::new(self.width, u128::from(*v))),
            Cells::Wide(c) => c.get(i).map(|v| Bits::new(self.width, *v)),
            Cells::Any(c) => c.get(i).cloned(),
        }
    }

    /// Sets cell `index`, truncating or zero-extending `value`. False if there is no such cell.
    pub fn set(&mut self, index: u64, value: &Bits) -> bool {
        let Ok(i) = usize::try_from(index) else { return false };
        if i >= self.len() {
            return false;
        }
        let value = if value.width() == self.width { value.clone() } else { value.zero_extend(self.width) };
        match &mut self.cells {
            Cells::Narrow(c) => c[i] = value.low_u64(),
            Cells::Wide(c) => c[i] = value.to_u128().unwrap_or(0),
            Cells::Any(c) => c[i] = value,
        }
        true
    }

    /// Cell `index` as its low and high half. `None` if there is no such cell, or it is wider than that.
    pub(crate) fn words(&self, index: u64) -> Option<[u64; 2]> {
        let i = usize::try_from(index).ok()?;
        match &self.cells {
            Cells::Narrow(c) => c.get(i).map(|v| [*v, 0]),
            Cells::Wide(c) => c.get(i).map(|v| [*v as u64, (*v >> 64) as u64]),
            Cells::Any(_) => None,
        }
    }

    /// Sets cell `index` from its low and high half, truncated. False if there is no such cell, or it is wider.
    pub(crate) fn set_words(&mut self, index: u64, [low, high]: [u64; 2]) -> bool {
        let Ok(i) = usize::try_from(index) else { return false };
        match &mut self.cells {
            Cells::Narrow(c) => c.get_mut(i).map(|v| *v = low & (u64::MAX >> (64 - self.width.clamp(1, 64)))),
            Cells::Wide(c) => c.get_mut(i).map(|v| {
                *v = (u128::from(high) << 64 | u128::from(low)) & (u128::MAX >> (128 - self.width));
            }),
            Cells::Any(_) => None,
        }
        .is_some()
    }

    /// Every cell in order.
    pub fn iter(&self) -> impl Iterator<Item = Bits> + '_ {
        (0..self.len() as u64).map_while(|i| self.get(i))
    }

    /// Sets every cell to zero.
    pub fn clear(&mut self) {
        match &mut self.cells {
            Cells::Narrow(c) => c.fill(0),
            Cells::Wide(c) => c.fill(0),
            Cells::Any(c) => c.fill(Bits::zero(self.width)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width() {
        for width in [1, 17, 64, 65, 128, 129, 300] {
            let mut r = Register::new(TypeId(0), width, 3);
            assert!(r.set(2, &Bits::ones(width)));
            assert!(!r.set(3, &Bits::ones(width)));
            assert!(!r.set(u64::MAX, &Bits::ones(width)));
            assert_eq!(r.get(2), Some(Bits::ones(width)));
            assert_eq!(r.get(0), Some(Bits::zero(width)));
            assert_eq!(r.get(3), None);
            r.set(0, &Bits::ones(width + 5));
            assert_eq!(r.get(0), Some(Bits::ones(width)));
            assert_eq!(r.iter().count(), 3);
            r.clear();
            assert!(r.iter().all(|b| b.is_zero()));
        }
    }
}
