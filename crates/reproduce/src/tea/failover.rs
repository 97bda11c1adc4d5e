//! Figure 3.11: look-ups while ordinary packets fill the link to a server, and while the cable of the other one is cut.

use super::RATE;
use super::adapter::{MODEL, check};
use crate::bench::Bench;
use crate::error::Failed;
use crate::figure::{Chart, Claim, Curve, Figure, Found, Place, Point, Quantity, Rule, Source};
use pointsman_testbed::rnic::Rnic;
use pointsman_testbed::tables::timed::{Passed, Shape, Timed};
use pointsman_wire::Random;
use std::ops::Range;

const US: u64 = 1000;
/// When the link is full, when the cable is cut, and the end, in nanoseconds.
const FULL: Range<u64> = 500 * US..1500 * US;
const CUT: Range<u64> = 2000 * US..3000 * US;
const END: u64 = 3500 * US;
/// Mean time between packets that are looked up, and their bytes without check sequence.
const GAP_NS: u64 = 200;
const BYTES: usize = 60;
/// Between ordinary packets of 1,500 bytes: 50 Gbit/s.
const ORDINARY_NS: u64 = 240;
const ORDINARY_BYTES: usize = 1496;
/// Shares of a link's rate from which on look-ups avoid it.
const LOAD: (f64, f64) = (0.6, 0.9);
/// A point of the chart.
const BIN: u64 = 50 * US;

const TIME: Quantity = Quantity { name: "at", unit: "us", label: "time, us", log: false };

pub const FIGURE: Figure = Figure {
    id: "tea-fig-3.11",
    title: "Look-ups while the link to a server is full, and while the other server is lost",
    source: "TEA, thesis section 3.5.1",
    place: Place::Apart { simulator: failover, lab: &super::lab::failover::FIGURE },
    remarks: &[
        "the compiled NAT without a cache, two servers that have each other's entries, 5 million look-ups a second of packets of 64 bytes. From 0.5 to 1.5 ms ordinary packets with 50 Gbit/s are for the link \
         to the first server, which has 40; from 2 to 3 ms the cable of the second one is cut. Every packet must leave with its entry, or is lost",
        MODEL,
        "rates of the meters: 60 and 90 % of the link; the switch holds 200 kB for a link. The switch knows at once that a cable is cut: how long a port takes for this is not modelled",
        "an outage is the time from its cause to the arrival of the last packet that is lost by it",
        "the paper's experiment takes two minutes, and its chart has seconds; its text says \"quickly\", \"a slight throughput drop\", and less than a microsecond for the lag of a meter. Our bounds are numbers for this",
    ],
    claims: &[
        at_most("full-outage", "the link to a server is full: outage", 10.0, "us"),
        at_most("full-lost", "the link to a server is full: look-ups lost", 0.1, "%"),
        Claim {
            id: "full-rate",
            text: "the same: look-ups a second, times those before",
            paper: 0.99,
            unit: "times",
            rule: Rule::AtLeast,
            source: Source::Ours,
        },
        Claim {
            id: "full-without",
            text: "the same without meters: look-ups lost (a number for \"dropped\")",
            paper: 1.0,
            unit: "%",
            rule: Rule::AtLeast,
            source: Source::Ours,
        },
        at_most("cut-outage", "a server is lost: outage", 10.0, "us"),
        at_most("back", "afterwards: look-ups lost", 0.0, ""),
    ],
};

const fn at_most(id: &'static str, text: &'static str, paper: f64, unit: &'static str) -> Claim {
    Claim { id, text, paper, unit, rule: Rule::AtMost, source: Source::Ours }
}

/// A run. Times of packets are from its start on.
struct Ran(Vec<Passed>);

impl Ran {
    fn came(&self, span: &Range<u64>) -> impl Iterator<Item = &Passed> {
        self.0.iter().filter(move |p| span.contains(&p.came))
    }

    fn lost(&self, span: &Range<u64>) -> usize {
        self.came(span).filter(|p| p.found.is_none()).count()
    }

    /// Per cent.
    fn share(&self, span: &Range<u64>) -> f64 {
        100.0 * self.lost(span) as f64 / self.came(span).count().max(1) as f64
    }

