//! Objects with abstract methods, which the program implements (P4_16 sections 7.2.9.2 and 10.3.1).

use super::scope::Def;
use super::signature::ParamsOf;
use super::tree::{self, Direction, Sig, VarId, VarKind};
use super::types::{Kind, Ty};
use super::{Checker, Context, Place};
use crate::ast::{self, DeclKind};
use crate::diag::Diagnostic;
use pointsman_ir::Span;

/// The code of an implementation, while it is checked.
#[derive(Clone, Debug, Default)]
pub struct Inside {
    /// The instance that `this` names.
    pub this: usize,
    /// Variables before this one belong to the block around.
    first: usize,
    /// Those of them that the code uses.
    captures: Vec<VarId>,
}

impl Checker<'_> {
    /// `= { ... }` behind the declaration of instance `index`.
    pub fn initializer(&mut self, index: usize, decls: &[ast::Decl]) {
        let ty = self.tree.instances[index].new.ty;
        let Kind::Extern(object, _) = *self.tree.tys.get(ty) else {
            if let Some(d) = decls.first() {
                let help = "only extern objects with abstract methods have an initialiser";
                self.error("P0507", d.span, "this instance cannot have an initialiser block", help);
            }
            return;
        };
        self.in_scope(|c| {
            for d in decls {
                match &d.kind {
                    DeclKind::Function(f) => c.implementation(index, object, f, &d.annotations),
                    DeclKind::Instance(i) => {
                        let made = c.instance_decl(i, &d.annotations, d.span);
                        if c.cx.place == Place::Top {
                            c.tree.top_instances.extend(made);
                        }
                    }
                    _ => {
                        let help =
                            "it holds implementations of abstract methods, and instances that they use";
                        c.error("P0507", d.span, "this declaration is not allowed in an initialiser", help);
                    }
                }
            }
        });
    }

    /// Reports abstract methods that instance `index` leaves without an implementation.
    pub fn check_implemented(&mut self, index: usize, span: Span) {
        let instance = &self.tree.instances[index];
        let Kind::Extern(object, _) = *self.tree.tys.get(instance.new.ty) else { return };
        let def = &self.tree.externs[object];
        let missing: Vec<(String, Span)> = (0..def.methods.len())
            .filter(|m| def.is_abstract[*m] && !def.methods[*m].annotations.has("optional"))
            .filter(|m| !instance.methods.iter().any(|(i, _)| i == m))
            .map(|m| (def.methods[m].name.clone(), def.methods[m].span))
            .collect();
        let object = def.name.clone();
        for (method, at) in missing {
            let message = format!("the abstract method `{method}` of `{object}` is not implemented");
            let help = format!("write `... = {{ {method}(...) {{ ... }} }};` after the name of the instance");
            self.report(Diagnostic::error("P0507", span, message).related(at, "declared here").help(help));
        }
    }

    fn implementation(
        &mut self,
        index: usize,
        object: usize,
        f: &ast::FunctionDecl,
        annotations: &[ast::Annotation],
    ) {
        let name = &f.proto.name;
        let def = &self.tree.externs[object];
        let named = |m: &usize| def.methods[*m].name == name.name;
        let all = 0..def.methods.len();
        let Some(method) = all.clone().find(|m| def.is_abstract[*m] && named(m)) else {
            let (object, at) = (def.name.clone(), def.span);
            let message = if all.into_iter().any(|m| named(&m)) {
                format!("`{}` of `{object}` is not abstract: it cannot be implemented", name.name)
            } else {
                format!("`{object}` has no abstract method `{}`", name.name)
            };
            let d = Diagnostic::error("P0507", name.span, message).related(at, "declared here");
            self.report(d.help("implement abstract methods only"));
            return;
        };
        let declared = def.methods[method].span;
        self.note(name.span, declared);
        if let Some((_, earlier)) = self.tree.instances[index].methods.iter().find(|(m, _)| *m == method) {
            let first = self.tree.functions[*earlier].sig.span;
            self.duplicate(name, first);
            return;
        }
        let first = self.tree.vars.len();
        self.scopes.push(Default::default());
        let sig = self.signature(&f.proto, annotations, ParamsOf::Function);
        let fits = self.check_shape(index, object, method, &sig);
        self.declare_params(&f.proto.params, &sig.params);
        let inside = Inside { this: index, first, captures: Vec::new() };
        let cx = Context {
            place: Place::Function,
            returns: Some(sig.returns),
            inside: Some(inside),
            ..Context::default()
        };
        let outer = std::mem::replace(&mut self.cx, cx);
        let body = self.block(&f.body);
        let cx = std::mem::replace(&mut self.cx, outer);
        self.scopes.pop();
        self.check_returns(&sig, &body);
        if fits {
            let captures = cx.inside.unwrap_or_default().captures;
            self.tree.functions.push(tree::Function { sig, body, captures, done: true });
            let function = self.tree.functions.len() - 1;
            self.tree.instances[index].methods.push((method, function));
        }
    }

    /// Whether an implementation has the parameters and the result of its method.
    fn check_shape(&mut self, index: usize, object: usize, method: usize, sig: &Sig) -> bool {
        let Kind::Extern(_, targs) = self.tree.tys.get(self.tree.instances[index].new.ty).clone() else {
            return false;
        };
        let def = &self.tree.externs[object];
        let (object_params, wanted) = (def.type_params.clone(), def.methods[method].clone());
        let expected = |c: &mut Self, ty: Ty| {
            let ty = c.tree.tys.subst(ty, &object_params, &targs);
            c.tree.tys.subst(ty, &wanted.type_params, &sig.type_params)
        };
        let problem = if wanted.type_params.len() != sig.type_params.len() {
            Some("the type parameters differ".to_string())
        } else if sig.params.len() > wanted.params.len()
            || wanted.params[sig.params.len()..].iter().any(|p| !p.optional)
        {
            Some(format!("it has {} parameter(s), not {}", wanted.params.len(), sig.params.len()))
        } else {
            let returns = expected(self, wanted.returns);
            let mut found = (returns != sig.returns && sig.returns != Ty::ERROR)
                .then(|| format!("it returns `{}`", self.show(returns)));
            for (w, p) in wanted.params.iter().zip(&sig.params) {
                let ty = expected(self, w.ty);
                if found.is_none() && p.ty != Ty::ERROR && (ty != p.ty || w.direction != p.direction) {
                    let direction = match w.direction {
                        Direction::None => "",
                        Direction::In => "in ",
                        Direction::Out => "out ",
                        Direction::InOut => "inout ",
                    };
                    found = Some(format!("its parameter `{}` is `{direction}{}`", p.name, self.show(ty)));
                }
            }
            found
        };
        let Some(problem) = problem else { return true };
        let message = format!("`{}` does not match its declaration: {problem}", sig.name);
        let d = Diagnostic::error("P0507", sig.span, message).related(wanted.span, "declared here");
        self.report(d.help("use the parameters and result of the declaration"));
        false
    }

    /// `this`
    pub fn this(&mut self, span: Span) -> tree::Expr {
        let Some(inside) = &self.cx.inside else {
            let help = "it refers to the object in the body of an abstract method";
            self.error("P0410", span, "`this` is outside any object", help);
            return tree::Expr::error(span);
        };
        let index = inside.this;
        let ty = self.tree.instances[index].new.ty;
        tree::Expr { kind: tree::ExprKind::Instance(index), ty, span }
    }

    /// Notes that `v` is used: an implementation captures the variables that it uses of the block around.
    pub fn note_use(&mut self, v: VarId) {
        let Some(inside) = &mut self.cx.inside else { return };
        if v.0 < inside.first && self.tree.vars[v.0].kind != VarKind::Ctor && !inside.captures.contains(&v) {
            inside.captures.push(v);
        }
    }

    /// An instance inside an initialiser is an instance of the block around.
    pub fn declare_instance(&mut self, name: &ast::Ident, index: usize) {
        self.declare(name, Def::Instance(index));
        if self.cx.place != Place::Top {
            self.cx.block.instances.push(index);
        }
    }
}
