//! Bytes as a program: `compile` returns a program that every later stage accepts, or helpful diagnostics.

use crate::loader::Builtin;
use pointsman_frontend::diag::{Diagnostic, Severity};
use pointsman_frontend::source::SourceMap;
use pointsman_frontend::{compile, render};
use pointsman_v1model::Pipeline;

/// The verifier found what the compiler should have: a mistake of ours, unless it is about a limit.
fn inspect(map: &SourceMap, diagnostics: &[Diagnostic]) {
    for d in diagnostics {
        let limit = ["more than", "deeper"].iter().any(|w| d.message.contains(w));
        assert!(d.code != "P0903" || limit, "{}", d.message);
        // Syntax errors are plain from the place; all others need a remedy.
        let plain = d.severity != Severity::Error || d.code < "P03";
        assert!(plain || d.help.is_some() || !d.label.is_empty(), "no help: {} {}", d.code, d.message);
    }
    render::all_to_text(map, diagnostics, false);
    render::all_to_text(map, diagnostics, true);
    diagnostics.iter().for_each(|d| drop(render::to_json(map, d)));
}

/// One program.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match compile("main.p4", &text, &Builtin(&text), &[]) {
        Ok(compiled) => {
            inspect(&compiled.source_map, &compiled.warnings);
            // Both may refuse; neither may panic.
            let _ = pointsman_control::p4info::p4info(&compiled.program);
            let _ = pointsman_ir::text::print(&compiled.program);
            let _ = Pipeline::load(compiled.program);
        }
        Err(failure) => {
            assert!(
                failure.diagnostics.iter().any(|d| d.severity == Severity::Error),
                "refused without an error"
            );
            inspect(&failure.source_map, &failure.diagnostics);
        }
    }
}
