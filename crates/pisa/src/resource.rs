//! The resources of a stage, and amounts of them.

use std::ops::{Index, IndexMut};

/// A resource that each stage of a pipeline has its own of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// Blocks of SRAM: exact matches, action data, arrays.
    Sram,
    /// Blocks of TCAM.
    Tcam,
    /// Blocks of map RAM, which arrays need for their second port.
    MapRam,
    /// Bytes of the crossbar to exact matches, hashes and gateways.
    ExactCrossbar,
    /// Bytes of the crossbar to ternary matches.
    TernaryCrossbar,
    /// Bits computed by the hash generators.
    HashBits,
    /// Units that bring hashes to arrays and to the packet header vector.
    HashUnits,
    /// Conditions.
    Gateways,
    /// Bits of action data that reach the ALUs.
    ActionData,
    /// Instructions: one for each action of a table that does anything.
    Vliw,
    /// Logical tables of any kind.
    Tables,
    /// Tables with exact keys, or without keys.
    ExactTables,
    /// Tables with ternary keys.
    TernaryTables,
    /// ALUs that read and write register arrays and meters.
    StatefulAlus,
    /// ALUs that count.
    StatisticsAlus,
}

impl Resource {
    /// How many there are.
    pub const COUNT: usize = 15;

    /// All of them, in the order of reports.
    pub const ALL: [Resource; Resource::COUNT] = [
        Resource::Sram,
        Resource::Tcam,
        Resource::MapRam,
        Resource::ExactCrossbar,
        Resource::TernaryCrossbar,
        Resource::HashBits,
        Resource::HashUnits,
        Resource::Gateways,
        Resource::ActionData,
        Resource::Vliw,
        Resource::Tables,
        Resource::ExactTables,
        Resource::TernaryTables,
        Resource::StatefulAlus,
        Resource::StatisticsAlus,
    ];

    /// Its name in targets' files and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Resource::Sram => "sram",
            Resource::Tcam => "tcam",
            Resource::MapRam => "map_ram",
            Resource::ExactCrossbar => "exact_crossbar",
            Resource::TernaryCrossbar => "ternary_crossbar",
            Resource::HashBits => "hash_bits",
            Resource::HashUnits => "hash_units",
            Resource::Gateways => "gateways",
            Resource::ActionData => "action_data",
            Resource::Vliw => "vliw",
            Resource::Tables => "logical_tables",
            Resource::ExactTables => "exact_tables",
            Resource::TernaryTables => "ternary_tables",
            Resource::StatefulAlus => "stateful_alus",
            Resource::StatisticsAlus => "statistics_alus",
        }
    }

    /// What one of it is.
    pub fn unit(self) -> &'static str {
        match self {
            Resource::Sram | Resource::Tcam | Resource::MapRam => "blocks",
            Resource::ExactCrossbar | Resource::TernaryCrossbar => "bytes",
            Resource::HashBits | Resource::ActionData => "bits",
            Resource::HashUnits => "hash units",
            Resource::StatefulAlus => "stateful alus",
            Resource::StatisticsAlus => "statistics alus",
            Resource::Gateways => "gateways",
            Resource::Vliw => "instructions",
            Resource::Tables => "logical tables",
            Resource::ExactTables => "exact tables",
            Resource::TernaryTables => "ternary tables",
        }
    }
}

/// An amount of each resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts([u64; Resource::COUNT]);

impl Index<Resource> for Amounts {
    type Output = u64;
    fn index(&self, r: Resource) -> &u64 {
        &self.0[r as usize]
    }
}

impl IndexMut<Resource> for Amounts {
    fn index_mut(&mut self, r: Resource) -> &mut u64 {
        &mut self.0[r as usize]
    }
}

impl Amounts {
    /// The same amount of everything.
    pub fn all(amount: u64) -> Amounts {
        Amounts([amount; Resource::COUNT])
    }

    /// Both together.
    pub fn plus(mut self, other: &Amounts) -> Amounts {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a = a.saturating_add(b));
        self
    }

    /// Without `other`, which is part of it.
    pub fn minus(mut self, other: &Amounts) -> Amounts {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a -= b);
        self
    }

    /// At most as much as `limit`.
    pub fn limited(mut self, limit: &Amounts) -> Amounts {
        self.0.iter_mut().zip(limit.0).for_each(|(a, b)| *a = (*a).min(b));
        self
    }

    /// Whether it fits into what is free.
    pub fn fits(&self, free: &Amounts) -> bool {
        self.0.iter().zip(free.0).all(|(a, b)| *a <= b)
    }

    /// The first resource of which there is more than `free`.
    pub fn over(&self, free: &Amounts) -> Option<Resource> {
        Resource::ALL.into_iter().find(|r| self[*r] > free[*r])
    }
}
