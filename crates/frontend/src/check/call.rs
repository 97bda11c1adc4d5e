//! Calls and constructor calls (P4_16 sections 6.8, 8.20, 8.21).

use super::eval::{Const, Evaluator};
use super::infer::Solution;
use super::scope::{Def, FnRef, TypeDef, nearest};
use super::tree::{self, Arg, Call, Callee, Direction, Expr, ExprKind, New, Param, StructKind};
use super::types::{Kind, Ty};
use super::{Checker, Place};
use crate::ast::{self, ExprKind as Ast, TypeExprKind};
use crate::diag::Diagnostic;
use pointsman_ir::Span;

/// Arguments matched to parameters.
pub struct Bound {
    pub type_args: Vec<Ty>,
    pub args: Vec<Arg>,
    pub order: Vec<usize>,
}

/// What arguments are matched to.
#[derive(Clone, Copy)]
pub struct Signature<'a> {
    pub name: &'a str,
    pub params: &'a [Param],
    pub type_params: &'a [Ty],
    /// Type arguments as written; empty: to be inferred.
    pub explicit: &'a [Ty],
}

impl<'a> Signature<'a> {
    /// Without type parameters.
    pub fn plain(name: &'a str, params: &'a [Param]) -> Self {
        Signature { name, params, type_params: &[], explicit: &[] }
    }

    fn of(sig: &'a tree::Sig, explicit: &'a [Ty]) -> Self {
        Signature { name: &sig.name, params: &sig.params, type_params: &sig.type_params, explicit }
    }
}

/// How directionless parameters behave.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Like `in`.
    Action,
    /// The argument must be known at compile time.
    Other,
}

/// Which argument goes to which parameter; an error says what is wrong.
fn match_args(params: &[Param], args: &[ast::Arg]) -> Result<Vec<Option<usize>>, (Option<Span>, String)> {
    let mut out = vec![None; params.len()];
    let named = args.iter().filter(|a| a.name.is_some()).count();
    if named > 0 && named < args.len() {
        let at = args.iter().find(|a| a.name.is_none()).map(|a| a.span);
        return Err((at, "either all arguments have names or none has".into()));
    }
    for (i, a) in args.iter().enumerate() {
        let k = match &a.name {
            None => i,
            Some(n) => match params.iter().position(|p| p.name == n.name) {
                Some(k) => k,
                None => return Err((Some(n.span), format!("there is no parameter `{}`", n.name))),
            },
        };
        match out.get_mut(k) {
            None => {
                let s = if params.len() == 1 { "" } else { "s" };
                let message =
                    format!("{} argument(s) given, but there are {} parameter{s}", args.len(), params.len());
                return Err((Some(a.span), message));
            }
            Some(Some(_)) => {
                return Err((Some(a.span), format!("parameter `{}` is given twice", params[k].name)));
            }
            Some(slot) => *slot = Some(i),
        }
    }
    let missing: Vec<&str> = params
        .iter()
        .zip(&out)
        .filter(|(p, o)| o.is_none() && p.default.is_none() && !p.optional)
        .map(|(p, _)| p.name.as_str())
        .collect();
    if missing.is_empty() {
        Ok(out)
    } else {
        Err((None, format!("no argument for `{}`", missing.join("`, `"))))
    }
}

