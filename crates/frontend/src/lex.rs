//! Text of one file into tokens (P4_16 section 6.3).
//!
//! The preprocessor pulls tokens one at a time, because only it knows whether a line is a directive or is skipped;
//! there, a string ends with its line, while in the program it may contain line ends. A problem becomes a token of kind
//! [`TokenKind::Bad`]: its consumer decides whether it matters (not in skipped groups, not in annotations).
//!
//! `>` is never joined to a following `>`: whether two of them shift or close type arguments, the parser decides.

use std::borrow::Cow;
use std::rc::Rc;

use num_bigint::BigInt;
use pointsman_ir::Span;

use crate::diag::Diagnostic;

/// The kind of a token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind {
    /// Identifier, keyword or `_`.
    Ident,
    /// Starts with a digit; [`parse_int`] says whether it is an integer.
    Int,
    /// String literal; the text includes the quotes.
    Str,
    /// Operator or punctuation.
    Punct,
    /// Not a token of the language.
    Bad(Rc<Diagnostic>),
    /// End of input.
    Eof,
}

/// Names of the macros whose expansion a token comes from: they are not expanded in it again.
pub(crate) type HideSet = Option<Rc<Vec<Rc<str>>>>;

/// A token.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub kind: TokenKind,
    /// As written.
    pub text: Rc<str>,
    /// Where it was written; for the text of a macro, where the macro is used.
    pub span: Span,
    /// First on its line.
    pub line_start: bool,
    /// White space or a comment precedes it.
    pub space_before: bool,
    pub hide: HideSet,
}

impl Token {
    /// Whether it is this operator or punctuation.
    pub fn is(&self, punct: &str) -> bool {
        self.kind == TokenKind::Punct && &*self.text == punct
    }

    /// Whether it is this identifier or keyword.
    pub fn is_word(&self, word: &str) -> bool {
        self.kind == TokenKind::Ident && &*self.text == word
    }

    pub fn is_ident(&self) -> bool {
        self.kind == TokenKind::Ident
    }

    pub fn is_eof(&self) -> bool {
        self.kind == TokenKind::Eof
    }
}

/// Operators and punctuation of more than one character; a longer one before its prefixes.
const LONG_PUNCT: [&str; 27] = [
    "|+|=", "|-|=", "&&&", "...", "|+|", "|-|", "<<=", "{#}", "##", "&&", "||", "==", "!=", ">=", "<=", "<<",
    "++", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "..", "+:",
];

const PUNCT: &str = "+-*/%|&^~[]{}<>(),;:?.=@!#";

/// White space inside of a line.
pub(crate) const BLANKS: [char; 5] = [' ', '\t', '\r', '\x0b', '\x0c'];

/// Source text with its continued lines joined, as in C: a backslash at the end of a line disappears together with the
/// line end, also inside of a token, a string or a comment.
pub(crate) struct Joined<'a> {
    text: Cow<'a, str>,
    /// The cuts, in order: where in `text`, and how many bytes are missing up to and including this one.
    cuts: Vec<(usize, usize)>,
}

impl<'a> Joined<'a> {
    pub fn new(source: &'a str) -> Self {
        let mut cuts = Vec::new();
        let mut text = String::new();
        let (mut from, mut missing) = (0, 0);
        for (at, _) in source.match_indices('\\') {
            // As C compilers do, this accepts blanks behind the backslash, and the end of the file.
            let rest = source[at + 1..].trim_start_matches(BLANKS);
            if !rest.is_empty() && !rest.starts_with('\n') {
                continue;
            }
            text.push_str(&source[from..at]);
            from = source.len() - rest.len() + usize::from(!rest.is_empty());
            missing += from - at;
            cuts.push((text.len(), missing));
        }
        if cuts.is_empty() {
            return Joined { text: Cow::Borrowed(source), cuts };
        }
        text.push_str(&source[from..]);
        Joined { text: Cow::Owned(text), cuts }
    }

