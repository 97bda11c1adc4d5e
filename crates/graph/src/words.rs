//! Source text as labels.

use pointsman_frontend::source::SourceMap;
use pointsman_ir::Span;

/// Characters of a line of a label.
const WIDTH: usize = 44;

/// The text at `span` in one line, shortened to the width of a label.
pub fn words(sources: &SourceMap, span: Span) -> String {
    let mut out = String::new();
    // Comments inside are left out.
    for line in sources.text(span).lines() {
        let line = line.split("//").next().unwrap_or_default();
        for word in line.split_whitespace() {
            if !out.is_empty() {
                out.push(' ');
            }
            out.push_str(word);
        }
    }
    short(&out)
}

/// At most the width of a label.
pub fn short(text: &str) -> String {
    if text.chars().count() <= WIDTH {
        return text.to_string();
    }
    let kept: String = text.chars().take(WIDTH - 1).collect();
    format!("{kept}…")
}
