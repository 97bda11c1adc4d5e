//! How a run went over time, and how its latencies are distributed: what charts show.

use crate::outcome::{Latency, rank};
use crate::scenario::{Action, Scenario};
use serde_json::{Value, json};

/// Intervals into which the measured part of a run is divided.
const INTERVALS: u64 = 60;

/// Collects the requests of each interval.
#[derive(Clone, Debug)]
pub(crate) struct Intervals {
    /// Beginning of the measured part, and length of an interval, ns.
    from: u64,
    every: u64,
    /// Requests sent, by interval.
    sent: Vec<u64>,
    /// By kind of device, in the order in which latencies are recorded: the interval in which the request was sent.
    of: Vec<Vec<u8>>,
}

impl Intervals {
    /// Of a scenario that begins at time 0, for so many kinds of devices.
    pub fn new(s: &Scenario, kinds: usize) -> Self {
        let every = (s.duration_ns - s.warmup_ns).div_ceil(INTERVALS).max(1);
        let count = (s.duration_ns - s.warmup_ns).div_ceil(every) as usize;
        Intervals { from: s.warmup_ns, every, sent: vec![0; count], of: vec![Vec::new(); kinds] }
    }

    fn at(&self, since_start: u64) -> usize {
        ((since_start.saturating_sub(self.from) / self.every) as usize).min(self.sent.len().saturating_sub(1))
    }

    /// A request was sent.
    pub fn sent(&mut self, since_start: u64) {
        let at = self.at(since_start);
        if let Some(n) = self.sent.get_mut(at) {
            *n += 1;
        }
    }

    /// Its answer came, from a device of this kind.
    pub fn answered(&mut self, since_start: u64, kind: usize) {
        let at = self.at(since_start) as u8;
        if let Some(of_kind) = self.of.get_mut(kind) {
            of_kind.push(at);
        }
    }
}

/// How the measured part of a run went: a value for each of its intervals, which are of equal length. Requests belong to the
/// interval in which they were sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// Beginning of the first interval, s since the first request.
    pub from_s: f64,
    /// Length of an interval, s.
    pub interval_s: f64,
    /// Requests sent.
    pub sent: Vec<u64>,
    /// Of these, answered in time.
    pub answered: Vec<u64>,
    /// Median latency, ms; a lost request counts as its time-out. 0 without requests.
    pub p50_ms: Vec<f64>,
    /// 99th percentile, ms, as above.
    pub p99_ms: Vec<f64>,
    /// By kind of device: requests that it answered.
    pub answered_by_kind: Vec<(&'static str, Vec<u64>)>,
}

