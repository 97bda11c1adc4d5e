//! Figure 3.11 on this machine.

use super::{Lab, MACHINE, Runs, broken, calm, chart};
use crate::bench::Bench;
use crate::error::Failed;
use crate::figure::{Claim, Curve, Figure, Found, Place, Quantity, Rule, Source};
use pointsman_tea::{App, Fault, Options, Outcome, Part, Times};
use std::time::Duration;

/// Packets a second.
const PER_S: u32 = 3000;
const ENTRIES: u32 = 20_000;

const TIME: Quantity =
    Quantity { name: "part", unit: "", label: "1: before the fault; 2: with it", log: false };
const RATE: Quantity =
    Quantity { name: "rate", unit: "per_s", label: "look-ups that are answered, a second", log: false };

pub const FIGURE: Figure = Figure {
    id: "tea-fig-3.11",
    title: "Look-ups while the link to a server is full, and while the other server is lost",
    source: "TEA, thesis section 3.5.1",
    place: Place::Lab(failover),
    remarks: &[
        MACHINE,
        "the load balancer without a cache, two servers, 3,000 packets of 64 bytes a second. Either ordinary packets fill the link to the first server, which has 40 Mbit/s, with an eighth more than that; or its cable is cut. \
         After two seconds (four without --quick) the fault is repaired",
        "with two copies each server has the other's entries; with one copy the look-ups of this server have no other place. Where only one copy loses packets, the second one is why none are lost",
        "an outage is the time from the fault to the start of the last packet that is lost before the repair; a machine that does other work loses some at any time",
        "the paper's text says \"quickly\", and within microseconds; the bounds for this machine are ours",
    ],
    claims: &[
        at_most(
            "full-lost",
            "the link to a server is full: look-ups lost with two copies over those with one",
            0.1,
            "times",
        ),
        Claim {
            id: "full-rate",
            text: "the same with two copies: look-ups a second over those before",
            paper: 0.99,
            unit: "times",
            rule: Rule::AtLeast,
            source: Source::Ours,
        },
        at_most(
            "cut-lost",
            "a server is lost: look-ups lost with two copies over those with one",
            0.1,
            "times",
        ),
        at_most("cut-outage", "a server is lost: outage with two copies, on this machine", 1.0, "ms"),
        at_most("cut-return", "the server returns: look-ups lost with two copies, within a second", 0.0, ""),
        at_most("back", "both, after that: look-ups lost with two copies", 0.0, ""),
    ],
};

const fn at_most(id: &'static str, text: &'static str, paper: f64, unit: &'static str) -> Claim {
    Claim { id, text, paper, unit, rule: Rule::AtMost, source: Source::Ours }
}

/// Faults and copies, in the order in which they run.
const VARIANTS: [(Fault, u32, &str); 4] = [
    (Fault::Congestion, 2, "full link, two copies"),
    (Fault::Congestion, 1, "full link, one copy"),
    (Fault::Port, 2, "server lost, two copies"),
    (Fault::Port, 1, "server lost, one copy"),
];
/// Places in [`VARIANTS`].
const FULL: [usize; 2] = [0, 1];
const CUT: [usize; 2] = [2, 3];

fn failover(bench: &Bench) -> Result<Found, Failed> {
    let lab = Lab::new(bench)?;
    let of = Duration::from_secs;
    let part = bench.choose(of(4), of(2));
    let times = Times { warm: of(1), alone: of(0), before: part, broken: part, after: part };
    let runs =
        lab.turns("look-ups, a full link, a server lost", &VARIANTS, |(fault, copies, _)| Options {
            entries: ENTRIES,
            servers: 2,
            copies: *copies,
            fault: *fault,
            rate: Some(PER_S),
            times,
            ..lab.options(App::Lb)
        })?;
    Ok(judged(&runs))
}

/// The claims and the chart, of the runs of [`VARIANTS`].
fn judged(runs: &Runs) -> Found {
    let each = |variant: usize, value: &dyn Fn(&Outcome) -> f64| -> Vec<f64> {
        runs.all[variant].iter().map(value).collect()
    };
    let lost = |variant| each(variant, &|o| o.broken.lost as f64);
    let mut found = Found::default();
    found.claim("full-lost", crate::figure::ratios(&lost(FULL[0]), &lost(FULL[1])));
    found.claim("full-rate", each(FULL[0], &|o| o.broken.per_s() / o.calm.per_s()));
    found.claim("cut-lost", crate::figure::ratios(&lost(CUT[0]), &lost(CUT[1])));
    found.claim("cut-outage", each(CUT[0], &|o| o.in_fault.outage_ns as f64 / 1e6));
    found.claim("cut-return", each(CUT[0], &|o| o.in_fault.by_repair as f64));
    let after = |variant| each(variant, &|o| o.after[1] as f64);
    found.claim("back", after(FULL[0]).iter().zip(after(CUT[0])).map(|(a, b)| a + b).collect::<Vec<f64>>());
    let curve = |(v, (.., name)): (usize, &(Fault, u32, &str))| {
        let points = [(1.0, calm as fn(&Outcome) -> &Part), (2.0, broken)];
        let points = points.map(|(x, part)| runs.point(x, v, part, Part::per_s)).into();
        Curve { name: (*name).into(), points }
    };
    let curves = VARIANTS.iter().enumerate().map(curve).collect();
    found.charts.push(chart("Look-ups before the fault and with it", (TIME, RATE), curves));
    for (v, (.., name)) in VARIANTS.iter().enumerate() {
        let lost = lost(v);
        let mean = lost.iter().sum::<f64>() / lost.len().max(1) as f64;
        found.notes.push(format!("{name}: {mean:.1} look-ups lost (mean)"));
    }
    found.notes.push(runs.note.clone());
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Verdict;
    use pointsman_tea::InFault;

    #[test]
    fn a_copy_saves_look_ups() {
        let of = |lost: u64, outage: u64, after: u64| -> Vec<Outcome> {
            let part = |lost| Part { sent: 6000, lost, seconds: 2.0, ..Part::default() };
            let outcome = Outcome {
                calm: part(0),
                broken: part(lost),
                in_fault: InFault { lost, outage_ns: outage, by_repair: after },
                after: [6000, after],
                ..Outcome::default()
            };
            vec![outcome; 5]
        };
        let all = vec![of(30, 0, 0), of(600, 0, 0), of(3, 500_000, 0), of(3000, 2_000_000_000, 9)];
        let verdicts = |all: Vec<Vec<Outcome>>| -> Vec<Verdict> {
            let found = judged(&Runs { all, note: String::new() });
            FIGURE.judge(&found).expect("a value for each claim").iter().map(|j| j.verdict).collect()
        };
        assert_eq!(verdicts(all.clone()), [Verdict::Holds; 6]);
        let swapped = vec![all[1].clone(), all[0].clone(), all[3].clone(), all[2].clone()];
        assert_eq!(verdicts(swapped), [Verdict::Fails; 6]);
    }
}
