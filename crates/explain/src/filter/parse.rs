//! The text of filters.

use super::{COUNT, Filter, FilterError, MAX_COUNT, MAX_RATE, Network, RATE, Term, What};
use pointsman_wire::Mac;
use std::fmt;
use std::net::IpAddr;

/// The words of the language.
const WORDS: &str =
    "port, smac, dmac, type, vlan, src, dst, host, proto, sport, dport, bytes, count, rate, or all";

const TYPES: [(&str, u16); 3] = [("ipv4", 0x0800), ("arp", 0x0806), ("ipv6", 0x86dd)];
const PROTOS: [(&str, u8); 5] = [("icmp", 1), ("tcp", 6), ("udp", 17), ("icmp6", 58), ("sctp", 132)];

/// What is wrong with a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    NoValue(String),
    Negated(String),
    Unknown(String),
    /// The filter has no words.
    Empty,
    /// Not a number from one to another.
    Number(String, u64, u64),
    /// Neither a number nor one of these names.
    Name(Box<Wrong>, Vec<&'static str>),
    Mac(String),
    Network(String),
    /// A prefix of so many bits, for an address of so many.
    Length(u8, u8),
    /// A range of ports from a greater one to a smaller one.
    Order(u16, u16),
    Bytes(String),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::NoValue(word) => {
                write!(f, "`{word}` has no value: write WORD=VALUE, such as port=1")
            }
            Wrong::Negated(key) => write!(f, "`{key}` cannot be negated"),
            Wrong::Unknown(key) => write!(f, "unknown word `{key}`; expected {WORDS}"),
            Wrong::Empty => f.write_str("the filter is empty: write `all` for all packets"),
            Wrong::Number(value, least, most) => {
                write!(f, "`{value}` is not a number from {least} to {most}")
            }
            Wrong::Name(number, names) => write!(f, "{number}, and not one of {}", names.join(", ")),
            Wrong::Mac(value) => write!(f, "`{value}` is not a MAC address, such as 02:00:0a:00:00:01"),
            Wrong::Network(value) => {
                write!(f, "`{value}` is not an address or a network, such as 10.0.0.7 or fd00::/8")
            }
            Wrong::Length(length, most) => write!(f, "/{length} has more than {most} bits"),
            Wrong::Order(lo, hi) => write!(f, "{lo} is above {hi}: write the lower port first"),
            Wrong::Bytes(value) => {
                write!(f, "`{value}` is not OFFSET:HEX, such as 14:45 for the first byte of IPv4")
            }
        }
    }
}

pub fn filter(text: &str) -> Result<Filter, FilterError> {
    let mut filter = Filter { terms: Vec::new(), count: COUNT, rate: RATE };
    let error = |at: usize, wrong: Wrong| FilterError { text: text.to_string(), at, wrong };
    let separates = |c: char| c == ',' || c.is_whitespace();
    let mut words = 0;
    for word in text.split(separates).filter(|w| !w.is_empty()) {
        words += 1;
        // `word` is a part of `text`.
        let at = word.as_ptr() as usize - text.as_ptr() as usize;
        if word == "all" {
            continue;
        }
        let Some((key, value)) = word.split_once('=') else {
            return Err(error(at, Wrong::NoValue(word.to_string())));
        };
        let (key, not) = key.strip_suffix('!').map_or((key, false), |key| (key, true));
        let of_value = |wrong| error(at + word.len() - value.len(), wrong);
        match key {
            "count" | "rate" if not => return Err(error(at, Wrong::Negated(key.to_string()))),
            "count" => filter.count = number(value, 1, MAX_COUNT).map_err(of_value)?,
            "rate" => filter.rate = number(value, 1, MAX_RATE.into()).map_err(of_value)? as u32,
            _ => match what(key, value).map_err(of_value)? {
                Some(what) => filter.terms.push(Term { what, not }),
                None => return Err(error(at, Wrong::Unknown(key.to_string()))),
            },
        }
    }
    if words == 0 {
        return Err(error(0, Wrong::Empty));
    }
    Ok(filter)
}

