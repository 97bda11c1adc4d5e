//! Small scopes of RedPlane are without violations, and every rule that is switched off is found.

use pointsman_model::redplane::{Change, MUTATIONS, Mutation, Outcome, ProgramError, SCOPES, check};

fn scope(name: &str) -> &'static pointsman_model::redplane::Scope {
    SCOPES.iter().find(|s| s.name == name).unwrap_or_else(|| panic!("no scope {name}"))
}

fn print(name: &str, outcome: &Outcome) {
    println!(
        "{name}: {} states, {} actions, {} executions, complete: {}",
        outcome.states, outcome.steps, outcome.executions, outcome.complete
    );
    if let Some((wrong, lines)) = &outcome.violation {
        println!("{wrong}\n{}", lines.join("\n"));
    }
}

#[test]
fn small_scopes_have_no_violation() {
    for name in ["order", "ipv6", "objects", "restarts", "wrap", "readers", "two-writers", "chain-middle"] {
        let outcome = check(scope(name), None, |_| {}).expect("it runs");
        print(name, &outcome);
        assert!(outcome.complete && outcome.violation.is_none(), "{name}");
        assert!(outcome.states > 1_000, "{name}: {} states", outcome.states);
    }
}

#[test]
fn every_rule_that_is_switched_off_is_found() {
    let mut missed = Vec::new();
    for mutation in MUTATIONS {
        let outcome = check(scope(mutation.scope), Some(mutation), |_| {}).expect("it runs");
        print(mutation.name, &outcome);
        if outcome.violation.is_none() {
            missed.push(mutation.name);
        }
    }
    assert!(missed.is_empty(), "{missed:?} not found");
}

#[test]
fn a_mutation_whose_text_is_missing_is_an_error() {
    let missing = Mutation { change: Change::Library("no such text", ""), ..MUTATIONS[0] };
    let result = check(scope("restarts"), Some(&missing), |_| {});
    assert!(matches!(result, Err(ProgramError::Text(text)) if text == "no such text"));
}

#[test]
fn mutations_name_scopes_that_exist() {
    MUTATIONS.iter().for_each(|m| assert_eq!(scope(m.scope).name, m.scope));
    let names: std::collections::BTreeSet<_> = MUTATIONS.iter().map(|m| m.name).collect();
    assert_eq!(names.len(), MUTATIONS.len());
    for rule in 1..=10 {
        assert!(MUTATIONS.iter().any(|m| m.rule == format!("R{rule}")), "R{rule}");
    }
}
