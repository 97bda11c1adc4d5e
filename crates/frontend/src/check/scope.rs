//! Names and their meanings (P4_16 sections 6.6.1 and 6.9).

use super::Checker;
use super::record::Meaning;
use super::tree::{Expr, VarId};
use super::types::Ty;
use crate::ast;
use crate::diag::Diagnostic;
use crate::lint;
use pointsman_ir::Span;
use std::collections::BTreeMap;

/// A type with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeDef {
    Struct(usize),
    Enum(usize),
    New(usize),
    Alias(Ty),
    Extern(usize),
    Block(usize),
    Package(usize),
}

/// A function by name: several may share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FnRef {
    Extern(usize),
    Function(usize),
}

/// The meaning of a name.
#[derive(Clone, Debug)]
pub enum Def {
    Type(TypeDef),
    Const(Expr),
    Var(VarId),
    Instance(usize),
    Functions(Vec<FnRef>),
    Action(usize),
    Table(usize),
    ValueSet(usize),
    /// Its declaration had errors; its uses report no more.
    Broken,
}

impl Def {
    /// The kind of declaration, for messages.
    pub fn describe(&self) -> &'static str {
        match self {
            Def::Type(TypeDef::Block(_)) => "a parser or control type",
            Def::Type(TypeDef::Package(_)) => "a package type",
            Def::Type(TypeDef::Extern(_)) => "an extern type",
            Def::Type(_) => "a type",
            Def::Const(_) => "a constant",
            Def::Var(_) => "a variable",
            Def::Instance(_) => "an instance",
            Def::Functions(_) => "a function",
            Def::Action(_) => "an action",
            Def::Table(_) => "a table",
            Def::ValueSet(_) => "a value set",
            Def::Broken => "a declaration with errors",
        }
    }
}

/// A name's meaning and where it was declared.
#[derive(Clone, Debug)]
pub struct Binding {
    pub def: Def,
    pub span: Span,
}

/// Names of one block.
#[derive(Default)]
pub struct Scope {
    pub names: BTreeMap<String, Binding>,
}

impl Checker<'_> {
    /// Runs `f` with a new innermost scope.
    pub fn in_scope<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> R {
        self.scopes.push(Scope::default());
        let r = f(self);
        self.scopes.pop();
        r
    }

    /// Declares `name` in the innermost scope. Functions join others of their name.
    pub fn declare(&mut self, name: &ast::Ident, def: Def) {
        if let Some(outer) = self.hidden(name, &def) {
            self.report(
                Diagnostic::warning(
                    lint::SHADOW,
                    name.span,
                    format!("`{}` hides another declaration of this name", name.name),
                )
                .label("declared again here")
                .related(outer, "hidden from here on")
                .help("give one of them another name"),
            );
        }
        self.note_declared(name, || Meaning::Def(def.clone()));
        let Some(scope) = self.scopes.last_mut() else { return };
        match scope.names.get_mut(&name.name) {
            None => {
                scope.names.insert(name.name.clone(), Binding { def, span: name.span });
            }
            Some(old) => match (&mut old.def, def) {
                (Def::Functions(all), Def::Functions(new)) => all.extend(new),
                (Def::Broken, new) => old.def = new,
                (_, Def::Broken) => {}
                (_, new) => {
                    let first = old.span;
                    old.def = new;
                    self.duplicate(name, first);
                }
            },
        }
    }

    /// A declaration further out that is hidden by one of a variable, constant or instance called `name`.
    fn hidden(&self, name: &ast::Ident, def: &Def) -> Option<Span> {
        let kind = |d: &Def| matches!(d, Def::Var(_) | Def::Const(_) | Def::Instance(_) | Def::Table(_));
        let (_, outer) = self.scopes.split_last()?;
        if !kind(def) {
            return None;
        }
        let found = outer.iter().rev().find_map(|s| s.names.get(&name.name))?;
        kind(&found.def).then_some(found.span)
    }

    /// Where the parser or control that is being checked declares `name`, be it as a parameter.
    pub fn in_block(&self, name: &ast::Ident) -> Option<Span> {
        self.scopes.iter().skip(1).rev().find_map(|s| s.names.get(&name.name)).map(|b| b.span)
    }

    /// Reports that `name` was declared at `first` already.
    pub fn duplicate(&mut self, name: &ast::Ident, first: Span) {
        self.report(
            Diagnostic::error("P0302", name.span, format!("`{}` is declared twice", name.name))
                .label("declared again here")
                .related(first, "first declared here")
                .help("rename one of them"),
        );
    }

    /// The meaning of `path`, innermost scope first.
    pub fn find(&self, path: &ast::Path) -> Option<&Binding> {
        if path.rooted {
            return self.scopes.first()?.names.get(&path.name.name);
        }
        self.scopes.iter().rev().find_map(|s| s.names.get(&path.name.name))
    }

    /// Like [`Checker::find`], reporting unknown names.
    pub fn lookup(&mut self, path: &ast::Path) -> Option<Binding> {
        if let Some(b) = self.find(path).cloned() {
            self.note(path.name.span, b.span);
            return Some(b);
        }
        let name = &path.name.name;
        let mut d = Diagnostic::error("P0301", path.name.span, format!("unknown name `{name}`"))
            .label("not declared");
        let later = if path.rooted { None } else { self.later_here.get(name) };
        if let Some(later) = later.or_else(|| self.later.get(name)).copied() {
            let (line, _) = self.sources.line_column(later);
            let place = match (later.file == path.name.span.file, self.sources.path(later)) {
                (true, _) => format!("line {line}"),
                (false, file) => format!("{file}:{line}"),
            };
            d.message = format!("unknown name `{name}`: it is declared later, at {place}");
            d = d
                .label("not declared yet")
                .related(later, "declared here")
                .note("a name can be used only after its declaration (P4_16 section 6.6.1)")
                .help("move the declaration before this use");
        } else if let Some(near) = self.nearest(name) {
            d = d.help(format!("did you mean `{near}`?"));
        } else if name.starts_with("standard_metadata") || name == "V1Switch" || name == "packet_in" {
            d = d.help("is `#include <v1model.p4>` missing?");
        } else {
            d = d.help("declare it, or check its spelling");
        }
        self.report(d);
        None
    }

    /// A visible name that `name` may be a misspelling of.
    fn nearest(&self, name: &str) -> Option<String> {
        let all = self.scopes.iter().flat_map(|s| s.names.keys().map(String::as_str));
        nearest(name, all)
    }
}

/// The candidate closest to `name`, if any is close.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    let length = name.chars().count();
    let limit = (length / 3).clamp(1, 3);
    candidates
        .filter(|c| *c != name)
        .map(|c| (distance(name, c), c))
        .filter(|(d, _)| *d <= limit && *d < length)
        .min()
        .map(|(_, c)| c.to_string())
}

/// Edit distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let change = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions() {
        let names = ["egress_spec", "egress_port", "ingress_port", "a"];
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(nearest(name, names.into_iter()).as_deref(), expected, "{name}");
        };
        check("egres_spec", Some("egress_spec"));
        check("egress_prot", Some("egress_port"));
        check("b", None);
        check("egress", None);
        check("packet_length", None);
        check("a", None);
    }
}
