//! Who survives: a link of a spine is cut and restored, or flaps.

use super::place::{Event, Place as Net, Sizes, lasts_ms};
use super::slowdown::flows;
use super::{
    FCT, NAMES, NETWORK, OURS, SLOWDOWN, TUNED, below, chart, curves, fabric, goal, least, mean_fct, number,
    over, tuned,
};
use crate::bench::Bench;
use crate::error::Failed;
use crate::fabric::run::{self, Class, Runs};
use crate::figure::{Claim, Curve, Evidence, Figure, Found, Point, Quantity, Rule, Source, TIME_OF_RUN};
use serde_json::Value;

/// A bound in milliseconds.
const fn within(id: &'static str, text: &'static str, ms: f64) -> Claim {
    Claim { id, text, paper: ms, unit: "ms", rule: Rule::AtMost, source: Source::Ours }
}

/// All flows have to finish.
const fn finish(id: &'static str, text: &'static str) -> Claim {
    Claim { id, text, paper: 0.0, unit: "%", rule: Rule::AtMost, source: Source::Ours }
}

pub const FAILURE: Figure = Figure {
    id: "fabric-failure",
    title: "One link of a spine: cut and restored, cut all the time, flapping",
    source: super::SOURCE,
    place: fabric(failure),
    remarks: &[
        NETWORK,
        TUNED,
        "web search at 60 % load. The switches at both ends see at once that the carrier is lost; the controller hears of it 1.2 ms later, and its writes \
         arrive 0.2 ms after that",
        "without a controller: the link is cut for good at 30 %, no controller hears of it, and events of switches reach it 0.2 s later",
        "cut: from 30 to 70 % of the time in which flows start. Flapping: ten times down and up between these",
        "a packet for the dead port is one that a switch sends into the cut link; those that a spine has no way for are not, and are lost until the \
         controller has told the leaves. Lost packets are those of hosts that never arrive, full queues included",
    ],
    claims: &[
        within("dead-ecmp", "ECMP: no packet goes to the dead port after", 1.0),
        within("dead-letflow", "LetFlow: no packet goes to the dead port after", 1.0),
        within("dead-spray", "spraying: no packet goes to the dead port after", 1.0),
        within("dead-hula", "HULA: no packet goes to the dead port after", 1.0),
        within("dead-conga", "CONGA: no packet goes to the dead port after", 1.0),
        within("dead-p4te", "P4TE: no packet goes to the dead port after", 1.0),
        within("dead-ours", "ours: no packet goes to the dead port after", 1.0),
        finish("stopped-ecmp", "ECMP without a controller: flows that do not finish"),
        finish("stopped-letflow", "LetFlow without a controller: flows that do not finish"),
        finish("stopped-spray", "spraying without a controller: flows that do not finish"),
        finish("stopped-hula", "HULA without a controller: flows that do not finish"),
        finish("stopped-conga", "CONGA without a controller: flows that do not finish"),
        finish("stopped-p4te", "P4TE without a controller: flows that do not finish"),
        finish("stopped-ours", "ours without a controller: flows that do not finish"),
        goal(
            "ours-cut-60",
            "a link cut all the time, 60 % load: our mean FCT is at most that of the fastest other scheme",
            Rule::AtMost,
            1.0,
        ),
        goal(
            "ours-cut-90",
            "a link cut all the time, 90 % load: our mean FCT is at most that of the fastest other scheme",
            Rule::AtMost,
            1.0,
        ),
        goal(
            "ours-short-hula",
            "a link cut all the time, 60 % load: our P99 slowdown of short flows is 15 % below HULA's",
            Rule::AtMost,
            0.85,
        ),
        goal(
            "ours-short-conga",
            "a link cut all the time, 60 % load: our P99 slowdown of short flows is 15 % below CONGA's",
            Rule::AtMost,
            0.85,
        ),
        goal(
            "ours-short-hula-90",
            "a link cut all the time, 90 % load: our P99 slowdown of short flows is 15 % below HULA's",
            Rule::AtMost,
            0.85,
        ),
        goal(
            "ours-short-conga-90",
            "a link cut all the time, 90 % load: our P99 slowdown of short flows is 15 % below CONGA's",
            Rule::AtMost,
            0.85,
        ),
    ],
};

const LINK: &str = "leaf1-spine1";
/// Times that a flapping link goes down.
const FLAPS: u32 = 10;

