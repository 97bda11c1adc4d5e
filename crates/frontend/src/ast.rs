//! The syntax tree: P4_16 as written (grammar in appendix of the specification), names not resolved.
//!
//! Every node has the span of its source. The tree keeps what only diagnostics and control-plane names need (such as
//! parentheses not at all, but key expressions as written).

use num_bigint::BigInt;
use pointsman_ir::Span;

/// A name as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ident {
    /// The name.
    pub name: String,
    /// Where.
    pub span: Span,
}

/// A possibly rooted name: `x` or `.x`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// With a leading dot: looked up at the top level.
    pub rooted: bool,
    /// The name.
    pub name: Ident,
}

/// A whole program.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Top-level declarations in order.
    pub decls: Vec<Decl>,
}

/// An annotation as written; bodies are parsed, not evaluated (constants inside structured ones are resolved later).
#[derive(Clone, Debug)]
pub struct Annotation {
    /// Name without `@`.
    pub name: Ident,
    /// The body.
    pub body: AnnotationBody,
    /// All of it.
    pub span: Span,
}

/// Body of an annotation.
#[derive(Clone, Debug)]
pub enum AnnotationBody {
    /// Nothing.
    Empty,
    /// `( ... )`: any tokens with balanced parentheses.
    Tokens(Vec<pointsman_ir::AnnotationToken>),
    /// `[e, e]`.
    List(Vec<Expr>),
    /// `[k = e, k = e]`.
    Pairs(Vec<(Ident, Expr)>),
}

/// A declaration with its prefix.
#[derive(Clone, Debug)]
pub struct Decl {
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// The declaration.
    pub kind: DeclKind,
    /// All of it.
    pub span: Span,
}

/// Kinds of declaration, at the top level or local.
#[derive(Clone, Debug)]
pub enum DeclKind {
    /// `const T n = e;`
    Const(ConstDecl),
    /// `T n = e;` or `T n;` inside a block.
    Variable(VariableDecl),
    /// `T(args) n;` with an optional initialiser block.
    Instance(InstanceDecl),
    /// `error { ... }`
    Error(Vec<Ident>),
    /// `match_kind { ... }`
    MatchKind(Vec<Ident>),
    /// `typedef T n;`
    Typedef(TypedefDecl),
    /// `type T n;`
    NewType(TypedefDecl),
    /// `header`, `header_union` or `struct`.
    Struct(StructDecl),
    /// `enum`.
    Enum(EnumDecl),
    /// `parser`: a type (prototype) without a body.
    Parser(ParserDecl),
    /// `control`: a type (prototype) without a body.
    Control(ControlDecl),
    /// `package`.
    Package(PackageDecl),
    /// `extern` object.
    ExternObject(ExternObjectDecl),
    /// `extern` function.
    ExternFunction(FunctionProto),
    /// Function.
    Function(FunctionDecl),
    /// `action`.
    Action(ActionDecl),
    /// `table`; only in controls.
    Table(TableDecl),
    /// `value_set<T>(n) v;`; only in parsers.
    ValueSet(ValueSetDecl),
    /// A lone `;`.
    Empty,
}

/// `const`.
#[derive(Clone, Debug)]
pub struct ConstDecl {
    /// Type.
    pub ty: TypeExpr,
    /// Name.
    pub name: Ident,
    /// Value.
    pub value: Expr,
}

/// Variable.
#[derive(Clone, Debug)]
pub struct VariableDecl {
    /// Type.
    pub ty: TypeExpr,
    /// Name.
    pub name: Ident,
    /// Initial value.
    pub init: Option<Expr>,
}

/// Instance of an extern, control, parser or package.
#[derive(Clone, Debug)]
pub struct InstanceDecl {
    /// The instantiated type, with type arguments.
    pub ty: TypeExpr,
    /// Constructor arguments.
    pub args: Vec<Arg>,
    /// Name.
    pub name: Ident,
    /// `= { ... }`: implementations of abstract methods, and nested instances.
    pub init: Option<Vec<Decl>>,
}

/// `typedef` and `type`.
#[derive(Clone, Debug)]
pub struct TypedefDecl {
    /// The type. (`typedef struct S {...} T` is two declarations: `struct S`, then `typedef S T`.)
    pub ty: TypeExpr,
    /// Name.
    pub name: Ident,
}

/// Which kind of structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StructKind {
    /// `struct`
    Struct,
    /// `header`
    Header,
    /// `header_union`
    HeaderUnion,
}

