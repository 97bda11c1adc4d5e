//! Arguments matched to parameters, overloads chosen, type arguments inferred (P4_16 sections 6.8 and 7.2.13).

use super::Checker;
use super::infer::Solution;
use super::tree::{self, Arg, Direction, Expr, ExprKind, Param};
use super::types::{Kind, Ty};
use crate::ast;
use crate::diag::Diagnostic;
use pointsman_ir::Span;

/// Arguments matched to parameters.
pub struct Bound {
    pub type_args: Vec<Ty>,
    pub args: Vec<Arg>,
    pub order: Vec<usize>,
}

/// The owner of the parameters.
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

    pub fn of(sig: &'a tree::Sig, explicit: &'a [Ty]) -> Self {
        let (name, params, type_params) = (&sig.name, &sig.params, &sig.type_params);
        Signature { name, params, type_params, explicit }
    }
}

/// How directionless parameters behave.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Like `in`.
    Action,
    /// The architecture decides their meaning: v1model's are known at compile time, PNA's need not be.
    Extern,
    /// The argument must be known at compile time.
    Other,
    /// Like `Other`, of a block that is instantiated: its type arguments may stay open.
    Block,
}

/// Which argument goes to which parameter; or the error.
pub fn match_args(params: &[Param], args: &[ast::Arg]) -> Result<Vec<Option<usize>>, (Option<Span>, String)> {
    let mut out = vec![None; params.len()];
    let named = args.iter().filter(|a| a.name.is_some()).count();
    if named > 0 && named < args.len() {
        let at = args.iter().find(|a| a.name.is_none()).map(|a| a.span);
        return Err((at, "name all arguments or none".into()));
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
        let matched = self.matched(name, params, args, span)?;
        if !explicit.is_empty() && explicit.len() != type_params.len() {
            let message =
                format!("`{name}` takes {} type argument(s), not {}", type_params.len(), explicit.len());
            self.error("P0405", span, message, "give as many as it has type parameters, or none");
            return None;
        }
        let given: Vec<Ty> = match explicit {
            [] => type_params.iter().map(|_| self.fresh()).collect(),
            _ => explicit.to_vec(),
        };
        let values: Vec<Option<Expr>> =
            args.iter().map(|a| a.value.as_ref().map(|v| self.argument_value(v))).collect();
        let defaults: Vec<Option<Expr>> = params
            .iter()
            .map(|p| p.default.clone().map(|d| self.default_for(d, type_params, &given)))
            .collect();
        let tys: Vec<Ty> = params.iter().map(|p| self.tree.tys.subst(p.ty, type_params, &given)).collect();

        let mut solution = Solution::default();
        let mut broken = given.contains(&Ty::ERROR);
        for weak in [false, true] {
            for (k, m) in matched.iter().enumerate() {
                let e = match m {
                    Some(i) => values[*i].as_ref(),
                    None => defaults[k].as_ref(),
                };
                let Some(e) = e else { continue };
                if e.ty == Ty::ERROR {
                    broken = true;
                    continue;
                }
                if self.is_weak(e.ty) == weak {
                    let ty = self.tree.tys.subst(e.ty, type_params, &given);
                    self.unify(tys[k], ty, &mut solution);
                }
            }
        }
        self.bind_unused(params, &matched, type_params, &given, &mut solution);
        let type_args: Vec<Ty> = given.iter().map(|t| self.resolve(*t, &solution)).collect();
        for (p, t) in type_params.iter().zip(&type_args) {
            // The argument that leaves it open, if it is one.
            let wanted = self.tree.tys.get(*p).clone();
            let guilty = |k: &usize| {
                let e = matched[*k].and_then(|i| values[i].as_ref());
                e.is_some_and(|e| self.is_weak(e.ty)) && self.tree.tys.any(params[*k].ty, &|t| *t == wanted)
            };
            let at = (0..params.len()).find(guilty).and_then(|k| matched[k]).map_or(span, |i| args[i].span);
            // The type arguments of a block can be left to the parameter that it is passed to.
            let left = style == Style::Block && self.tree.tys.any(*t, &|k| matches!(k, Kind::Infer(_)));
            broken |= !left && !self.inferred(name, *p, *t, explicit.is_empty(), broken, at);
        }
        if broken {
            return None;
        }
        let mut out = Vec::new();
        for ((k, p), default) in params.iter().enumerate().zip(defaults) {
            let ty = self.resolve(tys[k], &solution);
            let arg = match (matched[k], default) {
                (Some(i), _) => self.given(p, ty, values[i].as_ref(), args[i].span, style)?,
                (None, Some(d)) => Arg::In(self.coerce(d, ty, &format!("the default of `{}`", p.name))),
                (None, None) => Arg::Missing,
            };
            out.push(arg);
        }
        let order = (0..args.len()).filter_map(|i| matched.iter().position(|m| *m == Some(i))).collect();
        Some(Bound { type_args, args: out, order })
    }

    /// For each parameter, which argument is its.
    fn matched(
        &mut self,
        name: &str,
        params: &[Param],
        args: &[ast::Arg],
        span: Span,
    ) -> Option<Vec<Option<usize>>> {
        let matched = match match_args(params, args) {
            Ok(m) => m,
            Err((at, message)) => {
                let help = "give one argument for every parameter, all by position or all by name";
                self.error("P0404", at.unwrap_or(span), format!("call of `{name}`: {message}"), help);
                return None;
            }
        };
        for (k, i) in matched.iter().enumerate() {
            if let Some(n) = i.and_then(|i| args[i].name.as_ref()) {
                self.note(n.span, params[k].span);
            }
        }
        Some(matched)
    }

    /// An argument that is written in the call; without `value` it is `_`.
    fn given(&mut self, p: &Param, ty: Ty, value: Option<&Expr>, at: Span, style: Style) -> Option<Arg> {
        if let Some(e) = value {
            return self.pass(p, ty, e.clone(), style);
        }
        if p.direction != Direction::Out {
            let message = format!("`_` cannot be the argument for `{}`", p.name);
            self.error("P0404", at, message, "`_` is for `out` parameters; give a value");
            return None;
        }
        if self.tree.tys.any(ty, &|k| matches!(k, Kind::Infer(_))) {
            let help = "name a variable instead, or give the type arguments";
            self.error("P0405", at, "the type of this `_` is not known", help);
            return None;
        }
        Some(Arg::Ignore(ty))
    }

    /// A default value that is a block may name the type parameters of the callee.
    fn default_for(&mut self, e: Expr, type_params: &[Ty], given: &[Ty]) -> Expr {
        let ty = self.tree.tys.subst(e.ty, type_params, given);
        e.with_type(ty)
    }

    /// Type parameters that only optional parameters mention, for which nothing is given, match anything.
    fn bind_unused(
        &mut self,
        params: &[Param],
        matched: &[Option<usize>],
        type_params: &[Ty],
        given: &[Ty],
        solution: &mut Solution,
    ) {
        for (p, g) in type_params.iter().zip(given) {
            let now = self.resolve(*g, solution);
            let Kind::Infer(_) = self.tree.tys.get(now) else { continue };
            let wanted = self.tree.tys.get(*p).clone();
            let mentions = |k: &usize| self.tree.tys.any(params[*k].ty, &|t| *t == wanted);
            let by: Vec<usize> = (0..params.len()).filter(mentions).collect();
            // A block that matches its type for any value of the variable also leaves it open.
            let open = |k: &usize| match matched[*k] {
                None => params[*k].optional,
                Some(_) => matches!(self.tree.tys.get(params[*k].ty), Kind::Block(..)),
            };
            if !by.is_empty() && by.iter().all(open) {
                let nothing = self.tree.tys.intern(Kind::Tuple(Vec::new()));
                self.unify(*g, nothing, solution);
            }
        }
    }

    /// A value or an instance.
    fn argument_value(&mut self, e: &ast::Expr) -> Expr {
        let v = self.expr(e);
        if let (ExprKind::New(_), Kind::Extern(d, _)) = (&v.kind, self.tree.tys.get(v.ty))
            && self.tree.externs[*d].is_abstract.contains(&true)
        {
            let help = "give it a name and an initialiser: `Type() name = { ... };`";
            self.error("P0507", v.span, "the abstract methods of this object are not implemented", help);
            return Expr::error(v.span);
        }
        if matches!(self.tree.tys.get(v.ty), Kind::Void | Kind::Applied(_)) {
            self.error("P0401", v.span, "an argument must have a value", "use an expression that has one");
            return Expr::error(v.span);
        }
        v
    }

    /// Whether the type argument is fully known. Reports if not.
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
        let before = self.diagnostics.len();
        let arg = self.pass_unlabelled(p, ty, e, style);
        self.relate(before, p.span, "the parameter is declared here");
        arg
    }

    fn pass_unlabelled(&mut self, p: &Param, ty: Ty, e: Expr, style: Style) -> Option<Arg> {
        let what = format!("the argument for `{}`", p.name);
        let compile_time = self.tree.tys.any(ty, &|k| matches!(k, Kind::String | Kind::Int));
        if p.direction != Direction::None && compile_time && e.ty != Ty::ERROR {
            let message =
                format!("{what} cannot have type `{}`: the parameter has a direction", self.show(ty));
            self.error("P0408", e.span, message, "such values exist only at compile time");
            return None;
        }
        if !self.is_value_type(ty) && matches!(self.tree.tys.get(p.ty), Kind::Param(_)) && ty != Ty::ERROR {
            // By reference (P4_16 section 6.8), if the extern can do something with any object.
            let object = matches!(self.tree.tys.get(ty), Kind::Extern(..)) && style == Style::Extern;
            if object && p.direction == Direction::None {
                let what = format!("an object of type `{}` as an argument of any type", self.show(ty));
                self.unsupported(e.span, &what, "pass a value");
                return Some(Arg::In(e));
            }
            let message = format!("{what} cannot be an object of type `{}`", self.show(ty));
            self.error("P0408", e.span, message, "pass a value");
            return None;
        }
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
                let width = self.tree.tys.bits(e.ty).is_some();
                if style == Style::Extern && ty == Ty::INT && width {
                    return Some(Arg::In(e));
                }
                let e = self.coerce(e, ty, &what);
                let object =
                    matches!(self.tree.tys.get(ty), Kind::Extern(..) | Kind::Block(..) | Kind::Package(..));
                let open = !object && e.ty != Ty::ERROR && !self.compile_time(&e);
                if open && style == Style::Extern {
                    let what = format!("a run-time value for `{}`, which has no direction,", p.name);
                    self.unsupported(e.span, &what, "use a literal, a constant or a constructor parameter");
                } else if open && style != Style::Action {
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
}
