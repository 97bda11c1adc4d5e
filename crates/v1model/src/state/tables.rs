//! The control plane's way to tables: entries, default actions, direct counters and meters, idle timeouts.

use crate::counter::CounterCell;
use crate::meter::{Meter, MeterConfig};
use crate::state::{IdleEntry, State};
use crate::tables::{EntryInfo, TableError, TableState};
use crate::time::Time;
use pointsman_ir::{ActionCall, Entry, EntryAction, EntryHandle, KeyMatch, TableId};

/// An entry with its counter, meter and timer, as it was.
#[derive(Clone, Debug)]
pub struct SavedEntry {
    handle: EntryHandle,
    entry: Entry,
    /// Counts, and the time of the last hit.
    noted: ([u64; 2], Time),
    info: EntryInfo,
}

impl SavedEntry {
    /// Its handle.
    pub fn handle(&self) -> EntryHandle {
        self.handle
    }

    /// The entry itself.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }
}

impl State {
    /// A table.
    pub fn table(&self, id: TableId) -> Option<&TableState> {
        self.tables.get(id.index())
    }

    fn table_mut(&mut self, id: TableId) -> Result<&mut TableState, TableError> {
        self.tables.get_mut(id.index()).ok_or(TableError::UnknownTable)
    }

    pub(super) fn check_entry(&self, id: TableId, entry: &Entry) -> Result<(), TableError> {
        let table = self.table(id).ok_or(TableError::UnknownTable)?;
        table.check_entries_changeable()?;
        table.check_entry(&self.program.types, entry)?;
        let Some(profile) = table.profile.and_then(|p| self.profile(p)) else { return Ok(()) };
        match entry.action {
            EntryAction::Member(m) if profile.member(m).is_none() => {
                Err(TableError::BadAction(format!("the action profile has no member {m}")))
            }
            EntryAction::Group(g) if profile.group(g).is_none() && profile.one_shot(g).is_none() => {
                Err(TableError::BadAction(format!("the action profile has no group {g}")))
            }
            EntryAction::Member(m) if profile.member(m).is_none_or(|c| profile.in_table(id, c).is_none()) => {
                Err(TableError::BadAction(format!("the table does not list the action of member {m}")))
            }
            EntryAction::Group(g) if !profile.group_fits(id, g) => {
                Err(TableError::BadAction(format!("the table does not list the actions of group {g}")))
            }
            _ => Ok(()),
        }
    }

    /// Adds an entry; its idle time starts now.
    pub fn insert(&mut self, now: Time, id: TableId, entry: Entry) -> Result<EntryHandle, TableError> {
        self.check_entry(id, &entry)?;
        let timeout = entry.idle_timeout_ns;
        let copy = !self.flat.is_empty();
        let table = self.table_mut(id)?;
        let copy = copy.then(|| entry.clone());
        let handle = table.store.insert(entry)?;
        table.put_info(Some(handle), EntryInfo::default());
        self.begin_hits(now, id, handle);
        self.arm(now, id, handle, timeout);
        if let Some(entry) = copy {
            self.flat_put(id, handle, &entry, false);
        }
        Ok(handle)
    }

    /// Replaces action, metadata and idle timeout of the entry with the same match and priority. Its counter and meter
    /// stay; its idle time starts over.
    pub fn modify(&mut self, now: Time, id: TableId, entry: Entry) -> Result<EntryHandle, TableError> {
        self.check_entry(id, &entry)?;
        let timeout = entry.idle_timeout_ns;
        let copy = !self.flat.is_empty();
        let table = self.table_mut(id)?;
        let copy = copy.then(|| entry.clone());
        let handle = table.store.modify(entry)?;
        if let Some((counts, _)) = self.hits_of(id, Some(handle)) {
            self.set_hits(id, Some(handle), (counts, now));
        }
        self.arm(now, id, handle, timeout);
        if let Some(entry) = copy {
            self.flat_put(id, handle, &entry, true);
        }
        Ok(handle)
    }

