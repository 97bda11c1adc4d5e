//! Macros: definition and expansion.
//!
//! Expansion follows the algorithm that the C standard was written from: every token carries the set of macros that it
//! comes from, and is not expanded by those again, so expansion ends.

use std::collections::VecDeque;
use std::rc::Rc;

use pointsman_ir::Span;

use super::{MAX_EXPANSION_STEPS, Macro, Preprocessor};
use crate::diag::Diagnostic;
use crate::lex::{HideSet, Joined, Lexer, Token, TokenKind};

/// Macro calls inside macro arguments may be nested this deep.
const MAX_CALL_DEPTH: usize = 100;

fn hides(set: &HideSet, name: &str) -> bool {
    set.as_ref().is_some_and(|s| s.iter().any(|n| &**n == name))
}

fn union(a: &HideSet, b: &HideSet) -> HideSet {
    match (a, b) {
        (None, _) => b.clone(),
        (_, None) => a.clone(),
        (Some(x), Some(y)) => {
            let mut names = (**x).clone();
            names.extend(y.iter().filter(|n| !x.contains(n)).cloned());
            Some(Rc::new(names))
        }
    }
}

fn intersection(a: &HideSet, b: &HideSet) -> HideSet {
    let (Some(a), Some(b)) = (a, b) else { return None };
    let names: Vec<_> = a.iter().filter(|n| b.contains(n)).cloned().collect();
    (!names.is_empty()).then(|| Rc::new(names))
}

/// Whether two definitions differ only in white space.
fn same_body(a: &Macro, b: &Macro) -> bool {
    a.params == b.params
        && a.variadic == b.variadic
        && a.body.len() == b.body.len()
        && a.body.iter().zip(&b.body).all(|(x, y)| x.text == y.text)
}

