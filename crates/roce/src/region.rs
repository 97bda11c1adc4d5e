//! Memory that others may read and write.

use pointsman_zeros::Zeros;
use std::error::Error;
use std::fmt;

/// What others may do with a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// READ.
    pub read: bool,
    /// WRITE.
    pub write: bool,
    /// Atomic operations.
    pub atomic: bool,
}

/// A region: memory at an address.
#[derive(Clone, Debug)]
pub struct Region {
    /// The address of its first byte, for requests.
    pub address: u64,
    /// Allowed operations.
    pub rights: Rights,
    /// Its bytes.
    pub memory: Zeros<u8>,
}

/// Why a region is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionError {
    /// Its end is beyond the last address.
    TooLarge,
}

impl fmt::Display for RegionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the region ends beyond the last address: choose a lower address or less memory")
    }
}

impl Error for RegionError {}

impl Region {
    /// Memory of zeros.
    ///
    /// # Errors
    /// The region would end beyond the last address.
    pub fn new(address: u64, bytes: usize, rights: Rights) -> Result<Self, RegionError> {
        address.checked_add(bytes as u64).ok_or(RegionError::TooLarge)?;
        Ok(Region { address, rights, memory: Zeros::new(bytes) })
    }

    /// The place of these bytes in the memory, if all of them are there.
    pub(crate) fn place(&self, address: u64, bytes: usize) -> Option<std::ops::Range<usize>> {
        let start = usize::try_from(address.checked_sub(self.address)?).ok()?;
        let end = start.checked_add(bytes)?;
        (end <= self.memory.len()).then_some(start..end)
    }
}
