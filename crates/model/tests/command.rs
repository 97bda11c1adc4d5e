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
        "scope": "restarts", "states": states, "complete": true, "violations": 0
    });
    assert_eq!(result, expected);
    assert_eq!(exit(&["redplane", "--mutate", "no-drift", "--json", file]), code(1));
    let result = read();
    assert_eq!((&result["scope"], &result["complete"]), (&"leases".into(), &false.into()));
    assert_eq!(result["violations"], 1);
    std::fs::remove_file(&path).expect("removed");
}

#[test]
fn bad_input_has_an_exit_code_of_its_own() {
    let json = "/nowhere/result.json";
    assert_eq!(exit(&["redplane", "--scope", "everything", "--json", json]), code(2));
    assert_eq!(exit(&["redplane", "--mutate", "R99", "--json", json]), code(2));
    assert_eq!(exit(&["redplane", "--json", json]), code(2));
    assert_eq!(exit(&["redplane", "--list"]), code(0));
    let missing = Cli::try_parse_from(["model", "redplane"]).err().expect("no file is named");
    assert_eq!(missing.exit_code(), 2);
}
