//! Shared leases (R13): several switches may read a key at the same time, each under a grant of its own. Meanwhile the key has no owner, so
//! nothing can change it. A switch that writes asks for the key like any new owner; it waits for the readers, which are recalled, and they get no
//! longer leases from then on. Requests for a key with readers are handled in the order of their arrival.

use crate::config::Rule;
use crate::message::{Flags, Head, Message, later};
use crate::outbox::Outbox;
use crate::peers::Peers;
use crate::store::{Store, asking, next_grant};
use crate::table::{Owner, Reader, RecordId, Role};

/// Switches that may have shared leases on a key at once. One more waits for the others to release it.
pub const MAX_READERS: usize = 8;

/// What the holder of a lease is to the sender of a request for the same key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holder {
    /// The sender, which repeats its request.
    Same,
    /// The sender before it gave the state up.
    Former,
    /// The sender after it gave the state up that this late message asks for.
    Later,
    /// Another switch, or another one with the same number.
    Other,
}

/// What becomes of a request for a key that the store knows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// It is granted.
    Granted,
    /// Its sender is the owner.
    Owner,
    /// Its sender has this shared lease.
    Reader(Reader),
    /// It waits for leases of others.
    Waits,
    /// It is a late message.
    Late,
}

fn holder<A: Copy + Eq>(peers: &Peers<A>, holds: Owner, asks: Owner) -> Holder {
    if holds == asks {
        return Holder::Same;
    }
    // A start at another address may be another switch.
    if holds.switch != asks.switch || peers.is_elsewhere(holds.switch, holds.incarnation) {
        return Holder::Other;
    }
    // The switch itself says that it no longer uses the former grant (R9).
    let newer = if holds.incarnation == asks.incarnation {
        later(asks.generation, holds.generation)
    } else {
        later(asks.incarnation, holds.incarnation)
    };
    if newer { Holder::Former } else { Holder::Later }
}

impl<A: Copy + Eq> Store<A> {
    /// A request for a key that the store knows.
    pub(crate) fn again(
        &mut self,
        now: u64,
        from: A,
        bytes: &[u8],
        message: &Message<'_>,
        id: RecordId,
        out: &mut Outbox<A>,
    ) {
        let (asks, shares) = (asking(message), self.shares(message, id));
        let peers = &self.peers;
        let former = |owner: Owner| holder(peers, owner, asks) == Holder::Former;
        let mut gave_up = self.table.keep_readers(id, |reader| !former(reader.owner));
        let record = self.table.get_mut(id);
        if shares && record.owner.is_some_and(former) {
            record.owner = None;
            gave_up = true;
        }
        if gave_up {
            // Though the request may have to wait: what is on disk comes back with a restart.
            self.note(id);
        }
        let record = self.table.get(id);
        let in_order = record.awaited && (shares || record.owner.is_none());
        let mut turn = self.turn(now, id, asks, shares);
        if turn == Turn::Granted && in_order {
            turn = Turn::Waits;
        }
        match turn {
            Turn::Granted if shares => self.lend(now, from, message, id, out),
            Turn::Granted => self.grant(now, from, message, id, false, out),
            Turn::Owner => {
                self.stats.repeated += 1;
                let lease_us = self.extend(now, id, &message.head);
                let flags = Flags { shared: false, ..message.head.flags };
                self.answer(from, message, id, lease_us, flags, out);
            }
            Turn::Reader(reader) => {
                self.stats.repeated += 1;
                self.read_on(now, from, message, id, reader.grant, out);
            }
            Turn::Late => self.stats.late += 1,
            Turn::Waits => {
                let full = shares && self.table.readers(id).len() >= MAX_READERS;
                self.stats.readers_full += u64::from(full);
                self.wait(now, from, bytes, id, message.head.shard, out);
                self.next_turn(now, id, out);
            }
        }
    }

    /// Whether a request gets a shared lease. Keys of bindings and of snapshots have none: such requests are handled like those of a switch that writes.
    fn shares(&self, message: &Message<'_>, id: RecordId) -> bool {
        let record = self.table.get(id);
        message.head.flags.shared && record.role == Role::State && record.side.is_none()
    }

