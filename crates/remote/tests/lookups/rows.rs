//! The layout with a scratchpad in each row, under the same faults. Packets of a bucket share a scratchpad: they may be lost, and never mixed.

use super::Shown;
use super::checker::Verdict;
use super::setup::{App, US, assert_found};
use super::world::{Keeps, Settings, World};
use super::{faults, found_by, run, settings};
use pointsman_engine::Engine;
use pointsman_interp::Interp;
use pointsman_remote::Scratchpads;

/// Cells of rows: two servers of five and four buckets.
fn rows(settings: Settings) -> Settings {
    Settings { cells: vec![20, 16], ..settings }
}

/// `tea_counts` of packets lost because a foreign one, or parts of one, came back.
fn foreign(world: &mut World<Engine>) -> u64 {
    world.rig.counter("tea_counts", 9).expect("a counter").packets
}

#[test]
fn rows_lose_nothing_without_faults() {
    let app = App::<Engine>::with_rows(&[]);
    for change_ns in [0, 100 * US] {
        let mut world = World::new(&app, Settings { change_ns, ..rows(settings()) }, 1);
        assert!(world.rig.switch.goes_through(), "packets leave native code");
        world.run(20_000 * US);
        let (verdict, wrong) = (world.checker.verdict, std::mem::take(&mut world.wrong));
        assert_eq!((verdict.violations(), wrong), (0, Vec::new()), "{verdict:?}");
        assert!(verdict.sent > 4000 && verdict.found > 1500 && verdict.absent > 1500, "{verdict:?}");
        assert_eq!(verdict.found + verdict.absent, verdict.sent, "nothing is lost: {verdict:?}");
    }
}

/// Servers that let a WRITE pass a READ bring foreign packets: each is counted, none leaves the switch.
#[test]
fn shared_scratchpads_lose_packets_and_mix_none() {
    let app = App::<Engine>::with_rows(&[]);
    let (mut passed, mut sent, mut shared) = (0, 0, 0);
    for seed in 0..24 {
        let mut world = World::new(&app, rows(faults(seed)), seed);
        world.run(20_000 * US);
        let (verdict, wrong) = (world.checker.verdict, std::mem::take(&mut world.wrong));
        assert_eq!((verdict.violations(), wrong), (0, Vec::new()), "seed {seed}: {verdict:?}");
        passed += verdict.found + verdict.absent;
        sent += verdict.sent;
        shared += foreign(&mut world);
    }
    println!("{passed} of {sent} packets passed, {shared} were lost in a shared scratchpad");
    assert!(passed * 10 > sent * 5 && shared > 100, "{passed} of {sent}, {shared}");
    let interpreted = App::<Interp>::with_rows(&[]);
    for seed in [5, 17] {
        let settings = rows(faults(seed));
        let verdicts =
            (run(&interpreted, settings.clone(), seed, 4000 * US), run(&app, settings, seed, 4000 * US));
        assert_eq!(verdicts.0, verdicts.1, "seed {seed}: the executors differ");
    }
}

/// The switch's cache before rows: popular flows, which are others after a while; entries change meanwhile, and everything goes wrong.
#[test]
fn the_cache_before_rows_is_never_stale() {
    let app = App::<Engine>::of(Shown::Nat, &[], Scratchpads::Inline, true);
    let cached = |cache, settings| Settings {
        cache: Some(cache),
        change_ns: 100 * US,
        gap_ns: 2 * US,
        ..rows(settings)
    };
    for seed in 0..4 {
        let fault = if seed == 0 { settings() } else { faults(seed) };
        let mut world = World::new(&app, cached(Keeps::All, fault), seed);
        assert!(world.rig.switch.goes_through(), "packets leave native code");
        world.run(20_000 * US);
        let (verdict, wrong) = (world.checker.verdict, std::mem::take(&mut world.wrong));
        let hits = world.rig.counter("tea_counts", 19).expect("a counter").packets;
        assert_eq!((verdict.violations(), wrong), (0, Vec::new()), "seed {seed}: {verdict:?}");
        assert!(hits * 4 > verdict.sent, "seed {seed}: {hits} of {}", verdict.sent);
    }
    let old = found_by(&app, |s| *s = cached(Keeps::OldValues, s.clone()));
    assert!(old.is_some(), "a cache that keeps old values is not found");
}

/// Each protection that is taken away shows.
#[test]
fn every_fault_in_rows_is_found() {
    let found = |changes: &[(&str, &str)], stale_shadows| {
        found_by(&App::with_rows(changes), |s| *s = Settings { stale_shadows, ..rows(s.clone()) })
    };
    let none = Some((0, Verdict::default()));
    let taken = "tag != h.scratch.tag || sum != h.scratch.sum";
    let mutations = [
        ("nothing", found(&[], false).map_or(none, |_| None)),
        ("neither tag nor check value is compared", found(&[(taken, "false")], false)),
        ("the tag is not compared", found(&[(taken, "sum != h.scratch.sum")], false)),
        ("the check value is not compared", found(&[(taken, "tag != h.scratch.tag")], false)),
        (
            "a packet is taken twice",
            found(
                &[("        tea_lookups.write(slot, TEA_NONE ++ first);\n        hash", "        hash")],
                false,
            ),
        ),
        ("shadows are stale", found(&[], true)),
    ];
    assert_found(&mutations);
}
