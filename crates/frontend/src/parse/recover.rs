//! Syntax errors: their wording, and where parsing resumes after them.

use pointsman_ir::Span;

use super::{Abandon, MAX_ERRORS, P, Parser, is_reserved};
use crate::diag::Diagnostic;
use crate::lex::{Token, TokenKind};

/// Words that start a top-level declaration and nothing inside a control, parser or block.
const TOP_ONLY: [&str; 9] =
    ["control", "parser", "package", "header", "header_union", "struct", "enum", "extern", "typedef"];

/// Words that start a declaration in a control or parser and never a statement.
const NO_STATEMENT: [&str; 4] = ["action", "table", "value_set", "select"];

fn describe(t: &Token) -> String {
    match t.kind {
        TokenKind::Eof => "the end of the file".to_string(),
        TokenKind::Str => "a string".to_string(),
        TokenKind::Ident if is_reserved(&t.text) => format!("the keyword `{}`", t.text),
        _ => format!("`{}`", t.text),
    }
}

impl Parser {
    pub(super) fn report(&mut self, d: Diagnostic) {
        if self.stopped || self.last_error == Some(self.pos) {
            return;
        }
        self.last_error = Some(self.pos);
        self.diags.push(d);
        if self.diags.len() >= MAX_ERRORS && !self.stopped {
            let d = Diagnostic::error("P0299", self.peek().span, "too many errors; the rest is not checked");
            self.diags.push(d);
            self.stopped = true;
        }
    }

    /// Reports that something else was expected at the present token.
    pub(super) fn unexpected(&mut self, expected: &str) -> Abandon {
        let t = self.peek();
        let message = format!("expected {expected}, found {}", describe(t));
        let mut d = Diagnostic::error("P0201", t.span, message).label(format!("expected {expected}"));
        let previous = self.pos.checked_sub(1).and_then(|i| self.tokens.get(i));
        if previous.is_some_and(|p| p.is(",")) && [")", "]", ">"].iter().any(|c| t.is(c)) {
            d = d.help("remove the comma before it");
        } else if t.is(":") && self.peek_at(1).is("=") {
            d = d.help("write `=` instead of `:=`");
        } else if t.is("-") && self.peek_at(1).is(">") {
            d = d.help("there is no `->`; write `:` before a state or action, and `.` before a field");
        } else if t.is("=") && expected == "`)`" {
            d = d.help("comparison is written with `==`");
        }
        self.report(d);
        Abandon
    }

    /// A semicolon. If it is missing, that is reported and parsing continues.
    pub(super) fn semicolon(&mut self, after: &str) -> P<()> {
        if self.eat(";") {
            return Ok(());
        }
        let t = self.peek();
        // An unterminated string may have swallowed it.
        let swallowed =
            self.pos.checked_sub(1).is_some_and(|i| matches!(self.tokens[i].kind, TokenKind::Bad(_)));
        if swallowed && t.line_start {
            return Ok(());
        }
        if t.line_start || t.is("}") || t.is_eof() {
            let end = self.previous();
            let at = Span { lo: end.hi, ..end };
            let d = Diagnostic::error("P0202", at, format!("missing `;` after {after}"));
            self.report(d.label("add `;` here"));
            return Ok(());
        }
        Err(self.unexpected("`;`"))
    }

    /// `{`, items, `}`. An item that fails is skipped; `item` reports it.
    pub(super) fn braced(&mut self, statements: bool, mut item: impl FnMut(&mut Self) -> P<()>) -> P<()> {
        let open = self.expect("{")?;
        loop {
            if self.eat("}") {
                return Ok(());
            }
            if self.stopped {
                return Err(Abandon);
            }
            let t = self.peek();
            let starts_outside = TOP_ONLY.contains(&&*t.text)
                || statements
                    && (NO_STATEMENT.contains(&&*t.text) || t.is_word("apply") && self.peek_at(1).is("{"));
            if t.is_eof() || t.is_ident() && t.line_start && starts_outside {
                let d = Diagnostic::error("P0208", open, "this `{` is never closed").label("opened here");
                let d = d.related(t.span, "expected `}` before this");
                self.report(d.help("add `}`"));
                return Ok(());
            }
            let (start, depth, scopes, no_gt) = (self.pos, self.depth, self.scopes.len(), self.no_gt);
            if item(self).is_err() {
                if self.stopped {
                    return Err(Abandon);
                }
                self.depth = depth;
                self.no_gt = no_gt;
                self.scopes.truncate(scopes);
                self.recover(start);
            }
        }
    }

    /// Skips to where the next item of a braced list can start: behind `;`, before the closing `}`, or behind a block.
    fn recover(&mut self, start: usize) {
        debug_assert!(!self.diags.is_empty(), "a rule failed without a diagnostic");
        // Braces that the failed item itself has opened.
        let mut nesting = 0usize;
        for t in self.tokens.get(start..self.pos).unwrap_or_default() {
            nesting += usize::from(t.is("{"));
            nesting = nesting.saturating_sub(usize::from(t.is("}")));
        }
        while !self.peek().is_eof() {
            let t = self.peek();
            if nesting == 0 {
                let moved = self.pos > start;
                if t.is("}") {
                    return;
                }
                let starts = TOP_ONLY.contains(&&*t.text)
                    || ["action", "table", "state", "apply", "transition"].contains(&&*t.text);
                if moved && t.is_ident() && t.line_start && starts {
                    return;
                }
            }
            let (open, close, end) = (t.is("{"), t.is("}"), t.is(";"));
            self.bump();
            nesting += usize::from(open);
            nesting = nesting.saturating_sub(usize::from(close));
            if nesting == 0 && self.ends_item(close, end) {
                return;
            }
        }
    }

    /// After `}` an item has ended, unless more of it follows on the same line.
    fn ends_item(&self, close: bool, semicolon: bool) -> bool {
        let next = self.peek();
        semicolon || close && (next.line_start || next.is("}"))
    }

    /// The same at the top level.
    pub(super) fn recover_top(&mut self, start: usize) {
        debug_assert!(!self.diags.is_empty(), "a rule failed without a diagnostic");
        if self.pos == start {
            self.bump();
        }
        let mut nesting = 0usize;
        while !self.peek().is_eof() {
            let t = self.peek();
            let starts = TOP_ONLY.contains(&&*t.text) || t.is_word("const") || t.is_word("action");
            // A declaration at the start of a line most probably is one, whatever braces are open.
            let outermost = nesting == 0 || TOP_ONLY.contains(&&*t.text);
            if outermost && t.is_ident() && t.line_start && starts {
                return;
            }
            let (open, close, end) = (t.is("{"), t.is("}"), t.is(";"));
            self.bump();
            nesting += usize::from(open);
            nesting = nesting.saturating_sub(usize::from(close));
            if nesting == 0 && self.ends_item(close, end) {
                return;
            }
        }
    }
}
