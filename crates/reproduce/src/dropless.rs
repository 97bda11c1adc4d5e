//! Figure 4.5 of the thesis: the highest rate without loss of our switch, and of a balancer on a core of a SmartNIC, in the lab.

use super::bed::{Bed, apart};
use super::bench::Bench;
use super::figure::{Chart, Claim, Curve, Figure, Found, Place, Point, Quantity, Rule, Source, ratios};
use super::targets::SLOW_CORE;
use crate::error::{ExperimentError, Failed};
use pointsman_balance::Policy;
use pointsman_demo::{Work, description, devices};
use pointsman_lab::load::{self, LoadConfig, LoadResult};
use pointsman_lab::rack::RackSpec;
use pointsman_lab::unpin;
use pointsman_lab::wire::Kind;
use pointsman_trials::validate::load_average;
use std::time::Duration;

/// So many of the requests may be lost.
const MAX_LOSS: f64 = 1e-2;
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
         because a busy machine loses some. Rates are doubled from 300/s on until there is loss, then the interval is halved five times",
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
fn beds(seed: u64) -> Result<[Bed; 3], Failed> {
    let spec = spec();
    let configs = devices(&spec, Work::Timed, seed);
    let mut file = description(&spec, Policy::Wrr, None);
    file.switch.report_timeout_ms = Some(0);
    let nginx = |cores| Bed::nginx(&spec, ("s1/nic", NGINX_PORT), cores, &configs, seed);
    Ok([Bed::switch(&spec, &file, &configs, seed, |_| Ok(()))?, nginx(Some(SLOW_CORE))?, nginx(None)?])
}

/// Requests at a rate.
fn offer(
    bed: &mut Bed,
    rate_rps: f64,
    duration: Duration,
    seed: u64,
) -> Result<LoadResult, pointsman_lab::Error> {
    let config = LoadConfig {
        kind: Kind::Probe,
        timeout: TIMEOUT,
        ..LoadConfig::new(bed.target, rate_rps, duration, seed)
    };
    let client = bed.client()?;
    let (ports, keys) = (&mut bed.ports, &bed.keys);
    client.enter(|| load::run(&config, ports, keys, |_| {})).flatten()
}

/// Waits until a balancer has worked off what an earlier run left in its buffers.
fn drain(bed: &mut Bed, seed: u64) -> Result<(), Failed> {
    for _ in 0..DRAINS {
        let rest = offer(bed, LOW_PER_S, Duration::from_millis(100), seed)?;
        if rest.lost == 0 {
            return Ok(());
        }
    }
    Err(ExperimentError::NoAnswers.into())
}

/// How a rate is searched for.
struct Search {
    /// A rate is without loss if one of so many tries is.
    tries: u32,
    /// Halvings of the interval, on a logarithmic scale, once a rate with loss is known.
    halvings: u32,
}

impl Search {
    /// The highest rate at which `passes` says yes: doubled from [`LOW_PER_S`] on, up to [`MOST_PER_S`], because a balancer that gets far too much may answer
    /// less than it can. 0: it loses requests at the lowest one.
    fn highest(&self, mut passes: impl FnMut(f64) -> Result<bool, Failed>) -> Result<f64, Failed> {
        let mut once = |rate: f64| -> Result<bool, Failed> {
            for _ in 0..self.tries {
                if passes(rate)? {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        let (mut good, mut bad) = (0.0, LOW_PER_S);
        while once(bad)? {
            good = bad;
            if good >= MOST_PER_S {
                return Ok(good);
            }
            bad = (2.0 * good).min(MOST_PER_S);
        }
        for _ in 0..if good > 0.0 { self.halvings } else { 0 } {
            let rate = f64::sqrt(good * bad);
            *if once(rate)? { &mut good } else { &mut bad } = rate;
        }
        Ok(good)
    }
}

/// The highest rate without loss, and the median latency at a low one in milliseconds.
fn measure(bed: &mut Bed, search: &Search, duration: Duration, seed: u64) -> Result<(f64, f64), Failed> {
    // Addresses are resolved by it.
    let low = offer(bed, LOW_PER_S, duration, seed)?;
    let highest = search.highest(|rate| {
        drain(bed, seed)?;
        Ok(passes(rate, &offer(bed, rate, duration, seed)?))
    })?;
    Ok((highest, low.latencies.percentile(50.0).as_secs_f64() * 1e3))
}

/// Whether all requests were sent in time, and nearly all were answered.
fn passes(rate: f64, result: &LoadResult) -> bool {
    let took = result.duration + result.lateness_p99;
    let offered = result.sent as f64 / took.as_secs_f64();
    offered >= 0.97 * rate && result.answered as f64 >= (1.0 - MAX_LOSS) * result.sent as f64
}

fn rates(bench: &Bench) -> Result<Found, Failed> {
    pointsman_lab::raise_open_file_limit().map_err(ExperimentError::OpenFiles)?;
    let first = bench.seeds().next().unwrap_or(1);
    // From here on, what is not a balancer has the other processor.
    apart(|| ());
    let mut beds = beds(first)?;
    let search = Search { tries: 3, halvings: bench.choose(5, 2) };
    let duration = Duration::from_secs_f64(bench.choose(2.0, 1.0));
    let mut measured: [Vec<(f64, f64)>; 3] = Default::default();
    let mut busy: Vec<f64> = Vec::new();
    bench.alone("balancers in turn", |seed| {
        for (bed, runs) in beds.iter_mut().zip(&mut measured) {
            runs.push(measure(bed, &search, duration, seed)?);
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

    /// A balancer that answers next to nothing beyond its limit is not underestimated.
    #[test]
    fn the_highest_rate_is_found_from_below() {
        let search = Search { tries: 3, halvings: 5 };
        for limit in [350.0, 1234.0, 30_000.0] {
            let found = search.highest(|rate| Ok(rate <= limit)).expect("no error");
            assert!(found <= limit && found > 0.97 * limit, "{limit}: {found}");
        }
        assert_eq!(search.highest(|_| Ok(true)).ok(), Some(MOST_PER_S));
        assert_eq!(search.highest(|_| Ok(false)).ok(), Some(0.0));
        // Chance decides once in three times.
        let mut tries = 0;
        let lucky = |rate: f64| {
            tries += 1;
            Ok(rate < 1000.0 && tries % 3 == 0)
        };
        assert!(search.highest(lucky).expect("no error") > 600.0);
    }

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
