//! A chain of stores together with compiled switches.

use super::stores::NodeFaults;
use super::world::{App, Faults, MS, World};
use super::{FLOWS, SESSIONS, SHARED, config, faults, seeds};
use pointsman_engine::Engine;
use pointsman_store::{Config, Place, Rule};

fn node_faults(seed: u64) -> NodeFaults {
    NodeFaults {
        crash_ns: [60 * MS, 0, 120 * MS][(seed % 3) as usize],
        cut_ns: [0, 50 * MS][(seed / 3 % 2) as usize],
        learn_ns: [MS / 10, 5 * MS, 30 * MS][(seed / 2 % 3) as usize],
        loss: [0.0, 0.2][(seed / 5 % 2) as usize],
        double: [0.2, 0.0][(seed / 2 % 2) as usize],
        jitter_ns: [100_000, 0, MS][(seed / 4 % 3) as usize],
        nodes: 3,
        begin: [3, 1, 2][(seed / 7 % 3) as usize],
        scripted: false,
    }
}

/// What a run showed.
#[derive(Default)]
struct Run {
    answered: usize,
    all: usize,
    views: u32,
}

fn run(
    app: &App<Engine>,
    change: impl Fn(&mut Config, &mut Faults, &mut NodeFaults),
    seed: u64,
) -> Result<Run, String> {
    let mut config = Config { recall: !seed.is_multiple_of(4), ..config() };
    let (mut faults, mut nodes) = (faults(seed), node_faults(seed));
    change(&mut config, &mut faults, &mut nodes);
    let flows = faults.flows;
    let mut world = World::with_chain(app, config, (faults, nodes), flows, seed);
    world.run(250 * MS);
    world.verdict()?;
    let (answered, all) = world.answered();
    Ok(Run { answered, all, views: world.chain.map_or(0, |chain| chain.changes) })
}

#[test]
fn without_faults_a_chain_answers_everything() {
    let app = App::<Engine>::new(FLOWS, &[]);
    let nodes = NodeFaults {
        crash_ns: 0,
        cut_ns: 0,
        learn_ns: 0,
        loss: 0.0,
        double: 0.0,
        jitter_ns: 0,
        nodes: 3,
        begin: 3,
        scripted: false,
    };
    let mut world = World::with_chain(&app, config(), (Faults::NONE, nodes), 3, 1);
    // An empty store grants nothing for a lease.
    world.run_until(30 * MS);
    world.run(100 * MS);
    world.verdict().expect("linearizable");
    let (answered, all) = world.answered();
    assert!(answered == all && all > 500, "{answered} of {all}");
    let chain = world.chain.expect("a chain");
    assert_eq!(chain.changes, 0);
    let stats: Vec<_> = chain.nodes.iter().filter_map(|n| n.replica.as_ref()).map(|r| r.stats()).collect();
    assert!(
        stats.iter().all(|s| s.applied == stats[0].applied && s.acked == s.applied && s.log == 0),
        "{stats:?}"
    );
    assert!(stats[0].applied > 500 && stats[1].elsewhere > 500, "{stats:?}");
}

#[test]
fn random_faults_of_nodes_break_nothing() {
    let apps = [FLOWS, SESSIONS].map(|settings| App::<Engine>::new(settings, &[]));
    let mut sum = Run::default();
    for seed in seeds(80) {
        let run = run(&apps[(seed % 2) as usize], |_, _, _| {}, seed);
        let run = run.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        sum = Run {
            answered: sum.answered + run.answered,
            all: sum.all + run.all,
            views: sum.views + run.views,
        };
    }
    println!("{} of {} packets left, {} views", sum.answered, sum.all, sum.views);
    let views = 18 * seeds(80).count() as u32;
    assert!(sum.answered * 5 > sum.all && sum.views > views, "{} of {}", sum.answered, sum.all);
}

#[test]
fn readers_survive_faults_of_nodes() {
    let app = App::<Engine>::new(SHARED, &[]);
    let mut sum = Run::default();
    for seed in seeds(40) {
        let run = run(&app, |_, f, _| super::asymmetric(f), seed);
        let run = run.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        sum = Run { answered: sum.answered + run.answered, all: sum.all + run.all, ..sum };
    }
    println!("{} of {} packets left", sum.answered, sum.all);
    assert!(sum.answered * 5 > sum.all, "{} of {}", sum.answered, sum.all);
}

