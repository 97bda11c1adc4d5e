//! The move of a table to other cells, under look-ups and changes: more or fewer servers, larger or smaller parts, replicas in the place of those that a
//! lost server had.
//!
//! 1. Every entry gets a place in the next cells, too. Changes from now on are made in both.
//! 2. The next cells are written. No look-up uses them, so nothing has to be held.
//! 3. From now on a cell of either is written only while the switch holds its keys. When everything before is written, look-ups are to use the next cells.
//! 4. The switch uses them. When the look-ups that began before are over, the old ones are free.

use crate::error::ResizeError;
use crate::layout::LayoutError;
use crate::space::Space;
use crate::table::{Action, Table};
use std::collections::BTreeSet;
use std::ops::Range;

/// Places of old cells that are looked at in one turn.
const STEP: usize = 4096;
/// Writes to the next cells that are under way at most.
const WRITES: usize = 64;
/// Cells of one of them.
const PIECE: u32 = 32;

/// How far the move is.
#[derive(Debug)]
enum Phase {
    /// The place of the old cells whose entry gets a place next.
    Placing(usize),
    /// The server and the piece that are written next.
    Filling(usize, u64),
    /// For the writes that are under way.
    Waiting,
    /// For the switch.
    Switching(u64),
}

/// A move to other cells.
#[derive(Debug)]
pub(crate) struct Moving {
    phase: Phase,
    /// Writes to cells that are not looked up.
    writes: BTreeSet<u64>,
}

impl Table {
    /// Begins to move all entries to other servers, whose cells these are, with replicas or without. The caller gets their numbers, and gives the switch
    /// what it needs to ask them, before it does another of the table's actions. A server may be one whose memory the table uses already, with other
    /// memory and queue pairs. Look-ups and changes continue meanwhile.
    ///
    /// # Errors
    /// The cells are not possible, or the table is moving.
    pub fn resize(&mut self, cells: &[u32], replicas: bool) -> Result<Range<usize>, ResizeError> {
        if self.moving.is_some() || self.retiring.is_some() {
            return Err(ResizeError::Busy);
        }
        let current = &self.spaces[0];
        let (start, old) = range(current);
        let new = cells.iter().try_fold(0u32, |all, n| all.checked_add(*n)).ok_or(LayoutError::Cells)?;
        // The numbers of cells tell old from new.
        let first = if new <= start { 0 } else { start + old };
        let number = (current.servers().end, first);
        let next = Space::new(current.cells.layout, number, cells, replicas)?;
        let servers = next.servers();
        self.spaces.push(next);
        self.moving = Some(Moving { phase: Phase::Placing(0), writes: BTreeSet::new() });
        Ok(servers)
    }

    /// Whether the table is moving, or servers that it left may still be asked.
    pub fn is_moving(&self) -> bool {
        self.moving.is_some() || self.retiring.is_some()
    }

    /// A server is lost permanently. The switch must not send requests to it any more (`tea_dead`). Pending writes to it count as done, and a move to it is abandoned.
    pub fn lose(&mut self, now: u64, server: usize) {
        self.lost.insert(server);
        self.end_writes(now, server..server + 1);
        let to_it = self.spaces.get(1).is_some_and(|s| s.servers().contains(&server));
        if to_it && !matches!(self.moving, Some(Moving { phase: Phase::Switching(_), .. })) {
            self.abandon(now, ResizeError::Lost(server));
        }
    }

    /// Writes to these servers, which no look-up uses any more, count as done: they may never have an answer.
    fn end_writes(&mut self, now: u64, servers: Range<usize>) {
        for number in self.writes_to(servers) {
            self.written(now, number);
        }
    }

    /// The switch uses the cells of [`Action::Switch`].
    pub fn switched(&mut self, now: u64, number: u64) {
        if !matches!(self.moving, Some(Moving { phase: Phase::Switching(n), .. }) if n == number) {
            return;
        }
        self.moving = None;
        let old = self.spaces.remove(0);
        self.forget(now, &old);
        self.retiring = Some((now.saturating_add(self.hold_ns), old.servers()));
    }

    /// How many of the spaces, from the first on, can be looked up.
    pub(crate) fn looked_up(&self) -> usize {
        match &self.moving {
            Some(Moving { phase: Phase::Waiting | Phase::Switching(_), .. }) => 2,
            _ => 1,
        }
    }

    /// Whether the move waits for what the switch is to hold.
    pub(crate) fn waits(&self) -> bool {
        matches!(self.moving, Some(Moving { phase: Phase::Waiting, .. }))
    }

    /// When there is something to do for the move.
    pub(crate) fn moves_at(&self) -> Option<u64> {
        let places = matches!(self.moving, Some(Moving { phase: Phase::Placing(_), .. }));
        if places { Some(0) } else { self.retiring.as_ref().map(|(at, _)| *at) }
    }

    /// Old servers are free when no look-up can use them any more.
    pub(crate) fn retire(&mut self, now: u64) {
        if let Some((_, servers)) = self.retiring.take_if(|(at, _)| *at <= now) {
            self.end_writes(now, servers.clone());
            self.lost.retain(|server| !servers.contains(server));
            self.actions.push_back(Action::Retire(servers, Ok(())));
        }
    }

