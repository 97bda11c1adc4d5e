//! Figure 3.9 on this machine.

use super::{LATENCY, Lab, MACHINE, RATE, Runs, alone, calm, chart, times};
use crate::bench::Bench;
use crate::error::Failed;
use crate::figure::{Claim, Curve, Figure, Found, Place, Point, Rule, Source};
use crate::tea::adapter::{CHECK, SIZE, SIZES};
use crate::verdict::Evidence;
use pointsman_tea::{App, Options, Outcome, Part, bare_echo, bare_reads};

const ENTRIES: u32 = 50_000;

pub const FIGURE: Figure = Figure {
    id: "tea-fig-3.9",
    title: "Latency and rate of look-ups with one server, by size of packets",
    source: "TEA, thesis section 3.5.1",
    place: Place::Lab(sizes),
    remarks: &[
        MACHINE,
        "the NAT without a cache, one server with four queue pairs, equally popular flows",
        "latency is that of packets that come one at a time, rate that of packets that leave with 16 under way. A packet goes from a host to the switch, the server, the switch, and a host: four hops, and three processes that wake up",
        "a bare READ is one of as many bytes as the packet has, by a host on a cable of its own to the memory server, as in the paper: two hops, and one process that wakes up. The host's way to send and to wait is the same",
        "a bare echo is the same load without look-ups: the switch sends each packet as it is to the server's place, where a second switch returns it, and then to a host. These are the same four hops and three processes, but \
         one frame to the server and one back, where a look-up takes three and two",
        "sequential look-ups are left out: the paper's difference of 0.3 % is less than such runs differ by",
        "with --quick 64 and 1,500 bytes alone",
    ],
    claims: &[
        at_most(
            "more-64",
            "64 bytes: a look-up's median over that of a bare READ, on this machine (the paper: 0.2 us above it)",
            1.8 / 1.6,
        ),
        at_most("more-1500", "1,500 bytes: the same", 2.2 / 2.0),
        at_most(
            "latency-size",
            "a look-up of 1,500 bytes: median over that of 64, on this machine",
            2.2 / 1.8,
        ),
        at_least(
            "rate-size",
            "look-ups a second of 1,500 bytes over those of 64, on this machine",
            7.3 / 10.9,
        ),
        at_least(
            "echo-rate-64",
            "64 bytes: look-ups a second over packets a second of a bare echo, on this machine",
            0.6,
        )
        .from(Source::Ours),
        at_least("echo-rate-1500", "1,500 bytes: the same", 0.6).from(Source::Ours),
        at_most(
            "echo-median-64",
            "64 bytes: a look-up's median over that of a bare echo, on this machine",
            1.5,
        )
        .from(Source::Ours),
        at_most("echo-median-1500", "1,500 bytes: the same", 1.5).from(Source::Ours),
    ],
};

const fn at_least(id: &'static str, text: &'static str, paper: f64) -> Claim {
    Claim { rule: Rule::AtLeast, ..at_most(id, text, paper) }
}

const fn at_most(id: &'static str, text: &'static str, paper: f64) -> Claim {
    Claim { id, text, paper, unit: "times", rule: Rule::AtMost, source: Source::Text }
}

fn sizes(bench: &Bench) -> Result<Found, Failed> {
    let lab = Lab::new(bench)?;
    let sizes: Vec<usize> = if bench.quick { vec![SIZES[0], SIZES[SIZES.len() - 1]] } else { SIZES.into() };
    let whole: Vec<usize> = sizes.iter().map(|size| size - CHECK).collect();
    let options = |size: &usize| {
        let part = bench.choose(3.0, 1.0);
        Options {
            entries: ENTRIES,
            size: Some(*size),
            times: times(1.0, part, part),
            ..lab.options(App::Nat)
        }
    };
    // Medians by size, then by seed.
    let mut bare = vec![Vec::new(); sizes.len()];
    let mut echoes: Vec<Vec<Outcome>> = vec![Vec::new(); sizes.len()];
    let runs = lab.turns_and("look-ups by size", &sizes, options, |seed| {
        let took = bare_reads(&Options { seed, ..options(&SIZES[0]) }, &whole, bench.choose(2000, 1000))?;
        for (all, took) in bare.iter_mut().zip(took) {
            all.push(took[took.len() / 2] as f64 / 1e3);
        }
        for (size, all) in sizes.iter().zip(&mut echoes) {
            let outcome = bare_echo(&Options { seed, ..options(size) })?;
            lab.check(seed, &outcome)?;
            all.push(outcome);
        }
        Ok(())
    })?;
    let echoes = Runs { all: echoes, note: String::new() };
    Ok(judged(&runs, &sizes, (&bare, &echoes)))
}

