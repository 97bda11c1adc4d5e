//! Parsers, controls and actions (P4_16 chapters 13 and 14).

use super::decl::declared_name;
use super::scope::{Def, TypeDef};
use super::signature::ParamsOf;
use super::stmt::is_atomic;
use super::tree::{self, Body, Param, Stmt, StmtKind};
use super::types::Ty;
use super::{Checker, Context, Place};
use crate::ast::{self, DeclKind};

/// The head of a parser or control.
struct Head<'a> {
    name: &'a ast::Ident,
    is_parser: bool,
    type_params: &'a [ast::Ident],
    params: &'a [ast::Param],
    ctor_params: &'a [ast::Param],
    has_body: bool,
}

impl Checker<'_> {
    pub fn parser_decl(&mut self, p: &ast::ParserDecl, annotations: &[ast::Annotation]) {
        let head = Head {
            name: &p.name,
            is_parser: true,
            type_params: &p.type_params,
            params: &p.params,
            ctor_params: &p.ctor_params,
            has_body: p.body.is_some(),
        };
        self.block_decl(head, annotations, |c| {
            let Some(body) = &p.body else { return };
            c.block_locals(&body.locals);
            let states = c.states(&body.states, p.name.span);
            c.cx.block.states = states;
        });
    }

    pub fn control_decl(&mut self, p: &ast::ControlDecl, annotations: &[ast::Annotation]) {
        let head = Head {
            name: &p.name,
            is_parser: false,
            type_params: &p.type_params,
            params: &p.params,
            ctor_params: &p.ctor_params,
            has_body: p.body.is_some(),
        };
        self.block_decl(head, annotations, |c| {
            let Some(body) = &p.body else { return };
            c.block_locals(&body.locals);
            c.cx.place = Place::ControlApply;
            let mut apply = c.block(&body.apply);
            if is_atomic(annotations) {
                apply = vec![Stmt { kind: StmtKind::Atomic(apply), span: body.apply.span }];
            }
            c.cx.block.apply = apply;
        });
    }

    fn block_decl(&mut self, head: Head, annotations: &[ast::Annotation], body: impl FnOnce(&mut Self)) {
        let annotations = self.annotations(annotations);
        self.scopes.push(Default::default());
        let type_params = self.type_params(head.type_params);
        let of = if head.has_body { ParamsOf::Block } else { ParamsOf::BlockType };
        let params = self.params(head.params, of);
        let ctor_params = self.params(head.ctor_params, ParamsOf::Constructor);
        self.check_ctor_params(&ctor_params, head.is_parser);
        self.declare_params(head.params, &params);
        self.declare_params(head.ctor_params, &ctor_params);
        let inner = self.scopes.pop().unwrap_or_default();
        self.tree.blocks.push(tree::Block {
            name: head.name.name.clone(),
            span: head.name.span,
            is_parser: head.is_parser,
            type_params,
            params,
            ctor_params,
            body: None,
            has_body: head.has_body,
            annotations,
            done: !head.has_body,
        });
        let index = self.tree.blocks.len() - 1;
        self.declare(head.name, Def::Type(TypeDef::Block(index)));
        if !head.has_body {
            return;
        }
        self.cx = Context { place: Place::BlockHead, in_parser: head.is_parser, ..Context::default() };
        self.scopes.push(inner);
        self.in_scope(body);
        self.scopes.pop();
        self.later_here.clear();
        let cx = std::mem::take(&mut self.cx);
        let block = &mut self.tree.blocks[index];
        block.body = Some(cx.block);
        block.done = true;
    }

    fn check_ctor_params(&mut self, params: &[Param], is_parser: bool) {
        use super::types::Kind;
        for p in params {
            let wrong = match self.tree.tys.get(p.ty) {
                Kind::Package(..) => true,
                Kind::Block(d, _) => self.tree.blocks[*d].is_parser != is_parser,
                _ => false,
            };
            if wrong {
                let message = format!("`{}` cannot be a constructor parameter here", self.show(p.ty));
                self.error(
                    "P0408",
                    p.span,
                    message,
                    "controls take controls, parsers take parsers, both take externs",
                );
            }
        }
    }

    fn block_locals(&mut self, locals: &[ast::Decl]) {
        for d in locals {
            if let Some(name) = declared_name(&d.kind) {
                self.later_here.entry(name.name.clone()).or_insert(name.span);
            }
        }
        for d in locals {
            if let DeclKind::Const(_) | DeclKind::Variable(_) = &d.kind {
                self.annotations(&d.annotations);
            }
            match &d.kind {
                DeclKind::Const(c) => self.const_decl(c),
                DeclKind::Variable(v) => {
                    if let Some(kind) = self.variable(v) {
                        self.cx.block.locals.push(Stmt { kind, span: d.span });
                    }
                }
                DeclKind::Instance(i) => {
                    self.instance_decl(i, &d.annotations, d.span);
                }
                DeclKind::Action(a) if !self.cx.in_parser => {
                    if let Some(i) = self.action_decl(a, &d.annotations, true) {
                        self.cx.block.actions.push(i);
                    }
                }
                DeclKind::Table(t) if !self.cx.in_parser => {
                    if let Some(i) = self.table_decl(t, &d.annotations) {
                        self.cx.block.tables.push(i);
                    }
                }
                DeclKind::ValueSet(v) if self.cx.in_parser => {
                    if let Some(i) = self.value_set(v, &d.annotations) {
                        self.cx.block.value_sets.push(i);
                    }
                }
                DeclKind::Empty => {}
                _ => {
                    let what = if self.cx.in_parser { "a parser" } else { "a control" };
                    let message = format!("this declaration is not allowed inside {what}");
                    self.error("P0410", d.span, message, "move it to the top level");
                }
            }
        }
    }

    /// An action; returns its index.
    pub fn action_decl(
        &mut self,
        a: &ast::ActionDecl,
        annotations: &[ast::Annotation],
        in_block: bool,
    ) -> Option<usize> {
        let annotations = self.annotations(annotations);
        let params = self.params(&a.params, ParamsOf::Action);
        let sig = tree::Sig {
            name: a.name.name.clone(),
            span: a.name.span,
            type_params: Vec::new(),
            params: params.clone(),
            returns: Ty::VOID,
            annotations,
        };
        self.tree.actions.push(tree::Action { sig, body: Vec::new(), in_block, done: false });
        let index = self.tree.actions.len() - 1;
        self.declare(&a.name, Def::Action(index));
        let outer = Context {
            place: Place::Action,
            returns: None,
            in_parser: false,
            loops: 0,
            block: Body::default(),
            inside: None,
        };
        let outer = std::mem::replace(&mut self.cx, outer);
        let body = self.in_scope(|c| {
            c.declare_params(&a.params, &params);
            c.block(&a.body)
        });
        self.cx = outer;
        let action = &mut self.tree.actions[index];
        action.body = body;
        action.done = true;
        Some(index)
    }

    /// `value_set<T>(n) v;`
    pub fn value_set(&mut self, v: &ast::ValueSetDecl, annotations: &[ast::Annotation]) -> Option<usize> {
        let annotations = self.annotations(annotations);
        let elem = self.ty(&v.elem);
        let size = self.value(&v.size);
        if elem == Ty::ERROR || size.ty == Ty::ERROR {
            self.declare(&v.name, Def::Broken);
            return None;
        }
        if !self.compile_time(&size) || (size.ty != Ty::INT && self.tree.tys.bits(size.ty).is_none()) {
            let help = "use a literal or a constant";
            self.error(
                "P0501",
                size.span,
                "the size of a value set must be an integer known at compile time",
                help,
            );
        }
        if self.value_set_fields(elem).is_none() {
            let message = format!("a value set cannot hold `{}`", self.show(elem));
            self.error(
                "P0406",
                v.elem.span,
                message,
                "use `bit<W>`, an enum with a representation, or a struct of these",
            );
            self.declare(&v.name, Def::Broken);
            return None;
        }
        self.tree.value_sets.push(tree::ValueSet { name: v.name.name.clone(), elem, size, annotations });
        let index = self.tree.value_sets.len() - 1;
        self.declare(&v.name, Def::ValueSet(index));
        Some(index)
    }

    /// The types that members of a value set are matched against.
    pub fn value_set_fields(&mut self, elem: Ty) -> Option<Vec<Ty>> {
        use super::types::Kind;
        let scalar = |c: &Self, t: Ty| {
            let repr = c.tree.repr(t);
            repr == Ty::BOOL || c.tree.tys.bits(repr).is_some()
        };
        if scalar(self, elem) {
            return Some(vec![elem]);
        }
        let fields: Vec<Ty> = match self.tree.tys.get(elem).clone() {
            Kind::Tuple(ts) => ts,
            Kind::Struct(..) => self.tree.fields(elem)?.into_iter().map(|(_, t)| t).collect(),
            _ => return None,
        };
        let mut out = Vec::new();
        for t in fields {
            out.extend(self.value_set_fields(t)?);
        }
        Some(out)
    }
}
