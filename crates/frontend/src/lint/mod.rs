//! Warnings about programs that are right, but hardly what their author means.
//!
//! Each warning has a code and a name; `@noWarn("name")` in front of a declaration, a state or a block silences it there.
//! The names are those of p4c where it has the same warning. Files that are included as `<...>` are not looked at: they
//! belong to an architecture, which declares more than a program uses.

mod blocks;
mod bounds;
mod elements;
mod endless;
mod facts;
mod flow;
mod headers;
mod indices;
mod quiet;
mod reads;
mod state;
mod unused;
mod valid;

use crate::ast;
use crate::check::tree::Tree;
use crate::diag::{Diagnostic, Severity};
use crate::source::SourceMap;
use pointsman_ir::Span;

pub use quiet::silence;

/// Something is never used.
pub const UNUSED: &str = "P0701";
/// A value is read that nothing set.
pub const UNINITIALISED: &str = "P0702";
/// Statements or states that are never reached.
pub const UNREACHABLE: &str = "P0703";
/// A `select` that may match nothing.
pub const NO_DEFAULT: &str = "P0704";
/// A declaration hides another.
pub const SHADOW: &str = "P0705";
/// An `out` parameter that is not set.
pub const OUT_NOT_SET: &str = "P0706";
/// A field of a header that cannot be valid.
pub const INVALID_HEADER: &str = "P0707";
/// A parser state that is entered again and again.
pub const ENDLESS: &str = "P0708";
/// A field is read of a header that may be invalid.
pub const MAYBE_INVALID: &str = "P0709";

/// An index that may be larger than its array.
pub const INDEX: &str = "P0710";

/// The name of a warning for `@noWarn`, by its code.
pub fn name(code: &str) -> Option<&'static str> {
    Some(match code {
        UNUSED => "unused",
        UNINITIALISED => "uninitialized_use",
        UNREACHABLE => "unreachable",
        NO_DEFAULT => "no_default",
        SHADOW => "shadow",
        OUT_NOT_SET => "uninitialized_out_param",
        INVALID_HEADER | MAYBE_INVALID => "invalid_header",
        ENDLESS => "endless_loop",
        INDEX => "index_out_of_range",
        "P0415" => "deprecated",
        "P0502" => "overflow",
        "P0505" => "missing",
        "P0509" => "duplicate",
        "P0606" => "parser-transition",
        "P0608" => "unreachable",
        "P0605" => "priorities",
        _ => return None,
    })
}

pub use unused::select_default;

/// Looks at a program without errors.
pub fn lint(tree: &mut Tree, program: &ast::Program, sources: &SourceMap, diagnostics: &mut Vec<Diagnostic>) {
    let own = own_files(sources);
    let is_own =
        |span: Span| own.get(span.file as usize).copied().unwrap_or(false) && own_marker(sources, span);
    let mut found = Vec::new();
    unused::lint(tree, program, &is_own, &mut found);
    blocks::lint(tree, &is_own, &mut found);
    endless::lint(tree, &mut found);
    found.retain(|d: &Diagnostic| is_own(d.span));
    found.sort_by_key(|d| (d.span.file, d.span.lo, d.code));
    found.dedup_by(|a, b| a.span == b.span && a.code == b.code);
    diagnostics.extend(found);
    // The checker says these of every file.
    let everywhere = |d: &Diagnostic| matches!(d.code, SHADOW | NO_DEFAULT) && d.severity != Severity::Error;
    diagnostics.retain(|d| !everywhere(d) || is_own(d.span));
}

/// Which files are the program's own: included as `"..."`, and found next to an own file rather than in a folder of
/// includes.
fn own_files(sources: &SourceMap) -> Vec<bool> {
    let mut out: Vec<bool> = Vec::with_capacity(sources.files.len());
    for file in &sources.files {
        let own = match file.included_from {
            None => true,
            Some(from) => {
                // The span ends with the name.
                let quoted = !sources.text(from).trim_end().ends_with('>');
                beside(sources.path(from), &file.path)
                    && quoted
                    && out.get(from.file as usize).copied().unwrap_or(false)
            }
        };
        out.push(own);
    }
    out
}

/// In text that was preprocessed elsewhere, line markers name the included files. Its main file is the first one named.
fn own_marker(sources: &SourceMap, span: Span) -> bool {
    let first = sources.files.get(span.file as usize).and_then(|f| f.markers.first());
    first.is_none_or(|main| beside(&main.path, sources.path(span)))
}

/// Whether the file `path` is in the folder of the file `including`, or below.
fn beside(including: &str, path: &str) -> bool {
    match including.rfind('/') {
        Some(end) => path.starts_with(&including[..=end]),
        None => !path.starts_with(['/', '<']),
    }
}
