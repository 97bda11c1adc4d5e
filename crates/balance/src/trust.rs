//! Trust in reports: the keys of agents.
//!
//! An agent signs with the highest number that it has; a switch takes every number that it was given, so that a new key can take the
//! place of an old one without a gap: first the controller gets it, then the agent, then the old one goes.

use crate::types::DeviceNumber;
use pointsman_wire::siphash::half_sip_hash;
use std::collections::BTreeMap;
use std::fmt;

/// Whether reports need a digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Reports are ignored.
    Closed,
    /// Reports need a digest; the path of the file with the keys, as written.
    Keys(String),
    /// Reports need no digest: the right port and address suffice.
    Unauthenticated,
}

/// A key. It is never shown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReportKey([u8; 8]);

impl ReportKey {
    /// The key of these bytes.
    pub fn new(bytes: [u8; 8]) -> Self {
        ReportKey(bytes)
    }

    /// The digest of a message.
    pub fn digest(&self, message: &[u8]) -> [u8; 8] {
        half_sip_hash(self.0, message)
    }

    /// As the data plane's table has it.
    pub fn bits(&self) -> u64 {
        u64::from_be_bytes(self.0)
    }

    /// The key of these 16 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let bits = u64::from_str_radix(text, 16).ok().filter(|_| digits)?;
        Some(ReportKey(bits.to_be_bytes()))
    }
}

impl fmt::Debug for ReportKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReportKey(secret)")
    }
}

/// The keys of a rack's agents, by device and number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportKeys(pub(crate) BTreeMap<(DeviceNumber, u8), ReportKey>);

impl ReportKeys {
    /// Adds a key.
    pub fn insert(&mut self, agent: DeviceNumber, number: u8, key: ReportKey) {
        self.0.insert((agent, number), key);
    }

    /// The key with the highest number that an agent has.
    pub fn newest(&self, agent: DeviceNumber) -> Option<(u8, ReportKey)> {
        self.of(agent).next_back()
    }

    /// All keys of an agent, by number.
    pub fn of(&self, agent: DeviceNumber) -> impl DoubleEndedIterator<Item = (u8, ReportKey)> + '_ {
        self.0.range((agent, 0)..=(agent, u8::MAX)).map(|((_, number), key)| (*number, *key))
    }
}
