//! Look-ups a second of one server by the number of its queue pairs.

use super::adapter::{CHECK, MODEL, apart, crowded, shape};
use super::{INLINE, LAYOUTS, RATE, RING};
use crate::bench::Bench;
use crate::error::Failed;
use crate::figure::{Chart, Claim, Curve, Figure, Found, Place, Point, Quantity, Rule, Source};
use pointsman_remote::Scratchpads;
use pointsman_testbed::rnic::Rnic;
use pointsman_testbed::tables::timed::{Shape, Timed};
use pointsman_wire::Random;

/// Queue pairs of the server.
const PAIRS: [u32; 5] = [1, 2, 4, 8, 16];
/// Bytes of packets, with their check sequence.
const SIZES: [usize; 2] = [64, 1500];
/// Time between packets: more than any server takes.
const GAP_NS: u64 = 60;
/// Look-ups in flight in a queue pair (`TEA_CREDITS`), by layout.
const CREDITS: [f64; 2] = [8.0, 16.0];
/// What the switch holds for the link here: all look-ups of 16 queue pairs.
const QUEUE_BYTES: u64 = 1_000_000;

const COUNT: Quantity = Quantity { name: "pairs", unit: "", label: "queue pairs", log: true };

pub const FIGURE: Figure = Figure {
    id: "tea-pairs",
    title: "Look-ups a second of one server, by number of queue pairs",
    source: "ours; TEA, thesis sections 3.4.3 and 3.5.1",
    place: Place::Simulator(pairs),
    remarks: &[
        "as `tea-fig-3.9`, with 16.7 million packets a second offered; the switch holds 1 MB for the link",
        MODEL,
        "a queue pair has 8 look-ups in flight with `ring`, which has two READs for each, and 16 with `inline`. The paper's 7.3 million look-ups a second are 16 READs in 2.2 us",
        "computed: the credit's limit, look-ups in flight over the time of one look-up that comes alone, without the last pass through the switch, which begins when the credit is there again; the limit of adapter and link, whichever is less, of the messages and the bytes of a look-up in either direction",
        "the switch itself holds the entries that collide, about two of 1,000; their packets count, so a rate can be a little above a limit",
        "with `inline`, packets of one bucket that meet in its scratchpad are lost, and not counted",
    ],
    claims: &[
        Claim {
            id: "paper",
            text: "`inline`, one queue pair, 64 bytes: look-ups a second",
            paper: 7.3,
            unit: "M/s",
            rule: Rule::AtLeast,
            source: Source::Ours,
        },
        limited("credit-ring", "`ring`, one queue pair, 64 bytes: rate over the credit's limit"),
        limited("credit-inline", "`inline`: the same"),
        Claim {
            id: "one-ring",
            text: "`ring`, one queue pair, 64 bytes: rate over the limit of adapter and link",
            paper: 0.8,
            unit: "times",
            rule: Rule::AtMost,
            source: Source::Ours,
        },
        limited("two-ring", "the same with two queue pairs"),
        limited("most-ring-64", "`ring`, 16 queue pairs, 64 bytes: rate over the limit of adapter and link"),
        limited("most-ring-1500", "`ring`, 16 queue pairs, 1,500 bytes: the same"),
        limited("most-inline-64", "`inline`, 16 queue pairs, 64 bytes: the same"),
        limited("most-inline-1500", "`inline`, 16 queue pairs, 1,500 bytes: the same"),
    ],
};

const fn limited(id: &'static str, text: &'static str) -> Claim {
    Claim { id, text, paper: 1.0, unit: "times", rule: Rule::Same { within: 0.1 }, source: Source::Ours }
}

/// Of a layout and a size of packets, with one seed: millions of look-ups a second.
#[derive(Clone, Copy, Debug)]
struct Measured {
    /// By number of queue pairs.
    rates: [f64; PAIRS.len()],
    /// The credit's limit of one queue pair.
    credit: f64,
    /// The limit of adapter and link.
    most: f64,
}

/// The limit of adapter and link for look-ups of so many messages to the server, and bytes in both directions.
fn limit(rnic: &Rnic, messages: f64, bytes: [f64; 2]) -> f64 {
    let link = rnic.link_bit_s / 8.0 / bytes[0].max(bytes[1]);
    link.min(rnic.messages_s / messages) / 1e6
}

fn measure(bench: &Bench, (which, size): (usize, usize), seed: u64) -> Result<Measured, Failed> {
    let scratchpads = LAYOUTS[which].0;
    let rnic = Rnic { queue_bytes: QUEUE_BYTES, ..Rnic::default() };
    let mut random = Random::new(seed);
    let mut all = Measured { rates: [0.0; PAIRS.len()], credit: 0.0, most: 0.0 };
    for (n, pairs) in PAIRS.into_iter().enumerate() {
        let shape = Shape { scratchpads, ..shape(bench, pairs, seed) };
        let mut bed = Timed::new(shape, rnic)?;
        let mut flow = || random.below(shape.entries.into()) as u32;
        if n == 0 {
            let latencies = apart(&mut bed, 100, size - CHECK, &mut flow)?;
            let last_pass = rnic.switch_ns as f64 / 1e3;
            all.credit = CREDITS[which] / (latencies[latencies.len() / 2] - last_pass);
            // READs, of which each is answered, and a WRITE.
            let answered: u64 = bed.answered().iter().sum();
            let reads = if scratchpads == Scratchpads::Ring { 2 } else { 1 };
            let bytes = bed.wire_bytes().map(|bytes| (bytes * reads) as f64 / answered as f64);
            all.most = limit(&rnic, (reads + 1) as f64, bytes);
        }
        all.rates[n] = crowded(bench, &mut bed, (size - CHECK, GAP_NS), &mut flow)?;
    }
    Ok(all)
}

