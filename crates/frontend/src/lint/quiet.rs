//! `@noWarn("name")`.

use crate::ast::{self, Annotation, AnnotationBody, DeclKind, PropertyKind, StmtKind};
use crate::diag::{Diagnostic, Severity};
use pointsman_ir::{AnnotationToken, Span};

/// Takes out the warnings that the program silences.
pub fn silence(program: &ast::Program, diagnostics: &mut Vec<Diagnostic>) {
    let mut quiet = Quiet::default();
    program.decls.iter().for_each(|d| quiet.decl(d));
    if quiet.0.is_empty() {
        return;
    }
    diagnostics.retain(|d| {
        d.severity == Severity::Error
            || super::name(d.code).is_none_or(|name| {
                !quiet.0.iter().any(|(n, s)| {
                    n == name && s.file == d.span.file && s.lo <= d.span.lo && d.span.hi <= s.hi
                })
            })
    });
}

/// Names of warnings, and where they are not wanted.
#[derive(Default)]
struct Quiet(Vec<(String, Span)>);

impl Quiet {
    fn note(&mut self, annotations: &[Annotation], span: Span) {
        for a in annotations.iter().filter(|a| a.name.name == "noWarn") {
            if let AnnotationBody::Tokens(tokens) = &a.body {
                for t in tokens {
                    if let AnnotationToken::String(s) = t {
                        self.0.push((s.clone(), span));
                    }
                }
            }
        }
    }

    fn decl(&mut self, d: &ast::Decl) {
        self.note(&d.annotations, d.span);
        match &d.kind {
            DeclKind::Parser(p) => {
                self.params(&p.params);
                self.params(&p.ctor_params);
                if let Some(body) = &p.body {
                    body.locals.iter().for_each(|d| self.decl(d));
                    for s in &body.states {
                        self.note(&s.annotations, s.span);
                        s.body.iter().for_each(|s| self.stmt(s));
                    }
                }
            }
            DeclKind::Control(c) => {
                self.params(&c.params);
                self.params(&c.ctor_params);
                if let Some(body) = &c.body {
                    body.locals.iter().for_each(|d| self.decl(d));
                    self.block(&body.apply);
                }
            }
            DeclKind::Function(f) => {
                self.params(&f.proto.params);
                self.block(&f.body);
            }
            DeclKind::Action(a) => {
                self.params(&a.params);
                self.block(&a.body);
            }
            DeclKind::Instance(i) => i.init.iter().flatten().for_each(|d| self.decl(d)),
            DeclKind::Table(t) => {
                for p in &t.properties {
                    self.note(&p.annotations, p.span);
                    if let PropertyKind::Entries(entries) = &p.kind {
                        entries.iter().for_each(|e| self.note(&e.annotations, e.span));
                    }
                }
            }
            _ => {}
        }
    }

    fn params(&mut self, params: &[ast::Param]) {
        params.iter().for_each(|p| self.note(&p.annotations, p.span));
    }

    fn block(&mut self, b: &ast::Block) {
        self.note(&b.annotations, b.span);
        b.stmts.iter().for_each(|s| self.stmt(s));
    }

    fn stmt(&mut self, s: &ast::Stmt) {
        match &s.kind {
            StmtKind::Decl(d) => self.decl(d),
            StmtKind::Block(b) => self.block(b),
            StmtKind::If(_, a, b) => {
                self.stmt(a);
                b.iter().for_each(|b| self.stmt(b));
            }
            StmtKind::Switch { cases, .. } => {
                cases.iter().filter_map(|c| c.body.as_ref()).for_each(|b| self.block(b))
            }
            StmtKind::For { init, body, .. } => {
                init.iter().for_each(|s| self.stmt(s));
                self.stmt(body);
            }
            StmtKind::ForIn { body, .. } => self.stmt(body),
            _ => {}
        }
    }
}
