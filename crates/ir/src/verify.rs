//! Checks that a program is well formed.
use crate::Program;

/// Everything that is wrong with `program`, one message each; empty means that an executor can run it.
pub fn verify(_program: &Program) -> Vec<String> {
    Vec::new()
}
