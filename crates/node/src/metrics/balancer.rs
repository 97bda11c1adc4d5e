//! Metrics of the balancer program, as far as a switch that runs it can tell.

use super::{Distribution, Insight, Labels, Page, labelled, one};
use pointsman_balance::DeviceNumber;
use pointsman_balance::state::entry::Phase;
use pointsman_balance::state::{
    AGES, Cells, Census, Connections, DROPS, Decisions, DeviceFigures, Figures, METRICS, REASONS,
    REPORT_ACCEPTED, STORE_MESSAGES, Staleness,
};
use pointsman_ir::table::KeyMatch;
use pointsman_ir::{ExternInstanceId, TableId};
use pointsman_v1model::{State, Watch};
use std::collections::BTreeSet;

/// The balancer's part of a page.
#[derive(Default)]
pub struct Balancer {
    /// Devices that the controller configured.
    configured: BTreeSet<DeviceNumber>,
    census: Census,
}

impl Insight for Balancer {
    fn glance(&mut self, state: &State) {
        self.configured = configured(state);
    }

    fn look(&mut self, cells: &Watch, now_us: u64, parts: u64) {
        self.census.step(&Lent(cells), now_us, parts);
    }

    fn add_to(&self, cells: Option<&Watch>, now_us: u64, page: &mut Page) {
        let read = |cells| Figures::read(&Lent(cells), &self.configured, now_us);
        // Without them, and before the first count, the names have no values.
        add_figures(&cells.map(read).unwrap_or_default(), page);
        add_connections(&self.census.last().cloned().unwrap_or_default(), page);
    }
}

/// The arrays of a switch.
struct Lent<'a>(&'a Watch);

impl Cells for Lent<'_> {
    type Array = ExternInstanceId;

    fn find(&self, name: &str) -> Option<ExternInstanceId> {
        let found = self.0.program().externs.iter().position(|e| e.name == name)?;
        Some(ExternInstanceId(found as u32))
    }

    fn len(&self, array: ExternInstanceId) -> u64 {
        self.0.len(array)
    }

    fn register(&self, array: ExternInstanceId, index: u64) -> Option<u64> {
        self.0.register(array, index).map(|bits| bits.low_u64())
    }

    fn counter(&self, array: ExternInstanceId, index: u64) -> Option<[u64; 2]> {
        self.0.counter(array, index).map(|c| [c.packets, c.bytes])
    }
}

/// The devices whose reports are accepted.
fn configured(state: &State) -> BTreeSet<DeviceNumber> {
    let program = state.program();
    let tables = ["BalancerIngress.devices_v4", "BalancerIngress.devices_v6"];
    let mut out = BTreeSet::new();
    for (i, table) in program.tables.iter().enumerate() {
        if tables.contains(&table.name.as_str())
            && let Some(held) = state.table(TableId(i as u32))
        {
            for (_, entry) in held.store().iter() {
                if let Some(KeyMatch::Exact(number)) = entry.matches.first() {
                    out.insert(DeviceNumber::from_bits(number.low_u64() as u32));
                }
            }
        }
    }
    out
}

fn place(device: DeviceNumber) -> Labels {
    vec![("server_id", device.server().to_string()), ("slot", device.slot().to_string())]
}

fn add_figures(figures: &Figures, page: &mut Page) {
    add_drops(figures, page);
    let name = |i: u64| STORE_MESSAGES.get(i as usize).map_or(format!("number {i}"), |name| name.to_string());
    page.counter(
        "pointsman_balancer_store_messages",
        "Messages to the store of connections and its answers, by outcome.",
        figures.store.iter().map(|(i, n)| labelled("result", name(*i), *n)).collect(),
    );
    let services = figures.services.iter().map(|(i, n)| labelled("service_id", i.to_string(), *n)).collect();
    page.counter(
        "pointsman_balancer_service_connections",
        "Connections opened, by service number.",
        services,
    );
    add_devices(&figures.devices, page);
    add_decisions(&figures.decisions, page);
}

