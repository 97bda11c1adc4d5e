//! What a run found.

use crate::probes::Flows;
use crate::run::Moments;
use crate::stream::Arrivals;
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;

/// TCP connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// Those that were opened.
    pub established: u64,
    /// Those that were reset, closed, or got no answer any more.
    pub broken: u64,
}

/// What the packets of the probes showed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Flows.
    pub keys: u64,
    /// Packets.
    pub operations: u64,
    /// Packets that were not seen again.
    pub unanswered: u64,
    /// Flows whose packets cannot come from one switch that never failed, or for which the search was given up.
    pub violations: u64,
}

/// What a run found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The longest time in which no packet of some flow passed, because of the fault.
    pub recovery: Duration,
    /// The same, because of the repair.
    pub repair: Duration,
    /// Connections.
    pub connections: Connections,
    /// The history of the probes, if the application shows its state.
    pub history: History,
    /// Packets of the probes, and those that were not seen again.
    pub sent: u64,
    /// Packets of the probes that were not seen again.
    pub lost: u64,
    /// Packets that were seen more than once.
    pub doubled: u64,
    /// Processes that ended on their own, with their last words.
    pub deaths: Vec<String>,
    /// The view of the chain at the end.
    pub view: Option<String>,
    /// When things happened.
    pub moments: Moments,
    /// When bytes of the stream arrived, if there was one.
    pub arrivals: Arrivals,
}

/// The longest time within a period in which no packet of a flow was seen.
pub fn silence(flows: &Flows, from: Duration, to: Duration) -> Duration {
    let longest = |packets: &Vec<crate::probes::Packet>| {
        let seen = packets.iter().filter_map(|p| p.seen.as_ref().map(|sight| sight.at));
        longest_gap(seen, from, to)
    };
    flows.iter().map(longest).max().unwrap_or_default()
}

/// The longest time within a period without one of these moments.
fn longest_gap(moments: impl Iterator<Item = Duration>, from: Duration, to: Duration) -> Duration {
    let mut times: Vec<Duration> = moments.filter(|at| (from..to).contains(at)).collect();
    times.extend([from, to]);
    times.sort_unstable();
    times.windows(2).map(|w| w[1] - w[0]).max().unwrap_or_default()
}

/// Milliseconds with a digit behind the point.
pub fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e4).round() / 10.0
}

impl Outcome {
    /// The longest times without a byte of the stream: after the fault, and after the repair.
    pub fn stalls(&self) -> [Duration; 2] {
        let Moments { fault, repair, end } = self.moments;
        [(fault, repair), (repair, end)]
            .map(|(from, to)| longest_gap(self.arrivals.iter().map(|(at, _)| *at), from, to))
    }

    /// Bytes of the stream that arrived within a period.
    pub fn bytes(&self, from: Duration, to: Duration) -> u64 {
        self.arrivals.iter().filter(|(at, _)| (from..to).contains(at)).map(|(_, bytes)| bytes).sum()
    }

    /// Whether nothing was broken, doubled or wrong.
    pub fn fine(&self) -> bool {
        self.connections.broken == 0
            && self.history.violations == 0
            && self.doubled == 0
            && self.deaths.is_empty()
    }

    /// As JSON, together with what was asked for.
    pub fn json(&self, asked: Value) -> Value {
        let mut all = json!({
            "schema": 1,
            "recovery_ms": ms(self.recovery),
            "repair_ms": ms(self.repair),
            "connections": {
                "established": self.connections.established,
                "broken": self.connections.broken,
            },
            "history": {
                "keys": self.history.keys,
                "operations": self.history.operations,
                "unanswered": self.history.unanswered,
                "violations": self.history.violations,
            },
            "probes": {"sent": self.sent, "lost": self.lost, "doubled": self.doubled},
            "deaths": self.deaths,
            "view": self.view,
        });
        if let (Value::Object(all), Value::Object(asked)) = (&mut all, asked) {
            all.extend(asked);
        }
        all
    }

    /// As text.
    pub fn text(&self) -> String {
        let mut text = format!(
            "no packet for {} ms after the fault, for {} ms after the repair\n\
             connections: {} established, {} broken\n\
             probes: {} sent, {} lost, {} doubled\n",
            ms(self.recovery),
            ms(self.repair),
            self.connections.established,
            self.connections.broken,
            self.sent,
            self.lost,
            self.doubled,
        );
        if self.history.keys > 0 {
            let _ = writeln!(
                text,
                "history: {} keys, {} packets, {} unanswered, {} violations",
                self.history.keys, self.history.operations, self.history.unanswered, self.history.violations
            );
        }
        if let Some(view) = &self.view {
            let _ = writeln!(text, "view of the chain: {view}");
        }
        for death in &self.deaths {
            let _ = writeln!(text, "{death}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silences_of_a_stream() {
        let ms = Duration::from_millis;
        let arrivals = [10, 20, 50, 60, 160, 170].map(|at| (ms(at), at)).to_vec();
        let moments = Moments { fault: ms(30), repair: ms(100), end: ms(200) };
        let outcome = Outcome { arrivals, moments, ..Outcome::default() };
        // A silence begins with the fault, and ends at the repair if nothing arrives before.
        assert_eq!(outcome.stalls(), [ms(40), ms(60)]);
        assert_eq!(outcome.bytes(ms(20), ms(60)), 70);
        // A connection that is broken is silent until the end.
        let broken = Outcome { arrivals: vec![(ms(10), 1)], ..outcome };
        assert_eq!(broken.stalls(), [ms(70), ms(100)]);
    }
}
