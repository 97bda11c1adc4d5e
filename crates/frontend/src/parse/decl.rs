//! Declarations (sections 7, 10, 13 to 17).

use pointsman_ir::Span;

use super::{Abandon, NameKind, P, Parser};
use crate::ast::{
    ActionDecl, Annotation, ConstDecl, Decl, DeclKind, Direction, EnumDecl, ExternObjectDecl, FieldDecl,
    FunctionDecl, FunctionProto, Ident, InstanceDecl, MethodProto, PackageDecl, Param, Path, StructDecl,
    StructKind, TypeExpr, TypeExprKind, TypedefDecl, VariableDecl,
};
use crate::diag::Diagnostic;

impl Parser {
    /// A declaration at the top level; `typedef struct S {...} T` gives two.
    pub(super) fn top_level(&mut self, out: &mut Vec<Decl>) -> P<()> {
        let start = self.peek().span;
        let annotations = self.annotations()?;
        let t = self.peek();
        let (word, span) = (t.text.clone(), t.span);
        let braces = self.peek_at(1).is("{");
        let kind = match if t.is_ident() { &*word } else { "" } {
            "const" => self.const_decl()?,
            "action" => self.action()?,
            "parser" => self.parser()?,
            "control" => self.control()?,
            "package" => self.package()?,
            "header" | "header_union" | "struct" | "enum" => self.derived_type()?,
            "extern" => match self.extern_decl()? {
                Some(kind) => kind,
                None => return Ok(()),
            },
            "typedef" => {
                let derived = ["header", "header_union", "struct", "enum"];
                let mut ahead = 1;
                while self.peek_at(ahead).is("@") {
                    ahead += 2;
                }
                if derived.iter().any(|w| self.peek_at(ahead).is_word(w)) {
                    return self.typedef_of_derived(start, annotations, out);
                }
                self.bump();
                DeclKind::Typedef(self.typedef()?)
            }
            "type" => {
                self.bump();
                DeclKind::NewType(self.typedef()?)
            }
            "error" if braces => {
                self.bump();
                DeclKind::Error(self.members("error")?)
            }
            "match_kind" if braces => {
                self.bump();
                DeclKind::MatchKind(self.members("match_kind")?)
            }
            "table" | "apply" | "value_set" | "state" if self.is_misplaced() => {
                let home = if matches!(&*word, "table" | "apply") { "a control" } else { "a parser" };
                let d = Diagnostic::error("P0205", span, format!("`{word}` is only allowed in {home}"));
                self.report(d.help(format!("move it into {home}, or look for an extra `}}` above it")));
                return Err(Abandon);
            }
            "if" | "for" | "switch" | "return" | "exit" => {
                let d = Diagnostic::error("P0205", span, "a statement is not allowed at the top level");
                self.report(d.help("move it into a function, action or `apply` block"));
                return Err(Abandon);
            }
            _ => self.function_or_instance(true)?,
        };
        out.push(Decl { annotations, kind, span: self.since(start) });
        Ok(())
    }

    fn is_misplaced(&self) -> bool {
        let next = self.peek_at(1);
        match &*self.peek().text {
            "table" | "value_set" => true,
            "apply" => next.is("{"),
            _ => next.is_ident() && self.peek_at(2).is("{"),
        }
    }

    /// `const T n = e;`
    pub(super) fn const_decl(&mut self) -> P<DeclKind> {
        self.expect_word("const")?;
        let ty = self.type_ref()?;
        let name = self.name("the name of a constant")?;
        let ty = self.stack_suffix(ty)?;
        if !self.at("=") {
            return Err(self.unexpected("`=` and the value of the constant"));
        }
        self.bump();
        let value = self.expr()?;
        self.semicolon("this constant")?;
        self.declare(&name, NameKind::Other);
        Ok(DeclKind::Const(ConstDecl { ty, name, value }))
    }

