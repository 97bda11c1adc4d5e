//! Fixed keys (R12): a value that all switches share, and that does not change under a grant. They have no owner and no lease: any number of
//! switches may use the value at the same time, because it is the same for all. A key ends when it was not extended for its term.

use crate::config::Rule;
use crate::message::{Flags, Message, Status};
use crate::outbox::Outbox;
use crate::store::{Store, next_grant};
use crate::table::{RecordId, Role};

/// A term in nanoseconds.
pub(crate) fn ns(ms: u32) -> u64 {
    u64::from(ms) * 1_000_000
}

impl<A: Copy + Eq> Store<A> {
    /// A request for a fixed key, which is here or has a place in the index. It is answered at once, whoever asks.
    pub(crate) fn fixed(
        &mut self,
        now: u64,
        from: A,
        message: &Message<'_>,
        found: Result<RecordId, usize>,
        out: &mut Outbox<A>,
    ) {
        // Its time is over, though it was not removed yet.
        let over = found.ok().filter(|id| self.table.get(*id).until <= now);
        let found = match over {
            Some(id) => {
                self.remove(id);
                self.table.find(message.head.object, message.key)
            }
            None => found,
        };
        let (id, created) = match found {
            Ok(id) => (id, self.known(now, message, id)),
            Err(_) if message.head.flags.existing => {
                self.stats.unknown += 1;
                return self.refuse(from, message, Status::Unknown, out);
            }
            Err(place) => match self.propose(now, message, place) {
                Some(id) => (id, true),
                None => {
                    self.stats.full += 1;
                    return self.refuse(from, message, Status::Full, out);
                }
            },
        };
        let flags = Flags { created, ..message.head.flags };
        self.answer(from, message, id, self.table.get(id).keep_ms, flags, out);
    }

    /// The proposed value becomes that of a key which the store does not know.
    fn propose(&mut self, now: u64, message: &Message<'_>, place: usize) -> Option<RecordId> {
        let id = self.table.insert(place, message.head.object, message.key, message.value, 0)?;
        self.stats.fixed += 1;
        let record = self.table.get_mut(id);
        // R3: a former key of the same name had smaller numbers.
        record.grant = next_grant(self.bindings.last_grant);
        record.role = Role::Fixed;
        self.note(id);
        self.keep(now, id, message.head.lease_us, message.head.lease_us);
        Some(id)
    }

    /// Extends the time of a key, ends it early, or replaces the value under the next grant: whether it has the proposed one since.
    fn known(&mut self, now: u64, message: &Message<'_>, id: RecordId) -> bool {
        let head = &message.head;
        let record = self.table.get_mut(id);
        let any = self.config.without == Some(Rule::FirstStays);
        if head.grant != 0 && head.grant == record.grant || any {
            self.stats.fixed_replaced += 1;
            record.grant = next_grant(record.grant);
            record.put_value(message.value);
            self.note(id);
            self.keep(now, id, head.lease_us, head.lease_us);
            return true;
        }
        self.stats.fixed_known += 1;
        let longest = record.keep_ms.max(head.lease_us);
        if head.flags.ending {
            self.keep(now, id, head.lease_us, head.lease_us);
        } else if record.until < now.saturating_add(ns(head.lease_us)) {
            self.keep(now, id, head.lease_us, longest);
        }
        false
    }

    /// The key ends `ms` after now. On disk is only its longest term, from which a restart counts; other replicas count from now, too.
    fn keep(&mut self, now: u64, id: RecordId, ms: u32, longest: u32) {
        self.ends_at(id, now.saturating_add(ns(ms)));
        let record = self.table.get_mut(id);
        record.extended = self.config.leases;
        if std::mem::replace(&mut record.keep_ms, longest) != longest || self.config.leases {
            self.note(id);
        }
    }

    /// Sets the time at which a fixed key ends.
    pub(crate) fn ends_at(&mut self, id: RecordId, at: u64) {
        let until = std::mem::replace(&mut self.table.get_mut(id).until, at);
        self.fixed_ends.remove(&(until, id));
        self.fixed_ends.insert((at, id));
    }

    /// Removes a fixed key whose time is over: whether one was.
    pub(crate) fn end_fixed(&mut self, now: u64) -> bool {
        let due = self.fixed_ends.first().copied().filter(|(at, _)| *at <= now);
        due.inspect(|(_, id)| self.remove(*id)).is_some()
    }
}
