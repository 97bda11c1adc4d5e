//! What the papers of the other schemes say first.

use super::place::{Place as Net, Sizes};
use super::{FCT, LOAD, chart, curves, fabric, mean_fct, one, over, percent};
use crate::bench::Bench;
use crate::error::Failed;
use crate::fabric::run;
use crate::figure::{Claim, Figure, Found, Rule, Source};

const fn times(id: &'static str, text: &'static str, paper: f64) -> Claim {
    Claim { id, text, paper, unit: "times", rule: Rule::Effect { neutral: 1.0 }, source: Source::Text }
}

pub const HEADLINES: Figure = Figure {
    id: "fabric-headlines",
    title: "CONGA against ECMP with a failed link; HULA against CONGA on three tiers",
    source: "CONGA (SIGCOMM 2014), abstract and section 5.2; HULA (SOSR 2016), abstract",
    place: fabric(headlines),
    remarks: &[
        "CONGA: its testbed at a quarter of the hosts and rates: two leaves with eight hosts of 10 Gbit/s, two spines, two links of 10 Gbit/s between each leaf \
         and each spine, one of which is cut; load is of the intact uplinks. Ours is the ratio of mean FCTs at 70 % load for 400 flows of web search \
         (--full: 2,000): under ECMP the queue before the remaining link of the pair grows as long as flows come, so that the ratio depends on the \
         length of the run",
        "HULA: a fat-tree of switches with four ports and 16 hosts, all links 10 Gbit/s; CONGA's leaves choose uplinks there, and the switches above them hash. The \
         topology of the paper is another one, with a cut link in some of its figures",
        super::TUNED,
    ],
    claims: &[
        times("conga-ecmp", "with a failed link, ECMP's mean FCT is so many times CONGA's", 5.0),
        times("hula-conga-50", "three tiers, 50 % load: CONGA's mean FCT is so many times HULA's", 1.6),
        times("hula-conga-90", "three tiers, 90 % load: CONGA's mean FCT is so many times HULA's", 3.0),
        times(
            "hula-conga-cut-50",
            "three tiers, one link cut, 50 % load: CONGA's mean FCT is so many times HULA's",
            1.6,
        ),
        times(
            "hula-conga-cut-90",
            "three tiers, one link cut, 90 % load: CONGA's mean FCT is so many times HULA's",
            3.0,
        ),
    ],
};

fn headlines(bench: &Bench) -> Result<Found, Failed> {
    let seeds = &bench.network_seeds;
    let pair = [one(bench, "ecmp")?, one(bench, "conga")?];
    let loads = [0.5, 0.7];
    let cut = vec![(0.0, false, "leaf2-spine1-2")];
    let place = Net::testbed(Sizes::WebSearch, bench.scale(200, 400, 2000)).with(cut);
    let runs = run::simulate(bench, &place.base(), &pair, &loads, seeds)?;
    let mut found = Found::default();
    let ours = curves(&["ecmp", "conga"], &runs, &percent(&loads), mean_fct);
    found.charts.push(chart(
        "Two leaves, one of four links between a leaf and the spines cut",
        LOAD,
        FCT,
        ours,
    ));
    found.claim("conga-ecmp", over(&runs[0][1], &runs[1][1], mean_fct));
    let pair = [one(bench, "conga")?, one(bench, "hula")?];
    let loads = [0.5, 0.9];
    let tree = Net::fat_tree(Sizes::WebSearch, bench.scale(150, 300, 1000));
    let broken = tree.clone().with(vec![(0.0, false, "agg1-core1")]);
    for (title, place, ids) in [
        ("Three tiers", tree, ["hula-conga-50", "hula-conga-90"]),
        ("Three tiers, one link cut", broken, ["hula-conga-cut-50", "hula-conga-cut-90"]),
    ] {
        let runs = run::simulate(bench, &place.base(), &pair, &loads, seeds)?;
        found.charts.push(chart(
            title,
            LOAD,
            FCT,
            curves(&["conga", "hula"], &runs, &percent(&loads), mean_fct),
        ));
        for (at, id) in ids.into_iter().enumerate() {
            found.claim(id, over(&runs[0][at], &runs[1][at], mean_fct));
        }
    }
    Ok(found)
}
