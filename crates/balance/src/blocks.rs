//! Policies as configurations of the data plane's blocks (`p4/programs/balancer/blocks.p4`): a block that narrows the
//! candidates, one that measures them, one that picks a device, and the separate choice of the server.

use crate::types::{Policy, Protocol, UnknownName};
use std::str::FromStr;

/// The metric of a decision (`METRIC_*` of the data plane).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Nothing: every device alike.
    None,
    /// Use of the processor, graphics processor or other computing unit, in per cent; reported.
    Compute,
    /// Use of memory, in per cent; reported.
    Memory,
    /// Use of the network, in per cent; reported.
    Network,
    /// Requests that wait for an answer; reported.
    Queue,
    /// The weight that the last probe gave.
    Weight,
    /// Connections or requests in flight, counted by the switch.
    InFlight,
}

impl Metric {
    const NAMES: [(&'static str, Metric); 7] = [
        ("none", Metric::None),
        ("compute", Metric::Compute),
        ("memory", Metric::Memory),
        ("network", Metric::Network),
        ("queue", Metric::Queue),
        ("weight", Metric::Weight),
        ("in-flight", Metric::InFlight),
    ];

    /// Its number in the data plane.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Whether it comes with reports or probes.
    pub fn is_reported(self) -> bool {
        !matches!(self, Metric::None | Metric::InFlight)
    }
}

/// How the server is chosen (`SERVERS_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Servers {
    /// By hash over the slot table.
    Hash,
    /// The less loaded one of two by hash.
    PowerOfTwo,
    /// The less loaded one of one by hash and the better one of last time.
    LeastLoaded,
    /// The one that the controller names.
    Chosen,
}

impl Servers {
    const NAMES: [(&'static str, Servers); 4] = [
        ("hash", Servers::Hash),
        ("power-of-two", Servers::PowerOfTwo),
        ("least-loaded", Servers::LeastLoaded),
        ("chosen", Servers::Chosen),
    ];

    /// Whether it looks at the load of two candidates.
    pub fn compares(self) -> bool {
        matches!(self, Servers::PowerOfTwo | Servers::LeastLoaded)
    }
}

/// The packets of a connection that count as in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counting {
    /// The connection, from its first packet to its end.
    Connections,
    /// A request, from a packet with data of the client to one of the device.
    Requests,
}

impl Counting {
    const NAMES: [(&'static str, Counting); 2] =
        [("connections", Counting::Connections), ("requests", Counting::Requests)];

    /// Flags of a connection in the data plane (`CONN_COUNTS_*`).
    pub fn flags(self) -> u8 {
        match self {
            Counting::Connections => 32,
            Counting::Requests => 64,
        }
    }

    /// The default: a TCP connection has an end that the switch sees, a UDP flow has none.
    pub fn of(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Tcp => Counting::Connections,
            Protocol::Udp => Counting::Requests,
        }
    }
}

/// Which of several devices with the same, smallest load is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ties {
    /// One of them by a hash of the connection.
    Chance,
    /// The first of them by priority, as in the published least-utilised.
    Priority,
}

impl Ties {
    const NAMES: [(&'static str, Ties); 2] = [("chance", Ties::Chance), ("priority", Ties::Priority)];
}

macro_rules! by_name {
    ($type:ty, $what:literal) => {
        impl $type {
            /// Its name in configuration files.
            pub fn name(self) -> &'static str {
                Self::NAMES.iter().find(|(_, v)| *v == self).map_or("", |(n, _)| n)
            }
        }

        impl FromStr for $type {
            type Err = UnknownName;

            fn from_str(s: &str) -> Result<Self, UnknownName> {
                let found = Self::NAMES.iter().find(|(n, _)| *n == s);
                found.map(|(_, v)| *v).ok_or_else(|| {
                    let names: Vec<String> = Self::NAMES.iter().map(|(n, _)| format!("\"{n}\"")).collect();
                    UnknownName::new(concat!("unknown ", $what), s, names.join(" or "))
                })
            }
        }
    };
}

by_name!(Metric, "metric");
by_name!(Servers, "way to choose a server");
by_name!(Counting, "way to count");
by_name!(Ties, "way to break ties");

/// How the candidates are narrowed (`NARROW_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // as in blocks.p4
pub enum Narrow {
    None,
    Available,
    Below,
    Idle,
}

/// How the device is picked (`PICK_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // as in blocks.p4
pub enum Pick {
    Least,
    Priority,
    Weighted,
    Chance,
    Chosen,
}

/// The factor of a device's load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Factor {
    /// Nothing.
    One,
    /// Its weight: more is better.
    Weight,
    /// The inverse of its weight: less is better.
    Inverse,
    /// This number over the requests that it works on at the same time.
    PerWorker(u16),
    /// Nearly one, and more for each place further back by priority ([`ranked`]): equal loads become different.
    Ranked,
}

