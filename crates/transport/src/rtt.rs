//! The round-trip time, and the time-out that follows from it (RFC 6298).

use crate::Config;

/// Estimates of one path, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Rtt {
    /// Smoothed; 0 before the first measurement.
    pub srtt: u64,
    /// Mean deviation.
    pub var: u64,
    /// Time-out without back-off.
    rto: u64,
    /// Time-outs in a row.
    pub backoff: u8,
}

impl Rtt {
    pub fn new(config: &Config) -> Self {
        Rtt { srtt: 0, var: 0, rto: config.initial_rto_ns, backoff: 0 }
    }

    /// A measurement. `expected` are the measurements in one round trip: each has that much less weight (RFC 7323, appendix G).
    pub fn sample(&mut self, rtt: u64, expected: u64, config: &Config) {
        if self.srtt == 0 {
            (self.srtt, self.var) = (rtt.max(1), rtt / 2);
        } else {
            // Weights are powers of two: divisions would take longer than everything else here.
            let n = expected.max(1).ilog2();
            let off = rtt as i64 - self.srtt as i64;
            self.var = self.var.saturating_add_signed((off.abs() - self.var as i64) >> (2 + n));
            self.srtt = self.srtt.saturating_add_signed(off >> (3 + n)).max(1);
        }
        let slack = (4 * self.var).max(config.granularity_ns);
        self.rto = (self.srtt + slack).max(config.min_rto_ns);
    }

    /// The time-out, doubled for every one before it.
    pub fn rto(&self, config: &Config) -> u64 {
        let factor = 1u64 << self.backoff.min(32);
        self.rto.saturating_mul(factor).min(config.max_rto_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_s_formula() {
        let config = Config { min_rto_ns: 0, granularity_ns: 1000, ..Config::default() };
        let mut rtt = Rtt::new(&config);
        assert_eq!(rtt.rto(&config), 1_000_000_000);
        rtt.sample(8_000_000, 1, &config);
        assert_eq!((rtt.srtt, rtt.var, rtt.rto(&config)), (8_000_000, 4_000_000, 24_000_000));
        rtt.sample(16_000_000, 1, &config);
        assert_eq!((rtt.srtt, rtt.var, rtt.rto(&config)), (9_000_000, 5_000_000, 29_000_000));
        rtt.backoff = 3;
        assert_eq!(rtt.rto(&config), 8 * 29_000_000);
        rtt.backoff = 200;
        assert_eq!(rtt.rto(&config), config.max_rto_ns);
        // Equal measurements: only the granularity is left.
        rtt.backoff = 0;
        (0..300).for_each(|_| rtt.sample(10_000_000, 1, &config));
        let rto = rtt.rto(&config);
        assert!((10_000_900..10_003_000).contains(&rto), "{rto}");
        // Ten measurements a round trip move the mean about as far as one.
        let (mut one, mut ten) = (rtt.clone(), rtt);
        one.sample(18_000_000, 1, &config);
        (0..10).for_each(|_| ten.sample(18_000_000, 10, &config));
        assert!(ten.srtt.abs_diff(one.srtt) < 300_000, "{} {}", ten.srtt, one.srtt);
    }

    #[test]
    fn the_minimum_holds() {
        let config = Config::default();
        let mut rtt = Rtt::new(&config);
        rtt.sample(100_000, 1, &config);
        assert_eq!(rtt.rto(&config), config.min_rto_ns);
    }
}
