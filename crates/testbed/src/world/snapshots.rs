//! Snapshots: what a switch that takes over has is what the former one had counted at one instant.

use super::*;
use crate::program::App;
use crate::trace::Sent;
use pointsman_wire::Random;

const MS: u64 = 1_000_000;
const CELLS: u64 = 64;
const VLANS: usize = 2;

/// Counts of a VLAN: three rows.
type Counts = [[u64; CELLS as usize]; 3];

/// The flow's cell in each row: of addresses, ports and protocol, bit by bit (the CRC of Ethernet).
fn cells_of(frame: &[u8]) -> [usize; 3] {
    let ip = &frame[18..];
    let mut crc = u32::MAX;
    for byte in ip[12..24].iter().chain(&ip[9..10]) {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ (0xedb8_8320 & 0u32.wrapping_sub(crc & 1));
        }
    }
    [0, 6, 12].map(|shift| (!crc >> shift) as usize % CELLS as usize)
}

/// What the checker knows of the VLAN at the switch that has it.
#[derive(Clone)]
struct Known {
    base: Counts,
    /// Cells and times of the packets since then.
    packets: Vec<([usize; 3], u64)>,
}

impl Known {
    fn after(&self, packets: usize) -> Counts {
        let mut counts = self.base;
        for (cells, _) in &self.packets[..packets] {
            (0..3).for_each(|row| counts[row][cells[row]] += 1);
        }
        counts
    }

    /// After how many packets the counts were these.
    fn instant(&self, counts: &Counts) -> Result<usize, String> {
        let sum = |c: &Counts| c[0].iter().sum::<u64>();
        let packets = sum(counts).checked_sub(sum(&self.base)).map(|n| n as usize);
        let n = packets.filter(|n| *n <= self.packets.len()).ok_or("counts of no time")?;
        if self.after(n) == *counts { Ok(n) } else { Err(format!("not the counts after {n} packets")) }
    }
}

struct Run<'a> {
    testbed: Testbed<'a>,
    random: Random,
    known: Vec<Known>,
}

impl Run<'_> {
    fn pass(&mut self, until: u64) {
        while self.testbed.next(until).is_some() {}
    }

    fn register(&mut self, n: usize, name: &str, index: u64) -> u64 {
        self.testbed.register(n, name, index).expect("a register of a switch that runs")
    }

    /// Both copies, the active one first, or the other one where a cell was not touched since the snapshot.
    fn counts(&mut self, n: usize, vlan: usize) -> Counts {
        let active = self.register(n, "redplane_active", vlan as u64);
        let mut counts = [[0; CELLS as usize]; 3];
        for (row, counts) in counts.iter_mut().enumerate() {
            for (cell, count) in counts.iter_mut().enumerate() {
                let index = vlan as u64 * CELLS + cell as u64;
                let both = self.register(n, &format!("arrays.array{row}.copies"), index);
                let latest = self.register(n, &format!("arrays.array{row}.latest"), index);
                *count = both >> (32 * latest) & 0xffff_ffff;
                assert!(active < 2 && latest < 2);
            }
        }
        counts
    }

    /// Packets of both VLANs to a switch, which counts them, until a time.
    fn traffic(&mut self, n: usize, until: u64) {
        let mut at = self.testbed.now();
        while at < until {
            at += 5_000 + self.random.below(20_000);
            let flow = self.random.below(60).min(self.random.below(60)) as u32;
            let sent = Sent { at, flow, place: 1, last: false, bytes: 64 };
            let frame = App::HeavyHitters.frame(&sent, 0, true);
            let vlan = usize::from(frame[15]) - 1;
            self.known[vlan].packets.push((cells_of(&frame), at));
            self.testbed.send(at, (n, 0), frame, 0);
            self.pass(at);
        }
        // All have arrived.
        self.pass(at + MS / 10);
    }

    /// One packet for each VLAN, which is not counted: the switch takes over.
    fn take_over(&mut self, n: usize) -> Result<(), String> {
        let lost_at = self.testbed.now();
        for flow in 0..VLANS as u32 {
            let sent = Sent { at: lost_at, flow, place: 1, last: false, bytes: 64 };
            self.testbed.send(lost_at, (n, 0), App::HeavyHitters.frame(&sent, 0, true), 0);
        }
        for vlan in 0..VLANS {
            let end = lost_at + 200 * MS;
            while self.register(n, "redplane_stages", vlan as u64) != 2 {
                if self.testbed.now() > end {
                    return Err("the switch does not take over".into());
                }
                let next = self.testbed.now() + 10_000;
                self.pass(next);
            }
            let counts = self.counts(n, vlan);
            let packets = self.known[vlan].instant(&counts)?;
            // Nothing that was counted long ago is missing.
            let missing =
                self.known[vlan].packets.get(packets).map_or(0, |(_, at)| lost_at.saturating_sub(*at));
            if missing > 8 * MS {
                return Err(format!("a snapshot that is {missing} ns old"));
            }
            self.known[vlan] = Known { base: counts, packets: Vec::new() };
        }
        Ok(())
    }
}

const DEFINES: &str = "#define REDPLANE_PLACES 2\n";

fn build(changes: &[(&str, &str)]) -> Build {
    Build::new(App::HeavyHitters, false, DEFINES, changes).expect("a program")
}

