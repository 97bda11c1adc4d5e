//! Figure 3.12 on this machine.

use super::{CACHE, ENTRIES, LATENCY, Lab, MACHINE, Runs, alone, calm, chart, times, warm_s};
use crate::bench::Bench;
use crate::error::Failed;
use crate::figure::{Claim, Curve, Figure, Found, Place, Quantity, Rule, Source};
use crate::tea::nat::{PERCENT, PERCENTS, TRACE, TRAFFIC};
use pointsman_tea::{App, Held, Options, Part};

/// Packets a second, and their bytes: the mean of the simulator's trace.
const OFFERED: [u32; 3] = [2000, 4000, 8000];
const BYTES: usize = 800;

const INPUT: Quantity =
    Quantity { name: "offered", unit: "per_s", label: "packets offered, a second", log: false };
const OUTPUT: Quantity =
    Quantity { name: "output", unit: "per_s", label: "packets that leave, a second", log: false };

pub const FIGURE: Figure = Figure {
    id: "tea-fig-3.12",
    title: "The NAT with a cache: latency by the popularity of flows, and output by input",
    source: "TEA, thesis section 3.5.2",
    place: Place::Lab(popularity),
    remarks: &[
        MACHINE,
        "the NAT with a cache of 64 of 62,500 flows, one server, packets of 64 bytes that come one at a time; local: the plain program, whose entries are all in the switch",
        "trace: Zipf's law with an exponent of 1.09, as in the simulator",
        "output by input: 2,000 to 8,000 packets of 800 bytes a second (with --quick the last alone), with the trace's flows. The paper's 57.92 Gbit/s are far from what this machine can carry",
    ],
    claims: &[
        at_most("skew", "the more skewed the flows, the lower the median latency: largest ratio of a median to that of the next more even traffic, on this machine (a twentieth more may be chance)", 1.05),
        at_most("trace", "the trace is more skewed than Zipf 0.99: its median latency over that with it, on this machine", 1.0),
        at_most("tail", "no long tail: P99 over the median latency of look-ups with equally popular flows, the largest of all kinds of traffic, on this machine", 1.5)
            .from(Source::Ours),
        Claim {
            id: "output",
            text: "8,000 packets a second of the trace: output over input, on this machine",
            paper: 1.0,
            unit: "times",
            rule: Rule::Same { within: 0.01 },
            source: Source::Text,
        },
    ],
};

const fn at_most(id: &'static str, text: &'static str, paper: f64) -> Claim {
    Claim { id, text, paper, unit: "times", rule: Rule::AtMost, source: Source::Text }
}

/// What runs.
#[derive(Clone, Copy)]
enum Variant {
    Local,
    /// With this exponent.
    Cached(f64),
    /// So many packets a second.
    Offered(u32),
}

fn popularity(bench: &Bench) -> Result<Found, Failed> {
    let lab = Lab::new(bench)?;
    let offered = if bench.quick { &OFFERED[OFFERED.len() - 1..] } else { &OFFERED[..] };
    let mut variants = vec![Variant::Local];
    variants.extend(TRAFFIC.map(|(_, exponent)| Variant::Cached(exponent)));
    variants.extend(offered.iter().map(|rate| Variant::Offered(*rate)));
    let part = bench.choose(4.0, 1.0);
    let runs = lab.turns("NAT by popularity of flows", &variants, |variant| {
        let base = Options { entries: ENTRIES, ..lab.options(App::Nat) };
        let cached = Options { cache: CACHE, times: times(warm_s(CACHE), part, 0.0), ..base };
        match variant {
            Variant::Local => {
                Options { held: Held::Switch, cache: 0, times: times(warm_s(0), part, 0.0), ..cached }
            }
            Variant::Cached(exponent) => Options { zipf: *exponent, ..cached },
            Variant::Offered(rate) => Options {
                zipf: TRACE,
                rate: Some(*rate),
                size: Some(BYTES),
                times: times(warm_s(CACHE), 0.0, part),
                ..cached
            },
        }
    })?;
    Ok(judged(&runs, offered))
}

