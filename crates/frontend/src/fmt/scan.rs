//! Source text as pieces: tokens, comments and preprocessor lines, nothing expanded.

use super::groups::directive_name;
use crate::diag::Diagnostic;
use crate::lex::{BLANKS, Joined, Lexer, Token, TokenKind};
use crate::preprocess::is_conditional;

/// Kinds of piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Identifier, keyword, number or string.
    Word,
    /// Operator or punctuation.
    Punct,
    /// `// ...`
    LineComment,
    /// `/* ... */`
    BlockComment,
    /// A preprocessor line with its continuations.
    Directive,
}

/// A piece of the source, with the white space before it.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub kind: Kind,
    pub text: String,
    /// Line ends before it.
    pub newlines: usize,
    /// Blanks right before it, if only blanks separate it from the last piece on the same line.
    pub blanks: usize,
    /// Characters before it on its line.
    pub column: usize,
    /// It starts a line only because a line would be too long otherwise.
    pub forced: bool,
}

impl Piece {
    pub fn is(&self, punct: &str) -> bool {
        self.kind == Kind::Punct && self.text == punct
    }

    pub fn is_comment(&self) -> bool {
        matches!(self.kind, Kind::LineComment | Kind::BlockComment)
    }

    /// Whether it belongs to the program.
    pub fn is_token(&self) -> bool {
        matches!(self.kind, Kind::Word | Kind::Punct)
    }
}

/// Takes the text apart. An error is a comment without an end, or a string without an end outside of `#if`, where any text may be
/// left out.
pub(super) fn scan(text: &str) -> Result<Vec<Piece>, Box<Diagnostic>> {
    let source = Joined::new(text);
    let mut lexer = Lexer::new(&source, 0);
    let mut pieces = Vec::new();
    let mut from = text.len() - text.trim_start_matches('\u{feff}').len();
    // Conditionals that are open.
    let mut depth = 0usize;
    loop {
        let mut token = lexer.next(false);
        // A string of several lines ends within the `#if` that it is in.
        if depth > 0 && token.kind == TokenKind::Str && token.text.lines().skip(1).any(is_conditional) {
            token = lexer.again(&token, true);
        }
        let mut open_string = false;
        match &token.kind {
            TokenKind::Bad(d) if d.code == "P0104" && depth > 0 => open_string = true,
            TokenKind::Bad(d) if d.code != "P0101" => return Err(Box::new((**d).clone())),
            _ => {}
        }
        let lo = token.span.lo as usize;
        let mut white = White::default();
        comments(text, from, lo, &mut white, &mut pieces);
        if token.is_eof() {
            return Ok(pieces);
        }
        from = token.span.hi as usize;
        let rest = text.get(from..).unwrap_or("").trim_start_matches([' ', '\t']);
        // `@pragma` also takes the rest of its line.
        let pragma = token.is("@") && rest.strip_prefix("pragma").is_some_and(|r| r.starts_with([' ', '\t']));
        if token.is("#") && token.line_start || pragma {
            from = lexer.skip_line(pragma);
            let line = text.get(lo..from).unwrap_or("").trim_end();
            match directive_name(line) {
                "if" | "ifdef" | "ifndef" => depth += 1,
                "endif" => depth = depth.saturating_sub(1),
                _ => {}
            }
            pieces.push(white.piece(Kind::Directive, text, lo, line));
        } else if open_string {
            // It ends with its line, like a comment.
            pieces.push(white.piece(
                Kind::LineComment,
                text,
                lo,
                text.get(lo..from).unwrap_or("").trim_end(),
            ));
        } else {
            pieces.push(white.piece(kind(&token), text, lo, text.get(lo..from).unwrap_or("")));
        }
    }
}

fn kind(token: &Token) -> Kind {
    if token.kind == TokenKind::Punct { Kind::Punct } else { Kind::Word }
}

/// White space since the last piece.
#[derive(Default)]
struct White {
    newlines: usize,
    blanks: usize,
}

impl White {
    /// The piece `text` of kind `kind` at byte `at` of `source`.
    fn piece(&mut self, kind: Kind, source: &str, at: usize, text: &str) -> Piece {
        let White { newlines, blanks } = std::mem::take(self);
        let before = source.get(..at).unwrap_or("");
        let column = before[before.rfind('\n').map_or(0, |i| i + 1)..].chars().count();
        Piece { kind, text: text.to_string(), newlines, blanks, column, forced: false }
    }
}

/// The comments between two tokens, from byte `from` to byte `to`.
fn comments(text: &str, from: usize, to: usize, white: &mut White, pieces: &mut Vec<Piece>) {
    let mut rest = text.get(from..to).unwrap_or("");
    while let Some(c) = rest.chars().next() {
        if rest.starts_with("//") {
            let end = line_comment_end(rest);
            // A backslash at its very end would take the line that is put behind it.
            let comment = rest[..end].trim_end_matches(|c: char| c.is_whitespace() || c == '\\');
            pieces.push(white.piece(Kind::LineComment, text, to - rest.len(), comment));
            rest = &rest[end..];
        } else if rest.starts_with("/*") {
            let end = rest[2..].find("*/").map_or(rest.len(), |i| i + 4);
            pieces.push(white.piece(Kind::BlockComment, text, to - rest.len(), &rest[..end]));
            rest = &rest[end..];
        } else if c == '/' {
            // A comment that a continued line splits in its first two characters.
            pieces.push(white.piece(Kind::BlockComment, text, to - rest.len(), rest.trim_end()));
            rest = "";
        } else {
            match c {
                '\n' => *white = White { newlines: white.newlines + 1, blanks: 0 },
                ' ' => white.blanks += 1,
                _ => {}
            }
            rest = &rest[c.len_utf8()..];
        }
    }
}

/// Where a line comment ends; it continues after a backslash at the end of its line.
fn line_comment_end(text: &str) -> usize {
    let mut end = 0;
    loop {
        match text[end..].find('\n') {
            Some(i) if text[..end + i].trim_end_matches(BLANKS).ends_with('\\') => end += i + 1,
            Some(i) => return end + i,
            None => return text.len(),
        }
    }
}
