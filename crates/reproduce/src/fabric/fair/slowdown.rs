//! Who is fast: flows at random, incast, and switches that hash alike.

use super::place::{Place as Net, Sizes};
use super::{
    FCT, LOAD, NAMES, NETWORK, OURS, P99, SLOWDOWN, TUNED, chart, curves, fabric, goal, least, mean_fct,
    number, over, percent, tuned,
};
use crate::bench::Bench;
use crate::error::Failed;
use crate::fabric::run::{self, Class, Runs};
use crate::figure::{Claim, Evidence, Figure, Found, Quantity, Rule};
use serde_json::Value;

/// What a claim compares: the workload, the load, the scheme and the other one, the class of flows and their number.
struct Against {
    id: &'static str,
    sizes: Sizes,
    load: f64,
    schemes: (&'static str, &'static str),
    class: Class,
    field: &'static str,
}

/// The fastest other scheme.
const BEST: &str = "the fastest other scheme";

/// Claims about ratios: a list of them, and of what they compare.
macro_rules! against {
    ($claims:ident, $list:ident, [$($id:literal $sizes:ident $load:literal $scheme:ident $other:ident $class:ident $field:literal
        $rule:ident $bound:literal, $text:literal;)*]) => {
        const $claims: &[Claim] = &[$(goal($id, $text, Rule::$rule, $bound),)*];
        const $list: &[Against] = &[$(Against {
            id: $id,
            sizes: Sizes::$sizes,
            load: $load,
            schemes: ($scheme, $other),
            class: Class::$class,
            field: $field,
        },)*];
    };
}

const ECMP: &str = "ecmp";
const HULA: &str = "hula";
const CONGA: &str = "conga";
const P4TE: &str = "p4te";

against! {
    CDF_CLAIMS, CDF_AGAINST,
    [
        "hula-search-60" WebSearch 0.6 HULA ECMP All "mean_ms" AtMost 1.0, "web search, 60 % load: HULA's mean FCT is below ECMP's";
        "hula-search-90" WebSearch 0.9 HULA ECMP All "mean_ms" AtMost 1.0, "web search, 90 % load: HULA's mean FCT is below ECMP's";
        "conga-search-60" WebSearch 0.6 CONGA ECMP All "mean_ms" AtMost 1.0, "web search, 60 % load: CONGA's mean FCT is below ECMP's";
        "conga-search-90" WebSearch 0.9 CONGA ECMP All "mean_ms" AtMost 1.0, "web search, 90 % load: CONGA's mean FCT is below ECMP's";
        "p4te-search-60" WebSearch 0.6 P4TE HULA All "mean_ms" AtMost 1.0, "web search, 60 % load: P4TE's mean FCT is below HULA's";
        "p4te-search-90" WebSearch 0.9 P4TE HULA All "mean_ms" AtMost 1.0, "web search, 90 % load: P4TE's mean FCT is below HULA's";
        "hula-mining-60" DataMining 0.6 HULA ECMP All "mean_ms" AtMost 1.0, "data mining, 60 % load: HULA's mean FCT is below ECMP's";
        "conga-mining-60" DataMining 0.6 CONGA ECMP All "mean_ms" AtMost 1.0, "data mining, 60 % load: CONGA's mean FCT is below ECMP's";
        "p4te-mining-60" DataMining 0.6 P4TE HULA All "mean_ms" AtMost 1.0, "data mining, 60 % load: P4TE's mean FCT is below HULA's";
        "ours-search-60" WebSearch 0.6 OURS BEST All "mean_ms" AtMost 1.0, "web search, 60 % load: our mean FCT is at most that of the fastest other scheme";
        "ours-search-90" WebSearch 0.9 OURS BEST All "mean_ms" AtMost 1.0, "web search, 90 % load: our mean FCT is at most that of the fastest other scheme";
        "ours-mining-60" DataMining 0.6 OURS BEST All "mean_ms" AtMost 1.0, "data mining, 60 % load: our mean FCT is at most that of the fastest other scheme";
        "ours-mining-90" DataMining 0.9 OURS BEST All "mean_ms" AtMost 1.0, "data mining, 90 % load: our mean FCT is at most that of the fastest other scheme";
        "ours-short-hula-60" WebSearch 0.6 OURS HULA Short "slowdown_p99" AtMost 0.85, "web search, 60 % load: our P99 slowdown of short flows is 15 % below HULA's";
        "ours-short-hula-90" WebSearch 0.9 OURS HULA Short "slowdown_p99" AtMost 0.85, "web search, 90 % load: our P99 slowdown of short flows is 15 % below HULA's";
        "ours-short-conga-60" WebSearch 0.6 OURS CONGA Short "slowdown_p99" AtMost 0.85, "web search, 60 % load: our P99 slowdown of short flows is 15 % below CONGA's";
        "ours-short-conga-90" WebSearch 0.9 OURS CONGA Short "slowdown_p99" AtMost 0.85, "web search, 90 % load: our P99 slowdown of short flows is 15 % below CONGA's";
    ]
}