    /// An entry gets a place in the next cells, if it has none yet.
    pub(crate) fn place(&mut self, key: &[u8], value: Option<&[u8]>) {
        let Some(value) =
            value.filter(|_| matches!(self.moving, Some(Moving { phase: Phase::Placing(_), .. })))
        else {
            return;
        };
        let next = &self.spaces[1];
        if next.cells.find(key).is_none() && !next.collides.contains(key) {
            let path = next.path(key);
            self.put_in(1, &path, &[key, value].concat());
        }
    }

    /// Writes a cell that is not looked up.
    pub(crate) fn write_now(&mut self, space: usize, place: usize) {
        if !matches!(self.moving, Some(Moving { phase: Phase::Filling(..), .. })) {
            return;
        }
        let (copies, bytes) = self.spaces[space].copies(place);
        for (server, offset) in copies {
            self.write_unheld(server, offset, bytes.clone());
        }
    }

    fn write_unheld(&mut self, server: usize, offset: u64, bytes: Vec<u8>) {
        let number = self.write(server, offset, bytes);
        if let Some(moving) = &mut self.moving {
            moving.writes.insert(number);
        }
    }

    /// A write has ended, perhaps one to cells that are not looked up.
    pub(crate) fn filled(&mut self, now: u64, number: u64) {
        if self.moving.as_mut().is_some_and(|m| m.writes.remove(&number)) {
            self.advance(now);
        }
    }

    /// Continues the move.
    pub(crate) fn advance(&mut self, now: u64) {
        match self.moving.as_ref().map(|m| &m.phase) {
            Some(Phase::Placing(at)) => self.place_some(*at),
            Some(Phase::Filling(server, piece)) => self.fill_some(now, *server, *piece),
            Some(Phase::Waiting) => self.switch(),
            Some(Phase::Switching(_)) | None => {}
        }
    }

    fn set_phase(&mut self, phase: Phase) {
        if let Some(moving) = &mut self.moving {
            moving.phase = phase;
        }
    }

    fn place_some(&mut self, from: usize) {
        let places = self.spaces[0].cells.places();
        let to = (from + STEP).min(places);
        for at in from..to {
            if let Some(key) = self.spaces[0].cells.key(at).map(<[u8]>::to_vec) {
                let value = self.get(&key).map(<[u8]>::to_vec);
                self.place(&key, value.as_deref());
            }
        }
        if to < places {
            self.set_phase(Phase::Placing(to));
            return;
        }
        // Those that had no cell.
        for key in self.spaces[0].collides.clone() {
            let value = self.get(&key).map(<[u8]>::to_vec);
            self.place(&key, value.as_deref());
        }
        let first = self.spaces[1].first;
        self.set_phase(Phase::Filling(first, 0));
    }

    fn fill_some(&mut self, now: u64, mut server: usize, mut piece: u64) {
        let end = self.spaces[1].servers().end;
        while server < end && self.moving.as_ref().is_some_and(|m| m.writes.len() < WRITES) {
            match self.spaces[1].piece(server, piece, PIECE) {
                Some((offset, bytes)) => {
                    self.write_unheld(server, offset, bytes);
                    piece += 1;
                }
                None => (server, piece) = (server + 1, 0),
            }
        }
        self.set_phase(Phase::Filling(server, piece));
        if server < end {
            return;
        }
        // The switch must hold what has no cell there, before it looks there.
        let keys: Vec<_> =
            self.spaces[1].collides.iter().filter(|k| self.is_held(k).is_none()).cloned().collect();
        if keys.len() > self.room() {
            return self.abandon(now, ResizeError::Full(self.spaces[1].collides.len()));
        }
        self.set_phase(Phase::Waiting);
        for key in keys {
            let value = self.get(&key).map(<[u8]>::to_vec);
            self.put_in_stash(&key, value, false);
        }
        self.switch();
    }

    /// Look-ups are to use the next cells, if all is there.
    fn switch(&mut self) {
        let next = &self.spaces[1];
        let is_held = next.collides.iter().all(|k| self.is_held(k) == Some(true));
        let (first, cells) = range(next);
        if is_held && self.moving.as_ref().is_some_and(|m| m.writes.is_empty()) {
            let number = self.take_number();
            self.actions.push_back(Action::Switch(number, first, cells));
            self.set_phase(Phase::Switching(number));
        }
    }

    /// The table stays where it is.
    fn abandon(&mut self, now: u64, why: ResizeError) {
        let Some(next) = self.spaces.pop() else { return };
        self.moving = None;
        self.forget(now, &next);
        self.end_writes(now, next.servers());
        self.lost.retain(|server| !next.servers().contains(server));
        self.actions.push_back(Action::Retire(next.servers(), Err(why)));
    }
}

/// The number of a space's first cell, and how many it has.
fn range(space: &Space) -> (u32, u32) {
    let parts = space.cells.parts();
    (parts[0].start, parts.iter().map(|p| p.cells).sum())
}