/// The thresholds at which a device is out, and in again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limits {
    /// Out at this load or above, in again at that or below.
    Fixed {
        /// Out.
        high: u16,
        /// In again.
        low: u16,
    },
    /// Out once the requests in flight exceed its `workers` by this many.
    Workers {
        /// 0: it may work to capacity.
        more: u16,
    },
    /// Out once a new request would wait half as long as its service would take at the next device by priority; the last device, once
    /// its workers are busy.
    Spill,
}

/// What a device can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Requests that it works on at the same time, if they are configured.
    pub workers: Option<u16>,
    /// Its speed relative to the others'.
    pub weight: u32,
}

impl Capacity {
    fn workers(self) -> u16 {
        self.workers.unwrap_or(1).max(1)
    }

    /// How many requests it finishes while a request takes half of its service time at `next`; at least as many as it works on.
    fn during_half_a_service_of(self, next: Capacity) -> u16 {
        // A device's weight is what all of its workers finish together.
        let service = u64::from(next.workers()) * u64::from(self.weight);
        let finished = service.div_ceil(2 * u64::from(next.weight.max(1)));
        u16::try_from(finished).unwrap_or(u16::MAX).max(self.workers())
    }
}

impl Limits {
    /// These limits with the thresholds of a service's settings.
    fn tuned(self, narrow: Narrow, high: Option<u16>, low: Option<u16>) -> Limits {
        match (narrow, self, high, low) {
            (_, limits, None, None) => limits,
            // Room for one more is one less.
            (Narrow::Idle, _, Some(high), _) => Limits::Fixed { high, low: high.saturating_sub(1) },
            (Narrow::Idle, limits, None, _) => limits,
            (_, Limits::Fixed { high: own, low: lower }, high, low) => {
                let high = high.unwrap_or(own);
                Limits::Fixed { high, low: low.unwrap_or(lower.min(high.saturating_sub(1))) }
            }
            (_, Limits::Workers { .. } | Limits::Spill, Some(high), low) => {
                Limits::Fixed { high, low: low.unwrap_or(high.saturating_sub(1)) }
            }
            (_, Limits::Workers { .. } | Limits::Spill, None, Some(low)) => {
                Limits::Fixed { high: low.saturating_add(1), low }
            }
        }
    }
}

/// The only metric of policies that count.
const IN_FLIGHT: [(Metric, u8); 2] = [(Metric::InFlight, 1), (Metric::None, 0)];

/// One per cent of load, where reported load and requests in flight are added up.
const PER_CENT: u16 = 16;

/// A service's settings in addition to its policy. Each overrides the policy's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Tuning {
    /// The metric.
    pub metric: Option<Metric>,
    /// And what else; the sum counts.
    pub metric2: Option<Metric>,
    /// Weight of the metric in the sum.
    pub weight: Option<u8>,
    /// Weight of the second metric in the sum.
    pub weight2: Option<u8>,
    /// The load that a device gains with every connection since its last report.
    pub step: Option<u8>,
    /// Of how many devices by chance the least loaded is taken.
    pub choices: Option<u8>,
    /// At this load or above a device is out; for `jiq`, no longer idle.
    pub high: Option<u16>,
    /// At this load or below it is in again.
    pub low: Option<u16>,
    /// How requests in flight are counted.
    pub count: Option<Counting>,
    /// How the server is chosen.
    pub servers: Option<Servers>,
    /// Which of equally loaded devices is taken, where the device with the smallest load is, and loads have no factor.
    pub ties: Option<Ties>,
}

