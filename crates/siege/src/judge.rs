//! From observations to the result of a case: pure functions over requests and samples.

use crate::case::{Case, Moment};
use crate::load::{Attempt, Life, Outcome};
use crate::storm::Findings;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// A device that no new connection reached for this long was out of service.
const ABSENT: Duration = Duration::from_millis(1500);

/// Of so many connections of a storm one may stay without an answer: it is UDP, and queues of a busy machine run over.
const LOST_OF: f64 = 10_000.0;

/// How long etcd may take to elect its own leader: two elections may fail because of equal votes.
const ETCD_ELECTION: Duration = Duration::from_secs(3);

/// One look at the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// When it began, since the load's start.
    pub at: Duration,
    /// The APIs of all controllers and the switch's metrics answered in time.
    pub answered: bool,
    /// A controller is in charge and the switch holds the desired entries.
    pub in_charge: bool,
}

/// When things happened, since the load's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The attack began.
    pub begin: Duration,
    /// It ended.
    pub end: Duration,
    /// The load ended.
    pub over: Duration,
}

/// Everything that was seen of a case.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Requests, in the order in which they ended.
    pub attempts: Vec<Attempt>,
    /// Looks at the control plane.
    pub looks: Vec<Look>,
    /// The devices' names, by number.
    pub devices: Vec<String>,
    /// The rack was whole at the end.
    pub whole: bool,
    /// Growth of memory, bytes.
    pub memory: u64,
    /// Bytes of log.
    pub log_bytes: u64,
    /// Frames or requests a second that attackers sent.
    pub attack_per_s: Option<f64>,
    /// What was found of a storm.
    pub storm: Option<Findings>,
    /// Faults apart from figures: processes that ended, checks that failed.
    pub faults: Vec<String>,
}

/// The result of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The case.
    pub name: &'static str,
    /// Requests sent from the beginning of the attack.
    pub requests: u64,
    /// Of these, lost: on standing connections that are not hit, on new ones over TCP and over UDP.
    pub lost: [u64; 3],
    /// Lost on standing connections of devices that are hit.
    pub hit_lost: u64,
    /// Answers from another device than the connection's first.
    pub violations: u64,
    /// Answers that no device signed.
    pub forged: u64,
    /// Until the rack was whole.
    pub recovery: Duration,
    /// Until every standing TCP connection was answered or reset.
    pub stuck: Duration,
    /// The longest time without API or metrics.
    pub control_gap: Duration,
    /// MB.
    pub memory_mb: f64,
    /// Bytes of log.
    pub log_bytes: u64,
    /// P99.9 of latency before and during the attack.
    pub p999: [Duration; 2],
    /// Requests lost before the attack began: the machine's own doing.
    pub baseline_lost: u64,
    /// The attackers' rate per second.
    pub attack_per_s: Option<f64>,
    /// What was found of a storm.
    pub storm: Option<Findings>,
    /// The limits that it broke, and other faults. Empty: the case holds.
    pub broke: Vec<String>,
}

fn lost(a: &Attempt) -> bool {
    !matches!(a.outcome, Outcome::Answered(_))
}

/// The end of every pause longer than [`ABSENT`] between new connections of one device, from `from` on.
fn returns(attempts: &[Attempt], devices: usize, from: Duration, over: Duration) -> Vec<Duration> {
    let mut last = vec![from; devices];
    let mut out = Vec::new();
    for a in attempts.iter().filter(|a| a.life == Life::New && a.at >= from) {
        if let Outcome::Answered(device) = a.outcome
            && let Some(last) = last.get_mut(device)
        {
            if a.at.saturating_sub(*last) > ABSENT {
                out.push(a.at);
            }
            *last = a.at;
        }
    }
    out.extend(last.iter().filter(|l| over.saturating_sub(**l) > ABSENT).map(|_| over));
    out
}

/// The latest of these moments, counted from `from`; zero if all were before.
fn since(moments: impl Iterator<Item = Duration>, from: Duration) -> Duration {
    moments.max().unwrap_or_default().saturating_sub(from)
}

