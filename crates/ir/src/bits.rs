//! Fixed-width bit strings: the values of `bit<W>` and `int<W>` (P4_16 sections 7.1.6.2 and 7.1.6.3).
//!
//! A [`Bits`] carries its width but not its signedness: two's complement makes most operations the same for both, and
//! the few that differ have the signedness in their name.

use num_bigint::BigUint;
use std::cmp::Ordering;
use std::fmt;

/// A bit string of a fixed width, 0 bits or more. Bits above the width are always zero.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bits(Repr);

/// Up to 128 bits inline; wider ones as a big integer. The width alone decides, so equal values have equal
/// representations. Split in halves because a `u128` would be aligned to 16 bytes: values are copied all the time, and
/// this keeps them at 24.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Repr {
    Small { width: u32, high: u64, low: u64 },
    Big { width: u32, value: Box<BigUint> },
}

/// The value behind a [`Repr`].
enum View<'a> {
    Small(u128),
    Big(&'a BigUint),
}

fn mask(width: u32) -> u128 {
    if width >= 128 { u128::MAX } else { (1u128 << width) - 1 }
}

impl Bits {
    /// `value` truncated to `width` bits.
    #[inline]
    pub fn new(width: u32, value: u128) -> Self {
        if width <= 128 {
            let value = value & mask(width);
            Bits(Repr::Small { width, high: (value >> 64) as u64, low: value as u64 })
        } else {
            Bits(Repr::Big { width, value: Box::new(BigUint::from(value)) })
        }
    }

    /// Zero of `width` bits.
    pub fn zero(width: u32) -> Self {
        Bits::new(width, 0)
    }

    /// All ones.
    pub fn ones(width: u32) -> Self {
        Bits::zero(width).not()
    }

    /// `value` truncated to `width` bits.
    pub fn from_biguint(width: u32, value: &BigUint) -> Self {
        if width <= 128 {
            let mut v = 0u128;
            for (i, d) in value.iter_u64_digits().take(2).enumerate() {
                v |= u128::from(d) << (64 * i);
            }
            Bits::new(width, v)
        } else {
            let m = (BigUint::from(1u8) << width) - 1u8;
            Bits(Repr::Big { width, value: Box::new(value & m) })
        }
    }

    /// The low `width` bits of a big-endian byte string (network order).
    pub fn from_be_bytes(width: u32, bytes: &[u8]) -> Self {
        if width <= 128 {
            let v = bytes.iter().fold(0u128, |v, b| (v << 8) | u128::from(*b));
            Bits::new(width, v)
        } else {
            Bits::from_biguint(width, &BigUint::from_bytes_be(bytes))
        }
    }

    /// Big-endian bytes, `ceil(width / 8)` of them, the value right-aligned.
    pub fn to_be_bytes(&self) -> Vec<u8> {
        let n = self.width().div_ceil(8) as usize;
        match self.view() {
            View::Small(v) => v.to_be_bytes()[16 - n..].to_vec(),
            View::Big(v) => {
                let b = v.to_bytes_be();
                let mut out = vec![0; n - b.len().min(n)];
                out.extend_from_slice(&b);
                out
            }
        }
    }

    /// Width in bits.
    #[inline]
    pub fn width(&self) -> u32 {
        match self.0 {
            Repr::Small { width, .. } | Repr::Big { width, .. } => width,
        }
    }

