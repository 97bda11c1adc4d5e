//! Figures of the papers, their claims, and how a claim is judged.

use super::bench::Bench;
use pointsman_trials::stats::{mean, median, spread};
use serde_json::{Value, json};

/// A figure or table of a paper, or a question of ours that no paper answers.
pub struct Figure {
    /// As the command line names it: `fig-5.7`, `table-5.4`.
    pub id: &'static str,
    /// Its title.
    pub title: &'static str,
    /// The paper and its section.
    pub source: &'static str,
    /// Where it runs.
    pub place: Place,
    /// Remarks for the reader: errors in the original's data, differences of our experiment.
    pub remarks: &'static [&'static str],
    /// Its claims.
    pub claims: &'static [Claim],
}

/// Where an experiment runs.
#[derive(Clone, Copy)]
pub enum Place {
    /// In virtual time, around the same P4 program, controller and agents as on the wire.
    Simulator(Run),
    /// In virtual time, or with sockets on a rack of namespaces.
    Both {
        /// In virtual time.
        simulator: Run,
        /// On the rack.
        lab: Run,
    },
    /// Nowhere, and why.
    Nowhere(&'static str),
}

/// An experiment.
pub type Run = fn(&Bench) -> Result<Found, String>;

/// A claim of a figure, as one number.
#[derive(Clone, Copy)]
pub struct Claim {
    /// Short name, unique in its figure.
    pub id: &'static str,
    /// The claim, in words.
    pub text: &'static str,
    /// The paper's number, or the bound that is claimed.
    pub paper: f64,
    /// Its unit.
    pub unit: &'static str,
    /// The rule by which ours is judged.
    pub rule: Rule,
}

/// Rule for judging a claim. Ours is a sample for each seed; its mean has a 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// Something has an effect: the number is away from `neutral`, where nothing would be gained. *Fails*: our
    /// interval includes `neutral`, or lies beyond it. *Holds*: our mean is at least four fifths as far away as the paper's
    /// number. *Weaker*: in between.
    Effect {
        /// The value without an effect.
        neutral: f64,
    },
    /// A bound: *holds* if the whole interval is at or below it, *weaker* if only the mean is.
    AtMost,
    /// A bound: *holds* if the whole interval is at or above it, *weaker* if only the mean is.
    AtLeast,
    /// The number itself: *holds* if our mean differs by no more than this, *weaker* if by no more than twice as much.
    Same {
        /// In the claim's unit.
        within: f64,
    },
}

/// Verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Holds,
    /// It points the right way, but is weaker than claimed.
    Weaker,
    /// It does not hold.
    Fails,
}

impl Verdict {
    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Weaker => "weaker",
            Verdict::Fails => "fails",
        }
    }
}

impl Rule {
    /// Judges these samples. Without samples, or with a NaN, a claim fails.
    pub fn judge(self, paper: f64, ours: &[f64]) -> Verdict {
        if ours.is_empty() || ours.iter().any(|v| !v.is_finite()) {
            return Verdict::Fails;
        }
        let (mean, (low, high)) = (mean(ours).mean, mean(ours).ends());
        let bound = |all: bool, mean: bool| match (all, mean) {
            (true, _) => Verdict::Holds,
            (_, true) => Verdict::Weaker,
            _ => Verdict::Fails,
        };
        match self {
            Rule::Effect { neutral } => {
                let towards = |v: f64| (v - neutral) / (paper - neutral);
                let worst = towards(low).min(towards(high));
                // A claim of no effect at all has no direction.
                if !worst.is_finite() || worst <= 0.0 {
                    Verdict::Fails
                } else if towards(mean) >= 0.8 {
                    Verdict::Holds
                } else {
                    Verdict::Weaker
                }
            }
            Rule::AtMost => bound(high <= paper, mean <= paper),
            Rule::AtLeast => bound(low >= paper, mean >= paper),
            Rule::Same { within } => {
                let off = (mean - paper).abs();
                bound(off <= within, off <= 2.0 * within)
            }
        }
    }
}

/// A quantity on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantity {
    /// Its name, as it begins a column: `p99`.
    pub name: &'static str,
    /// Its unit, as it ends a column: `ms`, `per_s`, `percent`.
    pub unit: &'static str,
    /// For people: `P99, ms`.
    pub label: &'static str,
    /// Whether its axis is logarithmic.
    pub log: bool,
}