    /// Microseconds.
    fn outage(&self, span: &Range<u64>) -> f64 {
        let last = self.came(span).filter(|p| p.found.is_none()).map(|p| p.came - span.start).max();
        last.unwrap_or(0) as f64 / 1e3
    }

    /// Millions a second.
    fn rate(&self, span: &Range<u64>) -> f64 {
        let found = self.0.iter().filter(|p| p.found.is_some_and(|at| span.contains(&at)));
        found.count() as f64 * 1e3 / (span.end - span.start) as f64
    }
}

fn play(entries: u32, load: Option<(f64, f64)>, seed: u64) -> Result<Ran, Failed> {
    let rnic = Rnic::default();
    let shape = Shape { entries, servers: 2, load, waits: true, seed, ..Shape::USUAL };
    let mut bed = Timed::new(shape, rnic)?;
    let (start, mut random) = (bed.now(), Random::new(seed));
    let mut at = 0;
    while at < END {
        bed.look_up(start + at, random.below(entries.into()) as u32, BYTES);
        at += 1 + random.below(2 * GAP_NS);
    }
    for at in FULL.step_by(ORDINARY_NS as usize) {
        bed.ordinary(start + at, ORDINARY_BYTES);
    }
    bed.cable(start + CUT.start, 1, false);
    bed.cable(start + CUT.end, 1, true);
    bed.run_until(start + END + 1000 * US);
    check(&bed, &rnic)?;
    let since = |p: &Passed| Passed { came: p.came - start, found: p.found.map(|at| at - start) };
    Ok(Ran(bed.passed().iter().map(since).collect()))
}

fn failover(bench: &Bench) -> Result<Found, Failed> {
    let entries = bench.choose(50_000, 5_000);
    let cases = [Some(LOAD), None];
    let runs = bench
        .each("look-ups, a full link, a server lost", &cases, |load, seed| play(entries, *load, seed))?;
    let of =
        |case: usize, value: &dyn Fn(&Ran) -> f64| -> Vec<f64> { runs[case].iter().map(value).collect() };
    let before = 100 * US..FULL.start;
    let mut found = Found::default();
    found.claim("full-outage", of(0, &|r| r.outage(&FULL)));
    found.claim("full-lost", of(0, &|r| r.share(&FULL)));
    found.claim("full-rate", of(0, &|r| r.rate(&FULL) / r.rate(&before)));
    found.claim("full-without", of(1, &|r| r.share(&FULL)));
    // What is under way when the cable is cut came before.
    let cut = CUT.start - 10 * US..CUT.end;
    found.claim("cut-outage", of(0, &|r| (r.outage(&cut) - 10.0).max(0.0)));
    found.claim("back", of(0, &|r| r.lost(&(CUT.end..END)) as f64));
    let curve = |(case, name): (usize, &&str)| {
        let point = |n: u64| {
            Point::new(((n + 1) * BIN) as f64 / 1e3, of(case, &|r| r.rate(&(n * BIN..(n + 1) * BIN))))
        };
        Curve { name: (*name).into(), points: (0..END / BIN).map(point).collect() }
    };
    let ours = ["with meters", "without meters"].iter().enumerate().map(curve).collect();
    found.charts.push(Chart { title: "Look-ups by time".into(), x: TIME, y: RATE, ours, paper: Vec::new() });
    let lost: f64 = of(0, &|r| r.lost(&cut) as f64).iter().sum::<f64>() / runs[0].len().max(1) as f64;
    found.notes.push(format!("lost with the server: {lost:.1} look-ups (mean)"));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_ends_with_the_last_packet_that_is_lost() {
        let passed = |came, found| Passed { came, found };
        let ran =
            Ran(vec![passed(0, Some(5)), passed(1000, None), passed(3000, None), passed(4000, Some(4500))]);
        assert_eq!((ran.outage(&(500..10_000)), ran.outage(&(3500..10_000))), (2.5, 0.0));
        assert_eq!((ran.share(&(0..10_000)), ran.lost(&(0..2000))), (50.0, 1));
        assert_eq!(ran.rate(&(0..2000)), 0.5);
    }
}
