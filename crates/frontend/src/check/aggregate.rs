//! Tuple, list and structure-valued expressions (P4_16 sections 8.12 to 8.14, 8.26).

use super::Checker;
use super::tree::{Expr, ExprKind, StructKind};
use super::types::{Kind, Ty};
use crate::ast;
use crate::diag::Diagnostic;
use pointsman_ir::Span;

impl Checker<'_> {
    /// `{a, b}` or `{a, b, ...}`.
    pub fn list_literal(&mut self, elems: &[ast::Expr], rest: bool, span: Span) -> Expr {
        let mut parts = Vec::new();
        let mut tys = Vec::new();
        let mut broken = false;
        for (i, e) in elems.iter().enumerate() {
            let value = self.value(e);
            broken |= value.ty == Ty::ERROR;
            tys.push(value.ty);
            parts.push((i as u32, value));
        }
        if broken {
            return Expr::error(span);
        }
        let ty = self.tree.tys.intern(if rest { Kind::OpenTuple(tys) } else { Kind::Tuple(tys) });
        Expr { kind: ExprKind::Aggregate(parts), ty, span }
    }

    /// `{k = a}` or `{k = a, ...}`.
    pub fn struct_literal(&mut self, fields: &[(ast::Ident, ast::Expr)], rest: bool, span: Span) -> Expr {
        let mut parts = Vec::new();
        let mut tys: Vec<(String, Ty)> = Vec::new();
        let mut broken = false;
        for (i, (name, e)) in fields.iter().enumerate() {
            let value = self.value(e);
            broken |= value.ty == Ty::ERROR;
            if let Some((first, _)) = fields[..i].iter().find(|(n, _)| n.name == name.name) {
                broken = true;
                self.report(
                    Diagnostic::error("P0412", name.span, format!("field `{}` is given twice", name.name))
                        .related(first.span, "first given here")
                        .help("remove one of them"),
                );
            }
            tys.push((name.name.clone(), value.ty));
            parts.push((i as u32, value));
        }
        if broken {
            return Expr::error(span);
        }
        self.note_literal(fields, span);
        let ty = self.tree.tys.intern(Kind::Record(tys, rest));
        Expr { kind: ExprKind::Aggregate(parts), ty, span }
    }

    /// `e`, a literal whose type was open, as a value of type `to`.
    pub fn coerce_aggregate(&mut self, e: Expr, to: Ty, what: &str) -> Expr {
        let span = e.span;
        let from = self.tree.tys.get(e.ty).clone();
        match (e.kind, from) {
            (_, Kind::Dots) => self.default_expr(to, span),
            (kind, Kind::Invalid) => {
                if self.is_header(to) {
                    return Expr { kind: ExprKind::Invalid, ty: to, span };
                }
                self.mismatch(&Expr { kind, ty: Ty::INVALID, span }, to, what);
                Expr { kind: ExprKind::Error, ty: to, span }
            }
            (ExprKind::Mux(c, a, b), _) => {
                let a = self.coerce(*a, to, what);
                let b = self.coerce(*b, to, what);
                Expr { kind: ExprKind::Mux(c, Box::new(a), Box::new(b)), ty: to, span }
            }
            (ExprKind::Aggregate(parts), Kind::Record(names, rest)) => {
                self.record_to_struct(parts, &names, rest, to, what, span)
            }
            (ExprKind::Aggregate(parts), Kind::OpenTuple(_)) => {
                self.list_to(parts, true, e.ty, to, what, span)
            }
            (ExprKind::Aggregate(parts), _) => self.list_to(parts, false, e.ty, to, what, span),
            (kind, _) => {
                self.mismatch(&Expr { kind, ty: e.ty, span }, to, what);
                Expr { kind: ExprKind::Error, ty: to, span }
            }
        }
    }

    /// The default value of type `ty`, if it has one (P4_16 section 7.3).
    pub fn default_expr(&mut self, ty: Ty, span: Span) -> Expr {
        if self.tree.tys.any(ty, &|k| matches!(k, Kind::List(_) | Kind::MatchKind)) || !self.is_value_type(ty)
        {
            let message = format!("`{}` has no default value", self.show(ty));
            self.error("P0401", span, message, "write the value");
            return Expr { kind: ExprKind::Error, ty, span };
        }
        self.fold(Expr { kind: ExprKind::Default, ty, span })
    }

    fn list_to(
        &mut self,
        parts: Vec<(u32, Expr)>,
        rest: bool,
        from: Ty,
        to: Ty,
        what: &str,
        span: Span,
    ) -> Expr {
        let tys: Vec<(String, Ty)> = match self.tree.tys.get(to).clone() {
            Kind::Struct(d, _) if self.tree.structs[d].kind != StructKind::HeaderUnion => {
                self.tree.fields(to).unwrap_or_default()
            }
            Kind::Tuple(ts) => ts.into_iter().enumerate().map(|(i, t)| (format!("element {i}"), t)).collect(),
            Kind::Stack(t, n) => (0..n).map(|i| (format!("element {i}"), t)).collect(),
            Kind::List(t) => {
                if rest {
                    self.error("P0401", span, "a list cannot end with `...`", "write all of its elements");
                }
                (0..parts.len()).map(|i| (format!("element {i}"), t)).collect()
            }
            _ => {
                let e = Expr { kind: ExprKind::Error, ty: from, span };
                self.mismatch(&e, to, what);
                return Expr { kind: ExprKind::Error, ty: to, span };
            }
        };
        if parts.len() > tys.len() || (parts.len() < tys.len() && !rest) {
            let message = format!(
                "{what}: `{}` has {} field(s), but {} are given",
                self.show(to),
                tys.len(),
                parts.len()
            );
            let help = if parts.len() < tys.len() {
                "give all of them, or end with `...`"
            } else {
                "leave some out"
            };
            self.error("P0412", span, message, help);
            return Expr { kind: ExprKind::Error, ty: to, span };
        }
        let mut out = Vec::new();
        for ((i, e), (name, ty)) in parts.into_iter().zip(tys) {
            let what = if name.starts_with("element ") { name } else { format!("field `{name}`") };
            out.push((i, self.coerce(e, ty, &what)));
        }
        self.fold(Expr { kind: ExprKind::Aggregate(out), ty: to, span })
    }

    fn record_to_struct(
        &mut self,
        parts: Vec<(u32, Expr)>,
        names: &[(String, Ty)],
        rest: bool,
        to: Ty,
        what: &str,
        span: Span,
    ) -> Expr {
        let error = Expr { kind: ExprKind::Error, ty: to, span };
        if !self.tree.is_struct(to, &[StructKind::Struct, StructKind::Header]) {
            let from = self.tree.tys.intern(Kind::Record(names.to_vec(), rest));
            self.mismatch(&Expr { kind: ExprKind::Error, ty: from, span }, to, what);
            return error;
        }
        if let Kind::Struct(d, _) = *self.tree.tys.get(to) {
            self.note_literal_type(span, d);
        }
        let fields = self.tree.fields(to).unwrap_or_default();
        let mut out = Vec::new();
        let mut broken = false;
        for ((_, e), (name, _)) in parts.into_iter().zip(names) {
            match fields.iter().position(|(f, _)| f == name) {
                Some(i) => {
                    let what = format!("field `{name}`");
                    out.push((i as u32, self.coerce(e, fields[i].1, &what)));
                }
                None => {
                    broken = true;
                    let message = format!("`{}` has no field `{name}`", self.show(to));
                    let near = super::scope::nearest(name, fields.iter().map(|(n, _)| n.as_str()));
                    let help = near.map_or("remove it".to_string(), |n| format!("did you mean `{n}`?"));
                    self.error("P0304", e.span, message, help);
                }
            }
        }
        let missing: Vec<&str> = fields
            .iter()
            .enumerate()
            .filter(|(i, _)| !out.iter().any(|(k, _)| *k as usize == *i))
            .map(|(_, (n, _))| n.as_str())
            .collect();
        if !missing.is_empty() && !rest && !broken {
            let message = format!("no value for field(s) `{}` of `{}`", missing.join("`, `"), self.show(to));
            self.error("P0412", span, message, "give them, or end with `...` for default values");
            return error;
        }
        if broken {
            return error;
        }
        self.fold(Expr { kind: ExprKind::Aggregate(out), ty: to, span })
    }
}
