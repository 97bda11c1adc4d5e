//! Includes, macros and conditionals: the files of a program become one stream of tokens.
//!
//! P4_16 section 6.2 asks for a subset of the C preprocessor; this is the usual part of it, function-like macros
//! included. Like p4c, which preprocesses as `cpp -x assembler-with-cpp` does, it lets `##` between tokens that make no
//! token expand to nothing, and skips unknown directives. It works on tokens. Before: text of files. After:
//! every token has the span where it was written; the text of a macro has the span of its use; no directives are left, and
//! macros are expanded.

mod condition;
mod expand;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use pointsman_ir::{LineMarker, Span};

use crate::check::scope::nearest;
use crate::diag::Diagnostic;
use crate::lex::{BLANKS, Joined, Lexer, Token, TokenKind, unescape};
use crate::source::{Loader, SourceMap};

/// Includes deeper than this are taken for endless.
const MAX_INCLUDE_DEPTH: usize = 64;
/// Macro expansion stops after this many steps: a few lines of macros can produce exponentially many tokens.
const MAX_EXPANSION_STEPS: usize = 2_000_000;
/// The maximum number of diagnostics.
const MAX_DIAGNOSTICS: usize = 100;
/// The maximum size of a file, and of all together, in bytes.
const MAX_TOTAL_BYTES: usize = 256 << 20;

/// A macro defined or undefined from outside, as `-D` and `-U` do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Define {
    /// `-Dname` (value `1`), `-Dname=value`, `-Dname(params)=value`.
    Set {
        /// Name, with parameters in parentheses if it has any.
        name: String,
        /// Replacement text.
        value: String,
    },
    /// `-Uname`
    Unset(String),
}

impl Define {
    /// From the argument of `-D`: `NAME` or `NAME=VALUE`.
    pub fn set(arg: &str) -> Self {
        let (name, value) = arg.split_once('=').unwrap_or((arg, "1"));
        Define::Set { name: name.to_string(), value: value.to_string() }
    }
}

#[derive(Clone, Debug)]
struct Macro {
    /// `None`: object-like.
    params: Option<Vec<Rc<str>>>,
    /// The last parameter takes the rest of the arguments.
    variadic: bool,
    body: Vec<Token>,
    span: Span,
}

/// One `#if` that is open.
struct Conditional {
    span: Span,
    /// Whether the surroundings are active.
    outer: bool,
    /// Whether the present group is active.
    active: bool,
    /// Whether some group was active.
    taken: bool,
    /// `#else` was seen.
    last: bool,
}

pub(crate) struct Preprocessor<'a> {
    map: SourceMap,
    loader: &'a dyn Loader,
    macros: BTreeMap<Rc<str>, Macro>,
    once: BTreeSet<String>,
    diags: Vec<Diagnostic>,
    out: Vec<Token>,
    steps: usize,
    bytes: usize,
    /// Includes were nested too deep; no more are read.
    too_deep: bool,
}

/// Reads `main_text` and its includes. The tokens end with one of kind `Eof`.
pub(crate) fn preprocess(
    main_path: &str,
    main_text: &str,
    loader: &dyn Loader,
    defines: &[Define],
) -> (SourceMap, Vec<Token>, Vec<Diagnostic>) {
    let mut pp = Preprocessor {
        map: SourceMap::default(),
        loader,
        macros: BTreeMap::new(),
        once: BTreeSet::new(),
        diags: Vec::new(),
        out: Vec::new(),
        steps: 0,
        bytes: 0,
        too_deep: false,
    };
    let main = pp.map.add(main_path.to_string(), main_text.to_string());
    pp.predefine(defines);
    pp.file(main, 0);
    // Where the text ends for a reader: missing tokens are missing behind the last line.
    let end = main_text.trim_end().len() as u32;
    pp.out.push(Token {
        kind: TokenKind::Eof,
        text: Rc::from(""),
        span: Span { file: main, lo: end, hi: end },
        line_start: true,
        space_before: true,
        hide: None,
    });
    (pp.map, pp.out, pp.diags)
}

