//! What is known of a name: its declaration, width, value and comment.

use crate::World;
use crate::analysis::Program;
use crate::outline::{self, Item};
use crate::requests::Failure;
use crate::server::Server;
use pointsman_frontend::index::{Symbol, SymbolKind};
use pointsman_ir::Span;
use serde_json::{Value, json};

/// `textDocument/hover`
pub fn hover<W: World>(server: &mut Server<W>, params: &Value) -> Result<Value, Failure> {
    let at = server.at(params)?;
    let index = at.program.index();
    let Some((span, i)) = index.at(at.file, at.offset) else { return Ok(Value::Null) };
    let symbol = &index.symbols[i];
    let mut text = format!("```p4\n{}\n```\n", symbol.text);
    text += &facts(&at.program, symbol);
    if let Some(comment) = comment(&at.program, symbol.span) {
        text += &format!("\n{comment}\n");
    }
    Ok(json!({
        "contents": { "kind": "markdown", "value": text },
        "range": at.program.range(span, server.encoding),
    }))
}

/// Width and value.
fn facts(program: &Program, symbol: &Symbol) -> String {
    let mut out = String::new();
    if let Some(v) = &symbol.value {
        out += &format!("\nvalue: `{v}`\n");
    }
    // Of a function, the type is that of its result.
    let sized = !matches!(symbol.kind, SymbolKind::Function | SymbolKind::Method | SymbolKind::Table);
    let ty = symbol.ty.filter(|_| sized).map(|t| &program.index().types[t]);
    if let Some((least, most)) = ty.and_then(|t| t.bits) {
        let bytes =
            |n: u64| if n.is_multiple_of(8) && n > 8 { format!(" ({} bytes)", n / 8) } else { String::new() };
        out += &match least == most {
            true => format!("\nwidth: {most} bits{}\n", bytes(most)),
            false => format!("\nwidth: {least} to {most} bits{}\n", bytes(most)),
        };
    }
    out
}

/// The comment above a declaration, or else behind it on its line.
pub fn comment(program: &Program, name: Span) -> Option<String> {
    let mut whole = None;
    outline::each(&program.outline, &mut |item: &Item| {
        if item.name_span == name {
            whole = Some(item.span);
        }
    });
    let whole = whole.unwrap_or(name);
    let text = &program.sources().files.get(whole.file as usize)?.text;
    above(text.get(..whole.lo as usize)?).or_else(|| behind(text.get(name.hi as usize..)?))
}

/// The comment that ends on the line before the last one of `text`.
fn above(text: &str) -> Option<String> {
    let start = text.rfind('\n')?;
    // Something else on the line of the declaration: what is above belongs to that.
    if !text[start..].trim().is_empty() {
        return None;
    }
    let before = text[..start].trim_end_matches([' ', '\t', '\r']);
    if let Some(body) = before.strip_suffix("*/") {
        let open = body.rfind("/*")?;
        let starts = before[..open].rsplit('\n').next().is_some_and(|l| l.trim().is_empty());
        let lines = body[open + 2..].lines().map(|l| l.trim().trim_start_matches(['*', '!']).trim());
        return starts.then(|| lines.collect::<Vec<_>>().join("\n").trim().to_string());
    }
    let lines: Vec<&str> = before.rsplit('\n').map(str::trim).take_while(|l| l.starts_with("//")).collect();
    let clean = |l: &&str| l.trim_start_matches(['/', '!']).trim().to_string();
    let text = lines.iter().rev().map(clean).collect::<Vec<_>>().join("\n");
    (!lines.is_empty()).then_some(text)
}

/// The comment at the end of the line.
fn behind(text: &str) -> Option<String> {
    let line = text.lines().next()?;
    let comment = line.find("//").map(|i| line[i..].trim_start_matches(['/', '!', '<']).trim().to_string());
    comment.filter(|c| !c.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments() {
        let of = |text: &str| above(text).unwrap_or_default();
        assert_eq!(of("int a;\n// one\n  /// two\n    "), "one\ntwo");
        assert_eq!(of("/* one\n * two\n */\n"), "one\ntwo");
        assert_eq!(of("// no\n\n"), "");
        assert_eq!(of("x; /* no */\n"), "");
        assert_eq!(of("// no\nint a; "), "");
        assert_eq!(of(""), "");
        assert_eq!(of("*/\n"), "");
        assert_eq!(behind(" = 4;  // é\n").as_deref(), Some("é"));
        assert_eq!(behind(";\n// no"), None);
    }
}
