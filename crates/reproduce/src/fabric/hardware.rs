//! Figure 7 and section 6.2 of the P4TE paper: what the program takes of a switch chip.

use crate::bench::Bench;
use crate::error::{ExperimentError, Failed};
use crate::figure::{Chart, Claim, Curve, Figure, Found, Place, Point, Quantity, Rule, Source};
use pointsman_compile::sources::Sources;
use pointsman_compile::{FileError, compile};
use pointsman_ir::Program;
use pointsman_pisa::arch::V1MODEL;
use pointsman_pisa::{Amounts, BUDGET, Report, Resource, Target, resources};

/// The chip of "Forwarding Metamorphosis", as in the paper.
const CHIP: &str = "rmt";
/// Flows of which the paper's leaves know something, and the bits of the widest of it: a time.
const FLOWS: u64 = 1 << 20;
const TIME_BITS: u64 = 48;

const STAGE: Quantity = Quantity { name: "stage", unit: "", label: "stage", log: false };
const BITS: Quantity = Quantity { name: "width", unit: "bits", label: "bits", log: false };

const HOW: &str = "our program with rate adaptation on the chip `rmt`, by `pointsman p4 resources` (docs/resources.md). All seeds give the same. What the \
                   mapper says of the published program, which is not distributed here, is in docs/resources.md";

const fn bound(
    id: &'static str,
    text: &'static str,
    most: f64,
    unit: &'static str,
    section: &'static str,
) -> Claim {
    Claim { id, text, paper: most, unit, rule: Rule::AtMost, source: Source::Section(section) }
}

pub const WIDTHS: Figure = Figure {
    id: "p4te-fig-7",
    title: "Bits of keys and of action data, by stage",
    source: "P4TE, section 6.2.2",
    place: Place::Simulator(widths),
    remarks: &[
        HOW,
        "keys in whole units of a crossbar; the paper's bits of actions are those of the fields that instructions read and write, ours those of the data that come from \
         memory: other fields need no wires between memory and ALUs",
    ],
    claims: &[
        bound("ternary", "bits of ternary keys in any stage", 640.0, "bit", "6.2.2"),
        bound("exact", "bits of exact keys, hashes and indices in any stage", 640.0, "bit", "6.2.2"),
        bound("actions", "bits of action data in any stage", 1280.0, "bit", "6.2.2"),
    ],
};

pub const SECTION: Figure = Figure {
    id: "p4te-section-6.2",
    title: "Stages, packet header vector and memory of a chip",
    source: "P4TE, section 6.2",
    place: Place::Simulator(section),
    remarks: &[
        HOW,
        "the paper's stages are the longest chain of its graph, in which each condition has a stage; ours are those of a placement",
        "the chip has 64, 96 and 64 words of 8, 16 and 32 bits",
        "memory of an array: its bits over those of a stage. The paper says that an array of 48 bits for 1 million flows takes less than 70 % of a stage; one stage has 12.2 Mbit",
    ],
    claims: &[
        bound("chain", "stages of the longest chain", 26.0, "", "6.2.2"),
        bound("stages", "stages", 26.0, "", "6.2.2"),
        bound("words-8", "words of 8 bits", 46.0, "", "6.2.1"),
        bound("words-16", "words of 16 bits", 32.0, "", "6.2.1"),
        bound("words-32", "words of 32 bits", 61.0, "", "6.2.1"),
        bound("vector", "packet header vector", 69.15, "%", "6.2.1"),
        bound("array", "memory of a stage for the times of 1 million flows", 70.0, "%", "6.2.3"),
        bound("violations", "arrays and tables that the chip cannot have in this way", 0.0, "", "6.2"),
    ],
};

/// The program of P4TE.
pub fn program() -> Result<Program, Failed> {
    let text = include_str!("../../../../p4/programs/p4te/main.p4");
    let compiled = compile("main.p4", text, &Sources::default(), &[])
        .map_err(|e| FileError::Program("main.p4".into(), e))?;
    Ok(compiled.program)
}

fn report() -> Result<Report, Failed> {
    let target = Target::named(CHIP).ok_or(ExperimentError::None("chip"))?;
    Ok(resources("p4te", &program()?, &V1MODEL, &target, BUDGET))
}

/// Bits of each kind in a stage. Crossbars are counted in bytes.
fn bits(stage: &Amounts) -> [u64; 3] {
    [8 * stage[Resource::TernaryCrossbar], 8 * stage[Resource::ExactCrossbar], stage[Resource::ActionData]]
}

fn widths(bench: &Bench) -> Result<Found, Failed> {
    let (report, seeds) = (report()?, bench.seeds().count());
    let rows: Vec<[u64; 3]> = report.per_stage.iter().map(bits).collect();
    let mut found = Found::default();
    let mut curves = Vec::new();
    for (kind, claim) in WIDTHS.claims.iter().enumerate() {
        let most = rows.iter().map(|row| row[kind]).max().unwrap_or(0);
        found.claim(claim.id, vec![most as f64; seeds]);
        let point =
            |(stage, row): (usize, &[u64; 3])| Point::new((stage + 1) as f64, vec![row[kind] as f64; seeds]);
        curves.push(Curve { name: claim.id.into(), points: rows.iter().enumerate().map(point).collect() });
    }
    let title = "Bits by stage".to_string();
    found.charts.push(Chart { title, x: STAGE, y: BITS, ours: curves, paper: Vec::new() });
    Ok(found)
}

/// The share of a stage's memory that cells of so many bits take, in per cent.
fn share(target: &Target, cells: u64, bits: u64) -> f64 {
    let stage = target.per_stage[Resource::Sram] * target.sram.rows * target.sram.bits;
    100.0 * (cells * bits) as f64 / stage as f64
}

fn section(bench: &Bench) -> Result<Found, Failed> {
    let (report, seeds) = (report()?, bench.seeds().count());
    let mut found = Found::default();
    let words = |n: usize| report.phv.words[n] as f64;
    for (id, value) in [
        ("chain", f64::from(report.critical_path)),
        ("stages", f64::from(report.used())),
        ("words-8", words(0)),
        ("words-16", words(1)),
        ("words-32", words(2)),
        ("vector", report.phv.percent()),
        ("array", share(&report.target, FLOWS, TIME_BITS)),
        ("violations", report.violations.len() as f64),
    ] {
        found.claim(id, vec![value; seeds]);
    }
    found.notes.extend(report.violations.iter().map(|v| format!("{}: {}", v.object, v.why)));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 48 Mbit against 106 blocks of 1,024 rows of 112 bits.
    #[test]
    fn a_million_flows_are_more_than_a_stage_has() {
        let target = Target::named(CHIP).expect("built in");
        assert!((share(&target, FLOWS, TIME_BITS) - 414.0).abs() < 0.1);
    }
}
