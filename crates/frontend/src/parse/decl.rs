//! Declarations (sections 7, 10, 13 to 17).

use pointsman_ir::Span;

use super::{Abandon, NameKind, P, Parser};
use crate::ast::{
    ActionDecl, Annotation, Block, ConstDecl, ControlBody, ControlDecl, Decl, DeclKind, Direction, EnumDecl,
    ExternObjectDecl, FieldDecl, FunctionDecl, FunctionProto, Ident, InstanceDecl, MethodProto, PackageDecl,
    Param, ParserBody, ParserDecl, Path, SelectCase, StateDecl, Stmt, StmtKind, StructDecl, StructKind,
    Transition, TypeExpr, TypeExprKind, TypedefDecl, ValueSetDecl, VariableDecl,
};
use crate::diag::Diagnostic;

/// What stands before the body of a control or parser.
struct Head {
    name: Ident,
    type_params: Vec<Ident>,
    params: Vec<Param>,
    ctor_params: Vec<Param>,
}

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
                let d = Diagnostic::error("P0205", span, format!("`{word}` stands only in {home}"));
                self.report(d.help(format!("move it into {home}, or look for a `}}` too many above it")));
                return Err(Abandon);
            }
            "if" | "for" | "switch" | "return" | "exit" => {
                let d = Diagnostic::error("P0205", span, "a statement cannot stand at the top level");
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
                "=" | "." | "+=" | "-=" | "[" => "statements stand in functions, actions and `apply` blocks",
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
                format!("`{}` is a variable outside of a block", name.name),
            );
            let d = d.note("variables live in parsers, controls, actions and functions");
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
        if !matches!(ty.kind, TypeExprKind::Named(_) | TypeExprKind::Specialized(..)) {
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

    fn action(&mut self) -> P<DeclKind> {
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
                let message =
                    format!("`{}` has no return type and is no constructor of `{}`", name.name, object.name);
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

    // Parsers (section 13).

    /// Name, type parameters, parameters and, before a body, constructor parameters; the names are declared in a scope
    /// that the caller has made.
    fn head(&mut self, what: &str) -> P<Head> {
        self.bump();
        let name = self.name(&format!("the name of {what}"))?;
        // The type is known in the scope around as well, so that the declaration can be used after it.
        let scope = self.scopes.len().saturating_sub(2);
        if let Some(outer) = self.scopes.get_mut(scope) {
            outer.insert(name.name.as_str().into(), NameKind::Type);
        }
        let type_params = self.type_params()?;
        let params = self.params()?;
        let ctor_params = if self.at("(") { self.params()? } else { Vec::new() };
        Ok(Head { name, type_params, params, ctor_params })
    }

    fn parser(&mut self) -> P<DeclKind> {
        self.scoped(|p| {
            let h = p.head("a parser")?;
            let body = match p.at("{") {
                true => Some(p.parser_body(&h.name)?),
                false => {
                    p.prototype_end(&h)?;
                    None
                }
            };
            let Head { name, type_params, params, ctor_params } = h;
            Ok(DeclKind::Parser(ParserDecl { name, type_params, params, ctor_params, body }))
        })
    }

    fn prototype_end(&mut self, h: &Head) -> P<()> {
        if !self.at(";") && !self.peek().line_start {
            return Err(self.unexpected("`{` or `;`"));
        }
        self.semicolon("this declaration")?;
        if !h.ctor_params.is_empty() {
            let d =
                Diagnostic::error("P0201", h.name.span, "a type declaration has no constructor parameters");
            self.report(d.help("give it a body, or remove the second list of parameters"));
        }
        Ok(())
    }

    fn parser_body(&mut self, name: &Ident) -> P<ParserBody> {
        let (mut locals, mut states) = (Vec::new(), Vec::new());
        self.braced(false, |p| {
            let start = p.peek().span;
            let annotations = p.annotations()?;
            if p.at_word("state") {
                states.push(p.state(annotations, start)?);
                return Ok(());
            }
            let kind = match () {
                () if p.at_word("const") => p.const_decl()?,
                () if p.at_word("value_set") => p.value_set()?,
                () => p.local("a parser", "states")?,
            };
            let span = p.since(start);
            if !states.is_empty() {
                let d = Diagnostic::error("P0205", span, "declarations of a parser stand before its states");
                p.report(d.help("move it before the first `state`"));
            }
            locals.push(Decl { annotations, kind, span });
            Ok(())
        })?;
        if states.is_empty() && self.diags.is_empty() {
            let d = Diagnostic::error("P0212", name.span, format!("parser `{}` has no states", name.name));
            self.report(d.help("add `state start { transition accept; }`"));
        }
        Ok(ParserBody { locals, states })
    }

    /// A variable or instance in a control or parser; `instead` says where statements go.
    fn local(&mut self, of: &str, instead: &str) -> P<DeclKind> {
        let t = self.peek();
        let span = t.span;
        let other = match &*t.text {
            "action" | "table" if t.is_ident() => Some("actions and tables stand in controls"),
            "if" | "for" | "switch" | "return" | "exit" | "transition" if t.is_ident() => Some(""),
            _ if (self.is_name(0) || self.at("."))
                && !self.is_base_type(0)
                && (["=", ".", "+=", "-="].iter().any(|p| self.peek_at(1).is(p))) =>
            {
                Some("")
            }
            _ => None,
        };
        if let Some(why) = other {
            let d = Diagnostic::error("P0205", span, format!("expected a declaration or the rest of {of}"));
            self.report(match why {
                "" => d.help(format!("statements go into {instead}")),
                why => d.help(why),
            });
            return Err(Abandon);
        }
        let ty = self.type_ref()?;
        self.variable_or_instance(ty)
    }

    fn value_set(&mut self) -> P<DeclKind> {
        self.expect_word("value_set")?;
        self.expect("<")?;
        let elem = self.type_ref()?;
        self.expect(">")?;
        self.expect("(")?;
        let size = self.expr()?;
        self.expect(")")?;
        let name = self.name("the name of a value set")?;
        self.declare(&name, NameKind::Other);
        self.semicolon("this value set")?;
        Ok(DeclKind::ValueSet(ValueSetDecl { elem, size, name }))
    }

    fn state(&mut self, annotations: Vec<Annotation>, start: Span) -> P<StateDecl> {
        self.expect_word("state")?;
        let name = self.name("the name of a state")?;
        self.scoped(|p| {
            let mut body: Vec<Stmt> = Vec::new();
            let mut transition: Option<(Transition, Span)> = None;
            p.braced(true, |p| {
                let start = p.peek().span;
                if let Some((_, span)) = transition {
                    let d = Diagnostic::error("P0205", start, "nothing can follow the transition of a state");
                    p.report(d.related(span, "the transition").help("move it before `transition`"));
                }
                if p.at_word("transition") {
                    let t = p.transition()?;
                    transition = Some((t, p.since(start)));
                    return Ok(());
                }
                let s = p.statement()?;
                p.check_state_statement(&s);
                body.push(s);
                Ok(())
            })?;
            let transition = transition.map(|(t, _)| t);
            Ok(StateDecl { annotations, name, body, transition, span: p.since(start) })
        })
    }

    /// Some statements cannot stand in states (section 13.4).
    fn check_state_statement(&mut self, s: &Stmt) {
        let what = match s.kind {
            StmtKind::Switch { .. } => "`switch`",
            StmtKind::For { .. } | StmtKind::ForIn { .. } => "a loop",
            StmtKind::Return(_) => "`return`",
            StmtKind::Exit => "`exit`",
            StmtKind::Break => "`break`",
            StmtKind::Continue => "`continue`",
            _ => return,
        };
        let d = Diagnostic::error("P0205", s.span, format!("{what} cannot stand in a parser state"));
        self.report(
            d.help("states branch with `if` and `transition select`, and repeat by transitions back"),
        );
    }

    fn transition(&mut self) -> P<Transition> {
        self.bump();
        let start = self.peek().span;
        if !self.eat_word("select") {
            let next = self.name("a state, `accept`, `reject` or `select`")?;
            self.semicolon("this transition")?;
            return Ok(Transition::Direct(next));
        }
        self.expect("(")?;
        let mut on = Vec::new();
        if !self.at(")") {
            loop {
                on.push(self.inner_expr()?);
                if !self.eat(",") {
                    break;
                }
            }
        }
        if !self.at(")") {
            return Err(self.unexpected("`,` or `)`"));
        }
        self.bump();
        let mut cases = Vec::new();
        self.braced(true, |p| {
            let start = p.peek().span;
            let keys = p.key_set()?;
            if !p.at(":") {
                return Err(p.unexpected("`:` and a state"));
            }
            p.bump();
            let next = p.name("a state, `accept` or `reject`")?;
            p.semicolon("this case")?;
            cases.push(SelectCase { keys, next, span: p.since(start) });
            Ok(())
        })?;
        Ok(Transition::Select { on, cases, span: self.since(start) })
    }

    // Controls (section 14).

    fn control(&mut self) -> P<DeclKind> {
        self.scoped(|p| {
            let h = p.head("a control")?;
            let body = match p.at("{") {
                true => Some(p.control_body(&h.name)?),
                false => {
                    p.prototype_end(&h)?;
                    None
                }
            };
            let Head { name, type_params, params, ctor_params } = h;
            Ok(DeclKind::Control(ControlDecl { name, type_params, params, ctor_params, body }))
        })
    }

    fn control_body(&mut self, name: &Ident) -> P<ControlBody> {
        let mut locals = Vec::new();
        let mut apply: Option<Block> = None;
        let errors = self.diags.len();
        self.braced(false, |p| {
            let start = p.peek().span;
            let annotations = p.annotations()?;
            if p.at_word("apply") && (p.peek_at(1).is("{") || p.peek_at(1).is("@")) {
                p.bump();
                let block = p.annotated_block()?;
                if let Some(first) = &apply {
                    let d = Diagnostic::error("P0205", start, "this control has two `apply` blocks");
                    p.report(d.related(first.span, "the first one").help("join them"));
                } else {
                    apply = Some(block);
                }
                return Ok(());
            }
            let kind = match () {
                () if p.at_word("const") => p.const_decl()?,
                () if p.at_word("action") => p.action()?,
                () if p.at_word("table") => p.table()?,
                () if p.at("{") => {
                    let d = Diagnostic::error("P0204", start, "expected a declaration or `apply`, found `{`");
                    p.report(d.help("write `apply` before it"));
                    let block = p.annotated_block()?;
                    apply.get_or_insert(block);
                    return Ok(());
                }
                () => p.local("a control", "its `apply` block")?,
            };
            let span = p.since(start);
            if apply.is_some() {
                let d = Diagnostic::error("P0205", span, "nothing can follow the `apply` block of a control");
                p.report(d.help("move it before `apply`"));
            }
            locals.push(Decl { annotations, kind, span });
            Ok(())
        })?;
        let apply = match apply {
            Some(b) => b,
            None => {
                if self.diags.len() == errors {
                    let d = Diagnostic::error(
                        "P0204",
                        name.span,
                        format!("control `{}` has no `apply` block", name.name),
                    );
                    self.report(d.help("add `apply { ... }` at the end of the control"));
                }
                Block { annotations: Vec::new(), stmts: Vec::new(), span: name.span }
            }
        };
        Ok(ControlBody { locals, apply })
    }
}
