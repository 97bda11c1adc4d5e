//! Simulations of the P4TE paper's network: schemes with their settings, workloads, loads, and what is measured.

use crate::bench::Bench;
use crate::error::{ExperimentError, Failed};
use crate::figure::{Evidence, ratios};
use pointsman_balance::ConfigErrors;
use pointsman_sim::network;
use pointsman_trials::network::points;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

/// What hosts send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Workload {
    /// Six sizes of web search.
    WebSearch,
    /// Six sizes of data mining.
    DataMining,
    /// 32 flows to one host.
    Incast,
}

impl Workload {
    /// The scenario without its sweep.
    pub fn base(self) -> Base {
        let (name, text) = match self {
            Workload::WebSearch => {
                ("fabric-paper.toml", include_str!("../../../../scenarios/fabric-paper.toml"))
            }
            Workload::DataMining => {
                ("fabric-paper-mining.toml", include_str!("../../../../scenarios/fabric-paper-mining.toml"))
            }
            Workload::Incast => {
                ("fabric-paper-incast.toml", include_str!("../../../../scenarios/fabric-paper-incast.toml"))
            }
        };
        // A sweep of its own, which comes last, makes room for another one.
        let (text, _) = text.split_once("[sweep]").unwrap_or((text, ""));
        Base { name: name.into(), text: text.into() }
    }
}

/// A scenario without a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Base {
    /// Its name in messages.
    pub name: String,
    /// Its text, which ends between two tables.
    pub text: String,
}

impl Base {
    /// With another number in one of its tables.
    #[must_use]
    pub fn with(mut self, path: &[&str], number: f64) -> Self {
        let mut document: toml::Table = self.text.parse().expect("scenarios of ours are TOML");
        let (name, tables) = path.split_last().expect("a path");
        let table = tables.iter().fold(&mut document, |table, name| {
            table.get_mut(*name).and_then(toml::Value::as_table_mut).expect("it has these tables")
        });
        assert!(
            table.insert((*name).to_string(), number.into()).is_some(),
            "{path:?} is a number of this scenario"
        );
        self.text = toml::to_string(&document).expect("it was TOML");
        self
    }
}

/// A scheme and those of its settings that are not the default.
#[derive(Clone, Debug, PartialEq)]
pub struct Scheme {
    /// Its name in scenarios.
    pub name: &'static str,
    /// Settings by name: numbers, or names as strings.
    pub settings: BTreeMap<String, Value>,
}

impl Scheme {
    /// With these settings.
    pub fn new(name: &'static str, settings: &[(&str, f64)]) -> Self {
        Scheme { name, settings: settings.iter().map(|(k, v)| ((*k).to_string(), (*v).into())).collect() }
    }

    /// With another value of a setting.
    #[must_use]
    pub fn with(mut self, setting: &str, value: impl Into<Value>) -> Self {
        self.settings.insert(setting.to_string(), value.into());
        self
    }

    /// As an inline table of a scenario.
    fn toml(&self) -> String {
        let mut text = format!("{{ name = \"{}\"", self.name);
        for (setting, value) in &self.settings {
            let _ = write!(text, ", {setting} = {value}");
        }
        text + " }"
    }
}

/// The runs of a scheme at a load.
pub type Runs = Arc<Vec<Value>>;

/// Simulates a scenario under each scheme at each load (none: as the scenario has it): by scheme, then load, the results of
/// each seed. What other figures have simulated is not simulated again.
///
/// # Errors
/// A simulation does not come up.
pub fn simulate(
    bench: &Bench,
    base: &Base,
    schemes: &[Scheme],
    loads: &[f64],
    seeds: &[u64],
) -> Result<Vec<Vec<Runs>>, Failed> {
    let key =
        |scheme: &Scheme, load: Option<f64>| format!("{} {} {load:?} {seeds:?}", base.text, scheme.toml());
    let places: Vec<Option<f64>> =
        if loads.is_empty() { vec![None] } else { loads.iter().copied().map(Some).collect() };
    let pairs: Vec<(&Scheme, Option<f64>)> =
        schemes.iter().flat_map(|s| places.iter().map(move |load| (s, *load))).collect();
    let missing: Vec<&(&Scheme, Option<f64>)> =
        pairs.iter().filter(|(s, load)| bench.flown(&key(s, *load)).is_none()).collect();
    let mut scenarios = Vec::new();
    for (scheme, load) in &missing {
        scenarios.extend(scenario(base, scheme, *load)?);
    }
    let points = points(scenarios, Path::new(""))?;
    for ((scheme, load), lines) in missing.iter().zip(bench.fly(&points, seeds)?) {
        bench.keep_flown(key(scheme, *load), lines);
    }
    let found = pairs.iter().map(|(s, load)| bench.flown(&key(s, *load)).unwrap_or_default());
    Ok(found.collect::<Vec<Runs>>().chunks(places.len()).map(<[Runs]>::to_vec).collect())
}

