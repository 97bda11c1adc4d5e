//! A program with two tables: two keys at once, and one that depends on their entries, under the same faults.

use super::checker::Verdict;
use super::moves::moves;
use super::setup::{App, Faults, US, assert_found};
use super::world::{Away, Keeps, Move, Settings, World};
use super::{Shown, faults, found_by, run, settings};
use pointsman_engine::Engine;
use pointsman_interp::Interp;
use pointsman_ir::Executor;
use pointsman_remote::Scratchpads;

fn app<E: Executor>(changes: &[(&str, &str)], scratchpads: Scratchpads, has_cache: bool) -> App<E> {
    App::of(Shown::Policy, changes, scratchpads, has_cache)
}

/// Entries of both tables.
fn both(settings: Settings) -> Settings {
    Settings { flows: 100, cells: vec![40, 36], stash: 80, ..settings }
}

/// `tea_counts` of packets that waited for a second answer, and of those lost because an answer did not come or is too old.
fn counts(world: &mut World<Engine>) -> [u64; 2] {
    [21, 8].map(|n| world.rig.counter("tea_counts", n).expect("a counter").packets)
}

const LAYOUTS: [Scratchpads; 2] = [Scratchpads::Ring, Scratchpads::Inline];

#[test]
fn two_tables_lose_nothing_without_faults() {
    for (scratchpads, change_ns) in [(LAYOUTS[0], 0), (LAYOUTS[0], 100 * US), (LAYOUTS[1], 0)] {
        let app = app::<Engine>(&[], scratchpads, false);
        let mut world = World::new(&app, Settings { change_ns, ..both(settings()) }, 1);
        assert!(world.rig.switch.goes_through(), "packets leave native code");
        world.run(20_000 * US);
        let (verdict, wrong) = (world.checker.verdict, std::mem::take(&mut world.wrong));
        assert_eq!((verdict.violations(), wrong), (0, Vec::new()), "{verdict:?}");
        assert!(verdict.sent > 4000 && verdict.found > 1500 && verdict.absent > 1000, "{verdict:?}");
        assert_eq!(verdict.found + verdict.absent, verdict.sent, "nothing is lost: {verdict:?}");
    }
}

#[test]
fn keys_have_the_number_of_their_table() {
    let layout = app::<Interp>(&[], Scratchpads::Ring, false).layout();
    assert_eq!(layout.numbered(1, &[10, 0, 0, 5]), Some(Shown::Policy.key(5)));
    assert_eq!(layout.numbered(2, &[1]), Some(Shown::Policy.key(7)));
    assert_eq!(layout.numbered(2, &[1; 7]), Some(vec![2, 1, 1, 1, 1, 1, 1, 1]));
    assert_eq!(layout.numbered(2, &[1; 8]), None);
}

#[test]
fn random_faults_break_no_table() {
    let (mut passed, mut sent, mut waits, mut moved) = (0, 0, 0, 0);
    for scratchpads in LAYOUTS {
        let apps = [false, true].map(|has_cache| app::<Engine>(&[], scratchpads, has_cache));
        for seed in 0..12 {
            let has_cache = seed % 3 == 0;
            let cache = has_cache.then_some(Keeps::All);
            let mut settings = Settings { cache, ..both(faults(seed)) };
            if seed % 3 == 1 {
                let larger = |m: Move| Move { cells: m.cells.iter().map(|n| 3 * n).collect(), ..m };
                settings.moves = moves(3000).into_iter().map(larger).collect();
                settings.replicas = true;
            }
            let mut world = World::new(&apps[usize::from(has_cache)], settings, seed);
            world.run(20_000 * US);
            let (verdict, wrong) = (world.checker.verdict, std::mem::take(&mut world.wrong));
            assert_eq!((verdict.violations(), wrong), (0, Vec::new()), "seed {seed}: {verdict:?}");
            moved += world.moved[0];
            passed += verdict.found + verdict.absent;
            sent += verdict.sent;
            waits += counts(&mut world)[0];
        }
        let interpreted = app::<Interp>(&[], scratchpads, false);
        let (faults, duration) = (both(faults(5)), 3000 * US);
        let verdicts = (run(&interpreted, faults.clone(), 5, duration), run(&apps[0], faults, 5, duration));
        assert_eq!(verdicts.0, verdicts.1, "the executors differ");
    }
    println!("{passed} of {sent} packets passed, {waits} waits for a second answer");
    assert!(
        passed * 10 > sent * 5 && waits > 100 && moved >= 24,
        "{passed} of {sent}, {waits} waits, {moved} moves"
    );
}

