//! The set-up channel of a server: connections of controllers, of which one sets queue pairs up.

use crate::responder::SetupError;
use crate::setup::{Memory, ReadError, Reply, Request, Secret, Session};
use pointsman_wire::siphash::half_sip_hash;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::net::IpAddr;

/// The most queue pairs.
const PAIRS: usize = 4096;

/// Queue pairs of a server, whoever answers their requests.
pub trait Pairs {
    /// Why one cannot be added, in words for the controller's operator.
    type Error: fmt::Display;

    /// How many there are.
    fn count(&self) -> usize;

    /// Adds one for the requester's `peer`, whose packets come from this address; the first has the number `psn`. Returns its number.
    ///
    /// # Errors
    /// The server has no room for another queue pair, or no path to the address.
    fn add(&mut self, peer: u32, psn: u32, from: IpAddr) -> Result<u32, Self::Error>;

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

/// Why a controller's request is refused; `E`: why a queue pair cannot be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError<E> {
    /// The line is not taken as a request.
    Line(ReadError),
    /// Another controller sets queue pairs up.
    Taken,
    /// There are as many queue pairs as there can be.
    Full,
    /// The queue pair's settings are wrong.
    Setup(SetupError),
    /// The packet sequence number has more than 24 bits.
    Psn(u32),
    /// The queue pair cannot be added.
    Add(E),
    /// Unknown queue pair.
    Unknown(u32),
}

impl<E: fmt::Display> fmt::Display for RequestError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestError::Line(e) => e.fmt(f),
            RequestError::Taken => f.write_str("another controller is connected: stop it first"),
            RequestError::Full => write!(f, "there are {PAIRS} queue pairs: remove some"),
            RequestError::Setup(e) => e.fmt(f),
            RequestError::Psn(psn) => write!(f, "packet sequence number {psn}: use 24 bits"),
            RequestError::Add(e) => e.fmt(f),
            RequestError::Unknown(pair) => write!(f, "unknown queue pair {pair}"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> Error for RequestError<E> {}

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
    pub fn stats(&self, pairs: &impl Pairs) -> ChannelStats {
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
    pub fn line(&mut self, connection: u64, line: &str, pairs: &mut impl Pairs) -> (Reply, bool) {
        let Some(session) = self.sessions.get_mut(&connection) else {
            return (Reply::Refused("no such connection".into()), false);
        };
        let read = session.read(line);
        let goes_on = read.is_ok();
        let done =
            read.map_err(RequestError::Line).and_then(|request| self.request(connection, request, pairs));
        self.setups[usize::from(done.is_err())] += 1;
        (done.unwrap_or_else(|e| Reply::Refused(e.to_string())), goes_on)
    }

    fn request<P: Pairs>(
        &mut self,
        connection: u64,
        request: Request,
        pairs: &mut P,
    ) -> Result<Reply, RequestError<P::Error>> {
        if request == Request::Memory {
            return Ok(Reply::Memory(self.memory.clone()));
        }
        match self.controller {
            Some(other) if other != connection => return Err(RequestError::Taken),
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
            Request::Remove(pair) => Err(RequestError::Unknown(pair)),
            Request::Memory => Ok(Reply::Memory(self.memory.clone())),
        }
    }

    fn add<P: Pairs>(
        &self,
        peer: u32,
        psn: u32,
        from: IpAddr,
        pairs: &mut P,
    ) -> Result<u32, RequestError<P::Error>> {
        if pairs.count() == PAIRS {
            return Err(RequestError::Full);
        }
        SetupError::check(self.memory.mtu, peer).map_err(RequestError::Setup)?;
        if psn > crate::PSN {
            return Err(RequestError::Psn(psn));
        }
        pairs.add(peer, psn, from).map_err(RequestError::Add)
    }
}
