//! What packets note about entries: direct counters, and the times of hits. Each worker has cells of its own; the control plane sees the
//! sum, and the latest time.

use crate::state::State;
use crate::tables::TableState;
use crate::time::Time;
use pointsman_ir::{EntryHandle, HitCells, HitShape, TableId};

/// The cells of all tables. A clone has its own memory, and one worker.
#[derive(Debug)]
pub(crate) struct Hits {
    shapes: Vec<HitShape>,
    /// By worker, the switch itself first, then by table.
    cells: Vec<Vec<HitCells>>,
}

impl Clone for Hits {
    fn clone(&self) -> Self {
        let of = |(n, shape): (usize, &HitShape)| {
            let copy = self.cells[0][n].copy(*shape, self.cells[0][n].places());
            self.cells[1..].iter().for_each(|other| copy.merge(&other[n]));
            copy
        };
        let all = self.shapes.iter().enumerate().map(of).collect();
        Hits { shapes: self.shapes.clone(), cells: vec![all] }
    }
}

impl Hits {
    /// Cells for the entries that these tables have.
    pub fn new(tables: &[TableState]) -> Self {
        let shapes: Vec<HitShape> = tables.iter().map(TableState::hit_shape).collect();
        let cells = shapes.iter().zip(tables).map(|(shape, table)| HitCells::new(*shape, table.places()));
        Hits { cells: vec![cells.collect()], shapes }
    }

    /// Cells for this many workers besides the switch itself.
    pub fn share(&mut self, workers: usize) {
        while self.cells.len() <= workers {
            let alike = |(shape, cells): (&HitShape, &HitCells)| HitCells::new(*shape, cells.places());
            let more = self.shapes.iter().zip(&self.cells[0]).map(alike).collect();
            self.cells.push(more);
        }
    }

    /// The cells of a worker, by table.
    #[inline]
    pub fn of(&self, worker: usize) -> &[HitCells] {
        self.cells.get(worker).unwrap_or(&self.cells[0])
    }

    /// Whether anything is noted about the entries of a table.
    fn has(&self, id: TableId) -> bool {
        self.shapes.get(id.index()).is_some_and(|shape| !shape.is_empty())
    }

    /// Has cells for this many places of a table; less memory once it is empty.
    pub fn fit(&mut self, id: TableId, places: u64) {
        let (n, shape) = (id.index(), self.shapes[id.index()]);
        let has = self.cells[0][n].places();
        let is_empty = places == 1;
        if !shape.is_empty() && (has < places || is_empty && has > places) {
            let room = places.next_power_of_two();
            self.cells.iter_mut().for_each(|all| all[n] = all[n].copy(shape, room));
        }
    }

    /// Counts of a place and the time of its last hit.
    pub fn get(&self, id: TableId, place: u64) -> ([u64; 2], Time) {
        let mut sum = ([0u64; 2], 0);
        for cells in self.cells.iter().map(|all| &all[id.index()]) {
            let ([first, second], time) = (cells.counts(place), cells.time(place));
            sum = ([sum.0[0].wrapping_add(first), sum.0[1].wrapping_add(second)], sum.1.max(time));
        }
        (sum.0, Time(sum.1))
    }

    /// Sets both.
    pub fn set(&mut self, id: TableId, place: u64, (counts, time): ([u64; 2], Time)) {
        self.cells[1..].iter().for_each(|all| all[id.index()].set(place, [0, 0], 0));
        self.cells[0][id.index()].set(place, counts, time.0);
    }

    /// Moves the cells of a table of another state here, in the place of those of a table of the same shape.
    pub fn take(&mut self, to: usize, old: &mut Hits, from: usize) {
        std::mem::swap(&mut self.cells[0][to], &mut old.cells[0][from]);
        let taken = &self.cells[0][to];
        old.cells[1..].iter().for_each(|all| taken.merge(&all[from]));
        let fresh = || HitCells::new(self.shapes[to], taken.places());
        let fresh: Vec<HitCells> = self.cells[1..].iter().map(|_| fresh()).collect();
        self.cells[1..].iter_mut().zip(fresh).for_each(|(all, fresh)| all[to] = fresh);
    }
}

impl State {
    /// An entry is new: nothing has hit it, and its idle time starts now.
    pub(super) fn begin_hits(&mut self, now: Time, id: TableId, handle: EntryHandle) {
        self.set_hits(id, Some(handle), ([0, 0], now));
    }

    /// Sets what was noted about an entry, or about the default action.
    pub(super) fn set_hits(&mut self, id: TableId, handle: Option<EntryHandle>, noted: ([u64; 2], Time)) {
        if let Some(table) = self.tables.get(id.index()).filter(|_| self.hits.has(id))
            && let Some(place) = table.place(handle)
        {
            self.hits.fit(id, table.places());
            self.hits.set(id, place, noted);
        }
    }

    /// What was noted about an entry, or about the default action. `None`: nothing is, or it does not exist.
    pub(super) fn hits_of(&self, id: TableId, handle: Option<EntryHandle>) -> Option<([u64; 2], Time)> {
        let table = self.table(id).filter(|_| self.hits.has(id))?;
        Some(self.hits.get(id, table.place(handle)?))
    }
}
