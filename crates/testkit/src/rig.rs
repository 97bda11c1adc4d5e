//! A program from a file on a switch in virtual time.

pub use pointsman_stf::Rig;

use pointsman_v1model::SwitchConfig;
use std::path::Path;

/// Compiles `path` and puts it on a switch; `includes` are searched for `#include <...>`.
pub fn load(path: &Path, includes: &[&Path], config: SwitchConfig) -> Result<Rig, String> {
    Rig::new(crate::compile::compile(path, includes)?, config)
}
