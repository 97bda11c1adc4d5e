//! Figures 5.8 and 5.9 of the thesis: completion time of a batch of requests.

use super::apps::{self, App};
use super::bench::{Bench, Coming, Ran};
use super::chapter5::{POLICIES, effect};
use super::figure::{Chart, Claim, Curve, Figure, Found, Place, Point, Quantity, RATE, Rule, Source};
use super::papers;
use crate::error::{ExperimentError, Failed};
use crate::scenario_file::ArrivalsSection;
use pointsman_sim::Scenario;
use pointsman_sim::random::{Part, Stream};
use std::fmt::Write;
use std::sync::Arc;

const TIME: Quantity = Quantity { name: "completion", unit: "s", label: "completion time, s", log: false };
const BATCH: Quantity = Quantity { name: "batch", unit: "requests", label: "requests", log: false };

/// Client timeout.
const PATIENCE_S: f64 = 60.0;

const REMARK: &str = "from the first request to the last answer; identical request times for every policy";

/// A ratio that ought to be 1, nearly.
const fn equal(id: &'static str, text: &'static str) -> Claim {
    Claim { id, text, paper: 1.0, unit: "times", rule: Rule::Same { within: 0.05 }, source: Source::Log }
}

/// Figure 5.8.
pub const RATES: Figure = Figure {
    id: "fig-5.8",
    title: "Completion time of 1000 requests to VGG16 and 250 to KNN, by rate",
    source: "thesis, section 5.7.2",
    place: Place::Both { simulator: rates, lab: rates },
    remarks: &[REMARK],
    claims: &[
        equal("vgg-wrr-low", "VGG16 at 40/s: WRR takes as long as server-only"),
        equal("vgg-prt-low", "VGG16 at 40/s: PRT takes as long as server-only"),
        effect("vgg-lur-low", "VGG16 at 40/s: least-utilised takes longer than server-only", 1.05),
        effect("vgg-lur-high", "VGG16 at 65/s: least-utilised against server-only", 0.965),
        effect("vgg-wrr-high", "VGG16 at 65/s: WRR, the shortest, against server-only", 0.897),
        effect("knn-lur-high", "KNN at 18/s: least-utilised against server-only", 0.948),
        effect("knn-prt-high", "KNN at 20/s: PRT against server-only", 0.842),
        effect("knn-wrr-high", "KNN at 20/s: WRR, the shortest, against server-only", 0.806),
    ],
};

/// Figure 5.9.
pub const BATCHES: Figure = Figure {
    id: "fig-5.9",
    title: "Completion time by the size of the batch",
    source: "thesis, section 5.7.2",
    place: Place::Both { simulator: batches, lab: batches },
    remarks: &[REMARK, "the published largest batches are the runs of figure 5.8"],
    claims: &[
        effect(
            "vgg-60-lur",
            "VGG16 at 60/s, 1000 requests: least-utilised takes longer than server-only",
            1.03,
        ),
        effect(
            "vgg-70-lur",
            "VGG16 at 70/s, 1000 requests: least-utilised is slightly faster than server-only",
            0.976,
        ),
        effect("knn-16-lur", "KNN at 16/s, 250 requests: least-utilised takes longer than server-only", 1.05),
        effect(
            "knn-20-lur-small",
            "KNN at 20/s, 100 requests: least-utilised takes longer than server-only",
            1.16,
        ),
        effect(
            "knn-20-lur",
            "KNN at 20/s, 250 requests: least-utilised against server-only (13.2 % less)",
            0.866,
        ),
        effect("knn-20-prt", "KNN at 20/s, 250 requests: PRT against server-only", 0.842),
        effect("knn-20-wrr", "KNN at 20/s, 250 requests: WRR, the best, against server-only", 0.806),
    ],
};

/// Arrival times of a batch's requests, in seconds: the same for every policy.
fn times(bench: &Bench, rate_per_s: f64, requests: u32, seed: u64) -> Vec<f64> {
    let mut random = Stream::new(seed, Part::Arrivals, u64::from(requests));
    let mut at = 0.0;
    let gap = |random: &mut Stream| match bench.coming {
        Coming::Poisson => random.exponential() / rate_per_s,
        Coming::NearConstant => 1.0 / rate_per_s,
    };
    (0..requests)
        .map(|_| {
            at += gap(&mut random);
            at
        })
        .collect()
}

/// A batch.
struct Batch {
    app: &'static App,
    policy: &'static str,
    rate_per_s: f64,
    requests: u32,
}

impl Batch {
    fn last_s(&self, bench: &Bench, seed: u64) -> f64 {
        times(bench, self.rate_per_s, self.requests, seed).last().copied().unwrap_or(0.0)
    }

    fn scenario(&self, bench: &Bench, seed: u64) -> Result<Arc<Scenario>, ExperimentError> {
        let times = times(bench, self.rate_per_s, self.requests, seed);
        let last = times.last().copied().unwrap_or(0.0);
        let mut s = self.app.setup(bench, 1, self.policy, self.rate_per_s);
        s.arrivals = ArrivalsSection::Trace { file: "times.csv" };
        // Clients stop with the last request, so that the run ends with the last answer.
        s.duration_s = last + 1e-6;
        s.patience_s = PATIENCE_S;
        let mut text = String::from("time_s\n");
        times.iter().for_each(|t| {
            let _ = writeln!(text, "{t}");
        });
        s.files.insert("times.csv".into(), text);
        s.scenario(bench)
    }
}

