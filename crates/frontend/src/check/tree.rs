//! The checked program: names resolved, every expression with its type, generics still generic.
//!
//! Lists of declarations are arenas in [`Tree`]; everything refers to them by index. `lower` makes instances of
//! them.

use super::eval::Const;
use super::types::{Kind, Ty, TyTable};
pub use crate::ast::{BinaryOp, Direction, StructKind, UnaryOp};
use pointsman_ir::{Annotations, Span};
use std::collections::BTreeMap;

/// Index into [`Tree::vars`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VarId(pub usize);

/// The kind of variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VarKind {
    /// Declared by a statement or at the head of a block.
    Local,
    /// Parameter with its direction.
    Param(Direction),
    /// Constructor parameter: known after instantiation.
    Ctor,
}

/// A variable or parameter.
#[derive(Clone, Debug)]
pub struct Var {
    pub name: String,
    pub ty: Ty,
    pub kind: VarKind,
    pub span: Span,
}

/// A type parameter.
#[derive(Clone, Debug)]
pub struct TypeParam {
    pub name: String,
}

/// `struct`, `header` or `header_union`.
#[derive(Clone, Debug)]
pub struct StructDef {
    pub kind: StructKind,
    pub name: String,
    pub span: Span,
    pub type_params: Vec<Ty>,
    pub fields: Vec<FieldDef>,
    pub annotations: Annotations,
}

/// A field.
#[derive(Clone, Debug)]
pub struct FieldDef {
    pub name: String,
    pub ty: Ty,
    pub span: Span,
    pub annotations: Annotations,
}

/// `enum`; the members of one with `repr` have values.
#[derive(Clone, Debug)]
pub struct EnumDef {
    pub name: String,
    pub span: Span,
    pub repr: Option<Ty>,
    pub members: Vec<(String, Option<pointsman_ir::Bits>)>,
}

/// `type`
#[derive(Clone, Debug)]
pub struct NewType {
    pub name: String,
    pub base: Ty,
    pub annotations: Annotations,
}

/// A parameter of anything.
#[derive(Clone, Debug)]
pub struct Param {
    pub name: String,
    pub span: Span,
    pub direction: Direction,
    pub ty: Ty,
    pub default: Option<Expr>,
    /// `@optional`
    pub optional: bool,
    /// The variable inside the body.
    pub var: VarId,
    pub annotations: Annotations,
}

/// Signature of a function, method, constructor or action.
#[derive(Clone, Debug)]
pub struct Sig {
    pub name: String,
    pub span: Span,
    pub type_params: Vec<Ty>,
    pub params: Vec<Param>,
    pub returns: Ty,
    pub annotations: Annotations,
}

/// `extern` object.
#[derive(Clone, Debug)]
pub struct ExternDef {
    pub name: String,
    pub span: Span,
    pub type_params: Vec<Ty>,
    pub ctors: Vec<Sig>,
    pub methods: Vec<Sig>,
    /// By index into `methods`.
    pub is_abstract: Vec<bool>,
}

/// Function with a body.
#[derive(Clone, Debug)]
pub struct Function {
    pub sig: Sig,
    pub body: Vec<Stmt>,
    /// Variables of the block around that the implementation of an abstract method uses.
    pub captures: Vec<VarId>,
    /// False while its own body is checked.
    pub done: bool,
}

/// Action.
#[derive(Clone, Debug)]
pub struct Action {
    pub sig: Sig,
    pub body: Vec<Stmt>,
    /// Declared in a control.
    pub in_block: bool,
    pub done: bool,
}

/// Parser or control, or the type of one.
#[derive(Clone, Debug)]
pub struct Block {
    pub name: String,
    pub span: Span,
    pub is_parser: bool,
    pub type_params: Vec<Ty>,
    pub params: Vec<Param>,
    pub ctor_params: Vec<Param>,
    pub body: Option<Body>,
    /// It is not just a block type.
    pub has_body: bool,
    pub annotations: Annotations,
    /// False while its own body is checked.
    pub done: bool,
}

/// Body of a parser or control.
#[derive(Clone, Debug, Default)]
pub struct Body {
    /// Initialisers of local variables.
    pub locals: Vec<Stmt>,
    /// Instances in order, those of direct application included.
    pub instances: Vec<usize>,
    pub actions: Vec<usize>,
    pub tables: Vec<usize>,
    pub value_sets: Vec<usize>,
    /// `apply` of a control.
    pub apply: Vec<Stmt>,
    /// States of a parser; `start` is the first.
    pub states: Vec<State>,
}

/// `package`
#[derive(Clone, Debug)]
pub struct Package {
    pub name: String,
    pub sig: Sig,
}

