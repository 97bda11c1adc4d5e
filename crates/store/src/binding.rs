//! Bindings of address translation: two keys that come in one step, and go together when no switch uses them.

use crate::config::Config;
use crate::message::{Message, Status, later};
use crate::outbox::Outbox;
use crate::pool::{End, Ports, Side, Tuple, end_of, is_value, value};
use crate::saved::{LoadError, Saved};
use crate::store::Store;
use crate::table::RecordId;
use std::collections::BTreeSet;

/// What the store knows of bindings, apart from their keys.
#[derive(Debug)]
pub(crate) struct Bindings {
    ports: Ports,
    /// When each binding is looked at again: its inside key.
    looks: BTreeSet<(u64, RecordId)>,
    /// Time between two looks, in nanoseconds.
    every: u64,
    /// Ports are marked later: keys of several moments may have the same one.
    unmarked: bool,
    /// The highest grant of keys that were removed.
    pub last_grant: u32,
    /// Bindings that were removed.
    returned: u64,
    /// Keys of rows that must be removed from the disk.
    pub removed: Vec<Vec<u8>>,
}

/// Ports of the pools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortFigures {
    /// In use.
    pub used: u64,
    /// In use and free.
    pub all: u64,
    /// Returned since the start, because their binding was not used.
    pub returned: u64,
}

fn ns(seconds: u32) -> u64 {
    u64::from(seconds) * 1_000_000_000
}

impl Bindings {
    pub fn new(config: &Config) -> Self {
        Bindings {
            ports: Ports::new(&config.pools),
            looks: BTreeSet::new(),
            every: ns(config.idle.brief_s),
            unmarked: false,
            last_grant: 0,
            returned: 0,
            removed: Vec::new(),
        }
    }

    pub fn deadline(&self) -> Option<u64> {
        self.looks.first().map(|(at, _)| *at)
    }

    /// Looks at a binding after some time.
    pub fn look_at(&mut self, now: u64, inside: RecordId) {
        self.looks.insert((now.saturating_add(self.every), inside));
    }

    /// The binding has been removed.
    pub fn ignore(&mut self, inside: RecordId) {
        self.looks.retain(|(_, id)| *id != inside);
    }

    /// The port is free.
    pub fn give_back(&mut self, protocol: u8, own: End) {
        if !self.unmarked {
            self.ports.mark(protocol, own, false);
        }
    }

    /// The port of a key from the disk is in use from now on.
    pub fn check_port(&mut self, saved: &Saved<'_>) -> Result<(), LoadError> {
        let port = Tuple::inside(saved.key).zip(end_of(saved.value));
        match (saved.side, port) {
            (Some(Side::Inside), Some((tuple, own))) if !self.unmarked => {
                if self.ports.mark(tuple.protocol, own, true) { Ok(()) } else { Err(LoadError::Port) }
            }
            _ => Ok(()),
        }
    }
}

impl<A: Copy + Eq> Store<A> {
    /// Forgets all keys. From now on keys of several moments may come together ([`Store::adopt`]): more than there is room for, and two with
    /// one port, until [`Store::caught_up`].
    pub(crate) fn catch_up(&mut self) {
        self.table.stretch();
        self.bindings.unmarked = true;
    }

    /// All keys are of one moment again.
    pub(crate) fn caught_up(&mut self) -> Result<(), LoadError> {
        if !self.table.settle() {
            return Err(LoadError::Full);
        }
        self.bindings.unmarked = false;
        let mut keys = (0..self.table.end()).filter(|id| self.table.live(*id).is_some());
        keys.try_for_each(|id| self.bindings.check_port(&Saved::of(&self.table, id)))
    }

    /// Ports of the pools.
    pub fn ports(&self) -> PortFigures {
        let (used, all) = self.bindings.ports.count();
        PortFigures { used: used as u64, all: all as u64, returned: self.bindings.returned }
    }

    /// The highest grant of keys that were removed: for the disk, with [`Store::removed`].
    pub fn last_grant(&self) -> u32 {
        self.bindings.last_grant
    }

    /// Continues after this grant: what [`Store::last_grant`] was.
    pub fn continue_grants(&mut self, last: u32) {
        self.bindings.last_grant = last;
    }

