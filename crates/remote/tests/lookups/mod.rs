//! A table under the look-ups of a compiled switch, with everything that goes wrong.

#[allow(dead_code, reason = "the command has more applications")]
#[path = "../../../tea/src/checker.rs"]
mod checker;
mod many;
mod moves;
mod rows;
mod setup;
mod tables;
mod world;

use checker::App as Shown;
use checker::Verdict;
use pointsman_engine::Engine;
use pointsman_interp::Interp;
use pointsman_ir::Executor;
use pointsman_remote::Scratchpads;
use setup::{App, Faults, HOLD, US, assert_found};
use world::{Away, Keeps, Settings, World};

fn settings() -> Settings {
    Settings {
        faults: Faults::default(),
        adverse: false,
        read_ns: 6 * US,
        control_ns: 20 * US,
        wait_ns: 20 * US,
        change_ns: 0,
        gap_ns: 4 * US,
        flows: 60,
        cells: vec![20, 15],
        stash: 64,
        hold_ns: HOLD,
        stale_shadows: false,
        replicas: false,
        away: None,
        breaks: None,
        moves: Vec::new(),
        cache: None,
    }
}

/// Everything goes wrong, differently for each seed.
fn faults(seed: u64) -> Settings {
    Settings {
        faults: Faults { late: [0.0, 0.002, 0.03][(seed / 4 % 3) as usize], ..Faults::of(seed) },
        adverse: seed / 3 % 2 == 1,
        change_ns: [60 * US, 200 * US][(seed / 5 % 2) as usize],
        replicas: seed % 4 > 1,
        away: [None, Some((Away::Hangs, 5000 * US, 9000 * US)), Some((Away::Port, 5000 * US, 9000 * US))]
            [(seed / 4 % 3) as usize],
        ..settings()
    }
}

fn run<E: Executor + Send + Sync>(app: &App<E>, settings: Settings, seed: u64, duration: u64) -> Verdict {
    let mut world = World::new(app, settings, seed);
    world.run(duration);
    assert_eq!(world.wrong, Vec::<String>::new(), "seed {seed}");
    world.checker.verdict
}

fn without_faults<E: Executor + Send + Sync>() {
    let app = App::<E>::new(&[]);
    let verdict = run(&app, settings(), 1, 20_000 * US);
    assert_eq!(verdict.violations(), 0, "{verdict:?}");
    assert!(verdict.sent > 4000 && verdict.found > 1500 && verdict.absent > 1500, "{verdict:?}");
    assert_eq!(verdict.found + verdict.absent, verdict.sent, "nothing is lost: {verdict:?}");
}

#[test]
fn nothing_is_lost_without_faults() {
    without_faults::<Interp>();
    without_faults::<Engine>();
}

#[test]
fn random_faults_break_nothing() {
    let (app, interpreted) = (App::<Engine>::new(&[]), App::<Interp>::new(&[]));
    let (mut passed, mut sent) = (0, 0);
    for seed in 0..24 {
        let verdict = run(&app, faults(seed), seed, 20_000 * US);
        assert_eq!(verdict.violations(), 0, "seed {seed}: {verdict:?}");
        passed += verdict.found + verdict.absent;
        sent += verdict.sent;
        if seed % 12 == 5 {
            let duration = 4000 * US;
            let verdicts =
                (run(&interpreted, faults(seed), seed, duration), run(&app, faults(seed), seed, duration));
            assert_eq!(verdicts.0, verdicts.1, "seed {seed}: the executors differ");
        }
    }
    println!("{passed} of {sent} packets passed");
    assert!(passed * 10 > sent * 6, "{passed} of {sent}");
}

/// Flows of IPv4 and IPv6, with entries of 60 bytes.
#[test]
fn random_faults_break_nothing_of_ipv6() {
    let of = |has_cache| App::<Engine>::of(Shown::Nat6, &[], Scratchpads::Ring, has_cache);
    let verdict = run(&of(false), settings(), 1, 20_000 * US);
    assert_eq!((verdict.violations(), verdict.found + verdict.absent), (0, verdict.sent), "{verdict:?}");
    assert!(verdict.found > 1500 && verdict.absent > 1500, "{verdict:?}");
    let (app, cached) = (of(false), of(true));
    let interpreted = App::<Interp>::of(Shown::Nat6, &[], Scratchpads::Ring, false);
    let (mut passed, mut sent) = (0, 0);
    for seed in 0..12 {
        let verdict = run(&app, faults(seed), seed, 20_000 * US);
        assert_eq!(verdict.violations(), 0, "seed {seed}: {verdict:?}");
        passed += verdict.found + verdict.absent;
        sent += verdict.sent;
        let settings = Settings { cache: Some(Keeps::All), gap_ns: 2 * US, ..faults(seed) };
        let verdict = run(&cached, settings, seed, 10_000 * US);
        assert_eq!(verdict.violations(), 0, "seed {seed}, with a cache: {verdict:?}");
    }
    assert!(passed * 10 > sent * 6, "{passed} of {sent}");
    let duration = 4000 * US;
    let verdicts = (run(&interpreted, faults(5), 5, duration), run(&app, faults(5), 5, duration));
    assert_eq!(verdicts.0, verdicts.1, "the executors differ");
}

