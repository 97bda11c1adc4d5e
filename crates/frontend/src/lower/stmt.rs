//! Statements.

use super::Lower;
use crate::check::tree::{Expr, ExprKind, Stmt, StmtKind as Tree, VarId};
use crate::check::types::{Kind, Ty};
use pointsman_ir::{self as ir, Bits, LValue, Span, StmtKind, Value};

/// The empty place of conditions and switches that the source does not have.
fn untraced(span: Span) -> Span {
    Span { hi: span.lo, ..span }
}

impl Lower<'_> {
    /// Adds statements.
    pub fn stmts(&mut self, stmts: &[Stmt]) {
        for s in stmts {
            self.stmt(s);
        }
    }

    /// Calls an extern function without arguments, which the architecture knows without a declaration.
    fn mark(&mut self, name: &str, span: Span) {
        let same = |f: &ir::ExternFn| f.object.is_none() && f.name == name && f.params.is_empty();
        let index = self.program.extern_fns.iter().position(same).unwrap_or_else(|| {
            let function = ir::ExternFn { object: None, name: name.to_string(), params: Vec::new(), span };
            self.program.extern_fns.push(function);
            self.program.extern_fns.len() - 1
        });
        let callee = ir::Callee::Extern { function: ir::ExternFnId(index as u32), instance: None };
        self.push(StmtKind::Call { result: None, callee, type_args: Vec::new(), args: Vec::new() }, span);
    }

    fn block(&mut self, stmts: &[Stmt]) -> Vec<ir::Stmt> {
        self.nested(|l| l.stmts(stmts))
    }

    fn stmt(&mut self, s: &Stmt) {
        let span = s.span;
        match &s.kind {
            Tree::Declare(v, init) => self.declare(*v, init.as_ref(), span),
            Tree::Assign(l, r) => {
                // The left side is evaluated first: variables of its indices may change on the right.
                let Some(lv) = self.place(l, r.has_effects()) else { return };
                let outer = self.body.target.replace(lv.clone());
                let value = self.expr(r);
                self.body.target = outer;
                self.push(StmtKind::Assign(lv, value), span);
            }
            Tree::Eval(e) => match &e.kind {
                ExprKind::Call(c) => {
                    self.call(c, e.ty, e.span);
                }
                ExprKind::Apply(t) => self.apply(*t, None, None, span),
                _ => {}
            },
            Tree::Block(b) | Tree::Repeatable(b) => self.stmts(b),
            Tree::Atomic(b) => {
                self.mark(ir::ATOMIC_BEGIN, span);
                self.stmts(b);
                self.mark(ir::ATOMIC_END, span);
            }
            Tree::If(c, yes, no) => {
                let c = self.expr(c);
                let (yes, no) = (self.block(yes), self.block(no));
                self.push(StmtKind::If(c, yes, no), span);
            }
            Tree::Switch { on, cases, default } => {
                let on_value = self.expr(on);
                let cases = cases
                    .iter()
                    .map(|(labels, body)| {
                        let labels = labels.iter().filter_map(|l| self.label(l)).collect();
                        (labels, self.block(body))
                    })
                    .collect();
                let default = self.block(default);
                self.push(StmtKind::Switch { on: on_value, cases, default }, span);
            }
            Tree::ActionSwitch { table, cases, default } => self.action_switch(*table, cases, default, span),
            Tree::For { init, cond, update, body } => {
                self.stmts(init);
                self.while_loop(cond, update, body, span);
            }
            Tree::ForRange { var, lo, hi, body } => self.for_range(var, lo, hi, body, span),
            Tree::ForEach { var, over, body } => self.for_each(var, over, body, span),
            Tree::Return(e) => {
                let e = e.as_ref().map(|e| self.expr(e));
                self.push(StmtKind::Return(e), span);
            }
            Tree::Exit => self.push(StmtKind::Exit, span),
            Tree::Break => self.push(StmtKind::Break, span),
            Tree::Continue => self.push(StmtKind::Continue, span),
        }
    }

    fn declare(&mut self, v: VarId, init: Option<&Expr>, span: Span) {
        let var = self.tree.vars[v.0].clone();
        let ty = self.ty(var.ty);
        let value = init.map(|e| self.expr(e));
        let index = self.new_var(&var.name, ty);
        self.body.map.insert(v, index);
        let value = match value {
            Some(v) => v,
            // A frame starts with defaults: only code that runs again has to reset variables.
            None if self.body.repeats => {
                ir::Expr { kind: ir::ExprKind::Const(self.default_value(ty)), ty, span }
            }
            None => return,
        };
        self.push(StmtKind::Assign(LValue::var(ir::VarRef::Local(index), ty), value), span);
    }

    fn action_switch(
        &mut self,
        table: usize,
        cases: &[(Vec<usize>, Vec<Stmt>)],
        default: &[Stmt],
        span: Span,
    ) {
        let ty = self.bit_type(32);
        let run = self.temp(ty);
        self.apply(table, None, Some(run.clone()), span);
        let cases = cases
            .iter()
            .map(|(labels, body)| {
                let value = |n: &usize| Value::Bits(Bits::new(32, *n as u128));
                (labels.iter().map(value).collect(), self.block(body))
            })
            .collect();
        let default = self.block(default);
        let on = ir::Expr { kind: ir::ExprKind::Read(run), ty, span };
        self.push(StmtKind::Switch { on, cases, default }, span);
    }

    fn label(&mut self, e: &Expr) -> Option<Value> {
        let c = self.constant(e)?;
        self.const_value(&c, e.ty, e.span)
    }

    /// Runs `f` for code that can run several times.
    fn repeating<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> R {
        let before = std::mem::replace(&mut self.body.repeats, true);
        let r = f(self);
        self.body.repeats = before;
        r
    }

    fn while_loop(&mut self, cond: &Expr, update: &[Stmt], body: &[Stmt], span: Span) {
        let (cond, body, update) = self.repeating(|l| {
            let mut c = None;
            let mut head = l.nested(|l| c = Some(l.expr(cond)));
            let mut c = c.unwrap_or_else(|| l.bool_expr(false, span));
            if !head.is_empty() {
                // The condition calls something: it becomes the first thing in the body, and that of the loop is not traced.
                let stop = ir::Stmt { kind: StmtKind::Break, span };
                head.push(ir::Stmt { kind: StmtKind::If(c, Vec::new(), vec![stop]), span });
                c = l.bool_expr(true, untraced(span));
            }
            head.extend(l.block(body));
            (c, head, l.block(update))
        });
        self.push(StmtKind::Loop { cond, body, update }, span);
    }

    /// The value of a place.
    pub fn get(lv: &LValue, span: Span) -> ir::Expr {
        ir::Expr { kind: ir::ExprKind::Read(lv.clone()), ty: lv.ty, span }
    }

    fn number(ty: ir::TypeId, width: u32, n: u32, span: Span) -> ir::Expr {
        ir::Expr { kind: ir::ExprKind::Const(Value::Bits(Bits::new(width, u128::from(n)))), ty, span }
    }

    /// The variable of a `for ... in`, fresh if the loop declares it.
    fn loop_var(&mut self, var: &Expr) -> Option<LValue> {
        if let ExprKind::Var(v) = &var.kind
            && !self.is_place(var)
        {
            let name = self.tree.vars[v.0].name.clone();
            let ty = self.ty(var.ty);
            let index = self.new_var(&name, ty);
            self.body.map.insert(*v, index);
        }
        self.place(var, false)
    }

    /// Counts up to the upper bound. It may be the largest number: the loop ends before the count begins again at the smallest one.
    fn for_range(&mut self, var: &Expr, lo: &Expr, hi: &Expr, body: &[Stmt], span: Span) {
        let mut bounds = self.operands(&[lo, hi]).into_iter();
        let (Some(lo), Some(hi)) = (bounds.next(), bounds.next()) else { return };
        let Some(width) = self.program.types.scalar_width(lo.ty) else { return };
        let ty = lo.ty;
        let (at, end) = (self.temp(ty), self.temp(ty));
        self.push(StmtKind::Assign(at.clone(), lo), span);
        self.push(StmtKind::Assign(end.clone(), hi), span);
        let bool_ty = self.bool_type();
        let more = self.temp(bool_ty);
        let binary =
            |op, a, b, ty| ir::Expr { kind: ir::ExprKind::Binary(op, Box::new(a), Box::new(b)), ty, span };
        let (a, e) = (Self::get(&at, span), Self::get(&end, span));
        let start = binary(ir::BinaryOp::Le, a.clone(), e.clone(), bool_ty);
        self.push(StmtKind::Assign(more.clone(), start), span);
        let Some(var) = self.loop_var(var) else { return };
        let mut inner = vec![ir::Stmt { kind: StmtKind::Assign(var, a.clone()), span }];
        inner.extend(self.repeating(|l| l.block(body)));
        let not_last = binary(ir::BinaryOp::Ne, a.clone(), e, bool_ty);
        let one = Self::number(ty, width, 1, span);
        let next = binary(ir::BinaryOp::Add, a, one, ty);
        let update = [StmtKind::Assign(more.clone(), not_last), StmtKind::Assign(at, next)];
        let update = update.map(|kind| ir::Stmt { kind, span }).into();
        self.push(StmtKind::Loop { cond: Self::get(&more, span), body: inner, update }, span);
    }

    fn for_each(&mut self, var: &Expr, over: &Expr, body: &[Stmt], span: Span) {
        let u32_ty = self.bit_type(32);
        let Some(place) = self.loop_var(var) else { return };
        let at = self.temp(u32_ty);
        let i = Self::get(&at, span);
        let (count, take) = match self.tree.tys.get(over.ty).clone() {
            Kind::Stack(_, n) => {
                let stack = self.expr(over);
                let stack = self.keep(stack);
                let ir::ExprKind::Read(mut lv) = stack.kind else { return };
                lv.path.push(ir::Proj::Index(i.clone()));
                lv.ty = place.ty;
                (n, ir::Stmt { kind: StmtKind::Assign(place, Self::get(&lv, span)), span })
            }
            _ => {
                let values = self.list_elements(over);
                let count = values.len() as u32;
                let case = |(n, v): (usize, ir::Expr)| {
                    let take = ir::Stmt { kind: StmtKind::Assign(place.clone(), v), span };
                    (vec![Value::Bits(Bits::new(32, n as u128))], vec![take])
                };
                let cases = values.into_iter().enumerate().map(case).collect();
                let kind = StmtKind::Switch { on: i.clone(), cases, default: Vec::new() };
                (count, ir::Stmt { kind, span: untraced(span) })
            }
        };
        let zero = Self::number(u32_ty, 32, 0, span);
        self.push(StmtKind::Assign(at.clone(), zero), span);
        let bool_ty = self.bool_type();
        let binary = |op, b, ty| ir::Expr {
            kind: ir::ExprKind::Binary(op, Box::new(i.clone()), Box::new(b)),
            ty,
            span,
        };
        let cond = binary(ir::BinaryOp::Lt, Self::number(u32_ty, 32, count, span), bool_ty);
        let next = binary(ir::BinaryOp::Add, Self::number(u32_ty, 32, 1, span), u32_ty);
        let mut inner = vec![take];
        inner.extend(self.repeating(|l| l.block(body)));
        let update = vec![ir::Stmt { kind: StmtKind::Assign(at, next), span }];
        self.push(StmtKind::Loop { cond, body: inner, update }, span);
    }

    /// The elements of a list expression, each kept as it is before the loop.
    fn list_elements(&mut self, over: &Expr) -> Vec<ir::Expr> {
        let elem: Ty = match self.tree.tys.get(over.ty) {
            Kind::List(t) => *t,
            _ => Ty::ERROR,
        };
        match &over.kind {
            ExprKind::Aggregate(parts) => {
                let mut out = Vec::new();
                for (_, p) in parts {
                    let v = self.expr(p);
                    out.push(self.keep(v));
                }
                out
            }
            _ => {
                let Some(crate::check::eval::Const::Tuple(cs)) = self.constant(over) else {
                    return Vec::new();
                };
                cs.iter()
                    .map(|c| {
                        let e = Expr { kind: ExprKind::Error, ty: elem, span: over.span };
                        self.const_expr(c, &e)
                    })
                    .collect()
            }
        }
    }
}
