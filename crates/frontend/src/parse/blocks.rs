//! Parsers and controls (sections 13 and 14), without their statements.

use pointsman_ir::Span;

use super::{Abandon, NameKind, P, Parser};
use crate::ast::{
    Annotation, Block, ControlBody, ControlDecl, Decl, DeclKind, Ident, Param, ParserBody, ParserDecl,
    SelectCase, StateDecl, Stmt, StmtKind, Transition, ValueSetDecl,
};
use crate::diag::Diagnostic;

/// The part before the body of a control or parser.
struct Head {
    name: Ident,
    type_params: Vec<Ident>,
    params: Vec<Param>,
    ctor_params: Vec<Param>,
}

impl Parser {
    // Parsers (section 13).

    /// Name, type parameters, parameters and, before a body, constructor parameters; the names are declared in a scope
    /// that the caller has made.
    fn head(&mut self, what: &str) -> P<Head> {
        self.bump();
        let name = self.name(&format!("the name of {what}"))?;
        // The type is known in the scope around as well, so that the declaration can be used after it.
        let scope = self.scopes.len().saturating_sub(2);
        if let Some(outer) = self.scopes.get_mut(scope) {
            outer.insert(name.name.as_str().into(), NameKind::Type);
        }
        let type_params = self.type_params()?;
        let params = self.params()?;
        let ctor_params = if self.at("(") { self.params()? } else { Vec::new() };
        Ok(Head { name, type_params, params, ctor_params })
    }

    pub(super) fn parser(&mut self) -> P<DeclKind> {
        self.scoped(|p| {
            let h = p.head("a parser")?;
            let body = match p.at("{") {
                true => Some(p.parser_body(&h.name)?),
                false => {
                    p.prototype_end(&h)?;
                    None
                }
            };
            let Head { name, type_params, params, ctor_params } = h;
            Ok(DeclKind::Parser(ParserDecl { name, type_params, params, ctor_params, body }))
        })
    }

    fn prototype_end(&mut self, h: &Head) -> P<()> {
        if !self.at(";") && !self.peek().line_start {
            return Err(self.unexpected("`{` or `;`"));
        }
        self.semicolon("this declaration")?;
        if !h.ctor_params.is_empty() {
            let d =
                Diagnostic::error("P0201", h.name.span, "a type declaration has no constructor parameters");
            self.report(d.help("give it a body, or remove the second list of parameters"));
        }
        Ok(())
    }

    fn parser_body(&mut self, name: &Ident) -> P<ParserBody> {
        let (mut locals, mut states) = (Vec::new(), Vec::new());
        self.braced(false, |p| {
            let start = p.peek().span;
            let annotations = p.annotations()?;
            if p.at_word("state") {
                states.push(p.state(annotations, start)?);
                return Ok(());
            }
            let kind = match () {
                () if p.at_word("const") => p.const_decl()?,
                () if p.at_word("value_set") => p.value_set()?,
                () => p.local("a parser", "states")?,
            };
            let span = p.since(start);
            if !states.is_empty() {
                let d = Diagnostic::error("P0205", span, "declarations of a parser come before its states");
                p.report(d.help("move it before the first `state`"));
            }
            locals.push(Decl { annotations, kind, span });
            Ok(())
        })?;
        if states.is_empty() && self.diags.is_empty() {
            let d = Diagnostic::error("P0212", name.span, format!("parser `{}` has no states", name.name));
            self.report(d.help("add `state start { transition accept; }`"));
        }
        Ok(ParserBody { locals, states })
    }

    /// A variable or instance in a control or parser; `instead` names the place for statements.
    fn local(&mut self, of: &str, instead: &str) -> P<DeclKind> {
        let t = self.peek();
        let span = t.span;
        let other = match &*t.text {
            "action" | "table" if t.is_ident() => Some("actions and tables belong in controls"),
            "if" | "for" | "switch" | "return" | "exit" | "transition" if t.is_ident() => Some(""),
            _ if (self.is_name(0) || self.at("."))
                && !self.is_base_type(0)
                && (["=", ".", "+=", "-="].iter().any(|p| self.peek_at(1).is(p))) =>
            {
                Some("")
            }
            _ => None,
        };
        if let Some(why) = other {
            let d = Diagnostic::error("P0205", span, format!("expected a declaration or the rest of {of}"));
            self.report(match why {
                "" => d.help(format!("statements belong in {instead}")),
                why => d.help(why),
            });
            return Err(Abandon);
        }
        let ty = self.type_ref()?;
        self.variable_or_instance(ty)
    }

    fn value_set(&mut self) -> P<DeclKind> {
        self.expect_word("value_set")?;
        self.expect("<")?;
        let elem = self.type_ref()?;
        self.expect(">")?;
        self.expect("(")?;
        let size = self.expr()?;
        self.expect(")")?;
        let name = self.name("the name of a value set")?;
        self.declare(&name, NameKind::Other);
        self.semicolon("this value set")?;
        Ok(DeclKind::ValueSet(ValueSetDecl { elem, size, name }))
    }

