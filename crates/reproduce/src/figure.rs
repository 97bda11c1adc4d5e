//! Figures of the papers, their claims, and how a claim is judged.

use super::bench::Bench;
pub use super::verdict::{Evidence, Rule, Source, Verdict};
use crate::error::{Failed, JudgeError};
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
    /// In virtual time; or in the lab as another figure says, which has other remarks and claims.
    Apart {
        /// In virtual time.
        simulator: Run,
        /// In the lab.
        lab: &'static Figure,
    },
    /// A network of switches in virtual time, with tuned settings or with the paper's.
    Network(Run),
    /// Networks at 10 Gbit/s in virtual time, with tuned settings: there are none as published.
    Fabric(Run),
    /// With sockets on a rack of namespaces only.
    Lab(Run),
    /// Nowhere, and why.
    Nowhere(&'static str),
}

/// An experiment.
pub type Run = fn(&Bench) -> Result<Found, Failed>;

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
    /// Where the paper's number comes from.
    pub source: Source,
}

impl Claim {
    /// The same, with its number from elsewhere.
    pub const fn from(self, source: Source) -> Self {
        Claim { source, ..self }
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
/// The time of a run, in which events happen.
pub const TIME_OF_RUN: Quantity =
    Quantity { name: "at", unit: "ms", label: "time since the first flow, ms", log: false };
/// Offered load.
pub const RATE: Quantity =
    Quantity { name: "offered", unit: "per_s", label: "offered load, requests/s", log: false };

/// A run whose loss of requests may be known.
pub trait Lossy {
    /// The share of requests lost in it, in per cent; `None` where none was counted.
    fn loss_percent(&self) -> Option<f64>;
}

impl Lossy for f64 {
    fn loss_percent(&self) -> Option<f64> {
        None
    }
}

impl Lossy for pointsman_sim::Outcome {
    fn loss_percent(&self) -> Option<f64> {
        Some(self.requests.loss_percent())
    }
}

/// Results of one run, simulated or in the lab. Times are those of the scenario: the lab's scaling is undone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ran {
    /// Requests that were not answered in time.
    pub lost: u64,
    /// Their share of those sent, in per cent.
    pub loss_percent: f64,
    /// Mean over all requests sent, in milliseconds. A lost one counts with the client's patience.
    pub mean_ms: f64,
    /// 99th percentile over all requests sent, in milliseconds. A lost one counts with the client's patience.
    pub p99_ms: f64,
    /// Requests finished while clients were sending, per second.
    pub finished_per_s: f64,
    /// Until the last was answered or lost.
    pub took_s: f64,
}

impl Lossy for Ran {
    fn loss_percent(&self) -> Option<f64> {
        Some(self.loss_percent)
    }
}

/// The worst of several losses, of those that are known.
pub fn worst(losses: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    losses.flatten().fold(None, |worst, loss| Some(worst.map_or(loss, |w: f64| w.max(loss))))
}

/// One value of the horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Where.
    pub x: f64,
    /// Values at this place, one for each seed. A paper has one.
    pub samples: Vec<f64>,
    /// The share of requests lost there, in per cent, the worst of the seeds; `None` where none was counted.
    pub loss_percent: Option<f64>,
}

impl Point {
    /// Values at a place, of which no loss is known.
    pub fn new(x: f64, samples: Vec<f64>) -> Self {
        Point { x, samples, loss_percent: None }
    }

    /// A value of every run at this place.
    pub fn of<R: Lossy>(x: f64, runs: &[R], value: impl Fn(&R) -> f64) -> Self {
        let loss_percent = worst(runs.iter().map(Lossy::loss_percent));
        Point { x, samples: runs.iter().map(value).collect(), loss_percent }
    }

    /// Its samples, with the loss behind them.
    pub fn evidence(&self) -> Evidence {
        Evidence { samples: self.samples.clone(), loss_percent: self.loss_percent }
    }
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
        let points = points.iter().map(|(x, y)| Point::new(*x, vec![*y])).collect();
        Curve { name: name.to_string(), points }
    }

    /// Our measurements: at each place of the axis, a value of every run.
    pub fn of<R: Lossy>(name: &str, axis: &[f64], runs: &[Vec<R>], value: impl Fn(&R) -> f64) -> Self {
        let point = |(x, runs): (&f64, &Vec<R>)| Point::of(*x, runs, &value);
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

    /// The same with the loss behind them.
    pub fn evidence(&self, name: &str, x: f64) -> Evidence {
        let point = self.curve(name).and_then(|c| c.points.iter().find(|p| p.x == x));
        point.map(Point::evidence).unwrap_or_default()
    }

    /// Sample by sample, a line's value at a place against another's at another, with the worst loss behind both.
    pub fn over(&self, a: (&str, f64), b: (&str, f64)) -> Evidence {
        self.evidence(a.0, a.1).over(&self.evidence(b.0, b.1))
    }
}

/// Results of an experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Charts.
    pub charts: Vec<Chart>,
    /// For each claim, its id and the evidence for and against it.
    pub values: Vec<(&'static str, Evidence)>,
    /// What happened when, for charts over [`TIME_OF_RUN`].
    pub events: Vec<(f64, String)>,
    /// Further notes.
    pub notes: Vec<String>,
    /// Whether claims were omitted: in the lab, those that would take too long.
    pub partial: bool,
}

