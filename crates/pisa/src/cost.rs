//! What nodes take of a target's stage.

use crate::graph::{ArrayKind, Demand, Matching, Node, NodeKind};
use crate::place::Excess;
use crate::resource::{Amounts, Resource};
use crate::target::{MOST_STAGES, Sram, Target};

/// What a node takes: something in each stage that has a part of it, and memory that may be spread over stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    /// In each stage with a part of it.
    fixed: Amounts,
    /// Equal units of memory for matches.
    pub units: u64,
    /// Of each unit.
    unit: Amounts,
    /// Entries of each unit, and of all of them.
    words: u64,
    entries: u64,
    /// Blocks of SRAM for so many entries: action data, and arrays that belong to entries.
    beside: Vec<Beside>,
    /// Has to be in one stage as a whole.
    pub whole: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Beside {
    /// Blocks that hold so many entries.
    blocks: u64,
    entries: u64,
    /// On top, in each stage.
    spare: u64,
    map_ram: bool,
}

impl Cost {
    /// What `units` of its units take of one stage.
    pub fn of(&self, units: u64) -> Amounts {
        let mut all = self.fixed;
        for r in [Resource::Sram, Resource::Tcam] {
            all[r] = all[r].saturating_add(units.saturating_mul(self.unit[r]));
        }
        let entries = (units * self.words).min(self.entries);
        for b in &self.beside {
            let blocks = entries.div_ceil(b.entries) * b.blocks + b.spare;
            all[Resource::Sram] += blocks;
            all[Resource::MapRam] += if b.map_ram { blocks } else { 0 };
        }
        all
    }

    /// The most units, up to `left`, that fit into what is free of a stage; 0 if not even one, or not all of a node that
    /// must not be divided.
    pub fn most(&self, left: u64, free: &Amounts) -> u64 {
        if self.of(left).fits(free) {
            return left;
        }
        if self.whole {
            return 0;
        }
        let (mut fits, mut over) = (0, left);
        while over - fits > 1 {
            let middle = fits + (over - fits) / 2;
            if self.of(middle).fits(free) {
                fits = middle;
            } else {
                over = middle;
            }
        }
        fits
    }

    /// The least number of stages for so many units of a cost that is [`limited`](Cost::limited).
    pub fn stages(&self, units: u64, stage: &Amounts) -> u32 {
        units.div_ceil(self.most(units, stage).max(1)) as u32
    }

    /// The same, cut down to what an empty stage has if no chip can hold it, and what is too much of it.
    pub fn limited(mut self, stage: &Amounts) -> (Cost, Option<Excess>) {
        let most = self.most(self.units, stage).max(1);
        let part = self.of(if self.whole { self.units } else { most });
        let over = match part.over(stage) {
            Some(r) => Some(Excess::Stage(r, part[r])),
            None => Some(self.units.div_ceil(most)).filter(|n| *n > MOST_STAGES).map(Excess::Stages),
        };
        if over.is_some() {
            self = Cost {
                fixed: part.limited(stage),
                units: 1,
                unit: Amounts::default(),
                words: 0,
                entries: 0,
                beside: vec![],
                whole: true,
            };
        }
        (self, over)
    }
}

/// The most gateways for one condition: wider ones can be computed before, by instructions that are not counted.
const GATEWAYS: u64 = 4;

/// Bits of an address of so many.
pub(crate) fn address_bits(of: u64) -> u64 {
    u64::from(u64::BITS - (of.max(1) - 1).leading_zeros())
}

