//! Figure 3.10 on this machine.

use super::{CACHE, ENTRIES, EXPONENT, Lab, MACHINE, RATE, Runs, calm, chart, times, warm_s};
use crate::bench::Bench;
use crate::error::Failed;
use crate::figure::{Claim, Curve, Figure, Found, Place, Point, Quantity, Rule, Source};
use crate::tea::servers::{EVEN, EXPONENTS, SERVER, SERVERS, SHARE, UNEVEN, popular};
use pointsman_tea::{App, Options, Part};

const SKEW: Quantity = Quantity { name: "exponent", unit: "", label: "exponent of Zipf's law", log: false };

pub const FIGURE: Figure = Figure {
    id: "tea-fig-3.10",
    title: "Look-ups by servers, with a cache and without it",
    source: "TEA, thesis section 3.5.1",
    place: Place::Lab(servers),
    remarks: &[
        MACHINE,
        "the NAT with 62,500 flows in the memory of 8 servers, a cache of 64 entries that the controller fills by the data plane's reports, packets of 64 bytes, 16 under way; look-ups are counted by the servers, \
         after six seconds",
        "a software switch sees the thousandth of a million flows twice in an age of its sketch, too seldom for the paper's cache of 1,024 entries: so the share of the cache is compared with that of the most popular entries \
         that fit. The paper's is 49 of 50 %",
        "the rate by servers is not judged: all of them share this machine's processors, and the switch limits the rate. The chart has it",
        "with --quick the exponent 0.99 alone",
    ],
    claims: &[
        Claim {
            id: "cached",
            text: "Zipf 0.99: packets that the cache answers, times the share of the most popular entries that fit",
            paper: 0.98,
            unit: "times",
            rule: Rule::Same { within: 0.05 },
            source: Source::Text,
        },
        EVEN,
        UNEVEN,
    ],
};

/// Look-ups of each server.
fn answered(part: &Part) -> Vec<f64> {
    part.answered.iter().map(|n| n.map_or(f64::NAN, |n| n as f64)).collect()
}

/// Share of the packets that no server was asked for.
fn local(part: &Part) -> f64 {
    1.0 - answered(part).iter().sum::<f64>() / part.sent as f64
}

/// The busiest server's look-ups over the mean.
fn uneven(part: &Part) -> f64 {
    let all = answered(part);
    all.iter().copied().fold(0.0, f64::max) * all.len() as f64 / all.iter().sum::<f64>()
}

fn servers(bench: &Bench) -> Result<Found, Failed> {
    let lab = Lab::new(bench)?;
    let exponents = if bench.quick { &EXPONENTS[2..] } else { &EXPONENTS[..] };
    let variants: Vec<(f64, u32)> = exponents.iter().flat_map(|e| [(*e, 0), (*e, CACHE)]).collect();
    let runs = lab.turns("look-ups by servers", &variants, |(exponent, cache)| Options {
        entries: ENTRIES,
        servers: SERVERS,
        cache: *cache,
        zipf: *exponent,
        times: times(warm_s(*cache), 0.0, bench.choose(5.0, 2.0)),
        ..lab.options(App::Nat)
    })?;
    Ok(judged(&runs, &variants))
}

/// The claims and charts, of runs with these exponents and caches.
fn judged(runs: &Runs, variants: &[(f64, u32)]) -> Found {
    let mut found = Found::default();
    // With Zipf 0.99.
    let [none, cache] = [variants.len() - 2, variants.len() - 1];
    let most = popular(ENTRIES, CACHE, EXPONENT);
    found.claim("cached", runs.of(cache, calm, |p| local(p) / most));
    found.claim("even", runs.of(cache, calm, uneven));
    found.claim("uneven", runs.of(none, calm, uneven));
    let name = |cache: u32| if cache > 0 { "with the cache" } else { "without the cache" };
    let load = |(v, (exponent, cache)): (usize, &(f64, u32))| {
        let share = |n: usize| move |p: &Part| 100.0 * answered(p)[n] / p.sent as f64;
        let point = |n| runs.point((n + 1) as f64, v, calm, share(n));
        Curve { name: format!("{exponent:.2}, {}", name(*cache)), points: (0..SERVERS).map(point).collect() }
    };
    let load = variants.iter().enumerate().map(load).collect();
    let rate = |with: u32| {
        let of = variants.iter().enumerate().filter(|(_, (_, cache))| *cache == with);
        let points: Vec<Point> =
            of.map(|(v, (exponent, _))| runs.point(*exponent, v, calm, Part::per_s)).collect();
        Curve { name: name(with).into(), points }
    };
    found.charts.push(chart("Load by server", (SERVER, SHARE), load));
    found.charts.push(chart("Rate by popularity", (SKEW, RATE), vec![rate(0), rate(CACHE)]));
    found.notes.push(format!("the {CACHE} most popular entries have {:.1} % of the packets", 100.0 * most));
    found.notes.push(runs.note.clone());
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Verdict;
    use pointsman_tea::Outcome;

    #[test]
    fn servers_without_the_cache_are_uneven() {
        let most = popular(ENTRIES, CACHE, EXPONENT);
        let of = |sent: u64, first: u64, others: u64| -> Vec<Outcome> {
            let mut answered = vec![Some(others); SERVERS];
            answered[2] = Some(first);
            let calm = Part { sent, seconds: 1.0, answered, ..Part::default() };
            vec![Outcome { calm, ..Outcome::default() }; 5]
        };
        let asked = 8 * 1000 + 20;
        let cached = of((f64::from(asked as u32) / (1.0 - 0.98 * most)) as u64, 1020, 1000);
        let runs = Runs { all: vec![of(8600, 1600, 1000), cached], note: String::new() };
        let found = judged(&runs, &[(0.99, 0), (0.99, CACHE)]);
        let judged = FIGURE.judge(&found).expect("a value for each claim");
        let verdicts: Vec<Verdict> = judged.iter().map(|j| j.verdict).collect();
        assert_eq!(verdicts, [Verdict::Holds; 3]);
        assert!((judged[2].evidence.samples[0] - 1600.0 * 8.0 / 8600.0).abs() < 1e-9);
    }
}
