//! Bytes of an entry in the memory of servers, and bytes of a look-up on the link, by layout and size of packets.

use super::adapter::{CHECK, SIZE, apart, shape};
use super::{INLINE, LAYOUTS, RING, memory};
use crate::bench::Bench;
use crate::error::{ExperimentError, Failed};
use crate::figure::{Chart, Claim, Curve, Figure, Found, Place, Point, Quantity, Rule, Source, ratios};
use pointsman_remote::{Layout, ROW_SLOT, Scratchpads};
use pointsman_testbed::rnic::Rnic;
use pointsman_testbed::tables::timed::{Shape, Timed};
use pointsman_wire::Random;

/// Bytes of packets, with their check sequence.
const SIZES: [usize; 3] = [64, 512, 1500];
/// Bytes of a scratchpad of a row in front of its packet (`TEA_SCRATCH_BYTES`).
const SCRATCH: usize = 12;
/// The data plane's counter of entries that were found in a server (`TEA_COUNT_FOUND`).
const COUNT_FOUND: u64 = 1;

const DRAM: Quantity =
    Quantity { name: "dram", unit: "bytes", label: "memory for an entry, bytes", log: true };
const WIRE: Quantity =
    Quantity { name: "wire", unit: "bytes", label: "a look-up on the link, bytes", log: false };

pub const FIGURE: Figure = Figure {
    id: "tea-bytes",
    title: "Bytes of an entry in memory, and of a look-up on the link, by layout and size of packets",
    source: "ours; TEA, thesis section 3.3.2",
    place: Place::Simulator(bytes),
    remarks: &[
        "memory: one copy of 10 million entries of the NAT over IPv4, with four queue pairs, at the load at which one entry in 1,000 collides (measured for each seed in a smaller table). Both layouts \
         have room for packets of 1,514 bytes",
        "`inline, scratchpads of the packets' size` is computed: the same load, with a scratchpad in each row as long as these packets need, as if no longer ones came",
        "the link: frames between switch and server, in both directions, with check sequence, preamble and gap, counted in virtual time for look-ups that come one at a time. Entries are in the server",
    ],
    claims: &[
        Claim {
            id: "dram",
            text: "`inline` takes so many times the memory of `ring` for an entry",
            paper: 10.0,
            unit: "times",
            rule: Rule::AtLeast,
            source: Source::Ours,
        },
        Claim {
            id: "dram-64",
            text: "the same, if scratchpads in rows were for packets of 64 bytes",
            paper: 1.0,
            unit: "times",
            rule: Rule::AtLeast,
            source: Source::Ours,
        },
        fewer("wire-64", "64 bytes: bytes of a look-up with `inline` over those with `ring`"),
        fewer("wire-512", "512 bytes: the same"),
        fewer("wire-1500", "1,500 bytes: the same"),
    ],
};

const fn fewer(id: &'static str, text: &'static str) -> Claim {
    Claim { id, text, paper: 1.0, unit: "times", rule: Rule::AtMost, source: Source::Ours }
}

/// Of a layout, with one seed.
#[derive(Clone, Copy, Debug)]
struct Measured {
    /// Entries for each cell, in per cent.
    load: f64,
    /// Bytes of a look-up to the server and from it, by size of packets.
    wire: [[f64; 2]; SIZES.len()],
}

impl Measured {
    fn both_ways(&self, size: usize) -> f64 {
        self.wire[size].iter().sum()
    }

    /// Bytes of memory for an entry; with rows for packets of so many bytes if they are given.
    fn dram(&self, layout: &Layout, packet: Option<usize>) -> f64 {
        let cells = ((memory::ENTRIES * 100.0 / self.load) as u32).next_multiple_of(4);
        let all = layout.region_bytes(cells) + layout.ring_bytes(memory::PAIRS);
        let scratch = |bytes: usize| (SCRATCH + bytes - CHECK).next_multiple_of(4) as u64;
        let unused = packet.map_or(0, |bytes| u64::from(ROW_SLOT) - scratch(bytes));
        (all - u64::from(cells / 4) * unused) as f64 / memory::ENTRIES
    }
}

fn layout(scratchpads: Scratchpads) -> Layout {
    Shape { scratchpads, ..Shape::USUAL }.layout()
}

fn measure(bench: &Bench, scratchpads: Scratchpads, seed: u64) -> Result<Measured, Failed> {
    let load = memory::load(scratchpads, bench.choose(1 << 16, 1 << 13), seed)?;
    let shape = Shape { scratchpads, ..shape(bench, memory::PAIRS, seed) };
    let mut bed = Timed::new(shape, Rnic::default())?;
    let mut random = Random::new(seed);
    let mut wire = [[0.0; 2]; SIZES.len()];
    for (size, wire) in SIZES.iter().zip(&mut wire) {
        let (before, asked) = (bed.wire_bytes(), bed.count(COUNT_FOUND)?);
        apart(&mut bed, bench.choose(500, 100), size - CHECK, || random.below(shape.entries.into()) as u32)?;
        let asked = (bed.count(COUNT_FOUND)? - asked) as f64;
        for (n, wire) in wire.iter_mut().enumerate() {
            *wire = (bed.wire_bytes()[n] - before[n]) as f64 / asked;
        }
    }
    match bed.wrong() {
        0 => Ok(Measured { load, wire }),
        wrong => Err(ExperimentError::Wrong(wrong).into()),
    }
}

