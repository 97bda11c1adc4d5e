//! Metrics of a memory server.

use super::{Labels, Page, labelled, one};
use crate::http::Task;
use crate::http::health::Readiness;
use pointsman_ports::Counters;
use pointsman_roce::{ChannelStats, HostStats};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpListener;

/// A snapshot of a memory server's counters.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Queue pairs, requests of controllers.
    pub channel: ChannelStats,
    /// What answers the requests.
    pub work: Work,
}

/// What answers the requests of queue pairs.
#[derive(Clone, Debug)]
pub enum Work {
    /// This program: messages, and number, interface and counters of each port.
    Software(HostStats, Vec<(u32, String, Counters)>),
    /// A network adapter.
    Device {
        /// Its name.
        name: String,
        /// Its own counters: port, name, value.
        counters: Vec<(u8, String, u64)>,
        /// Queue pairs that ended by a request.
        dead: u64,
    },
}

impl Default for Work {
    fn default() -> Self {
        Work::Software(HostStats::default(), Vec::new())
    }
}

fn messages(stats: &HostStats) -> [(&'static str, u64); 8] {
    let m = &stats.messages;
    [
        ("read", m.reads),
        ("write", m.writes),
        ("atomic", m.atomics),
        ("repeated", m.repeated),
        ("gap", m.gaps),
        ("refused", m.refused),
        ("ignored", m.ignored),
        ("stranger", stats.strangers),
    ]
}

fn software(page: &mut Page, stats: &HostStats, ports: &[(u32, String, Counters)]) {
    let messages = messages(stats).map(|(name, n)| labelled("result", name, n)).to_vec();
    page.counter("pointsman_memory_messages", "Requests of queue pairs, by what became of them.", messages);
    let malformed = stats.malformed.iter().map(|(name, n)| labelled("reason", *name, *n)).collect();
    page.counter(
        "pointsman_memory_malformed",
        "Frames to the UDP port of RoCEv2 that are not packets, by reason.",
        malformed,
    );
    let (mut frames, mut drops) = (Vec::new(), Vec::new());
    for (number, name, counters) in ports {
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
}

impl Figures {
    /// As metrics.
    pub fn page(&self) -> Page {
        let mut page = Page::default();
        page.gauge("pointsman_memory_pairs", "Queue pairs.", one(self.channel.pairs));
        page.gauge(
            "pointsman_memory_controlled",
            "Whether a controller is connected that has set queue pairs up.",
            one(self.channel.controlled.into()),
        );
        let [done, refused] = self.channel.setups;
        let setups = vec![labelled("result", "done", done), labelled("result", "refused", refused)];
        page.counter("pointsman_memory_setups", "Requests on the set-up channel.", setups);
        match &self.work {
            Work::Software(stats, ports) => software(&mut page, stats, ports),
            Work::Device { name, counters, dead } => {
                page.gauge(
                    "pointsman_memory_dead_pairs",
                    "Queue pairs that ended by a request, until they are removed.",
                    one(*dead),
                );
                let counters = counters.iter().map(|(port, counter, n)| {
                    let labels = vec![
                        ("device", name.clone()),
                        ("port", port.to_string()),
                        ("counter", counter.clone()),
                    ];
                    (labels, *n as f64)
                });
                page.counter(
                    "pointsman_memory_device",
                    "Counters of the network adapter's driver, with the driver's names.",
                    counters.collect(),
                );
            }
        }
        page
    }

    /// A line for the operator: all counts that are not zero.
    pub fn summary(&self) -> String {
        let counts: Vec<String> = match &self.work {
            Work::Software(stats, ports) => {
                let lost = ports.iter().flat_map(|(_, _, c)| c.drops()).map(|(r, n)| (r.name(), n));
                let malformed = stats.malformed.iter().map(|(name, n)| (*name, *n));
                let all = messages(stats).into_iter().chain(malformed).chain(lost);
                all.filter(|(_, n)| *n > 0).map(|(name, n)| format!("{name} {n}")).collect()
            }
            Work::Device { counters, .. } => {
                counters.iter().filter(|c| c.2 > 0).map(|(_, name, n)| format!("{name} {n}")).collect()
            }
        };
        let what =
            if matches!(self.work, Work::Software(..)) { "messages" } else { "the adapter's counters" };
        format!("{what}: {}", if counts.is_empty() { "none".into() } else { counts.join(", ") })
    }
}

/// Serves metrics on `listener`.
pub fn serve(listener: TcpListener, figures: Arc<Mutex<Figures>>) -> Task<'static, ()> {
    let page = move || {
        let page = figures.lock().unwrap_or_else(PoisonError::into_inner).page();
        async move { Some(page) }
    };
    super::serve(listener, "memory", page, || async { Readiness::Ready("") })
}
