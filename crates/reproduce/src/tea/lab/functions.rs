//! Table 3.3 on this machine.

use super::{CACHE, ENTRIES, EXPONENT, LATENCY, Lab, MACHINE, RATE, Runs, alone, calm, chart, times, warm_s};
use crate::bench::Bench;
use crate::error::Failed;
use crate::figure::{Claim, Curve, Figure, Found, Place, Quantity, Rule, Source};
use pointsman_tea::{App, Held, Options, Outcome, Part};

const FUNCTION: Quantity = Quantity {
    name: "function",
    unit: "",
    label: "1: NAT; 2: NAT with entries for IPv6; 3: firewall; 4: load balancer; 5: VPN gateway",
    log: false,
};

/// The claims on a function's rate and latency with the cache, over those of another variant: the beginning of their ids, the function, the other variant, the
/// ratios of rate and latency in the paper.
macro_rules! cached {
    ($($id:literal $function:literal $other:literal ($rate:expr, $latency:expr))*) => {
        &[$(
            effect(concat!($id, "-rate"), concat!($function, ": rate with the cache over ", $other), $rate),
            effect(concat!($id, "-latency"), concat!($function, ": mean latency with the cache over ", $other), $latency),
        )*]
    };
}

pub const FIGURE: Figure = Figure {
    id: "tea-table-3.3",
    title: "Latency and rate of network functions with one server",
    source: "TEA, thesis section 3.5.2",
    place: Place::Lab(functions),
    remarks: &[
        MACHINE,
        "each function without a cache, with a cache of 64 of 62,500 entries, and as its plain program, whose entries are all in the switch; Zipf 0.99, packets of 64 bytes. A plain program in a software switch is \
         what a server-based function is in the paper (Click and DPDK on four cores). With TEA the same software switch has more to do for a packet, so that its rate must be lower here",
        "server-based is nftables in the kernel, too, with all entries in its maps, for functions that it can do the same way: not for the VPN gateway",
        "latency is the mean of packets that come one at a time, rate that of packets that leave with 16 under way",
        "claimed are the ratios of the paper's table. The VPN gateway and the second NAT have entries for IPv6, the paper's have not",
        "with --quick the NAT alone",
    ],
    claims: cached![
        "nat" "NAT" "that without it, on this machine" (79.37 / 10.64, 1.93 / 2.34)
        "nat-plain" "NAT" "that of the plain program on this machine's switch" (79.37 / 8.49, 1.93 / 5.62)
        "nat-nftables" "NAT" "that of nftables in this machine's kernel" (79.37 / 8.49, 1.93 / 5.62)
        "nat6" "NAT with entries for IPv6" "that without it, on this machine" (79.37 / 10.64, 1.93 / 2.34)
        "nat6-plain" "NAT with entries for IPv6" "that of the plain program on this machine's switch" (79.37 / 8.49, 1.93 / 5.62)
        "nat6-nftables" "NAT with entries for IPv6" "that of nftables in this machine's kernel" (79.37 / 8.49, 1.93 / 5.62)
        "firewall" "stateful firewall" "that without it, on this machine" (79.23 / 10.58, 1.91 / 2.35)
        "firewall-plain" "stateful firewall" "that of the plain program on this machine's switch" (79.23 / 8.37, 1.91 / 5.59)
        "firewall-nftables" "stateful firewall" "that of nftables in this machine's kernel" (79.23 / 8.37, 1.91 / 5.59)
        "lb" "load balancer" "that without it, on this machine" (79.34 / 10.61, 1.91 / 2.33)
        "lb-plain" "load balancer" "that of the plain program on this machine's switch" (79.34 / 8.37, 1.91 / 5.64)
        "lb-nftables" "load balancer" "that of nftables in this machine's kernel" (79.34 / 8.37, 1.91 / 5.64)
        "vpn" "VPN gateway" "that without it, on this machine" (79.45 / 10.80, 1.92 / 2.30)
        "vpn-plain" "VPN gateway" "that of the plain program on this machine's switch" (79.45 / 8.25, 1.92 / 5.99)
    ],
};

const fn effect(id: &'static str, text: &'static str, paper: f64) -> Claim {
    Claim { id, text, paper, unit: "times", rule: Rule::Effect { neutral: 1.0 }, source: Source::Text }
}

/// A function, and how many other variants it has, besides that of which claims are.
type Function = (App, usize);

/// Claims are in this order, two for each other variant.
const FUNCTIONS: [Function; 5] =
    [(App::Nat, 3), (App::Nat6, 3), (App::Firewall, 3), (App::Lb, 3), (App::Vpn, 2)];

