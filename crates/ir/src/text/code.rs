//! Statements and expressions.

use super::values::value;
use super::{Out, named, type_args, type_name};
use crate::program::{Frame, Program};
use crate::stmt::{
    Arg, BinaryOp, Callee, Expr, ExprKind, KeySet, LValue, Proj, Stmt, StmtKind, UnaryOp, VarRef,
};
use crate::types::{Type, TypeId};

/// Prints the code of one callable.
pub(super) struct Code<'a> {
    program: &'a Program,
    local: &'a Frame,
    outer: Option<&'a Frame>,
}

impl<'a> Code<'a> {
    pub(super) fn new(program: &'a Program, local: &'a Frame, outer: Option<&'a Frame>) -> Self {
        Code { program, local, outer }
    }

    /// Name of variable `i`, with its index if the name is not unique.
    pub(super) fn local(&self, i: usize) -> String {
        var_name(self.local, i)
    }

    pub(super) fn block(&self, out: &mut Out, stmts: &[Stmt]) {
        stmts.iter().for_each(|s| self.stmt(out, s));
    }

    fn stmt(&self, out: &mut Out, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Assign(lv, e) => out.line(format!("{} = {}", self.place(lv), self.expr(e))),
            StmtKind::SetValid(lv) => out.line(format!("{}.setValid()", self.place(lv))),
            StmtKind::SetInvalid(lv) => out.line(format!("{}.setInvalid()", self.place(lv))),
            StmtKind::PushFront(lv, n) => out.line(format!("{}.push_front({n})", self.place(lv))),
            StmtKind::PopFront(lv, n) => out.line(format!("{}.pop_front({n})", self.place(lv))),
            StmtKind::Call { result, callee, type_args, args } => {
                out.line(self.call(result.as_ref(), *callee, type_args, args));
            }
            StmtKind::Apply { table, hit, action_run } => {
                let name = named(&self.program.tables, table.index(), |t| &t.name);
                let hit = hit.as_ref().map(|lv| format!(" hit {}", self.place(lv))).unwrap_or_default();
                let run = action_run
                    .as_ref()
                    .map(|lv| format!(" action_run {}", self.place(lv)))
                    .unwrap_or_default();
                out.line(format!("apply {name}{hit}{run}"));
            }
            StmtKind::If(cond, yes, no) => {
                out.braces(format!("if {}", self.expr(cond)), "}", |out| self.block(out, yes));
                if !no.is_empty() {
                    out.braces("else", "}", |out| self.block(out, no));
                }
            }
            StmtKind::Switch { on, cases, default } => {
                out.braces(format!("switch {}", self.expr(on)), "}", |out| {
                    for (labels, body) in cases {
                        let labels: Vec<_> = labels.iter().map(|v| value(self.program, on.ty, v)).collect();
                        out.braces(labels.join(", "), "}", |out| self.block(out, body));
                    }
                    if !default.is_empty() {
                        out.braces("default", "}", |out| self.block(out, default));
                    }
                });
            }
            StmtKind::Loop { cond, body, update } => {
                out.braces(format!("while {}", self.expr(cond)), "}", |out| self.block(out, body));
                if !update.is_empty() {
                    out.braces("update", "}", |out| self.block(out, update));
                }
            }
            StmtKind::Break => out.line("break"),
            StmtKind::Continue => out.line("continue"),
            StmtKind::Return(None) => out.line("return"),
            StmtKind::Return(Some(e)) => out.line(format!("return {}", self.expr(e))),
            StmtKind::Exit => out.line("exit"),
            StmtKind::Extract { header, varbits: None } => {
                out.line(format!("extract {}", self.place(header)))
            }
            StmtKind::Extract { header, varbits: Some(e) } => {
                out.line(format!("extract {}, {}", self.place(header), self.expr(e)));
            }
            StmtKind::Lookahead(lv) => out.line(format!("{} = lookahead", self.place(lv))),
            StmtKind::Advance(e) => out.line(format!("advance {}", self.expr(e))),
            StmtKind::PacketLength(lv) => out.line(format!("{} = length", self.place(lv))),
            StmtKind::Verify(cond, error) => {
                out.line(format!("verify {}, {}", self.expr(cond), self.expr(error)));
            }
            StmtKind::Emit(e) => out.line(format!("emit {}", self.expr(e))),
        }
    }

    fn call(&self, result: Option<&LValue>, callee: Callee, types: &[TypeId], args: &[Arg]) -> String {
        let p = self.program;
        let result = result.map(|lv| format!("{} = ", self.place(lv))).unwrap_or_default();
        let callee = match callee {
            Callee::Action(i) => format!("action {}", named(&p.actions, i.index(), |a| &a.name)),
            Callee::Function(i) => format!("function {}", named(&p.functions, i.index(), |f| &f.name)),
            Callee::Control(i) => format!("control {}", named(&p.controls, i.index(), |c| &c.name)),
            Callee::Parser(i) => format!("parser {}", named(&p.parsers, i.index(), |x| &x.name)),
            Callee::Extern { function, instance } => {
                let object =
                    instance.map(|i| named(&p.externs, i.index(), |e| &e.name) + ".").unwrap_or_default();
                let name = named(&p.extern_fns, function.index(), |f| &f.name);
                format!("{object}{name}{}", type_args(&p.types, types))
            }
        };
        let args: Vec<_> = args.iter().map(|a| self.arg(a)).collect();
        format!("{result}call {callee}({})", args.join(", "))
    }

    pub(super) fn arg(&self, arg: &Arg) -> String {
        match arg {
            Arg::In(e) => self.expr(e),
            Arg::Out(lv) => format!("out {}", self.place(lv)),
            Arg::InOut(lv) => format!("inout {}", self.place(lv)),
        }
    }

    pub(super) fn key_set(&self, key: &KeySet) -> String {
        match key {
            KeySet::Value(e) => self.expr(e),
            KeySet::Mask(v, m) => format!("{} &&& {}", self.expr(v), self.expr(m)),
            KeySet::Range(lo, hi) => format!("{}..{}", self.expr(lo), self.expr(hi)),
            KeySet::Any => "_".into(),
            KeySet::ValueSet(i) => {
                format!("value_set {}", named(&self.program.value_sets, i.index(), |s| &s.name))
            }
        }
    }

    fn place(&self, lv: &LValue) -> String {
        let (mut text, frame, i) = match lv.root {
            VarRef::Local(i) => (String::new(), Some(self.local), i as usize),
            VarRef::Outer(i) => ("^".into(), self.outer, i as usize),
        };
        text.push_str(&frame.map_or_else(|| "?".into(), |f| var_name(f, i)));
        let mut ty = frame.and_then(|f| f.vars.get(i)).map(|v| v.ty);
        for step in &lv.path {
            let (part, next) = match step {
                Proj::Field(i) => self.field(ty, *i),
                Proj::Index(e) => (format!("[{}]", self.expr(e)), self.element(ty)),
                Proj::Next => (".next".into(), self.element(ty)),
                Proj::Last => (".last".into(), self.element(ty)),
                Proj::Slice { hi, lo } => (format!("[{hi}:{lo}]"), None),
            };
            text.push_str(&part);
            ty = next;
        }
        text
    }

    /// `.name` of a field, and its type.
    fn field(&self, of: Option<TypeId>, i: u32) -> (String, Option<TypeId>) {
        let types = &self.program.types;
        let of = of.filter(|ty| types.contains(*ty));
        let def = of.and_then(|ty| types.struct_def(ty)).and_then(|d| d.fields.get(i as usize));
        match (def, of.map(|ty| types.repr_type(ty))) {
            (Some(f), _) => (format!(".{}", f.name), Some(f.ty)),
            (None, Some(Type::Tuple(t))) => (format!(".{i}"), t.get(i as usize).copied()),
            _ => (format!(".?{i}"), None),
        }
    }

    fn element(&self, of: Option<TypeId>) -> Option<TypeId> {
        let types = &self.program.types;
        match types.repr_type(of.filter(|ty| types.contains(*ty))?) {
            Type::Stack { elem, .. } => Some(*elem),
            _ => None,
        }
    }

    pub(super) fn expr(&self, e: &Expr) -> String {
        match &e.kind {
            ExprKind::Const(v) => value(self.program, e.ty, v),
            ExprKind::Read(lv) => self.place(lv),
            ExprKind::Unary(op, a) => {
                let op = match op {
                    UnaryOp::Not => "!",
                    UnaryOp::BitNot => "~",
                    UnaryOp::Neg => "-",
                };
                format!("{op}{}", self.expr(a))
            }
            ExprKind::Binary(op, a, b) => format!("({} {} {})", self.expr(a), operator(*op), self.expr(b)),
            ExprKind::Mux(c, a, b) => {
                format!("({} ? {} : {})", self.expr(c), self.expr(a), self.expr(b))
            }
            ExprKind::Cast(a) => format!("({}){}", type_name(&self.program.types, e.ty), self.expr(a)),
            ExprKind::Slice(a, hi, lo) => format!("{}[{hi}:{lo}]", self.expr(a)),
            ExprKind::Field(a, i) => format!("{}{}", self.expr(a), self.field(Some(a.ty), *i).0),
            ExprKind::Aggregate(parts) => {
                let parts: Vec<_> = parts.iter().map(|p| self.expr(p)).collect();
                format!("({}){{{}}}", type_name(&self.program.types, e.ty), parts.join(", "))
            }
            ExprKind::Invalid => format!("({}){{#}}", type_name(&self.program.types, e.ty)),
            ExprKind::IsValid(lv) => format!("{}.isValid()", self.place(lv)),
            ExprKind::LastIndex(lv) => format!("{}.lastIndex", self.place(lv)),
        }
    }
}

fn var_name(frame: &Frame, i: usize) -> String {
    let Some(var) = frame.vars.get(i) else { return format!("?{i}") };
    let unique = frame.vars.iter().filter(|v| v.name == var.name).count() == 1;
    if unique { var.name.clone() } else { format!("{}#{i}", var.name) }
}

fn operator(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "+",
        BinaryOp::Sub => "-",
        BinaryOp::Mul => "*",
        BinaryOp::Div => "/",
        BinaryOp::Mod => "%",
        BinaryOp::SatAdd => "|+|",
        BinaryOp::SatSub => "|-|",
        BinaryOp::BitAnd => "&",
        BinaryOp::BitOr => "|",
        BinaryOp::BitXor => "^",
        BinaryOp::Shl => "<<",
        BinaryOp::Shr => ">>",
        BinaryOp::Concat => "++",
        BinaryOp::Eq => "==",
        BinaryOp::Ne => "!=",
        BinaryOp::Lt => "<",
        BinaryOp::Le => "<=",
        BinaryOp::Gt => ">",
        BinaryOp::Ge => ">=",
        BinaryOp::And => "&&",
        BinaryOp::Or => "||",
    }
}
