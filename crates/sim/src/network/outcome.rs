//! The results of one simulation of a network.

use super::check::LAWS;
use super::flows::FlowResults;
use super::timeline::Timeline;
use crate::check::Violations;
use crate::link::LinkCounts;
use crate::outcome::{Latency, Requests};
use pointsman_fabric::Quantity;
use pointsman_ir::Executor;
use pointsman_net::{Network, PortCounts};
use pointsman_topology::{End, LinkId, SwitchId, Topology};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The results of one simulation of a network.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkOutcome {
    /// The scenario's name.
    pub scenario: String,
    /// Its point of the sweep.
    pub point: Vec<(String, String)>,
    /// Seed.
    pub seed: u64,
    /// Identifies this scenario and program; set by the caller, which has both.
    pub fingerprint: String,
    /// Packets that all switches received.
    pub packets: u64,
    /// How long it took; set by the caller, which has a clock.
    pub wall_s: f64,
    /// Virtual time from the first request on.
    pub virtual_s: f64,
    /// Requests, if hosts send any.
    pub requests: Option<Requests>,
    /// From a request to its answer.
    pub latency: Latency,
    /// The switches' drops, by reason.
    pub drops: BTreeMap<String, u64>,
    /// The fate of all frames on links.
    pub on_links: LinkCounts,
    /// Frames that reached a host that they were not for, and frames for the controller.
    pub strays: u64,
    /// What belongs to flows, if hosts send any.
    pub fabric: Option<Fabric>,
    /// By switch: its name, and its ports.
    pub switches: Vec<(String, Vec<(u16, PortCounts)>)>,
    /// Over all switches with hosts: how far a port to another switch differs from the mean of that switch's, in per cent of it, counted
    /// while all links were up. `None` without such ports.
    pub spread_percent: Option<f64>,
    /// Violations that checkers found.
    pub violations: Violations,
}

/// What flows met in a network.
#[derive(Clone, Debug, PartialEq)]
pub struct Fabric {
    /// How switches chose paths.
    pub scheme: String,
    /// How they slowed flows down.
    pub rate_control: String,
    /// The flows.
    pub flows: FlowResults,
    /// By port of [`uplink_ports`]: what it has sent.
    pub uplinks: Vec<(Port, PortCounts)>,
    /// What switches and their controller had to do with each other.
    pub control: ControlCounts,
    /// What happened when, if the scenario has events.
    pub timeline: Timeline,
}

/// Work besides forwarding, since the hosts began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlCounts {
    /// Packets and digests for the controller.
    pub events: u64,
    /// Updates in P4Runtime write requests.
    pub writes: u64,
    /// Packets that went through a switch again.
    pub recirculated: u64,
    /// By the scheme's own counters.
    pub tallies: BTreeMap<Quantity, u64>,
}

impl ControlCounts {
    /// What has been added since an earlier time.
    pub fn since(mut self, before: &ControlCounts) -> Self {
        self.events -= before.events;
        self.writes -= before.writes;
        self.recirculated -= before.recirculated;
        for (quantity, n) in &mut self.tallies {
            *n -= before.tallies.get(quantity).copied().unwrap_or(0);
        }
        self
    }

    /// In JSON.
    fn json(&self) -> Value {
        let tally = |quantity| self.tallies.get(&quantity).copied().unwrap_or(0);
        json!({
            "events": self.events,
            "writes": self.writes,
            "recirculated": self.recirculated,
            "facks": tally(Quantity::Acks),
            "probe_bytes": tally(Quantity::ProbeBytes),
        })
    }
}

impl NetworkOutcome {
    /// One line of JSON.
    pub fn json(&self) -> String {
        let port = |(number, c): &(u16, PortCounts)| json!({"port": number, "packets": c.packets, "bytes": c.bytes, "drops": c.drops});
        let switches = self.switches.iter().map(
            |(name, ports)| json!({"name": name, "ports": ports.iter().map(port).collect::<Vec<Value>>()}),
        );
        let laws: Map<String, Value> = LAWS
            .iter()
            .map(|l| (l.name().into(), json!(self.violations.counts.get(l).unwrap_or(&0))))
            .collect();
        let point: Map<String, Value> = self.point.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
        let l = &self.on_links;
        let mut line = json!({
            "scenario": self.scenario,
            "point": point,
            "seed": self.seed,
            "fingerprint": self.fingerprint,
            "packets": self.packets,
            "wall_s": self.wall_s,
            "virtual_s": self.virtual_s,
            "switch_drops": self.drops,
            "network": {
                "switches": switches.collect::<Vec<Value>>(),
                "spread_percent": self.spread_percent,
                "links": {"sent": l.sent, "delivered": l.delivered, "full": l.full, "lost": l.lost, "down": l.down},
                "strays": self.strays,
            },
            "checks": {
                "violations": self.violations.total(),
                "by_law": laws,
                "first": self.violations.first,
            },
        });
        if let Some(r) = &self.requests {
            let mut requests = r.fields(&self.latency);
            requests.insert("fates".into(), json!({ "late": r.late }));
            line["requests"] = requests.into();
        }
        if let Some(fabric) = &self.fabric {
            line["fabric"] = self.fabric(fabric);
        }
        line.to_string()
    }

