//! Metrics of the switch: packets, ports, tables.

use super::{Distribution, Labels, Page, labelled, one};
use crate::switch::gnmi::model::Interface;
use pointsman_ir::TableId;
use pointsman_v1model::{State, Stats};

/// Snapshot of a switch's counters.
#[derive(Default)]
pub struct Figures {
    /// Packets.
    pub stats: Stats,
    /// Tables with their entries and places.
    pub tables: Vec<(String, u64, u64)>,
    /// Seconds that workers waited for the control plane, each time they did.
    pub waits: Distribution,
    /// What the program itself counts ([`Insight`](super::Insight)).
    pub program: Page,
}

/// Tables with their entries and places.
pub fn tables(state: &State) -> Vec<(String, u64, u64)> {
    let tables = state.program().tables.iter().enumerate().filter_map(|(i, t)| {
        let store = state.table(TableId(i as u32))?.store();
        Some((t.name.clone(), store.len() as u64, store.capacity()))
    });
    tables.collect()
}

impl Figures {
    /// As metrics.
    pub fn page(self, interfaces: &[Interface]) -> Page {
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
        page.append(self.program);
        page
    }
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

    #[test]
    fn figures() {
        let mut program = Page::default();
        program.gauge("own", "Its own.", one(7));
        let figures = Figures { tables: vec![("t".into(), 3, 16)], program, ..Figures::default() };
        let text = figures.page(&[]).text();
        for line in ["pointsman_switch_table_entries{table=\"t\"} 3.0", "own 7.0"] {
            assert!(text.contains(&format!("\n{line}\n")), "{line} is not in\n{text}");
        }
    }
}
