//! Chapter 6 of the thesis: P4Wise; and the simulated figures of chapter 5.

use super::figure::Figure;

/// In the thesis's order.
pub const FIGURES: &[Figure] = &[];
