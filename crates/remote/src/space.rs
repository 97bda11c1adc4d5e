//! The cells of servers that share one table, their replicas, and the bytes of their memory.

use crate::cells::Cells;
use crate::layout::{BUCKET, Layout, LayoutError, Part, Scratchpads, WINDOW};
use std::collections::BTreeSet;
use std::ops::Range;

/// The cells of a table in some servers. While a table moves to other servers or gets another size, it has two of them.
#[derive(Debug)]
pub(crate) struct Space {
    pub cells: Cells,
    replicas: bool,
    /// The number of its first server, of all that the table ever had.
    pub first: usize,
    /// Keys without a free cell.
    pub collides: BTreeSet<Vec<u8>>,
}

impl Space {
    /// Empty cells of servers that are numbered from `server` on; the first cell has the number `cell`.
    pub fn new(
        layout: Layout,
        (server, cell): (usize, u32),
        cells: &[u32],
        replicas: bool,
    ) -> Result<Self, LayoutError> {
        let parts = Part::divide(cell, cells)?;
        if replicas && parts.len() < 2 {
            return Err(LayoutError::Replica);
        }
        let Layout { key, value, scratchpads } = layout;
        let layout = Layout::new(key, value, scratchpads)?;
        let broken = parts.iter().map(|p| p.cells).find(|n| !n.is_multiple_of(BUCKET));
        if let Some(n) = broken.filter(|_| scratchpads == Scratchpads::Inline) {
            return Err(LayoutError::Rows(n));
        }
        let collides = BTreeSet::new();
        Ok(Space { cells: Cells::new(layout, parts), replicas, first: server, collides })
    }

    /// The numbers of its servers.
    pub fn servers(&self) -> Range<usize> {
        self.first..self.first + self.cells.parts().len()
    }

    /// A server's part.
    pub fn part(&self, server: usize) -> Part {
        self.cells.parts()[server - self.first]
    }

    /// The server with the replica of a server's part, and where it begins in this server's cells.
    pub fn replica(&self, server: usize) -> Option<(usize, u64)> {
        let other = self.first + (server - self.first + 1) % self.cells.parts().len();
        self.replicas.then(|| (other, self.region_bytes(other)))
    }

    /// Bytes of a server's cells, its replica of another one's included.
    pub fn server_bytes(&self, server: usize) -> u64 {
        self.region_bytes(server) + self.copied(server).map_or(0, |other| self.region_bytes(other))
    }

    fn region_bytes(&self, server: usize) -> u64 {
        self.cells.layout.region_bytes(self.part(server).cells)
    }

    /// The server whose part a server has a replica of.
    fn copied(&self, server: usize) -> Option<usize> {
        let parts = self.cells.parts().len();
        self.replicas.then(|| self.first + (server - self.first + parts - 1) % parts)
    }

    /// Where a key's entry is to be: places to a free cell, or the place that it has; empty if there is none.
    pub fn path(&self, key: &[u8]) -> Vec<usize> {
        match self.cells.find(key) {
            Some(place) => vec![place],
            None => self.cells.path(self.cells.window(key)).unwrap_or_default(),
        }
    }

    /// Keys on a path, besides this one.
    pub fn moved<'a>(&'a self, path: &'a [usize], key: &'a [u8]) -> impl Iterator<Item = Vec<u8>> + 'a {
        path.iter().filter_map(|at| self.cells.key(*at)).filter(move |k| *k != key).map(<[u8]>::to_vec)
    }

    /// The servers and offsets of all copies of a place, the replica's first, and the bytes.
    pub fn copies(&self, place: usize) -> (Vec<(usize, u64)>, Vec<u8>) {
        let (part, index, number) = self.cells.locate(place);
        let server = self.first + part;
        let layout = self.cells.layout;
        let mut bytes = Vec::new();
        layout.encode(index, self.cells.get(place), &mut bytes);
        let places = [self.replica(server), Some((server, 0))].into_iter().flatten();
        let cells = self.part(server).cells;
        let copies =
            places.flat_map(|(at, start)| layout.offsets(number, cells).map(move |o| (at, start + o)));
        (copies.collect(), bytes)
    }

    /// The piece of this number of a server's memory, its replica's behind its own: up to `cells` cells, or one row without its scratchpad.
    pub fn piece(&self, server: usize, number: u64, cells: u32) -> Option<(u64, Vec<u8>)> {
        let own = self.pieces(server, cells);
        if number < own {
            return self.image(server, 0, (number, cells));
        }
        let (other, start) = (self.copied(server)?, self.region_bytes(server));
        self.image(other, start, (number - own, cells))
    }

    /// A row's cells are eight consecutive ones, of which the next row has four, too: cells of a part, from one piece to the next, and in a piece.
    fn steps(&self, server: usize, cells: u32) -> (u32, u32, u32) {
        let own = self.part(server).cells;
        match self.cells.layout.scratchpads {
            Scratchpads::Ring => (own + WINDOW - 1, cells.max(1), cells.max(1)),
            Scratchpads::Inline => (own, BUCKET, WINDOW),
        }
    }

    fn pieces(&self, server: usize, cells: u32) -> u64 {
        let (all, step, _) = self.steps(server, cells);
        all.div_ceil(step).into()
    }

    fn image(&self, server: usize, start: u64, (number, cells): (u64, u32)) -> Option<(u64, Vec<u8>)> {
        let (layout, part) = (self.cells.layout, self.part(server));
        let (all, step, piece) = self.steps(server, cells);
        let first = u32::try_from(number).ok()?.checked_mul(step).filter(|n| *n < all)?;
        let place = self.cells.first_place(server - self.first);
        let mut bytes = Vec::new();
        for n in first..(first + piece).min(part.cells + WINDOW - 1) {
            layout.encode(part.start + n, self.cells.get(place + n as usize), &mut bytes);
        }
        Some((start + layout.offsets(first, part.cells).next().unwrap_or(0), bytes))
    }
}
