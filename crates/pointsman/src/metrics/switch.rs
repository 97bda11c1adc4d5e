//! Metrics of the switch: packets, ports, tables, and the balancer program's counters.

use super::connections::Connections;
use super::decisions::Decisions;
use super::{Distribution, Labels, Page, labelled, one};
use crate::switch::gnmi::model::Interface;
use pointsman_ir::table::KeyMatch;
use pointsman_ir::{ExternInstanceId, Program, TableId};
use pointsman_v1model::{State, Stats, Watch};
use std::collections::BTreeSet;

/// The balancer's reasons (`DROP_*` of headers.p4), by number from 1.
pub const DROPS: [&str; 27] = [
    "malformed",
    "checksum",
    "unknown_mac",
    "no_route",
    "ttl",
    "vip_no_service",
    "fragment",
    "no_connection",
    "table_full",
    "no_server",
    "no_device",
    "report_malformed",
    "report_source",
    "report_stale",
    "icmp_unmatched",
    "arp",
    "ethertype",
    "address",
    "packet_out",
    "report_unsigned",
    "report_key",
    "report_digest",
    "report_replayed",
    "rate",
    "idle",
    "device_failed",
    "spoofed",
];

/// `REPORT_ACCEPTED` of headers.p4.
pub const REPORT_ACCEPTED: u64 = 32;

/// Metrics reported by a device, by place in the register `reported` (`Metric` of load.p4), from its highest byte.
const METRICS: [&str; 4] = ["compute", "memory", "network", "queue"];

/// A device of the balancer with its counters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceFigures {
    /// Number of the server, and slot there.
    pub place: (u64, u64),
    /// Connections that were opened to it.
    pub connections: u64,
    /// Packets and bytes to it.
    pub traffic: [u64; 2],
    /// Count in flight.
    pub in_flight: u64,
    /// Microseconds since its last report; None without a report.
    pub report_age_us: Option<u64>,
    /// Its last report.
    pub reported: [u64; 4],
}

/// Snapshot of a switch's counters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Packets.
    pub stats: Stats,
    /// Tables with their entries and places.
    pub tables: Vec<(String, u64, u64)>,
    /// Of the balancer, by number of the reason.
    pub drops: Vec<(u64, u64)>,
    /// Of the balancer: connections opened, by number of the service.
    pub services: Vec<(u64, u64)>,
    /// Of the balancer.
    pub devices: Vec<DeviceFigures>,
    /// Of the balancer.
    pub decisions: Decisions,
    /// Of the balancer, if its connections have been counted.
    pub connections: Option<Connections>,
    /// Seconds that workers waited for the control plane, each time they did.
    pub waits: Distribution,
}

/// The extern instance of this name.
pub(super) fn named(program: &Program, name: &str) -> Option<ExternInstanceId> {
    let found = program.externs.iter().position(|e| e.name == name)?;
    Some(ExternInstanceId(found as u32))
}

/// Non-zero values of a counter array.
fn counts(watch: &Watch, name: &str) -> Vec<(u64, [u64; 2])> {
    let Some(id) = named(watch.program(), name) else { return Vec::new() };
    let cells = (0..watch.len(id)).filter_map(|i| Some((i, watch.counter(id, i)?)));
    cells.map(|(i, c)| (i, [c.packets, c.bytes])).filter(|(_, c)| *c != [0, 0]).collect()
}

/// The figures that need the switch to be held; the others are read while packets pass.
pub struct Glance {
    tables: Vec<(String, u64, u64)>,
    devices: BTreeSet<u64>,
    watch: Watch,
}

impl Glance {
    /// Of a switch as it is now.
    pub fn of(state: &State) -> Glance {
        let tables = state.program().tables.iter().enumerate().filter_map(|(i, t)| {
            let store = state.table(TableId(i as u32))?.store();
            Some((t.name.clone(), store.len() as u64, store.capacity()))
        });
        Glance { tables: tables.collect(), devices: accepted_devices(state), watch: state.watch() }
    }
}

