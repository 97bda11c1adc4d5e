//! What a run found.

use crate::checker::Verdict;
use crate::checker::connections::Counted;
use crate::controller::Found;
use pointsman_lab::load::nearest_rank;
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// Reasons for which the data plane drops packets, and their places in `tea_counts`.
const REASONS: [(&str, usize); 5] =
    [("credit", 5), ("long", 6), ("server", 7), ("window", 8), ("foreign", 9)];

/// Places of look-ups that a replica got, and of servers taken out.
const REPLICA: usize = 16;
const OUT: usize = 17;
/// Of those that a replica got because its link had less load.
const LOADED: usize = 20;
/// Of look-ups that the cache answered.
const CACHE: usize = 19;
/// Of packets that waited for a second answer.
const SECOND: usize = 21;

/// What passed in a part of a run.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Packets sent in it.
    pub sent: u64,
    /// Those of them that never returned.
    pub lost: u64,
    /// How long it was.
    pub seconds: f64,
    /// Nanoseconds from a packet's start to its return; sorted, lost packets with the time after which they were given up.
    pub latencies: Vec<u64>,
    /// Look-ups that each server answered in it, if that is known.
    pub answered: Vec<Option<u64>>,
}

impl Part {
    /// Packets a second that returned.
    pub fn per_s(&self) -> f64 {
        (self.sent - self.lost) as f64 / self.seconds
    }

    /// Mean latency, in microseconds.
    pub fn mean_us(&self) -> f64 {
        self.latencies.iter().sum::<u64>() as f64 / 1e3 / self.latencies.len() as f64
    }

    /// A percentile of the latency, in microseconds.
    pub fn percentile_us(&self, percent: usize) -> f64 {
        nearest_rank(&self.latencies, percent as f64).map_or(f64::NAN, |ns| ns as f64 / 1e3)
    }

    /// Share of packets that never returned, in per cent.
    pub fn loss_percent(&self) -> f64 {
        100.0 * self.lost as f64 / self.sent.max(1) as f64
    }
}

/// Packets lost by a fault, and by its repair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InFault {
    /// Those sent from a moment before the fault to the repair.
    pub lost: u64,
    /// The time from the fault until the last of these was sent, in nanoseconds.
    pub outage_ns: u64,
    /// Those sent in the second after the repair.
    pub by_repair: u64,
}

/// What a run found.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What packets showed.
    pub verdict: Verdict,
    /// Connections, with the balancer.
    pub connections: Option<Counted>,
    /// Of the controller.
    pub found: Found,
    /// The whole run.
    pub whole: Part,
    /// Look-ups that each server has answered, if it counts READs.
    pub answered: Vec<Option<u64>>,
    /// Packets lost by the fault and by its repair.
    pub in_fault: InFault,
    /// Packets that were sent after the repair, and those of them that were lost.
    pub after: [u64; 2],
    /// The time in which packets came one at a time.
    pub alone: Part,
    /// The time without a fault.
    pub calm: Part,
    /// From the fault until a moment after the repair.
    pub broken: Part,
    /// Processes that ended on their own, with their last words.
    pub deaths: Vec<String>,
}

/// Look-ups by what became of them; with several keys of a packet, those of all keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookups {
    /// Packets.
    pub sent: u64,
    /// Answered by the switch's cache.
    pub cache: u64,
    /// Found in a table of the switch, or known there to be absent; packets of connections that have a place in the switch.
    pub stash: u64,
    /// Found in a server.
    pub remote: u64,
    /// Absent.
    pub absent: u64,
    /// Packets lost, by reason.
    pub lost: Vec<(&'static str, u64)>,
}