    /// The text without cuts.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where in the source the span `lo..hi` of the text is. Cuts at its ends are outside of it.
    fn span(&self, file: u32, lo: usize, hi: usize) -> Span {
        let missing = |n: usize| n.checked_sub(1).and_then(|i| self.cuts.get(i)).map_or(0, |c| c.1);
        let before = missing(self.cuts.partition_point(|c| c.0 <= lo));
        let inside = missing(self.cuts.partition_point(|c| c.0 < hi)).max(before);
        let inside = if lo == hi { before } else { inside };
        Span { file, lo: (lo + before) as u32, hi: (hi + inside) as u32 }
    }
}

/// Reads one file.
pub(crate) struct Lexer<'a> {
    source: &'a Joined<'a>,
    text: &'a str,
    file: u32,
    /// A position in the joined text, as all positions here.
    pos: usize,
    /// Where the token that was read last starts.
    last: usize,
    line_start: bool,
}

impl<'a> Lexer<'a> {
    pub fn new(source: &'a Joined<'a>, file: u32) -> Self {
        let text = source.text();
        let pos = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        Lexer { source, text, file, pos, last: pos, line_start: true }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.pos..).unwrap_or("")
    }

    fn span(&self, lo: usize) -> Span {
        self.source.span(self.file, lo, self.pos)
    }

    /// Skips white space and comments; `Some` is an unterminated comment.
    fn skip_blank(&mut self) -> Option<Diagnostic> {
        loop {
            let rest = self.rest();
            let bytes = rest.as_bytes();
            match bytes.first() {
                Some(b'\n') => {
                    self.line_start = true;
                    self.pos += 1;
                }
                Some(b' ' | b'\t' | b'\r' | 0x0b | 0x0c) => self.pos += 1,
                Some(b'/') if rest.starts_with("//") => self.pos += rest.find('\n').unwrap_or(rest.len()),
                Some(b'/') if rest.starts_with("/*") => match rest[2..].find("*/") {
                    Some(i) => {
                        if rest[..i + 2].contains('\n') {
                            self.line_start = true;
                        }
                        self.pos += i + 4;
                    }
                    None => {
                        let span = self.source.span(self.file, self.pos, self.pos + 2);
                        self.pos = self.text.len();
                        return Some(
                            Diagnostic::error("P0102", span, "this comment is not terminated")
                                .label("starts here")
                                .help("add `*/` (comments do not nest)"),
                        );
                    }
                },
                _ => return None,
            }
        }
    }

    /// The next token. `one_line`: a string cannot extend beyond its line.
    pub fn next(&mut self, one_line: bool) -> Token {
        let start = self.pos;
        let unterminated = self.skip_blank();
        let lo = self.pos;
        self.last = lo;
        let line_start = std::mem::replace(&mut self.line_start, false);
        let space_before = lo > start || line_start;
        let kind = match unterminated {
            Some(d) => TokenKind::Bad(Rc::new(d)),
            None => self.scan(one_line),
        };
        let text = Rc::from(self.text.get(lo..self.pos).unwrap_or(""));
        Token { kind, text, span: self.span(lo), line_start, space_before, hide: None }
    }

    /// Skips the rest of the line that the last token starts, and says where in the source it ends. A block comment on it
    /// may extend it, and a string if `strings`.
    pub fn skip_line(&mut self, strings: bool) -> usize {
        self.pos = self.last;
        while let Some(i) = self.rest().find(|c| c == '\n' || c == '/' || strings && c == '"') {
            self.pos += i;
            let rest = self.rest();
            if rest.starts_with('"') {
                self.string(false);
            } else if let Some(comment) = rest.strip_prefix("/*") {
                self.pos += 2 + comment.find("*/").map_or(comment.len(), |end| end + 2);
            } else if rest.starts_with('/') && !rest.starts_with("//") {
                self.pos += 1;
            } else {
                self.pos += rest.find('\n').unwrap_or(rest.len());
                return self.span(self.last).hi as usize;
            }
        }
        self.pos = self.text.len();
        self.span(self.last).hi as usize
    }

    /// Reads `token`, which was read last, with or without `one_line`.
    pub fn again(&mut self, token: &Token, one_line: bool) -> Token {
        self.pos = self.last;
        let again = self.next(one_line);
        Token { line_start: token.line_start, space_before: token.space_before, ..again }
    }

    fn scan(&mut self, one_line: bool) -> TokenKind {
        let rest = self.rest();
        let lo = self.pos;
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let Some(first) = rest.chars().next() else { return TokenKind::Eof };
        if word(first) {
            self.pos += rest.find(|c| !word(c)).unwrap_or(rest.len());
            return if first.is_ascii_digit() { TokenKind::Int } else { TokenKind::Ident };
        }
        if first == '"' {
            return self.string(one_line);
        }
        if let Some(p) = LONG_PUNCT.iter().find(|p| rest.starts_with(**p)) {
            self.pos += p.len();
            return TokenKind::Punct;
        }
        if PUNCT.contains(first) {
            self.pos += 1;
            return TokenKind::Punct;
        }
        // A run of other characters is one problem, not one for each of them.
        let odd = |c: char| c == first || !c.is_ascii() && !c.is_whitespace();
        self.pos += rest.find(|c| !odd(c)).unwrap_or(rest.len());
        if first.is_whitespace() && !first.is_ascii() {
            self.pos = lo + first.len_utf8();
        }
        let message = match first {
            c if c.is_control() || c.is_whitespace() => {
                format!("unexpected character U+{:04X}", u32::from(c))
            }
            _ => format!("unexpected `{}`", &self.text[lo..self.pos]),
        };
        let d = Diagnostic::error("P0101", self.span(lo), message);
        TokenKind::Bad(Rc::new(match first {
            '\'' => d.help("strings are written in double quotes; there are no character literals"),
            '\\' => d.help("a backslash continues a line only as the last character of that line"),
            '\u{201c}' | '\u{201d}' => d.help("use plain double quotes: \""),
            c if c.is_alphabetic() => d.help("names consist of ASCII letters, digits and `_`"),
            c if c.is_whitespace() => d.help("replace it by a plain space"),
            _ => d.help("remove it"),
        }))
    }

    /// A string: to the first quote that is not behind an odd number of backslashes.
    fn string(&mut self, one_line: bool) -> TokenKind {
        let lo = self.pos;
        let bytes = self.text.as_bytes();
        let mut i = lo + 1;
        loop {
            match bytes.get(i) {
                Some(b'"') => {
                    self.pos = i + 1;
                    return TokenKind::Str;
                }
                Some(b'\\') if bytes.get(i + 1).is_some() => i += 2,
                Some(b'\n') if one_line => break,
                Some(_) => i += 1,
                None => break,
            }
        }
        // Whatever follows its first line is more likely program than string.
        self.pos = self.rest().find('\n').map_or(self.text.len(), |n| lo + n);
        let span = self.source.span(self.file, lo, lo + 1);
        TokenKind::Bad(Rc::new(
            Diagnostic::error("P0104", span, "this string is not terminated")
                .label("starts here")
                .help("add `\"`"),
        ))
    }
}

