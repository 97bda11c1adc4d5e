//! CUBIC (RFC 9438): the window is a cubic function of the time since the last reduction.

use super::{Control, Delivery, Reason, Window};

/// Scaling factor, in segments per cubic second.
const C: f64 = 0.4;
/// Multiplicative decrease.
const BETA: f64 = 0.7;
/// Growth of Reno's estimated window, so that it has Reno's throughput with this decrease (section 4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// A stage of congestion avoidance. Windows are in segments, times in seconds.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// When it began, in nanoseconds, without idle time.
    began: u64,
    /// Time until the window is `w_max` again.
    k: f64,
    /// The window that Reno would have.
    reno: f64,
    /// What the window has grown by, less whole bytes.
    rest: f64,
}

/// CUBIC's state.
#[derive(Clone, Debug, Default)]
pub struct Cubic {
    epoch: Option<Epoch>,
    /// Window before the last reduction, in segments, after fast convergence.
    w_max: f64,
    /// Window before the last reduction, in segments.
    prior: f64,
    /// The state before the last reduction.
    before: Option<(Option<Epoch>, f64, f64)>,
}

/// The cube root. Only operations that give the same bits everywhere.
pub(super) fn cube_root(x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    // A third of the exponent, then Newton's method.
    let mut root = f64::from_bits(x.to_bits() / 3 + 0x2a9f_7893_0000_0000);
    for _ in 0..4 {
        root -= (root - x / (root * root)) / 3.0;
    }
    root
}

impl Epoch {
    /// Section 4.2: equation 1.
    fn window(&self, w_max: f64, t: f64) -> f64 {
        let x = t - self.k;
        C * x * x * x + w_max
    }
}

impl Cubic {
    /// The epoch of a congestion avoidance that begins now, with this window in segments.
    fn begin(&mut self, now: u64, cwnd: f64) -> Epoch {
        // After slow start without a loss the curve begins at its plateau (section 4.8).
        self.w_max = self.w_max.max(cwnd);
        let k = cube_root((self.w_max - cwnd) / C);
        Epoch { began: now, k, reno: cwnd, rest: 0.0 }
    }
}

impl Control for Cubic {
    fn grow(&mut self, window: &mut Window, delivery: &Delivery) {
        let mut bytes = delivery.bytes;
        if window.slow_start() {
            bytes = window.grow_exponentially(bytes);
            if bytes == 0 {
                return;
            }
        }
        let mss = f64::from(window.mss);
        let cwnd = f64::from(window.cwnd) / mss;
        let mut epoch = match self.epoch {
            Some(epoch) => epoch,
            None => self.begin(delivery.now, cwnd),
        };
        let acked = f64::from(bytes) / mss;
        let t = delivery.now.saturating_sub(epoch.began) as f64 / 1e9;
        // Section 4.3: from the window before the reduction on, Reno's estimate grows as Reno does.
        let alpha = if epoch.reno >= self.prior { 1.0 } else { ALPHA };
        epoch.reno += alpha * acked / cwnd;
        if epoch.window(self.w_max, t) < epoch.reno {
            epoch.rest += (epoch.reno - cwnd).max(0.0);
        } else {
            // Sections 4.4 and 4.5.
            let target = epoch.window(self.w_max, t + delivery.srtt as f64 / 1e9);
            epoch.rest += (target.clamp(cwnd, 1.5 * cwnd) - cwnd) / cwnd * acked;
        }
        let whole = (epoch.rest * mss) as u32;
        epoch.rest -= f64::from(whole) / mss;
        window.add(whole);
        self.epoch = Some(epoch);
    }

    fn reduce(&mut self, window: &Window, flight: u32, reason: Reason) -> u32 {
        self.before = Some((self.epoch.take(), self.w_max, self.prior));
        let cwnd = f64::from(window.cwnd) / f64::from(window.mss);
        // Section 4.7: fast convergence leaves room for new flows.
        self.w_max = if cwnd < self.w_max { cwnd * (1.0 + BETA) / 2.0 } else { cwnd };
        self.prior = cwnd;
        if reason == Reason::Timeout {
            // Section 4.8: the next curve begins at its plateau, with the window of that moment.
            self.w_max = 0.0;
        }
        window.floor((f64::from(flight) * BETA) as u32)
    }

    fn undo(&mut self) {
        if let Some((epoch, w_max, prior)) = self.before.take() {
            (self.epoch, self.w_max, self.prior) = (epoch, w_max, prior);
        }
    }