impl Quantity {
    /// A column of the table: `p99_median_ms`.
    pub fn column(&self, what: &str) -> String {
        [self.name, what, self.unit].into_iter().filter(|s| !s.is_empty()).collect::<Vec<_>>().join("_")
    }
}

/// 99th percentile of latencies.
pub const P99: Quantity = Quantity { name: "p99", unit: "ms", label: "P99, ms", log: true };
/// Offered load.
pub const RATE: Quantity =
    Quantity { name: "offered", unit: "per_s", label: "offered load, requests/s", log: false };

/// One value of the horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Where.
    pub x: f64,
    /// Values at this place, one for each seed. A paper has one.
    pub samples: Vec<f64>,
}

/// A line of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Its name; the paper's line has the same name as ours.
    pub name: String,
    /// In the order of the axis.
    pub points: Vec<Point>,
}

impl Curve {
    /// A paper's line.
    pub fn paper(name: &str, points: &[(f64, f64)]) -> Self {
        let points = points.iter().map(|(x, y)| Point { x: *x, samples: vec![*y] }).collect();
        Curve { name: name.to_string(), points }
    }

    /// Our measurements: at each place of the axis, a value of every run.
    pub fn of<R>(name: &str, axis: &[f64], runs: &[Vec<R>], value: impl Fn(&R) -> f64) -> Self {
        let point = |(x, runs): (&f64, &Vec<R>)| Point { x: *x, samples: runs.iter().map(&value).collect() };
        Curve { name: name.to_string(), points: axis.iter().zip(runs).map(point).collect() }
    }

    /// The samples at `x`.
    pub fn at(&self, x: f64) -> Option<&[f64]> {
        self.points.iter().find(|p| p.x == x).map(|p| p.samples.as_slice())
    }
}

/// A chart of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Its heading.
    pub title: String,
    /// Horizontal axis.
    pub x: Quantity,
    /// Vertical axis.
    pub y: Quantity,
    /// Our measurements.
    pub ours: Vec<Curve>,
    /// The paper's data, if its numbers are known.
    pub paper: Vec<Curve>,
}

impl Chart {
    /// Our line of this name.
    pub fn curve(&self, name: &str) -> Option<&Curve> {
        self.ours.iter().find(|c| c.name == name)
    }

    /// Our samples of that line there; none if nothing was measured.
    pub fn samples(&self, name: &str, x: f64) -> &[f64] {
        self.curve(name).and_then(|c| c.at(x)).unwrap_or_default()
    }
}

/// Results of an experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Charts.
    pub charts: Vec<Chart>,
    /// For each claim, its id and a sample for each seed.
    pub values: Vec<(&'static str, Vec<f64>)>,
    /// Further notes.
    pub notes: Vec<String>,
    /// Whether claims were omitted: in the lab, those that would take too long.
    pub partial: bool,
}

impl Found {
    /// Adds the samples of a claim.
    pub fn claim(&mut self, id: &'static str, samples: Vec<f64>) {
        self.values.push((id, samples));
    }
}

/// Sample by sample, `a / b`.
pub fn ratios(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a / b).collect()
}

/// A claim with its samples and verdict.
pub struct Judged {
    /// The claim.
    pub claim: Claim,
    /// A sample for each seed.
    pub samples: Vec<f64>,
    /// The verdict.
    pub verdict: Verdict,
}

impl Figure {
    /// Judges all claims.
    ///
    /// # Errors
    /// The experiment gave no samples for a claim, or some for none: that is a mistake of ours.
    pub fn judge(&self, found: &Found) -> Result<Vec<Judged>, String> {
        let known = |id: &str| self.claims.iter().any(|c| c.id == id);
        if let Some((id, _)) = found.values.iter().find(|(id, _)| !known(id)) {
            return Err(format!("{}: the experiment reports `{id}`, which is not a claim", self.id));
        }
        let said = |claim: &&Claim| !found.partial || found.values.iter().any(|(id, _)| *id == claim.id);
        let judge = |claim: &Claim| {
            let found = found.values.iter().find(|(id, _)| *id == claim.id);
            let (_, samples) = found.ok_or_else(|| {
                format!("{}: the experiment does not report the claim `{}`", self.id, claim.id)
            })?;
            let verdict = claim.rule.judge(claim.paper, samples);
            Ok(Judged { claim: *claim, samples: samples.clone(), verdict })
        };
        self.claims.iter().filter(said).map(judge).collect()
    }
}

