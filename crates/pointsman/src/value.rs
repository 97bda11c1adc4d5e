//! Values of flags that are not what they have to be.

use std::error::Error;
use std::fmt;

/// The value of a flag is something else than this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected(pub &'static str);

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}", self.0)
    }
}

impl Error for Expected {}
