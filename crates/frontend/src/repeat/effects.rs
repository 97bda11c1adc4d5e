//! What is an effect, and what is said about it.

use super::{AGAIN, Next, Walk};
use crate::check::tree::{Call, Callee, Expr, ExprKind, Table};
use crate::check::types::Kind;
use crate::diag::Diagnostic;
use pointsman_ir::{Annotations, Span};

/// Whether a function may be executed again: it has no effects, or only on what begins again with the packet.
fn is_harmless(annotations: &Annotations) -> bool {
    ["pure", "noSideEffects", super::REPEATABLE].iter().any(|name| annotations.has(name))
}

impl<'a> Walk<'a> {
    pub(super) fn extern_function(&mut self, f: usize, span: Span, after: Next) {
        let sig = &self.tree.extern_fns[f];
        if !is_harmless(&sig.annotations) {
            self.effect(span, &format!("`{}`", sig.name), None, after);
        }
    }

    /// A call of an object's method. Objects that a program cannot construct come from the architecture, with the packet.
    pub(super) fn method(&mut self, c: &'a Call, span: Span, after: Next) {
        let Callee::Method(object, def, method) = &c.callee else { return };
        let def = &self.tree.externs[*def];
        let sig = &def.methods[*method];
        if def.ctors.is_empty() || is_harmless(&sig.annotations) || self.is_attached(object) {
            return;
        }
        let name = match &object.kind {
            ExprKind::Instance(i) => &self.tree.instances[*i].name,
            ExprKind::Var(v) => &self.tree.vars[v.0].name,
            _ => &def.name,
        };
        self.effect(span, &format!("`{name}.{}`", sig.name), None, after);
    }

    /// The body of an abstract method.
    pub(super) fn implementation(&self, object: &Expr, method: usize) -> Option<usize> {
        let ExprKind::Instance(i) = object.kind else { return None };
        let methods = &self.tree.instances[i].methods;
        methods.iter().find(|(m, _)| *m == method).map(|(_, f)| *f)
    }

    /// Whether the object belongs to the table that is applied: then [`Walk::attached`] has reported it.
    fn is_attached(&self, object: &Expr) -> bool {
        let ExprKind::Instance(i) = object.kind else { return false };
        let properties = self.table.iter().flat_map(|t| &self.tree.tables[*t].properties);
        properties.into_iter().any(|(_, e, _)| matches!(e.kind, ExprKind::Instance(k) if k == i))
    }

    /// The objects that a table changes when it is applied, such as direct counters and meters.
    pub(super) fn attached(&mut self, table: &'a Table, span: Span, after: Next) {
        for (property, e, _) in &table.properties {
            let Kind::Extern(def, _) = self.tree.tys.get(e.ty) else { continue };
            if self.tree.externs[*def].methods.iter().all(|m| is_harmless(&m.annotations)) {
                continue;
            }
            let what = format!("what `{}.apply` does to its `{property}`", table.name);
            self.effect(span, &what, Some((e.span, "this belongs to the table")), after);
        }
    }

    /// An effect at `span`, and another place that explains it.
    fn effect(&mut self, span: Span, what: &str, part: Option<(Span, &str)>, after: Next) {
        let Some((at, block)) = after else { return };
        if self.quiet || !self.said.insert(span) {
            return;
        }
        let name = &self.tree.blocks[block].name;
        let mut d = Diagnostic::error(AGAIN, span, format!("{what} happens again when `{name}` sends the packet back"))
            .label("executed each time that the packet passes")
            .related(at, format!("`{name}` may send the packet back to the start of the program"))
            .help(format!(
                "move it behind `{name}`, or to a path without it; if it may happen more than once, put it in `@repeatable {{ ... }}`"
            ));
        let calls = self.calls.iter().filter(|c| **c != at).map(|c| (*c, "on the way from here"));
        for (span, label) in part.into_iter().chain(calls) {
            d = d.related(span, label);
        }
        self.found.push(d);
    }

    /// Calls are too deep to be followed.
    pub(super) fn too_deep(&mut self, span: Span) {
        if self.said.insert(span) {
            let message = "calls nested this deeply cannot be searched for effects that happen again";
            let d = Diagnostic::error("P0902", span, message);
            self.found.push(d.help("move inner parts into the code that calls them"));
        }
    }
}
