//! Declarations at the top level, and those also allowed inside blocks.

use super::record::Meaning;
use super::scope::{Def, FnRef, TypeDef};
use super::signature::{ParamsOf, same_shape};
use super::tree::{self, ExprKind, Sig};
use super::types::{Kind, Ty};
use super::{Checker, Context, Place};
use crate::ast::{self, DeclKind};
use crate::diag::Diagnostic;
use pointsman_ir::{Annotations, Span};

impl Checker<'_> {
    /// The whole program.
    pub fn program(&mut self, program: &ast::Program) {
        for d in &program.decls {
            if let Some(name) = declared_name(&d.kind) {
                self.later.entry(name.name.clone()).or_insert(name.span);
            }
        }
        // Executors number errors from `NoError`, also if a program declares its own before it includes core.p4.
        let no_error = |d: &&ast::Decl| matches!(&d.kind, DeclKind::Error(names) if names.iter().any(|n| n.name == "NoError"));
        if program.decls.iter().any(|d| no_error(&d)) {
            self.tree.errors.push("NoError".into());
        }
        self.has_errors = program.decls.iter().any(|d| matches!(d.kind, DeclKind::Error(_)));
        for d in &program.decls {
            if let Some(name) = declared_name(&d.kind)
                && name.name == "main"
                && !matches!(
                    d.kind,
                    DeclKind::Instance(_) | DeclKind::Function(_) | DeclKind::ExternFunction(_)
                )
            {
                let help = "end the program with an instance such as `V1Switch(...) main;`";
                self.error("P0511", name.span, "`main` is not an instance of a package", help);
            }
            self.top_level(d);
        }
        if self.tree.main.is_none() && !self.failed() {
            let span = program.decls.last().map(|d| d.span).unwrap_or_default();
            self.error(
                super::NO_MAIN,
                span,
                "there is no package instance called `main`",
                "end the program with an instance such as `V1Switch(...) main;`",
            );
        }
    }

    fn top_level(&mut self, d: &ast::Decl) {
        self.cx = Context::default();
        if let DeclKind::Typedef(_)
        | DeclKind::Enum(_)
        | DeclKind::Package(_)
        | DeclKind::ExternObject(_)
        | DeclKind::Const(_) = &d.kind
        {
            // Nothing keeps them, but they have to be right.
            self.annotations(&d.annotations);
        }
        match &d.kind {
            DeclKind::Const(c) => self.const_decl(c),
            DeclKind::Instance(i) => {
                if let Some(index) = self.instance_decl(i, &d.annotations, d.span) {
                    self.tree.top_instances.push(index);
                    if i.name.name == "main" {
                        self.tree.main = Some(index);
                        if self.tree.main_package().is_none() {
                            let help = "end the program with an instance such as `V1Switch(...) main;`";
                            self.error("P0511", d.span, "`main` is not a package", help);
                        }
                    }
                }
            }
            DeclKind::Variable(v) => {
                let message = format!("`{}` is a variable at the top level", v.name.name);
                self.error("P0410", d.span, message, "make it a `const`, or declare it inside a block");
                self.declare(&v.name, Def::Broken);
            }
            DeclKind::Error(names) => self.errors(names),
            DeclKind::MatchKind(names) => self.match_kinds(names),
            DeclKind::Typedef(t) => self.typedef(t),
            DeclKind::NewType(t) => self.new_type(t, &d.annotations),
            DeclKind::Struct(s) => self.struct_decl(s, &d.annotations),
            DeclKind::Enum(e) => self.enum_decl(e),
            DeclKind::Parser(p) => self.parser_decl(p, &d.annotations),
            DeclKind::Control(c) => self.control_decl(c, &d.annotations),
            DeclKind::Package(p) => self.package_decl(p),
            DeclKind::ExternObject(e) => self.extern_object(e),
            DeclKind::ExternFunction(f) => {
                let sig = self.in_scope(|c| c.signature(f, &d.annotations, ParamsOf::Extern));
                self.check_overload(&f.name, &sig);
                self.tree.extern_fns.push(sig);
                self.declare(&f.name, Def::Functions(vec![FnRef::Extern(self.tree.extern_fns.len() - 1)]));
            }
            DeclKind::Function(f) => self.function_decl(f, &d.annotations),
            DeclKind::Action(a) => {
                self.action_decl(a, &d.annotations, false);
            }
            DeclKind::Table(t) => {
                self.error(
                    "P0410",
                    d.span,
                    "a table is not allowed at the top level",
                    "declare it inside a control",
                );
                self.declare(&t.name, Def::Broken);
            }
            DeclKind::ValueSet(v) => {
                if let Some(i) = self.value_set(v, &d.annotations) {
                    self.tree.top_value_sets.push(i);
                }
            }
            DeclKind::Empty => {}
        }
    }

    fn errors(&mut self, names: &[ast::Ident]) {
        for n in names {
            self.note_declared(n, || Meaning::Error);
            if n.name == "NoError" && !std::mem::replace(&mut self.no_error, true) {
                continue;
            }
            if self.tree.errors.contains(&n.name) {
                let message = format!("error `{}` is declared twice", n.name);
                self.error("P0302", n.span, message, "remove this one");
            } else {
                self.tree.errors.push(n.name.clone());
            }
        }
    }

    fn match_kinds(&mut self, names: &[ast::Ident]) {
        for n in names {
            self.note_declared(n, || Meaning::MatchKind);
            if self.tree.match_kinds.contains(&n.name) {
                let message = format!("match kind `{}` is declared twice", n.name);
                self.error("P0302", n.span, message, "remove this one");
            } else {
                self.tree.match_kinds.push(n.name.clone());
            }
        }
    }

    /// `const`
    pub fn const_decl(&mut self, c: &ast::ConstDecl) {
        let ty = self.ty(&c.ty);
        let value = self.value(&c.value);
        if ty == Ty::ERROR || value.ty == Ty::ERROR {
            self.declare(&c.name, Def::Broken);
            return;
        }
        if !self.is_value_type(ty) {
            let message = format!("a constant cannot have type `{}`", self.show(ty));
            self.error("P0406", c.ty.span, message, "use a type that has values");
            self.declare(&c.name, Def::Broken);
            return;
        }
        let value = self.coerce(value, ty, "the value of the constant");
        if matches!(value.kind, ExprKind::Error) {
            self.declare(&c.name, Def::Broken);
        } else if !matches!(value.kind, ExprKind::Const(_)) && !self.compile_time(&value) {
            let help = "use only literals and other constants, or make it a variable";
            self.error("P0501", value.span, "the value of a constant must be known at compile time", help);
            self.declare(&c.name, Def::Broken);
        } else {
            self.declare(&c.name, Def::Const(value));
        }
    }

    /// An instance; returns its index.
    pub fn instance_decl(
        &mut self,
        i: &ast::InstanceDecl,
        annotations: &[ast::Annotation],
        span: Span,
    ) -> Option<usize> {
        let annotations = self.annotations(annotations);
        let (ty, count) = match &i.ty.kind {
            ast::TypeExprKind::Stack(elem, size) => (elem.as_ref(), Some(size)),
            _ => (&i.ty, None),
        };
        let callee = ast::Expr { kind: ast::ExprKind::Type(ty.clone()), span: ty.span };
        let made = self.call(&callee, &[], &i.args, span);
        let ExprKind::New(mut new) = made.kind else {
            self.declare(&i.name, Def::Broken);
            return None;
        };
        if let Some(size) = count {
            let size = self.value(size);
            let n = self.const_u32(&size, "the size of an array")?;
            new.ty = self.tree.tys.intern(Kind::Stack(new.ty, n));
            self.unsupported(span, "an array of objects", "declare them one by one");
        }
        let mut fine = true;
        if self.tree.tys.any(new.ty, &|k| matches!(k, Kind::Infer(_))) {
            let message = format!("the type arguments of `{}` cannot be inferred", self.show(new.ty));
            self.error("P0405", span, message, "write them: `Type<...>(...) name;`");
            fine = false;
        }
        if self.cx.place == Place::Top && matches!(self.tree.tys.get(new.ty), Kind::Block(..)) {
            let help = "instantiate it inside a block, or as an argument of the package";
            self.error("P0507", span, "parsers and controls cannot be instantiated at the top level", help);
            fine = false;
        }
        if !fine {
            self.declare(&i.name, Def::Broken);
            return None;
        }
        self.tree.instances.push(tree::Instance {
            name: i.name.name.clone(),
            span,
            new: *new,
            annotations,
            anonymous: false,
            methods: Vec::new(),
        });
        let index = self.tree.instances.len() - 1;
        if let Some(init) = &i.init {
            self.initializer(index, init);
        }
        self.check_implemented(index, span);
        self.declare_instance(&i.name, index);
        Some(index)
    }

    fn package_decl(&mut self, p: &ast::PackageDecl) {
        let sig = self.in_scope(|c| {
            let type_params = c.type_params(&p.type_params);
            let params = c.params(&p.params, ParamsOf::Package);
            let annotations = Annotations::default();
            let (name, span) = (p.name.name.clone(), p.name.span);
            Sig { name, span, type_params, params, returns: Ty::VOID, annotations }
        });
        self.tree.packages.push(tree::Package { name: p.name.name.clone(), sig });
        self.declare(&p.name, Def::Type(TypeDef::Package(self.tree.packages.len() - 1)));
    }

    fn extern_object(&mut self, e: &ast::ExternObjectDecl) {
        self.tree.externs.push(tree::ExternDef {
            name: e.name.name.clone(),
            span: e.name.span,
            type_params: Vec::new(),
            ctors: Vec::new(),
            methods: Vec::new(),
            is_abstract: Vec::new(),
        });
        let index = self.tree.externs.len() - 1;
        self.declare(&e.name, Def::Type(TypeDef::Extern(index)));
        self.in_scope(|c| {
            let type_params = c.type_params(&e.type_params);
            c.tree.externs[index].type_params = type_params;
            for m in &e.methods {
                let of = if m.is_constructor { ParamsOf::ExternConstructor } else { ParamsOf::Method };
                let sig = c.in_scope(|c| c.signature(&m.proto, &m.annotations, of));
                if !m.is_constructor && sig.name == e.name.name {
                    let help = "remove the return type";
                    c.error("P0408", m.proto.returns.span, "a constructor has no return type", help);
                    continue;
                }
                let others = if m.is_constructor {
                    &c.tree.externs[index].ctors
                } else {
                    &c.tree.externs[index].methods
                };
                let same = others.iter().find(|o| o.name == sig.name && same_shape(&o.params, &sig.params));
                if let Some(first) = same.map(|o| o.span) {
                    c.duplicate(&m.proto.name, first);
                    continue;
                }
                if m.is_constructor {
                    c.tree.externs[index].ctors.push(sig);
                } else {
                    c.tree.externs[index].methods.push(sig);
                    c.tree.externs[index].is_abstract.push(m.is_abstract);
                }
            }
        });
    }

    fn function_decl(&mut self, f: &ast::FunctionDecl, annotations: &[ast::Annotation]) {
        self.scopes.push(Default::default());
        let sig = self.signature(&f.proto, annotations, ParamsOf::Function);
        let inner = self.scopes.pop().unwrap_or_default();
        self.check_overload(&f.proto.name, &sig);
        self.tree.functions.push(tree::Function {
            sig: sig.clone(),
            body: Vec::new(),
            captures: Vec::new(),
            done: false,
        });
        let index = self.tree.functions.len() - 1;
        self.declare(&f.proto.name, Def::Functions(vec![FnRef::Function(index)]));
        self.scopes.push(inner);
        self.declare_params(&f.proto.params, &sig.params);
        self.cx = Context { place: Place::Function, returns: Some(sig.returns), ..Context::default() };
        let body = self.block(&f.body);
        self.scopes.pop();
        self.check_returns(&sig, &body);
        let function = &mut self.tree.functions[index];
        function.body = body;
        function.done = true;
    }

    /// Reports a function that can come to its end without a value.
    pub fn check_returns(&mut self, sig: &Sig, body: &[tree::Stmt]) {
        if sig.returns != Ty::VOID
            && sig.returns != Ty::ERROR
            && !super::stmt::always_returns(body)
            && !self.failed()
        {
            let message = format!("`{}` does not always return a value", sig.name);
            let d = Diagnostic::error("P0409", sig.span, message);
            self.report(d.help("end every path with `return value;`"));
        }
    }
}

/// The name that a declaration introduces.
pub fn declared_name(d: &DeclKind) -> Option<&ast::Ident> {
    Some(match d {
        DeclKind::Const(d) => &d.name,
        DeclKind::Variable(d) => &d.name,
        DeclKind::Instance(d) => &d.name,
        DeclKind::Typedef(d) | DeclKind::NewType(d) => &d.name,
        DeclKind::Struct(d) => &d.name,
        DeclKind::Enum(d) => &d.name,
        DeclKind::Parser(d) => &d.name,
        DeclKind::Control(d) => &d.name,
        DeclKind::Package(d) => &d.name,
        DeclKind::ExternObject(d) => &d.name,
        DeclKind::ExternFunction(f) => &f.name,
        DeclKind::Function(f) => &f.proto.name,
        DeclKind::Action(d) => &d.name,
        DeclKind::Table(d) => &d.name,
        DeclKind::ValueSet(d) => &d.name,
        DeclKind::Error(_) | DeclKind::MatchKind(_) | DeclKind::Empty => return None,
    })
}
