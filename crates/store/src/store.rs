//! The state machine.

use crate::binding::Bindings;
use crate::config::{Config, ConfigError, Rule};
use crate::fixed;
use crate::message::{Flags, Head, Kind, Malformed, Message, Status, later};
use crate::outbox::Outbox;
use crate::peers::Peers;
use crate::pool::Side;
use crate::saved::{LoadError, Saved};
use crate::session::Sessions;
use crate::snapshot::Snapshots;
use crate::stats::Stats;
use crate::table::{Owner, Reader, RecordId, Role, Table};
use crate::waiting::Queue;
use std::collections::{BTreeMap, BTreeSet};

/// A store whose peers have addresses of type `A`.
///
/// Times are nanoseconds of one clock that never runs backwards. After each call, send what is in the outbox, and call
/// [`wake`](Store::wake) at the [`deadline`](Store::deadline).
#[derive(Debug)]
pub struct Store<A> {
    pub(crate) config: Config,
    pub(crate) table: Table,
    /// Requests for keys that other switches own. None is empty.
    pub(crate) queues: BTreeMap<RecordId, Queue<A>>,
    pub(crate) queued: usize,
    /// When each queue is looked at again.
    pub(crate) ends: BTreeSet<(u64, RecordId)>,
    pub(crate) peers: Peers<A>,
    /// Keys that the store does not know are granted from this time on.
    pub(crate) grants_from: u64,
    pub(crate) bindings: Bindings,
    pub(crate) sessions: Sessions,
    pub(crate) snapshots: Snapshots,
    /// When each fixed key ends.
    pub(crate) fixed_ends: BTreeSet<(u64, RecordId)>,
    /// Keys that changed since [`Store::saved`].
    pub(crate) changed: Vec<RecordId>,
    pub(crate) stats: Stats,
}

pub(crate) fn next_grant(grant: u32) -> u32 {
    grant.wrapping_add(1).max(1)
}