/// The first seed that finds a violation.
fn found(rule: Rule, change: impl Fn(&mut Config, &mut Faults, &mut NodeFaults)) -> Option<(u64, String)> {
    found_with(FLOWS, rule, change)
}

fn found_with(
    settings: &str,
    rule: Rule,
    change: impl Fn(&mut Config, &mut Faults, &mut NodeFaults),
) -> Option<(u64, String)> {
    let app = App::<Engine>::new(settings, &[]);
    (0..120).find_map(|seed| {
        let change = |c: &mut Config, f: &mut Faults, n: &mut NodeFaults| {
            c.without = Some(rule);
            change(c, f, n);
        };
        run(&app, change, seed).err().map(|e| (seed, e))
    })
}

#[test]
fn every_rule_of_the_chain_that_is_switched_off_is_found() {
    let crashes = |_: &mut Config, f: &mut Faults, n: &mut NodeFaults| {
        (n.crash_ns, f.crash_ns) = (40 * MS, 40 * MS);
    };
    let leases = |c: &mut Config, f: &mut Faults, n: &mut NodeFaults| {
        (c.recall, c.lease_us, f.astray, f.crash_ns, f.writes) = (false, 60_000, 0.3, 0, 0.05);
        (n.crash_ns, n.learn_ns, n.loss) = (60 * MS, MS / 10, 0.0);
    };
    let cuts = |_: &mut Config, f: &mut Faults, n: &mut NodeFaults| {
        (n.crash_ns, n.cut_ns, n.learn_ns, n.jitter_ns) = (0, 30 * MS, 30 * MS, 2 * MS);
        (f.astray, f.crash_ns, f.loss) = (0.3, 0, 0.0);
    };
    let readers = |c: &mut Config, f: &mut Faults, n: &mut NodeFaults| {
        leases(c, f, n);
        (f.astray, f.writes) = (0.5, 0.01);
    };
    let mutations = [
        ("readers forgotten", found_with(SHARED, Rule::ReadersKept, readers)),
        ("the head answers", found(Rule::TailAnswers, crashes)),
        ("messages of older views", found(Rule::Views, cuts)),
        ("no copy", found(Rule::Copies, crashes)),
        ("no handing over", found(Rule::HandsOver, crashes)),
        ("leases end with the head", found(Rule::LeasesKept, leases)),
    ];
    for (rule, found) in &mutations {
        println!("{rule}: {found:.160?}");
    }
    let missed: Vec<_> =
        mutations.iter().filter(|(_, found)| found.is_none()).map(|(rule, _)| rule).collect();
    assert!(missed.is_empty(), "{missed:?} not found");
}

#[test]
fn each_node_may_fail_and_come_back() {
    let app = App::<Engine>::new(FLOWS, &[]);
    for victim in 0..3 {
        let nodes = NodeFaults { crash_ns: 0, cut_ns: 0, ..node_faults(1) };
        let nodes = NodeFaults { loss: 0.0, learn_ns: MS / 10, jitter_ns: 0, begin: 3, ..nodes };
        let mut world = World::with_chain(&app, config(), (Faults::NONE, nodes), 3, 1);
        world.run_until(30 * MS);
        world.run(50 * MS);
        let chain = world.chain.as_mut().expect("a chain");
        chain.nodes[victim].replica = None;
        let before = world.answered().0;
        world.run(100 * MS);
        assert!(world.answered().0 > before + 500, "node {victim}");
        let now = world.now;
        world.chain.as_mut().expect("a chain").start(victim, now);
        world.run(100 * MS);
        world.verdict().unwrap_or_else(|e| panic!("node {victim}: {e}"));
        let chain = world.chain.as_ref().expect("a chain");
        let place = chain.nodes[victim].replica.as_ref().map(|r| (r.place(), r.store().keys()));
        assert_eq!((place, chain.view.chain.len()), (Some((Place::At(2), 3)), 3), "{}", chain.view);
    }
}