/// The result of a constructor.
#[derive(Clone, Debug)]
pub struct New {
    /// Extern, block or package with its type arguments.
    pub ty: Ty,
    /// Which constructor, for externs.
    pub ctor: usize,
    /// One per parameter; `None` for one that is optional.
    pub args: Vec<Option<Expr>>,
    pub span: Span,
}

/// A named instance.
#[derive(Clone, Debug)]
pub struct Instance {
    pub name: String,
    pub span: Span,
    pub new: New,
    pub annotations: Annotations,
    /// Made by direct application of a type.
    pub anonymous: bool,
    /// Implementations of abstract methods: index into the methods of its extern, into [`Tree::functions`].
    pub methods: Vec<(usize, usize)>,
}

/// `value_set`
#[derive(Clone, Debug)]
pub struct ValueSet {
    pub name: String,
    pub elem: Ty,
    pub size: Expr,
    pub annotations: Annotations,
}

/// A state of a parser.
#[derive(Clone, Debug)]
pub struct State {
    pub name: String,
    pub name_span: Span,
    pub span: Span,
    pub body: Vec<Stmt>,
    pub next: Transition,
}

/// Where a state goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Accept,
    Reject,
    State(usize),
}

/// How a state ends.
#[derive(Clone, Debug)]
pub enum Transition {
    Goto(Target),
    Select { on: Vec<Expr>, cases: Vec<(Vec<KeySet>, Target)> },
}

/// Set of values. [`KeySet::ValueSet`] covers all expressions of its select.
#[derive(Clone, Debug)]
pub enum KeySet {
    Value(Expr),
    Mask(Expr, Expr),
    Range(Expr, Expr),
    Any,
    ValueSet(usize),
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    pub name: String,
    pub span: Span,
    pub annotations: Annotations,
    pub keys: Vec<Key>,
    /// There are more, with errors.
    pub has_wrong_keys: bool,
    pub actions: Vec<ActionRef>,
    /// Index into `actions` and the action data.
    pub default: Option<(usize, Vec<Expr>)>,
    pub const_default: bool,
    pub entries: Vec<Entry>,
    pub const_entries: bool,
    pub size: Option<Expr>,
    /// Properties of the architecture: name, value, annotations.
    pub properties: Vec<(String, Expr, Annotations)>,
    pub largest_priority_wins: bool,
}

/// Key field of a table.
#[derive(Clone, Debug)]
pub struct Key {
    pub expr: Expr,
    pub kind: pointsman_ir::MatchKind,
    pub name: String,
    pub annotations: Annotations,
}

/// Action in the list of a table.
#[derive(Clone, Debug)]
pub struct ActionRef {
    /// Index into [`Tree::actions`].
    pub action: usize,
    /// For its parameters with direction.
    pub bound: Vec<Arg>,
    pub annotations: Annotations,
    pub span: Span,
}

/// Entry of a table.
#[derive(Clone, Debug)]
pub struct Entry {
    pub is_const: bool,
    pub priority: i32,
    pub keys: Vec<KeySet>,
    /// Index into [`Table::actions`].
    pub action: usize,
    pub args: Vec<Expr>,
    pub span: Span,
}

/// An expression.
#[derive(Clone, Debug)]
pub struct Expr {
    pub kind: ExprKind,
    pub ty: Ty,
    pub span: Span,
}

/// Kinds of expression. Implicit casts are explicit.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// After an error was reported.
    Error,
    Const(Const),
    Var(VarId),
    /// Index into [`Tree::instances`].
    Instance(usize),
    /// Constructor call.
    New(Box<New>),
    /// In the value of a compound assignment: the place that is assigned.
    Target,
    /// Field of struct, header, header union; element of a tuple.
    Field(Box<Expr>, u32),
    Index(Box<Expr>, Box<Expr>),
    Next(Box<Expr>),
    Last(Box<Expr>),
    LastIndex(Box<Expr>),
    Slice(Box<Expr>, u32, u32),
    Unary(UnaryOp, Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    Mux(Box<Expr>, Box<Expr>, Box<Expr>),
    /// To the type of this expression.
    Cast(Box<Expr>),
    /// Struct, valid header, tuple, list, stack: (index, value) in the order of evaluation; missing members have their
    /// default.
    Aggregate(Vec<(u32, Expr)>),
    /// An invalid header or union.
    Invalid,
    /// The default value of its type.
    Default,
    IsValid(Box<Expr>),
    Call(Box<Call>),
    /// `t.apply()`; as a value only inside `Hit`.
    Apply(usize),
    /// `t.apply().hit`; negated: `.miss`.
    Hit {
        table: usize,
        negate: bool,
    },
}

/// A call.
#[derive(Clone, Debug)]
pub struct Call {
    pub callee: Callee,
    pub type_args: Vec<Ty>,
    /// In order of the parameters.
    pub args: Vec<Arg>,
    /// Indices into `args` in order of evaluation.
    pub order: Vec<usize>,
}

