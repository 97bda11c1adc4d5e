//! Tables (section 14.2).

use super::{Abandon, P, Parser};
use crate::ast::{
    ActionRef, DeclKind, EntryDecl, Expr, ExprKind, KeyElement, Property, PropertyKind, TableDecl,
};
use crate::diag::Diagnostic;

impl Parser {
    pub(super) fn table(&mut self) -> P<DeclKind> {
        self.expect_word("table")?;
        let name = self.name("the name of a table")?;
        self.declare(&name, super::NameKind::Other);
        let mut properties = Vec::new();
        self.braced(false, |p| {
            properties.push(p.property()?);
            Ok(())
        })?;
        Ok(DeclKind::Table(TableDecl { name, properties }))
    }

    fn property(&mut self) -> P<Property> {
        let start = self.peek().span;
        let annotations = self.annotations()?;
        let is_const = self.eat_word("const");
        let t = self.peek().clone();
        let list = ["key", "actions", "entries"].contains(&&*t.text) && t.is_ident();
        if t.is(";") {
            let d = Diagnostic::error("P0213", t.span, "unexpected `;` in a table");
            self.report(d.help("remove it: the `}` of `key`, `actions` and `entries` takes no `;`"));
            return Err(Abandon);
        }
        let name = self.name("a table property")?;
        if !self.at("=") {
            return Err(self.unexpected(&format!("`=` after `{}`", name.name)));
        }
        self.bump();
        if list && !self.at("{") {
            return Err(self.unexpected("`{`"));
        }
        if is_const && (name.name == "key" || name.name == "actions") {
            let d = Diagnostic::error("P0213", start, format!("`{}` cannot be `const`", name.name));
            self.report(d.help("remove `const`; keys and actions never change"));
        }
        let kind = match name.name.as_str() {
            "key" => PropertyKind::Key(self.key()?),
            "actions" => PropertyKind::Actions(self.actions()?),
            "entries" => PropertyKind::Entries(self.entries()?),
            other => {
                let value = self.expr()?;
                self.semicolon("this property")?;
                match other {
                    "default_action" => {
                        self.check_action(&value);
                        PropertyKind::DefaultAction(value)
                    }
                    _ => PropertyKind::Other(name, value),
                }
            }
        };
        Ok(Property { annotations, is_const, kind, span: self.since(start) })
    }

    fn check_action(&mut self, e: &Expr) {
        let call = match &e.kind {
            ExprKind::Call { callee, type_args, .. } if type_args.is_empty() => callee,
            _ => e,
        };
        if !matches!(call.kind, ExprKind::Name(_)) {
            let d = Diagnostic::error("P0213", e.span, "this is not an action");
            self.report(
                d.help("write the name of an action, with its arguments in parentheses if it has any"),
            );
        }
    }

    fn key(&mut self) -> P<Vec<KeyElement>> {
        let mut elements = Vec::new();
        self.braced(false, |p| {
            let expr = p.expr()?;
            if !p.at(":") {
                return Err(p.unexpected("`:` and a match kind, such as `: exact`,"));
            }
            p.bump();
            let match_kind = p.name("a match kind")?;
            let annotations = p.annotations()?;
            p.semicolon("this key field")?;
            elements.push(KeyElement { expr, match_kind, annotations });
            Ok(())
        })?;
        Ok(elements)
    }

    fn actions(&mut self) -> P<Vec<ActionRef>> {
        let mut actions = Vec::new();
        self.braced(false, |p| {
            let start = p.peek().span;
            let annotations = p.annotations()?;
            let action = p.path("the name of an action")?;
            let args = if p.at("(") { Some(p.args()?) } else { None };
            if p.at(",") {
                let d = Diagnostic::error("P0201", p.peek().span, "expected `;`, found `,`");
                p.report(d.help("every action in the list ends with `;`"));
                p.bump();
            } else {
                p.semicolon("this action")?;
            }
            actions.push(ActionRef { annotations, action, args, span: p.since(start) });
            Ok(())
        })?;
        Ok(actions)
    }

    fn entries(&mut self) -> P<Vec<EntryDecl>> {
        let mut entries = Vec::new();
        self.braced(false, |p| {
            let start = p.peek().span;
            let is_const = p.eat_word("const");
            let priority = match p.at_word("priority") && p.peek_at(1).is("=") {
                true => {
                    p.bump();
                    p.bump();
                    let e = p.expr()?;
                    p.expect(":")?;
                    Some(e)
                }
                false => None,
            };
            let keys = p.key_set()?;
            if !p.at(":") {
                return Err(p.unexpected("`:` and an action"));
            }
            p.bump();
            let action = p.entry_action()?;
            let annotations = p.annotations()?;
            p.semicolon("this entry")?;
            entries.push(EntryDecl { is_const, priority, keys, action, annotations, span: p.since(start) });
            Ok(())
        })?;
        Ok(entries)
    }

    fn entry_action(&mut self) -> P<Expr> {
        let start = self.peek().span;
        let path = self.path("the name of an action")?;
        let name = Expr { kind: ExprKind::Name(path), span: self.since(start) };
        if !self.at("(") {
            return Ok(name);
        }
        let args = self.args()?;
        let kind = ExprKind::Call { callee: Box::new(name), type_args: Vec::new(), args };
        Ok(Expr { kind, span: self.since(start) })
    }
}
