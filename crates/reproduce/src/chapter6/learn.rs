//! Figure 6.3: how fast P4Wise converges.

use super::fast::{changing, deciding, right, setup, steps};
use crate::bench::Bench;
use crate::error::Failed;
use crate::figure::{Chart, Curve, Found, Point, Quantity, ratio_of_means};
use pointsman_decide::Parameters;
use pointsman_sim::Outcome;
use pointsman_sim::outcome::LearnStep;
use pointsman_sim::scenario::LearnerKind;
use std::sync::Arc;

const ITERATION: Quantity = Quantity { name: "decision", unit: "", label: "decision", log: false };
const REWARDS: Quantity =
    Quantity { name: "rewards", unit: "", label: "sum of the last 100 rewards", log: false };

/// Pairs of alpha and gamma.
const PAIRS: [(f64, f64); 4] = [(0.5, 0.5), (0.3, 0.5), (0.9, 0.5), (0.5, 0.9)];

fn sums(steps: &[LearnStep], until: usize) -> f64 {
    let p = Parameters::default();
    let from = until.saturating_sub(100);
    steps.get(from..until).unwrap_or_default().iter().map(|s| p.reward(s.verdict)).sum()
}

/// Results of P4Wise with each pair.
pub fn runs(bench: &Bench) -> Result<Arc<Vec<Vec<Outcome>>>, Failed> {
    bench.once("convergence", || {
        let mut scenarios = Vec::new();
        for (alpha, gamma) in PAIRS {
            let mut s = setup(bench, bench.choose(64, 32), 2, "wrr", 1.0);
            s.arrivals = changing(bench, s.servers);
            let learn = deciding(bench, &mut s, LearnerKind::QLearning, decisions(bench));
            (learn.alpha, learn.gamma) = (Some(alpha), Some(gamma));
            scenarios.push(s.scenario(bench)?);
        }
        bench.simulate_all("convergence", &scenarios)
    })
}

fn decisions(bench: &Bench) -> u32 {
    bench.choose(360, 300)
}

/// Share of right decisions after the 250th with alpha = gamma = 0.5, in per cent.
pub fn late_accuracy(runs: &[Vec<Outcome>]) -> Vec<f64> {
    let late = |o: &Outcome| right(steps(o).get(250..).unwrap_or_default());
    runs.first().map(|r| r.iter().map(late).collect()).unwrap_or_default()
}

pub fn convergence(bench: &Bench) -> Result<Found, Failed> {
    let (runs, decisions) = (runs(bench)?, decisions(bench));
    let axis: Vec<f64> = (100..=decisions).step_by(20).map(f64::from).collect();
    let ours = PAIRS.iter().zip(runs.iter()).map(|((alpha, gamma), runs)| Curve {
        name: format!("alpha {alpha}, gamma {gamma}"),
        points: axis.iter().map(|n| Point::of(*n, runs, |o| sums(steps(o), *n as usize))).collect(),
    });
    let chart = Chart {
        title: "Sum of the last 100 rewards".into(),
        x: ITERATION,
        y: REWARDS,
        ours: ours.collect(),
        paper: Vec::new(),
    };
    let converged = |pair: usize| -> Vec<f64> {
        let of = |o: &Outcome| {
            let after = o.learning.as_ref().and_then(|l| l.converged_after());
            // Never: as long as it was watched. At once: a decision.
            after.map_or(f64::from(decisions), |n| (n as f64).max(1.0))
        };
        runs.get(pair).map(|r| r.iter().map(of).collect()).unwrap_or_default()
    };
    let mut found = Found { charts: vec![chart], ..Found::default() };
    found.claim("converges", converged(0));
    // Some converge at once.
    found.claim("faster", ratio_of_means(&converged(0), &converged(1)));
    found.claim("accuracy", late_accuracy(&runs));
    Ok(found)
}
