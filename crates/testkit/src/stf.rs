//! Packet tests of programs on disk; see [`pointsman_stf`].

pub use pointsman_stf::{Report, StfError};

use pointsman_ir::Executor;
use pointsman_v1model::SwitchConfig;
use std::path::Path;

/// Runs a test against the program at `path` with the executor `E`; `includes` are searched for `#include`. An error is what kept the test from
/// being run: a program that does not compile, a line that is not understood.
pub fn run_stf<E: Executor>(path: &Path, includes: &[&Path], stf: &str) -> Result<Report, String> {
    run_stf_with::<E>(path, includes, &[], stf)
}

/// The same with macros, as the arguments of `-D`.
pub fn run_stf_with<E: Executor>(
    path: &Path,
    includes: &[&Path],
    macros: &[&str],
    stf: &str,
) -> Result<Report, String> {
    let lines = pointsman_stf::parse(stf).map_err(|e| e.to_string())?;
    let program = crate::compile::compile_with(path, includes, macros)?;
    let rig = crate::rig::Rig::<E>::on(program, SwitchConfig::default());
    let mut rig = rig.map_err(|e| e.to_string())?;
    pointsman_stf::run(&mut rig, &lines).map_err(|e| e.to_string())
}
