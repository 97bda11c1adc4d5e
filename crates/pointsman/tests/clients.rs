//! Third-party P4Runtime controllers, unmodified, against a real `pointsman switch`: p4runtime-shell and finsy. The
//! tests themselves are Python (tests/clients); each test class gets its own switch, without interfaces.
//!
//! `support/python.rs` describes their requirements, and the behaviour without them.

use crate::support::python::Client;
use crate::support::{Scratch, Switch, assert_no_panic, file, finish, root, run};
use nix::sys::signal::Signal;
use std::process::Command;

const PROGRAM: &str = "tests/programs/controlled.p4";

/// Runs one class of tests against a fresh switch.
fn check(client: Client, class: &str) {
    let Some(python) = client.python(class) else { return };
    let dir = Scratch::new(class);
    let info = run(&["p4", "info", &file(PROGRAM)]);
    assert_eq!(info.code, Some(0), "{info:?}");
    let switch = Switch::start(&[]);
    let mut command = Command::new(python);
    command
        .args(["-m", "unittest", "--quiet", class])
        .current_dir(root().join("tests/clients"))
        .env("POINTSMAN_TARGET", switch.address.to_string())
        .env("POINTSMAN_P4INFO", dir.write("p4info.txtpb", info.stdout))
        .env("POINTSMAN_CONFIG", dir.write("config.p4", std::fs::read(file(PROGRAM)).unwrap()))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let python = finish(command);
    let switch = switch.stop(Signal::SIGTERM);
    assert_eq!(
        python.code,
        Some(0),
        "{}\n{}\nThe switch said:\n{}",
        python.stdout,
        python.stderr,
        switch.stderr
    );
    assert!(python.stderr.contains("\nOK"), "{}", python.stderr);
    assert!(!python.stderr.contains("Ran 0 tests"), "{}", python.stderr);
    assert_eq!(switch.code, Some(0), "{switch:?}");
    assert_no_panic(&switch);
}

#[test]
fn shell_tables() {
    check(Client::Shell, "test_shell.Tables");
}

#[test]
fn shell_other_entities_and_packets() {
    check(Client::Shell, "test_shell.Others");
}

#[test]
fn shell_batches() {
    check(Client::Shell, "test_shell.Batches");
}

#[test]
fn shell_sessions_and_pipelines() {
    check(Client::Shell, "test_shell.Sessions");
}

#[test]
fn shell_takeover() {
    check(Client::Shell, "test_shell.Takeover");
}

#[test]
fn finsy_connections() {
    check(Client::Finsy, "test_finsy.Connections");
}

#[test]
fn finsy_takeover() {
    check(Client::Finsy, "test_finsy.Takeover");
}

#[test]
fn finsy_entities() {
    check(Client::Finsy, "test_finsy.Entities");
}