    /// Whether a request has to wait for leases.
    pub(crate) fn is_early(&self, now: u64, id: RecordId, message: &Message<'_>) -> bool {
        self.turn(now, id, asking(message), self.shares(message, id)) == Turn::Waits
    }

    /// What becomes of a request that need not wait for those before it.
    fn turn(&self, now: u64, id: RecordId, asks: Owner, shares: bool) -> Turn {
        if let Some(owner) = self.table.get(id).owner {
            return match holder(&self.peers, owner, asks) {
                Holder::Same => Turn::Owner,
                Holder::Former => Turn::Granted,
                Holder::Later => Turn::Late,
                Holder::Other if now < self.until(id) && self.config.without != Some(Rule::LeaseEnds) => {
                    Turn::Waits
                }
                Holder::Other => Turn::Granted,
            };
        }
        let mut others = 0;
        for reader in self.table.readers(id) {
            match holder(&self.peers, reader.owner, asks) {
                Holder::Same if shares => return Turn::Reader(*reader),
                Holder::Later => return Turn::Late,
                Holder::Other if now < reader.until => others += 1,
                // An answer to the sender that it has yet to get is within its own new lease.
                Holder::Same | Holder::Former | Holder::Other => {}
            }
        }
        let most = if shares { MAX_READERS - 1 } else { 0 };
        if others > most && self.config.without != Some(Rule::Readers) { Turn::Waits } else { Turn::Granted }
    }

    /// A switch gets a shared lease, under a grant of its own (R3).
    fn lend(&mut self, now: u64, from: A, message: &Message<'_>, id: RecordId, out: &mut Outbox<A>) {
        self.stats.shared_grants += 1;
        let until = now.saturating_add(self.config.hold_ns());
        if self.table.readers(id).len() >= MAX_READERS {
            self.table.keep_readers(id, |reader| now < reader.until);
        }
        let record = self.table.get_mut(id);
        (record.owner, record.session) = (None, false);
        record.grant = next_grant(record.grant);
        record.extended = self.config.leases;
        let reader = Reader { owner: asking(message), grant: record.grant, until };
        self.table.add_reader(id, reader);
        self.note(id);
        self.answer(from, message, id, self.config.lease_us, message.head.flags, out);
    }

    /// The number of the sender's shared lease, if the request is made under it (R3).
    pub(crate) fn reads(&self, message: &Message<'_>, id: RecordId) -> bool {
        let head = &message.head;
        let same = |reader: &Reader| {
            let owner = reader.owner;
            (owner.switch, owner.incarnation, reader.grant) == (head.switch, head.incarnation, head.grant)
        };
        head.flags.shared && self.table.readers(id).iter().any(same)
    }

    /// Extends a shared lease, unless others wait for its end.
    pub(crate) fn read_on(
        &mut self,
        now: u64,
        from: A,
        message: &Message<'_>,
        id: RecordId,
        grant: u32,
        out: &mut Outbox<A>,
    ) {
        let until = now.saturating_add(self.config.hold_ns());
        let mut lease_us = 0;
        if !self.table.get(id).awaited {
            lease_us = self.config.lease_us;
            self.table.extend_reader(id, grant, until);
            if self.config.leases {
                self.table.get_mut(id).extended = true;
                self.note(id);
            }
        }
        self.answer_under((grant, lease_us), from, message, id, message.head.flags, out);
    }

    /// The end of a shared lease.
    pub(crate) fn read_no_more(
        &mut self,
        now: u64,
        from: A,
        message: &Message<'_>,
        id: RecordId,
        out: &mut Outbox<A>,
    ) {
        self.stats.releases += 1;
        let Head { grant, flags, .. } = message.head;
        self.table.keep_readers(id, |reader| reader.grant != grant);
        self.note(id);
        self.answer_under((grant, 0), from, message, id, flags, out);
        self.next_turn(now, id, out);
    }
}
