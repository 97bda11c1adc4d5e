//! What it costs: events, writes and probes; and what a slow controller does.

use super::place::{LEAVES, Place as Net, Sizes, lasts_ms};
use super::slowdown::flows;
use super::{
    CUT, FCT, LOAD, NAMES, NETWORK, OURS, TUNED, below, chart, curves, fabric, goal, mean_fct, number, over,
    percent, tuned,
};
use crate::bench::Bench;
use crate::error::Failed;
use crate::fabric::run::{self, Runs};
use crate::figure::{Claim, Figure, Found, Quantity, Rule, Source};
use serde_json::Value;

const fn bound(id: &'static str, text: &'static str, unit: &'static str, most: f64) -> Claim {
    Claim { id, text, paper: most, unit, rule: Rule::AtMost, source: Source::Ours }
}

pub const OVERHEAD: Figure = Figure {
    id: "fabric-overhead",
    title: "Work besides forwarding: events, writes, recirculation, probes",
    source: super::SOURCE,
    place: fabric(overhead),
    remarks: &[
        NETWORK,
        TUNED,
        "per second of the time in which flows start, over all eight switches; probes count each time that one leaves a switch",
        "P4TE's section 5.2: a microburst of a port makes one packet for the controller when it begins and one when it ends, \
         'a negligible number'; the bound of 1 % is ours",
        "the HULA paper gives the probes' share of a link as 64 bytes x ToRs / (period x rate)",
    ],
    claims: &[
        bound("events-ecmp", "ECMP needs no events for the controller", "per_s", 0.0),
        bound("events-hula", "HULA needs no events for the controller", "per_s", 0.0),
        bound("events-conga", "CONGA needs no events for the controller", "per_s", 0.0),
        bound("events-ours", "ours needs no events for the controller", "per_s", 0.0),
        bound("writes-p4te", "P4TE at 60 % load: writes to each switch", "per_s", 1000.0),
        bound(
            "share-p4te",
            "P4TE at 60 % load: packets for the controller, of those over uplinks",
            "percent",
            1.0,
        ),
        bound(
            "probes-hula",
            "HULA's probes: their share of the capacity of the links between switches",
            "percent",
            1.28,
        ),
        bound(
            "probes-ours",
            "ours: probes' share of the capacity of the links between switches",
            "percent",
            0.0,
        ),
    ],
};

/// Switches of the usual network, and directions of the links between them.
const SWITCHES: f64 = 8.0;
const DIRECTIONS: f64 = 2.0 * LEAVES * LEAVES;

/// A counter of the control, per second.
fn per_s(runs: &[Value], counter: &str, lasts_ms: f64) -> Vec<f64> {
    below(runs, &["control", counter]).iter().map(|n| n * 1e3 / lasts_ms).collect()
}

fn overhead(bench: &Bench) -> Result<Found, Failed> {
    let loads = [0.3, 0.6, 0.9];
    let schemes = tuned(bench)?;
    let count = flows(bench, Sizes::WebSearch);
    let base = Net::leaf_spine(Sizes::WebSearch, count).base();
    let runs = run::simulate(bench, &base, &schemes, &loads, &bench.network_seeds)?;
    let mut found = Found::default();
    for (counter, label) in [
        ("events", "packets for the controller, per second"),
        ("writes", "updates written by the controller, per second"),
        ("recirculated", "packets that go through a switch again, per second"),
        ("probe_bytes", "bytes of probes, per second"),
    ] {
        let y = Quantity { name: counter, unit: "per_s", label, log: false };
        let mut ours = curves(&NAMES, &runs, &percent(&loads), |_| Vec::new());
        for (curve, runs) in ours.iter_mut().zip(&runs) {
            for ((point, runs), load) in curve.points.iter_mut().zip(runs).zip(loads) {
                point.samples = per_s(runs, counter, lasts(runs, count, load));
            }
        }
        found.charts.push(chart(label, LOAD, y, ours));
    }
    let at_60 = |name: &str| &runs[number(name)][1];
    for (id, name) in
        [("events-ecmp", "ecmp"), ("events-hula", "hula"), ("events-conga", "conga"), ("events-ours", OURS)]
    {
        found.claim(id, below(at_60(name), &["control", "events"]));
    }
    let writes = per_s(at_60("p4te"), "writes", lasts_ms(Sizes::WebSearch, count, 0.6));
    found.claim("writes-p4te", writes.iter().map(|n| n / SWITCHES).collect::<Vec<f64>>());
    let uplinks = at_60("p4te").iter().map(|run| {
        let ports = run["fabric"]["uplinks"].as_array().into_iter().flatten();
        ports.filter_map(|port| port["packets"].as_f64()).sum::<f64>()
    });
    let events = below(at_60("p4te"), &["control", "events"]);
    let share = events.iter().zip(uplinks).map(|(events, packets)| 100.0 * events / packets);
    found.claim("share-p4te", share.collect::<Vec<f64>>());
    for (id, name) in [("probes-hula", "hula"), ("probes-ours", OURS)] {
        let bytes = below(at_60(name), &["control", "probe_bytes"]);
        let seconds = at_60(name).iter().map(|run| run["virtual_s"].as_f64().unwrap_or(f64::NAN));
        let share = bytes.iter().zip(seconds).map(|(bytes, s)| 100.0 * bytes * 8.0 / (s * DIRECTIONS * 10e9));
        found.claim(id, share.collect::<Vec<f64>>());
    }
    Ok(found)
}

