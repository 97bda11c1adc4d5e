//! Names resolved, types known and checked, compile-time values evaluated.
//!
//! Before: the syntax tree as written. After: a [`tree::Tree`] in which every rule of the language that does not depend
//! on instantiation has been checked, also for unused declarations. Errors do not stop the pass: a wrong part becomes
//! [`tree::ExprKind::Error`] or [`types::Ty::ERROR`], which cause no further messages.
//!
//! Codes: P03xx names, P04xx types, expressions and statements, P05xx compile-time evaluation and instantiation,
//! P06xx tables and parsers, P09xx not supported.

// Fields of the tree are what their names say; the public interface of the crate is elsewhere.
#![allow(missing_docs)]

mod aggregate;
mod annotations;
mod arguments;
mod block;
mod call;
mod construct;
mod decl;
mod entries;
pub mod eval;
mod expr;
mod implement;
mod infer;
mod member;
mod methods;
mod ops;
mod parser;
pub mod record;
pub mod scope;
mod signature;
pub mod size;
mod slice;
mod stmt;
mod table;
pub mod tree;
mod type_decl;
mod type_expr;
pub mod types;

use crate::ast;
use crate::diag::{Diagnostic, Severity};
use crate::source::SourceMap;
use eval::{Const, Evaluator, Stop};
use pointsman_ir::Span;
use scope::Scope;
use std::collections::BTreeMap;
use tree::{Expr, ExprKind, Tree, VarId, VarKind};
use types::Ty;

/// Checks a program. Reports into `diagnostics`; the tree is complete only if no error was reported. `record`: notes which
/// names mean which declarations, of programs with errors, too.
pub fn check(
    program: &ast::Program,
    sources: &SourceMap,
    diagnostics: &mut Vec<Diagnostic>,
    record: bool,
) -> (Tree, Option<record::Record>) {
    let mut checker = Checker {
        tree: Tree::default(),
        sources,
        diagnostics,
        scopes: vec![Scope::default()],
        later: BTreeMap::new(),
        later_here: BTreeMap::new(),
        cx: Context::default(),
        next_infer: 0,
        depth: 0,
        no_error: false,
        has_errors: false,
        record: record.then(record::Record::default),
    };
    checker.program(program);
    (checker.tree, checker.record)
}

/// The code of constructs that executors do not support.
pub const UNSUPPORTED: &str = "P0901";
/// The code of a program that is not whole.
pub const NO_MAIN: &str = "P0505";

/// More would not help.
const MAX_DIAGNOSTICS: usize = 1000;

/// The context of the code being checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// Outside of any block.
    #[default]
    Top,
    /// Declarations of a parser or control, outside of states and `apply`.
    BlockHead,
    ParserState,
    ControlApply,
    Action,
    Function,
}

/// The permissions of the code being checked.
#[derive(Clone, Debug, Default)]
pub struct Context {
    pub place: Place,
    /// Inside a parser rather than a control.
    pub in_parser: bool,
    /// Result of the function around.
    pub returns: Option<Ty>,
    pub loops: u32,
    /// Instances of direct application, value sets and so on of the block around.
    pub block: tree::Body,
    /// The implementation of an abstract method around.
    pub inside: Option<implement::Inside>,
}

/// The pass.
pub struct Checker<'a> {
    pub tree: Tree,
    sources: &'a SourceMap,
    diagnostics: &'a mut Vec<Diagnostic>,
    scopes: Vec<Scope>,
    /// Where top-level names are declared, to distinguish use before declaration from unknown names.
    later: BTreeMap<String, Span>,
    /// The same of names at the head of the block around.
    later_here: BTreeMap<String, Span>,
    cx: Context,
    next_infer: u32,
    depth: u32,
    /// `NoError` was declared.
    no_error: bool,
    /// The program declares errors somewhere.
    has_errors: bool,
    /// What editors want to know.
    record: Option<record::Record>,
}

