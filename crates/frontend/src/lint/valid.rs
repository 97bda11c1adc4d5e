//! Validity of headers in [`Flow`]: which header an expression is, how statements change it, what is reported.

use super::bounds::known;
use super::facts::At;
use super::flow::Flow;
use super::headers::{Headers, Id, MAX_HEADERS, Status};
use super::state::Place;
use super::{INVALID_HEADER, MAYBE_INVALID};
use crate::ast::{BinaryOp, Direction, StructKind, UnaryOp};
use crate::check::tree::{Arg, Callee, Expr, ExprKind, Param, Tree, VarId};
use crate::check::types::{Kind, Ty};
use crate::diag::Diagnostic;
use pointsman_ir::Span;
use std::collections::BTreeMap;

/// The headers that are followed, by the variable that holds them.
#[derive(Default)]
pub struct Names {
    ids: BTreeMap<Place, Id>,
    /// What parameters are bound to.
    aliases: BTreeMap<VarId, Place>,
}

impl Names {
    /// The place that a parameter is bound to.
    pub fn bind(&mut self, param: VarId, to: Place) {
        self.aliases.insert(param, to);
    }

    /// The place that a variable is.
    pub fn place(&self, var: VarId) -> Place {
        self.aliases.get(&var).cloned().unwrap_or(Place { var, fields: Vec::new() })
    }

    /// The parameter is bound to nothing.
    pub fn release(&mut self, param: VarId) {
        self.aliases.remove(&param);
    }

    fn id(&mut self, place: Place) -> Option<Id> {
        let next = self.ids.len();
        match self.ids.get(&place) {
            Some(id) => Some(*id),
            None if next < MAX_HEADERS => {
                self.ids.insert(place, next as Id);
                Some(next as Id)
            }
            None => None,
        }
    }

    /// The headers in a place, with their fields below it.
    fn under(&self, place: &Place) -> Vec<(Vec<u32>, Id)> {
        let all = self.ids.range(place.clone()..);
        let inside = all.take_while(|(p, _)| p.var == place.var && p.fields.starts_with(&place.fields));
        inside.map(|(p, id)| (p.fields[place.fields.len()..].to_vec(), *id)).collect()
    }
}

