//! Table 5.2: what the library takes of a switch chip.

use super::JUMBO;
use crate::bench::Bench;
use crate::chip::{Row, at_most, more, paper};
use crate::error::{ExperimentError, Failed};
use crate::figure::{Chart, Figure, Found, Place, Quantity};
use pointsman_pisa::arch::V1MODEL;
use pointsman_pisa::{BUDGET, Report, Resource, Target, resources};
use pointsman_testbed::{App, Build};

/// Connections (section 5.6.4).
const SLOTS: &str = "#define REDPLANE_SLOTS 100000\n";
/// What the digests of messages take is left out with these.
const NO_DIGESTS: [(&str, &str); 2] = [
    ("digest_of.apply(m.secret, message, expected);", "expected = message.digest;"),
    ("digest_of.apply(m.secret, message, message.digest);", ""),
];

const KIND: Quantity = Quantity {
    name: "resource",
    unit: "",
    label: "1: crossbar; 2: register ALUs; 3: gateways; 4: SRAM; 5: TCAM; 6: instructions; 7: hash bits; 8: stages",
    log: false,
};
const MORE: Quantity = Quantity {
    name: "more",
    unit: "percent",
    label: "more than without RedPlane, % of the chip",
    log: false,
};

const ROWS: [Row; 7] = [
    ("crossbar", &[Resource::ExactCrossbar, Resource::TernaryCrossbar], 5.3),
    ("alus", &[Resource::StatefulAlus], 8.3),
    ("gateways", &[Resource::Gateways], 9.9),
    ("sram", &[Resource::Sram], 13.2),
    ("tcam", &[Resource::Tcam], 11.8),
    ("instructions", &[Resource::Vliw], 5.5),
    ("hash-bits", &[Resource::HashBits], 3.7),
];

pub const TABLE: Figure = Figure {
    id: "redplane-table-5.2",
    title: "Additional resources of a switch chip for 100,000 connections",
    source: "RedPlane, thesis section 5.6.4",
    place: Place::Simulator(table),
    remarks: &[
        "the paper's numbers are those of the vendor's compiler for Tofino; ours are those of `pointsman p4 resources` for the chip `tofino`, as the difference \
         of the firewall with and without the library (docs/resources.md). All seeds give the same",
        "our library does not fit on the chip (docs/redplane.md): what is more than its stages have is counted, too, so that numbers above 100 % are possible",
        "the claims are about the library with its digests, which the paper's does not have; the chart has both",
    ],
    claims: &[
        at_most("crossbar", "additional match crossbar", 5.3),
        at_most("alus", "additional register ALUs (the paper: meter ALUs)", 8.3),
        at_most("gateways", "additional gateways", 9.9),
        at_most("sram", "additional SRAM", 13.2),
        at_most("tcam", "additional TCAM", 11.8),
        at_most("instructions", "additional instructions", 5.5),
        at_most("hash-bits", "additional hash bits", 3.7),
    ],
};

fn report(plain: bool, changes: &[(&str, &str)]) -> Result<Report, Failed> {
    let defines = format!("{JUMBO}{SLOTS}");
    let build = Build::new(App::Firewall, plain, &defines, changes)?;
    let target = Target::named("tofino").ok_or(ExperimentError::None("chip"))?;
    Ok(resources("firewall", build.program(), &V1MODEL, &target, BUDGET))
}

fn table(bench: &Bench) -> Result<Found, Failed> {
    let plain = report(true, &[])?;
    let all = [("ours", report(false, &[])?), ("ours without digests", report(false, &NO_DIGESTS)?)];
    let seeds = bench.seeds().count();
    let mut found = Found::default();
    let mut ours = Vec::new();
    for (name, with) in &all {
        found.notes.push(format!(
            "{name}: {} stages of {}; without RedPlane {}",
            with.used(),
            with.target.stages,
            plain.used()
        ));
        ours.push(more(name, &ROWS, with, &plain, seeds));
    }
    for (n, (id, ..)) in ROWS.iter().enumerate() {
        let samples = ours[0].at((n + 1) as f64).unwrap_or_default().to_vec();
        found.claim(id, samples);
    }
    let paper = vec![paper(&ROWS)];
    found.charts.push(Chart { title: "Additional use".into(), x: KIND, y: MORE, ours, paper });
    Ok(found)
}
