//! Experiments as lines over an axis: a scenario for every line and place, each with every seed.

use super::bench::Bench;
use super::figure::{Curve, Point};
use super::setup::Setup;

/// P99 in milliseconds of each of `names` at every place of `axis`; `setup` returns the simulated setup.
///
/// # Errors
/// A rack does not come up.
pub fn p99(
    bench: &Bench,
    what: &str,
    names: &[&str],
    axis: &[f64],
    setup: impl Fn(&str, f64) -> Setup,
) -> Result<Vec<Curve>, String> {
    let places = names.iter().flat_map(|name| axis.iter().map(move |x| (*name, *x)));
    let scenarios =
        places.map(|(name, x)| setup(name, x).scenario(bench)).collect::<Result<Vec<_>, String>>()?;
    let runs = bench.run_all(what, &scenarios)?;
    let mut samples = runs.iter().map(|seeds| seeds.iter().map(|r| r.p99_ms).collect::<Vec<f64>>());
    let mut points =
        || axis.iter().zip(samples.by_ref()).map(|(x, samples)| Point { x: *x, samples }).collect();
    Ok(names.iter().map(|name| Curve { name: (*name).to_string(), points: points() }).collect())
}