impl Flow<'_> {
    pub(super) fn is_header(&self, e: &Expr) -> bool {
        self.tree.is_struct(e.ty, &[StructKind::Header])
    }

    /// The place of a struct or header, with parameters resolved; none for parts of stacks and unions.
    pub(super) fn resolve(&self, e: &Expr) -> Option<Place> {
        match &e.kind {
            ExprKind::Var(v) => Some(self.names.place(*v)),
            ExprKind::Field(b, i) if self.tree.is_struct(b.ty, &[StructKind::Struct]) => {
                let mut p = self.resolve(b)?;
                p.fields.push(*i);
                Some(p)
            }
            _ => None,
        }
    }

    /// The number of a header, from here on followed.
    fn header(&mut self, e: &Expr) -> Option<Id> {
        if !self.is_header(e) {
            return None;
        }
        let place = self.resolve(e)?;
        self.names.id(place)
    }

    fn with_headers(&mut self, f: impl FnOnce(&mut Headers)) {
        if let Some(now) = &mut self.now {
            f(&mut now.headers);
        }
    }

    /// All headers in a place of type `ty` become invalid.
    pub(super) fn all_invalid(&mut self, place: Place, ty: Ty) {
        let Kind::Struct(d, _) = self.tree.tys.get(ty) else { return };
        match self.tree.structs[*d].kind {
            StructKind::Header => {
                if let Some(id) = self.names.id(place) {
                    self.with_headers(|h| h.set(id, false));
                }
            }
            StructKind::HeaderUnion => {}
            StructKind::Struct => {
                for (i, (_, ty)) in self.tree.fields(ty).unwrap_or_default().into_iter().enumerate() {
                    let mut inner = place.clone();
                    inner.fields.push(i as u32);
                    self.all_invalid(inner, ty);
                }
            }
        }
    }

    /// Nothing is known about the headers in a place.
    fn forget(&mut self, place: &Place) {
        let ids = self.names.under(place);
        self.with_headers(|h| ids.iter().for_each(|(_, id)| h.forget(*id)));
    }

    /// A variable of a struct or header gets its first value.
    pub(super) fn declare_headers(&mut self, var: VarId, init: Option<&Expr>) {
        let (place, ty) = (Place { var, fields: Vec::new() }, self.tree.vars[var.0].ty);
        if !matches!(self.tree.tys.get(ty), Kind::Struct(..)) {
            return;
        }
        self.all_invalid(place.clone(), ty);
        if let Some(init) = init {
            self.assign_headers(&place, ty, init);
        }
    }

    /// A struct or header in `to` becomes `from`.
    pub(super) fn assign_headers(&mut self, to: &Place, ty: Ty, from: &Expr) {
        let Kind::Struct(d, _) = self.tree.tys.get(ty) else { return };
        let kind = self.tree.structs[*d].kind;
        match &from.kind {
            ExprKind::Invalid if kind == StructKind::Header => {
                if let Some(id) = self.names.id(to.clone()) {
                    self.with_headers(|h| h.lose(id, from.span));
                }
            }
            ExprKind::Call(c)
                if kind == StructKind::Header && reads_packet(self.tree, &c.callee, "lookahead") =>
            {
                if let Some(id) = self.names.id(to.clone()) {
                    self.with_headers(|h| h.set(id, true));
                }
            }
            ExprKind::Default => self.all_invalid(to.clone(), ty),
            ExprKind::Aggregate(parts) => match kind {
                StructKind::Header => {
                    if let Some(id) = self.names.id(to.clone()) {
                        self.with_headers(|h| h.set(id, true));
                    }
                }
                StructKind::Struct => {
                    self.all_invalid(to.clone(), ty);
                    for (i, part) in parts {
                        let mut inner = to.clone();
                        inner.fields.push(*i);
                        self.assign_headers(&inner, part.ty, part);
                    }
                }
                StructKind::HeaderUnion => {}
            },
            _ => match self.resolve(from) {
                Some(from) => self.copy_headers(to, &from),
                None => self.forget(to),
            },
        }
    }

    fn copy_headers(&mut self, to: &Place, from: &Place) {
        self.forget(to);
        for (rest, id) in self.names.under(from) {
            let fields = to.fields.iter().chain(&rest).copied().collect();
            if let Some(to) = self.names.id(Place { var: to.var, fields }) {
                self.with_headers(|h| h.copy(to, id));
            }
        }
    }

    /// A call returned a struct or header in `e`; `valid`: a header in it is valid.
    pub(super) fn returned(&mut self, e: &Expr, valid: bool) {
        match self.header(e) {
            Some(id) if valid => self.with_headers(|h| h.set(id, true)),
            Some(id) => self.with_headers(|h| h.forget(id)),
            None => {
                if let Some(place) = self.resolve(e) {
                    self.forget(&place);
                }
            }
        }
    }

    /// `e.setValid()` or `e.setInvalid()`
    pub(super) fn set_validity(&mut self, e: &Expr, valid: bool, at: Span) {
        if let Some(id) = self.header(e) {
            self.with_headers(|h| match valid {
                true => h.set(id, true),
                false => h.lose(id, at),
            });
        }
    }

    /// Parameters become their arguments. Returns whether any is a struct or header.
    pub(super) fn bind(&mut self, params: &[Param], args: &[Arg]) -> bool {
        let mut any = false;
        // Aliases of one call do not see each other.
        let mut bound = Vec::new();
        for (p, a) in params.iter().zip(args) {
            let place = match a {
                Arg::In(e) | Arg::Out(e) | Arg::InOut(e) => match self.tree.tys.get(e.ty) {
                    Kind::Struct(..) => self.resolve(e),
                    _ => {
                        if !matches!(e.kind, ExprKind::Const(_)) {
                            self.facts.assign_var(p.var);
                        }
                        None
                    }
                },
                Arg::Ignore(_) | Arg::Missing => None,
            };
            if let (Some(place), Direction::Out, Arg::Out(e)) = (&place, p.direction, a) {
                self.all_invalid(place.clone(), e.ty);
            }
            any = any || place.is_some();
            let (value, max) = self.passed(a);
            bound.push((p.var, place.or(value), max));
        }
        for (var, place, max) in bound {
            self.names.release(var);
            let own = Place { var, fields: Vec::new() };
            match place {
                Some(place) => self.names.bind(var, place),
                None => {
                    self.forget(&own);
                    self.with_bounds(|b, _| b.set(own, max));
                }
            }
        }
        any
    }

    /// The way on which `cond` is true, or false.
    pub(super) fn assume(&mut self, cond: &Expr, holds: bool) {
        self.with_bounds(|b, context| b.assume(cond, holds, context));
        self.assume_headers(cond, holds);
    }

    fn assume_headers(&mut self, cond: &Expr, holds: bool) {
        match &cond.kind {
            ExprKind::IsValid(e) => {
                let id = self.header(e);
                // What it implies about others is not known.
                if !self.now.as_ref().zip(id).is_some_and(|(now, id)| now.headers.is_known(id)) {
                    self.with_headers(|h| h.mute(None));
                }
                if let Some(id) = id {
                    self.with_headers(|h| h.assume(id, holds));
                }
            }
            ExprKind::Unary(UnaryOp::Not, e) => self.assume_headers(e, !holds),
            ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
                let all = *op == BinaryOp::And;
                if holds == all {
                    self.assume_headers(a, holds);
                    return self.assume_headers(b, holds);
                }
                let before = self.now.clone();
                self.assume_headers(a, holds);
                let first = std::mem::replace(&mut self.now, before);
                self.assume_headers(a, !holds);
                self.assume_headers(b, holds);
                super::flow::join(&mut self.now, first);
            }
            _ => self.imply(std::iter::once(cond), None),
        }
    }

    /// What follows depends on `exprs`, which may imply which headers are valid.
    pub(super) fn imply<'e>(&mut self, exprs: impl Iterator<Item = &'e Expr>, here: Option<At>) {
        let mut found = Vec::new();
        exprs.for_each(|e| self.facts.telling(self.tree, e, here, &mut found));
        for e in found {
            let own = self.enclosing(e).and_then(|h| self.header(h));
            self.with_headers(|h| h.mute(own));
        }
    }

    /// The header that `e` is a part of.
    fn enclosing<'a>(&self, e: &'a Expr) -> Option<&'a Expr> {
        let ExprKind::Field(b, _) = &e.kind else { return None };
        if self.is_header(b) { Some(b) } else { self.enclosing(b) }
    }

    /// `e`, perhaps a field of a header, is read or written.
    pub(super) fn access(&mut self, e: &Expr, reads: bool) {
        let Some(header) = self.enclosing(e) else { return };
        let Some(id) = self.header(header) else { return self.element_access(header, e) };
        let Some(now) = &self.now else { return };
        let name = self.text(header);
        match now.headers.status(id) {
            Status::Fine => {}
            Status::Invalid => {
                let message = format!("this is a field of {name}, which cannot be valid here");
                let mut d = Diagnostic::warning(INVALID_HEADER, e.span, message)
                    .label("reading gives an undefined value, writing does nothing")
                    .help("extract the header, or call `setValid()`, before this");
                if let (Some(at), _) = now.headers.witness(id) {
                    d = d.related(at, "it becomes invalid here");
                }
                self.say(d);
                self.with_headers(|h| h.report(id));
            }
            Status::Maybe if reads => {
                let (lost, from) = now.headers.witness(id);
                let path = path(self, header);
                let mut d = Diagnostic::warning(
                    MAYBE_INVALID,
                    e.span,
                    format!("{name} may be invalid where this field is read"),
                )
                .label("undefined if the header is invalid")
                .help(format!("read it only where `{path}.isValid()` was checked"));
                if let Some(at) = lost {
                    d = d.related(at, "it becomes invalid here");
                } else if let Some(at) = from {
                    d = d.related(at, "this state also accepts packets without it");
                }
                self.say(d);
                self.with_headers(|h| h.report(id));
            }
            Status::Maybe => {}
        }
    }

    fn text(&self, e: &Expr) -> String {
        match &e.kind {
            ExprKind::Var(v) => format!("`{}`", self.tree.vars[v.0].name),
            _ => format!("header `{}`", path(self, e)),
        }
    }

    /// Arguments of a call, of which a condition may say that the others do not matter.
    pub(super) fn conditional<'a>(&self, callee: &Callee, args: &'a [Arg]) -> Option<&'a Expr> {
        if !matches!(callee, Callee::ExternFn(_) | Callee::Method(..)) {
            return None;
        }
        args.iter().find_map(|a| match a {
            Arg::In(e) if e.ty == Ty::BOOL => Some(e),
            _ => None,
        })
    }
}

/// A place as the source writes it.
pub(super) fn path(flow: &Flow, e: &Expr) -> String {
    match &e.kind {
        ExprKind::Var(v) => flow.tree.vars[v.0].name.clone(),
        ExprKind::Field(b, i) => {
            let field = match flow.tree.tys.get(b.ty) {
                Kind::Struct(d, _) => flow.tree.structs[*d].fields.get(*i as usize).map(|f| f.name.as_str()),
                _ => None,
            };
            format!("{}.{}", path(flow, b), field.unwrap_or("?"))
        }
        ExprKind::Index(b, i) => {
            format!("{}[{}]", path(flow, b), known(i).map_or_else(|| "...".into(), |n| n.to_string()))
        }
        _ => "?".into(),
    }
}

/// Whether a method of a parser's packet is called.
pub(super) fn reads_packet(tree: &Tree, callee: &Callee, name: &str) -> bool {
    let Callee::Method(_, object, method) = callee else { return false };
    let object = &tree.externs[*object];
    object.name == "packet_in" && object.methods[*method].name == name
}
