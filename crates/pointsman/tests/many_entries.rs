//! A table with many entries over real gRPC; `benches/entries.rs` does the same with a million.

use crate::support::Scratch;
use crate::support::many::{Filled, fill};

#[test]
fn fifty_thousand_entries() {
    let Filled { memory, .. } = fill(&Scratch::new("many"), 50_000, 5_000);
    let grown = memory.full - memory.before;
    // A million may take 200 MiB; the overhead of batches weighs more with few entries.
    assert!(grown < 40.0, "{grown} MiB for 50,000 entries");
    assert!(memory.peak - memory.before < 200.0, "reading took {} MiB at its worst", memory.peak);
}
