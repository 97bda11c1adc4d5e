//! `pointsman sim --lab`: the same scenario in the simulator and on a rack of namespaces, in real time.

use crate::support::{Scratch, file, pointsman, run};
use pointsman_lab::harness::Test;
use serde_json::Value;

pub const TESTS: &[(&str, Test)] =
    &[("the_lab_agrees", the_lab_agrees), ("learners_in_the_lab", learners_in_the_lab)];

/// Runs it until the results are good, at most three times. It is repeated only if the lab itself reports that it fell
/// behind its schedule: measurements of a busy machine do not show a fault of the program.
fn compare(arguments: &[&str], json: &str, judge: impl Fn(&[Value]) -> Result<(), String>) {
    for attempt in 1.. {
        // In real time: a minute, more than commands are given otherwise.
        let output = pointsman(arguments).args(["--json", json]).output().expect("it starts");
        assert!(output.status.success(), "{output:?}");
        let lines = std::fs::read_to_string(json).expect("the file is there");
        let results: Vec<Value> = lines.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
        let Err(why) = judge(&results) else { return };
        let late = results.iter().any(|r| r["late_runs"].as_u64().expect("a number") > 0);
        assert!(late && attempt < 3, "attempt {attempt}: {why}");
        println!("attempt {attempt}, on a busy machine: {why}");
        std::fs::remove_file(json).expect("the file is there");
    }
}

fn check(good: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if good { Ok(()) } else { Err(why()) }
}

/// The simulator and a rack of namespaces, the same scenario: median latency, its tail and throughput are alike. Bounds are
/// generous, as the machine may be busy; a device with twice the service time would be far outside of them.
fn the_lab_agrees() -> Result<(), Box<dyn std::error::Error>> {
    let dir = Scratch::new("sim-lab");
    let text = std::fs::read_to_string(file("scenarios/validate.toml")).expect("the file is there");
    let changes = [
        ("duration_s = 40", "duration_s = 4"),
        ("rate_per_s = [150, 300]", "rate_per_s = [150]"),
        (
            "[\"server-only\", \"wrr\", \"p4mite\", \"least-connections\"]",
            "[\"server-only\", \"wrr\", \"least-utilised\"]",
        ),
    ];
    let text = changes.iter().fold(text, |text, (from, to)| {
        assert!(text.contains(from), "the scenario has no {from}");
        text.replace(from, to)
    });
    let scenario = dir.write("s.toml", &text);
    compare(&["sim", &scenario, "--lab", "--seeds", "3"], &dir.path("r.jsonl"), |results| {
        check(results.len() == 3, || format!("{results:#?}"))?;
        // Least-utilised sees how busy the models are: by the use of this machine, a half of all would go to SmartNICs, which
        // cannot serve that many.
        for r in results {
            let off = |name: &str| r["difference_percent"][name].as_f64().map_or(f64::INFINITY, f64::abs);
            check(off("p50") < 40.0 && off("p99") < 50.0 && off("answers") < 2.0, || format!("{r:#}"))?;
            check(r["lab"]["lost"]["median"] == 0.0, || format!("{r:#}"))?;
        }
        // Requests to SmartNICs take five times as long: the policies differ, in both.
        for side in ["simulated", "lab"] {
            let p99 = |i: usize| results[i][side]["p99_ms"]["median"].as_f64().expect("a number");
            check(p99(1) > 1.5 * p99(0), || format!("{side}: {} {}", p99(0), p99(1)))?;
        }
        Ok(())
    });
    let refused = run(&["sim", &file("scenarios/knn-64.toml"), "--lab"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("in the lab: "), "{refused:?}");
    Ok(())
}

/// Learners come to the same weights in both; in the lab they read a switch's registers and write its rings.
fn learners_in_the_lab() -> Result<(), Box<dyn std::error::Error>> {
    let dir = Scratch::new("learn-lab");
    let text = std::fs::read_to_string(file("scenarios/learn-lab.toml")).expect("the file is there");
    let text = text.replace("duration_s = 60", "duration_s = 30");
    let text = text
        .replace("[\"q-learning\", \"thompson\", \"service-rate\"]", "[\"q-learning\", \"service-rate\"]");
    let scenario = dir.write("s.toml", &text);
    compare(&["sim", &scenario, "--lab", "--threads", "2"], &dir.path("r.jsonl"), |results| {
        check(results.len() == 2, || format!("{results:#?}"))?;
        for r in results {
            for side in ["simulated", "oracle", "lab"] {
                let all = r["accelerator_weight"][side].as_array().expect("a list");
                let weights: Vec<f64> = all.iter().filter_map(Value::as_f64).collect();
                // Now and then chance, or a busy machine, makes a device look overloaded.
                let right = !weights.is_empty() && weights.iter().all(|w| (0.6..1.4).contains(w));
                check(right, || format!("{side}: {r:#}"))?;
            }
            let off = r["difference_percent"]["answers"].as_f64().expect("a number");
            check(off.abs() < 10.0, || format!("{r:#}"))?;
        }
        Ok(())
    });
    Ok(())
}