/// Until the rack is whole: the last new connection that failed, the last device that came back, the last look at which no
/// controller was in charge.
fn recovery(case: &Case, seen: &Seen, times: &Times) -> Duration {
    let failed = || seen.attempts.iter().filter(|a| a.life == Life::New && lost(a)).map(|a| a.at);
    let looks = || seen.looks.iter().filter(|l| !l.in_charge).map(|l| l.at);
    let back = returns(&seen.attempts, seen.devices.len(), times.end, times.over);
    let after_end = since(failed().chain(looks()).chain(back), times.end);
    match case.recovers_from {
        Moment::End => after_end,
        Moment::Begin => since(failed().chain(looks()), times.begin).max(after_end),
    }
}

/// The longest time, from the moment the attack begins, that a standing TCP connection was neither answered nor reset.
fn stuck(seen: &Seen, times: &Times) -> Duration {
    let mut silent_since: BTreeMap<u16, Duration> = BTreeMap::new();
    let mut longest = Duration::ZERO;
    for a in
        seen.attempts.iter().filter(|a| a.tcp && a.life == Life::Standing && a.at + a.took >= times.begin)
    {
        let began = *silent_since.entry(a.stream).or_insert(a.at);
        let ended = a.at + a.took;
        longest = longest.max(ended.saturating_sub(began.max(times.begin)));
        if a.outcome != Outcome::Silence {
            silent_since.remove(&a.stream);
        }
    }
    // An answer in time is not a connection that is stuck.
    if longest < Duration::from_secs(1) { Duration::ZERO } else { longest }
}

/// The longest time without an answer of the control plane while the attack lasted.
fn control_gap(seen: &Seen, times: &Times) -> Duration {
    let (mut good, mut longest, mut silent) = (times.begin, Duration::ZERO, false);
    for look in seen.looks.iter().filter(|l| (times.begin..=times.end).contains(&l.at)) {
        if look.answered {
            // A look takes time: the silence lasted until this one, not until the last that failed began.
            longest = if silent { longest.max(look.at.saturating_sub(good)) } else { longest };
            good = look.at;
        }
        silent = !look.answered;
    }
    if silent { longest.max(times.end.saturating_sub(good)) } else { longest }
}

