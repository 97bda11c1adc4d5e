//! The integration tests of this crate: one program, because each costs a link. Every file here is a module of it.

mod control;
mod hostile;
mod p4utils;
mod tutorials;

use pointsman_emulate::fields::Problems;
use pointsman_emulate::plan::Plan;
use pointsman_emulate::read::read;

/// A topology without problems.
fn plan(text: &str) -> Plan {
    read(text).unwrap_or_else(|problems| panic!("{}", shown(&problems)))
}

fn shown(problems: &Problems) -> String {
    problems.iter().map(|p| format!("{p}\n")).collect()
}

/// The problems of a topology: each has to contain one of these texts, in this order, and there are no others.
fn refused(text: &str, wanted: &[&str]) {
    let problems = read(text).map(|_| ()).expect_err(text);
    let all = shown(&problems);
    assert_eq!(problems.len(), wanted.len(), "{text}\n{all}");
    for (problem, want) in problems.iter().zip(wanted) {
        assert!(problem.to_string().contains(want), "{text}\nhas no `{want}`:\n{all}");
    }
}
