use super::*;
use pointsman_wire::Random;

/// A rack of servers, each with a processor and accelerators, in queueing formulas: the load of each device, and the
/// 99th percentile of an M/M/1 queue as fast as all its workers together.
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
    // Without a change nothing is done, and nothing learnt.
    let step = learner.step(&good, &mut || 0.5);
    assert_eq!((step.weights.accelerator, step.reward, learner.table().updates()), (1, None, 1));
}

/// Overload that came with more requests is not attributed to the last action, unless learning is as published.
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

/// Trained at changing rates, it finds right weights nearly always, at rates that have some.
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
    check(String::new(), 1, "truncated");
    check(text.replace("q-table 1", "q-table 2"), 1, "unknown version 2");
    check("hello\n".into(), 1, "not a Q-table");
    check(text.replace("ranges 3", "ranges 4000000000"), 2, "up to 1000");
    check(text.replace("ranges 3", "ranges 4"), 10, "truncated");
    check(text.replace("ranges 3", "ranges 2"), 8, "more lines");
    check(text.replace("2 yes", "2 maybe"), 9, "`2 yes` and three numbers");
    check(text.replace("0.03", "NaN # "), 9, "three numbers");
    check(text.replace("2 no ", "2 no 1 "), 8, "three numbers");
    assert!(
        Learner::with_table(Parameters::default(), table)
            .expect_err("3, not 10")
            .to_string()
            .contains("3 ranges")
    );
}

/// The knowledge of these learners after some time with a rack.
fn trained(learner: LearnerKind) -> Knowledge {
    let p = Parameters::default();
    let mut weigher: Box<dyn Weigher> = match learner {
        LearnerKind::Thompson => Box::new(Bandit::new(p).expect("valid")),
        LearnerKind::ServiceRate => Box::new(Rates::new(p).expect("valid")),
        _ => Box::new(Learner::new(p).expect("valid")),
    };
    share_right(weigher.as_mut(), 5);
    weigher.knowledge().expect("it can be kept")
}

const KEEP: [LearnerKind; 3] = [LearnerKind::QLearning, LearnerKind::Thompson, LearnerKind::ServiceRate];

#[test]
fn knowledge_in_files() {
    for kind in KEEP {
        let known = trained(kind);
        assert!(known.updates() > 100, "{known}");
        let one = Kept::One(known.clone());
        assert_eq!(Kept::load(&one.save()), Ok(one.clone()));
        let two = Kept::Classes(
            [("old".to_string(), known.clone()), ("like-s3".to_string(), known.clone())].into(),
        );
        assert_eq!(Kept::load(&two.save()), Ok(two.clone()));
        assert!(two.to_string().contains("class like-s3\n") && two.to_string().contains(&known.to_string()));
        let (head, rows) =
            (known.csv().lines().next().unwrap_or_default().to_string(), known.csv().lines().count() - 1);
        assert_eq!(two.csv().lines().next(), Some(format!("class,{head}").as_str()));
        assert_eq!((two.csv().lines().count(), two.csv().matches("\nold,").count()), (1 + 2 * rows, rows));
        // A learner that continues from it behaves the same.
        let settings = Settings {
            learner: kind,
            parameters: Parameters { epsilon: 0.0, ..Parameters::default() },
            interval_ns: 1,
            settle_ns: 0,
            polls: 1,
            per_class: true,
            table: None,
            weight: 0,
            guard: None,
        };
        let mut again = settings.weigher_with(Some(&known)).expect("it fits");
        assert_eq!(again.knowledge(), Some(known.clone()));
        assert_ne!(settings.weigher_with(None).expect("valid").knowledge(), Some(known.clone()));
        again.step(&rack(10.0).observe(again.weights()), &mut || 0.5);
        for other in KEEP.into_iter().filter(|other| *other != kind) {
            let e = known.fits(other, &settings.parameters).expect_err("another's").to_string();
            assert!(e.contains("name another file"), "{e}");
            assert!(Settings { learner: other, ..settings.clone() }.weigher_with(Some(&known)).is_err());
        }
        let e =
            Kept::Classes([("old".to_string(), known)].into()).fits(LearnerKind::Fixed, &settings.parameters);
        assert!(e.expect_err("it keeps nothing").to_string().starts_with("class old: it belongs to"));
    }
    let guesses = trained(LearnerKind::Thompson);
    let more = Parameters { max_weight: 7, ..Parameters::default() };
    assert!(
        guesses
            .fits(LearnerKind::Thompson, &more)
            .is_err_and(|e| e.to_string().contains("learn.max_weight is 7"))
    );
    let shown = guesses.to_string();
    assert!(shown.contains("levels of load") && shown.contains("x:6"), "{shown}");
    let shown = trained(LearnerKind::ServiceRate).to_string();
    assert!(shown.contains("a processor serves     15.00 packets/s"), "{shown}");
    assert!(shown.contains("an accelerator serves  8.00 packets/s"), "{shown}");
}

