//! Control-plane names (P4_16 section 18.3).

use super::Lower;
use crate::diag::Diagnostic;
use pointsman_ir::{Action, ActionId, Annotations, Direction, Span};

impl Lower<'_> {
    /// The fully qualified name of something declared in the instance being lowered.
    pub fn qualified(&self, local: &str, annotations: &Annotations) -> String {
        let local = annotations.string("name").unwrap_or(local);
        match local.strip_prefix('.') {
            Some(absolute) => absolute.to_string(),
            None => format!("{}{local}", self.env.prefix),
        }
    }

    /// Takes the name of an action that is in the list of a table. Actions of different controls may share one, as in p4c,
    /// if they have the same parameters: a controller means the one in the list of its table.
    pub fn claim_action(&mut self, id: ActionId) {
        let Action { name, annotations, span, .. } = self.program.actions[id.index()].clone();
        let taken = self.names.get(&("action", name.clone())).copied();
        let Some(first) = taken.filter(|_| !annotations.has("hidden")) else {
            return self.claim("action", &name, &annotations, span);
        };
        let action = &self.program.actions[id.index()];
        let others = self.listed.iter().filter(|o| **o != id).map(|o| &self.program.actions[o.index()]);
        let mut others = others.filter(|o| o.name == name);
        if others.any(|o| o.control == action.control || !same_data(o, action)) {
            return self.claim("action", &name, &annotations, span);
        }
        self.report(
            Diagnostic::warning("P0509", span, format!("two actions have the control-plane name `{name}`"))
                .related(first, "the first of them")
                .help("controllers choose between them by the table; to distinguish them, give one another `@name`"),
        );
    }

    /// Takes `name`; reports if something of the same kind has it already.
    pub fn claim(&mut self, kind: &'static str, name: &str, annotations: &Annotations, span: Span) {
        if annotations.has("hidden") {
            return;
        }
        if let Some(first) = self.names.get(&(kind, name.to_string())).copied() {
            // The contents of an instance whose name clashes also clash.
            if self
                .clashes
                .iter()
                .any(|c| name.strip_prefix(c.as_str()).is_some_and(|rest| rest.starts_with('.')))
            {
                return;
            }
            self.clashes.push(name.to_string());
            // Blocks are lowered in no order of the source: the later declaration is the one to rename.
            let (first, span) = match first.file == span.file && first.lo > span.lo {
                true => (span, first),
                false => (first, span),
            };
            self.report(
                Diagnostic::error("P0509", span, format!("two {kind}s have the control-plane name `{name}`"))
                    .related(first, "the first of them")
                    .help("give one of them another: `@name(\"name\")`"),
            );
        } else {
            self.names.insert((kind, name.to_string()), span);
        }
    }
}

/// Whether controllers give both actions the same data.
fn same_data(a: &Action, b: &Action) -> bool {
    let data = |a: &Action| {
        let params = a.frame.params.iter().filter(|p| p.direction == Direction::None);
        params.map(|p| (p.name.clone(), p.ty, p.annotations.clone())).collect::<Vec<_>>()
    };
    data(a) == data(b)
}