/// With replicas a server that is away costs only what it had, and nothing when it answers again.
#[test]
fn a_replica_serves_while_a_server_is_away() {
    let app = App::<Engine>::new(&[]);
    for (away, most) in [(Away::Hangs, 30), (Away::Port, 6)] {
        for change_ns in [0, 200 * US] {
            let away = Some((away, 5000 * US, 10_000 * US));
            let mut world = World::new(&app, Settings { replicas: true, away, change_ns, ..settings() }, 1);
            world.run(30_000 * US);
            let (verdict, lost) = (world.checker.verdict, world.checker.unseen(0..usize::MAX).count());
            let count =
                |world: &mut World<Engine>, n| world.rig.counter("tea_counts", n).expect("a counter").packets;
            let [replica, out, probes] = [16, 17, 18].map(|n| count(&mut world, n));
            println!(
                "{away:?}: {lost} of {} packets lost; replica {replica}, out {out}, probes {probes}",
                verdict.sent
            );
            assert_eq!((verdict.violations(), world.wrong.len()), (0, 0), "{verdict:?} {:?}", world.wrong);
            assert!(lost <= most, "{away:?}: {lost} lost");
            assert!(replica > 200 && out > 0 && probes > 0, "{replica} {out} {probes}");
            // The server serves again: its replica does so only when there is no credit.
            let before = count(&mut world, 16);
            world.run(10_000 * US);
            assert!(count(&mut world, 16) < before + 100, "the replica still serves");
            assert_eq!(world.checker.unseen(0..usize::MAX).count(), lost, "{away:?}: lost after the repair");
        }
    }
}

/// The cache takes most of the packets of the popular flows, which are others after a while; entries change meanwhile, and everything goes wrong.
#[test]
fn the_cache_is_never_stale() {
    let app = App::<Engine>::with_cache(&[]);
    let interpreted = App::<Interp>::with_cache(&[]);
    let mut evicted = 0;
    for seed in 0..4 {
        let fault = if seed < 2 { settings() } else { faults(seed) };
        let settings = Settings { cache: Some(Keeps::All), change_ns: 100 * US, gap_ns: 2 * US, ..fault };
        let mut world = World::new(&app, settings.clone(), seed);
        assert!(world.rig.switch.goes_through(), "packets leave native code");
        world.run(20_000 * US);
        let (verdict, wrong) = (world.checker.verdict, std::mem::take(&mut world.wrong));
        let cache = world.rig.counter("tea_counts", 19).expect("a counter").packets;
        println!(
            "seed {seed}: {cache} of {} from the cache, {} evicted: {verdict:?}",
            verdict.sent, world.evicted
        );
        assert_eq!((verdict.violations(), wrong), (0, Vec::new()), "seed {seed}: {verdict:?}");
        assert!(cache * 4 > verdict.sent, "seed {seed}: {cache} of {}", verdict.sent);
        evicted += world.evicted;
        if seed == 2 {
            let duration = 4000 * US;
            let verdicts =
                (run(&interpreted, settings.clone(), seed, duration), run(&app, settings, seed, duration));
            assert_eq!(verdicts.0, verdicts.1, "the executors differ");
        }
    }
    assert!(evicted > 100, "{evicted}");
}

/// A server ends a queue pair: its replica serves until the controller has set it up again.
#[test]
fn a_queue_pair_that_ended_is_revived() {
    let app = App::<Engine>::new(&[]);
    for (replicas, change_ns, most) in [(true, 0, 8), (true, 200 * US, 8), (false, 200 * US, 400)] {
        let breaks = Some(5000 * US);
        let mut world = World::new(&app, Settings { replicas, change_ns, breaks, ..settings() }, 3);
        world.run(20_000 * US);
        let (verdict, lost) = (world.checker.verdict, world.checker.unseen(0..usize::MAX).count());
        println!("{lost} of {} packets lost, {} revived", verdict.sent, world.revived);
        assert_eq!((verdict.violations(), world.wrong.len()), (0, 0), "{verdict:?} {:?}", world.wrong);
        assert_eq!(world.revived, 1);
        assert!((1..=most).contains(&lost), "{lost} lost");
        // The queue pair serves again.
        let answered = |world: &mut World<Engine>| world.rig.register("tea_done", 0).expect("a register");
        let before = answered(&mut world);
        world.run(10_000 * US);
        assert_ne!(answered(&mut world), before, "the queue pair is not used");
        assert_eq!(world.checker.unseen(0..usize::MAX).count(), lost, "lost after it was set up again");
    }
}

