//! The P4TE paper's systems as its text has them, and as its published programs and logs do.

use super::LOADS;
use super::run::{Base, Scheme, Workload};
use crate::bench::{Bench, Factor};
use Workload::{DataMining, Incast, WebSearch};

/// A packet of 1,500 bytes, in KiB.
pub const PACKET_KIB: f64 = 1500.0 / 1024.0;

/// The schemes as section 7 has them: 40 ms between flowlets, ranges of two packets of queue, meters at 90 and 100 %, marks from
/// two packets on (the published code), an action on a flow's rate for 5,000 bytes of it (the published code). HULA probes once a
/// round-trip time.
pub fn schemes() -> Vec<Scheme> {
    let (gap, marks) = (("gap_us", 40_000.0), ("ecn_kib", 2.0 * PACKET_KIB));
    let two = 2.0 * PACKET_KIB;
    vec![
        Scheme::new("ecmp", &[marks]),
        Scheme::new("letflow", &[marks, gap]),
        Scheme::new("hula", &[marks, gap, ("probe_period_us", 70_000.0)]),
        Scheme::new(
            "p4te",
            &[
                marks,
                gap,
                ("delta_kib", two),
                ("range_kib", two),
                ("green_percent", 90.0),
                ("red_percent", 100.0),
                ("burst_kib", two),
                // The paper has none.
                ("tick_kib", 0.0),
                ("large_percent", 10.0),
                ("spacing_kib", 5000.0 / 1024.0),
                // Of `clamp`, which the paper does not have: about the product of rate and round-trip time.
                ("clamp_kib", 4.0 * PACKET_KIB),
                ("clamp_us", 500_000.0),
            ],
        )
        .with("rate_control", "fack"),
    ]
}

/// Microseconds between two choices of the published HULA, whose controller reads the counters of each leaf.
const COUNTERS_US: f64 = 750_000.0;
/// Uplinks of a leaf with nearly all of the published ECMP's traffic.
const PATHS: u32 = 2;
/// Seconds for which the published clients start flows.
const STARTS_S: f64 = 171.0;

/// A workload and a scheme in what the bench wants as published, besides [`schemes`].
pub fn arm(bench: &Bench, workload: Workload, mut scheme: Scheme) -> (Base, Scheme) {
    let mut base = workload.base();
    let hula = scheme.name == "hula";
    if bench.as_published(Factor::Depths) {
        let (host, fabric) = if hula { (20.0, 10.0) } else { (4.0, 2.0) };
        for (link, packets) in [("host_link", host), ("fabric_link", fabric)] {
            base = base.with(&["network", "leaf_spine", link, "queue_kib"], packets * PACKET_KIB);
        }
    }
    if bench.as_published(Factor::Load) && workload != Incast {
        base = base.with(&["duration_s"], STARTS_S);
    }
    if bench.as_published(Factor::Marks) && matches!(scheme.name, "hula" | "p4te") {
        scheme = scheme.with("ecn_kib", 0.0);
    }
    if bench.as_published(Factor::Paths) && matches!(scheme.name, "ecmp" | "letflow") {
        scheme = scheme.with("maximum_paths", PATHS);
    }
    if bench.as_published(Factor::Counters) && hula {
        let own = scheme.with("probes", "own").with("probe_period_us", COUNTERS_US);
        // Each packet follows the last choice.
        scheme = own.with("gap_us", 1.0);
    }
    if bench.as_published(Factor::Facks) && scheme.name == "p4te" {
        scheme = scheme.with("rate_control", "none");
    }
    let (settings, ticks) = (bench.as_published(Factor::Settings), bench.as_published(Factor::Ticks));
    if scheme.name == "p4te" && (settings || ticks) {
        scheme = scheme.with("tick_kib", if ticks { 0.0 } else { 2.0 * PACKET_KIB });
    }
    (base, scheme)
}

/// What hosts send, as a share of the uplinks' capacity, at one of the loads 0.2, 0.4, 0.6 and 0.8: as it is called, or as the published starts
/// have it (without headers).
pub fn offered(bench: &Bench, workload: Workload, load: f64) -> f64 {
    let published = match workload {
        WebSearch => [0.47, 0.73, 1.23, 1.62],
        DataMining => [0.39, 0.48, 0.66, 0.85],
        Incast => return load,
    };
    let at = LOADS.iter().position(|l| *l == load);
    bench.pick(Factor::Load, at.map_or(load, |at| published[at]), load)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Coming, Where};
    use crate::fabric::run::scenario;

    #[test]
    fn each_setting_changes_what_it_is_about() {
        let arms = |factors: &[Factor], workload| {
            let mut bench =
                Bench::new(1, 5, true, Coming::Poisson, Where::Simulator, 1).expect("it compiles");
            bench.factors = factors.to_vec();
            let arms = schemes().into_iter().map(|scheme| arm(&bench, workload, scheme));
            (arms.collect::<Vec<_>>(), offered(&bench, workload, 0.8))
        };
        for workload in [WebSearch, DataMining, Incast] {
            let (usual, load) = arms(&[], workload);
            assert_eq!(load, 0.8);
            // Which of ECMP, LetFlow, HULA and P4TE differ.
            for (factor, expected) in [
                (Factor::Paths, [true, true, false, false]),
                (Factor::Counters, [false, false, true, false]),
                (Factor::Marks, [false, false, true, true]),
                (Factor::Facks, [false, false, false, true]),
                (Factor::Settings, [false, false, false, true]),
                (Factor::Depths, [true; 4]),
                (Factor::Load, [workload != Incast; 4]),
            ] {
                let (arms, load) = arms(&[factor], workload);
                let differ: Vec<bool> = arms.iter().zip(&usual).map(|(a, b)| a != b).collect();
                assert_eq!(differ, expected, "{factor:?}");
                assert_eq!(load != 0.8, factor == Factor::Load && workload != Incast);
                for (base, scheme) in &arms {
                    let found = scenario(base, scheme, None).expect("a scenario");
                    let queue = found[0].topology.links().iter().map(|l| l.line.queue_bytes).max();
                    let hula = if scheme.name == "hula" { 30_000 } else { 6000 };
                    assert_eq!(queue, Some(if factor == Factor::Depths { hula } else { 12 << 10 }));
                }
            }
        }
    }
}
