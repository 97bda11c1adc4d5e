//! Changes that another store decided.

use crate::config::Rule;
use crate::fixed;
use crate::pool::{Side, Tuple, end_of};
use crate::saved::{LoadError, Saved};
use crate::store::Store;
use crate::table::{Reader, RecordId, Role};

impl<A: Copy + Eq> Store<A> {
    /// Takes a key's state as another store has it. A lease that was `extended` counts from now on.
    pub(crate) fn adopt(&mut self, now: u64, saved: Saved<'_>, extended: bool) -> Result<(), LoadError> {
        saved.check()?;
        let found = self.table.find(saved.object, saved.key);
        let known = found.ok().filter(|id| self.table.get(*id).value().len() == saved.value.len());
        let id = match (known, found) {
            (Some(id), _) => id,
            (None, Ok(other)) => {
                self.remove_key(other);
                self.add(now, &saved)?
            }
            (None, Err(_)) => self.add(now, &saved)?,
        };
        let until = now.saturating_add(self.config.hold_ns());
        if let Some(owner) = saved.owner.filter(|_| extended && saved.session) {
            self.sessions.extend(owner.switch, owner.incarnation, until);
        }
        self.adopt_readers(id, &saved, extended, until);
        let record = self.table.get_mut(id);
        record.put_value(saved.value);
        (record.grant, record.sequence, record.owner) = (saved.grant, saved.sequence, saved.owner);
        (record.ending, record.session, record.role) = (saved.ending, saved.session, saved.role);
        record.keep_ms = saved.keep_ms;
        self.snapshots.clear();
        if saved.role == Role::Fixed {
            if extended {
                self.ends_at(id, now.saturating_add(fixed::ns(saved.keep_ms)));
            }
        } else if saved.owner.is_none() {
            record.until = record.until.min(now);
        } else if extended {
            record.until = record.until.max(until);
        }
        Ok(())
    }

    /// The leases of readers count from now on if one of them was extended: the row does not say which.
    fn adopt_readers(&mut self, id: RecordId, saved: &Saved<'_>, extended: bool, until: u64) {
        let known = |owner, grant| {
            let same = |reader: &&Reader| (reader.owner, reader.grant) == (owner, grant);
            self.table.readers(id).iter().find(same).filter(|_| !extended).map(|reader| reader.until)
        };
        let kept = saved.readers.iter().flatten().filter(|_| self.config.without != Some(Rule::ReadersKept));
        let readers = kept.map(|(owner, grant)| {
            let until = known(*owner, *grant).unwrap_or(until);
            Reader { owner: *owner, grant: *grant, until }
        });
        let readers = readers.collect();
        self.table.set_readers(id, readers);
    }

    fn add(&mut self, now: u64, saved: &Saved<'_>) -> Result<RecordId, LoadError> {
        self.bindings.check_port(saved)?;
        let Err(place) = self.table.find(saved.object, saved.key) else { return Err(LoadError::Twice) };
        let id = self.table.insert(place, saved.object, saved.key, saved.value, saved.sequence);
        let id = id.ok_or(LoadError::Full)?;
        self.table.get_mut(id).side = saved.side;
        if saved.side == Some(Side::Inside) {
            self.bindings.look_at(now, id);
        }
        Ok(id)
    }

    /// Removes a key, by the key of its row ([`Store::removed`]).
    pub(crate) fn forget(&mut self, row_key: &[u8]) {
        if let Some((object, key)) = row_key.split_first_chunk()
            && let Ok(id) = self.table.find(u16::from_be_bytes(*object), key)
        {
            self.remove_key(id);
        }
    }

    fn remove_key(&mut self, id: RecordId) {
        let record = self.table.get(id);
        let port = Tuple::inside(record.key()).zip(end_of(record.value()));
        if record.side == Some(Side::Inside)
            && let Some((tuple, own)) = port
        {
            self.bindings.give_back(tuple.protocol, own);
            self.bindings.ignore(id);
        }
        self.fixed_ends.remove(&(record.until, id));
        self.table.remove(id);
        self.snapshots.forget(id);
    }

    /// Mistake of a test: all leases are over.
    pub(crate) fn end_leases(&mut self) {
        let leased = |id: &RecordId| self.table.get(*id).role != Role::Fixed;
        let leased: Vec<RecordId> = (0..self.table.end()).filter(leased).collect();
        for id in leased {
            self.table.get_mut(id).until = 0;
            self.table.set_readers(id, Vec::new());
        }
        self.sessions = crate::session::Sessions::default();
    }
}