/// A policy in terms of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // as in `Tuning`
pub struct Blocks {
    pub servers: Servers,
    pub narrow: Narrow,
    pub pick: Pick,
    pub choices: u8,
    pub count: Option<Counting>,
    pub metrics: [(Metric, u8); 2],
    pub step: u8,
    /// Is added to the load.
    pub offset: u8,
    /// 100 less the load, instead of the load.
    pub complement: bool,
    /// The factor is the second metric's alone.
    pub second_only: bool,
    pub factor: Factor,
    /// In the unit of the configuration.
    pub limits: Limits,
    /// One unit of that in a device's load.
    pub unit: u16,
}

impl Blocks {
    const PLAIN: Blocks = Blocks {
        servers: Servers::Hash,
        narrow: Narrow::None,
        pick: Pick::Least,
        choices: 0,
        count: None,
        metrics: [(Metric::None, 0); 2],
        step: 0,
        offset: 0,
        complement: false,
        second_only: false,
        factor: Factor::One,
        limits: Limits::Fixed { high: u16::MAX, low: 0 },
        unit: 1,
    };

    /// The blocks of a policy; for the four built-in ones of the data plane, their options. `workers`: every device has
    /// a configured number of requests that it works on at the same time.
    pub fn new(policy: Policy, tuning: &Tuning, protocol: Protocol, workers: bool) -> Blocks {
        use Metric::{InFlight, Queue};
        let t = tuning;
        // A report is of the past: the requests in flight show how busy the workers are now. A configuration that names
        // a metric and its blocks gets exactly these.
        let corrected = workers
            && (t.metric, t.metric2) == (None, None)
            && (t.weight, t.weight2, t.step) == (None, None, None);
        // Loads with a factor of their own have few ties.
        let by_rank = policy == Policy::LeastUtilised && t.ties == Some(Ties::Priority);
        let mut b = Blocks::of(policy, corrected && !by_rank);
        if policy == Policy::Jsq && t.metric == Some(Queue) {
            // The reported queue is as old as the report: connections since then count too.
            b.step = 1;
        }
        let [first, second] = &mut b.metrics;
        first.0 = t.metric.unwrap_or(first.0);
        first.1 = t.weight.unwrap_or(first.1.max(u8::from(t.metric.is_some())));
        second.0 = t.metric2.unwrap_or(second.0);
        second.1 = t.weight2.unwrap_or(second.1.max(u8::from(t.metric2.is_some())));
        b.step = t.step.unwrap_or(b.step);
        b.choices = t.choices.unwrap_or(b.choices);
        if policy == Policy::Prt && workers && b.metrics == IN_FLIGHT {
            b.limits = Limits::Workers { more: 1 };
        }
        b.limits = b.limits.tuned(b.narrow, t.high, t.low);
        if t.ties == Some(Ties::Priority) && (b.pick, b.factor) == (Pick::Least, Factor::One) {
            // A load of 0 times a factor would remain 0.
            (b.factor, b.offset) = (Factor::Ranked, b.offset.max(1));
        }
        b.servers = t.servers.unwrap_or(b.servers);
        // The connections that a device got since its last report are part of the same count.
        let needs_count =
            b.step > 0 || b.servers.compares() || b.metrics.iter().any(|(m, w)| *m == InFlight && *w > 0);
        b.count = t.count.or(b.count).or(needs_count.then(|| Counting::of(protocol)));
        b
    }