/// A string literal without its quotes. Escapes (section 6.3.3.3) stay as they are, for the string's consumer.
pub(crate) fn string_text(literal: &str) -> &str {
    let inner = literal.strip_prefix('"').unwrap_or(literal);
    inner.strip_suffix('"').unwrap_or(inner)
}

/// The name of a file in a directive, which is a string literal: `\"`, `\\`, `\n` and `\t` are resolved.
pub(crate) fn unescape(literal: &str) -> String {
    let inner = string_text(literal);
    let mut out = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some(c @ ('"' | '\\')) => out.push(c),
            Some(c) => out.extend(['\\', c]),
            None => out.push('\\'),
        }
    }
    out
}

/// An integer literal: its value, and its width and whether it is signed if written (section 6.3.3.2); or the error.
pub(crate) fn parse_int(text: &str) -> Result<(BigInt, Option<(u32, bool)>), String> {
    let mut digits = text;
    let mut width = None;
    // `w` and `s` are not hexadecimal digits, so the first of them ends a width.
    if let Some(i) = text.find(['w', 's'])
        && text.get(..i).is_some_and(|w| !w.is_empty() && w.bytes().all(|b| b.is_ascii_digit()))
    {
        let signed = text[i..].starts_with('s');
        let bits = text[..i].parse::<u32>().map_err(|_| "its width is too large".to_string())?;
        width = Some((bits, signed));
        digits = &text[i + 1..];
    }
    let (radix, name, digits) = match digits.get(..2) {
        Some("0x" | "0X") => (16, "hexadecimal", &digits[2..]),
        Some("0d" | "0D") => (10, "decimal", &digits[2..]),
        Some("0o" | "0O") => (8, "octal", &digits[2..]),
        Some("0b" | "0B") => (2, "binary", &digits[2..]),
        _ => (10, "decimal", digits),
    };
    if let Some(c) = digits.chars().find(|c| *c != '_' && !c.is_digit(radix)) {
        return Err(format!("`{c}` is not a {name} digit"));
    }
    let plain: Vec<u8> = digits.bytes().filter(|b| *b != b'_').collect();
    match BigInt::parse_bytes(&plain, radix) {
        Some(v) => Ok((v, width)),
        None => Err("it has no digits".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<String> {
        let source = Joined::new(text);
        let mut lexer = Lexer::new(&source, 0);
        let mut out = Vec::new();
        loop {
            let t = lexer.next(false);
            match &t.kind {
                TokenKind::Eof => return out,
                TokenKind::Bad(d) => out.push(d.code.to_string()),
                _ => out.push(t.text.to_string()),
            }
        }
    }

    fn check(text: &str, expected: &[&str]) {
        assert_eq!(tokens(text), expected, "{text:?}");
    }

    #[test]
    fn tokens_of_text() {
        check("a&&&b |+|= {#} x>>=y", &["a", "&&&", "b", "|+|=", "{#}", "x", ">", ">=", "y"]);
        check("8w0xF_F..1 a[3+:2]", &["8w0xF_F", "..", "1", "a", "[", "3", "+:", "2", "]"]);
        check("a // b\\\nc\nd /* x\n */ e", &["a", "d", "e"]);
        check("\"a\\\"b\nc\\\\\" d", &["\"a\\\"b\nc\\\\\"", "d"]);
        check("a \\\n b", &["a", "b"]);
    }

    #[test]
    fn continued_lines_are_joined() {
        check("ab\\\ncd 8w\\\r\n1 &\\ \n&", &["abcd", "8w1", "&&"]);
        check("\"one \\\n  two\" /\\\n* c */ x/\\\n/ y\\\nz\n\\", &["\"one   two\"", "x"]);
        let text = "a\\\nb \\\nc\\\n d";
        let source = Joined::new(text);
        let mut lexer = Lexer::new(&source, 0);
        let mut spans = Vec::new();
        while let Some(t) = Some(lexer.next(false)).filter(|t| !t.is_eof()) {
            spans.push(&text[t.span.lo as usize..t.span.hi as usize]);
        }
        assert_eq!(spans, ["a\\\nb", "c", "d"]);
    }

    #[test]
    fn bad_text() {
        check("a ' b", &["a", "P0101", "b"]);
        check("größe", &["gr", "P0101", "e"]);
        check("/* x", &["P0102"]);
        check("\"x\\", &["P0104"]);
        check("\u{feff}a\u{a0}b", &["a", "P0101", "b"]);
    }

    #[test]
    fn integers() {
        fn check(text: &str, expected: Option<(i64, Option<(u32, bool)>)>) {
            assert_eq!(parse_int(text).ok(), expected.map(|(v, w)| (v.into(), w)), "{text:?}");
        }
        check("0x1F", Some((31, None)));
        check("8w0b1010_1010", Some((170, Some((8, false)))));
        check("4s0o7", Some((7, Some((4, true)))));
        check("1_000", Some((1000, None)));
        check("16w0d9", Some((9, Some((16, false)))));
        check("0b12", None);
        check("0x", None);
        check("12ab", None);
        check("99999999999w1", None);
        check("8w", None);
    }
}
