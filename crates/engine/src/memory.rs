//! Values in memory, as Rust reads and writes them. Everything here is bounds-checked.

use crate::layout::{Header, HeaderField, Layouts, Scalar, Shape};
use num_bigint::BigUint;
use pointsman_ir::{Bits, TypeId, Value};
use std::sync::Arc;

/// The bytes of 64-bit words.
#[allow(unsafe_code)]
pub(crate) fn bytes(words: &[u64]) -> &[u8] {
    // SAFETY: any byte of a `u64` may be read, the length is that of the words, and `u8` has no alignment.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), words.len() * 8) }
}

/// The bytes of 64-bit words, to change them.
#[allow(unsafe_code)]
pub(crate) fn bytes_mut(words: &mut [u64]) -> &mut [u8] {
    // SAFETY: as above; every pattern of bytes is a `u64`.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), words.len() * 8) }
}

/// A scalar of at most 64 bits in natural form.
#[inline]
pub(crate) fn read_u64(mem: &[u8], size: u32) -> u64 {
    let mut b = [0; 8];
    let n = (size as usize).min(8);
    b[..n].copy_from_slice(&mem[..n]);
    u64::from_le_bytes(b)
}

/// A number in natural form.
pub(crate) fn read_bits(mem: &[u8], width: u32) -> Bits {
    let size = crate::layout::scalar_size(width) as usize;
    match width {
        0..=64 => Bits::new(width, u128::from(read_u64(mem, size as u32))),
        65..=128 => {
            let mut b = [0; 16];
            b.copy_from_slice(&mem[..16]);
            Bits::new(width, u128::from_le_bytes(b))
        }
        _ => Bits::from_biguint(width, &BigUint::from_bytes_le(&mem[..size])),
    }
}

/// Writes a number in natural form, truncated or filled with zeros to `width`.
pub(crate) fn write_bits(mem: &mut [u8], width: u32, bits: &Bits) {
    let size = crate::layout::scalar_size(width) as usize;
    if width <= 128 {
        let mask = if width == 128 { u128::MAX } else { (1 << width) - 1 };
        let low = match bits.to_u128() {
            Some(v) => v,
            None => bits.zero_extend(128).to_u128().unwrap_or(0),
        };
        mem[..size].copy_from_slice(&(low & mask).to_le_bytes()[..size]);
    } else {
        let le = bits.zero_extend(width).to_biguint().to_bytes_le();
        mem[..size].fill(0);
        let n = le.len().min(size);
        mem[..n].copy_from_slice(&le[..n]);
    }
}

/// Up to 64 bits of `data` from bit `at` on, most significant first. Bits behind the end are zero.
pub(crate) fn peek(data: &[u8], at: usize, width: u32) -> u64 {
    debug_assert!(width <= 64);
    if width == 0 {
        return 0;
    }
    let (start, end) = (at / 8, (at + width as usize).div_ceil(8));
    let mut v = 0u128;
    for i in start..end {
        v = (v << 8) | u128::from(data.get(i).copied().unwrap_or(0));
    }
    let v = (v >> (end * 8 - (at + width as usize))) as u64;
    if width == 64 { v } else { v & ((1 << width) - 1) }
}

/// Writes up to 64 bits at bit `at`, leaving those around them. Bits behind the end are lost.
pub(crate) fn poke(data: &mut [u8], at: usize, width: u32, value: u64) {
    let (mut at, mut left) = (at, width);
    while left > 0 {
        let room = 8 - (at % 8) as u32;
        let n = room.min(left);
        let part = (value >> (left - n)) as u8 & (0xffu16 >> (8 - n)) as u8;
        let shift = room - n;
        let mask = ((0xffu16 >> (8 - n)) << shift) as u8;
        if let Some(byte) = data.get_mut(at / 8) {
            *byte = *byte & !mask | part << shift;
        }
        at += n as usize;
        left -= n;
    }
}

/// The limbs of a number in packed form.
pub(crate) fn unpack_limbs(to: &mut [u64], data: &[u8], at: usize, width: u32) {
    let mut left = width;
    for limb in to.iter_mut() {
        let n = left.min(64);
        left -= n;
        *limb = peek(data, at + left as usize, n);
    }
}