fn add_drops(figures: &Figures, page: &mut Page) {
    let (mut drops, mut reports) = (Vec::new(), Vec::new());
    for (number, count) in &figures.drops {
        let name = (*number as usize).checked_sub(1).and_then(|i| DROPS.get(i)).map(|(n, _)| n.to_string());
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
    page.counter("pointsman_balancer_dropped_packets", "Packets dropped by the balancer, by reason.", drops);
    page.counter("pointsman_balancer_reports", "Reports and probes, by outcome.", reports);
}

fn add_devices(devices: &[DeviceFigures], page: &mut Page) {
    let of = |f: fn(&DeviceFigures) -> u64| {
        devices.iter().map(|d| (place(d.device), f(d) as f64)).collect::<Vec<_>>()
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
        devices.iter().filter_map(|d| Some((place(d.device), d.report_age_us? as f64 / 1e6))).collect();
    page.gauge("pointsman_balancer_report_age_seconds", "Time since a device's last report.", ages);
    let mut loads = Vec::new();
    for d in devices.iter().filter(|d| d.report_age_us.is_some()) {
        for (metric, value) in METRICS.iter().zip(d.reported) {
            let mut labels = place(d.device);
            labels.push(("metric", metric.to_string()));
            loads.push((labels, value.into()));
        }
    }
    let p99 = devices.iter().filter(|d| d.report_age_us.is_some());
    let p99 = p99.filter_map(|d| Some((place(d.device), d.latency.ms()? / 1e3))).collect();
    page.gauge(
        "pointsman_balancer_device_p99_seconds",
        "What 99 of 100 requests of the last 15 to 30 s stayed within, as last reported by a device.",
        p99,
    );
    page.gauge("pointsman_balancer_device_load", "Load last reported by a device.", loads);
}

fn add_decisions(decisions: &Decisions, page: &mut Page) {
    let reasons = decisions.reasons.iter().map(|(device, reason, n)| {
        let name = REASONS.get(*reason as usize).map_or(format!("number {reason}"), |r| r.to_string());
        let mut labels = place(*device);
        labels.push(("reason", name));
        (labels, *n as f64)
    });
    page.counter(
        "pointsman_balancer_dispatches",
        "Connections dispatched to a device, by reason of the decision.",
        reasons.collect(),
    );
    let service = |s: &Staleness| -> Labels { vec![("service_id", s.service.to_string())] };
    let of = |s: &Staleness| {
        let bounds = AGES.iter().copied().chain([f64::INFINITY]);
        let buckets = bounds.zip(s.decisions).collect();
        (service(s), Distribution { sum: s.sum_us as f64 / 1e6, buckets })
    };
    page.histogram(
        "pointsman_balancer_decision_staleness_seconds",
        "Age of the chosen device's last report at the decision, for policies that use reports.",
        decisions.staleness.iter().map(of).collect(),
    );
    let never =
        decisions.staleness.iter().map(|s| (service(s), s.decisions.last().copied().unwrap_or(0) as f64));
    page.counter(
        "pointsman_balancer_decisions_without_report",
        "Decisions for a device that never reported, for policies that use reports.",
        never.collect(),
    );
}

fn add_connections(connections: &Connections, page: &mut Page) {
    page.gauge(
        "pointsman_balancer_connection_places",
        "Capacity of the connection table.",
        one(connections.places),
    );
    let phases = Phase::ALL.iter().map(|(phase, name)| {
        labelled("phase", *name, connections.phases.get(phase).copied().unwrap_or_default())
    });
    page.gauge(
        "pointsman_balancer_connections",
        "Entries of the connection table, by kind.",
        phases.collect(),
    );
    let taken = connections.taken.iter().enumerate().map(|(way, n)| labelled("way", way.to_string(), *n));
    page.gauge(
        "pointsman_balancer_connection_places_taken",
        "Unavailable places in a way for new connections.",
        taken.collect(),
    );
    let devices = connections.devices.iter().map(|(device, n)| (place(*device), *n as f64));
    page.gauge(
        "pointsman_balancer_device_open_connections",
        "Open connections of a device in any state, including those left while draining.",
        devices.collect(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_balance::report::Latency99;

    #[test]
    fn figures() {
        let figures = Figures {
            drops: vec![(2, 5), (14, 3), (32, 100), (40, 1)],
            store: vec![(0, 9), (1, 8)],
            services: vec![(1, 7)],
            devices: vec![DeviceFigures {
                device: DeviceNumber::new(2, 1),
                connections: 7,
                traffic: [70, 700],
                in_flight: 3,
                report_age_us: Some(1_500_000),
                reported: [55, 40, 0, 2],
                latency: Latency99::of(11_000_000),
            }],
            ..Figures::default()
        };
        let mut page = Page::default();
        add_figures(&figures, &mut page);
        let text = page.text();
        for line in [
            "pointsman_balancer_dropped_packets_total{reason=\"checksum\"} 5.0",
            "pointsman_balancer_dropped_packets_total{reason=\"number 40\"} 1.0",
            "pointsman_balancer_store_messages_total{result=\"asked\"} 9.0",
            "pointsman_balancer_store_messages_total{result=\"answered\"} 8.0",
            "pointsman_balancer_reports_total{result=\"stale\"} 3.0",
            "pointsman_balancer_reports_total{result=\"accepted\"} 100.0",
            "pointsman_balancer_device_connections_total{server_id=\"2\",slot=\"1\"} 7.0",
            "pointsman_balancer_report_age_seconds{server_id=\"2\",slot=\"1\"} 1.5",
            "pointsman_balancer_device_load{server_id=\"2\",slot=\"1\",metric=\"memory\"} 40.0",
            "pointsman_balancer_device_p99_seconds{server_id=\"2\",slot=\"1\"} 0.011534336",
        ] {
            assert!(text.contains(&format!("\n{line}\n")), "{line} is not in\n{text}");
        }
    }
}
