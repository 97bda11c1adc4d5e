//! Why changes are refused.

use crate::layout::LayoutError;
use std::error::Error;
use std::fmt;

/// Why a change is refused. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeError {
    /// A key of so many bytes.
    Key(usize),
    /// A value of so many bytes.
    Value(usize),
    /// The switch has no room for the entries that change together.
    Full,
    /// The table does not contain the key.
    Unknown,
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeError::Key(n) => write!(f, "a key of {n} bytes does not fit this table"),
            ChangeError::Value(n) => write!(f, "a value of {n} bytes does not fit this table"),
            ChangeError::Full => f.write_str(
                "the switch's own table is full: repeat the change later; if that does not help, add memory",
            ),
            ChangeError::Unknown => f.write_str("unknown key"),
        }
    }
}

impl Error for ChangeError {}

/// Why entries cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// The table has entries, or changes are under way.
    NotEmpty,
    /// An entry, counted from 0, cannot be added.
    Entry(usize, ChangeError),
    /// An entry, counted from 0, has the key of an earlier one.
    Twice(usize),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::NotEmpty => f.write_str("the table is not empty: add the entries one by one"),
            LoadError::Entry(n, error) => write!(f, "entry {n}: {error}"),
            LoadError::Twice(n) => write!(f, "entry {n}: an earlier one has the same key"),
        }
    }
}

impl Error for LoadError {}

/// Why a table does not move to other cells. It stays where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResizeError {
    /// The cells are not possible.
    Layout(LayoutError),
    /// The table is moving, or has not left its last servers yet.
    Busy,
    /// So many entries have no free cell there, which are too many for the switch.
    Full(usize),
    /// One of the new servers was lost: its number.
    Lost(usize),
}

impl From<LayoutError> for ResizeError {
    fn from(error: LayoutError) -> Self {
        ResizeError::Layout(error)
    }
}

impl fmt::Display for ResizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResizeError::Layout(error) => error.fmt(f),
            ResizeError::Busy => {
                f.write_str("the table is moving to other cells: repeat this when it has moved")
            }
            ResizeError::Full(n) => write!(f, "{n} entries have no free cell there: use more cells"),
            ResizeError::Lost(server) => write!(f, "server {server} was lost: move the table to others"),
        }
    }
}

impl Error for ResizeError {}
