//! Bit strings in packets: fields of any width at any bit offset, most significant bit first (P4_16 section 13.8).

use num_bigint::BigUint;
use pointsman_ir::Bits;

/// The widest field that a 128-bit accumulator can hold at any offset within a byte.
const NARROW: usize = 120;

/// The `width` bits of `packet` from bit `at` on. Bits past the end read as zero; callers check the length first.
pub(crate) fn read(packet: &[u8], at: usize, width: u32) -> Bits {
    let end_bit = at + width as usize;
    let (start, end) = (at / 8, end_bit.div_ceil(8));
    let bytes = packet.get(start..end).unwrap_or_default();
    // Bits of the last byte that are behind the field.
    let behind = end * 8 - end_bit;
    if width as usize <= NARROW {
        let v = bytes.iter().fold(0u128, |v, b| (v << 8) | u128::from(*b));
        Bits::new(width, v >> behind)
    } else {
        Bits::from_biguint(width, &(BigUint::from_bytes_be(bytes) >> behind))
    }
}

/// Appends bit strings to a byte string. A last incomplete byte is filled with zeros.
pub(crate) struct Writer<'a> {
    out: &'a mut Vec<u8>,
    /// Bits of the last byte that are used; 0 when it is full.
    used: usize,
}

impl<'a> Writer<'a> {
    /// Starts behind what `out` holds already.
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Self {
        Writer { out, used: 0 }
    }

    /// Appends `bits`.
    pub(crate) fn write(&mut self, bits: &Bits) {
        let width = bits.width() as usize;
        if width == 0 {
            return;
        }
        // The field behind the bits already used, filled up to whole bytes.
        let total = self.used + width;
        let count = total.div_ceil(8);
        let behind = count * 8 - total;
        let first = self.out.len();
        if let (true, Some(v)) = (width <= NARROW, bits.to_u128()) {
            let bytes = (v << behind).to_be_bytes();
            self.append(&bytes[bytes.len() - count..]);
        } else {
            let value = bits.to_biguint() << behind;
            let bytes = value.to_bytes_be();
            let mut whole = vec![0u8; count.saturating_sub(bytes.len())];
            whole.extend_from_slice(&bytes);
            self.append(&whole);
        }
        debug_assert_eq!(self.out.len() - first + usize::from(self.used > 0), count);
        self.used = total % 8;
    }

    /// Appends `bytes`, of which the first shares the last byte of the output if that one is incomplete.
    fn append(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        if self.used > 0
            && let (Some(last), Some((first, tail))) = (self.out.last_mut(), bytes.split_first())
        {
            *last |= first;
            rest = tail;
        }
        self.out.extend_from_slice(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields written with any mix of widths read back, and the bytes are the concatenation of the fields.
    #[test]
    fn round_trip() {
        let mut seed = 7u64;
        let mut next = || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as u32
        };
        for _ in 0..300 {
            let fields: Vec<Bits> = (0..next() % 9)
                .map(|_| {
                    let width =
                        [next() % 9, next() % 70, 110 + next() % 30, next() % 400][next() as usize % 4];
                    let digits = (0..13).map(|_| next()).collect();
                    Bits::from_biguint(width, &BigUint::new(digits))
                })
                .collect();
            let mut out = vec![0xaa];
            let mut writer = Writer::new(&mut out);
            fields.iter().for_each(|f| writer.write(f));
            let all = fields.iter().fold(Bits::zero(0), |a, f| a.concat(f));
            let bits = all.width();
            let padded = all.concat(&Bits::zero(bits.next_multiple_of(8) - bits));
            assert_eq!(out[1..], padded.to_be_bytes()[..]);
            let mut at = 8;
            for f in &fields {
                assert_eq!(&read(&out, at, f.width()), f);
                at += f.width() as usize;
            }
        }
    }
}
