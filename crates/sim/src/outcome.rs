//! The results of one simulation.

use crate::check::{Law, Violations};
use crate::timeline::Timeline;
use pointsman_decide::{QTable, Verdict};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Times from a request to its answer, in milliseconds. Of all requests, a lost one counts as its time-out, as in the lab
/// (`lab::load::Latencies`): the loss of requests never makes a percentile smaller.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latency {
    /// Mean.
    pub mean_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// 95th percentile.
    pub p95_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// Largest.
    pub max_ms: f64,
}

impl Latency {
    /// Of these nanoseconds, which are reordered in place. Percentiles by nearest rank; all 0 without values.
    pub fn of(ns: &mut [u64]) -> Self {
        let Some(max) = ns.iter().max().copied() else { return Latency::default() };
        let ms = |n: u64| n as f64 / 1e6;
        let (count, sum) = (ns.len(), ns.iter().map(|n| u128::from(*n)).sum::<u128>());
        // From the lowest on: the next percentile only needs the values above the last one.
        let mut from = 0;
        let mut percentile = |per_mille: usize| {
            let at = rank(count, per_mille);
            let (_, found, _) = ns[from..].select_nth_unstable(at - from);
            from = at;
            ms(*found)
        };
        Latency {
            mean_ms: sum as f64 / count as f64 / 1e6,
            p50_ms: percentile(500),
            p95_ms: percentile(950),
            p99_ms: percentile(990),
            max_ms: ms(max),
        }
    }
}

/// The index of a percentile by nearest rank, in so many sorted values.
pub(crate) fn rank(count: usize, per_mille: usize) -> usize {
    (count * per_mille).div_ceil(1000).max(1) - 1
}

/// The fate of requests. The first three count those sent after the warm-up, the others all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Sent.
    pub sent: u64,
    /// Answered in time.
    pub answered: u64,
    /// Not answered in time.
    pub lost: u64,
    /// Sent, the warm-up included.
    pub all_sent: u64,
    /// They or their answers were dropped by links.
    pub lost_on_links: u64,
    /// By the switches. Also answers that came over another switch than their request, and were not translated.
    pub lost_in_switch: u64,
    /// By devices: buffer full, waited too long, failed.
    pub lost_at_devices: u64,
    /// Lost with their TCP connection, which was given up or reset. Then this is the place of the loss, whatever the
    /// reason.
    pub lost_with_connections: u64,
    /// Answered after the client stopped waiting.
    pub late: u64,
    /// Not answered when the simulation ended.
    pub under_way: u64,
    /// Answers that carried a congestion mark.
    pub congestion_marks: u64,
}

impl Requests {
    /// Share of the requests sent after the warm-up that were lost, in per cent; 0 if none was sent.
    pub fn loss_percent(&self) -> f64 {
        100.0 * self.lost as f64 / self.sent.max(1) as f64
    }

    /// What the JSON of every outcome says of requests: how many, how many were lost, and their latency.
    pub(crate) fn fields(&self, latency: &Latency) -> Map<String, Value> {
        let mut map = Map::new();
        for (name, n) in [("sent", self.sent), ("answered", self.answered), ("lost", self.lost)] {
            map.insert(name.into(), json!(n));
        }
        map.insert("loss_percent".into(), json!(self.loss_percent()));
        latency_fields(&mut map, latency);
        map
    }
}

/// All devices of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The kind.
    pub kind: &'static str,
    /// How many devices.
    pub devices: usize,
    /// Measured requests that they answered.
    pub answered: u64,
    /// Requests that they finished per second of the measured part.
    pub throughput_per_s: f64,
    /// Mean time in the queue, of services that began in the measured part.
    pub wait_mean_ms: f64,
    /// Mean over devices of how busy their workers were in the measured part.
    pub utilisation_percent: f64,
    /// Standard deviation over devices.
    pub utilisation_stddev_percent: f64,
    /// Busiest.
    pub utilisation_max_percent: f64,
    /// Latency of their answers, as clients saw it.
    pub latency: Latency,
}

/// One decision of a learner.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnStep {
    /// Class of servers whose weights they are; empty if all are alike.
    pub class: String,
    /// When, since the first request.
    pub at_s: f64,
    /// The clients' rate then, to this class.
    pub offered_per_s: f64,
    /// Observed use of processors.
    pub cpu_percent: f64,
    /// Of accelerators.
    pub accelerator_percent: f64,
    /// Latency in the interval before.
    pub p99_ms: f64,
    /// Share of requests that were lost.
    pub loss: f64,
    /// Weight of accelerators in that interval.
    pub weight: u32,
    /// How that was judged.
    pub verdict: Verdict,
    /// Reward, if the learner has any.
    pub reward: Option<f64>,
    /// Weight of accelerators from then on.
    pub next_weight: u32,
    /// The oracle's.
    pub best_weight: u32,
    /// Its latency in theory.
    pub best_p99_ms: f64,
    /// That of the learner's decision.
    pub own_p99_ms: f64,
    /// Whether the decision was right by the reward function, applied to the theory's values at this load; or as good
    /// as the oracle's.
    pub right: bool,
}