/// The nearest-rank P99.9 of the requests in `which`.
fn p999(attempts: &[Attempt], which: impl Fn(&Attempt) -> bool) -> Duration {
    let mut took: Vec<Duration> = attempts.iter().filter(|a| which(a)).map(|a| a.took).collect();
    took.sort_unstable();
    let rank = (took.len() as f64 * 0.999).ceil() as usize;
    took.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// Judges a case.
pub fn judge(case: &Case, seen: &Seen, times: &Times) -> Verdict {
    let hit = |a: &Attempt| {
        let name = a.first.and_then(|d| seen.devices.get(d));
        name.is_some_and(|n| case.hits.contains(&n.as_str()))
    };
    // A request that was in flight when the attack began may suffer from it.
    let during = |a: &&Attempt| a.at + a.took >= times.begin;
    let count = |which: &dyn Fn(&Attempt) -> bool| {
        seen.attempts.iter().filter(during).filter(|a| which(a)).count() as u64
    };
    let mut verdict = Verdict {
        name: case.name,
        requests: count(&|_| true),
        lost: [
            count(&|a| lost(a) && a.life != Life::New && !hit(a)),
            count(&|a| lost(a) && a.life == Life::New && a.tcp),
            count(&|a| lost(a) && a.life == Life::New && !a.tcp),
        ],
        hit_lost: count(&|a| lost(a) && a.life != Life::New && hit(a)),
        violations: count(&|a| matches!(a.outcome, Outcome::Answered(d) if a.first.is_some_and(|f| f != d))),
        forged: count(&|a| a.outcome == Outcome::Forged),
        recovery: recovery(case, seen, times),
        stuck: stuck(seen, times),
        control_gap: control_gap(seen, times),
        memory_mb: seen.memory as f64 / 1e6,
        log_bytes: seen.log_bytes,
        p999: [
            p999(&seen.attempts, |a| a.life == Life::Probe && a.at + a.took < times.begin),
            p999(&seen.attempts, |a| a.life == Life::Probe && (times.begin..times.end).contains(&a.at)),
        ],
        baseline_lost: seen.attempts.iter().filter(|a| lost(a) && a.at + a.took < times.begin).count() as u64,
        attack_per_s: seen.attack_per_s,
        storm: seen.storm.clone(),
        broke: Vec::new(),
    };
    verdict.broke = broken(case, seen, &verdict);
    verdict
}

/// Which limits a case broke.
fn broken(case: &Case, seen: &Seen, v: &Verdict) -> Vec<String> {
    let limits = &case.limits;
    let mut broke = Vec::new();
    let mut above = |what: &str, unit: &str, value: f64, limit: Option<f64>| {
        if let Some(limit) = limit.filter(|l| value > *l) {
            broke.push(format!("{what} {value:.0}{unit} > {limit:.0}{unit}"));
        }
    };
    let number = |n: Option<u64>| n.map(|n| n as f64);
    let ms = |d: Option<Duration>| d.map(|d| d.as_secs_f64() * 1e3);
    above("standing connections lost", "", v.lost[0] as f64, number(limits.standing_lost));
    above("new TCP connections lost", "", v.lost[1] as f64, number(limits.new_tcp_lost));
    above("new UDP connections lost", "", v.lost[2] as f64, number(limits.new_udp_lost));
    above("violations", "", v.violations as f64, number(limits.violations));
    above("answers forged", "", v.forged as f64, Some(0.0));
    above("recovery", " ms", v.recovery.as_secs_f64() * 1e3, ms(limits.recovery));
    above("stuck", " ms", v.stuck.as_secs_f64() * 1e3, ms(limits.stuck));
    above("API or metrics silent", " ms", v.control_gap.as_secs_f64() * 1e3, ms(limits.control_gap));
    above("memory", " MB", v.memory_mb, limits.memory_mb);
    above("log", " bytes", v.log_bytes as f64, number(limits.log_bytes));
    if case.compares_latency() {
        let usual = v.p999[0].as_secs_f64() * 2e3;
        let limit = ms(limits.added_p999).map(|added| usual + added);
        above("P99.9", " ms", v.p999[1].as_secs_f64() * 1e3, limit);
    }
    above("lost before the attack began: the machine is too busy;", "", v.baseline_lost as f64, Some(0.0));
    if let (Some(storm), Some(found)) = (&case.storm, &v.storm) {
        let (leaderless, waiting) = found.longest();
        let [leaderless, waiting] = [leaderless, waiting].map(|d| d.as_secs_f64() * 1e3);
        above("no leader for", " ms", leaderless, ms(Some(storm.leaderless)));
        above("no changes for", " ms", waiting, ms(Some(storm.leaderless + ETCD_ELECTION)));
        let (opened, unanswered) = found.connections;
        above(
            "connections of the storm without an answer",
            "",
            unanswered as f64,
            Some(opened as f64 / LOST_OF),
        );
        broke.extend(found.wrong.iter().cloned());
    }
    if !seen.whole {
        broke.push("never recovered".to_owned());
    }
    broke.extend(seen.faults.iter().cloned());
    broke
}

/// A duration in milliseconds, to a tenth.
fn tenths(d: Duration) -> f64 {
    (d.as_secs_f64() * 1e4).round() / 10.0
}

impl Verdict {
    /// As it is in the file of results.
    pub fn json(&self, case: &Case) -> Value {
        let l = &case.limits;
        let ms = |d: Option<Duration>| d.map(tenths);
        let mut value = json!({
            "name": self.name, "about": case.about,
            "requests": self.requests, "lost": self.lost.iter().sum::<u64>(), "violations": self.violations,
            "recovery_ms": tenths(self.recovery), "memory_growth_mb": (self.memory_mb * 10.0).round() / 10.0,
            "log_bytes": self.log_bytes,
            "limits": {
                "standing_lost": l.standing_lost, "new_tcp_lost": l.new_tcp_lost, "new_udp_lost": l.new_udp_lost,
                "violations": l.violations, "recovery_ms": ms(l.recovery), "stuck_ms": ms(l.stuck),
                "control_gap_ms": ms(l.control_gap), "memory_growth_mb": l.memory_mb, "log_bytes": l.log_bytes,
                "added_p999_ms": case.compares_latency().then_some(ms(l.added_p999)).flatten(),
            },
            "ok": self.broke.is_empty(), "broke": self.broke,
            "standing_lost": self.lost[0], "new_tcp_lost": self.lost[1], "new_udp_lost": self.lost[2],
            "hit_lost": self.hit_lost, "forged": self.forged, "baseline_lost": self.baseline_lost,
            "stuck_ms": tenths(self.stuck), "control_gap_ms": tenths(self.control_gap),
        });
        if let Some(all) = value.as_object_mut() {
            if case.compares_latency() {
                let us = |d: Duration| d.as_micros() as u64;
                all.insert(
                    "p999_us".into(),
                    json!({ "before": us(self.p999[0]), "during": us(self.p999[1]) }),
                );
            }
            if let (Some(found), Some(storm)) = (&self.storm, &case.storm) {
                all.insert("storm".into(), found.json());
                all["limits"]["leaderless_ms"] = json!(tenths(storm.leaderless));
            }
            if let Some(rate) = self.attack_per_s {
                all.insert("attack_per_s".into(), json!(rate.round()));
            }
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{BASE, NOTHING};

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    const TIMES: Times =
        Times { begin: Duration::from_secs(2), end: Duration::from_secs(5), over: Duration::from_secs(8) };

    fn attempt(life: Life, tcp: bool, ms: u64, outcome: Outcome) -> Attempt {
        Attempt { life, tcp, stream: 0, at: at(ms), took: at(1), outcome, first: Some(0) }
    }

    /// Eight seconds in which nothing is lost: a request of every kind every 20 ms, on two devices in turn.
    fn good() -> Seen {
        let mut attempts = Vec::new();
        for n in 0..400 {
            for (life, tcp) in [(Life::New, true), (Life::New, false), (Life::Standing, true)] {
                let device = if life == Life::New { n % 2 } else { 0 };
                let first = Some(device);
                let one = attempt(life, tcp, 20 * n as u64, Outcome::Answered(device));
                attempts.push(Attempt { first, ..one });
            }
        }
        let looks = (0..40).map(|n| Look { at: at(200 * n), answered: true, in_charge: true }).collect();
        let devices = vec!["s1/cpu".to_string(), "s1/nic".to_string()];
        Seen { attempts, looks, devices, whole: true, ..Seen::default() }
    }

    fn broke(case: &Case, seen: &Seen) -> Vec<String> {
        judge(case, seen, &TIMES).broke
    }

    #[test]
    fn nothing_is_wrong_with_nothing() {
        let verdict = judge(&BASE, &good(), &TIMES);
        assert_eq!(verdict.broke, Vec::<String>::new());
        assert_eq!((verdict.lost, verdict.recovery, verdict.stuck), ([0; 3], Duration::ZERO, Duration::ZERO));
        assert_eq!(verdict.requests, 3 * 300);
    }

    #[test]
    fn each_limit_can_be_broken() {
        let with = |change: &dyn Fn(&mut Seen)| {
            let mut seen = good();
            change(&mut seen);
            broke(&BASE, &seen)
        };
        let add = |a: Attempt| with(&|s| s.attempts.push(a));
        let says = |broke: Vec<String>, what: &str| {
            assert!(broke.iter().any(|b| b.starts_with(what)), "{what}: {broke:?}");
        };
        says(add(attempt(Life::Standing, true, 3000, Outcome::Reset)), "standing");
        says(add(attempt(Life::New, true, 3000, Outcome::Silence)), "new TCP");
        says(add(attempt(Life::New, false, 3000, Outcome::Silence)), "new UDP");
        says(add(attempt(Life::Standing, false, 3000, Outcome::Answered(1))), "violations");
        says(add(attempt(Life::Standing, false, 3000, Outcome::Forged)), "answers forged");
        says(add(attempt(Life::New, false, 1000, Outcome::Silence)), "lost before");
        says(add(attempt(Life::New, false, 6500, Outcome::Silence)), "recovery 1500 ms");
        says(with(&|s| s.memory = 65_000_000), "memory 65 MB");
        says(with(&|s| s.log_bytes = 64_001), "log");
        says(with(&|s| s.whole = false), "never recovered");
        says(with(&|s| s.faults.push("switch ended".into())), "switch ended");
        says(
            with(&|s| s.looks.iter_mut().filter(|l| l.at > at(3000)).for_each(|l| l.answered = false)),
            "API",
        );
        // A device that no new connection reaches after the end of the attack.
        says(
            with(&|s| s.attempts.retain(|a| a.at < at(4000) || a.outcome != Outcome::Answered(1))),
            "recovery 3000 ms",
        );
    }

    #[test]
    fn what_is_hit_may_suffer_and_what_is_not_promised_does_not_count() {
        let mut seen = good();
        seen.attempts.push(attempt(Life::Standing, true, 3000, Outcome::Reset));
        assert!(!broke(&BASE, &seen).is_empty());
        assert!(broke(&Case { hits: &["s1/cpu"], ..BASE }, &seen).is_empty());
        assert!(!broke(&Case { hits: &["s1/nic"], ..BASE }, &seen).is_empty());
        let limits = crate::case::Limits { standing_lost: None, ..NOTHING };
        assert!(broke(&Case { limits, ..BASE }, &seen).is_empty());
    }

    #[test]
    fn recovery_counts_from_the_beginning_where_that_is_promised() {
        let mut seen = good();
        seen.attempts.push(attempt(Life::New, true, 3200, Outcome::Reset));
        let limits = crate::case::Limits { new_tcp_lost: None, ..NOTHING };
        let from = |recovers_from| judge(&Case { recovers_from, limits, ..BASE }, &seen, &TIMES).recovery;
        assert_eq!(from(Moment::Begin), at(1200));
        assert_eq!(from(Moment::End), Duration::ZERO);
    }

    #[test]
    fn a_connection_is_stuck_until_it_is_answered_or_reset() {
        let silence = |ms| Attempt { took: at(1000), ..attempt(Life::Standing, true, ms, Outcome::Silence) };
        let mut seen = good();
        seen.attempts.retain(|a| a.life == Life::New);
        seen.attempts.extend([silence(2000), silence(3000)]);
        seen.attempts.push(attempt(Life::Standing, true, 4000, Outcome::Reset));
        assert_eq!(judge(&BASE, &seen, &TIMES).stuck, at(2001));
        // One that never is.
        seen.attempts.pop();
        seen.attempts.extend((4..8).map(|s| silence(1000 * s)));
        assert_eq!(judge(&BASE, &seen, &TIMES).stuck, at(6000));
    }

    #[test]
    fn latency_is_compared_with_that_before() {
        let limits = crate::case::Limits { added_p999: Some(at(1)), ..NOTHING };
        let case = Case { limits, ..BASE };
        let probe = |ms, took| Attempt { took, ..attempt(Life::Probe, false, ms, Outcome::Answered(0)) };
        let seen = |during| {
            let mut seen = good();
            seen.attempts.extend((0..1000).map(|n| probe(n, at(2))));
            seen.attempts.extend((0..1000).map(|n| probe(2000 + n, during)));
            seen
        };
        assert!(broke(&case, &seen(at(5))).is_empty());
        assert_eq!(broke(&case, &seen(at(6))), ["P99.9 6 ms > 5 ms"]);
    }
}
