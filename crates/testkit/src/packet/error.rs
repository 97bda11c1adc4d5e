//! What is wrong with a frame.

use std::fmt;

/// What is wrong with a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The frame ends within this part.
    Short {
        /// The part.
        part: &'static str,
        /// Bytes that are there.
        found: usize,
        /// Bytes that are needed.
        needed: usize,
    },
    /// A header starts with these bytes.
    Header(&'static str, Vec<u8>),
    /// A header and the frame disagree about a length in bytes.
    Length {
        /// The header.
        part: &'static str,
        /// The length by the header.
        says: usize,
        /// The length that is there.
        found: usize,
    },
    /// A wrong checksum.
    Checksum {
        /// The header that it is in.
        part: &'static str,
        /// Its value.
        sum: u16,
        /// Its byte in the header.
        at: usize,
    },
    /// What is wrong with the packet that an error quotes.
    Quoted(&'static str, Box<FrameError>),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::Short { part, found, needed } => {
                write!(f, "cut short in {part}: {found} of {needed} bytes")
            }
            FrameError::Header(part, bytes) => {
                write!(f, "{part} with a header that starts with {bytes:02x?}")
            }
            FrameError::Length { part, says, found } => {
                write!(f, "{part} says {says} bytes, and there are {found}")
            }
            FrameError::Checksum { part, sum, at } => {
                write!(f, "{part} checksum {sum:#06x} (byte {at}) is wrong")
            }
            FrameError::Quoted(part, e) => write!(f, "inside the {part} error: {e}"),
        }
    }
}

impl std::error::Error for FrameError {}
