//! The command: results and bad input.

use clap::Parser;
use pointsman_model::{Command, run};
use std::process::ExitCode;

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The exit code, which can only be compared as text.
fn exit(arguments: &[&str]) -> String {
    let cli = Cli::try_parse_from([&["model"], arguments].concat()).expect("flags");
    format!("{:?}", run(cli.command).expect("it runs"))
}

fn code(code: u8) -> String {
    format!("{:?}", ExitCode::from(code))
}

#[test]
fn results_are_files() {
    let path = std::env::temp_dir().join(format!("pointsman-model-{}.json", std::process::id()));
    let file = path.to_str().expect("a name");
    let read = || -> serde_json::Value {
        let text = std::fs::read_to_string(&path).expect("a result");
        serde_json::from_str(&text).expect("JSON")
    };
    assert_eq!(exit(&["redplane", "--scope", "restarts", "--json", file]), code(0));
    let result = read();
    let states = result["states"].as_u64().expect("a number");
    let expected = serde_json::json!({
        "schema": 1, "scope": "restarts", "mutation": null, "states": states, "complete": true,
        "violations": 0, "violation": null
    });
    assert_eq!(result, expected);
    assert_eq!(exit(&["redplane", "--mutate", "no-drift", "--json", file]), code(1));
    let result = read();
    assert_eq!((&result["scope"], &result["complete"]), (&"leases".into(), &false.into()));
    assert_eq!((&result["violations"], &result["mutation"]), (&1.into(), &"no-drift".into()));
    let violation = &result["violation"];
    assert_eq!(violation["property"], "linearizable", "{violation}");
    assert!(violation["actions"].as_array().is_some_and(|lines| lines.len() > 2), "{violation}");
    assert!(violation["why"].as_str().is_some_and(|why| !why.is_empty()), "{violation}");
    std::fs::remove_file(&path).expect("removed");
}

#[test]
fn bad_input_has_an_exit_code_of_its_own() {
    let json = "/nowhere/result.json";
    assert_eq!(exit(&["redplane", "--scope", "everything", "--json", json]), code(2));
    assert_eq!(exit(&["redplane", "--mutate", "R99", "--json", json]), code(2));
    assert_eq!(exit(&["redplane", "--json", json]), code(2));
    // Rules that the scope's program does not have.
    for (scope, rule) in [("order", "present-values"), ("snapshots", "early-output")] {
        let path = std::env::temp_dir().join(format!("pointsman-model-{scope}-{}.json", std::process::id()));
        let file = path.to_str().expect("a name");
        assert_eq!(exit(&["redplane", "--scope", scope, "--mutate", rule, "--json", file]), code(2));
        let _ = std::fs::remove_file(&path);
    }
    assert_eq!(exit(&["redplane", "--list"]), code(0));
    let missing = Cli::try_parse_from(["model", "redplane"]).err().expect("no file is named");
    assert_eq!(missing.exit_code(), 2);
}
