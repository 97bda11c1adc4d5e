//! Learners of weights, over the control plane of a whole rack.

use crate::{load, run_with, scenarios};
use pointsman_decide::{Learner, Parameters, QTable};
use pointsman_sim::Outcome;

/// `scenarios/p4wise.toml` with half the servers and requests, so that tests are quick.
fn rack(learner: &str, duration_s: u32) -> String {
    let text = load("scenarios/p4wise.toml").unwrap_or_else(|e| panic!("{e}"));
    let changes = [
        ("servers = 4".to_string(), "servers = 2".to_string()),
        ("[250, 610, 400, 640, 300, 620]".into(), RATES.into()),
        ("duration_s = 1200".into(), format!("duration_s = {duration_s}")),
        (
            "learner = [\"q-learning\", \"thompson\", \"service-rate\"]".into(),
            format!("learner = [\"{learner}\"]"),
        ),
    ];
    changes.iter().fold(text, |text, (from, to)| {
        assert!(text.contains(from), "the scenario has no {from}");
        text.replace(from, to)
    })
}

const RATES: &str = "[125, 305, 200, 320, 150, 310]";

fn learn(text: &str, seed: u64) -> Outcome {
    let outcome = run_with(&scenarios(text)[0], seed, None);
    assert_eq!(outcome.violations.first, Vec::<String>::new(), "{}", outcome.json());
    outcome
}

/// P4Wise, trained for four rounds of all loads (360 intervals): it converges in less than 200, and nearly all
/// decisions of the last round are right. Its table is read back from its file, and a learner that begins with it is
/// right from the first minutes on.
#[test]
fn p4wise_converges() {
    for seed in [1, 2] {
        let outcome = learn(&rack("q-learning", 1440), seed);
        let learning = outcome.learning.expect("a learner");
        let (last, regret) = (learning.accuracy_percent(90), learning.regret_ms(90));
        println!(
            "seed {seed}: {last:.0} % of the last 90 right, regret {regret:.1} ms, {:?}",
            learning.converged_after()
        );
        assert!(learning.converged_after().is_some_and(|n| n < 200), "seed {seed}");
        assert!(last >= 90.0, "seed {seed}: {last} %");
        let text = learning.table.as_ref().map(QTable::save).expect("a table");
        let table = QTable::load(&text).expect("the saved table");
        assert_eq!(Some(&table), learning.table.as_ref());
        assert!(
            table.updates() > 20
                && Learner::with_table(Parameters { ranges: 5, ..Parameters::default() }, table).is_ok()
        );
        if seed == 1 {
            trained(&text);
        }
    }
}

fn trained(table: &str) {
    let with = |name: &str| if name == "trained.q" { Ok(table.to_string()) } else { load(name) };
    let text = rack("q-learning", 240).replace("[learn]", "[learn]\ntable = \"trained.q\"\nepsilon = 0.01");
    let read = pointsman_sim::scenario::read("test.toml", &text, &with).unwrap_or_else(|e| panic!("{e}"));
    let outcome = run_with(&std::sync::Arc::new(read[0].clone()), 9, None);
    let learning = outcome.learning.expect("a learner");
    let share = learning.accuracy_percent(usize::MAX);
    println!("trained: {share:.0} % right");
    assert!(share >= 80.0, "trained: {share} %");
}

/// The other learners are right sooner and more often.
#[test]
fn others_learn_too() {
    for (learner, at_least) in [("thompson", 75.0), ("service-rate", 95.0)] {
        let outcome = learn(&rack(learner, 600), 1);
        let learning = outcome.learning.expect("a learner");
        let share = learning.accuracy_percent(75);
        println!("{learner}: {share:.0} % of the last 75 right, regret {:.1} ms", learning.regret_ms(75));
        assert!(share >= at_least, "{learner}: {share} %");
        assert!(learning.table.is_none());
    }
}

/// A guard limits even a learner that insists on wrong weights.
#[test]
fn a_guard() {
    let wrong = |guard: &str| {
        let text = rack("fixed", 240).replace("[learn]", &format!("[learn]\nweight = 4\n{guard}"));
        let learning = learn(&text, 1).learning.expect("a learner");
        let slow = learning.steps.iter().filter(|s| s.p99_ms > 400.0).count();
        (slow, learning.interventions)
    };
    let (without, _) = wrong("");
    let (with, interventions) = wrong("guard = { p99_ms = 400, fallback = 1, hold = 10, max_change = 6 }");
    println!("{without} slow intervals without a guard, {with} with one, {interventions} interventions");
    assert!(without > 15 && with < without / 2 && interventions > 0, "{without} {with} {interventions}");
}

/// The oracle's best choice is as good as the best of an exhaustive search by simulation.
#[test]
fn the_oracle_is_right() {
    for rate in [100, 225, 300, 330] {
        let at = |weight: u32| {
            let text = rack("fixed", 60).replace("[learn]", &format!("[learn]\nweight = {weight}"));
            let outcome = learn(&text.replace(RATES, &format!("[{rate}]")), 5);
            let best = outcome.learning.as_ref().and_then(|l| l.steps.last()).map(|s| s.best_weight);
            (outcome.latency.p99_ms, best)
        };
        let tried: Vec<(f64, Option<u32>)> = (0..4).map(at).collect();
        let least = tried.iter().map(|t| t.0).fold(f64::INFINITY, f64::min);
        let best = tried[0].1.expect("a decision") as usize;
        println!("{rate} per second: {tried:?}");
        assert!(tried[best].0 <= 1.1 * least, "{rate} per second: weight {best}, but {tried:?}");
    }
}