/// Losses cost packets, never a queue pair or a credit.
#[test]
fn a_lost_frame_costs_few_packets() {
    let app = App::<Engine>::new(&[]);
    for (gap_ns, loss, most) in [(4 * US, 0.01, 2), (4 * US, 0.001, 2), (1000, 0.01, 4)] {
        let faults = Faults { loss, ..Faults::default() };
        let mut world = World::new(&app, Settings { faults, gap_ns, ..settings() }, 1);
        world.lost_frames = 0;
        world.run(20_000 * US);
        let (verdict, frames) = (world.checker.verdict, world.lost_frames);
        let lost = world.checker.unseen(0..usize::MAX).count() as u64;
        println!(
            "{loss} of frames lost, a packet in {gap_ns} ns: {lost} of {} packets for {frames} frames",
            verdict.sent
        );
        assert_eq!(verdict.violations(), 0, "{verdict:?}");
        assert!(frames > 10 && lost <= most * frames, "{lost} packets for {frames} frames");
        // Afterwards all queue pairs work.
        world.settings.faults = Faults::default();
        world.run(10_000 * US);
        world.checker.verdict = Verdict::default();
        world.run(10_000 * US);
        let verdict = world.checker.verdict;
        assert_eq!(verdict.found + verdict.absent, verdict.sent, "{verdict:?}");
    }
}

/// The first seed that finds a violation, when everything goes wrong.
fn found(changes: &[(&str, &str)], change: impl Fn(&mut Settings)) -> Option<(u64, Verdict)> {
    found_by(&App::new(changes), change)
}

fn found_by(app: &App<Engine>, change: impl Fn(&mut Settings)) -> Option<(u64, Verdict)> {
    (0..20).find_map(|seed| {
        let mut settings = Settings {
            faults: Faults { loss: 0.03, double: 0.1, late: 0.01 },
            adverse: true,
            read_ns: 25 * US,
            control_ns: US,
            change_ns: 20 * US,
            ..settings()
        };
        change(&mut settings);
        let mut world = World::new(app, settings, seed);
        world.run(10_000 * US);
        Some((seed, world.checker.verdict)).filter(|(_, v)| v.violations() > 0)
    })
}

/// Each protection that is taken away shows.
#[test]
fn every_fault_that_is_put_in_is_found() {
    let in_switch = |changes: &[(&str, &str)]| found(changes, |_| {});
    // Reports of gaps arrive again, late, so numbers are used again at once.
    let faults = Faults { loss: 0.05, double: 0.4, late: 0.3 };
    let disorder = |s: &mut Settings| (s.faults, s.adverse, s.gap_ns) = (faults, false, 2 * US);
    let check = ("(expected | 1) == check ? TEA_FOUND : TEA_TORN", "TEA_FOUND");
    let missing = [
        ("state == TEA_ASKED || state == TEA_TORN", "false"),
        ("m.answer = state;", "m.answer = state == TEA_ASKED ? TEA_ABSENT : state;"),
    ];
    let own_table = ("if (tea_stash.apply().hit)", "if (m.answer == 0 && tea_stash.apply().hit)");
    let in_cache = |changes: &[(&str, &str)], keeps| {
        let cached = |s: &mut Settings| (s.cache, s.gap_ns) = (Some(keeps), 2 * US);
        found_by(&App::with_cache(changes), cached)
    };
    let mutations = [
        ("nothing", in_switch(&[]).map_or(Some((0, Verdict::default())), |_| None)),
        ("the tag is not compared", in_switch(&[("tag[30:0] != h.scratch.tag", "false")])),
        ("the window's index is not compared", found(&[("home != h.cells.index0", "false")], disorder)),
        ("a packet is taken twice", in_switch(&[("tea_lookups.write(slot, TEA_NONE ++ first);", "")])),
        (
            "keys are compared in part",
            in_switch(&[("c.key0 == key", "c.key0[127:108] == key[127:108]"), check]),
        ),
        ("a missing window counts as absent", in_switch(&missing)),
        ("a returned packet is not looked up in the switch", in_switch(&[own_table])),
        ("the last byte is lost", in_switch(&[("truncate(m.bytes);", "truncate(m.bytes - 1);")])),
        (
            "addresses of IPv6 are compared in part",
            found_by(
                &App::of(
                    Shown::Nat6,
                    &[("c.key0 == key", "c.key0[255:0] == key[255:0]"), check],
                    Scratchpads::Ring,
                    false,
                ),
                |_| {},
            ),
        ),
        ("keys are given up at once", found(&[], |s| s.hold_ns = 0)),
        ("nothing, with a cache", in_cache(&[], Keeps::All).map_or(Some((0, Verdict::default())), |_| None)),
        ("the cache keeps old values", in_cache(&[], Keeps::OldValues)),
    ];
    assert_found(&mutations);
}
