//! Statements (P4_16 chapter 12).

use super::eval::Const;
use super::scope::{Def, nearest};
use super::tree::{Expr, ExprKind, Stmt, StmtKind, VarKind};
use super::types::{Kind, Ty};
use super::{Checker, Place};
use crate::ast::{self, DeclKind, StmtKind as Ast};
use crate::diag::Diagnostic;
use crate::repeat::REPEATABLE;
use pointsman_ir::Span;

/// Statements nested deeper than this are refused rather than risking the stack.
const MAX_DEPTH: u32 = 400;

impl Checker<'_> {
    /// `{ ... }` in its own scope.
    pub fn block(&mut self, b: &ast::Block) -> Vec<Stmt> {
        let mut stmts = self.in_scope(|c| c.stmts(&b.stmts));
        if is_atomic(&b.annotations) {
            stmts = vec![Stmt { kind: StmtKind::Atomic(stmts), span: b.span }];
        }
        if b.annotations.iter().any(|a| a.name.name == REPEATABLE) {
            stmts = vec![Stmt { kind: StmtKind::Repeatable(stmts), span: b.span }];
        }
        stmts
    }

    /// Statements in the scope around.
    pub fn stmts(&mut self, stmts: &[ast::Stmt]) -> Vec<Stmt> {
        let mut out = Vec::new();
        for s in stmts {
            self.stmt(s, &mut out);
        }
        out
    }

    /// One statement that is a body.
    fn body(&mut self, s: &ast::Stmt) -> Vec<Stmt> {
        self.in_scope(|c| {
            let mut out = Vec::new();
            c.stmt(s, &mut out);
            out
        })
    }

    fn stmt(&mut self, s: &ast::Stmt, out: &mut Vec<Stmt>) {
        if self.depth >= MAX_DEPTH {
            let help = "move inner parts into actions or functions";
            self.error("P0902", s.span, "statements nested this deeply are not supported", help);
            return;
        }
        self.depth += 1;
        let kind = self.stmt_kind(s);
        self.depth -= 1;
        if let Some(kind) = kind {
            out.push(Stmt { kind, span: s.span });
        }
    }

    fn stmt_kind(&mut self, s: &ast::Stmt) -> Option<StmtKind> {
        let span = s.span;
        match &s.kind {
            Ast::Decl(d) => self.local_decl(d),
            Ast::Assign { lhs, op, rhs } => self.assign(lhs, *op, rhs, span),
            Ast::Call(e) => {
                let v = self.expr(e);
                match v.kind {
                    ExprKind::Call(_) | ExprKind::Apply(_) => Some(StmtKind::Eval(v)),
                    ExprKind::New(_) => {
                        let help = "give the instance a name: `Type(arguments) name;`";
                        self.error("P0410", span, "a constructor call is not a statement", help);
                        None
                    }
                    // Nothing happens: `h.isValid();`, a static assertion.
                    _ => None,
                }
            }
            Ast::Block(b) => Some(StmtKind::Block(self.block(b))),
            Ast::If(c, then, otherwise) => {
                let c = self.value(c);
                let c = self.coerce(c, Ty::BOOL, "the condition");
                let then = self.body(then);
                let otherwise = otherwise.as_ref().map(|o| self.body(o)).unwrap_or_default();
                Some(StmtKind::If(c, then, otherwise))
            }
            Ast::Switch { on, cases } => self.switch(on, cases, span),
            Ast::For { init, cond, update, body } => Some(self.in_scope(|c| {
                let init = c.stmts(init);
                let cond = c.value(cond);
                let cond = c.coerce(cond, Ty::BOOL, "the condition");
                let update = c.stmts(update);
                let body = c.loop_body(body);
                StmtKind::For { init, cond, update, body }
            })),
            Ast::ForIn { ty, var, over, body } => {
                self.in_scope(|c| c.for_in(ty.as_ref(), var, over, body, span))
            }
            Ast::Return(value) => self.return_stmt(value.as_ref(), span),
            Ast::Exit => {
                if !matches!(self.cx.place, Place::ControlApply | Place::Action) {
                    self.error("P0410", span, "`exit` is not allowed here", "use it in controls and actions");
                    return None;
                }
                Some(StmtKind::Exit)
            }
            Ast::Break | Ast::Continue => {
                let (word, kind) = match s.kind {
                    Ast::Break => ("break", StmtKind::Break),
                    _ => ("continue", StmtKind::Continue),
                };
                if self.cx.loops == 0 {
                    self.error("P0410", span, format!("`{word}` is outside any loop"), "use it inside `for`");
                    return None;
                }
                Some(kind)
            }
            Ast::Empty => None,
        }
    }

    fn loop_body(&mut self, body: &ast::Stmt) -> Vec<Stmt> {
        self.cx.loops += 1;
        let out = self.body(body);
        self.cx.loops -= 1;
        out
    }

    fn local_decl(&mut self, d: &ast::Decl) -> Option<StmtKind> {
        if let DeclKind::Const(_) | DeclKind::Variable(_) = &d.kind {
            self.annotations(&d.annotations);
        }
        match &d.kind {
            DeclKind::Const(c) => {
                self.const_decl(c);
                None
            }
            DeclKind::Variable(v) => self.variable(v),
            DeclKind::Instance(i) => {
                let help = "declare it at the head of the parser or control";
                self.error("P0507", d.span, "an instance cannot be declared among statements", help);
                self.declare(&i.name, Def::Broken);
                None
            }
            DeclKind::Empty => None,
            _ => {
                let help = "declare it at the top level or at the head of a block";
                self.error("P0410", d.span, "this declaration is not allowed among statements", help);
                None
            }
        }
    }

    /// Declares a variable; its name is visible after the initial value.
    pub fn variable(&mut self, v: &ast::VariableDecl) -> Option<StmtKind> {
        let ty = self.ty(&v.ty);
        let fine = ty != Ty::ERROR && self.check_variable_type(ty, v.ty.span);
        let init = v.init.as_ref().map(|e| self.value(e));
        if !fine {
            self.declare(&v.name, Def::Broken);
            return None;
        }
        let init = init.map(|e| self.coerce(e, ty, "the initial value"));
        let var = self.new_var(&v.name, ty, VarKind::Local);
        self.declare(&v.name, Def::Var(var));
        Some(StmtKind::Declare(var, init))
    }

    fn assign(
        &mut self,
        lhs: &ast::Expr,
        op: Option<ast::BinaryOp>,
        rhs: &ast::Expr,
        span: Span,
    ) -> Option<StmtKind> {
        if let ast::ExprKind::PlusSlice(base, lo, width) = &lhs.kind {
            let lo = self.value(lo);
            if lo.ty != Ty::ERROR && !matches!(lo.kind, ExprKind::Const(_)) && lo.ty != Ty::INT {
                return self.assign_moving_slice(base, lo, width, op, rhs, span);
            }
        }
        let l = self.value(lhs);
        let r = self.value(rhs);
        if !self.check_lvalue(&l, "assigned to") {
            return None;
        }
        if !self.is_value_type(l.ty) {
            let message = format!("`{}` cannot be assigned", self.show(l.ty));
            self.error("P0401", l.span, message, "objects are bound once, when they are instantiated");
            return None;
        }
        let r = match op {
            None => r,
            Some(op) => {
                let old = Expr { kind: ExprKind::Target, ty: l.ty, span: l.span };
                self.binary(op, old, r, span)
            }
        };
        let ty = l.ty;
        let r = self.coerce(r, ty, "the assigned value");
        Some(StmtKind::Assign(l, r))
    }

    fn return_stmt(&mut self, value: Option<&ast::Expr>, span: Span) -> Option<StmtKind> {
        if self.cx.place == Place::ParserState {
            self.error("P0410", span, "`return` is not allowed in a parser", "use `transition`");
            return None;
        }
        let value = value.map(|e| self.value(e));
        match (self.cx.returns, value) {
            (None | Some(Ty::VOID), None) => Some(StmtKind::Return(None)),
            (None | Some(Ty::VOID), Some(e)) => {
                self.error("P0409", e.span, "there is nothing to return here", "write `return;`");
                None
            }
            (Some(ty), Some(e)) => {
                let e = self.coerce(e, ty, "the returned value");
                Some(StmtKind::Return(Some(e)))
            }
            (Some(ty), None) => {
                if ty != Ty::ERROR {
                    let message = format!("a value of type `{}` must be returned", self.show(ty));
                    self.error("P0409", span, message, "write `return value;`");
                }
                None
            }
        }
    }

    fn for_in(
        &mut self,
        ty: Option<&ast::TypeExpr>,
        var: &ast::Ident,
        over: &ast::Expr,
        body: &ast::Stmt,
        span: Span,
    ) -> Option<StmtKind> {
        enum Over {
            Range(Expr, Expr),
            Values(Expr),
        }
        let over = match &over.kind {
            ast::ExprKind::Range(lo, hi) => Over::Range(self.value(lo), self.value(hi)),
            _ => Over::Values(self.value(over)),
        };
        let place = match ty {
            Some(t) => {
                let ty = self.ty(t);
                if ty == Ty::ERROR || !self.check_variable_type(ty, t.span) {
                    self.declare(var, Def::Broken);
                    self.loop_body(body);
                    return None;
                }
                let id = self.new_var(var, ty, VarKind::Local);
                self.declare(var, Def::Var(id));
                Expr { kind: ExprKind::Var(id), ty, span: var.span }
            }
            None => {
                let path = ast::Path { rooted: false, name: var.clone() };
                let e = self.expr(&ast::Expr { kind: ast::ExprKind::Name(path), span: var.span });
                if !self.check_lvalue(&e, "assigned to") {
                    self.loop_body(body);
                    return None;
                }
                e
            }
        };
        let body = self.loop_body(body);
        match over {
            Over::Range(lo, hi) => {
                if self.tree.tys.bits(place.ty).is_none() {
                    let message =
                        format!("a range yields numbers, but `{}` is `{}`", var.name, self.show(place.ty));
                    self.error("P0401", var.span, message, "make it `bit<W>` or `int<W>`");
                    return None;
                }
                let lo = self.coerce(lo, place.ty, "the lower bound");
                let hi = self.coerce(hi, place.ty, "the upper bound");
                Some(StmtKind::ForRange { var: place, lo, hi, body })
            }
            Over::Values(v) => {
                let v = self.sequence(v, place.ty)?;
                let _ = span;
                Some(StmtKind::ForEach { var: place, over: v, body })
            }
        }
    }

    /// What a loop iterates over, with elements of a type.
    fn sequence(&mut self, v: Expr, of: Ty) -> Option<Expr> {
        match self.tree.tys.get(v.ty).clone() {
            Kind::Stack(elem, _) if elem == of => Some(v),
            Kind::Stack(elem, _) => {
                let found = Expr { kind: ExprKind::Error, ty: elem, span: v.span };
                self.mismatch(&found, of, "an element");
                None
            }
            Kind::Tuple(_) | Kind::List(_) => {
                let to = self.tree.tys.intern(Kind::List(of));
                Some(self.coerce(v, to, "the loop's sequence"))
            }
            Kind::Error => None,
            _ => {
                let message = format!("a loop cannot iterate over `{}`", self.show(v.ty));
                self.error("P0401", v.span, message, "use a range, a list or a header stack");
                None
            }
        }
    }

    fn switch(&mut self, on: &ast::Expr, cases: &[ast::SwitchCase], span: Span) -> Option<StmtKind> {
        if self.cx.in_parser {
            self.error("P0410", span, "`switch` is not allowed in a parser", "use `transition select`");
            return None;
        }
        if let ast::ExprKind::Member(base, name) = &on.kind
            && name.name == "action_run"
        {
            let b = self.expr(base);
            if let Kind::Applied(table) = self.tree.tys.get(b.ty).clone() {
                return self.action_switch(table, cases, on.span);
            }
            if b.ty == Ty::ERROR {
                self.check_cases_anyway(cases);
                return None;
            }
        }
        let v = self.value(on);
        let allowed = match self.tree.tys.get(v.ty) {
            Kind::Error => {
                self.check_cases_anyway(cases);
                return None;
            }
            Kind::Bits { .. } | Kind::Enum(_) | Kind::ErrorCode => true,
            _ => false,
        };
        if !allowed {
            let message = format!("`switch` cannot distinguish values of `{}`", self.show(v.ty));
            self.error("P0401", v.span, message, "use `bit<W>`, `int<W>`, an enum or `error`");
            self.check_cases_anyway(cases);
            return None;
        }
        let mut seen: Vec<(Const, Span)> = Vec::new();
        let mut out: Vec<(Vec<Expr>, Vec<Stmt>)> = Vec::new();
        let (mut labels, mut default) = (Vec::new(), Vec::new());
        let mut to_default = false;
        for (i, case) in cases.iter().enumerate() {
            if let ast::ExprKind::Default = case.label.kind {
                self.check_default_last(i, cases, on.span);
                to_default = true;
            } else {
                labels.push(self.switch_label(&case.label, &v, &mut seen));
            }
            if let Some(b) = &case.body {
                let body = self.block(b);
                if to_default {
                    default = body;
                } else {
                    out.push((std::mem::take(&mut labels), body));
                }
            } else if i + 1 == cases.len() && !to_default {
                out.push((std::mem::take(&mut labels), Vec::new()));
            }
        }
        // Labels that fall through into `default` need no separate case.
        Some(StmtKind::Switch { on: v, cases: out, default })
    }

    /// A label of a `switch` over `on`; `seen` are those before it.
    fn switch_label(&mut self, label: &ast::Expr, on: &Expr, seen: &mut Vec<(Const, Span)>) -> Expr {
        let before = self.diagnostics.len();
        let label = self.value(label);
        let label = self.coerce(label, on.ty, "the label");
        self.relate(before, on.span, "the expression of `switch`");
        match &label.kind {
            ExprKind::Const(c) => {
                if let Some((_, first)) = seen.iter().find(|(o, _)| o == c) {
                    self.report(
                        Diagnostic::error("P0610", label.span, "two labels are equal")
                            .related(*first, "the same as this one")
                            .help("remove one of them"),
                    );
                }
                seen.push((c.clone(), label.span));
            }
            ExprKind::Error => {}
            _ if self.compile_time(&label) => {}
            _ => {
                let help = "use a literal or a constant";
                self.error("P0501", label.span, "a label must be known at compile time", help);
            }
        }
        label
    }

    fn check_cases_anyway(&mut self, cases: &[ast::SwitchCase]) {
        for b in cases.iter().filter_map(|c| c.body.as_ref()) {
            self.block(b);
        }
    }

    fn check_default_last(&mut self, i: usize, cases: &[ast::SwitchCase], on: Span) {
        if let Some(next) = cases.get(i + 1) {
            self.report(
                Diagnostic::error("P0610", next.label.span, "a label follows `default`")
                    .related(cases[i].label.span, "`default` must be the last label")
                    .related(on, "in this `switch`")
                    .help("move `default` to the end"),
            );
        }
    }

    fn not_an_action(&mut self, table: usize, path: &ast::Path, actions: &[(String, usize)], span: Span) {
        let near = nearest(&path.name.name, actions.iter().map(|(n, _)| n.as_str()));
        let message =
            format!("`{}` is not an action of table `{}`", path.name.name, self.tree.tables[table].name);
        let help = near.map_or("use an action of its `actions` list, or `default`".into(), |n| {
            format!("did you mean `{n}`?")
        });
        let at = self.tree.tables[table].span;
        self.report(
            Diagnostic::error("P0610", span, message).related(at, "the table is declared here").help(help),
        );
    }

    fn action_switch(&mut self, table: usize, cases: &[ast::SwitchCase], on: Span) -> Option<StmtKind> {
        let actions: Vec<(String, usize)> = self.tree.tables[table]
            .actions
            .iter()
            .map(|a| (self.tree.actions[a.action].sig.name.clone(), a.action))
            .collect();
        let mut seen: Vec<(usize, Span)> = Vec::new();
        let mut out: Vec<(Vec<usize>, Vec<Stmt>)> = Vec::new();
        let (mut labels, mut default) = (Vec::new(), Vec::new());
        let mut to_default = false;
        for (i, case) in cases.iter().enumerate() {
            match &case.label.kind {
                ast::ExprKind::Default => {
                    self.check_default_last(i, cases, on);
                    to_default = true;
                }
                ast::ExprKind::Name(path) => {
                    self.note_path(path);
                    let named = match self.find(path).map(|b| &b.def) {
                        Some(Def::Action(a)) => Some(*a),
                        _ => None,
                    };
                    match actions.iter().position(|(_, a)| Some(*a) == named) {
                        Some(k) => {
                            if let Some((_, first)) = seen.iter().find(|(o, _)| *o == k) {
                                self.report(
                                    Diagnostic::error("P0610", case.label.span, "two labels are equal")
                                        .related(*first, "the same as this one")
                                        .help("remove one of them"),
                                );
                            }
                            seen.push((k, case.label.span));
                            labels.push(k);
                        }
                        None => self.not_an_action(table, path, &actions, case.label.span),
                    }
                }
                _ => {
                    let help = "use an action of the table's `actions` list, or `default`";
                    self.error("P0610", case.label.span, "this label is not an action", help);
                }
            }
            if let Some(b) = &case.body {
                let body = self.block(b);
                if to_default {
                    default = body;
                } else {
                    out.push((std::mem::take(&mut labels), body));
                }
            } else if i + 1 == cases.len() && !to_default {
                out.push((std::mem::take(&mut labels), Vec::new()));
            }
        }
        Some(StmtKind::ActionSwitch { table, cases: out, default })
    }
}

/// Whether it must be executed in isolation ("Concurrency model").
pub fn is_atomic(annotations: &[ast::Annotation]) -> bool {
    annotations.iter().any(|a| a.name.name == "atomic")
}

/// Whether every path through `stmts` ends in `return` (or `exit`).
pub fn always_returns(stmts: &[Stmt]) -> bool {
    stmts.iter().any(|s| match &s.kind {
        StmtKind::Return(_) | StmtKind::Exit => true,
        StmtKind::Block(b) | StmtKind::Atomic(b) | StmtKind::Repeatable(b) => always_returns(b),
        StmtKind::If(_, a, b) => always_returns(a) && always_returns(b),
        StmtKind::Switch { cases, default, .. } => {
            always_returns(default) && cases.iter().all(|(_, b)| always_returns(b))
        }
        _ => false,
    })
}