/// The decisions of a scenario of `scenarios/` under one learner, shortened.
fn decisions(file: &str, learner: &str, changes: &[(&str, &str)]) -> Outcome {
    let text = load(file).unwrap_or_else(|e| panic!("{e}"));
    let all = [("[\"q-learning\", \"thompson\", \"service-rate\"]", format!("[\"{learner}\"]"))];
    let all = all.iter().map(|(a, b)| (*a, b.as_str())).chain(changes.iter().copied());
    let text = all.fold(text, |text, (from, to)| {
        assert!(text.contains(from), "{file} has no {from}");
        text.replace(from, to)
    });
    learn(&text, 1)
}

/// A second SmartNIC comes to every server: from then on it gets requests, learners stay right, the better ones with at
/// most half of P4Wise's regret and never beyond the guard's bound.
#[test]
fn a_second_accelerator() {
    let changes = [
        ("servers = 4", "servers = 2"),
        ("[250, 610, 400, 620, 300, 605]", "[125, 305, 200, 310, 150, 302]"),
        ("duration_s = 2240", "duration_s = 1200"),
        ("at_s = 1000", "at_s = 600"),
    ];
    let mut regret = Vec::new();
    for (learner, at_least) in [("q-learning", 75.0), ("thompson", 95.0), ("service-rate", 95.0)] {
        let outcome = decisions("scenarios/second-nic.toml", learner, &changes);
        let learning = outcome.learning.expect("a learner");
        let (share, worst) =
            (learning.accuracy_percent(60), learning.steps.iter().map(|s| s.p99_ms).fold(0.0, f64::max));
        regret.push(learning.regret_ms(usize::MAX));
        println!("{learner}: {share:.0} % of the last 60 right, regret {regret:?}, worst P99 {worst:.0} ms");
        assert!(share >= at_least, "{learner}: {share} %");
        assert!(learner == "q-learning" || learning.beyond_bound == Some(0), "{learner}: {worst} ms");
        // Two SmartNICs that get as much as each other are used less than one was.
        let used = |from: usize, to: usize| {
            let shared: Vec<f64> = learning.steps[from..to]
                .iter()
                .filter(|s| s.weight == 1 && s.offered_per_s > 300.0)
                .map(|s| s.cpu_percent)
                .collect();
            shared.iter().sum::<f64>() / shared.len().max(1) as f64
        };
        let (before, after) = (used(0, 149), used(152, 299));
        assert!(after < 0.95 * before, "{learner}: processors {before:.0} % busy before, {after:.0} % after");
    }
    assert!(regret[1] <= 0.5 * regret[0] && regret[2] <= 0.5 * regret[0], "{regret:?}");
}

/// Slow servers get other weights than fast ones; with one weight for all, there is one.
#[test]
fn classes_of_servers() {
    let changes = [("servers = 4", "servers = 2"), ("servers = 2    ", "servers = 1    ")];
    let rates = [("[200, 400, 300, 420]", "[100, 210]"), ("duration_s = 600", "duration_s = 480")];
    let all: Vec<_> = changes.into_iter().chain(rates).collect();
    let outcome = decisions("scenarios/classes.toml", "service-rate", &all);
    let learning = outcome.learning.expect("a learner");
    let weights = |class: &str| -> Vec<u32> {
        let of =
            learning.steps.iter().filter(|s| s.class == class && s.offered_per_s > 100.0 && s.at_s > 100.0);
        of.map(|s| s.next_weight).collect()
    };
    let (old, new) = (weights("old"), weights("like-s2"));
    assert!(old.len() > 30 && new.len() == old.len(), "{} and {}", old.len(), new.len());
    let share = |w: &[u32], ok: fn(u32) -> bool| w.iter().filter(|w| ok(**w)).count() * 10 >= w.len() * 9;
    assert!(share(&old, |w| w >= 1) && share(&new, |w| w == 0), "old {old:?}, new {new:?}");
    assert!(learning.accuracy_percent(60) >= 90.0, "{}", learning.accuracy_percent(60));
    let one: Vec<_> = all.iter().copied().chain([("per_class = true", "per_class = false")]).collect();
    let learning = decisions("scenarios/classes.toml", "service-rate", &one).learning.expect("a learner");
    assert!(learning.steps.iter().all(|s| s.class != "like-s2"));
}

/// Load that swings, bursts, devices that slow down and fail: everything the rack promises still holds.
#[test]
fn learners_in_trouble() {
    let changes = [
        ("servers = 4", "servers = 2"),
        ("rate_per_s = 400", "rate_per_s = 200"),
        ("rate_per_s = 80", "rate_per_s = 40"),
    ];
    for learner in ["thompson", "service-rate"] {
        let outcome = decisions("scenarios/trouble.toml", learner, &changes);
        let (sent, lost) = (outcome.requests.sent, outcome.requests.lost);
        assert!(lost > 0 && lost * 50 < sent, "{learner}: {lost} of {sent} lost");
        let learning = outcome.learning.expect("a learner");
        println!("{learner}: {:.0} % right", learning.accuracy_percent(usize::MAX));
        assert!(learning.accuracy_percent(usize::MAX) >= 60.0);
    }
}
