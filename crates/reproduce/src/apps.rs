//! The thesis's applications on the thesis's devices, as simulator models.

use super::bench::{Bench, Factor};
use super::setup::{Setup, Unit, agents, as_published, by_readings, coming};
use pointsman_balance::DeviceKind;

/// An application: service times per device, and its measurements.
pub struct App {
    /// Short name.
    pub name: &'static str,
    /// Heading.
    pub title: &'static str,
    /// The server's processor.
    pub server: Unit,
    /// The SmartNIC.
    pub nic: Unit,
    /// Round-trip network time of a request, in milliseconds.
    pub way_ms: f64,
    /// Offered loads.
    pub rates: &'static [f64],
    /// Fewer of them.
    pub quick_rates: &'static [f64],
    /// Those of them that claims are about.
    pub claimed_rates: &'static [f64],
    /// The chart of its P99 as published.
    pub paper: &'static str,
    /// Time-out of its published client; not known for BM25.
    pub published_patience_s: f64,
}

const fn cpu(workers: u32, mean_ms: f64, sigma: f64, speed: f64) -> Unit {
    Unit { name: "cpu", kind: DeviceKind::Cpu, weight: 5, workers, mean_ms, sigma, speed }
}

const fn nic(workers: u32, mean_ms: f64, sigma: f64) -> Unit {
    Unit { name: "nic", kind: DeviceKind::SmartNic, weight: 1, workers, mean_ms, sigma, speed: 1.0 }
}

/// Anomaly detection. One core of the server saturates at 862 requests a second; unloaded 2.8 ms. Two cores of the SmartNIC;
/// unloaded about 4.2 ms.
pub const AD: App = App {
    name: "AD",
    title: "Anomaly detection (MLP)",
    server: cpu(1, 1.16, 0.2, 1.0),
    nic: nic(2, 2.6, 0.2),
    way_ms: 1.6,
    rates: &[500.0, 600.0, 700.0, 800.0, 850.0, 900.0, 950.0, 1000.0, 1050.0],
    quick_rates: &[600.0, 800.0, 950.0, 1050.0],
    claimed_rates: &[950.0],
    paper: "5.7-ad",
    published_patience_s: 20.0,
};

/// Retrieval. The server saturates at 54 a second, unloaded median 131 ms, 95th percentile 231 ms; the SmartNIC serves about
/// 13 a second, unloaded median 800 ms.
pub const BM25: App = App {
    name: "BM25",
    title: "Natural language processing (BM25)",
    server: cpu(8, 139.0, 0.345, 0.94),
    nic: nic(11, 850.0, 0.345),
    way_ms: 0.0,
    rates: &[20.0, 30.0, 40.0, 45.0, 50.0, 55.0, 60.0, 65.0, 70.0, 80.0],
    quick_rates: &[20.0, 50.0, 60.0, 65.0, 80.0],
    claimed_rates: &[50.0, 65.0],
    paper: "5.7-bm25",
    published_patience_s: 30.0,
};

/// Images by a deep network. 53 a second, unloaded 82 ms; the SmartNIC about 9.5 a second, unloaded 121 ms.
pub const VGG: App = App {
    name: "VGG16",
    title: "Image classification (VGG16)",
    server: cpu(5, 82.0, 0.06, 0.87),
    nic: nic(1, 105.0, 0.1),
    way_ms: 0.0,
    rates: &[10.0, 20.0, 30.0, 40.0, 45.0, 50.0, 55.0, 60.0, 65.0, 70.0],
    quick_rates: &[20.0, 40.0, 50.0, 55.0, 60.0, 70.0],
    claimed_rates: &[40.0, 50.0, 55.0, 60.0, 70.0],
    paper: "5.7-vgg16",
    published_patience_s: 20.0,
};

/// Images by nearest neighbours. 15 a second, unloaded 174 ms; the SmartNIC 3.6 a second, unloaded 830 ms.
pub const KNN: App = App {
    name: "KNN",
    title: "Image classification (KNN)",
    server: cpu(3, 174.0, 0.05, 0.87),
    nic: nic(3, 830.0, 0.05),
    way_ms: 0.0,
    rates: &[2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 18.0, 20.0],
    quick_rates: &[2.0, 8.0, 10.0, 12.0, 14.0, 16.0, 18.0, 20.0],
    claimed_rates: &[8.0, 10.0, 14.0, 16.0, 18.0, 20.0],
    paper: "5.7-knn",
    published_patience_s: 30.0,
};

impl App {
    /// Latency of a request that nothing disturbs, on the server.
    pub fn unloaded_ms(&self) -> f64 {
        self.server.mean_ms / self.server.speed + self.way_ms
    }

    /// So many servers, each with a SmartNIC, as the thesis had them: 30 s of requests; a hundred reports a second, of the
    /// mean use over about a second.
    pub fn setup(&self, bench: &Bench, servers: u32, policy: &str, rate_per_s: f64) -> Setup {
        let mut units = [self.server.clone(), self.nic.clone()];
        if bench.as_published(Factor::Ring) {
            (units[0].weight, units[1].weight) = (9, 2);
        }
        let mut s = Setup::new(servers, &units, policy, coming(bench, rate_per_s));
        s.duration_s = 30.0;
        if bench.in_lab() {
            // Fast applications need less time for enough samples.
            s.duration_s = (bench.choose(10_000.0, 3_000.0) / rate_per_s).min(s.duration_s);
        }
        s.warmup_s = 0.0;
        s.patience_s = bench.pick(Factor::Losses, self.published_patience_s, 30.0);
        s.client_delay_ms = (self.way_ms / 2.0).max(0.001);
        s.agent = agents(10, 1000);
        if bench.as_published(Factor::Agent) || bench.as_published(Factor::Interval) {
            let ms = bench.pick(Factor::Interval, 100, 10);
            (s.agent, s.sampling_ms) = (by_readings(ms), f64::from(ms));
        }
        s.tuning = as_published(bench, policy);
        s
    }
}
