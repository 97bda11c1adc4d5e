//! Networks at 10 Gbit/s with flows, as scenarios.

use crate::fabric::run::Base;
use std::fmt::Write;

/// A link of the network is cut, or restored: when in milliseconds, whether it goes up, which.
pub type Event = (f64, bool, &'static str);

/// A network and what its hosts do.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its name.
    pub name: &'static str,
    /// Tables of the network.
    network: String,
    /// Sizes of flows, as in a scenario.
    sizes: String,
    /// When flows start.
    arrivals: &'static str,
    /// Who sends to whom.
    pattern: String,
    /// Flows.
    count: u64,
    /// One way between the controller and a switch, in microseconds.
    control_us: f64,
    /// Until a switch reports a change of a port's carrier, in microseconds.
    detection_us: f64,
    /// In order.
    events: Vec<Event>,
}

/// Sizes of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// Mean 1.67 MB.
    WebSearch,
    /// Mean 7.5 MB; half of the flows have one packet.
    DataMining,
}

impl Sizes {
    /// Both.
    pub const ALL: [Sizes; 2] = [Sizes::WebSearch, Sizes::DataMining];

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Sizes::WebSearch => "web search",
            Sizes::DataMining => "data mining",
        }
    }

    /// The mean of a flow's bytes.
    fn mean_bytes(self) -> f64 {
        match self {
            Sizes::WebSearch => 1141.0 * 1460.0,
            Sizes::DataMining => 5117.0 * 1460.0,
        }
    }

    fn toml(self) -> String {
        format!("sizes = \"{}\"", self.name().replace(' ', "-"))
    }
}

/// Both kinds of links.
const LINKS: &str = "host_link = { rate_gbit_s = 10, delay_us = 1, queue_kib = 512 }\n\
                     fabric_link = { rate_gbit_s = 10, delay_us = 1, queue_kib = 512 }\n";
/// Flows at random times.
const POISSON: &str = "{ process = \"poisson\", load = 0.6, load_of = \"uplinks\" }";
/// Leaves, uplinks of each, and hosts under each of the usual network.
pub const LEAVES: f64 = 4.0;
const UPLINKS: f64 = 4.0;
const RATE: f64 = 10e9;

impl Place {
    /// Four leaves with eight hosts each and four spines; all links have 10 Gbit/s, so that the uplinks carry half of what hosts can send.
    pub fn leaf_spine(sizes: Sizes, count: u64) -> Place {
        let network = format!("[network.leaf_spine]\nleaves = 4\nspines = 4\nhosts_per_leaf = 8\n{LINKS}");
        Place {
            name: "leaf-spine",
            network,
            sizes: sizes.toml(),
            arrivals: POISSON,
            pattern: "pattern = \"random\"".into(),
            count,
            control_us: 200.0,
            detection_us: 1000.0,
            events: Vec::new(),
        }
    }

    /// A fat-tree of three tiers with switches of four ports, and 16 hosts.
    pub fn fat_tree(sizes: Sizes, count: u64) -> Place {
        let network = format!("[network.fat_tree]\nk = 4\n{LINKS}");
        Place { name: "fat-tree", network, ..Place::leaf_spine(sizes, count) }
    }

    /// The testbed of the CONGA paper, a quarter of its hosts and rates: two leaves with eight hosts each, two spines, and two links between
    /// each leaf and each spine.
    pub fn testbed(sizes: Sizes, count: u64) -> Place {
        let mut network = String::from("[network.line]\nrate_gbit_s = 10\nqueue_kib = 512\n");
        for switch in ["leaf1", "leaf2", "spine1", "spine2"] {
            let _ = write!(network, "[[network.switch]]\nname = \"{switch}\"\n");
        }
        for leaf in 1..=2 {
            for n in 1..=8 {
                let (name, address) = (format!("h{leaf}{n}"), format!("10.0.{leaf}.{}", n + 1));
                let _ = write!(network, "[[network.host]]\nname = \"{name}\"\naddress = \"{address}\"\n");
                let _ = write!(network, "[[network.link]]\nends = [\"{name}\", \"leaf{leaf}:{n}\"]\n");
            }
            for spine in 1..=2 {
                for twin in 1..=2 {
                    let (up, down) = (8 + 2 * (spine - 1) + twin, 2 * (leaf - 1) + twin);
                    let name = format!("leaf{leaf}-spine{spine}-{twin}");
                    let ends = format!("[\"leaf{leaf}:{up}\", \"spine{spine}:{down}\"]");
                    let _ = write!(network, "[[network.link]]\nname = \"{name}\"\nends = {ends}\n");
                }
            }
        }
        Place { name: "testbed", network, ..Place::leaf_spine(sizes, count) }
    }