impl Lookups {
    /// From the packets, the counters of the data plane, the keys of a packet, at most, and whether packets may need no look-up. `None`: it counted more
    /// look-ups than packets can have.
    pub fn new(verdict: &Verdict, counts: &[u64], keys: u64, has_places: bool) -> Option<Self> {
        let sent = verdict.sent;
        let count = |index: usize| counts.get(index).copied().unwrap_or(0);
        let (mut stash, remote, absent) = if counts.is_empty() {
            (verdict.found + verdict.wrong, 0, verdict.absent + verdict.missing)
        } else {
            (count(0), count(1), count(2))
        };
        let mut lost: Vec<(&str, u64)> = REASONS.map(|(name, index)| (name, count(index))).into();
        let cache = count(CACHE);
        let mut answered = cache + stash + remote + absent;
        let came = verdict.found + verdict.wrong + verdict.absent + verdict.missing;
        if keys > 1 && answered <= keys * sent {
            // Of packets, not of keys.
            answered = came;
        } else if has_places {
            let without = came.saturating_sub(answered);
            (stash, answered) = (stash + without, answered + without);
        }
        let counted = answered + lost.iter().map(|(_, n)| n).sum::<u64>();
        lost.push(("unanswered", sent.checked_sub(counted)?));
        lost.retain(|(_, n)| *n > 0);
        Some(Lookups { sent, cache, stash, remote, absent, lost })
    }
}

impl Outcome {
    /// Look-ups by what became of them.
    pub fn lookups(&self) -> Option<Lookups> {
        Lookups::new(&self.verdict, &self.found.counts, self.found.keys, self.connections.is_some())
    }

    /// Whether every packet that came was right, and all processes ran to the end.
    pub fn fine(&self) -> bool {
        let moved = &self.found.moved;
        let is_there = !moved.is_asked() || (moved.is_over && moved.error.is_none());
        self.verdict.violations() == 0 && self.deaths.is_empty() && self.lookups().is_some() && is_there
    }

    /// A percentile of the latency in the whole run, in microseconds with a digit behind the point.
    fn percentile(&self, percent: usize) -> f64 {
        (self.whole.percentile_us(percent) * 10.0).round() / 10.0
    }

    /// As JSON, together with what was asked for.
    pub fn json(&self, asked: Value) -> Value {
        let (v, f) = (&self.verdict, &self.in_fault);
        let count = |index: usize| self.found.counts.get(index).copied().unwrap_or(0);
        let lookups = self.lookups().map(|l| {
            let lost: Map<String, Value> = l.lost.iter().map(|(name, n)| (name.to_string(), json!(n))).collect();
            json!({"sent": l.sent, "cache": l.cache, "stash": l.stash, "remote": l.remote, "absent": l.absent, "lost": lost, "replica": count(REPLICA), "by_load": count(LOADED), "second_waits": count(SECOND)})
        });
        let mut all = json!({
            "schema": 1,
            "lookups": lookups,
            "latency_us": {
                "p10": self.percentile(10),
                "p50": self.percentile(50),
                "p90": self.percentile(90),
                "p99": self.percentile(99),
            },
            "per_s": self.calm.per_s().round(),
            "per_server": self.answered,
            "entries": self.found.entries,
            "collisions": self.found.collisions,
            "dram_bytes": self.found.dram_bytes,
            "switch_bytes": self.found.switch_bytes,
            "changes": {"acknowledged": self.found.changes[0], "refused": self.found.changes[1]},
            "in_fault": {"lost": f.lost, "outage_ms": f.outage_ns as f64 / 1e6, "by_repair": f.by_repair},
            "servers_out": count(OUT),
            "pairs_revived": self.found.revived,
            "moved_ms": self.found.moved.ms,
            "after_repair": {"sent": self.after[0], "lost": self.after[1]},
            "connections": self.connections.map(|c| json!({"begun": c.begun, "ended": c.ended, "kept": c.kept, "pools": self.found.pools})),
            "violations": {"wrong": v.wrong, "missing": v.missing, "altered": v.altered, "doubled": v.doubled},
            "deaths": self.deaths,
        });
        if let (Value::Object(all), Value::Object(asked)) = (&mut all, asked) {
            all.extend(asked);
        }
        all
    }

