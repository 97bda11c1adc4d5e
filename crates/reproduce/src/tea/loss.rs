//! Packets that lost frames cost.

use super::adapter::{CHECK, MODEL};
use super::{INLINE, LAYOUTS, RING};
use crate::bench::Bench;
use crate::error::Failed;
use crate::figure::{Chart, Claim, Curve, Figure, Found, Place, Point, Quantity, Rule, Source};
use pointsman_remote::Scratchpads;
use pointsman_testbed::rnic::Rnic;
use pointsman_testbed::tables::timed::{Shape, Timed};
use pointsman_wire::Random;

/// Frames lost of a million, and packets without `--quick`.
const LOSSES: [(u64, u64); 5] =
    [(0, 20_000), (100, 80_000), (1000, 40_000), (3000, 20_000), (10_000, 20_000)];
/// Of packets, with their check sequence.
const BYTES: usize = 64;
/// Mean time between packets, and between those that show whether a queue pair works.
const GAP_NS: u64 = 1000;
const APART_NS: u64 = 10_000;
/// Longer than the time after which an answer is too late.
const CALM_NS: u64 = 1_000_000;
/// Packets afterwards, of which the first ones repair what the last loss left.
const REPAIR: u64 = 100;
const AFTER: u64 = 400;

const LOSS: Quantity = Quantity { name: "loss", unit: "percent", label: "frames lost, %", log: true };
const COST: Quantity = Quantity {
    name: "cost",
    unit: "packets_per_frame",
    label: "packets lost for each lost frame",
    log: false,
};
const LOST: Quantity = Quantity { name: "lost", unit: "percent", label: "packets lost, %", log: true };

pub const FIGURE: Figure = Figure {
    id: "tea-loss",
    title: "Packets that lost frames cost",
    source: "ours",
    place: Place::Simulator(loss),
    remarks: &[
        "the NAT without a cache, one server, four queue pairs, packets of 64 bytes, one million a second at random times; frames between switch and server are lost at random, in both directions. The paper's links \
         lose none, and a lost frame stops a queue pair. With more look-ups in flight a lost frame costs more (docs/tea.md)",
        MODEL,
        "an answer is too late after 200 us; a packet waits up to three times 2 us for a credit",
        "afterwards no frames are lost. Packets come one at a time; the first 100 are not counted. A queue pair is stuck if it answers no READ for the next 400",
    ],
    claims: &[
        at_most("ring-0.01", "`ring`, 0.01 % of frames lost: packets lost for each frame", 3.0, "packets"),
        at_most("ring-0.1", "the same with 0.1 %", 3.0, "packets"),
        at_most("ring-0.3", "the same with 0.3 %", 3.0, "packets"),
        at_most("ring-1", "the same with 1 %", 3.0, "packets"),
        at_most(
            "inline-0.01",
            "`inline`, 0.01 % of frames lost: packets lost for each frame",
            3.0,
            "packets",
        ),
        at_most("inline-0.1", "the same with 0.1 %", 3.0, "packets"),
        at_most("inline-0.3", "the same with 0.3 %", 3.0, "packets"),
        at_most("inline-1", "the same with 1 %", 3.0, "packets"),
        at_most("none", "no frames lost: packets lost with both layouts", 0.0, ""),
        at_most("stuck", "queue pairs stuck afterwards, of all runs of a seed", 0.0, ""),
        at_most("after", "packets lost afterwards, of all runs of a seed", 0.0, ""),
        at_most("wrong", "packets with a wrong entry or without one, of all runs of a seed", 0.0, ""),
    ],
};

const fn at_most(id: &'static str, text: &'static str, paper: f64, unit: &'static str) -> Claim {
    Claim { id, text, paper, unit, rule: Rule::AtMost, source: Source::Ours }
}

/// Claims by layout, for each loss but none.
const IDS: [[&str; 4]; 2] = [
    ["ring-0.01", "ring-0.1", "ring-0.3", "ring-1"],
    ["inline-0.01", "inline-0.1", "inline-0.3", "inline-1"],
];

/// With one seed.
#[derive(Clone, Copy, Debug)]
struct Measured {
    /// Packets while frames were lost, those of them that are lost, and the frames.
    packets: u64,
    lost: u64,
    frames: u64,
    /// Queue pairs that do not work afterwards, and packets lost then.
    stuck: u64,
    after: u64,
    wrong: u64,
}

