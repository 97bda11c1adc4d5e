//! Many look-ups with everything that goes wrong at once: frames that are lost, doubled and late, servers that hang, lose their links or are lost,
//! entries that change, a table that moves to other cells.

use super::checker::Verdict;
use super::moves::moves;
use super::setup::{App, US};
use super::world::{Keeps, Settings, World};
use super::{Shown, faults};
use pointsman_engine::Engine;
use pointsman_remote::Scratchpads;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Look-ups, unless `POINTSMAN_LOOKUPS` has another number.
const LOOK_UPS: u64 = 1_000_000;
/// The time of a run, and mean time between packets: some 24,000 look-ups.
const DURATION: u64 = 48_000 * US;
const GAP: u64 = 2 * US;

/// The settings of a seed: half of the runs have a cache, all have replicas, and in all the table moves.
fn settings(seed: u64) -> Settings {
    Settings {
        replicas: true,
        moves: moves(7000),
        cells: vec![20, 16],
        gap_ns: GAP,
        cache: seed.is_multiple_of(2).then_some(Keeps::All),
        ..faults(seed)
    }
}

#[test]
fn many_look_ups_have_no_violation() {
    let wanted = std::env::var("POINTSMAN_LOOKUPS").ok().map_or(LOOK_UPS, |n| n.parse().expect("a number"));
    let apps = [true, false].map(|has_cache| {
        [(Shown::Nat, Scratchpads::Ring), (Shown::Nat6, Scratchpads::Ring), (Shown::Nat, Scratchpads::Inline)]
            .map(|(shown, scratchpads)| App::<Engine>::of(shown, &[], scratchpads, has_cache))
    });
    let (seed, sent) = (AtomicU64::new(0), AtomicU64::new(0));
    let (all, moved) = (Mutex::new(Verdict::default()), AtomicU64::new(0));
    let work = || {
        while sent.load(Relaxed) < wanted {
            let seed = seed.fetch_add(1, Relaxed);
            let app = &apps[usize::from(!seed.is_multiple_of(2))][(seed / 2 % 3) as usize];
            let mut world = World::new(app, settings(seed), seed);
            world.run(DURATION);
            let verdict = world.checker.verdict;
            assert_eq!((verdict.violations(), &world.wrong[..]), (0, &[][..]), "seed {seed}: {verdict:?}");
            sent.fetch_add(verdict.sent, Relaxed);
            moved.fetch_add(world.moved[0].into(), Relaxed);
            let mut all = all.lock().expect("a verdict");
            (all.sent, all.found) = (all.sent + verdict.sent, all.found + verdict.found);
            all.absent += verdict.absent;
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let all = all.into_inner().expect("a verdict");
    let seeds = seed.into_inner();
    println!("{seeds} runs, {all:?}, {} moves of the table", moved.load(Relaxed));
    assert!(all.sent >= wanted && moved.into_inner() >= 4 * seeds, "{all:?}");
    assert!((all.found + all.absent) * 10 > all.sent * 6, "{all:?}");
}
