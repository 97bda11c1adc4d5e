//! Unused declarations, and states that are never reached.

use super::{NO_DEFAULT, UNREACHABLE, UNUSED};
use crate::ast;
use crate::check::tree::{
    Arg, Callee, Direction, Expr, ExprKind, KeySet, Stmt, StmtKind, Target, Transition, Tree, VarId, VarKind,
};
use crate::check::types::{Kind, Ty};
use crate::diag::Diagnostic;
use pointsman_ir::Span;
use std::collections::BTreeSet;

/// Everything that some code mentions.
#[derive(Default)]
struct Uses {
    vars: BTreeSet<VarId>,
    actions: BTreeSet<usize>,
    tables: BTreeSet<usize>,
    functions: BTreeSet<usize>,
    instances: BTreeSet<usize>,
    blocks: BTreeSet<usize>,
}

pub fn lint(tree: &Tree, program: &ast::Program, is_own: &dyn Fn(Span) -> bool, out: &mut Vec<Diagnostic>) {
    let uses = collect(tree);
    let whole = tree.main.is_some();
    let mut warn = |what: &str, name: &str, span: Span, help: &str| {
        if !name.starts_with('_') && is_own(span) {
            let message = format!("{what} `{name}` is never used");
            out.push(Diagnostic::warning(UNUSED, span, message).label("declared here").help(help));
        }
    };
    for (i, v) in tree.vars.iter().enumerate() {
        if v.kind == VarKind::Local && !uses.vars.contains(&VarId(i)) {
            warn("variable", &v.name, v.span, "remove it, or begin its name with `_`");
        }
    }
    // Their signatures are those of the abstract methods.
    let implementations: BTreeSet<usize> =
        tree.instances.iter().flat_map(|i| i.methods.iter().map(|(_, f)| *f)).collect();
    for (i, f) in tree.functions.iter().enumerate() {
        if implementations.contains(&i) {
            continue;
        }
        unused_params(&f.sig.params, &uses, "parameter", &mut warn);
    }
    for a in &tree.actions {
        unused_params(&a.sig.params, &uses, "action parameter", &mut warn);
    }
    for (i, a) in tree.actions.iter().enumerate() {
        if !uses.actions.contains(&i) && (a.in_block || whole) {
            let help = "list it in a table, call it, or remove it";
            warn("action", &a.sig.name, a.sig.span, help);
        }
    }
    for (i, t) in tree.tables.iter().enumerate() {
        if !uses.tables.contains(&i) {
            warn("table", &t.name, t.span, "apply it, or remove it");
        }
    }
    if whole {
        for (i, f) in tree.functions.iter().enumerate() {
            if !uses.functions.contains(&i) && !implementations.contains(&i) {
                warn("function", &f.sig.name, f.sig.span, "call it, or remove it");
            }
        }
        for (i, b) in tree.blocks.iter().enumerate() {
            if b.has_body && !uses.blocks.contains(&i) {
                let what = if b.is_parser { "parser" } else { "control" };
                warn(what, &b.name, b.span, "instantiate it, or remove it");
            }
        }
    }
    for (i, inst) in tree.instances.iter().enumerate() {
        let in_use = inst.anonymous || tree.main == Some(i) || uses.instances.contains(&i);
        if !in_use
            && !matches!(tree.tys.get(inst.new.ty), Kind::Package(..))
            && (whole || !top(program, inst.span))
        {
            warn("instance", &inst.name, inst.span, "use it, or remove it");
        }
    }
    for b in &tree.blocks {
        states(b, out);
    }
}

fn top(program: &ast::Program, span: Span) -> bool {
    program.decls.iter().any(|d| d.span == span)
}

fn unused_params(
    params: &[crate::check::tree::Param],
    uses: &Uses,
    what: &str,
    warn: &mut dyn FnMut(&str, &str, Span, &str),
) {
    for p in params.iter().filter(|p| p.direction != Direction::Out && p.direction != Direction::InOut) {
        if !uses.vars.contains(&p.var) {
            warn(what, &p.name, p.span, "remove it, or begin its name with `_`");
        }
    }
}

