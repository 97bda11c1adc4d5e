//! A member as its source describes it, and the JSON that all sources share: files, requests, the state over a restart.

use super::prometheus::TargetError;
use crate::config::MemberSource;
use crate::types::{DeviceKind, MAX_PORT, Mac, UnknownName};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Longest name of a server or device, in bytes: as in `rack.toml`.
const MAX_NAME: usize = 64;
/// Largest weight: as in `rack.toml`.
const MAX_WEIGHT: u32 = 1000;
/// Most requests at the same time: as in `rack.toml`.
const MAX_WORKERS: u16 = 4096;

/// The name of a member: `server/device`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// Members with the same server are one server of the rack.
    pub server: String,
    /// Unique in the server.
    pub device: String,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.server, self.device)
    }
}

/// Why a text is not a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameError;

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "write server/device, each of 1 to {MAX_NAME} letters, digits, `-`, `_` or `.`")
    }
}

impl std::error::Error for NameError {}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let good = |part: &str| {
            let known = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            !part.is_empty() && part.len() <= MAX_NAME && part.chars().all(known)
        };
        let (server, device) = text.split_once('/').ok_or(NameError)?;
        if !good(server) || !good(device) {
            return Err(NameError);
        }
        Ok(Name { server: server.into(), device: device.into() })
    }
}

/// A member in JSON. Omitted: weight 1, priority 1, no number of workers, MAC address by ARP or neighbour discovery, and the
/// source's port if it has only one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // as in `Entry`
pub struct Document {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Ipv4Addr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address6: Option<Ipv6Addr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u16>,
}

/// A member as its source describes it, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Unique in the rack.
    pub name: Name,
    /// Its kind.
    pub kind: DeviceKind,
    /// IPv4 address. At least one of the two addresses is there.
    pub address: Option<Ipv4Addr>,
    /// IPv6 address.
    pub address6: Option<Ipv6Addr>,
    /// Port of the switch.
    pub port: u16,
    /// MAC address; without it the controller asks the member for it.
    pub mac: Option<Mac>,
    /// Its weight.
    pub weight: u32,
    /// Its rank: lower is preferred.
    pub priority: u8,
    /// How many requests it works on at the same time, if known.
    pub workers: Option<u16>,
}

/// What is wrong with a field of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldError {
    /// The name.
    Name(String),
    /// The kind.
    Kind(UnknownName),
    /// The MAC address.
    Mac(String),
    /// No address.
    NoAddress,
    /// An address that no station can have, and why.
    Unusable(IpAddr, &'static str),
    /// An address outside of the source's networks, which are listed.
    Foreign(IpAddr, String),
    /// No port, and the source has several.
    NoPort(String),
    /// A port that the source does not have.
    Port(u16, String),
    /// A number out of its range.
    Range(&'static str, u64, u64, u64),
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldError::Name(text) => write!(f, "`name`: `{}`: {NameError}", text.escape_debug()),
            FieldError::Kind(e) => write!(f, "`kind`: {e}"),
            FieldError::Mac(text) => {
                write!(f, "`mac`: `{}`: write a unicast address, 02:00:00:00:00:01", text.escape_debug())
            }
            FieldError::NoAddress => {
                f.write_str("`address`: missing: write its IPv4 address, or its IPv6 address as `address6`")
            }
            FieldError::Unusable(address, why) => {
                write!(f, "`address`: {address} {why}: write an address of one station")
            }
            FieldError::Foreign(address, networks) => write!(
                f,
                "`address`: {address} is not in the networks of this source ({networks}): use an address from there, or add \
                 its network to `networks`"
            ),
            FieldError::NoPort(ports) => {
                write!(f, "`port`: missing: write the port of the switch, one of {ports}")
            }
            FieldError::Port(port, ports) => {
                write!(
                    f,
                    "`port`: {port} is not a port of this source ({ports}): use one of these, or add it to `ports`"
                )
            }
            FieldError::Range(field, value, min, max) => {
                write!(f, "`{field}` is {value}: write a whole number from {min} to {max}")
            }
        }
    }
}

impl std::error::Error for FieldError {}

fn listed<T: fmt::Display>(all: &[T]) -> String {
    let shown: Vec<String> = all.iter().take(8).map(ToString::to_string).collect();
    shown.join(", ") + if all.len() > 8 { ", ..." } else { "" }
}

/// Why no station can have this address, if so.
pub fn unusable(address: IpAddr) -> Option<&'static str> {
    match address {
        a if a.is_unspecified() => Some("is the unspecified address"),
        a if a.is_multicast() => Some("is a multicast address"),
        a if a.is_loopback() => Some("is a loopback address"),
        IpAddr::V4(a) if a.is_broadcast() => Some("is the broadcast address"),
        _ => None,
    }
}