    /// A function (if `functions`) or an instance, both of which start with a type.
    fn function_or_instance(&mut self, top: bool) -> P<DeclKind> {
        if !self.at_word("void") && !self.is_base_type(0) && !self.at(".") && !self.is_name(0) {
            return Err(self.unexpected("a declaration"));
        }
        let ty = self.type_or_void()?;
        if self.at("(") {
            return self.variable_or_instance(ty);
        }
        if !self.is_name(0) && !self.peek().is_ident() {
            let hint = match &*self.peek().text {
                "=" | "." | "+=" | "-=" | "[" => "statements belong in functions, actions and `apply` blocks",
                _ => "a declaration starts with a keyword or with a type and a name",
            };
            let d = Diagnostic::error("P0201", self.peek().span, "expected a name after this type");
            self.report(d.related(ty.span, "read as a type").help(hint));
            return Err(Abandon);
        }
        let name = self.name("the name of a function")?;
        if self.at("(") || self.at("<") {
            return self.function(ty, name);
        }
        if self.at("=") || self.at(";") || self.at("[") {
            let d = Diagnostic::error(
                "P0210",
                name.span,
                format!("`{}` is a variable outside any block", name.name),
            );
            let d = d.note("variables belong in parsers, controls, actions and functions");
            self.report(if top {
                d.help("for a constant, write `const` before it")
            } else {
                d.help("move it")
            });
            return Err(Abandon);
        }
        Err(self.unexpected("`(` and parameters"))
    }

    /// `T n;`, `T n = e;`, `T(args) n;`, `T(args) n = {...};` after the type.
    pub(super) fn variable_or_instance(&mut self, ty: TypeExpr) -> P<DeclKind> {
        if !self.at("(") {
            let name = self.name("the name of a variable")?;
            let kind = self.variable(ty, name)?;
            if self.at("(") || self.at("<") {
                let d = Diagnostic::error("P0205", self.peek().span, "a function cannot be declared here");
                self.report(d.help("functions are declared at the top level"));
                return Err(Abandon);
            }
            self.semicolon("this declaration")?;
            return Ok(kind);
        }
        let of = match &ty.kind {
            TypeExprKind::Stack(of, _) => of,
            _ => &ty,
        };
        if !matches!(of.kind, TypeExprKind::Named(_) | TypeExprKind::Specialized(..)) {
            let d = Diagnostic::error("P0201", ty.span, "this type has no constructor");
            self.report(d.help("only externs, controls, parsers and packages are instantiated with `(...)`"));
            return Err(Abandon);
        }
        let args = self.args()?;
        let name = self.name("the name of an instance")?;
        let ty = self.stack_suffix(ty)?;
        self.declare(&name, NameKind::Other);
        let init = if self.eat("=") { Some(self.instance_body()?) } else { None };
        self.semicolon("this instance")?;
        Ok(DeclKind::Instance(InstanceDecl { ty, args, name, init }))
    }

    /// The rest of a variable, without the semicolon.
    pub(super) fn variable(&mut self, ty: TypeExpr, name: Ident) -> P<DeclKind> {
        let ty = self.stack_suffix(ty)?;
        let init = if self.eat("=") { Some(self.expr()?) } else { None };
        self.declare(&name, NameKind::Other);
        Ok(DeclKind::Variable(VariableDecl { ty, name, init }))
    }

    /// `{ ... }` after an instance: functions and instances (section 11.3.1).
    pub(super) fn instance_body(&mut self) -> P<Vec<Decl>> {
        self.nested(|p| {
            p.scoped(|p| {
                let mut decls = Vec::new();
                p.braced(false, |p| {
                    let start = p.peek().span;
                    let annotations = p.annotations()?;
                    let kind = p.function_or_instance(false)?;
                    decls.push(Decl { annotations, kind, span: p.since(start) });
                    Ok(())
                })?;
                Ok(decls)
            })
        })
    }

    fn function(&mut self, returns: TypeExpr, name: Ident) -> P<DeclKind> {
        self.declare_function(&name);
        self.scoped(|p| {
            let proto = p.signature(returns, name)?;
            let body = p.annotated_block()?;
            Ok(DeclKind::Function(FunctionDecl { proto, body }))
        })
    }

    fn declare_function(&mut self, name: &Ident) {
        let kind = if self.at("<") { NameKind::Generic } else { NameKind::Other };
        self.declare(name, kind);
    }

    /// Type parameters and parameters.
    fn signature(&mut self, returns: TypeExpr, name: Ident) -> P<FunctionProto> {
        let type_params = self.type_params()?;
        let params = self.params()?;
        Ok(FunctionProto { returns, name, type_params, params })
    }

    pub(super) fn params(&mut self) -> P<Vec<Param>> {
        self.expect("(")?;
        let mut params: Vec<Param> = Vec::new();
        if !self.at(")") {
            loop {
                params.push(self.param()?);
                if !self.eat(",") {
                    break;
                }
            }
        }
        if !self.at(")") {
            return Err(self.unexpected("`,` or `)` after this parameter"));
        }
        self.bump();
        for p in &params {
            self.declare(&p.name, NameKind::Other);
        }
        Ok(params)
    }