impl Figures {
    /// Of a switch without (`None`) or with a program. `now_us` is the time that the program sees.
    pub fn of(stats: Stats, glance: Option<Glance>, now_us: u64) -> Figures {
        let Some(Glance { tables, devices: heard, watch }) = glance else {
            return Figures { stats, ..Figures::default() };
        };
        let program = watch.program();
        let connections = counts(&watch, "BalancerIngress.device_connections");
        let packets = counts(&watch, "BalancerIngress.device_packets");
        let numbers: BTreeSet<u64> = connections.iter().chain(&packets).map(|(i, _)| *i).collect();
        let of = |list: &[(u64, [u64; 2])], number: u64| {
            list.binary_search_by_key(&number, |(i, _)| *i).map_or([0, 0], |at| list[at].1)
        };
        let slot = |register: &str, slot: u64| {
            named(program, &format!("BalancerIngress.load.device{slot}.{register}"))
        };
        let registers: Vec<[Option<ExternInstanceId>; 3]> =
            (0..8).map(|s| ["last_heard", "in_flight", "reported"].map(|r| slot(r, s))).collect();
        let read = |id: Option<ExternInstanceId>, index: u64| {
            id.and_then(|id| watch.register(id, index)).map_or(0, |b| b.low_u64())
        };
        // Devices of the rack count even without traffic.
        let devices = numbers.union(&heard).map(|&number| {
            let (server, slot) = (number >> 3, number & 7);
            let [last_heard, in_flight, reported] = registers[slot as usize];
            let heard = read(last_heard, server);
            let reported = read(reported, server).to_be_bytes();
            DeviceFigures {
                place: (server, slot),
                connections: of(&connections, number)[0],
                traffic: of(&packets, number),
                in_flight: read(in_flight, server),
                // Never, or a failed health check: no times (`load.p4`).
                report_age_us: (heard > 1).then(|| now_us.saturating_sub(heard)),
                reported: [0, 1, 2, 3].map(|i: usize| u64::from(reported[i])),
            }
        });
        let services: Vec<(u64, u64)> = counts(&watch, "BalancerIngress.service_connections")
            .into_iter()
            .map(|(i, c)| (i, c[0]))
            .collect();
        let got_some = connections.iter().map(|(i, _)| *i);
        Figures {
            stats,
            tables,
            drops: counts(&watch, "BalancerIngress.drops").into_iter().map(|(i, c)| (i, c[0])).collect(),
            decisions: Decisions::of(&watch, got_some, services.iter().map(|(i, _)| *i)),
            services,
            devices: devices.collect(),
            connections: None,
            waits: Distribution::default(),
        }
    }

    /// As metrics.
    pub fn page(&self, interfaces: &[Interface]) -> Page {
        let mut page = Page::default();
        let s = &self.stats;
        let ways = [
            ("received", s.received),
            ("from_controller", s.received_from_cpu),
            ("made", s.created()),
            ("transmitted", s.transmitted),
            ("to_controller", s.to_cpu),
            ("consumed", s.consumed),
            ("resubmitted", s.resubmitted),
            ("recirculated", s.recirculated),
        ];
        let ways = ways.map(|(way, n)| labelled("way", way, n)).to_vec();
        page.counter("pointsman_switch_packets", "Packets, by origin and destination.", ways);
        let drops = s.drops.iter().map(|(r, n)| labelled("reason", r.name(), *n)).collect();
        page.counter(
            "pointsman_switch_dropped_packets",
            "Packets dropped by the architecture, by reason.",
            drops,
        );
        page.gauge("pointsman_switch_queued_packets", "Packets in queues.", one(s.queued));
        page.histogram(
            "pointsman_switch_control_wait_seconds",
            "Time that a worker waited for the control plane.",
            vec![(Labels::new(), self.waits.clone())],
        );
        ports(interfaces, &mut page);
        let of = |f: fn(&(String, u64, u64)) -> u64| {
            self.tables.iter().map(|t| labelled("table", t.0.clone(), f(t))).collect()
        };
        page.gauge("pointsman_switch_table_entries", "Entries of a table.", of(|t| t.1));
        page.gauge("pointsman_switch_table_capacity", "Capacity of a table, in entries.", of(|t| t.2));
        self.balancer(&mut page);
        page
    }

    fn balancer(&self, page: &mut Page) {
        let (mut drops, mut reports) = (Vec::new(), Vec::new());
        for (number, count) in &self.drops {
            let name = (*number as usize).checked_sub(1).and_then(|i| DROPS.get(i)).map(|n| n.to_string());
            match name {
                _ if *number == REPORT_ACCEPTED => reports.push(labelled("result", "accepted", *count)),
                Some(name) => {
                    if let Some(why) = name.strip_prefix("report_") {
                        reports.push(labelled("result", why, *count));
                    }
                    drops.push(labelled("reason", name, *count));
                }
                None => drops.push(labelled("reason", format!("number {number}"), *count)),
            }
        }
        page.counter(
            "pointsman_balancer_dropped_packets",
            "Packets dropped by the balancer, by reason.",
            drops,
        );
        page.counter("pointsman_balancer_reports", "Reports and probes, by outcome.", reports);
        let services = self.services.iter().map(|(i, n)| labelled("service", i.to_string(), *n)).collect();
        page.counter(
            "pointsman_balancer_service_connections",
            "Connections opened, by service number.",
            services,
        );
        let place = |d: &DeviceFigures| -> Labels {
            vec![("server", d.place.0.to_string()), ("slot", d.place.1.to_string())]
        };
        let of = |f: fn(&DeviceFigures) -> u64| {
            self.devices.iter().map(|d| (place(d), f(d) as f64)).collect::<Vec<_>>()
        };
        page.counter(
            "pointsman_balancer_device_connections",
            "Connections dispatched to a device.",
            of(|d| d.connections),
        );
        page.counter("pointsman_balancer_device_packets", "Packets to a device.", of(|d| d.traffic[0]));
        page.counter("pointsman_balancer_device_bytes", "Bytes to a device.", of(|d| d.traffic[1]));
        page.gauge(
            "pointsman_balancer_device_in_flight",
            "Connections or requests in flight at a device.",
            of(|d| d.in_flight),
        );
        let ages =
            self.devices.iter().filter_map(|d| Some((place(d), d.report_age_us? as f64 / 1e6))).collect();
        page.gauge("pointsman_balancer_report_age_seconds", "Time since a device's last report.", ages);
        let mut loads = Vec::new();
        for d in self.devices.iter().filter(|d| d.report_age_us.is_some()) {
            for (metric, value) in METRICS.iter().zip(d.reported) {
                let mut labels = place(d);
                labels.push(("metric", metric.to_string()));
                loads.push((labels, value as f64));
            }
        }
        page.gauge("pointsman_balancer_device_load", "Load last reported by a device.", loads);
        self.decisions.add_to(page);
        // Before the first count the names have no values.
        self.connections.clone().unwrap_or_default().add_to(page);
    }
}

