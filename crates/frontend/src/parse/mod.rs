//! Tokens into the syntax tree, by recursive descent over the grammar of P4_16 1.2.5 (appendix H).
//!
//! Before: preprocessed tokens. After: a tree of the readable parts; unreadable parts are reported as errors.
//!
//! The grammar needs to know which names are types: `a < b > (c)` is a call if `b` is a type and two comparisons
//! otherwise, `(a) - b` a cast or a subtraction. So the parser keeps the names declared so far, by scope. Unknown names
//! are left to the checker wherever the syntax alone is clear, since "unknown type" is more helpful than "syntax
//! error".

mod blocks;
mod decl;
mod expr;
mod recover;
mod stmt;
mod table;
mod types;

use std::collections::BTreeMap;
use std::rc::Rc;

use pointsman_ir::{AnnotationToken, Span};

use crate::ast::{Annotation, AnnotationBody, Ident, Path, Program};
use crate::diag::Diagnostic;
use crate::lex::{Token, TokenKind, parse_int, string_text};

/// The tree may be this deep; later passes recurse over it.
const MAX_DEPTH: u32 = 256;
/// After this many errors, the rest is not checked.
const MAX_ERRORS: usize = 100;

/// Words that are not names (section 6.3.1; `apply`, `key`, `actions`, `state`, `entries`, `type`, `priority` and `list`
/// are names where the syntax allows).
pub const RESERVED: [&str; 41] = [
    "_",
    "abstract",
    "action",
    "bit",
    "bool",
    "break",
    "const",
    "continue",
    "control",
    "default",
    "else",
    "enum",
    "error",
    "exit",
    "extern",
    "false",
    "for",
    "header",
    "header_union",
    "if",
    "in",
    "inout",
    "int",
    "match_kind",
    "out",
    "package",
    "parser",
    "return",
    "select",
    "string",
    "struct",
    "switch",
    "table",
    "this",
    "transition",
    "true",
    "tuple",
    "typedef",
    "value_set",
    "varbit",
    "void",
];

pub(crate) fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

/// The meaning of a name in scope, as far as syntax needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameKind {
    Type,
    /// A function or method with type parameters.
    Generic,
    Other,
}

/// The current rule cannot be completed; a diagnostic has been made.
#[derive(Debug)]
struct Abandon;

type P<T> = Result<T, Abandon>;

struct Parser {
    tokens: Vec<Token>,
    pos: usize,
    diags: Vec<Diagnostic>,
    scopes: Vec<BTreeMap<Rc<str>, NameKind>>,
    depth: u32,
    /// Inside `bit<...>` without parentheses, where `>` ends the width.
    no_gt: bool,
    /// Nothing more is to be read.
    stopped: bool,
    /// Token at which the last error was reported: one error for each place.
    last_error: Option<usize>,
    /// Places where an attempt to read type arguments or a cast failed. Attempts can be nested, and would otherwise
    /// take exponential time.
    failed: BTreeMap<usize, ()>,
}

/// Parses a preprocessed program.
pub(crate) fn parse(tokens: Vec<Token>) -> (Program, Vec<Diagnostic>) {
    let mut diags = Vec::new();
    let tokens = report_bad(tokens, &mut diags);
    let mut p = Parser {
        tokens,
        pos: 0,
        diags,
        scopes: vec![BTreeMap::new()],
        depth: 0,
        no_gt: false,
        stopped: false,
        last_error: None,
        failed: BTreeMap::new(),
    };
    let program = p.program();
    (program, p.diags)
}

/// Reports and drops invalid tokens, except in annotations: `@a(...)` may contain any text (section 20).
fn report_bad(tokens: Vec<Token>, diags: &mut Vec<Diagnostic>) -> Vec<Token> {
    let mut out: Vec<Token> = Vec::with_capacity(tokens.len() + 1);
    let mut nesting = 0usize;
    let mut line_start = false;
    for mut t in tokens {
        if nesting > 0 {
            nesting += usize::from(t.is("("));
            nesting -= usize::from(t.is(")"));
        } else if t.is("(")
            && let [.., at, name] = &out[..]
            && at.is("@")
            && name.is_ident()
        {
            nesting = 1;
        }
        if let TokenKind::Bad(d) = &t.kind
            && (nesting == 0 || d.code != "P0101")
        {
            if diags.len() < MAX_ERRORS {
                diags.push((**d).clone());
            }
            if d.code != "P0104" {
                line_start |= t.line_start;
                continue;
            }
        }
        t.line_start |= std::mem::take(&mut line_start);
        out.push(t);
    }
    if !out.last().is_some_and(Token::is_eof) {
        let span = out.last().map_or(Span::default(), |t| Span { lo: t.span.hi, ..t.span });
        let kind = TokenKind::Eof;
        out.push(Token { kind, text: "".into(), span, line_start: true, space_before: true, hide: None });
    }
    out
}

