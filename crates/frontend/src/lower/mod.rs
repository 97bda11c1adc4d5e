//! The checked program into the typed IR.
//!
//! Before: a [`Tree`] without errors. After: a [`Program`] in which every instance is separate, calls are
//! statements in the order of P4_16 section 8.1, and every name that the control plane sees is fully qualified.
//! `pointsman_ir::verify` accepts it.
//!
//! Errors that are still reported here depend on instantiation: values of constructor parameters, control-plane names
//! that clash, and constructs that the IR has no form for.

mod call;
mod expr;
mod function;
mod instance;
mod names;
mod parser;
mod place;
mod stmt;
mod table;
mod types;

use crate::check::eval::{Const, Evaluator, Stop};
use crate::check::tree::{Expr, StructKind, Tree, VarId};
use crate::check::types::{Kind, Ty};
use crate::diag::Diagnostic;
use instance::{Bound, Inst};
use pointsman_ir::{self as ir, Program, Span};
use std::collections::{BTreeMap, BTreeSet};

/// Lowers a checked program. Reports into `diagnostics`; the program is meaningful only if no error was reported.
pub fn lower(tree: Tree, diagnostics: &mut Vec<Diagnostic>) -> Program {
    let mut lower = Lower {
        tree,
        program: Program::default(),
        diagnostics,
        env: Env::default(),
        body: Body::default(),
        types: BTreeMap::new(),
        functions: Vec::new(),
        top: Env::default(),
        names: BTreeMap::new(),
        listed: BTreeSet::new(),
        clashes: Vec::new(),
        instances: 0,
        statements: 0,
        span: Span::default(),
        deferred: Vec::new(),
        implemented: BTreeMap::new(),
        open: Vec::new(),
        package_blocks: BTreeSet::new(),
    };
    lower.program();
    lower.program
}

/// The meaning of the tree's names in the instance being lowered.
#[derive(Clone, Default)]
struct Env {
    /// Constructor parameters.
    ctor: BTreeMap<VarId, Bound>,
    /// By index into `Tree::instances`.
    instances: BTreeMap<usize, Inst>,
    tables: BTreeMap<usize, ir::TableId>,
    actions: BTreeMap<usize, ir::ActionId>,
    value_sets: BTreeMap<usize, ir::ValueSetId>,
    /// Keys of tables that call something: temporaries to fill before the table is applied.
    key_calls: BTreeMap<usize, Vec<(u32, Expr)>>,
    /// Ends with a dot unless empty.
    prefix: String,
    /// Type parameters and arguments of the function or block.
    subst: (Vec<Ty>, Vec<Ty>),
}

/// The callable being lowered.
#[derive(Default)]
struct Body {
    params: Vec<ir::Param>,
    vars: Vec<ir::Var>,
    map: BTreeMap<VarId, u32>,
    /// Variables of the control around an action.
    outer: BTreeMap<VarId, u32>,
    /// Statements so far.
    out: Vec<ir::Stmt>,
    /// The target of the statement being lowered.
    target: Option<ir::LValue>,
    /// Whether the same statement can run more than once in one call.
    repeats: bool,
    in_parser: bool,
}

struct Lower<'a> {
    tree: Tree,
    program: Program,
    diagnostics: &'a mut Vec<Diagnostic>,
    env: Env,
    body: Body,
    types: BTreeMap<Ty, ir::TypeId>,
    /// Functions by declaration, type arguments and arguments that are known at compile time.
    functions: Vec<(usize, Vec<Ty>, Vec<Bound>, ir::FunctionId)>,
    /// Of the top level.
    top: Env,
    /// Control-plane names taken, by kind.
    names: BTreeMap<(&'static str, String), Span>,
    /// Actions that are in the list of a table.
    listed: BTreeSet<ir::ActionId>,
    /// Those that were claimed twice.
    clashes: Vec<String>,
    instances: u32,
    /// Statements made so far.
    statements: u32,
    /// The declaration being lowered, for errors without a better place.
    span: Span,
    /// Blocks that are lowered when they are applied.
    deferred: Vec<instance::Deferred>,
    /// Objects with implementations of abstract methods: index into `Tree::instances`, and what names stood for there.
    implemented: BTreeMap<ir::ExternInstanceId, (usize, Env)>,
    /// Names of blocks that are arguments of packages.
    package_blocks: BTreeSet<String>,
    /// Implementations being lowered, to find one that calls itself.
    open: Vec<(usize, Vec<Bound>)>,
}

