//! What came out of one simulation.

use crate::check::{Law, Violations};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Times from a request to its answer, in milliseconds.
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
    /// Of these nanoseconds, which are sorted on the way. Percentiles by nearest rank; all 0 where there are none.
    pub fn of(ns: &mut [u64]) -> Self {
        ns.sort_unstable();
        let Some(max) = ns.last() else { return Latency::default() };
        let ms = |n: u64| n as f64 / 1e6;
        let rank = |percent: usize| ms(ns[(ns.len() * percent).div_ceil(100).max(1) - 1]);
        let sum: u128 = ns.iter().map(|n| u128::from(*n)).sum();
        Latency {
            mean_ms: sum as f64 / ns.len() as f64 / 1e6,
            p50_ms: rank(50),
            p95_ms: rank(95),
            p99_ms: rank(99),
            max_ms: ms(*max),
        }
    }
}

/// What became of requests. The first three count those sent after the warm-up, the others all.
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
    /// By the switch.
    pub lost_in_switch: u64,
    /// By devices: buffer full, waited too long, failed.
    pub lost_at_devices: u64,
    /// Answered when nobody waited any more.
    pub late: u64,
    /// Not answered when the simulation ended.
    pub under_way: u64,
    /// Answers that carried a congestion mark.
    pub congestion_marks: u64,
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
    /// Latency of what they answered, as clients saw it.
    pub latency: Latency,
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
    /// Tells this scenario and data plane from others; the caller, who has both, says.
    pub fingerprint: String,
    /// Packets that the switch received.
    pub packets: u64,
    /// Events of the calendar.
    pub events: u64,
    /// How long it took; the caller, who has a clock, says.
    pub wall_s: f64,
    /// Virtual time from the first request on.
    pub virtual_s: f64,
    /// Virtual time that the results are over.
    pub measured_s: f64,
    /// Requests.
    pub requests: Requests,
    /// Latency of all answers.
    pub latency: Latency,
    /// By kind of device.
    pub groups: Vec<Group>,
    /// What the switch dropped, by reason: reports that it consumed, too (`ingress`).
    pub switch_drops: BTreeMap<String, u64>,
    /// What checkers found.
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

impl Outcome {
    /// One line of JSON.
    pub fn json(&self) -> String {
        let r = &self.requests;
        let mut requests = Map::new();
        for (name, n) in [("sent", r.sent), ("answered", r.answered), ("lost", r.lost)] {
            requests.insert(name.into(), json!(n));
        }
        latency_fields(&mut requests, &self.latency);
        let more = json!({
            "all_sent": r.all_sent, "lost_on_links": r.lost_on_links, "lost_in_switch": r.lost_in_switch,
            "lost_at_devices": r.lost_at_devices, "late": r.late, "under_way": r.under_way,
            "congestion_marks": r.congestion_marks,
        });
        requests.insert("fates".into(), more);
        let groups = self.groups.iter().map(|g| {
            let mut map = Map::new();
            map.insert("kind".into(), json!(g.kind));
            map.insert("devices".into(), json!(g.devices));
            map.insert("answered".into(), json!(g.answered));
            map.insert("throughput_per_s".into(), json!(g.throughput_per_s));
            map.insert("wait_mean_ms".into(), json!(g.wait_mean_ms));
            map.insert("utilisation_percent".into(), json!(g.utilisation_percent));
            map.insert("utilisation_stddev_percent".into(), json!(g.utilisation_stddev_percent));
            map.insert("utilisation_max_percent".into(), json!(g.utilisation_max_percent));
            latency_fields(&mut map, &g.latency);
            Value::Object(map)
        });
        let laws: Map<String, Value> = Law::ALL
            .iter()
            .map(|l| (l.name().into(), json!(self.violations.counts.get(l).unwrap_or(&0))))
            .collect();
        let point: Map<String, Value> = self.point.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
        json!({
            "scenario": self.scenario,
            "point": point,
            "seed": self.seed,
            "fingerprint": self.fingerprint,
            "packets": self.packets,
            "events": self.events,
            "wall_s": self.wall_s,
            "virtual_s": self.virtual_s,
            "measured_s": self.measured_s,
            "requests": requests,
            "devices": groups.collect::<Vec<_>>(),
            "switch_drops": self.switch_drops,
            "checks": {
                "violations": self.violations.total(),
                "by_law": laws,
                "first": self.violations.first,
            },
        })
        .to_string()
    }
}
