//! The end of a simulation: the last checks, and the results.

use super::{Tally, World};
use crate::check::{Balance, DeviceSums};
use crate::device::DeviceCounts;
use crate::frame;
use crate::link::{Link, LinkCounts};
use crate::outcome::{Group, Latency, Outcome, Requests, SwitchPackets};
use crate::timeline::{self, Timeline};
use pointsman_balance::DeviceKind;
use pointsman_ir::Executor;
use pointsman_v1model::Stats;

impl<E: Executor> World<E> {
    pub(super) fn finish(mut self) -> Outcome {
        let each: Vec<Stats> = (0..self.switches.len()).map(|i| self.stats(i)).collect();
        let mut stats = Stats::default();
        each.iter().for_each(|switch| stats.add(switch));
        let requests = self.fates();
        let lost = requests.lost_on_links
            + requests.lost_in_switch
            + requests.lost_at_devices
            + self.tally.strays
            + requests.lost_with_connections
            + requests.under_way;
        let (sums, packets) = (self.sums(), self.balances(&stats));
        self.checker.finish(self.network.now(), &sums, &packets, lost);
        let groups = self.groups();
        let learning = self.learning();
        let addresses = self.scenario.rack.switch.p4runtime.iter();
        let switches = addresses.zip(&each).map(|(address, stats)| SwitchPackets {
            p4runtime: address.clone(),
            packets: stats.received,
            drops: stats.dropped(),
        });
        let kinds = DeviceKind::ALL.map(DeviceKind::name);
        let patience_ns = self.scenario.patience_ns;
        let timeline =
            Timeline::of(&self.measured.intervals, &kinds, &self.measured.latencies_ns, patience_ns);
        // A lost request counts as its time-out.
        let mut latencies_ns = self.measured.latencies_ns.concat();
        let answers = Latency::of(&mut latencies_ns);
        latencies_ns.resize(self.measured.sent as usize, patience_ns);
        latencies_ns.sort_unstable();
        Outcome {
            scenario: self.scenario.name.clone(),
            point: self.scenario.point.clone(),
            seed: self.seed,
            fingerprint: String::new(),
            packets: stats.received,
            events: self.network.events(),
            wall_s: 0.0,
            virtual_s: (self.network.now() - self.start) as f64 / 1e9,
            measured_s: (self.scenario.duration_ns - self.scenario.warmup_ns) as f64 / 1e9,
            requests,
            latency: Latency::of(&mut latencies_ns),
            answers,
            distribution: timeline::distribution(&latencies_ns),
            timeline,
            happened: timeline::events(&self.scenario),
            groups,
            switch_drops: stats.drops.iter().map(|(r, n)| (r.name().to_string(), *n)).collect(),
            switches: switches.collect(),
            moved_connections: self.checker.moved_connections,
            learning,
            violations: self.checker.violations,
        }
    }

    /// The fates of all requests.
    fn fates(&self) -> Requests {
        let on_links = self.network.wires().iter().flat_map(Link::frames);
        // With TCP the client knows the fate of its connection, and of the requests on it.
        let (lost_with_connections, under_way) = match &self.streams {
            Some(streams) => (streams.lost, streams.waiting()),
            None => {
                let at_devices: u64 = self.devices.iter().map(|d| d.present()).sum();
                (0, on_links.filter(|f| frame::is_marked(f)).count() as u64 + at_devices)
            }
        };
        let Tally { lost, late, congested, .. } = self.tally;
        Requests {
            sent: self.measured.sent,
            answered: self.measured.answered,
            lost: self.measured.sent - self.measured.answered,
            all_sent: self.requests.len() as u64,
            lost_on_links: lost.links,
            lost_in_switch: lost.switch_in - lost.switch_out + lost.refused,
            lost_at_devices: lost.devices,
            lost_with_connections,
            late,
            under_way,
            congestion_marks: congested,
        }
    }

    /// What went into each part of the rack, and what is known of it.
    fn balances(&self, stats: &Stats) -> [Balance; 6] {
        // Links lead from stations to switches, and back.
        let wires = |way| self.network.wires().iter().skip(way).step_by(2);
        let on_way = |way| wires(way).map(Link::in_flight).sum();
        let (up, down) = (LinkCounts::of(wires(0)), LinkCounts::of(wires(1)));
        let link = |c: &LinkCounts, flying: u64| c.delivered + c.full + c.lost + c.down + flying;
        let balance = |part: &str, went_in, accounted| Balance { part: part.to_string(), went_in, accounted };
        [
            balance("links to the switch", up.sent, link(&up, on_way(0))),
            balance("from links into the switch", up.delivered, stats.received - stats.received_from_cpu),
            balance(
                "the switch",
                stats.received + stats.created(),
                stats.transmitted + stats.to_cpu + stats.consumed + stats.dropped() + stats.queued,
            ),
            balance("from the switch to links", stats.transmitted, down.sent + self.network.unplugged()),
            balance("links from the switch", down.sent, link(&down, on_way(1))),
            balance("from the switch to the controller", stats.to_cpu, self.tally.to_cpu),
        ]
    }

    fn sums(&self) -> Vec<DeviceSums> {
        let sums = self.devices.iter().map(|d| DeviceSums {
            service_ns: d.counts.service_ns,
            sojourn_ns: d.counts.sojourn_ns,
            present: d.present(),
        });
        sums.collect()
    }

    fn groups(&mut self) -> Vec<Group> {
        let seconds = (self.scenario.duration_ns - self.scenario.warmup_ns) as f64;
        let mut out = Vec::new();
        for (k, kind) in DeviceKind::ALL.iter().enumerate() {
            let of_kind = (0..self.devices.len()).filter(|i| usize::from(self.places[*i].kind) == k);
            let used: Vec<f64> = of_kind
                .map(|i| {
                    let busy = (self.measured.busy_at[1][i] - self.measured.busy_at[0][i]) as f64;
                    100.0 * busy / (seconds * f64::from(self.devices[i].model().workers))
                })
                .collect();
            let Some(n) = Some(used.len()).filter(|n| *n > 0) else { continue };
            let over = |field: fn(&DeviceCounts) -> u64| -> u64 {
                let of_kind = (0..self.devices.len()).filter(|i| usize::from(self.places[*i].kind) == k);
                of_kind
                    .map(|i| field(&self.measured.counts_at[1][i]) - field(&self.measured.counts_at[0][i]))
                    .sum()
            };
            let (served, started) = (over(|c| c.served), over(|c| c.started));
            let waited_ms = over(|c| c.wait_ns) as f64 / 1e6;
            let mean = used.iter().sum::<f64>() / n as f64;
            let variance = used.iter().map(|u| (u - mean) * (u - mean)).sum::<f64>() / n as f64;
            out.push(Group {
                kind: kind.name(),
                devices: n,
                answered: self.measured.latencies_ns[k].len() as u64,
                throughput_per_s: served as f64 * 1e9 / seconds,
                wait_mean_ms: if started == 0 { 0.0 } else { waited_ms / started as f64 },
                utilisation_percent: mean,
                utilisation_stddev_percent: variance.sqrt(),
                utilisation_max_percent: used.iter().copied().fold(0.0, f64::max),
                latency: Latency::of(&mut self.measured.latencies_ns[k].clone()),
            });
        }
        out
    }
}
