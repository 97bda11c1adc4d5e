//! The set-up channel between a controller and a server with memory (docs/roce.md): lines of text over a connection that carries bytes in order.

use pointsman_wire::Mac;
use pointsman_wire::siphash::half_sip_hash;
use std::error::Error;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The longest line, in bytes, without its end.
pub const MAX_LINE: usize = 1024;
/// The first words of a server's greeting.
const GREETING: &str = "pointsman-memory 1";

/// The key of the digests.
pub type Secret = [u8; 8];

/// What a controller asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// What memory there is, and where. Also a sign of life.
    Memory,
    /// A queue pair for the requester's `peer`, whose packets come from this address; the first has the number `psn`.
    Pair {
        /// The requester's queue pair.
        peer: u32,
        /// Its first packet sequence number.
        psn: u32,
        /// Its address.
        from: IpAddr,
    },
    /// The end of a queue pair.
    Remove(u32),
}

/// Words that are not a line of this channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError(String);

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a line of this channel: see docs/roce.md", self.0)
    }
}

impl Error for LineError {}

fn wrong(line: &str) -> LineError {
    LineError(line.chars().take(80).flat_map(char::escape_default).collect())
}

/// Reads a decimal number, or a hexadecimal one with `0x`.
fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

fn short(word: &str) -> Option<u32> {
    number(word).and_then(|n| u32::try_from(n).ok())
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Request::Memory => f.write_str("memory"),
            Request::Pair { peer, psn, from } => write!(f, "pair {peer} {psn} {from}"),
            Request::Remove(pair) => write!(f, "remove {pair}"),
        }
    }
}

impl FromStr for Request {
    type Err = LineError;

    fn from_str(line: &str) -> Result<Self, LineError> {
        let words: Vec<&str> = line.split(' ').collect();
        let request = match words[..] {
            ["memory"] => Some(Request::Memory),
            ["pair", peer, psn, from] => short(peer)
                .zip(short(psn))
                .zip(from.parse().ok())
                .map(|((peer, psn), from)| Request::Pair { peer, psn, from }),
            ["remove", pair] => short(pair).map(Request::Remove),
            _ => None,
        };
        request.ok_or_else(|| wrong(line))
    }
}

/// A port of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its number.
    pub number: u32,
    /// Its Ethernet address.
    pub mac: Mac,
    /// Its IP addresses.
    pub addresses: Vec<IpAddr>,
}

/// A server's memory, for requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The address of its first byte.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// The key of its region.
    pub key: u32,
    /// The path MTU: bytes of data in a packet.
    pub mtu: usize,
    /// Where it is reached.
    pub ports: Vec<Port>,
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x} {} {:#x} {}", self.address, self.bytes, self.key, self.mtu)?;
        for port in &self.ports {
            write!(f, " {}/{}", port.number, port.mac)?;
            port.addresses.iter().try_for_each(|a| write!(f, "/{a}"))?;
        }
        Ok(())
    }
}

impl FromStr for Port {
    type Err = LineError;

    fn from_str(word: &str) -> Result<Self, LineError> {
        let mut parts = word.split('/');
        let number = parts.next().and_then(short);
        let mac = parts.next().and_then(|m| m.parse().ok());
        let addresses: Option<Vec<IpAddr>> = parts.map(|a| a.parse().ok()).collect();
        match (number, mac, addresses) {
            (Some(number), Some(mac), Some(addresses)) => Ok(Port { number, mac, addresses }),
            _ => Err(wrong(word)),
        }
    }
}

impl FromStr for Memory {
    type Err = LineError;

    fn from_str(words: &str) -> Result<Self, LineError> {
        let mut rest = words.split(' ');
        let mut next = || rest.next().and_then(number);
        let (Some(address), Some(bytes), Some(key), Some(mtu)) = (next(), next(), next(), next()) else {
            return Err(wrong(words));
        };
        let key = u32::try_from(key).map_err(|_| wrong(words))?;
        let mtu = usize::try_from(mtu).map_err(|_| wrong(words))?;
        address.checked_add(bytes).ok_or_else(|| wrong(words))?;
        let ports = rest.map(str::parse).collect::<Result<_, _>>()?;
        Ok(Memory { address, bytes, key, mtu, ports })
    }
}

