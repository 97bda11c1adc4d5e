//! The P4TE paper: its table and worked examples, what the program takes of a chip, and figures 8 to 15: ECMP, HULA and P4TE on four leaves and four spines. The figures that compare all schemes fairly are in
//! `fair`.

mod claims;
mod examples;
pub mod fair;
mod hardware;
mod published;
mod run;
mod tune;

use crate::bench::{Bench, Factor};
use crate::error::{ExperimentError, Failed};
use crate::figure::{Chart, Curve, Figure, Found, Place, Point, Quantity, ratios};
use crate::papers;
use run::{Class, Runs, Scheme, Workload};
use serde_json::Value;
pub use tune::{Tuned, tune};

const LOADS: [f64; 4] = [0.2, 0.4, 0.6, 0.8];
/// The baselines, P4TE last. The paper's ECMP hashes flowlets: that is `letflow`.
const NAMES: [&str; 4] = ["ecmp", "letflow", "hula", "p4te"];
const ECMP: usize = 1;
const HULA: usize = 2;
const P4TE: usize = 3;

const LOAD: Quantity =
    Quantity { name: "load", unit: "percent", label: "load, % of the uplinks' capacity", log: false };
const FCT: Quantity = Quantity { name: "fct", unit: "s", label: "mean flow completion time, s", log: false };
const AGAIN: Quantity =
    Quantity { name: "retransmitted", unit: "packets", label: "packets sent again", log: false };
const SPREAD: Quantity = Quantity {
    name: "spread",
    unit: "packets",
    label: "standard deviation over uplinks, packets",
    log: false,
};
const GAP: Quantity = Quantity { name: "gap", unit: "ms", label: "time between flowlets, ms", log: false };
const SHARE: Quantity = Quantity { name: "share", unit: "percent", label: "share of flows, %", log: false };
const TIME: Quantity =
    Quantity { name: "fct_percentile", unit: "s", label: "flow completion time, s", log: true };

const NETWORK: &str = "40 packets/s from each host, 20 between two switches, queues of 8 and 4 packets, 70 ms of propagation \
                       for a round trip, as in section 7; DCTCP with marks from two packets in a queue on, for every scheme; \
                       flows follow from the seed and are the same for every scheme";
const SCHEMES: &str = "the paper's ECMP hashes flowlets, which is `letflow` here; `ecmp` is a hash of the flow. As published, P4TE has \
                       no ticks: it finds a busy port idle by traffic only, and so avoids some uplinks. Percentages are of the mean FCT, seed by seed";
const SHARES: &str = "in the text's words the other scheme takes so much more time than P4TE; by the published logs these are shares of the other \
                      scheme's time (web search, short flows: P4TE saves 57, 50, 30 and 39 % of ECMP's, which is 131, 101, 43 and 63 % of its own), and so are ours";
const SIZES: &str = "flow sizes are the six of the published configuration, in the shares of a load of 0.8, with Poisson starts for \
                     500 s; load is payload over the uplinks' capacity";
const PUBLISHED: &str = "the published ECMP used two of four spines for 91 to 98 % of its traffic; the published runs are one, copied \
                         five times";