/// The callee.
#[derive(Clone, Debug)]
pub enum Callee {
    /// Index into [`Tree::functions`].
    Function(usize),
    /// Index into [`Tree::extern_fns`].
    ExternFn(usize),
    /// Index into [`Tree::actions`].
    Action(usize),
    /// Method of an extern object: receiver, index of the extern, index of the method.
    Method(Expr, usize, usize),
    /// `apply` of a parser or control instance.
    Block(Expr),
    SetValid(Expr),
    SetInvalid(Expr),
    PushFront(Expr),
    PopFront(Expr),
}

/// An argument.
#[derive(Clone, Debug)]
pub enum Arg {
    In(Expr),
    Out(Expr),
    InOut(Expr),
    /// `_` for an `out` parameter of this type.
    Ignore(Ty),
    /// Left out for an optional parameter.
    Missing,
}

/// A statement.
#[derive(Clone, Debug)]
pub struct Stmt {
    pub kind: StmtKind,
    pub span: Span,
}

/// Kinds of statement.
#[derive(Clone, Debug)]
pub enum StmtKind {
    /// A variable comes into being.
    Declare(VarId, Option<Expr>),
    Assign(Expr, Expr),
    Eval(Expr),
    Block(Vec<Stmt>),
    /// A block that is executed in isolation.
    Atomic(Vec<Stmt>),
    /// A block that may be executed again when the packet comes back.
    Repeatable(Vec<Stmt>),
    If(Expr, Vec<Stmt>, Vec<Stmt>),
    /// Labels of a case are constants.
    Switch {
        on: Expr,
        cases: Vec<(Vec<Expr>, Vec<Stmt>)>,
        default: Vec<Stmt>,
    },
    /// `switch (t.apply().action_run)`: labels are indices into the table's actions.
    ActionSwitch {
        table: usize,
        cases: Vec<(Vec<usize>, Vec<Stmt>)>,
        default: Vec<Stmt>,
    },
    For {
        init: Vec<Stmt>,
        cond: Expr,
        update: Vec<Stmt>,
        body: Vec<Stmt>,
    },
    ForRange {
        var: Expr,
        lo: Expr,
        hi: Expr,
        body: Vec<Stmt>,
    },
    /// Over the elements of a stack, or a list or tuple expression.
    ForEach {
        var: Expr,
        over: Expr,
        body: Vec<Stmt>,
    },
    Return(Option<Expr>),
    Exit,
    Break,
    Continue,
}

/// The checked program.
#[derive(Default)]
pub struct Tree {
    pub tys: TyTable,
    pub vars: Vec<Var>,
    pub type_params: Vec<TypeParam>,
    pub structs: Vec<StructDef>,
    pub enums: Vec<EnumDef>,
    pub new_types: Vec<NewType>,
    pub externs: Vec<ExternDef>,
    pub extern_fns: Vec<Sig>,
    pub functions: Vec<Function>,
    pub actions: Vec<Action>,
    pub blocks: Vec<Block>,
    pub packages: Vec<Package>,
    pub instances: Vec<Instance>,
    pub tables: Vec<Table>,
    pub value_sets: Vec<ValueSet>,
    pub errors: Vec<String>,
    pub match_kinds: Vec<String>,
    /// Instances at the top level, in order.
    pub top_instances: Vec<usize>,
    /// Value sets at the top level.
    pub top_value_sets: Vec<usize>,
    /// The instance called `main`.
    pub main: Option<usize>,
    /// Variables and functions that the source names, also where their values were known.
    pub named_vars: std::collections::BTreeSet<VarId>,
    pub named_functions: std::collections::BTreeSet<usize>,
    /// Sizes of types that were asked for.
    pub sizes: BTreeMap<Ty, super::size::Size>,
}

impl Tree {
    /// The package that `main` is an instance of, and where `main` is.
    pub fn main_package(&self) -> Option<(String, Span)> {
        let main = &self.instances[self.main?];
        match self.tys.get(main.new.ty) {
            Kind::Package(p, _) => Some((self.packages[*p].name.clone(), main.span)),
            _ => None,
        }
    }

    /// What a constructor call, or a named instance, makes.
    pub fn made<'a>(&'a self, e: &'a Expr) -> Option<&'a New> {
        match &e.kind {
            ExprKind::New(new) => Some(new),
            ExprKind::Instance(i) => Some(&self.instances[*i].new),
            _ => None,
        }
    }

    /// Whether it is a struct, header or union of one of these kinds.
    pub fn is_struct(&self, ty: Ty, kinds: &[StructKind]) -> bool {
        matches!(self.tys.get(ty), Kind::Struct(d, _) if kinds.contains(&self.structs[*d].kind))
    }

