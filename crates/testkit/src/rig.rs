//! A program from a file on a switch in virtual time.

pub use pointsman_stf::Rig;

use crate::error::ProgramError;
use pointsman_ir::Executor;
use pointsman_v1model::SwitchConfig;
use std::path::Path;

/// Compiles `path` and puts it on a switch with the executor `E`; `includes` are searched for `#include <...>`.
///
/// # Errors
/// The program does not compile, or the switch refuses it.
pub fn load<E: Executor>(
    path: &Path,
    includes: &[&Path],
    config: SwitchConfig,
) -> Result<Rig<E>, ProgramError> {
    Rig::on(crate::compile::compile(path, includes)?, config).map_err(ProgramError::Rig)
}