    #[inline]
    fn view(&self) -> View<'_> {
        match &self.0 {
            Repr::Small { high, low, .. } => View::Small(u128::from(*high) << 64 | u128::from(*low)),
            Repr::Big { value, .. } => View::Big(value),
        }
    }

    /// The value if it fits 128 bits.
    #[inline]
    pub fn to_u128(&self) -> Option<u128> {
        match self.view() {
            View::Small(v) => Some(v),
            View::Big(v) if v.bits() <= 128 => {
                Some(v.iter_u64_digits().enumerate().fold(0, |a, (i, d)| a | u128::from(d) << (64 * i)))
            }
            View::Big(_) => None,
        }
    }

    /// The value modulo 2^64.
    #[inline]
    pub fn low_u64(&self) -> u64 {
        match self.view() {
            View::Small(v) => v as u64,
            View::Big(v) => v.iter_u64_digits().next().unwrap_or(0),
        }
    }

    /// The value, or `u64::MAX` if it is larger: for use as an index that is bounds-checked afterwards.
    pub fn saturating_u64(&self) -> u64 {
        self.to_u128().and_then(|v| u64::try_from(v).ok()).unwrap_or(u64::MAX)
    }

    /// The value as a big integer, unsigned.
    pub fn to_biguint(&self) -> BigUint {
        match self.view() {
            View::Small(v) => BigUint::from(v),
            View::Big(v) => v.clone(),
        }
    }

    /// Whether every bit is zero.
    #[inline]
    pub fn is_zero(&self) -> bool {
        match self.view() {
            View::Small(v) => v == 0,
            View::Big(v) => v.bits() == 0,
        }
    }

    /// Bit `i` (0 is the least significant); zero above the width.
    pub fn bit(&self, i: u32) -> bool {
        match self.view() {
            View::Small(v) => i < 128 && (v >> i) & 1 == 1,
            View::Big(v) => v.bit(u64::from(i)),
        }
    }

    /// The sign bit of the two's-complement reading.
    pub fn is_negative(&self) -> bool {
        self.width() > 0 && self.bit(self.width() - 1)
    }

    fn binary(
        &self,
        other: &Bits,
        small: impl FnOnce(u128, u128) -> u128,
        big: impl FnOnce(&BigUint, &BigUint) -> BigUint,
    ) -> Bits {
        match (self.view(), other.view()) {
            (View::Small(a), View::Small(b)) => Bits::new(self.width(), small(a, b)),
            _ => Bits::from_biguint(self.width(), &big(&self.to_biguint(), &other.to_biguint())),
        }
    }

    /// Sum modulo 2^width. The width is that of `self`, here and below.
    pub fn add(&self, o: &Bits) -> Bits {
        self.binary(o, u128::wrapping_add, |a, b| a + b)
    }

    /// Difference modulo 2^width.
    pub fn sub(&self, o: &Bits) -> Bits {
        let w = self.width();
        self.binary(o, u128::wrapping_sub, |a, b| a + (BigUint::from(1u8) << w) - b)
    }

    /// Product modulo 2^width.
    pub fn mul(&self, o: &Bits) -> Bits {
        self.binary(o, u128::wrapping_mul, |a, b| a * b)
    }

    /// Unsigned quotient; `None` for a zero divisor.
    pub fn div(&self, o: &Bits) -> Option<Bits> {
        (!o.is_zero()).then(|| self.binary(o, |a, b| a / b, |a, b| a / b))
    }

    /// Unsigned remainder; `None` for a zero divisor.
    pub fn rem(&self, o: &Bits) -> Option<Bits> {
        (!o.is_zero()).then(|| self.binary(o, |a, b| a % b, |a, b| a % b))
    }

    /// Two's-complement negation.
    pub fn neg(&self) -> Bits {
        Bits::zero(self.width()).sub(self)
    }

    /// Bitwise complement.
    pub fn not(&self) -> Bits {
        match self.view() {
            View::Small(v) => Bits::new(self.width(), !v),
            View::Big(v) => {
                let m = (BigUint::from(1u8) << self.width()) - 1u8;
                Bits(Repr::Big { width: self.width(), value: Box::new(m ^ v) })
            }
        }
    }

    /// Bitwise and.
    pub fn and(&self, o: &Bits) -> Bits {
        self.binary(o, |a, b| a & b, |a, b| a & b)
    }

    /// Bitwise or.
    pub fn or(&self, o: &Bits) -> Bits {
        self.binary(o, |a, b| a | b, |a, b| a | b)
    }

    /// Bitwise exclusive or.
    pub fn xor(&self, o: &Bits) -> Bits {
        self.binary(o, |a, b| a ^ b, |a, b| a ^ b)
    }

    /// Saturating sum, unsigned (`|+|` on `bit<W>`).
    pub fn sat_add_unsigned(&self, o: &Bits) -> Bits {
        let s = self.add(o);
        if s.cmp_unsigned(self) == Ordering::Less { Bits::ones(self.width()) } else { s }
    }

    /// Saturating difference, unsigned (`|-|` on `bit<W>`).
    pub fn sat_sub_unsigned(&self, o: &Bits) -> Bits {
        if self.cmp_unsigned(o) == Ordering::Less { Bits::zero(self.width()) } else { self.sub(o) }
    }

    /// Saturating sum, signed (`|+|` on `int<W>`).
    pub fn sat_add_signed(&self, o: &Bits) -> Bits {
        let s = self.add(o);
        if self.is_negative() == o.is_negative() && s.is_negative() != self.is_negative() {
            self.signed_limit(self.is_negative())
        } else {
            s
        }
    }

    /// Saturating difference, signed (`|-|` on `int<W>`).
    pub fn sat_sub_signed(&self, o: &Bits) -> Bits {
        let d = self.sub(o);
        if self.is_negative() != o.is_negative() && d.is_negative() != self.is_negative() {
            self.signed_limit(self.is_negative())
        } else {
            d
        }
    }

    /// The least (`negative`) or greatest value of `int<width>`.
    fn signed_limit(&self, negative: bool) -> Bits {
        if self.width() == 0 {
            return self.clone();
        }
        let least = Bits::new(self.width(), 1).shl(u64::from(self.width()) - 1);
        if negative { least } else { least.not() }
    }

    /// Shift left; bits shifted out are lost.
    pub fn shl(&self, by: u64) -> Bits {
        if by >= u64::from(self.width()) {
            return Bits::zero(self.width());
        }
        match self.view() {
            View::Small(v) => Bits::new(self.width(), v << by),
            View::Big(v) => Bits::from_biguint(self.width(), &(v << by)),
        }
    }

    /// Logical shift right (`bit<W>`).
    pub fn shr(&self, by: u64) -> Bits {
        if by >= u64::from(self.width()) {
            return Bits::zero(self.width());
        }
        match self.view() {
            View::Small(v) => Bits::new(self.width(), v >> by),
            View::Big(v) => Bits::from_biguint(self.width(), &(v >> by)),
        }
    }

    /// Arithmetic shift right (`int<W>`).
    pub fn shr_signed(&self, by: u64) -> Bits {
        if !self.is_negative() {
            return self.shr(by);
        }
        if by >= u64::from(self.width()) {
            return Bits::ones(self.width());
        }
        // The complement of a negative value is non-negative: shift that and complement back.
        self.not().shr(by).not()
    }

    /// Unsigned order.
    #[inline]
    pub fn cmp_unsigned(&self, o: &Bits) -> Ordering {
        match (self.view(), o.view()) {
            (View::Small(a), View::Small(b)) => a.cmp(&b),
            _ => self.to_biguint().cmp(&o.to_biguint()),
        }
    }

    /// Signed order; both of the same width.
    pub fn cmp_signed(&self, o: &Bits) -> Ordering {
        match (self.is_negative(), o.is_negative()) {
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            _ => self.cmp_unsigned(o),
        }
    }

    /// `self ++ low`: `self` becomes the high part.
    pub fn concat(&self, low: &Bits) -> Bits {
        let w = self.width() + low.width();
        if w <= 128
            && let (View::Small(a), View::Small(b)) = (self.view(), low.view())
        {
            let high = if low.width() >= 128 { 0 } else { a << low.width() };
            return Bits::new(w, high | b);
        }
        Bits::from_biguint(w, &((self.to_biguint() << low.width()) | low.to_biguint()))
    }

    /// Bits `hi..=lo`, as in `x[hi:lo]`; zeros above the width.
    #[inline]
    pub fn slice(&self, hi: u32, lo: u32) -> Bits {
        let w = (hi + 1).saturating_sub(lo);
        match self.view() {
            View::Small(v) => Bits::new(w, if lo >= 128 { 0 } else { v >> lo }),
            View::Big(v) => Bits::from_biguint(w, &(v >> lo)),
        }
    }

    /// `self` with bits `hi..=lo` replaced by `part`.
    pub fn with_slice(&self, hi: u32, lo: u32, part: &Bits) -> Bits {
        let w = self.width();
        let hole = Bits::ones((hi + 1).saturating_sub(lo)).zero_extend(w).shl(u64::from(lo)).not();
        self.and(&hole).or(&part.zero_extend(w).shl(u64::from(lo)))
    }

    /// Changed to `width` bits: truncated, or filled with zeros.
    #[inline]
    pub fn zero_extend(&self, width: u32) -> Bits {
        match self.view() {
            View::Small(v) => Bits::new(width, v),
            View::Big(v) => Bits::from_biguint(width, v),
        }
    }

    /// Changed to `width` bits: truncated, or filled with copies of the sign bit.
    pub fn sign_extend(&self, width: u32) -> Bits {
        if width > self.width() && self.is_negative() {
            self.not().zero_extend(width).not()
        } else {
            self.zero_extend(width)
        }
    }
}

