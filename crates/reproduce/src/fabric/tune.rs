//! Settings of schemes, tuned by one procedure on seeds that judge nothing.
//!
//! The settings of a scheme are taken in the order of the grid, one after the other. Of the values of a setting, with the others as they are,
//! the one is kept with the least slowdown: the mean over all flows, workloads, loads and seeds of the tuning.

use super::fair;
use super::published::{self, PACKET_KIB};
use super::run::{Base, Class, Scheme, Workload, of_class, simulate};
use crate::bench::Bench;
use crate::error::{ExperimentError, Failed};
use Level::{Name, Number};
use pointsman_trials::stats::mean;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// A value of a setting.
#[derive(Clone, Copy)]
pub enum Level {
    /// A number.
    Number(f64),
    /// One of the setting's names.
    Name(&'static str),
}

impl From<Level> for Value {
    fn from(level: Level) -> Self {
        match level {
            Level::Number(n) => n.into(),
            Level::Name(name) => name.into(),
        }
    }
}

/// Values of settings that are tried: the scheme, the setting, the values.
pub type Grid = &'static [(&'static str, &'static str, &'static [Level])];

/// Which schemes are tuned, where, and the result.
pub struct Tuning {
    /// The file of the result, in this folder.
    file: &'static str,
    /// Its text.
    text: &'static str,
    /// The schemes, with the settings that they begin with.
    pub schemes: fn() -> Vec<Scheme>,
    grid: Grid,
    places: fn() -> Vec<Base>,
    loads: &'static [f64],
    /// Seeds that tune.
    seeds: &'static [u64],
}

/// A network whose schemes are tuned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Tuned {
    /// That of the P4TE paper.
    #[default]
    Paper,
    /// That of the figures `fabric-...`, at 10 Gbit/s.
    TenGbit,
}

impl Tuned {
    /// Its tuning.
    pub fn tuning(self) -> &'static Tuning {
        match self {
            Tuned::Paper => &PAPER,
            Tuned::TenGbit => &TEN_GBIT,
        }
    }
}

/// Web search and data mining on the paper's network at a load of 60 %.
static PAPER: Tuning = Tuning {
    file: "tuned.json",
    text: include_str!("tuned.json"),
    schemes: published::schemes,
    grid: GRID,
    places: || vec![Workload::WebSearch.base(), Workload::DataMining.base()],
    loads: &[0.6],
    seeds: &[1001, 1002, 1003, 1004],
};

/// Web search at 10 Gbit/s at 60 and 90 %.
static TEN_GBIT: Tuning = Tuning {
    file: "tuned-10g.json",
    text: include_str!("tuned-10g.json"),
    schemes: fair::schemes,
    grid: fair::GRID,
    places: fair::places_of_tuning,
    loads: &[0.6, 0.9],
    seeds: &[1001, 1002, 1003, 1004],
};

const GRID: &[(&str, &str, &[Level])] = &[
    ("letflow", "gap_us", &[Number(10_000.0), Number(40_000.0), Number(150_000.0), Number(600_000.0)]),
    ("hula", "gap_us", &[Number(10_000.0), Number(40_000.0), Number(150_000.0), Number(600_000.0)]),
    ("hula", "probe_period_us", &[Number(70_000.0), Number(200_000.0), Number(600_000.0)]),
    ("p4te", "tick_kib", &[Number(2.0 * PACKET_KIB), Number(4.0 * PACKET_KIB), Number(16.0 * PACKET_KIB)]),
    ("p4te", "gap_us", &[Number(10_000.0), Number(40_000.0), Number(150_000.0), Number(600_000.0)]),
    ("p4te", "range_kib", &[Number(PACKET_KIB), Number(2.0 * PACKET_KIB)]),
    ("p4te", "burst_kib", &[Number(2.0 * PACKET_KIB), Number(4.0 * PACKET_KIB), Number(10.0 * PACKET_KIB)]),
    ("p4te", "red_percent", &[Number(95.0), Number(100.0)]),
    ("p4te", "green_percent", &[Number(60.0), Number(75.0), Number(90.0)]),
    ("p4te", "rate_control", &[Name("fack"), Name("ece"), Name("clamp")]),
    ("p4te", "large_percent", &[Number(10.0), Number(20.0), Number(50.0)]),
];

