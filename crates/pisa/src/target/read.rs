//! Targets as TOML.

use super::{Arrays, Crossbar, MOST_STAGES, Phv, Sram, Target, Tcam, UNLIMITED};
use crate::cost::address_bits;
use crate::resource::{Amounts, Resource};
use pointsman_topology::reader::{ConfigErrors, Problems, Table};

/// No chip has more of anything in a stage.
const MOST: u64 = 1 << 24;

/// Reads a target.
pub(super) fn read(file: &str, text: &str) -> Result<Target, ConfigErrors> {
    let mut problems = Problems::new(file, text);
    let Some(document) = problems.parse() else { return problems.into_result(None) };
    let target = target(Table::top(&document), &mut problems);
    for (section, field, message) in target.iter().flat_map(contradictions) {
        let mut table = Table::top(&document);
        let table = if section.is_empty() { Some(table) } else { table.table(section, &mut problems) };
        if let Some(table) = table {
            problems.add(&table.place_of(field), table.field(field), message);
        }
    }
    problems.into_result(target)
}

/// A number that has to be there.
fn needed(t: &mut Table<'_, '_>, name: &'static str, least: u64, p: &mut Problems<'_>) -> Option<u64> {
    needed_up_to(t, name, least, MOST, p)
}

fn needed_up_to(
    t: &mut Table<'_, '_>,
    name: &'static str,
    least: u64,
    most: u64,
    p: &mut Problems<'_>,
) -> Option<u64> {
    let before = p.count();
    let found = t.integer(name, least, most, p);
    if found.is_none() && p.count() == before {
        t.missing(name, "write a whole number", p);
    }
    Some(found?.value)
}

/// A flag that has to be there.
fn flag(t: &mut Table<'_, '_>, name: &'static str, remedy: &str, p: &mut Problems<'_>) -> Option<bool> {
    let before = p.count();
    let found = t.boolean(name, p);
    if found.is_none() && p.count() == before {
        t.missing(name, remedy, p);
    }
    found
}

fn section<'t, 'a>(t: &mut Table<'t, 'a>, name: &'static str, p: &mut Problems<'_>) -> Option<Table<'t, 'a>> {
    let before = p.count();
    let found = t.table(name, p);
    if found.is_none() && p.count() == before {
        t.missing(name, "write a table of this name; `docs/resources.md` shows one", p);
    }
    found
}

fn target(mut t: Table<'_, '_>, p: &mut Problems<'_>) -> Option<Target> {
    let name = t.name("name", "give the target a name", p);
    let stages = needed_up_to(&mut t, "stages", 1, MOST_STAGES, p);
    let gateway_bits = needed(&mut t, "gateway_bits", 1, p);
    let stage = section(&mut t, "per_stage", p);
    let sram = section(&mut t, "sram", p).and_then(|s| sram(s, p));
    let tcam = section(&mut t, "tcam", p).and_then(|s| tcam(s, p));
    let crossbar = section(&mut t, "crossbar", p).and_then(|s| crossbar(s, p));
    let arrays = section(&mut t, "arrays", p).and_then(|s| arrays(s, p));
    let phv = section(&mut t, "phv", p).and_then(|s| phv(s, p));
    t.finish(p);
    let per_stage = stage.and_then(|s| per_stage(s, p));
    Some(Target {
        name: name?.value,
        stages: stages? as u32,
        per_stage: per_stage?,
        sram: sram?,
        tcam: tcam?,
        crossbar: crossbar?,
        arrays: arrays?,
        gateway_bits: gateway_bits? as u32,
        phv: phv?,
    })
}

fn per_stage(mut t: Table<'_, '_>, p: &mut Problems<'_>) -> Option<Amounts> {
    let before = p.count();
    let mut all = Amounts::all(UNLIMITED);
    for r in Resource::ALL {
        if let Some(amount) = t.integer(r.name(), 0, MOST, p) {
            all[r] = amount.value;
        }
    }
    if all[Resource::Sram] == UNLIMITED {
        t.missing("sram", "write how many blocks of SRAM a stage has", p);
    }
    t.finish(p);
    (p.count() == before).then_some(all)
}

