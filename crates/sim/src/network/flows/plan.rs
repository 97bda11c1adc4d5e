//! Which flows there are: who sends to whom, when, and how much. All of it follows from the scenario and the seed, nothing from
//! what happens in the network, so that schemes are compared with equal flows.

use super::sizes::Draws;
use super::{Flows, Load, Pattern, Starts};
use crate::random::{Part, Stream, rounded};
use crate::scenario::parts::SECOND;
use pointsman_topology::{End, SwitchId, Topology};

/// A flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// When it starts, in nanoseconds since the beginning.
    pub at: u64,
    /// The host that sends it, by number.
    pub from: u32,
    /// The host that receives it.
    pub to: u32,
    /// Its length.
    pub bytes: u64,
}

/// Hosts by the switch that they are connected to.
#[derive(Debug)]
pub(super) struct Places {
    /// By leaf: its switch and its hosts.
    pub leaves: Vec<(SwitchId, Vec<u32>)>,
    /// By host: its leaf, and its place there.
    pub of: Vec<(usize, usize)>,
}

impl Places {
    pub fn new(topology: &Topology) -> Self {
        let mut leaves: Vec<(SwitchId, Vec<u32>)> = Vec::new();
        let mut numbers = vec![usize::MAX; topology.switches().len()];
        let mut of = vec![(0, 0); topology.hosts().len()];
        let mut homes = vec![None; topology.hosts().len()];
        for link in topology.links() {
            if let [End::Switch(s, _), End::Host(h)] | [End::Host(h), End::Switch(s, _)] = link.ends {
                homes[h.0 as usize] = Some(s);
            }
        }
        for (host, home) in homes.iter().enumerate() {
            let Some(home) = home else { continue };
            let number = &mut numbers[home.0 as usize];
            if *number == usize::MAX {
                *number = leaves.len();
                leaves.push((*home, Vec::new()));
            }
            let hosts = &mut leaves[*number].1;
            of[host] = (*number, hosts.len());
            hosts.push(host as u32);
        }
        Places { leaves, of }
    }

    fn apart(&self, a: u32, b: u32) -> bool {
        self.of[a as usize].0 != self.of[b as usize].0
    }
}

/// Bits per second that a load is a share of.
pub(super) fn capacity(topology: &Topology, of: Load) -> f64 {
    let hosts = |end: &End| matches!(end, End::Host(_));
    let rate = |l: &pointsman_topology::Link| l.line.bits_per_s as f64;
    let links = topology.links().iter();
    match of {
        Load::Hosts => links.filter(|l| l.ends.iter().any(hosts)).map(rate).sum(),
        Load::Uplinks => {
            let places = Places::new(topology);
            let leaf =
                |end: &End| matches!(end, End::Switch(s, _) if places.leaves.iter().any(|l| l.0 == *s));
            links.filter(|l| !l.ends.iter().any(hosts) && l.ends.iter().any(leaf)).map(rate).sum()
        }
    }
}

/// Flows per second.
pub(super) fn rate_per_s(flows: &Flows, topology: &Topology, load: f64, of: Load) -> f64 {
    load * capacity(topology, of) / 8.0 / flows.sizes.mean()
}

/// About how many flows there will be.
pub(super) fn expected(flows: &Flows, topology: &Topology, duration_ns: u64) -> f64 {
    match &flows.starts {
        Starts::Poisson { load, of } => {
            let of_time = rate_per_s(flows, topology, *load, *of) * duration_ns as f64 / SECOND;
            flows.count.map_or(of_time, |count| of_time.min(count as f64))
        }
        Starts::At(times) => times.len() as f64 * round(flows, topology) as f64,
    }
}

/// Flows that start at once, without a `count`: one of each host, or of each pair.
fn round(flows: &Flows, topology: &Topology) -> u64 {
    let hosts = topology.hosts().len() as u64;
    flows.count.unwrap_or(match flows.pattern {
        Pattern::AllToAll => hosts * (hosts - 1),
        Pattern::Incast { senders, receivers } => u64::from(senders) * u64::from(receivers),
        _ => hosts,
    })
}

/// All flows, in the order of their starts. The topology has what the pattern needs: this was checked when the scenario was read.
pub(super) fn plan(flows: &Flows, topology: &Topology, duration_ns: u64, seed: u64) -> Vec<Flow> {
    let mut pairs = Pairs::new(flows, topology, Stream::new(seed, Part::Arrivals, 1));
    let mut draws = Draws::new(flows.sizes.clone(), Stream::new(seed, Part::Service, 0));
    let mut out = Vec::new();
    let mut add = |at: u64, n: u64, in_turn: bool| {
        let (from, to) = pairs.of(n, in_turn);
        out.push(Flow { at, from, to, bytes: draws.next() });
    };
    match &flows.starts {
        Starts::Poisson { load, of } => {
            let gap = SECOND / rate_per_s(flows, topology, *load, *of);
            let mut random = Stream::new(seed, Part::Arrivals, 0);
            let (mut now, mut n) = (0u64, 0);
            while n < flows.count.unwrap_or(u64::MAX) {
                now = now.saturating_add(rounded(random.exponential() * gap));
                if now >= duration_ns {
                    break;
                }
                add(now, n, false);
                n += 1;
            }
        }
        Starts::At(times) => {
            let each = round(flows, topology);
            times.iter().for_each(|at| (0..each).for_each(|n| add(*at, n, true)));
        }
    }
    out
}

