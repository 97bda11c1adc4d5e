//! Tables as bytes: entries one by one, since there may be a million.

use super::{Part, RestoreError, at_distance, distance};
use crate::coded::{Coded, Malformed, Reader};
use crate::counter::CounterCell;
use crate::meter::{Meter, MeterImage};
use crate::state::State;
use crate::tables::{EntryInfo, TableState};
use crate::time::Time;
use pointsman_ir::{ActionCall, Entry, EntryHandle, TableId};

/// Handles beyond this are not given out by any switch.
const MAX_HANDLE: u64 = 1 << 62;

impl TableState {
    /// The entries that a controller may change.
    fn changeable(&self) -> impl Iterator<Item = (EntryHandle, Entry)> + '_ {
        let open = self.check_entries_changeable().is_ok();
        self.store.iter().filter(move |(_, entry)| open && !entry.is_const)
    }

    /// Everything but what packets have noted.
    fn put(&self, out: &mut Vec<u8>) {
        self.store.next_handle().put(out);
        (self.changeable().count() as u64).put(out);
        for (handle, entry) in self.changeable() {
            (handle, entry).put(out);
        }
        let own = self.check_default_changeable().is_ok() && !self.default_is_initial();
        own.then(|| self.store.default_action().clone()).put(out);
    }

    /// What packets have noted about an entry, and the default action's, and an entry's timer.
    fn put_noted(
        &self,
        now: Time,
        handle: Option<EntryHandle>,
        (counts, last_hit): ([u64; 2], Time),
        out: &mut Vec<u8>,
    ) {
        let info = self.info(handle).unwrap_or_default();
        if let Some(kind) = self.direct_counter {
            CounterCell::from_words(kind, counts).put(out);
        }
        if self.direct_meter.is_some() {
            info.meter.image(now).put(out);
        }
        if self.idle_timeouts && handle.is_some() {
            (distance(now, last_hit), info.timer.map(|at| distance(now, at))).put(out);
        }
    }
}

/// A part of the tables that is being read.
struct Taking<'a, 'b> {
    from: &'a mut Reader<'b>,
    now: Time,
}

impl Taking<'_, '_> {
    fn next<T: Coded>(&mut self) -> Result<T, RestoreError> {
        T::take(self.from).map_err(|why| Part::Tables.malformed(why))
    }

    /// What [`TableState::put_noted`] put.
    fn noted(
        &mut self,
        table: &TableState,
        handle: Option<EntryHandle>,
    ) -> Result<(([u64; 2], Time), EntryInfo), RestoreError> {
        let (mut counts, mut last_hit, mut info) = ([0, 0], self.now, EntryInfo::default());
        if let Some(kind) = table.direct_counter {
            counts = self.next::<CounterCell>()?.to_words(kind);
        }
        if table.direct_meter.is_some() {
            info.meter =
                Meter::of_image(self.now, self.next::<MeterImage>()?).map_err(|e| Part::Tables.misfit(e))?;
        }
        if table.idle_timeouts && handle.is_some() {
            let (hit, timer): (i64, Option<i64>) = self.next()?;
            last_hit = at_distance(self.now, hit)?;
            info.timer = timer.map(|ns| at_distance(self.now, ns)).transpose()?;
        }
        Ok(((counts, last_hit), info))
    }
}

impl State {
    pub(super) fn put_tables(&self, now: Time, out: &mut Vec<u8>) {
        for (n, table) in self.tables.iter().enumerate() {
            table.put(out);
            let handles = table.store.handles().map(Some).filter(|_| table.follows_hits());
            for handle in std::iter::once(None).chain(handles) {
                let noted = self.hits_of(TableId(n as u32), handle).unwrap_or_default();
                table.put_noted(now, handle, noted, out);
            }
        }
    }

    /// Fills the tables of a new state. The action profiles have been filled.
    pub(super) fn take_tables_from(&mut self, now: Time, bytes: &[u8]) -> Result<(), RestoreError> {
        let mut from = Reader::new(bytes);
        let mut taking = Taking { from: &mut from, now };
        for n in 0..self.tables.len() {
            self.take_entries(TableId(n as u32), &mut taking)?;
            let default: Option<ActionCall> = taking.next()?;
            if let Some(call) = default {
                let named = |e| self.misfit(TableId(n as u32), e);
                self.tables[n].check_default_changeable().map_err(named)?;
                self.tables[n].check_call(&self.program.types, &call, true).map_err(named)?;
                self.tables[n].set_default(Some(call));
            }
            self.take_infos(TableId(n as u32), &mut taking)?;
        }
        if from.left() > 0 {
            return Err(Part::Tables.malformed(Malformed::Unknown("bytes at the end")));
        }
        Ok(())
    }

    fn misfit(&self, id: TableId, why: impl std::fmt::Display) -> RestoreError {
        let name = self.program.tables.get(id.index()).map_or("", |t| &t.name);
        Part::Tables.misfit(format_args!("{name}: {why}"))
    }

    /// Entries take the place of those that the program declares and that controllers may remove.
    fn take_entries(&mut self, id: TableId, taking: &mut Taking<'_, '_>) -> Result<(), RestoreError> {
        let next: u64 = taking.next()?;
        let count: u64 = taking.next()?;
        let table = &mut self.tables[id.index()];
        let declared: Vec<Entry> = table.changeable().map(|(_, entry)| entry).collect();
        for entry in declared {
            // Nothing was noted about it.
            let _ = table.store.delete(&entry.matches, entry.priority);
        }
        for _ in 0..count {
            let (handle, entry): (EntryHandle, Entry) = taking.next()?;
            self.check_entry(id, &entry).map_err(|e| self.misfit(id, e))?;
            let table = &mut self.tables[id.index()];
            let unused = table.store.slot_of(handle).is_none() && !entry.is_const && handle.0 < next;
            let fits = (table.store.len() as u64) < table.store.capacity();
            if !(unused && fits) {
                return Err(self.misfit(id, "more entries than it holds, or entries that share a number"));
            }
            let placed = table.store.restore(handle, entry);
            placed.map_err(|e| self.misfit(id, crate::TableError::from(e)))?;
        }
        let last = self.tables[id.index()].store.handles().last().map_or(0, |h| h.0);
        if next <= last || next > MAX_HANDLE {
            return Err(self.misfit(id, "numbers of entries are out of order"));
        }
        self.tables[id.index()].store.set_next_handle(next);
        Ok(())
    }

    /// Counters, meters and times of all entries, in their order, and those of the default action.
    fn take_infos(&mut self, id: TableId, taking: &mut Taking<'_, '_>) -> Result<(), RestoreError> {
        let table = &self.tables[id.index()];
        let handles: Vec<_> = table.store.handles().map(Some).filter(|_| table.follows_hits()).collect();
        for handle in std::iter::once(None).chain(handles) {
            let (noted, info) = taking.noted(&self.tables[id.index()], handle)?;
            if let (Some(at), Some(handle)) = (info.timer, handle) {
                self.timers.insert((at, id, handle));
            }
            self.tables[id.index()].put_info(handle, info);
            self.set_hits(id, handle, noted);
        }
        Ok(())
    }
}
