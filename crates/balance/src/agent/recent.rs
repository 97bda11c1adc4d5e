//! How a device answered lately: the latency that 99 of 100 requests stayed within.

use crate::report::Latency99;

/// Each of the two halves of what counts, in nanoseconds.
const HALF: u64 = 15_000_000_000;

/// The latencies of the last 15 to 30 seconds, by their codes.
#[derive(Clone, Debug)]
pub(super) struct Recent {
    /// The present half and the one before it: how many latencies have each code.
    halves: [[u32; 256]; 2],
    began: u64,
}

impl Default for Recent {
    fn default() -> Self {
        Recent { halves: [[0; 256]; 2], began: 0 }
    }
}

impl Recent {
    /// A request took `ns` nanoseconds; for a lost one that is how long it waited.
    pub fn add(&mut self, now: u64, ns: u64) {
        self.turn(now);
        let count = &mut self.halves[0][usize::from(Latency99::of(ns).code())];
        *count = count.saturating_add(1);
    }

    fn turn(&mut self, now: u64) {
        let halves = now.saturating_sub(self.began) / HALF;
        if halves > 0 {
            self.halves[1] = if halves == 1 { self.halves[0] } else { [0; 256] };
            self.halves[0] = [0; 256];
            self.began += halves * HALF;
        }
    }

    /// Unknown if no request ended lately.
    pub fn p99(&mut self, now: u64) -> Latency99 {
        self.turn(now);
        let both = |code: usize| u64::from(self.halves[0][code]) + u64::from(self.halves[1][code]);
        let all: u64 = (0..256).map(both).sum();
        let within = all - all / 100;
        let mut so_far = 0;
        let reached = |code: &u8| {
            so_far += both(usize::from(*code));
            so_far >= within
        };
        if all == 0 {
            Latency99::default()
        } else {
            Latency99::from_code((0..=255).find(reached).unwrap_or(255))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p99_ms(r: &mut Recent, now: u64) -> Option<f64> {
        r.p99(now).ms()
    }

    #[test]
    fn one_of_a_hundred_is_left_out() {
        let (mut r, ms) = (Recent::default(), 1_000_000);
        assert_eq!(p99_ms(&mut r, 5), None);
        (0..99).for_each(|n| r.add(n, ms));
        r.add(99, 800 * ms);
        let most = p99_ms(&mut r, 100).expect("known");
        assert!((1.0..1.13).contains(&most), "{most}");
        r.add(101, 800 * ms);
        let most = p99_ms(&mut r, 102).expect("known");
        assert!((800.0..901.0).contains(&most), "{most}");
    }

    /// What was at any time counts for 15 to 30 seconds.
    #[test]
    fn old_requests_are_forgotten() {
        for at in [0, 7, 14, 1_000_000] {
            let second = 1_000_000_000;
            let mut r = Recent::default();
            r.add(at * second, 5);
            assert!(p99_ms(&mut r, (at + 14) * second).is_some(), "{at}");
            assert_eq!(p99_ms(&mut r, (at + 31) * second), None, "{at}");
        }
    }
}