/// A server's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To [`Request::Memory`].
    Memory(Memory),
    /// To [`Request::Pair`]: the number of the queue pair.
    Pair(u32),
    /// To [`Request::Remove`].
    Removed,
    /// The request is refused, for this reason.
    Refused(String),
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Memory(memory) => write!(f, "memory {memory}"),
            Reply::Pair(pair) => write!(f, "pair {pair}"),
            Reply::Removed => f.write_str("removed"),
            Reply::Refused(why) => write!(f, "error {why}"),
        }
    }
}

impl FromStr for Reply {
    type Err = LineError;

    fn from_str(line: &str) -> Result<Self, LineError> {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("memory", rest) => rest.parse().map(Reply::Memory),
            ("pair", pair) => short(pair).map(Reply::Pair).ok_or_else(|| wrong(line)),
            ("removed", "") => Ok(Reply::Removed),
            ("error", why) => Ok(Reply::Refused(why.to_string())),
            _ => Err(wrong(line)),
        }
    }
}

/// What both ends know of a connection: requests of an earlier one, or in another order, have wrong digests.
#[derive(Clone, Debug)]
pub struct Session {
    nonce: u64,
    secret: Option<Secret>,
    requests: u32,
}

impl Session {
    /// A connection of a server with this secret, if it has one. `nonce` is never used twice.
    pub fn new(nonce: u64, secret: Option<Secret>) -> Self {
        Session { nonce, secret, requests: 0 }
    }

    /// What the server says first.
    pub fn greeting(&self) -> String {
        let kind = if self.secret.is_some() { "secret" } else { "open" };
        format!("{GREETING} {:016x} {kind}", self.nonce)
    }

    /// The controller's side of a connection that began with this greeting.
    ///
    /// # Errors
    /// This is not such a server, or one of both has a secret and the other none.
    pub fn greeted(greeting: &str, secret: Option<Secret>) -> Result<Self, GreetingError> {
        let rest = greeting.strip_prefix(GREETING).and_then(|r| r.strip_prefix(' '));
        let (nonce, kind) =
            rest.and_then(|r| r.split_once(' ')).ok_or(GreetingError::Foreign(wrong(greeting)))?;
        let nonce = u64::from_str_radix(nonce, 16).map_err(|_| GreetingError::Foreign(wrong(greeting)))?;
        match (kind, secret) {
            ("secret", None) => Err(GreetingError::Needed),
            ("open", Some(_)) => Err(GreetingError::Unknown),
            ("secret" | "open", _) => Ok(Session::new(nonce, secret)),
            _ => Err(GreetingError::Foreign(wrong(greeting))),
        }
    }

    fn digest(&self, secret: Secret, request: &str) -> String {
        let message =
            [&self.nonce.to_be_bytes()[..], &self.requests.to_be_bytes(), request.as_bytes()].concat();
        format!("{:016x}", u64::from_be_bytes(half_sip_hash(secret, &message)))
    }

    /// The line of the next request.
    pub fn line(&mut self, request: &Request) -> String {
        let mut line = request.to_string();
        if let Some(secret) = self.secret {
            line = format!("{line} {}", self.digest(secret, &line));
        }
        self.requests += 1;
        line
    }

    /// The next request, from its line.
    ///
    /// # Errors
    /// It is not a request, or its digest is wrong.
    pub fn read(&mut self, line: &str) -> Result<Request, ReadError> {
        let mut text = line;
        if let Some(secret) = self.secret {
            let (request, digest) = line.rsplit_once(' ').ok_or(ReadError::Digest)?;
            if self.digest(secret, request) != digest {
                return Err(ReadError::Digest);
            }
            text = request;
        }
        self.requests += 1;
        text.parse().map_err(ReadError::Line)
    }
}

/// Why a line is not taken as a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// Its digest is missing or wrong.
    Digest,
    /// It is not a request.
    Line(LineError),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Digest => f.write_str("wrong digest: give both sides the same secret"),
            ReadError::Line(e) => e.fmt(f),
        }
    }
}

impl Error for ReadError {}

/// Why a controller cannot use a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GreetingError {
    /// It speaks something else.
    Foreign(LineError),
    /// It has a secret.
    Needed,
    /// It has none.
    Unknown,
}

impl fmt::Display for GreetingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GreetingError::Foreign(e) => write!(f, "not a memory server of this version: {e}"),
            GreetingError::Needed => {
                f.write_str("the memory server has a secret: give the controller the same one")
            }
            GreetingError::Unknown => f.write_str("the memory server has no secret: start it with --secret"),
        }
    }
}

impl Error for GreetingError {}
