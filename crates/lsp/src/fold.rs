//! Parts of a text that editors can fold: braces, comments, runs of includes. They are found without a parser, so that they
//! stay while a program is being written.

use serde_json::{Value, json};

/// What the text is at a place.
enum Piece {
    Open,
    Close,
    /// A comment or a string, of this many bytes.
    Skip(usize, bool),
    Other,
}

fn piece(rest: &str) -> Piece {
    let to = |end: Option<usize>, width: usize| end.map_or(rest.len(), |i| i + width);
    if rest.starts_with("//") {
        Piece::Skip(to(rest.find('\n'), 0), true)
    } else if let Some(comment) = rest.strip_prefix("/*") {
        Piece::Skip(to(comment.find("*/").map(|i| i + 2), 2), true)
    } else if let Some(string) = rest.strip_prefix('"') {
        let mut escaped = false;
        let end = string.char_indices().find(|(_, c)| {
            let ends = !escaped && (*c == '"' || *c == '\n');
            escaped = *c == '\\' && !escaped;
            ends
        });
        Piece::Skip(to(end.map(|(i, _)| i + 1), 1), false)
    } else {
        match rest.as_bytes().first() {
            Some(b'{') => Piece::Open,
            Some(b'}') => Piece::Close,
            _ => Piece::Other,
        }
    }
}

/// The result of `textDocument/foldingRange`.
pub fn ranges(text: &str) -> Value {
    let mut out: Vec<(usize, usize, Option<&str>)> = Vec::new();
    let (mut open, mut line, mut i) = (Vec::new(), 0, 0);
    // First and last line of the comments in successive lines.
    let mut comment: Option<(usize, usize)> = None;
    while i < text.len() {
        let rest = &text[i..];
        let width = match piece(rest) {
            Piece::Open => {
                open.push(line);
                1
            }
            Piece::Close => {
                // The line of the closing brace stays.
                if let Some(start) = open.pop() {
                    out.push((start, line.saturating_sub(1), None));
                }
                1
            }
            Piece::Skip(n, is_comment) => {
                let end = line + rest[..n].matches('\n').count();
                if is_comment {
                    match &mut comment {
                        Some((_, last)) if *last + 1 >= line => *last = end,
                        other => {
                            out.extend(other.replace((line, end)).map(|(a, b)| (a, b, Some("comment"))));
                        }
                    }
                }
                n
            }
            Piece::Other => rest.chars().next().map_or(1, char::len_utf8),
        };
        line += rest[..width].matches('\n').count();
        i += width;
    }
    out.extend(comment.map(|(a, b)| (a, b, Some("comment"))));
    out.extend(includes(text).map(|(a, b)| (a, b, Some("imports"))));
    out.retain(|(a, b, _)| a < b);
    out.sort();
    let range = |(start, end, kind): (usize, usize, Option<&str>)| match kind {
        Some(kind) => json!({ "startLine": start, "endLine": end, "kind": kind }),
        None => json!({ "startLine": start, "endLine": end }),
    };
    Value::Array(out.into_iter().map(range).collect())
}

/// Runs of lines with `#include`.
fn includes(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let is =
        |l: &str| l.trim_start().strip_prefix('#').is_some_and(|r| r.trim_start().starts_with("include"));
    let lines: Vec<usize> = text.lines().enumerate().filter(|(_, l)| is(l)).map(|(i, _)| i).collect();
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for line in lines {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == line => *last = line,
            _ => runs.push((line, line)),
        }
    }
    runs.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        let text = "#include <a>\n#include <b>\n// one {\n// two\nheader h {\n  bit<8> a; // x\n}\n/* {\n*/\nvoid f() { \"}\";\n if (a) { }\n}\n";
        let found = ranges(text);
        let list: Vec<(u64, u64)> = found
            .as_array()
            .expect("a list")
            .iter()
            .map(|r| (r["startLine"].as_u64().unwrap_or(99), r["endLine"].as_u64().unwrap_or(99)))
            .collect();
        assert_eq!(list, [(0, 1), (2, 3), (4, 5), (7, 8), (9, 10)]);
        for text in ["}", "{", "\"", "/*", "/*/", "\"\\", "//", "é{\n\n"] {
            let _ = ranges(text);
        }
    }
}
