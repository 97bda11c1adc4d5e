//! Declarations at the top level, and those also allowed inside blocks.

use super::eval::{self, Const, Evaluator, Stop};
use super::record::Meaning;
use super::scope::{Def, FnRef, TypeDef};
use super::signature::{ParamsOf, same_shape};
use super::tree::{self, ExprKind, FieldDef, Sig, StructKind};
use super::types::{Kind, Ty};
use super::{Checker, Context, Place};
use crate::ast::{self, DeclKind};
use crate::diag::Diagnostic;
use pointsman_ir::{Annotation, AnnotationBody, AnnotationToken, AnnotationValue, Annotations, Span};

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

    /// Annotations as the IR has them; constants in structured ones are evaluated.
    pub fn annotations(&mut self, list: &[ast::Annotation]) -> Annotations {
        let mut out = Vec::new();
        for a in list {
            let body = match &a.body {
                ast::AnnotationBody::Empty => AnnotationBody::Empty,
                ast::AnnotationBody::Tokens(t) if a.name.name == "field_list" => {
                    AnnotationBody::Tokens(self.evaluated_tokens(t, a.span))
                }
                ast::AnnotationBody::Tokens(t) => AnnotationBody::Tokens(t.clone()),
                ast::AnnotationBody::List(es) => {
                    AnnotationBody::List(es.iter().filter_map(|e| self.structured_value(e)).collect())
                }
                ast::AnnotationBody::Pairs(ps) => {
                    let pair = |c: &mut Self, (n, e): &(ast::Ident, ast::Expr)| {
                        c.structured_value(e).map(|v| (n.name.clone(), v))
                    };
                    self.check_annotation_keys(ps);
                    AnnotationBody::Pairs(ps.iter().filter_map(|p| pair(self, p)).collect())
                }
            };
            let body = joined(body);
            let one_string = matches!(&body, AnnotationBody::Tokens(t) if matches!(t.as_slice(), [AnnotationToken::String(_)]));
            let name = a.name.name.as_str();
            if matches!(name, "name" | "deprecated") && !one_string {
                let message = format!("`@{name}` takes one string");
                self.error("P0416", a.span, message, format!("write `@{name}(\"...\")`"));
                continue;
            }
            if let Some(help) = self.wrong_body(name, &body) {
                self.error("P0416", a.span, format!("`@{name}` does not take this"), help);
                continue;
            }
            let structured =
                |b: &AnnotationBody| matches!(b, AnnotationBody::List(_) | AnnotationBody::Pairs(_));
            if out.iter().any(|o: &Annotation| o.name == name && (structured(&o.body) || structured(&body))) {
                let message = format!("`@{name}` is already given");
                self.error("P0416", a.span, message, "give a structured annotation once");
                continue;
            }
            let names = |name: &str| matches!(name, "name" | "hidden");
            if names(name) && out.iter().any(|o: &Annotation| names(&o.name)) {
                let message = "an element has at most one `@name` or `@hidden`";
                let d = Diagnostic::warning("P0416", a.span, message);
                self.report(d.help("remove this one: the first counts"));
            }
            out.push(Annotation { name: a.name.name.clone(), body });
        }
        Annotations(out)
    }

    /// The expected form of known annotations.
    fn wrong_body(&self, name: &str, body: &AnnotationBody) -> Option<&'static str> {
        use AnnotationToken::{Int, Other, String};
        let fine = match (name, body) {
            ("pkginfo", AnnotationBody::Empty) => {
                return Some("write `@pkginfo[name=\"...\", version=\"...\"]`");
            }
            ("match", AnnotationBody::Tokens(ts)) => match ts.as_slice() {
                [Other(kind)] => self.tree.match_kinds.is_empty() || self.tree.match_kinds.contains(kind),
                _ => false,
            },
            ("p4runtime_translation", AnnotationBody::Tokens(ts)) => match ts.as_slice() {
                [String(_), Other(comma), first, ..] if comma == "," => {
                    matches!(first, Int(..)) || matches!(first, Other(t) if t == "bit" || t == "string")
                }
                _ => false,
            },
            _ => true,
        };
        match (fine, name) {
            (true, _) => None,
            (_, "match") => Some("write `@match(ternary)`, or another match kind that is declared"),
            _ => Some("write `@p4runtime_translation(\"uri\", bit<W>)`, or `string` instead of `bit<W>`"),
        }
    }

    /// The tokens of an annotation that takes a list of expressions although it is unstructured, as v1model's
    /// `@field_list` does: arguments `NAME` and `ENUM.MEMBER` become their numbers.
    fn evaluated_tokens(&mut self, tokens: &[AnnotationToken], span: Span) -> Vec<AnnotationToken> {
        let comma = AnnotationToken::Other(",".into());
        let mut out = Vec::new();
        for argument in tokens.split(|t| *t == comma) {
            if !out.is_empty() {
                out.push(comma.clone());
            }
            let ident = |name: &str| ast::Ident { name: name.into(), span };
            let name = |n: &str| {
                let path = ast::Path { rooted: false, name: ident(n) };
                ast::Expr { kind: ast::ExprKind::Name(path), span }
            };
            let is_name = |n: &str| n.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            let expr = match argument {
                [AnnotationToken::Other(n)] if is_name(n) => Some(name(n)),
                [AnnotationToken::Other(e), AnnotationToken::Other(dot), AnnotationToken::Other(m)]
                    if dot == "." && is_name(e) && is_name(m) =>
                {
                    Some(ast::Expr { kind: ast::ExprKind::Member(Box::new(name(e)), ident(m)), span })
                }
                _ => None,
            };
            match expr.map(|e| self.annotation_value(&e)) {
                Some(Some(AnnotationValue::Int(i))) => {
                    let written = i.to_string();
                    out.push(AnnotationToken::Int(i, written));
                }
                // An error has been reported.
                Some(None) => {}
                _ => out.extend_from_slice(argument),
            }
        }
        out
    }

    /// P4_16 section 20.1: no key twice.
    fn check_annotation_keys(&mut self, pairs: &[(ast::Ident, ast::Expr)]) {
        for (i, (key, _)) in pairs.iter().enumerate() {
            if pairs[..i].iter().any(|(earlier, _)| earlier.name == key.name) {
                let message = format!("key `{}` is already given", key.name);
                self.error("P0416", key.span, message, "give each key once");
            }
        }
    }

    /// A value of a structured annotation: of type `string`, `int` or `bool` (P4_16 section 20.1).
    fn structured_value(&mut self, e: &ast::Expr) -> Option<AnnotationValue> {
        let value = self.annotation_value(e)?;
        if matches!(value, AnnotationValue::Int(_)) && self.value(e).ty != Ty::INT {
            let help = "write the number without a width";
            self.error("P0416", e.span, "a number in an annotation has type `int`", help);
            return None;
        }
        Some(value)
    }

    fn annotation_value(&mut self, e: &ast::Expr) -> Option<AnnotationValue> {
        let v = self.value(e);
        if v.ty == Ty::ERROR {
            return None;
        }
        let value = Evaluator { tree: &self.tree, vars: &|_| None }.eval(&v);
        match value {
            Ok(Const::Str(s)) => Some(AnnotationValue::String(s)),
            Ok(Const::Bool(b)) => Some(AnnotationValue::Bool(b)),
            Ok(c) => {
                let int = Evaluator { tree: &self.tree, vars: &|_| None }.as_int(&c, v.ty);
                if int.is_none() {
                    let help = "use a string, an integer or a boolean";
                    self.error("P0416", v.span, "this value is not allowed in an annotation", help);
                }
                int.map(AnnotationValue::Int)
            }
            Err(_) => {
                let help = "use a literal or a constant";
                self.error("P0501", v.span, "a value in an annotation must be known at compile time", help);
                None
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

    fn typedef(&mut self, t: &ast::TypedefDecl) {
        let ty = self.ty(&t.ty);
        if matches!(self.tree.tys.get(ty), Kind::Void | Kind::MatchKind | Kind::String) {
            let message = format!("`{}` cannot be given another name", self.show(ty));
            self.error("P0406", t.ty.span, message, "use it directly (P4_16 section 7.2.11)");
        }
        self.declare(&t.name, if ty == Ty::ERROR { Def::Broken } else { Def::Type(TypeDef::Alias(ty)) });
    }

    fn new_type(&mut self, t: &ast::TypedefDecl, annotations: &[ast::Annotation]) {
        let annotations = self.annotations(annotations);
        let base = self.ty(&t.ty);
        if base == Ty::ERROR {
            self.declare(&t.name, Def::Broken);
            return;
        }
        let allowed = match self.tree.tys.get(base) {
            Kind::Bits { .. } | Kind::Bool | Kind::New(_) => true,
            Kind::Enum(_) => self.tree.enum_repr(base).is_some(),
            _ => false,
        };
        if !allowed {
            let message = format!("a new type cannot be based on `{}`", self.show(base));
            self.error("P0406", t.ty.span, message, "use `bit<W>`, `int<W>`, `bool` or a type based on them");
            self.declare(&t.name, Def::Broken);
            return;
        }
        self.tree.new_types.push(tree::NewType { name: t.name.name.clone(), base, annotations });
        self.declare(&t.name, Def::Type(TypeDef::New(self.tree.new_types.len() - 1)));
    }

    /// Declares type parameters in the innermost scope.
    pub fn type_params(&mut self, names: &[ast::Ident]) -> Vec<Ty> {
        let mut out = Vec::new();
        for n in names {
            self.tree.type_params.push(tree::TypeParam { name: n.name.clone() });
            let ty = self.tree.tys.intern(Kind::Param(self.tree.type_params.len() - 1));
            self.declare(n, Def::Type(TypeDef::Alias(ty)));
            out.push(ty);
        }
        out
    }

    fn struct_decl(&mut self, s: &ast::StructDecl, annotations: &[ast::Annotation]) {
        let annotations = self.annotations(annotations);
        let (type_params, fields) = self.in_scope(|c| {
            let type_params = c.type_params(&s.type_params);
            let mut fields: Vec<FieldDef> = Vec::new();
            for f in &s.fields {
                let annotations = c.annotations(&f.annotations);
                let ty = c.ty(&f.ty);
                c.check_field(s.kind, ty, f.ty.span);
                if let Some(first) = fields.iter().find(|o| o.name == f.name.name) {
                    let first = first.span;
                    c.duplicate(&f.name, first);
                    continue;
                }
                fields.push(FieldDef { name: f.name.name.clone(), ty, span: f.name.span, annotations });
            }
            (type_params, fields)
        });
        self.tree.structs.push(tree::StructDef {
            kind: s.kind,
            name: s.name.name.clone(),
            span: s.name.span,
            type_params,
            fields,
            annotations,
        });
        let index = self.tree.structs.len() - 1;
        if s.type_params.is_empty() {
            let ty = self.tree.tys.intern(Kind::Struct(index, Vec::new()));
            if self.limited(ty, s.name.span) == Ty::ERROR {
                self.declare(&s.name, Def::Broken);
                return;
            }
        }
        self.declare(&s.name, Def::Type(TypeDef::Struct(index)));
    }

    /// P4_16 section 7.2.11
    pub fn check_field(&mut self, kind: StructKind, ty: Ty, span: Span) {
        match kind {
            StructKind::Struct => self.check_nesting(ty, span, "a struct"),
            StructKind::Header => {
                if !self.fits_header(ty) {
                    let message = format!("`{}` cannot be a field of a header", self.show(ty));
                    let help = "use `bit<W>`, `int<W>`, `varbit<W>`, `bool`, an enum with a representation, or a \
                                struct of these";
                    self.error("P0406", span, message, help);
                }
            }
            StructKind::HeaderUnion => {
                let header = self.tree.is_struct(ty, &[StructKind::Header]);
                if !header && !matches!(self.tree.tys.get(ty), Kind::Param(_) | Kind::Infer(_) | Kind::Error)
                {
                    let message = format!("`{}` cannot be a field of a header union", self.show(ty));
                    self.error("P0406", span, message, "use a header");
                }
            }
        }
    }

    fn fits_header(&mut self, ty: Ty) -> bool {
        match self.tree.tys.get(ty).clone() {
            Kind::Bits { .. } | Kind::Varbit(_) | Kind::Bool | Kind::Error => true,
            Kind::Param(_) | Kind::Infer(_) => true,
            Kind::Enum(_) => self.tree.enum_repr(ty).is_some(),
            Kind::New(d) => self.fits_header(self.tree.new_types[d].base),
            // As for structs, types of varying size cannot be inside.
            Kind::Stack(t, _) => {
                !self.tree.tys.any(t, &|k| matches!(k, Kind::Varbit(_))) && self.fits_header(t)
            }
            Kind::Struct(d, _) if self.tree.structs[d].kind == StructKind::Struct => {
                let fields = self.tree.fields(ty).unwrap_or_default();
                fields.into_iter().all(|(_, t)| self.fits_header(t))
            }
            _ => false,
        }
    }

    fn enum_decl(&mut self, e: &ast::EnumDecl) {
        let repr = e.repr.as_ref().map(|t| {
            let ty = self.ty(t);
            if ty != Ty::ERROR && self.tree.tys.bits(ty).is_none() {
                let message = format!("`{}` cannot represent an enum", self.show(ty));
                self.error("P0406", t.span, message, "use `bit<W>` or `int<W>`");
                return Ty::ERROR;
            }
            ty
        });
        // A value may name earlier members.
        let index = self.tree.enums.len();
        let (name, span) = (e.name.name.clone(), e.name.span);
        self.tree.enums.push(tree::EnumDef { name, span, repr, members: Vec::new() });
        self.scopes.push(Default::default());
        let mut spans: Vec<Span> = Vec::new();
        for (name, value) in &e.members {
            let members = &self.tree.enums[index].members;
            if let Some(i) = members.iter().position(|(n, _)| *n == name.name) {
                let first = spans[i];
                self.duplicate(name, first);
                continue;
            }
            let bits = self.member_value(name, value.as_ref(), repr);
            if let Some(bits) = &bits {
                let ty = self.tree.tys.intern(Kind::Enum(index));
                let value = tree::Expr::constant(Const::Bits(bits.clone()), ty, name.span);
                self.declare(name, Def::Const(value));
            }
            self.note_declared(name, || Meaning::EnumMember(index));
            self.tree.enums[index].members.push((name.name.clone(), bits));
            spans.push(name.span);
        }
        self.scopes.pop();
        if e.members.is_empty() {
            self.error("P0508", e.name.span, "an enum needs at least one member", "add one");
        }
        self.declare(&e.name, Def::Type(TypeDef::Enum(index)));
    }

    fn member_value(
        &mut self,
        name: &ast::Ident,
        value: Option<&ast::Expr>,
        repr: Option<Ty>,
    ) -> Option<pointsman_ir::Bits> {
        let (span, message, help) = match (repr, value) {
            (Some(repr), Some(v)) => return self.enum_value(v, repr),
            (Some(_), None) => (
                name.span,
                format!("`{}` has no value, but the enum has a representation", name.name),
                "give it one: `name = value`",
            ),
            (None, Some(v)) => (
                v.span,
                "a member has a value, but the enum has no representation".to_string(),
                "declare the representation: `enum bit<8> ...`",
            ),
            (None, None) => return None,
        };
        self.error("P0508", span, message, help);
        None
    }

    fn enum_value(&mut self, v: &ast::Expr, repr: Ty) -> Option<pointsman_ir::Bits> {
        let e = self.value(v);
        let (width, signed) = self.tree.tys.bits(repr)?;
        if e.ty == Ty::ERROR {
            return None;
        }
        let e = if e.ty == Ty::INT { e } else { self.coerce(e, repr, "the value") };
        let int = Evaluator { tree: &self.tree, vars: &|_| None }.eval_int(&e);
        match int {
            Ok(i) => {
                let (bits, lost) = eval::truncate(&i, width, signed);
                if lost {
                    let message = format!("{i} does not fit `{}`", self.show(repr));
                    self.error("P0508", e.span, message, "use a smaller value or a wider representation");
                }
                Some(bits)
            }
            Err(Stop::Bad(d)) => {
                self.report(*d);
                None
            }
            Err(Stop::NotConstant(_)) => {
                if !matches!(e.kind, ExprKind::Error) {
                    let help = "use a literal or a constant";
                    self.error("P0501", e.span, "the value of a member must be known at compile time", help);
                }
                None
            }
        }
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

/// `"a" ++ "b"` as one string.
fn joined(body: AnnotationBody) -> AnnotationBody {
    let AnnotationBody::Tokens(tokens) = &body else { return body };
    let mut whole = String::new();
    let mut parts = tokens.split(|t| *t == AnnotationToken::Other("++".into()));
    let fine = parts.all(|part| match part {
        [AnnotationToken::String(s)] => {
            whole += s;
            true
        }
        _ => false,
    });
    if fine { AnnotationBody::Tokens(vec![AnnotationToken::String(whole)]) } else { body }
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