/// The claims and charts, of the runs with the plain program, each kind of traffic, and each offered rate.
fn judged(runs: &Runs, offered: &[u32]) -> Found {
    let kinds = 1..1 + TRAFFIC.len();
    let rates = kinds.end;
    let median = |n| runs.of(n, alone, |p| p.percentile_us(50)).samples;
    let medians: Vec<Vec<f64>> = kinds.clone().map(median).collect();
    let seeds = medians[0].len();
    let step = |n: usize, seed: usize| medians[n][seed] / medians[n - 1][seed];
    let most = |of: &dyn Fn(usize, usize) -> f64, places: std::ops::Range<usize>| -> Vec<f64> {
        (0..seeds).map(|seed| places.clone().map(|n| of(n, seed)).fold(0.0, f64::max)).collect()
    };
    let slow: Vec<Vec<f64>> =
        kinds.clone().map(|n| runs.of(n, alone, |p| p.percentile_us(99)).samples).collect();
    let trace = TRAFFIC.len() - 1;
    let mut found = Found::default();
    found.claim("skew", most(&step, 1..trace));
    found.claim("trace", most(&step, trace..TRAFFIC.len()));
    found.claim("tail", most(&|n, seed| slow[n][seed] / medians[0][seed], 0..TRAFFIC.len()));
    let last = offered.len() - 1;
    let output = |n: usize| move |p: &Part| p.per_s() / f64::from(offered[n]);
    found.claim("output", runs.of(rates + last, calm, output(last)).samples);
    let names = std::iter::once("local").chain(TRAFFIC.map(|(name, _)| name));
    let curve = |(n, name): (usize, &str)| {
        let point =
            |percent: &usize| runs.point(*percent as f64, n, alone, |p: &Part| p.percentile_us(*percent));
        Curve { name: name.into(), points: PERCENTS.iter().map(point).collect() }
    };
    let curves = names.enumerate().map(curve).collect();
    let point = |(n, rate): (usize, &u32)| runs.point(f64::from(*rate), rates + n, calm, Part::per_s);
    let carried = Curve { name: "trace".into(), points: offered.iter().enumerate().map(point).collect() };
    found.charts.push(chart("Latency of packets, the lowest ones first", (PERCENT, LATENCY), curves));
    found.charts.push(chart("Output by input", (INPUT, OUTPUT), vec![carried]));
    found.notes.push(runs.note.clone());
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Verdict;
    use pointsman_tea::Outcome;

    #[test]
    fn popular_flows_are_faster() {
        let of = |us: [u64; 2], lost| -> Vec<Outcome> {
            let latencies = us.map(|us| us * 1000);
            let latencies = [vec![latencies[0]; 60], vec![latencies[1]; 40]].concat();
            let alone = Part { sent: 100, seconds: 1.0, latencies, ..Part::default() };
            let calm = Part { sent: 8000, lost, seconds: 1.0, ..Part::default() };
            vec![Outcome { alone, calm, ..Outcome::default() }; 5]
        };
        let verdicts = |trace, lost| -> Vec<Verdict> {
            let kinds = [[100, 110], [200, 210], [190, 210], [180, 210], [170, 210], trace];
            let all = kinds.map(|us| of(us, 0)).into_iter().chain([of([0, 0], lost)]).collect();
            let found = judged(&Runs { all, note: String::new() }, &[8000]);
            FIGURE.judge(&found).expect("a value for each claim").iter().map(|j| j.verdict).collect()
        };
        assert_eq!(verdicts([110, 210], 0), [Verdict::Holds; 4]);
        let (holds, fails) = (Verdict::Holds, Verdict::Fails);
        assert_eq!(verdicts([180, 400], 800), [holds, fails, fails, fails]);
    }
}
