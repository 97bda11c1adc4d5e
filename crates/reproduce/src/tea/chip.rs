//! Table 3.4: what TEA takes of a switch chip.

use crate::bench::Bench;
use crate::chip::{Row, at_most, more, paper};
use crate::error::{ExperimentError, Failed};
use crate::figure::{Chart, Figure, Found, Place, Quantity};
use pointsman_compile::sources::Sources;
use pointsman_compile::{FileError, compile};
use pointsman_pisa::arch::V1MODEL;
use pointsman_pisa::{BUDGET, Report, Resource, Target, resources};

/// One entry in 1,000 of 10 million collides, and is in the switch (section 3.5.3).
const TEA: &str = "#define TEA_STASH 10240\n";
/// Without TEA, with a table as small as the paper's cache.
const PLAIN: &str = "#define PLAIN\n#define FLOW_ENTRIES 1024\n";

const KIND: Quantity = Quantity {
    name: "resource",
    unit: "",
    label: "1: crossbar; 2: SRAM; 3: TCAM; 4: instructions; 5: hash bits; 6: stages",
    log: false,
};
const MORE: Quantity =
    Quantity { name: "more", unit: "percent", label: "more than without TEA, % of the chip", log: false };

const ROWS: [Row; 5] = [
    ("crossbar", &[Resource::ExactCrossbar, Resource::TernaryCrossbar], 12.6),
    ("sram", &[Resource::Sram], 8.5),
    ("tcam", &[Resource::Tcam], 0.4),
    ("instructions", &[Resource::Vliw], 4.2),
    ("hash-bits", &[Resource::HashBits], 6.3),
];

pub const TABLE: Figure = Figure {
    id: "tea-table-3.4",
    title: "Additional resources of a switch chip",
    source: "TEA, thesis section 3.5.3",
    place: Place::Simulator(table),
    remarks: &[
        "the paper's numbers are those of the vendor's compiler for Tofino; ours are those of `pointsman p4 resources` for the chip `tofino`, as the difference of the NAT with TEA and \
         without it, with a table of 1,024 entries (docs/resources.md). All seeds give the same",
        "ours has what the paper's has not: losses, replicas, tags, right check values in both directions; the paper's has a cache and a sketch",
        "our library is written for v1model, where a packet of any length is a field, and does not fit on the chip: what is more than its stages have is counted, too",
    ],
    claims: &[
        at_most("crossbar", "additional match crossbar", 12.6),
        at_most("sram", "additional SRAM", 8.5),
        at_most("tcam", "additional TCAM", 0.4),
        at_most("instructions", "additional instructions", 4.2),
        at_most("hash-bits", "additional hash bits", 6.3),
    ],
};

const NAT: (&str, &str) = ("nat", include_str!("../../../../p4/programs/nat/main.p4"));

/// What a program of this name takes of the paper's chip.
pub(super) fn report((name, program): (&str, &str), defines: &str) -> Result<Report, Failed> {
    let text = [defines, program].concat();
    let compiled = compile("main.p4", &text, &Sources::default(), &[])
        .map_err(|e| FileError::Program("main.p4".into(), e))?;
    let target = Target::named("tofino").ok_or(ExperimentError::None("chip"))?;
    Ok(resources(name, &compiled.program, &V1MODEL, &target, BUDGET))
}

fn table(bench: &Bench) -> Result<Found, Failed> {
    let (with, plain) = (report(NAT, TEA)?, report(NAT, PLAIN)?);
    let seeds = bench.seeds().count();
    let mut found = Found::default();
    let more = more("ours", &ROWS, &with, &plain, seeds);
    for ((id, ..), point) in ROWS.iter().zip(&more.points) {
        found.claim(id, point.samples.clone());
    }
    found.notes.push(format!(
        "with TEA {} stages of {}; without it {}",
        with.used(),
        with.target.stages,
        plain.used()
    ));
    let (ours, paper) = (vec![more], vec![paper(&ROWS)]);
    found.charts.push(Chart { title: "Additional use".into(), x: KIND, y: MORE, ours, paper });
    Ok(found)
}
