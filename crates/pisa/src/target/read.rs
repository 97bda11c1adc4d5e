//! Targets as TOML.

use super::{Arrays, Crossbar, MOST_STAGES, Phv, Sram, Target, Tcam, UNLIMITED};
use crate::resource::{Amounts, Resource};
use pointsman_topology::reader::{ConfigErrors, Problems, Table};

/// No chip has more of anything in a stage.
const MOST: u64 = 1 << 24;

/// Reads a target.
pub(super) fn read(file: &str, text: &str) -> Result<Target, ConfigErrors> {
    let mut problems = Problems::new(file, text);
    let Some(document) = problems.parse() else { return problems.into_result(None) };
    let target = target(Table::top(&document), &mut problems);
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
    let per_stage = per_stage(stage?, sram.as_ref(), crossbar.as_ref(), p);
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

fn per_stage(
    mut t: Table<'_, '_>,
    sram: Option<&Sram>,
    crossbar: Option<&Crossbar>,
    p: &mut Problems<'_>,
) -> Option<Amounts> {
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
    let mut contradicts = |name: &str, message: String| p.add(&t.place_of(name), t.field(name), message);
    if let Some(sram) = sram
        && sram.widest > all[Resource::Sram]
    {
        let has = all[Resource::Sram];
        contradicts("sram", format!("`sram.widest` is {}, and a stage has {has} blocks", sram.widest));
    }
    let kinds = [("exact_tables", Resource::ExactTables), ("ternary_tables", Resource::TernaryTables)];
    for (name, r) in kinds {
        if all[r] != UNLIMITED && all[r] > all[Resource::Tables] {
            let has = all[Resource::Tables];
            contradicts(name, format!("a stage has only {has} logical tables: write at most {has}"));
        }
    }
    if let Some(crossbar) = crossbar {
        let kinds = [
            ("exact_crossbar", Resource::ExactCrossbar, crossbar.exact_bits),
            ("ternary_crossbar", Resource::TernaryCrossbar, crossbar.ternary_bits),
        ];
        for (name, r, bits) in kinds {
            if all[r] != UNLIMITED && all[r] > 0 && all[r] * 8 < bits {
                contradicts(name, format!("it is narrower than one of its units of {bits} bits"));
            }
        }
    }
    t.finish(p);
    (p.count() == before).then_some(all)
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
    let place = t.place_of("key_bits");
    if let (Some(bits), Some(key)) = (bits, key_bits)
        && key > bits
    {
        p.add(&place, t.field("key_bits"), format!("a word has {bits} bits: write at most {bits}"));
    }
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
