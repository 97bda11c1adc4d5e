//! Weights and rankings against those of ahpy and pymcdm, on random judgements and values.

use pointsman_decide::ahp;
use pointsman_decide::promethee::{Criterion, Goal, Preference, net_flows};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

struct Random(pointsman_wire::Random);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0.below(n as u64) as usize
    }

    /// From 0 up to `max`, in 1000 steps: so that equal values occur too.
    fn number(&mut self, max: f64) -> f64 {
        self.below(1001) as f64 / 1000.0 * max
    }
}

/// Judgements from 1/9 to 9 around random weights, some consistent, some not.
fn judgements(r: &mut Random) -> Vec<Vec<f64>> {
    let n = 3 + r.below(6);
    let weights: Vec<f64> = (0..n).map(|_| 0.5 + r.number(4.0)).collect();
    let mut m = vec![vec![1.0; n]; n];
    let disorder = r.number(1.5);
    for i in 0..n {
        for j in i + 1..n {
            let noise = (r.number(2.0) - 1.0) * disorder;
            m[i][j] = (weights[i] / weights[j] * noise.exp()).clamp(1.0 / 9.0, 9.0);
            m[j][i] = 1.0 / m[i][j];
        }
    }
    m
}

struct Ranking {
    function: &'static str,
    criteria: Vec<Criterion>,
    p: Vec<f64>,
    q: Vec<f64>,
    values: Vec<Vec<f64>>,
}

fn ranking(r: &mut Random) -> Ranking {
    let function = ["usual", "ushape", "vshape", "level", "vshape_2"][r.below(5)];
    let (n, m) = (2 + r.below(9), 1 + r.below(6));
    let q: Vec<f64> = (0..m).map(|_| 0.5 + r.number(20.0)).collect();
    let p: Vec<f64> = q.iter().map(|q| q + 0.5 + r.number(30.0)).collect();
    let criteria = (0..m)
        .map(|i| Criterion {
            weight: 0.1 + r.number(9.0),
            goal: if r.below(2) == 0 { Goal::Benefit } else { Goal::Cost },
            preference: match function {
                "usual" => Preference::Usual,
                "ushape" => Preference::UShape { q: q[i] },
                "vshape" => Preference::VShape { p: p[i] },
                "level" => Preference::Level { q: q[i], p: p[i] },
                _ => Preference::Linear { q: q[i], p: p[i] },
            },
        })
        .collect();
    let values = (0..n).map(|_| (0..m).map(|_| r.number(100.0)).collect()).collect();
    Ranking { function, criteria, p, q, values }
}

fn words(numbers: impl IntoIterator<Item = f64>) -> String {
    // `{:?}` writes as many digits as it takes to read the same number back.
    numbers.into_iter().map(|x| format!(" {x:?}")).collect()
}

#[test]
fn agrees_with_ahpy_and_pymcdm() {
    let Some(python) = pointsman_needs::python("agrees_with_ahpy_and_pymcdm", "mcdm") else { return };
    let mut r = Random(pointsman_wire::Random::new(1));
    let matrices: Vec<_> = (0..150).map(|_| judgements(&mut r)).collect();
    let rankings: Vec<_> = (0..300).map(|_| ranking(&mut r)).collect();
    let mut input = String::new();
    for m in &matrices {
        input += &format!("ahp {}{}\n", m.len(), words(m.iter().flatten().copied()));
    }
    for k in &rankings {
        let weights = k.criteria.iter().map(|c| c.weight);
        let types = k.criteria.iter().map(|c| if c.goal == Goal::Benefit { 1.0 } else { -1.0 });
        let numbers = k.p.iter().chain(&k.q).copied().chain(weights).chain(types);
        let numbers = numbers.chain(k.values.iter().flatten().copied());
        input +=
            &format!("promethee {} {} {}{}\n", k.function, k.values.len(), k.criteria.len(), words(numbers));
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients/mcdm.py");
    let mut child = Command::new(python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python starts");
    let mut stdin = child.stdin.take().expect("piped");
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("Python ends");
    writer.join().expect("no panic").expect("Python reads everything");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("numbers");
    let lines: Vec<Vec<f64>> =
        text.lines().map(|l| l.split(' ').map(|w| w.parse().expect("a number")).collect()).collect();
    assert_eq!(lines.len(), matrices.len() + rankings.len());
    let mut refused = 0;
    for (m, theirs) in matrices.iter().zip(&lines) {
        let ours = ahp::judge(m).expect("reciprocal");
        // ahpy stops its iteration a little earlier.
        assert!((ours.ratio - theirs[0]).abs() < 1e-5, "{m:?}: {ours:?} {theirs:?}");
        for (a, b) in ours.weights.iter().zip(&theirs[1..]) {
            assert!((a - b).abs() < 1e-6, "{m:?}: {ours:?} {theirs:?}");
        }
        assert_eq!(ahp::weights(m).is_ok(), ours.ratio <= 0.1);
        refused += usize::from(ours.ratio > 0.1);
    }
    assert!((20..130).contains(&refused), "{refused} of {} are inconsistent", matrices.len());
    for (k, theirs) in rankings.iter().zip(&lines[matrices.len()..]) {
        for (a, b) in net_flows(&k.values, &k.criteria).iter().zip(theirs) {
            assert!((a - b).abs() < 1e-9, "{} {:?}: {theirs:?}", k.function, k.values);
        }
    }
}
