//! Usage by the blocks of a program: the externs that they call, and the fields of the metadata that they read.

use pointsman_ir::{
    Arg, Callee, ControlId, Expr, ExprKind, ExternFnId, ExternInstanceId, KeySet, LValue, ParserId, Program,
    Proj, Span, Stmt, StmtKind, Transition, TypeId, Var, VarRef,
};
use std::collections::BTreeSet;

/// A block or something that it calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unit {
    Parser(ParserId),
    Control(ControlId),
    Action(pointsman_ir::ActionId),
    Function(pointsman_ir::FunctionId),
}

/// The usage of a block and everything that it calls.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    /// Calls of extern functions, with their places.
    pub externs: BTreeSet<(ExternFnId, Span)>,
    /// Calls of methods, with their objects.
    pub methods: BTreeSet<(ExternFnId, ExternInstanceId)>,
    /// Fields of the struct looked for that are read.
    pub reads: Reads,
}

/// Fields of a struct.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reads {
    /// All of them, together.
    pub whole: bool,
    pub fields: BTreeSet<u32>,
}

impl Reads {
    pub fn has(&self, field: u32) -> bool {
        self.whole || self.fields.contains(&field)
    }

    pub fn add(&mut self, other: &Reads) {
        self.whole |= other.whole;
        self.fields.extend(&other.fields);
    }
}

/// Searches `root` and its callees for extern calls and for reads of variables of type `ty`, a struct.
pub(crate) fn usage(program: &Program, root: Unit, ty: TypeId) -> Usage {
    let mut walk = Walk { program, ty, found: Usage::default(), seen: BTreeSet::new(), todo: vec![root] };
    while let Some(unit) = walk.todo.pop() {
        if walk.seen.insert(unit) {
            walk.unit(unit);
        }
    }
    walk.found
}

struct Walk<'p> {
    program: &'p Program,
    ty: TypeId,
    found: Usage,
    seen: BTreeSet<Unit>,
    todo: Vec<Unit>,
}

/// Variables in sight: the callable's own and those of the control around an action.
#[derive(Clone, Copy)]
struct Scope<'p> {
    local: &'p [Var],
    outer: &'p [Var],
}

impl<'p> Walk<'p> {
    fn unit(&mut self, unit: Unit) {
        let program = self.program;
        match unit {
            Unit::Parser(id) => {
                let Some(p) = program.parsers.get(id.index()) else { return };
                let scope = Scope { local: &p.frame.vars, outer: &[] };
                self.block(scope, &p.init);
                for state in &p.states {
                    self.block(scope, &state.body);
                    if let Transition::Select { on, cases } = &state.transition {
                        on.iter().for_each(|e| self.expr(scope, e));
                        cases.iter().flat_map(|c| &c.keys).for_each(|k| self.key_set(scope, k));
                    }
                }
            }
            Unit::Control(id) => {
                let Some(c) = program.controls.get(id.index()) else { return };
                self.block(Scope { local: &c.frame.vars, outer: &[] }, &c.body);
            }
            Unit::Action(id) => {
                let Some(a) = program.actions.get(id.index()) else { return };
                let outer = a.control.and_then(|c| program.controls.get(c.index()));
                let outer = outer.map_or(&[][..], |c| &c.frame.vars);
                self.block(Scope { local: &a.frame.vars, outer }, &a.body);
            }
            Unit::Function(id) => {
                let Some(f) = program.functions.get(id.index()) else { return };
                self.block(Scope { local: &f.frame.vars, outer: &[] }, &f.body);
            }
        }
    }

    fn block(&mut self, scope: Scope<'p>, stmts: &'p [Stmt]) {
        stmts.iter().for_each(|s| self.stmt(scope, s));
    }

