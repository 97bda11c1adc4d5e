//! Table 5.4 of the thesis: a balancer on the switch, on a core of a server, and on a core of a SmartNIC, in the lab.

use super::apps;
use super::bench::{Balanced, Bench};
use super::figure::{Chart, Claim, Curve, Figure, Found, P99, Place, Point, Quantity, Ran, Rule, Source};
use super::verdict::Evidence;
use crate::error::{ExperimentError, Failed};
use pointsman_trials::wire::Behind;

/// A SmartNIC's core next to this machine's: the thesis's ratio of the two kinds of devices.
pub const SLOW_CORE: f64 = 0.2;
const RATE_PER_S: f64 = 20.0;
/// Servers: as in the text, and as in the log that the published numbers are of.
const RACKS: [(&str, u32); 2] = [("two servers", 2), ("one server", 1)];

pub const TABLE: Figure = Figure {
    id: "table-5.4",
    title: "Balancers on switch, server and SmartNIC: KNN at 20 requests/s",
    source: "thesis, section 5.7.4",
    place: Place::Lab(table),
    remarks: &[
        "an emulation: devices are queues with sockets, with workers and service times of KNN as in figure 5.7; no device of the thesis is used",
        "nginx balances datagrams by weighted round robin in one process, with the weights of the switch (5:1), in the namespace of a server's processor or SmartNIC, which has a worker \
         fewer. A worker is a third of either device here, a core a tenth of the thesis's server and a sixteenth of its SmartNIC: the model favours the claim",
        "the SmartNIC's core is a cgroup quota of a fifth of this machine's core (cpu.max, or cpu.cfs_quota_us). nginx's own time is not scaled as that of the devices is",
        "two servers, as the text says, can do 37/s: 20/s is about half of that. The published switch column is a run of one server whose client stalled at 14.7/s, so claims are also \
         judged on one server, which can do 18.6/s and is overloaded in all three cases",
    ],
    claims: &[
        less(
            "two-mean-server",
            "two servers: the mean with the switch against nginx on the server",
            0.2385,
            Source::Text,
        ),
        less(
            "two-mean-nic",
            "two servers: the mean with the switch against nginx on the SmartNIC",
            0.2388,
            Source::Text,
        ),
        less(
            "two-p99-server",
            "two servers: P99 with the switch against nginx on the server",
            0.3278,
            Source::Text,
        ),
        less(
            "two-p99-nic",
            "two servers: P99 with the switch against nginx on the SmartNIC",
            0.3192,
            Source::Text,
        ),
        less(
            "one-mean-server",
            "one server: the mean with the switch against nginx on the server",
            0.2385,
            Source::Log,
        ),
        less(
            "one-mean-nic",
            "one server: the mean with the switch against nginx on the SmartNIC",
            0.2388,
            Source::Log,
        ),
        less(
            "one-p99-server",
            "one server: P99 with the switch against nginx on the server",
            0.3278,
            Source::Log,
        ),
        less(
            "one-p99-nic",
            "one server: P99 with the switch against nginx on the SmartNIC",
            0.3192,
            Source::Log,
        ),
    ],
};

const fn less(id: &'static str, text: &'static str, paper: f64, source: Source) -> Claim {
    Claim { id, text, paper, unit: "times", rule: Rule::Effect { neutral: 1.0 }, source }
}

const WHERE: Quantity =
    Quantity { name: "balancer", unit: "", label: "1: switch; 2: server; 3: SmartNIC", log: false };
const MEAN: Quantity = Quantity { name: "mean", unit: "ms", label: "mean latency, ms", log: true };

/// Each rack with our switch, then with nginx on the server, and on the SmartNIC.
fn racks(bench: &Bench) -> Result<Vec<Balanced>, Failed> {
    let nginx = |device: &str, cores| Some(Behind { device: device.into(), cores });
    let mut racks = Vec::new();
    for (_, servers) in RACKS {
        let scenario = apps::KNN.setup(bench, servers, "wrr", RATE_PER_S).scenario(bench)?;
        for behind in [None, nginx("s1/cpu", None), nginx("s1/nic", Some(SLOW_CORE))] {
            racks.push((scenario.clone(), behind));
        }
    }
    Ok(racks)
}

fn table(bench: &Bench) -> Result<Found, Failed> {
    // Before processes are started, which have the limit of their time.
    pointsman_lab::raise_open_file_limit().map_err(ExperimentError::OpenFiles)?;
    let runs = bench.run_behind("KNN on three targets", &racks(bench)?)?;
    let mut found = judged(&runs);
    found.notes.push(format!("nginx on the SmartNIC has {SLOW_CORE} of a core by cgroup quota, on the server a process of its own without a quota"));
    Ok(found)
}

/// The claims and charts, of the runs of each of [`racks`].
fn judged(runs: &[Vec<Ran>]) -> Found {
    const IDS: [[[&str; 2]; 2]; 2] = [
        [["two-mean-server", "two-mean-nic"], ["two-p99-server", "two-p99-nic"]],
        [["one-mean-server", "one-mean-nic"], ["one-p99-server", "one-p99-nic"]],
    ];
    let mut found = Found::default();
    let means = (MEAN, "Mean latency", [446.35, 1871.58, 1868.78]);
    let p99s = (P99, "P99", [1215.29, 3707.79, 3807.06]);
    for (kind, (y, title, paper)) in [means, p99s].into_iter().enumerate() {
        let value = |r: &Ran| if kind == 0 { r.mean_ms } else { r.p99_ms };
        let mut ours = Vec::new();
        for (rack, runs) in runs.chunks(3).enumerate() {
            let at = |n: usize| Point::of((n + 1) as f64, &runs[n], value);
            let points: Vec<Point> = (0..runs.len()).map(at).collect();
            for (n, id) in IDS[rack][kind].into_iter().enumerate() {
                let evidence: Evidence = points[0].evidence().over(&points[n + 1].evidence());
                found.claim(id, evidence);
            }
            ours.push(Curve { name: RACKS[rack].0.into(), points });
        }
        let paper: Vec<(f64, f64)> = (1..).map(f64::from).zip(paper).collect();
        let paper = RACKS.iter().map(|(name, _)| Curve::paper(name, &paper)).collect();
        found.charts.push(Chart { title: title.into(), x: WHERE, y, ours, paper });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Verdict;

    #[test]
    fn each_target_is_compared_with_the_switch() {
        let ran = |mean_ms: f64, p99_ms: f64, lost| Ran {
            lost,
            loss_percent: lost as f64,
            mean_ms,
            p99_ms,
            finished_per_s: 20.0,
            took_s: 30.0,
        };
        // As published on two servers; on one all alike, and the SmartNIC loses requests.
        let of =
            |mean, p99, lost| (0..5).map(|n| ran(mean + f64::from(n), p99 + f64::from(n), lost)).collect();
        let runs: Vec<Vec<Ran>> = vec![
            of(446.0, 1215.0, 0),
            of(1872.0, 3708.0, 0),
            of(1869.0, 3807.0, 0),
            of(300.0, 900.0, 0),
            of(300.0, 900.0, 0),
            of(300.0, 900.0, 2),
        ];
        let judged = TABLE.judge(&judged(&runs)).expect("a value for each claim");
        let verdicts: Vec<Verdict> = judged.iter().map(|j| j.verdict).collect();
        let (holds, fails, open) = (Verdict::Holds, Verdict::Fails, Verdict::Inconclusive);
        assert_eq!(verdicts, [holds, holds, holds, holds, fails, open, fails, open]);
    }
}