/// The time of a run, in milliseconds: of flows, or with the flows that took longer.
fn lasts(runs: &[Value], count: u64, load: f64) -> f64 {
    let all: Vec<f64> = runs.iter().filter_map(|r| r["virtual_s"].as_f64()).collect();
    let mean = 1e3 * all.iter().sum::<f64>() / all.len().max(1) as f64;
    mean.max(lasts_ms(Sizes::WebSearch, count, load))
}

pub const DELAY: Figure = Figure {
    id: "fabric-control-delay",
    title: "The controller's delay: from 10 us to 10 ms, one way",
    source: super::SOURCE,
    place: fabric(delay),
    remarks: &[
        NETWORK,
        TUNED,
        "web search at 60 % load, with all links, and with one that is cut before the first flow starts",
        "only P4TE's controller acts on load; those of the others act on failures",
    ],
    claims: &[
        goal("p4te-1ms", "P4TE at 1 ms takes at most 10 % longer than at 10 us", Rule::AtMost, 1.1),
        goal("p4te-10ms", "P4TE at 10 ms takes at most 10 % longer than at 10 us", Rule::AtMost, 1.1),
        goal("hula-10ms", "HULA at 10 ms takes at most 2 % longer than at 10 us", Rule::AtMost, 1.02),
        goal("ours-10ms", "ours at 10 ms takes at most 2 % longer than at 10 us", Rule::AtMost, 1.02),
    ],
};

const DELAYS_US: [f64; 4] = [10.0, 100.0, 1_000.0, 10_000.0];

fn delay(bench: &Bench) -> Result<Found, Failed> {
    const SHOWN: [&str; 4] = ["ecmp", "hula", "p4te", OURS];
    let schemes: Vec<_> = tuned(bench)?.into_iter().filter(|s| SHOWN.contains(&s.name)).collect();
    let place = Net::leaf_spine(Sizes::WebSearch, flows(bench, Sizes::WebSearch));
    let x = Quantity { name: "control_delay", unit: "us", label: "delay of the controller, us", log: true };
    let lost = Quantity { name: "lost", unit: "packets", label: "packets that never arrived", log: false };
    let mut found = Found::default();
    for (title, events) in [("All links", Vec::new()), ("One link cut", vec![CUT])] {
        let mut by_scheme: Vec<Vec<Runs>> = vec![Vec::new(); schemes.len()];
        for us in DELAYS_US {
            let base = place.clone().with(events.clone()).controlled(us).base();
            let runs = run::simulate(bench, &base, &schemes, &[0.6], &bench.network_seeds)?;
            by_scheme.iter_mut().zip(runs).for_each(|(all, mut runs)| all.append(&mut runs));
        }
        found.charts.push(chart(
            format!("{title}: mean FCT"),
            x,
            FCT,
            curves(&SHOWN, &by_scheme, &DELAYS_US, mean_fct),
        ));
        let missing = curves(&SHOWN, &by_scheme, &DELAYS_US, |r| below(r, &["missing"]));
        found.charts.push(chart(format!("{title}: lost packets"), x, lost, missing));
        if events.is_empty() {
            for (id, scheme, at) in
                [("p4te-1ms", 2, 2), ("p4te-10ms", 2, 3), ("hula-10ms", 1, 3), ("ours-10ms", 3, 3)]
            {
                found.claim(id, over(&by_scheme[scheme][at], &by_scheme[scheme][0], mean_fct));
            }
        }
    }
    Ok(found)
}