    fn stmt(&mut self, scope: Scope<'p>, stmt: &'p Stmt) {
        match &stmt.kind {
            StmtKind::Assign(to, from) => {
                self.indices(scope, to);
                self.expr(scope, from);
            }
            StmtKind::Call { callee, args, .. } => {
                match callee {
                    Callee::Action(id) => self.todo.push(Unit::Action(*id)),
                    Callee::Function(id) => self.todo.push(Unit::Function(*id)),
                    Callee::Control(id) => self.todo.push(Unit::Control(*id)),
                    Callee::Parser(id) => self.todo.push(Unit::Parser(*id)),
                    Callee::Extern { function, instance } => {
                        self.found.externs.insert((*function, stmt.span));
                        self.found.methods.extend(instance.map(|object| (*function, object)));
                    }
                }
                args.iter().for_each(|a| self.arg(scope, a));
            }
            StmtKind::Apply { table, .. } => {
                let Some(t) = self.program.tables.get(table.index()) else { return };
                let control = self.program.controls.get(t.control.index());
                let scope = Scope { local: control.map_or(&[][..], |c| &c.frame.vars), outer: &[] };
                t.keys.iter().for_each(|k| self.expr(scope, &k.expr));
                for a in &t.actions {
                    self.todo.push(Unit::Action(a.action));
                    self.block(scope, &a.setup);
                    a.bound.iter().for_each(|a| self.arg(scope, a));
                }
            }
            StmtKind::If(cond, yes, no) => {
                self.expr(scope, cond);
                self.block(scope, yes);
                self.block(scope, no);
            }
            StmtKind::Switch { on, cases, default } => {
                self.expr(scope, on);
                cases.iter().for_each(|(_, body)| self.block(scope, body));
                self.block(scope, default);
            }
            StmtKind::Loop { cond, body, update } => {
                self.expr(scope, cond);
                self.block(scope, body);
                self.block(scope, update);
            }
            StmtKind::Return(Some(e)) | StmtKind::Advance(e) | StmtKind::Emit(e) => self.expr(scope, e),
            StmtKind::Verify(a, b) => {
                self.expr(scope, a);
                self.expr(scope, b);
            }
            StmtKind::Extract { header, varbits } => {
                self.indices(scope, header);
                varbits.iter().for_each(|e| self.expr(scope, e));
            }
            StmtKind::SetValid(place)
            | StmtKind::SetInvalid(place)
            | StmtKind::PushFront(place, _)
            | StmtKind::PopFront(place, _)
            | StmtKind::Lookahead(place)
            | StmtKind::PacketLength(place) => self.indices(scope, place),
            StmtKind::Break | StmtKind::Continue | StmtKind::Return(None) | StmtKind::Exit => {}
        }
    }

    fn arg(&mut self, scope: Scope<'p>, arg: &'p Arg) {
        match arg {
            Arg::In(e) => self.expr(scope, e),
            Arg::Out(place) => self.indices(scope, place),
            // A whole variable passed on is analysed at its destination.
            Arg::InOut(place) if place.path.is_empty() => {}
            Arg::InOut(place) => self.read(scope, place),
        }
    }

    fn key_set(&mut self, scope: Scope<'p>, set: &'p KeySet) {
        match set {
            KeySet::Value(e) => self.expr(scope, e),
            KeySet::Mask(a, b) | KeySet::Range(a, b) => {
                self.expr(scope, a);
                self.expr(scope, b);
            }
            KeySet::Any | KeySet::ValueSet(_) => {}
        }
    }

    fn read(&mut self, scope: Scope<'p>, place: &'p LValue) {
        let var = match place.root {
            VarRef::Local(i) => scope.local.get(i as usize),
            VarRef::Outer(i) => scope.outer.get(i as usize),
        };
        if var.is_some_and(|v| v.ty == self.ty) {
            match place.path.first() {
                Some(Proj::Field(f)) => {
                    self.found.reads.fields.insert(*f);
                }
                _ => self.found.reads.whole = true,
            }
        }
        self.indices(scope, place);
    }

    /// Expressions inside a place.
    fn indices(&mut self, scope: Scope<'p>, place: &'p LValue) {
        for step in &place.path {
            if let Proj::Index(e) = step {
                self.expr(scope, e);
            }
        }
    }

    fn expr(&mut self, scope: Scope<'p>, expr: &'p Expr) {
        match &expr.kind {
            ExprKind::Read(place) => self.read(scope, place),
            ExprKind::IsValid(place) | ExprKind::LastIndex(place) => self.indices(scope, place),
            ExprKind::Unary(_, a) | ExprKind::Cast(a) | ExprKind::Slice(a, _, _) | ExprKind::Field(a, _) => {
                self.expr(scope, a);
            }
            ExprKind::Binary(_, a, b) => {
                self.expr(scope, a);
                self.expr(scope, b);
            }
            ExprKind::Mux(a, b, c) => {
                self.expr(scope, a);
                self.expr(scope, b);
                self.expr(scope, c);
            }
            ExprKind::Aggregate(es) => es.iter().for_each(|e| self.expr(scope, e)),
            ExprKind::Const(_) | ExprKind::Invalid => {}
        }
    }
}
