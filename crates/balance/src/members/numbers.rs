//! Numbers of members in the data plane: a server's, and slots in it. A slot is used by another device only when no switch has
//! connections to the former one.

use super::entry::{Entry, Name};
use crate::types::{DeviceNumber, MAX_SERVER};
use pointsman_wire::random::fnv;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The owner of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The member.
    pub name: Name,
    /// Its addresses.
    pub addresses: BTreeSet<IpAddr>,
    /// Its source.
    pub source: String,
    /// It left, and may have connections.
    pub left: bool,
}

/// Why a member gets no number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NumberError {
    /// Another member has this address, or had it and may have connections.
    Address(IpAddr, Name, bool),
    /// All slots of the server are taken.
    Slots(usize),
    /// All numbers of servers are taken.
    Servers,
}

/// Who has which number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    slots: BTreeMap<DeviceNumber, Owner>,
    /// Numbers of servers in `rack.toml`.
    pub taken: BTreeSet<u16>,
    /// Slots of a server.
    pub limit: usize,
}

impl Numbers {
    /// The number of this member: its former one if it has one in this place.
    ///
    /// # Errors
    /// It cannot have one now.
    pub fn assign(&mut self, entry: &Entry, source: &str) -> Result<DeviceNumber, NumberError> {
        let addresses: BTreeSet<IpAddr> = entry.addresses().collect();
        for (number, owner) in &mut self.slots {
            let Some(address) = owner.addresses.intersection(&addresses).next() else { continue };
            if owner.name != entry.name || owner.addresses != addresses {
                return Err(NumberError::Address(*address, owner.name.clone(), owner.left));
            }
            (owner.left, owner.source) = (false, source.to_string());
            return Ok(*number);
        }
        let server = self.server(&entry.name.server).ok_or(NumberError::Servers)?;
        let free = (0..self.limit as u8).map(|slot| DeviceNumber::new(server, slot));
        let number =
            free.into_iter().find(|n| !self.slots.contains_key(n)).ok_or(NumberError::Slots(self.limit))?;
        let owner = Owner { name: entry.name.clone(), addresses, source: source.to_string(), left: false };
        self.slots.insert(number, owner);
        Ok(number)
    }

    /// The number of a server: its own, or a free one that follows from its name.
    fn server(&self, name: &str) -> Option<u16> {
        let own = self.slots.iter().find(|(_, o)| o.name.server == name).map(|(n, _)| n.server());
        let first = fnv(name.bytes());
        let others: BTreeSet<u16> = self.slots.keys().map(|n| n.server()).collect();
        // From the upper half at first: numbers of servers in rack.toml, also of those that were removed, are mostly small.
        let half = u64::from(MAX_SERVER / 2);
        let all = (0..u64::from(MAX_SERVER))
            .map(|i| MAX_SERVER - ((first % half + i) % u64::from(MAX_SERVER)) as u16);
        let free = |n: &u16| !self.taken.contains(n) && !others.contains(n);
        own.or_else(|| all.into_iter().find(free))
    }

    /// A member left.
    pub fn leave(&mut self, number: DeviceNumber) {
        if let Some(owner) = self.slots.get_mut(&number) {
            owner.left = true;
        }
    }

    /// Frees numbers whose owners left, unless a switch still has them.
    pub fn free(&mut self, has: impl Fn(DeviceNumber) -> bool) -> bool {
        let before = self.slots.len();
        self.slots.retain(|number, owner| !owner.left || has(*number));
        self.slots.len() < before
    }

    /// Who has a number now, or had it and may have connections.
    pub fn owners(&self) -> impl Iterator<Item = (DeviceNumber, &Owner)> {
        self.slots.iter().map(|(n, o)| (*n, o))
    }

    /// As it was before a restart.
    pub fn restore(&mut self, number: DeviceNumber, owner: Owner) {
        self.slots.insert(number, owner);
    }

    /// Whether anyone left whose number is not free yet.
    pub fn any_left(&self) -> bool {
        self.slots.values().any(|o| o.left)
    }
}
