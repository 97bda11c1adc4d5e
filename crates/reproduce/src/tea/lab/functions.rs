//! Table 3.3 on this machine.

use super::{CACHE, ENTRIES, EXPONENT, LATENCY, Lab, MACHINE, RATE, Runs, alone, calm, chart, times, warm_s};
use crate::bench::Bench;
use crate::error::Failed;
use crate::figure::{Claim, Curve, Figure, Found, Place, Quantity, Rule, Source};
use pointsman_tea::{App, Options, Outcome, Part};

const FUNCTION: Quantity = Quantity {
    name: "function",
    unit: "",
    label: "1: NAT; 2: NAT with entries for IPv6; 3: firewall; 4: load balancer; 5: VPN gateway",
    log: false,
};

pub const FIGURE: Figure = Figure {
    id: "tea-table-3.3",
    title: "Latency and rate of network functions with one server",
    source: "TEA, thesis section 3.5.2",
    place: Place::Lab(functions),
    remarks: &[
        MACHINE,
        "each function without a cache, with a cache of 64 of 62,500 entries, and as its plain program, whose entries are all in the switch; Zipf 0.99, packets of 64 bytes. A plain program in a software switch is \
         what a server-based function is in the paper (Click and DPDK on four cores). With TEA the same software switch has more to do for a packet, so that its rate must be lower here",
        "latency is the mean of packets that come one at a time, rate that of packets that leave with 16 under way",
        "claimed are the ratios of the paper's table. The VPN gateway and the second NAT have entries for IPv6, the paper's have not",
        "with --quick the NAT alone",
    ],
    claims: &[
        cached_rate(
            "nat-rate",
            "NAT: rate with the cache over that without it, on this machine",
            79.37 / 10.64,
        ),
        cached_latency(
            "nat-latency",
            "NAT: mean latency with the cache over that without it, on this machine",
            1.93 / 2.34,
        ),
        cached_rate(
            "nat-plain-rate",
            "NAT: rate with the cache over that of the plain program on this machine's switch",
            79.37 / 8.49,
        ),
        cached_latency(
            "nat-plain-latency",
            "NAT: mean latency with the cache over that of the plain program on this machine's switch",
            1.93 / 5.62,
        ),
        cached_rate(
            "nat6-rate",
            "NAT with entries for IPv6: rate with the cache over that without it, on this machine",
            79.37 / 10.64,
        ),
        cached_latency(
            "nat6-latency",
            "NAT with entries for IPv6: mean latency with the cache over that without it, on this machine",
            1.93 / 2.34,
        ),
        cached_rate(
            "nat6-plain-rate",
            "NAT with entries for IPv6: rate with the cache over that of the plain program on this machine's switch",
            79.37 / 8.49,
        ),
        cached_latency(
            "nat6-plain-latency",
            "NAT with entries for IPv6: mean latency with the cache over that of the plain program on this machine's switch",
            1.93 / 5.62,
        ),
        cached_rate(
            "firewall-rate",
            "stateful firewall: rate with the cache over that without it, on this machine",
            79.23 / 10.58,
        ),
        cached_latency(
            "firewall-latency",
            "stateful firewall: mean latency with the cache over that without it, on this machine",
            1.91 / 2.35,
        ),
        cached_rate(
            "firewall-plain-rate",
            "stateful firewall: rate with the cache over that of the plain program on this machine's switch",
            79.23 / 8.37,
        ),
        cached_latency(
            "firewall-plain-latency",
            "stateful firewall: mean latency with the cache over that of the plain program on this machine's switch",
            1.91 / 5.59,
        ),
        cached_rate(
            "lb-rate",
            "load balancer: rate with the cache over that without it, on this machine",
            79.34 / 10.61,
        ),
        cached_latency(
            "lb-latency",
            "load balancer: mean latency with the cache over that without it, on this machine",
            1.91 / 2.33,
        ),
        cached_rate(
            "lb-plain-rate",
            "load balancer: rate with the cache over that of the plain program on this machine's switch",
            79.34 / 8.37,
        ),
        cached_latency(
            "lb-plain-latency",
            "load balancer: mean latency with the cache over that of the plain program on this machine's switch",
            1.91 / 5.64,
        ),
        cached_rate(
            "vpn-rate",
            "VPN gateway: rate with the cache over that without it, on this machine",
            79.45 / 10.80,
        ),
        cached_latency(
            "vpn-latency",
            "VPN gateway: mean latency with the cache over that without it, on this machine",
            1.92 / 2.30,
        ),
        cached_rate(
            "vpn-plain-rate",
            "VPN gateway: rate with the cache over that of the plain program on this machine's switch",
            79.45 / 8.25,
        ),
        cached_latency(
            "vpn-plain-latency",
            "VPN gateway: mean latency with the cache over that of the plain program on this machine's switch",
            1.92 / 5.99,
        ),
    ],
};

