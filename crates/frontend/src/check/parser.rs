//! States, transitions and `select` (P4_16 sections 13.3 to 13.6), and sets of values (8.15).

use super::record::Meaning;
use super::scope::{Def, nearest};
use super::tree::{Expr, ExprKind, KeySet, State, Target, Transition};
use super::types::{Kind, Ty};
use super::{Checker, Place};
use crate::ast;
use crate::diag::Diagnostic;
use pointsman_ir::Span;

impl Checker<'_> {
    /// The states of a parser, `start` first.
    pub fn states(&mut self, states: &[ast::StateDecl], parser: Span) -> Vec<State> {
        let mut kept: Vec<&ast::StateDecl> = Vec::new();
        for s in states {
            if let "accept" | "reject" = s.name.name.as_str() {
                let message = format!("state `{}` is built in", s.name.name);
                self.error("P0606", s.name.span, message, "choose another name");
            } else if let Some(first) = kept.iter().find(|o| o.name.name == s.name.name) {
                self.duplicate(&s.name, first.name.span);
            } else {
                if let Some(first) = self.in_block(&s.name) {
                    self.duplicate(&s.name, first);
                }
                kept.push(s);
            }
        }
        match kept.iter().position(|s| s.name.name == "start") {
            // The IR begins with state 0.
            Some(i) => kept.swap(0, i),
            None => {
                self.error("P0607", parser, "this parser has no state `start`", "add `state start { ... }`")
            }
        }
        let names: Vec<&ast::Ident> = kept.iter().map(|s| &s.name).collect();
        for n in &names {
            self.note_declared(n, || Meaning::State);
        }
        let mut out = Vec::new();
        for s in kept {
            self.cx.place = Place::ParserState;
            let (body, next) = self.in_scope(|c| {
                let body = c.stmts(&s.body);
                let next = match &s.transition {
                    None => {
                        let d = Diagnostic::warning(
                            "P0606",
                            s.name.span,
                            format!("state `{}` has no transition: it rejects the packet", s.name.name),
                        );
                        c.report(d.help("end it with `transition accept;` or `transition reject;`"));
                        Transition::Goto(Target::Reject)
                    }
                    Some(t) => c.transition(t, &names),
                };
                (body, next)
            });
            let name_span = s.name.span;
            out.push(State { name: s.name.name.clone(), name_span, span: s.span, body, next });
        }
        self.cx.place = Place::BlockHead;
        if !out.is_empty() && !ends(&out) {
            let message = "no state reachable from `start` ends this parser";
            self.error("P0606", parser, message, "add a transition to `accept` or `reject`");
        }
        out
    }

    pub fn target(&mut self, name: &ast::Ident, names: &[&ast::Ident]) -> Target {
        match name.name.as_str() {
            "accept" => return Target::Accept,
            "reject" => return Target::Reject,
            _ => {}
        }
        if let Some(i) = names.iter().position(|n| n.name == name.name) {
            self.note(name.span, names[i].span);
            return Target::State(i);
        }
        let all = names.iter().map(|n| n.name.as_str()).chain(["accept", "reject"]);
        let help = match nearest(&name.name, all) {
            Some(n) => format!("did you mean `{n}`?"),
            None => format!("add `state {} {{ ... }}`", name.name),
        };
        self.error("P0606", name.span, format!("there is no state `{}`", name.name), help);
        Target::Reject
    }

    fn transition(&mut self, t: &ast::Transition, names: &[&ast::Ident]) -> Transition {
        match t {
            ast::Transition::Direct(name) => Transition::Goto(self.target(name, names)),
            ast::Transition::Select { on, cases, span } => self.select(on, cases, names, *span),
        }
    }

    fn select(
        &mut self,
        on: &[ast::Expr],
        cases: &[ast::SelectCase],
        names: &[&ast::Ident],
        span: Span,
    ) -> Transition {
        let looks_at = match on {
            [first, .., last] => Span { hi: last.span.hi, ..first.span },
            [one] => one.span,
            [] => span,
        };
        // `select({a, b})` looks at a tuple: the same as `select(a, b)`.
        let on: &[ast::Expr] = match on {
            [ast::Expr { kind: ast::ExprKind::List { elems, rest: false }, .. }] => elems,
            other => other,
        };
        let mut exprs = Vec::new();
        let (mut all, mut shapes) = (Vec::new(), Vec::new());
        for e in on {
            let v = self.value(e);
            shapes.push(self.spread(v, &mut all));
        }
        for v in all {
            exprs.push(self.selectable(v));
        }
        let mut out: Vec<(Vec<KeySet>, Target)> = Vec::new();
        let mut catch_all: Option<Span> = None;
        for case in cases {
            if let Some(first) = catch_all {
                self.report(
                    Diagnostic::warning("P0608", case.span, "this case is never reached")
                        .related(first, "this one matches everything")
                        .help("move it before that one, or remove it"),
                );
            }
            let before = self.diagnostics.len();
            let keys = self.case_keys(&case.keys, &exprs, &shapes, case.span);
            self.relate(before, looks_at, "the expression of `select`");
            let next = self.target(&case.next, names);
            let Some(keys) = keys else { continue };
            if catch_all.is_none() && keys.iter().all(|k| matches!(k, KeySet::Any)) {
                catch_all = Some(case.span);
            }
            out.push((keys, next));
        }
        if let Some(d) = crate::lint::select_default(&exprs, &out, &self.tree, looks_at) {
            self.report(d);
        }
        Transition::Select { on: exprs, cases: out }
    }

    /// The value, if `select` can look at it.
    fn selectable(&mut self, v: Expr) -> Expr {
        let repr = self.tree.repr(v.ty);
        let fine = matches!(
            self.tree.tys.get(repr),
            Kind::Bits { .. } | Kind::Bool | Kind::Enum(_) | Kind::ErrorCode | Kind::Error
        );
        if fine {
            return v;
        }
        let (message, help) = if v.ty == Ty::INT {
            ("the width of this value is not known".to_string(), "give the number a width, as in `8w5`")
        } else {
            (
                format!("`select` does not support values of type `{}`", self.show(v.ty)),
                "use `bit<W>`, `int<W>`, `bool`, an enum or `error`; list several with commas",
            )
        };
        self.error("P0608", v.span, message, help);
        Expr::error(v.span)
    }

    /// The scalars of the expression of `select`: tuples are replaced by their elements.
    fn spread(&mut self, v: Expr, out: &mut Vec<Expr>) -> Shape {
        let parts: Vec<Ty> = match self.tree.tys.get(v.ty).clone() {
            Kind::Tuple(ts) => ts,
            _ => Vec::new(),
        };
        if parts.is_empty() || v.has_effects() {
            out.push(v);
            return Shape::One;
        }
        let mut shapes = Vec::new();
        for (i, ty) in parts.into_iter().enumerate() {
            let part = match &v.kind {
                ExprKind::Aggregate(es) => es.iter().find(|(k, _)| *k as usize == i).map(|(_, e)| e.clone()),
                _ => None,
            };
            let span = v.span;
            let field = || Expr { kind: ExprKind::Field(Box::new(v.clone()), i as u32), ty, span };
            let part = part.unwrap_or_else(field);
            let part = self.fold(part);
            shapes.push(self.spread(part, out));
        }
        Shape::Group(shapes)
    }

    fn case_keys(
        &mut self,
        keys: &[ast::Expr],
        on: &[Expr],
        shapes: &[Shape],
        span: Span,
    ) -> Option<Vec<KeySet>> {
        if let [only] = keys {
            match &only.kind {
                ast::ExprKind::Default | ast::ExprKind::DontCare => return Some(vec![KeySet::Any; on.len()]),
                ast::ExprKind::Name(path) => {
                    if let Some(Def::ValueSet(i)) = self.find(path).map(|b| b.def.clone()) {
                        self.note_path(path);
                        return self.value_set_case(i, on, only.span);
                    }
                }
                _ => {}
            }
        }
        let keys: &[ast::Expr] = match keys {
            [ast::Expr { kind: ast::ExprKind::List { elems, rest: false }, .. }] => elems,
            other => other,
        };
        let mut flat = Vec::new();
        if keys.len() == shapes.len() && shapes.iter().zip(keys).all(|(s, k)| s.spread(k, &mut flat)) {
            return flat.into_iter().zip(on).map(|(k, e)| self.case_key(k, e)).collect();
        }
        if keys.len() != on.len() {
            let message = format!("{} set(s) given, but `select` has {} expression(s)", keys.len(), on.len());
            self.error("P0608", span, message, "give one set for each, or `default`");
            return None;
        }
        keys.iter().zip(on).map(|(k, e)| self.case_key(k, e)).collect()
    }

    /// The match of a case for one expression: a value set among them covers that one.
    fn case_key(&mut self, key: &ast::Expr, on: &Expr) -> Option<KeySet> {
        if let ast::ExprKind::Name(path) = &key.kind
            && let Some(Def::ValueSet(i)) = self.find(path).map(|b| b.def.clone())
        {
            self.note_path(path);
            return self.value_set_case(i, std::slice::from_ref(on), key.span)?.pop();
        }
        self.key_set(key, on.ty)
    }

    fn value_set_case(&mut self, set: usize, on: &[Expr], span: Span) -> Option<Vec<KeySet>> {
        let elem = self.tree.value_sets[set].elem;
        let fields = self.value_set_fields(elem)?;
        let same = fields.len() == on.len()
            && fields
                .iter()
                .zip(on)
                .all(|(f, e)| e.ty == Ty::ERROR || *f == e.ty || self.tree.repr(*f) == self.tree.repr(e.ty));
        if !same {
            let message =
                format!("a value set of `{}` does not match the expression of `select`", self.show(elem));
            self.error("P0608", span, message, "give its fields the types of the expressions");
            return None;
        }
        Some(vec![KeySet::ValueSet(set)])
    }

    /// A set of values of type `ty`. `None` after an error.
    pub fn key_set(&mut self, e: &ast::Expr, ty: Ty) -> Option<KeySet> {
        match &e.kind {
            ast::ExprKind::Default | ast::ExprKind::DontCare => Some(KeySet::Any),
            ast::ExprKind::Mask(a, b) => {
                let (a, b) = self.set_bounds(a, b, ty, e.span)?;
                Some(KeySet::Mask(a, b))
            }
            ast::ExprKind::Range(a, b) => {
                let (a, b) = self.set_bounds(a, b, ty, e.span)?;
                Some(KeySet::Range(a, b))
            }
            _ => {
                let v = self.value(e);
                let v = self.coerce(v, ty, "the value to match");
                (!matches!(v.kind, ExprKind::Error) && v.ty != Ty::ERROR).then_some(KeySet::Value(v))
            }
        }
    }

    /// The two sides of a mask or range, as values of type `ty`.
    fn set_bounds(&mut self, a: &ast::Expr, b: &ast::Expr, ty: Ty, span: Span) -> Option<(Expr, Expr)> {
        let (a, b) = (self.value(a), self.value(b));
        if ty == Ty::ERROR || a.ty == Ty::ERROR || b.ty == Ty::ERROR {
            return None;
        }
        let repr = self.tree.repr(ty);
        if self.tree.tys.bits(repr).is_none() {
            let message = format!("masks and ranges are not defined for `{}`", self.show(ty));
            self.error("P0608", span, message, "use single values");
            return None;
        }
        let mut side = |e: Expr| {
            let e = if e.ty == ty || e.ty == repr { e } else { self.coerce(e, repr, "a side of the set") };
            self.cast_to(e, ty)
        };
        let (a, b) = (side(a), side(b));
        let fine = |e: &Expr| !matches!(e.kind, ExprKind::Error);
        (fine(&a) && fine(&b)).then_some((a, b))
    }
}

