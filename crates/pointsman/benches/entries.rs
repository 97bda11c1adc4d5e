//! Fills a table over P4Runtime, as a controller would, reads it back and empties it; prints the time and the switch's
//! memory. `cargo bench -p pointsman --bench entries -- [ENTRIES [PER_BATCH]]`, by default a million in batches of
//! 10,000.

#[path = "../tests/support/mod.rs"]
mod support;

use support::Scratch;
use support::many::{Filled, fill};

fn main() {
    // Cargo adds its own flags.
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let entries = numbers.first().copied().unwrap_or(1_000_000);
    let per_batch = numbers.get(1).copied().unwrap_or(10_000);
    let dir = Scratch::new("entries");
    let Filled { installed, read, deleted, memory } = fill(&dir, entries, per_batch);
    println!(
        "{entries} exact entries in batches of {per_batch}: installed in {:.2} s, read in {:.2} s, deleted in {:.2} s",
        installed.as_secs_f64(),
        read.as_secs_f64(),
        deleted.as_secs_f64(),
    );
    println!(
        "resident memory of the switch, MiB: before {:.1}, with the entries {:.1}, after reading {:.1} (peak {:.1}), \
         after deleting {:.1}",
        memory.before, memory.full, memory.read, memory.peak, memory.empty,
    );
}
