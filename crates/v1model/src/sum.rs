//! FNV-1a with 128 bits (Fowler, Noll, Vo): the same on every machine and in every version, and any change of a single byte
//! changes it. It does not protect against forgery.

/// A sum over bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sum(u128);

const PRIME: u128 = 1 << 88 | 0x13b;

impl Sum {
    /// That of no bytes.
    pub fn new() -> Sum {
        Sum(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |sum, byte| (sum ^ u128::from(*byte)).wrapping_mul(PRIME));
    }

    /// The sum so far.
    pub fn value(self) -> u128 {
        self.0
    }

    /// The sum of these bytes.
    pub fn of(bytes: &[u8]) -> u128 {
        let mut sum = Sum::new();
        sum.add(bytes);
        sum.value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values() {
        assert_eq!(Sum::of(b""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(Sum::of(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
        assert_eq!(Sum::of(b"foobar"), 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18);
    }
}