    /// Removes an entry and gives it back.
    pub fn delete(&mut self, id: TableId, matches: &[KeyMatch], priority: i32) -> Result<Entry, TableError> {
        let table = self.table_mut(id)?;
        table.check_entries_changeable()?;
        let found = table.store.find(matches, priority);
        let slot = found.and_then(|h| table.store.slot_of(h));
        let timer = found.and_then(|h| table.info_mut(Some(h))).and_then(|info| info.timer.take());
        let (handle, entry) = table.store.delete(matches, priority)?;
        let places = table.places();
        if places == 1 {
            // Memory is given back.
            table.fit_infos();
            self.hits.fit(id, places);
        }
        if let Some(t) = timer {
            self.timers.remove(&(t, id, handle));
        }
        if let (Some(slot), Some(flat)) = (slot, self.flat.get_mut(id.index())) {
            flat.remove(slot, matches);
        }
        Ok(entry)
    }

    /// Sets the default action.
    pub fn set_default(&mut self, id: TableId, call: ActionCall) -> Result<(), TableError> {
        let types = self.program.clone();
        let table = self.table_mut(id)?;
        table.check_default_changeable()?;
        table.check_call(&types.types, &call, true)?;
        table.set_default(Some(call));
        self.flat_default(id);
        Ok(())
    }

    /// Sets the default action back to the program's.
    pub fn reset_default(&mut self, id: TableId) -> Result<(), TableError> {
        let table = self.table_mut(id)?;
        table.check_default_changeable()?;
        table.set_default(None);
        self.flat_default(id);
        Ok(())
    }

