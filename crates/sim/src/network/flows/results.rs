//! How long flows took.

use super::Flows;
use super::ideal::Ideal;
use super::plan::Flow;
use crate::outcome::{Latency, rank};
use pointsman_topology::Topology;
use serde_json::{Value, json};

/// A run is divided into so many intervals, by the starts of flows.
pub(in crate::network) const INTERVALS: usize = 60;

/// A class of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Up to the threshold.
    Short,
    /// Above it.
    Large,
    /// Both.
    All,
}

impl Class {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Class::Short => "short",
            Class::Large => "large",
            Class::All => "all",
        }
    }
}

/// The flows of a class. Those that have not finished count with the time until the end of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassResults {
    /// Which.
    pub class: Class,
    /// How many there were.
    pub n: u64,
    /// From the start to the last byte in order.
    pub times: Latency,
    /// These times, each as a multiple of what the flow takes alone.
    pub slowdown_mean: f64,
    /// Their median.
    pub slowdown_p50: f64,
    /// The 95th percentile of these.
    pub slowdown_p95: f64,
    /// The 99th percentile of these.
    pub slowdown_p99: f64,
    /// Percentiles of the times in milliseconds, by nearest rank: 5, 10 and so on up to 95; 0 without flows.
    pub percentiles_ms: [f64; 19],
    /// Packets that the senders of these flows sent again.
    pub retransmitted: u64,
}

/// The results of all flows.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowResults {
    /// Flows that have started.
    pub started: u64,
    /// Flows of which all bytes have arrived.
    pub finished: u64,
    /// The longest time in which a flow made no progress, in milliseconds.
    pub longest_stall_ms: f64,
    /// By class.
    pub classes: Vec<ClassResults>,
    /// Data packets that arrived after one of their flow that was sent later.
    pub reordered: u64,
    /// Packets of hosts that have not arrived.
    pub missing: u64,
    /// The mean slowdown of the flows that started in each of 60 intervals up to the last start; `None`: none did.
    pub by_start: Vec<Option<f64>>,
}

impl FlowResults {
    /// The classes in JSON.
    pub fn fct(&self) -> Vec<Value> {
        let of = |c: &ClassResults| {
            json!({"class": c.class.name(), "n": c.n, "mean_ms": c.times.mean_ms, "p50_ms": c.times.p50_ms,
                "p99_ms": c.times.p99_ms, "slowdown_mean": c.slowdown_mean, "slowdown_p50": c.slowdown_p50,
                "slowdown_p95": c.slowdown_p95, "slowdown_p99": c.slowdown_p99, "percentiles_ms": c.percentiles_ms,
                "retransmitted": c.retransmitted})
        };
        self.classes.iter().map(of).collect()
    }
}

/// The fate of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// When its last byte has arrived, in nanoseconds; `None`: it has not.
    pub ended: Option<u64>,
    /// Packets that its sender sent again.
    pub retransmitted: u32,
}

/// The fate of each flow while the network runs. Times are those of the network, in nanoseconds.
#[derive(Debug)]
pub(super) struct Fates {
    /// When the last byte has arrived.
    ends: Vec<Option<u64>>,
    /// When a byte has arrived last, or the flow has started.
    moved: Vec<u64>,
    retransmitted: Vec<u32>,
    started: u64,
    finished: u64,
    longest_stall: u64,
}

impl Fates {
    pub fn new(flows: usize) -> Self {
        Fates {
            ends: vec![None; flows],
            moved: vec![u64::MAX; flows],
            retransmitted: vec![0; flows],
            started: 0,
            finished: 0,
            longest_stall: 0,
        }
    }

    /// A flow starts.
    pub fn starts(&mut self, flow: u32, now: u64) {
        self.moved[flow as usize] = now;
        self.started += 1;
    }

    /// Bytes of a flow have arrived; `all`: it has no more.
    #[inline]
    pub fn progress(&mut self, flow: u32, now: u64, all: bool) {
        let flow = flow as usize;
        let since = std::mem::replace(&mut self.moved[flow], now);
        self.longest_stall = self.longest_stall.max(now.saturating_sub(since));
        if all && self.ends[flow].is_none() {
            self.ends[flow] = Some(now);
            self.finished += 1;
        }
    }