/// Tunes all schemes of a network: a file next to this one.
///
/// # Errors
/// A simulation does not come up.
pub fn tune(bench: &Bench, tuning: &Tuning) -> Result<String, Failed> {
    let mut schemes = Map::new();
    let mut tried = Vec::new();
    for mut scheme in (tuning.schemes)() {
        let name = scheme.name;
        for (_, setting, values) in tuning.grid.iter().filter(|(of, ..)| *of == name) {
            let mut best: Option<(f64, Level)> = None;
            for value in *values {
                let candidate = scheme.clone().with(setting, *value);
                let slowdown = slowdown(bench, tuning, &candidate)?;
                tried.push(
                    json!({"scheme": scheme.name, "settings": candidate.settings, "slowdown": slowdown}),
                );
                if best.is_none_or(|(least, _)| slowdown < least) {
                    best = Some((slowdown, *value));
                }
            }
            if let Some((_, value)) = best {
                scheme = scheme.with(setting, value);
            }
        }
        schemes.insert(scheme.name.into(), json!(scheme.settings));
    }
    let load = json!(if tuning.loads.len() == 1 { json!(tuning.loads[0]) } else { json!(tuning.loads) });
    let file = json!({"seeds": tuning.seeds, "load": load, "schemes": schemes, "tried": tried});
    Ok(serde_json::to_string_pretty(&file)? + "\n")
}

fn slowdown(bench: &Bench, tuning: &Tuning, scheme: &Scheme) -> Result<f64, Failed> {
    let mut samples = Vec::new();
    for base in (tuning.places)() {
        let runs = simulate(bench, &base, std::slice::from_ref(scheme), tuning.loads, tuning.seeds)?;
        let lines = runs.iter().flatten();
        samples.extend(lines.flat_map(|runs| of_class(runs, Class::All, "slowdown_mean")));
    }
    Ok(mean(&samples).mean)
}

impl Tuning {
    /// The tuned schemes.
    ///
    /// # Errors
    /// One of these seeds has tuned them; or the file is not one of [`tune`]'s.
    pub fn tuned(&self, judging: &[u64]) -> Result<Vec<Scheme>, ExperimentError> {
        self.read(self.text, judging)
    }

    fn read(&self, text: &str, judging: &[u64]) -> Result<Vec<Scheme>, ExperimentError> {
        let name = self.file;
        let file: Value =
            serde_json::from_str(text).map_err(|e| ExperimentError::TunedFile(name, None, e))?;
        let seeds: Vec<u64> =
            file["seeds"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
        if let Some(seed) = judging.iter().copied().find(|seed| seeds.contains(seed)) {
            return Err(ExperimentError::TunedSchemes(seed, seeds));
        }
        let settings_of = |scheme: &str| -> Result<BTreeMap<String, Value>, ExperimentError> {
            let settings = file["schemes"][scheme].clone();
            serde_json::from_value(settings)
                .map_err(|e| ExperimentError::TunedFile(name, Some(scheme.to_string()), e))
        };
        let names = (self.schemes)().into_iter().map(|scheme| scheme.name);
        names.map(|name| Ok(Scheme { name, settings: settings_of(name)? })).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_that_tuned_do_not_judge() {
        let settings = json!({"ecmp": {}, "letflow": {"gap_us": 1}, "hula": {}, "p4te": {}});
        let text = json!({"seeds": PAPER.seeds, "schemes": settings, "tried": [1]}).to_string();
        let tuned = PAPER.read(&text, &(1..=20).collect::<Vec<_>>()).expect("other seeds");
        assert_eq!((tuned.len(), &tuned[1].settings["gap_us"]), (4, &json!(1)));
        let error = PAPER.read(&text, &[999, 1000, 1001]).expect_err("the third has tuned").to_string();
        assert!(error.contains("seed 1001") && error.contains("--seed"), "{error}");
        assert!(PAPER.read("{}", &[1]).is_err_and(|e| e.to_string().contains("settings of ecmp")));
    }

    #[test]
    fn settings_of_the_grids_exist() {
        for tuning in [&PAPER, &TEN_GBIT] {
            for (name, setting, values) in tuning.grid {
                let scheme = (tuning.schemes)().into_iter().find(|s| s.name == *name).expect("a scheme");
                assert!(scheme.settings.contains_key(*setting) && values.len() > 1, "{name} {setting}");
            }
            assert!(
                tuning.tuned(&[1]).is_ok_and(|all| all.len() == (tuning.schemes)().len()),
                "{}",
                tuning.file
            );
        }
    }
}
