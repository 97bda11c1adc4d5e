//! The front end with files and rendered diagnostics.

use crate::sources::Sources;
use pointsman_frontend::{Compiled, Define, Failure, render};

/// Compiles; the error holds the diagnostics as text.
pub fn compile(path: &str, text: &str, sources: &Sources, defines: &[Define]) -> Result<Compiled, String> {
    pointsman_frontend::compile(path, text, sources, defines)
        .map_err(|Failure { source_map, diagnostics }| render::all_to_text(&source_map, &diagnostics, false))
}