    fn state(&mut self, annotations: Vec<Annotation>, start: Span) -> P<StateDecl> {
        self.expect_word("state")?;
        let name = self.name("the name of a state")?;
        self.scoped(|p| {
            let mut body: Vec<Stmt> = Vec::new();
            let mut transition: Option<(Transition, Span)> = None;
            p.braced(true, |p| {
                let start = p.peek().span;
                if let Some((_, span)) = transition {
                    let d = Diagnostic::error("P0205", start, "nothing can follow the transition of a state");
                    let help = if p.at(";") { "remove this `;`" } else { "move it before `transition`" };
                    p.report(d.related(span, "the transition").help(help));
                }
                if p.at_word("transition") {
                    let t = p.transition()?;
                    transition = Some((t, p.since(start)));
                    return Ok(());
                }
                let s = p.statement()?;
                p.check_state_statement(&s);
                body.push(s);
                Ok(())
            })?;
            let transition = transition.map(|(t, _)| t);
            Ok(StateDecl { annotations, name, body, transition, span: p.since(start) })
        })
    }

    /// Some statements are not allowed in states (section 13.4).
    fn check_state_statement(&mut self, s: &Stmt) {
        let what = match s.kind {
            StmtKind::Switch { .. } => "`switch`",
            StmtKind::For { .. } | StmtKind::ForIn { .. } => "a loop",
            StmtKind::Return(_) => "`return`",
            StmtKind::Exit => "`exit`",
            StmtKind::Break => "`break`",
            StmtKind::Continue => "`continue`",
            _ => return,
        };
        let d = Diagnostic::error("P0205", s.span, format!("{what} is not allowed in a parser state"));
        self.report(
            d.help("states branch with `if` and `transition select`, and repeat by transitions back"),
        );
    }

    fn transition(&mut self) -> P<Transition> {
        self.bump();
        let start = self.peek().span;
        if !self.eat_word("select") {
            let next = self.name("a state, `accept`, `reject` or `select`")?;
            self.semicolon("this transition")?;
            return Ok(Transition::Direct(next));
        }
        self.expect("(")?;
        let mut on = Vec::new();
        if !self.at(")") {
            loop {
                on.push(self.inner_expr()?);
                if !self.eat(",") {
                    break;
                }
            }
        }
        if !self.at(")") {
            return Err(self.unexpected("`,` or `)`"));
        }
        self.bump();
        let mut cases = Vec::new();
        self.braced(true, |p| {
            let start = p.peek().span;
            let keys = p.key_set()?;
            if !p.at(":") {
                return Err(p.unexpected("`:` and a state"));
            }
            p.bump();
            let next = p.name("a state, `accept` or `reject`")?;
            p.semicolon("this case")?;
            cases.push(SelectCase { keys, next, span: p.since(start) });
            Ok(())
        })?;
        Ok(Transition::Select { on, cases, span: self.since(start) })
    }

    // Controls (section 14).

    pub(super) fn control(&mut self) -> P<DeclKind> {
        self.scoped(|p| {
            let h = p.head("a control")?;
            let body = match p.at("{") {
                true => Some(p.control_body(&h.name)?),
                false => {
                    p.prototype_end(&h)?;
                    None
                }
            };
            let Head { name, type_params, params, ctor_params } = h;
            Ok(DeclKind::Control(ControlDecl { name, type_params, params, ctor_params, body }))
        })
    }

    fn control_body(&mut self, name: &Ident) -> P<ControlBody> {
        let mut locals = Vec::new();
        let mut apply: Option<Block> = None;
        let errors = self.diags.len();
        self.braced(false, |p| {
            let start = p.peek().span;
            let annotations = p.annotations()?;
            if p.at_word("apply") && (p.peek_at(1).is("{") || p.peek_at(1).is("@")) {
                p.bump();
                let block = p.annotated_block()?;
                if let Some(first) = &apply {
                    let d = Diagnostic::error("P0205", start, "this control has two `apply` blocks");
                    p.report(d.related(first.span, "the first one").help("join them"));
                } else {
                    apply = Some(block);
                }
                return Ok(());
            }
            let kind = match () {
                () if p.at_word("const") => p.const_decl()?,
                () if p.at_word("action") => p.action()?,
                () if p.at_word("table") => p.table()?,
                () if p.at("{") => {
                    let d = Diagnostic::error("P0204", start, "expected a declaration or `apply`, found `{`");
                    p.report(d.help("write `apply` before it"));
                    let block = p.annotated_block()?;
                    apply.get_or_insert(block);
                    return Ok(());
                }
                () => p.local("a control", "its `apply` block")?,
            };
            let span = p.since(start);
            if apply.is_some() {
                let d = Diagnostic::error("P0205", span, "nothing can follow the `apply` block of a control");
                p.report(d.help("move it before `apply`"));
            }
            locals.push(Decl { annotations, kind, span });
            Ok(())
        })?;
        let apply = match apply {
            Some(b) => b,
            None => {
                if self.diags.len() == errors {
                    let d = Diagnostic::error(
                        "P0204",
                        name.span,
                        format!("control `{}` has no `apply` block", name.name),
                    );
                    self.report(d.help("add `apply { ... }` at the end of the control"));
                }
                Block { annotations: Vec::new(), stmts: Vec::new(), span: name.span }
            }
        };
        Ok(ControlBody { locals, apply })
    }
}
