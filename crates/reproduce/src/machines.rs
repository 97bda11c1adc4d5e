//! The paper on probes in the lab: four machines whose answers are content, more and more clients, and a balancer by probes or by PROMETHEE.

mod load;

use super::bench::Bench;
use super::figure::{Chart, Claim, Curve, Figure, Found, Place, Point, Quantity, Rule, Run, Source};
use super::verdict::Evidence;
use crate::error::Failed;
use load::{By, MACHINES, Seen, measure};
use std::sync::Arc;

/// In the paper's order.
pub const FIGURES: [Figure; 6] = [
    figure(
        "probes-fig-5.2",
        "Throughput of servers by the frequency of probes",
        throughputs,
        &[lower(
            "each",
            "each machine's throughput is lower with probes every 0.5 s than every 5 s (a number for it): the largest ratio",
        )],
    ),
    figure(
        "probes-fig-5.3",
        "Mean throughput by the frequency of probes",
        throughput,
        &[
            lower("less", "throughput is lower with probes every 0.5 s than every 5 s (a number for it)"),
            same(
                "constant",
                "throughput is about the same with all periods of 4 s and more: largest over smallest",
                0.1,
            ),
        ],
    ),
    figure(
        "probes-fig-5.4",
        "Makespan by the frequency of probes",
        makespan,
        &[lower(
            "longest",
            "the longest response is shorter with probes every 10 s than every 0.5 s (a number for it)",
        )],
    ),
    figure(
        "probes-fig-5.5",
        "Response time by the number of clients",
        responses,
        &[same("mean", "the mean hardly depends on the number of clients: 500 against 100", 0.2)],
    ),
    figure(
        "probes-fig-5.6",
        "Connections of servers by the number of clients",
        connections,
        &[same(
            "even",
            "connections are even over the machines: most over fewest, the largest of all numbers of clients",
            0.2,
        )],
    ),
    figure(
        "probes-fig-6.1",
        "Response time by the number of connections, PROMETHEE",
        promethee,
        &[Claim {
            id: "higher",
            text: "the mean response is slightly longer by PROMETHEE than by probes, over all numbers of clients",
            paper: 1.0,
            unit: "times",
            rule: Rule::AtLeast,
            source: Source::Text,
        }],
    ),
];

const fn figure(id: &'static str, title: &'static str, run: Run, claims: &'static [Claim]) -> Figure {
    let source = "paper on probes, sections 5.4 and 6.3";
    Figure { id, title, source, place: Place::Lab(run), remarks: REMARKS, claims }
}

const REMARKS: &[&str] = &[
    "an emulation: the four machines are namespaces with a TCP server, on one computer as the paper's virtual machines were; the switch is ours",
    "clients, requests, probes and PROMETHEE's rounds are ten times as fast as in the paper: a client every 0.05 s, each with 30 requests, 0.1 s apart, and periods of probes of 0.05 to 1 s; the axis has \
     the paper's periods. Response times and throughput are as measured",
    "answers have 50,000 bytes, not 5 MB: a tenth for the speed, and another tenth because 60 clients would need 2.4 Gbit/s, so that throughput is a tenth of the paper's",
    "probes say what is free of the thread's time on a processor, of the computer's memory, and of a link of 100 Mbit/s, the paper's gigabit by the same factor",
    "the paper has no numbers for these figures apart from 632 kbit/s at 5 s, which are not those of answers of 5 MB; a claim is what its text says",
];

/// By a tenth or more: the text has no number.
const fn lower(id: &'static str, text: &'static str) -> Claim {
    Claim { id, text, paper: 0.9, unit: "times", rule: Rule::AtMost, source: Source::Ours }
}

const fn same(id: &'static str, text: &'static str, within: f64) -> Claim {
    Claim { id, text, paper: 1.0, unit: "times", rule: Rule::Same { within }, source: Source::Text }
}

/// The paper's period of probes for the other experiments, in seconds.
const PERIOD_S: f64 = 5.0;

const PERIOD: Quantity = Quantity { name: "period", unit: "s", label: "period of probes, s", log: false };
const CLIENTS: Quantity = Quantity { name: "clients", unit: "", label: "clients", log: false };
const THROUGHPUT: Quantity =
    Quantity { name: "throughput", unit: "kbit_per_s", label: "throughput, kbit/s", log: false };
