//! Methods of headers, unions and stacks, and the rules of packets (P4_16 sections 8.17 to 8.19, 13.8, 16.1).

use super::Checker;
use super::arguments::Bound;
use super::eval::Evaluator;
use super::scope::nearest;
use super::tree::{Arg, Call, Callee, Expr, ExprKind, StructKind};
use super::types::{Kind, Ty};
use crate::ast;
use num_bigint::Sign;
use pointsman_ir::Span;

impl Checker<'_> {
    /// Rules that core.p4 cannot express about the types that packets are read into and written from (P4_16 section
    /// 13.8).
    pub fn check_packet_call(&mut self, object: usize, name: &str, bound: &Bound, returns: Ty, span: Span) {
        let object = self.tree.externs[object].name.as_str();
        let arg = |i: usize| match bound.args.get(i) {
            Some(Arg::In(e) | Arg::Out(e) | Arg::InOut(e)) => Some(e.ty),
            Some(Arg::Ignore(ty)) => Some(*ty),
            _ => None,
        };
        let (message, help) = match (object, name, arg(0)) {
            (_, _, Some(Ty::ERROR)) => return,
            ("packet_in", "extract", Some(ty)) => {
                if !self.tree.is_struct(ty, &[StructKind::Header]) {
                    ("only headers can be extracted", "extract header by header")
                } else {
                    let fields = self.tree.fields(ty).unwrap_or_default();
                    let varbit = |(_, t): &&(String, Ty)| matches!(self.tree.tys.get(*t), Kind::Varbit(_));
                    match (fields.iter().filter(varbit).count(), bound.args.len()) {
                        (0, 1) | (1, 2) => return,
                        (0, _) => ("this header has no `varbit` field", "remove the second argument"),
                        (1, _) => (
                            "this header has a `varbit` field",
                            "give its width in bits as the second argument",
                        ),
                        _ => (
                            "a header with more than one `varbit` field cannot be extracted",
                            "use several headers",
                        ),
                    }
                }
            }
            ("packet_in", "lookahead", _) => {
                if returns == Ty::ERROR || self.fixed_size(returns) {
                    return;
                }
                (
                    "`lookahead` needs a type of fixed size",
                    "look ahead at `bit<W>`, or at a header or struct of bits",
                )
            }
            ("packet_out", "emit", Some(ty)) => {
                if self.emittable(ty) {
                    return;
                }
                ("this cannot be emitted", "emit headers, header stacks, header unions, or structs of them")
            }
            _ => return,
        };
        self.error("P0401", span, message, help);
    }

    fn fixed_size(&mut self, ty: Ty) -> bool {
        match self.tree.tys.get(self.tree.repr(ty)).clone() {
            Kind::Bool | Kind::Bits { .. } | Kind::Param(_) => true,
            Kind::Tuple(ts) => ts.into_iter().all(|t| self.fixed_size(t)),
            Kind::Stack(t, _) => self.fixed_size(t),
            Kind::Struct(d, _) if self.tree.structs[d].kind != StructKind::HeaderUnion => {
                self.tree.fields(ty).unwrap_or_default().into_iter().all(|(_, t)| self.fixed_size(t))
            }
            _ => false,
        }
    }

    fn emittable(&mut self, ty: Ty) -> bool {
        match self.tree.tys.get(ty).clone() {
            Kind::Stack(t, _) => self.emittable(t),
            Kind::Struct(d, _) if self.tree.structs[d].kind != StructKind::Struct => true,
            Kind::Struct(..) => {
                self.tree.fields(ty).unwrap_or_default().into_iter().all(|(_, t)| self.emittable(t))
            }
            _ => false,
        }
    }

    /// Methods of headers, unions, stacks, and sizes of anything.
    pub fn builtin_method(&mut self, b: Expr, name: &ast::Ident, args: &[ast::Arg], span: Span) -> Expr {
        let method = name.name.as_str();
        let header = self.tree.is_struct(b.ty, &[StructKind::Header]);
        let union = self.tree.is_struct(b.ty, &[StructKind::HeaderUnion]);
        let stack = self.is_header_stack(b.ty);
        let count = |c: &mut Self, n: usize| {
            if args.len() != n {
                let message = format!("`{method}` takes {n} argument(s), not {}", args.len());
                c.error("P0404", span, message, "give as many as it takes");
            }
            args.len() == n
        };
        let statement = |callee: Callee, args: Vec<Arg>| {
            let order = (0..args.len()).collect();
            let call = Call { callee, type_args: Vec::new(), args, order };
            Expr { kind: ExprKind::Call(Box::new(call)), ty: Ty::VOID, span }
        };
        let void_error = Expr { kind: ExprKind::Error, ty: Ty::VOID, span };
        match method {
            "isValid" if header || union => {
                if !count(self, 0) {
                    return Expr { kind: ExprKind::Error, ty: Ty::BOOL, span };
                }
                Expr { kind: ExprKind::IsValid(Box::new(b)), ty: Ty::BOOL, span }
            }
            "setValid" | "setInvalid" if header => {
                if !count(self, 0) || !self.check_lvalue(&b, "made valid or invalid") {
                    return void_error;
                }
                statement(
                    if method == "setValid" { Callee::SetValid(b) } else { Callee::SetInvalid(b) },
                    vec![],
                )
            }
            "push_front" | "pop_front" if stack => {
                if !count(self, 1) || !self.check_lvalue(&b, "shifted") {
                    return void_error;
                }
                let Some(n) = self.shift_count(method, &args[0]) else { return void_error };
                let callee = if method == "push_front" { Callee::PushFront(b) } else { Callee::PopFront(b) };
                statement(callee, vec![Arg::In(n)])
            }
            _ => {
                if let Some(e) = self.size_method(b.ty, method, span) {
                    count(self, 0);
                    return e;
                }
                let near = nearest(
                    method,
                    ["isValid", "setValid", "setInvalid", "push_front", "pop_front", "apply"].into_iter(),
                );
                let message = format!("`{}` has no method `{method}`", self.show(b.ty));
                let help = near
                    .map_or("see P4_16 chapter 8 for its methods".into(), |n| format!("did you mean `{n}`?"));
                self.error("P0304", name.span, message, help);
                self.check_args_anyway(args);
                Expr::error(span)
            }
        }
    }

    /// By how many elements a stack is to be shifted.
    fn shift_count(&mut self, method: &str, arg: &ast::Arg) -> Option<Expr> {
        let Some(value) = arg.value.as_ref() else {
            self.error("P0404", arg.span, "a number is needed here", "give how many elements to shift by");
            return None;
        };
        let n = self.value(value);
        if n.ty == Ty::ERROR {
            return None;
        }
        if !self.compile_time(&n) || (n.ty != Ty::INT && self.tree.tys.bits(n.ty).is_none()) {
            let message = format!("the argument of `{method}` must be an integer known at compile time");
            self.error("P0501", n.span, message, "use a literal or a constant");
            return None;
        }
        if let Ok(i) = (Evaluator { tree: &self.tree, vars: &|_| None }).eval_int(&n)
            && i.sign() == Sign::Minus
        {
            let message = format!("a stack cannot be shifted by {i} elements");
            self.error("P0506", n.span, message, "shift the other way by a positive number");
            return None;
        }
        Some(n)
    }
}
