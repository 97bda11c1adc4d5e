//! Settings of schemes, tuned by one procedure on seeds that judge nothing.
//!
//! The settings of a scheme are taken in the order of [`GRID`], one after the other. Of the values of a setting, with the others as they are,
//! the one is kept with the least slowdown: the mean over all flows, over both workloads at a load of 60 %, and over [`SEEDS`].

use super::run::{Class, PACKET_KIB, Scheme, Workload, of_class, published, simulate};
use crate::bench::Bench;
use Level::{Name, Number};
use pointsman_trials::stats::mean;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Seeds that tune.
const SEEDS: [u64; 4] = [1001, 1002, 1003, 1004];
/// The load at which settings are tuned.
const LOAD: f64 = 0.6;

/// A value of a setting.
#[derive(Clone, Copy)]
enum Level {
    Number(f64),
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

/// The result of the last run of [`tune`].
const TUNED: &str = include_str!("tuned.json");

/// Tunes all schemes: a file for `tuned.json`.
///
/// # Errors
/// A simulation does not come up.
pub fn tune(bench: &Bench) -> Result<String, String> {
    let mut schemes = Map::new();
    let mut tried = Vec::new();
    for mut scheme in published() {
        let name = scheme.name;
        for (_, setting, values) in GRID.iter().filter(|(of, ..)| *of == name) {
            let mut best: Option<(f64, Level)> = None;
            for value in *values {
                let candidate = scheme.clone().with(setting, *value);
                let slowdown = slowdown(bench, &candidate)?;
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
    let file = json!({"seeds": SEEDS, "load": LOAD, "schemes": schemes, "tried": tried});
    serde_json::to_string_pretty(&file).map(|text| text + "\n").map_err(|e| e.to_string())
}

fn slowdown(bench: &Bench, scheme: &Scheme) -> Result<f64, String> {
    let mut samples = Vec::new();
    for workload in [Workload::WebSearch, Workload::DataMining] {
        let runs = simulate(bench, workload, std::slice::from_ref(scheme), &[LOAD], &SEEDS)?;
        let lines = runs.iter().flatten();
        samples.extend(lines.flat_map(|runs| of_class(runs, Class::All, "slowdown_mean")));
    }
    Ok(mean(&samples).mean)
}

/// Whether [`tune`] has written `tuned.json`. Until then the schemes have the paper's settings.
pub fn is_tuned() -> bool {
    tried(TUNED)
}

fn tried(text: &str) -> bool {
    let file: Value = serde_json::from_str(text).unwrap_or_default();
    file["tried"].as_array().is_some_and(|tried| !tried.is_empty())
}

/// The tuned schemes.
///
/// # Errors
/// One of these seeds has tuned them; or the file is not one of [`tune`]'s.
pub fn tuned(judging: &[u64]) -> Result<Vec<Scheme>, String> {
    read(TUNED, judging)
}

fn read(text: &str, judging: &[u64]) -> Result<Vec<Scheme>, String> {
    let file: Value = serde_json::from_str(text).map_err(|e| format!("tuned.json: {e}"))?;
    let seeds: Vec<u64> = file["seeds"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
    if let Some(twice) = judging.iter().find(|seed| seeds.contains(seed)) {
        return Err(format!(
            "seed {twice} has tuned the schemes and cannot judge them: choose seeds without {seeds:?} by --seed and --seeds"
        ));
    }
    let settings_of = |name: &str| -> Result<BTreeMap<String, Value>, String> {
        let settings = file["schemes"][name].clone();
        serde_json::from_value(settings).map_err(|e| format!("tuned.json: settings of {name}: {e}"))
    };
    let names = published().into_iter().map(|scheme| scheme.name);
    names.map(|name| Ok(Scheme { name, settings: settings_of(name)? })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_that_tuned_do_not_judge() {
        let settings = json!({"ecmp": {}, "letflow": {"gap_us": 1}, "hula": {}, "p4te": {}});
        let text = json!({"seeds": SEEDS, "schemes": settings, "tried": [1]}).to_string();
        let tuned = read(&text, &(1..=20).collect::<Vec<_>>()).expect("other seeds");
        assert_eq!((tuned.len(), &tuned[1].settings["gap_us"]), (4, &json!(1)));
        assert!(tried(&text) && !tried("{}"));
        let error = read(&text, &[999, 1000, 1001]).expect_err("the third has tuned");
        assert!(error.contains("seed 1001") && error.contains("--seed"), "{error}");
        assert!(read("{}", &[1]).is_err_and(|e| e.contains("settings of ecmp")));
    }

    #[test]
    fn settings_of_the_grid_exist() {
        for (name, setting, values) in GRID {
            let scheme = published().into_iter().find(|s| s.name == *name).expect("a scheme");
            assert!(scheme.settings.contains_key(*setting) && values.len() > 1, "{name} {setting}");
        }
    }
}
