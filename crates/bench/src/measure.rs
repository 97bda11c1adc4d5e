//! Measurement: packet processors alternate, so that other load on the machine affects them alike.

/// Something that processes packets.
pub trait Subject {
    /// Readies the next `n` packets, at most [`Ring::SIZE`](super::traffic::Ring::SIZE). This is not measured.
    fn refill(&mut self, n: usize);

    /// Processes them. This is measured.
    fn process(&mut self);
}

/// Nanoseconds a packet over some runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spread {
    /// Each run, in order.
    pub runs: Vec<f64>,
}

impl Spread {
    /// The least.
    pub fn min(&self) -> f64 {
        self.runs.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// The most.
    pub fn max(&self) -> f64 {
        self.runs.iter().copied().fold(0.0, f64::max)
    }

    /// The middle; of two in the middle their mean.
    pub fn median(&self) -> f64 {
        let mut sorted = self.runs.clone();
        sorted.sort_by(f64::total_cmp);
        match sorted.len() {
            0 => 0.0,
            n if n % 2 == 1 => sorted[n / 2],
            n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
        }
    }
}

/// Nanoseconds per packet of one run with this many packets. `clock` returns nanoseconds since an arbitrary time.
pub fn run(subject: &mut dyn Subject, packets: usize, chunk: usize, clock: &dyn Fn() -> u64) -> f64 {
    let mut spent = 0;
    let mut left = packets;
    while left > 0 {
        let n = left.min(chunk);
        subject.refill(n);
        let start = clock();
        subject.process();
        spent += clock().saturating_sub(start);
        left -= n;
    }
    spent as f64 / packets.max(1) as f64
}

/// Runs them in turns, after one run of each that does not count.
pub fn in_turns(
    subjects: &mut [&mut dyn Subject],
    runs: usize,
    packets: usize,
    chunk: usize,
    clock: &dyn Fn() -> u64,
) -> Vec<Spread> {
    let mut spreads = vec![Spread::default(); subjects.len()];
    for subject in subjects.iter_mut() {
        run(*subject, packets, chunk, clock);
    }
    for _ in 0..runs {
        for (subject, spread) in subjects.iter_mut().zip(&mut spreads) {
            spread.runs.push(run(*subject, packets, chunk, clock));
        }
    }
    spreads
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Takes this many nanoseconds per packet.
    struct Slow<'a> {
        clock: &'a Cell<u64>,
        each: u64,
        ready: usize,
        processed: usize,
    }

    impl Subject for Slow<'_> {
        fn refill(&mut self, n: usize) {
            self.clock.set(self.clock.get() + 1_000_000);
            self.ready = n;
        }

        fn process(&mut self) {
            self.clock.set(self.clock.get() + self.each * self.ready as u64);
            self.processed += self.ready;
        }
    }

    #[test]
    fn only_processing_counts() {
        let clock = Cell::new(7);
        let mut a = Slow { clock: &clock, each: 30, ready: 0, processed: 0 };
        let mut b = Slow { clock: &clock, each: 50, ready: 0, processed: 0 };
        let spreads = in_turns(&mut [&mut a, &mut b], 3, 1000, 64, &|| clock.get());
        assert_eq!(spreads, [Spread { runs: vec![30.0; 3] }, Spread { runs: vec![50.0; 3] }]);
        assert_eq!((a.processed, b.processed), (4000, 4000));
    }

    #[test]
    fn spreads() {
        let check = |runs: &[f64], min, median, max| {
            let spread = Spread { runs: runs.to_vec() };
            assert_eq!((spread.min(), spread.median(), spread.max()), (min, median, max));
        };
        check(&[3.0, 1.0, 2.0], 1.0, 2.0, 3.0);
        check(&[4.0, 1.0, 2.0, 3.0], 1.0, 2.5, 4.0);
        check(&[5.0], 5.0, 5.0, 5.0);
    }
}