/// From the start of `a` to the end of `b`.
fn join(a: Span, b: Span) -> Span {
    match a.file == b.file {
        true => Span { file: a.file, lo: a.lo.min(b.lo), hi: a.hi.max(b.hi) },
        false => a,
    }
}

impl Parser {
    fn program(&mut self) -> Program {
        let mut decls = Vec::new();
        while !self.peek().is_eof() && !self.stopped {
            let start = self.pos;
            if self.eat(";") {
                continue;
            }
            if self.peek().is("}") {
                let d = Diagnostic::error("P0208", self.peek().span, "this `}` closes nothing");
                self.report(d.help("remove it, or look for an extra `}` above it"));
                self.bump();
                continue;
            }
            if self.top_level(&mut decls).is_err() {
                self.scopes.truncate(1);
                self.depth = 0;
                self.no_gt = false;
                self.recover_top(start);
            }
        }
        Program { decls }
    }

    // Tokens.

    fn peek(&self) -> &Token {
        self.peek_at(0)
    }

    fn peek_at(&self, n: usize) -> &Token {
        // The last token is the end of the input, and the list is never empty.
        &self.tokens[(self.pos + n).min(self.tokens.len() - 1)]
    }

    fn bump(&mut self) -> Span {
        let span = self.peek().span;
        if self.pos + 1 < self.tokens.len() {
            self.pos += 1;
        }
        span
    }

    fn at(&self, punct: &str) -> bool {
        self.peek().is(punct)
    }

    fn at_word(&self, word: &str) -> bool {
        self.peek().is_word(word)
    }

    fn eat(&mut self, punct: &str) -> bool {
        let found = self.at(punct);
        if found {
            self.bump();
        }
        found
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        if found {
            self.bump();
        }
        found
    }

    fn expect(&mut self, punct: &str) -> P<Span> {
        match self.at(punct) {
            true => Ok(self.bump()),
            false => Err(self.unexpected(&format!("`{punct}`"))),
        }
    }

    fn expect_word(&mut self, word: &str) -> P<Span> {
        match self.at_word(word) {
            true => Ok(self.bump()),
            false => Err(self.unexpected(&format!("`{word}`"))),
        }
    }

    /// The span of the token before the present one.
    fn previous(&self) -> Span {
        self.pos.checked_sub(1).and_then(|i| self.tokens.get(i)).map_or(self.peek().span, |t| t.span)
    }

    /// From `start` to the token before the present one.
    fn since(&self, start: Span) -> Span {
        join(start, self.previous())
    }

    fn is_name(&self, n: usize) -> bool {
        let t = self.peek_at(n);
        t.is_ident() && !is_reserved(&t.text)
    }

    /// A name that is being declared or used; `what` names its kind, with an article.
    fn name(&mut self, what: &str) -> P<Ident> {
        if self.is_name(0) {
            let name = self.peek().text.to_string();
            let span = self.bump();
            return Ok(Ident { name, span });
        }
        if self.peek().is_ident() {
            let word = self.peek().text.clone();
            let d = Diagnostic::error(
                "P0207",
                self.peek().span,
                format!("expected {what}, found the keyword `{word}`"),
            );
            let d = match &*word {
                "_" => d.help("`_` is not a name; choose one"),
                _ => d.help(format!("keywords cannot be names; choose another name, such as `{word}_`")),
            };
            self.report(d);
            return Err(Abandon);
        }
        Err(self.unexpected(what))
    }

    /// `x` or `.x`
    fn path(&mut self, what: &str) -> P<Path> {
        let rooted = self.eat(".");
        Ok(Path { rooted, name: self.name(what)? })
    }

    /// Runs a rule one level deeper.
    fn nested<T>(&mut self, rule: impl FnOnce(&mut Self) -> P<T>) -> P<T> {
        self.check_depth(1)?;
        self.depth += 1;
        let result = rule(self);
        self.depth -= 1;
        result
    }

    /// Checks that a tree of this height fits here.
    fn check_depth(&mut self, height: u32) -> P<()> {
        if self.depth + height <= MAX_DEPTH {
            return Ok(());
        }
        if !self.stopped {
            self.report(
                Diagnostic::error(
                    "P0203",
                    self.peek().span,
                    format!("nested deeper than {MAX_DEPTH} levels"),
                )
                .help("split it into several declarations"),
            );
            self.stopped = true;
        }
        Err(Abandon)
    }

