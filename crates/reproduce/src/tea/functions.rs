//! Table 3.3: latency and rate of network functions with one server.

use super::RATE;
use super::adapter::{MODEL, check};
use crate::bench::Bench;
use crate::error::{ExperimentError, Failed};
use crate::figure::{Chart, Claim, Curve, Figure, Found, Place, Point, Quantity, Rule, Source};
use pointsman_remote::Zipf;
use pointsman_testbed::rnic::Rnic;
use pointsman_testbed::tables::Function;
use pointsman_testbed::tables::timed::{Passed, Shape, Timed};
use pointsman_wire::Random;

/// Bytes of a packet without its check sequence.
const BYTES: usize = 60;
/// The paper's popularity of flows, and what its hosts can send, in millions a second.
const EXPONENT: f64 = 0.99;
const OFFERED: [u64; 5] = [10, 20, 40, 80, 138];
const US: u64 = 1000;
/// Between two packets whose latency is measured.
const APART_NS: u64 = 10 * US;

const LOAD: Quantity =
    Quantity { name: "offered", unit: "m_per_s", label: "packets offered, millions a second", log: false };

pub const FIGURE: Figure = Figure {
    id: "tea-table-3.3",
    title: "Latency and rate of network functions with one server",
    source: "TEA, thesis section 3.5.2",
    place: Place::Apart { simulator: functions, lab: &super::lab::functions::FIGURE },
    remarks: &[
        "compiled programs `nat`, `tea-firewall`, `tea-lb` and `tea-vpn` with a cache of 1,024 of 1 million flows (with --quick 64 of 62,500), Zipf 0.99, packets of 64 bytes, one server with four queue pairs \
         behind a model of links and network adapter, in virtual time. Every packet that leaves must show its entry",
        MODEL,
        "with the cache: the most popular flows are in it, as the controller has them after a while (`tea-fig-3.10`)",
        "rates are those of packets that leave while 138 million a second come, which is what the paper's hosts can send. The server answers for 10 million; without a credit a packet is lost at once. \
         So the cache answers for half of what comes, and the server for what it can. In this way the paper's 79 million fit the 49 % of packets that its cache answers",
        "latency is the mean, while the server has nothing else to do. The paper has medians. With half of the packets from the cache, a median of packets would be that of one half or the other, so its \
         1.9 us may be a mean, too. Without the cache its table has 2.3 us, and its figure 3.9 has 1.8: the table has something more in it",
        "the VPN gateway puts packets of 64 bytes into tunnels over IPv4. The paper's flows have IPv4 addresses, so its claims are those of `-D VPN_IPV4`, with entries of 16 bytes. With entries for IPv6, of 40 \
         bytes, the same packets pass; a READ of cells then has 384 bytes instead of 192 (256 of the NAT)",
        "the paper's NAT has entries of 24 bytes, for IPv4. With entries for IPv6, of 60 bytes (`-D NAT_IPV6`), the flows are of IPv6, a packet has 74 bytes, the fewest that hold its headers and number, and \
         a READ of cells has 544 bytes",
        "left out: the functions on a server's processor, whose rates a model would only give back",
    ],
    claims: &[
        latency("nat-latency", "NAT: mean latency without the cache", 2.34),
        latency("nat-cached-latency", "NAT: mean latency with the cache", 1.93),
        rate("nat-rate", "NAT: rate without the cache", 10.64),
        rate("nat-cached-rate", "NAT: rate with the cache", 79.37),
        latency("nat6-latency", "NAT with entries for IPv6: mean latency without the cache", 2.34),
        latency("nat6-cached-latency", "NAT with entries for IPv6: mean latency with the cache", 1.93),
        rate("nat6-rate", "NAT with entries for IPv6: rate without the cache", 10.64),
        rate("nat6-cached-rate", "NAT with entries for IPv6: rate with the cache", 79.37),
        latency("firewall-latency", "stateful firewall: mean latency without the cache", 2.35),
        latency("firewall-cached-latency", "stateful firewall: mean latency with the cache", 1.91),
        rate("firewall-rate", "stateful firewall: rate without the cache", 10.58),
        rate("firewall-cached-rate", "stateful firewall: rate with the cache", 79.23),
        latency("lb-latency", "load balancer: mean latency without the cache", 2.33),
        latency("lb-cached-latency", "load balancer: mean latency with the cache", 1.91),
        rate("lb-rate", "load balancer: rate without the cache", 10.61),
        rate("lb-cached-rate", "load balancer: rate with the cache", 79.34),
        latency("vpn-latency", "VPN gateway: mean latency without the cache", 2.30),
        latency("vpn-cached-latency", "VPN gateway: mean latency with the cache", 1.92),
        rate("vpn-rate", "VPN gateway: rate without the cache", 10.80),
        rate("vpn-cached-rate", "VPN gateway: rate with the cache", 79.45),
        latency("vpn6-latency", "VPN gateway with entries for IPv6: mean latency without the cache", 2.30),
        latency(
            "vpn6-cached-latency",
            "VPN gateway with entries for IPv6: mean latency with the cache",
            1.92,
        ),
        rate("vpn6-rate", "VPN gateway with entries for IPv6: rate without the cache", 10.80),
        rate("vpn6-cached-rate", "VPN gateway with entries for IPv6: rate with the cache", 79.45),
    ],
};

