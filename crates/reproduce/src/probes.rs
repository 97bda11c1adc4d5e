//! The paper on probes and PROMETHEE ("adaptive load balancing in P4"). Its measurements are of virtual machines that share one
//! laptop with switch and clients. Figure 7.1 is here; those of the lab are in `machines`.

use super::bench::Bench;
use super::figure::{Chart, Claim, Curve, Figure, Found, Place, Point, Quantity, Rule, Source, ratios};
use super::setup::{Setup, Unit};
use crate::error::Failed;
use crate::scenario_file::{ArrivalsSection, SessionSection, StressSection};
use pointsman_balance::DeviceKind;
use pointsman_balance::config::file::{CriterionSection, PrometheusSection};
use pointsman_decide::promethee::Goal;
use pointsman_sim::{Outcome, Scenario};
use std::sync::Arc;

/// Next to those of the lab.
pub const FIGURES: &[Figure] = &[COMPARED];

const COMPARED: Figure = Figure {
    id: "probes-fig-7.1",
    title: "Balancers compared, one of two machines under stress",
    source: "paper on probes, chapter 7",
    place: Place::Simulator(compared),
    remarks: &[
        "two machines with one processor; 100 clients, a new one every 0.51 s (0.5 s, and the start of its program), each with one connection and a request every second, \
         30 in all (section 5.4.1, without its answers of 5 MB, which no link of one machine carries for 60 clients); 1 ms per request",
        "stress is seven processes that use the first machine's processor all the time, so a request gets an eighth of it, and three \
         quarters of its memory (7 times 256 MB of 2,405 MB). Probes every 5 s, in the paper's format, with its weights",
        "PROMETHEE: the controller's module with the paper's judgements (network before processor before memory), \"usual\" preferences \
         and 5 s between decisions; rates over a minute, as in the paper's queries, of values that are read every 15 s, as Prometheus's \
         own example does",
        "the published response times come from one run on virtual machines that share a laptop with switch and clients, and cannot be \
         those of answers of 5 MB: 0.2 to 14 ms",
        "seeds change the times of services only: most shares are the same with all",
        "the published program takes microseconds for nanoseconds: its probe time-out is 2.8 h, not 10 s. Its controller confuses the \
         rank of the first of two machines with the number of the best",
    ],
    claims: &[
        Claim {
            id: "rr-even",
            text: "round robin gives the machine under stress as much as the other: its share",
            paper: 50.0,
            unit: "percent",
            rule: Rule::Same { within: 1.0 },
            source: Source::Text,
        },
        Claim {
            id: "probes-share",
            text: "by probes, the machine under stress gets less: its share",
            paper: 42.0,
            unit: "percent",
            rule: Rule::Effect { neutral: 50.0 },
            source: Source::Text,
        },
        Claim {
            id: "probes-response",
            text: "under stress, the mean response time by probes against round robin's",
            paper: 0.0404,
            unit: "times",
            rule: Rule::Effect { neutral: 1.0 },
            source: Source::Text,
        },
        Claim {
            id: "probes-idle",
            text: "without stress, the mean response time by probes against round robin's",
            paper: 0.211,
            unit: "times",
            rule: Rule::Effect { neutral: 1.0 },
            source: Source::Text,
        },
        Claim {
            id: "promethee-share",
            text: "by PROMETHEE, the machine under stress gets less: its share",
            paper: 17.0,
            unit: "percent",
            rule: Rule::Effect { neutral: 50.0 },
            source: Source::Text,
        },
        Claim {
            id: "promethee-blind-share",
            text: "by PROMETHEE without its criterion of the network, the machine under stress gets as little as in the paper: its share",
            paper: 17.0,
            unit: "percent",
            rule: Rule::Effect { neutral: 50.0 },
            source: Source::Ours,
        },
        Claim {
            id: "promethee-response",
            text: "under stress, the mean response time by PROMETHEE against round robin's",
            paper: 0.0424,
            unit: "times",
            rule: Rule::Effect { neutral: 1.0 },
            source: Source::Text,
        },
        Claim {
            id: "promethee-idle",
            text: "without stress, the mean response time by PROMETHEE against round robin's",
            paper: 0.361,
            unit: "times",
            rule: Rule::Effect { neutral: 1.0 },
            source: Source::Text,
        },
    ],
};

/// Client timeout.
const PATIENCE_S: f64 = 20.0;
const CLIENTS: u32 = 100;
/// Time from one client to the next: half a second, and what it takes to start one. So no two ask at the same moment for ever.
const JOIN_S: f64 = 0.51;
/// Requests of a client, a second apart.
const REQUESTS: u32 = 30;

/// A balancer: its name as in the paper, or ours, and its policy.
struct Balancer {
    name: &'static str,
    policy: &'static str,
    /// PROMETHEE's criteria: all, or processor and memory only.
    network: bool,
}

const fn balancer(name: &'static str, policy: &'static str) -> Balancer {
    Balancer { name, policy, network: true }
}

const BALANCERS: [Balancer; 6] = [
    balancer("hash", "ecmp"),
    balancer("round robin", "wrr"),
    balancer("probes", "probe-wrr"),
    balancer("PROMETHEE", "chosen"),
    Balancer { name: "PROMETHEE without the network (ours)", policy: "chosen", network: false },
    balancer("least connections (ours)", "least-connections"),
];