/// Numbers of the devices whose reports are accepted: those configured by the controller.
fn accepted_devices(state: &State) -> BTreeSet<u64> {
    let program = state.program();
    let tables = ["BalancerIngress.devices_v4", "BalancerIngress.devices_v6"];
    let mut out = BTreeSet::new();
    for (i, table) in program.tables.iter().enumerate() {
        if tables.contains(&table.name.as_str())
            && let Some(held) = state.table(TableId(i as u32))
        {
            for (_, entry) in held.store().iter() {
                if let Some(KeyMatch::Exact(number)) = entry.matches.first() {
                    out.insert(number.low_u64());
                }
            }
        }
    }
    out
}

fn ports(interfaces: &[Interface], page: &mut Page) {
    let name =
        |i: &Interface| -> Labels { vec![("port", i.port.to_string()), ("interface", i.name.clone())] };
    let with = |i: &Interface, key: &'static str, value: &str| -> Labels {
        let mut labels = name(i);
        labels.push((key, value.to_string()));
        labels
    };
    let (mut frames, mut bytes, mut drops) = (Vec::new(), Vec::new(), Vec::new());
    for i in interfaces {
        let c = &i.counters;
        frames.push((with(i, "direction", "receive"), c.rx_packets as f64));
        frames.push((with(i, "direction", "transmit"), c.tx_packets as f64));
        bytes.push((with(i, "direction", "receive"), c.rx_bytes as f64));
        bytes.push((with(i, "direction", "transmit"), c.tx_bytes as f64));
        drops.extend(c.drops().filter(|(_, n)| *n > 0).map(|(r, n)| (with(i, "reason", r.name()), n as f64)));
    }
    page.counter("pointsman_switch_port_frames", "Frames of a port.", frames);
    page.counter("pointsman_switch_port_bytes", "Bytes of a port.", bytes);
    page.counter("pointsman_switch_port_dropped_frames", "Frames dropped by a port, by reason.", drops);
    let up = interfaces.iter().map(|i| (name(i), f64::from(i.up))).collect();
    page.gauge("pointsman_switch_port_up", "Whether a port has a carrier.", up);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names are those of the data plane.
    #[test]
    fn reasons_are_those_of_the_program() {
        let text = include_str!("../../../../p4/programs/balancer/headers.p4");
        let mut found = Vec::new();
        for line in text.lines() {
            let Some(rest) = line.strip_prefix("const bit<8> ") else { continue };
            let Some((name, value)) = rest.split_once(" = ") else { continue };
            let number: u64 = value.split(';').next().and_then(|n| n.parse().ok()).expect("a number");
            match name.strip_prefix("DROP_") {
                Some("NONE") => {}
                Some(reason) => found.push((number, reason.to_lowercase())),
                None if name == "REPORT_ACCEPTED" => assert_eq!(number, REPORT_ACCEPTED),
                None => {}
            }
        }
        let known: Vec<(u64, String)> = (1..).zip(DROPS.iter().map(|d| d.to_string())).collect();
        assert_eq!(found, known);
    }

    #[test]
    fn figures() {
        let figures = Figures {
            drops: vec![(2, 5), (14, 3), (32, 100), (40, 1)],
            services: vec![(1, 7)],
            devices: vec![DeviceFigures {
                place: (2, 1),
                connections: 7,
                traffic: [70, 700],
                in_flight: 3,
                report_age_us: Some(1_500_000),
                reported: [55, 40, 0, 2],
            }],
            tables: vec![("t".into(), 3, 16)],
            ..Figures::default()
        };
        let text = figures.page(&[]).text();
        for line in [
            "pointsman_balancer_dropped_packets_total{reason=\"checksum\"} 5.0",
            "pointsman_balancer_dropped_packets_total{reason=\"number 40\"} 1.0",
            "pointsman_balancer_reports_total{result=\"stale\"} 3.0",
            "pointsman_balancer_reports_total{result=\"accepted\"} 100.0",
            "pointsman_balancer_device_connections_total{server=\"2\",slot=\"1\"} 7.0",
            "pointsman_balancer_report_age_seconds{server=\"2\",slot=\"1\"} 1.5",
            "pointsman_balancer_device_load{server=\"2\",slot=\"1\",metric=\"memory\"} 40.0",
            "pointsman_switch_table_entries{table=\"t\"} 3.0",
        ] {
            assert!(text.contains(&format!("\n{line}\n")), "{line} is not in\n{text}");
        }
    }
}
