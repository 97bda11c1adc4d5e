//! Figure 4.5 of the thesis: the highest rate without loss of our switch, and of a balancer on a core of a SmartNIC, in the lab.

use super::bed::{Bed, apart, text};
use super::bench::Bench;
use super::figure::{Chart, Claim, Curve, Figure, Found, Place, Point, Quantity, Rule, Source, ratios};
use super::targets::SLOW_CORE;
use pointsman_balance::Policy;
use pointsman_demo::{Work, description, devices};
use pointsman_lab::frames::{LossRule, Probe, loss_free};
use pointsman_lab::load::{self, LoadConfig, LoadResult};
use pointsman_lab::rack::RackSpec;
use pointsman_lab::unpin;
use pointsman_lab::wire::Kind;
use pointsman_trials::validate::load_average;
use std::time::Duration;

/// Higher rates are not tried.
const MOST_PER_S: f64 = 40_000.0;
/// At this rate latencies are compared.
const LOW_PER_S: f64 = 300.0;
/// So often a balancer is asked whether it answers again after too much load: for some 20 s.
const DRAINS: u32 = 40;
/// Later answers are lost.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Port of nginx, on the SmartNIC's address.
const NGINX_PORT: u16 = 8001;

pub const FIGURE: Figure = Figure {
    id: "fig-4.5",
    title: "P4Mite against a balancer on a core of a SmartNIC: the highest rate without loss",
    source: "thesis, section 4.5.4",
    place: Place::Lab(rates),
    remarks: &[
        "an emulation: our switch with one worker, and nginx in the SmartNIC's namespace, each on one core of this machine; client and devices use another one. The SmartNIC's core is a \
         cgroup quota of a fifth of a core, the thesis's ratio of the two kinds of devices. Neither a Tofino nor a SmartNIC is used: only the ratio can be compared",
        "a request is a datagram from a new source port, which its device answers at once. Without loss: at most 1 in 100 is lost or takes half a second, in one of three tries, \
         because a busy machine loses some",
        "the thesis's balancer on the SmartNIC is, by its published programs, a Python program that reads packets with scapy; nginx is a production proxy",
    ],
    claims: &[
        Claim {
            id: "rate",
            text: "the switch's highest rate without loss against that of the balancer on the SmartNIC's core (8,000/s and 700/s)",
            paper: 11.4,
            unit: "times",
            rule: Rule::Effect { neutral: 1.0 },
            source: Source::Text,
        },
        Claim {
            id: "slower",
            text: "the balancer on the SmartNIC is slower: its median latency at 300/s against the switch's",
            paper: 1.0,
            unit: "times",
            rule: Rule::AtLeast,
            source: Source::Text,
        },
    ],
};

const WHO: Quantity = Quantity {
    name: "balancer",
    unit: "",
    label: "1: our switch; 2: nginx on a fifth of a core; 3: nginx on a core",
    log: false,
};
const RATE: Quantity =
    Quantity { name: "rate", unit: "per_s", label: "highest rate without loss, requests/s", log: true };
const MEDIAN: Quantity =
    Quantity { name: "median", unit: "ms", label: "median latency at 300/s, ms", log: true };

/// A server with a SmartNIC.
fn spec() -> RackSpec {
    let mut spec = RackSpec { offloads: true, ..RackSpec::demo() };
    spec.servers.truncate(1);
    spec
}

/// Our switch, nginx on the SmartNIC's core, and nginx on a core of this machine.
fn beds(seed: u64) -> Result<[Bed; 3], String> {
    let spec = spec();
    let configs = devices(&spec, Work::Timed, seed);
    let mut file = description(&spec, Policy::Wrr, None);
    file.switch.report_timeout_ms = Some(0);
    let nginx = |cores| Bed::nginx(&spec, ("s1/nic", NGINX_PORT), cores, &configs, seed);
    Ok([Bed::switch(&spec, &file, &configs, seed, |_| Ok(()))?, nginx(Some(SLOW_CORE))?, nginx(None)?])
}

/// Requests at a rate.
fn offer(bed: &mut Bed, rate_rps: f64, duration: Duration, seed: u64) -> Result<LoadResult, String> {
    let config = LoadConfig {
        kind: Kind::Probe,
        timeout: TIMEOUT,
        ..LoadConfig::new(bed.target, rate_rps, duration, seed)
    };
    let client = bed.client()?;
    let (ports, keys) = (&mut bed.ports, &bed.keys);
    client.enter(|| load::run(&config, ports, keys, |_| {})).map_err(text)?.map_err(text)
}

/// Waits until a balancer has worked off what an earlier run left in its buffers.
fn drain(bed: &mut Bed, seed: u64) -> Result<(), String> {
    for _ in 0..DRAINS {
        let rest = offer(bed, LOW_PER_S, Duration::from_millis(100), seed)?;
        if rest.lost == 0 {
            return Ok(());
        }
    }
    Err("the balancer answers nothing more".into())
}

