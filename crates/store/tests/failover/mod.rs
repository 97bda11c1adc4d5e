//! The store together with compiled switches.

mod history;
mod nat;
mod world;

use pointsman_engine::Engine;
use pointsman_interp::Interp;
use pointsman_ir::Executor;
use pointsman_store::{Config, Rule};
use world::{App, Faults, MS, World};

fn config() -> Config {
    Config { lease_us: 20_000, ..Config::default() }
}

fn a_killed_switch<E: Executor + Send + Sync>() {
    let app = App::<E>::new("0", &[]);
    let mut w = World::new(&app, config(), Faults::NONE, 3, 1);
    w.run(50 * MS);
    let (answered, all) = w.answered();
    assert_eq!(answered, all, "nothing is lost without faults");
    let before: Vec<u32> =
        w.flows.iter().map(|f| f.history.iter().filter(|o| o.writes).count() as u32).collect();
    w.crash(0);
    let killed = w.now;
    w.run(50 * MS);
    w.verdict().expect("linearizable");
    for (flow, before) in w.flows.iter().zip(before) {
        let after = flow.history.iter().filter(|o| o.start >= killed);
        let counts: Vec<u32> = after.filter_map(|o| o.result.map(|(_, count)| count)).collect();
        assert!(counts.len() > 50 && counts.iter().all(|count| *count >= before), "{before}: {counts:?}");
    }
}

#[test]
fn a_killed_switch_is_continued_by_the_other() {
    a_killed_switch::<Interp>();
    a_killed_switch::<Engine>();
}

/// Everything goes wrong, differently for each seed.
fn faults(seed: u64) -> Faults {
    Faults {
        loss: [0.0, 0.05, 0.3][(seed % 3) as usize],
        double: [0.0, 0.2][(seed / 2 % 2) as usize],
        jitter_ns: [0, 200_000, MS][(seed / 4 % 3) as usize],
        crash_ns: [0, 60 * MS][(seed / 3 % 2) as usize],
        reroute_ns: [0, 15 * MS, 40 * MS][(seed / 5 % 3) as usize],
        astray: [0.0, 0.2][(seed / 7 % 2) as usize],
        drift: seed.is_multiple_of(2),
        same_incarnation: false,
    }
}

/// One run: how many packets left, of how many.
fn run<E: Executor + Send + Sync>(
    app: &App<E>,
    change: impl Fn(&mut Config, &mut Faults),
    seed: u64,
) -> Result<(usize, usize), String> {
    let mut config = Config { recall: !seed.is_multiple_of(3), ..config() };
    let mut faults = faults(seed);
    change(&mut config, &mut faults);
    let mut world = World::new(app, config, faults, 2, seed);
    world.run(250 * MS);
    world.verdict().map(|()| world.answered())
}

#[test]
fn random_faults_break_nothing() {
    let fresh = App::<Engine>::new("0", &[]);
    let wraps = App::new("0xfffffff0", &[]);
    let interpreted = App::<Interp>::new("0", &[]);
    let (mut answered, mut all) = (0, 0);
    for seed in 0..50 {
        let app = if seed % 4 == 3 { &wraps } else { &fresh };
        let (left, sent) = run(app, |_, _| {}, seed).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        answered += left;
        all += sent;
    }
    println!("{answered} of {all} packets left");
    assert!(answered * 2 > all, "{answered} of {all}");
    for seed in 0..2 {
        let results = (run(&interpreted, |_, _| {}, seed), run(&fresh, |_, _| {}, seed));
        assert_eq!(results.0, results.1, "seed {seed}: the executors differ");
    }
}

/// The first seed that finds a violation.
fn found(
    first: &str,
    changes: &[(&str, &str)],
    change: impl Fn(&mut Config, &mut Faults),
) -> Option<(u64, String)> {
    let app = App::<Engine>::new(first, changes);
    (0..60).find_map(|seed| run(&app, &change, seed).err().map(|e| (seed, e)))
}