impl Found {
    /// Adds the samples of a claim, one for each seed, or its evidence.
    pub fn claim(&mut self, id: &'static str, evidence: impl Into<Evidence>) {
        self.values.push((id, evidence.into()));
    }
}

/// Sample by sample, `a / b`.
pub fn ratios(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a / b).collect()
}

/// Samples of the ratio of two means, for when a single seed's denominator may be next to nothing. Their mean is the ratio, and they
/// vary as it does in both means, to first order (the delta method). A single one may be negative.
pub fn ratio_of_means(a: &[f64], b: &[f64]) -> Vec<f64> {
    let below = mean(b).mean;
    let ratio = mean(a).mean / below;
    a.iter().zip(b).map(|(a, b)| ratio + (a - ratio * b) / below).collect()
}

/// A claim with its evidence and verdict.
pub struct Judged {
    /// The claim.
    pub claim: Claim,
    /// The evidence for and against it.
    pub evidence: Evidence,
    /// The verdict.
    pub verdict: Verdict,
}

impl Figure {
    /// Judges all claims.
    ///
    /// # Errors
    /// The experiment gave no samples for a claim, or some for none: that is a mistake of ours.
    pub fn judge(&self, found: &Found) -> Result<Vec<Judged>, JudgeError> {
        let known = |id: &str| self.claims.iter().any(|c| c.id == id);
        if let Some((id, _)) = found.values.iter().find(|(id, _)| !known(id)) {
            return Err(JudgeError::NotClaim(self.id, id.to_string()));
        }
        let said = |claim: &&Claim| !found.partial || found.values.iter().any(|(id, _)| *id == claim.id);
        let judge = |claim: &Claim| {
            let found = found.values.iter().find(|(id, _)| *id == claim.id);
            let (_, evidence) = found.ok_or(JudgeError::NoValues(self.id, claim.id))?;
            let verdict = evidence.judge(claim.rule, claim.paper);
            Ok(Judged { claim: *claim, evidence: evidence.clone(), verdict })
        };
        self.claims.iter().filter(said).map(judge).collect()
    }
}

impl Judged {
    /// As in the file of results. `published`: the experiment's settings are the paper's.
    pub fn json(&self, published: bool) -> Value {
        let (claim, samples) = (&self.claim, &self.evidence.samples);
        let ((low, high), (min, max)) = (self.evidence.ci95(), spread(samples));
        json!({
            "id": claim.id, "text": claim.text, "paper": claim.paper, "ours": mean(samples).mean,
            "verdict": self.verdict.name(), "unit": claim.unit, "seeds": samples.len(),
            "source": claim.source.name(), "section": claim.source.section(),
            "mode": if published { "published" } else { "ours" },
            "ci95": [low, high], "loss_percent": self.evidence.loss_percent,
            "ours_ci95_low": low, "ours_ci95_high": high, "ours_median": median(samples),
            "ours_min": min, "ours_max": max,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_of_means_vary_with_both() {
        let half = |a: &[f64], b: &[f64]| {
            let samples = ratio_of_means(a, b);
            assert!((mean(&samples).mean - 0.5).abs() < 1e-12, "{samples:?}");
            mean(&samples).half.expect("several")
        };
        let uneven = [1.0, 3.0].repeat(10);
        let halves: Vec<f64> = uneven.iter().map(|b| b / 2.0).collect();
        // The relative error of the denominator's mean is that of the ratio.
        let expected = 0.5 * mean(&uneven).half.expect("several") / 2.0;
        assert!((half(&[1.0; 20], &uneven) - expected).abs() < 1e-12);
        // Both together, the ratio is certain; apart, it is not.
        assert!(half(&halves, &uneven) < 1e-12);
        let apart: Vec<f64> = halves.iter().map(|a| 2.0 - a).collect();
        assert!(half(&apart, &uneven) > expected);
    }

    #[test]
    fn every_claim_is_judged() {
        let claim = Claim {
            id: "more",
            text: "more",
            paper: 2.0,
            unit: "times",
            rule: Rule::Effect { neutral: 1.0 },
            source: Source::Section("section 7"),
        };
        let claims: &'static [Claim] = Box::leak(Box::new([claim]));
        let place = Place::Nowhere("");
        let figure = Figure { id: "fig", title: "", source: "", place, remarks: &[], claims };
        let mut found = Found::default();
        assert!(figure.judge(&found).is_err(), "nothing was said");
        found.claim("more", vec![2.0, 2.1, 2.0, 2.1, 2.05]);
        let judged = figure.judge(&found).expect("all is there");
        let json = judged[0].json(false);
        assert_eq!((&json["verdict"], &json["ours"]), (&"holds".into(), &2.05.into()));
        assert_eq!((&json["source"], &json["section"]), (&"text".into(), &"section 7".into()));
        assert_eq!((&json["mode"], &json["seeds"]), (&"ours".into(), &5.into()));
        assert!(json["ci95"][0].as_f64() < Some(2.05) && json["loss_percent"].is_null());
        found.claim("other", vec![]);
        assert!(figure.judge(&found).is_err(), "not claimed");
    }
}
