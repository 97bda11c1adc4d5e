//! A node of a chain, with its socket to the other nodes and its views.

use super::args::{Agreed, ChainSettings};
use super::error::StoreError;
use super::etcd_views::EtcdViews;
use super::views::{FileViews, Heard, Watch};
use super::{BATCH, MAX_DATAGRAM};
use crate::log::Level;
use crate::metrics::store::ChainFigures;
use pointsman_ports::Waker;
use pointsman_store::{Config, Mail, Place, Replica, View, ViewError};
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};

/// A node of a chain.
pub(super) struct Node {
    pub replica: Replica<SocketAddr>,
    pub mail: Mail<SocketAddr>,
    /// To the other nodes.
    pub socket: UdpSocket,
    addresses: BTreeMap<String, SocketAddr>,
    watch: Watch,
    buffer: Vec<u8>,
    /// The node has left the chain because of an error, and that has been logged.
    failed: bool,
}

/// In a line for the operator.
fn described(place: Place, chain: usize) -> &'static str {
    match place {
        Place::Idle => "it is not in the chain",
        Place::Joining => "it copies the data",
        Place::At(0) if chain == 1 => "it is alone",
        Place::At(0) => "it is the head",
        Place::At(n) if n + 1 == chain => "it is the tail",
        Place::At(_) => "it is in the middle",
    }
}

impl Node {
    pub fn open(settings: ChainSettings, config: Config, waker: Waker) -> Result<Self, StoreError> {
        let ChainSettings { me, addresses, views, timing } = settings;
        let at =
            addresses.get(me.name()).copied().ok_or_else(|| StoreError::Nowhere(me.name().to_string()))?;
        let replica = Replica::new(0, me, config, timing).map_err(StoreError::Config)?;
        let socket = UdpSocket::bind(at).map_err(|e| StoreError::Peer(at, e))?;
        socket.set_nonblocking(true).map_err(|e| StoreError::Peer(at, e))?;
        let watch = match views {
            Agreed::File(path) => Watch::start(FileViews::new(&path), waker),
            Agreed::Etcd(settings, key) => {
                Watch::start(EtcdViews::new(&settings, key).map_err(StoreError::Views)?, waker)
            }
        };
        Ok(Node {
            replica,
            mail: Mail::default(),
            socket,
            addresses,
            watch,
            buffer: vec![0; MAX_DATAGRAM],
            failed: false,
        })
    }

    /// Takes messages of other nodes, and views. Returns whether it may have more messages.
    pub fn take(&mut self, now: impl Fn() -> u64, log: &mut dyn FnMut(Level, &str)) -> bool {
        let heard: Vec<Heard> = self.watch.heard().collect();
        for heard in heard {
            match heard {
                Heard::View(view) => self.set_view(now(), view, log),
                Heard::Agreed(view) => {
                    log(Level::Info, &format!("the nodes agreed on this node's view {view}"))
                }
                Heard::Trouble(line) => log(Level::Warn, &line),
            }
        }
        for _ in 0..BATCH {
            match self.socket.recv_from(&mut self.buffer) {
                Ok((length, _)) => self.replica.receive_from_node(now(), &self.buffer[..length]),
                // A node that is not there: it is noticed by its silence.
                Err(e) if e.kind() == std::io::ErrorKind::ConnectionRefused => {}
                Err(_) => return false,
            }
        }
        true
    }

    fn set_view(&mut self, now: u64, view: View, log: &mut dyn FnMut(Level, &str)) {
        let unknown = view.nodes().find(|node| !self.addresses.contains_key(node.name()));
        let text = view.to_string();
        let result = match unknown {
            Some(node) => Err(ViewError::Unknown(node.name().to_string())),
            None => self.replica.set_view(now, view),
        };
        let chain = self.replica.view().map_or(0, |view| view.chain.len());
        match result {
            Ok(()) => log(Level::Info, &format!("view {text}: {}", described(self.replica.place(), chain))),
            Err(e) => log(Level::Warn, &format!("view {text} is refused: {e}")),
        }
    }

    /// Sends what is due to other nodes. What is due to switches is in the mail then.
    pub fn flush(&mut self, now: u64, log: &mut dyn FnMut(Level, &str)) -> u64 {
        self.replica.flush(now, &mut self.mail);
        let mut unsent = 0;
        for (to, bytes) in self.mail.nodes.drain(..) {
            let at = self.addresses.get(to.name());
            if at.is_none_or(|at| self.socket.send_to(&bytes, at).is_err()) {
                unsent += 1;
            }
        }
        if let Some(next) = self.replica.take_proposal() {
            self.watch.propose(self.replica.view().map(|view| view.number), next);
        }
        if let Some(e) = self.replica.failure().filter(|_| !std::mem::replace(&mut self.failed, true)) {
            let text = format!(
                "this node leaves the chain: {e}; give all nodes the same --max-keys and --pool, and start it again"
            );
            log(Level::Error, &text);
        }
        unsent
    }

    /// For the metrics.
    pub fn figures(&self) -> ChainFigures {
        let view = self.replica.view();
        let chain = view.map_or(0, |view| view.chain.len());
        ChainFigures {
            view: view.map_or(0, |view| view.number),
            nodes: chain as u64,
            place: self.replica.place(),
            tail: matches!(self.replica.place(), Place::At(n) if n + 1 == chain),
            stats: self.replica.stats(),
        }
    }
}
