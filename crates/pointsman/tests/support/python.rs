//! Python environments with third-party P4Runtime controllers, and one with an environment for learners.
//!
//! The controllers need different versions of protobuf, so each has its own:
//!
//! | environment | made from | where | override |
//! |---|---|---|---|
//! | p4runtime-shell | tests/clients/requirements.txt | `.venv` | `POINTSMAN_PYTHON` |
//! | Gymnasium, which learns in simulations | tests/clients/requirements-gymnasium.txt | `.venv-gymnasium` | `POINTSMAN_PYTHON_GYMNASIUM` |
//! | finsy | tests/clients/requirements-finsy.txt | `.venv-finsy` | `POINTSMAN_PYTHON_FINSY` |
//!
//! (The variables name Python interpreters.) If one is missing, its tests print a line with SKIP; with
//! `POINTSMAN_REQUIRE_CLIENTS=1` they fail.

use super::{root, tell};
use std::path::PathBuf;

/// An environment with one of the clients.
#[derive(Clone, Copy)]
#[allow(dead_code, reason = "each test uses its own")]
pub enum Client {
    Shell,
    Finsy,
    Gymnasium,
}

impl Client {
    /// Its interpreter; `None`, after a message, if it is not installed.
    pub fn python(self, who: &str) -> Option<PathBuf> {
        let (variable, environment, requirements) = match self {
            Client::Shell => ("POINTSMAN_PYTHON", ".venv", "requirements.txt"),
            Client::Gymnasium => {
                ("POINTSMAN_PYTHON_GYMNASIUM", ".venv-gymnasium", "requirements-gymnasium.txt")
            }
            Client::Finsy => ("POINTSMAN_PYTHON_FINSY", ".venv-finsy", "requirements-finsy.txt"),
        };
        let path = std::env::var_os(variable)
            .map_or_else(|| root().join(environment).join("bin/python3"), PathBuf::from);
        if path.exists() {
            return Some(path);
        }
        let remedy = format!(
            "python3 -m venv {environment} && {environment}/bin/pip install -r tests/clients/{requirements}"
        );
        let required = std::env::var_os("POINTSMAN_REQUIRE_CLIENTS").is_some();
        assert!(!required, "{who}: {} is missing; make it: {remedy}", path.display());
        tell(&format!("SKIP: {who}: {} is missing; to run it: {remedy}", path.display()));
        None
    }
}