/// The highest rate without loss, and the median latency at a low one in milliseconds.
fn measure(bed: &mut Bed, rule: &LossRule, duration: Duration, seed: u64) -> Result<(f64, f64), String> {
    // Addresses are resolved by it.
    let low = offer(bed, LOW_PER_S, duration, seed)?;
    let found = loss_free(rule, |rate| {
        drain(bed, seed)?;
        let asked = rate.unwrap_or(MOST_PER_S);
        offer(bed, asked, duration, seed).map(|result| probe(rate, asked, &result))
    })?;
    Ok((found.loss_free_pps, low.latencies.percentile(50.0).as_secs_f64() * 1e3))
}

/// A run as the search needs it. A generator that fell behind has offered less than it was to.
fn probe(asked_pps: Option<f64>, rate: f64, result: &LoadResult) -> Probe {
    let took = result.duration + result.lateness_p99;
    let offered_pps = rate.min(result.sent as f64 / took.as_secs_f64());
    Probe { asked_pps, offered_pps, sent: result.sent, received: result.answered, cpu_ns: 0 }
}

fn rates(bench: &Bench) -> Result<Found, String> {
    pointsman_lab::raise_open_file_limit()
        .map_err(|e| format!("cannot raise the limit of open files: {e}"))?;
    let first = bench.seeds().next().unwrap_or(1);
    // From here on, what is not a balancer has the other processor.
    apart(|| ());
    let mut beds = beds(first)?;
    let rule =
        LossRule { max_loss: 1e-2, tries: 3, steps: bench.choose(12, 5), precision: bench.choose(0.03, 0.2) };
    let duration = Duration::from_secs_f64(bench.choose(2.0, 1.0));
    let mut measured: [Vec<(f64, f64)>; 3] = Default::default();
    let mut busy: Vec<f64> = Vec::new();
    bench.alone("balancers in turn", |seed| {
        for (bed, runs) in beds.iter_mut().zip(&mut measured) {
            runs.push(measure(bed, &rule, duration, seed)?);
        }
        busy.extend(load_average());
        Ok(())
    })?;
    let _ = unpin();
    let mut found = judged(&measured);
    let most = busy.iter().copied().fold(0.0, f64::max);
    found.notes.push(format!(
        "in the lab: balancers ran in turn, {} times each, {} s for each rate up to {MOST_PER_S}/s; the machine's load average was up to {most}",
        measured[0].len(),
        duration.as_secs_f64(),
    ));
    Ok(found)
}

/// Claims and charts, of the highest rate and the median latency of each balancer.
fn judged(measured: &[Vec<(f64, f64)>; 3]) -> Found {
    let mut found = Found::default();
    let [rates, medians] = [0, 1].map(|n| {
        measured.each_ref().map(|runs| -> Vec<f64> { runs.iter().map(|r| [r.0, r.1][n]).collect() })
    });
    found.claim("rate", ratios(&rates[0], &rates[1]));
    found.claim("slower", ratios(&medians[1], &medians[0]));
    let points = |values: [Vec<f64>; 3]| {
        values.into_iter().enumerate().map(|(n, v)| Point::new((n + 1) as f64, v)).collect()
    };
    let paper = vec![Curve::paper("balancers", &[(1.0, 8000.0), (2.0, 700.0)])];
    let name = || "balancers".to_string();
    let rates = vec![Curve { name: name(), points: points(rates) }];
    found.charts.push(Chart {
        title: "Highest rate without loss".into(),
        x: WHO,
        y: RATE,
        ours: rates,
        paper,
    });
    let medians = vec![Curve { name: name(), points: points(medians) }];
    found.charts.push(Chart { title: "Latency".into(), x: WHO, y: MEDIAN, ours: medians, paper: vec![] });
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Verdict;

    #[test]
    fn rates_and_latencies_are_compared() {
        let of = |rate: f64, median: f64| (0..5).map(|n| (rate + f64::from(n), median)).collect::<Vec<_>>();
        let verdicts = |measured| {
            let judged = FIGURE.judge(&judged(&measured)).expect("a value for each claim");
            judged.iter().map(|j| j.verdict).collect::<Vec<_>>()
        };
        let holds = [of(8000.0, 0.1), of(700.0, 0.3), of(3000.0, 0.2)];
        assert_eq!(verdicts(holds), [Verdict::Holds, Verdict::Holds]);
        let turned = [of(700.0, 0.3), of(8000.0, 0.1), of(3000.0, 0.2)];
        assert_eq!(verdicts(turned), [Verdict::Fails, Verdict::Fails]);
    }
}
