//! The memory of one packet.

use super::HEAD;
use crate::foresight::Foresight;

/// The memory of one packet: the context of native code (`runtime::Ctx`), the slots, scratch memory. Only the slots
/// have a meaning between two runs. The default one belongs to no program.
#[derive(Default)]
pub struct Frame {
    pub(super) slots: Vec<u64>,
    /// Where the slots end.
    pub(super) end: usize,
    /// Of a frame of packets that are looked ahead of.
    pub(super) foresight: Option<Box<Foresight>>,
    /// Likewise, the tables that caches do not hold, a bit for each.
    pub(super) large: u64,
}

impl Frame {
    fn values(&self) -> &[u64] {
        self.slots.get(HEAD..self.end).unwrap_or(&[])
    }
}

impl Clone for Frame {
    fn clone(&self) -> Self {
        let mut slots = vec![0; self.slots.len()];
        slots[HEAD..self.end].copy_from_slice(self.values());
        Frame { slots, end: self.end, foresight: None, large: 0 }
    }

    fn clone_from(&mut self, other: &Self) {
        match self.slots.get_mut(HEAD..other.end) {
            Some(values) if self.end == other.end => values.copy_from_slice(other.values()),
            _ => *self = other.clone(),
        }
    }
}

impl PartialEq for Frame {
    fn eq(&self, other: &Self) -> bool {
        self.values() == other.values()
    }
}

impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Frame").field(&self.values()).finish()
    }
}

/// A scalar of a frame: byte offset, bytes, the bits that it can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    pub(super) at: u32,
    pub(super) size: u32,
    pub(super) mask: u64,
}

/// The bytes of a number at `at`.
#[inline]
pub(super) fn number<const N: usize>(mem: &[u8], at: usize) -> Option<[u8; N]> {
    mem.get(at..at + N)?.try_into().ok()
}

/// Writes a number at `at`.
#[inline]
pub(super) fn put<const N: usize>(mem: &mut [u8], at: usize, bytes: [u8; N]) {
    if let Some(place) = mem.get_mut(at..at + N) {
        place.copy_from_slice(&bytes);
    }
}
