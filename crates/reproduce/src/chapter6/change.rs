//! Racks whose right weights change at a time T: processors slow down, or servers get a second SmartNIC, at loads where that matters.
//! Learners, with and without their guard, are held against what does not learn: a frozen table, constant weights, a threshold.

use super::adapt::{DECISION, RIGHT, guard, lately, part};
use super::fast::{Scale, decided_by, deciding, setup, stepping};
use super::scale::Threshold;
use crate::bench::Bench;
use crate::error::{ExperimentError, Failed};
use crate::figure::{Chart, Found, ratio_of_means};
use crate::scenario_file::{ActionSection, EventSection};
use pointsman_sim::scenario::LearnerKind;
use pointsman_sim::{Outcome, Scenario};
use pointsman_trials::stats::mean;
use std::sync::Arc;

/// Decisions before T, and after it.
const BEFORE: usize = 300;
const AFTER: usize = 300;
/// The last ones are to be right.
const LAST: usize = 50;
/// What changes at T.
#[derive(Clone, Copy, Debug)]
struct Change {
    title: &'static str,
    nics: usize,
    /// Requests per second and server of the thesis.
    rates: [f64; 6],
    /// Events: when, in intervals, what.
    events: &'static [(f64, ActionSection)],
}

/// Before T, 0 is right at all rates; after it, 1 at all but the two lowest.
const SLOWER: Change = Change {
    title: "processors slow down",
    nics: 1,
    rates: [6.0, 8.5, 9.2, 7.0, 8.8, 9.0],
    events: &[(BEFORE as f64, ActionSection::Speed { device: "cpu", factor: 0.69 })],
};

/// Before T, 0 and 1 are right; after it, only 0, because processors are then used too little with 1.
const MORE: Change = Change {
    title: "a second SmartNIC",
    nics: 2,
    rates: [10.5, 11.5, 12.0, 11.0, 11.8, 10.8],
    events: &[
        (0.0, ActionSection::Disable { device: "nic2" }),
        (BEFORE as f64, ActionSection::Enable { device: "nic2" }),
    ],
};

/// What decides.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Decider {
    Learner(LearnerKind),
    Guarded(LearnerKind),
    /// P4Wise with a table that another run learnt before T; it does not learn.
    Frozen,
    /// 6:1 when processors would otherwise be used by more than 60 %.
    Threshold,
    Constant(u32),
}

const P4WISE: usize = 0;
const BANDIT: usize = 1;
const RATES: usize = 2;
/// The same with a guard come so much later.
const WITH_GUARD: usize = 3;
const FROZEN: usize = 6;
/// With more, SmartNICs would be overloaded: answers would come when the switch has forgotten their connections.
const CONSTANTS: std::ops::Range<usize> = 8..11;
const DECIDERS: [(&str, Decider); 11] = [
    ("p4wise", Decider::Learner(LearnerKind::QLearning)),
    ("thompson", Decider::Learner(LearnerKind::Thompson)),
    ("service-rate", Decider::Learner(LearnerKind::ServiceRate)),
    ("p4wise, guarded", Decider::Guarded(LearnerKind::QLearning)),
    ("thompson, guarded", Decider::Guarded(LearnerKind::Thompson)),
    ("service-rate, guarded", Decider::Guarded(LearnerKind::ServiceRate)),
    ("p4wise, frozen", Decider::Frozen),
    ("threshold", Decider::Threshold),
    ("6:0", Decider::Constant(0)),
    ("6:1", Decider::Constant(1)),
    ("6:2", Decider::Constant(2)),
];

