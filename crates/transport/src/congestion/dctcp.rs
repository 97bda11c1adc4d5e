//! DCTCP (RFC 8257): the reduction is proportional to the fraction of marked bytes.

use super::{Control, Delivery, Reason, Reno, Window};

/// Weight of a new observation: g of section 4.2.
const G: f64 = 1.0 / 16.0;

/// DCTCP's state.
#[derive(Clone, Debug)]
pub struct Dctcp {
    /// Grows like Reno.
    reno: Reno,
    /// Estimated fraction of marked bytes.
    alpha: f64,
    /// Delivered in this observation window, and the marked part of it.
    delivered: u64,
    marked: u64,
    /// The observation window's end, a sequence number.
    end: u64,
}

impl Default for Dctcp {
    fn default() -> Self {
        // Section 3.3: at first every byte counts as marked, so the first reduction is a half.
        Dctcp { reno: Reno::default(), alpha: 1.0, delivered: 0, marked: 0, end: 0 }
    }
}

impl Dctcp {
    /// The estimated fraction of marked bytes, 0 to 1.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }
}

impl Control for Dctcp {
    fn observe(&mut self, delivery: &Delivery) {
        let bytes = u64::from(delivery.bytes);
        self.delivered += bytes;
        self.marked += if delivery.marked { bytes } else { 0 };
        if delivery.una <= self.end {
            return;
        }
        if self.end != 0 && self.delivered > 0 {
            let fraction = self.marked as f64 / self.delivered as f64;
            self.alpha += G * (fraction - self.alpha);
        }
        (self.delivered, self.marked, self.end) = (0, 0, delivery.nxt);
    }

    fn grow(&mut self, window: &mut Window, delivery: &Delivery) {
        self.reno.grow(window, delivery);
    }

    fn reduce(&mut self, window: &Window, flight: u32, reason: Reason) -> u32 {
        // Section 3.5: losses are handled as without DCTCP.
        let half = self.reno.reduce(window, flight, reason);
        match reason {
            Reason::Mark => window.floor((f64::from(window.cwnd) * (1.0 - self.alpha / 2.0)) as u32),
            Reason::Loss | Reason::Timeout => half,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alpha_converges_to_the_marked_fraction() {
        for (every, expected) in [(1u64, 1.0), (2, 0.5), (5, 0.2), (20, 0.05), (0, 0.0)] {
            let mut dctcp = Dctcp::default();
            let mut una = 1 << 32;
            for round in 0..200u64 {
                for packet in 0..100 {
                    una += 1000;
                    let marked = every != 0 && (packet + round) % every == 0;
                    let nxt = una + 100_000;
                    dctcp.observe(&Delivery { now: 0, bytes: 1000, marked, una, nxt, srtt: 1 });
                }
            }
            let alpha = dctcp.alpha();
            assert!((alpha - expected).abs() < 0.02, "{every}: {alpha}");
            let window = Window { cwnd: 100_000, ssthresh: 0, mss: 1000, step: 2000 };
            let reduced = dctcp.reduce(&window, 100_000, Reason::Mark);
            assert_eq!(reduced, (100_000.0 * (1.0 - alpha / 2.0)) as u32);
            assert_eq!(dctcp.reduce(&window, 100_000, Reason::Loss), 50_000);
        }
    }

    #[test]
    fn one_observation_a_window() {
        let mut dctcp = Dctcp::default();
        let at = |una, nxt, marked| Delivery { now: 0, bytes: 1000, marked, una, nxt, srtt: 1 };
        dctcp.observe(&at(1001, 11_000, false));
        assert_eq!(dctcp.alpha(), 1.0);
        (2..11).for_each(|k| dctcp.observe(&at(1001 + 1000 * k, 21_000, false)));
        assert_eq!(dctcp.alpha(), 1.0 - G);
    }
}
