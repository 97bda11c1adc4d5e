//! Pipeline chips as data.

mod read;

use crate::resource::{Amounts, Resource};
use pointsman_topology::reader::ConfigErrors;

/// A capacity that is so large that it limits nothing: that of a resource which a chip does not have, or of which nothing is
/// known.
pub const UNLIMITED: u64 = u64::MAX;

/// The most stages of a chip.
pub const MOST_STAGES: u64 = 4096;

/// A pipeline chip: equal stages, shared by ingress and egress, and the words that carry headers from stage to stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Its name in reports.
    pub name: String,
    /// How many stages it has.
    pub stages: u32,
    /// Capacity of a stage; [`UNLIMITED`] if a resource is not counted.
    pub per_stage: Amounts,
    /// Blocks of SRAM.
    pub sram: Sram,
    /// Blocks of TCAM.
    pub tcam: Tcam,
    /// Bits by which keys are given to tables.
    pub crossbar: Crossbar,
    /// Arrays of registers, counters and meters.
    pub arrays: Arrays,
    /// Bits that a gateway compares.
    pub gateway_bits: u32,
    /// Words for headers and metadata.
    pub phv: Phv,
}

/// A block of SRAM, and how exact matches use it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sram {
    /// Words of a block.
    pub rows: u64,
    /// Bits of a word.
    pub bits: u64,
    /// Bits of a word that can hold keys.
    pub key_bits: u64,
    /// Most blocks side by side that make one wide word for an exact match's entry.
    pub widest: u64,
    /// Whether the words that hold keys also hold the rest of an entry: version, number of the action, and its data or a
    /// pointer to them. Otherwise these have a place of their own, which is not counted.
    pub shared: bool,
    /// Bits of an entry's version and the like, if shared.
    pub overhead_bits: u64,
    /// Most bits of action data that lie with the entry, not in blocks of their own.
    pub immediate_bits: u64,
    /// Ways of an exact match, each with its own hash; 0 if the hash bits are not counted.
    pub ways: u64,
}

/// A block of TCAM.
#[derive(Clone, Debug, PartialEq)]
pub struct Tcam {
    /// Entries of a block.
    pub rows: u64,
    /// Bits of an entry.
    pub bits: u64,
    /// Whether an entry's range of W bits is split into prefixes, at worst 2 W - 2 of them (false: ranges are compared by
    /// groups of four bits, which take the room of eight).
    pub prefixes: bool,
}

/// Bits that the crossbars give out together.
#[derive(Clone, Debug, PartialEq)]
pub struct Crossbar {
    /// Of exact matches.
    pub exact_bits: u64,
    /// Of ternary matches.
    pub ternary_bits: u64,
}

/// Arrays in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrays {
    /// Blocks that an array takes on top of those of its cells.
    pub spare_blocks: u64,
    /// The widest cell of a register array, in bits.
    pub widest_bits: u64,
    /// Operations one after the other between reading a cell and writing it back.
    pub operations: u32,
}

/// The packet header vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Phv {
    /// Words of 8, 16 and 32 bits.
    pub words: [u64; 3],
    /// Words of 8, 16 and 32 bits that only the parser and deparser access.
    pub carried: [u64; 3],
    /// Words that belong either to ingress or to egress come in groups of this size; 1 if each word is free, 0 if both use
    /// the same words.
    pub group: u64,
}

/// Widths of the words in [`Phv`], in bits.
pub const WORD_BITS: [u64; 3] = [8, 16, 32];

/// The targets that are known by name, with the text that describes them.
pub const BUILT_IN: [(&str, &str); 3] = [
    ("rmt", include_str!("targets/rmt.toml")),
    ("tofino", include_str!("targets/tofino.toml")),
    ("tofino2", include_str!("targets/tofino2.toml")),
];

impl Target {
    /// The built-in target of this name.
    pub fn named(name: &str) -> Option<Target> {
        let (_, text) = BUILT_IN.iter().find(|(n, _)| *n == name)?;
        // A test reads each of them.
        Target::read(&format!("{name}.toml"), text).ok()
    }

    /// Reads a target from TOML; `file` is its name in messages.
    ///
    /// # Errors
    /// Everything that is wrong, with its place and remedy.
    pub fn read(file: &str, text: &str) -> Result<Target, ConfigErrors> {
        read::read(file, text)
    }

    /// Whether a resource is counted.
    pub fn counts(&self, r: Resource) -> bool {
        self.per_stage[r] != UNLIMITED
    }

    /// What the whole pipeline has of a resource.
    pub fn total(&self, r: Resource) -> u64 {
        self.per_stage[r].saturating_mul(u64::from(self.stages))
    }
}
