//! Numbers that look random, and are the same on every machine.

pub(crate) use pointsman_session::mix::{fnv, mix};

/// Seeded random numbers for tests.
#[cfg(test)]
pub(crate) struct Random(u64);

#[cfg(test)]
impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mix(self.0)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}