#[test]
fn every_rule_that_is_switched_off_is_found() {
    let none: &[(&str, &str)] = &[];
    let in_store = |first, rule| found(first, none, move |c, _| c.without = Some(rule));
    let in_switch = |from, to| found("0", &[(from, to)], |_, _| {});
    // Both switches crash often, and messages from before arrive.
    let restarted = |_: &mut Config, f: &mut Faults| {
        (f.same_incarnation, f.crash_ns, f.jitter_ns, f.astray) = (true, 8 * MS, MS, 0.5);
    };
    // Leases end by themselves, by clocks at the ends of the drift.
    let clocks = |c: &mut Config, f: &mut Faults| {
        (c.recall, f.drift, f.crash_ns, f.reroute_ns, f.astray) = (false, true, 0, 15 * MS, 0.2);
    };
    let drift = "message.lease - (message.lease >> REDPLANE_DRIFT_SHIFT)";
    let mutations = [
        (
            "R1: no lease",
            in_switch("bool leased = sm.ingress_global_timestamp < m.slot.until;", "bool leased = true;"),
        ),
        ("R1: no drift", found("0", &[(drift, "message.lease")], clocks)),
        ("R2", in_store("0", Rule::LeaseEnds)),
        ("R3", in_store("0", Rule::Grants)),
        ("R4: newer", in_store("0", Rule::Newer)),
        ("R4: serial", in_store("0xfffffff0", Rule::Serial)),
        ("R4: carried", in_store("0", Rule::Carried)),
        ("R5", in_switch("request.apply(outer, message, m, sm, REDPLANE_WRITE, flags, (bit<16>)port);", "")),
        ("R6", in_switch("flags != 0 && m.slot.sent != m.slot.acked", "false")),
        ("R8", in_switch("(m.slot.taken & bit_of) == 0", "true")),
        ("R9", found("0", none, restarted)),
    ];
    for (rule, found) in &mutations {
        println!("{rule}: {found:.160?}");
    }
    let missed: Vec<_> =
        mutations.iter().filter(|(_, found)| found.is_none()).map(|(rule, _)| rule).collect();
    assert!(missed.is_empty(), "{missed:?} not found");
}

#[test]
fn bindings_outlive_their_switches() {
    let app = App::<Engine>::nat();
    let (mut answered, mut all, mut bound) = (0, 0, 0);
    for seed in 0..30u64 {
        // A port for each flow, and no more.
        let pools = vec!["203.0.113.1:1024-1025".parse().expect("a pool")];
        let config = Config { recall: !seed.is_multiple_of(3), pools, ..config() };
        let mut world = World::new(&app, config, faults(seed), 2, seed);
        world.writes = 0.1;
        world.run(250 * MS);
        world.verdict().unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert_eq!((world.store.ports().used, world.store.keys()), (2, 4), "seed {seed}");
        bound += world.bindings.as_ref().map_or(0, nat::Bindings::count);
        (answered, all) = (answered + world.answered().0, all + world.answered().1);
    }
    println!("{answered} of {all} packets left");
    assert!(bound == 60 && answered * 2 > all, "{bound} bindings, {answered} of {all}");
}

/// The first seed after which the store lacks a state that the switch has.
fn lags(changes: &[(&str, &str)]) -> Option<u64> {
    let app = App::<Engine>::new("0", changes);
    (0..20).find(|seed| {
        let faults = Faults { loss: 0.3, ..Faults::NONE };
        let mut world = World::new(&app, config(), faults, 3, *seed);
        world.run(20 * MS);
        !world.replicated(0)
    })
}

#[test]
fn writes_are_sent_again_until_they_are_acknowledged() {
    assert_eq!(lags(&[]), None);
    assert!(
        lags(&[("recirculate_preserving_field_list(0);", "mark_to_drop(sm);")]).is_some(),
        "R7 is not found"
    );
}

#[test]
fn packets_that_are_too_long_with_a_message_pass_when_they_are_repeated() {
    let app = App::<Engine>::new("0", &[]);
    let mut world = World::new(&app, config(), Faults::NONE, 3, 1);
    // 1,514 bytes.
    (world.writes, world.padding) = (0.0, 1464);
    world.run(100 * MS);
    assert_eq!(world.wrong, Vec::<String>::new());
    // Lost are those that asked for the state, when the flow began and when a lease ended.
    let (answered, all) = world.answered();
    assert!(answered < all && answered + all / 10 > all, "{answered} of {all}");
}
