//! The set-up channel of a server: connections of controllers, of which one sets queue pairs up.

use crate::responder::SetupError;
use crate::setup::{Memory, Reply, Request, Secret, Session};
use pointsman_wire::siphash::half_sip_hash;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The most queue pairs.
const PAIRS: usize = 4096;

/// Queue pairs of a server, whoever answers their requests.
pub trait Pairs {
    /// How many there are.
    fn count(&self) -> usize;

    /// Adds one for the requester's `peer`, whose packets come from this address; the first has the number `psn`. Returns its number.
    ///
    /// # Errors
    /// The reason, in words for the controller's operator.
    fn add(&mut self, peer: u32, psn: u32, from: IpAddr) -> Result<u32, String>;

    /// Ends one: whether it was there.
    fn remove(&mut self, pair: u32) -> bool;

    /// Ends all.
    fn clear(&mut self);
}

/// What happened on the channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelStats {
    /// Queue pairs.
    pub pairs: u64,
    /// Requests of controllers that were done, and that were refused.
    pub setups: [u64; 2],
    /// Whether a controller is connected that has set queue pairs up.
    pub controlled: bool,
}

/// The server's side of the channel.
#[derive(Debug)]
pub struct Channel {
    memory: Memory,
    secret: Option<Secret>,
    /// The key of the nonces, and their number so far.
    nonces: (u64, u64),
    sessions: BTreeMap<u64, Session>,
    /// The connection that sets queue pairs up.
    controller: Option<u64>,
    setups: [u64; 2],
}

impl Channel {
    /// The channel of a server with this memory. Without a secret anyone who reaches it can set queue pairs up. `seed` determines the
    /// nonces, which do not tell it: others must not know it.
    pub fn new(memory: Memory, secret: Option<Secret>, seed: u64) -> Self {
        let (nonces, sessions) = ((seed, 0), BTreeMap::new());
        Channel { memory, secret, nonces, sessions, controller: None, setups: [0; 2] }
    }

    /// The server's memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The counts so far.
    pub fn stats(&self, pairs: &dyn Pairs) -> ChannelStats {
        ChannelStats {
            pairs: pairs.count() as u64,
            setups: self.setups,
            controlled: self.controller.is_some(),
        }
    }

    /// A controller connects: what it gets to read first. `connection` is its number, never used twice.
    pub fn connect(&mut self, connection: u64) -> String {
        let (key, number) = &mut self.nonces;
        // Everyone may read it: a keyed hash, because the generator that made the region's key can be calculated back.
        let nonce = half_sip_hash(key.to_le_bytes(), &number.to_le_bytes());
        *number += 1;
        let session = Session::new(u64::from_le_bytes(nonce), self.secret);
        let greeting = session.greeting();
        self.sessions.insert(connection, session);
        greeting
    }

    /// A connection has ended. Queue pairs stay, because switches use them on, until another controller sets some up.
    pub fn disconnect(&mut self, connection: u64) {
        self.sessions.remove(&connection);
        if self.controller == Some(connection) {
            self.controller = None;
        }
    }

    /// A line of a controller: the answer, and whether the connection continues.
    pub fn line(&mut self, connection: u64, line: &str, pairs: &mut dyn Pairs) -> (Reply, bool) {
        let Some(session) = self.sessions.get_mut(&connection) else {
            return (Reply::Refused("no such connection".into()), false);
        };
        let read = session.read(line);
        let goes_on = read.is_ok();
        let done =
            read.map_err(|e| e.to_string()).and_then(|request| self.request(connection, request, pairs));
        self.setups[usize::from(done.is_err())] += 1;
        (done.unwrap_or_else(Reply::Refused), goes_on)
    }

    fn request(&mut self, connection: u64, request: Request, pairs: &mut dyn Pairs) -> Result<Reply, String> {
        if request == Request::Memory {
            return Ok(Reply::Memory(self.memory.clone()));
        }
        match self.controller {
            Some(other) if other != connection => {
                return Err("another controller is connected: stop it first".into());
            }
            Some(_) => {}
            None => {
                // It knows nothing of the queue pairs of an earlier one.
                pairs.clear();
                self.controller = Some(connection);
            }
        }
        match request {
            Request::Pair { peer, psn, from } => self.add(peer, psn, from, pairs).map(Reply::Pair),
            Request::Remove(pair) if pairs.remove(pair) => Ok(Reply::Removed),
            Request::Remove(pair) => Err(format!("unknown queue pair {pair}")),
            Request::Memory => Ok(Reply::Memory(self.memory.clone())),
        }
    }

    fn add(&self, peer: u32, psn: u32, from: IpAddr, pairs: &mut dyn Pairs) -> Result<u32, String> {
        if pairs.count() == PAIRS {
            return Err(format!("there are {PAIRS} queue pairs: remove some"));
        }
        SetupError::check(self.memory.mtu, peer).map_err(|e| e.to_string())?;
        if psn > crate::PSN {
            return Err(format!("packet sequence number {psn}: use 24 bits"));
        }
        pairs.add(peer, psn, from)
    }
}