/// The condition of this name; `None` if the language has no such word.
fn what(key: &str, value: &str) -> Result<Option<What>, Wrong> {
    Ok(Some(match key {
        "port" => What::Port(number(value, 0, u32::MAX.into())? as u32),
        "smac" => What::Smac(mac(value)?),
        "dmac" => What::Dmac(mac(value)?),
        "type" => What::Type(named(value, &TYPES, u16::MAX)?),
        "vlan" => What::Vlan(number(value, 0, 4095)? as u16),
        "src" => What::Src(network(value)?),
        "dst" => What::Dst(network(value)?),
        "host" => What::Host(network(value)?),
        "proto" => What::Proto(named(value, &PROTOS, u8::MAX)?),
        "sport" => ports(value).map(|(lo, hi)| What::Sport(lo, hi))?,
        "dport" => ports(value).map(|(lo, hi)| What::Dport(lo, hi))?,
        "bytes" => bytes(value)?,
        _ => return Ok(None),
    }))
}

fn number(value: &str, least: u64, most: u64) -> Result<u64, Wrong> {
    let parsed = match value.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => value.parse(),
    };
    let wrong = || Wrong::Number(value.to_string(), least, most);
    parsed.ok().filter(|n| (least..=most).contains(n)).ok_or_else(wrong)
}

/// A number, or a name for one.
fn named<N: Copy + TryFrom<u64> + Into<u64>>(
    value: &str,
    names: &[(&'static str, N)],
    most: N,
) -> Result<N, Wrong> {
    if let Some((_, n)) = names.iter().find(|(name, _)| *name == value) {
        return Ok(*n);
    }
    let number = number(value, 0, most.into());
    let n = number.map_err(|e| Wrong::Name(Box::new(e), names.iter().map(|(name, _)| *name).collect()))?;
    Ok(N::try_from(n).unwrap_or(most))
}

fn mac(value: &str) -> Result<[u8; 6], Wrong> {
    let parsed: Result<Mac, _> = value.parse();
    parsed.map(|mac| mac.0).map_err(|_| Wrong::Mac(value.to_string()))
}

fn network(value: &str) -> Result<Network, Wrong> {
    let wrong = || Wrong::Network(value.to_string());
    let (address, length) = value.split_once('/').map_or((value, None), |(a, l)| (a, Some(l)));
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let length = length.map_or(Ok(most), |l| l.parse().map_err(|_| wrong()))?;
    if length > most {
        return Err(Wrong::Length(length, most));
    }
    Ok(Network(address, length))
}

fn ports(value: &str) -> Result<(u16, u16), Wrong> {
    let one = |text: &str| number(text, 0, u16::MAX.into()).map(|n| n as u16);
    let (lo, hi) = value.split_once('-').unwrap_or((value, value));
    let (lo, hi) = (one(lo)?, one(hi)?);
    if lo > hi {
        return Err(Wrong::Order(lo, hi));
    }
    Ok((lo, hi))
}

/// `OFFSET:HEX`.
fn bytes(value: &str) -> Result<What, Wrong> {
    let wrong = || Wrong::Bytes(value.to_string());
    let (at, digits) = value.split_once(':').ok_or_else(wrong)?;
    let at = number(at, 0, u16::MAX.into()).map_err(|_| wrong())? as usize;
    if digits.is_empty() || !digits.len().is_multiple_of(2) || !digits.is_ascii() {
        return Err(wrong());
    }
    let pairs = (0..digits.len()).step_by(2).map(|i| u8::from_str_radix(&digits[i..i + 2], 16));
    let all: Result<Vec<u8>, _> = pairs.collect();
    Ok(What::Bytes(at, all.map_err(|_| wrong())?))
}