/// `struct`, `header`, `header_union`.
#[derive(Clone, Debug)]
pub struct StructDecl {
    /// Which.
    pub kind: StructKind,
    /// Name.
    pub name: Ident,
    /// Type parameters.
    pub type_params: Vec<Ident>,
    /// Fields.
    pub fields: Vec<FieldDecl>,
}

/// A field.
#[derive(Clone, Debug)]
pub struct FieldDecl {
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Type.
    pub ty: TypeExpr,
    /// Name.
    pub name: Ident,
}

/// `enum`.
#[derive(Clone, Debug)]
pub struct EnumDecl {
    /// Representation type.
    pub repr: Option<TypeExpr>,
    /// Name.
    pub name: Ident,
    /// Members; values only with a representation.
    pub members: Vec<(Ident, Option<Expr>)>,
}

/// Direction keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// None.
    None,
    /// `in`
    In,
    /// `out`
    Out,
    /// `inout`
    InOut,
}

/// A parameter.
#[derive(Clone, Debug)]
pub struct Param {
    /// Annotations (`@optional` among them).
    pub annotations: Vec<Annotation>,
    /// Direction.
    pub direction: Direction,
    /// Type.
    pub ty: TypeExpr,
    /// Name.
    pub name: Ident,
    /// Default value.
    pub default: Option<Expr>,
    /// All of it.
    pub span: Span,
}

/// `parser`.
#[derive(Clone, Debug)]
pub struct ParserDecl {
    /// Name.
    pub name: Ident,
    /// Type parameters (prototypes only).
    pub type_params: Vec<Ident>,
    /// Run-time parameters.
    pub params: Vec<Param>,
    /// Constructor parameters.
    pub ctor_params: Vec<Param>,
    /// `None` for a prototype.
    pub body: Option<ParserBody>,
}

/// Body of a parser.
#[derive(Clone, Debug)]
pub struct ParserBody {
    /// Local declarations.
    pub locals: Vec<Decl>,
    /// States.
    pub states: Vec<StateDecl>,
}

/// A parser state.
#[derive(Clone, Debug)]
pub struct StateDecl {
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Name.
    pub name: Ident,
    /// Statements.
    pub body: Vec<Stmt>,
    /// How it ends; `None` is an implicit `transition reject`.
    pub transition: Option<Transition>,
    /// All of it.
    pub span: Span,
}

/// How a state ends.
#[derive(Clone, Debug)]
pub enum Transition {
    /// `transition name;`
    Direct(Ident),
    /// `transition select(...) {...}`
    Select {
        /// Expressions.
        on: Vec<Expr>,
        /// Cases: key sets (a tuple is several), state.
        cases: Vec<SelectCase>,
        /// All of it.
        span: Span,
    },
}

/// A case of a select.
#[derive(Clone, Debug)]
pub struct SelectCase {
    /// One for each expression, or a single `default`/`_`, or a value set's name.
    pub keys: Vec<Expr>,
    /// Next state.
    pub next: Ident,
    /// All of it.
    pub span: Span,
}

/// `control`.
#[derive(Clone, Debug)]
pub struct ControlDecl {
    /// Name.
    pub name: Ident,
    /// Type parameters (prototypes only).
    pub type_params: Vec<Ident>,
    /// Run-time parameters.
    pub params: Vec<Param>,
    /// Constructor parameters.
    pub ctor_params: Vec<Param>,
    /// `None` for a prototype.
    pub body: Option<ControlBody>,
}

/// Body of a control.
#[derive(Clone, Debug)]
pub struct ControlBody {
    /// Local declarations: actions, tables, instances, variables, constants.
    pub locals: Vec<Decl>,
    /// The `apply` block.
    pub apply: Block,
}

/// `package`.
#[derive(Clone, Debug)]
pub struct PackageDecl {
    /// Name.
    pub name: Ident,
    /// Type parameters.
    pub type_params: Vec<Ident>,
    /// Constructor parameters.
    pub params: Vec<Param>,
}

/// `extern` object.
#[derive(Clone, Debug)]
pub struct ExternObjectDecl {
    /// Name.
    pub name: Ident,
    /// Type parameters.
    pub type_params: Vec<Ident>,
    /// Constructors (name equal to the object's, no return type) and methods.
    pub methods: Vec<MethodProto>,
}

/// A method or constructor.
#[derive(Clone, Debug)]
pub struct MethodProto {
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// `abstract`.
    pub is_abstract: bool,
    /// Whether it is a constructor.
    pub is_constructor: bool,
    /// Signature; `returns` is `void` for constructors.
    pub proto: FunctionProto,
}