const fn cached_rate(id: &'static str, text: &'static str, paper: f64) -> Claim {
    Claim { id, text, paper, unit: "times", rule: Rule::Effect { neutral: 1.0 }, source: Source::Text }
}

const fn cached_latency(id: &'static str, text: &'static str, paper: f64) -> Claim {
    cached_rate(id, text, paper)
}

/// The functions, and ids of their claims.
const FUNCTIONS: [(App, [&str; 4]); 5] = [
    (App::Nat, ["nat-rate", "nat-latency", "nat-plain-rate", "nat-plain-latency"]),
    (App::Nat6, ["nat6-rate", "nat6-latency", "nat6-plain-rate", "nat6-plain-latency"]),
    (App::Firewall, ["firewall-rate", "firewall-latency", "firewall-plain-rate", "firewall-plain-latency"]),
    (App::Lb, ["lb-rate", "lb-latency", "lb-plain-rate", "lb-plain-latency"]),
    (App::Vpn, ["vpn-rate", "vpn-latency", "vpn-plain-rate", "vpn-plain-latency"]),
];

/// What a function has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum With {
    Servers,
    Cache,
    Plain,
}

const VARIANTS: [(With, &str); 3] =
    [(With::Servers, "without the cache"), (With::Cache, "with the cache"), (With::Plain, "plain program")];

fn functions(bench: &Bench) -> Result<Found, Failed> {
    let lab = Lab::new(bench)?;
    let functions = if bench.quick { &FUNCTIONS[..1] } else { &FUNCTIONS[..] };
    let variants: Vec<(App, With)> =
        functions.iter().flat_map(|(app, _)| VARIANTS.map(|(with, _)| (*app, with))).collect();
    let runs = lab.turns("network functions", &variants, |(app, with)| {
        let cache = if *with == With::Cache { CACHE } else { 0 };
        let part = bench.choose(3.0, 1.0);
        Options {
            plain: *with == With::Plain,
            entries: ENTRIES,
            cache,
            zipf: EXPONENT,
            times: times(warm_s(cache), part, part),
            ..lab.options(*app)
        }
    })?;
    Ok(judged(&runs))
}

/// The claims and charts, of the runs of functions, each with three variants.
fn judged(runs: &Runs) -> Found {
    let count = runs.all.len() / VARIANTS.len();
    let rate = |variant| runs.of(variant, calm, Part::per_s);
    let latency = |variant| runs.of(variant, alone, Part::mean_us);
    let mut found = Found { partial: count < FUNCTIONS.len(), ..Found::default() };
    for (n, (_, ids)) in FUNCTIONS.iter().enumerate().take(count) {
        let [none, cache, plain] = [0, 1, 2].map(|v| n * VARIANTS.len() + v);
        found.claim(ids[0], rate(cache).over(&rate(none)));
        found.claim(ids[1], latency(cache).over(&latency(none)));
        found.claim(ids[2], rate(cache).over(&rate(plain)));
        found.claim(ids[3], latency(cache).over(&latency(plain)));
    }
    let curves = |part: fn(&Outcome) -> &Part, value: fn(&Part) -> f64| -> Vec<Curve> {
        let curve = |(v, (_, name)): (usize, &(With, &str))| {
            let point = |n| runs.point((n + 1) as f64, n * VARIANTS.len() + v, part, value);
            Curve { name: (*name).into(), points: (0..count).map(point).collect() }
        };
        VARIANTS.iter().enumerate().map(curve).collect()
    };
    found.charts.push(chart("Rate by function", (FUNCTION, RATE), curves(calm, Part::per_s)));
    found.charts.push(chart("Latency by function", (FUNCTION, LATENCY), curves(alone, Part::mean_us)));
    found.notes.push(runs.note.clone());
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Verdict;

    #[test]
    fn ratios_are_those_of_a_seed() {
        // Packets in a second, and microseconds of each.
        let part = |sent, us: u64| Part { sent, seconds: 1.0, latencies: vec![us * 1000], ..Part::default() };
        let of = |sent, us| -> Vec<Outcome> {
            let outcome =
                |n: u64| Outcome { calm: part(sent * n, 1), alone: part(1, us * n), ..Outcome::default() };
            (1..=5).map(outcome).collect()
        };
        let runs = Runs { all: vec![of(1000, 234), of(7460, 193), of(20_000, 100)], note: String::new() };
        let judged = FIGURE.judge(&judged(&runs)).expect("a value for each claim that was measured");
        let verdicts: Vec<(&str, Verdict)> = judged.iter().map(|j| (j.claim.id, j.verdict)).collect();
        let expected = [
            ("nat-rate", Verdict::Holds),
            ("nat-latency", Verdict::Holds),
            ("nat-plain-rate", Verdict::Fails),
            ("nat-plain-latency", Verdict::Fails),
        ];
        assert_eq!(verdicts, expected);
        assert!((judged[0].evidence.samples[4] - 7.46).abs() < 1e-9);
    }
}
