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
//! (The variables name Python interpreters.) If one is missing, its tests are skipped.

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
        let environment = match self {
            Client::Shell => "",
            Client::Finsy => "finsy",
            Client::Gymnasium => "gymnasium",
        };
        pointsman_needs::python(who, environment)
    }
}