/// States that `start` does not lead to, and selects that may match nothing.
fn states(block: &crate::check::tree::Block, out: &mut Vec<Diagnostic>) {
    let Some(body) = &block.body else { return };
    let mut seen = vec![false; body.states.len()];
    let mut open = vec![0];
    while let Some(i) = open.pop() {
        let Some(state) = body.states.get(i) else { continue };
        if std::mem::replace(&mut seen[i], true) {
            continue;
        }
        let mut goto = |t: &Target| {
            if let Target::State(i) = t {
                open.push(*i);
            }
        };
        match &state.next {
            Transition::Goto(t) => goto(t),
            Transition::Select { cases, .. } => cases.iter().for_each(|(_, t)| goto(t)),
        }
    }
    for (s, seen) in body.states.iter().zip(seen) {
        if !seen {
            let message = format!("state `{}` is never reached", s.name);
            let d = Diagnostic::warning(UNREACHABLE, s.name_span, message).label("no transition leads here");
            out.push(d.help("add a transition to it, or remove it"));
        }
    }
}

fn collect(tree: &Tree) -> Uses {
    let mut uses =
        Uses { vars: tree.named_vars.clone(), functions: tree.named_functions.clone(), ..Uses::default() };
    for f in &tree.functions {
        uses.params(tree, &f.sig.params);
        uses.stmts(tree, &f.body);
    }
    for a in &tree.actions {
        uses.params(tree, &a.sig.params);
        uses.stmts(tree, &a.body);
    }
    for e in &tree.externs {
        e.methods.iter().chain(&e.ctors).for_each(|m| uses.params(tree, &m.params));
    }
    tree.extern_fns.iter().for_each(|f| uses.params(tree, &f.params));
    tree.packages.iter().for_each(|p| uses.params(tree, &p.sig.params));
    for b in &tree.blocks {
        uses.params(tree, &b.params);
        uses.params(tree, &b.ctor_params);
        if let Some(body) = &b.body {
            uses.stmts(tree, &body.locals);
            uses.stmts(tree, &body.apply);
            for s in &body.states {
                uses.stmts(tree, &s.body);
                if let Transition::Select { on, cases } = &s.next {
                    on.iter().for_each(|e| uses.expr(tree, e));
                    cases.iter().flat_map(|(ks, _)| ks).for_each(|k| uses.key_set(tree, k));
                }
            }
        }
    }
    for i in &tree.instances {
        uses.made(tree, &i.new);
    }
    for t in &tree.tables {
        t.keys.iter().for_each(|k| uses.expr(tree, &k.expr));
        for a in &t.actions {
            uses.actions.insert(a.action);
            a.bound.iter().for_each(|b| uses.arg(tree, b));
        }
        t.default.iter().flat_map(|(_, es)| es).for_each(|e| uses.expr(tree, e));
        t.size.iter().for_each(|e| uses.expr(tree, e));
        t.properties.iter().for_each(|(_, e, _)| uses.expr(tree, e));
        for e in &t.entries {
            e.keys.iter().for_each(|k| uses.key_set(tree, k));
            e.args.iter().for_each(|e| uses.expr(tree, e));
        }
    }
    tree.value_sets.iter().for_each(|v| uses.expr(tree, &v.size));
    uses
}

impl Uses {
    fn params(&mut self, tree: &Tree, params: &[crate::check::tree::Param]) {
        params.iter().filter_map(|p| p.default.as_ref()).for_each(|e| self.expr(tree, e));
    }

    fn made(&mut self, tree: &Tree, new: &crate::check::tree::New) {
        self.ty(tree, new.ty);
        new.args.iter().flatten().for_each(|e| self.expr(tree, e));
    }

    fn ty(&mut self, tree: &Tree, ty: Ty) {
        if let Kind::Block(b, _) = tree.tys.get(ty) {
            self.blocks.insert(*b);
        }
    }

    fn key_set(&mut self, tree: &Tree, k: &KeySet) {
        match k {
            KeySet::Value(a) => self.expr(tree, a),
            KeySet::Mask(a, b) | KeySet::Range(a, b) => {
                self.expr(tree, a);
                self.expr(tree, b);
            }
            KeySet::Any | KeySet::ValueSet(_) => {}
        }
    }