impl Preprocessor<'_> {
    fn report(&mut self, d: Diagnostic) {
        if self.diags.len() < MAX_DIAGNOSTICS {
            self.diags.push(d);
        } else if self.diags.len() == MAX_DIAGNOSTICS {
            let message = "too many problems in directives and macros; the rest are not shown";
            self.diags.push(Diagnostic::error("P0199", d.span, message).help("fix those above first"));
        }
    }

    fn predefine(&mut self, defines: &[Define]) {
        let mut text = "#define __POINTSMAN__ 1\n".to_string();
        for d in defines {
            text += &match d {
                Define::Set { name, value } => format!("#define {name} {}\n", value.replace('\n', " ")),
                Define::Unset(name) => format!("#undef {name}\n"),
            };
        }
        let file = self.map.add("<predefined>".to_string(), text);
        self.file(file, 0);
    }

    fn file(&mut self, file: u32, depth: usize) {
        let text: Rc<str> = self.map.files.get(file as usize).map_or("", |f| &f.text).into();
        self.bytes += text.len();
        if self.bytes > MAX_TOTAL_BYTES {
            let span = Span { file, lo: 0, hi: 0 };
            self.report(
                Diagnostic::error("P0112", span, "the program and its includes are too large")
                    .label("this file exceeds the limit"),
            );
            return;
        }
        let joined = Joined::new(&text);
        let mut lexer = Lexer::new(&joined, file);
        let mut open: Vec<Conditional> = Vec::new();
        let mut run = Vec::new();
        let mut token = lexer.next(true);
        loop {
            let active = open.last().is_none_or(|c| c.active);
            if token.is("#") && token.line_start {
                self.flush(&mut run);
                let mut line = Vec::new();
                let next = loop {
                    let t = lexer.next(true);
                    if t.line_start || t.is_eof() {
                        break t;
                    }
                    if let TokenKind::Bad(d) = &t.kind
                        && d.code == "P0102"
                    {
                        self.report((**d).clone());
                    }
                    line.push(t);
                };
                self.directive(&text, &token, &line, active, &mut open, depth);
                // A string at the start of a line is the only token that reads differently outside of directives.
                token = match &next.kind {
                    TokenKind::Bad(d) if d.code == "P0104" => lexer.again(&next, false),
                    _ => next,
                };
                continue;
            }
            match &token.kind {
                TokenKind::Eof => break,
                TokenKind::Bad(d) if d.code == "P0102" => self.report((**d).clone()),
                TokenKind::Str if active => run.push(self.string(&text, token, depth)),
                _ if active => run.push(token),
                _ => self.leave_out(&[token]),
            }
            token = lexer.next(!active);
        }
        self.flush(&mut run);
        self.unclosed(&open);
    }

    /// Takes note of the names among tokens that are not part of the program.
    fn leave_out(&mut self, tokens: &[Token]) {
        self.map.left_out.extend(tokens.iter().filter(|t| t.is_ident()).map(|t| t.span));
    }

    fn unclosed(&mut self, open: &[Conditional]) {
        for c in open {
            self.report(
                Diagnostic::error("P0115", c.span, "this conditional is not terminated")
                    .label("starts here")
                    .help("add `#endif`"),
            );
        }
    }

    /// Obeys conditionals inside of a string of several lines, as the C preprocessor does, for which no string has more than one.
    /// Their lines, and those left out, become empty.
    fn string(&mut self, text: &str, string: Token, depth: usize) -> Token {
        if !string.text.lines().skip(1).any(is_conditional) {
            return string;
        }
        let mut open: Vec<Conditional> = Vec::new();
        let mut kept = String::with_capacity(string.text.len());
        let mut from = string.span.lo;
        for (n, line) in string.text.split_inclusive('\n').enumerate() {
            let active = open.last().is_none_or(|c| c.active);
            if n > 0 && is_conditional(line) {
                let joined = Joined::new(line);
                let mut lexer = Lexer::new(&joined, string.span.file);
                let tokens = std::iter::from_fn(|| Some(lexer.next(true)).filter(|t| !t.is_eof()));
                let shifted = |t: Token| {
                    let span = Span { lo: from + t.span.lo, hi: from + t.span.hi, ..t.span };
                    Token { span, ..t }
                };
                let tokens: Vec<Token> = tokens.map(shifted).collect();
                if let Some((hash, rest)) = tokens.split_first() {
                    self.directive(text, hash, rest, active, &mut open, depth);
                }
                kept.push('\n');
            } else if active {
                kept.push_str(line);
            } else if line.ends_with('\n') {
                kept.push('\n');
            }
            from += line.len() as u32;
        }
        self.unclosed(&open);
        if !open.is_empty() {
            kept.push('"');
        }
        Token { text: Rc::from(kept), ..string }
    }

    /// Expands and passes on a run of text between two directives.
    fn flush(&mut self, run: &mut Vec<Token>) {
        if !run.is_empty() {
            let tokens = std::mem::take(run);
            let mut expanded = self.expand(tokens, 0);
            self.out.append(&mut expanded);
        }
    }

    fn directive(
        &mut self,
        text: &str,
        hash: &Token,
        line: &[Token],
        active: bool,
        open: &mut Vec<Conditional>,
        depth: usize,
    ) {
        let Some((name, args)) = line.split_first() else { return };
        let span = Span { hi: name.span.hi, ..hash.span };
        match &*name.text {
            "if" | "ifdef" | "ifndef" => {
                let value = active
                    && match &*name.text {
                        "if" => self.condition(span, args),
                        word => self.is_defined(span, args) == (word == "ifdef"),
                    };
                open.push(Conditional { span, outer: active, active: value, taken: value, last: false });
            }
            "elif" | "else" | "endif" => self.alternative(name, args, span, open),
            _ if !active => self.leave_out(args),
            "define" => self.define(span, args),
            "undef" => match args {
                [name] if name.is_ident() => {
                    self.macros.remove(&name.text);
                }
                _ => self.malformed(span, args, "a macro name", "#undef NAME"),
            },
            "include" => self.include(text, span, args, depth),
            "error" | "warning" => self.message(text, name, line, span),
            "pragma" => {
                if let [what] = args
                    && what.is_word("once")
                    && let Some(f) = self.map.files.get(hash.span.file as usize)
                {
                    self.once.insert(f.path.clone());
                }
            }
            "line" => {
                let args = self.expand(args.to_vec(), 0);
                if !self.line_marker(text, hash, line, &args) {
                    self.malformed(span, &args, "a line number", "#line 12 \"file.p4\"");
                }
            }
            // A line marker of a preprocessor. Other lines that start with a number are skipped.
            _ if name.kind == TokenKind::Int => {
                self.line_marker(text, hash, line, line);
            }
            other => {
                let d = Diagnostic::warning(
                    "P0110",
                    span,
                    format!("the unknown directive `#{other}` is skipped"),
                );
                self.report(d.help(
                    "known are include, define, undef, if, ifdef, ifndef, elif, else, endif, error, warning, line, pragma",
                ));
            }
        }
    }

    /// `#elif`, `#else` or `#endif`.
    fn alternative(&mut self, name: &Token, args: &[Token], span: Span, open: &mut Vec<Conditional>) {
        let Some(c) = open.last() else {
            let d = Diagnostic::error("P0116", span, format!("`#{}` without `#if`", name.text));
            self.report(d.help("remove it, or add the matching `#if`"));
            return;
        };
        if &*name.text == "endif" {
            open.pop();
            return;
        }
        if c.last {
            let d = Diagnostic::error("P0116", span, format!("`#{}` after `#else`", name.text));
            self.report(d.related(c.span, "the conditional starts here"));
            return;
        }
        let want = c.outer && !c.taken;
        let value = want && (&*name.text == "else" || self.condition(span, args));
        if let Some(c) = open.last_mut() {
            c.last = &*name.text == "else";
            c.active = value;
            c.taken |= value;
        }
    }

    /// `#error` or `#warning`.
    fn message(&mut self, text: &str, name: &Token, line: &[Token], span: Span) {
        let (lo, hi) = (name.span.hi as usize, line.last().map_or(0, |t| t.span.hi) as usize);
        let message = Joined::new(text.get(lo..hi).unwrap_or("")).text().trim().to_string();
        let message = if message.is_empty() { format!("#{}", name.text) } else { message };
        let span = Span { hi: line.last().map_or(span.hi, |t| t.span.hi), ..span };
        self.report(match &*name.text {
            "error" => Diagnostic::error("P0113", span, message).label("reported by the program"),
            _ => Diagnostic::warning("P0114", span, message).label("reported by the program"),
        });
    }

    /// Takes note that what follows the directive `line` comes from another file, as `args`, a number and perhaps a file
    /// name, say. False if they say no such thing.
    fn line_marker(&mut self, text: &str, hash: &Token, line: &[Token], args: &[Token]) -> bool {
        let Some((Ok(number), rest)) = args.split_first().map(|(n, rest)| (n.text.parse::<u32>(), rest))
        else {
            return false;
        };
        let path = match rest {
            [] => self.map.path(hash.span).to_string(),
            // Flags may follow the name.
            [name, ..] if name.kind == TokenKind::Str => unescape(&name.text),
            _ => return false,
        };
        let end = line.last().map_or(hash.span.hi, |t| t.span.hi) as usize;
        let from = text.get(end..).and_then(|rest| rest.find('\n')).map_or(text.len(), |n| end + n + 1);
        self.map.mark(hash.span.file, LineMarker { from: from as u32, line: number, path });
        true
    }

    fn malformed(&mut self, span: Span, args: &[Token], expected: &str, usage: &str) {
        let (at, found) = match args.first() {
            Some(t) => (t.span, format!("found `{}`", t.text)),
            None => (span, "found the end of the line".to_string()),
        };
        self.report(
            Diagnostic::error("P0110", at, format!("expected {expected}, {found}"))
                .help(format!("write `{usage}`")),
        );
    }

    fn is_defined(&mut self, span: Span, args: &[Token]) -> bool {
        match args {
            [name, ..] if name.is_ident() => {
                if let Some(extra) = args.get(1) {
                    let d = Diagnostic::warning("P0110", extra.span, "the text after the name is ignored");
                    self.report(d);
                }
                self.knows(&name.text)
            }
            _ => {
                self.malformed(span, args, "a macro name", "#ifdef NAME");
                false
            }
        }
    }

    fn knows(&self, name: &str) -> bool {
        self.macros.contains_key(name) || name == "__FILE__" || name == "__LINE__"
    }

    fn include(&mut self, text: &str, span: Span, args: &[Token], depth: usize) {
        // The name may come from a macro, but `<...>` is taken as written.
        let expanded;
        let args = match args.first() {
            Some(t) if t.is_ident() => {
                expanded = self.expand(args.to_vec(), 0);
                &expanded[..]
            }
            _ => args,
        };
        let (name, quoted, end) = match args {
            [s] if s.kind == TokenKind::Str => (unescape(&s.text), true, s.span.hi),
            [lt, .., gt] if lt.is("<") && gt.is(">") => {
                let written = text.get(lt.span.hi as usize..gt.span.lo as usize).unwrap_or("");
                let name = match lt.span.file == span.file && lt.span != gt.span {
                    true => written.to_string(),
                    false => args[1..args.len() - 1].iter().map(|t| &*t.text).collect(),
                };
                (name, false, gt.span.hi)
            }
            _ => {
                self.malformed(span, args, "a file name", "#include <core.p4>` or `#include \"file.p4\"");
                return;
            }
        };
        let span = Span { hi: end.max(span.hi), ..span };
        if self.too_deep {
            return;
        }
        if depth + 1 >= MAX_INCLUDE_DEPTH {
            // A file that includes itself twice would be read exponentially often.
            self.too_deep = true;
            self.report(
                Diagnostic::error(
                    "P0112",
                    span,
                    format!("includes are nested deeper than {MAX_INCLUDE_DEPTH}"),
                )
                .help("a file that includes itself needs a guard: #ifndef NAME, #define NAME, ..., #endif"),
            );
            return;
        }
        let from = self.map.files.get(span.file as usize).map_or("", |f| &f.path);
        match self.loader.include(&name, quoted, from) {
            Some((path, text)) => {
                if !self.once.contains(&path) {
                    let file = self.map.add_included(path, text, span);
                    self.file(file, depth + 1);
                }
            }
            None => {
                let d = Diagnostic::error("P0111", span, format!("cannot find the file `{name}`"));
                let help = self.include_help(&name, quoted, from);
                self.report(d.help(help));
            }
        }
    }

    /// The remedy for an include that cannot be found.
    fn include_help(&self, name: &str, quoted: bool, from: &str) -> String {
        if let Some(remedy) = self.loader.remedy() {
            return remedy.into();
        }
        if !quoted && self.loader.include(name, true, from).is_some() {
            return format!("it is next to the including file: write `#include \"{name}\"`");
        }
        let similar = self.loader.similar(name, quoted, from);
        match (nearest(name, similar.iter().map(String::as_str)), quoted) {
            (Some(near), _) => format!("did you mean `{near}`?"),
            (None, true) => "the name is relative to the including file or to an include directory".into(),
            (None, false) => {
                "`<...>` is searched in the include directories only; use quotes for your own files".into()
            }
        }
    }
}

/// Whether this line is one of those that decide which lines are left out.
pub(crate) fn is_conditional(line: &str) -> bool {
    let Some(rest) = line.trim_start_matches(BLANKS).strip_prefix('#') else { return false };
    let word = rest.trim_start_matches(BLANKS).split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next();
    matches!(word, Some("if" | "ifdef" | "ifndef" | "elif" | "else" | "endif"))
}

#[cfg(test)]
mod tests;
