//! Requests that wait for leases of other switches, and the recalls of these.

use crate::message::{Flags, Head, Kind, Message, Status};
use crate::outbox::Outbox;
use crate::store::Store;
use crate::table::{Owner, RecordId};

/// Requests that wait for the end of a lease.
#[derive(Debug)]
pub(crate) struct Queue<A> {
    /// When they are looked at again.
    pub at: u64,
    /// Sender and datagram, in the order of their arrival.
    pub waiting: Vec<(A, Box<[u8]>)>,
}

impl<A: Copy + Eq> Store<A> {
    /// Handles the requests that waited for a key as if they arrived now. If they cannot be granted, they wait again.
    pub(crate) fn admit(&mut self, now: u64, id: RecordId, out: &mut Outbox<A>) {
        let Some(queue) = self.queues.remove(&id) else { return };
        self.ends.remove(&(queue.at, id));
        self.queued -= queue.waiting.len();
        self.table.get_mut(id).awaited = false;
        for (from, bytes) in queue.waiting {
            if let Ok((message, _)) = Message::split(&bytes) {
                self.request(now, from, &bytes, &message, out);
            }
        }
    }

    /// Does this if the first one of them need not wait any more.
    pub(crate) fn next_turn(&mut self, now: u64, id: RecordId, out: &mut Outbox<A>) {
        let Some((_, bytes)) = self.queues.get(&id).and_then(|queue| queue.waiting.first()) else { return };
        let waits = Message::split(bytes).is_ok_and(|(message, _)| self.is_early(now, id, &message));
        if !waits {
            self.admit(now, id, out);
        }
    }

    /// Keeps a request until leases end or are released.
    pub(crate) fn wait(
        &mut self,
        now: u64,
        from: A,
        bytes: &[u8],
        id: RecordId,
        shard: u16,
        out: &mut Outbox<A>,
    ) {
        let length = self.queues.get(&id).map_or(0, |q| q.waiting.len());
        if length >= self.config.queue_per_key || self.queued >= self.config.queue_total {
            self.stats.queue_full += 1;
            self.replace(from, bytes, id);
        } else {
            self.stats.waited += 1;
            self.queued += 1;
            self.table.get_mut(id).awaited = true;
            let at = self.until(id);
            let queue = self.queues.entry(id).or_insert_with(|| Queue { at, waiting: Vec::new() });
            queue.waiting.push((from, bytes.into()));
            self.ends.insert((queue.at, id));
        }
        self.recall(now, id, shard, out);
    }

    /// A request waits in the place of those of the same switch for the same key: the oldest of them is dropped, and the places in the queue stay. Later packets are
    /// worth more: the switch takes those of its last 64 requests only, and what a sender sends again is the latest.
    fn replace(&mut self, from: A, bytes: &[u8], id: RecordId) {
        let Some(queue) = self.queues.get_mut(&id) else { return };
        let asks = |bytes: &[u8]| {
            let Head { switch, incarnation, kind, flags, .. } = Message::split(bytes).ok()?.0.head;
            Some((switch, incarnation, kind, flags.shared))
        };
        let mut later = (from, Box::from(bytes));
        for waiting in queue.waiting.iter_mut().rev().filter(|(_, other)| asks(other) == asks(bytes)) {
            std::mem::swap(waiting, &mut later);
        }
    }

    /// Asks the owner, or the readers, to release the key. A session does not end while its switch lives, so that its keys are always asked for.
    pub(crate) fn recall(&mut self, now: u64, id: RecordId, shard: u16, out: &mut Outbox<A>) {
        let record = self.table.get(id);
        if !self.config.recall && !record.session {
            return;
        }
        if let Some(owner) = record.owner {
            let sent = self.recall_from(id, owner, record.grant, false, shard, out);
            self.stats.recalls += u64::from(sent);
        }
        for reader in self.table.readers(id).to_vec().into_iter().filter(|reader| now < reader.until) {
            let sent = self.recall_from(id, reader.owner, reader.grant, true, shard, out);
            self.stats.reader_recalls += u64::from(sent);
        }
    }

    /// Asks one switch, if it is known where it is: whether it is.
    fn recall_from(
        &self,
        id: RecordId,
        owner: Owner,
        grant: u32,
        shared: bool,
        shard: u16,
        out: &mut Outbox<A>,
    ) -> bool {
        let Some(to) = self.peers.at(owner.switch, owner.incarnation) else { return false };
        let record = self.table.get(id);
        let head = Head {
            kind: Kind::Recall,
            answer: true,
            flags: Flags { shared, ..Flags::default() },
            status: Status::Ok,
            object: record.object,
            shard,
            switch: owner.switch,
            port: 0,
            incarnation: owner.incarnation,
            generation: owner.generation,
            grant,
            sequence: record.sequence,
            request: 0,
            stamp: 0,
            lease_us: 0,
        };
        let recall = Message { head, key: record.key(), value: record.value(), packet: &[] };
        out.push(to, |bytes| recall.encode(self.config.secret, bytes));
        true
    }
}
