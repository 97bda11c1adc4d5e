//! Metrics of the store.

use super::certificates::Certificates;
use super::{Page, Part, labelled, one};
use crate::http::Task;
use crate::http::health::Readiness;
use pointsman_store::{ChainStats, Place, PortFigures, Stats};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpListener;

/// What the disk has done.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskStats {
    /// Transactions.
    pub commits: u64,
    /// States of keys in them.
    pub rows: u64,
    /// Transactions that failed.
    pub failures: u64,
}

/// Of a node of a chain.
#[derive(Clone, Copy, Debug)]
pub struct ChainFigures {
    /// The number of its view; 0: none.
    pub view: u64,
    /// Nodes of the chain.
    pub nodes: u64,
    /// Its place.
    pub place: Place,
    /// It is the last one.
    pub tail: bool,
    /// Its counts.
    pub stats: ChainStats,
}

impl ChainFigures {
    fn add(&self, page: &mut Page) {
        let ChainFigures { view, nodes, place, tail, stats } = *self;
        page.gauge("pointsman_store_view", "Number of the view, 0 before the first one.", one(view));
        page.gauge("pointsman_store_nodes", "Nodes of the chain.", one(nodes));
        let is = [
            ("idle", place == Place::Idle),
            ("joining", place == Place::Joining),
            ("head", place == Place::At(0)),
            ("tail", tail),
        ];
        let places = is.into_iter().map(|(name, is)| labelled("place", name, u64::from(is))).collect();
        page.gauge("pointsman_store_place", "What the node is in its view.", places);
        page.gauge("pointsman_store_updates_applied", "Number of the last update.", one(stats.applied));
        page.gauge(
            "pointsman_store_updates_confirmed",
            "Number of the last update that the whole chain has.",
            one(stats.acked),
        );
        let order = [("kept", stats.held), ("repeated", stats.repeated)];
        page.counter(
            "pointsman_store_updates_out_of_order",
            "Updates that came before an earlier one, and those sent again because the next node missed them.",
            order.into_iter().map(|(name, n)| labelled("what", name, n)).collect(),
        );
        let dropped = stats.dropped().into_iter().map(|(name, n)| labelled("reason", name, n)).collect();
        page.counter("pointsman_store_chain_dropped", "Messages that a node of a chain dropped.", dropped);
    }
}

/// A snapshot of a store's counters.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Messages by what became of them.
    pub stats: Stats,
    /// Keys.
    pub keys: u64,
    /// Requests that wait.
    pub waiting: u64,
    /// Ports of pools, in use and free.
    pub ports: PortFigures,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that the kernel did not take.
    pub unsent: u64,
    /// Of a store with --data.
    pub disk: Option<DiskStats>,
    /// Of a store with its state in etcd: whether it serves, and its commits.
    pub etcd: Option<(bool, DiskStats)>,
    /// Of a node of a chain.
    pub chain: Option<ChainFigures>,
    /// The disk, or etcd, refused the last write, so switches get no answers.
    pub stuck: bool,
}

impl Figures {
    /// As metrics.
    pub fn page(&self) -> Page {
        let mut page = Page::default();
        let results = self.stats.rows().into_iter().map(|(name, n)| labelled("result", name, n)).collect();
        page.counter("pointsman_store_messages", "Messages, by what became of them.", results);
        let sent = vec![labelled("result", "sent", self.sent), labelled("result", "refused", self.unsent)];
        page.counter("pointsman_store_datagrams", "Datagrams to switches.", sent);
        page.gauge("pointsman_store_keys", "Keys.", one(self.keys));
        page.gauge(
            "pointsman_store_waiting",
            "Requests that wait for the end of a lease.",
            one(self.waiting),
        );
        if self.ports.all > 0 {
            let PortFigures { used, all, returned } = self.ports;
            let ports = vec![labelled("state", "used", used), labelled("state", "free", all - used)];
            page.gauge("pointsman_store_ports", "Ports of the pools, for TCP and UDP.", ports);
            page.counter(
                "pointsman_store_returned_ports",
                "Ports whose binding was not used.",
                one(returned),
            );
        }
        if let Some(chain) = self.chain {
            chain.add(&mut page);
        }
        if let Some((serves, _)) = self.etcd {
            let help = "Whether this store serves, of those with their state in etcd.";
            page.gauge("pointsman_store_serves", help, one(u64::from(serves)));
        }
        if let Some(disk) = self.disk.or(self.etcd.map(|(_, commits)| commits)) {
            page.counter("pointsman_store_commits", "Transactions on disk, or in etcd.", one(disk.commits));
            page.counter("pointsman_store_rows", "States of keys written there.", one(disk.rows));
            page.counter("pointsman_store_disk_failures", "Transactions that failed.", one(disk.failures));
        }
        page
    }

    /// A line for the operator: all counts that are not zero.
    pub fn summary(&self) -> String {
        let counts = self.stats.rows().into_iter().filter(|(_, n)| *n > 0);
        let counts: Vec<String> = counts.map(|(name, n)| format!("{name} {n}")).collect();
        format!(
            "{} keys; messages: {}",
            self.keys,
            if counts.is_empty() { "none".into() } else { counts.join(", ") }
        )
    }
}

/// Serves metrics on `listener`.
pub fn serve(
    listener: TcpListener,
    certificates: Certificates,
    figures: Arc<Mutex<Figures>>,
) -> Task<'static, ()> {
    let own = figures.clone();
    let page = move || {
        let page = own.lock().unwrap_or_else(PoisonError::into_inner).page();
        async move { Some(page) }
    };
    let ready = move || {
        let figures = figures.lock().unwrap_or_else(PoisonError::into_inner);
        let serves = figures.chain.is_none_or(|chain| matches!(chain.place, Place::At(_)));
        let why = match (figures.stuck, serves) {
            (true, _) => Some("the disk, or etcd, refuses writes: see the log"),
            (_, false) => Some("the node is not in its chain yet: see the log"),
            _ => None,
        };
        async move { why.map_or(Readiness::Ready(""), |why| Readiness::NotReady(why.into())) }
    };
    super::serve(listener, Part { component: "store", certificates }, page, ready)
}
