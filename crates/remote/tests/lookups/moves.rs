//! The table moves to other cells under look-ups and changes: larger parts, more or fewer servers, a server that is lost.

use super::checker::Verdict;
use super::setup::{App, US};
use super::world::{Move, Settings, World};
use super::{faults, settings};
use pointsman_engine::Engine;

fn to(after: u64, cells: &[u32], replicas: bool) -> Move {
    Move { after: after * US, cells: cells.to_vec(), replicas, loses: None }
}

/// Twice the cells, a server more, a server less, and the first of them is lost; it is replaced.
pub fn moves(every: u64) -> Vec<Move> {
    vec![
        to(every, &[40, 32], true),
        to(2 * every, &[40, 32, 20], true),
        to(3 * every, &[56, 32], true),
        Move { loses: Some(0), ..to(4 * every, &[32, 40, 20], true) },
        to(5 * every, &[20, 16], true),
    ]
}

/// A run, what the checker found, and how many packets were lost.
fn run(app: &App<Engine>, settings: Settings, seed: u64, duration: u64) -> (World<Engine>, Verdict, usize) {
    let mut world = World::new(app, settings, seed);
    world.run(duration);
    let (verdict, lost) = (world.checker.verdict, world.checker.unseen(0..usize::MAX).count());
    (world, verdict, lost)
}

#[test]
fn a_move_loses_nothing_without_faults() {
    for (app, cells, replicas) in [
        (App::new(&[]), vec![20, 16], true),
        (App::new(&[]), vec![35], false),
        (App::with_rows(&[]), vec![20, 16], true),
        (App::with_cache(&[]), vec![20, 16], true),
    ] {
        let moves = moves(5000).into_iter().filter(|m| m.loses.is_none()).collect();
        let settings = Settings { cells, replicas, moves, change_ns: 60 * US, ..settings() };
        let (mut world, verdict, lost) = run(&app, settings, 1, 30_000 * US);
        assert_eq!((verdict.violations(), &world.wrong[..]), (0, &[][..]), "{verdict:?}");
        assert_eq!((lost, world.moved), (0, [4, 0]), "{verdict:?}");
        assert_eq!(world.table.parts().len(), 2);
        let counted = world.rig.counter("tea_counts", 7).expect("a counter").packets;
        assert_eq!(counted, 0, "packets without a server");
    }
}

#[test]
fn moves_under_faults_break_nothing() {
    let (ring, inline) = (App::<Engine>::new(&[]), App::<Engine>::with_rows(&[]));
    let (mut passed, mut sent, mut moved) = (0, 0, [0; 2]);
    for seed in 0..24 {
        let mut settings = Settings { replicas: true, moves: moves(4000), ..faults(seed) };
        settings.cells = vec![20, 16];
        let app = if seed % 4 == 3 { &inline } else { &ring };
        let (mut world, verdict, _) = run(app, settings, seed, 30_000 * US);
        assert_eq!((verdict.violations(), &world.wrong[..]), (0, &[][..]), "seed {seed}: {verdict:?}");
        let left = (world.table.stash(), world.rig.entries("tea_stash").expect("a table"));
        assert_eq!(left, (world.table.collisions(), world.table.collisions()), "seed {seed}: keys are left");
        passed += verdict.found + verdict.absent;
        sent += verdict.sent;
        moved = [moved[0] + world.moved[0], moved[1] + world.moved[1]];
    }
    println!("{passed} of {sent} packets passed, {moved:?} moves");
    assert!(passed * 10 > sent * 6 && moved[0] >= 24 * 4, "{passed} of {sent}, {moved:?}");
}
