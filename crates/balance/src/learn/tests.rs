use super::*;
use crate::mix::Random;

/// A rack of servers, each with a processor and accelerators, as queueing formulas see it: what is asked of each device,
/// and the 99th percentile of an M/M/1 queue as fast as all its workers together.
struct Formula {
    rate: f64,
    cpu_capacity: f64,
    accelerator_capacity: f64,
    accelerators: u32,
}

impl Formula {
    fn observe(&self, w: Weights) -> Observation {
        let all = f64::from(w.cpu + self.accelerators * w.accelerator);
        let cpu = self.rate * f64::from(w.cpu) / all;
        let accelerator = self.rate * f64::from(w.accelerator) / all;
        // P99 of an exponential sojourn with mean 1 / (capacity - rate).
        let p99 = |rate: f64, capacity: f64| {
            if rate == 0.0 { 0.0 } else { 4605.0 / (capacity - rate).max(0.01) }
        };
        Observation {
            cpu_percent: vec![100.0 * cpu / self.cpu_capacity],
            accelerator_percent: vec![
                100.0 * accelerator / self.accelerator_capacity;
                self.accelerators as usize
            ],
            p99_ms: p99(cpu, self.cpu_capacity).max(p99(accelerator, self.accelerator_capacity)),
            cpu_per_s: cpu,
            accelerator_per_s: accelerator,
            loss: 0.0,
        }
    }

    /// Weights that are right, by trying all.
    fn right(&self, p: &Parameters) -> Vec<Weights> {
        (0..=p.max_weight)
            .map(|accelerator| Weights { cpu: p.max_weight, accelerator })
            .filter(|w| p.judge(&self.observe(*w), *w).is_right())
            .collect()
    }
}

fn rack(rate: f64) -> Formula {
    Formula { rate, cpu_capacity: 15.0, accelerator_capacity: 8.0, accelerators: 2 }
}

#[test]
fn verdicts_and_rewards() {
    let p = Parameters::default();
    let w = |accelerator| Weights { cpu: 6, accelerator };
    let o = |cpu: f64, accelerator: f64, p99_ms: f64| Observation {
        cpu_percent: vec![cpu, cpu],
        accelerator_percent: vec![accelerator],
        p99_ms,
        ..Observation::default()
    };
    for (observation, weight, verdict, reward) in [
        (o(101.0, 0.0, 1.0), 0, Verdict::Overload, -10.0),
        (o(50.0, 101.0, 1.0), 1, Verdict::Overload, -10.0),
        (o(90.0, 0.0, 999.0), 0, Verdict::CpusSuffice, 10.0),
        (o(90.0, 0.0, 1000.0), 0, Verdict::Open, -1.0),
        (o(61.0, 50.0, 999.0), 1, Verdict::Shared, 10.0),
        (o(60.0, 50.0, 999.0), 1, Verdict::Open, -1.0),
        (o(70.0, 50.0, 1001.0), 1, Verdict::Open, -1.0),
    ] {
        let got = p.judge(&observation, w(weight));
        assert_eq!((got, p.reward(got)), (verdict, reward), "{observation:?} {weight}");
    }
}

/// One update by hand: alpha (r + gamma max Q(s') - Q(s, a)).
#[test]
fn bellman() {
    let mut learner = Learner::new(Parameters { epsilon: 0.0, ..Parameters::default() }).expect("valid");
    let slow = Observation {
        cpu_percent: vec![95.0],
        accelerator_percent: vec![0.0],
        p99_ms: 5000.0,
        ..Observation::default()
    };
    // All zero: the first action, +1.
    let step = learner.step(&slow, &mut || 0.5);
    assert_eq!((step.weights.accelerator, step.reward), (1, None));
    let good = Observation {
        cpu_percent: vec![75.0],
        accelerator_percent: vec![40.0],
        p99_ms: 500.0,
        ..Observation::default()
    };
    let step = learner.step(&good, &mut || 0.5);
    assert_eq!((step.weights.accelerator, step.reward, step.verdict), (1, Some(10.0), Verdict::Shared));
    assert!(learner.table().save().contains("\n9 no 5 0 0\n"), "{}", learner.table());
    // Nothing changed: nothing is done, and nothing learnt.
    let step = learner.step(&good, &mut || 0.5);
    assert_eq!((step.weights.accelerator, step.reward, learner.table().updates()), (1, None, 1));
}