#[test]
fn files_that_are_none() {
    let check = |text: &str, line: usize, message: &str| {
        let e = Kept::load(text).expect_err(text);
        assert!(e.line == line && e.message.contains(message), "{e}\nof {text}");
    };
    check("", 1, "truncated");
    check("hello\n", 1, "not a learner's file");
    check("pointsman q-table 1", 1, "the last line has no newline");
    let guesses = "pointsman thompson 1\nweights 2\nupdates 5\nlevels 2\n-3 0.5 1 0 0\n4 1 1 0.1 0.5\n";
    Kept::load(guesses).expect("right");
    for (from, to, line, message) in [
        ("thompson 1", "thompson 2", 1, "unknown version 2"),
        ("weights 2", "weights 1", 2, "at least 2"),
        ("weights 2", "weights 99999", 2, "up to 256"),
        ("weights 2", "weights 3", 5, "each of 3 weights"),
        ("updates 5", "updates -5", 3, "write `updates N`"),
        ("levels 2", "levels 3", 7, "truncated"),
        ("levels 2", "levels 1", 6, "more lines than levels"),
        ("levels 2", "levels 9999", 4, "up to 801"),
        ("-3 0.5", "x 0.5", 5, "a level from -400 to 400"),
        ("4 1 1", "401 1 1", 6, "a level from -400 to 400"),
        ("4 1 1", "-3 1 1", 6, "follows a higher or an equal one"),
        ("0.5 1 0 0", "1.5 1 0 0", 5, "a count not below it"),
        ("0.5 1 0 0", "-0.5 1 0 0", 5, "a count not below it"),
        ("0.5 1 0 0", "NaN 1 0 0", 5, "a count not below it"),
        ("0.1 0.5\n", "0.1 0.5 7\n", 6, "each of 2 weights"),
    ] {
        assert!(guesses.contains(from), "{from}");
        check(&guesses.replacen(from, to, 1), line, message);
    }
    let rates =
        "pointsman service-rate 1\nupdates 5\ncpu_per_s 12.5\naccelerator_per_s unknown\ntarget_percent 80\n";
    Kept::load(rates).expect("right");
    for (from, to, line, message) in [
        ("service-rate 1", "service-rate 0", 1, "unknown version 0"),
        ("cpu_per_s 12.5", "cpu_per_s 0", 3, "write `cpu_per_s X`"),
        ("cpu_per_s 12.5", "cpu_per_s inf", 3, "or `cpu_per_s unknown`"),
        ("cpu_per_s 12.5", "gpu_per_s 12.5", 3, "write `cpu_per_s X`"),
        ("target_percent 80", "target_percent 99", 5, "from 40 to 92"),
        ("target_percent 80", "target_percent unknown", 5, "always known"),
        ("target_percent 80\n", "", 5, "truncated"),
        ("target_percent 80\n", "target_percent 80\n\nmore\n", 7, "too many lines"),
    ] {
        assert!(rates.contains(from), "{from}");
        check(&rates.replacen(from, to, 1), line, message);
    }
    let classes = format!("pointsman classes 1\nclass old\n{rates}class new\n{guesses}");
    assert_eq!(Kept::load(&classes).expect("right").parts().len(), 2);
    check(&classes.replacen("classes 1", "classes 7", 1), 1, "unknown version 7");
    check(&classes.replacen("class old\n", "", 1), 2, "write `class NAME`");
    check(&classes.replacen("class new", "class old", 1), 8, "class old is listed twice");
    check(&classes.replacen("12.5", "-1", 1), 5, "write `cpu_per_s X`");
    check(&classes.replacen("4 1 1 0.1 0.5\n", "", 1), 14, "truncated");
    check(&classes.replacen("class new\n", "class new\n\n", 1), 9, "not a learner's file");
}