    /// As text.
    pub fn text(&self) -> String {
        let v = &self.verdict;
        let count = |index: usize| self.found.counts.get(index).copied().unwrap_or(0);
        let mut text = String::new();
        match self.lookups() {
            None => text += "the data plane counted more look-ups than there were packets\n",
            Some(l) => {
                let lost: Vec<String> = l.lost.iter().map(|(name, n)| format!("{name} {n}")).collect();
                let lost = if lost.is_empty() { "none".to_string() } else { lost.join(", ") };
                let _ = writeln!(
                    text,
                    "look-ups: {} sent, {} in the cache, {} in the switch's own table, {} in servers, {} absent; lost: {lost}",
                    l.sent, l.cache, l.stash, l.remote, l.absent
                );
            }
        }
        let _ = writeln!(
            text,
            "{:.0} answered look-ups/s; latency {} us (p50), {} us (p99)\n\
             {} entries, {} collisions, {} changes; {} bytes in servers, {} in the switch\n\
             {} look-ups by a replica, {} of them because its link had less load; the fault cost {} packets, the last one sent {:.1} ms after it; its repair {}\n\
             after the repair: {} sent, {} lost\n\
             violations: {} wrong, {} missing, {} altered, {} doubled",
            self.calm.per_s(),
            self.percentile(50),
            self.percentile(99),
            self.found.entries,
            self.found.collisions,
            self.found.changes[0],
            self.found.dram_bytes,
            self.found.switch_bytes.map_or("unknown".into(), |n| n.to_string()),
            count(REPLICA),
            count(LOADED),
            self.in_fault.lost,
            self.in_fault.outage_ns as f64 / 1e6,
            self.in_fault.by_repair,
            self.after[0],
            self.after[1],
            v.wrong,
            v.missing,
            v.altered,
            v.doubled
        );
        if let Some(c) = &self.connections {
            let _ = writeln!(
                text,
                "connections: {} began, {} ended; {} changes of the devices that take new ones, {} packets at devices that took none",
                c.begun, c.ended, self.found.pools, c.kept
            );
        }
        let moved = &self.found.moved;
        match (&moved.error, moved.ms) {
            _ if !moved.is_asked() => {}
            (Some(error), _) => _ = writeln!(text, "the table stays where it was: {error}"),
            (None, Some(ms)) if moved.is_over => {
                _ = writeln!(text, "the table has moved: {ms:.1} ms until look-ups used the new cells")
            }
            (None, _) => text += "the table has not moved in this time\n",
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
    fn lost_packets_count_in_latencies_and_not_in_the_rate() {
        let calm = Part { sent: 100, lost: 75, seconds: 1.0, ..Part::default() };
        let lost = 300_000_000;
        let whole = Part { latencies: [[1_000; 49].as_slice(), &[lost]].concat(), ..Part::default() };
        assert_eq!([50, 98, 99].map(|p| whole.percentile_us(p)), [1.0, 1.0, 300_000.0]);
        assert!(Part::default().percentile_us(99).is_nan());
        let outcome = Outcome { calm, whole, ..Outcome::default() };
        let json = outcome.json(json!({}));
        assert_eq!((&json["per_s"], &json["latency_us"]["p99"]), (&json!(25.0), &json!(300_000.0)));
        assert!(outcome.text().contains("\n25 answered look-ups/s; latency 1 us (p50), 300000 us (p99)\n"));
    }

    #[test]
    fn look_ups_add_up() {
        let verdict = Verdict { sent: 100, found: 70, absent: 10, ..Verdict::default() };
        let mut counts = [0; 20];
        (counts[0], counts[1], counts[2], counts[5], counts[8]) = (5, 65, 10, 3, 2);
        let l = Lookups::new(&verdict, &counts, 1, false).expect("they add up");
        assert_eq!(l.lost, [("credit", 3), ("window", 2), ("unanswered", 15)]);
        assert_eq!(l.stash + l.remote + l.absent + l.lost.iter().map(|(_, n)| n).sum::<u64>(), l.sent);
        counts[1] = 90;
        assert_eq!(Lookups::new(&verdict, &counts, 1, false), None);
        let places = Verdict { found: 85, ..verdict };
        counts[1] = 65;
        let l = Lookups::new(&places, &counts, 1, true).expect("they add up");
        assert_eq!((l.stash, &l.lost[2..]), (20, &[][..]));
        counts[1] = 90;
        let several = Lookups::new(&verdict, &counts, 3, false).expect("they add up");
        assert_eq!((several.remote, &several.lost[2..]), (90, &[("unanswered", 15)][..]));
        counts[1] = 290;
        assert_eq!(Lookups::new(&verdict, &counts, 3, false), None);
        let plain = Lookups::new(&verdict, &[], 1, false).expect("they add up");
        assert_eq!(
            (plain.stash, plain.remote, plain.absent, plain.lost),
            (70, 0, 10, vec![("unanswered", 20)])
        );
    }
}
