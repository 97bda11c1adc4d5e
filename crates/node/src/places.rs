//! Places for a server's connections. When all are taken, a new connection takes the place of one that is not busy yet: the oldest one of
//! the peer with most connections. So clients that connect and stay silent cannot keep others out.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// An open connection.
struct Open {
    peer: IpAddr,
    /// It keeps its place.
    busy: bool,
    task: Option<AbortHandle>,
}

/// All open connections, by number in the order of their arrival.
#[derive(Default)]
struct Connections {
    next: u64,
    open: BTreeMap<u64, Open>,
}

impl Connections {
    /// The oldest connection that is not busy, of the peer with most connections.
    fn dispensable(&self) -> Option<u64> {
        let mut by_peer: BTreeMap<IpAddr, usize> = BTreeMap::new();
        self.open.values().for_each(|o| *by_peer.entry(o.peer).or_default() += 1);
        let waiting = self.open.iter().filter(|(_, o)| !o.busy);
        waiting.max_by_key(|(id, o)| (by_peer.get(&o.peer), Reverse(**id))).map(|(id, _)| *id)
    }
}

/// The places of a server.
pub(crate) struct Places {
    capacity: usize,
    connections: Mutex<Connections>,
    freed: Notify,
}

impl Places {
    /// Room for so many connections.
    pub fn new(capacity: usize) -> Arc<Places> {
        Arc::new(Places { capacity, connections: Mutex::default(), freed: Notify::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection, if need be that of another one, whose task is aborted. Waits while all are busy.
    pub async fn take(self: &Arc<Self>, peer: IpAddr) -> Place {
        loop {
            if let Some(place) = self.try_take(peer) {
                return place;
            }
            self.freed.notified().await;
        }
    }

    fn try_take(self: &Arc<Self>, peer: IpAddr) -> Option<Place> {
        let mut connections = self.lock();
        let mut evicted = None;
        if connections.open.len() >= self.capacity {
            let oldest = connections.dispensable()?;
            evicted = connections.open.remove(&oldest).and_then(|o| o.task);
        }
        let id = connections.next;
        connections.next += 1;
        connections.open.insert(id, Open { peer, busy: false, task: None });
        drop(connections);
        if let Some(task) = evicted {
            task.abort();
        }
        Some(Place { id, places: self.clone() })
    }
}

/// The place of a connection, until it is dropped.
pub(crate) struct Place {
    id: u64,
    places: Arc<Places>,
}

impl Place {
    fn change(&self, change: impl FnOnce(&mut Open)) {
        if let Some(open) = self.places.lock().open.get_mut(&self.id) {
            change(open);
        }
    }

    /// The connection's task: it is aborted when another connection takes the place.
    pub fn belongs_to(&self, task: AbortHandle) {
        self.change(|o| o.task = Some(task));
    }

    /// A busy connection keeps its place.
    pub fn set_busy(&self, busy: bool) {
        self.change(|o| o.busy = busy);
        if !busy {
            self.places.freed.notify_one();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().open.remove(&self.id);
        self.places.freed.notify_one();
    }
}
