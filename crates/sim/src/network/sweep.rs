//! The table `[sweep]` of a network: schemes and loads, of which each pair is a simulation of its own.

use super::flows::LOADS;
use super::{NetworkScenario, Starts, Work};
use pointsman_fabric::{Choice, Level};
use pointsman_topology::reader::{At, Place, Problems, Table};

/// Most points of a sweep.
const MOST_POINTS: usize = 10_000;

/// The values of each axis; empty ones are not swept.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    place: Place,
    schemes: Vec<At<Choice>>,
    loads: Vec<At<f64>>,
}

/// Reads `[sweep]`. A scheme is a name, or a table as `[scheme]`.
pub(super) fn read(mut t: Table<'_, '_>, problems: &mut Problems<'_>) -> Sweep {
    let place = t.place.clone();
    let mut schemes: Vec<At<Choice>> = Vec::new();
    let field = t.field("scheme");
    let listed = t.names_or_tables("scheme", problems);
    if listed.as_ref().is_some_and(Vec::is_empty) {
        problems.add(&t.place_of("scheme"), &field, "write one scheme or more, or omit this");
    }
    for scheme in listed.unwrap_or_default() {
        match scheme {
            Ok(name) => {
                let found = Choice::find(&name, &field, problems);
                schemes.extend(found.map(|value| At { value, place: name.place }));
            }
            Err(table) => {
                let place = table.place.clone();
                schemes.extend(Choice::read(table, problems).map(|value| At { value, place }));
            }
        }
    }
    problems.twice(&schemes, &field);
    let before = problems.count();
    let loads = t.numbers("load", LOADS.0, LOADS.1, problems);
    if problems.count() == before && loads.as_ref().is_some_and(Vec::is_empty) {
        problems.add(&t.place_of("load"), t.field("load"), "write one load or more, or omit this");
    }
    let loads = loads.unwrap_or_default();
    problems.twice(&loads, &t.field("load"));
    let points = schemes.len().max(1) * loads.len().max(1);
    if points > MOST_POINTS {
        problems.add(&place, "sweep", format!("{points} points: at most {MOST_POINTS}; split the sweep"));
    }
    t.finish(problems);
    Sweep { place, schemes, loads }
}

impl Sweep {
    /// Whether it has schemes.
    pub fn has_schemes(&self) -> bool {
        !self.schemes.is_empty()
    }

    /// The schemes, each with its place.
    pub fn schemes(&self) -> &[At<Choice>] {
        &self.schemes
    }

    /// The scenario at every point, those of one scheme together.
    pub fn points(&self, base: NetworkScenario, problems: &mut Problems<'_>) -> Vec<NetworkScenario> {
        let poisson = matches!(&base.work, Work::Flows(f) if matches!(f.starts, Starts::Poisson { .. }));
        if let Some(load) = self.loads.first().filter(|_| !poisson) {
            problems.add(&load.place, "sweep.load", "there are no flows that start at a load: omit this");
            return Vec::new();
        }
        if base.program.is_some() && self.schemes.len() > 1 {
            problems.add(&self.place, "sweep.scheme", "the program comes from a file: omit one of the two");
            return Vec::new();
        }
        let mut choices: Vec<Choice> = self.schemes.iter().map(|s| s.value.clone()).collect();
        if choices.is_empty() {
            choices.push(base.choice.clone());
        }
        let mut out = Vec::new();
        for choice in choices {
            let mut scenario = NetworkScenario { choice, ..base.clone() };
            if self.has_schemes() {
                scenario.point = words(&scenario.choice);
            }
            if self.loads.is_empty() {
                out.push(scenario.clone());
            }
            for load in &self.loads {
                out.push(at_load(scenario.clone(), load.value));
            }
        }
        out
    }
}

/// A scheme as a point: its name, and the settings that are not as usual.
fn words(choice: &Choice) -> Vec<(String, String)> {
    let text = |(name, level): (&str, Level)| (name.to_string(), level.to_string());
    let mut out: Vec<(String, String)> = choice.unusual().map(text).collect();
    out.push(("scheme".into(), choice.scheme.name.into()));
    out.sort();
    out
}

fn at_load(mut scenario: NetworkScenario, value: f64) -> NetworkScenario {
    if let Work::Flows(flows) = &mut scenario.work
        && let Starts::Poisson { load, .. } = &mut flows.starts
    {
        *load = value;
    }
    scenario.point.push(("load".into(), value.to_string()));
    scenario.point.sort();
    scenario
}