/// Writes limbs in packed form.
pub(crate) fn pack_limbs(data: &mut [u8], at: usize, limbs: &[u64], width: u32) {
    let mut left = width;
    for limb in limbs {
        let n = left.min(64);
        left -= n;
        poke(data, at + left as usize, n, *limb);
    }
}

/// A number of any width in packed form.
pub(crate) fn read_packed(data: &[u8], at: usize, width: u32) -> Bits {
    if width <= 64 {
        return Bits::new(width, u128::from(peek(data, at, width)));
    }
    let mut wide = vec![0u8; width.div_ceil(8) as usize];
    let first = width % 8;
    let mut from = at;
    for (i, byte) in wide.iter_mut().enumerate() {
        let n = if i == 0 && first != 0 { first } else { 8 };
        *byte = peek(data, from, n) as u8;
        from += n as usize;
    }
    Bits::from_be_bytes(width, &wide)
}

/// Writes a number of any width in packed form.
pub(crate) fn write_packed(data: &mut [u8], at: usize, bits: &Bits) {
    let width = bits.width();
    if width <= 64 {
        return poke(data, at, width, bits.low_u64());
    }
    let first = width % 8;
    let mut to = at;
    for (i, byte) in bits.to_be_bytes().into_iter().enumerate() {
        let n = if i == 0 && first != 0 { first } else { 8 };
        poke(data, to, n, u64::from(byte));
        to += n as usize;
    }
}

/// Values of a program's types.
#[derive(Clone, Copy)]
pub(crate) struct Memory<'a> {
    pub(crate) layouts: &'a Layouts,
    pub(crate) strings: &'a [Arc<str>],
}

/// A place in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spot {
    /// Byte offset.
    Natural(usize),
    /// Byte offset of a header's data, and the bit in it.
    Packed(usize, usize),
}