/// How an expression of a `select` is made of the scalars in it.
enum Shape {
    One,
    Group(Vec<Shape>),
}

impl Shape {
    /// The sets for the scalars; false: `key` does not have this shape.
    fn spread<'a>(&self, key: &'a ast::Expr, out: &mut Vec<&'a ast::Expr>) -> bool {
        match (self, &key.kind) {
            (Shape::One, _) => out.push(key),
            (Shape::Group(shapes), ast::ExprKind::Default | ast::ExprKind::DontCare) => {
                return shapes.iter().all(|s| s.spread(key, out));
            }
            (Shape::Group(shapes), ast::ExprKind::List { elems, rest: false }) => {
                return shapes.len() == elems.len()
                    && shapes.iter().zip(elems).all(|(s, k)| s.spread(k, out));
            }
            _ => return false,
        }
        true
    }
}

/// Whether a parser can get from its first state to `accept` or `reject`.
fn ends(states: &[State]) -> bool {
    let mut seen = vec![false; states.len()];
    let mut open = vec![0];
    while let Some(i) = open.pop() {
        let Some(state) = states.get(i) else { continue };
        if std::mem::replace(&mut seen[i], true) {
            continue;
        }
        let targets: Vec<Target> = match &state.next {
            Transition::Goto(t) => vec![*t],
            Transition::Select { cases, .. } => {
                // Nothing matches: the packet is rejected.
                let all = cases.iter().any(|(keys, _)| keys.iter().all(|k| matches!(k, KeySet::Any)));
                let rest = (!all).then_some(Target::Reject);
                cases.iter().map(|(_, t)| *t).chain(rest).collect()
            }
        };
        for t in targets {
            match t {
                Target::Accept | Target::Reject => return true,
                Target::State(i) => open.push(i),
            }
        }
    }
    false
}