    /// The blocks of a policy as such. `corrected`: a reported load is corrected by the requests in flight.
    fn of(policy: Policy, corrected: bool) -> Blocks {
        use Metric::{Compute, InFlight, None as Nothing, Weight};
        // Half of it is the reported load, half the share of busy workers.
        let mean_of_both = Blocks {
            metrics: [(Compute, (PER_CENT / 2) as u8), (InFlight, 1)],
            second_only: true,
            factor: Factor::PerWorker(100 * PER_CENT / 2),
            unit: PER_CENT,
            ..Blocks::PLAIN
        };
        let reported = Blocks { metrics: [(Compute, 1), (Nothing, 0)], ..Blocks::PLAIN };
        match policy {
            Policy::ServerOnly | Policy::Ecmp | Policy::Wrr | Policy::P4mite => Blocks::PLAIN,
            Policy::LeastUtilised if corrected => mean_of_both,
            // One connection counts as one per cent until the next report.
            Policy::LeastUtilised => Blocks { step: 1, ..reported },
            Policy::DynamicWrr => {
                Blocks { pick: Pick::Weighted, complement: true, factor: Factor::Weight, ..reported }
            }
            Policy::Prt => Blocks {
                narrow: Narrow::Below,
                pick: Pick::Priority,
                limits: Limits::Fixed { high: 90, low: 80 },
                ..if corrected { mean_of_both } else { reported }
            },
            Policy::LeastConnections => Blocks { metrics: IN_FLIGHT, ..Blocks::PLAIN },
            // One more than the current number: the comparison includes the new one.
            Policy::WeightedLeastConnections => {
                Blocks { metrics: IN_FLIGHT, offset: 1, factor: Factor::Inverse, ..Blocks::PLAIN }
            }
            Policy::Jsq => Blocks { metrics: IN_FLIGHT, count: Some(Counting::Requests), ..Blocks::PLAIN },
            // How soon a device becomes idle depends on its speed: hence the weights.
            Policy::Jiq => Blocks {
                narrow: Narrow::Idle,
                pick: Pick::Chance,
                metrics: IN_FLIGHT,
                second_only: true,
                factor: Factor::Weight,
                limits: Limits::Workers { more: 0 },
                ..Blocks::PLAIN
            },
            Policy::PowerOfTwo => Blocks { choices: 2, metrics: IN_FLIGHT, ..Blocks::PLAIN },
            Policy::ProbeWrr => Blocks {
                pick: Pick::Weighted,
                metrics: [(Weight, 1), (Nothing, 0)],
                factor: Factor::Weight,
                ..Blocks::PLAIN
            },
            Policy::Chosen => {
                Blocks { servers: Servers::Chosen, pick: Pick::Chosen, metrics: IN_FLIGHT, ..Blocks::PLAIN }
            }
            // Servers share the load, too: otherwise one of them would spill while another one has room.
            Policy::Spillover => Blocks {
                servers: Servers::PowerOfTwo,
                narrow: Narrow::Below,
                pick: Pick::Priority,
                metrics: IN_FLIGHT,
                limits: Limits::Spill,
                ..Blocks::PLAIN
            },
        }
    }

    /// Whether the data plane needs any settings.
    pub fn is_plain(&self) -> bool {
        *self == Blocks::PLAIN
    }

    /// The thresholds at which a device is out, and in again, in the data plane's unit of load. `next`: the next one by priority.
    pub fn thresholds(&self, device: Capacity, next: Option<Capacity>) -> (u16, u16) {
        match self.limits {
            Limits::Fixed { high, low } => (high.saturating_mul(self.unit), low.saturating_mul(self.unit)),
            Limits::Workers { more } => {
                let high = device.workers().saturating_add(more);
                (high, high - 1)
            }
            Limits::Spill => {
                let high = next.map_or(device.workers(), |next| device.during_half_a_service_of(next));
                (high, high - 1)
            }
        }
    }

    /// Whether a decision uses data from reports or probes.
    pub fn needs_reports(&self) -> bool {
        self.narrow == Narrow::Available || self.metrics.iter().any(|(m, w)| m.is_reported() && *w > 0)
    }
}

/// The factor of a device at this place by priority, from 0: of equal loads up to 4,000 the first is the smallest, and a load
/// that is less by one remains smaller.
pub fn ranked(place: usize) -> u16 {
    60_000 + place.min(15) as u16
}