impl Memory<'_> {
    /// Walks from a variable at `start` along `path`.
    pub(crate) fn find(&self, ty: TypeId, start: usize, path: &[u32]) -> Option<(TypeId, Spot)> {
        let (mut ty, mut spot) = (ty, Spot::Natural(start));
        for &i in path {
            (ty, spot) = self.step(ty, spot, i)?;
        }
        Some((ty, spot))
    }

    fn step(&self, ty: TypeId, spot: Spot, i: u32) -> Option<(TypeId, Spot)> {
        let at = match spot {
            Spot::Natural(at) => at,
            Spot::Packed(base, bit) => {
                let Shape::Struct(fields) = &self.layouts.get(ty).shape else { return None };
                let before = fields.get(..i as usize)?.iter();
                let before = before.map(|f| self.layouts.get(f.0).packed.unwrap_or(0) as usize);
                return Some((fields.get(i as usize)?.0, Spot::Packed(base, bit + before.sum::<usize>())));
            }
        };
        match &self.layouts.get(ty).shape {
            Shape::Struct(fields) | Shape::Union(fields) => {
                fields.get(i as usize).map(|(ty, offset)| (*ty, Spot::Natural(at + *offset as usize)))
            }
            Shape::Header(h) => h.fields.get(i as usize).map(|(ty, field)| match field {
                HeaderField::Packed(bit) => (*ty, Spot::Packed(at, *bit as usize)),
                HeaderField::Varbit(offset) => (*ty, Spot::Natural(at + *offset as usize)),
            }),
            Shape::Stack { elem, size, first, stride } => {
                (i < *size).then(|| (*elem, Spot::Natural(at + (first + i * stride) as usize)))
            }
            _ => None,
        }
    }

    /// A scalar (or varbit) as bits; `None` for anything else.
    pub(crate) fn bits(&self, mem: &[u8], ty: TypeId, spot: Spot) -> Option<Bits> {
        match (&self.layouts.get(ty).shape, spot) {
            (Shape::Scalar(Scalar::String, _), _) => None,
            (Shape::Scalar(_, w), Spot::Natural(at)) => Some(read_bits(&mem[at..], *w)),
            (Shape::Scalar(_, w), Spot::Packed(at, bit)) => Some(read_packed(&mem[at..], bit, *w)),
            (Shape::Varbit(_), Spot::Natural(at)) => Some(varbit(&mem[at..])),
            _ => None,
        }
    }

    /// Writes a scalar, truncated or filled with zeros. False for anything else.
    pub(crate) fn set_bits(&self, mem: &mut [u8], ty: TypeId, spot: Spot, bits: &Bits) -> bool {
        let Shape::Scalar(kind, width) = self.layouts.get(ty).shape else { return false };
        let flag;
        let bits = match kind {
            Scalar::String => return false,
            Scalar::Bool => {
                flag = Bits::from(!bits.is_zero());
                &flag
            }
            _ => bits,
        };
        match spot {
            Spot::Natural(at) => write_bits(&mut mem[at..], width, bits),
            Spot::Packed(at, bit) => write_packed(&mut mem[at..], bit, &bits.zero_extend(width)),
        }
        true
    }

    /// The value of type `ty` at `spot`.
    pub(crate) fn value(&self, mem: &[u8], ty: TypeId, spot: Spot) -> Value {
        let layout = self.layouts.get(ty);
        let parts = |n: usize| -> Vec<Value> {
            (0..n as u32)
                .filter_map(|i| self.step(ty, spot, i))
                .map(|(ty, spot)| self.value(mem, ty, spot))
                .collect()
        };
        match (&layout.shape, spot) {
            (Shape::Nothing, _) => Value::Void,
            (Shape::Scalar(kind, w), _) => {
                let number = match spot {
                    Spot::Natural(at) if *w <= 64 => {
                        u128::from(read_u64(&mem[at..], crate::layout::scalar_size(*w)))
                    }
                    Spot::Natural(at) => return Value::Bits(read_bits(&mem[at..], *w)),
                    Spot::Packed(at, bit) if *w <= 64 => u128::from(peek(&mem[at..], bit, *w)),
                    Spot::Packed(at, bit) => return Value::Bits(read_packed(&mem[at..], bit, *w)),
                };
                match kind {
                    Scalar::Bool => Value::Bool(number != 0),
                    Scalar::Bits => Value::Bits(Bits::new(*w, number)),
                    Scalar::Enum => Value::Enum(number as u32),
                    Scalar::Error => Value::Error(number as u32),
                    Scalar::String => {
                        Value::String(self.strings.get(number as usize).cloned().unwrap_or_else(|| "".into()))
                    }
                }
            }
            (Shape::Varbit(_), Spot::Natural(at)) => Value::Varbit(varbit(&mem[at..])),
            (Shape::Struct(f), _) => Value::Struct(parts(f.len())),
            (Shape::Union(f), _) => Value::Union(parts(f.len())),
            (Shape::Header(h), Spot::Natural(at)) => {
                Value::Header { valid: mem[at + h.valid as usize] != 0, fields: parts(h.fields.len()) }
            }
            (Shape::Stack { size, .. }, Spot::Natural(at)) => {
                Value::Stack { next: read_u64(&mem[at..], 4) as u32, elems: parts(*size as usize) }
            }
            (Shape::Varbit(_) | Shape::Header(_) | Shape::Stack { .. }, Spot::Packed(..)) => Value::Void,
        }
    }

    /// Bits of every valid header in the variable of type `ty` at this byte.
    pub(crate) fn header_bits(&self, mem: &[u8], ty: TypeId, at: usize) -> u64 {
        let place = |offset: u32| at + offset as usize;
        match &self.layouts.get(ty).shape {
            Shape::Struct(parts) | Shape::Union(parts) => {
                parts.iter().map(|(ty, offset)| self.header_bits(mem, *ty, place(*offset))).sum()
            }
            Shape::Header(h) if mem[place(h.valid)] != 0 => {
                let varbit = |(_, field): &(TypeId, HeaderField)| match field {
                    // Its width comes first.
                    HeaderField::Varbit(offset) => read_u64(&mem[place(*offset)..], 4),
                    HeaderField::Packed(_) => 0,
                };
                let varbits = if h.varbit.is_some() { h.fields.iter().map(varbit).sum() } else { 0 };
                u64::from(h.bits) + varbits
            }
            Shape::Stack { elem, size, first, stride } => {
                (0..*size).map(|i| self.header_bits(mem, *elem, place(first + i * stride))).sum()
            }
            _ => 0,
        }
    }

    /// Writes `value` as a value of type `ty`: widths adjusted, the default value if it does not fit at all.
    pub(crate) fn put(&self, mem: &mut [u8], ty: TypeId, spot: Spot, value: &Value) {
        let layout = self.layouts.get(ty);
        let each = |mem: &mut [u8], values: &[Value]| {
            for (i, v) in values.iter().enumerate() {
                if let Some((ty, spot)) = self.step(ty, spot, i as u32) {
                    self.put(mem, ty, spot, v);
                }
            }
        };
        match (&layout.shape, value, spot) {
            (Shape::Scalar(Scalar::Bits, _), Value::Bits(b), _) => {
                self.set_bits(mem, ty, spot, b);
            }
            (Shape::Scalar(Scalar::Bool, _), Value::Bool(b), _) => {
                self.set_bits(mem, ty, spot, &Bits::from(*b));
            }
            (Shape::Scalar(Scalar::Enum, _), Value::Enum(n), _)
            | (Shape::Scalar(Scalar::Error, _), Value::Error(n), _) => {
                self.set_bits(mem, ty, spot, &Bits::new(32, u128::from(*n)));
            }
            (Shape::Scalar(Scalar::String, _), Value::String(s), Spot::Natural(at)) => {
                let index = self.strings.iter().position(|k| k == s).unwrap_or(0) as u32;
                mem[at..at + 4].copy_from_slice(&index.to_le_bytes());
            }
            (Shape::Varbit(most), Value::Varbit(b), Spot::Natural(at)) => {
                let width = b.width().min(*most);
                mem[at..at + 8].copy_from_slice(&u64::from(width).to_le_bytes());
                let end = at + 8 + width.div_ceil(8) as usize;
                mem[at + 8..end].fill(0);
                write_packed(&mut mem[at + 8..end], 0, &b.zero_extend(width));
            }
            (Shape::Struct(f), Value::Struct(v), _) | (Shape::Union(f), Value::Union(v), _)
                if f.len() == v.len() =>
            {
                each(mem, v);
            }
            (Shape::Header(h), Value::Header { valid, fields }, Spot::Natural(at))
                if h.fields.len() == fields.len() =>
            {
                each(mem, fields);
                mem[at + h.valid as usize] = u8::from(*valid);
            }
            (Shape::Stack { size, .. }, Value::Stack { next, elems }, Spot::Natural(at))
                if elems.len() == *size as usize =>
            {
                mem[at..at + 4].copy_from_slice(&(*next).min(*size).to_le_bytes());
                each(mem, elems);
            }
            (_, _, Spot::Natural(at)) => mem[at..at + layout.size as usize].fill(0),
            (_, _, Spot::Packed(at, bit)) => {
                let width = layout.packed.unwrap_or(0);
                write_packed(&mut mem[at..], bit, &Bits::zero(width));
            }
        }
    }

    /// `==` of two values (P4_16 sections 8.17, 8.18): invalid headers are equal, `nextIndex` does not count.
    pub(crate) fn equal(&self, ty: TypeId, a: (&[u8], Spot), b: (&[u8], Spot)) -> bool {
        let each = |n: usize| {
            (0..n as u32).all(|i| match (self.step(ty, a.1, i), self.step(ty, b.1, i)) {
                (Some((ty, x)), Some((_, y))) => self.equal(ty, (a.0, x), (b.0, y)),
                _ => true,
            })
        };
        match (&self.layouts.get(ty).shape, a.1, b.1) {
            (Shape::Struct(f) | Shape::Union(f), _, _) => each(f.len()),
            (Shape::Stack { size, .. }, _, _) => each(*size as usize),
            (Shape::Header(h), Spot::Natural(x), Spot::Natural(y)) => {
                let valid = (a.0[x + h.valid as usize], b.0[y + h.valid as usize]);
                valid.0 == valid.1 && (valid.0 == 0 || each(h.fields.len()))
            }
            // Bits above the width are zero.
            (Shape::Scalar(..), Spot::Natural(x), Spot::Natural(y)) => {
                let size = self.layouts.get(ty).size as usize;
                a.0[x..x + size] == b.0[y..y + size]
            }
            (Shape::Varbit(_), Spot::Natural(x), Spot::Natural(y)) => {
                let (a, b) = (varbit_bytes(&a.0[x..]), varbit_bytes(&b.0[y..]));
                a == b
            }
            (Shape::Scalar(_, width), x, y) => {
                let part = |(mem, spot): (&[u8], Spot), done: u32, n: u32| match spot {
                    Spot::Packed(at, bit) => peek(&mem[at..], bit + done as usize, n),
                    Spot::Natural(_) => 0,
                };
                debug_assert!(matches!((x, y), (Spot::Packed(..), Spot::Packed(..))));
                (0..*width).step_by(64).all(|done| {
                    let n = (width - done).min(64);
                    part(a, done, n) == part(b, done, n)
                })
            }
            _ => true,
        }
    }

    /// Makes a header, or the headers of a union, invalid.
    pub(crate) fn invalidate(&self, mem: &mut [u8], ty: TypeId, at: usize) {
        match &self.layouts.get(ty).shape {
            Shape::Header(h) => mem[at + h.valid as usize] = 0,
            Shape::Union(members) => {
                members.iter().for_each(|(ty, offset)| self.invalidate(mem, *ty, at + *offset as usize));
            }
            _ => {}
        }
    }

    /// `push_front(by)`, or `pop_front(-by)`, of the stack at the start of `mem`.
    pub(crate) fn shift(&self, mem: &mut [u8], ty: TypeId, by: i64) {
        let Shape::Stack { elem, size, first, stride } = self.layouts.get(ty).shape else { return };
        let n = by.unsigned_abs().min(u64::from(size)) as usize;
        let (first, stride, size) = (first as usize, stride as usize, size as usize);
        let elems = &mut mem[first..first + size * stride];
        let fresh = if by >= 0 {
            elems.rotate_right(n * stride);
            0..n
        } else {
            elems.rotate_left(n * stride);
            size - n..size
        };
        fresh.for_each(|i| self.invalidate(mem, elem, first + i * stride));
        let next = read_u64(mem, 4) as i64;
        let next = (next + by).clamp(0, size as i64) as u32;
        mem[..4].copy_from_slice(&next.to_le_bytes());
    }

    /// Fills the header at the start of `mem`, which has a varbit field, from `packet` at bit `at`.
    pub(crate) fn unpack(&self, mem: &mut [u8], header: &Header, packet: &[u8], at: usize, varbits: u32) {
        let mut from = at;
        for (ty, field) in &header.fields {
            match *field {
                HeaderField::Packed(bit) => {
                    let width = self.layouts.get(*ty).packed.unwrap_or(0) as usize;
                    let data = &mut mem[..header.bytes() as usize];
                    for done in (0..width).step_by(64) {
                        let n = (width - done).min(64) as u32;
                        poke(data, bit as usize + done, n, peek(packet, from + done, n));
                    }
                    from += width;
                }
                HeaderField::Varbit(offset) => {
                    let (width, at) = (varbits as usize, offset as usize);
                    mem[at..at + 8].copy_from_slice(&u64::from(varbits).to_le_bytes());
                    let bytes = &mut mem[at + 8..at + 8 + width.div_ceil(8)];
                    match packet.get(from / 8..(from + width) / 8) {
                        Some(whole) if from.is_multiple_of(8) && width.is_multiple_of(8) => {
                            bytes.copy_from_slice(whole);
                        }
                        _ => {
                            bytes.fill(0);
                            copy_bits(bytes, packet, from, width);
                        }
                    }
                    from += width;
                }
            }
        }
        mem[header.valid as usize] = 1;
    }

    /// Appends what `emit` puts into a packet to `out`.
    pub(crate) fn pack(&self, mem: &[u8], ty: TypeId, at: usize, out: &mut Writer<'_>) {
        match &self.layouts.get(ty).shape {
            Shape::Header(h) if mem[at + h.valid as usize] != 0 => {
                for (ty, field) in &h.fields {
                    match *field {
                        HeaderField::Packed(bit) => {
                            let width = self.layouts.get(*ty).packed.unwrap_or(0);
                            out.write_packed(&mem[at..], bit as usize, width);
                        }
                        HeaderField::Varbit(offset) => out.write_varbit(&mem[at + offset as usize..]),
                    }
                }
            }
            Shape::Struct(f) | Shape::Union(f) => {
                f.iter().for_each(|(ty, offset)| self.pack(mem, *ty, at + *offset as usize, out));
            }
            Shape::Stack { elem, size, first, stride } => {
                (0..*size).for_each(|i| self.pack(mem, *elem, at + (first + i * stride) as usize, out));
            }
            _ => {}
        }
    }
}

