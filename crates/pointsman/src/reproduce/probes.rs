//! The paper on probes and PROMETHEE.

use super::figure::Figure;

/// In the paper's order.
pub const FIGURES: &[Figure] = &[];
