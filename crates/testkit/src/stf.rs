//! Packet tests of programs on disk; see [`pointsman_stf`].

pub use pointsman_stf::{Report, StfError};

use crate::error::ProgramError;
use pointsman_ir::Executor;
use std::path::Path;

/// Runs a test against the program at `path` with the executor `E`; `includes` are searched for `#include`.
///
/// # Errors
/// What kept the test from being run: a program that does not compile, a line that is not understood.
pub fn run_stf<E: Executor>(path: &Path, includes: &[&Path], stf: &str) -> Result<Report, ProgramError> {
    run_stf_with::<E>(path, includes, &[], stf)
}

/// The same with macros, as the arguments of `-D`.
///
/// # Errors
/// As of [`run_stf`].
pub fn run_stf_with<E: Executor>(
    path: &Path,
    includes: &[&Path],
    macros: &[&str],
    stf: &str,
) -> Result<Report, ProgramError> {
    let lines = pointsman_stf::parse(stf).map_err(ProgramError::Test)?;
    let program = crate::compile::compile_with(path, includes, macros)?;
    let rig = crate::rig::Rig::<E>::on(program, pointsman_stf::config(&lines));
    let mut rig = rig.map_err(ProgramError::Rig)?;
    pointsman_stf::run(&mut rig, &lines).map_err(ProgramError::Test)
}
