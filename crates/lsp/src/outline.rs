//! The tree of declarations, and the part of the program in which each name is visible.

use pointsman_frontend::ast::{
    Annotation, Block, Decl, DeclKind, FunctionProto, Ident, MethodProto, Param, Program, StateDecl, Stmt,
    StmtKind, StructKind, TypeExpr,
};
use pointsman_frontend::index::SymbolKind;
use pointsman_ir::Span;

/// A declaration.
#[derive(Clone, Debug)]
pub struct Item {
    pub name: String,
    /// The name in the declaration.
    pub name_span: Span,
    pub kind: SymbolKind,
    /// All of the declaration.
    pub span: Span,
    /// Where the name alone is understood. `None`: everywhere after it, or nowhere for members.
    pub scope: Option<Span>,
    /// Understood only behind a dot, or in one place of its owner.
    pub member: bool,
    pub children: Vec<Item>,
}

/// The declarations of a program.
pub fn items(program: &Program) -> Vec<Item> {
    program.decls.iter().flat_map(|d| decl(d, None)).collect()
}

/// All items, those inside of others included.
pub fn each<'a>(items: &'a [Item], f: &mut dyn FnMut(&'a Item)) {
    for i in items {
        f(i);
        each(&i.children, f);
    }
}

fn item(name: &Ident, kind: SymbolKind, span: Span, scope: Option<Span>) -> Item {
    let span = if span.file == name.span.file { span } else { name.span };
    Item {
        name: name.name.clone(),
        name_span: name.span,
        kind,
        span,
        scope,
        member: false,
        children: Vec::new(),
    }
}

fn member(name: &Ident, kind: SymbolKind, span: Span) -> Item {
    Item { member: true, ..item(name, kind, span, None) }
}

/// From the type to the name.
fn typed(annotations: &[Annotation], ty: &TypeExpr, name: &Ident) -> Span {
    let start = annotations.first().map_or(ty.span, |a| a.span);
    if start.file == name.span.file && start.lo <= name.span.lo {
        Span { hi: name.span.hi, ..start }
    } else {
        name.span
    }
}

fn params(list: &[Param], scope: Span) -> impl Iterator<Item = Item> {
    list.iter().map(move |p| item(&p.name, SymbolKind::Parameter, p.span, Some(scope)))
}

fn type_params(list: &[Ident], scope: Span) -> impl Iterator<Item = Item> {
    list.iter().map(move |n| item(n, SymbolKind::TypeParameter, n.span, Some(scope)))
}

fn signature(proto: &FunctionProto, scope: Span) -> Vec<Item> {
    type_params(&proto.type_params, scope).chain(params(&proto.params, scope)).collect()
}

