//! Tables 4.1 and 5.3 of the thesis: what the balancer takes of a switch chip.

use super::bench::Bench;
use super::chip::{Row, at_most, paper, taken};
use super::figure::{Chart, Claim, Figure, Found, Place, Quantity};
use crate::error::{ExperimentError, Failed};
use pointsman_compile::sources::{Sources, balancer};
use pointsman_compile::{FileError, compile};
use pointsman_pisa::arch::V1MODEL;
use pointsman_pisa::{BUDGET, Report, Resource, Target, resources};

/// Entries of a table of the thesis's programs; ours declare up to 524,288.
const ENTRIES: u64 = 1024;
/// The size of the thesis's prototype: 65,536 connections for its 50,000, 256 servers with our eight devices each, as many services as tables have
/// entries.
const SIZED: [(&str, &str); 5] = [
    ("#define CONNECTION_PLACE_BITS 17", "#define CONNECTION_PLACE_BITS 14"),
    ("MAX_SERVERS = 8192", "MAX_SERVERS = 256"),
    ("DEVICE_NUMBERS = 32w1 << DEVICE_BITS", "DEVICE_NUMBERS = 2048"),
    ("(65536", "(1024"),
    ("counter(1048576", "counter(16384"),
];
/// Reports without digests, as in the thesis.
const NO_DIGESTS: [(&str, &str); 1] =
    [("half_sip_hash.apply(secret, head, meta.words, words, expected);", "expected = tag;")];

const TAKEN: Quantity = Quantity { name: "taken", unit: "percent", label: "% of the chip", log: false };

const KIND_4: Quantity = Quantity {
    name: "resource",
    unit: "",
    label: "1: SRAM; 2: TCAM; 3: instructions; 4: hash bits; 5: statistics ALUs; 6: map RAM; 7: exact crossbar; 8: stages",
    log: false,
};
const ROWS_4: [Row; 7] = [
    ("sram", &[Resource::Sram], 5.1),
    ("tcam", &[Resource::Tcam], 0.0),
    ("instructions", &[Resource::Vliw], 2.6),
    ("hash-bits", &[Resource::HashBits], 4.0),
    ("statistics-alus", &[Resource::StatisticsAlus], 2.1),
    ("map-ram", &[Resource::MapRam], 5.6),
    ("crossbar", &[Resource::ExactCrossbar], 2.9),
];

const KIND_5: Quantity = Quantity {
    name: "resource",
    unit: "",
    label: "1: logical tables; 2: map RAM; 3: register ALUs; 4: SRAM; 5: stages",
    log: false,
};
const ROWS_5: [Row; 4] = [
    ("tables", &[Resource::Tables], 9.4),
    ("map-ram", &[Resource::MapRam], 7.6),
    ("alus", &[Resource::StatefulAlus], 16.7),
    ("sram", &[Resource::Sram], 5.5),
];

const ESTIMATED: &str = "the paper's numbers are those of the vendor's compiler for Tofino; ours are those of `pointsman p4 resources` for the chip `tofino` \
     (docs/resources.md). All seeds give the same";
const SIZE: &str = "the claims are about our program as large as the thesis's: 65,536 connections, 256 servers, tables of at most 1,024 entries. The chart also has the program as it is \
     built in (524,288 connections, 8,192 servers), and the smaller one without digests of reports, which the thesis's does not have";
const MORE: &str = "our program does not fit on the chip: what is more than its stages have is counted, too, so that numbers above 100 % are possible. It is written for a switch in \
     software and does what the thesis's does not: IPv6, TCP's states, full keys in four ways, fragments, tunnels, ICMP errors, every policy at once, \
     counters. A packet reads and writes most of its arrays, which a stage can do only once";

pub const P4MITE: Figure = figure(
    "table-4.1",
    "thesis, section 4.5.5",
    p4mite,
    &[
        at_most("sram", "SRAM", 5.1),
        at_most("tcam", "TCAM", 0.0),
        at_most("instructions", "instructions", 2.6),
        at_most("hash-bits", "hash bits", 4.0),
        at_most("statistics-alus", "statistics ALUs", 2.1),
        at_most("map-ram", "map RAM", 5.6),
        at_most("crossbar", "crossbar of exact matches", 2.9),
    ],
);

