//! Experiments as lines over an axis: a scenario for every line and place, each with every seed.

use super::bench::Bench;
use super::figure::Curve;
use super::setup::Setup;
use crate::error::Failed;

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
) -> Result<Vec<Curve>, Failed> {
    let places = names.iter().flat_map(|name| axis.iter().map(move |x| (*name, *x)));
    let scenarios = places.map(|(name, x)| setup(name, x).scenario(bench)).collect::<Result<Vec<_>, _>>()?;
    let runs = bench.run_all(what, &scenarios)?;
    let of_name = names.iter().zip(runs.chunks(axis.len()));
    Ok(of_name.map(|(name, runs)| Curve::of(name, axis, runs, |r| r.p99_ms)).collect())
}