/// Factors in proportion to the inverses of weights, exact if 16 bits hold them.
pub fn inverses(weights: &[u64]) -> Vec<u16> {
    let gcd = |mut a: u64, mut b: u64| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a.max(1)
    };
    let least = weights.iter().copied().filter(|w| *w > 0).min().unwrap_or(1);
    let lcm = weights.iter().filter(|w| **w > 0).try_fold(1u64, |l, w| {
        let next = (l / gcd(l, *w)).checked_mul(*w)?;
        (next / least <= u64::from(u16::MAX)).then_some(next)
    });
    let top = lcm.unwrap_or(least * u64::from(u16::MAX));
    weights
        .iter()
        .map(|w| match w {
            0 => u16::MAX,
            w => ((top + w / 2) / w).clamp(1, u64::from(u16::MAX)) as u16,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Equal loads are taken by priority, others by load.
    #[test]
    fn ties() {
        let tuning = Tuning { ties: Some(Ties::Priority), ..Tuning::default() };
        let b = |policy| Blocks::new(policy, &tuning, Protocol::Udp, true);
        let least = b(Policy::LeastUtilised);
        assert_eq!((least.factor, least.offset, least.step), (Factor::Ranked, 1, 1));
        assert_eq!(b(Policy::WeightedLeastConnections).factor, Factor::Inverse);
        assert_eq!(b(Policy::Prt).factor, Factor::PerWorker(800));
        let value = |load: u64, place| (load + u64::from(least.offset)) * u64::from(ranked(place));
        for load in [0, 1, 50, 100, 3998] {
            for (first, second) in [(0, 1), (0, 15), (3, 4)] {
                assert!(value(load, first) < value(load, second));
                assert!(value(load, second) < value(load + 1, first), "{load}, {second} against {first}");
            }
        }
    }

    #[test]
    fn inverse_weights() {
        assert_eq!(inverses(&[5, 1]), [1, 5]);
        assert_eq!(inverses(&[2, 3, 6]), [3, 2, 1]);
        assert_eq!(inverses(&[4, 4]), [1, 1]);
        assert_eq!(inverses(&[]), [0u16; 0]);
        assert_eq!(inverses(&[0, 7]), [u16::MAX, 1]);
        // No exact ones: right to a part in a thousand.
        let weights = [997, 991, 983, 1000, 3];
        for (w, f) in weights.iter().zip(inverses(&weights)) {
            let error = f64::from(f) * *w as f64 / (3.0 * 65535.0) - 1.0;
            assert!(error.abs() < 0.003, "{w}: {error}");
        }
    }

    #[test]
    fn policies() {
        let of = |policy, tuning: Tuning| Blocks::new(policy, &tuning, Protocol::Tcp, false);
        for policy in Policy::COMPARED {
            assert!(of(policy, Tuning::default()).is_plain(), "{policy}");
        }
        assert_eq!(of(Policy::LeastConnections, Tuning::default()).count, Some(Counting::Connections));
        assert_eq!(
            Blocks::new(Policy::LeastConnections, &Tuning::default(), Protocol::Udp, false).count,
            Some(Counting::Requests)
        );
        let two = Tuning { servers: Some(Servers::PowerOfTwo), ..Tuning::default() };
        assert_eq!(of(Policy::Ecmp, two).count, Some(Counting::Connections));
        let memory = Tuning { metric: Some(Metric::Memory), step: Some(0), ..Tuning::default() };
        let b = of(Policy::LeastUtilised, memory);
        assert_eq!((b.metrics[0], b.step), ((Metric::Memory, 1), 0));
        assert!(b.needs_reports() && !of(Policy::Jsq, Tuning::default()).needs_reports());
        let sum = Tuning { metric2: Some(Metric::Network), weight2: Some(3), ..Tuning::default() };
        assert_eq!(of(Policy::Prt, sum).metrics, [(Metric::Compute, 1), (Metric::Network, 3)]);
    }

    #[test]
    fn limits() {
        let check = |policy, tuning: Tuning, workers: Option<u16>, wanted: (u16, u16)| {
            let b = Blocks::new(policy, &tuning, Protocol::Udp, workers.is_some());
            let device = Capacity { workers, weight: 1 };
            assert_eq!(b.thresholds(device, None), wanted, "{policy}, {tuning:?}, {workers:?}");
        };
        let plain = Tuning::default();
        let high = |high| Tuning { high: Some(high), ..plain };
        check(Policy::Jiq, plain, None, (1, 0));
        check(Policy::Jiq, plain, Some(8), (8, 7));
        check(Policy::Jiq, high(3), Some(8), (3, 2));
        check(Policy::Jiq, Tuning { low: Some(5), ..plain }, Some(8), (8, 7));
        check(Policy::Prt, plain, None, (90, 80));
        check(Policy::Prt, high(60), None, (60, 59));
        // In sixteenths of a per cent.
        check(Policy::Prt, plain, Some(8), (1440, 1280));
        check(Policy::Prt, high(65_535), Some(8), (65_535, 1280));
        let in_flight = Tuning { metric: Some(Metric::InFlight), ..plain };
        check(Policy::Prt, in_flight, None, (90, 80));
        check(Policy::Prt, in_flight, Some(8), (9, 8));
        check(Policy::Prt, Tuning { high: Some(20), ..in_flight }, Some(8), (20, 19));
        check(Policy::Prt, Tuning { low: Some(3), ..in_flight }, Some(8), (4, 3));
        check(Policy::Spillover, plain, Some(8), (8, 7));
        check(Policy::Spillover, high(12), Some(8), (12, 11));
    }

    /// A processor that does five requests while an accelerator does one, both eight at a time: half of the accelerator's service
    /// is twenty of the processor's.
    #[test]
    fn spilling() {
        let b = Blocks::new(Policy::Spillover, &Tuning::default(), Protocol::Udp, true);
        assert_eq!((b.servers, b.count), (Servers::PowerOfTwo, Some(Counting::Requests)));
        assert!(!b.needs_reports());
        let of = |workers, weight| Capacity { workers: Some(workers), weight };
        assert_eq!(b.thresholds(of(8, 5), Some(of(8, 1))), (20, 19));
        assert_eq!(b.thresholds(of(8, 1), None), (8, 7));
        // Equal devices: all workers of the first, then the second.
        assert_eq!(b.thresholds(of(8, 1), Some(of(8, 1))), (8, 7));
        assert_eq!(b.thresholds(of(2, 1000), Some(of(60_000, 1))), (65_535, 65_534));
        let unknown = Capacity { workers: None, weight: 5 };
        assert_eq!(b.thresholds(unknown, Some(Capacity { weight: 1, ..unknown })), (3, 2));
    }

    #[test]
    fn reports_are_corrected_where_workers_are_known() {
        let of = |policy, tuning: Tuning, workers| Blocks::new(policy, &tuning, Protocol::Udp, workers);
        for policy in [Policy::LeastUtilised, Policy::Prt] {
            let b = of(policy, Tuning::default(), true);
            assert_eq!(b.metrics, [(Metric::Compute, 8), (Metric::InFlight, 1)], "{policy}");
            assert_eq!((b.factor, b.second_only, b.step), (Factor::PerWorker(800), true, 0), "{policy}");
            assert_eq!(b.count, Some(Counting::Requests), "{policy}");
            // Eight busy workers of eight weigh as much as a report of 100 per cent.
            assert_eq!(8 * 800 / 8, 100 * u16::from(b.metrics[0].1));
            for asked in [
                Tuning { metric: Some(Metric::Compute), ..Tuning::default() },
                Tuning { step: Some(0), ..Tuning::default() },
                Tuning { weight: Some(1), ..Tuning::default() },
            ] {
                let b = of(policy, asked, true);
                assert_eq!((b.metrics[0], b.factor), ((Metric::Compute, 1), Factor::One), "{policy}");
            }
        }
    }

    #[test]
    fn names() {
        assert_eq!("in-flight".parse(), Ok(Metric::InFlight));
        assert!("cpu".parse::<Metric>().expect_err("no such").to_string().contains("\"compute\""));
    }
}