/// In the paper's order.
pub const FIGURES: &[Figure] = &[
    examples::FEATURES,
    examples::THRESHOLD,
    examples::EVENTS,
    examples::CONFIGURATION,
    examples::CHOICE,
    hardware::WIDTHS,
    hardware::SECTION,
    Figure {
        id: "p4te-fig-8",
        title: "The effect of rate adaptation",
        source: "P4TE, section 7.1.1",
        place: Place::Network(adaptation),
        remarks: &[
            NETWORK,
            SIZES,
            "percentages are of the mean FCT without rate adaptation, seed by seed",
            "tuned, no flow reaches the limits, and there is nothing to compare: here they are green at 75 % and red at 95 % of a port's rate, and the kind of \
             rate adaptation is the tuned one, `ece`",
            "no acknowledgment of the published switches reaches a host; in their logs, one run each, web search's large flows take 4 to \
             10 % less with rate adaptation, data mining's 3 to 8 % more",
        ],
        claims: claims::ADAPTATION,
    },
    Figure {
        id: "p4te-fig-9",
        title: "Web search: completion times and retransmissions",
        source: "P4TE, section 7.1.2",
        place: Place::Network(web_search),
        remarks: &[
            NETWORK,
            SCHEMES,
            SHARES,
            SIZES,
            PUBLISHED,
            "the text gives two numbers for HULA's large flows: 2 to 40 % overall, 29 to 47 % at 60 to 80 % load",
        ],
        claims: claims::WEB_SEARCH,
    },
    Figure {
        id: "p4te-fig-10",
        title: "Data mining: completion times and retransmissions",
        source: "P4TE, section 7.1.2",
        place: Place::Network(data_mining),
        remarks: &[NETWORK, SCHEMES, SHARES, SIZES, PUBLISHED],
        claims: claims::DATA_MINING,
    },
    Figure {
        id: "p4te-fig-11",
        title: "Web search at 80 % load: packets over the uplinks of a leaf",
        source: "P4TE, section 7.1.2",
        place: Place::Network(uplinks),
        remarks: &[
            NETWORK,
            SCHEMES,
            "the largest standard deviation of a leaf; the paper has 196 to 661 packets for ECMP, 28 to 221 for P4TE",
        ],
        claims: claims::UPLINKS,
    },
    Figure {
        id: "p4te-fig-12",
        title: "Incast: 24 flows of 512 KB and 8 of 1 MB from 12 hosts",
        source: "P4TE, section 7.2",
        place: Place::Network(incast),
        remarks: &[
            NETWORK,
            SCHEMES,
            "the gain is a share of the other scheme's time; the paper attributes the gain to rate adaptation",
        ],
        claims: claims::INCAST,
    },
    Figure {
        id: "p4te-fig-13",
        title: "Web search at 80 % load: the time between flowlets",
        source: "P4TE, appendix A.1",
        place: Place::Network(gaps),
        remarks: &[NETWORK, SCHEMES, "only ECMP, as in the published runs"],
        claims: claims::GAPS,
    },
    Figure {
        id: "p4te-fig-14",
        title: "Data mining: distribution of completion times",
        source: "P4TE, appendix A.2.1",
        place: Place::Network(mining_times),
        remarks: &[NETWORK, SCHEMES, SIZES],
        claims: claims::MINING_TIMES,
    },
    Figure {
        id: "p4te-fig-15",
        title: "Web search: distribution of completion times",
        source: "P4TE, appendix A.2.2",
        place: Place::Network(search_times),
        remarks: &[NETWORK, SCHEMES, SIZES],
        claims: claims::SEARCH_TIMES,
    },
];

fn schemes(bench: &Bench) -> Result<Vec<Scheme>, ExperimentError> {
    let tuned = || Tuned::Paper.tuning().tuned(&bench.network_seeds);
    if bench.as_published(Factor::Settings) { Ok(published::schemes()) } else { tuned() }
}

/// By scheme, then load.
fn runs(bench: &Bench, workload: Workload) -> Result<Vec<Vec<Runs>>, Failed> {
    fly(bench, workload, &schemes(bench)?, &LOADS)
}

/// Simulates a workload under each scheme at each load (none: as the scenario has it): by scheme, then load, the results of each seed.
fn fly(
    bench: &Bench,
    workload: Workload,
    schemes: &[Scheme],
    loads: &[f64],
) -> Result<Vec<Vec<Runs>>, Failed> {
    let loads: Vec<f64> = loads.iter().map(|load| published::offered(bench, workload, *load)).collect();
    let one = |scheme: &Scheme| {
        let (base, scheme) = published::arm(bench, workload, scheme.clone());
        Ok(run::simulate(bench, &base, &[scheme], &loads, &bench.network_seeds)?.remove(0))
    };
    schemes.iter().map(one).collect()
}

