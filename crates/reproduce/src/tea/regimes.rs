//! Table 3.1: what network functions cost in four regimes.

use super::servers::popular;
use super::{adapter, chip};
use crate::bench::Bench;
use crate::error::Failed;
use crate::figure::{Chart, Claim, Curve, Figure, Found, Place, Point, Quantity, Rule, Source};

/// A machine of the paper's table: Gbit/s, US dollars, watts.
#[derive(Clone, Copy)]
struct Machine {
    gbit_s: f64,
    price: f64,
    watts: f64,
}

const APPLIANCE: Machine = Machine { gbit_s: 40.0, price: 40_000.0, watts: 480.0 };
const SERVER: Machine = Machine { gbit_s: 10.0, price: 3_000.0, watts: 200.0 };
const SWITCH: Machine = Machine { gbit_s: 3_300.0, price: 10_000.0, watts: 620.0 };

/// The paper's regimes: Gbit/s and flows.
const REGIMES: [(f64, u32); 4] = [(100.0, FEW), (100.0, MANY), (1_000.0, FEW), (10_000.0, MANY)];
const FEW: u32 = 100_000;
const MANY: u32 = 10_000_000;
/// Of the chip.
const STAGES: f64 = 12.0;
/// Mean bytes of packets of traces of data centres (ours), and what a frame has besides on the wire.
const BYTES: usize = 800;
const BETWEEN: usize = 20;
/// The paper's cache and popularity of flows.
const CACHE: u32 = 1024;
const EXPONENT: f64 = 0.99;

const BALANCER: (&str, &str) = ("tea-lb", include_str!("../../../../p4/programs/tea-lb/main.p4"));

const REGIME: Quantity = Quantity {
    name: "regime",
    unit: "",
    label: "1: 100 Gbit/s, 100,000 flows; 2: 100 Gbit/s, 10 million; 3: 1 Tbit/s, 100,000; 4: 10 Tbit/s, 10 million",
    log: false,
};
const PRICE: Quantity = Quantity { name: "price", unit: "usd", label: "price, US dollars", log: true };
const POWER: Quantity = Quantity { name: "power", unit: "w", label: "power, W", log: true };

pub const TABLE: Figure = Figure {
    id: "tea-table-3.1",
    title: "What a load balancer costs in four regimes of traffic and flows",
    source: "TEA, thesis section 3.1",
    place: Place::Simulator(table),
    remarks: &[
        "rates, prices and watts of an appliance, a server and a switch are the paper's constants; so are the regimes. Of the paper's regime of more than 1 Tbit/s we take 1 Tbit/s with few flows and 10 Tbit/s with many, as its text counts machines for them",
        "measured: whether the plain balancer's flows fit on the switch (stages of the chip `tofino`, docs/resources.md), and look-ups a second of a memory server with packets of 800 bytes, as in `tea-fig-3.9`",
        "TEA: as many switches as the traffic needs, and as many servers as the look-ups need that the cache does not answer: the 1,024 most popular of 10 million flows, Zipf 0.99. A server is paid for in full, although \
         its processors stay free for other work",
        "the traffic of look-ups takes ports of the switch, too; this is not counted",
    ],
    claims: &[
        Claim {
            id: "small",
            text: "100,000 flows fit on a switch: stages that the plain balancer takes",
            paper: STAGES,
            unit: "stages",
            rule: Rule::AtMost,
            source: Source::Text,
        },
        Claim {
            id: "large",
            text: "10 million flows do not: stages",
            paper: STAGES + 1.0,
            unit: "stages",
            rule: Rule::AtLeast,
            source: Source::Text,
        },
        cheaper(
            "regime-2",
            "100 Gbit/s, 10 million flows: TEA's price over that of the cheapest other solution",
        ),
        cheaper("regime-4", "10 Tbit/s, 10 million flows: the same"),
    ],
};

const fn cheaper(id: &'static str, text: &'static str) -> Claim {
    Claim { id, text, paper: 1.0, unit: "times", rule: Rule::AtMost, source: Source::Ours }
}

/// How many machines of a kind carry so many Gbit/s.
fn count(machine: Machine, gbit_s: f64) -> f64 {
    (gbit_s / machine.gbit_s).ceil()
}

/// Memory servers for a regime, each of which answers so many million look-ups a second.
fn memory_servers((gbit_s, flows): (f64, u32), rate: f64) -> f64 {
    if flows <= FEW {
        return 0.0;
    }
    let packets = gbit_s * 1e3 / ((BYTES + BETWEEN) as f64 * 8.0);
    (packets * (1.0 - popular(flows, CACHE, EXPONENT)) / rate).ceil()
}