/// Who sends to whom.
struct Pairs {
    pattern: Pattern,
    across: bool,
    places: Places,
    random: Stream,
    /// By host, of a permutation.
    partners: Vec<u32>,
}

impl Pairs {
    fn new(flows: &Flows, topology: &Topology, mut random: Stream) -> Self {
        let places = Places::new(topology);
        let across = flows.across_leaves;
        let partners = match flows.pattern {
            Pattern::Permutation => permutation(&places, across, &mut random),
            _ => Vec::new(),
        };
        Pairs { pattern: flows.pattern, across, places, random, partners }
    }

    /// The hosts of the `n`-th flow: source, destination. Sources are drawn, or take turns.
    fn of(&mut self, n: u64, in_turn: bool) -> (u32, u32) {
        let hosts = self.places.of.len() as u64;
        let drawn = if in_turn { n % hosts } else { self.random.below(hosts) } as u32;
        match self.pattern {
            Pattern::Random => (drawn, self.another(drawn)),
            Pattern::Stride { leaves, places } => {
                let (leaf, place) = self.places.of[drawn as usize];
                let to = &self.places.leaves[(leaf + leaves as usize) % self.places.leaves.len()].1;
                (drawn, to[(place + places as usize) % to.len()])
            }
            Pattern::Permutation => (drawn, self.partners[drawn as usize]),
            Pattern::AllToAll => {
                let (from, round) = (n % hosts, n / hosts);
                (from as u32, ((from + 1 + round % (hosts - 1)) % hosts) as u32)
            }
            Pattern::Incast { senders, receivers } => {
                let (senders, receivers) = (u64::from(senders), u64::from(receivers));
                ((hosts - 1 - n % senders) as u32, (n / senders % receivers) as u32)
            }
        }
    }

    fn another(&mut self, from: u32) -> u32 {
        let hosts = self.places.of.len() as u64;
        loop {
            let to = self.random.below(hosts) as u32;
            if to != from && (!self.across || self.places.apart(from, to)) {
                return to;
            }
        }
    }
}

/// Every host sends to one host and receives from one, another one (under another leaf): a random order, in which pairs that may not
/// be exchange their receivers with others.
fn permutation(places: &Places, across: bool, random: &mut Stream) -> Vec<u32> {
    let hosts = places.of.len();
    let mut to: Vec<u32> = (0..hosts as u32).collect();
    for i in (1..hosts).rev() {
        to.swap(i, random.below(i as u64 + 1) as usize);
    }
    let good = |from: usize, to: u32| from as u32 != to && (!across || places.apart(from as u32, to));
    for i in 0..hosts {
        if good(i, to[i]) {
            continue;
        }
        let first = random.below(hosts as u64) as usize;
        let fits = |j: &usize| good(i, to[*j]) && good(*j, to[i]);
        if let Some(j) = (first..hosts).chain(0..first).find(fits) {
            to.swap(i, j);
        }
    }
    to
}