/// A section, or none for the whole chip; a field of it; what it contradicts, with a remedy.
type Contradiction = (&'static str, &'static str, String);

/// Parts of a chip that contradict each other.
fn contradictions(target: &Target) -> Vec<Contradiction> {
    let mut all = of_stages(target);
    all.extend(of_crossbars(target));
    all.extend(of_words(target));
    all
}

/// Numbers of a stage that do not go with others.
fn of_stages(target: &Target) -> Vec<Contradiction> {
    let (stage, sram) = (&target.per_stage, &target.sram);
    let mut all = Vec::new();
    let mut add = |name, message: String| all.push(("per_stage", name, message));
    let blocks = stage[Resource::Sram];
    if sram.widest > blocks {
        add(
            "sram",
            format!(
                "`sram.widest` is {}, and a stage has {blocks} blocks: write at least as many",
                sram.widest
            ),
        );
    }
    let tables = stage[Resource::Tables];
    if tables == 0 {
        add("logical_tables", "no program has a place in such a stage: write at least 1".into());
    }
    for (name, r) in [("exact_tables", Resource::ExactTables), ("ternary_tables", Resource::TernaryTables)] {
        if tables > 0 && target.counts(r) && stage[r] > tables {
            add(name, format!("a stage has only {tables} logical tables: write at most {tables}"));
        }
    }
    let (ways, rows) = (sram.ways, sram.rows);
    let needed = ways.saturating_mul(address_bits(rows));
    if blocks > 0 && ways > blocks {
        let message = format!("each way has a block, and a stage has {blocks}: write at most {blocks}");
        all.push(("sram", "ways", message));
    } else if stage[Resource::HashBits] < needed {
        let message = format!(
            "the {ways} ways of an exact match into {rows} rows take {needed} bits: write at least {needed}"
        );
        all.push(("per_stage", "hash_bits", message));
    }
    // A stage without map RAM has no arrays.
    let map_ram = Some(stage[Resource::MapRam]).filter(|n| *n > 0).unwrap_or(UNLIMITED);
    let (room, spare) = (blocks.min(map_ram), target.arrays.spare_blocks);
    if room > 0 && spare >= room {
        let most = room - 1;
        let message =
            format!("a stage has {room} blocks for an array and its spare ones: write at most {most}");
        all.push(("arrays", "spare_blocks", message));
    }
    all
}

/// Keys that cannot reach their tables.
fn of_crossbars(target: &Target) -> Vec<Contradiction> {
    let stage = &target.per_stage;
    let has = |r: Resource| stage[r] > 0 && stage[Resource::Tables] > 0;
    let exact = has(Resource::ExactTables);
    let ternary = has(Resource::TernaryTables) && has(Resource::Tcam);
    let units = &target.crossbar;
    let kinds = [
        ("exact_crossbar", Resource::ExactCrossbar, units.exact_bits, exact, "exact_tables"),
        ("ternary_crossbar", Resource::TernaryCrossbar, units.ternary_bits, ternary, "ternary_tables"),
    ];
    let mut all = Vec::new();
    for (name, r, bits, needed, tables) in kinds {
        let least = bits.div_ceil(8);
        if stage[r] == 0 && needed {
            let message = format!("no key reaches a table: write at least {least}, or `{tables} = 0`");
            all.push(("per_stage", name, message));
        } else if stage[r] > 0 && stage[r].saturating_mul(8) < bits {
            let message =
                format!("it is narrower than one of its units of {bits} bits: write at least {least}");
            all.push(("per_stage", name, message));
        }
    }
    let bits = stage[Resource::ExactCrossbar].saturating_mul(8);
    if bits > 0 && u64::from(target.gateway_bits) > bits {
        let message =
            format!("the exact crossbar, which leads to gateways, has {bits} bits: write at most {bits}");
        all.push(("", "gateway_bits", message));
    }
    all
}

