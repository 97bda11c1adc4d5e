//! The balancer's connections between the switch and the memory of servers: none of them breaks, whatever goes wrong.

mod clients;
mod setup;
mod world;

use crate::switch::*;
use clients::Verdict;
use pointsman_engine::Engine;
use pointsman_interp::Interp;
use pointsman_ir::Executor;
use setup::{IDLE_MS, balancer};
use world::{Hasty, Settings, World};

fn settings() -> Settings {
    Settings {
        faults: Faults::default(),
        deaf: 0.0,
        control_ns: 50 * US,
        clients: 200,
        packets: 12,
        gap_ns: 400 * US,
        pools_ns: 3000 * US,
        cells: vec![200, 150],
        stash: 200,
        wait_ns: 500 * US,
        loaded: 0,
        hasty: None,
    }
}

/// Everything goes wrong, differently for each seed.
fn faults(seed: u64) -> Settings {
    let of = |n: u64, choices: [f64; 3]| choices[(seed / n % 3) as usize];
    Settings {
        faults: Faults {
            loss: of(1, [0.0, 0.01, 0.1]),
            double: of(2, [0.1, 0.0, 0.3]),
            late: of(4, [0.002, 0.03, 0.0]),
        },
        deaf: of(3, [0.0, 0.1, 0.5]),
        control_ns: [20 * US, 300 * US][(seed % 2) as usize],
        stash: [200, 12][(seed / 2 % 2) as usize],
        ..settings()
    }
}

fn run<E: Executor + Send + Sync>(app: &App<E>, settings: Settings, seed: u64, duration: u64) -> World<E> {
    let mut world = World::new(app, settings, seed);
    world.run(duration);
    assert_eq!(world.wrong, Vec::<String>::new(), "seed {seed}");
    world
}

/// Results that have these indices of `settled_counts`.
const FREED: u64 = 8;
const ACTIVE: u64 = 6;

#[test]
fn nothing_is_lost_without_faults() {
    let app = balancer::<Engine>(&[]);
    let mut world = run(&app, settings(), 1, 40_000 * US);
    let verdict = world.clients.verdict;
    let counts: Vec<_> = (1..11).map(|i| world.count("settled_counts", i)).collect();
    println!("{verdict:?} {counts:?}, at most {} entries", world.most);
    assert_eq!((verdict.broken(), verdict.delivered), (0, verdict.sent), "{verdict:?}");
    assert!(
        verdict.ended > 500 && counts[FREED as usize - 1] > 500 && world.most > 150,
        "{verdict:?} {counts:?}"
    );
    // Entries of connections that ended are gone; datagrams have no end.
    assert_eq!((world.tcp_entries(), world.settler.under_way()), (0, 0));
    assert!(world.count("tea_counts", 1) > 4000, "look-ups that found an entry");
    let few = Settings { clients: 40, ..faults(4) };
    let interpreted = run(&balancer::<Interp>(&[]), few.clone(), 3, 5000 * US).clients.verdict;
    assert_eq!(interpreted, run(&app, few, 3, 5000 * US).clients.verdict, "the executors differ");
}

#[test]
fn random_faults_break_no_connection() {
    let app = balancer::<Engine>(&[]);
    let mut all = Verdict::default();
    for seed in 0..18 {
        let world = run(&app, faults(seed), seed, 30_000 * US);
        let verdict = world.clients.verdict;
        assert_eq!(verdict.broken(), 0, "seed {seed}: {verdict:?}");
        assert!(verdict.ended > 200 && world.most > 60, "seed {seed}: {verdict:?}, {} entries", world.most);
        all.begun += verdict.begun;
        all.sent += verdict.sent;
        all.delivered += verdict.delivered;
        all.stale += verdict.stale;
    }
    println!("{all:?}");
}

/// Thousands of connections at once, more than half of them settled.
#[test]
fn thousands_of_connections_settle() {
    let app = balancer::<Engine>(&[]);
    let cells = vec![2500, 2500];
    let many = Settings { clients: 3000, gap_ns: 4000 * US, cells, stash: 1000, packets: 8, ..faults(5) };
    let world = run(&app, many, 1, 30_000 * US);
    let verdict = world.clients.verdict;
    println!("{verdict:?}, at most {} entries", world.most);
    assert_eq!(verdict.broken(), 0, "{verdict:?}");
    assert!(world.most > 1500, "{} entries", world.most);
}