    /// Keys of the rows that must be removed from the disk before those of [`Store::changes`] are written.
    pub fn removed(&self) -> impl Iterator<Item = &[u8]> {
        self.bindings.removed.iter().map(Vec::as_slice)
    }

    /// Adds both keys of a binding, with a free port; returns the inside one, whose place in the index is `place`.
    pub(crate) fn bind(&mut self, now: u64, message: &Message<'_>, place: usize) -> Result<RecordId, Status> {
        let tuple = Tuple::inside(message.key).filter(|_| is_value(message.value)).ok_or(Status::Size)?;
        if self.table.room() < 2 {
            return Err(Status::Full);
        }
        let own = self.bindings.ports.take(tuple.protocol).ok_or(Status::Exhausted)?;
        let (object, sequence) = (message.head.object, message.head.sequence);
        let outside = tuple.outside(own);
        if self.table.find(object, &outside).is_ok() {
            // A switch has added a key of this form by itself.
            self.bindings.ports.mark(tuple.protocol, own, false);
            return Err(Status::Exhausted);
        }
        let here = value(own, message.value).ok_or(Status::Size)?;
        let there = value(tuple.own, message.value).ok_or(Status::Size)?;
        let inside = self.table.insert(place, object, message.key, &here, sequence).ok_or(Status::Full)?;
        let place = self.table.find(object, &outside).err().ok_or(Status::Full)?;
        let outside = self.table.insert(place, object, &outside, &there, sequence).ok_or(Status::Full)?;
        for (id, side) in [(inside, Side::Inside), (outside, Side::Outside)] {
            let record = self.table.get_mut(id);
            (record.side, record.grant) = (Some(side), self.bindings.last_grant);
            self.note(id);
        }
        self.bindings.look_at(now, inside);
        Ok(inside)
    }

    /// Removes a binding that no switch has used for some time, if one is due: whether one was.
    pub(crate) fn look_at_binding(&mut self, now: u64, out: &mut Outbox<A>) -> bool {
        let Some((at, inside)) = self.bindings.looks.first().copied().filter(|(at, _)| *at <= now) else {
            return false;
        };
        self.bindings.looks.remove(&(at, inside));
        if !self.unbind(now, inside, out) {
            self.bindings.look_at(now, inside);
        }
        true
    }

    /// Removes a binding, unless it is used. Keys that a session holds are recalled first.
    fn unbind(&mut self, now: u64, inside: RecordId, out: &mut Outbox<A>) -> bool {
        let record = self.table.get(inside);
        let (Some(tuple), Some(own)) = (Tuple::inside(record.key()), end_of(record.value())) else {
            return true;
        };
        let outside = self.table.find(record.object, &tuple.outside(own)).ok();
        let other = outside.map(|id| self.table.get(id));
        let brief = record.ending || other.is_none_or(|o| o.ending || o.owner.is_none() && o.until == 0);
        let idle = self.config.idle;
        let idle_s = match tuple.protocol {
            _ if brief => idle.brief_s,
            6 => idle.tcp_s,
            _ => idle.udp_s,
        };
        let until = record.until.max(other.map_or(0, |o| o.until));
        let awaited = record.awaited || other.is_some_and(|o| o.awaited);
        if awaited || now < until.saturating_add(ns(idle_s)) {
            return false;
        }
        let held = |id: &RecordId| now < self.until(*id);
        let recalled: Vec<RecordId> = outside.into_iter().chain([inside]).filter(held).collect();
        if !recalled.is_empty() {
            recalled.into_iter().for_each(|id| self.recall(now, id, 0, out));
            return false;
        }
        self.remove(inside);
        outside.into_iter().for_each(|id| self.remove(id));
        self.bindings.ports.mark(tuple.protocol, own, false);
        self.bindings.returned += 1;
        true
    }

    pub(crate) fn remove(&mut self, id: RecordId) {
        let record = self.table.get(id);
        if later(record.grant, self.bindings.last_grant) {
            self.bindings.last_grant = record.grant;
        }
        if self.config.durable {
            self.bindings.removed.push(Saved::row_key(record.object, record.key()));
            self.changed.retain(|changed| *changed != id);
        }
        self.fixed_ends.remove(&(record.until, id));
        self.table.remove(id);
        self.snapshots.forget(id);
    }
}