fn pairs(bench: &Bench) -> Result<Found, Failed> {
    Ok(judged(&bench.each("look-ups by queue pairs", &cases(), |case, seed| measure(bench, *case, seed))?))
}

/// Places in [`LAYOUTS`], with each size.
fn cases() -> Vec<(usize, usize)> {
    [RING, INLINE].into_iter().flat_map(|which| SIZES.map(|size| (which, size))).collect()
}

/// The claims and the chart, of the runs of each of [`cases`].
fn judged(all: &[Vec<Measured>]) -> Found {
    let of = |which: usize, size: usize, value: &dyn Fn(&Measured) -> f64| -> Vec<f64> {
        all[which * SIZES.len() + size].iter().map(value).collect()
    };
    let last = PAIRS.len() - 1;
    let mut found = Found::default();
    found.claim("paper", of(INLINE, 0, &|m| m.rates[0]));
    found.claim("credit-ring", of(RING, 0, &|m| m.rates[0] / m.credit));
    found.claim("credit-inline", of(INLINE, 0, &|m| m.rates[0] / m.credit));
    found.claim("one-ring", of(RING, 0, &|m| m.rates[0] / m.most));
    found.claim("two-ring", of(RING, 0, &|m| m.rates[1] / m.most));
    let most = |which, size| of(which, size, &|m| m.rates[last] / m.most);
    found.claim("most-ring-64", most(RING, 0));
    found.claim("most-ring-1500", most(RING, 1));
    found.claim("most-inline-64", most(INLINE, 0));
    found.claim("most-inline-1500", most(INLINE, 1));
    for (size, bytes) in SIZES.iter().enumerate() {
        let mut ours = Vec::new();
        for (which, (_, name)) in LAYOUTS.iter().enumerate() {
            let curve = |what: &str, value: &dyn Fn(&Measured, usize) -> f64| {
                let point = |(n, pairs): (usize, &u32)| {
                    Point::new((*pairs).into(), of(which, size, &|m| value(m, n)))
                };
                let points = PAIRS.iter().enumerate().map(point).collect();
                Curve { name: format!("{name}{what}"), points }
            };
            ours.push(curve("", &|m, n| m.rates[n]));
            ours.push(curve(", limit", &|m, n| m.most.min(m.credit * f64::from(PAIRS[n]))));
        }
        let title = format!("Rate by queue pairs, packets of {bytes} bytes");
        found.charts.push(Chart { title, x: COUNT, y: RATE, ours, paper: Vec::new() });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Coming, Where};
    use crate::verdict::Verdict;

    #[test]
    fn the_least_limit_counts() {
        let rnic = Rnic { link_bit_s: 8e9, messages_s: 4e6, ..Rnic::default() };
        assert_eq!(limit(&rnic, 2.0, [100.0, 200.0]), 2.0);
        assert_eq!(limit(&rnic, 2.0, [100.0, 1000.0]), 1.0);
        assert_eq!(limit(&rnic, 2.0, [2000.0, 1000.0]), 0.5);
    }

    #[test]
    fn credits_limit_few_queue_pairs_and_the_link_many() {
        let bench = Bench::new(1, 1, true, Coming::Poisson, Where::Simulator, 1).expect("a bench");
        let of = |case| vec![measure(&bench, case, 1).expect("look-ups"); 5];
        let all: Vec<Vec<Measured>> = cases().into_iter().map(of).collect();
        let verdicts = |change: &dyn Fn(&Measured) -> [f64; PAIRS.len()]| -> Vec<Verdict> {
            let changed = |m: &Measured| Measured { rates: change(m), ..*m };
            let all: Vec<_> = all.iter().map(|runs| runs.iter().map(changed).collect()).collect();
            let judged = FIGURE.judge(&judged(&all)).expect("a value for each claim");
            judged.iter().map(|j| j.verdict).collect()
        };
        assert_eq!(verdicts(&|m| m.rates), [Verdict::Holds; 9]);
        // Faults: all queue pairs share a part of the credit of one; there are no credits.
        let shared = verdicts(&|m| [m.rates[0] * 0.6; PAIRS.len()]);
        assert_eq!(
            (shared[3], [&shared[..3], &shared[4..]].concat()),
            (Verdict::Holds, vec![Verdict::Fails; 8])
        );
        assert_eq!(
            verdicts(&|m| [m.most; PAIRS.len()])[1..4],
            [Verdict::Fails, Verdict::Holds, Verdict::Fails]
        );
    }
}
