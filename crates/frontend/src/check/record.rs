//! What the checker notes for editors: which names are declared where, and which uses mean which of them.

use super::Checker;
use super::scope::Def;
use crate::ast;
use pointsman_ir::Span;
use std::collections::BTreeMap;

/// The meaning of a declared name that is not in a scope.
#[derive(Clone, Debug)]
pub enum Meaning {
    /// A name of a scope.
    Def(Def),
    /// Member of the enum with this index.
    EnumMember(usize),
    /// Member of `error`.
    Error,
    /// Member of `match_kind`.
    MatchKind,
    /// State of a parser.
    State,
}

/// A declared name.
#[derive(Clone, Debug)]
pub struct Declared {
    pub name: String,
    pub span: Span,
    pub meaning: Meaning,
}

/// The notes, in the order in which the checker met them.
#[derive(Default)]
pub struct Record {
    pub declared: Vec<Declared>,
    /// A use, and the name of the declaration that it means. Later ones of a place replace earlier ones.
    pub uses: Vec<(Span, Span)>,
    /// The names of fields in structure expressions, whose types are found later, by the place of the expression.
    literals: BTreeMap<Span, Vec<ast::Ident>>,
}

impl Checker<'_> {
    /// Notes a declared name.
    pub fn note_declared(&mut self, name: &ast::Ident, meaning: impl FnOnce() -> Meaning) {
        if let Some(r) = &mut self.record {
            r.declared.push(Declared { name: name.name.clone(), span: name.span, meaning: meaning() });
        }
    }

    /// Notes that the name at `used` means the declaration whose name is at `declared`.
    pub fn note(&mut self, used: Span, declared: Span) {
        if let Some(r) = &mut self.record {
            r.uses.push((used, declared));
        }
    }

    /// Notes the use of a name that the scopes have.
    pub fn note_path(&mut self, path: &ast::Path) {
        if self.record.is_some()
            && let Some(declared) = self.find(path).map(|b| b.span)
        {
            self.note(path.name.span, declared);
        }
    }

    /// Notes the use of a member of `error`, of `match_kind` or of an enum: the last one declared with this meaning.
    pub fn note_member(&mut self, name: &ast::Ident, meant: impl Fn(&Meaning) -> bool) {
        let Some(r) = &mut self.record else { return };
        let found = r.declared.iter().rev().find(|d| d.name == name.name && meant(&d.meaning));
        if let Some(declared) = found.map(|d| d.span) {
            r.uses.push((name.span, declared));
        }
    }

    /// Notes the use of a field of the struct or header with index `def`.
    pub fn note_field(&mut self, name: &ast::Ident, def: usize) {
        if self.record.is_some()
            && let Some(f) = self.tree.structs[def].fields.iter().find(|f| f.name == name.name)
        {
            let declared = f.span;
            self.note(name.span, declared);
        }
    }

    /// Keeps the names in a structure expression until its type is known.
    pub fn note_literal(&mut self, fields: &[(ast::Ident, ast::Expr)], span: Span) {
        if let Some(r) = &mut self.record {
            r.literals.insert(span, fields.iter().map(|(n, _)| n.clone()).collect());
        }
    }

    /// The structure expression at `span` has the type with index `def`.
    pub fn note_literal_type(&mut self, span: Span, def: usize) {
        let names = self.record.as_mut().and_then(|r| r.literals.remove(&span));
        for name in names.unwrap_or_default() {
            self.note_field(&name, def);
        }
    }
}