/// The results of a learner.
#[derive(Clone, Debug, PartialEq)]
pub struct Learning {
    /// The learner.
    pub learner: &'static str,
    /// Its decisions.
    pub steps: Vec<LearnStep>,
    /// Its knowledge at the end, if that is a table.
    pub table: Option<QTable>,
    /// How often a guard took over.
    pub interventions: u64,
    /// Intervals in which latency was beyond the guard's bound.
    pub beyond_bound: Option<u64>,
}

impl Learning {
    /// Of these decisions. `bound` is the guard's.
    pub fn new(learner: &'static str, steps: Vec<LearnStep>, bound: Option<f64>) -> Self {
        let beyond_bound = bound.map(|b| steps.iter().filter(|s| s.p99_ms > b).count() as u64);
        Learning { learner, steps, table: None, interventions: 0, beyond_bound }
    }

    /// Share of right decisions among the `last` ones, in per cent.
    pub fn accuracy_percent(&self, last: usize) -> f64 {
        let of = &self.steps[self.steps.len().saturating_sub(last)..];
        100.0 * of.iter().filter(|s| s.right).count() as f64 / of.len().max(1) as f64
    }

    /// How much the theoretical latency under the chosen weights exceeds the oracle's, on average over the `last`
    /// decisions.
    pub fn regret_ms(&self, last: usize) -> f64 {
        let of = &self.steps[self.steps.len().saturating_sub(last)..];
        of.iter().map(|s| s.own_p99_ms - s.best_p99_ms).sum::<f64>() / of.len().max(1) as f64
    }

    /// The first decision from which on nine of ten among the next fifty were right.
    pub fn converged_after(&self) -> Option<usize> {
        let right = |w: &[LearnStep]| w.iter().filter(|s| s.right).count() * 10 >= w.len() * 9;
        self.steps.windows(50).position(right)
    }

    fn json(&self) -> Value {
        let half = self.steps.len().div_ceil(2);
        let steps = self.steps.iter().map(|s| {
            json!({
                "class": s.class, "at_s": s.at_s, "offered_per_s": s.offered_per_s, "cpu_percent": s.cpu_percent,
                "accelerator_percent": s.accelerator_percent, "p99_ms": s.p99_ms, "loss": s.loss,
                "weight": s.weight, "verdict": s.verdict.name(), "reward": s.reward,
                "next_weight": s.next_weight, "best_weight": s.best_weight,
                "best_p99_ms": s.best_p99_ms, "own_p99_ms": s.own_p99_ms, "right": s.right,
            })
        });
        json!({
            "learner": self.learner,
            "intervals": self.steps.len(),
            "accuracy_percent": self.accuracy_percent(usize::MAX),
            "accuracy_second_half_percent": self.accuracy_percent(half),
            "regret_mean_ms": self.regret_ms(usize::MAX),
            "regret_second_half_mean_ms": self.regret_ms(half),
            "converged_after_intervals": self.converged_after(),
            "interventions": self.interventions,
            "intervals_beyond_bound": self.beyond_bound,
            "table": self.table.as_ref().map(QTable::save),
            "steps": steps.collect::<Vec<_>>(),
        })
    }
}

/// The packets of one switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchPackets {
    /// Address of its P4Runtime server.
    pub p4runtime: String,
    /// Packets that it received.
    pub packets: u64,
    /// Packets that it dropped, for whatever reason.
    pub drops: u64,
}