fn run(
    bench: &Bench,
    what: &str,
    batches: &[Batch],
    x: impl Fn(&Batch) -> f64,
) -> Result<Vec<Curve>, Failed> {
    let runs = bench.run_each(what, batches, |b, seed| Ok(b.scenario(bench, seed)?))?;
    let mut curves: Vec<Curve> =
        POLICIES.iter().map(|p| Curve { name: (*p).to_string(), points: Vec::new() }).collect();
    for (batch, seeds) in batches.iter().zip(runs) {
        // Lost ones never complete.
        let seconds = |(r, seed): (&Ran, u64)| match r.lost {
            0 => r.took_s,
            _ => batch.last_s(bench, seed) + PATIENCE_S,
        };
        let samples = seeds.iter().zip(bench.seeds()).map(seconds).collect();
        if let Some(curve) = curves.iter_mut().find(|c| c.name == batch.policy) {
            curve.points.push(Point { samples, ..Point::of(x(batch), &seeds, |r| r.took_s) });
        }
    }
    Ok(curves)
}

fn all(app: &'static App, points: &[(f64, u32)]) -> Vec<Batch> {
    let of = |policy: &'static str| {
        points.iter().map(move |(rate_per_s, requests)| Batch {
            app,
            policy,
            rate_per_s: *rate_per_s,
            requests: *requests,
        })
    };
    POLICIES.into_iter().flat_map(of).collect()
}

fn rates(bench: &Bench) -> Result<Found, Failed> {
    let mut found = Found::default();
    for (app, requests, full, quick, paper) in [
        (
            &apps::VGG,
            1000,
            [40.0, 45.0, 50.0, 55.0, 60.0, 65.0, 70.0].as_slice(),
            [40.0, 65.0].as_slice(),
            "5.8-vgg16",
        ),
        (&apps::KNN, 250, &[8.0, 10.0, 12.0, 14.0, 16.0, 18.0, 20.0], &[18.0, 20.0], "5.8-knn"),
    ] {
        let points: Vec<(f64, u32)> = bench.choose(full, quick).iter().map(|r| (*r, requests)).collect();
        let ours = run(bench, app.name, &all(app, &points), |b| b.rate_per_s)?;
        let title = format!("{requests} requests to {}", app.name);
        let chart = Chart { title, x: RATE, y: TIME, ours, paper: papers::curves(paper) };
        let over = |name: &str, x: f64| chart.over((name, x), ("server-only", x));
        if app.name == "KNN" {
            found.claim("knn-lur-high", over("least-utilised", 18.0));
            found.claim("knn-prt-high", over("prt", 20.0));
            found.claim("knn-wrr-high", over("wrr", 20.0));
        } else {
            found.claim("vgg-wrr-low", over("wrr", 40.0));
            found.claim("vgg-prt-low", over("prt", 40.0));
            found.claim("vgg-lur-low", over("least-utilised", 40.0));
            found.claim("vgg-lur-high", over("least-utilised", 65.0));
            found.claim("vgg-wrr-high", over("wrr", 65.0));
        }
        found.charts.push(chart);
    }
    Ok(found)
}

fn batches(bench: &Bench) -> Result<Found, Failed> {
    let mut found = Found::default();
    let sizes = |full: &[u32], quick: &[u32], rate: f64| -> Vec<(f64, u32)> {
        bench.choose(full, quick).iter().map(|n| (rate, *n)).collect()
    };
    for (app, rate, paper) in [
        (&apps::VGG, 60.0, "5.9-vgg16-60"),
        (&apps::VGG, 70.0, "5.9-vgg16-70"),
        (&apps::KNN, 16.0, "5.9-knn-16"),
        (&apps::KNN, 20.0, "5.9-knn-20"),
    ] {
        let points = match app.name {
            "KNN" => sizes(&[100, 125, 150, 175, 200, 225, 250], &[100, 250], rate),
            _ => sizes(&[400, 500, 600, 700, 800, 900, 1000], &[1000], rate),
        };
        let title = format!("{} at {rate} requests/s", app.name);
        let ours = run(bench, &title, &all(app, &points), |b| f64::from(b.requests))?;
        let chart = Chart { title, x: BATCH, y: TIME, ours, paper: papers::curves(paper) };
        let over = |name: &str, x: f64| chart.over((name, x), ("server-only", x));
        match paper {
            "5.9-vgg16-60" => found.claim("vgg-60-lur", over("least-utilised", 1000.0)),
            "5.9-vgg16-70" => found.claim("vgg-70-lur", over("least-utilised", 1000.0)),
            "5.9-knn-16" => found.claim("knn-16-lur", over("least-utilised", 250.0)),
            _ => {
                found.claim("knn-20-lur-small", over("least-utilised", 100.0));
                found.claim("knn-20-lur", over("least-utilised", 250.0));
                found.claim("knn-20-prt", over("prt", 250.0));
                found.claim("knn-20-wrr", over("wrr", 250.0));
            }
        }
        found.charts.push(chart);
    }
    Ok(found)
}