const fn latency(id: &'static str, text: &'static str, paper: f64) -> Claim {
    Claim { id, text, paper, unit: "us", rule: Rule::AtMost, source: Source::Text }
}

const fn rate(id: &'static str, text: &'static str, paper: f64) -> Claim {
    Claim { id, text, paper, unit: "M/s", rule: Rule::AtLeast, source: Source::Text }
}

/// The functions of the table.
const FUNCTIONS: [Function; 6] =
    [Function::Nat, Function::Nat6, Function::Firewall, Function::Balancer, Function::Vpn, Function::Vpn6];

/// Ids of a function's claims: latency and rate without the cache, then with it.
const IDS: [[[&str; 2]; 2]; 6] = [
    [["nat-latency", "nat-rate"], ["nat-cached-latency", "nat-cached-rate"]],
    [["nat6-latency", "nat6-rate"], ["nat6-cached-latency", "nat6-cached-rate"]],
    [["firewall-latency", "firewall-rate"], ["firewall-cached-latency", "firewall-cached-rate"]],
    [["lb-latency", "lb-rate"], ["lb-cached-latency", "lb-cached-rate"]],
    [["vpn-latency", "vpn-rate"], ["vpn-cached-latency", "vpn-cached-rate"]],
    [["vpn6-latency", "vpn6-rate"], ["vpn6-cached-latency", "vpn6-cached-rate"]],
];

/// Without the cache, or with it.
#[derive(Clone, Default)]
struct Measured {
    /// Mean, in microseconds.
    latency: f64,
    /// Millions a second, by [`OFFERED`].
    rates: Vec<f64>,
}

/// A bed with its flows.
struct Flows {
    bed: Timed,
    zipf: Zipf,
    random: Random,
}

impl Flows {
    fn measure(&mut self, bench: &Bench) -> Result<Measured, Failed> {
        let (first, start) = (self.bed.passed().len(), self.bed.now());
        let count = bench.choose(1000, 200);
        for n in 0..count {
            self.bed.look_up(start + n * APART_NS, self.zipf.draw(&mut self.random), BYTES);
        }
        self.bed.run_until(start + (count + 100) * APART_NS);
        let took = |p: &Passed| Some((p.found? - p.came) as f64 / 1e3);
        let latencies: Option<Vec<f64>> = self.bed.passed()[first..].iter().map(took).collect();
        let latencies = latencies.ok_or(ExperimentError::Lost)?;
        let latency = latencies.iter().sum::<f64>() / latencies.len() as f64;
        let rates = OFFERED.map(|offered| self.rate(bench, offered)).to_vec();
        check(&self.bed, &Rnic::default())?;
        Ok(Measured { latency, rates })
    }

    /// Packets that leave while so many come, both in millions a second.
    fn rate(&mut self, bench: &Bench, offered: u64) -> f64 {
        let (first, start) = (self.bed.passed().len(), self.bed.now());
        let (warm, whole) = (200 * US, bench.choose(1000, 200) * US);
        for n in 0..(warm + whole) * offered / US {
            self.bed.look_up(start + n * US / offered, self.zipf.draw(&mut self.random), BYTES);
        }
        self.bed.run_until(start + warm + whole + 1000 * US);
        let within = start + warm..start + warm + whole;
        let left = |p: &&Passed| p.found.is_some_and(|at| within.contains(&at));
        self.bed.passed()[first..].iter().filter(left).count() as f64 * 1e3 / whole as f64
    }
}

/// Without the cache and with it.
fn measure(bench: &Bench, function: Function, seed: u64) -> Result<[Measured; 2], Failed> {
    let (entries, cache) = bench.choose((1_000_000, 1024), (62_500, 64));
    let shape = Shape { function, entries, cache, seed, ..Shape::USUAL };
    let bed = Timed::new(shape, Rnic::default())?;
    let mut flows = Flows { bed, zipf: Zipf::new(entries, EXPONENT), random: Random::new(seed) };
    let without = flows.measure(bench)?;
    flows.bed.fill_cache(cache)?;
    Ok([without, flows.measure(bench)?])
}

fn functions(bench: &Bench) -> Result<Found, Failed> {
    let all =
        bench.each("network functions", &FUNCTIONS, |function, seed| measure(bench, *function, seed))?;
    let mut found = Found::default();
    for (seeds, ids) in all.iter().zip(IDS) {
        for (cache, [latency, rate]) in ids.into_iter().enumerate() {
            let of = |value: fn(&Measured) -> f64| -> Vec<f64> {
                seeds.iter().map(|s| value(&s[cache])).collect()
            };
            found.claim(latency, of(|m| m.latency));
            found.claim(rate, of(|m| m.rates.last().copied().unwrap_or(f64::NAN)));
        }
    }
    let curve = |cache: usize, name: &str| {
        let point = |(place, offered): (usize, &u64)| {
            Point::new(*offered as f64, all[0].iter().map(|s| s[cache].rates[place]).collect())
        };
        Curve { name: name.into(), points: OFFERED.iter().enumerate().map(point).collect() }
    };
    found.charts.push(Chart {
        title: "NAT: rate by what is offered".into(),
        x: LOAD,
        y: RATE,
        ours: vec![curve(0, "without the cache"), curve(1, "with the cache")],
        paper: Vec::new(),
    });
    Ok(found)
}