/// The claims and charts, of the runs of each size; bare READs' medians in microseconds, and bare echoes.
fn judged(runs: &Runs, sizes: &[usize], (bare, echoes): (&[Vec<f64>], &Runs)) -> Found {
    let last = sizes.len() - 1;
    let median = |p: &Part| p.percentile_us(50);
    let latency = |n| runs.of(n, alone, median);
    let rate = |n| runs.of(n, calm, Part::per_s);
    let raw = |n: usize| Evidence::from(bare[n].clone());
    let mut found = Found::default();
    found.claim("more-64", latency(0).over(&raw(0)));
    found.claim("more-1500", latency(last).over(&raw(last)));
    found.claim("latency-size", latency(last).over(&latency(0)));
    found.claim("rate-size", rate(last).over(&rate(0)));
    for (n, ids) in [(0, ["echo-rate-64", "echo-median-64"]), (last, ["echo-rate-1500", "echo-median-1500"])]
    {
        found.claim(ids[0], rate(n).over(&echoes.of(n, calm, Part::per_s)));
        found.claim(ids[1], latency(n).over(&echoes.of(n, alone, median)));
    }
    let curve = |name: &str, point: &dyn Fn(usize, f64) -> Point| {
        let points = sizes.iter().enumerate().map(|(n, size)| point(n, *size as f64)).collect();
        Curve { name: name.into(), points }
    };
    let percentile = |percent| move |n, x| runs.point(x, n, alone, |p: &Part| p.percentile_us(percent));
    let latencies = vec![
        curve("look-up, median", &percentile(50)),
        curve("look-up, 10th percentile", &percentile(10)),
        curve("look-up, 90th percentile", &percentile(90)),
        curve("bare READ, median", &|n, x| Point::new(x, bare[n].clone())),
        curve("bare echo, median", &|n, x| echoes.point(x, n, alone, median)),
    ];
    let rates = vec![
        curve("look-ups", &|n, x| runs.point(x, n, calm, Part::per_s)),
        curve("bare echo", &|n, x| echoes.point(x, n, calm, Part::per_s)),
    ];
    found.charts.push(chart("Latency by size", (SIZE, LATENCY), latencies));
    found.charts.push(chart("Rate by size", (SIZE, RATE), rates));
    found.notes.push(runs.note.clone());
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Verdict;

    #[test]
    fn sizes_are_compared_with_bare_reads_and_echoes_of_their_size() {
        let of = |us: u64, sent: u64| -> Vec<Outcome> {
            let alone = Part { sent: 1, seconds: 1.0, latencies: vec![us * 1000], ..Part::default() };
            let calm = Part { sent, seconds: 1.0, ..Part::default() };
            vec![Outcome { alone, calm, ..Outcome::default() }; 5]
        };
        let runs = |all| Runs { all, note: String::new() };
        let look_ups = runs(vec![of(110, 1000), of(130, 700)]);
        let echoes = runs(vec![of(80, 1500), of(80, 1500)]);
        let verdicts = |bare: [f64; 2]| -> Vec<Verdict> {
            let found = judged(&look_ups, &[64, 1500], (&bare.map(|us| vec![us; 5]), &echoes));
            FIGURE.judge(&found).expect("a value for each claim").iter().map(|j| j.verdict).collect()
        };
        assert_eq!(verdicts([100.0, 120.0])[..4], [Verdict::Holds; 4]);
        assert_eq!(verdicts([50.0, 120.0])[..2], [Verdict::Fails, Verdict::Holds]);
        let echo = [Verdict::Holds, Verdict::Fails, Verdict::Holds, Verdict::Fails];
        assert_eq!(verdicts([100.0, 120.0])[4..], echo);
    }
}