impl Judged {
    /// As in the file of results.
    pub fn json(&self) -> Value {
        let m = mean(&self.samples);
        let ((low, high), (min, max)) = (m.ends(), spread(&self.samples));
        json!({
            "id": self.claim.id, "text": self.claim.text, "paper": self.claim.paper, "ours": m.mean,
            "verdict": self.verdict.name(), "unit": self.claim.unit, "seeds": self.samples.len(),
            "ours_ci95_low": low, "ours_ci95_high": high, "ours_median": median(&self.samples),
            "ours_min": min, "ours_max": max,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: Rule, paper: f64, ours: &[f64], wanted: Verdict) {
        assert_eq!(rule.judge(paper, ours), wanted, "{rule:?}, paper {paper}, ours {ours:?}");
    }

    #[test]
    fn effects() {
        let factor = Rule::Effect { neutral: 1.0 };
        // The paper says 1.5 times as much: 1.4 is four fifths of that effect.
        check(factor, 1.5, &[1.41, 1.42, 1.4], Verdict::Holds);
        check(factor, 1.5, &[1.9, 1.95, 1.92], Verdict::Holds);
        check(factor, 1.5, &[1.1, 1.11, 1.12], Verdict::Weaker);
        check(factor, 1.5, &[0.8, 1.5, 1.0], Verdict::Fails);
        check(factor, 1.5, &[0.8, 0.81], Verdict::Fails);
        // Less is better.
        check(factor, 0.5, &[0.55, 0.56, 0.54], Verdict::Holds);
        check(factor, 0.5, &[0.9, 0.91, 0.9], Verdict::Weaker);
        check(factor, 0.5, &[1.2, 1.21, 1.2], Verdict::Fails);
        check(factor, 1.0, &[2.0], Verdict::Fails);
        check(factor, 1.5, &[], Verdict::Fails);
        check(factor, 1.5, &[f64::INFINITY], Verdict::Fails);
        check(factor, 1.5, &[f64::NAN, 1.5], Verdict::Fails);
    }

    #[test]
    fn bounds() {
        check(Rule::AtMost, 20.0, &[10.0, 11.0], Verdict::Holds);
        check(Rule::AtMost, 20.0, &[1.0, 30.0], Verdict::Weaker);
        check(Rule::AtMost, 20.0, &[21.0], Verdict::Fails);
        check(Rule::AtLeast, 20.0, &[20.0], Verdict::Holds);
        check(Rule::AtLeast, 20.0, &[10.0, 31.0], Verdict::Weaker);
        check(Rule::AtLeast, 20.0, &[10.0, 11.0], Verdict::Fails);
    }

    #[test]
    fn equals() {
        let rule = Rule::Same { within: 0.1 };
        check(rule, 1.0, &[1.05, 1.0], Verdict::Holds);
        check(rule, 1.0, &[0.85], Verdict::Weaker);
        check(rule, 1.0, &[1.3], Verdict::Fails);
        check(Rule::Same { within: 0.0 }, 0.0, &[0.0, 0.0], Verdict::Holds);
        check(Rule::Same { within: 0.0 }, 0.0, &[0.0, 1.0], Verdict::Fails);
    }

    #[test]
    fn every_claim_is_judged() {
        let claim = Claim {
            id: "more",
            text: "more",
            paper: 2.0,
            unit: "times",
            rule: Rule::Effect { neutral: 1.0 },
        };
        let claims: &'static [Claim] = Box::leak(Box::new([claim]));
        let place = Place::Nowhere("");
        let figure = Figure { id: "fig", title: "", source: "", place, remarks: &[], claims };
        let mut found = Found::default();
        assert!(figure.judge(&found).is_err(), "nothing was said");
        found.claim("more", vec![2.0, 2.1]);
        let judged = figure.judge(&found).expect("all is there");
        assert_eq!(judged[0].json()["verdict"], "holds");
        assert_eq!(judged[0].json()["ours"], 2.05);
        found.claim("other", vec![]);
        assert!(figure.judge(&found).is_err(), "not claimed");
    }
}