const RESPONSE: Quantity = Quantity { name: "response", unit: "ms", label: "response time, ms", log: false };
const SHARE: Quantity = Quantity { name: "connections", unit: "", label: "connections", log: false };

/// Places of an axis, with what was seen there with each seed.
struct Axis {
    at: Vec<f64>,
    seen: Vec<Vec<Seen>>,
}

impl Axis {
    fn curve(&self, name: &str, value: impl Fn(&Seen) -> f64) -> Curve {
        Curve::of(name, &self.at, &self.seen, value)
    }

    fn evidence(&self, at: f64, value: impl Fn(&Seen) -> f64) -> Evidence {
        self.at
            .iter()
            .zip(&self.seen)
            .find(|(x, _)| **x == at)
            .map_or_else(Evidence::default, |(x, seen)| Point::of(*x, seen, value).evidence())
    }

    /// A value here over the value there.
    fn over(&self, (here, there): (f64, f64), value: impl Fn(&Seen) -> f64) -> Evidence {
        self.evidence(here, &value).over(&self.evidence(there, &value))
    }

    /// For each seed, a number that follows from all places from `from` on, with the worst loss.
    fn across(&self, from: f64, number: impl Fn(&mut dyn Iterator<Item = &Seen>) -> f64) -> Evidence {
        let places: Vec<&Vec<Seen>> =
            self.at.iter().zip(&self.seen).filter(|(x, _)| **x >= from).map(|(_, seen)| seen).collect();
        let seeds = places.iter().map(|seen| seen.len()).min().unwrap_or(0);
        let samples = (0..seeds).map(|seed| number(&mut places.iter().map(|seen| &seen[seed]))).collect();
        let lost = places.iter().flat_map(|seen| seen.iter()).map(|s| s.loss_percent).fold(0.0, f64::max);
        Evidence { samples, loss_percent: Some(lost) }
    }
}

/// Largest over smallest.
fn spread(values: impl Iterator<Item = f64>) -> f64 {
    let (low, high) =
        values.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), v| (low.min(v), high.max(v)));
    high / low
}

fn by_period(bench: &Bench) -> Result<Arc<Axis>, Failed> {
    bench.once("machines by period", || {
        let at: Vec<f64> =
            bench.choose(vec![0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0], vec![0.5, 5.0, 10.0]);
        let runs: Vec<(f64, u32)> = at.iter().map(|period| (*period, 100)).collect();
        let seen = measure(bench, "machines by period of probes", By::Probes, &runs)?;
        Ok(Axis { at, seen })
    })
}

fn by_clients(bench: &Bench, by: By) -> Result<Arc<Axis>, Failed> {
    bench.once(&format!("machines by clients, {by:?}"), || {
        let clients: Vec<u32> = bench.choose(vec![100, 200, 300, 400, 500], vec![100, 500]);
        let runs: Vec<(f64, u32)> = clients.iter().map(|n| (PERIOD_S, *n)).collect();
        let seen = measure(bench, &format!("machines by clients, {by:?}"), by, &runs)?;
        Ok(Axis { at: clients.into_iter().map(f64::from).collect(), seen })
    })
}

fn chart(title: &str, (x, y): (Quantity, Quantity), ours: Vec<Curve>) -> Vec<Chart> {
    vec![Chart { title: title.into(), x, y, ours, paper: vec![] }]
}

/// A curve for each machine.
fn machines(axis: &Axis, value: impl Fn(&Seen, usize) -> f64) -> Vec<Curve> {
    (0..MACHINES).map(|n| axis.curve(&format!("machine {}", n + 1), |seen| value(seen, n))).collect()
}

fn throughputs(bench: &Bench) -> Result<Found, Failed> {
    let axis = by_period(bench)?;
    let mut found = Found::default();
    let ratios: Vec<Evidence> =
        (0..MACHINES).map(|n| axis.over((0.5, PERIOD_S), |seen| seen.kbit_per_s[n])).collect();
    let seeds = ratios[0].samples.len();
    let largest = |seed: usize| ratios.iter().map(|r| r.samples[seed]).fold(0.0, f64::max);
    let samples = (0..seeds).map(largest).collect();
    found.claim("each", Evidence { samples, loss_percent: ratios[0].loss_percent });
    found.charts =
        chart("Throughput of machines", (PERIOD, THROUGHPUT), machines(&axis, |s, n| s.kbit_per_s[n]));
    Ok(found)
}

