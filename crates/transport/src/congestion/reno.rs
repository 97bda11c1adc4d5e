//! Reno (RFC 5681): one segment more every round trip, half of the window after a loss.

use super::{Control, Delivery, Reason, Window};

/// Reno's state.
#[derive(Clone, Debug, Default)]
pub struct Reno {
    /// Bytes delivered in congestion avoidance since the window last grew.
    counted: u32,
}

impl Control for Reno {
    fn grow(&mut self, window: &mut Window, delivery: &Delivery) {
        let mut bytes = delivery.bytes;
        if window.slow_start() {
            bytes = window.grow_exponentially(bytes);
        }
        // RFC 3465, section 2.1.
        self.counted = self.counted.saturating_add(bytes);
        if self.counted >= window.cwnd {
            self.counted -= window.cwnd;
            window.add(window.mss);
        }
    }

    fn reduce(&mut self, window: &Window, flight: u32, _: Reason) -> u32 {
        self.counted = 0;
        window.floor(flight / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_start_doubles_and_avoidance_adds_a_segment() {
        let mut reno = Reno::default();
        let mut window = Window { cwnd: 10_000, ssthresh: 40_500, mss: 1000, step: 2000 };
        let round = |reno: &mut Reno, window: &mut Window, each: u32| {
            for _ in 0..window.cwnd / each {
                let d = Delivery { now: 0, bytes: each, marked: false, una: 0, nxt: 0, srtt: 1 };
                reno.grow(window, &d);
            }
            window.cwnd
        };
        let grown: Vec<u32> = (0..5).map(|_| round(&mut reno, &mut window, 2000)).collect();
        assert_eq!(grown[..2], [20_000, 40_000]);
        assert!(grown[2] == 40_500 || grown[2] == 41_500, "{grown:?}");
        let steps: Vec<u32> = (0..20)
            .map(|_| {
                let before = window.cwnd;
                round(&mut reno, &mut window, 1000) - before
            })
            .collect();
        assert!(steps.iter().all(|s| *s == 1000 || *s == 0), "{steps:?}");
        assert!(steps.iter().sum::<u32>() >= 19_000, "{steps:?}");
        // The limit per ACK: eight segments at once add two.
        let mut window = Window { ssthresh: 1 << 20, ..window };
        let before = window.cwnd;
        let d = Delivery { now: 0, bytes: 8000, marked: false, una: 0, nxt: 0, srtt: 1 };
        reno.grow(&mut window, &d);
        assert_eq!(window.cwnd - before, 2000);
        assert_eq!(reno.reduce(&window, 30_000, Reason::Loss), 15_000);
        assert_eq!(reno.reduce(&window, 3_000, Reason::Loss), 2_000);
    }
}