/// The results of one simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The scenario's name.
    pub scenario: String,
    /// Point of its sweep.
    pub point: Vec<(String, String)>,
    /// Seed.
    pub seed: u64,
    /// Identifies this scenario and data plane; set by the caller, which has both.
    pub fingerprint: String,
    /// Packets that the switches received.
    pub packets: u64,
    /// Events of the calendar.
    pub events: u64,
    /// How long it took; set by the caller, which has a clock.
    pub wall_s: f64,
    /// Virtual time from the first request on.
    pub virtual_s: f64,
    /// Virtual time that the results cover.
    pub measured_s: f64,
    /// Requests.
    pub requests: Requests,
    /// Latency of all requests sent after the warm-up; of lost ones the client's patience.
    pub latency: Latency,
    /// Latency of the answered ones alone, as many papers have it: requests that time out are missing.
    pub answers: Latency,
    /// Percentages of the requests sent after the warm-up, and the latency in ms that these do not exceed.
    pub distribution: Vec<(f64, f64)>,
    /// How it went over time.
    pub timeline: Timeline,
    /// The scenario's events: s since the first request, and what happened.
    pub happened: Vec<(f64, String)>,
    /// By kind of device.
    pub groups: Vec<Group>,
    /// The switches' drops, by reason: including reports that they consumed (`ingress`).
    pub switch_drops: BTreeMap<String, u64>,
    /// Every switch of the rack.
    pub switches: Vec<SwitchPackets>,
    /// How often a connection got another device because its packets came to another switch, or one without its state.
    pub moved_connections: u64,
    /// The results of the learner, if the scenario has one.
    pub learning: Option<Learning>,
    /// Violations that checkers found.
    pub violations: Violations,
}

fn latency_fields(map: &mut Map<String, Value>, l: &Latency) {
    for (name, value) in [
        ("mean_ms", l.mean_ms),
        ("p50_ms", l.p50_ms),
        ("p95_ms", l.p95_ms),
        ("p99_ms", l.p99_ms),
        ("max_ms", l.max_ms),
    ] {
        map.insert(name.into(), json!(value));
    }
}

impl Group {
    fn json(&self) -> Value {
        let mut map = Map::new();
        map.insert("kind".into(), json!(self.kind));
        map.insert("devices".into(), json!(self.devices));
        map.insert("answered".into(), json!(self.answered));
        map.insert("throughput_per_s".into(), json!(self.throughput_per_s));
        map.insert("wait_mean_ms".into(), json!(self.wait_mean_ms));
        map.insert("utilisation_percent".into(), json!(self.utilisation_percent));
        map.insert("utilisation_stddev_percent".into(), json!(self.utilisation_stddev_percent));
        map.insert("utilisation_max_percent".into(), json!(self.utilisation_max_percent));
        latency_fields(&mut map, &self.latency);
        Value::Object(map)
    }
}

impl Outcome {
    fn requests_json(&self) -> Value {
        let r = &self.requests;
        let mut requests = r.fields(&self.latency);
        let mut answers = Map::new();
        latency_fields(&mut answers, &self.answers);
        requests.insert("answers".into(), Value::Object(answers));
        let more = json!({
            "all_sent": r.all_sent, "lost_on_links": r.lost_on_links, "lost_in_switch": r.lost_in_switch,
            "lost_at_devices": r.lost_at_devices, "lost_with_connections": r.lost_with_connections,
            "late": r.late, "under_way": r.under_way,
            "congestion_marks": r.congestion_marks,
        });
        requests.insert("fates".into(), more);
        Value::Object(requests)
    }

    /// One line of JSON.
    pub fn json(&self) -> String {
        let laws: Map<String, Value> = Law::ALL
            .iter()
            .map(|l| (l.name().into(), json!(self.violations.counts.get(l).unwrap_or(&0))))
            .collect();
        let point: Map<String, Value> = self.point.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
        let happened = self.happened.iter().map(|(at, what)| json!({"at_s": at, "what": what}));
        let mut all = json!({
            "scenario": self.scenario,
            "point": point,
            "seed": self.seed,
            "fingerprint": self.fingerprint,
            "packets": self.packets,
            "events": self.events,
            "wall_s": self.wall_s,
            "virtual_s": self.virtual_s,
            "measured_s": self.measured_s,
            "requests": self.requests_json(),
            "devices": self.groups.iter().map(Group::json).collect::<Vec<_>>(),
            "distribution": {
                "percent": self.distribution.iter().map(|d| d.0).collect::<Vec<_>>(),
                "ms": self.distribution.iter().map(|d| d.1).collect::<Vec<_>>(),
            },
            "time_series": self.timeline.json(),
            "scenario_events": happened.collect::<Vec<_>>(),
            "switch_drops": self.switch_drops,
            "checks": {
                "violations": self.violations.total(),
                "by_law": laws,
                "first": self.violations.first,
            },
        });
        if let (Some(learning), Value::Object(map)) = (&self.learning, &mut all) {
            map.insert("learning".into(), learning.json());
        }
        if let ([_, _, ..], Value::Object(map)) = (self.switches.as_slice(), &mut all) {
            let switches = self.switches.iter();
            let of = |s: &SwitchPackets| json!({ "p4runtime": s.p4runtime, "packets": s.packets, "drops": s.drops });
            map.insert("switches".into(), switches.map(of).collect());
            map.insert("moved_connections".into(), json!(self.moved_connections));
        }
        all.to_string()
    }
}