/// A server that is away, or ends a queue pair, costs what was in flight.
#[test]
fn replicas_serve_two_tables() {
    let app = app::<Engine>(&[], Scratchpads::Ring, false);
    let away = |away| Settings { away: Some((away, 5000 * US, 10_000 * US)), ..both(settings()) };
    let breaks = Settings { breaks: Some(5000 * US), ..both(settings()) };
    for (fault, settings, most) in
        [("hangs", away(Away::Hangs), 60), ("port", away(Away::Port), 20), ("breaks", breaks, 20)]
    {
        let mut world = World::new(&app, Settings { replicas: true, change_ns: 200 * US, ..settings }, 1);
        world.run(20_000 * US);
        let (verdict, lost) = (world.checker.verdict, world.checker.unseen(0..usize::MAX).count());
        println!("{fault}: {lost} of {} packets lost, {} revived", verdict.sent, world.revived);
        assert_eq!((verdict.violations(), world.wrong.len()), (0, 0), "{verdict:?} {:?}", world.wrong);
        assert!(lost <= most, "{fault}: {lost} lost");
        world.run(10_000 * US);
        assert_eq!(world.checker.unseen(0..usize::MAX).count(), lost, "{fault}: lost after the repair");
    }
}

/// Each protection that is taken away shows.
#[test]
fn every_fault_in_two_tables_is_found() {
    let found = |changes: &[(&str, &str)], has_cache: bool| {
        let cached = |s: &mut Settings| {
            (s.cache, s.change_ns) = (has_cache.then_some(Keeps::All), 10 * US);
            *s = both(s.clone());
        };
        found_by(&app(changes, Scratchpads::Ring, has_cache), cached)
    };
    let lost = |changes: &[(&str, &str)]| {
        let verdict = run(&app::<Engine>(changes, Scratchpads::Ring, false), both(settings()), 1, 1000 * US);
        Some((1, verdict)).filter(|(_, v)| v.found + v.absent < v.sent)
    };
    // Packets wait for a second answer until it is too old.
    let old = |changes: &[(&str, &str)]| {
        let faults = Faults { late: 0.2, ..Faults::default() };
        let wait = Settings { wait_ns: 250 * US, gap_ns: 30 * US, faults, ..both(settings()) };
        let mut world = World::new(&app::<Engine>(changes, Scratchpads::Ring, false), wait, 1);
        world.run(10_000 * US);
        let [waited, lost] = counts(&mut world);
        assert!(waited > 10, "{waited} waited");
        Some((1, world.checker.verdict)).filter(|_| lost < waited)
    };
    let none = Some((0, Verdict::default()));
    let state = "m.answer = lookup[31:24];";
    let asked_again = "if (m.answer == 0 && tea_stash.apply().hit)";
    let first_again = "if ((m.is_second == 0 || m.answer == 0) && tea_stash.apply().hit)";
    let mutations = [
        ("nothing", found(&[], false).map_or(none, |_| None)),
        ("nothing, with a cache", found(&[], true).map_or(none, |_| None)),
        (
            "the second answer is not awaited",
            found(&[(state, "m.answer = lookup[31:24] == TEA_ASKED ? TEA_ABSENT : lookup[31:24];")], false),
        ),
        (
            "a lost second answer counts as absent",
            found(&[("m.answer = TEA_TORN;", "m.answer = TEA_ABSENT;")], false),
        ),
        ("another look-up's answer counts as the second one", found(&[("key != m.key", "false")], false)),
        ("the note is lost", found(&[("tea_notes.read(m.note, slot);", "")], false)),
        ("the round is lost", lost(&[("m.round = more[55:48];", "")])),
        ("a result that was known is lost", found(&[("tea_kept.read(kept, slot);", "kept = 0;")], true)),
        (
            "the switch's own table is not asked again",
            found(&[("if (tea_stash.apply().hit)", asked_again)], false),
        ),
        (
            "it is not asked again for the second key",
            found(&[("if (tea_stash.apply().hit)", first_again)], false),
        ),
        ("old answers count", old(&[(" || m.begun - begun > m.timeout", "")])),
        ("nothing, with long waits", old(&[]).map_or(none, |_| None)),
        ("the number of a READ alone is left out", lost(&[("psn = psn - 1;", "")])),
    ];
    assert_found(&mutations);
}