/// The events of a link that goes down so many times between 30 and 70 % of a time, and is up for as long each time.
fn down(times: u32, lasts_ms: f64) -> Vec<Event> {
    let (from, to) = (0.3 * lasts_ms, 0.7 * lasts_ms);
    // The last time up is not waited for.
    let half = (to - from) / f64::from(2 * times - 1);
    let at = |n: u32| (from + half * f64::from(n), n % 2 == 1, LINK);
    (0..2 * times).map(at).collect()
}

/// The share of flows that do not finish in each run, in per cent.
fn unfinished(runs: &[Value]) -> Vec<f64> {
    runs.iter().map(|run| run::unfinished_percent(std::slice::from_ref(run))).collect()
}

/// When the last packet was sent into a dead port, in milliseconds after the cut: the longest of a run.
fn dead_ms(runs: &[Value]) -> Vec<f64> {
    let of = |run: &Value| {
        let cuts = run["fabric"]["timeline"]["cuts"].as_array()?;
        cuts.iter().filter_map(|c| c["until_ms"].as_f64()).reduce(f64::max)
    };
    runs.iter().map(|run| of(run).unwrap_or(f64::NAN)).collect()
}

/// A curve over the time of a run: a value of each interval in each seed, where there is one.
fn over_time(name: &str, runs: &[Value], value: impl Fn(&Value, usize) -> Option<f64>) -> Curve {
    let times = || runs.iter().map(|run| &run["fabric"]["timeline"]);
    let interval = times().next().and_then(|t| t["interval_ms"].as_f64()).unwrap_or(0.0);
    let count = times().next().and_then(|t| t["received"].as_array()).map_or(0, Vec::len);
    let point =
        |i: usize| Point::new((i as f64 + 0.5) * interval, times().filter_map(|t| value(t, i)).collect());
    Curve { name: name.to_string(), points: (0..count).map(point).collect() }
}

fn failure(bench: &Bench) -> Result<Found, Failed> {
    let schemes = tuned(bench)?;
    let count = flows(bench, Sizes::WebSearch);
    let lasts = lasts_ms(Sizes::WebSearch, count, 0.6);
    let place = Net::leaf_spine(Sizes::WebSearch, count);
    let at =
        |net: Net, loads: &[f64]| run::simulate(bench, &net.base(), &schemes, loads, &bench.network_seeds);
    let whole = at(place.clone(), &[0.6])?;
    let (once, often) = (down(1, lasts), down(FLAPS, lasts));
    let cut = at(place.clone().with(once.clone()), &[0.6])?;
    let flapping = at(place.clone().with(often), &[0.6])?;
    // Cut for good, and no controller hears of it.
    let stopped = at(place.clone().with(down(1, lasts)[..1].to_vec()).unheard(), &[0.6])?;
    let always = at(place.with(vec![super::CUT]), &[0.6, 0.9])?;
    let mut found = Found::default();
    times(&mut found, &cut, &once);
    let kinds: Vec<Vec<Runs>> = (0..schemes.len())
        .map(|s| [&whole, &cut, &flapping, &always].map(|runs| runs[s][0].clone()).to_vec())
        .collect();
    for (title, y, of) in tables() {
        let mut ours = curves(&NAMES, &kinds, &[1.0, 2.0, 3.0, 4.0], of);
        // Only a cut while flows start has a last packet into it.
        for curve in &mut ours {
            curve.points.retain(|p| p.samples.iter().all(|value| value.is_finite()));
        }
        found.charts.push(chart(title, KIND, y, ours));
    }
    for (prefix, runs, of) in
        [("dead-", &cut, dead_ms as Number), ("stopped-", &stopped, unfinished as Number)]
    {
        for (name, runs) in NAMES.iter().zip(runs) {
            if let Some(claim) = FAILURE.claims.iter().find(|c| c.id.strip_prefix(prefix) == Some(*name)) {
                // Flows that do not finish are what the claim is about.
                let loss = if prefix == "dead-" {
                    run::paired(&runs[0], &[], Vec::new()).loss_percent
                } else {
                    None
                };
                found.claim(claim.id, Evidence { samples: of(&runs[0]), loss_percent: loss });
            }
        }
    }
    found.claim("ours-cut-60", against_best(&always, 0));
    found.claim("ours-cut-90", against_best(&always, 1));
    let short = |r: &[Value]| run::of_class(r, Class::Short, "slowdown_p99");
    for (id, scheme, load) in [
        ("ours-short-hula", "hula", 0),
        ("ours-short-conga", "conga", 0),
        ("ours-short-hula-90", "hula", 1),
        ("ours-short-conga-90", "conga", 1),
    ] {
        found.claim(id, over(&always[number(OURS)][load], &always[number(scheme)][load], short));
    }
    Ok(found)
}

