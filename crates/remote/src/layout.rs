//! Bytes of cells, and the share of each server. The data plane's side of it is `p4/lib/pointsman/tea/message.p4`.

use pointsman_wire::crc::{crc32, crc32_after};
use std::error::Error;
use std::fmt;

/// Cells of a window (`TEA_WINDOW`).
pub const WINDOW: u32 = 8;
/// Scratchpads of a queue pair (`TEA_RING`).
pub const RING: u32 = 64;
/// Bytes of a scratchpad (`TEA_SLOT`).
pub const SLOT: u32 = 2048;
/// Bytes of a scratchpad in a row (`TEA_SLOT` with `TEA_INLINE`).
pub const ROW_SLOT: u32 = 1536;
/// Cells of a row's bucket: half of a window.
pub(crate) const BUCKET: u32 = WINDOW / 2;
/// Bytes of a cell besides key and value: index and check.
const EXTRA: usize = 8;

/// Why a layout is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// Keys or values of so many bytes.
    Size(usize),
    /// No server has cells, or all together have too many.
    Cells,
    /// Rows have four cells of their own, which so many cells of a server do not fill.
    Rows(u32),
    /// A replica of a server's cells needs another server.
    Replica,
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayoutError::Size(n) => {
                write!(f, "a key or value of {n} bytes: use a multiple of 4, from 4 to 64")
            }
            LayoutError::Cells => {
                f.write_str("the servers together need between 1 and 2^31 - 1 cells, and each at least one")
            }
            LayoutError::Rows(n) => {
                write!(f, "{n} cells of a server: with a scratchpad in each row, use a multiple of {BUCKET}")
            }
            LayoutError::Replica => {
                f.write_str("replicas need at least two servers: add one, or use one copy of the entries")
            }
        }
    }
}

impl Error for LayoutError {}

/// Where packets wait for their entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scratchpads {
    /// Scratchpads of a queue pair, behind all cells, used in turn. A window begins at any cell.
    Ring,
    /// A row for each bucket of four cells (`TEA_INLINE`): the bucket, a *shadow*, which is a copy of the next bucket, and a scratchpad. A window begins with a
    /// bucket.
    Inline,
}

/// Sizes of keys and values, in bytes, and the place of scratchpads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// `TEA_KEY_BYTES`.
    pub key: usize,
    /// `TEA_VALUE_BYTES`.
    pub value: usize,
    /// Where packets wait.
    pub scratchpads: Scratchpads,
}

impl Layout {
    /// Checks the sizes.
    ///
    /// # Errors
    /// Not a multiple of four from 4 to 64.
    pub fn new(key: usize, value: usize, scratchpads: Scratchpads) -> Result<Self, LayoutError> {
        for n in [key, value] {
            if !n.is_multiple_of(4) || !(4..=64).contains(&n) {
                return Err(LayoutError::Size(n));
            }
        }
        Ok(Layout { key, value, scratchpads })
    }

    /// A key of one of several tables in a program (`TEA_KEY`): the table's number, zeros, and the key. `None`: the key is too long.
    pub fn numbered(&self, table: u8, key: &[u8]) -> Option<Vec<u8>> {
        let zeros = self.key.checked_sub(1 + key.len())?;
        Some([&[table][..], &vec![0; zeros], key].concat())
    }

    /// Bytes of a cell.
    pub fn cell_bytes(&self) -> usize {
        EXTRA + self.key + self.value
    }

    /// Bytes of a server's cells: those of its range, and the rest of the last one's window; with rows, their shadows and scratchpads, too.
    pub fn region_bytes(&self, cells: u32) -> u64 {
        match self.scratchpads {
            Scratchpads::Ring => u64::from(cells + WINDOW - 1) * self.cell_bytes() as u64,
            Scratchpads::Inline => u64::from(cells / BUCKET) * self.row_bytes(),
        }
    }

    /// Bytes of the scratchpads behind all cells, of so many queue pairs.
    pub fn ring_bytes(&self, pairs: u32) -> u64 {
        match self.scratchpads {
            Scratchpads::Ring => u64::from(pairs) * u64::from(RING * SLOT),
            Scratchpads::Inline => 0,
        }
    }

    /// Bytes of a row (`TEA_ROW_BYTES`).
    pub fn row_bytes(&self) -> u64 {
        u64::from(WINDOW) * self.cell_bytes() as u64 + u64::from(ROW_SLOT)
    }

    /// Where a cell is in the memory of a server with so many cells: its number there, in bytes from the first cell on. With rows, cells of most buckets
    /// are in two places.
    pub(crate) fn offsets(&self, number: u32, cells: u32) -> impl Iterator<Item = u64> + use<> {
        let cell = self.cell_bytes() as u64;
        let places = match self.scratchpads {
            Scratchpads::Ring => [Some(u64::from(number) * cell), None],
            Scratchpads::Inline => {
                let (bucket, place) = (number / BUCKET, number % BUCKET);
                let row = |row: u32, place: u32| u64::from(row) * self.row_bytes() + u64::from(place) * cell;
                let own = (bucket < cells / BUCKET).then(|| row(bucket, place));
                let shadow = (1..=cells / BUCKET).contains(&bucket).then(|| row(bucket - 1, BUCKET + place));
                [own, shadow]
            }
        };
        places.into_iter().flatten()
    }

    /// The first cell of a key's window, of so many cells from `first` on.
    pub(crate) fn home(&self, key: &[u8], (first, cells): (u32, u32)) -> u32 {
        let hash = crc32_after(0, key);
        match self.scratchpads {
            Scratchpads::Ring => first + hash % cells,
            Scratchpads::Inline => first + hash % (cells / BUCKET) * BUCKET,
        }
    }

    /// Writes a cell: number `index` with key and value, one after the other, or nothing.
    pub(crate) fn encode(&self, index: u32, entry: Option<&[u8]>, out: &mut Vec<u8>) {
        out.extend(index.to_be_bytes());
        match entry {
            Some(bytes) => {
                out.extend(bytes);
                out.extend((crc32(bytes) | 1).to_be_bytes());
            }
            None => out.resize(out.len() + self.key + self.value + 4, 0),
        }
    }
}

/// A server's share: consecutive cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its first cell.
    pub start: u32,
    /// How many.
    pub cells: u32,
}

impl Part {
    /// The shares of servers with so many cells, which are numbered from `first` on.
    ///
    /// # Errors
    /// There are none, or too many.
    pub fn divide(first: u32, cells: &[u32]) -> Result<Vec<Part>, LayoutError> {
        let mut start = first;
        let mut parts = Vec::new();
        for cells in cells {
            parts.push(Part { start, cells: *cells });
            start =
                start.checked_add(*cells).filter(|n| *n < 1 << 31 && *cells > 0).ok_or(LayoutError::Cells)?;
        }
        if parts.is_empty() { Err(LayoutError::Cells) } else { Ok(parts) }
    }
}
