//! All cases, in the order in which they run, and their limits.

mod control;
mod files;
mod frames;
mod processes;

use crate::case::{Case, Limits, Moment};
use std::fmt;
use std::time::Duration;

/// Nothing is noticed: no request is lost, nothing grows.
pub(crate) const NOTHING: Limits = Limits {
    standing_lost: Some(0),
    new_tcp_lost: Some(0),
    new_udp_lost: Some(0),
    violations: Some(0),
    // The resolution of requests every 0.2 s with a timeout of 1 s.
    recovery: Some(Duration::from_secs(1)),
    stuck: Some(Duration::from_secs(1)),
    control_gap: Some(Duration::from_millis(1500)),
    memory_mb: Some(64.0),
    log_bytes: Some(64_000),
    added_p999: None,
};

/// The common part of most cases.
pub(crate) const BASE: Case = Case {
    name: "",
    about: "",
    quick: false,
    controllers: 1,
    steps: &[],
    storm: None,
    lasts: Duration::from_secs(3),
    recovers_from: Moment::End,
    hits: &[],
    checks: &[],
    limits: NOTHING,
};

/// Where descriptions are cut off: the part before is a valid one.
pub(crate) const CUTS: [&str; 2] = ["[[service]]", "[[server]]\nname = \"s2\""];

/// A number of milliseconds as a limit.
const fn ms(milliseconds: u64) -> Option<Duration> {
    Some(Duration::from_millis(milliseconds))
}

/// Every case.
pub fn all() -> impl Iterator<Item = &'static Case> {
    processes::CASES.iter().chain(frames::CASES).chain(files::CASES).chain(control::CASES)
}

/// Why there are no cases to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChooseError {
    /// No case has this name.
    Unknown(String),
    /// None of these cases is a quick one.
    NotQuick(Vec<String>),
}

impl fmt::Display for ChooseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChooseError::Unknown(name) => {
                write!(f, "unknown case `{name}`: `pointsman siege --list` shows all {}", all().count())
            }
            ChooseError::NotQuick(names) => {
                write!(f, "{} is not part of --quick: leave one of the two out", names.join(", "))
            }
        }
    }
}

impl std::error::Error for ChooseError {}

/// The cases of these names, or all; with `quick` only those that belong to it.
///
/// # Errors
/// A name that no case has, or no case is left.
pub fn choose(names: &[String], quick: bool) -> Result<Vec<&'static Case>, ChooseError> {
    if let Some(unknown) = names.iter().find(|n| !all().any(|c| c.name == **n)) {
        return Err(ChooseError::Unknown(unknown.clone()));
    }
    let mut chosen: Vec<&Case> = all()
        .filter(|c| names.is_empty() || names.iter().any(|n| n == c.name))
        .filter(|c| !quick || c.quick)
        .collect();
    if chosen.is_empty() {
        return Err(ChooseError::NotQuick(names.to_vec()));
    }
    // Racks of one kind together: they are built less often.
    chosen.sort_by_key(|c| (c.controllers, c.storm.is_some()));
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn cases_are_many_and_named_once() {
        let names: BTreeSet<&str> = all().map(|c| c.name).collect();
        assert_eq!(names.len(), all().count());
        assert!(names.len() >= 40, "{}", names.len());
        assert!(all().filter(|c| c.quick).count() >= 12);
        for case in all() {
            assert!(case.about.ends_with('.') && case.name.len() <= 28, "{}", case.name);
            assert!(
                case.steps.is_empty() == case.storm.is_some() && case.steps.is_sorted_by_key(|(at, _)| *at),
                "{}",
                case.name
            );
        }
    }

    #[test]
    fn the_documentation_has_every_case() {
        let page = include_str!("../../../../docs/reliability.md");
        for case in all() {
            assert!(page.contains(&format!("| `{}` | {} |", case.name, case.about)), "{}", case.name);
        }
        assert_eq!(page.matches("\n| `").count(), all().count());
    }

    #[test]
    fn names_are_chosen() {
        let named = |n: &str| choose(&[n.to_string()], false);
        assert_eq!(named("arp-spoof").map(|c| c.len()), Ok(1));
        assert!(named("no-such").unwrap_err().to_string().contains("--list"));
        assert!(choose(&["arp-flood".into()], true).is_err());
    }
}