fn mean_kbit_per_s(seen: &Seen) -> f64 {
    seen.kbit_per_s.iter().sum::<f64>() / MACHINES as f64
}

fn throughput(bench: &Bench) -> Result<Found, Failed> {
    let axis = by_period(bench)?;
    let mut found = Found::default();
    found.claim("less", axis.over((0.5, PERIOD_S), mean_kbit_per_s));
    found.claim("constant", axis.across(4.0, |places| spread(places.map(mean_kbit_per_s))));
    found.charts =
        chart("Mean throughput", (PERIOD, THROUGHPUT), vec![axis.curve("machines", mean_kbit_per_s)]);
    Ok(found)
}

fn makespan(bench: &Bench) -> Result<Found, Failed> {
    let axis = by_period(bench)?;
    let mut found = Found::default();
    found.claim("longest", axis.over((10.0, 0.5), |seen| seen.max_ms));
    found.charts = chart("Makespan", (PERIOD, RESPONSE), vec![axis.curve("longest", |seen| seen.max_ms)]);
    Ok(found)
}

fn responses(bench: &Bench) -> Result<Found, Failed> {
    let axis = by_clients(bench, By::Probes)?;
    let mut found = Found::default();
    found.claim("mean", axis.over((500.0, 100.0), |seen| seen.mean_ms));
    let curves = vec![
        axis.curve("mean", |seen| seen.mean_ms),
        axis.curve("shortest", |seen| seen.min_ms),
        axis.curve("longest", |seen| seen.max_ms),
    ];
    found.charts = chart("Response time", (CLIENTS, RESPONSE), curves);
    Ok(found)
}

fn connections(bench: &Bench) -> Result<Found, Failed> {
    let axis = by_clients(bench, By::Probes)?;
    let mut found = Found::default();
    let uneven = |seen: &Seen| spread(seen.connections.iter().copied());
    found.claim("even", axis.across(0.0, |places| places.map(uneven).fold(0.0, f64::max)));
    found.charts = chart("Connections", (CLIENTS, SHARE), machines(&axis, |seen, n| seen.connections[n]));
    Ok(found)
}

fn promethee(bench: &Bench) -> Result<Found, Failed> {
    let (probes, ranks) = (by_clients(bench, By::Probes)?, by_clients(bench, By::Promethee)?);
    let mut found = Found::default();
    let mean = |axis: &Axis| axis.across(0.0, |places| places.map(|seen| seen.mean_ms).sum());
    found.claim("higher", mean(&ranks).over(&mean(&probes)));
    let curve = |axis: &Axis, name| axis.curve(name, |seen| seen.mean_ms);
    let curves = vec![curve(&ranks, "PROMETHEE"), curve(&probes, "probes")];
    found.charts = chart("Mean response time", (CLIENTS, RESPONSE), curves);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(kbit_per_s: f64, mean_ms: f64, loss_percent: f64) -> Seen {
        Seen {
            mean_ms,
            min_ms: 1.0,
            max_ms: 10.0 * mean_ms,
            kbit_per_s: [kbit_per_s; MACHINES],
            connections: [25.0, 25.0, 20.0, 30.0],
            loss_percent,
        }
    }

    #[test]
    fn places_are_compared_seed_by_seed() {
        let axis = Axis {
            at: vec![0.5, 4.0, 5.0],
            seen: vec![
                vec![seen(50.0, 2.0, 0.0), seen(60.0, 2.0, 0.0)],
                vec![seen(90.0, 1.0, 2.0), seen(120.0, 1.0, 0.0)],
                vec![seen(100.0, 1.0, 0.0), seen(100.0, 1.0, 0.0)],
            ],
        };
        assert_eq!(axis.over((0.5, 5.0), mean_kbit_per_s).samples, [0.5, 0.6]);
        let constant = axis.across(4.0, |places| spread(places.map(mean_kbit_per_s)));
        assert_eq!((constant.samples, constant.loss_percent), (vec![100.0 / 90.0, 1.2], Some(2.0)));
        assert_eq!(spread([25.0, 20.0, 30.0].into_iter()), 1.5);
        assert!(axis.over((1.0, 5.0), mean_kbit_per_s).samples.is_empty(), "nothing was measured at 1 s");
    }
}
