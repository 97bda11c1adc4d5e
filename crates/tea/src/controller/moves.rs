//! The table moves to other cells while it is used: the servers that it gets, and what the switch holds of them.

use super::setup::{Memories, PAIRS, Share, next_cells, server_bytes};
use super::{Controller, lacks};
use crate::Move;
use pointsman_lab::{Error, Result};
use std::ops::Range;
use std::time::Instant;

/// How a move went.
#[derive(Clone, Debug, Default)]
pub struct Moved {
    /// When it was asked for.
    asked: Option<Instant>,
    /// Milliseconds until look-ups used the new cells.
    pub ms: Option<f64>,
    /// Whether the servers that are not used any more are free.
    pub is_over: bool,
    /// Why the table stays where it was.
    pub error: Option<String>,
}

impl Moved {
    /// Whether the table was to move.
    pub fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// Look-ups use the new cells.
    pub(super) fn switched(&mut self) {
        self.ms = self.asked.map(|at| at.elapsed().as_secs_f64() * 1e3);
    }
}

impl Controller {
    /// The table is to move. A server that is lost is given up first.
    pub(super) fn ask_for_move(&mut self) {
        self.moved.asked = Some(Instant::now());
        self.moves = self.plan.moves;
        if self.moves == Some(Move::Lose) {
            self.memories.servers[0].is_lost = true;
            for number in numbers(&self.memories, 0) {
                let pairs = (0..PAIRS as usize).map(|pair| Share::pair_number(number, pair));
                pairs.for_each(|pair| self.switch.give_up(pair));
            }
        }
    }

    /// Begins a move that was asked for. The switch must be idle.
    pub(super) fn begin_move(&mut self) -> Result<()> {
        let (Some(step), Some(table)) = (self.moves.take(), &mut self.table) else { return Ok(()) };
        let layout = self.plan.table_layout();
        let (targets, cells) = next_cells(step, layout.scratchpads, self.plan.entries, self.plan.servers);
        if step == Move::Lose {
            for number in numbers(&self.memories, 0) {
                self.writer.remove(number);
                table.lose(self.shared.now(), number);
            }
        }
        // With a single server left there is only one copy.
        let copies = if targets.len() > 1 { self.plan.copies } else { 1 };
        let new = table.resize(&cells, copies > 1).map_err(|e| Error::new(e.to_string()))?;
        for ((number, server), cells) in new.clone().zip(targets).zip(cells) {
            let bytes = server_bytes(layout, cells, copies);
            let requester = self.memories.take(number, server, (layout, bytes), &mut self.random)?;
            let share = &self.memories.shares[&number];
            self.writer.add(requester, self.memories.servers[server].memory.key, share.address);
        }
        let mut entities = Vec::new();
        let mut pairs = Vec::new();
        for number in new {
            self.switch.server(number, &self.memories, table, &mut entities).map_err(lacks)?;
            pairs.extend((0..PAIRS as usize).map(|pair| Share::pair_number(number, pair)));
            let held = std::mem::take(&mut entities);
            self.switches.insert(number, held.clone());
            self.switch.add(held, &pairs);
        }
        Ok(())
    }

    /// Servers of the table are not used any more.
    pub(super) fn retire(&mut self, servers: Range<usize>, error: Option<String>) {
        for number in servers {
            self.writer.remove(number);
            self.memories.give_up(number);
            self.switch.remove(self.switches.remove(&number).unwrap_or_default());
        }
        (self.moved.is_over, self.moved.error) = (true, error);
    }
}

/// The table's numbers of a memory server.
fn numbers(memories: &Memories, server: usize) -> Vec<usize> {
    memories.shares.iter().filter(|(_, share)| share.server == server).map(|(number, _)| *number).collect()
}
