//! The last hour: connections, requests in flight, latency and drops, and the decisions of a learner.

use super::devices::dropped;
use crate::config::Rack;
use crate::controller::{Controller, Controllers, Live};
use crate::learn::Decision;
use crate::report::Latency99;
use crate::types::DeviceNumber;
use pointsman_decide::Weights;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Time between two samples.
const EVERY_MS: u64 = 30_000;

/// For how long they are kept.
const KEPT_MS: u64 = 3_600_000;

/// So long before a sample the figures are read from the switch.
const AHEAD_MS: u64 = 1_000;

/// The devices of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct OfKind {
    /// New connections per second; unknown in the first sample, and after a restart of the switch.
    opened_per_s: Option<f64>,
    in_flight: u64,
    /// The highest of its devices.
    latency: Latency99,
}

#[derive(Clone, Debug, PartialEq)]
struct Sample {
    at_ms: u64,
    kinds: BTreeMap<&'static str, OfKind>,
    dropped_per_s: Option<f64>,
}

/// A decision of a learner.
#[derive(Clone, Debug, PartialEq)]
struct Decided {
    at_ms: u64,
    class: Option<String>,
    weights: Weights,
    p99_ms: f64,
}

/// Counters as of a sample, by place of the switch in the configuration.
#[derive(Clone, Debug, Default)]
struct Counts {
    at_ms: u64,
    opened: BTreeMap<(usize, DeviceNumber), u64>,
    dropped: BTreeMap<usize, u64>,
}

/// Figures of a switch.
struct Figures {
    devices: Vec<(DeviceNumber, &'static str, Live)>,
    dropped: u64,
}

/// Samples of the last hour. Times are in milliseconds since 1970.
#[derive(Clone, Debug, Default)]
pub(super) struct Trend {
    now_ms: u64,
    next_ms: u64,
    /// The figures for the next sample are being read.
    reads: bool,
    before: Option<Counts>,
    samples: VecDeque<Sample>,
    decided: VecDeque<Decided>,
}

impl Trend {
    /// When [`Trend::tick`] is due.
    pub fn next_deadline(&self) -> u64 {
        self.next_ms
    }

    /// Lets the time pass. True: the controllers have to read live figures now.
    pub fn tick(&mut self, now_ms: u64, controllers: &Controllers) -> bool {
        if now_ms < self.now_ms {
            // The clock was set back: times of a curve ascend.
            *self = Trend::default();
        }
        self.now_ms = now_ms;
        let kept = |at_ms: u64| at_ms + KEPT_MS >= now_ms;
        self.samples.retain(|s| kept(s.at_ms));
        self.decided.retain(|d| kept(d.at_ms));
        if now_ms < self.next_ms {
            return false;
        }
        self.reads = !self.reads;
        self.next_ms = now_ms + if self.reads { AHEAD_MS } else { EVERY_MS - AHEAD_MS };
        if !self.reads {
            let all: Vec<_> = controllers.each().iter().map(|c| figures(controllers.rack(), c)).collect();
            self.sample(&all);
        }
        self.reads
    }

    fn sample(&mut self, switches: &[Option<Figures>]) {
        let mut now = Counts { at_ms: self.now_ms, ..Counts::default() };
        let before = self.before.take().unwrap_or_default();
        let seconds = now.at_ms.saturating_sub(before.at_ms) as f64 / 1000.0;
        let mut kinds: BTreeMap<&'static str, OfKind> = BTreeMap::new();
        let mut dropped_per_s = None;
        for (at, figures) in switches.iter().enumerate() {
            let Some(figures) = figures else { continue };
            for (device, kind, live) in &figures.devices {
                let kind = kinds.entry(kind).or_default();
                kind.in_flight += live.in_flight;
                kind.latency = kind.latency.max(live.latency);
                let last = before.opened.get(&(at, *device));
                add(&mut kind.opened_per_s, last, live.opened, seconds);
                now.opened.insert((at, *device), live.opened);
            }
            add(&mut dropped_per_s, before.dropped.get(&at), figures.dropped, seconds);
            now.dropped.insert(at, figures.dropped);
        }
        if !kinds.is_empty() {
            self.samples.push_back(Sample { at_ms: self.now_ms, kinds, dropped_per_s });
            self.before = Some(now);
        }
    }