/// What a node takes of a target.
pub(crate) fn cost(node: &Node, target: &Target) -> Cost {
    let d = &node.demand;
    let mut cost = Cost {
        fixed: fixed(node, target),
        units: 1,
        unit: Amounts::default(),
        words: d.entries,
        entries: d.entries,
        beside: Vec::new(),
        whole: d.matching == Matching::None,
    };
    match d.matching {
        Matching::None => {}
        Matching::Exact => exact(d, target, &mut cost),
        Matching::Ternary => ternary(d, target, &mut cost),
    }
    action_data(d, target, &mut cost);
    let attached = node.kind == NodeKind::Table;
    for a in &d.arrays {
        let cell = array_bits(a.bits, target);
        // A table's counters are spread with its entries; an array is in one stage.
        cost.fixed[Resource::Sram] += if attached { 0 } else { array_blocks(cell, a.cells, target) };
        cost.fixed[Resource::MapRam] += if attached { 0 } else { array_blocks(cell, a.cells, target) };
        if attached {
            let entries = (target.sram.bits / cell).max(1) * target.sram.rows;
            let blocks = cell.div_ceil(target.sram.bits);
            cost.beside.push(Beside { blocks, entries, spare: target.arrays.spare_blocks, map_ram: true });
        }
        let alu = match a.kind {
            ArrayKind::Counter => Resource::StatisticsAlus,
            ArrayKind::Register | ArrayKind::Meter => Resource::StatefulAlus,
        };
        cost.fixed[alu] += 1;
    }
    cost
}

/// Cells are rounded up to a power of two, at least a byte.
fn array_bits(bits: u64, target: &Target) -> u64 {
    bits.max(8).next_power_of_two().min(target.sram.bits.max(bits))
}

fn array_blocks(cell: u64, cells: u64, target: &Target) -> u64 {
    let per_row = target.sram.bits / cell;
    let blocks = if per_row > 0 {
        cells.div_ceil(per_row * target.sram.rows)
    } else {
        cells.div_ceil(target.sram.rows) * cell.div_ceil(target.sram.bits)
    };
    blocks + target.arrays.spare_blocks
}

/// Bytes of a crossbar for so many bits, in its units.
fn crossbar(bits: u64, unit: u64) -> u64 {
    (bits.div_ceil(unit) * unit).div_ceil(8)
}

fn fixed(node: &Node, target: &Target) -> Amounts {
    let d = &node.demand;
    let mut fixed = Amounts::default();
    let hashed = d.hash_input_bits + d.arrays.iter().map(|a| a.index_bits).sum::<u64>();
    let ranges: u64 = d.ranges.iter().sum();
    let exact = if d.matching == Matching::Exact { d.key_bits } else { 0 };
    let widest = GATEWAYS * u64::from(target.gateway_bits);
    let conditions = if target.counts(Resource::Gateways) { d.condition_bits.min(widest) } else { 0 };
    for bits in [exact, hashed, conditions] {
        fixed[Resource::ExactCrossbar] += crossbar(bits, target.crossbar.exact_bits);
    }
    if d.matching == Matching::Ternary {
        let range_bits = if target.tcam.prefixes { ranges } else { 2 * ranges };
        fixed[Resource::TernaryCrossbar] = crossbar(d.key_bits + range_bits, target.crossbar.ternary_bits);
    }
    fixed[Resource::HashBits] = d.hash_output_bits;
    for a in d.arrays.iter().filter(|a| a.index_bits > 0) {
        fixed[Resource::HashBits] += address_bits(a.cells);
        fixed[Resource::HashUnits] += 1;
    }
    // A unit delivers 16 bits.
    fixed[Resource::HashUnits] += d.hash_output_bits.div_ceil(16);
    fixed[Resource::Gateways] = conditions.div_ceil(u64::from(target.gateway_bits));
    fixed[Resource::ActionData] = d.action_bits;
    fixed[Resource::Vliw] = d.actions;
    if d.selector {
        fixed[Resource::StatefulAlus] += 1;
    }
    if d.inside {
        return fixed;
    }
    fixed[Resource::Tables] = 1;
    let kind = if d.matching == Matching::Ternary { Resource::TernaryTables } else { Resource::ExactTables };
    fixed[kind] = 1;
    fixed
}