    fn param(&mut self) -> P<Param> {
        let start = self.peek().span;
        let annotations = self.annotations()?;
        let direction = match () {
            () if self.eat_word("in") => Direction::In,
            () if self.eat_word("out") => Direction::Out,
            () if self.eat_word("inout") => Direction::InOut,
            () => Direction::None,
        };
        let ty = self.type_ref()?;
        let name = self.name("the name of a parameter")?;
        let ty = self.stack_suffix(ty)?;
        let default = if self.eat("=") { Some(self.expr()?) } else { None };
        Ok(Param { annotations, direction, ty, name, default, span: self.since(start) })
    }

    pub(super) fn action(&mut self) -> P<DeclKind> {
        self.expect_word("action")?;
        let name = self.name("the name of an action")?;
        self.declare(&name, NameKind::Other);
        self.scoped(|p| {
            let params = p.params()?;
            let body = p.annotated_block()?;
            Ok(DeclKind::Action(ActionDecl { name, params, body }))
        })
    }

    fn package(&mut self) -> P<DeclKind> {
        self.expect_word("package")?;
        let name = self.name("the name of a package")?;
        self.declare(&name, NameKind::Type);
        self.scoped(|p| {
            let type_params = p.type_params()?;
            let params = p.params()?;
            p.semicolon("this package")?;
            Ok(DeclKind::Package(PackageDecl { name, type_params, params }))
        })
    }

    // Types.

    fn typedef(&mut self) -> P<TypedefDecl> {
        let ty = self.type_ref()?;
        let name = self.name("the name of a type")?;
        let ty = self.stack_suffix(ty)?;
        self.semicolon("this type")?;
        self.declare(&name, NameKind::Type);
        Ok(TypedefDecl { ty, name })
    }

    fn typedef_of_derived(
        &mut self,
        start: Span,
        annotations: Vec<Annotation>,
        out: &mut Vec<Decl>,
    ) -> P<()> {
        self.bump();
        let inner = self.peek().span;
        let inner_annotations = self.annotations()?;
        let kind = self.derived_type()?;
        let name = match &kind {
            DeclKind::Struct(s) => s.name.clone(),
            DeclKind::Enum(e) => e.name.clone(),
            _ => return Err(self.unexpected("a structure")),
        };
        out.push(Decl { annotations: inner_annotations, kind, span: self.since(inner) });
        let path = Path { rooted: false, name };
        let ty = TypeExpr { span: path.name.span, kind: TypeExprKind::Named(path) };
        let name = self.name("the name of a type")?;
        let ty = self.stack_suffix(ty)?;
        self.semicolon("this type")?;
        self.declare(&name, NameKind::Type);
        let kind = DeclKind::Typedef(TypedefDecl { ty, name });
        out.push(Decl { annotations, kind, span: self.since(start) });
        Ok(())
    }

    /// `header`, `header_union`, `struct`, `enum`.
    fn derived_type(&mut self) -> P<DeclKind> {
        let kind = match () {
            () if self.eat_word("header") => StructKind::Header,
            () if self.eat_word("header_union") => StructKind::HeaderUnion,
            () if self.eat_word("struct") => StructKind::Struct,
            () => return self.enum_decl(),
        };
        let name = self.name("the name of a type")?;
        self.declare(&name, NameKind::Type);
        self.scoped(|p| {
            let type_params = p.type_params()?;
            let mut fields = Vec::new();
            p.braced(false, |p| {
                let annotations = p.annotations()?;
                let ty = p.type_ref()?;
                let name = p.name("the name of a field")?;
                let ty = p.stack_suffix(ty)?;
                if p.at(",") {
                    let d = Diagnostic::error("P0201", p.peek().span, "expected `;`, found `,`");
                    p.report(d.help("every field ends with `;`"));
                    p.bump();
                } else {
                    p.semicolon("this field")?;
                }
                fields.push(FieldDecl { annotations, ty, name });
                Ok(())
            })?;
            Ok(DeclKind::Struct(StructDecl { kind, name, type_params, fields }))
        })
    }

    fn enum_decl(&mut self) -> P<DeclKind> {
        self.expect_word("enum")?;
        let plain = self.is_name(0) && self.peek_at(1).is("{");
        let repr = if plain { None } else { Some(self.type_ref()?) };
        let name = self.name("the name of an enumeration")?;
        self.declare(&name, NameKind::Type);
        let open = self.expect("{")?;
        let mut members = Vec::new();
        while !self.at("}") {
            let member = self.name("a member of this enumeration")?;
            let value = match (&repr, self.at("=")) {
                (Some(_), true) => {
                    self.bump();
                    Some(self.expr()?)
                }
                (Some(_), false) => return Err(self.unexpected("`=` and the value of this member")),
                (None, true) => {
                    let d = Diagnostic::error(
                        "P0212",
                        self.peek().span,
                        "a member without a type cannot have a value",
                    );
                    self.report(d.help(format!("give the enumeration a type: `enum bit<8> {}`", name.name)));
                    self.bump();
                    self.expr()?;
                    None
                }
                (None, false) => None,
            };
            members.push((member, value));
            if !self.comma() {
                break;
            }
        }
        self.end_of_members(open, members.is_empty())?;
        Ok(DeclKind::Enum(EnumDecl { repr, name, members }))
    }

