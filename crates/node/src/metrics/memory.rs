//! Metrics of a memory server.

use super::{Labels, Page, labelled, one};
use crate::http::Task;
use pointsman_ports::Counters;
use pointsman_roce::HostStats;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpListener;

/// A snapshot of a memory server's counters.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Messages, queue pairs, requests of controllers.
    pub stats: HostStats,
    /// Number, interface and counters of each port.
    pub ports: Vec<(u32, String, Counters)>,
}

impl Figures {
    fn messages(&self) -> [(&'static str, u64); 8] {
        let m = &self.stats.messages;
        [
            ("read", m.reads),
            ("write", m.writes),
            ("atomic", m.atomics),
            ("repeated", m.repeated),
            ("gap", m.gaps),
            ("refused", m.refused),
            ("ignored", m.ignored),
            ("stranger", self.stats.strangers),
        ]
    }

    /// As metrics.
    pub fn page(&self) -> Page {
        let mut page = Page::default();
        let messages = self.messages().map(|(name, n)| labelled("result", name, n)).to_vec();
        page.counter(
            "pointsman_memory_messages",
            "Requests of queue pairs, by what became of them.",
            messages,
        );
        let malformed = self.stats.malformed.iter().map(|(name, n)| labelled("reason", *name, *n)).collect();
        page.counter(
            "pointsman_memory_malformed",
            "Frames to the UDP port of RoCEv2 that are not packets, by reason.",
            malformed,
        );
        page.gauge("pointsman_memory_pairs", "Queue pairs.", one(self.stats.pairs));
        page.gauge(
            "pointsman_memory_controlled",
            "Whether a controller is connected that has set queue pairs up.",
            one(self.stats.controlled.into()),
        );
        let [done, refused] = self.stats.setups;
        let setups = vec![labelled("result", "done", done), labelled("result", "refused", refused)];
        page.counter("pointsman_memory_setups", "Requests on the set-up channel.", setups);
        let (mut frames, mut drops) = (Vec::new(), Vec::new());
        for (number, name, counters) in &self.ports {
            let with = |key: &'static str, value: &str| -> Labels {
                vec![("port", number.to_string()), ("interface", name.clone()), (key, value.to_string())]
            };
            frames.push((with("direction", "receive"), counters.rx_packets as f64));
            frames.push((with("direction", "transmit"), counters.tx_packets as f64));
            let lost = counters.drops().filter(|(_, n)| *n > 0);
            drops.extend(lost.map(|(r, n)| (with("reason", r.name()), n as f64)));
        }
        page.counter("pointsman_memory_port_frames", "Frames of a port.", frames);
        page.counter("pointsman_memory_port_dropped_frames", "Frames dropped by a port, by reason.", drops);
        page
    }

    /// A line for the operator: all counts that are not zero.
    pub fn summary(&self) -> String {
        let lost = self.ports.iter().flat_map(|(_, _, c)| c.drops()).map(|(r, n)| (r.name(), n));
        let malformed = self.stats.malformed.iter().map(|(name, n)| (*name, *n));
        let all = self.messages().into_iter().chain(malformed).chain(lost).filter(|(_, n)| *n > 0);
        let counts: Vec<String> = all.map(|(name, n)| format!("{name} {n}")).collect();
        format!("messages: {}", if counts.is_empty() { "none".into() } else { counts.join(", ") })
    }
}

/// Serves metrics on `listener`.
pub fn serve(listener: TcpListener, figures: Arc<Mutex<Figures>>) -> Task<'static, ()> {
    let page = move || {
        let page = figures.lock().unwrap_or_else(PoisonError::into_inner).page();
        async move { Some(page) }
    };
    super::serve(listener, "memory", page, || async { Ok("") })
}