/// Bits of an entry without its key: overhead, which action, and its data or a pointer to them.
fn entry_bits(d: &Demand, target: &Target) -> u64 {
    let pointer = match d.members {
        Some(members) => address_bits(members),
        None if d.action_bits <= target.sram.immediate_bits => d.action_bits,
        None => address_bits(d.entries),
    };
    target.sram.overhead_bits + address_bits(d.actions) + pointer
}

/// Bits of an exact match's entry, and the blocks side by side that one word takes at least.
fn exact_word(d: &Demand, target: &Target) -> (u64, u64) {
    let Sram { key_bits, shared, .. } = target.sram;
    let width = (d.key_bits + if shared { entry_bits(d, target) } else { 0 }).max(1);
    (width, width.div_ceil(key_bits))
}

/// What is too much of a table whose entry does not fit into the widest word. It was placed as if the word could be wider.
pub(crate) fn too_wide(d: &Demand, target: &Target) -> Option<Excess> {
    let (_, blocks) = exact_word(d, target);
    (d.matching == Matching::Exact && blocks > target.sram.widest).then_some(Excess::Word(blocks))
}

fn exact(d: &Demand, target: &Target, cost: &mut Cost) {
    let s = &target.sram;
    let (width, least) = exact_word(d, target);
    // Blocks side by side, so that they hold all entries in the fewest blocks; narrower ones if equal.
    let blocks = |wide: u64| d.entries.div_ceil(wide * s.key_bits / width * s.rows) * wide;
    let wide = (least..=s.widest.max(least)).min_by_key(|w| (blocks(*w), *w)).unwrap_or(least);
    cost.words = wide * s.key_bits / width * s.rows;
    cost.units = d.entries.div_ceil(cost.words).max(1);
    cost.unit[Resource::Sram] = wide;
    if s.ways > 0 {
        let ways = s.ways.min(cost.units);
        let select = ways * address_bits(cost.units.div_ceil(ways));
        cost.fixed[Resource::HashBits] += ways * address_bits(s.rows) + select.min(12);
    }
}

fn ternary(d: &Demand, target: &Target, cost: &mut Cost) {
    let t = &target.tcam;
    let ranges: u64 = d.ranges.iter().sum();
    let (width, rows) = if t.prefixes {
        let prefixes = d.ranges.iter().map(|w| (2 * w).saturating_sub(2).max(1));
        (d.key_bits + ranges, prefixes.fold(1, u64::saturating_mul))
    } else {
        (d.key_bits + 2 * ranges, 1)
    };
    cost.words = (t.rows / rows).max(1);
    cost.units = d.entries.div_ceil(cost.words).max(1);
    cost.unit[Resource::Tcam] = width.max(1).div_ceil(t.bits).saturating_mul(rows.div_ceil(t.rows));
    // The rest of an entry has a word in SRAM.
    if target.sram.shared {
        let bits = entry_bits(d, target).max(8).next_power_of_two().min(target.sram.bits);
        let entries = target.sram.bits / bits * target.sram.rows;
        cost.beside.push(Beside { blocks: 1, entries, spare: 0, map_ram: false });
    }
}

/// Action data that do not lie with the entries.
fn action_data(d: &Demand, target: &Target, cost: &mut Cost) {
    let s = &target.sram;
    let own = d.action_bits > s.immediate_bits || d.members.is_some();
    if !own || d.action_bits == 0 || d.matching == Matching::None {
        return;
    }
    let blocks = d.action_bits.div_ceil(s.bits);
    let entries = blocks * s.bits / d.action_bits * s.rows;
    match d.members {
        // In each stage that has a part of the table, because entries refer to any of them.
        Some(members) => {
            cost.fixed[Resource::Sram] += members.div_ceil(entries) * blocks + u64::from(d.selector);
        }
        None => cost.beside.push(Beside { blocks, entries, spare: 0, map_ram: false }),
    }
}
