//! Table 3.4: what TEA takes of a switch chip.

use crate::bench::Bench;
use crate::figure::{Chart, Claim, Curve, Figure, Found, Place, Point, Quantity, Rule, Source};
use crate::redplane::percent;
use pointsman_compile::sources::Sources;
use pointsman_compile::{compile, rendered};
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

/// Resources that the table names together, and the paper's additional use in per cent.
const ROWS: [(&str, &[Resource], f64); 5] = [
    ("crossbar", &[Resource::ExactCrossbar, Resource::TernaryCrossbar], 12.6),
    ("sram", &[Resource::Sram], 8.5),
    ("tcam", &[Resource::Tcam], 0.4),
    ("instructions", &[Resource::Vliw], 4.2),
    ("hash-bits", &[Resource::HashBits], 6.3),
];

const fn at_most(id: &'static str, text: &'static str, percent: f64) -> Claim {
    Claim { id, text, paper: percent, unit: "%", rule: Rule::AtMost, source: Source::Text }
}

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

fn report(defines: &str) -> Result<Report, String> {
    let text = [defines, include_str!("../../../../p4/programs/nat/main.p4")].concat();
    let compiled = compile("main.p4", &text, &Sources::default(), &[]).map_err(|e| rendered(&e))?;
    let target = Target::named("tofino").ok_or("no chip `tofino`")?;
    Ok(resources("nat", &compiled.program, &V1MODEL, &target, BUDGET))
}

fn table(bench: &Bench) -> Result<Found, String> {
    let (with, plain) = (report(TEA)?, report(PLAIN)?);
    let seeds = bench.seeds().count();
    let mut found = Found::default();
    let mut points = Vec::new();
    for (n, (id, kinds, _)) in ROWS.iter().enumerate() {
        let more = percent(&with, kinds) - percent(&plain, kinds);
        points.push(Point::new((n + 1) as f64, vec![more; seeds]));
        found.claim(id, vec![more; seeds]);
    }
    let stages = f64::from(with.used()) - f64::from(plain.used());
    points.push(Point::new(6.0, vec![100.0 * stages / f64::from(plain.target.stages); seeds]));
    found.notes.push(format!(
        "with TEA {} stages of {}; without it {}",
        with.used(),
        with.target.stages,
        plain.used()
    ));
    let rows: Vec<(f64, f64)> = ROWS.iter().enumerate().map(|(n, row)| ((n + 1) as f64, row.2)).collect();
    let ours = vec![Curve { name: "ours".into(), points }];
    let paper = vec![Curve::paper("ours", &rows)];
    found.charts.push(Chart { title: "Additional use".into(), x: KIND, y: MORE, ours, paper });
    Ok(found)
}
