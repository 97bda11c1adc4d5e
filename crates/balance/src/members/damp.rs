//! Damping: a member that comes and goes too often is held out until it has been quiet for a while.
//!
//! Each arrival gives a member points, and points decay: half of them are left after [`HALF_MS`]. At [`HOLD`] it is held out, and below
//! [`RELEASE`] it may come in again. So a member that comes four times within a few seconds is held out for 20 s, and one that never stops
//! for 40 s after its last arrival.

/// Half of the points are left after this, in milliseconds.
pub const HALF_MS: u64 = 10_000;
/// An arrival's points.
const ARRIVAL: u64 = 1000;
/// A member with as many is held out.
const HOLD: u64 = 3500;
/// A held member with fewer may come in.
const RELEASE: u64 = 1000;
/// No member has more.
const MOST: u64 = 16_000;

/// How restless a member is. Times count from any fixed moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Penalty {
    points: u64,
    at_ms: u64,
    held: bool,
}

impl Penalty {
    /// With so many points at this time.
    pub fn new(points: u64, held: bool, at_ms: u64) -> Penalty {
        Penalty { points: points.min(MOST), at_ms, held }
    }

    /// The arguments of [`Penalty::new`].
    pub fn parts(&self) -> (u64, bool, u64) {
        (self.points, self.held, self.at_ms)
    }

    fn points(&self, now_ms: u64) -> u64 {
        let passed = now_ms.saturating_sub(self.at_ms);
        let left = self.points.checked_shr(u32::try_from(passed / HALF_MS).unwrap_or(u32::MAX)).unwrap_or(0);
        // Between two halvings along a line.
        left - left * (passed % HALF_MS) / (2 * HALF_MS)
    }

    /// The member came, or moved.
    pub fn arrival(&mut self, now_ms: u64) {
        let points = (self.points(now_ms) + ARRIVAL).min(MOST);
        *self = Penalty { points, at_ms: now_ms, held: self.is_held(now_ms) || points >= HOLD };
    }

    /// Whether it is held out.
    pub fn is_held(&self, now_ms: u64) -> bool {
        self.held && self.points(now_ms) >= RELEASE
    }

    /// When it is not held out any more, if nothing happens.
    pub fn held_until(&self) -> u64 {
        let mut at = self.at_ms;
        while self.held && self.points(at + HALF_MS) >= RELEASE {
            at += HALF_MS;
        }
        let left = self.points(at);
        if !self.held || left < RELEASE {
            return at;
        }
        // left * (1 - t / 2 HALF) < RELEASE
        at + ((left - RELEASE + 1) * 2 * HALF_MS).div_ceil(left)
    }

    /// Whether nothing has to be remembered of it.
    pub fn is_over(&self, now_ms: u64) -> bool {
        self.points(now_ms) < ARRIVAL / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_arrivals_are_nothing() {
        let mut p = Penalty::default();
        for i in 0..3 {
            p.arrival(i * 10);
            assert!(!p.is_held(i * 10));
        }
        // One every 10 s, for ever.
        for i in 1..100 {
            p.arrival(i * HALF_MS);
            assert!(!p.is_held(i * HALF_MS), "{i}");
        }
        assert!(!p.is_over(100 * HALF_MS) && p.is_over(103 * HALF_MS));
    }

    #[test]
    fn four_at_once_hold_for_20_s() {
        let mut p = Penalty::default();
        (0..4).for_each(|i| p.arrival(i));
        assert!(p.is_held(4) && p.is_held(19_900) && !p.is_held(20_100));
        let until = p.held_until();
        assert!(p.is_held(until - 1) && !p.is_held(until), "{until}");
    }

    #[test]
    fn a_hundred_a_second_hold_for_40_s_at_most() {
        let mut p = Penalty::default();
        (0..10_000).for_each(|i| p.arrival(i * 10));
        let last = 99_990;
        let until = p.held_until();
        assert!(p.is_held(last) && p.is_held(until - 1) && !p.is_held(until), "{until}");
        assert!((39_000..=40_050).contains(&(until - last)), "{}", until - last);
    }
}
