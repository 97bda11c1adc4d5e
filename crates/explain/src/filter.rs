//! Which packets a trace follows: a few words about what their headers have in common ([docs/trace.md](../../../docs/trace.md)).
//!
//! Headers are found where they usually are: Ethernet, up to two VLAN tags, IPv4 or IPv6, then ports. A program may see
//! other headers in the same bytes.

mod headers;
mod parse;

use headers::Headers;
use pointsman_v1model::trace::Follow;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// Packets that are followed if a filter does not say how many.
pub const COUNT: u64 = 10;
/// More packets are not followed.
pub const MAX_COUNT: u64 = 10_000;
/// Packets a second that are followed if a filter does not say how many.
pub const RATE: u32 = 100;
/// No filter may ask for more.
pub const MAX_RATE: u32 = 1000;

/// A filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    terms: Vec<Term>,
    /// Packets that are followed before the trace ends.
    pub count: u64,
    /// Packets a second that are followed at most.
    pub rate: u32,
}

/// A condition, and whether it has to be false.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    what: What,
    not: bool,
}

/// A condition on a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    /// The port on which it comes in.
    Port(u32),
    /// The addresses of Ethernet.
    Smac([u8; 6]),
    Dmac([u8; 6]),
    /// The type behind all tags.
    Type(u16),
    /// The outermost tag.
    Vlan(u16),
    /// A network.
    Src(Network),
    Dst(Network),
    /// Either address.
    Host(Network),
    Proto(u8),
    /// From, to.
    Sport(u16, u16),
    Dport(u16, u16),
    /// These bytes at this place.
    Bytes(usize, Vec<u8>),
}

/// Addresses with a prefix of this many bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network(IpAddr, u8);

impl Network {
    fn has(self, address: IpAddr) -> bool {
        let bits = |a: IpAddr| match a {
            IpAddr::V4(a) => u128::from(a.to_bits()) << 96,
            IpAddr::V6(a) => a.to_bits(),
        };
        let rest = 128 - u32::from(self.1);
        let differ = bits(self.0) ^ bits(address);
        self.0.is_ipv4() == address.is_ipv4() && differ.checked_shr(rest).unwrap_or(0) == 0
    }
}

impl Filter {
    /// Reads a filter.
    ///
    /// # Errors
    /// A word is not part of the language; it is named, with its column and a remedy.
    pub fn parse(text: &str) -> Result<Filter, FilterError> {
        parse::filter(text)
    }

    /// What a switch needs to follow the packets.
    pub fn follow(&self) -> Follow {
        let filter = self.clone();
        let wants = Arc::new(move |port, packet: &[u8]| filter.wants(port, packet));
        Follow { wants, left: Arc::new(self.count.into()), per_s: self.rate }
    }

    /// Whether a packet that comes in on `port` is wanted.
    pub fn wants(&self, port: u32, packet: &[u8]) -> bool {
        if self.terms.is_empty() {
            return true;
        }
        let headers = Headers::of(packet);
        self.terms.iter().all(|term| term.not != term.what.holds(port, packet, &headers))
    }
}

impl What {
    fn holds(&self, port: u32, packet: &[u8], headers: &Headers) -> bool {
        let within = |n: Option<u16>, lo: u16, hi: u16| n.is_some_and(|n| (lo..=hi).contains(&n));
        match self {
            What::Port(n) => *n == port,
            What::Smac(mac) => packet.get(6..12) == Some(mac),
            What::Dmac(mac) => packet.get(..6) == Some(mac),
            What::Type(n) => headers.ethertype == Some(*n),
            What::Vlan(n) => headers.vlan == Some(*n),
            What::Src(net) => headers.src.is_some_and(|a| net.has(a)),
            What::Dst(net) => headers.dst.is_some_and(|a| net.has(a)),
            What::Host(net) => [headers.src, headers.dst].into_iter().flatten().any(|a| net.has(a)),
            What::Proto(n) => headers.proto == Some(*n),
            What::Sport(lo, hi) => within(headers.sport, *lo, *hi),
            What::Dport(lo, hi) => within(headers.dport, *lo, *hi),
            What::Bytes(at, bytes) => packet.get(*at..).is_some_and(|rest| rest.starts_with(bytes)),
        }
    }
}

/// A filter that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    text: String,
    /// The byte at which the wrong word begins.
    at: usize,
    wrong: parse::Wrong,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column = self.text.get(..self.at).map_or(0, |t| t.chars().count());
        let shown: String = self.text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
        write!(f, "filter, column {}: {}\n  {shown}\n  {}^", column + 1, self.wrong, " ".repeat(column))
    }
}

impl std::error::Error for FilterError {}