impl Timeline {
    /// Of latencies by kind of device, in the order in which they were recorded. `patience_ns`: the time-out.
    pub(crate) fn of(
        intervals: &Intervals,
        kinds: &[&'static str],
        latencies_ns: &[Vec<u64>],
        patience_ns: u64,
    ) -> Self {
        let count = intervals.sent.len();
        let mut all: Vec<Vec<u64>> = vec![Vec::new(); count];
        let mut by_kind = Vec::new();
        for ((kind, of), latencies) in kinds.iter().zip(&intervals.of).zip(latencies_ns) {
            let mut answered = vec![0; count];
            for (interval, latency) in of.iter().zip(latencies) {
                answered[usize::from(*interval)] += 1;
                all[usize::from(*interval)].push(*latency);
            }
            if answered.iter().any(|n| *n > 0) {
                by_kind.push((*kind, answered));
            }
        }
        let answered = all.iter().map(|l| l.len() as u64).collect();
        let latency = |(mut ns, sent): (Vec<u64>, &u64)| {
            ns.resize((*sent as usize).max(ns.len()), patience_ns);
            Latency::of(&mut ns)
        };
        let latencies: Vec<Latency> = all.into_iter().zip(&intervals.sent).map(latency).collect();
        Timeline {
            from_s: intervals.from as f64 / 1e9,
            interval_s: intervals.every as f64 / 1e9,
            sent: intervals.sent.clone(),
            answered,
            p50_ms: latencies.iter().map(|l| l.p50_ms).collect(),
            p99_ms: latencies.iter().map(|l| l.p99_ms).collect(),
            answered_by_kind: by_kind,
        }
    }

    pub(crate) fn json(&self) -> Value {
        let kinds = self.answered_by_kind.iter().map(|(kind, n)| ((*kind).to_owned(), json!(n)));
        json!({
            "from_s": self.from_s, "interval_s": self.interval_s, "sent": self.sent, "answered": self.answered,
            "p50_ms": self.p50_ms, "p99_ms": self.p99_ms, "answered_by_kind": kinds.collect::<serde_json::Map<_, _>>(),
        })
    }
}

/// Shares at which a distribution is given, in per mille: each per cent, and the tail.
fn shares() -> impl Iterator<Item = usize> {
    (0..1000).step_by(10).chain([995, 999, 1000])
}

/// The latency that a share of requests does not exceed, ms, for each of these shares: percentages and latencies. `sorted_ns`: all latencies, lost
/// requests with their time-out. By nearest rank.
pub(crate) fn distribution(sorted_ns: &[u64]) -> Vec<(f64, f64)> {
    let at = |per_mille: usize| {
        Some((per_mille as f64 / 10.0, *sorted_ns.get(rank(sorted_ns.len(), per_mille))? as f64 / 1e6))
    };
    shares().filter_map(at).collect()
}

/// What happened: times in s since the first request, and texts.
pub(crate) fn events(s: &Scenario) -> Vec<(f64, String)> {
    let names: Vec<String> =
        s.rack.devices().map(|(server, device)| format!("{}/{}", server.name, device.name)).collect();
    let list = |all: &[usize]| {
        let shown: Vec<&str> = all.iter().take(3).filter_map(|i| names.get(*i).map(String::as_str)).collect();
        let more = all.len().saturating_sub(shown.len());
        shown.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
    };
    let text = |action: &Action| match action {
        Action::Fail(d) => format!("failure of {}", list(d)),
        Action::Restore(d) => format!("{} back", list(d)),
        Action::Speed(d, factor) => format!("{}: speed times {factor}", list(d)),
        Action::Agents(d, on) => format!("agents {} at {}", if *on { "on" } else { "off" }, list(d)),
        Action::Enable(d, on) => format!("{} {}", list(d), if *on { "enabled" } else { "disabled" }),
        Action::Weight(d, weight) => format!("{}: weight {weight}", list(d)),
        Action::Link { ports, switch, up } => {
            let ports = ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
            let of = switch.map_or(String::new(), |n| format!(" of switch {}", n + 1));
            format!("link of port {ports}{of} {}", if *up { "up" } else { "down" })
        }
        Action::Power(n, on) => format!("switch {} {}", n + 1, if *on { "on" } else { "off" }),
        Action::Policy(policy) => format!("policy {}", policy.name()),
        Action::Load(factor) => format!("load times {factor}"),
    };
    s.events.iter().map(|e| (e.at_ns as f64 / 1e9, text(&e.action))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_requests_are_in_the_interval_in_which_they_were_sent() {
        let mut i = Intervals { from: 100, every: 10, sent: vec![0; 2], of: vec![Vec::new(); 2] };
        [100, 109, 110, 119, 125].into_iter().for_each(|at| i.sent(at));
        i.answered(100, 0);
        i.answered(110, 1);
        i.answered(109, 0);
        let t = Timeline::of(
            &i,
            &["cpu", "smartnic"],
            &[vec![2_000_000, 4_000_000], vec![8_000_000]],
            50_000_000,
        );
        assert_eq!((t.sent.as_slice(), t.answered.as_slice()), (&[2, 3][..], &[2, 1][..]));
        assert_eq!((t.p50_ms.as_slice(), t.p99_ms.as_slice()), (&[2.0, 50.0][..], &[4.0, 50.0][..]));
        assert_eq!(t.answered_by_kind, [("cpu", vec![2, 0]), ("smartnic", vec![0, 1])]);
    }

    #[test]
    fn distributions() {
        let sorted: Vec<u64> = (1..=1000).map(|n| n * 1_000_000).collect();
        let d = distribution(&sorted);
        assert_eq!(d.len(), 103);
        assert!(d.contains(&(50.0, 500.0)) && d.contains(&(99.9, 999.0)) && d[0] == (0.0, 1.0));
        assert_eq!(d.last(), Some(&(100.0, 1000.0)));
        assert!(distribution(&[]).is_empty());
    }
}
