//! The store together with compiled switches.

mod chain;
mod history;
mod nat;
mod stores;
mod world;

use pointsman_engine::Engine;
use pointsman_interp::Interp;
use pointsman_ir::Executor;
use pointsman_store::{Config, Rule};
use world::{App, Faults, MS, World};

/// Settings of the library: a lease for each key; sequence numbers that wrap; one lease for all keys of a switch.
const FLOWS: &str = "";
const WRAPS: &str = "#define REDPLANE_FIRST 0xfffffff0\n";
const SESSIONS: &str = "#define REDPLANE_SESSION_LEASES\n";
/// Shared leases for switches that read.
const SHARED: &str = "#define REDPLANE_SHARED_READS\n";

/// Seeds of random faults: so many, or as many as the variable `POINTSMAN_SEEDS` asks for.
fn seeds(usual: u64) -> std::ops::Range<u64> {
    let asked = std::env::var("POINTSMAN_SEEDS").ok();
    0..asked.map_or(usual, |n| n.parse().expect("POINTSMAN_SEEDS: a number of seeds"))
}

fn config() -> Config {
    Config { lease_us: 20_000, ..Config::default() }
}

fn a_killed_switch<E: Executor + Send + Sync>() {
    let app = App::<E>::new(FLOWS, &[]);
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
        cut_ns: [0, 0, 60 * MS][(seed / 6 % 3) as usize],
        writes: 0.5,
        flows: 2,
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
    let flows = faults.flows;
    let mut world = World::new(app, config, faults, flows, seed);
    world.run(250 * MS);
    world.verdict().map(|()| world.answered())
}