/// Signature of a function, method or extern function.
#[derive(Clone, Debug)]
pub struct FunctionProto {
    /// Return type.
    pub returns: TypeExpr,
    /// Name.
    pub name: Ident,
    /// Type parameters.
    pub type_params: Vec<Ident>,
    /// Parameters.
    pub params: Vec<Param>,
}

/// Function.
#[derive(Clone, Debug)]
pub struct FunctionDecl {
    /// Signature.
    pub proto: FunctionProto,
    /// Code.
    pub body: Block,
}

/// `action`.
#[derive(Clone, Debug)]
pub struct ActionDecl {
    /// Name.
    pub name: Ident,
    /// Parameters.
    pub params: Vec<Param>,
    /// Code.
    pub body: Block,
}

/// `value_set`.
#[derive(Clone, Debug)]
pub struct ValueSetDecl {
    /// Element type.
    pub elem: TypeExpr,
    /// Size.
    pub size: Expr,
    /// Name.
    pub name: Ident,
}

/// `table`.
#[derive(Clone, Debug)]
pub struct TableDecl {
    /// Name.
    pub name: Ident,
    /// Properties in order.
    pub properties: Vec<Property>,
}

/// A table property.
#[derive(Clone, Debug)]
pub struct Property {
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// `const`.
    pub is_const: bool,
    /// Which.
    pub kind: PropertyKind,
    /// All of it.
    pub span: Span,
}

/// Kinds of property.
#[derive(Clone, Debug)]
pub enum PropertyKind {
    /// `key = { ... }`
    Key(Vec<KeyElement>),
    /// `actions = { ... }`
    Actions(Vec<ActionRef>),
    /// `entries = { ... }`
    Entries(Vec<EntryDecl>),
    /// `default_action = a(...)`: an `Expr` of kind `Name` or `Call`.
    DefaultAction(Expr),
    /// Any other: `size`, `counters`, `implementation` ...
    Other(Ident, Expr),
}

/// A key field.
#[derive(Clone, Debug)]
pub struct KeyElement {
    /// Expression.
    pub expr: Expr,
    /// Match kind.
    pub match_kind: Ident,
    /// Annotations.
    pub annotations: Vec<Annotation>,
}

/// An action in an action list.
#[derive(Clone, Debug)]
pub struct ActionRef {
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Name.
    pub action: Path,
    /// Bound arguments.
    pub args: Option<Vec<Arg>>,
    /// All of it.
    pub span: Span,
}

/// An entry written in the program.
#[derive(Clone, Debug)]
pub struct EntryDecl {
    /// `const` in front of it.
    pub is_const: bool,
    /// `priority = e :`
    pub priority: Option<Expr>,
    /// Key sets.
    pub keys: Vec<Expr>,
    /// Action: `Name` or `Call`.
    pub action: Expr,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// All of it.
    pub span: Span,
}

/// `{ ... }`
#[derive(Clone, Debug)]
pub struct Block {
    /// Annotations (`@atomic` among them).
    pub annotations: Vec<Annotation>,
    /// The statements inside.
    pub stmts: Vec<Stmt>,
    /// All of it.
    pub span: Span,
}

/// A statement.
#[derive(Clone, Debug)]
pub struct Stmt {
    /// Which.
    pub kind: StmtKind,
    /// All of it.
    pub span: Span,
}

/// Kinds of statement.
#[derive(Clone, Debug)]
pub enum StmtKind {
    /// A constant, variable or instance.
    Decl(Decl),
    /// `lhs = rhs;`, or `lhs op= rhs;` of 1.2.5.
    Assign {
        /// Left side.
        lhs: Expr,
        /// For compound assignment.
        op: Option<BinaryOp>,
        /// Right side.
        rhs: Expr,
    },
    /// A call (method, function, action, `apply`, direct application `C.apply(...)`).
    Call(Expr),
    /// Block.
    Block(Block),
    /// `if`
    If(Expr, Box<Stmt>, Option<Box<Stmt>>),
    /// `switch`
    Switch {
        /// On what.
        on: Expr,
        /// Cases.
        cases: Vec<SwitchCase>,
    },
    /// `for (init; cond; update) body`
    For {
        /// Declarations and assignments.
        init: Vec<Stmt>,
        /// Condition.
        cond: Expr,
        /// Assignments and calls.
        update: Vec<Stmt>,
        /// Body.
        body: Box<Stmt>,
    },
    /// `for (T x in e) body`
    ForIn {
        /// Type of the variable, if it is declared here.
        ty: Option<TypeExpr>,
        /// Variable.
        var: Ident,
        /// `Range` or a list.
        over: Expr,
        /// Body.
        body: Box<Stmt>,
    },
    /// `return`
    Return(Option<Expr>),
    /// `exit`
    Exit,
    /// `break`
    Break,
    /// `continue`
    Continue,
    /// `;`
    Empty,
}