/// Samples of each scheme at each place of an axis.
fn curves(runs: &[Vec<Runs>], axis: &[f64], of: impl Fn(&[Value]) -> Vec<f64>) -> Vec<Curve> {
    let curve = |(name, runs): (&&str, &Vec<Runs>)| {
        let points = axis.iter().zip(runs).map(|(x, runs)| Point::new(*x, of(runs)));
        Curve { name: (*name).to_string(), points: points.collect() }
    };
    NAMES.iter().zip(runs).map(curve).collect()
}

fn chart(title: &str, x: Quantity, y: Quantity, ours: Vec<Curve>) -> Chart {
    Chart { title: title.into(), x, y, ours, paper: Vec::new() }
}

/// Mean completion times of a class of flows, with the paper's under this name.
fn times(title: &str, x: Quantity, ours: Vec<Curve>, paper: &str, names: &[&str]) -> Chart {
    let mut paper = papers::curves(paper);
    paper.retain(|curve| names.contains(&curve.name.as_str()));
    Chart { paper, ..chart(title, x, FCT, ours) }
}

const CLASSES: [(Class, &str); 2] = [(Class::Short, "short"), (Class::Large, "large")];

fn mean_fct(runs: &[Value], class: Class) -> Vec<f64> {
    run::of_class(runs, class, "mean_ms").iter().map(|ms| ms / 1e3).collect()
}

/// Charts of mean FCT and retransmissions by load.
fn by_load(runs: &[Vec<Runs>], workload: &str) -> Vec<Chart> {
    let percent: Vec<f64> = LOADS.iter().map(|load| 100.0 * load).collect();
    let mut charts = Vec::new();
    for (class, name) in CLASSES {
        let ours = curves(runs, &percent, |r| mean_fct(r, class));
        let paper = format!("p4te-{workload}-{name}");
        charts.push(times(&format!("Flow completion time, {name} flows"), LOAD, ours, &paper, &NAMES));
        let again = curves(runs, &percent, |r| run::of_class(r, class, "retransmitted"));
        charts.push(chart(&format!("Retransmissions, {name} flows"), LOAD, AGAIN, again));
    }
    charts
}

/// How much of another scheme's time P4TE saves, at each load that is claimed about.
fn saved(found: &mut Found, runs: &[Vec<Runs>], claims: &[claims::Saved]) {
    for claim in claims {
        let at = LOADS.iter().position(|load| *load == claim.load).unwrap_or(0);
        let (other, p4te) = (&runs[claim.scheme][at], &runs[P4TE][at]);
        found.claim(claim.id, run::saved_percent(other, p4te, |r| mean_fct(r, claim.class)));
    }
}

/// Packets sent again at all loads together, P4TE against another scheme.
fn again(found: &mut Found, runs: &[Vec<Runs>], id: &'static str, class: Class, scheme: usize) {
    let sum = |scheme: usize| -> Vec<f64> {
        let at = runs[scheme].iter().map(|r| run::of_class(r, class, "retransmitted"));
        at.reduce(|a, b| a.iter().zip(&b).map(|(a, b)| a + b).collect()).unwrap_or_default()
    };
    let samples = ratios(&sum(P4TE), &sum(scheme)).iter().map(|r| 100.0 * (r - 1.0)).collect();
    let all: Vec<Value> =
        [P4TE, scheme].iter().flat_map(|s| &runs[*s]).flat_map(|r| r.iter().cloned()).collect();
    found.claim(id, run::paired(&all, &[], samples));
}

/// The two of figure 8.
const ARMS: [&str; 2] = ["p4te without rate adaptation", "p4te"];

/// Limits of figure 8 that flows reach.
const LIMITS: [(&str, f64); 2] = [("green_percent", 75.0), ("red_percent", 95.0)];