/// Asks for the cache line at any address.
#[inline(always)]
#[allow(unsafe_code)]
pub(crate) fn fetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: it reads nothing.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: it reads nothing.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{at}]", at = in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}

/// Copies bits from bit `from` on to the start of `to`.
fn copy_bits(to: &mut [u8], data: &[u8], from: usize, width: usize) {
    for done in (0..width).step_by(64) {
        let n = (width - done).min(64) as u32;
        poke(to, done, n, peek(data, from + done, n));
    }
}

/// A varbit is its width in a word, and its bits as in a packet, zero bits behind them up to whole bytes.
fn varbit_bytes(mem: &[u8]) -> (u32, &[u8]) {
    let width = read_u64(mem, 8) as u32;
    (width, &mem[8..8 + width.div_ceil(8) as usize])
}

fn varbit(mem: &[u8]) -> Bits {
    let (width, bytes) = varbit_bytes(mem);
    read_packed(bytes, 0, width)
}

/// Appends bits to a byte string. A last incomplete byte is filled with zeros.
pub(crate) struct Writer<'a> {
    pub(crate) out: &'a mut Vec<u8>,
    /// Bits of the last byte that are used; 0 when it is full.
    pub(crate) used: u32,
}

impl Writer<'_> {
    fn write_packed(&mut self, data: &[u8], at: usize, width: u32) {
        let (mut from, mut left) = (at, width);
        while left > 0 {
            let n = left.min(32);
            self.push(n, peek(data, from, n));
            from += n as usize;
            left -= n;
        }
    }

    /// A varbit in natural form.
    fn write_varbit(&mut self, varbit: &[u8]) {
        let (width, bytes) = varbit_bytes(varbit);
        if self.used != 0 {
            return self.write_packed(bytes, 0, width);
        }
        self.out.extend_from_slice(bytes);
        self.used = width % 8;
    }

    fn push(&mut self, width: u32, value: u64) {
        let start = match self.used {
            0 => self.out.len() * 8,
            used => self.out.len() * 8 - 8 + used as usize,
        };
        self.out.resize((start + width as usize).div_ceil(8), 0);
        poke(self.out, start, width, value);
        self.used = ((start + width as usize) % 8) as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values written at any bit read back, and nothing around them changes.
    #[test]
    fn packed_round_trip() {
        for width in [0u32, 1, 3, 8, 13, 31, 64, 65, 100, 128, 129, 300] {
            for at in 0..17usize {
                let mut data = vec![0xa5u8; 60];
                let before = data.clone();
                let value = Bits::ones(width).sub(&Bits::new(width, 5));
                write_packed(&mut data, at, &value);
                assert_eq!(read_packed(&data, at, width), value);
                assert_eq!(read_packed(&data, 0, at as u32), read_packed(&before, 0, at as u32));
                let end = at + width as usize;
                assert_eq!(read_packed(&data, end, 60), read_packed(&before, end, 60));
                let mut natural = vec![0u8; 40];
                write_bits(&mut natural, width, &value);
                assert_eq!(read_bits(&natural, width), value);
            }
        }
    }
}