/// A case of a switch.
#[derive(Clone, Debug)]
pub struct SwitchCase {
    /// Label; `Default` for `default`.
    pub label: Expr,
    /// `None`: falls through to the next label.
    pub body: Option<Block>,
}

/// An argument.
#[derive(Clone, Debug)]
pub struct Arg {
    /// `name = value`
    pub name: Option<Ident>,
    /// `None` for `_`.
    pub value: Option<Expr>,
    /// All of it.
    pub span: Span,
}

/// A type as written.
#[derive(Clone, Debug)]
pub struct TypeExpr {
    /// Which.
    pub kind: TypeExprKind,
    /// All of it.
    pub span: Span,
}

/// Kinds of type as written.
#[derive(Clone, Debug)]
pub enum TypeExprKind {
    /// `bool`
    Bool,
    /// `error`
    Error,
    /// `match_kind`
    MatchKind,
    /// `string`
    String,
    /// `void`
    Void,
    /// `int` without width.
    InfInt,
    /// `bit<e>`; plain `bit` is `bit<1>`.
    Bit(Box<Expr>),
    /// `int<e>`
    Int(Box<Expr>),
    /// `varbit<e>`
    Varbit(Box<Expr>),
    /// A name.
    Named(Path),
    /// `name<T, ...>`
    Specialized(Path, Vec<TypeExpr>),
    /// `T[e]`
    Stack(Box<TypeExpr>, Box<Expr>),
    /// `tuple<...>`
    Tuple(Vec<TypeExpr>),
    /// `list<T>`
    List(Box<TypeExpr>),
    /// `_` as type argument.
    DontCare,
}

/// An expression.
#[derive(Clone, Debug)]
pub struct Expr {
    /// Which.
    pub kind: ExprKind,
    /// All of it.
    pub span: Span,
}

/// Kinds of expression.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// `5`, `8w5`, `4s-1` has the minus outside.
    Int {
        /// Value.
        value: BigInt,
        /// Width and whether it is signed (`s`), if written.
        width: Option<(u32, bool)>,
    },
    /// `true`, `false`
    Bool(bool),
    /// `"..."`, escapes resolved; adjacent literals are joined by the parser.
    String(String),
    /// `this`
    This,
    /// A name of a value, instance or type; which of them, only resolution knows.
    Name(Path),
    /// A type in the place of an expression: `error` in `error.X`, `C<T>` in the direct application `C<T>.apply()`.
    /// A constructor call `C<T>(args)` is a [`ExprKind::Call`] of the name `C` with type arguments.
    Type(TypeExpr),
    /// `e.name`
    Member(Box<Expr>, Ident),
    /// `e[i]`
    Index(Box<Expr>, Box<Expr>),
    /// `e[hi:lo]`
    Slice(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `e[lo+:width]`
    PlusSlice(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `{a, b, ...}`; `rest`: ends with `...`
    List {
        /// Elements.
        elems: Vec<Expr>,
        /// Ends with `...`.
        rest: bool,
    },
    /// `{k = a, k = b, ...}`
    Struct {
        /// Fields.
        fields: Vec<(Ident, Expr)>,
        /// Ends with `...`.
        rest: bool,
    },
    /// `{#}`
    Invalid,
    /// `...` alone, as an initialiser.
    Dots,
    /// Unary operator.
    Unary(UnaryOp, Box<Expr>),
    /// Binary operator.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `c ? a : b`
    Mux(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `(T) e`
    Cast(TypeExpr, Box<Expr>),
    /// `f<T>(args)`, constructor calls included.
    Call {
        /// The callee.
        callee: Box<Expr>,
        /// Type arguments.
        type_args: Vec<TypeExpr>,
        /// Arguments.
        args: Vec<Arg>,
    },
    /// `a &&& b`
    Mask(Box<Expr>, Box<Expr>),
    /// `a .. b`
    Range(Box<Expr>, Box<Expr>),
    /// `default` in a key set or switch label.
    Default,
    /// `_`
    DontCare,
}

/// Unary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    /// `!`
    Not,
    /// `~`
    BitNot,
    /// `-`
    Neg,
    /// `+`
    Plus,
}

/// Binary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each is its operator
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    SatAdd,
    SatSub,
    BitAnd,
    BitOr,
    BitXor,
    Shl,
    Shr,
    Concat,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    And,
    Or,
}
