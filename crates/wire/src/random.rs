//! Random numbers and a hash that are the same on every machine and in every release: recorded results depend on them.
//! Not for secrets.

/// What SplitMix64 adds to its state for every number.
pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64's finaliser: equal bits in, unrelated bits out. A bijection; 0 stays 0.
#[inline]
pub fn finish(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number that looks random and depends on `x` only: the first one of [`Random`] with this seed.
#[inline]
pub fn mix(x: u64) -> u64 {
    finish(x.wrapping_add(STEP))
}

/// Hash of bytes: FNV-1a, 64 bits.
pub fn fnv(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let add = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, add)
}

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator whose numbers depend on `seed` alone.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The seed of a generator with the same next numbers.
    pub fn state(&self) -> u64 {
        self.0
    }

    /// 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        finish(self.0)
    }

    /// A number below `n`; 0 if `n` is 0. The bias is below n / 2^64.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// `n` bytes.
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(n + 7);
        while out.len() < n {
            out.extend(self.next_u64().to_le_bytes());
        }
        out.truncate(n);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_numbers_and_ranges() {
        // First outputs for seed 1234567, as published with the reference implementation.
        let mut r = Random::new(1_234_567);
        assert_eq!(mix(1_234_567), 6_457_827_717_110_365_317);
        assert_eq!(r.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(Random::new(r.state()).next_u64(), 3_203_168_211_198_807_973);
        assert_eq!(r.next_u64(), 3_203_168_211_198_807_973);
        let mut seen = [0; 7];
        (0..7000).for_each(|_| seen[r.below(7) as usize] += 1);
        assert!(seen.iter().all(|n| (800..1200).contains(n)), "{seen:?}");
        assert_eq!((r.below(0), r.bytes(13).len()), (0, 13));
    }

    #[test]
    fn known_hashes() {
        // Test vectors of the FNV specification.
        assert_eq!(fnv([]), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv(*b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv(*b"foobar"), 0x8594_4171_f739_67e8);
    }
}
