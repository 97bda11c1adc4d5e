//! Diagnostics as text for people, and as records for programs.

use std::fmt::Write;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use pointsman_ir::Span;

use crate::diag::{Diagnostic, Severity};
use crate::source::{SourceFile, SourceMap};

/// Lines of a file before and after the places shown; a whole file would be searched for each diagnostic.
const CONTEXT_LINES: usize = 2;
/// A place that covers more lines than this is shown by its first one.
const MAX_LINES: usize = 12;

/// One diagnostic with the source it is about, as compilers print it; with ANSI colours if `colour`.
/// Ends with a line end.
pub fn to_text(map: &SourceMap, d: &Diagnostic, colour: bool) -> String {
    let level = match d.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut title = Group::with_title(level.primary_title(clean(&d.message)).id(d.code));
    for (part, places) in by_part(map, d) {
        title = title.element(snippet(&part, &places));
    }
    for from in map.files.get(d.span.file as usize).map_or(Vec::new(), |f| including(map, f)) {
        let (path, line) = (map.path(from), map.line_column(from).0);
        title = title.element(Level::NOTE.message(clean(&format!("included from {path}:{line}"))));
    }
    for note in &d.notes {
        title = title.element(Level::NOTE.message(clean(note)));
    }
    if let Some(help) = &d.help {
        title = title.element(Level::HELP.message(clean(help)));
    }
    let groups: [Group<'_>; 1] = [title];
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    let mut out = renderer.render(&groups);
    out.push('\n');
    out
}

/// All of them, and their number.
pub fn all_to_text(map: &SourceMap, diags: &[Diagnostic], colour: bool) -> String {
    let mut out = String::new();
    for d in diags {
        out += &to_text(map, d, colour);
        out.push('\n');
    }
    let errors = diags.iter().filter(|d| d.severity == Severity::Error).count();
    let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    match (errors, diags.len() - errors) {
        (0, 0) => {}
        (e, 0) => out += &format!("{}\n", count(e, "error")),
        (0, w) => out += &format!("{}\n", count(w, "warning")),
        (e, w) => out += &format!("{}, {}\n", count(e, "error"), count(w, "warning")),
    }
    out
}

/// One diagnostic as a JSON object on one line, with a line end: `severity`, `code`, `message`, `file`, `line`,
/// `column`, `end_line`, `end_column` (from 1, in characters, the end exclusive), `label`, `related` (a list of `file`,
/// `line`, `column`, `end_line`, `end_column`, `label`), `notes` (a list of strings), `help` (a string or null).
pub fn to_json(map: &SourceMap, d: &Diagnostic) -> String {
    let severity = match d.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let related: Vec<String> = d
        .related
        .iter()
        .map(|(span, label)| format!("{{{},\"label\":{}}}", position(map, *span), quote(label)))
        .collect();
    let notes: Vec<String> = d.notes.iter().map(|n| quote(n)).collect();
    format!(
        "{{\"severity\":\"{severity}\",\"code\":\"{}\",\"message\":{},{},\"label\":{},\"related\":[{}],\"notes\":[{}],\
         \"help\":{}}}\n",
        d.code,
        quote(&d.message),
        position(map, d.span),
        quote(&d.label),
        related.join(","),
        notes.join(","),
        d.help.as_ref().map_or("null".to_string(), |h| quote(h)),
    )
}

fn position(map: &SourceMap, span: Span) -> String {
    let path = map.path(span);
    let (line, column) = map.line_column(span);
    let (end_line, end_column) = map.line_column(Span { lo: span.hi, ..span });
    format!(
        "\"file\":{},\"line\":{line},\"column\":{column},\"end_line\":{end_line},\"end_column\":{end_column}",
        quote(path)
    )
}

/// A JSON string.
fn quote(s: &str) -> String {
    let mut out = String::with_capacity(s.len() + 2);
    out.push('"');
    for c in s.chars() {
        match c {
            '"' => out += "\\\"",
            '\\' => out += "\\\\",
            '\n' => out += "\\n",
            '\t' => out += "\\t",
            '\r' => out += "\\r",
            c if c.is_control() => {
                let mut units = [0; 2];
                for u in c.encode_utf16(&mut units) {
                    // Writing to a string does not fail.
                    let _ = write!(out, "\\u{u:04x}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Without what could move the cursor of a terminal: source text ends up in messages.
fn clean(s: &str) -> String {
    s.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect()
}

struct Place<'a> {
    span: Span,
    label: &'a str,
    primary: bool,
}

/// A file, or the part of it that a line marker assigns to another file.
#[derive(PartialEq)]
struct Part<'a> {
    /// The index of the file.
    file: u32,
    text: &'a str,
    /// Its offset in the file, in bytes.
    start: usize,
    path: &'a str,
    /// The number of its first line.
    first_line: usize,
}

impl<'a> Part<'a> {
    fn of(map: &'a SourceMap, span: Span) -> Option<Self> {
        let f = map.files.get(span.file as usize)?;
        let (start, first_line) = map.marker(span).map_or((0, 1), |m| (m.from as usize, m.line as usize));
        let mut text = f.text.get(start..)?;
        if let Some(next) = f.markers.iter().find(|m| m.from > span.lo) {
            // Without the line of the next marker.
            text = text.get(..next.from as usize - start)?.trim_end_matches('\n');
            text = &text[..text.rfind('\n').map_or(0, |i| i + 1)];
        }
        Some(Part { file: span.file, text, start, path: map.path(span), first_line })
    }
}

/// The places of a diagnostic by file, that of the diagnostic itself first.
fn by_part<'a>(map: &'a SourceMap, d: &'a Diagnostic) -> Vec<(Part<'a>, Vec<Place<'a>>)> {
    let mut out: Vec<(Part<'_>, Vec<Place<'_>>)> = Vec::new();
    let first = Place { span: d.span, label: &d.label, primary: true };
    let related = d.related.iter().map(|(span, label)| Place { span: *span, label, primary: false });
    for place in std::iter::once(first).chain(related) {
        let Some(part) = Part::of(map, place.span) else { continue };
        match out.iter_mut().find(|(p, _)| *p == part) {
            Some((_, places)) => places.push(place),
            None => out.push((part, vec![place])),
        }
    }
    out
}

/// The `#include`s through which a file came in, the nearest first.
fn including(map: &SourceMap, file: &SourceFile) -> Vec<Span> {
    let mut out = Vec::new();
    let mut from = file.included_from;
    while let Some(span) = from {
        out.push(span);
        // Files are included by files before them, so this ends.
        from = map.files.get(span.file as usize).and_then(|f| f.included_from);
    }
    out
}

fn snippet(
    part: &Part<'_>,
    places: &[Place<'_>],
) -> Snippet<'static, annotate_snippets::Annotation<'static>> {
    let spans: Vec<Range<usize>> = places.iter().map(|p| range(part, p.span)).collect();
    let lo = spans.iter().map(|r| r.start).min().unwrap_or(0);
    let hi = spans.iter().map(|r| r.end).max().unwrap_or(0);
    let mut start = lo;
    for _ in 0..=CONTEXT_LINES {
        start = part.text[..start].rfind('\n').unwrap_or(0);
    }
    if start > 0 {
        start += 1;
    }
    let mut end = hi;
    for _ in 0..=CONTEXT_LINES {
        end = part.text[end..].find('\n').map_or(part.text.len(), |i| end + i + 1);
    }
    let text = &part.text[start..end];
    let first_line = part.text[..start].matches('\n').count() + part.first_line;
    // Control characters are shown by characters of the same length, so that positions stay true.
    let text: String = text
        .chars()
        .map(
            |c| if c.is_control() && c.len_utf8() == 1 && !matches!(c, '\n' | '\t' | '\r') { '?' } else { c },
        )
        .collect();
    Snippet::source(text).line_start(first_line).path(clean(part.path)).annotations(
        places.iter().zip(spans).map(|(p, r)| {
            let kind = if p.primary { AnnotationKind::Primary } else { AnnotationKind::Context };
            let label = (!p.label.is_empty()).then(|| clean(p.label));
            kind.span(r.start - start..r.end - start).label(label)
        }),
    )
}

/// The bytes of a span in the part's text, made to lie in it and on the bounds of characters.
fn range(part: &Part<'_>, span: Span) -> Range<usize> {
    let text = part.text;
    let bound = |at: u32| {
        let mut i = (at as usize).saturating_sub(part.start).min(text.len());
        while !text.is_char_boundary(i) {
            i -= 1;
        }
        i
    };
    let lo = bound(span.lo);
    let mut hi = bound(span.hi).max(lo);
    if let Some((i, _)) = text[lo..hi].match_indices('\n').nth(MAX_LINES) {
        hi = lo + text[lo..lo + i].find('\n').unwrap_or(i);
    }
    lo..hi
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_ir::LineMarker;

    fn map() -> SourceMap {
        let mut map = SourceMap::default();
        map.add("main.p4".into(), "#include \"a.p4\"\nint x\nend\n".into());
        map.add_included("a.p4".into(), "one\ttwo\nö = \"a\u{1b}\"".into(), Span { file: 0, lo: 0, hi: 15 });
        map
    }

    fn check(d: &Diagnostic, text: &str) {
        assert_eq!(to_text(&map(), d, false).trim_end(), text.trim_matches('\n'));
    }

    #[test]
    fn text() {
        let d = Diagnostic::error("P0202", Span { file: 0, lo: 21, hi: 21 }, "missing `;`")
            .label("here")
            .related(Span { file: 0, lo: 22, hi: 25 }, "before this")
            .note("so it is")
            .help("add `;`");
        check(&d, EXPECTED_MISSING);
        let d = Diagnostic::warning("P0101", Span { file: 1, lo: 8, hi: 10 }, "odd \u{1b}[31m");
        check(&d, EXPECTED_INCLUDED);
        // Spans that lie nowhere are survived.
        let d = Diagnostic::error("P0101", Span { file: 9, lo: 8, hi: 10 }, "nowhere");
        check(&d, "error[P0101]: nowhere");
        for (lo, hi) in [(0, 999), (999, 3), (9, 9), (30, 30)] {
            to_text(&map(), &Diagnostic::error("P0101", Span { file: 1, lo, hi }, "x"), true);
        }
        assert!(all_to_text(&map(), &[d], false).ends_with("\n1 error\n"));
    }

    #[test]
    fn places_behind_line_markers() {
        let mut map = SourceMap::default();
        let text = "# 3 \"a.p4\"\nfirst\nsecond\n# 1 \"b.p4\"\nthird\nfourth\n";
        map.add("x.p4".into(), text.into());
        let marker = |from, line, path: &str| LineMarker { from, line, path: path.into() };
        map.mark(0, marker(11, 3, "a.p4"));
        map.mark(0, marker(35, 1, "b.p4"));
        let d = Diagnostic::error("P0101", Span { file: 0, lo: 17, hi: 23 }, "odd")
            .related(Span { file: 0, lo: 41, hi: 47 }, "because of this");
        assert_eq!(to_text(&map, &d, false).trim_end(), EXPECTED_PARTS.trim_matches('\n'));
        assert!(to_json(&map, &d).contains("\"file\":\"a.p4\",\"line\":4,\"column\":1,"));
    }

    const EXPECTED_PARTS: &str = "
error[P0101]: odd
 --> a.p4:4:1
  |
4 | second
  | ^^^^^^
  |
 ::: b.p4:2:1
  |
2 | fourth
  | ------ because of this
";
    const EXPECTED_MISSING: &str = "
error[P0202]: missing `;`
 --> main.p4:2:6
  |
2 | int x
  |      ^ here
3 | end
  | --- before this
  |
  = note: so it is
  = help: add `;`
";
    const EXPECTED_INCLUDED: &str = "
warning[P0101]: odd \u{fffd}[31m
 --> a.p4:2:1
  |
2 | ö = \"a?\"
  | ^
  |
  = note: included from main.p4:1
";

    #[test]
    fn json() {
        let d = Diagnostic::warning("P0101", Span { file: 1, lo: 8, hi: 10 }, "a \"b\"\\\n\u{1b}")
            .related(Span { file: 0, lo: 22, hi: 25 }, "r")
            .note("n");
        assert_eq!(
            to_json(&map(), &d),
            "{\"severity\":\"warning\",\"code\":\"P0101\",\"message\":\"a \\\"b\\\"\\\\\\n\\u001b\",\"file\":\"a.p4\",\
             \"line\":2,\"column\":1,\"end_line\":2,\"end_column\":2,\"label\":\"\",\"related\":[{\"file\":\"main.p4\",\
             \"line\":3,\"column\":1,\"end_line\":3,\"end_column\":4,\"label\":\"r\"}],\"notes\":[\"n\"],\"help\":null}\n"
        );
    }
}