    /// Entries of a table in the order in which they were added, unpacked one by one.
    pub fn entries(&self, id: TableId) -> impl Iterator<Item = (EntryHandle, Entry)> + '_ {
        self.table(id).into_iter().flat_map(|t| t.store.iter())
    }

    /// The direct counter of an entry; of the default action for `None`.
    pub fn direct_counter(
        &self,
        id: TableId,
        handle: Option<EntryHandle>,
    ) -> Result<CounterCell, TableError> {
        let table = self.table(id).ok_or(TableError::UnknownTable)?;
        let kind = table.direct_counter.ok_or(TableError::NoDirectResource)?;
        let (counts, _) = self.hits_of(id, handle).ok_or(TableError::NotFound)?;
        Ok(CounterCell::from_words(kind, counts))
    }

    /// Sets the direct counter of an entry, or of the default action.
    pub fn set_direct_counter(
        &mut self,
        id: TableId,
        handle: Option<EntryHandle>,
        value: CounterCell,
    ) -> Result<(), TableError> {
        let table = self.table(id).ok_or(TableError::UnknownTable)?;
        let kind = table.direct_counter.ok_or(TableError::NoDirectResource)?;
        let (_, last_hit) = self.hits_of(id, handle).ok_or(TableError::NotFound)?;
        self.set_hits(id, handle, (value.to_words(kind), last_hit));
        Ok(())
    }

    /// The direct meter of an entry; of the default action for `None`.
    pub fn direct_meter(&self, id: TableId, handle: Option<EntryHandle>) -> Result<Meter, TableError> {
        let table = self.table(id).ok_or(TableError::UnknownTable)?;
        table.direct_meter.ok_or(TableError::NoDirectResource)?;
        table.info(handle).map(|info| info.meter).ok_or(TableError::NotFound)
    }

    /// The same with its buckets and counts, to be changed or restored.
    pub fn direct_meter_mut(
        &mut self,
        id: TableId,
        handle: Option<EntryHandle>,
    ) -> Result<&mut Meter, TableError> {
        let table = self.table_mut(id)?;
        table.direct_meter.ok_or(TableError::NoDirectResource)?;
        table.info_mut(handle).map(|info| &mut info.meter).ok_or(TableError::NotFound)
    }

    /// Configures the direct meter of an entry, or of the default action; `None` marks everything green again.
    pub fn set_direct_meter(
        &mut self,
        now: Time,
        id: TableId,
        handle: Option<EntryHandle>,
        config: Option<MeterConfig>,
    ) -> Result<(), TableError> {
        let meter = self.direct_meter_mut(id, handle)?;
        if let Some(c) = config {
            c.validate().map_err(TableError::BadMeterConfig)?;
        }
        meter.configure(now, config);
        Ok(())
    }

    /// Everything about an entry, for [`State::restore_entry`].
    pub fn save_entry(&self, id: TableId, handle: EntryHandle) -> Option<SavedEntry> {
        let table = self.table(id)?;
        let entry = table.store.get(handle)?;
        let noted = self.hits_of(id, Some(handle)).unwrap_or_default();
        Some(SavedEntry { handle, entry, noted, info: table.info(Some(handle)).unwrap_or_default() })
    }

    /// Restores a saved entry, whether it was changed or deleted since: handle, place among entries of the same
    /// priority, counter, meter and timer. No other entry may have taken its match.
    pub fn restore_entry(&mut self, id: TableId, saved: SavedEntry) -> Result<(), TableError> {
        let SavedEntry { handle, entry, noted, info } = saved;
        let copy = (!self.flat.is_empty()).then(|| entry.clone());
        let table = self.table_mut(id)?;
        let stood = table.store.slot_of(handle).is_some();
        table.store.restore(handle, entry)?;
        let newer = table.info_mut(Some(handle)).and_then(|info| info.timer.take());
        let timer = info.timer;
        table.put_info(Some(handle), info);
        if let Some(at) = newer {
            self.timers.remove(&(at, id, handle));
        }
        if let Some(at) = timer {
            self.timers.insert((at, id, handle));
        }
        self.set_hits(id, Some(handle), noted);
        if let Some(entry) = copy {
            self.flat_put(id, handle, &entry, stood);
        }
        Ok(())
    }

    /// Nanoseconds since a packet last hit the entry (or since it was added or modified).
    pub fn idle_ns(&self, now: Time, id: TableId, handle: EntryHandle) -> Result<u64, TableError> {
        let table = self.table(id).ok_or(TableError::UnknownTable)?;
        if !table.idle_timeouts {
            return Err(TableError::NoIdleTimeout);
        }
        let (_, last_hit) = self.hits_of(id, Some(handle)).ok_or(TableError::NotFound)?;
        Ok(now.since(last_hit))
    }

    fn arm(&mut self, now: Time, id: TableId, handle: EntryHandle, timeout_ns: u64) {
        let table = self.tables.get_mut(id.index());
        let Some(info) = table.and_then(|t| t.info_mut(Some(handle))) else { return };
        if let Some(old) = info.timer.take() {
            self.timers.remove(&(old, id, handle));
        }
        if timeout_ns != 0 {
            let at = now.plus_ns(timeout_ns);
            info.timer = Some(at);
            self.timers.insert((at, id, handle));
        }
    }

    /// Entries whose idle timeout has passed, at most `max` of them. An entry that stays idle is reported again after each
    /// further timeout.
    pub fn take_idle(&mut self, now: Time, max: usize) -> Vec<IdleEntry> {
        let mut idle = Vec::new();
        // The search has a cost, even if it finds nothing.
        for _ in 0..max.saturating_mul(4) {
            let Some(&(at, table, handle)) = self.timers.first() else { break };
            if at > now || idle.len() >= max {
                break;
            }
            self.timers.pop_first();
            let Some(t) = self.tables.get_mut(table.index()) else { continue };
            let timeout = t.store.idle_timeout_ns(handle);
            let Some(place) = t.place(Some(handle)) else { continue };
            let Some(info) = t.info_mut(Some(handle)) else { continue };
            info.timer = None;
            if timeout == 0 {
                continue;
            }
            // Packets do not move timers, they only note the time: so the timer may come too early.
            let due = self.hits.get(table, place).1.plus_ns(timeout);
            if due <= now {
                idle.push(IdleEntry { table, handle });
                self.arm(now, table, handle, timeout);
            } else {
                info.timer = Some(due);
                self.timers.insert((due, table, handle));
            }
        }
        idle
    }

    /// When [`State::take_idle`] has its next work.
    pub fn next_idle(&self) -> Option<Time> {
        self.timers.first().map(|(at, _, _)| *at)
    }

    /// Starts the idle timers of entries that came with the program or were taken over.
    pub(crate) fn arm_all(&mut self, now: Time) {
        let mut entries = Vec::new();
        for (i, table) in self.tables.iter().enumerate().filter(|(_, t)| t.idle_timeouts) {
            let timed = table.store.handles().map(|h| (TableId(i as u32), h, table.store.idle_timeout_ns(h)));
            entries.extend(timed.filter(|(_, _, timeout)| *timeout != 0));
        }
        for (table, handle, timeout) in entries {
            self.arm(now, table, handle, timeout);
        }
    }
}
