//! Diagnostics as the protocol has them.

use crate::World;
use crate::analysis::{Program, uri_of};
use crate::documents::Open;
use crate::position::Encoding;
use pointsman_frontend::diag::{Diagnostic, Severity};
use pointsman_ir::Span;
use serde_json::{Value, json};

/// All diagnostics of a program, each with the URI of its file.
pub fn all(program: &Program, open: &Open, world: &dyn World, encoding: Encoding) -> Vec<(String, Value)> {
    let place = |span: Span| {
        let found =
            program.place(span, world).map(|p| (uri_of(&p.path, open), program.range(span, encoding)));
        // Of a file that clients cannot open, such as the macros of `-D`: the main file's start.
        found.or_else(|| {
            let main = Span { file: 0, lo: 0, hi: 0 };
            Some((uri_of(program.paths.first()?, open), program.range(main, encoding)))
        })
    };
    let list = program.analysis.checked.diagnostics.iter();
    list.filter_map(|d| {
        let (uri, range) = place(d.span)?;
        Some((uri, diagnostic(d, range, &place, world)))
    })
    .collect()
}

fn diagnostic(
    d: &Diagnostic,
    range: Value,
    place: &dyn Fn(Span) -> Option<(String, Value)>,
    world: &dyn World,
) -> Value {
    let mut message = d.message.clone();
    for (word, text) in d.notes.iter().map(|n| ("note", n)).chain(d.help.iter().map(|h| ("help", h))) {
        message += &format!("\n{word}: {text}");
    }
    let mut out = json!({
        "range": range,
        "severity": if d.severity == Severity::Error { 1 } else { 2 },
        "code": d.code,
        "source": "pointsman",
        "message": message,
    });
    if let Some(page) = world.explanation(d.code) {
        out["codeDescription"] = json!({ "href": page });
    }
    let related: Vec<Value> = d
        .related
        .iter()
        .filter_map(|(span, text)| {
            let (uri, range) = place(*span)?;
            Some(json!({ "location": { "uri": uri, "range": range }, "message": text }))
        })
        .collect();
    if !related.is_empty() {
        out["relatedInformation"] = json!(related);
    }
    match d.code {
        // Unnecessary, so that editors fade it.
        "P0701" | "P0703" => out["tags"] = json!([1]),
        // Deprecated.
        "P0415" => out["tags"] = json!([2]),
        _ => {}
    }
    out
}