/// P4TE without and with its rate adaptation.
fn adaptation(bench: &Bench) -> Result<Found, Failed> {
    let mut with = schemes(bench)?.swap_remove(P4TE);
    if !bench.as_published(Factor::Settings) {
        with = LIMITS.iter().fold(with, |scheme, (setting, percent)| scheme.with(setting, *percent));
    }
    let pair = [with.clone().with("rate_control", "none"), with];
    let mut found = Found::default();
    for (workload, name, paper) in
        [(Workload::WebSearch, "web search", "search"), (Workload::DataMining, "data mining", "mining")]
    {
        let runs = fly(bench, workload, &pair, &LOADS)?;
        for claim in claims::ADAPTATION_LESS.iter().filter(|claim| claim.workload == workload) {
            let at = LOADS.iter().position(|load| *load == claim.load).unwrap_or(0);
            let [without, with] = [&runs[0][at], &runs[1][at]];
            found.claim(claim.id, run::saved_percent(without, with, |r| mean_fct(r, claim.class)));
        }
        let percent: Vec<f64> = LOADS.iter().map(|load| 100.0 * load).collect();
        for (class, flows) in CLASSES {
            let mut ours = curves(&runs, &percent, |r| mean_fct(r, class));
            for (curve, name) in ours.iter_mut().zip(ARMS) {
                curve.name = name.into();
            }
            let title = format!("Flow completion time, {name}, {flows} flows");
            found.charts.push(times(&title, LOAD, ours, &format!("p4te-{paper}-{flows}"), &ARMS));
        }
    }
    Ok(found)
}

fn web_search(bench: &Bench) -> Result<Found, Failed> {
    let runs = runs(bench, Workload::WebSearch)?;
    let mut found = Found { charts: by_load(&runs, "search"), ..Found::default() };
    saved(&mut found, &runs, claims::WEB_SEARCH_SAVED);
    again(&mut found, &runs, "again-short-ecmp", Class::Short, ECMP);
    again(&mut found, &runs, "again-short-hula", Class::Short, HULA);
    again(&mut found, &runs, "again-large-ecmp", Class::Large, ECMP);
    Ok(found)
}

fn data_mining(bench: &Bench) -> Result<Found, Failed> {
    let runs = runs(bench, Workload::DataMining)?;
    let mut found = Found { charts: by_load(&runs, "mining"), ..Found::default() };
    saved(&mut found, &runs, claims::DATA_MINING_SAVED);
    again(&mut found, &runs, "again-short-hula", Class::Short, HULA);
    again(&mut found, &runs, "again-large-hula", Class::Large, HULA);
    Ok(found)
}

fn uplinks(bench: &Bench) -> Result<Found, Failed> {
    let runs = runs(bench, Workload::WebSearch)?;
    let last = |scheme: usize| runs[scheme].last().cloned().unwrap_or_default();
    let against = |a: usize, b: usize| {
        run::paired(&last(a), &last(b), ratios(&run::spread(&last(a)), &run::spread(&last(b))))
    };
    let percent: Vec<f64> = LOADS.iter().map(|load| 100.0 * load).collect();
    let ours = curves(&runs, &percent, run::spread);
    let mut found = Found { charts: vec![chart("Least even leaf", LOAD, SPREAD, ours)], ..Found::default() };
    found.claim("p4te-ecmp", against(P4TE, ECMP));
    found.claim("hula-p4te", against(HULA, P4TE));
    Ok(found)
}

