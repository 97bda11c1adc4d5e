//! What was seen of a storm, and what follows from it: pure functions.

use super::Summary;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A change that a controller acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Number of the controller.
    pub controller: usize,
    /// When the request was sent.
    pub began: Duration,
    /// When it was answered.
    pub ended: Duration,
    /// The change's number.
    pub id: u64,
    /// What it said: no other change says the same.
    pub note: String,
    /// The switch has it.
    pub in_force: bool,
    /// It was in a leader's history later, or newer ones had taken its place there.
    pub found: bool,
}

/// A controller said that it leads with this term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    /// The upper half of its election ids.
    pub term: u64,
    /// Its number.
    pub controller: usize,
}

/// The switch reported its primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Primary {
    /// When.
    pub at: Duration,
    /// Its election id.
    pub id: u128,
}

impl Primary {
    fn term(&self) -> u64 {
        (self.id >> 64) as u64
    }
}

/// Everything that was seen.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Acknowledged changes, in the order of their answers.
    pub acks: Vec<Ack>,
    /// Who said that it leads.
    pub claims: BTreeSet<Claim>,
    /// What the switch said, in order.
    pub primaries: Vec<Primary>,
    /// When faults began, and their kinds.
    pub hits: Vec<(Duration, &'static str)>,
    /// Connections opened in addition to those of all cases.
    pub opened: u64,
    /// Of these, without an answer in time.
    pub unanswered: u64,
    /// Answers to them that no device signed, or from another address.
    pub forged: u64,
    /// Anything that should not happen.
    pub faults: Vec<String>,
}

/// What follows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// For each fault, its kind and the time without a controller that makes changes.
    pub leaderless: Vec<(&'static str, Duration)>,
    /// Changes that were acknowledged.
    pub acknowledged: u64,
    /// How many controllers became primary of the switch.
    pub primaries: u64,
    /// Connections opened in addition, and those without an answer.
    pub connections: (u64, u64),
    /// What members' requests came to.
    pub members: Summary,
    /// Lost changes, two writers and the like, as text.
    pub wrong: Vec<String>,
}

impl Evidence {
    /// Compares acknowledged changes with a leader's history, the newest first. Older ones than the oldest there have made room.
    pub fn compare(&mut self, history: &[(u64, String)]) {
        let Some(oldest) = history.last().map(|(id, _)| *id) else { return };
        let newest = history[0].0;
        let kept: BTreeMap<u64, &str> = history.iter().map(|(id, note)| (*id, note.as_str())).collect();
        // Those beyond the newest may have been acknowledged after the history was read.
        for ack in self.acks.iter_mut().filter(|a| !a.found && a.id <= newest) {
            ack.found = ack.id < oldest || kept.get(&ack.id) == Some(&ack.note.as_str());
            if !ack.found {
                let instead = kept.get(&ack.id).unwrap_or(&"nothing");
                self.faults.push(format!(
                    "change {} of controller {} ({}) is lost: the leader has {instead}",
                    ack.id, ack.controller, ack.note
                ));
                ack.found = true;
            }
        }
    }

    /// Judges all of it. Everything ended at `over`.
    pub fn findings(&self, over: Duration) -> Findings {
        let mut wrong = self.faults.clone();
        let lost = self.acks.iter().filter(|a| !a.found).count();
        if lost > 0 {
            wrong.push(format!("{lost} acknowledged changes are in no history"));
        }
        if self.forged > 0 {
            wrong.push(format!("{} answers that no device signed", self.forged));
        }
        self.two_writers(&mut wrong);
        Findings {
            leaderless: self.leaderless(over),
            acknowledged: self.acks.len() as u64,
            primaries: self
                .primaries
                .iter()
                .map(Primary::term)
                .filter(|t| *t > 0)
                .collect::<BTreeSet<_>>()
                .len() as u64,
            connections: (self.opened, self.unanswered),
            members: Summary::default(),
            wrong,
        }
    }