/// Queries and judgements of the paper's controller for so many machines: processor, memory and sent bytes.
pub fn prometheus(machines: usize, network: bool) -> PrometheusSection {
    let criterion =
        |name: &str, promql: &str, goal| CriterionSection { name: name.into(), promql: promql.into(), goal };
    let mut criteria = vec![
        criterion("processor", "simulated_use_percent", Goal::Cost),
        criterion("memory", "simulated_free_memory_percent", Goal::Benefit),
        criterion("network", "simulated_sent_bytes_per_s", Goal::Cost),
    ];
    let mut judgements: Vec<Vec<f64>> =
        [[1.0, 4.0, 0.5], [0.25, 1.0, 0.16667], [2.0, 6.0, 1.0]].map(Vec::from).into();
    if !network {
        criteria.truncate(2);
        judgements.truncate(2);
        judgements.iter_mut().for_each(|row| row.truncate(2));
    }
    PrometheusSection {
        url: "http://127.0.0.1:9090".into(),
        interval_ms: 5000,
        alternatives: (1..=machines).map(|n| (format!("s1/vm{n}"), format!("vm{n}"))).collect(),
        judgements,
        criteria,
    }
}

/// Each balancer without stress, then with it.
fn scenarios(bench: &Bench) -> Result<Vec<Arc<Scenario>>, Failed> {
    let machine =
        |name, kind| Unit { name, kind, weight: 1, workers: 1, mean_ms: 1.0, sigma: 0.5, speed: 1.0 };
    // Of different kinds, so that results distinguish them.
    let machines = [machine("vm1", DeviceKind::Cpu), machine("vm2", DeviceKind::Other)];
    let joins = (1..=CLIENTS).map(|i| format!("{}\n", f64::from(i) * JOIN_S)).collect::<String>();
    let mut scenarios = Vec::new();
    for balancer in &BALANCERS {
        for stress in [None, Some(StressSection { processes: 7, memory_percent: 75.0 })] {
            let arrivals = ArrivalsSection::Trace { file: "joins.csv" };
            let mut s = Setup::new(1, &machines, balancer.policy, arrivals);
            s.files.insert("joins.csv".into(), format!("time_s\n{joins}"));
            s.session = Some(SessionSection { requests: REQUESTS, gap_ms: 1000.0 });
            s.scrape_s = Some(15.0);
            s.stress = stress;
            if balancer.policy == "probe-wrr" {
                s.probes_ms = Some(5000.0);
                s.report_timeout_ms = 15_000;
            }
            if balancer.policy == "chosen" {
                s.prometheus = Some(prometheus(2, balancer.network));
            }
            s.warmup_s = 0.0;
            s.duration_s = f64::from(CLIENTS) * JOIN_S + f64::from(REQUESTS) + 1.0;
            s.patience_s = PATIENCE_S;
            scenarios.push(s.scenario(bench)?);
        }
    }
    Ok(scenarios)
}

/// Share of the first machine, in per cent.
fn share_of_first(o: &Outcome) -> f64 {
    let all: u64 = o.groups.iter().map(|g| g.answered).sum();
    let stressed = o.groups.iter().find(|g| g.kind == "cpu").map_or(0, |g| g.answered);
    100.0 * stressed as f64 / all.max(1) as f64
}

fn compared(bench: &Bench) -> Result<Found, Failed> {
    let outcomes = bench.simulate_all("two machines", &scenarios(bench)?)?;
    let mut found = Found::default();
    let mean = |i: usize| -> Vec<f64> { outcomes[i].iter().map(|o| o.latency.mean_ms).collect() };
    let share = |i: usize| -> Vec<f64> { outcomes[i].iter().map(share_of_first).collect() };
    // Each balancer without stress, then with it.
    found.claim("rr-even", share(3));
    found.claim("probes-share", share(5));
    found.claim("probes-response", ratios(&mean(5), &mean(3)));
    found.claim("probes-idle", ratios(&mean(4), &mean(2)));
    found.claim("promethee-share", share(7));
    found.claim("promethee-blind-share", share(9));
    found.claim("promethee-response", ratios(&mean(7), &mean(3)));
    found.claim("promethee-idle", ratios(&mean(6), &mean(2)));
    found.charts = charts(&mean, &share);
    Ok(found)
}

/// Response time and share of the first machine, without stress and with it.
fn charts(mean: &dyn Fn(usize) -> Vec<f64>, share: &dyn Fn(usize) -> Vec<f64>) -> Vec<Chart> {
    let stress = Quantity { name: "stressed", unit: "machines", label: "machines under stress", log: false };
    let response = Quantity { name: "response", unit: "ms", label: "mean response time, ms", log: true };
    let shares = Quantity {
        name: "share",
        unit: "percent",
        label: "share of the first machine, per cent",
        log: false,
    };
    let curves = |of: &dyn Fn(usize) -> Vec<f64>| -> Vec<Curve> {
        let curve = |(i, balancer): (usize, &Balancer)| Curve {
            name: balancer.name.to_string(),
            points: vec![Point::new(0.0, of(2 * i)), Point::new(1.0, of(2 * i + 1))],
        };
        BALANCERS.iter().enumerate().map(curve).collect()
    };
    let paper = |points: [(&str, f64, f64); 4]| {
        points
            .iter()
            .map(|(name, idle, stressed)| Curve::paper(name, &[(0.0, *idle), (1.0, *stressed)]))
            .collect()
    };
    let response = Chart {
        title: "Response time".into(),
        x: stress,
        y: response,
        ours: curves(mean),
        paper: paper([
            ("hash", 1.305, 13.997),
            ("round robin", 1.072, 11.24),
            ("probes", 0.226, 0.4536),
            ("PROMETHEE", 0.387, 0.4763),
        ]),
    };
    let shares = Chart {
        title: "Share of the first machine".into(),
        x: stress,
        y: shares,
        ours: curves(share),
        // The paper lists two numbers without attributing them; the smaller is taken as the stressed machine's.
        paper: paper([
            ("hash", 48.0, 47.0),
            ("round robin", 50.0, 50.0),
            ("probes", 50.0, 42.0),
            ("PROMETHEE", 33.0, 17.0),
        ]),
    };
    vec![response, shares]
}
