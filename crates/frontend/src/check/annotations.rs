//! Annotations.

use super::Checker;
use super::eval::{Const, Evaluator};
use super::types::Ty;
use crate::ast;
use crate::diag::Diagnostic;
use pointsman_ir::{Annotation, AnnotationBody, AnnotationToken, AnnotationValue, Annotations, Span};

impl Checker<'_> {
    /// Annotations as the IR has them; constants in structured ones are evaluated.
    pub fn annotations(&mut self, list: &[ast::Annotation]) -> Annotations {
        let mut out = Vec::new();
        for a in list {
            let body = match &a.body {
                ast::AnnotationBody::Empty => AnnotationBody::Empty,
                ast::AnnotationBody::Tokens(t) if a.name.name == "field_list" => {
                    AnnotationBody::Tokens(self.evaluated_tokens(t, a.span))
                }
                ast::AnnotationBody::Tokens(t) => AnnotationBody::Tokens(t.clone()),
                ast::AnnotationBody::List(es) => {
                    AnnotationBody::List(es.iter().filter_map(|e| self.structured_value(e)).collect())
                }
                ast::AnnotationBody::Pairs(ps) => {
                    let pair = |c: &mut Self, (n, e): &(ast::Ident, ast::Expr)| {
                        c.structured_value(e).map(|v| (n.name.clone(), v))
                    };
                    self.check_annotation_keys(ps);
                    AnnotationBody::Pairs(ps.iter().filter_map(|p| pair(self, p)).collect())
                }
            };
            let body = joined(body);
            let one_string = matches!(&body, AnnotationBody::Tokens(t) if matches!(t.as_slice(), [AnnotationToken::String(_)]));
            let name = a.name.name.as_str();
            if matches!(name, "name" | "deprecated") && !one_string {
                let message = format!("`@{name}` takes one string");
                self.error("P0416", a.span, message, format!("write `@{name}(\"...\")`"));
                continue;
            }
            if let Some(help) = self.wrong_body(name, &body) {
                self.error("P0416", a.span, format!("`@{name}` does not take this"), help);
                continue;
            }
            let structured =
                |b: &AnnotationBody| matches!(b, AnnotationBody::List(_) | AnnotationBody::Pairs(_));
            if out.iter().any(|o: &Annotation| o.name == name && (structured(&o.body) || structured(&body))) {
                let message = format!("`@{name}` is already given");
                self.error("P0416", a.span, message, "give a structured annotation once");
                continue;
            }
            let names = |name: &str| matches!(name, "name" | "hidden");
            if names(name) && out.iter().any(|o: &Annotation| names(&o.name)) {
                let message = "an element has at most one `@name` or `@hidden`";
                let d = Diagnostic::warning("P0416", a.span, message);
                self.report(d.help("remove this one: the first counts"));
            }
            out.push(Annotation { name: a.name.name.clone(), body });
        }
        Annotations(out)
    }

    /// The expected form of known annotations.
    fn wrong_body(&self, name: &str, body: &AnnotationBody) -> Option<&'static str> {
        use AnnotationToken::{Int, Other, String};
        let fine = match (name, body) {
            ("pkginfo", AnnotationBody::Empty) => {
                return Some("write `@pkginfo[name=\"...\", version=\"...\"]`");
            }
            ("match", AnnotationBody::Tokens(ts)) => match ts.as_slice() {
                [Other(kind)] => self.tree.match_kinds.is_empty() || self.tree.match_kinds.contains(kind),
                _ => false,
            },
            ("p4runtime_translation", AnnotationBody::Tokens(ts)) => match ts.as_slice() {
                [String(_), Other(comma), first, ..] if comma == "," => {
                    matches!(first, Int(..)) || matches!(first, Other(t) if t == "bit" || t == "string")
                }
                _ => false,
            },
            _ => true,
        };
        match (fine, name) {
            (true, _) => None,
            (_, "match") => Some("write `@match(ternary)`, or another match kind that is declared"),
            _ => Some("write `@p4runtime_translation(\"uri\", bit<W>)`, or `string` instead of `bit<W>`"),
        }
    }

    /// The tokens of an annotation that takes a list of expressions although it is unstructured, as v1model's
    /// `@field_list` does: arguments `NAME` and `ENUM.MEMBER` become their numbers.
    fn evaluated_tokens(&mut self, tokens: &[AnnotationToken], span: Span) -> Vec<AnnotationToken> {
        let comma = AnnotationToken::Other(",".into());
        let mut out = Vec::new();
        for argument in tokens.split(|t| *t == comma) {
            if !out.is_empty() {
                out.push(comma.clone());
            }
            let ident = |name: &str| ast::Ident { name: name.into(), span };
            let name = |n: &str| {
                let path = ast::Path { rooted: false, name: ident(n) };
                ast::Expr { kind: ast::ExprKind::Name(path), span }
            };
            let is_name = |n: &str| n.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            let expr = match argument {
                [AnnotationToken::Other(n)] if is_name(n) => Some(name(n)),
                [AnnotationToken::Other(e), AnnotationToken::Other(dot), AnnotationToken::Other(m)]
                    if dot == "." && is_name(e) && is_name(m) =>
                {
                    Some(ast::Expr { kind: ast::ExprKind::Member(Box::new(name(e)), ident(m)), span })
                }
                _ => None,
            };
            match expr.map(|e| self.annotation_value(&e)) {
                Some(Some(AnnotationValue::Int(i))) => {
                    let written = i.to_string();
                    out.push(AnnotationToken::Int(i, written));
                }
                // An error has been reported.
                Some(None) => {}
                _ => out.extend_from_slice(argument),
            }
        }
        out
    }

    /// P4_16 section 20.1: no key twice.
    fn check_annotation_keys(&mut self, pairs: &[(ast::Ident, ast::Expr)]) {
        for (i, (key, _)) in pairs.iter().enumerate() {
            if pairs[..i].iter().any(|(earlier, _)| earlier.name == key.name) {
                let message = format!("key `{}` is already given", key.name);
                self.error("P0416", key.span, message, "give each key once");
            }
        }
    }

    /// A value of a structured annotation: of type `string`, `int` or `bool` (P4_16 section 20.1).
    fn structured_value(&mut self, e: &ast::Expr) -> Option<AnnotationValue> {
        let value = self.annotation_value(e)?;
        if matches!(value, AnnotationValue::Int(_)) && self.value(e).ty != Ty::INT {
            let help = "write the number without a width";
            self.error("P0416", e.span, "a number in an annotation has type `int`", help);
            return None;
        }
        Some(value)
    }

    fn annotation_value(&mut self, e: &ast::Expr) -> Option<AnnotationValue> {
        let v = self.value(e);
        if v.ty == Ty::ERROR {
            return None;
        }
        let value = Evaluator { tree: &self.tree, vars: &|_| None }.eval(&v);
        match value {
            Ok(Const::Str(s)) => Some(AnnotationValue::String(s)),
            Ok(Const::Bool(b)) => Some(AnnotationValue::Bool(b)),
            Ok(c) => {
                let int = Evaluator { tree: &self.tree, vars: &|_| None }.as_int(&c, v.ty);
                if int.is_none() {
                    let help = "use a string, an integer or a boolean";
                    self.error("P0416", v.span, "this value is not allowed in an annotation", help);
                }
                int.map(AnnotationValue::Int)
            }
            Err(_) => {
                let help = "use a literal or a constant";
                self.error("P0501", v.span, "a value in an annotation must be known at compile time", help);
                None
            }
        }
    }
}

/// `"a" ++ "b"` as one string.
fn joined(body: AnnotationBody) -> AnnotationBody {
    let AnnotationBody::Tokens(tokens) = &body else { return body };
    let mut whole = String::new();
    let mut parts = tokens.split(|t| *t == AnnotationToken::Other("++".into()));
    let fine = parts.all(|part| match part {
        [AnnotationToken::String(s)] => {
            whole += s;
            true
        }
        _ => false,
    });
    if fine { AnnotationBody::Tokens(vec![AnnotationToken::String(whole)]) } else { body }
}