pub const CDF: Figure = Figure {
    id: "fabric-cdf",
    title: "Slowdown of flows by scheme and load",
    source: super::SOURCE,
    place: fabric(cdf),
    remarks: &[
        NETWORK,
        TUNED,
        "flows are 300 of web search and 100 of data mining (--quick: 150 and 50; --full: 1,000 of each, at eight loads)",
        "slowdown is a flow's completion time as a multiple of what it takes alone",
    ],
    claims: CDF_CLAIMS,
};

/// How many flows of a workload.
pub(super) fn flows(bench: &Bench, sizes: Sizes) -> u64 {
    match sizes {
        Sizes::WebSearch => bench.scale(150, 300, 1000),
        Sizes::DataMining => bench.scale(50, 100, 1000),
    }
}

fn cdf(bench: &Bench) -> Result<Found, Failed> {
    let loads: &[f64] =
        bench.scale(&[0.6, 0.9][..], &[0.3, 0.6, 0.9], &[0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]);
    let schemes = tuned(bench)?;
    let mut found = Found::default();
    for sizes in Sizes::ALL {
        let base = Net::leaf_spine(sizes, flows(bench, sizes)).base();
        let runs = run::simulate(bench, &base, &schemes, loads, &bench.network_seeds)?;
        for (field, label) in [("slowdown_p50", "P50"), ("slowdown_p95", "P95"), ("slowdown_p99", "P99")] {
            let y = Quantity { name: field, unit: "times", label: quantile(label), log: false };
            let ours = curves(&NAMES, &runs, &percent(loads), |r| run::of_class(r, Class::All, field));
            found.charts.push(chart(format!("{}: {label} of the slowdown", sizes.name()), LOAD, y, ours));
        }
        let ours = curves(&NAMES, &runs, &percent(loads), |r| run::of_class(r, Class::Short, "slowdown_p99"));
        found.charts.push(chart(format!("{}: P99 of short flows", sizes.name()), LOAD, P99, ours));
        let ours = curves(&NAMES, &runs, &percent(loads), mean_fct);
        found.charts.push(chart(format!("{}: mean FCT", sizes.name()), LOAD, FCT, ours));
        for claim in CDF_AGAINST.iter().filter(|c| c.sizes == sizes) {
            let at = loads.iter().position(|load| *load == claim.load).unwrap_or(0);
            found.claim(claim.id, claim.evidence(&runs, at));
        }
    }
    Ok(found)
}

fn quantile(label: &str) -> &'static str {
    match label {
        "P50" => "P50 of the slowdown",
        "P95" => "P95 of the slowdown",
        _ => "P99 of the slowdown",
    }
}

impl Against {
    /// Seed by seed, the scheme's number over the other's, at a load.
    fn evidence(&self, runs: &[Vec<Runs>], at: usize) -> Evidence {
        let number_of = |r: &[Value]| run::of_class(r, self.class, self.field);
        let (scheme, other) = self.schemes;
        let ours = &runs[number(scheme)][at];
        let others = NAMES.iter().zip(runs).filter(|(name, _)| **name != scheme).map(|(_, runs)| &runs[at]);
        let theirs = if other == BEST { least(others, number_of) } else { Some(&runs[number(other)][at]) };
        theirs.map_or_else(Evidence::default, |theirs| over(ours, theirs, number_of))
    }
}

pub const INCAST: Figure = Figure {
    id: "fabric-incast",
    title: "Incast: a megabyte from 8, 16 and 24 hosts to one, ten times",
    source: super::SOURCE,
    place: fabric(incast),
    remarks: &[
        NETWORK,
        TUNED,
        "all flows meet at the receiver's link, where no choice of paths helps: a scheme can only do harm",
    ],
    claims: &[
        goal("letflow", "24 hosts: LetFlow takes at most 5 % longer than ECMP", Rule::AtMost, 1.05),
        goal("spray", "24 hosts: spraying takes at most 5 % longer than ECMP", Rule::AtMost, 1.05),
        goal("hula", "24 hosts: HULA takes at most 5 % longer than ECMP", Rule::AtMost, 1.05),
        goal("conga", "24 hosts: CONGA takes at most 5 % longer than ECMP", Rule::AtMost, 1.05),
        goal("p4te", "24 hosts: P4TE takes at most 5 % longer than ECMP", Rule::AtMost, 1.05),
        goal(OURS, "24 hosts: ours takes at most 5 % longer than ECMP", Rule::AtMost, 1.05),
    ],
};

const SENDERS: [u64; 3] = [8, 16, 24];