    fn idle(&mut self, ns: u64) {
        // Sections 4.2 and 5.8: the curve does not advance while nothing is sent, or less than the window allows.
        if let Some(epoch) = &mut self.epoch {
            epoch.began = epoch.began.saturating_add(ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1000;

    #[test]
    fn cube_roots() {
        for n in 1..2000 {
            let x = f64::from(n) * 0.37;
            let root = cube_root(x);
            assert!((root * root * root - x).abs() < 1e-9 * x, "{x} {root}");
        }
        assert!((cube_root(1e-12) - 1e-4).abs() < 1e-12 && cube_root(0.0) == 0.0);
    }

    /// Full windows delivered every round trip, from a loss at `before` segments: the windows after each round trip.
    fn run(before: u32, srtt: u64, rounds: usize) -> Vec<f64> {
        let mut cubic = Cubic::default();
        let mut window = Window { cwnd: before * MSS, ssthresh: 0, mss: MSS, step: 2 * MSS };
        window.ssthresh = cubic.reduce(&window, window.cwnd, Reason::Loss);
        window.cwnd = window.ssthresh;
        let mut now = 5_000_000_000;
        let mut out = Vec::new();
        for _ in 0..rounds {
            let n = window.cwnd / MSS;
            for i in 0..n {
                let now = now + srtt * u64::from(i) / u64::from(n);
                let d = Delivery { now, bytes: MSS, marked: false, una: 0, nxt: 0, srtt };
                cubic.grow(&mut window, &d);
            }
            now += srtt;
            out.push(f64::from(window.cwnd) / f64::from(MSS));
        }
        out
    }

    /// The formula of section 4.2, in its own words.
    fn formula(w_max: f64, t: f64) -> f64 {
        let k = (w_max * (1.0 - 0.7) / 0.4).cbrt();
        0.4 * (t - k).powi(3) + w_max
    }

    #[test]
    fn the_window_follows_the_curve() {
        // A long fat path: 100 ms, 1,000 segments. K is 9.1 s.
        let srtt = 100_000_000;
        let windows = run(1000, srtt, 150);
        for (round, window) in windows.iter().enumerate().skip(2) {
            // A window after a round trip aims at the curve's value then.
            let expected = formula(1000.0, (round + 1) as f64 * 0.1);
            assert!((window - expected).abs() < 0.02 * expected, "{round}: {window}, not {expected}");
        }
    }

    #[test]
    fn on_short_paths_it_grows_as_reno() {
        // 1 ms, 20 segments: cubed seconds are nothing, Reno's estimate rules.
        let windows = run(20, 1_000_000, 40);
        assert!((windows[0] - (14.0 + ALPHA)).abs() < 0.6, "{windows:?}");
        // Until 20 segments by alpha, then by 1 a round trip.
        let reached = windows.iter().position(|w| *w >= 20.0).expect("20 segments");
        assert!((10..=13).contains(&reached), "{reached} {windows:?}");
        let slope = (windows[39] - windows[29]) / 10.0;
        assert!((slope - 1.0).abs() < 0.05, "{slope}");
    }

    #[test]
    fn the_curve_stops_while_nothing_is_sent() {
        let grown = |idle: u64| {
            let mut cubic = Cubic { w_max: 1000.0, ..Cubic::default() };
            let mut window = Window { cwnd: 700 * MSS, ssthresh: 700 * MSS, mss: MSS, step: 2 * MSS };
            let d = Delivery { now: 0, bytes: 700 * MSS, marked: false, una: 0, nxt: 0, srtt: 100_000_000 };
            cubic.grow(&mut window, &d);
            cubic.idle(idle);
            cubic.grow(&mut window, &Delivery { now: idle + 100_000_000, ..d });
            window.cwnd
        };
        assert_eq!(grown(0), grown(9_000_000_000));
    }

    /// Section 4.8: K is 0 after a time-out, and the plateau is the window in which congestion avoidance begins.
    #[test]
    fn the_curve_is_flat_after_a_time_out() {
        let grown = |reason| {
            let mut cubic = Cubic::default();
            let mut window = Window { cwnd: 1000 * MSS, ssthresh: 0, mss: MSS, step: 2 * MSS };
            window.ssthresh = cubic.reduce(&window, window.cwnd, reason);
            window.cwnd = window.ssthresh;
            let d = Delivery { now: 0, bytes: 700 * MSS, marked: false, una: 0, nxt: 0, srtt: 100_000_000 };
            cubic.grow(&mut window, &d);
            cubic.grow(&mut window, &Delivery { now: 1_000_000_000, ..d });
            (cubic.w_max, cubic.epoch.map(|e| e.k), window.cwnd)
        };
        let (plateau, k, cwnd) = grown(Reason::Timeout);
        assert_eq!((plateau, k), (700.0, Some(0.0)));
        assert!(cwnd < 704 * MSS, "{cwnd}");
        assert!(grown(Reason::Loss).2 > 780 * MSS);
    }

    #[test]
    fn fast_convergence_and_undo() {
        let mut cubic = Cubic::default();
        let mut window = Window { cwnd: 100 * MSS, ssthresh: 0, mss: MSS, step: 2 * MSS };
        assert_eq!(cubic.reduce(&window, window.cwnd, Reason::Loss), 70 * MSS);
        assert_eq!(cubic.w_max, 100.0);
        window.cwnd = 80 * MSS;
        assert_eq!(cubic.reduce(&window, window.cwnd, Reason::Loss), 56 * MSS);
        assert!((cubic.w_max - 80.0 * 0.85).abs() < 1e-9);
        cubic.undo();
        assert_eq!((cubic.w_max, cubic.prior), (100.0, 100.0));
    }
}