    /// Signs that two controllers wrote at a time.
    fn two_writers(&self, wrong: &mut Vec<String>) {
        for pair in self.primaries.windows(2).filter(|p| p[1].id < p[0].id) {
            wrong.push(format!("the switch's primary went from {:x} back to {:x}", pair[0].id, pair[1].id));
        }
        let mut leaders: BTreeMap<u64, usize> = BTreeMap::new();
        for Claim { term, controller } in &self.claims {
            let first = *leaders.entry(*term).or_insert(*controller);
            if first != *controller {
                wrong.push(format!("controllers {first} and {controller} both led with term {term}"));
            }
        }
        // A number that was given later must be higher.
        let mut highest: Vec<(Duration, u64)> = Vec::new();
        let mut by_end: Vec<&Ack> = self.acks.iter().collect();
        by_end.sort_by_key(|a| a.ended);
        for ack in &by_end {
            let top = highest.last().map_or(0, |(_, id)| *id);
            highest.push((ack.ended, top.max(ack.id)));
        }
        for ack in &by_end {
            let before = highest.partition_point(|(ended, _)| *ended <= ack.began);
            if let Some((_, id)) = before.checked_sub(1).map(|i| highest[i]).filter(|(_, id)| *id >= ack.id) {
                wrong.push(format!(
                    "change {} came after change {id}, by controller {}",
                    ack.id, ack.controller
                ));
            }
        }
        let mut ids = BTreeSet::new();
        for ack in by_end.iter().filter(|a| !ids.insert(a.id)) {
            wrong.push(format!("two changes have the number {}", ack.id));
        }
        for ack in self.acks.iter().filter(|a| a.in_force) {
            let held = self.held(ack.began, ack.ended);
            let foreign = |term: &u64| leaders.get(term).is_some_and(|c| *c != ack.controller);
            if !held.is_empty() && held.iter().all(foreign) {
                wrong.push(format!(
                    "controller {} made change {} while another one was the switch's primary",
                    ack.controller, ack.id
                ));
            }
        }
    }

    /// The terms of the switch's primaries during this time, and soon after: what the switch says may come late.
    fn held(&self, from: Duration, to: Duration) -> Vec<u64> {
        const LATE: Duration = Duration::from_secs(1);
        let first = self.primaries.partition_point(|p| p.at <= from).saturating_sub(1);
        self.primaries[first..].iter().take_while(|p| p.at <= to + LATE).map(Primary::term).collect()
    }

    /// For each fault, the longest time without a change in force, until the next fault.
    fn leaderless(&self, over: Duration) -> Vec<(&'static str, Duration)> {
        let mut made: Vec<Duration> = self.acks.iter().filter(|a| a.in_force).map(|a| a.ended).collect();
        made.sort_unstable();
        let ends = self.hits.iter().skip(1).map(|(at, _)| *at).chain([over]);
        let gap = |(&(begin, kind), end): (&(Duration, &'static str), Duration)| {
            let first = made.partition_point(|at| *at <= begin);
            let mut since = begin;
            let mut longest = Duration::ZERO;
            for at in made[first..].iter().copied().take_while(|at| *at < end).chain([end]) {
                longest = longest.max(at.saturating_sub(since));
                since = at;
            }
            (kind, longest)
        };
        self.hits.iter().zip(ends).map(gap).collect()
    }
}

/// The middle of these, and the highest.
fn middle_and_top(mut all: Vec<Duration>) -> (Duration, Duration) {
    all.sort_unstable();
    let at = |i: usize| all.get(i).copied().unwrap_or_default();
    (at(all.len() / 2), at(all.len().saturating_sub(1)))
}

fn ms(d: Duration) -> u64 {
    d.as_millis() as u64
}

impl Findings {
    /// The longest time without a leader after faults of controllers, and that without changes after those of etcd's nodes, in which
    /// a controller leads and etcd may have no leader.
    pub fn longest(&self) -> (Duration, Duration) {
        let of = |etcd: bool| {
            let those = self.leaderless.iter().filter(|(kind, _)| kind.starts_with("etcd") == etcd);
            those.map(|(_, d)| *d).max().unwrap_or_default()
        };
        (of(false), of(true))
    }