/// The scenario with this scheme and load.
pub(super) fn scenario(
    base: &Base,
    scheme: &Scheme,
    load: Option<f64>,
) -> Result<Vec<network::NetworkScenario>, ConfigErrors> {
    let load = load.map_or(String::new(), |load| format!("load = [{load}]\n"));
    let text = format!("{}[sweep]\nscheme = [{}]\n{load}", base.text, scheme.toml());
    let none = |name: &str| Err(ExperimentError::NoFile(name.to_string()).into());
    network::read(&base.name, &text, &none)
}

/// A class of flows, as the results have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Short flows.
    Short,
    /// Large ones.
    Large,
    /// Both.
    All,
}

/// A number of a class of flows in each run: `mean_ms`, `retransmitted` and so on.
pub fn of_class(runs: &[Value], class: Class, field: &str) -> Vec<f64> {
    let number = |run: &Value| run["fabric"]["fct"][class as usize][field].as_f64().unwrap_or(f64::NAN);
    runs.iter().map(number).collect()
}

/// A percentile of the times of a class in each run, a multiple of five.
pub fn percentile(runs: &[Value], class: Class, percent: usize) -> Vec<f64> {
    let of = |run: &Value| run["fabric"]["fct"][class as usize]["percentiles_ms"][percent / 5 - 1].as_f64();
    runs.iter().map(|run| of(run).unwrap_or(f64::NAN)).collect()
}

/// The share of flows that had not finished at the end, in the worst of these runs.
pub fn unfinished_percent(runs: &[Value]) -> f64 {
    let of = |run: &Value| {
        let count = |name: &str| run["fabric"]["flows"][name].as_f64().unwrap_or(0.0);
        100.0 * (1.0 - count("finished") / count("started").max(1.0))
    };
    runs.iter().map(of).fold(0.0, f64::max)
}

/// Evidence on two groups of runs with the same seeds.
pub fn paired(a: &[Value], b: &[Value], samples: Vec<f64>) -> Evidence {
    Evidence { samples, loss_percent: Some(unfinished_percent(a).max(unfinished_percent(b))) }
}

/// By how many per cent a number is larger in `a` than in `b`, seed by seed.
pub fn more_percent(a: &[Value], b: &[Value], of: impl Fn(&[Value]) -> Vec<f64>) -> Evidence {
    let samples = ratios(&of(a), &of(b)).iter().map(|r| 100.0 * (r - 1.0)).collect();
    paired(a, b, samples)
}

/// How many per cent of a number in `other` are not in `own`, seed by seed.
pub fn saved_percent(other: &[Value], own: &[Value], of: impl Fn(&[Value]) -> Vec<f64>) -> Evidence {
    let samples = ratios(&of(own), &of(other)).iter().map(|r| 100.0 * (1.0 - r)).collect();
    paired(other, own, samples)
}

/// For each run, the largest standard deviation of packets over the uplinks of a leaf.
pub fn spread(runs: &[Value]) -> Vec<f64> {
    let of = |run: &Value| {
        let mut leaves: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for port in run["fabric"]["uplinks"].as_array().into_iter().flatten() {
            let (switch, packets) = (port["switch"].as_str(), port["packets"].as_f64());
            leaves.entry(switch.unwrap_or_default()).or_default().push(packets.unwrap_or(0.0));
        }
        leaves.values().map(|packets| deviation(packets)).fold(0.0, f64::max)
    };
    runs.iter().map(of).collect()
}

/// Standard deviation of all there are.
fn deviation(values: &[f64]) -> f64 {
    let n = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / n;
    (values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::published::schemes as published;
    use serde_json::json;

    #[test]
    fn scenarios_take_every_scheme() {
        for workload in [Workload::WebSearch, Workload::DataMining] {
            for scheme in published() {
                let found = scenario(&workload.base(), &scheme, Some(0.6)).expect("a scenario");
                assert_eq!(found.len(), 1, "{scheme:?}");
            }
        }
        assert!(scenario(&Workload::Incast.base(), &published()[0], None).is_ok_and(|s| s.len() == 1));
        assert!(scenario(&Workload::Incast.base(), &Scheme::new("ecmp", &[("gap_us", 1.0)]), None).is_err());
    }

    #[test]
    fn measures() {
        let port = |switch: &str, packets: u32| json!({"switch": switch, "packets": packets});
        let run = json!({"fabric": {
            "flows": {"started": 200, "finished": 198},
            "fct": [{"mean_ms": 30.0, "percentiles_ms": (1..20).collect::<Vec<_>>()}],
            "uplinks": [port("a", 1), port("a", 3), port("b", 10), port("b", 20)],
        }});
        let other =
            json!({"fabric": {"flows": {"started": 200, "finished": 200}, "fct": [{"mean_ms": 20.0}]}});
        let (runs, others) = ([run], [other]);
        assert_eq!(spread(&runs), [5.0]);
        assert!((unfinished_percent(&runs) - 1.0).abs() < 1e-9);
        assert_eq!(percentile(&runs, Class::Short, 95), [19.0]);
        let more = more_percent(&runs, &others, |r| of_class(r, Class::Short, "mean_ms"));
        assert_eq!(more.samples, [50.0]);
        assert!(more.loss_percent.is_some_and(|l| (l - 1.0).abs() < 1e-9));
        assert!(of_class(&runs, Class::Large, "mean_ms")[0].is_nan(), "nothing is made up");
    }
}