impl Checker<'_> {
    /// Adds a diagnostic, unless the same was already added at the same place.
    pub fn report(&mut self, d: Diagnostic) {
        if self.diagnostics.len() >= MAX_DIAGNOSTICS {
            return;
        }
        let again = |o: &Diagnostic| o.span == d.span && o.code == d.code && o.message == d.message;
        if !self.diagnostics.iter().rev().take(50).any(again) {
            self.diagnostics.push(d);
        }
    }

    /// Points the errors that were reported since there were `before` at another place that matters.
    pub fn relate(&mut self, before: usize, span: Span, text: &str) {
        for d in self.diagnostics.iter_mut().skip(before) {
            if d.severity == Severity::Error && d.related.iter().all(|(s, _)| *s != span) && d.span != span {
                d.related.push((span, text.to_string()));
            }
        }
    }

    /// An error with its remedy in one sentence.
    pub fn error(
        &mut self,
        code: &'static str,
        span: Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.report(Diagnostic::error(code, span, message).help(help));
    }

    /// A construct that this version does not handle.
    pub fn unsupported(&mut self, span: Span, what: &str, help: &str) {
        self.error(UNSUPPORTED, span, format!("{what} is not supported yet"), help);
    }

    /// Whether any error was found.
    pub fn failed(&self) -> bool {
        self.diagnostics.iter().any(|d| d.severity == Severity::Error)
    }

    /// `e` replaced by its value if it has one at compile time.
    pub fn fold(&mut self, e: Expr) -> Expr {
        let value = Evaluator { tree: &self.tree, vars: &|_| None }.eval(&e);
        match value {
            Ok(c) => Expr { kind: ExprKind::Const(c), ..e },
            Err(Stop::NotConstant(_)) => e,
            Err(Stop::Bad(d)) => {
                self.report(*d);
                Expr::error(e.span)
            }
        }
    }

    /// Whether the value of `e` is known after instantiation (P4_16 section 18.1).
    pub fn compile_time(&self, e: &Expr) -> bool {
        match &e.kind {
            // A value of type `int` or `string` cannot be anything else.
            ExprKind::Var(v) => {
                let var = &self.tree.vars[v.0];
                // Without a direction: known wherever the block or function is used, but an action's data is not.
                let bound =
                    var.kind == VarKind::Param(tree::Direction::None) && self.cx.place != Place::Action;
                var.kind == VarKind::Ctor || bound || matches!(var.ty, Ty::INT | Ty::STRING)
            }
            ExprKind::Target => false,
            // A construct that makes an object makes it once.
            ExprKind::Call(_) if matches!(self.tree.tys.get(e.ty), types::Kind::Extern(..)) => true,
            ExprKind::Call(_) | ExprKind::Apply(_) | ExprKind::Hit { .. } | ExprKind::IsValid(_) => false,
            ExprKind::Next(_) | ExprKind::Last(_) | ExprKind::LastIndex(_) => false,
            _ => {
                let mut all = true;
                e.each_child(&mut |c| all = all && self.compile_time(c));
                all
            }
        }
    }

    /// A constant integer expression, as 0 .. 2^32; reports all others.
    pub fn const_u32(&mut self, e: &Expr, what: &str) -> Option<u32> {
        if e.ty == Ty::ERROR {
            return None;
        }
        let value = Evaluator { tree: &self.tree, vars: &|_| None }.eval_int(e);
        match value {
            Ok(i) => match eval::to_u32(&i) {
                Some(n) => Some(n),
                None => {
                    self.error(
                        "P0506",
                        e.span,
                        format!("{what} cannot be {i}"),
                        "use a number that is not negative and below 2^32",
                    );
                    None
                }
            },
            Err(Stop::NotConstant(_)) => {
                self.error(
                    "P0501",
                    e.span,
                    format!("{what} must be an integer known at compile time"),
                    "use a literal or a constant",
                );
                None
            }
            Err(Stop::Bad(d)) => {
                self.report(*d);
                None
            }
        }
    }

    /// A new variable.
    pub fn new_var(&mut self, name: &ast::Ident, ty: Ty, kind: VarKind) -> VarId {
        self.tree.vars.push(tree::Var { name: name.name.clone(), ty, kind, span: name.span });
        VarId(self.tree.vars.len() - 1)
    }

    /// `ty` for messages.
    pub fn show(&self, ty: Ty) -> String {
        self.tree.show(ty)
    }

    /// The boolean constant.
    pub fn bool_const(value: bool, span: Span) -> Expr {
        Expr::constant(Const::Bool(value), Ty::BOOL, span)
    }
}