pub const P4HAULER: Figure = figure(
    "table-5.3",
    "thesis, section 5.7.3",
    p4hauler,
    &[
        at_most("tables", "logical tables", 9.4),
        at_most("map-ram", "map RAM", 7.6),
        at_most("alus", "register ALUs (the paper: meter ALUs)", 16.7),
        at_most("sram", "SRAM", 5.5),
    ],
);

const fn figure(
    id: &'static str,
    source: &'static str,
    run: super::figure::Run,
    claims: &'static [Claim],
) -> Figure {
    let (title, place) = ("Resources of the switch for 50,000 connections", Place::Simulator(run));
    Figure { id, title, source, place, remarks: &[ESTIMATED, SIZE, MORE], claims }
}

fn p4mite(bench: &Bench) -> Result<Found, Failed> {
    table(bench, &ROWS_4, KIND_4)
}

fn p4hauler(bench: &Bench) -> Result<Found, Failed> {
    table(bench, &ROWS_5, KIND_5)
}

/// The balancer with changes of its text, and with tables of at most so many entries.
fn report(changes: &[(&str, &str)], entries: u64) -> Result<Report, Failed> {
    let mut text = balancer();
    for (from, to) in changes {
        if !text.contains(from) {
            return Err(ExperimentError::NotInBalancer((*from).to_string()).into());
        }
        text = text.replace(from, to);
    }
    let mut compiled = compile("main.p4", &text, &Sources::default(), &[])
        .map_err(|e| FileError::Program("main.p4".into(), e))?;
    for table in &mut compiled.program.tables {
        table.size = table.size.map(|size| size.min(entries));
    }
    let target = Target::named("tofino").ok_or(ExperimentError::None("chip"))?;
    Ok(resources("balancer", &compiled.program, &V1MODEL, &target, BUDGET))
}

/// Reports by name; the first is that of the claims. Both tables share them.
fn reports() -> Result<Vec<(&'static str, Report)>, Failed> {
    Ok(vec![
        ("ours", report(&SIZED, ENTRIES)?),
        ("ours without digests", report(&[&SIZED[..], &NO_DIGESTS].concat(), ENTRIES)?),
        ("ours as built in", report(&[], u64::MAX)?),
    ])
}

fn table(bench: &Bench, rows: &[Row], kind: Quantity) -> Result<Found, Failed> {
    let reports = bench.once("the balancer on a chip", reports)?;
    let seeds = bench.seeds().count();
    let mut found = Found::default();
    let mut ours = Vec::new();
    for (name, report) in reports.iter() {
        let (used, has) = (report.used(), report.target.stages);
        let fits = if report.fits() { "fits" } else { "does not fit" };
        found
            .notes
            .push(format!("{name}: {used} stages of {has}; {fits}, for {} reasons", report.violations.len()));
        ours.push(taken(name, rows, report, seeds));
    }
    for ((id, ..), point) in rows.iter().zip(&ours[0].points) {
        found.claim(id, point.samples.clone());
    }
    found.charts.push(Chart { title: "Use".into(), x: kind, y: TAKEN, ours, paper: vec![paper(rows)] });
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_smaller_takes_less() {
        let reports = reports().expect("the balancer has what is changed");
        let shares = |report: &Report| -> Vec<f64> {
            let of = |rows: &[Row]| taken("", rows, report, 1).points.into_iter().map(|p| p.samples[0]);
            of(&ROWS_4).chain(of(&ROWS_5)).collect()
        };
        let [sized, plain, built_in] = [0, 1, 2].map(|n| shares(&reports[n].1));
        let less = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| a <= b) && a != b;
        assert!(less(&plain, &sized) && less(&sized, &built_in), "{plain:?} {sized:?} {built_in:?}");
        // Memory depends on sizes: 65,536 places of 32 bytes are a sixteenth of 128 blocks of each of 12 stages.
        assert!(sized[0] < built_in[0] / 4.0 && sized[0] > 100.0 / 16.0, "{sized:?}");
        assert!(report(&[("no such text", "")], 1).is_err());
    }
}