#[test]
fn random_faults_break_nothing() {
    let fresh = App::<Engine>::new(FLOWS, &[]);
    let wraps = App::new(WRAPS, &[]);
    let sessions = App::new(SESSIONS, &[]);
    let interpreted = App::<Interp>::new(FLOWS, &[]);
    let (mut answered, mut all) = (0, 0);
    for seed in seeds(80) {
        let app = [&fresh, &sessions, &fresh, &wraps, &sessions][(seed % 5) as usize];
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
    settings: &str,
    changes: &[(&str, &str)],
    change: impl Fn(&mut Config, &mut Faults),
) -> Option<(u64, String)> {
    let app = App::<Engine>::new(settings, changes);
    (0..60).find_map(|seed| run(&app, &change, seed).err().map(|e| (seed, e)))
}

/// Packets of a flow pass both switches, and few of them change its state.
fn asymmetric(faults: &mut Faults) {
    (faults.astray, faults.writes) = (0.5, 0.1);
}

#[test]
fn switches_that_read_at_once_break_nothing() {
    let apps = [Config { recall: true, ..config() }, Config { recall: false, ..config() }];
    let app = App::<Engine>::new(SHARED, &[]);
    let (mut answered, mut all, mut shared, mut grants) = (0, 0, 0, 0);
    for seed in seeds(60) {
        let mut faults = faults(seed);
        asymmetric(&mut faults);
        let mut world = World::new(&app, apps[usize::from(seed % 3 == 0)].clone(), faults, 2, seed);
        world.run(250 * MS);
        world.verdict().unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        (answered, all) = (answered + world.answered().0, all + world.answered().1);
        let stats = world.store.stats();
        (shared, grants) = (shared + stats.shared_grants, grants + stats.grants);
    }
    println!("{answered} of {all} packets left, {shared} shared grants, {grants} others");
    assert!(
        answered * 5 > all * 2 && shared > 1_000 && grants > 1_000,
        "{answered} of {all}, {shared}, {grants}"
    );
}

/// How long packets that write, and others, wait at switches without faults; and how many of all are lost.
fn waits(config: Config, writes: f64) -> ([Vec<u64>; 2], usize) {
    let app = App::<Engine>::new(SHARED, &[]);
    let mut world = World::new(&app, config, Faults { astray: 0.5, writes, ..Faults::NONE }, 3, 1);
    world.run(300 * MS);
    world.verdict().expect("linearizable");
    let waits = |writes: bool| {
        let all = world.flows.iter().flat_map(|f| &f.history).filter(|o| o.writes == writes);
        let mut waits: Vec<_> = all.filter_map(|o| o.result.map(|(at, _)| at - o.start)).collect();
        waits.sort_unstable();
        waits
    };
    let (answered, all) = world.answered();
    ([true, false].map(waits), all - answered)
}

#[test]
fn a_switch_that_writes_gets_a_key_that_others_read_all_the_time() {
    let ([writes, reads], lost) = waits(config(), 0.1);
    assert!(writes.len() > 200 && reads.len() > 2_000, "{} {}", writes.len(), reads.len());
    assert!(lost * 50 < writes.len() + reads.len(), "{lost} lost");
    // A round trip for the write, at most two for the key, with the recall of the other switch. Most reads wait for nothing.
    assert!(writes.last().is_some_and(|most| *most < 2 * MS), "{writes:?}");
    assert_eq!(reads[reads.len() / 2], 0);
    // Without recalls it waits for a lease of the readers.
    let ([writes, _], lost) = waits(Config { recall: false, queue_per_key: 1000, ..config() }, 0.005);
    println!("{writes:?} ns, {lost} lost");
    assert!(writes.last().is_some_and(|most| (10 * MS..60 * MS).contains(most)), "{writes:?}");
}

#[test]
fn every_rule_that_is_switched_off_is_found() {
    let none: &[(&str, &str)] = &[];
    let in_store = |settings, rule| found(settings, none, move |c, _| c.without = Some(rule));
    let in_switch = |from, to| found(FLOWS, &[(from, to)], |_, _| {});
    // Both switches crash often, and messages from before arrive.
    let restarted = |_: &mut Config, f: &mut Faults| {
        (f.same_incarnation, f.crash_ns, f.jitter_ns, f.astray) = (true, 8 * MS, MS, 0.5);
    };
    // Leases end by themselves, by clocks at the ends of the drift.
    let clocks = |c: &mut Config, f: &mut Faults| {
        (c.recall, f.drift, f.crash_ns, f.reroute_ns, f.astray) = (false, true, 0, 15 * MS, 0.2);
    };
    // Sessions end because the store cannot be reached, some keys have another owner then, and answers from before arrive.
    let cuts = |c: &mut Config, f: &mut Faults| {
        (c.lease_us, f.drift, f.crash_ns, f.reroute_ns, f.astray) = (6_000, true, 0, 20 * MS, 0.01);
        (f.loss, f.jitter_ns, f.cut_ns, f.writes, f.flows) = (0.0, 4 * MS, 40 * MS, 0.1, 12);
    };
    // Keys are used just before a session ends.
    let ends = |c: &mut Config, f: &mut Faults| {
        cuts(c, f);
        (c.lease_us, f.astray, f.jitter_ns) = (20_000, 0.3, 0);
        (f.cut_ns, f.writes, f.flows) = (60 * MS, 0.05, 10);
    };
    let drift = "message.lease - (message.lease >> REDPLANE_DRIFT_SHIFT)";
    let sessions = [
        ("R1: a key of a former session", found(SESSIONS, &[("session != present", "false")], cuts)),
        (
            "R1: an answer from before the session",
            found(SESSIONS, &[("message.stamp[47:0] >= started", "true")], cuts),
        ),
        ("R1: no drift of a session", found(SESSIONS, &[(drift, "message.lease")], ends)),
        (
            "R2: sessions",
            found(SESSIONS, none, |c, f| {
                c.without = Some(Rule::Sessions);
                cuts(c, f);
            }),
        ),
    ];
    let shared = |from, to| found(SHARED, &[(from, to)], |_, f| asymmetric(f));
    let in_shared_store = |rule| {
        found(SHARED, none, move |c, f| {
            c.without = Some(rule);
            asymmetric(f);
        })
    };
    let readers = [
        ("R13: readers", in_shared_store(Rule::Readers)),
        (
            "R13: after a recall",
            shared("                if (same) {\n                    give_up();\n                }\n", ""),
        ),
        (
            "R13: a reader that writes",
            shared(
                "            m.held = false;\n            give_up.apply(m);\n            ask.apply(outer, message, m, sm, REDPLANE_NEW);\n",
                "            m.slot.value = m.value;\n            redplane_values.write(m.index, m.value);\n",
            ),
        ),
        (
            "R13: a writer that reads on",
            shared(
                "            m.held = false;\n            give_up.apply(m);\n",
                "            m.held = false;\n            m.slot.generation = m.slot.generation + 1;\n",
            ),
        ),
    ];
    let mutations = [
        (
            "R1: no lease",
            in_switch("bool leased = sm.ingress_global_timestamp < m.slot.until;", "bool leased = true;"),
        ),
        ("R1: no drift", found(FLOWS, &[(drift, "message.lease")], clocks)),
        ("R2", in_store(FLOWS, Rule::LeaseEnds)),
        ("R3", in_store(FLOWS, Rule::Grants)),
        ("R4: newer", in_store(FLOWS, Rule::Newer)),
        ("R4: serial", in_store(WRAPS, Rule::Serial)),
        ("R4: carried", in_store(FLOWS, Rule::Carried)),
        ("R5", in_switch("request.apply(outer, message, m, sm, REDPLANE_WRITE, flags, (bit<16>)port);", "")),
        ("R6", in_switch("flags != 0 && m.slot.sent != m.slot.acked", "false")),
        ("R8", in_switch("(m.slot.taken & bit_of) == 0", "true")),
        ("R9", found(FLOWS, none, restarted)),
    ];
    let all = || sessions.iter().chain(&mutations).chain(&readers);
    for (rule, found) in all() {
        println!("{rule}: {found:.160?}");
    }
    let missed: Vec<_> = all().filter(|(_, found)| found.is_none()).map(|(rule, _)| rule).collect();
    assert!(missed.is_empty(), "{missed:?} not found");
}

#[test]
fn bindings_outlive_their_switches() {
    let apps = [FLOWS, SESSIONS].map(App::<Engine>::nat);
    let (mut answered, mut all, mut bound) = (0, 0, 0);
    for seed in seeds(30) {
        // A port for each flow, and no more.
        let pools = vec!["203.0.113.1:1024-1025".parse().expect("a pool")];
        let config = Config { recall: !seed.is_multiple_of(3), pools, ..config() };
        let mut world = World::new(&apps[(seed % 2) as usize], config, faults(seed), 2, seed);
        world.writes = 0.1;
        world.run(250 * MS);
        world.verdict().unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert_eq!((world.store.ports().used, world.store.keys()), (2, 4), "seed {seed}");
        bound += world.bindings.as_ref().map_or(0, nat::Bindings::count);
        (answered, all) = (answered + world.answered().0, all + world.answered().1);
    }
    println!("{answered} of {all} packets left");
    let flows = 2 * seeds(30).count();
    assert!(bound == flows && answered * 2 > all, "{bound} bindings, {answered} of {all}");
}

/// Requests to the store in a second, for 100 connections with a packet in 40 ms each, and leases of 20 ms; and the packets.
fn idle(settings: &str) -> (u64, usize) {
    let app = App::<Engine>::new(settings, &[]);
    let mut world = World::new(&app, config(), Faults::NONE, 100, 1);
    (world.writes, world.gap_ns) = (0.0, 40 * MS);
    // All keys are there.
    world.run(1000 * MS);
    let (before, packets) = (world.store.stats(), world.answered().0);
    world.run(1000 * MS);
    world.verdict().expect("linearizable");
    let after = world.store.stats();
    assert_eq!(after.grants, before.grants, "keys stay where they are");
    (after.renewals - before.renewals, world.answered().0 - packets)
}

#[test]
fn a_session_is_renewed_once_for_all_keys() {
    let (flows, sessions) = (idle(FLOWS), idle(SESSIONS));
    println!("requests and packets: {flows:?} with a lease for each key, {sessions:?} with one for all");
    assert!(sessions.0 * 10 < flows.0, "{flows:?} {sessions:?}");
}

/// The first seed after which the store lacks a state that the switch has.
fn lags(changes: &[(&str, &str)]) -> Option<u64> {
    let app = App::<Engine>::new(FLOWS, changes);
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
    let app = App::<Engine>::new(FLOWS, &[]);
    let mut world = World::new(&app, config(), Faults::NONE, 3, 1);
    // 1,514 bytes.
    (world.writes, world.padding) = (0.0, 1464);
    world.run(100 * MS);
    assert_eq!(world.wrong, Vec::<String>::new());
    // Lost are those that asked for the state, when the flow began and when a lease ended.
    let (answered, all) = world.answered();
    assert!(answered < all && answered + all / 10 > all, "{answered} of {all}");
}