    /// A learner decided. Of several decisions of a class within the time of a sample the last one counts.
    pub fn decided(&mut self, at_ms: u64, decision: &Decision) {
        let next = Decided {
            at_ms,
            class: decision.class.clone(),
            weights: decision.next,
            p99_ms: decision.seen.p99_ms,
        };
        let last = self.decided.iter_mut().rev().find(|d| d.class == next.class);
        match last.filter(|d| at_ms < d.at_ms + EVERY_MS) {
            Some(last) => *last = Decided { at_ms: last.at_ms, ..next },
            None => self.decided.push_back(next),
        }
    }

    /// `GET /v1/trend`.
    pub fn json(&self) -> Value {
        let samples = self.samples.iter().map(|s| {
            let kind = |k: &OfKind| {
                json!({
                    "opened_per_s": tenths(k.opened_per_s),
                    "in_flight": k.in_flight,
                    "p99_ms": k.latency.ms(),
                })
            };
            let kinds: serde_json::Map<String, Value> =
                s.kinds.iter().map(|(name, k)| (name.to_string(), kind(k))).collect();
            json!({ "at_ms": s.at_ms, "kinds": kinds, "dropped_per_s": tenths(s.dropped_per_s) })
        });
        let decided = self.decided.iter().map(|d| {
            json!({
                "at_ms": d.at_ms,
                "class": d.class,
                "processors": d.weights.cpu,
                "accelerators": d.weights.accelerator,
                "p99_ms": tenths(Some(d.p99_ms)),
            })
        });
        json!({
            "now_ms": self.now_ms,
            "every_ms": EVERY_MS,
            "samples": samples.collect::<Vec<_>>(),
            "learner": decided.collect::<Vec<_>>(),
        })
    }
}

/// Adds to a rate what a counter has risen by. A counter that fell has started again, and gives no rate.
fn add(rate: &mut Option<f64>, before: Option<&u64>, now: u64, seconds: f64) {
    if let Some(more) = before.and_then(|b| now.checked_sub(*b)).filter(|_| seconds > 0.0) {
        *rate = Some(rate.unwrap_or(0.0) + more as f64 / seconds);
    }
}

/// What was just read from a switch; `None` if nothing was.
fn figures(rack: &Rack, switch: &Controller) -> Option<Figures> {
    let live = |device| {
        let live = switch.live(device)?;
        // The register of a device that became silent keeps its last report.
        let reports = switch.report_age(device).is_some_and(|age| age < Duration::from_millis(EVERY_MS));
        Some(Live { latency: if reports { live.latency } else { Latency99::default() }, ..live })
    };
    let all = rack.devices().filter_map(|(_, d)| Some((d.number, d.kind.name(), live(d.number)?)));
    let devices: Vec<_> = all.collect();
    let dropped = dropped(switch.drops()).map(|(_, packets)| packets).sum();
    (!devices.is_empty()).then_some(Figures { devices, dropped })
}

fn tenths(value: Option<f64>) -> Option<f64> {
    value.filter(|v| v.is_finite()).map(|v| (v * 10.0).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::Program;
    use crate::plan::tests::p4info;
    use pointsman_decide::Verdict;

    /// One device of each of two kinds.
    fn at(trend: &mut Trend, now_ms: u64, switches: &[Option<[u64; 3]>]) {
        let live = |opened| Live { opened, in_flight: opened / 10, ..Live::default() };
        let of = |[cpu, nic, dropped]: [u64; 3]| Figures {
            devices: vec![
                (DeviceNumber::new(1, 0), "cpu", live(cpu)),
                (DeviceNumber::new(1, 1), "smartnic", live(nic)),
            ],
            dropped,
        };
        let all: Vec<_> = switches.iter().map(|s| s.map(of)).collect();
        trend.now_ms = now_ms;
        trend.sample(&all);
    }

    fn rates(trend: &Trend) -> Vec<[Option<f64>; 3]> {
        let of = |s: &Sample| ["cpu", "smartnic"].map(|k| s.kinds[k].opened_per_s);
        trend.samples.iter().map(|s| [of(s)[0], of(s)[1], s.dropped_per_s]).collect()
    }

    #[test]
    fn rates_of_counters() {
        let mut t = Trend::default();
        at(&mut t, 10_000, &[Some([100, 50, 7])]);
        at(&mut t, 20_000, &[Some([400, 50, 27])]);
        assert_eq!(rates(&t), [[None, None, None], [Some(30.0), Some(0.0), Some(2.0)]]);
        assert_eq!(t.samples[1].kinds["cpu"].in_flight, 40);
        // The switch was restarted: its counters began again. Nothing was read: no sample, and no rate in the next one.
        at(&mut t, 30_000, &[Some([5, 60, 0])]);
        at(&mut t, 40_000, &[None]);
        at(&mut t, 50_000, &[Some([90, 90, 0])]);
        assert_eq!(rates(&t)[2..], [[None, Some(1.0), None], [None, None, None]]);
    }

    /// A switch that comes back does not make all that it ever counted look like one sample's.
    #[test]
    fn several_switches() {
        let mut t = Trend::default();
        at(&mut t, 10_000, &[Some([100, 0, 0]), Some([1_000_000, 0, 0])]);
        at(&mut t, 20_000, &[Some([200, 0, 0]), None]);
        at(&mut t, 30_000, &[Some([300, 0, 0]), Some([1_000_100, 0, 0])]);
        at(&mut t, 40_000, &[Some([400, 0, 0]), Some([1_000_300, 0, 0])]);
        let cpu: Vec<_> = rates(&t).iter().map(|r| r[0]).collect();
        assert_eq!(cpu, [None, Some(10.0), Some(10.0), Some(30.0)]);
    }

    /// The cell of accepted reports counts no drops, nor do cells without a reason.
    #[test]
    fn accepted_reports_are_not_dropped() {
        let counted = [(0, 7), (5, 3), (24, 2), (crate::state::REPORT_ACCEPTED, 1000), (40, 1)].into();
        let all: Vec<_> = dropped(&counted).map(|((reason, _), packets)| (reason, packets)).collect();
        assert_eq!(all, [("ttl", 3), ("rate", 2)]);
    }

    /// A reading each half minute, a sample a second later, and an hour of them.
    #[test]
    fn times() {
        let rack = Rack::parse("rack.toml", include_str!("../../../../examples/rack.toml")).expect("valid");
        let program = Program { p4info: p4info(), device_config: Vec::new() };
        let controllers = Controllers::new(rack, program).expect("a balancer");
        let mut t = Trend::default();
        at(&mut t, 500, &[Some([1, 1, 1])]);
        let mut asked = Vec::new();
        for now_ms in (1_000..4_000_000).step_by(500) {
            if t.tick(now_ms, &controllers) {
                asked.push(now_ms);
            }
            assert!(t.next_deadline() > now_ms);
            assert_eq!(t.samples.len(), usize::from(now_ms <= 500 + KEPT_MS), "{now_ms}");
        }
        assert_eq!(asked[..3], [1_000, 31_000, 61_000]);
        at(&mut t, 4_000_000, &[Some([1, 1, 1])]);
        assert!(t.tick(3_000_000, &controllers), "the clock was set back");
        assert!(t.samples.is_empty() && t.next_deadline() == 3_001_000);
        // The controller has no switch, so nothing was read.
        t.tick(3_001_000, &controllers);
        assert!(t.samples.is_empty());
    }

    #[test]
    fn decisions_of_classes() {
        let mut t = Trend::default();
        let decision = |class: &str, cpu| Decision {
            class: Some(class.into()),
            seen: Default::default(),
            weights: Weights { cpu: 0, accelerator: 0 },
            verdict: Verdict::Open,
            reward: None,
            next: Weights { cpu, accelerator: 1 },
            guarded: false,
        };
        for (at_ms, class, cpu) in
            [(0, "a", 1), (4_000, "a", 2), (4_000, "b", 9), (29_999, "a", 3), (30_000, "a", 4)]
        {
            t.decided(at_ms, &decision(class, cpu));
        }
        let all: Vec<_> =
            t.decided.iter().map(|d| (d.at_ms, d.class.as_deref().unwrap_or(""), d.weights.cpu)).collect();
        assert_eq!(all, [(0, "a", 3), (4_000, "b", 9), (30_000, "a", 4)]);
    }
}
