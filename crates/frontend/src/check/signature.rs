//! Parameters and signatures (P4_16 sections 6.8 and 7.2.12).

use super::Checker;
use super::scope::{Def, FnRef};
use super::tree::{Expr, ExprKind, Param, Sig, VarKind};
use super::types::{Kind, Ty};
use crate::ast::{self, Direction};
use crate::diag::Diagnostic;

/// The owner of a list of parameters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ParamsOf {
    /// Constructors of parsers and controls: all without direction.
    Constructor,
    /// Constructors of externs.
    ExternConstructor,
    /// Of packages.
    Package,
    /// Parsers and controls.
    Block,
    /// Types of parsers and controls.
    BlockType,
    /// Extern functions.
    Extern,
    /// Methods of extern objects.
    Method,
    Function,
    Action,
}

impl ParamsOf {
    /// Whether these are known at compile time.
    pub fn is_constructor(self) -> bool {
        matches!(self, ParamsOf::Constructor | ParamsOf::ExternConstructor | ParamsOf::Package)
    }
}

impl Checker<'_> {
    /// Parameters; the caller declares them where the body is.
    pub fn params(&mut self, list: &[ast::Param], of: ParamsOf) -> Vec<Param> {
        let mut out: Vec<Param> = Vec::new();
        for p in list {
            let annotations = self.annotations(&p.annotations);
            let ty = self.param_type(p);
            self.check_direction(p, ty, of, out.last());
            let default = p.default.as_ref().and_then(|e| self.param_default(p, e, ty));
            let optional = annotations.has("optional");
            if optional && matches!(of, ParamsOf::Action | ParamsOf::Function | ParamsOf::Constructor) {
                let help = "give it a default value; only parameters of packages, externs, and parser and control \
                            types can be optional";
                self.error("P0408", p.span, "this parameter cannot be optional", help);
            }
            if optional && default.is_some() {
                self.error(
                    "P0404",
                    p.span,
                    "an optional parameter cannot have a default value",
                    "remove one",
                );
            }
            if let Some(first) = out.iter().find(|o| o.name == p.name.name) {
                let first = first.span;
                self.duplicate(&p.name, first);
                continue;
            }
            let kind = if of.is_constructor() { VarKind::Ctor } else { VarKind::Param(p.direction) };
            let var = self.new_var(&p.name, ty, kind);
            out.push(Param {
                name: p.name.name.clone(),
                span: p.name.span,
                direction: p.direction,
                ty,
                default,
                optional,
                var,
                annotations,
            });
        }
        out
    }

    fn param_type(&mut self, p: &ast::Param) -> Ty {
        let ty = self.ty(&p.ty);
        if ty == Ty::VOID {
            self.error(
                "P0406",
                p.ty.span,
                "a parameter cannot have type `void`",
                "use a type that has values",
            );
            return Ty::ERROR;
        }
        ty
    }

    fn check_direction(&mut self, p: &ast::Param, ty: Ty, of: ParamsOf, previous: Option<&Param>) {
        let none = p.direction == Direction::None;
        match of {
            _ if of.is_constructor() && !none => {
                let help = "remove the direction: constructors run at compile time";
                self.error("P0408", p.span, "a constructor parameter has no direction", help);
            }
            ParamsOf::Action if !none && previous.is_some_and(|q| q.direction == Direction::None) => {
                let help = "move parameters with a direction before those without";
                self.error("P0408", p.span, "a parameter with a direction follows one without", help);
            }
            _ => {}
        }
        match self.tree.tys.get(ty) {
            Kind::Extern(..) => {
                if !none {
                    self.error("P0408", p.span, "an extern object is passed without direction", "remove it");
                }
                if matches!(of, ParamsOf::Action | ParamsOf::Function) {
                    let what = if of == ParamsOf::Action { "an action" } else { "a function" };
                    let message = format!("{what} cannot have an extern object as a parameter");
                    self.error("P0408", p.span, message, "use the object directly where it is declared");
                }
            }
            Kind::Block(..) | Kind::Package(..) if !of.is_constructor() => {
                let help = "make it a constructor parameter";
                self.error(
                    "P0408",
                    p.span,
                    "parsers, controls and packages are passed at compile time only",
                    help,
                );
            }
            Kind::Block(d, _) if of == ParamsOf::ExternConstructor || self.tree.blocks[*d].has_body => {
                let what = if self.tree.blocks[*d].is_parser { "parser" } else { "control" };
                let (message, help) = match of {
                    ParamsOf::ExternConstructor => (
                        format!("a constructor of an extern cannot take a {what}"),
                        "only packages, parsers and controls can",
                    ),
                    _ => (
                        format!("`{}` is a {what}, not a {what} type", self.show(ty)),
                        "declare a type without a body and use that",
                    ),
                };
                let at = self.tree.blocks[*d].span;
                self.report(
                    Diagnostic::error("P0408", p.span, message).related(at, "declared here").help(help),
                );
            }
            Kind::Int | Kind::String if of == ParamsOf::Action => {
                let message = format!("a parameter of an action cannot have type `{}`", self.show(ty));
                self.error("P0406", p.ty.span, message, "give it a width, as in `bit<32>`");
            }
            Kind::Int | Kind::String if !none => {
                let message = format!("a parameter of type `{}` has no direction", self.show(ty));
                self.error("P0408", p.span, message, "omit it: its value is known at compile time");
            }
            _ => {}
        }
        if p.default.is_some() && matches!(p.direction, Direction::Out | Direction::InOut) {
            let help = "omit it: the result needs an l-value";
            self.error("P0408", p.span, "an `out` or `inout` parameter cannot have a default value", help);
        }
    }

    fn param_default(&mut self, p: &ast::Param, e: &ast::Expr, ty: Ty) -> Option<Expr> {
        let v = self.expr(e);
        // Whether a block suits a generic type is known when the type is.
        let generic = self.tree.tys.any(ty, &|k| matches!(k, Kind::Param(_)))
            && matches!(self.tree.tys.get(v.ty), Kind::Block(..));
        let v = match generic {
            true => v,
            false => self.coerce(v, ty, &format!("the default of `{}`", p.name.name)),
        };
        if matches!(v.kind, ExprKind::Error) {
            return None;
        }
        if !self.compile_time(&v) {
            let help = "use a literal or a constant";
            self.error("P0501", v.span, "a default value must be known at compile time", help);
            return None;
        }
        Some(v)
    }

    /// Makes parameters visible in the innermost scope.
    pub fn declare_params(&mut self, list: &[ast::Param], params: &[Param]) {
        for p in params {
            // All that one macro declares has the span of its use.
            if let Some(source) = list.iter().find(|s| s.name.span == p.span && s.name.name == p.name) {
                let def = if p.ty == Ty::ERROR { Def::Broken } else { Def::Var(p.var) };
                self.declare(&source.name, def);
            }
        }
    }

    /// The signature of a function or method; its type parameters are declared in the innermost scope.
    pub fn signature(
        &mut self,
        f: &ast::FunctionProto,
        annotations: &[ast::Annotation],
        of: ParamsOf,
    ) -> Sig {
        let annotations = self.annotations(annotations);
        let type_params = self.type_params(&f.type_params);
        let returns = self.ty(&f.returns);
        // Externs may make objects.
        let object = of == ParamsOf::Extern && matches!(self.tree.tys.get(returns), Kind::Extern(..));
        if !self.is_value_type(returns) && returns != Ty::VOID && !object {
            let message = format!("`{}` cannot be returned", self.show(returns));
            self.error("P0406", f.returns.span, message, "return a value");
        }
        if of == ParamsOf::Method && returns == Ty::INT {
            let help = "give the result a width, as in `bit<32>`";
            self.error("P0406", f.returns.span, "a method cannot return `int`", help);
        }
        let params = self.params(&f.params, of);
        Sig { name: f.name.name.clone(), span: f.name.span, type_params, params, returns, annotations }
    }

    /// Reports a function that calls cannot distinguish from another of its name.
    pub fn check_overload(&mut self, name: &ast::Ident, sig: &Sig) {
        let path = ast::Path { rooted: false, name: name.clone() };
        let Some(Def::Functions(others)) =
            self.scopes.last().and_then(|s| s.names.get(&path.name.name)).map(|b| b.def.clone())
        else {
            return;
        };
        for f in others {
            let other = match f {
                FnRef::Extern(i) => &self.tree.extern_fns[i],
                FnRef::Function(i) => &self.tree.functions[i].sig,
            };
            if same_shape(&other.params, &sig.params) {
                let at = other.span;
                self.duplicate(name, at);
                return;
            }
        }
    }
}

/// Whether calls with the same arguments would fit both.
pub fn same_shape(a: &[Param], b: &[Param]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.name == y.name)
}