/// What has to fit into a word of SRAM.
fn of_words(target: &Target) -> Vec<Contradiction> {
    let sram = &target.sram;
    let parts = [
        ("sram", "key_bits", sram.key_bits),
        ("sram", "overhead_bits", sram.overhead_bits),
        ("sram", "immediate_bits", sram.immediate_bits),
        ("arrays", "widest_bits", target.arrays.widest_bits),
    ];
    let wider = parts.into_iter().filter(|(.., bits)| *bits > sram.bits);
    let message = format!("a word of SRAM has {0} bits: write at most {0}", sram.bits);
    wider.map(|(section, name, _)| (section, name, message.clone())).collect()
}

fn sram(mut t: Table<'_, '_>, p: &mut Problems<'_>) -> Option<Sram> {
    let rows = needed(&mut t, "rows", 1, p);
    let bits = needed(&mut t, "bits", 1, p);
    let key_bits = needed(&mut t, "key_bits", 1, p);
    let widest = needed(&mut t, "widest", 1, p);
    let shared =
        flag(&mut t, "shared", "write true if keys and the rest of an entry share words, or false", p);
    let overhead_bits = needed(&mut t, "overhead_bits", 0, p);
    let immediate_bits = needed(&mut t, "immediate_bits", 0, p);
    let ways = needed(&mut t, "ways", 0, p);
    t.finish(p);
    Some(Sram {
        rows: rows?,
        bits: bits?,
        key_bits: key_bits?,
        widest: widest?,
        shared: shared?,
        overhead_bits: overhead_bits?,
        immediate_bits: immediate_bits?,
        ways: ways?,
    })
}

fn tcam(mut t: Table<'_, '_>, p: &mut Problems<'_>) -> Option<Tcam> {
    let rows = needed(&mut t, "rows", 1, p);
    let bits = needed(&mut t, "bits", 1, p);
    let prefixes = flag(&mut t, "prefixes", "write true if ranges are split into prefixes, or false", p);
    t.finish(p);
    Some(Tcam { rows: rows?, bits: bits?, prefixes: prefixes? })
}

fn crossbar(mut t: Table<'_, '_>, p: &mut Problems<'_>) -> Option<Crossbar> {
    let exact_bits = needed(&mut t, "exact_bits", 1, p);
    let ternary_bits = needed(&mut t, "ternary_bits", 1, p);
    t.finish(p);
    Some(Crossbar { exact_bits: exact_bits?, ternary_bits: ternary_bits? })
}

fn arrays(mut t: Table<'_, '_>, p: &mut Problems<'_>) -> Option<Arrays> {
    let spare_blocks = needed(&mut t, "spare_blocks", 0, p);
    let widest_bits = needed(&mut t, "widest_bits", 1, p);
    let operations = needed(&mut t, "operations", 0, p);
    t.finish(p);
    Some(Arrays { spare_blocks: spare_blocks?, widest_bits: widest_bits?, operations: operations? as u32 })
}

fn phv(mut t: Table<'_, '_>, p: &mut Problems<'_>) -> Option<Phv> {
    let mut words = |names: [&'static str; 3], p: &mut Problems<'_>| {
        let found = names.map(|n| t.integer(n, 0, MOST, p).map_or(0, |at| at.value));
        Some(found)
    };
    let main = words(["words_8", "words_16", "words_32"], p);
    let carried = words(["carried_8", "carried_16", "carried_32"], p);
    if main == Some([0; 3]) {
        p.add(
            &t.place,
            t.field("words_32"),
            "no words at all: write at least one of words_8, words_16, words_32",
        );
    }
    let group = needed(&mut t, "group", 0, p);
    if let (Some(main), Some(group)) = (main, group) {
        for (name, words) in ["words_8", "words_16", "words_32"].into_iter().zip(main) {
            if group > 1 && words % group != 0 {
                let message = format!("{words} words are not a multiple of the group of {group}");
                p.add(&t.place_of(name), t.field(name), message);
            }
        }
    }
    t.finish(p);
    Some(Phv { words: main?, carried: carried?, group: group? })
}