/// Connections begin, settle and end among many that are settled: with `POINTSMAN_SCALE=million` ten million.
#[test]
fn a_table_with_many_connections_works() {
    let is_large = std::env::var("POINTSMAN_SCALE").is_ok_and(|scale| scale == "million");
    let (loaded, cells) = if is_large { (10_000_000, 1 << 23) } else { (20_000, 1 << 14) };
    let stash = ("#define TEA_VALUE_BYTES 4", "#define TEA_VALUE_BYTES 4\n#define TEA_STASH 65536");
    let app = balancer::<Engine>(&[stash]);
    let settings = Settings { loaded, cells: vec![cells, cells], stash: 65_536, ..settings() };
    let mut world = run(&app, settings, 1, 40_000 * US);
    world.look_up(10_000);
    let verdict = world.clients.verdict;
    let found = world.count("tea_counts", 1);
    let bytes: u64 = world.table.servers().map(|i| world.table.server_bytes(i)).sum();
    println!(
        "{loaded} entries placed in {:?}, {} without a free cell; {bytes} bytes of cells; {found} look-ups found: {verdict:?}",
        world.filled,
        world.table.collisions()
    );
    assert_eq!(
        (verdict.broken(), verdict.delivered, verdict.loaded),
        (0, verdict.sent, 10_000),
        "{verdict:?}"
    );
    assert!(found > 13_000 && verdict.ended > 500, "{found} look-ups, {verdict:?}");
}

/// A settled connection that is silent for less than its idle time continues; one that is silent for longer leaves servers' memory.
#[test]
fn idle_connections_leave_and_slow_ones_stay() {
    let app = balancer::<Engine>(&[]);
    let slow = Settings { clients: 100, gap_ns: IDLE_MS * 350 * US, pools_ns: 1_000_000 * US, ..faults(4) };
    let hasty = Settings { hasty: Some(Hasty::NotAsked), ..slow.clone() };
    let mut world = run(&app, slow, 2, 60_000_000 * US);
    let verdict = world.clients.verdict;
    let active = world.count("settled_counts", ACTIVE);
    println!("{verdict:?}, at most {} entries, {active} active", world.most);
    assert_eq!(verdict.broken(), 0, "{verdict:?}");
    assert!(world.most > 50 && active > 100, "{} entries, {active} active", world.most);
    world.run_until(world.now + 4 * IDLE_MS * 1000 * US);
    assert_eq!((world.table.entries(), world.settler.settled()), (0, 0), "idle connections are left");
    let verdict = run(&app, hasty, 2, 60_000_000 * US).clients.verdict;
    assert!(verdict.broken() > 0, "the switch was not asked, and no connection broke: {verdict:?}");
}

/// The first seed for which a connection breaks, or the end of one is not noticed.
fn found(changes: &[(&str, &str)], change: impl Fn(&mut Settings)) -> Option<(u64, Verdict, usize)> {
    let app = balancer::<Engine>(changes);
    (0..6).find_map(|seed| {
        // Every other run loses nothing, not even the end of a connection: then no entry is left.
        let loses = seed % 2 == 1;
        let share = if loses { 0.02 } else { 0.0 };
        let faults = Faults { loss: share, late: share, ..Faults::default() };
        let mut settings = Settings { faults, control_ns: 300 * US, ..settings() };
        change(&mut settings);
        let world = run(&app, settings, seed, 20_000 * US);
        // Answers to many SYNs may come behind a RST, too.
        let ends = !loses && world.settings.gap_ns > 100 * US;
        let (verdict, left) = (world.clients.verdict, world.tcp_entries());
        Some((seed, verdict, left)).filter(|_| verdict.broken() > 0 || left > 0 && ends)
    })
}

/// Each protection that is taken away shows.
#[test]
fn every_fault_that_is_put_in_is_found() {
    let fast = |s: &mut Settings| s.gap_ns = 15 * US;
    // Longer than the time after which a message is sent again.
    let late = |s: &mut Settings| (s.gap_ns, s.control_ns) = (100 * US, 4000 * US);
    let find = "find_connection.apply(meta.flow, meta.hash_a, meta.hash_b, meta.opens, now, conn);";
    let anew = format!(
        "{find}\n if (meta.tea.answer == TEA_ABSENT && meta.opens) {{ conn.room = conn.room || conn.found; conn.found = false; }}"
    );
    let over = "} else if (is_over || message.word != SETTLED_WORD(conn)) {";
    let mutations = [
        ("nothing", found(&[], |_| {}).map_or(Some((0, Verdict::default(), 0)), |_| None)),
        ("nothing, fast", found(&[], fast).map_or(Some((0, Verdict::default(), 0)), |_| None)),
        ("nothing, late", found(&[], late).map_or(Some((0, Verdict::default(), 0)), |_| None)),
        ("places are free before the acknowledgment", found(&[], |s| s.hasty = Some(Hasty::Acknowledged))),
        ("no look-up", found(&[("find_settled.apply(meta.tea, standard_metadata);", "")], |_| {})),
        (
            "a connection without an entry counts as new, although it has a place",
            found(&[(find, &anew)], fast),
        ),
        (
            "the end of a connection that is settling is overlooked",
            found(&[(over, "} else if (message.word != SETTLED_WORD(conn)) {")], |_| {}),
        ),
        (
            "any place is free",
            found(
                &[
                    ("} else if (!SETTLED_READY(conn)) {", "} else if (false) {"),
                    (over, "} else if (false) {"),
                ],
                |_| {},
            ),
        ),
        ("the answer to an earlier message counts", found(&[("hdr.settled.number", "8w0")], late)),
        ("a place in use is not kept", found(&[("conn.options = conn.options | OPTION_HELD;", "")], |_| {})),
    ];
    assert_found(&mutations);
}