fn incast(bench: &Bench) -> Result<Found, Failed> {
    let schemes = tuned(bench)?;
    let mut by_scheme: Vec<Vec<Runs>> = vec![Vec::new(); schemes.len()];
    for senders in SENDERS {
        let base = Net::incast(senders).base();
        let runs = run::simulate(bench, &base, &schemes, &[], &bench.network_seeds)?;
        by_scheme.iter_mut().zip(runs).for_each(|(all, mut runs)| all.append(&mut runs));
    }
    let senders = Quantity { name: "senders", unit: "hosts", label: "hosts that send", log: false };
    let again = Quantity { name: "retransmitted", unit: "packets", label: "packets sent again", log: false };
    let axis = SENDERS.map(|n| n as f64);
    let p99 = |r: &[Value]| run::of_class(r, Class::All, "p99_ms");
    let mut found = Found::default();
    for (title, y, ours) in [
        ("Mean FCT", FCT, curves(&NAMES, &by_scheme, &axis, mean_fct)),
        (
            "P99 of FCT",
            Quantity { label: "P99 of the flow completion time, ms", ..FCT },
            curves(&NAMES, &by_scheme, &axis, p99),
        ),
        (
            "Packets sent again",
            again,
            curves(&NAMES, &by_scheme, &axis, |r| run::of_class(r, Class::All, "retransmitted")),
        ),
    ] {
        found.charts.push(chart(title, senders, y, ours));
    }
    let most = SENDERS.len() - 1;
    for claim in INCAST.claims {
        let (ours, ecmp) = (&by_scheme[number(claim.id)][most], &by_scheme[number(ECMP)][most]);
        found.claim(claim.id, over(ours, ecmp, mean_fct));
    }
    Ok(found)
}

pub const POLARISATION: Figure = Figure {
    id: "fabric-polarisation",
    title: "One seed of the hash for all switches, against one for each",
    source: super::SOURCE,
    place: fabric(polarisation),
    remarks: &[
        "a fat-tree of three tiers with switches of four ports and 16 hosts, all links with 10 Gbit/s; web search at 60 % load; the rest as in fabric-cdf",
        TUNED,
        "with one seed, the second switch of a path sees only flows that the first has chosen by the same hash, and sends all of them one way",
    ],
    claims: &[
        goal("ecmp", "ECMP's mean FCT is at least 20 % longer with one seed", Rule::AtLeast, 1.2),
        goal(
            "letflow",
            "LetFlow, which draws paths, does not depend on the seed: at most 5 %",
            Rule::AtMost,
            1.05,
        ),
        goal("spray", "spraying does not depend on the seed: at most 5 %", Rule::AtMost, 1.05),
        goal("hula", "HULA, which knows paths, does not depend on the seed: at most 5 %", Rule::AtMost, 1.05),
        goal(
            "conga",
            "CONGA stretched to three tiers hashes in the second: its mean FCT is longer with one seed",
            Rule::AtLeast,
            1.0,
        ),
        goal(OURS, "ours does not depend on the seed: at most 5 %", Rule::AtMost, 1.05),
    ],
};

fn polarisation(bench: &Bench) -> Result<Found, Failed> {
    let schemes: Vec<_> = tuned(bench)?.into_iter().filter(|s| s.name != P4TE).collect();
    let same: Vec<_> = schemes.iter().map(|s| s.clone().with("hash_seed", "same")).collect();
    let base = Net::fat_tree(Sizes::WebSearch, flows(bench, Sizes::WebSearch)).base();
    let loads = [0.6];
    let own = run::simulate(bench, &base, &schemes, &loads, &bench.network_seeds)?;
    let same = run::simulate(bench, &base, &same, &loads, &bench.network_seeds)?;
    let seeds =
        Quantity { name: "seeds", unit: "", label: "1: a seed for each switch; 2: one for all", log: false };
    let names: Vec<&str> = schemes.iter().map(|s| s.name).collect();
    let both: Vec<Vec<Runs>> =
        own.iter().zip(&same).map(|(a, b)| a.iter().chain(b).cloned().collect()).collect();
    let mut found = Found::default();
    let mean = curves(&names, &both, &[1.0, 2.0], |r| run::of_class(r, Class::All, "slowdown_mean"));
    found.charts.push(chart("Mean slowdown", seeds, SLOWDOWN, mean));
    for ((name, own), same) in names.iter().zip(&own).zip(&same) {
        if let Some(claim) = POLARISATION.claims.iter().find(|c| c.id == *name) {
            found.claim(claim.id, over(&same[0], &own[0], mean_fct));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Verdict;
    use serde_json::json;
    use std::sync::Arc;

    /// Of the other schemes the fastest one counts, and its seeds are paired with ours.
    #[test]
    fn the_best_other_scheme() {
        let run = |ms: f64| json!({"fabric": {"flows": {"started": 1, "finished": 1}, "fct": [{}, {}, {"mean_ms": ms}]}});
        let of = |ms: [f64; 2]| vec![Arc::new(ms.map(run).to_vec())];
        let mut runs: Vec<Vec<Runs>> = NAMES.iter().map(|_| of([9.0, 9.0])).collect();
        runs[number(HULA)] = of([2.0, 4.0]);
        runs[number(OURS)] = of([1.0, 4.0]);
        let claim = CDF_AGAINST.iter().find(|c| c.id == "ours-search-60").expect("a claim");
        assert_eq!(claim.evidence(&runs, 0).samples, [0.5, 1.0]);
        let verdict = Evidence::from(vec![0.5; 5]).judge(Rule::AtMost, 1.0);
        assert_eq!(verdict, Verdict::Holds);
    }
}
