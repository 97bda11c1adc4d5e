//! Randomness from a seed.

use num_bigint::BigUint;
use pointsman_ir::Bits;

/// SplitMix64 with exactly uniform numbers: small, fast, and good enough for spreading packets.
#[derive(Clone, Debug)]
pub struct Random(pointsman_wire::Random);

impl Random {
    /// A generator whose numbers depend on `seed` alone.
    pub fn new(seed: u64) -> Self {
        Random(pointsman_wire::Random::new(seed))
    }

    /// What the next numbers depend on: [`Random::new`] takes it.
    pub(crate) fn seed(&self) -> u64 {
        self.0.state()
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `0..n`; 0 for `n` = 0.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 {
            return 0;
        }
        // Rejection keeps it exactly uniform: the last, incomplete run of n values is not used.
        let limit = u64::MAX - (u64::MAX % n + 1) % n;
        loop {
            let v = self.next_u64();
            if v <= limit {
                return v % n;
            }
        }
    }

    /// Uniform in `lo..=hi`; `None` if `lo > hi`, or for more than 2^64 numbers.
    pub fn between_numbers(&mut self, lo: u128, hi: u128) -> Option<u128> {
        let span = u64::try_from(hi.checked_sub(lo)?).ok()?;
        let offset = if span == u64::MAX { self.next_u64() } else { self.below(span + 1) };
        Some(lo + u128::from(offset))
    }

    /// Uniform in `lo..=hi`, of the width of `lo`; `None` if `lo > hi`.
    pub fn between(&mut self, lo: &Bits, hi: &Bits) -> Option<Bits> {
        if lo.cmp_unsigned(hi).is_gt() {
            return None;
        }
        let width = lo.width();
        if let (Some(lo), Some(hi)) = (lo.to_u128(), hi.to_u128())
            && let Some(drawn) = self.between_numbers(lo, hi)
        {
            return Some(Bits::new(width, drawn));
        }
        // Wide ranges: 64 bits more than needed make the bias of the remainder negligible.
        let span = hi.to_biguint() - lo.to_biguint() + 1u8;
        let mut draw = BigUint::ZERO;
        for _ in 0..span.bits() / 64 + 2 {
            draw = (draw << 64) | BigUint::from(self.next_u64());
        }
        Some(Bits::from_biguint(width, &(draw % span + lo.to_biguint())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_covered_and_kept() {
        let mut r = Random::new(7);
        let mut seen = [0u32; 6];
        for _ in 0..6000 {
            let v = r.between(&Bits::new(8, 10), &Bits::new(8, 15)).and_then(|b| b.to_u128()).unwrap_or(0);
            seen[v as usize - 10] += 1;
        }
        assert!(seen.iter().all(|n| (850..1150).contains(n)), "{seen:?}");
        assert_eq!(r.between(&Bits::new(8, 2), &Bits::new(8, 1)), None);
        let all = r.between(&Bits::zero(64), &Bits::ones(64)).unwrap();
        assert_eq!(all.width(), 64);
        let (lo, hi) = (Bits::ones(200).shr(3), Bits::ones(200).shr(1));
        for _ in 0..100 {
            let v = r.between(&lo, &hi).unwrap();
            assert!(v.cmp_unsigned(&lo).is_ge() && v.cmp_unsigned(&hi).is_le());
        }
    }
}
