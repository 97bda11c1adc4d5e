//! What every cell is to hold, and the way to a free one.

use crate::layout::{Layout, Part, WINDOW};

/// How far from its window the search for a free cell goes, in cells to each side.
const REACH: usize = 256;

/// The cells of all servers. Those behind a server's range have places of their own, so a window is always eight consecutive places.
#[derive(Debug)]
pub(crate) struct Cells {
    pub layout: Layout,
    parts: Vec<Part>,
    total: u32,
    /// Key and value of each place, one after the other.
    bytes: Vec<u8>,
    used: Vec<bool>,
}

impl Cells {
    pub fn new(layout: Layout, parts: Vec<Part>) -> Self {
        let total = parts.iter().map(|p| p.cells).sum();
        let places = total as usize + parts.len() * (WINDOW as usize - 1);
        let bytes = vec![0; places * (layout.key + layout.value)];
        Cells { layout, parts, total, bytes, used: vec![false; places] }
    }

    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The number of places.
    pub fn places(&self) -> usize {
        self.used.len()
    }

    /// The first place of a key's window.
    pub fn window(&self, key: &[u8]) -> usize {
        let home = self.layout.home(key, (self.parts[0].start, self.total));
        let part = self.parts.partition_point(|p| p.start <= home) - 1;
        self.first_place(part) + (home - self.parts[part].start) as usize
    }

    /// The first place of a part.
    pub fn first_place(&self, part: usize) -> usize {
        (self.parts[part].start - self.parts[0].start) as usize + part * (WINDOW as usize - 1)
    }

    /// The part of a place, the cell's index, and its number in the server's memory.
    pub fn locate(&self, place: usize) -> (usize, u32, u32) {
        let (mut low, mut high) = (0, self.parts.len());
        while high - low > 1 {
            let middle = low.midpoint(high);
            if self.first_place(middle) <= place { low = middle } else { high = middle }
        }
        let number = (place - self.first_place(low)) as u32;
        (low, self.parts[low].start + number, number)
    }

    /// The key and value of a place, one after the other.
    pub fn get(&self, place: usize) -> Option<&[u8]> {
        let width = self.layout.key + self.layout.value;
        self.used[place].then(|| &self.bytes[place * width..(place + 1) * width])
    }

    pub fn key(&self, place: usize) -> Option<&[u8]> {
        self.get(place).map(|b| &b[..self.layout.key])
    }

    pub fn set(&mut self, place: usize, entry: Option<&[u8]>) {
        let width = self.layout.key + self.layout.value;
        self.used[place] = entry.is_some();
        if let Some(bytes) = entry {
            self.bytes[place * width..(place + 1) * width].copy_from_slice(bytes);
        }
    }

    /// The place that holds a key.
    pub fn find(&self, key: &[u8]) -> Option<usize> {
        let window = self.window(key);
        (window..window + WINDOW as usize).find(|at| self.key(*at) == Some(key))
    }

    /// Places from one in the window to a free one: the entry of each can move to the next.
    pub fn path(&self, window: usize) -> Option<Vec<usize>> {
        // The places that were reached are consecutive, because every window contains the place of its entry.
        let (mut low, mut high) = (window, window);
        let mut from = vec![usize::MAX; 2 * REACH + WINDOW as usize];
        let base = window as isize - REACH as isize;
        let slot = |at: usize| (at as isize - base) as usize;
        let mut queue: Vec<usize> = Vec::new();
        let (mut next, mut start, mut parent) = (0, window, usize::MAX);
        loop {
            let end = start + WINDOW as usize;
            let new = (start..low.min(end)).chain(high.max(start)..end);
            for at in new {
                if slot(at) >= from.len() {
                    return None;
                }
                from[slot(at)] = parent;
                if !self.used[at] {
                    let mut path = vec![at];
                    while from[slot(path[path.len() - 1])] != usize::MAX {
                        path.push(from[slot(path[path.len() - 1])]);
                    }
                    path.reverse();
                    return Some(path);
                }
                queue.push(at);
            }
            (low, high) = (low.min(start), high.max(end));
            parent = *queue.get(next)?;
            next += 1;
            start = self.key(parent).map(|key| self.window(key))?;
            if (start as isize) < base {
                return None;
            }
        }
    }
}