/// A kind of solution: its name, and machines that it needs.
type Solution<'a> = (&'static str, &'a dyn Fn((f64, u32), f64) -> Vec<(f64, Machine)>);

fn table(bench: &Bench) -> Result<Found, Failed> {
    let rates = bench.each("look-ups of 800 bytes", &[()], |(), seed| adapter::most(bench, BYTES, seed))?;
    let rates = rates.concat();
    let stages = |flows: u32| -> Result<f64, Failed> {
        let defines = format!("#define PLAIN\n#define FLOW_ENTRIES {flows}\n");
        Ok(f64::from(chip::report(BALANCER, &defines)?.used()))
    };
    let (small, large) = (stages(FEW)?, stages(MANY)?);
    let mut found = judged(&rates);
    found.claim("small", vec![small; rates.len()]);
    found.claim("large", vec![large; rates.len()]);
    Ok(found)
}

/// The claims about prices and the charts, of millions of look-ups a second that a memory server answers.
fn judged(rates: &[f64]) -> Found {
    let (price, watts) = (|m: &Machine| m.price, |m: &Machine| m.watts);
    let of =
        |machine: Machine| move |(gbit_s, _): (f64, u32), _: f64| vec![(count(machine, gbit_s), machine)];
    let (appliances, servers) = (of(APPLIANCE), of(SERVER));
    let switches = |regime: (f64, u32), _: f64| {
        if regime.1 > FEW { Vec::new() } else { vec![(count(SWITCH, regime.0), SWITCH)] }
    };
    let tea = |regime: (f64, u32), rate: f64| {
        vec![(count(SWITCH, regime.0), SWITCH), (memory_servers(regime, rate), SERVER)]
    };
    let solutions: [Solution<'_>; 4] =
        [("appliances", &appliances), ("servers", &servers), ("switches", &switches), ("TEA", &tea)];
    let sum = |machines: &[(f64, Machine)], value: fn(&Machine) -> f64| -> f64 {
        machines.iter().map(|(n, machine)| n * value(machine)).sum()
    };
    let cost = |solution: usize, regime: usize, rate: f64| {
        sum(&(solutions[solution].1)(REGIMES[regime], rate), price)
    };
    let mut found = Found::default();
    for (id, regime) in [("regime-2", 1), ("regime-4", 3)] {
        let ratio = |rate: &f64| cost(3, regime, *rate) / cost(0, regime, *rate).min(cost(1, regime, *rate));
        found.claim(id, rates.iter().map(ratio).collect::<Vec<f64>>());
    }
    let curves = |value: fn(&Machine) -> f64| -> Vec<Curve> {
        let curve = |(name, machines): &Solution<'_>| {
            let able = REGIMES.iter().enumerate().filter(|(_, r)| !machines(**r, 1.0).is_empty());
            let point = |(n, r): (usize, &(f64, u32))| {
                let samples = rates.iter().map(|rate| sum(&machines(*r, *rate), value)).collect();
                Point::new((n + 1) as f64, samples)
            };
            Curve { name: (*name).into(), points: able.map(point).collect() }
        };
        solutions.iter().map(curve).collect()
    };
    for (title, y, value) in [("Price", PRICE, price as fn(&Machine) -> f64), ("Power", POWER, watts)] {
        let (title, ours) = (title.into(), curves(value));
        found.charts.push(Chart { title, x: REGIME, y, ours, paper: Vec::new() });
    }
    let rate = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    let [two, four] = [1, 3].map(|n| memory_servers(REGIMES[n], rate));
    found.notes.push(format!(
        "a memory server answers {rate:.2} million look-ups a second: regime 2 needs {two:.0} of them, regime 4 {four:.0}"
    ));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_counted_as_in_the_papers_text() {
        assert_eq!(count(APPLIANCE, 100.0) * APPLIANCE.price, 120_000.0);
        assert_eq!(count(SERVER, 10_000.0) * SERVER.price, 3e6);
        assert_eq!(
            (count(APPLIANCE, 1_000.0), count(SERVER, 1_000.0), count(SWITCH, 1_000.0)),
            (25.0, 100.0, 1.0)
        );
        assert_eq!(memory_servers(REGIMES[2], 1.0), 0.0);
        // 1.5 billion packets a second, of which the cache answers for a part.
        let all = 10_000e3 / (820.0 * 8.0);
        let servers = memory_servers(REGIMES[3], 4.0);
        assert!(servers < all / 4.0 && servers > all / 4.0 / 2.0, "{servers}");
        let found = judged(&[4.0; 5]);
        let (_, four) = &found.values[1];
        assert_eq!(four.samples[0], (4.0 * 10_000.0 + servers * 3_000.0) / 3e6);
        // A switch cannot have 10 million flows.
        assert_eq!(found.charts[0].ours[2].points.len(), 2);
    }
}