    /// Tries a rule; if it fails, the state is unchanged. It is not tried at the same place again.
    fn attempt<T>(&mut self, rule: impl FnOnce(&mut Self) -> P<T>) -> Option<T> {
        let (pos, diags, depth, no_gt, stopped, last_error) =
            (self.pos, self.diags.len(), self.depth, self.no_gt, self.stopped, self.last_error);
        if self.failed.contains_key(&pos) {
            return None;
        }
        match rule(self) {
            Ok(v) if self.diags.len() == diags => Some(v),
            // Nesting that is too deep is an error for any rule.
            _ if self.stopped && !stopped => None,
            _ => {
                self.diags.truncate(diags);
                (self.pos, self.depth, self.no_gt, self.stopped, self.last_error) =
                    (pos, depth, no_gt, stopped, last_error);
                self.failed.insert(pos, ());
                None
            }
        }
    }

    // Names in scope.

    fn declare(&mut self, name: &Ident, kind: NameKind) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(Rc::from(name.name.as_str()), kind);
        }
    }

    fn lookup(&self, name: &str) -> Option<NameKind> {
        self.scopes.iter().rev().find_map(|s| s.get(name)).copied()
    }

    fn scoped<T>(&mut self, rule: impl FnOnce(&mut Self) -> P<T>) -> P<T> {
        let outer = self.scopes.len();
        self.scopes.push(BTreeMap::new());
        let result = rule(self);
        self.scopes.truncate(outer);
        result
    }

    // Annotations (section 20).

    fn annotations(&mut self) -> P<Vec<Annotation>> {
        let mut out = Vec::new();
        while self.at("@") {
            let start = self.bump();
            // Any word can be the name of an annotation.
            if !self.peek().is_ident() {
                return Err(self.unexpected("the name of an annotation"));
            }
            if self.at_word("pragma") && self.peek_at(1).is_ident() {
                self.bump();
                out.push(self.pragma(start));
                continue;
            }
            let name = Ident { name: self.peek().text.to_string(), span: self.bump() };
            let body = match () {
                () if self.at("(") => self.annotation_tokens()?,
                () if self.at("[") => self.structured_annotation()?,
                () => AnnotationBody::Empty,
            };
            out.push(Annotation { name, body, span: self.since(start) });
        }
        Ok(out)
    }

    /// `@pragma name text` to the end of the line, an older form of annotations that p4c keeps.
    fn pragma(&mut self, start: Span) -> Annotation {
        let name = Ident { name: self.peek().text.to_string(), span: self.bump() };
        let mut tokens = Vec::new();
        while !self.peek().line_start && !self.peek().is_eof() {
            tokens.push(annotation_token(self.peek()));
            self.bump();
        }
        let body = if tokens.is_empty() { AnnotationBody::Empty } else { AnnotationBody::Tokens(tokens) };
        Annotation { name, body, span: self.since(start) }
    }

    fn annotation_tokens(&mut self) -> P<AnnotationBody> {
        let open = self.expect("(")?;
        let mut tokens = Vec::new();
        let mut nesting = 0;
        loop {
            let t = self.peek();
            if t.is_eof() {
                self.report(
                    Diagnostic::error("P0208", open, "this `(` is never closed")
                        .label("opened here")
                        .help("add `)`"),
                );
                return Err(Abandon);
            }
            if nesting == 0 && t.is(")") {
                self.bump();
                return Ok(AnnotationBody::Tokens(tokens));
            }
            nesting += usize::from(t.is("("));
            nesting -= usize::from(t.is(")"));
            tokens.push(annotation_token(t));
            self.bump();
        }
    }

    fn structured_annotation(&mut self) -> P<AnnotationBody> {
        self.expect("[")?;
        let pairs = self.is_name(0) && self.peek_at(1).is("=");
        let mut list = Vec::new();
        let mut fields = Vec::new();
        while !self.at("]") {
            if pairs {
                let key = self.name("the name of a value")?;
                self.expect("=")?;
                fields.push((key, self.expr()?));
            } else {
                list.push(self.expr()?);
            }
            if !self.eat(",") {
                break;
            }
        }
        self.expect("]")?;
        Ok(if pairs { AnnotationBody::Pairs(fields) } else { AnnotationBody::List(list) })
    }
}

fn annotation_token(t: &Token) -> AnnotationToken {
    match t.kind {
        TokenKind::Str => AnnotationToken::String(string_text(&t.text).to_string()),
        TokenKind::Int => match parse_int(&t.text) {
            Ok((v, _)) => AnnotationToken::Int(v, t.text.to_string()),
            Err(_) => AnnotationToken::Other(t.text.to_string()),
        },
        _ => AnnotationToken::Other(t.text.to_string()),
    }
}

#[cfg(test)]
mod tests;