    fn arg(&mut self, tree: &Tree, a: &Arg) {
        if let Arg::In(e) | Arg::Out(e) | Arg::InOut(e) = a {
            self.expr(tree, e);
        }
    }

    fn expr(&mut self, tree: &Tree, e: &Expr) {
        match &e.kind {
            ExprKind::Var(v) => {
                self.vars.insert(*v);
            }
            ExprKind::Instance(i) => {
                self.instances.insert(*i);
            }
            ExprKind::New(n) => self.made(tree, n),
            ExprKind::Apply(t) | ExprKind::Hit { table: t, .. } => {
                self.tables.insert(*t);
            }
            ExprKind::Call(c) => match &c.callee {
                Callee::Function(f) => {
                    self.functions.insert(*f);
                }
                Callee::Action(a) => {
                    self.actions.insert(*a);
                }
                _ => {}
            },
            _ => {}
        }
        e.each_child(&mut |c| self.expr(tree, c));
    }

    fn stmts(&mut self, tree: &Tree, stmts: &[Stmt]) {
        for s in stmts {
            match &s.kind {
                StmtKind::Declare(_, init) => init.iter().for_each(|e| self.expr(tree, e)),
                StmtKind::Assign(a, b) => {
                    self.expr(tree, a);
                    self.expr(tree, b);
                }
                StmtKind::Eval(e) => self.expr(tree, e),
                StmtKind::Block(b) | StmtKind::Atomic(b) | StmtKind::Repeatable(b) => self.stmts(tree, b),
                StmtKind::If(c, a, b) => {
                    self.expr(tree, c);
                    self.stmts(tree, a);
                    self.stmts(tree, b);
                }
                StmtKind::Switch { on, cases, default } => {
                    self.expr(tree, on);
                    for (labels, body) in cases {
                        labels.iter().for_each(|e| self.expr(tree, e));
                        self.stmts(tree, body);
                    }
                    self.stmts(tree, default);
                }
                StmtKind::ActionSwitch { table, cases, default } => {
                    self.tables.insert(*table);
                    cases.iter().for_each(|(_, body)| self.stmts(tree, body));
                    self.stmts(tree, default);
                }
                StmtKind::For { init, cond, update, body } => {
                    self.stmts(tree, init);
                    self.expr(tree, cond);
                    self.stmts(tree, update);
                    self.stmts(tree, body);
                }
                StmtKind::ForRange { var, lo, hi, body } => {
                    // The variable counts as used: how often the loop runs is its use.
                    self.expr(tree, var);
                    self.expr(tree, lo);
                    self.expr(tree, hi);
                    self.stmts(tree, body);
                }
                StmtKind::ForEach { var, over, body } => {
                    self.expr(tree, var);
                    self.expr(tree, over);
                    self.stmts(tree, body);
                }
                StmtKind::Return(e) => e.iter().for_each(|e| self.expr(tree, e)),
                StmtKind::Exit | StmtKind::Break | StmtKind::Continue => {}
            }
        }
    }
}

/// A `select` that lacks a case for some values; packets with other values are rejected.
pub fn select_default(
    on: &[Expr],
    cases: &[(Vec<KeySet>, Target)],
    tree: &Tree,
    span: Span,
) -> Option<Diagnostic> {
    let all = cases.iter().any(|(keys, _)| keys.iter().all(|k| matches!(k, KeySet::Any)));
    let values = |e: &Expr| match tree.tys.get(e.ty) {
        Kind::Bool => Some(2usize),
        Kind::Bits { width, .. } if *width < 8 => Some(1 << width),
        Kind::Enum(d) if tree.enums[*d].repr.is_none() => Some(tree.enums[*d].members.len()),
        _ => None,
    };
    let covered = match on {
        [one] => values(one).is_some_and(|n| {
            cases.len() >= n && cases.iter().all(|(k, _)| matches!(k.as_slice(), [KeySet::Value(_)]))
        }),
        _ => false,
    };
    (!all && !covered && !cases.is_empty()).then(|| {
        Diagnostic::warning(NO_DEFAULT, span, "this `select` has no case for other values")
            .label("a packet that matches none of them is rejected with `error.NoMatch`")
            .help("add `default: reject;`, or another transition")
    })
}
