//! Against closed forms of queueing theory.

use crate::run;

/// Probability that an arrival waits in M/M/k with `a` Erlang.
fn erlang_c(k: u32, a: f64) -> f64 {
    // Erlang B by its recursion, then C from B.
    let b = (1..=k).fold(1.0, |b, n| a * b / (f64::from(n) + a * b));
    let rho = a / f64::from(k);
    b / (1.0 - rho + rho * b)
}

/// Mean waiting time of independent runs against theory, in milliseconds: theory must lie within the 99.9 % confidence
/// interval, which must be narrow.
fn check(workers: u32, distribution: &str, rate_per_s: f64, expected_ms: f64) {
    let text = format!(
        "name = \"queue\"\nduration_s = 40\nwarmup_s = 2\npatience_s = 1000\nagents.enabled = false\n\
         rack = {{ servers = 1, policy = \"ecmp\" }}\n\
         [[device]]\nname = \"cpu\"\nkind = \"cpu\"\nworkers = {workers}\n\
         service_time = {{ distribution = \"{distribution}\", mean_ms = 1 }}\n\
         [[client]]\narrivals = {{ process = \"poisson\", rate_per_s = {rate_per_s} }}\n"
    );
    let runs = 10;
    let waits: Vec<f64> = (1..=runs).map(|seed| run(&text, seed).groups[0].wait_mean_ms).collect();
    let mean = waits.iter().sum::<f64>() / waits.len() as f64;
    let variance = waits.iter().map(|w| (w - mean) * (w - mean)).sum::<f64>() / (waits.len() - 1) as f64;
    // Student's t, 9 degrees of freedom, two-sided 99.9 %.
    let half = 4.781 * (variance / waits.len() as f64).sqrt();
    println!("{workers} workers, {distribution}: {mean:.4} ms +- {half:.4}, theory {expected_ms:.4}");
    assert!((mean - expected_ms).abs() < half, "{mean} +- {half}, not {expected_ms}");
    assert!(half < 0.15 * expected_ms, "the interval is too wide: {mean} +- {half}");
}

#[test]
fn m_m_1() {
    let rho: f64 = 0.7;
    check(1, "exponential", 1000.0 * rho, rho / (1.0 - rho));
}

#[test]
fn m_d_1() {
    let rho: f64 = 0.7;
    check(1, "deterministic", 1000.0 * rho, rho / (2.0 * (1.0 - rho)));
}

#[test]
fn m_m_k() {
    let (k, rho) = (4, 0.8);
    let a = f64::from(k) * rho;
    check(k, "exponential", 1000.0 * a, erlang_c(k, a) / (f64::from(k) - a));
}