/// What a declaration declares, for the part `scope` of the program.
fn decl(d: &Decl, scope: Option<Span>) -> Vec<Item> {
    use SymbolKind as K;
    let span = d.span;
    let with =
        |name: &Ident, kind, children: Vec<Item>| vec![Item { children, ..item(name, kind, span, scope) }];
    match &d.kind {
        DeclKind::Const(c) => with(&c.name, K::Constant, Vec::new()),
        DeclKind::Variable(v) => with(&v.name, K::Variable, Vec::new()),
        DeclKind::Instance(i) => {
            let inner = i.init.iter().flatten().flat_map(|d| decl(d, Some(span))).collect();
            with(&i.name, K::Instance, inner)
        }
        DeclKind::Error(names) => names.iter().map(|n| member(n, K::Error, n.span)).collect(),
        DeclKind::MatchKind(names) => names.iter().map(|n| member(n, K::MatchKind, n.span)).collect(),
        DeclKind::Typedef(t) | DeclKind::NewType(t) => with(&t.name, K::TypeName, Vec::new()),
        DeclKind::Struct(s) => {
            let fields =
                s.fields.iter().map(|f| member(&f.name, K::Field, typed(&f.annotations, &f.ty, &f.name)));
            with(&s.name, kind_of(s.kind), type_params(&s.type_params, span).chain(fields).collect())
        }
        DeclKind::Enum(e) => {
            with(&e.name, K::Enum, e.members.iter().map(|(n, _)| member(n, K::EnumMember, n.span)).collect())
        }
        DeclKind::Parser(p) => {
            let mut all: Vec<Item> = type_params(&p.type_params, span).collect();
            all.extend(params(&p.params, span).chain(params(&p.ctor_params, span)));
            if let Some(body) = &p.body {
                all.extend(body.locals.iter().flat_map(|d| decl(d, Some(span))));
                all.extend(body.states.iter().map(|s| state(s, span)));
            }
            with(&p.name, K::Parser, all)
        }
        DeclKind::Control(c) => {
            let mut all: Vec<Item> = type_params(&c.type_params, span).collect();
            all.extend(params(&c.params, span).chain(params(&c.ctor_params, span)));
            if let Some(body) = &c.body {
                all.extend(body.locals.iter().flat_map(|d| decl(d, Some(span))));
                block(&body.apply, &mut all);
            }
            with(&c.name, K::Control, all)
        }
        DeclKind::Package(p) => with(
            &p.name,
            K::Package,
            type_params(&p.type_params, span).chain(params(&p.params, span)).collect(),
        ),
        DeclKind::ExternObject(e) => {
            let all = type_params(&e.type_params, span).chain(e.methods.iter().map(method));
            with(&e.name, K::Extern, all.collect())
        }
        DeclKind::ExternFunction(f) => with(&f.name, K::Function, signature(f, span)),
        DeclKind::Function(f) => {
            let mut all = signature(&f.proto, span);
            block(&f.body, &mut all);
            with(&f.proto.name, K::Function, all)
        }
        DeclKind::Action(a) => {
            let mut all: Vec<Item> = params(&a.params, span).collect();
            block(&a.body, &mut all);
            with(&a.name, K::Action, all)
        }
        DeclKind::Table(t) => with(&t.name, K::Table, Vec::new()),
        DeclKind::ValueSet(v) => with(&v.name, K::ValueSet, Vec::new()),
        DeclKind::Empty => Vec::new(),
    }
}

fn kind_of(kind: StructKind) -> SymbolKind {
    match kind {
        StructKind::Struct => SymbolKind::Struct,
        StructKind::Header => SymbolKind::Header,
        StructKind::HeaderUnion => SymbolKind::HeaderUnion,
    }
}

fn method(m: &MethodProto) -> Item {
    let from = typed(&m.annotations, &m.proto.returns, &m.proto.name);
    let last = m.proto.params.last().map_or(from, |p| p.span);
    let span = if last.file == from.file { Span { hi: last.hi.max(from.hi), ..from } } else { from };
    let children = signature(&m.proto, span);
    Item { children, ..member(&m.proto.name, SymbolKind::Method, span) }
}

fn state(s: &StateDecl, parser: Span) -> Item {
    let mut children = Vec::new();
    stmts(&s.body, s.span, &mut children);
    Item { children, ..item(&s.name, SymbolKind::State, s.span, Some(parser)) }
}

fn block(b: &Block, out: &mut Vec<Item>) {
    stmts(&b.stmts, b.span, out);
}

fn stmts(list: &[Stmt], scope: Span, out: &mut Vec<Item>) {
    for s in list {
        stmt(s, scope, out);
    }
}

fn stmt(s: &Stmt, scope: Span, out: &mut Vec<Item>) {
    match &s.kind {
        StmtKind::Decl(d) => out.extend(decl(d, Some(scope))),
        StmtKind::Block(b) => block(b, out),
        StmtKind::If(_, then, otherwise) => {
            stmt(then, then.span, out);
            if let Some(o) = otherwise {
                stmt(o, o.span, out);
            }
        }
        StmtKind::Switch { cases, .. } => {
            cases.iter().filter_map(|c| c.body.as_ref()).for_each(|b| block(b, out))
        }
        StmtKind::For { init, body, .. } => {
            stmts(init, s.span, out);
            stmt(body, s.span, out);
        }
        StmtKind::ForIn { ty, var, body, .. } => {
            if let Some(ty) = ty {
                out.push(item(var, SymbolKind::Variable, typed(&[], ty, var), Some(s.span)));
            }
            stmt(body, s.span, out);
        }
        _ => {}
    }
}
