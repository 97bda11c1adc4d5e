//! Members over a restart of the controller: their numbers must stay, because connections depend on them.

use super::{Document, Entry, Member, Members, Name, Owner, Penalty};
use crate::trust::ReportKey;
use crate::types::{DeviceNumber, MAX_DEVICES, MAX_SERVER};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

/// The part of a controller's saved state that is about members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    members: Vec<KeptMember>,
    left: Vec<KeptLeft>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    restless: Vec<KeptRestless>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptMember {
    source: String,
    member: Document,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    number: Option<(u16, u8)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptLeft {
    name: String,
    source: String,
    number: (u16, u8),
    addresses: BTreeSet<IpAddr>,
}

/// Points of damping, at a time in milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptRestless {
    name: String,
    points: u64,
    held: bool,
    at_ms: u64,
}

/// Points older than this are over, in milliseconds. Time that the controller was awake begins with it, so that they have a place there.
const OLD_MS: u64 = 600_000;

/// Why a saved state is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptError(String);

impl fmt::Display for KeptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "members: `{}` has a wrong name, number or key", self.0.escape_debug())
    }
}

impl std::error::Error for KeptError {}

impl Kept {
    /// Whether this is all in `saved`, which may have points that are over by now.
    pub fn is_in(&self, saved: &Kept) -> bool {
        let points = self.restless.iter().all(|r| saved.restless.contains(r));
        points && self.members == saved.members && self.left == saved.left
    }

    /// Whether there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.left.is_empty() && self.restless.is_empty()
    }
}

fn number((server, slot): (u16, u8)) -> Option<DeviceNumber> {
    let good = (1..=MAX_SERVER).contains(&server) && usize::from(slot) < MAX_DEVICES;
    good.then(|| DeviceNumber::new(server, slot))
}

impl Members {
    /// What is to be kept.
    pub fn kept(&self) -> Kept {
        let members = self.members.values().map(|m| KeptMember {
            source: m.source.clone(),
            member: m.entry.document(),
            number: m.number.map(|n| (n.server(), n.slot())),
            key: m.key.map(|k| format!("{:016x}", k.bits())),
            owner: m.owner.clone(),
            ttl_ms: m.ttl_ms,
        });
        let left = self.numbers.owners().filter(|(_, o)| o.left).map(|(n, o)| KeptLeft {
            name: o.name.to_string(),
            source: o.source.clone(),
            number: (n.server(), n.slot()),
            addresses: o.addresses.clone(),
        });
        let last = self.last.unwrap_or_default();
        let restless = self.penalties.iter().filter(|(_, p)| !p.is_over(self.awake)).map(|(name, p)| {
            let (points, held, at) = p.parts();
            let at_ms = last.saturating_sub(self.awake.saturating_sub(at));
            KeptRestless { name: name.to_string(), points, held, at_ms }
        });
        Kept { members: members.collect(), left: left.collect(), restless: restless.collect() }
    }

    /// All have their whole time to live: another controller may have renewed them until now. Those that are held out are so by the
    /// clock.
    pub fn renew_all(&mut self, now_ms: u64) {
        self.awake += now_ms.saturating_sub(self.last.unwrap_or(now_ms));
        self.last = Some(now_ms);
        let awake = self.awake;
        self.members.values_mut().for_each(|m| m.expires = m.ttl_ms.map(|ttl| awake + ttl));
    }

    /// After [`Members::restore`]: these members were known before, and need no lines.
    pub fn resume(&mut self, before: &Members) {
        self.counts.clone_from(&before.counts);
        self.troubles.clone_from(&before.troubles);
        for (name, m) in &mut self.members {
            m.laid = before.members.get(name).is_some_and(|b| b.laid && b.entry.same_place(&m.entry));
        }
    }

    fn restore_restless(&mut self, now_ms: u64, kept: &Kept) -> Result<(), KeptError> {
        (self.awake, self.last) = (self.awake.max(OLD_MS), Some(now_ms));
        for r in &kept.restless {
            let name: Name = r.name.parse().map_err(|_| KeptError(r.name.clone()))?;
            let age = now_ms.saturating_sub(r.at_ms).min(OLD_MS);
            self.penalties.insert(name, Penalty::new(r.points, r.held, self.awake - age));
        }
        Ok(())
    }

    /// Takes what was kept. Members have their whole time to live again, and those that were held out are held out for the rest of their
    /// time. Those that the rack's file does not admit any more are left behind; their numbers are free when no switch has them.
    ///
    /// # Errors
    /// It is not what [`Members::kept`] says.
    pub fn restore(&mut self, now_ms: u64, kept: &Kept) -> Result<(), KeptError> {
        self.restore_restless(now_ms, kept)?;
        for l in &kept.left {
            let wrong = || KeptError(l.name.clone());
            let name: Name = l.name.parse().map_err(|_| wrong())?;
            let owner = Owner { name, addresses: l.addresses.clone(), source: l.source.clone(), left: true };
            self.numbers.restore(number(l.number).ok_or_else(wrong)?, owner);
        }
        for m in &kept.members {
            let wrong = || KeptError(m.member.name.clone());
            let name: Name = m.member.name.parse().map_err(|_| wrong())?;
            let number = m.number.map(|n| number(n).ok_or_else(wrong)).transpose()?;
            let key = m.key.as_deref().map(|k| ReportKey::parse(k).ok_or_else(wrong)).transpose()?;
            let entry = self.source(&m.source).map(|s| Entry::new(&m.member, s));
            let addresses = m.member.address.map(IpAddr::V4).into_iter();
            let addresses = addresses.chain(m.member.address6.map(IpAddr::V6)).collect();
            let left = !matches!(entry, Some(Ok(_)));
            if let Some(number) = number {
                let owner = Owner { name: name.clone(), addresses, source: m.source.clone(), left };
                self.numbers.restore(number, owner);
            }
            let Some(Ok(entry)) = entry else {
                self.lines
                    .push(format!("member `{name}` is not restored: rack.toml does not admit it any more"));
                continue;
            };
            let expires = m.ttl_ms.map(|ttl| self.awake + ttl);
            let damped = self.penalties.get(&name).is_some_and(|p| p.is_held(self.awake));
            let member = Member {
                source: m.source.clone(),
                entry,
                number,
                key,
                owner: m.owner.clone(),
                ttl_ms: m.ttl_ms,
                expires,
                why_not: None,
                laid: false,
                damped,
            };
            self.members.insert(name, member);
        }
        self.dirty = true;
        Ok(())
    }
}