    /// What belongs to flows.
    fn fabric(&self, fabric: &Fabric) -> Value {
        let uplink = |((switch, port), c): &(Port, PortCounts)| {
            let name = self.switches.get(switch.0 as usize).map(|(name, _)| name);
            json!({"switch": name, "port": port, "packets": c.packets, "drops": c.drops, "marks": c.marks})
        };
        let flows = &fabric.flows;
        let mut json = json!({
            "scheme": fabric.scheme,
            "rate_control": fabric.rate_control,
            "flows": {
                "started": flows.started,
                "finished": flows.finished,
                "longest_stall_ms": flows.longest_stall_ms,
            },
            "fct": flows.fct(),
            "uplinks": fabric.uplinks.iter().map(uplink).collect::<Vec<Value>>(),
            "reordered": flows.reordered,
            "missing": flows.missing,
            "control": fabric.control.json(),
        });
        if fabric.timeline.interval > 0 {
            json["timeline"] = fabric.timeline.json(&flows.by_start);
        }
        json
    }
}

/// A port of a switch.
pub type Port = (SwitchId, u16);

/// The ports that lead to other switches, of switches with hosts.
pub fn uplink_ports(topology: &Topology) -> Vec<Port> {
    let leads_to_switch = |(.., end): &(u16, LinkId, End)| matches!(end, End::Switch(..));
    let of = |s: SwitchId| {
        let with_hosts = topology.ports(s).any(|p| !leads_to_switch(&p));
        let uplinks = topology.ports(s).filter(move |p| with_hosts && leads_to_switch(p));
        uplinks.map(move |(port, ..)| (s, port))
    };
    (0..topology.switches().len() as u32).map(SwitchId).flat_map(of).collect()
}

/// Counts the packets of [`uplink_ports`] while all links are up.
#[derive(Debug)]
pub struct Counting {
    down: BTreeSet<LinkId>,
    since: BTreeMap<Port, u64>,
    sent: BTreeMap<Port, u64>,
}

impl Counting {
    /// All links are up, and ports have sent this many packets so far.
    pub fn new(now: BTreeMap<Port, u64>) -> Self {
        Counting { down: BTreeSet::new(), since: now, sent: BTreeMap::new() }
    }

    /// A link goes down or up now.
    pub fn changes(&mut self, now: BTreeMap<Port, u64>, link: LinkId, up: bool) {
        self.end(&now);
        if up {
            self.down.remove(&link);
        } else {
            self.down.insert(link);
        }
        self.since = now;
    }

    /// Adds the packets since the last change.
    pub fn end(&mut self, now: &BTreeMap<Port, u64>) {
        if self.down.is_empty() {
            for (port, now) in now {
                *self.sent.entry(*port).or_default() += now - self.since.get(port).unwrap_or(&0);
            }
        }
    }

    /// How far the packets of a port differ from the mean of its switch, in per cent of that; the farthest of all ports. `None`
    /// without packets.
    pub fn spread_percent(&self) -> Option<f64> {
        let mut by_switch: BTreeMap<SwitchId, Vec<f64>> = BTreeMap::new();
        for ((switch, _), sent) in &self.sent {
            by_switch.entry(*switch).or_default().push(*sent as f64);
        }
        let of = |sent: &Vec<f64>| {
            let mean = sent.iter().sum::<f64>() / sent.len() as f64;
            let farthest = sent.iter().map(|n| (n - mean).abs()).fold(0.0, f64::max);
            (mean > 0.0).then(|| 100.0 * farthest / mean)
        };
        by_switch.values().filter_map(of).reduce(f64::max)
    }
}

/// Packets sent on each of the [`uplink_ports`].
pub(super) fn uplinks<E: Executor, A: Copy>(
    topology: &Topology,
    network: &Network<E, A>,
) -> BTreeMap<Port, u64> {
    uplink_counts(topology, network).into_iter().map(|(port, counts)| (port, counts.packets)).collect()
}

/// The traffic of all [`uplink_ports`].
pub(super) fn uplink_counts<E: Executor, A: Copy>(
    topology: &Topology,
    network: &Network<E, A>,
) -> Vec<(Port, PortCounts)> {
    let ports = uplink_ports(topology).into_iter();
    ports.map(|(s, port)| ((s, port), network.port_counts(s, port))).collect()
}

/// All ports with links, by switch.
pub(super) fn switches<E: Executor, A: Copy>(
    topology: &Topology,
    network: &Network<E, A>,
) -> Vec<(String, Vec<(u16, PortCounts)>)> {
    let of = |(i, switch): (usize, &pointsman_topology::Switch)| {
        let id = SwitchId(i as u32);
        let ports = topology.ports(id);
        let counts = ports.into_iter().map(|(port, ..)| (port, network.port_counts(id, port))).collect();
        (switch.name.clone(), counts)
    };
    topology.switches().iter().enumerate().map(of).collect()
}