/// Any file gives either an error with an existing line, or knowledge that is saved unchanged.
#[test]
fn files_of_noise() {
    let mut random = Random::new(7);
    let words = [
        "class ",
        "unknown",
        "-1",
        "1e308",
        "18446744073709551615",
        "NaN",
        "\n",
        " ",
        "pointsman q-table 1\n",
        "0",
    ];
    let texts: Vec<String> = KEEP.map(trained).map(Kept::One).iter().map(Kept::save).collect();
    let all = texts.iter().enumerate().map(|(i, t)| format!("class c{i}\n{t}")).collect::<String>();
    let mut good = 0;
    for i in 0..4000 {
        let text = match i % 4 {
            3 => format!("pointsman classes 1\n{all}"),
            n => texts[n].clone(),
        };
        let mut text = text.into_bytes();
        for _ in 0..=random.below(2) {
            let at = random.below(text.len() as u64 + 1) as usize;
            let end = (at + random.below(12) as usize).min(text.len());
            let word = words[random.below(words.len() as u64) as usize].bytes();
            text.splice(at..end, word).for_each(drop);
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        match Kept::load(&text) {
            Err(e) => {
                assert!(e.line >= 1 && e.line <= text.lines().count() + 1 && !e.message.is_empty(), "{e}")
            }
            Ok(kept) => {
                good += 1;
                assert_eq!(Kept::load(&kept.save()).as_ref(), Ok(&kept));
                let _ = (kept.to_string(), kept.csv());
                for kind in KEEP {
                    let _ = kept.fits(kind, &Parameters::default());
                }
            }
        }
    }
    assert!((50..3900).contains(&good), "{good} of 4000 are read");
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

/// A saturated accelerator gets more requests than it can serve, so their rate overestimates its capacity. The estimate
/// must recover soon: at the start, and when a device becomes slower.
#[test]
fn saturated_accelerators() {
    let p = Parameters::default();
    let check = |learner: &mut Rates, accelerator_capacity: f64, steps: u32, expected: u32| {
        let f = Formula { rate: 17.0, cpu_capacity: 15.0, accelerator_capacity, accelerators: 2 };
        for _ in 0..steps {
            learner.step(&f.observe(learner.weights()), &mut || 0.5);
        }
        assert_eq!(learner.weights().accelerator, expected, "{accelerator_capacity}");
    };
    let mut learner = Rates::new(p).expect("valid");
    learner.set_weights(Weights { cpu: 6, accelerator: 6 });
    check(&mut learner, 2.5, 4, 1);
    check(&mut learner, 2.5, 10, 1);
    let mut learner = Rates::new(p).expect("valid");
    check(&mut learner, 5.0, 10, 2);
    check(&mut learner, 2.5, 5, 1);
    check(&mut learner, 5.0, 5, 2);
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

/// No weights are tried that overload devices: not 6:6, which needs twice the accelerators' capacity.
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