    /// Median and maximum for each kind of fault.
    fn by_kind(&self) -> BTreeMap<&'static str, (usize, Duration, Duration)> {
        let kinds: BTreeSet<&'static str> = self.leaderless.iter().map(|(kind, _)| *kind).collect();
        let of = |kind: &'static str| {
            let all: Vec<Duration> =
                self.leaderless.iter().filter(|(k, _)| *k == kind).map(|(_, d)| *d).collect();
            let count = all.len();
            let (middle, top) = middle_and_top(all);
            (kind, (count, middle, top))
        };
        kinds.into_iter().map(of).collect()
    }

    /// As it is in the file of results.
    pub fn json(&self) -> Value {
        let (middle, top) = middle_and_top(self.leaderless.iter().map(|(_, d)| *d).collect());
        let kinds: BTreeMap<&str, Value> = self
            .by_kind()
            .into_iter()
            .map(|(kind, (n, middle, top))| {
                (kind, json!({ "faults": n, "median_ms": ms(middle), "max_ms": ms(top) }))
            })
            .collect();
        json!({
            "faults": self.leaderless.len(),
            "leaderless_ms": { "median": ms(middle), "max": ms(top) },
            "kinds": kinds,
            "changes": self.acknowledged,
            "primaries": self.primaries,
            "connections": self.connections.0,
            "unanswered": self.connections.1,
            "registered": self.members.registered,
            "withdrawn": self.members.withdrawn,
            "members_compared": self.members.compared,
        })
    }

    /// Lines for people.
    pub fn lines(&self) -> String {
        let mut out = format!(
            "  {} faults, {} changes acknowledged, {} primaries, {} of {} connections without an answer\n",
            self.leaderless.len(),
            self.acknowledged,
            self.primaries,
            self.connections.1,
            self.connections.0
        );
        let m = &self.members;
        out += &format!(
            "  members: {} registrations and renewals, {} withdrawals acknowledged, compared {} times\n",
            m.registered, m.withdrawn, m.compared
        );
        for (kind, (n, middle, top)) in self.by_kind() {
            out += &format!(
                "  {n:>4} x {kind:<32} no changes for {:>5} ms, at most {:>5} ms\n",
                ms(middle),
                ms(top)
            );
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn ack(controller: usize, ms: u64, id: u64) -> Ack {
        let (began, ended) = (at(ms), at(ms + 20));
        Ack { controller, began, ended, id, note: format!("{controller}-{id}"), in_force: true, found: false }
    }

    fn primary(ms: u64, term: u64) -> Primary {
        Primary { at: at(ms), id: u128::from(term) << 64 | 1 }
    }

    /// Controller 0 leads for a second and is killed; controller 1 takes over after half a second.
    fn good() -> Evidence {
        let mut e = Evidence { hits: vec![(at(1000), "leader killed")], ..Evidence::default() };
        e.acks =
            (0..10).map(|n| ack(0, 100 * n, n + 1)).chain((15..30).map(|n| ack(1, 100 * n, n))).collect();
        e.primaries = vec![primary(0, 4), primary(1400, 9)];
        e.claims = [Claim { term: 4, controller: 0 }, Claim { term: 9, controller: 1 }].into();
        let history: Vec<(u64, String)> = e.acks.iter().rev().map(|a| (a.id, a.note.clone())).collect();
        e.compare(&history);
        e
    }

    fn wrong(change: impl FnOnce(&mut Evidence)) -> String {
        let mut e = good();
        change(&mut e);
        e.findings(at(3000)).wrong.join("; ")
    }

    #[test]
    fn a_takeover_is_measured() {
        let findings = good().findings(at(3000));
        assert_eq!(findings.wrong, Vec::<String>::new());
        assert_eq!(findings.leaderless, [("leader killed", at(520))]);
        assert_eq!((findings.acknowledged, findings.primaries, findings.longest().0), (25, 2, at(520)));
        // Nothing at all after a fault counts until the end.
        let mut e = good();
        e.acks.truncate(10);
        assert_eq!(e.findings(at(3000)).longest(), (at(2000), at(0)));
    }

    #[test]
    fn lost_changes_and_two_writers_are_found() {
        let lost = wrong(|e| {
            e.acks.iter_mut().for_each(|a| a.found = false);
            let history: Vec<_> =
                e.acks.iter().rev().filter(|a| a.id != 20).map(|a| (a.id, a.note.clone())).collect();
            e.compare(&history);
        });
        assert!(lost.contains("change 20 of controller 1 (1-20) is lost: the leader has nothing"), "{lost}");
        let other = wrong(|e| {
            e.acks.iter_mut().for_each(|a| a.found = false);
            let history: Vec<_> =
                e.acks.iter().rev().map(|a| (a.id, a.note.replace("1-20", "0-11"))).collect();
            e.compare(&history);
        });
        assert!(other.contains("is lost: the leader has 0-11"), "{other}");
        assert!(wrong(|e| e.acks[3].found = false).contains("in no history"));
        assert!(wrong(|e| e.primaries.push(primary(2000, 4))).contains("back to"));
        assert!(
            wrong(|e| assert!(e.claims.insert(Claim { term: 9, controller: 0 })))
                .contains("both led with term 9")
        );
        assert!(wrong(|e| e.acks[20].id = 3).contains("came after change"));
        assert!(wrong(|e| e.acks[20].id = e.acks[19].id).contains("two changes have the number"));
        // The former leader's change is acknowledged when the switch has another primary.
        let late = wrong(|e| {
            let found = true;
            e.acks.push(Ack { found, ..ack(0, 2995, 40) });
        });
        assert!(late.contains("controller 0 made change 40 while another one"), "{late}");
        assert!(wrong(|e| e.forged = 1).contains("no device signed"));
    }
}