/// Whether the pattern always sends to another host, and if flows are to go to other leaves, there.
pub(super) fn is_possible(flows: &Flows, topology: &Topology) -> bool {
    let places = Places::new(topology);
    let largest = places.leaves.iter().map(|(_, hosts)| hosts.len()).max().unwrap_or(0);
    let hosts = topology.hosts().len();
    match flows.pattern {
        Pattern::Random => !flows.across_leaves || largest < hosts,
        // With at most half of the hosts under each leaf there is always a host to exchange receivers with.
        Pattern::Permutation => !flows.across_leaves || 2 * largest <= hosts,
        Pattern::Stride { .. } => {
            let mut pairs = Pairs::new(flows, topology, Stream::new(0, Part::Arrivals, 1));
            (0..hosts as u64).map(|n| pairs.of(n, true)).all(|(from, to)| from != to)
        }
        Pattern::AllToAll => true,
        Pattern::Incast { senders, receivers } => u64::from(senders) + u64::from(receivers) <= hosts as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::flows::Sizes;
    use pointsman_topology::{LeafSpine, Line};
    use pointsman_transport::Config;
    use std::collections::{BTreeMap, BTreeSet};

    const MS: u64 = 1_000_000;

    /// Three leaves with four hosts each at 10 Gbit/s, two spines at 40 Gbit/s.
    fn topology() -> Topology {
        let host_line = Line { bits_per_s: 10_000_000_000, ..Line::default() };
        let fabric_line = Line { bits_per_s: 40_000_000_000, ..Line::default() };
        let wanted = LeafSpine { leaves: 3, spines: 2, hosts_per_leaf: 4, host_line, fabric_line };
        wanted.build().expect("a topology")
    }

    fn flows(pattern: Pattern, starts: Starts, count: Option<u64>) -> Flows {
        let sizes = Sizes::Cards(vec![(100_000, 1)].into());
        let tcp = Config::default();
        Flows { sizes, large_above: 1, dscp: (0, 8), pattern, across_leaves: true, starts, count, tcp }
    }

    fn at_once(pattern: Pattern) -> Vec<Flow> {
        plan(&flows(pattern, Starts::At(vec![0]), None), &topology(), 0, 1)
    }

    /// Bytes and capacity, counted by hand.
    #[test]
    fn the_load_is_what_was_asked_for() {
        for (of, capacity) in [(Load::Hosts, 12.0 * 10e9), (Load::Uplinks, 6.0 * 40e9)] {
            let asked = flows(Pattern::Random, Starts::Poisson { load: 0.3, of }, None);
            let planned = plan(&asked, &topology(), 100 * MS, 1);
            let bits = planned.iter().map(|f| f.bytes as f64 * 8.0).sum::<f64>();
            let load = bits / capacity / 0.1;
            assert!((load / 0.3 - 1.0).abs() < 0.05, "{of:?}: {load}");
            assert!(planned.is_sorted_by_key(|f| f.at) && planned.iter().all(|f| f.at < 100 * MS));
            let about = expected(&asked, &topology(), 100 * MS);
            assert!((about / planned.len() as f64 - 1.0).abs() < 0.05, "{about}");
            assert_eq!(planned, plan(&asked, &topology(), 100 * MS, 1));
            assert_ne!(planned, plan(&asked, &topology(), 100 * MS, 2));
        }
        let limited = flows(Pattern::Random, Starts::Poisson { load: 0.3, of: Load::Hosts }, Some(7));
        assert_eq!(plan(&limited, &topology(), u64::MAX, 1).len(), 7);
    }

    #[test]
    fn patterns() {
        let leaf = |h: u32| h / 4;
        let random = flows(Pattern::Random, Starts::At(vec![0, MS]), Some(2000));
        let random = plan(&random, &topology(), 0, 1);
        assert_eq!(random.iter().filter(|f| f.at == MS).count(), 2000);
        assert!(random.iter().all(|f| leaf(f.from) != leaf(f.to)));
        let mut pairs: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        random.iter().for_each(|f| *pairs.entry((f.from, f.to)).or_default() += 1);
        assert!(pairs.len() == 12 * 8 && pairs.values().all(|n| (15..80).contains(n)), "{pairs:?}");

        // The published one: the i-th host of a leaf to the (i + 1)-th of the next.
        let stride = at_once(Pattern::Stride { leaves: 1, places: 1 });
        let stride: Vec<(u32, u32)> = stride.iter().map(|f| (f.from, f.to)).collect();
        assert_eq!(stride[..5], [(0, 5), (1, 6), (2, 7), (3, 4), (4, 9)]);
        assert_eq!(stride[11], (11, 0));

        for seed in 0..50 {
            let random = Stream::new(seed, Part::Arrivals, 1);
            let to = permutation(&Places::new(&topology()), true, &mut random.clone());
            assert_eq!(to.iter().collect::<BTreeSet<_>>().len(), 12);
            assert!((0..).zip(&to).all(|(from, to)| leaf(from) != leaf(*to)), "{to:?}");
            let to = permutation(&Places::new(&topology()), false, &mut random.clone());
            assert!((0..).zip(&to).all(|(from, to)| from != *to), "{to:?}");
        }

        let all: BTreeSet<(u32, u32)> = at_once(Pattern::AllToAll).iter().map(|f| (f.from, f.to)).collect();
        assert_eq!(all.len(), 12 * 11);
        let incast = at_once(Pattern::Incast { senders: 3, receivers: 2 });
        let incast: Vec<(u32, u32)> = incast.iter().map(|f| (f.from, f.to)).collect();
        assert_eq!(incast, [(11, 0), (10, 0), (9, 0), (11, 1), (10, 1), (9, 1)]);
    }

    #[test]
    fn impossible_patterns() {
        let one_leaf = LeafSpine {
            leaves: 1,
            spines: 1,
            hosts_per_leaf: 4,
            host_line: Line::default(),
            fabric_line: Line::default(),
        };
        let one_leaf = one_leaf.build().expect("a topology");
        let starts = || Starts::At(vec![0]);
        for (pattern, here, there) in [
            (Pattern::Random, true, false),
            (Pattern::Permutation, true, false),
            (Pattern::Stride { leaves: 3, places: 0 }, false, false),
            (Pattern::Stride { leaves: 0, places: 1 }, true, true),
            (Pattern::Incast { senders: 4, receivers: 1 }, true, false),
        ] {
            let flows = flows(pattern, starts(), None);
            let possible = (is_possible(&flows, &topology()), is_possible(&flows, &one_leaf));
            assert_eq!(possible, (here, there), "{pattern:?}");
        }
    }
}