impl Checker<'_> {
    /// Which of several signatures fits the arguments by number and names.
    pub fn overload(
        &mut self,
        name: &str,
        candidates: &[(Span, &[Param])],
        args: &[ast::Arg],
        span: Span,
    ) -> Option<usize> {
        let tried: Vec<_> = candidates.iter().map(|(_, ps)| match_args(ps, args)).collect();
        let fitting: Vec<usize> = (0..tried.len()).filter(|i| tried[*i].is_ok()).collect();
        match fitting.as_slice() {
            [one] => Some(*one),
            [] => {
                let mut d = match tried.first() {
                    Some(Err((at, message))) if tried.len() == 1 => {
                        Diagnostic::error("P0404", at.unwrap_or(span), format!("call of `{name}`: {message}"))
                            .help("give one argument for every parameter, all by position or all by name")
                    }
                    _ => Diagnostic::error("P0307", span, format!("no `{name}` takes these arguments"))
                        .help("match the number or the names of the parameters of one of them"),
                };
                for (at, _) in candidates.iter().take(4) {
                    d = d.related(*at, "declared here");
                }
                self.report(d);
                None
            }
            _ => {
                // A signature whose parameters are all given wins over one that needs defaults.
                let exact: Vec<usize> =
                    fitting.iter().copied().filter(|i| candidates[*i].1.len() == args.len()).collect();
                if let [one] = exact.as_slice() {
                    return Some(*one);
                }
                let mut d =
                    Diagnostic::error("P0308", span, format!("more than one `{name}` fits these arguments"));
                for i in fitting {
                    d = d.related(candidates[i].0, "this one fits");
                }
                self.report(d.help("name the arguments, or give all of them"));
                None
            }
        }
    }

    /// Checks arguments against parameters that they are known to match in number and names.
    pub fn arguments(&mut self, to: Signature, args: &[ast::Arg], style: Style, span: Span) -> Option<Bound> {
        let Signature { name, params, type_params, explicit } = to;
        let matched = match match_args(params, args) {
            Ok(m) => m,
            Err((at, message)) => {
                let help = "give one argument for every parameter, all by position or all by name";
                self.error("P0404", at.unwrap_or(span), format!("call of `{name}`: {message}"), help);
                return None;
            }
        };
        if !explicit.is_empty() && explicit.len() != type_params.len() {
            let message =
                format!("`{name}` takes {} type argument(s), not {}", type_params.len(), explicit.len());
            self.error("P0405", span, message, "give as many as it has type parameters, or none");
            return None;
        }
        let given: Vec<Ty> = if explicit.is_empty() {
            type_params.iter().map(|_| self.fresh()).collect()
        } else {
            explicit.to_vec()
        };
        let values: Vec<Option<Expr>> =
            args.iter().map(|a| a.value.as_ref().map(|v| self.argument_value(v))).collect();
        let tys: Vec<Ty> = params.iter().map(|p| self.tree.tys.subst(p.ty, type_params, &given)).collect();

        let mut solution = Solution::default();
        let mut broken = given.contains(&Ty::ERROR);
        for weak in [false, true] {
            for (k, m) in matched.iter().enumerate() {
                let e = match m {
                    Some(i) => values[*i].as_ref(),
                    None => params[k].default.as_ref(),
                };
                let Some(e) = e else { continue };
                if e.ty == Ty::ERROR {
                    broken = true;
                    continue;
                }
                if self.is_weak(e.ty) == weak {
                    let ty = e.ty;
                    self.unify(tys[k], ty, &mut solution);
                }
            }
        }
        let type_args: Vec<Ty> = given.iter().map(|t| self.resolve(*t, &solution)).collect();
        for (p, t) in type_params.iter().zip(&type_args) {
            broken |= !self.inferred(name, *p, *t, explicit.is_empty(), broken, span);
        }
        if broken {
            return None;
        }
        let mut out = Vec::new();
        for (k, p) in params.iter().enumerate() {
            let ty = self.resolve(tys[k], &solution);
            let arg = match matched[k] {
                Some(i) => match &values[i] {
                    Some(e) => self.pass(p, ty, e.clone(), style)?,
                    None if p.direction == Direction::Out => {
                        if self.tree.tys.any(ty, &|k| matches!(k, Kind::Infer(_))) {
                            let help = "name a variable instead, or give the type arguments";
                            self.error("P0405", args[i].span, "the type of this `_` is not known", help);
                            return None;
                        }
                        Arg::Ignore(ty)
                    }
                    None => {
                        let message = format!("`_` cannot be the argument for `{}`", p.name);
                        self.error(
                            "P0404",
                            args[i].span,
                            message,
                            "`_` is for `out` parameters; give a value",
                        );
                        return None;
                    }
                },
                None => match &p.default {
                    Some(d) => Arg::In(self.coerce(d.clone(), ty, &format!("the default of `{}`", p.name))),
                    None => Arg::Missing,
                },
            };
            out.push(arg);
        }
        let order = (0..args.len()).filter_map(|i| matched.iter().position(|m| *m == Some(i))).collect();
        Some(Bound { type_args, args: out, order })
    }

    /// A value or an instance.
    fn argument_value(&mut self, e: &ast::Expr) -> Expr {
        let v = self.expr(e);
        if matches!(self.tree.tys.get(v.ty), Kind::Void | Kind::Applied(_)) {
            self.error("P0401", v.span, "an argument must have a value", "use an expression that has one");
            return Expr::error(v.span);
        }
        v
    }

    /// Is the type argument fully known? Reports if not.
    fn inferred(&mut self, name: &str, param: Ty, arg: Ty, infer: bool, quiet: bool, span: Span) -> bool {
        let has = |c: &Self, f: &dyn Fn(&Kind) -> bool| c.tree.tys.any(arg, f);
        let show = self.show(param);
        let (message, help) = if has(self, &|k| matches!(k, Kind::Infer(_))) {
            (
                format!("the type argument `{show}` of `{name}` cannot be inferred"),
                format!("write it: `{name}<...>(...)`"),
            )
        } else if infer && has(self, &|k| matches!(k, Kind::Int)) {
            (
                format!("the width of an integer that determines `{show}` of `{name}` is not known"),
                "give the number a width, as in `8w5`".to_string(),
            )
        } else if has(self, &|k| {
            matches!(k, Kind::Record(..) | Kind::OpenTuple(_) | Kind::Invalid | Kind::Dots)
        }) {
            (
                format!("the type of an argument that determines `{show}` of `{name}` is not known"),
                "cast the argument to its type: `(T) {...}`".to_string(),
            )
        } else {
            return true;
        };
        if !quiet {
            self.error("P0405", span, message, help);
        }
        false
    }

    /// `e` as the argument for `p`.
    fn pass(&mut self, p: &Param, ty: Ty, e: Expr, style: Style) -> Option<Arg> {
        let what = format!("the argument for `{}`", p.name);
        match p.direction {
            Direction::Out | Direction::InOut => {
                if !self.check_lvalue(
                    &e,
                    &format!("passed as `{}`", if p.direction == Direction::Out { "out" } else { "inout" }),
                ) {
                    return None;
                }
                if e.ty != ty {
                    if ty != Ty::ERROR {
                        self.mismatch(&e, ty, &what);
                    }
                    return None;
                }
                Some(if p.direction == Direction::Out { Arg::Out(e) } else { Arg::InOut(e) })
            }
            Direction::In => Some(Arg::In(self.coerce(e, ty, &what))),
            Direction::None => {
                let e = self.coerce(e, ty, &what);
                let object =
                    matches!(self.tree.tys.get(ty), Kind::Extern(..) | Kind::Block(..) | Kind::Package(..));
                if style == Style::Other && !object && e.ty != Ty::ERROR && !self.compile_time(&e) {
                    let message = format!("{what} must be known at compile time");
                    self.error(
                        "P0501",
                        e.span,
                        message,
                        "use a literal, a constant or a constructor parameter",
                    );
                    return None;
                }
                Some(Arg::In(e))
            }
        }
    }

    /// A call expression of any kind.
    pub fn call(
        &mut self,
        callee: &ast::Expr,
        type_args: &[ast::TypeExpr],
        args: &[ast::Arg],
        span: Span,
    ) -> Expr {
        match &callee.kind {
            Ast::Name(path) => {
                let Some(binding) = self.lookup(path) else {
                    self.check_args_anyway(args);
                    return Expr::error(span);
                };
                let explicit: Vec<Ty> = type_args.iter().map(|t| self.type_arg(t)).collect();
                match binding.def {
                    Def::Functions(fns) => self.call_function(&path.name.name, &fns, &explicit, args, span),
                    Def::Actions(actions) => self.call_action(&path.name.name, &actions, args, span),
                    Def::Type(def) => self.construct(def, &explicit, args, span),
                    Def::Broken => {
                        self.check_args_anyway(args);
                        Expr::error(span)
                    }
                    other => {
                        let message =
                            format!("`{}` is {}: it cannot be called", path.name.name, other.describe());
                        let help = match other {
                            Def::Table(_) | Def::Instance(_) => "call its `apply()` or one of its methods",
                            _ => "call a function, an action or a method",
                        };
                        self.error("P0303", callee.span, message, help);
                        Expr::error(span)
                    }
                }
            }
            Ast::Type(t) => {
                let (path, targs): (&ast::Path, &[ast::TypeExpr]) = match &t.kind {
                    TypeExprKind::Named(p) => (p, type_args),
                    TypeExprKind::Specialized(p, targs) => (p, targs),
                    _ => {
                        let help = "a cast is written `(type) value`";
                        self.error("P0303", callee.span, "this type has no constructor", help);
                        return Expr::error(span);
                    }
                };
                let explicit: Vec<Ty> = targs.iter().map(|t| self.type_arg(t)).collect();
                match self.lookup(path).map(|b| b.def) {
                    Some(Def::Type(def)) => self.construct(def, &explicit, args, span),
                    Some(Def::Broken) | None => Expr::error(span),
                    Some(other) => {
                        let message = format!("`{}` is {}, not a type", path.name.name, other.describe());
                        self.error("P0303", callee.span, message, "use the name of a type");
                        Expr::error(span)
                    }
                }
            }
            Ast::Member(base, name) => {
                let explicit: Vec<Ty> = type_args.iter().map(|t| self.type_arg(t)).collect();
                self.call_member(base, name, &explicit, args, span)
            }
            _ => {
                self.error(
                    "P0303",
                    callee.span,
                    "this cannot be called",
                    "call a function, an action or a method",
                );
                Expr::error(span)
            }
        }
    }

    /// Finds what is wrong inside arguments of a call that is wrong itself.
    fn check_args_anyway(&mut self, args: &[ast::Arg]) {
        for a in args {
            if let Some(v) = &a.value {
                self.expr(v);
            }
        }
    }

    /// Reports a call that the place does not allow (P4_16 appendix on restrictions).
    fn check_place(&mut self, what: &str, allowed: &[Place], where_: &str, span: Span) {
        if !allowed.contains(&self.cx.place) {
            self.error(
                "P0413",
                span,
                format!("{what} cannot be called here"),
                format!("call it from {where_}"),
            );
        }
    }

    fn call_function(
        &mut self,
        name: &str,
        fns: &[FnRef],
        explicit: &[Ty],
        args: &[ast::Arg],
        span: Span,
    ) -> Expr {
        let sigs: Vec<tree::Sig> = fns
            .iter()
            .map(|f| match f {
                FnRef::Extern(i) => self.tree.extern_fns[*i].clone(),
                FnRef::Function(i) => self.tree.functions[*i].sig.clone(),
            })
            .collect();
        let candidates: Vec<(Span, &[Param])> = sigs.iter().map(|s| (s.span, s.params.as_slice())).collect();
        let Some(which) = self.overload(name, &candidates, args, span) else {
            self.check_args_anyway(args);
            return Expr::error(span);
        };
        let sig = &sigs[which];
        if let FnRef::Function(i) = fns[which]
            && !self.tree.functions[i].done
        {
            let help = "P4 has no recursion: write a loop, or repeat the code";
            self.error("P0306", span, format!("`{name}` calls itself"), help);
            return Expr::error(span);
        }
        self.deprecation(&sig.annotations, name, span);
        let bound = self.arguments(Signature::of(sig, explicit), args, Style::Other, span);
        let is_static_assert = matches!(fns[which], FnRef::Extern(_)) && name == "static_assert";
        if !is_static_assert {
            use Place::*;
            let allowed = [BlockHead, ParserState, ControlApply, Action, Function, Method];
            self.check_place(&format!("`{name}`"), &allowed, "a block, an action or a function", span);
        }
        let Some(bound) = bound else {
            return Expr { kind: ExprKind::Error, ty: self.known_result(sig), span };
        };
        if is_static_assert {
            return self.static_assert(&bound, span);
        }
        let ty = self.tree.tys.subst(sig.returns, &sig.type_params, &bound.type_args);
        let callee = match fns[which] {
            FnRef::Extern(i) => Callee::ExternFn(i),
            FnRef::Function(i) => Callee::Function(i),
        };
        self.call_node(callee, bound, ty, span)
    }

    /// The result type where it does not depend on what went wrong.
    fn known_result(&self, sig: &tree::Sig) -> Ty {
        let generic = self.tree.tys.any(sig.returns, &|k| matches!(k, Kind::Param(_)));
        if generic { Ty::ERROR } else { sig.returns }
    }

    fn call_node(&mut self, callee: Callee, bound: Bound, ty: Ty, span: Span) -> Expr {
        let call = Call { callee, type_args: bound.type_args, args: bound.args, order: bound.order };
        Expr { kind: ExprKind::Call(Box::new(call)), ty, span }
    }

    /// `@deprecated("...")`
    fn deprecation(&mut self, annotations: &pointsman_ir::Annotations, name: &str, span: Span) {
        if annotations.has("deprecated") {
            let text = annotations.string("deprecated").unwrap_or("see its declaration").to_string();
            let d = Diagnostic::warning("P0415", span, format!("`{name}` is deprecated"));
            self.report(d.help(text));
        }
    }

    fn static_assert(&mut self, bound: &Bound, span: Span) -> Expr {
        let mut it = bound.args.iter().filter_map(|a| if let Arg::In(e) = a { Some(e) } else { None });
        let (Some(check), message) = (it.next(), it.next()) else { return Expr::error(span) };
        let value = Evaluator { tree: &self.tree, vars: &|_| None }.eval(check);
        if let Ok(Const::Bool(false)) = value {
            let text = match message.map(|m| &m.kind) {
                Some(ExprKind::Const(Const::Str(s))) => format!("static assertion failed: {s}"),
                _ => "static assertion failed".to_string(),
            };
            self.error("P0504", span, text, "change what it asserts, or the program that breaks it");
        } else if !matches!(value, Ok(Const::Bool(true))) && check.ty != Ty::ERROR {
            self.unsupported(
                span,
                "a static assertion about a constructor parameter",
                "assert about constants, or leave it out",
            );
        }
        Self::bool_const(true, span)
    }

    fn call_action(&mut self, name: &str, actions: &[usize], args: &[ast::Arg], span: Span) -> Expr {
        let sigs: Vec<tree::Sig> = actions.iter().map(|i| self.tree.actions[*i].sig.clone()).collect();
        let candidates: Vec<(Span, &[Param])> = sigs.iter().map(|s| (s.span, s.params.as_slice())).collect();
        let Some(which) = self.overload(name, &candidates, args, span) else {
            self.check_args_anyway(args);
            return Expr { kind: ExprKind::Error, ty: Ty::VOID, span };
        };
        if !self.tree.actions[actions[which]].done {
            self.error(
                "P0306",
                span,
                format!("`{name}` calls itself"),
                "P4 has no recursion: repeat the code",
            );
            return Expr { kind: ExprKind::Error, ty: Ty::VOID, span };
        }
        let where_ = "the `apply` block of a control or from another action";
        self.check_place(&format!("action `{name}`"), &[Place::ControlApply, Place::Action], where_, span);
        match self.arguments(Signature::plain(name, &sigs[which].params), args, Style::Action, span) {
            Some(bound) => self.call_node(Callee::Action(actions[which]), bound, Ty::VOID, span),
            None => Expr { kind: ExprKind::Error, ty: Ty::VOID, span },
        }
    }

    fn call_member(
        &mut self,
        base: &ast::Expr,
        name: &ast::Ident,
        explicit: &[Ty],
        args: &[ast::Arg],
        span: Span,
    ) -> Expr {
        if let Some(def) = self.as_type(base) {
            return match def {
                TypeDef::Block(block) if name.name == "apply" => {
                    self.apply_type(block, args, base.span, span)
                }
                _ => {
                    let ty = match &base.kind {
                        Ast::Type(t) => self.ty(t),
                        _ => self.specialize(def, &[], base.span, false),
                    };
                    if let Some(e) = self.size_method(ty, &name.name, span) {
                        return e;
                    }
                    let message = format!("a type has no method `{}`", name.name);
                    self.error("P0304", name.span, message, "call a method of an instance");
                    Expr::error(span)
                }
            };
        }
        if let Ast::Name(path) = &base.kind
            && let Some(Def::Table(table)) = self.find(path).map(|b| b.def.clone())
        {
            return self.apply_table(table, name, args, span);
        }
        if let Ast::Type(t) = &base.kind {
            let ty = self.ty(t);
            if let Some(e) = self.size_method(ty, &name.name, span) {
                return e;
            }
        }
        let b = self.expr(base);
        if b.ty == Ty::ERROR {
            self.check_args_anyway(args);
            return Expr::error(span);
        }
        match self.tree.tys.get(b.ty).clone() {
            Kind::Extern(..) => self.call_method(b, name, explicit, args, span),
            Kind::Block(d, targs) if name.name == "apply" => self.apply_block(b, d, &targs, args, span),
            _ => self.builtin_method(b, name, args, span),
        }
    }

    fn call_method(
        &mut self,
        receiver: Expr,
        name: &ast::Ident,
        explicit: &[Ty],
        args: &[ast::Arg],
        span: Span,
    ) -> Expr {
        let Kind::Extern(d, targs) = self.tree.tys.get(receiver.ty).clone() else { return Expr::error(span) };
        let targs = &targs;
        let object_params = self.tree.externs[d].type_params.clone();
        let found: Vec<usize> = (0..self.tree.externs[d].methods.len())
            .filter(|i| self.tree.externs[d].methods[*i].name == name.name)
            .collect();
        if found.is_empty() {
            let def = &self.tree.externs[d];
            let near = nearest(&name.name, def.methods.iter().map(|m| m.name.as_str()));
            let message = format!("`{}` has no method `{}`", def.name, name.name);
            let d = Diagnostic::error("P0304", name.span, message).related(def.span, "declared here");
            let help = near.map_or("call one of its methods".into(), |n| format!("did you mean `{n}`?"));
            self.report(d.help(help));
            self.check_args_anyway(args);
            return Expr::error(span);
        }
        let mut sigs: Vec<tree::Sig> =
            found.iter().map(|i| self.tree.externs[d].methods[*i].clone()).collect();
        for sig in &mut sigs {
            for p in &mut sig.params {
                p.ty = self.tree.tys.subst(p.ty, &object_params, targs);
            }
            sig.returns = self.tree.tys.subst(sig.returns, &object_params, targs);
        }
        let candidates: Vec<(Span, &[Param])> = sigs.iter().map(|s| (s.span, s.params.as_slice())).collect();
        let Some(which) = self.overload(&name.name, &candidates, args, span) else {
            self.check_args_anyway(args);
            return Expr::error(span);
        };
        use Place::*;
        let allowed = [BlockHead, ParserState, ControlApply, Action, Function, Method];
        self.check_place(&format!("`{}`", name.name), &allowed, "a block, an action or a function", span);
        let sig = &sigs[which];
        self.deprecation(&sig.annotations, &name.name, span);
        match self.arguments(Signature::of(sig, explicit), args, Style::Other, span) {
            Some(bound) => {
                let ty = self.tree.tys.subst(sig.returns, &sig.type_params, &bound.type_args);
                self.call_node(Callee::Method(receiver, d, found[which]), bound, ty, span)
            }
            None => Expr { kind: ExprKind::Error, ty: self.known_result(sig), span },
        }
    }

    fn apply_table(&mut self, table: usize, name: &ast::Ident, args: &[ast::Arg], span: Span) -> Expr {
        if name.name != "apply" {
            let message = format!("a table has no method `{}`", name.name);
            self.error("P0304", name.span, message, "the only method of a table is `apply`");
            return Expr::error(span);
        }
        if let Some(a) = args.first() {
            self.error("P0404", a.span, "`apply` of a table takes no arguments", "leave them out");
        }
        self.check_place("a table", &[Place::ControlApply], "the `apply` block of its control", span);
        let ty = self.tree.tys.intern(Kind::Applied(table));
        Expr { kind: ExprKind::Apply(table), ty, span }
    }

    fn apply_block(&mut self, b: Expr, d: usize, targs: &[Ty], args: &[ast::Arg], span: Span) -> Expr {
        let block = &self.tree.blocks[d];
        let (name, tparams, is_parser) = (block.name.clone(), block.type_params.clone(), block.is_parser);
        let mut params = block.params.clone();
        for p in &mut params {
            p.ty = self.tree.tys.subst(p.ty, &tparams, targs);
        }
        let (allowed, where_) = if is_parser {
            (Place::ParserState, "a state of a parser")
        } else {
            (Place::ControlApply, "the `apply` block of a control")
        };
        let what = if is_parser { "a parser" } else { "a control" };
        self.check_place(what, &[allowed], where_, span);
        match self.arguments(Signature::plain(&name, &params), args, Style::Other, span) {
            Some(bound) => self.call_node(Callee::Block(b), bound, Ty::VOID, span),
            None => Expr { kind: ExprKind::Error, ty: Ty::VOID, span },
        }
    }

    /// `C.apply(...)`: a new instance of its own (P4_16 section 15.1).
    fn apply_type(&mut self, block: usize, args: &[ast::Arg], type_span: Span, span: Span) -> Expr {
        let made = self.construct(TypeDef::Block(block), &[], &[], type_span);
        let ExprKind::New(new) = made.kind else {
            self.check_args_anyway(args);
            return Expr { kind: ExprKind::Error, ty: Ty::VOID, span };
        };
        let (name, ty) = (self.tree.blocks[block].name.clone(), new.ty);
        let annotations = Default::default();
        self.tree.instances.push(tree::Instance {
            name,
            span: type_span,
            new: *new,
            annotations,
            anonymous: true,
        });
        let index = self.tree.instances.len() - 1;
        self.cx.block.instances.push(index);
        let b = Expr { kind: ExprKind::Instance(index), ty, span: type_span };
        self.apply_block(b, block, &[], args, span)
    }

    /// Methods of headers, unions, stacks, and sizes of anything.
    fn builtin_method(&mut self, b: Expr, name: &ast::Ident, args: &[ast::Arg], span: Span) -> Expr {
        let method = name.name.as_str();
        let header = self.tree.is_struct(b.ty, &[StructKind::Header]);
        let union = self.tree.is_struct(b.ty, &[StructKind::HeaderUnion]);
        let stack = matches!(self.tree.tys.get(b.ty), Kind::Stack(..));
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
                let Some(value) = args[0].value.as_ref() else {
                    self.error(
                        "P0404",
                        args[0].span,
                        "a number is needed here",
                        "give how many elements to shift by",
                    );
                    return void_error;
                };
                let n = self.value(value);
                if n.ty == Ty::ERROR {
                    return void_error;
                }
                if !self.compile_time(&n) || (n.ty != Ty::INT && self.tree.tys.bits(n.ty).is_none()) {
                    let message =
                        format!("the argument of `{method}` must be an integer known at compile time");
                    self.error("P0501", n.span, message, "use a literal or a constant");
                    return void_error;
                }
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
                    .map_or("see P4_16 chapter 8 for what it has".into(), |n| format!("did you mean `{n}`?"));
                self.error("P0304", name.span, message, help);
                self.check_args_anyway(args);
                Expr::error(span)
            }
        }
    }

    /// A constructor call.
    pub fn construct(&mut self, def: TypeDef, explicit: &[Ty], args: &[ast::Arg], span: Span) -> Expr {
        let def = match def {
            TypeDef::Alias(ty) => match self.tree.tys.get(ty).clone() {
                Kind::Extern(d, targs) => return self.construct(TypeDef::Extern(d), &targs, args, span),
                Kind::Block(d, targs) => return self.construct(TypeDef::Block(d), &targs, args, span),
                Kind::Package(d, targs) => return self.construct(TypeDef::Package(d), &targs, args, span),
                Kind::Error => return Expr::error(span),
                _ => def,
            },
            other => other,
        };
        let (name, params, tparams, ctor) = match def {
            TypeDef::Extern(d) => {
                let ext = self.tree.externs[d].clone();
                let candidates: Vec<(Span, &[Param])> =
                    ext.ctors.iter().map(|s| (s.span, s.params.as_slice())).collect();
                if candidates.is_empty() {
                    let help = "it has no constructor: only the architecture makes such objects";
                    self.error("P0507", span, format!("`{}` cannot be instantiated", ext.name), help);
                    return Expr::error(span);
                }
                let Some(which) = self.overload(&ext.name, &candidates, args, span) else {
                    self.check_args_anyway(args);
                    return Expr::error(span);
                };
                (ext.name, ext.ctors[which].params.clone(), ext.type_params, which)
            }
            TypeDef::Block(d) => {
                let b = &self.tree.blocks[d];
                if !b.done {
                    let help = "P4 has no recursion: a block cannot contain itself";
                    self.error(
                        "P0306",
                        span,
                        format!("`{}` contains an instance of itself", b.name.clone()),
                        help,
                    );
                    return Expr::error(span);
                }
                if b.body.is_none() {
                    let message = format!("`{}` is only a type of blocks: it has no body", b.name);
                    self.error("P0507", span, message, "instantiate a parser or control with a body");
                    return Expr::error(span);
                }
                (b.name.clone(), b.ctor_params.clone(), b.type_params.clone(), 0)
            }
            TypeDef::Package(d) => {
                let p = &self.tree.packages[d];
                (p.name.clone(), p.sig.params.clone(), p.sig.type_params.clone(), 0)
            }
            other => {
                let message = format!("{} has no constructor", Def::Type(other).describe());
                self.error("P0303", span, message, "a cast is written `(type) value`");
                self.check_args_anyway(args);
                return Expr::error(span);
            }
        };
        let to = Signature { name: &name, params: &params, type_params: &tparams, explicit };
        let Some(bound) = self.arguments(to, args, Style::Other, span) else {
            return Expr::error(span);
        };
        let ty = match def {
            TypeDef::Extern(d) => Kind::Extern(d, bound.type_args),
            TypeDef::Block(d) => Kind::Block(d, bound.type_args),
            TypeDef::Package(d) => Kind::Package(d, bound.type_args),
            _ => return Expr::error(span),
        };
        let ty = self.tree.tys.intern(ty);
        if !self.may_instantiate(ty, span) {
            return Expr::error(span);
        }
        let args = bound
            .args
            .into_iter()
            .map(|a| match a {
                Arg::In(e) => Some(e),
                _ => None,
            })
            .collect();
        Expr { kind: ExprKind::New(Box::new(New { ty, ctor, args, span })), ty, span }
    }

    /// Reports an instantiation that the place does not allow.
    fn may_instantiate(&mut self, ty: Ty, span: Span) -> bool {
        let (what, parser, package) = match self.tree.tys.get(ty) {
            Kind::Block(d, _) => {
                let p = self.tree.blocks[*d].is_parser;
                (if p { "a parser" } else { "a control" }, Some(p), false)
            }
            Kind::Package(..) => ("a package", None, true),
            _ => ("an extern object", None, false),
        };
        let fine = match self.cx.place {
            Place::Top => true,
            Place::Action | Place::Function | Place::Method => false,
            Place::BlockHead | Place::ParserState | Place::ControlApply => {
                !package && parser.is_none_or(|p| p == self.cx.in_parser)
            }
        };
        if !fine {
            let help = match (self.cx.place, parser) {
                (Place::BlockHead | Place::ParserState | Place::ControlApply, Some(true)) => {
                    "controls cannot use parsers"
                }
                (Place::BlockHead | Place::ParserState | Place::ControlApply, Some(false)) => {
                    "parsers cannot use controls"
                }
                _ => "instantiate it at the head of a block or at the top level",
            };
            self.error("P0507", span, format!("{what} cannot be instantiated here"), help);
        }
        fine
    }
}