    /// `{ A, B }` of `error` and `match_kind`.
    fn members(&mut self, of: &str) -> P<Vec<Ident>> {
        let open = self.expect("{")?;
        let mut names = Vec::new();
        while !self.at("}") {
            names.push(self.name(&format!("the name of a member of `{of}`"))?);
            if !self.comma() {
                break;
            }
        }
        self.end_of_members(open, names.is_empty())?;
        Ok(names)
    }

    /// A comma between members; a semicolon is reported and taken for one.
    fn comma(&mut self) -> bool {
        if self.at(";") {
            let d = Diagnostic::error("P0201", self.peek().span, "expected `,` or `}`, found `;`");
            self.report(d.help("members are separated by `,`"));
            self.bump();
            return true;
        }
        self.eat(",")
    }

    fn end_of_members(&mut self, open: Span, empty: bool) -> P<()> {
        if !self.at("}") {
            return Err(self.unexpected("`,` or `}`"));
        }
        if empty {
            let d = Diagnostic::error(
                "P0212",
                super::join(open, self.peek().span),
                "a list of members cannot be empty",
            );
            self.report(d.help("declare at least one member"));
        }
        self.bump();
        Ok(())
    }

    // Externs (section 10).

    /// `None`: `extern name;`, which p4c takes as an announcement.
    fn extern_decl(&mut self) -> P<Option<DeclKind>> {
        self.expect_word("extern")?;
        if self.is_name(0) && self.peek_at(1).is(";") {
            let name = self.name("the name of an extern")?;
            self.declare(&name, NameKind::Type);
            self.bump();
            return Ok(None);
        }
        if self.is_name(0) && (self.peek_at(1).is("{") || self.peek_at(1).is("<")) {
            let pos = self.pos;
            let object = self.attempt(|p| {
                p.scoped(|p| {
                    p.bump();
                    p.type_params()?;
                    p.expect("{")
                })
            });
            self.pos = pos;
            if object.is_some() {
                return self.extern_object().map(Some);
            }
        }
        let returns = self.type_or_void()?;
        let name = self.name("the name of an extern function")?;
        self.declare_function(&name);
        let proto = self.scoped(|p| p.signature(returns, name))?;
        if self.at("{") {
            let d = Diagnostic::error("P0201", self.peek().span, "an extern function has no body");
            self.report(d.help("remove `extern`, or replace the body by `;`"));
            self.annotated_block()?;
        } else {
            self.semicolon("this function")?;
        }
        Ok(Some(DeclKind::ExternFunction(proto)))
    }

    fn extern_object(&mut self) -> P<DeclKind> {
        let name = self.name("the name of an extern")?;
        self.declare(&name, NameKind::Type);
        self.scoped(|p| {
            let type_params = p.type_params()?;
            let mut methods = Vec::new();
            p.braced(false, |p| {
                methods.push(p.method(&name)?);
                Ok(())
            })?;
            Ok(DeclKind::ExternObject(ExternObjectDecl { name, type_params, methods }))
        })
    }

    fn method(&mut self, object: &Ident) -> P<MethodProto> {
        let annotations = self.annotations()?;
        let is_abstract = self.eat_word("abstract");
        let is_constructor = self.is_name(0) && self.peek_at(1).is("(");
        let (returns, name) = if is_constructor {
            let name = self.name("a constructor")?;
            if name.name != object.name {
                let message = format!(
                    "`{}` has no return type and is not a constructor of `{}`",
                    name.name, object.name
                );
                self.report(Diagnostic::error("P0201", name.span, message).help("write `void` before it"));
            }
            (TypeExpr { kind: TypeExprKind::Void, span: name.span }, name)
        } else {
            (self.type_or_void()?, self.name("the name of a method")?)
        };
        if !is_constructor {
            self.declare_function(&name);
        }
        let proto = self.scoped(|p| p.signature(returns, name))?;
        self.semicolon("this method")?;
        Ok(MethodProto { annotations, is_abstract, is_constructor, proto })
    }
}
