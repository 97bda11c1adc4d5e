//! Topology files: the text in, a [`Plan`] or its problems out. Reads no files.

mod links;
mod names;
mod p4utils;
mod place;
mod tutorials;

use crate::fields::{Part, Problem, Problems};
use crate::json::Json;
use crate::plan::Plan;
use pointsman_topology::{Builder, Mistake};
use std::collections::BTreeSet;

/// More nodes do not run on one machine: each switch has threads, and each link two interfaces.
const MOST_SWITCHES: usize = 128;
const MOST_HOSTS: usize = 1024;
const MOST_LINKS: usize = 4096;

/// No topology file is longer, in bytes.
pub const LONGEST: u64 = 16 << 20;

/// Reads a topology file of p4lang/tutorials (`hosts`, `switches`, `links`) or of p4-utils (`topology` with these).
///
/// # Errors
/// All problems that were found.
pub fn read(text: &str) -> Result<Plan, Problems> {
    let whole = |what: String| vec![Problem { place: String::new(), what }];
    let json = Json::parse(text).map_err(|e| whole(format!("is not JSON: {e}")))?;
    let Json::Map(map) = &json else {
        return Err(whole(format!("is {}: write an object with hosts, switches and links", json.kind())));
    };
    let has = |key: &str| map.iter().any(|(k, _)| k == key);
    let mut problems = Problems::new();
    let plan = if has("nodes") && has("links") {
        let what =
            "is the graph that p4-utils writes for controllers: give the p4app.json that it was made from";
        return Err(whole(what.to_string()));
    } else if has("topology") {
        p4utils::read(&Part::whole(&json), &mut problems)
    } else {
        tutorials::read(&Part::whole(&json), &mut problems)
    };
    match plan {
        Some(plan) if problems.is_empty() => Ok(plan),
        _ => Err(problems),
    }
}

/// Reports that there are too many nodes or links.
fn too_many(part: &Part<'_>, what: &str, n: usize, most: usize, problems: &mut Problems) -> bool {
    if n > most {
        part.problem(format!("has {n} {what}: at most {most} run on one machine"), problems);
    }
    n > most
}

/// What is wrong with a network, in the words of these files.
fn remedy(mistake: &Mistake) -> String {
    match mistake {
        Mistake::Unconnected(name) => format!("{name} has no link: add one, or remove {name}"),
        Mistake::NoSuchNode(name) => {
            format!("no switch or host is called `{name}`: correct the name, or add it")
        }
        other => other.to_string(),
    }
}

/// Whether a mistake only follows from another problem: the node is in the file, and what is wrong with it is reported there.
fn follows(mistake: &Mistake, known: &BTreeSet<&str>) -> bool {
    matches!(mistake, Mistake::NoSuchNode(name) if known.contains(name.as_str()))
}

/// Finishes a network.
fn finish(builder: Builder, problems: &mut Problems) -> Option<pointsman_topology::Topology> {
    match builder.finish() {
        Ok(topology) => Some(topology),
        // What follows from other problems is not reported.
        Err(_) if !problems.is_empty() => None,
        Err(mistake) => {
            problems.push(Problem { place: "links".into(), what: remedy(&mistake) });
            None
        }
    }
}