impl From<bool> for Bits {
    fn from(b: bool) -> Self {
        Bits::new(1, u128::from(b))
    }
}

impl fmt::Display for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.view() {
            View::Small(v) => write!(f, "{}w{}", self.width(), v),
            View::Big(v) => write!(f, "{}w{}", self.width(), v),
        }
    }
}

impl fmt::Debug for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::BigInt;

    /// A small deterministic generator, enough for spreading test values.
    fn values(seed: u64, n: usize) -> impl Iterator<Item = BigUint> {
        let mut s = seed;
        (0..n).map(move |_| {
            let mut digits = Vec::new();
            for _ in 0..10 {
                s = s.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                digits.push((s >> 32) as u32);
            }
            BigUint::new(digits)
        })
    }

    fn signed(b: &Bits) -> BigInt {
        let v = BigInt::from(b.to_biguint());
        if b.is_negative() { v - (BigInt::from(1) << b.width()) } else { v }
    }

    /// Arithmetic agrees with big integers at every kind of width: inline, at the border and beyond.
    #[test]
    fn agrees_with_big_integers() {
        for width in [1u32, 7, 8, 31, 64, 65, 127, 128, 129, 200, 296] {
            let m = BigUint::from(1u8) << width;
            for (a, b) in values(1, 60).zip(values(2, 60)) {
                let (x, y) = (Bits::from_biguint(width, &a), Bits::from_biguint(width, &b));
                let (a, b) = (&a % &m, &b % &m);
                assert_eq!(x.add(&y).to_biguint(), (&a + &b) % &m);
                assert_eq!(x.sub(&y).to_biguint(), (&a + &m - &b) % &m);
                assert_eq!(x.mul(&y).to_biguint(), (&a * &b) % &m);
                assert_eq!(x.xor(&y).not().to_biguint(), &m - 1u8 - (&a ^ &b));
                assert_eq!(x.concat(&y).to_biguint(), (&a << width) | &b);
                assert_eq!(x.cmp_signed(&y), signed(&x).cmp(&signed(&y)));
                assert_eq!(Bits::from_be_bytes(width, &x.to_be_bytes()), x);
                let by = a.iter_u32_digits().next().unwrap_or(0) % (width + 2);
                assert_eq!(x.shl(by.into()).to_biguint(), (&a << by) % &m);
                assert_eq!(x.shr(by.into()).to_biguint(), &a >> by);
                assert_eq!(signed(&x.shr_signed(by.into())), signed(&x) >> by);
                let (hi, lo) = (width - 1 - by.min(width - 1) / 2, by.min(width - 1) / 2);
                if hi >= lo {
                    assert_eq!(x.with_slice(hi, lo, &x.slice(hi, lo)), x);
                }
                assert_eq!(signed(&x.sign_extend(width + 40)), signed(&x));
                let limit = BigInt::from(1) << (width - 1);
                let clamp = |v: BigInt| v.clamp(-limit.clone(), &limit - 1);
                assert_eq!(signed(&x.sat_add_signed(&y)), clamp(signed(&x) + signed(&y)));
                assert_eq!(signed(&x.sat_sub_signed(&y)), clamp(signed(&x) - signed(&y)));
                assert_eq!(x.sat_add_unsigned(&y).to_biguint(), (&a + &b).min(&m - 1u8));
            }
        }
    }
}