impl Lower<'_> {
    fn report(&mut self, d: Diagnostic) {
        let again = |o: &Diagnostic| o.span == d.span && o.code == d.code && o.message == d.message;
        if !self.diagnostics.iter().rev().take(50).any(again) {
            self.diagnostics.push(d);
        }
    }

    fn error(&mut self, code: &'static str, span: Span, message: impl Into<String>, help: impl Into<String>) {
        self.report(Diagnostic::error(code, span, message).help(help));
    }

    fn unsupported(&mut self, span: Span, what: &str, help: &str) {
        self.error("P0901", span, format!("{what} is not supported yet"), help);
    }

    /// The value of `e` with the constructor parameters of this instance.
    fn eval(&self, e: &Expr) -> Result<Const, Stop> {
        let vars = |v: VarId| match self.env.ctor.get(&v) {
            Some(Bound::Const(c)) => Some(c.clone()),
            _ => None,
        };
        Evaluator { tree: &self.tree, vars: &vars }.eval(e)
    }

    /// [`Lower::eval`], which reports expressions without a value.
    fn constant(&mut self, e: &Expr) -> Option<Const> {
        match self.eval(e) {
            Ok(c) => Some(c),
            Err(Stop::Bad(d)) => {
                self.report(*d);
                None
            }
            Err(Stop::NotConstant(span)) => {
                let help = "use literals, constants and constructor parameters";
                self.error("P0501", span, "this value is not known at compile time", help);
                None
            }
        }
    }

    /// A non-negative integer constant.
    fn constant_u64(&mut self, e: &Expr) -> Option<u64> {
        let c = self.constant(e)?;
        let int = Evaluator { tree: &self.tree, vars: &|_| None }.as_int(&c, e.ty)?;
        let n = u64::try_from(&int).ok();
        if n.is_none() {
            let message = format!("{int} is out of range here");
            self.error("P0506", e.span, message, "use a number that is not negative and below 2^64");
        }
        n
    }

    fn program(&mut self) {
        self.program.errors = self.tree.errors.clone();
        if self.program.errors.first().is_none_or(|e| e != "NoError") {
            // Without core.p4 nothing raises errors, but executors number them from `NoError`.
            if self.program.errors.is_empty() {
                self.program.errors.push("NoError".into());
            } else {
                let help = "include core.p4 before declaring errors";
                self.error("P0512", Span::default(), "the first error is not `NoError`", help);
                return;
            }
        }
        // An annotation may address control planes, as P4Runtime's `@controller_header` does, so annotated headers are in
        // the program, used or not.
        for d in 0..self.tree.structs.len() {
            let def = &self.tree.structs[d];
            if def.kind == StructKind::Header && !def.annotations.0.is_empty() && def.type_params.is_empty() {
                let ty = self.tree.tys.intern(Kind::Struct(d, Vec::new()));
                self.ty(ty);
            }
        }
        // Objects first: top-level actions may use them. Packages last: their blocks use everything.
        let (packages, objects): (Vec<usize>, Vec<usize>) =
            self.tree.top_instances.iter().copied().partition(|i| {
                matches!(self.tree.tys.get(self.tree.instances[*i].new.ty), Kind::Package(..))
            });
        for i in objects {
            self.top_instance(i);
        }
        for i in 0..self.tree.actions.len() {
            if !self.tree.actions[i].in_block {
                let id = self.action(i, None);
                self.top.actions.insert(i, id);
                self.env.actions.insert(i, id);
            }
        }
        for set in self.tree.top_value_sets.clone() {
            if let Some(id) = self.value_set(set) {
                self.top.value_sets.insert(set, id);
                self.env.value_sets.insert(set, id);
            }
        }
        for i in packages {
            self.top_instance(i);
        }
    }

    fn top_instance(&mut self, i: usize) {
        let Some(inst) = self.named_instance(i) else { return };
        if let (Inst::Package(p), true) = (&inst, self.tree.main == Some(i)) {
            self.program.package = p.clone();
            self.program.package_annotations = self.tree.instances[i].annotations.clone();
        }
        self.top.instances.insert(i, inst.clone());
        self.env.instances.insert(i, inst);
    }
}
