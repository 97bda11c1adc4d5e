//! Control-plane names (P4_16 section 18.3).

use super::Lower;
use crate::diag::Diagnostic;
use pointsman_ir::{Annotations, Span};

impl Lower<'_> {
    /// The fully qualified name of something declared in the instance being lowered.
    pub fn qualified(&self, local: &str, annotations: &Annotations) -> String {
        let local = annotations.string("name").unwrap_or(local);
        match local.strip_prefix('.') {
            Some(absolute) => absolute.to_string(),
            None => format!("{}{local}", self.env.prefix),
        }
    }

    /// Takes `name`; reports if something of the same kind has it already.
    pub fn claim(&mut self, kind: &'static str, name: &str, annotations: &Annotations, span: Span) {
        if annotations.has("hidden") {
            return;
        }
        if let Some(first) = self.names.get(&(kind, name.to_string())).copied() {
            // What is inside of an instance whose name clashes clashes, too.
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