fn bytes(bench: &Bench) -> Result<Found, Failed> {
    Ok(judged(
        &bench.each("bytes of a look-up", &LAYOUTS, |(layout, _), seed| measure(bench, *layout, seed))?,
    ))
}

/// The claims and charts, of the runs of each of [`LAYOUTS`].
fn judged(all: &[Vec<Measured>]) -> Found {
    let of = |which: usize, value: &dyn Fn(&Measured) -> f64| -> Vec<f64> {
        all[which].iter().map(value).collect()
    };
    let dram = |which: usize, packet| of(which, &|m| m.dram(&layout(LAYOUTS[which].0), packet));
    let wire = |which: usize, size: usize| of(which, &|m| m.both_ways(size));
    let mut found = Found::default();
    found.claim("dram", ratios(&dram(INLINE, None), &dram(RING, None)));
    found.claim("dram-64", ratios(&dram(INLINE, Some(SIZES[0])), &dram(RING, None)));
    for (size, id) in ["wire-64", "wire-512", "wire-1500"].into_iter().enumerate() {
        found.claim(id, ratios(&wire(INLINE, size), &wire(RING, size)));
    }
    let curve = |name: String, value: &dyn Fn(usize) -> Vec<f64>| {
        let point = |(n, size): (usize, &usize)| Point::new(*size as f64, value(n));
        Curve { name, points: SIZES.iter().enumerate().map(point).collect() }
    };
    let (mut memory, mut link) = (Vec::new(), Vec::new());
    for (which, (_, name)) in LAYOUTS.iter().enumerate() {
        memory.push(curve((*name).into(), &|_| dram(which, None)));
        link.push(curve((*name).into(), &|size| wire(which, size)));
        for (way, of_way) in ["to the server", "from the server"].iter().enumerate() {
            link.push(curve(format!("{name}, {of_way}"), &|size| of(which, &|m| m.wire[size][way])));
        }
        let loads = of(which, &|m| m.load);
        let mean = loads.iter().sum::<f64>() / loads.len().max(1) as f64;
        found.notes.push(format!("`{name}`: {mean:.1} entries for 100 cells (mean)"));
    }
    let fits = |size: usize| dram(INLINE, Some(SIZES[size]));
    memory.push(curve("inline, scratchpads of the packets' size".into(), &fits));
    let chart = |title: &str, y, ours| Chart { title: title.into(), x: SIZE, y, ours, paper: Vec::new() };
    found.charts.push(chart("Memory for an entry", DRAM, memory));
    found.charts.push(chart("Bytes of a look-up", WIRE, link));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Coming, Where};
    use crate::verdict::Verdict;

    #[test]
    fn an_entry_has_its_share_of_cells_and_scratchpads() {
        let of = |load| Measured { load, wire: [[0.0; 2]; SIZES.len()] };
        // Two cells of 32 bytes for each entry, and a part of 512 KiB.
        let ring = of(50.0).dram(&layout(Scratchpads::Ring), None);
        assert!((ring - 64.0 - 0.0524).abs() < 1e-3, "{ring}");
        // Half of a row: eight cells, and a scratchpad of 1,536 bytes or one of 72.
        let rows = layout(Scratchpads::Inline);
        assert_eq!(of(50.0).dram(&rows, None), (256.0 + 1536.0) / 2.0);
        assert_eq!(of(50.0).dram(&rows, Some(64)), (256.0 + 72.0) / 2.0);
    }

    #[test]
    fn rows_take_memory_and_save_bytes_on_the_link() {
        let bench = Bench::new(1, 1, true, Coming::Poisson, Where::Simulator, 1).expect("a bench");
        let of = |(layout, _)| vec![measure(&bench, layout, 1).expect("look-ups"); 5];
        let mut all = LAYOUTS.map(of);
        let verdicts = |all: &[Vec<Measured>]| -> Vec<Verdict> {
            let judged = FIGURE.judge(&judged(all)).expect("a value for each claim");
            judged.iter().map(|j| j.verdict).collect()
        };
        assert_eq!(verdicts(&all), [Verdict::Holds; 5]);
        // The fault: a layout sends what the other one does.
        all.swap(RING, INLINE);
        assert_eq!(verdicts(&all)[2..], [Verdict::Fails; 3]);
    }
}
