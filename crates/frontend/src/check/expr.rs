//! Expressions (P4_16 chapter 8).

use super::eval::{self, Const, Evaluator, Stop};
use super::record::Meaning;
use super::scope::{Def, TypeDef};
use super::tree::{Direction, Expr, ExprKind, VarKind};
use super::types::{Kind, Ty};
use super::{Checker, Place};
use crate::ast::{self, ExprKind as Ast};
use crate::diag::{Diagnostic, elements};
use pointsman_ir::Span;

/// Expressions nested deeper than this are refused rather than risking the stack.
const MAX_DEPTH: u32 = 400;

impl Checker<'_> {
    /// An expression, whatever it denotes: a value, an instance, a call of a procedure.
    pub fn expr(&mut self, e: &ast::Expr) -> Expr {
        if self.depth >= MAX_DEPTH {
            self.error(
                "P0902",
                e.span,
                "expressions nested this deeply are not supported",
                "store parts of it in variables or constants",
            );
            return Expr::error(e.span);
        }
        self.depth += 1;
        let r = self.expr_inner(e);
        self.depth -= 1;
        r
    }

    /// An expression that has a value at run time or compile time.
    pub fn value(&mut self, e: &ast::Expr) -> Expr {
        let v = self.expr(e);
        match self.tree.tys.get(v.ty) {
            Kind::Void => {
                self.error("P0401", v.span, "this call returns nothing", "call it as a statement");
                Expr::error(v.span)
            }
            Kind::Applied(_) => {
                let help = "use `.hit`, `.miss` or, in a `switch`, `.action_run` of it";
                self.error("P0401", v.span, "the result of `apply()` is not a value", help);
                Expr::error(v.span)
            }
            _ => v,
        }
    }

    fn expr_inner(&mut self, e: &ast::Expr) -> Expr {
        let span = e.span;
        match &e.kind {
            Ast::Int { value, width: None } => Expr::constant(Const::Int(value.clone()), Ty::INT, span),
            Ast::Int { value, width: Some((width, signed)) } => self.sized(value, *width, *signed, span),
            Ast::Bool(b) => Self::bool_const(*b, span),
            Ast::String(s) => Expr::constant(Const::Str(s.clone()), Ty::STRING, span),
            Ast::This => self.this(span),
            Ast::Name(path) => self.name(path, span),
            Ast::Type(t) => {
                let ty = self.ty(t);
                if ty != Ty::ERROR {
                    let message = format!("`{}` is a type, not a value", self.show(ty));
                    self.error("P0303", span, message, "use a value");
                }
                Expr::error(span)
            }
            Ast::Member(base, name) => self.member(base, name, span),
            Ast::Index(base, index) => self.index(base, index, span),
            Ast::Slice(base, hi, lo) => self.slice(base, hi, lo, span),
            Ast::PlusSlice(base, lo, width) => self.plus_slice(base, lo, width, span),
            Ast::List { elems, rest } => self.list_literal(elems, *rest, span),
            Ast::Struct { fields, rest } => self.struct_literal(fields, *rest, span),
            Ast::Invalid => Expr { kind: ExprKind::Invalid, ty: Ty::INVALID, span },
            Ast::Dots => Expr { kind: ExprKind::Default, ty: Ty::DOTS, span },
            Ast::Unary(op, a) => {
                let a = self.value(a);
                self.unary(*op, a, span)
            }
            Ast::Binary(op, a, b) => {
                let a = self.value(a);
                let b = self.value(b);
                self.binary(*op, a, b, span)
            }
            Ast::Mux(c, a, b) => {
                let c = self.value(c);
                let a = self.value(a);
                let b = self.value(b);
                self.mux(c, a, b, span)
            }
            Ast::Cast(t, a) => {
                let to = self.ty(t);
                let a = self.value(a);
                self.explicit_cast(a, to, span)
            }
            Ast::Call { callee, type_args, args } => self.call(callee, type_args, args, span),
            Ast::Mask(..) | Ast::Range(..) => {
                let help = "use sets only in `select`, in table entries and in `for ... in`";
                self.error("P0410", span, "a set of values is not allowed here", help);
                Expr::error(span)
            }
            Ast::Default | Ast::DontCare => {
                let help = "it matches any value in `select` and in table entries";
                self.error("P0410", span, "this is not a value", help);
                Expr::error(span)
            }
        }
    }

    /// A literal with a width.
    fn sized(&mut self, value: &num_bigint::BigInt, width: u32, signed: bool, span: Span) -> Expr {
        let least = u32::from(signed);
        if width > 1 << 16 || width < least {
            let help = format!("use a width from {least} to 65536");
            self.error("P0506", span, format!("a literal of {width} bits is not possible"), help);
            return Expr::error(span);
        }
        let (bits, lost) = eval::truncate(value, width, signed);
        let ty = self.tree.tys.intern(Kind::Bits { width, signed });
        if lost {
            let message = format!("{value} does not fit `{}`: its high bits are lost", self.show(ty));
            let help = "use a smaller number or a wider type";
            self.report(Diagnostic::warning("P0502", span, message).help(help));
        }
        Expr::constant(Const::Bits(bits), ty, span)
    }

    fn name(&mut self, path: &ast::Path, span: Span) -> Expr {
        // `match_kind` members are names of the top level, but only where nothing else has the name.
        if self.find(path).is_none()
            && let Some(k) = self.tree.match_kinds.iter().position(|m| *m == path.name.name)
        {
            self.note_member(&path.name, |m| matches!(m, Meaning::MatchKind));
            return Expr::constant(Const::MatchKind(k as u32), Ty::MATCH_KIND, span);
        }
        let Some(binding) = self.lookup(path) else { return Expr::error(span) };
        match binding.def {
            Def::Broken => Expr::error(span),
            Def::Const(e) => Expr { span, ..e },
            Def::Var(v) => {
                self.note_use(v);
                self.tree.named_vars.insert(v);
                let ty = self.tree.vars[v.0].ty;
                Expr { kind: ExprKind::Var(v), ty, span }
            }
            Def::Instance(i) => {
                let ty = self.tree.instances[i].new.ty;
                Expr { kind: ExprKind::Instance(i), ty, span }
            }
            other => {
                let name = &path.name.name;
                let help = match &other {
                    Def::Functions(_) | Def::Action(_) => format!("call it: `{name}(...)`"),
                    Def::Table(_) => format!("apply it: `{name}.apply()`"),
                    Def::Type(TypeDef::Enum(_)) => format!("name a member: `{name}.member`"),
                    Def::Type(TypeDef::Block(_) | TypeDef::Extern(_)) => {
                        format!("make an instance: `{name}(...) instance_name;`")
                    }
                    Def::ValueSet(_) => "use it as a label of `select`".to_string(),
                    _ => "use a value".to_string(),
                };
                self.report(
                    Diagnostic::error(
                        "P0303",
                        span,
                        format!("`{name}` is {}, not a value", other.describe()),
                    )
                    .related(binding.span, "declared here")
                    .help(help),
                );
                Expr::error(span)
            }
        }
    }

    fn index(&mut self, base: &ast::Expr, index: &ast::Expr, span: Span) -> Expr {
        let b = self.value(base);
        let i = self.value(index);
        if b.ty == Ty::ERROR || i.ty == Ty::ERROR {
            return Expr::error(span);
        }
        match self.tree.tys.get(b.ty).clone() {
            Kind::Tuple(ts) => {
                let Some(n) = self.const_u32(&i, "the index into a tuple") else { return Expr::error(span) };
                let Some(ty) = ts.get(n as usize).copied() else {
                    let message =
                        format!("index {n} is out of range: the tuple has {}", elements(ts.len() as u128));
                    self.error("P0411", i.span, message, "use a smaller index");
                    return Expr::error(span);
                };
                self.fold(Expr { kind: ExprKind::Field(Box::new(b), n), ty, span })
            }
            Kind::Stack(elem, size) => {
                let i = self.enum_to_repr(i);
                if i.ty != Ty::INT && self.tree.tys.bits(i.ty).is_none() {
                    let message = format!("an index must be a number, not `{}`", self.show(i.ty));
                    self.error("P0401", i.span, message, "use `bit<W>`, `int<W>` or a literal");
                    return Expr::error(span);
                }
                let known = Evaluator { tree: &self.tree, vars: &|_| None }.eval_int(&i);
                if let Ok(n) = &known
                    && eval::to_u32(n).is_none_or(|n| n >= size)
                {
                    let message =
                        format!("index {n} is out of range: the array has {}", elements(size.into()));
                    let help = format!("use an index from 0 to {}", size.saturating_sub(1));
                    self.error("P0411", i.span, message, help);
                    return Expr::error(span);
                }
                let i = if i.ty == Ty::INT { self.cast_to(i, Ty::BIT32) } else { i };
                Expr { kind: ExprKind::Index(Box::new(b), Box::new(i)), ty: elem, span }
            }
            _ => {
                let message = format!("`{}` cannot be indexed", self.show(b.ty));
                self.error("P0402", span, message, "index a header stack or a tuple; bits are `x[hi:lo]`");
                Expr::error(span)
            }
        }
    }

    /// A bit string or integer that can be sliced.
    fn sliceable(&mut self, base: &ast::Expr, span: Span) -> Option<Expr> {
        let b = self.value(base);
        if b.ty == Ty::ERROR {
            return None;
        }
        let b = self.enum_to_repr(b);
        if b.ty != Ty::INT && self.tree.tys.bits(b.ty).is_none() {
            let message = format!("`{}` has no slices", self.show(b.ty));
            self.error("P0402", span, message, "cast it to `bit<W>` first");
            return None;
        }
        Some(b)
    }

    fn slice(&mut self, base: &ast::Expr, hi: &ast::Expr, lo: &ast::Expr, span: Span) -> Expr {
        let b = self.sliceable(base, span);
        let (h, l) = (self.value(hi), self.value(lo));
        let (Some(b), Some(h), Some(l)) =
            (b, self.const_u32(&h, "the high bit of a slice"), self.const_u32(&l, "the low bit of a slice"))
        else {
            return Expr::error(span);
        };
        self.slice_of(b, h, l, span)
    }

    fn slice_of(&mut self, b: Expr, hi: u32, lo: u32, span: Span) -> Expr {
        let width = self.tree.tys.bits(b.ty).map(|(w, _)| w);
        let problem = if hi < lo {
            Some(format!("the bounds of the slice [{hi}:{lo}] are in the wrong order"))
        } else if width.is_some_and(|w| hi >= w) || hi > 1 << 16 {
            Some(format!("bit {hi} is out of range of `{}`", self.show(b.ty)))
        } else {
            None
        };
        if let Some(message) = problem {
            self.error("P0411", span, message, "write `[high:low]` with high below the width");
            return Expr::error(span);
        }
        let ty = self.tree.tys.bit(hi - lo + 1);
        self.fold(Expr { kind: ExprKind::Slice(Box::new(b), hi, lo), ty, span })
    }

    fn plus_slice(&mut self, base: &ast::Expr, lo: &ast::Expr, width: &ast::Expr, span: Span) -> Expr {
        let b = self.sliceable(base, span);
        let l = self.value(lo);
        let w = self.value(width);
        let w = self.const_u32(&w, "the width of a slice");
        let (Some(b), Some(w)) = (b, w) else { return Expr::error(span) };
        if l.ty == Ty::ERROR {
            return Expr::error(span);
        }
        if w == 0 || w > 1 << 16 {
            self.error("P0411", span, format!("a slice of {w} bits is not possible"), "use a positive width");
            return Expr::error(span);
        }
        let known = Evaluator { tree: &self.tree, vars: &|_| None }.eval_int(&l);
        match known {
            Ok(_) => match self.const_u32(&l, "the low bit of a slice") {
                Some(l) => self.slice_of(b, l.saturating_add(w - 1), l, span),
                None => Expr::error(span),
            },
            Err(Stop::Bad(d)) => {
                self.report(*d);
                Expr::error(span)
            }
            Err(Stop::NotConstant(_)) => {
                let l = self.enum_to_repr(l);
                if !matches!(self.tree.tys.bits(l.ty), Some((_, false))) || b.ty == Ty::INT {
                    let help = "make it `bit<W>`";
                    self.error("P0402", span, "a low bit that is not constant must be unsigned", help);
                    return Expr::error(span);
                }
                let (bw, _) = self.tree.tys.bits(b.ty).unwrap_or((1, false));
                let unsigned = self.tree.tys.bit(bw);
                let b = self.cast_to(b, unsigned);
                let shifted = self.binary(ast::BinaryOp::Shr, b, l, span);
                let ty = self.tree.tys.bit(w);
                self.cast_to(shifted, ty)
            }
        }
    }

    /// Reports `e` if it cannot be written to. `what` names the operation, as in "assigned to".
    pub fn check_lvalue(&mut self, e: &Expr, what: &str) -> bool {
        if e.ty == Ty::ERROR || matches!(e.kind, ExprKind::Error) {
            return false;
        }
        let problem: Option<(String, String, Option<Span>)> = match &e.kind {
            ExprKind::Var(v) => {
                let var = &self.tree.vars[v.0];
                let (name, at) = (var.name.clone(), Some(var.span));
                match var.kind {
                    VarKind::Local | VarKind::Param(Direction::Out | Direction::InOut) => None,
                    VarKind::Param(Direction::In) => Some((
                        format!("`{name}` is an `in` parameter: it cannot be {what}"),
                        "copy it to a variable, or make the parameter `inout`".into(),
                        at,
                    )),
                    VarKind::Param(Direction::None) => Some((
                        format!("`{name}` is a parameter without direction: it cannot be {what}"),
                        "copy it to a variable".into(),
                        at,
                    )),
                    VarKind::Ctor => Some((
                        format!("`{name}` is a constructor parameter: it cannot be {what}"),
                        "copy it to a variable".into(),
                        at,
                    )),
                }
            }
            ExprKind::Field(b, _) if matches!(self.tree.tys.get(b.ty), Kind::Tuple(_)) => {
                // P4_16 section 8.12 does not allow it yet; p4c does.
                let message =
                    format!("P4_16 does not allow an element of a tuple to be {what}; here it is allowed");
                let help = "for other targets, assign the whole tuple or use a struct";
                self.report(Diagnostic::warning("P0403", e.span, message).help(help));
                return self.check_lvalue(b, what);
            }
            ExprKind::Field(b, _) | ExprKind::Index(b, _) | ExprKind::Next(b) | ExprKind::Slice(b, ..) => {
                return self.check_lvalue(b, what);
            }
            ExprKind::Last(_) => {
                Some((format!("`.last` cannot be {what}"), "use an index: `stack[i]`".into(), None))
            }
            ExprKind::Instance(_) => {
                Some((format!("an instance cannot be {what}"), "call its methods".into(), None))
            }
            ExprKind::Const(_) => {
                Some((format!("a constant cannot be {what}"), "use a variable".into(), None))
            }
            _ => Some((
                format!("not an l-value: it cannot be {what}"),
                "use a variable, a field of one, or a slice".into(),
                None,
            )),
        };
        let Some((message, help, at)) = problem else { return true };
        let mut d = Diagnostic::error("P0403", e.span, message).help(help);
        if let Some(at) = at {
            d = d.related(at, "declared here");
        }
        self.report(d);
        false
    }

    /// Whether `next`, `last` and the like are allowed here.
    pub fn in_parser_code(&self) -> bool {
        self.cx.in_parser && matches!(self.cx.place, Place::ParserState | Place::BlockHead)
    }
}