/// Overload that came with more requests is not the fault of the action before it, unless it is to learn as published.
#[test]
fn a_change_of_load() {
    let seen = |cpu: f64, rate: f64| Observation {
        cpu_percent: vec![cpu],
        accelerator_percent: vec![0.0],
        p99_ms: 5000.0,
        cpu_per_s: rate,
        ..Observation::default()
    };
    let learnt = |load_change_percent: f64, rates: [f64; 2]| {
        let p = Parameters { epsilon: 0.0, load_change_percent, ..Parameters::default() };
        let mut learner = Learner::new(p).expect("valid");
        learner.step(&seen(55.0, rates[0]), &mut || 0.5);
        let step = learner.step(&seen(101.0, rates[1]), &mut || 0.5);
        assert_eq!((step.verdict, step.weights.accelerator), (Verdict::Overload, 0));
        (step.reward, learner.table().updates())
    };
    assert_eq!(learnt(0.0, [100.0, 180.0]), (Some(-10.0), 1));
    assert_eq!(learnt(20.0, [100.0, 180.0]), (None, 0));
    assert_eq!(learnt(20.0, [100.0, 50.0]), (None, 0));
    assert_eq!(learnt(20.0, [100.0, 119.0]), (Some(-10.0), 1));
}

/// Trained at changing rates, it finds right weights nearly always, at rates where there are some.
#[test]
fn it_learns() {
    let p = Parameters::default();
    let mut random = Random::new(11);
    let mut unit = move || random.below(1 << 53) as f64 / (1u64 << 53) as f64;
    let mut learner = Learner::new(p).expect("valid");
    let rates: Vec<f64> =
        (8..=40).map(|r| f64::from(r) / 2.0).filter(|r| !rack(*r).right(&p).is_empty()).collect();
    assert!(rates.len() > 10, "{rates:?}");
    for _ in 0..60 {
        for rate in &rates {
            for _ in 0..12 {
                let o = rack(*rate).observe(learner.weights());
                learner.step(&o, &mut unit);
            }
        }
    }
    let mut right = 0;
    let mut all = 0;
    for _ in 0..20 {
        for rate in &rates {
            for i in 0..20 {
                let o = rack(*rate).observe(learner.weights());
                learner.step(&o, &mut unit);
                // Some steps to find them.
                if i >= 8 {
                    all += 1;
                    let w = learner.weights();
                    right += u32::from(p.judge(&rack(*rate).observe(w), w).is_right());
                }
            }
        }
    }
    let share = f64::from(right) / f64::from(all);
    assert!(share > 0.9, "right in {share:.3} of all steps\n{}", learner.table());
}

#[test]
fn tables_in_files() {
    let mut table = QTable::new(3);
    table.update(5, Action::Lower, 0.1, 0.3);
    table.update(0, Action::Keep, -1.0 / 3.0, 1.0);
    let text = table.save();
    assert_eq!(QTable::load(&text), Ok(table.clone()));
    assert!(table.to_string().contains("67 to 100"), "{table}");
    assert_eq!((table.csv().lines().count(), table.csv().contains("\n0,33.")), (7, true), "{}", table.csv());
    let check = |text: String, line: usize, message: &str| {
        let e = QTable::load(&text).expect_err("wrong");
        assert!(e.line == line && e.message.contains(message), "{e}");
    };
    check(String::new(), 1, "cut off");
    check(text.replace("q-table 1", "q-table 2"), 1, "version 2 is not known");
    check("hello\n".into(), 1, "not a Q-table");
    check(text.replace("ranges 3", "ranges 4000000000"), 2, "up to 1000");
    check(text.replace("ranges 3", "ranges 4"), 10, "cut off");
    check(text.replace("ranges 3", "ranges 2"), 8, "more lines");
    check(text.replace("2 yes", "2 maybe"), 9, "`2 yes` and three numbers");
    check(text.replace("0.03", "NaN # "), 9, "three numbers");
    assert!(Learner::with_table(Parameters::default(), table).expect_err("3, not 10").contains("3 ranges"));
}

