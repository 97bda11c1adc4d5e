//! Which assumption makes figure 6.8's network lose less than the thesis's when a second SmartNIC is added: one factor at a time.

use super::adapt::{AFTER, BEFORE, DECISION, Experiment, FIGURE, RIGHT, by_network, lately};
use super::fast::{percent, steps};
use crate::bench::Bench;
use crate::error::Failed;
use crate::figure::{Chart, Found};
use pointsman_sim::Outcome;
use pointsman_sim::outcome::LearnStep;

/// When a decision counts as right.
type Judge = fn(&LearnStep) -> bool;

/// As in all figures of chapter 6.
const LENIENT: Judge = |s| s.right;

/// A name, what is different from figure 6.8, and the ids of the claims before and after T.
struct Variant {
    name: &'static str,
    experiment: Experiment,
    judge: Judge,
    ids: [&'static str; 2],
}

const VARIANTS: [Variant; 7] = [
    Variant {
        name: "as figure 6.8",
        experiment: FIGURE,
        judge: LENIENT,
        ids: ["figure-before", "figure-after"],
    },
    Variant {
        name: "only the oracle's weight is right",
        experiment: FIGURE,
        judge: |s| s.next_weight == s.best_weight,
        ids: ["strict-before", "strict-after"],
    },
    Variant {
        name: "judged by the reward of what was measured",
        experiment: FIGURE,
        judge: |s| s.verdict.is_right(),
        ids: ["measured-before", "measured-after"],
    },
    Variant {
        name: "rates on both sides, and at the turning point",
        experiment: Experiment {
            rates: &[8.0, 14.5, 10.5, 12.0, 9.5, 11.5, 15.0, 11.0, 8.5, 12.5],
            ..FIGURE
        },
        judge: LENIENT,
        ids: ["all-rates-before", "all-rates-after"],
    },
    Variant {
        name: "rates at the turning point",
        experiment: Experiment { rates: &[10.5, 11.5, 12.0, 11.0, 11.8, 10.8], ..FIGURE },
        judge: LENIENT,
        ids: ["turning-before", "turning-after"],
    },
    Variant {
        name: "data at the rates of the decisions only",
        experiment: Experiment { seen: FIGURE.rates, ..FIGURE },
        judge: LENIENT,
        ids: ["same-data-before", "same-data-after"],
    },
    Variant {
        name: "two weights to choose from",
        experiment: Experiment { weights: 2, ..FIGURE },
        judge: LENIENT,
        ids: ["two-weights-before", "two-weights-after"],
    },
];

/// Every variant's right decisions before and after T.
pub fn factors(bench: &Bench) -> Result<Found, Failed> {
    let runs =
        bench.each("figure 6.8's network", &VARIANTS, |v, seed| by_network(bench, &v.experiment, seed))?;
    let all = BEFORE + AFTER;
    let chart = Chart {
        title: format!("Right decisions of the network; a second SmartNIC after {BEFORE}"),
        x: DECISION,
        y: RIGHT,
        ours: VARIANTS.iter().zip(&runs).map(|(v, runs)| lately(v.name, runs, all, v.judge)).collect(),
        paper: Vec::new(),
    };
    let mut found = Found { charts: vec![chart], ..Found::default() };
    for (variant, runs) in VARIANTS.iter().zip(&runs) {
        let part = |from: usize, to: usize| -> Vec<f64> {
            let of = |o: &Outcome| {
                percent(steps(o).get(from..to.min(steps(o).len())).unwrap_or_default(), variant.judge)
            };
            runs.iter().map(of).collect()
        };
        // The first two decisions after a change have not seen it.
        found.claim(variant.ids[0], part(2, BEFORE));
        found.claim(variant.ids[1], part(BEFORE + 2, all));
    }
    Ok(found)
}
