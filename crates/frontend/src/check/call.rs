//! Calls (P4_16 section 8.20), and what may be called from where.

use super::arguments::{Bound, Signature, Style, match_args};
use super::eval::{Const, Evaluator};
use super::scope::{Def, FnRef, TypeDef, nearest};
use super::tree::{self, Arg, Call, Callee, Expr, ExprKind, Param};
use super::types::{Kind, Ty};
use super::{Checker, Place};
use crate::ast::{self, ExprKind as Ast, TypeExprKind};
use crate::diag::Diagnostic;
use pointsman_ir::Span;

impl Checker<'_> {
    /// A call expression of any kind.
    pub fn call(
        &mut self,
        callee: &ast::Expr,
        type_args: &[ast::TypeExpr],
        args: &[ast::Arg],
        span: Span,
    ) -> Expr {
        match &callee.kind {
            Ast::Name(path) => self.call_named(path, type_args, args, [callee.span, span]),
            Ast::Type(t) => self.call_type(t, type_args, args, [callee.span, span]),
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

    /// A call of a function, an action or a constructor by its name, at the first of the two places.
    fn call_named(
        &mut self,
        path: &ast::Path,
        type_args: &[ast::TypeExpr],
        args: &[ast::Arg],
        [at, span]: [Span; 2],
    ) -> Expr {
        let Some(binding) = self.lookup(path) else {
            self.check_args_anyway(args);
            return Expr::error(span);
        };
        let explicit: Vec<Ty> = type_args.iter().map(|t| self.type_arg(t)).collect();
        match self.callable(path, args).unwrap_or(binding.def) {
            Def::Functions(fns) => self.call_function(&path.name, &fns, &explicit, args, span),
            Def::Action(_) if !explicit.is_empty() => {
                self.error("P0405", span, "an action takes no type arguments", "remove the `<...>`");
                self.check_args_anyway(args);
                Expr { kind: ExprKind::Error, ty: Ty::VOID, span }
            }
            Def::Action(action) => {
                let declared = self.tree.actions[action].sig.span;
                self.note(path.name.span, declared);
                self.call_action(&path.name.name, action, args, span)
            }
            Def::Type(def) => self.construct(def, &explicit, args, span),
            Def::Broken => {
                self.check_args_anyway(args);
                Expr::error(span)
            }
            other => {
                let message = format!("`{}` is {}: it cannot be called", path.name.name, other.describe());
                let help = match other {
                    Def::Table(_) | Def::Instance(_) => "call its `apply()` or one of its methods",
                    _ => "call a function, an action or a method",
                };
                self.error("P0303", at, message, help);
                Expr::error(span)
            }
        }
    }

    /// A call of a constructor whose type is more than a name.
    fn call_type(
        &mut self,
        t: &ast::TypeExpr,
        type_args: &[ast::TypeExpr],
        args: &[ast::Arg],
        [at, span]: [Span; 2],
    ) -> Expr {
        let (path, targs): (&ast::Path, &[ast::TypeExpr]) = match &t.kind {
            TypeExprKind::Named(p) => (p, type_args),
            TypeExprKind::Specialized(p, targs) => (p, targs),
            _ => {
                let help = "a cast is written `(type) value`";
                self.error("P0303", at, "this type has no constructor", help);
                return Expr::error(span);
            }
        };
        let explicit: Vec<Ty> = targs.iter().map(|t| self.type_arg(t)).collect();
        match self.lookup(path).map(|b| b.def) {
            Some(Def::Type(def)) => self.construct(def, &explicit, args, span),
            Some(Def::Broken) | None => Expr::error(span),
            Some(other) => {
                let message = format!("`{}` is {}, not a type", path.name.name, other.describe());
                self.error("P0303", at, message, "use the name of a type");
                Expr::error(span)
            }
        }
    }

    /// The innermost function or action called `path` that takes these arguments, if the innermost of all does not.
    fn callable(&self, path: &ast::Path, args: &[ast::Arg]) -> Option<Def> {
        if path.rooted {
            return None;
        }
        let fits = |ps: &[Param]| match_args(ps, args).is_ok();
        self.scopes.iter().rev().filter_map(|s| s.names.get(&path.name.name)).map(|b| &b.def).find_map(
            |def| {
                let found = match def {
                    Def::Functions(all) => all.iter().any(|f| match f {
                        FnRef::Extern(i) => fits(&self.tree.extern_fns[*i].params),
                        FnRef::Function(i) => fits(&self.tree.functions[*i].sig.params),
                    }),
                    Def::Action(i) => fits(&self.tree.actions[*i].sig.params),
                    // Anything else hides outer declarations.
                    _ => return Some(None),
                };
                found.then(|| Some(def.clone()))
            },
        )?
    }

    /// Checks the arguments of a call that is wrong itself.
    pub fn check_args_anyway(&mut self, args: &[ast::Arg]) {
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
        ident: &ast::Ident,
        fns: &[FnRef],
        explicit: &[Ty],
        args: &[ast::Arg],
        span: Span,
    ) -> Expr {
        let name = ident.name.as_str();
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
        self.note(ident.span, sig.span);
        if let FnRef::Function(i) = fns[which]
            && !self.tree.functions[i].done
        {
            let help = "P4 has no recursion: write a loop, or repeat the code";
            self.error("P0306", span, format!("`{name}` calls itself"), help);
            return Expr::error(span);
        }
        if let FnRef::Function(i) = fns[which] {
            self.tree.named_functions.insert(i);
        }
        self.deprecation(&sig.annotations, name, span);
        let style = Style::Extern;
        let bound = self.arguments(Signature::of(sig, explicit), args, style, span);
        let is_static_assert = matches!(fns[which], FnRef::Extern(_)) && name == "static_assert";
        // Objects come from constructors and from extern functions like them.
        let makes_object = matches!(self.tree.tys.get(sig.returns), Kind::Extern(..));
        if !is_static_assert && (!makes_object || !matches!(self.cx.place, Place::Top)) {
            use Place::*;
            let allowed = [BlockHead, ParserState, ControlApply, Action, Function];
            self.check_place(&format!("`{name}`"), &allowed, "a block, an action or a function", span);
        }
        if matches!(fns[which], FnRef::Extern(_))
            && name == "verify"
            && sig.params.len() == 2
            && !matches!(self.cx.place, Place::ParserState)
        {
            let help = "call it in a state of a parser";
            self.error("P0413", span, "`verify` can be called only in parsers", help);
        }
        let Some(bound) = bound else {
            return Expr { kind: ExprKind::Error, ty: self.known_result(sig), span };
        };
        if is_static_assert && let Some(e) = self.static_assert(&bound, span) {
            return e;
        }
        let ty = self.tree.tys.subst(sig.returns, &sig.type_params, &bound.type_args);
        let callee = match fns[which] {
            FnRef::Extern(i) => Callee::ExternFn(i),
            FnRef::Function(i) => Callee::Function(i),
        };
        self.call_node(callee, bound, ty, span)
    }

    /// The result type if it does not depend on the error.
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

    /// `None`: the assertion's value is known only when the block is instantiated.
    fn static_assert(&mut self, bound: &Bound, span: Span) -> Option<Expr> {
        let mut it = bound.args.iter().filter_map(|a| if let Arg::In(e) = a { Some(e) } else { None });
        let (Some(check), message) = (it.next(), it.next()) else { return Some(Expr::error(span)) };
        match (Evaluator { tree: &self.tree, vars: &|_| None }).eval(check) {
            Ok(Const::Bool(false)) => {
                let text = match message.map(|m| &m.kind) {
                    Some(ExprKind::Const(Const::Str(s))) => format!("static assertion failed: {s}"),
                    _ => "static assertion failed".to_string(),
                };
                self.error("P0504", span, text, "change the assertion, or the code that violates it");
            }
            Ok(_) => {}
            Err(_) if matches!(check.kind, ExprKind::Error) => {}
            Err(_) => return None,
        }
        Some(Self::bool_const(true, span))
    }

    fn call_action(&mut self, name: &str, action: usize, args: &[ast::Arg], span: Span) -> Expr {
        let failed = Expr { kind: ExprKind::Error, ty: Ty::VOID, span };
        if !self.tree.actions[action].done {
            let help = "P4 has no recursion: repeat the code";
            self.error("P0306", span, format!("`{name}` calls itself"), help);
            return failed;
        }
        let where_ = "the `apply` block of a control or from another action";
        self.check_place(&format!("action `{name}`"), &[Place::ControlApply, Place::Action], where_, span);
        let params = self.tree.actions[action].sig.params.clone();
        match self.arguments(Signature::plain(name, &params), args, Style::Action, span) {
            Some(bound) => self.call_node(Callee::Action(action), bound, Ty::VOID, span),
            None => failed,
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
            self.note_type(base);
            return match def {
                TypeDef::Block(block) if name.name == "apply" => {
                    let explicit: Vec<Ty> = match &base.kind {
                        Ast::Type(ast::TypeExpr { kind: TypeExprKind::Specialized(_, ts), .. }) => {
                            ts.iter().map(|t| self.type_arg(t)).collect()
                        }
                        _ => Vec::new(),
                    };
                    self.apply_type(block, &explicit, args, base.span, span)
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
            self.note_path(path);
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
            _ => {
                if !explicit.is_empty() {
                    let message = format!("`{}` takes no type arguments", name.name);
                    self.error("P0405", span, message, "remove the `<...>`");
                }
                self.builtin_method(b, name, args, span)
            }
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
        let allowed = [BlockHead, ParserState, ControlApply, Action, Function];
        self.check_place(&format!("`{}`", name.name), &allowed, "a block, an action or a function", span);
        let sig = &sigs[which];
        self.note(name.span, sig.span);
        self.deprecation(&sig.annotations, &name.name, span);
        match self.arguments(Signature::of(sig, explicit), args, Style::Extern, span) {
            Some(bound) => {
                let ty = self.tree.tys.subst(sig.returns, &sig.type_params, &bound.type_args);
                self.check_packet_call(d, &name.name, &bound, ty, span);
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

    /// `C.apply(...)`: a separate new instance (P4_16 section 15.1).
    fn apply_type(
        &mut self,
        block: usize,
        explicit: &[Ty],
        args: &[ast::Arg],
        type_span: Span,
        span: Span,
    ) -> Expr {
        let made = self.construct(TypeDef::Block(block), explicit, &[], type_span);
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
            methods: Vec::new(),
        });
        let index = self.tree.instances.len() - 1;
        self.cx.block.instances.push(index);
        let b = Expr { kind: ExprKind::Instance(index), ty, span: type_span };
        let Kind::Block(_, targs) = self.tree.tys.get(ty).clone() else { return Expr::error(span) };
        if self.tree.tys.any(ty, &|k| matches!(k, Kind::Infer(_))) {
            let message = format!("the type arguments of `{}` cannot be inferred", self.show(ty));
            self.error("P0405", type_span, message, "write them: `Type<...>.apply(...)`");
            return Expr { kind: ExprKind::Error, ty: Ty::VOID, span };
        }
        self.apply_block(b, block, &targs, args, span)
    }
}