#[test]
fn parameters() {
    for bad in [
        Parameters { ranges: 0, ..Parameters::default() },
        Parameters { alpha: 0.0, ..Parameters::default() },
        Parameters { gamma: f64::NAN, ..Parameters::default() },
        Parameters { max_weight: 0, ..Parameters::default() },
        Parameters { load_change_percent: -1.0, ..Parameters::default() },
    ] {
        assert!(Learner::new(bad).is_err(), "{bad:?}");
    }
}

/// Share of steps with right weights, after some to learn, at rates that change every dozen steps.
fn share_right(learner: &mut dyn Weigher, seed: u64) -> f64 {
    let p = Parameters::default();
    let mut random = Random::new(seed);
    let mut unit = move || random.below(1 << 53) as f64 / (1u64 << 53) as f64;
    let rates: Vec<f64> =
        (8..=40).map(|r| f64::from(r) / 2.0).filter(|r| !rack(*r).right(&p).is_empty()).collect();
    let (mut right, mut all) = (0, 0);
    for round in 0..20 {
        for rate in &rates {
            for _ in 0..12 {
                let step = learner.step(&rack(*rate).observe(learner.weights()), &mut unit);
                let w = step.weights;
                if round >= 10 {
                    all += 1;
                    right += u32::from(p.judge(&rack(*rate).observe(w), w).is_right());
                }
            }
        }
    }
    f64::from(right) / f64::from(all)
}

/// The other learners, with as much time, are right more often than Q-learning.
#[test]
fn others_learn_faster() {
    let p = Parameters::default();
    let published = share_right(&mut Learner::new(p).expect("valid"), 3);
    let bandit = share_right(&mut Bandit::new(p).expect("valid"), 3);
    let rates = share_right(&mut Rates::new(p).expect("valid"), 3);
    println!("q-learning {published:.3}, thompson {bandit:.3}, service-rate {rates:.3}");
    assert!(bandit > 0.9 && rates > 0.9, "thompson {bandit:.3}, service-rate {rates:.3}");
    assert!(rates >= published, "q-learning {published:.3}");
}

#[test]
fn a_guard_takes_over() {
    let p = Parameters::default();
    let fixed = Fixed { parameters: p, weights: Weights { cpu: 6, accelerator: 6 } };
    let bounds =
        Bounds { p99_ms: 2000.0, loss: 0.1, fallback: 1, hold: 3, max_change: 2, max_use_percent: None };
    let mut guard = Guard::new(Box::new(fixed), bounds);
    let slow = Observation { cpu_percent: vec![50.0], p99_ms: 2500.0, ..Observation::default() };
    let fine = Observation { p99_ms: 100.0, ..slow.clone() };
    let lossy = Observation { loss: 0.2, ..fine.clone() };
    let mut got = Vec::new();
    for o in [&fine, &slow, &fine, &fine, &fine, &fine, &lossy, &fine] {
        got.push(guard.step(o, &mut || 0.5).weights.accelerator);
    }
    // No more than two at once, down to the safe weight for three intervals, and back.
    assert_eq!((got, guard.interventions()), (vec![6, 4, 2, 1, 3, 5, 3, 1], 2));
}

/// Nothing is tried that devices cannot bear: not 6:6, which would ask twice of accelerators what they have.
#[test]
fn a_guard_looks_ahead() {
    let p = Parameters::default();
    let fixed = Fixed { parameters: p, weights: Weights { cpu: 6, accelerator: 6 } };
    let max_use_percent = Some(90.0);
    let bounds = Bounds { p99_ms: 1e9, loss: 1.0, fallback: 1, hold: 1, max_change: 6, max_use_percent };
    let mut guard = Guard::new(Box::new(fixed), bounds);
    let rack = Formula { rate: 14.0, cpu_capacity: 15.0, accelerator_capacity: 3.6, accelerators: 2 };
    guard.set_weights(p.first_weights());
    let mut got = Vec::new();
    for _ in 0..4 {
        got.push(guard.step(&rack.observe(guard.weights()), &mut || 0.5).weights.accelerator);
    }
    // The least is tried, then the most that they can bear: 6:1 asks 1.75 of 3.6 of them, 6:2 2.8, 6:3 3.5.
    assert_eq!(got, [1, 2, 2, 2]);
}