    /// So many hosts send a share of a megabyte each to one host, at once, ten times.
    pub fn incast(senders: u64) -> Place {
        Place {
            name: "incast",
            sizes: format!("size = [{{ bytes = {} }}]", 1_000_000 / senders.max(1)),
            arrivals: "{ process = \"at-once\", at_s = [0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09] }",
            pattern: format!("pattern = \"incast\"\nsenders = {senders}"),
            ..Place::leaf_spine(Sizes::WebSearch, senders)
        }
    }

    /// With another delay of the controller, in microseconds.
    #[must_use]
    pub fn controlled(self, control_us: f64) -> Place {
        Place { control_us, ..self }
    }

    /// With a controller that never hears of a port, and of events of switches only after the end.
    #[must_use]
    pub fn unheard(self) -> Place {
        Place { control_us: 2e5, detection_us: 1e9, ..self }
    }

    /// With these events.
    #[must_use]
    pub fn with(self, events: Vec<Event>) -> Place {
        Place { events, ..self }
    }

    /// The scenario.
    pub fn base(&self) -> Base {
        let Place { name, network, sizes, arrivals, pattern, count, control_us, detection_us, events } = self;
        let mut text = format!(
            "name = \"{name}\"\nduration_s = 60\npatience_s = 2\n{network}[control]\ndelay_us = {control_us}\ndetection_us = {detection_us}\n\
             [flows]\n{sizes}\n{pattern}\ncount = {count}\narrivals = {arrivals}\n\
             [flows.tcp]\nalgorithm = \"dctcp\"\nmin_rto_ms = 5\n"
        );
        for (at_ms, up, link) in events {
            let action = if *up { "link-up" } else { "link-down" };
            let at_s = at_ms / 1e3;
            let _ = write!(text, "[[event]]\nat_s = {at_s}\naction = \"{action}\"\nlink = \"{link}\"\n");
        }
        Base { name: format!("fabric-{name}"), text }
    }
}

/// For how many milliseconds so many flows start on the usual network at a load.
pub fn lasts_ms(sizes: Sizes, count: u64, load: f64) -> f64 {
    let per_s = load * LEAVES * UPLINKS * RATE / 8.0 / sizes.mean_bytes();
    1e3 * count as f64 / per_s
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_sim::network::read;

    #[test]
    fn places_are_scenarios() {
        let none = |name: &str| Err(format!("{name} does not exist").into());
        let cut = vec![(1.0, false, "leaf1-spine1"), (2.5, true, "leaf1-spine1")];
        for place in [
            Place::leaf_spine(Sizes::WebSearch, 10).with(cut).controlled(10.0),
            Place::fat_tree(Sizes::DataMining, 10).with(vec![(0.0, false, "agg1-core1")]),
            Place::testbed(Sizes::WebSearch, 10).with(vec![(0.0, false, "leaf2-spine1-2")]),
            Place::incast(24),
        ] {
            let base = place.base();
            let found = read(&base.name, &base.text, &none);
            assert!(found.as_ref().is_ok_and(|all| all.len() == 1), "{found:?} {}", base.text);
        }
        assert!((lasts_ms(Sizes::WebSearch, 719, 0.6) - 100.0).abs() < 1.0);
    }
}