impl Preprocessor<'_> {
    /// `#define`
    pub(super) fn define(&mut self, span: Span, args: &[Token]) {
        let Some((name, rest)) = args.split_first().filter(|(n, _)| n.is_ident()) else {
            self.malformed(span, args, "a macro name", "#define NAME text");
            return;
        };
        if &*name.text == "defined" || &*name.text == "__FILE__" || &*name.text == "__LINE__" {
            let d = Diagnostic::error("P0118", name.span, format!("`{}` cannot be defined", name.text));
            self.report(d.help("choose another name"));
            return;
        }
        let mut new = Macro { params: None, variadic: false, body: Vec::new(), span: name.span };
        let mut body = rest;
        if let Some((paren, after)) = rest.split_first()
            && paren.is("(")
            && !paren.space_before
        {
            match self.parameters(paren.span, after, &mut new) {
                Some(after) => body = after,
                None => return,
            }
        }
        new.body = body.to_vec();
        if let Some(first) = new.body.first_mut() {
            first.space_before = false;
        }
        if let Some(t) = [new.body.first(), new.body.last()].into_iter().flatten().find(|t| t.is("##")) {
            let d = Diagnostic::error("P0118", t.span, "`##` joins two tokens, but only one is given");
            self.report(d.help("write a token on both sides of it"));
            return;
        }
        if let Some(old) = self.macros.get(&name.text)
            && !same_body(old, &new)
        {
            let message = format!("the macro `{}` is defined again, differently", name.text);
            self.report(
                Diagnostic::warning("P0119", name.span, message)
                    .related(old.span, "first definition")
                    .help("`#undef` it first"),
            );
        }
        self.macros.insert(name.text.clone(), new);
    }

    /// Parameters, after `(`; returns the tokens after `)`.
    fn parameters<'t>(&mut self, open: Span, mut rest: &'t [Token], new: &mut Macro) -> Option<&'t [Token]> {
        let mut params: Vec<Rc<str>> = Vec::new();
        let mut bad = None;
        loop {
            match rest {
                [t, after @ ..] if t.is(")") && params.is_empty() => {
                    rest = after;
                    break;
                }
                [dots, close, after @ ..] if dots.is("...") && close.is(")") => {
                    params.push("__VA_ARGS__".into());
                    new.variadic = true;
                    rest = after;
                    break;
                }
                [t, sep, after @ ..] if t.is_ident() && (sep.is(",") || sep.is(")")) => {
                    if params.contains(&t.text) {
                        bad = Some((t.span, format!("the parameter `{}` is listed twice", t.text)));
                        break;
                    }
                    params.push(t.text.clone());
                    rest = after;
                    if sep.is(")") {
                        break;
                    }
                }
                [t, ..] => {
                    bad = Some((t.span, format!("expected a macro parameter, found `{}`", t.text)));
                    break;
                }
                [] => {
                    bad = Some((open, "the parameter list of this macro is not terminated".to_string()));
                    break;
                }
            }
        }
        if let Some((span, message)) = bad {
            let d = Diagnostic::error("P0118", span, message);
            self.report(d.help("write `#define NAME(a, b) text`, or `#define NAME (text)` with a space"));
            return None;
        }
        new.params = Some(params);
        Some(rest)
    }

    /// Expands all macros in `tokens`.
    pub(super) fn expand(&mut self, tokens: Vec<Token>, depth: usize) -> Vec<Token> {
        let mut input = VecDeque::from(tokens);
        let mut out = Vec::with_capacity(input.len());
        while let Some(token) = input.pop_front() {
            if !token.is_ident() || hides(&token.hide, &token.text) {
                out.push(token);
                continue;
            }
            if let Some(t) = self.builtin(&token) {
                out.push(t);
                continue;
            }
            let Some(m) = self.macros.get(&token.text).cloned() else {
                out.push(token);
                continue;
            };
            self.steps += 1 + m.body.len();
            if self.steps > MAX_EXPANSION_STEPS {
                if self.steps - (1 + m.body.len()) <= MAX_EXPANSION_STEPS {
                    self.report(Diagnostic::error("P0121", token.span, "macros expand to too much text"));
                }
                continue;
            }
            let own: HideSet = Some(Rc::new(vec![token.text.clone()]));
            let (mut replaced, hide) = match &m.params {
                None => (self.substitute(&m, &[], token.span, depth), union(&token.hide, &own)),
                Some(params) => {
                    // A function-like macro without arguments is an ordinary name.
                    if !input.front().is_some_and(|t| t.is("(")) {
                        out.push(token);
                        continue;
                    }
                    let Some((args, close)) = self.arguments(&token, &mut input, params.len(), m.variadic)
                    else {
                        continue;
                    };
                    let hide = union(&intersection(&token.hide, &close.hide), &own);
                    let mut span = token.span;
                    if close.span.file == span.file && close.span.hi > span.hi {
                        span.hi = close.span.hi;
                    }
                    (self.substitute(&m, &args, span, depth), hide)
                }
            };
            for t in &mut replaced {
                t.hide = union(&t.hide, &hide);
                t.line_start = false;
            }
            if let Some(first) = replaced.first_mut() {
                first.line_start = token.line_start;
                first.space_before = token.space_before;
            } else if token.line_start
                && let Some(next) = input.front_mut()
            {
                next.line_start = true;
            }
            for t in replaced.into_iter().rev() {
                input.push_front(t);
            }
        }
        out
    }

    fn builtin(&self, token: &Token) -> Option<Token> {
        let (kind, text) = match &*token.text {
            "__LINE__" => (TokenKind::Int, self.map.line_column(token.span).0.to_string()),
            "__FILE__" => {
                let path = self.map.path(token.span);
                (TokenKind::Str, format!("\"{}\"", path.replace('\\', "\\\\").replace('"', "\\\"")))
            }
            _ => return None,
        };
        Some(Token { kind, text: text.into(), ..token.clone() })
    }

    /// Takes the arguments of a call and its `)` from `input`.
    fn arguments(
        &mut self,
        name: &Token,
        input: &mut VecDeque<Token>,
        count: usize,
        variadic: bool,
    ) -> Option<(Vec<Vec<Token>>, Token)> {
        let open = input.pop_front()?;
        let mut args: Vec<Vec<Token>> = vec![Vec::new()];
        let mut nesting = 0;
        let close = loop {
            let Some(t) = input.pop_front() else {
                self.report(
                    Diagnostic::error(
                        "P0120",
                        open.span,
                        format!("the call of macro `{}` is not terminated", name.text),
                    )
                    .label("its arguments start here")
                    .help("add `)`; directives are not allowed between the arguments"),
                );
                return None;
            };
            if nesting == 0 && t.is(")") {
                break t;
            }
            if nesting == 0 && t.is(",") && !(variadic && args.len() >= count) {
                args.push(Vec::new());
                continue;
            }
            nesting += usize::from(t.is("("));
            nesting -= usize::from(t.is(")"));
            if let Some(last) = args.last_mut() {
                last.push(t);
            }
        };
        if count == 0 && args.len() == 1 && args.first().is_some_and(Vec::is_empty) {
            args.clear();
        }
        if variadic && args.len() + 1 == count {
            args.push(Vec::new());
        }
        if args.len() != count {
            let s = if count == 1 { "" } else { "s" };
            let message = format!("macro `{}` takes {count} argument{s}, not {}", name.text, args.len());
            let mut d = Diagnostic::error("P0120", name.span, message);
            if let Some(m) = self.macros.get(&name.text) {
                d = d.related(m.span, "defined here").help("arguments with commas in them need parentheses");
            }
            self.report(d);
            return None;
        }
        Some((args, close))
    }

    /// The body of `m` with its parameters replaced.
    fn substitute(&mut self, m: &Macro, args: &[Vec<Token>], span: Span, depth: usize) -> Vec<Token> {
        let mut out: Vec<Token> = Vec::new();
        let mut expanded: Vec<Option<Vec<Token>>> = vec![None; args.len()];
        let mut i = 0;
        // An empty argument next to `##` leaves nothing to join with.
        let mut nothing_left = false;
        while let Some(t) = m.body.get(i) {
            let next = m.body.get(i + 1);
            if m.params.is_some()
                && t.is("#")
                && let Some(arg) = next.and_then(|n| m.param(n)).and_then(|p| args.get(p))
            {
                out.push(stringise(arg, t, span));
                i += 2;
                nothing_left = false;
                continue;
            }
            if t.is("##")
                && let Some(next) = next
            {
                let right = match m.param(next).and_then(|p| args.get(p)) {
                    Some(arg) => arg.clone(),
                    None => vec![Token { span, ..next.clone() }],
                };
                let rest_of_args = m.variadic && next.is_word("__VA_ARGS__");
                if rest_of_args && out.last().is_some_and(|l| l.is(",")) {
                    // `, ##__VA_ARGS__`: the comma goes with the arguments.
                    if right.is_empty() {
                        out.pop();
                    }
                    out.extend(right);
                } else if nothing_left || right.is_empty() {
                    nothing_left &= right.is_empty();
                    out.extend(right);
                } else {
                    let mut right = right.into_iter();
                    if let (Some(a), Some(b)) = (out.pop(), right.next()) {
                        let joined = self.paste(&a, &b, span);
                        out.extend(joined);
                    }
                    out.extend(right);
                }
                i += 2;
                continue;
            }
            nothing_left = false;
            match m.param(t).filter(|p| *p < args.len()) {
                Some(p) => {
                    let raw = next.is_some_and(|n| n.is("##"));
                    let mut tokens = if raw {
                        args[p].clone()
                    } else {
                        let first = || self.expand_argument(&args[p], span, depth);
                        expanded[p].get_or_insert_with(first).clone()
                    };
                    self.steps += tokens.len();
                    if let Some(first) = tokens.first_mut() {
                        first.space_before = t.space_before;
                    }
                    nothing_left = raw && tokens.is_empty();
                    out.extend(tokens);
                }
                None => out.push(Token { span, ..t.clone() }),
            }
            i += 1;
        }
        out
    }

    fn expand_argument(&mut self, tokens: &[Token], span: Span, depth: usize) -> Vec<Token> {
        if depth < MAX_CALL_DEPTH {
            return self.expand(tokens.to_vec(), depth + 1);
        }
        self.report(Diagnostic::error("P0121", span, "macro calls are nested too deeply"));
        Vec::new()
    }

    /// `a ## b`: one token if the two make one, otherwise both, side by side. To an assembler's preprocessor, which is
    /// how P4 programs are usually preprocessed, this is not a mistake, and programs rely on it.
    fn paste(&mut self, a: &Token, b: &Token, span: Span) -> Vec<Token> {
        let text = format!("{}{}", a.text, b.text);
        let text = Joined::new(&text);
        let mut lexer = Lexer::new(&text, span.file);
        let joined = lexer.next(true);
        if matches!(joined.kind, TokenKind::Bad(_)) || !lexer.next(true).is_eof() {
            return vec![a.clone(), Token { space_before: false, ..b.clone() }];
        }
        let hide = intersection(&a.hide, &b.hide);
        vec![Token { span, line_start: a.line_start, space_before: a.space_before, hide, ..joined }]
    }
}

impl Macro {
    fn param(&self, token: &Token) -> Option<usize> {
        let params = self.params.as_ref()?;
        token.is_ident().then(|| params.iter().position(|p| *p == token.text)).flatten()
    }
}

/// `#param`
fn stringise(arg: &[Token], hash: &Token, span: Span) -> Token {
    let mut text = String::from("\"");
    for (i, t) in arg.iter().enumerate() {
        if i > 0 && t.space_before {
            text.push(' ');
        }
        match t.kind {
            TokenKind::Str => text += &t.text.replace('\\', "\\\\").replace('"', "\\\""),
            _ => text += &t.text,
        }
    }
    text.push('"');
    Token { kind: TokenKind::Str, text: text.into(), span, ..hash.clone() }
}