/// What a function is run with: the variant of which claims are, and the others.
struct Variant {
    held: Held,
    cache: u32,
    name: &'static str,
}

const CACHED: usize = 0;
const VARIANTS: [Variant; 4] = [
    Variant { held: Held::Servers, cache: CACHE, name: "with the cache" },
    Variant { held: Held::Servers, cache: 0, name: "without the cache" },
    Variant { held: Held::Switch, cache: 0, name: "plain program" },
    Variant { held: Held::Kernel, cache: 0, name: "nftables" },
];

/// The runs of some functions: the number of a function, and of its variant.
fn variants(functions: &[Function]) -> Vec<(usize, usize)> {
    let of = |(n, (_, others)): (usize, &Function)| (0..=*others).map(move |v| (n, v));
    functions.iter().enumerate().flat_map(of).collect()
}

fn functions(bench: &Bench) -> Result<Found, Failed> {
    let lab = Lab::new(bench)?;
    let functions = if bench.quick { &FUNCTIONS[..1] } else { &FUNCTIONS[..] };
    let all = variants(functions);
    let runs = lab.turns("network functions", &all, |(function, variant)| {
        let Variant { held, cache, .. } = VARIANTS[*variant];
        let part = bench.choose(3.0, 1.0);
        Options {
            held,
            entries: ENTRIES,
            cache,
            zipf: EXPONENT,
            times: times(warm_s(cache), part, part),
            ..lab.options(functions[*function].0)
        }
    })?;
    Ok(judged(functions, &runs))
}

/// The claims and charts, of the runs of functions with all their variants.
fn judged(functions: &[Function], runs: &Runs) -> Found {
    let all = variants(functions);
    let run = |n, v| all.iter().position(|of| *of == (n, v));
    let rate = |run| runs.of(run, calm, Part::per_s);
    let latency = |run| runs.of(run, alone, Part::mean_us);
    let mut found = Found { partial: functions.len() < FUNCTIONS.len(), ..Found::default() };
    let others = all.iter().filter(|(_, variant)| *variant != CACHED);
    for ((n, variant), claims) in others.zip(FIGURE.claims.chunks(2)) {
        let (Some(cached), Some(other)) = (run(*n, CACHED), run(*n, *variant)) else { continue };
        found.claim(claims[0].id, rate(cached).over(&rate(other)));
        found.claim(claims[1].id, latency(cached).over(&latency(other)));
    }
    let curves = |part: fn(&Outcome) -> &Part, value: fn(&Part) -> f64| -> Vec<Curve> {
        let curve = |(v, variant): (usize, &Variant)| {
            let point = |n| Some(runs.point((n + 1) as f64, run(n, v)?, part, value));
            Curve { name: variant.name.into(), points: (0..functions.len()).filter_map(point).collect() }
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
        let all = vec![of(7460, 193), of(1000, 234), of(20_000, 100), of(800, 560)];
        let runs = Runs { all, note: String::new() };
        let found = judged(&FUNCTIONS[..1], &runs);
        assert_eq!(found.charts[0].ours.iter().map(|c| c.points.len()).collect::<Vec<_>>(), [1, 1, 1, 1]);
        let judged = FIGURE.judge(&found).expect("a value for each claim that was measured");
        let verdicts: Vec<(&str, Verdict)> = judged.iter().map(|j| (j.claim.id, j.verdict)).collect();
        let expected = [
            ("nat-rate", Verdict::Holds),
            ("nat-latency", Verdict::Holds),
            ("nat-plain-rate", Verdict::Fails),
            ("nat-plain-latency", Verdict::Fails),
            ("nat-nftables-rate", Verdict::Holds),
            ("nat-nftables-latency", Verdict::Holds),
        ];
        assert_eq!(verdicts, expected);
        assert!((judged[0].evidence.samples[4] - 7.46).abs() < 1e-9);
    }

    #[test]
    fn every_claim_is_of_a_variant() {
        let all = variants(&FUNCTIONS);
        let others = all.iter().filter(|(_, variant)| *variant != CACHED);
        let names: Vec<String> = others
            .flat_map(|(n, variant)| {
                let function = ["nat", "nat6", "firewall", "lb", "vpn"][*n];
                let variant = ["", "", "-plain", "-nftables"][*variant];
                ["rate", "latency"].map(|what| format!("{function}{variant}-{what}"))
            })
            .collect();
        assert_eq!(FIGURE.claims.iter().map(|c| c.id).collect::<Vec<_>>(), names);
    }
}