fn incast(bench: &Bench) -> Result<Found, Failed> {
    let runs = fly(bench, Workload::Incast, &schemes(bench)?, &[])?;
    let of = |scheme: usize| runs[scheme][0].clone();
    let gain = |scheme, class| run::saved_percent(&of(scheme), &of(P4TE), |r| mean_fct(r, class));
    let mut found = Found::default();
    for (class, name) in CLASSES {
        let ours = curves(&runs, &[1.0], |r| mean_fct(r, class));
        let all = Quantity { name: "incast", unit: "", label: "incast", log: false };
        let paper = format!("p4te-incast-{name}");
        found.charts.push(times(&format!("Flow completion time, {name} flows"), all, ours, &paper, &NAMES));
    }
    for (short, large, more, scheme) in [
        ("ecmp-short", "ecmp-large", "ecmp-large-short", ECMP),
        ("hula-short", "hula-large", "hula-large-short", HULA),
    ] {
        let (of_short, of_large) = (gain(scheme, Class::Short), gain(scheme, Class::Large));
        let differences = of_large.samples.iter().zip(&of_short.samples).map(|(l, s)| l - s).collect();
        found.claim(more, run::paired(&of(scheme), &of(P4TE), differences));
        found.claim(short, of_short);
        found.claim(large, of_large);
    }
    Ok(found)
}

fn gaps(bench: &Bench) -> Result<Found, Failed> {
    let marks = ("ecn_kib", 2.0 * published::PACKET_KIB);
    let axis = claims::GAPS_MS.map(f64::from);
    let schemes: Vec<Scheme> =
        axis.iter().map(|ms| Scheme::new("letflow", &[marks, ("gap_us", 1e3 * ms)])).collect();
    let runs = fly(bench, Workload::WebSearch, &schemes, &[0.8])?;
    let all: Vec<Runs> = runs.into_iter().flatten().collect();
    let mean = |r: &[Value]| mean_fct(r, Class::All);
    let points = axis.iter().zip(&all).map(|(x, r)| Point::new(*x, mean(r)));
    let ours = vec![Curve { name: "letflow".into(), points: points.collect() }];
    let all_flows = times("All flows", GAP, ours, "p4te-gap", &["letflow"]);
    let mut found = Found { charts: vec![all_flows], ..Found::default() };
    let best = axis.iter().position(|ms| *ms == 40.0).unwrap_or(0);
    let others = (0..axis.len()).filter(|i| *i != best);
    for (claim, i) in claims::GAPS.iter().zip(others) {
        found.claim(claim.id, run::more_percent(&all[i], &all[best], mean));
    }
    Ok(found)
}

fn mining_times(bench: &Bench) -> Result<Found, Failed> {
    distributions(bench, Workload::DataMining, claims::MINING_PERCENTILES)
}

fn search_times(bench: &Bench) -> Result<Found, Failed> {
    distributions(bench, Workload::WebSearch, claims::SEARCH_PERCENTILES)
}

fn distributions(bench: &Bench, workload: Workload, claims: &[claims::Percentile]) -> Result<Found, Failed> {
    let runs = runs(bench, workload)?;
    let mut found = Found::default();
    for claim in claims {
        let at = LOADS.iter().position(|load| *load == claim.load).unwrap_or(0);
        let (other, p4te) = (&runs[claim.scheme][at], &runs[P4TE][at]);
        found.claim(
            claim.id,
            run::more_percent(other, p4te, |r| run::percentile(r, claim.class, claim.percent)),
        );
    }
    for (class, name) in
        [(Class::Short, "short flows"), (Class::Large, "large flows"), (Class::All, "all flows")]
    {
        for (i, load) in LOADS.iter().enumerate() {
            let curve = |(scheme, runs): (&&str, &Vec<Runs>)| {
                let at = |percent: usize| {
                    let samples = run::percentile(&runs[i], class, percent).into_iter().map(|ms| ms / 1e3);
                    Point::new(percent as f64, samples.collect())
                };
                Curve { name: (*scheme).to_string(), points: (1..20).map(|n| at(5 * n)).collect() }
            };
            let ours = NAMES.iter().zip(&runs).map(curve).collect();
            let title = format!("{name} at {:.0} % load", 100.0 * load);
            found.charts.push(chart(&title, SHARE, TIME, ours));
        }
    }
    Ok(found)
}