fn measure(
    bench: &Bench,
    scratchpads: Scratchpads,
    (loss, packets): (u64, u64),
    seed: u64,
) -> Result<Measured, Failed> {
    let entries = bench.choose(50_000, 5_000);
    let packets = bench.choose(packets, packets / 2);
    let shape = Shape { entries, waits: true, scratchpads, seed, ..Shape::USUAL };
    let mut bed = Timed::new(shape, Rnic::default())?;
    let mut random = Random::new(seed);
    // Packets with at most so many nanoseconds in front of each, and how many are lost.
    let mut run = |bed: &mut Timed, count: u64, (least, most): (u64, u64)| {
        let (first, mut at) = (bed.passed().len(), bed.now());
        for _ in 0..count {
            at += least + random.below(most - least + 1);
            bed.look_up(at, random.below(entries.into()) as u32, BYTES - CHECK);
        }
        bed.run_until(at + CALM_NS);
        bed.passed()[first..].iter().filter(|p| p.found.is_none()).count() as u64
    };
    bed.lose(loss);
    let lost = run(&mut bed, packets, (0, 2 * GAP_NS));
    bed.lose(0);
    let frames = bed.lost_frames();
    run(&mut bed, REPAIR, (APART_NS, APART_NS));
    let before = bed.answered();
    let after = run(&mut bed, AFTER, (APART_NS, APART_NS));
    let stuck = bed.answered().iter().zip(before).filter(|(after, before)| **after == *before).count() as u64;
    Ok(Measured { packets, lost, frames, stuck, after, wrong: bed.wrong() })
}

/// Places in [`LAYOUTS`], with each place in [`LOSSES`].
fn cases() -> Vec<(usize, usize)> {
    [RING, INLINE].into_iter().flat_map(|which| (0..LOSSES.len()).map(move |n| (which, n))).collect()
}

fn loss(bench: &Bench) -> Result<Found, Failed> {
    let run = |(which, n): &(usize, usize), seed| measure(bench, LAYOUTS[*which].0, LOSSES[*n], seed);
    Ok(judged(&bench.each("look-ups with lost frames", &cases(), run)?))
}

/// The claims and charts, of the runs of each of [`cases`].
fn judged(all: &[Vec<Measured>]) -> Found {
    let of = |which: usize, n: usize, value: &dyn Fn(&Measured) -> f64| -> Vec<f64> {
        all[which * LOSSES.len() + n].iter().map(value).collect()
    };
    let cost = |m: &Measured| m.lost as f64 / m.frames as f64;
    let mut found = Found::default();
    for (which, ids) in IDS.iter().enumerate() {
        for (n, id) in ids.iter().enumerate() {
            found.claim(id, of(which, n + 1, &cost));
        }
    }
    let none = of(RING, 0, &|m| m.lost as f64).into_iter().zip(of(INLINE, 0, &|m| m.lost as f64));
    found.claim("none", none.map(|(a, b)| a + b).collect::<Vec<f64>>());
    let sum = |value: &dyn Fn(&Measured) -> u64| -> Vec<f64> {
        let seeds = 0..all.first().map_or(0, Vec::len);
        seeds.map(|seed| all.iter().map(|runs| value(&runs[seed])).sum::<u64>() as f64).collect()
    };
    found.claim("stuck", sum(&|m| m.stuck));
    found.claim("after", sum(&|m| m.after));
    found.claim("wrong", sum(&|m| m.wrong));
    let curves = |value: &dyn Fn(&Measured) -> f64| -> Vec<Curve> {
        let curve = |(which, (_, name)): (usize, &(Scratchpads, &str))| {
            let point = |n: usize| Point::new(LOSSES[n].0 as f64 / 1e4, of(which, n, value));
            Curve { name: (*name).into(), points: (1..LOSSES.len()).map(point).collect() }
        };
        LAYOUTS.iter().enumerate().map(curve).collect()
    };
    let chart = |title: &str, y, ours| Chart { title: title.into(), x: LOSS, y, ours, paper: Vec::new() };
    found.charts.push(chart("Packets for each lost frame", COST, curves(&cost)));
    let share = |m: &Measured| 100.0 * m.lost as f64 / m.packets as f64;
    found.charts.push(chart("Packets lost", LOST, curves(&share)));
    let frames = sum(&|m| m.frames).iter().sum::<f64>();
    found.notes.push(format!("{frames:.0} frames were lost in all runs"));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Coming, Where};
    use crate::verdict::Verdict;

    #[test]
    fn lost_frames_cost_packets_and_no_queue_pair() {
        let bench = Bench::new(1, 1, true, Coming::Poisson, Where::Simulator, 1).expect("a bench");
        let of = |(which, n): (usize, usize)| {
            let run = measure(&bench, LAYOUTS[which].0, LOSSES[n], 1).expect("look-ups");
            println!("{} {:?}: {run:?}", LAYOUTS[which].1, LOSSES[n]);
            assert_eq!((run.frames > 0, run.lost > 0), (n > 0, n > 0));
            vec![run; 5]
        };
        let all: Vec<Vec<Measured>> = cases().into_iter().map(of).collect();
        let verdicts = |all: &[Vec<Measured>]| -> Vec<Verdict> {
            let judged = FIGURE.judge(&judged(all)).expect("a value for each claim");
            judged.iter().map(|j| j.verdict).collect()
        };
        assert_eq!(verdicts(&all), [Verdict::Holds; 12]);
        // The fault: a queue pair stops with the first lost frame, as in the paper.
        let stopped =
            |m: &Measured| Measured { lost: m.packets / 4, stuck: 1, after: AFTER / 4, wrong: 1, ..*m };
        let faulty: Vec<Vec<Measured>> = all.iter().map(|runs| runs.iter().map(stopped).collect()).collect();
        assert_eq!(verdicts(&faulty), [Verdict::Fails; 12]);
    }
}
