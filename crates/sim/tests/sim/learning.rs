//! Learners of weights, over the control plane of a whole rack.

use crate::{load, run_with, scenarios};
use pointsman_balance::learn::{Learner, Parameters, QTable};
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

/// P4Wise, trained for four rounds of all loads (360 intervals): it converges in less than 200, and nearly all decisions of the
/// last round are right. What it learnt comes
/// back from its file, and a learner that begins with it is right from the first minutes on.
#[test]
fn p4wise_converges() {
    for seed in [1, 2] {
        let outcome = learn(&rack("q-learning", 1440), seed);
        let learning = outcome.learning.expect("somebody learns");
        let (last, regret) = (learning.accuracy_percent(90), learning.regret_ms(90));
        println!(
            "seed {seed}: {last:.0} % of the last 90 right, regret {regret:.1} ms, {:?}",
            learning.converged_after()
        );
        assert!(learning.converged_after().is_some_and(|n| n < 200), "seed {seed}");
        assert!(last >= 90.0, "seed {seed}: {last} %");
        let text = learning.table.as_ref().map(QTable::save).expect("a table");
        let table = QTable::load(&text).expect("what was saved");
        assert_eq!(Some(&table), learning.table.as_ref());
        assert!(table.updates() > 20 && Learner::with_table(Parameters::default(), table).is_ok());
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
    let learning = outcome.learning.expect("somebody learns");
    let share = learning.accuracy_percent(usize::MAX);
    println!("trained: {share:.0} % right");
    assert!(share >= 80.0, "trained: {share} %");
}

/// The other learners are right sooner and more often.
#[test]
fn others_learn_too() {
    for (learner, at_least) in [("thompson", 75.0), ("service-rate", 95.0)] {
        let outcome = learn(&rack(learner, 600), 1);
        let learning = outcome.learning.expect("somebody learns");
        let share = learning.accuracy_percent(75);
        println!("{learner}: {share:.0} % of the last 75 right, regret {:.1} ms", learning.regret_ms(75));
        assert!(share >= at_least, "{learner}: {share} %");
        assert!(learning.table.is_none());
    }
}

/// A guard keeps even somebody in bounds who insists on weights that are wrong.
#[test]
fn a_guard() {
    let wrong = |guard: &str| {
        let text = rack("fixed", 240).replace("[learn]", &format!("[learn]\nweight = 4\n{guard}"));
        let learning = learn(&text, 1).learning.expect("somebody decides");
        let slow = learning.steps.iter().filter(|s| s.p99_ms > 400.0).count();
        (slow, learning.interventions)
    };
    let (without, _) = wrong("");
    let (with, interventions) = wrong("guard = { p99_ms = 400, fallback = 1, hold = 10, max_change = 6 }");
    println!("{without} slow intervals without a guard, {with} with one, {interventions} interventions");
    assert!(without > 15 && with < without / 2 && interventions > 0, "{without} {with} {interventions}");
}

/// What the oracle takes for best is as good as the best of an exhaustive search by simulation.
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