fn setup(build: &Build, seed: u64) -> Setup<'_> {
    Setup {
        store: Config { lease_us: 20_000, ..Config::default() },
        stores: if seed.is_multiple_of(4) { 3 } else { 1 },
        resend_ns: 250_000,
        renew_ns: 0,
        buffer: 0,
        loss: 0.1,
        disorder_ns: 300_000,
        snapshots: Snapshots { bound_ns: 100 * MS, ..Snapshots::default() },
        faults: Faults { answers_lost: 0.1, doubled: 0.2 },
        ..Setup::new(build, seed)
    }
}

/// The switches take turns: the other one fails, or only gets no packets any more.
fn turns(build: &Build, seed: u64, count: usize) -> Result<Stats, String> {
    let nothing = Known { base: [[0; CELLS as usize]; 3], packets: Vec::new() };
    let testbed = Testbed::new(setup(build, seed)).map_err(|e| e.to_string())?;
    let mut run = Run { testbed, random: Random::new(seed), known: vec![nothing; VLANS] };
    for turn in 0..count {
        let n = turn % 2;
        run.take_over(n).map_err(|e| format!("turn {turn}: {e}"))?;
        let end = run.testbed.now() + 10 * MS + run.random.below(5 * MS);
        run.traffic(n, end);
        for vlan in 0..VLANS {
            let all = run.known[vlan].packets.len();
            let counted = run.counts(n, vlan) == run.known[vlan].after(all);
            counted.then_some(()).ok_or_else(|| format!("turn {turn}: packets that are not counted"))?;
        }
        if run.random.below(3) > 0 {
            run.testbed.crash(n);
        }
        if run.testbed.register(1 - n, "redplane_stages", 0).is_none() {
            run.testbed.start(1 - n).map_err(|e| e.to_string())?;
        }
    }
    Ok(run.testbed.store_stats())
}

#[test]
fn a_switch_that_takes_over_has_the_counts_of_one_instant() {
    let build = build(&[]);
    let (mut snapshots, mut given_back) = (0, 0);
    for seed in 0..12 {
        let stats = turns(&build, seed, 6).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        snapshots += stats.snapshots;
        given_back += stats.given_back;
    }
    println!("{snapshots} snapshots, {given_back} cells given back");
    assert!(snapshots > 500 && given_back > 12 * 5 * 2 * CELLS, "{snapshots}, {given_back}");
    let defines = format!("{DEFINES}#define REDPLANE_IPV6\n");
    let build = Build::new(App::HeavyHitters, false, &defines, &[]).expect("a program");
    for seed in [0, 1] {
        turns(&build, seed, 6).unwrap_or_else(|e| panic!("over IPv6, seed {seed}: {e}"));
    }
    // Without UDP's checksum the store gets nothing.
    let sums = ("REDPLANE_COMPUTE(hdr.outer, hdr.redplane, meta.redplane);", "");
    let build = Build::new(App::HeavyHitters, false, &defines, &[sums]).expect("a program");
    assert!(turns(&build, 0, 6).is_err());
}

/// Mistakes in the library, each of which the test above finds.
const MISTAKES: [(&str, &str, &str); 5] = [
    (
        "a torn snapshot: the counts when a cell is sent",
        "value = frozen;\n        } else",
        "value = present;\n        } else",
    ),
    (
        "one copy only",
        "copies.write(index, m.active == 0 ? frozen ++ present : present ++ frozen);",
        "copies.write(index, present ++ present);",
    ),
    ("a cell is not copied", "if (last != m.active) {", "if (last != m.active && cell != 5) {"),
    (
        "a cell is skipped",
        "p.complete == 0 && done != p.grant ++ p.number",
        "p.complete == 0 && m.cell != 5 && done != p.grant ++ p.number",
    ),
    ("cells of another snapshot are acknowledged", "&& message.sequence == p.number) {", ") {"),
];

#[test]
fn mistakes_are_found() {
    for (what, from, to) in MISTAKES {
        let build = build(&[(from, to)]);
        let found = (0..12).find_map(|seed| turns(&build, seed, 6).err());
        println!("{what}: {}", found.as_deref().unwrap_or("-"));
        assert!(found.is_some(), "{what}: not found");
    }
}

#[test]
fn packets_end_while_the_last_snapshot_is_too_old() {
    let build = build(&[]);
    let snapshots = Snapshots { bound_ns: 5 * MS, ..Snapshots::default() };
    let store = Config { lease_us: 1_000_000, ..Config::default() };
    let mut testbed =
        Testbed::new(Setup { snapshots, store, loss: 0.0, ..setup(&build, 1) }).expect("a testbed");
    let mut back = [0; 60];
    for ms in 0..60 {
        // No message reaches the store from 20 to 40 ms.
        testbed.setup.loss = f64::from(u8::from((20..40).contains(&ms)));
        let sent = Sent { at: ms * MS, flow: 0, place: 1, last: false, bytes: 64 };
        testbed.send(sent.at, (0, 0), App::HeavyHitters.frame(&sent, 0, true), 0);
        while let Some(Happened::AtHost { .. }) = testbed.next((ms + 1) * MS) {
            back[ms as usize] += 1;
        }
    }
    // The first ones find no counts; a snapshot is as old as the time when it was taken, and one follows a millisecond later.
    assert_eq!(back[3..24], [1; 21], "{back:?}");
    assert_eq!(back[26..40], [0; 14], "{back:?}");
    assert_eq!(back[43..], [1; 17], "{back:?}");
}