    /// Names and types of the fields of a struct, header or union, type arguments put in.
    pub fn fields(&mut self, ty: Ty) -> Option<Vec<(String, Ty)>> {
        let Kind::Struct(d, args) = self.tys.get(ty).clone() else { return None };
        let def = &self.structs[d];
        let params = def.type_params.clone();
        let fields: Vec<(String, Ty)> = def.fields.iter().map(|f| (f.name.clone(), f.ty)).collect();
        Some(fields.into_iter().map(|(n, t)| (n, self.tys.subst(t, &params, &args))).collect())
    }

    /// Index and type of one field, without making a list of all.
    pub fn field(&mut self, ty: Ty, name: &str) -> Option<(u32, Ty)> {
        let Kind::Struct(d, args) = self.tys.get(ty) else { return None };
        let def = &self.structs[*d];
        let index = def.fields.iter().position(|f| f.name == name)?;
        let field = def.fields[index].ty;
        if args.is_empty() {
            return Some((index as u32, field));
        }
        let (params, args) = (def.type_params.clone(), args.clone());
        Some((index as u32, self.tys.subst(field, &params, &args)))
    }

    /// The representation of an enum that has one.
    pub fn enum_repr(&self, ty: Ty) -> Option<Ty> {
        match self.tys.get(ty) {
            Kind::Enum(d) => self.enums[*d].repr,
            _ => None,
        }
    }

    /// Looks through `type` and enums with representation.
    pub fn repr(&self, ty: Ty) -> Ty {
        match self.tys.get(ty) {
            Kind::New(d) => self.repr(self.new_types[*d].base),
            Kind::Enum(d) => self.enums[*d].repr.unwrap_or(ty),
            _ => ty,
        }
    }
}

impl Expr {
    /// A constant.
    pub fn constant(value: Const, ty: Ty, span: Span) -> Self {
        Expr { kind: ExprKind::Const(value), ty, span }
    }

    /// The same of type `ty`; a block that is made here is a block of that type.
    pub fn with_type(mut self, ty: Ty) -> Self {
        if let ExprKind::New(new) = &mut self.kind {
            new.ty = ty;
        }
        Expr { ty, ..self }
    }

    /// A placeholder after an error.
    pub fn error(span: Span) -> Self {
        Expr { kind: ExprKind::Error, ty: Ty::ERROR, span }
    }

    /// Visits the direct sub-expressions.
    pub fn each_child<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        use ExprKind::*;
        match &self.kind {
            Error | Const(_) | Var(_) | Instance(_) | Target | Invalid | Default | Apply(_) | Hit { .. } => {}
            New(n) => n.args.iter().flatten().for_each(f),
            Field(e, _)
            | Next(e)
            | Last(e)
            | LastIndex(e)
            | Slice(e, ..)
            | Unary(_, e)
            | Cast(e)
            | IsValid(e) => f(e),
            Index(a, b) | Binary(_, a, b) => {
                f(a);
                f(b);
            }
            Mux(a, b, c) => {
                f(a);
                f(b);
                f(c);
            }
            Aggregate(es) => es.iter().for_each(|(_, e)| f(e)),
            Call(c) => {
                match &c.callee {
                    Callee::Method(e, ..)
                    | Callee::Block(e)
                    | Callee::SetValid(e)
                    | Callee::SetInvalid(e)
                    | Callee::PushFront(e)
                    | Callee::PopFront(e) => f(e),
                    Callee::Function(_) | Callee::ExternFn(_) | Callee::Action(_) => {}
                }
                for a in &c.args {
                    match a {
                        Arg::In(e) | Arg::Out(e) | Arg::InOut(e) => f(e),
                        Arg::Ignore(_) | Arg::Missing => {}
                    }
                }
            }
        }
    }

    /// Whether evaluating it calls anything.
    pub fn has_effects(&self) -> bool {
        let mut found = matches!(self.kind, ExprKind::Call(_) | ExprKind::Apply(_) | ExprKind::Hit { .. });
        self.each_child(&mut |e| found = found || e.has_effects());
        found
    }

    /// Whether evaluating it applies a table directly.
    pub fn applies_table(&self) -> bool {
        let mut found = matches!(self.kind, ExprKind::Apply(_) | ExprKind::Hit { .. });
        self.each_child(&mut |e| found = found || e.applies_table());
        found
    }

    /// The variable at the root of a place.
    pub fn root_var(&self) -> Option<VarId> {
        match &self.kind {
            ExprKind::Var(v) => Some(*v),
            ExprKind::Field(e, _)
            | ExprKind::Index(e, _)
            | ExprKind::Next(e)
            | ExprKind::Last(e)
            | ExprKind::Slice(e, ..) => e.root_var(),
            _ => None,
        }
    }
}