impl Entry {
    /// The member of a document, as far as its source admits it.
    ///
    /// # Errors
    /// The first field that is wrong, and its remedy.
    pub fn new(d: &Document, source: &MemberSource) -> Result<Entry, FieldError> {
        let name: Name = d.name.parse().map_err(|_| FieldError::Name(shortened(&d.name)))?;
        let unknown = |e| UnknownName { name: shortened(&d.kind).escape_debug().to_string(), ..e };
        let kind = DeviceKind::from_str(&d.kind).map_err(|e| FieldError::Kind(unknown(e)))?;
        let port = match (d.port, &source.ports[..]) {
            (Some(port), _) => port,
            (None, [only]) => *only,
            (None, several) => return Err(FieldError::NoPort(listed(several))),
        };
        let mac = match &d.mac {
            None => None,
            Some(text) => {
                let mac = Mac::from_str(text).ok().filter(|m| !m.is_group() && m.to_u64() != 0);
                Some(mac.ok_or_else(|| FieldError::Mac(shortened(text)))?)
            }
        };
        let (weight, priority) = (d.weight.unwrap_or(1), d.priority.unwrap_or(1));
        if !(1..=MAX_WEIGHT).contains(&weight) {
            return Err(FieldError::Range("weight", weight.into(), 1, MAX_WEIGHT.into()));
        }
        if let Some(n) = d.workers.filter(|n| !(1..=MAX_WORKERS).contains(n)) {
            return Err(FieldError::Range("workers", n.into(), 1, MAX_WORKERS.into()));
        }
        let entry = Entry {
            name,
            kind,
            address: d.address,
            address6: d.address6,
            port,
            mac,
            weight,
            priority,
            workers: d.workers,
        };
        entry.admitted(source).map(|()| entry)
    }

    /// Whether a source may have this member.
    ///
    /// # Errors
    /// The first field that it may not have.
    pub fn admitted(&self, source: &MemberSource) -> Result<(), FieldError> {
        if self.addresses().next().is_none() {
            return Err(FieldError::NoAddress);
        }
        for address in self.addresses() {
            if let Some(why) = unusable(address) {
                return Err(FieldError::Unusable(address, why));
            }
            if !source.networks.iter().any(|n| n.contains(address)) {
                return Err(FieldError::Foreign(address, listed(&source.networks)));
            }
        }
        if self.port > MAX_PORT || !source.ports.contains(&self.port) {
            return Err(FieldError::Port(self.port, listed(&source.ports)));
        }
        Ok(())
    }

    /// All its addresses.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.address.map(IpAddr::V4).into_iter().chain(self.address6.map(IpAddr::V6))
    }

    /// Whether another description means a device in the same place: only its share may differ.
    pub fn same_place(&self, other: &Entry) -> bool {
        (self.address, self.address6, self.port, self.mac, self.kind)
            == (other.address, other.address6, other.port, other.mac, other.kind)
    }

    /// As JSON says it.
    pub fn document(&self) -> Document {
        Document {
            name: self.name.to_string(),
            kind: self.kind.name().into(),
            address: self.address,
            address6: self.address6,
            port: Some(self.port),
            mac: self.mac.map(|m| m.to_string()),
            weight: Some(self.weight),
            priority: Some(self.priority),
            workers: self.workers,
        }
    }
}

/// The beginning of a text from outside, for a message.
fn shortened(text: &str) -> String {
    text.chars().take(MAX_NAME).collect()
}

/// What is wrong with a list of members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListError {
    /// It is not such JSON; the parser's message has line and column.
    Json(String),
    /// A member, by its place in the list from 1 and its name.
    Member(usize, String, FieldError),
    /// A target, by its group and its place there from 1.
    Target(usize, usize, TargetError),
    /// A name or address that an earlier member of the list has.
    Twice(usize, String, String),
    /// More members than the source may have.
    TooMany(usize, usize),
    /// The list cannot be read.
    Unreadable(String),
}

impl fmt::Display for ListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListError::Json(why) => write!(
                f,
                "not a list of members: {why}; write [{{\"name\": \"m1/cpu\", \"kind\": \"cpu\", \"address\": \"10.0.1.31\"}}]"
            ),
            ListError::Member(at, name, e) => write!(f, "member {at} (`{}`): {e}", name.escape_debug()),
            ListError::Target(group, at, e) => write!(f, "group {group}, target {at}: {e}"),
            ListError::Twice(at, name, what) => {
                write!(f, "member {at} (`{name}`): an earlier member of the list has {what}: remove one")
            }
            ListError::TooMany(found, most) => {
                write!(f, "{found} members, and `most` is {most}: raise it in rack.toml, or remove some")
            }
            ListError::Unreadable(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ListError {}

/// The members in a file: a list in JSON. A file that was cut off anywhere is never such a list.
///
/// # Errors
/// The first thing that is wrong, and its place.
pub fn parse_list(text: &str, source: &MemberSource) -> Result<Vec<Entry>, ListError> {
    let all: Vec<Document> = serde_json::from_str(text).map_err(|e| ListError::Json(e.to_string()))?;
    check_list(&all, source)
}

/// The same for documents from anywhere.
///
/// # Errors
/// The first thing that is wrong.
pub fn check_list(all: &[Document], source: &MemberSource) -> Result<Vec<Entry>, ListError> {
    if all.len() > source.most {
        return Err(ListError::TooMany(all.len(), source.most));
    }
    let (mut names, mut addresses, mut out) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for (i, document) in all.iter().enumerate() {
        let wrong = |e| ListError::Member(i + 1, shortened(&document.name), e);
        let entry = Entry::new(document, source).map_err(wrong)?;
        let twice = |what: String| Err(ListError::Twice(i + 1, entry.name.to_string(), what));
        if !names.insert(entry.name.clone()) {
            return twice("the same name".into());
        }
        if let Some(address) = entry.addresses().find(|a| !addresses.insert(*a)) {
            return twice(address.to_string());
        }
        out.push(entry);
    }
    Ok(out)
}