/// The rack, with or without what happens at T.
fn rack(
    bench: &Bench,
    change: &Change,
    decider: Decider,
    whole: bool,
) -> Result<Arc<Scenario>, ExperimentError> {
    let mut s = setup(bench, bench.choose(64, 32), change.nics, "wrr", 1.0);
    s.arrivals = stepping(bench, &change.rates, s.servers);
    let scale = Scale::of(bench);
    let events = change.events.iter().filter(|(at, _)| whole || *at < BEFORE as f64);
    let at_s = |at: f64| if at > 0.0 { scale.interval_s() * at + scale.time_s(1.0) } else { 0.0 };
    s.events = events.map(|(at, action)| EventSection { at_s: at_s(*at), action: *action }).collect();
    let learner = match decider {
        Decider::Learner(kind) | Decider::Guarded(kind) => kind,
        Decider::Frozen => LearnerKind::QLearning,
        Decider::Threshold | Decider::Constant(_) => LearnerKind::Fixed,
    };
    let learn = deciding(bench, &mut s, learner, if whole { BEFORE + AFTER } else { BEFORE } as u32);
    match decider {
        Decider::Guarded(_) => learn.guard = Some(guard(bench)),
        Decider::Frozen if whole => (learn.alpha, learn.epsilon) = (Some(1e-6), Some(0.0)),
        Decider::Constant(weight) => learn.weight = Some(weight),
        _ => {}
    }
    s.scenario(bench)
}

fn run(bench: &Bench, change: &Change, decider: Decider, seed: u64) -> Result<Outcome, Failed> {
    let scenario = rack(bench, change, decider, true)?;
    match decider {
        Decider::Frozen => {
            let learnt = bench.simulate(&rack(bench, change, decider, false)?, seed)?;
            let mut own = scenario.as_ref().clone();
            if let Some(learn) = &mut own.learn {
                learn.table = learnt.learning.and_then(|l| l.table);
            }
            Ok(bench.simulate(&Arc::new(own), seed)?)
        }
        Decider::Threshold => decided_by(bench, &scenario, seed, &mut Threshold::new(60.0)),
        _ => Ok(bench.simulate(&scenario, seed)?),
    }
}

/// How much the theoretical P99 of the decisions after T exceeds the oracle's, on average; ms of ours.
fn regret(runs: &[Outcome]) -> Vec<f64> {
    runs.iter().map(|o| o.learning.as_ref().map_or(f64::NAN, |l| l.regret_ms(AFTER))).collect()
}

/// Evidence for the claims on one change, in the order of [`CHANGE_CLAIMS`](super::CHANGE_CLAIMS), and its chart.
fn one(bench: &Bench, change: &Change) -> Result<(Chart, Vec<Vec<f64>>), Failed> {
    let runs =
        bench.each(change.title, &DECIDERS, |(_, decider), seed| run(bench, change, *decider, seed))?;
    let all = BEFORE + AFTER;
    let chart = Chart {
        title: format!("Right decisions; {} after {BEFORE}", change.title),
        x: DECISION,
        y: RIGHT,
        ours: DECIDERS
            .iter()
            .zip(&runs)
            .map(|((name, _), runs)| lately(name, runs, all, |s| s.right))
            .collect(),
        paper: Vec::new(),
    };
    let late = |of: usize| part(&runs[of], all - LAST, all);
    let regrets: Vec<Vec<f64>> = runs.iter().map(|runs| regret(runs)).collect();
    let against = |of: usize, other: usize| ratio_of_means(&regrets[of], &regrets[other]);
    let constants = regrets[CONSTANTS].iter().min_by(|a, b| mean(a).mean.total_cmp(&mean(b).mean));
    let constant = constants.map(Vec::as_slice).unwrap_or_default();
    let beyond_constant =
        |of: usize| regrets[of].iter().zip(constant).map(|(own, best)| own - best).collect::<Vec<_>>();
    let evidence = vec![
        part(&runs[FROZEN], BEFORE, all),
        late(P4WISE),
        late(BANDIT),
        late(RATES),
        beyond_constant(P4WISE),
        against(BANDIT, P4WISE),
        against(RATES, P4WISE),
        against(BANDIT + WITH_GUARD, P4WISE + WITH_GUARD),
        against(RATES + WITH_GUARD, P4WISE + WITH_GUARD),
        beyond_constant(RATES + WITH_GUARD),
    ];
    Ok((chart, evidence))
}

/// Both changes.
pub fn changes(bench: &Bench) -> Result<Found, Failed> {
    let mut found = Found::default();
    let mut claims = super::CHANGE_CLAIMS.iter();
    for change in [SLOWER, MORE] {
        let (chart, evidence) = one(bench, &change)?;
        found.charts.push(chart);
        for (samples, claim) in evidence.into_iter().zip(claims.by_ref()) {
            found.claim(claim.id, samples);
        }
    }
    Ok(found)
}