impl<A: Copy + Eq> Store<A> {
    /// A store without keys.
    ///
    /// # Errors
    /// Settings that no store can have.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Store {
            table: Table::new(config.seed, config.max_keys),
            bindings: Bindings::new(&config),
            sessions: Sessions::default(),
            snapshots: Snapshots::default(),
            fixed_ends: BTreeSet::new(),
            config,
            queues: BTreeMap::new(),
            queued: 0,
            ends: BTreeSet::new(),
            peers: Peers::default(),
            grants_from: 0,
            changed: Vec::new(),
            stats: Stats::default(),
        })
    }

    /// Counts since the start.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Number of keys.
    pub fn keys(&self) -> usize {
        self.table.len()
    }

    /// The stored value of a key, for tests and tools.
    pub fn value(&self, object: u16, key: &[u8]) -> Option<&[u8]> {
        self.table.find(object, key).ok().map(|id| self.table.get(id).value())
    }

    /// Requests that wait for the end of a lease.
    pub fn waiting(&self) -> usize {
        self.queued
    }

    /// Grants no unknown key for the length of a lease: a former store may have granted it.
    pub fn hold_back(&mut self, now: u64) {
        self.grants_from = now.saturating_add(self.config.hold_ns());
    }

    /// Whether that time is not over.
    pub fn holds_back(&self, now: u64) -> bool {
        now < self.grants_from
    }

    /// The states of the keys that changed since [`Store::saved`], if the store is durable. They must be on disk before the outbox is sent.
    pub fn changes(&self) -> impl Iterator<Item = Saved<'_>> {
        self.changed.iter().map(|id| Saved::of(&self.table, *id))
    }

    /// Rows that are to be written and removed: [`Store::changes`] and [`Store::removed`].
    pub fn unsaved(&self) -> usize {
        self.changed.len() + self.bindings.removed.len()
    }

    /// All changes are on disk.
    pub fn saved(&mut self) {
        self.bindings.removed.clear();
        for id in self.changed.drain(..) {
            let record = self.table.get_mut(id);
            (record.changed, record.extended) = (false, false);
        }
    }

    /// Takes a key's state from the disk, at the start. Others get the key after `hold_ns`, if it has an owner.
    ///
    /// # Errors
    /// It is not a state that [`Store::changes`] gave, or there is no room for it.
    pub fn load(&mut self, now: u64, hold_ns: u64, saved: Saved<'_>) -> Result<(), LoadError> {
        saved.check()?;
        self.bindings.check_port(&saved)?;
        let Err(place) = self.table.find(saved.object, saved.key) else { return Err(LoadError::Twice) };
        let id = self.table.insert(place, saved.object, saved.key, saved.value, saved.sequence);
        let id = id.ok_or(LoadError::Full)?;
        let until = now.saturating_add(hold_ns);
        // The next answer to this start of the switch extends the lease of all its keys.
        let owner = saved.owner.filter(|_| saved.session);
        let session = owner.is_some_and(|o| self.sessions.extend(o.switch, o.incarnation, until));
        let readers =
            saved.readers.iter().flatten().filter(|_| self.config.without != Some(Rule::ReadersKept));
        let readers: Vec<Reader> =
            readers.map(|(owner, grant)| Reader { owner: *owner, grant: *grant, until }).collect();
        self.table.set_readers(id, readers);
        let record = self.table.get_mut(id);
        record.session = session;
        record.grant = saved.grant;
        record.owner = saved.owner;
        (record.side, record.ending, record.role) = (saved.side, saved.ending, saved.role);
        record.keep_ms = saved.keep_ms;
        record.until = until;
        if saved.role == Role::Fixed {
            // Clocks of two runs cannot be compared: the whole term again.
            self.ends_at(id, now.saturating_add(fixed::ns(saved.keep_ms)));
        }
        if saved.side == Some(Side::Inside) {
            self.bindings.look_at(now, id);
        }
        Ok(())
    }

    /// Notes that a key's state must be saved.
    pub(crate) fn note(&mut self, id: RecordId) {
        let record = self.table.get_mut(id);
        if self.config.durable && !record.changed {
            record.changed = true;
            self.changed.push(id);
        }
    }

    /// When [`wake`](Store::wake) has something to do; `None`: nothing waits.
    pub fn deadline(&self) -> Option<u64> {
        let ends = self.ends.first().map(|(at, _)| *at);
        let fixed = self.fixed_ends.first().map(|(at, _)| *at);
        ends.into_iter().chain(self.bindings.deadline()).chain(fixed).min()
    }

    /// Takes the payload of a datagram. Answers, to this and to others, are added to `out`.
    pub fn receive(&mut self, now: u64, from: A, bytes: &[u8], out: &mut Outbox<A>) {
        match Message::decode(self.config.secret, bytes) {
            Ok(message) if message.head.answer || message.head.kind == Kind::Recall => {
                self.stats.answers += 1;
            }
            Ok(message) => {
                if !self.peers.hear(message.head.switch, message.head.incarnation, from) {
                    self.stats.twins += 1;
                }
                self.request(now, from, bytes, &message, out);
            }
            Err(Malformed::Digest) => self.stats.forged += 1,
            Err(_) => self.stats.malformed += 1,
        }
    }

    /// Grants the keys whose leases ended to those that wait for them, and removes bindings that are not used and fixed keys that ended.
    pub fn wake(&mut self, now: u64, out: &mut Outbox<A>) {
        while self.wake_one(now, out) {}
    }

    /// Does this for one key: whether one was due.
    pub fn wake_one(&mut self, now: u64, out: &mut Outbox<A>) -> bool {
        let Some((at, id)) = self.ends.first().copied().filter(|(at, _)| *at <= now) else {
            return self.end_fixed(now) || self.look_at_binding(now, out);
        };
        let until = self.until(id);
        match self.queues.get_mut(&id) {
            // The owner has a new grant meanwhile, or its session continues: the recall may be lost.
            Some(queue) if until > now => {
                queue.at = until;
                self.ends.remove(&(at, id));
                self.ends.insert((until, id));
                self.recall(now, id, 0, out);
            }
            _ => self.admit(now, id, out),
        }
        true
    }

    pub(crate) fn request(
        &mut self,
        now: u64,
        from: A,
        bytes: &[u8],
        message: &Message<'_>,
        out: &mut Outbox<A>,
    ) {
        let head = &message.head;
        if head.shard >= self.config.shards {
            self.stats.shards += 1;
            return self.refuse(from, message, Status::Shard, out);
        }
        let found = self.table.find(head.object, message.key);
        if let Ok(id) = found
            && (self.table.get(id).value().len() != message.value.len()
                || self.table.get(id).role == Role::Cell
                || head.flags.fixed != (self.table.get(id).role == Role::Fixed))
        {
            self.stats.sizes += 1;
            return self.refuse(from, message, Status::Size, out);
        }
        match (head.kind, found) {
            _ if head.flags.fixed => self.fixed(now, from, message, found, out),
            (Kind::New, Ok(id)) => self.again(now, from, bytes, message, id, out),
            (Kind::New, Err(_)) if self.holds_back(now) => self.stats.early += 1,
            (Kind::New, Err(_)) if head.flags.existing => {
                self.stats.unknown += 1;
                self.refuse(from, message, Status::Unknown, out);
            }
            (Kind::New, Err(place)) => match self.create(now, message, place) {
                Ok(id) => self.grant(now, from, message, id, true, out),
                Err(status) => {
                    match status {
                        Status::Full => self.stats.full += 1,
                        Status::Size => self.stats.sizes += 1,
                        _ => self.stats.exhausted += 1,
                    }
                    self.refuse(from, message, status, out);
                }
            },
            (Kind::Renew, Ok(id)) if self.reads(message, id) => {
                self.stats.renewals += 1;
                self.read_on(now, from, message, id, head.grant, out);
            }
            (Kind::Release, Ok(id)) if self.reads(message, id) => {
                self.read_no_more(now, from, message, id, out)
            }
            (Kind::Snapshot, Ok(id)) if self.owns(message, id) => self.cell(now, from, message, id, out),
            (_, Ok(id)) if self.owns(message, id) => self.owned(now, from, message, id, out),
            (Kind::Release, _) => {
                self.stats.needless_releases += 1;
                self.refuse(from, message, Status::Ok, out);
            }
            _ => {
                self.stats.stale += 1;
                self.refuse(from, message, Status::Stale, out);
            }
        }
    }

    /// Adds a key that the store does not know.
    fn create(&mut self, now: u64, message: &Message<'_>, place: usize) -> Result<RecordId, Status> {
        let head = &message.head;
        if head.flags.allocate {
            return self.bind(now, message, place);
        }
        let added = self.table.insert(place, head.object, message.key, message.value, head.sequence);
        let id = added.ok_or(Status::Full)?;
        // R3: a former key of the same name had smaller numbers.
        self.table.get_mut(id).grant = self.bindings.last_grant;
        Ok(id)
    }

    /// Whether the request is made under the current grant (R3).
    fn owns(&self, message: &Message<'_>, id: RecordId) -> bool {
        let (head, record) = (&message.head, self.table.get(id));
        let same = |o: Owner| (o.switch, o.incarnation) == (head.switch, head.incarnation);
        self.config.without == Some(Rule::Grants)
            || !head.flags.shared && head.grant == record.grant && record.owner.is_some_and(same)
    }

    /// Numbers that two switches have, as far as their messages show it. Each is returned once.
    pub fn shared_numbers(&mut self) -> Vec<u16> {
        self.peers.shared()
    }

    /// The key changes its owner (R2, R3).
    pub(crate) fn grant(
        &mut self,
        now: u64,
        from: A,
        message: &Message<'_>,
        id: RecordId,
        created: bool,
        out: &mut Outbox<A>,
    ) {
        self.stats.grants += 1;
        self.table.set_readers(id, Vec::new());
        let record = self.table.get_mut(id);
        record.owner = Some(asking(message));
        record.grant = next_grant(record.grant);
        // The request of a former owner for which others wait extends nothing, this one does.
        record.awaited = false;
        let lease_us = self.extend(now, id, &message.head);
        self.table.get_mut(id).awaited = self.queues.contains_key(&id);
        self.note(id);
        self.answer(from, message, id, lease_us, Flags { created, shared: false, ..message.head.flags }, out);
    }

    /// Extends the lease, unless others wait for its end. Returns the term, or 0. A session has other keys, too: others wait for a release.
    pub(crate) fn extend(&mut self, now: u64, id: RecordId, head: &Head) -> u32 {
        let until = now.saturating_add(self.config.hold_ns());
        let session = self.sessions.of_request(head, until);
        let record = self.table.get_mut(id);
        if !session && (record.awaited || head.flags.session) {
            return 0;
        }
        record.until = record.until.max(until);
        record.extended = self.config.leases;
        if std::mem::replace(&mut record.session, session) != session || self.config.leases {
            self.note(id);
        }
        self.config.lease_us
    }

    /// From when on others get the key.
    pub(crate) fn until(&self, id: RecordId) -> u64 {
        let record = self.table.get(id);
        let readers = self.table.readers(id).iter().map(|reader| reader.until).max();
        let alone = self.config.without == Some(Rule::Sessions);
        readers.unwrap_or_else(|| if alone { record.until } else { self.sessions.until(record) })
    }

    /// A request of the owner.
    fn owned(&mut self, now: u64, from: A, message: &Message<'_>, id: RecordId, out: &mut Outbox<A>) {
        let head = &message.head;
        let record = self.table.get_mut(id);
        let newer = match self.config.without {
            Some(Rule::Newer) => true,
            Some(Rule::Serial) => head.sequence > record.sequence,
            _ => later(head.sequence, record.sequence),
        };
        // Only whole snapshots change a key that has them.
        if newer && head.kind != Kind::Renew && record.role == Role::State {
            record.set_value(message.value);
            record.sequence = head.sequence;
            record.ending = head.flags.ending;
            self.stats.writes += 1;
            self.note(id);
        } else if head.kind != Kind::Release {
            self.stats.renewals += 1;
        }
        if head.kind == Kind::Release {
            self.stats.releases += 1;
            let record = self.table.get_mut(id);
            record.owner = None;
            record.until = now;
            self.note(id);
            self.answer(from, message, id, 0, head.flags, out);
            let record = self.table.get_mut(id);
            // Nothing of this grant counts any more.
            record.grant = next_grant(record.grant);
            self.admit(now, id, out);
        } else {
            let lease_us = self.extend(now, id, head);
            self.answer(from, message, id, lease_us, head.flags, out);
        }
    }

    /// Answers from a record.
    pub(crate) fn answer(
        &mut self,
        to: A,
        message: &Message<'_>,
        id: RecordId,
        lease_us: u32,
        flags: Flags,
        out: &mut Outbox<A>,
    ) {
        self.answer_under((self.table.get(id).grant, lease_us), to, message, id, flags, out);
    }

    /// Answers from a record, to the holder of this grant, with this term.
    pub(crate) fn answer_under(
        &mut self,
        (grant, lease_us): (u32, u32),
        to: A,
        message: &Message<'_>,
        id: RecordId,
        flags: Flags,
        out: &mut Outbox<A>,
    ) {
        let record = self.table.get(id);
        let mut head = message.head;
        head.answer = true;
        head.flags = flags;
        head.grant = grant;
        let forgets = self.config.without == Some(Rule::Carried) && head.kind == Kind::New;
        head.sequence = if forgets { head.sequence } else { record.sequence };
        head.lease_us = lease_us;
        let answer = Message { head, key: record.key(), value: record.value(), packet: message.packet };
        out.push(to, |bytes| answer.encode(self.config.secret, bytes));
    }

    /// Answers a request that changes nothing. Its packet returns only if the program has yet to process it.
    pub(crate) fn refuse(&mut self, to: A, message: &Message<'_>, status: Status, out: &mut Outbox<A>) {
        let mut head = message.head;
        head.answer = true;
        head.status = status;
        head.lease_us = 0;
        let packet: &[u8] = if head.flags.input { message.packet } else { &[] };
        let answer = Message { head, packet, ..*message };
        out.push(to, |bytes| answer.encode(self.config.secret, bytes));
    }
}

pub(crate) fn asking(message: &Message<'_>) -> Owner {
    let head = &message.head;
    Owner { switch: head.switch, incarnation: head.incarnation, generation: head.generation }
}