    /// When a byte of a flow has arrived last, or it has started; `None`: all have arrived.
    pub fn waits_since(&self, flow: u32) -> Option<u64> {
        let flow = flow as usize;
        self.ends[flow].is_none().then_some(self.moved[flow])
    }

    /// The sender of a flow has sent so many packets again.
    pub fn sent_again(&mut self, flow: u32, packets: u32) {
        self.retransmitted[flow as usize] += packets;
    }

    /// Flows of which all bytes have arrived.
    pub fn finished(&self) -> u64 {
        self.finished
    }

    /// Their fates, and the longest time in which one made no progress until `now`.
    pub fn end(&self, now: u64) -> (Vec<Fate>, u64) {
        let mut longest_stall = self.longest_stall;
        for (end, moved) in self.ends.iter().zip(&self.moved) {
            if end.is_none() && *moved < now {
                longest_stall = longest_stall.max(now - moved);
            }
        }
        let fates = self.ends.iter().zip(&self.retransmitted);
        (fates.map(|(ended, n)| Fate { ended: *ended, retransmitted: *n }).collect(), longest_stall)
    }

    /// Flows that have started.
    pub fn started(&self) -> u64 {
        self.started
    }
}

impl Flows {
    /// The results of flows with these plans and fates, which began at `start` and were watched until `now`, in nanoseconds of one clock.
    /// `latency_ns` is that of a switch.
    pub fn results(
        &self,
        topology: &Topology,
        latency_ns: u64,
        plan: &[Flow],
        fates: &[Fate],
        (start, now): (u64, u64),
    ) -> FlowResults {
        let ideal = Ideal::new(topology, latency_ns, &self.tcp);
        let last = plan.last().map_or(0, |flow| flow.at).max(1);
        let mut starts = [(0.0, 0u32); INTERVALS];
        let classes = [Class::Short, Class::Large, Class::All].map(|class| {
            let (mut times, mut slowdowns, mut retransmitted) = (Vec::new(), Vec::new(), 0);
            for (flow, fate) in plan.iter().zip(fates) {
                let of = if flow.bytes > self.large_above { Class::Large } else { Class::Short };
                if class != Class::All && class != of {
                    continue;
                }
                let time = fate.ended.unwrap_or(now).saturating_sub(start + flow.at);
                let slowdown = time as f64 / ideal.ns(flow.from, flow.to, flow.bytes);
                slowdowns.push(slowdown);
                if class == Class::All {
                    let interval = (flow.at as u128 * INTERVALS as u128 / last as u128) as usize;
                    let (sum, n) = &mut starts[interval.min(INTERVALS - 1)];
                    (*sum, *n) = (*sum + slowdown, *n + 1);
                }
                times.push(time);
                retransmitted += u64::from(fate.retransmitted);
            }
            let n = times.len() as u64;
            let mean = slowdowns.iter().fold(0.0, |sum, s| sum + s) / n.max(1) as f64;
            let [p50, p95, p99] = [500, 950, 990].map(|per_mille| percentile(&mut slowdowns, per_mille));
            times.sort_unstable();
            let percentiles_ms = std::array::from_fn(|i| {
                times.get(rank(times.len(), 50 * (i + 1))).map_or(0.0, |ns| *ns as f64 / 1e6)
            });
            let times = Latency::of(&mut times);
            ClassResults {
                class,
                n,
                times,
                slowdown_mean: mean,
                slowdown_p50: p50,
                slowdown_p95: p95,
                slowdown_p99: p99,
                percentiles_ms,
                retransmitted,
            }
        });
        FlowResults {
            started: plan.len() as u64,
            finished: fates.iter().filter(|f| f.ended.is_some()).count() as u64,
            longest_stall_ms: 0.0,
            classes: classes.into(),
            reordered: 0,
            missing: 0,
            by_start: starts.iter().map(|(sum, n)| (*n > 0).then(|| sum / f64::from(*n))).collect(),
        }
    }
}

/// A percentile by nearest rank; 0 without values.
fn percentile(values: &mut [f64], per_mille: usize) -> f64 {
    let at = rank(values.len(), per_mille);
    if at >= values.len() {
        return 0.0;
    }
    *values.select_nth_unstable_by(at, f64::total_cmp).1
}