/// Seed by seed, our mean FCT over that of the other scheme with the least, at a load.
fn against_best(runs: &[Vec<Runs>], load: usize) -> Evidence {
    let ours = &runs[number(OURS)][load];
    let others = NAMES.iter().zip(runs).filter(|(name, _)| **name != OURS).map(|(_, runs)| &runs[load]);
    least(others, mean_fct).map_or_else(Evidence::default, |best| over(ours, best, mean_fct))
}

const KIND: Quantity = Quantity {
    name: "link",
    unit: "",
    label: "1: all links; 2: one cut and restored; 3: flapping; 4: cut all the time",
    log: false,
};
const LOST: Quantity =
    Quantity { name: "lost", unit: "packets", label: "packets that never arrived", log: false };
const DEAD: Quantity = Quantity {
    name: "dead_port",
    unit: "ms",
    label: "last packet to the dead port, ms after the cut",
    log: false,
};
const INTO: Quantity =
    Quantity { name: "into_cut", unit: "packets", label: "packets into the cut link", log: false };
const ARRIVED: Quantity = Quantity {
    name: "received",
    unit: "packets_per_ms",
    label: "packets that hosts receive, per ms",
    log: false,
};

/// A number of each run.
type Number = fn(&[Value]) -> Vec<f64>;

fn tables() -> [(&'static str, Quantity, Number); 4] {
    let short = |r: &[Value]| run::of_class(r, Class::Short, "slowdown_p99");
    [
        ("Mean FCT", FCT, mean_fct),
        ("P99 of short flows", super::P99, short),
        ("Lost packets", LOST, |r| below(r, &["missing"])),
        ("Time until no packet goes to the dead port", DEAD, dead_ms),
    ]
}

/// Charts over the time of a run in which a link is cut and restored.
fn times(found: &mut Found, runs: &[Vec<Runs>], events: &[Event]) {
    let words = |up: bool| if up { "the link is restored" } else { "a link of a spine is cut" };
    found.events = events.iter().map(|(at, up, _)| (*at, words(*up).to_string())).collect();
    let number = |v: &Value, i: usize| v.get(i).and_then(Value::as_f64);
    let per_ms = |t: &Value, i: usize| Some(number(&t["received"], i)? / t["interval_ms"].as_f64()?);
    let all = |of: &dyn Fn(&Value, usize) -> Option<f64>| -> Vec<Curve> {
        NAMES.iter().zip(runs).map(|(name, runs)| over_time(name, &runs[0], of)).collect()
    };
    for (title, y, ours) in [
        (
            "Cut and restored: slowdown of the flows that start",
            SLOWDOWN,
            all(&|t, i| number(&t["slowdown_mean"], i)),
        ),
        ("Cut and restored: packets that arrive", ARRIVED, all(&per_ms)),
        ("Cut and restored: packets into the cut link", INTO, all(&|t, i| number(&t["into_cuts"], i))),
    ] {
        found.charts.push(chart(title, TIME_OF_RUN, y, ours));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn links_go_down_and_up() {
        assert_eq!(down(1, 100.0), [(30.0, false, LINK), (70.0, true, LINK)]);
        let flaps = down(3, 100.0);
        assert_eq!((flaps.len(), flaps[1], flaps[5].1), (6, (38.0, true, LINK), true));
    }

    #[test]
    fn the_last_packet_to_a_dead_port() {
        let cut = |ms: f64| json!({"until_ms": ms});
        let run = |cuts: Vec<Value>| json!({"fabric": {"timeline": {"cuts": cuts, "interval_ms": 2.0, "received": [1, 3], "slowdown_mean": [null, 2.5]}}});
        let runs = [run(vec![cut(0.5), cut(0.75)]), run(vec![])];
        let found = dead_ms(&runs);
        assert!(found[0] == 0.75 && found[1].is_nan(), "{found:?}");
        let curve = over_time("ecmp", &runs, |t, i| t["slowdown_mean"][i].as_f64());
        assert_eq!((curve.points[0].samples.len(), &curve.points[1]), (0, &Point::new(3.0, vec![2.5, 2.5])));
    }
}
