//! The program: its blocks and instances.

use crate::stmt::{Expr, KeySet, LValue, Span, Stmt};
use crate::table::ActionCall;
use crate::types::{TypeId, Types};
use crate::value::Const;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);
        impl $name {
            /// As an index into the program's list.
            pub fn index(self) -> usize { self.0 as usize }
        }
    )*};
}

ids! {
    /// Index into [`Program::actions`].
    ActionId;
    /// Index into [`Program::functions`].
    FunctionId;
    /// Index into [`Program::tables`].
    TableId;
    /// Index into [`Program::parsers`].
    ParserId;
    /// Index into [`Program::controls`].
    ControlId;
    /// Index into [`Program::externs`].
    ExternInstanceId;
    /// Index into [`Program::extern_fns`].
    ExternFnId;
    /// Index into [`Program::value_sets`].
    ValueSetId;
}

/// A whole program, closed and instantiated.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Every type.
    pub types: Types,
    /// Names of the `error` members; `NoError` is 0, then core.p4's in its order, then the program's.
    pub errors: Vec<String>,
    /// Actions; one per instance of the control that declares them. Top-level actions occur once.
    pub actions: Vec<Action>,
    /// Functions.
    pub functions: Vec<Function>,
    /// Table instances.
    pub tables: Vec<Table>,
    /// Parser instances.
    pub parsers: Vec<Parser>,
    /// Control instances.
    pub controls: Vec<Control>,
    /// Extern functions and methods that the program calls.
    pub extern_fns: Vec<ExternFn>,
    /// Extern object instances.
    pub externs: Vec<ExternInstance>,
    /// Code for abstract methods of these, for the objects whose other methods the program calls.
    pub implementations: Vec<Implementation>,
    /// Parser value sets.
    pub value_sets: Vec<ValueSet>,
    /// The arguments of the package that is called `main`.
    pub package: Package,
    /// Annotations on the package instance, such as `@pkginfo`.
    pub package_annotations: Annotations,
    /// The origin of the text, for messages: [`Span::file`] is an index here. May be empty.
    pub sources: Vec<Source>,
}

impl Program {
    /// `file.p4:17` for a span; `None` if the sources are unknown.
    pub fn place(&self, span: Span) -> Option<String> {
        let source = self.sources.get(span.file as usize).filter(|_| span.hi > 0)?;
        let line = |at: u32| source.line_starts.partition_point(|start| *start <= at) as u32;
        Some(match LineMarker::at(&source.markers, span.lo) {
            Some(m) => format!("{}:{}", m.path, m.line + line(span.lo).saturating_sub(line(m.from))),
            None => format!("{}:{}", source.path, line(span.lo)),
        })
    }
}

/// A source file of a program, without its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// Its path.
    pub path: String,
    /// Where each line starts, in bytes.
    pub line_starts: Vec<u32>,
    /// Its line markers, in order.
    pub markers: Vec<LineMarker>,
}

impl Source {
    /// The file `path` with this text and these line markers.
    pub fn new(path: &str, text: &str, markers: &[LineMarker]) -> Source {
        let ends = text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i as u32 + 1);
        let line_starts = std::iter::once(0).chain(ends).collect();
        Source { path: path.into(), line_starts, markers: markers.to_vec() }
    }
}

/// The origin of the text behind a directive such as `# 12 "a.p4"`, which a preprocessor leaves in its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineMarker {
    /// Where the line behind the directive starts, in bytes.
    pub from: u32,
    /// The number of this line, from 1.
    pub line: u32,
    /// The path of its file.
    pub path: String,
}

impl LineMarker {
    /// The one of `markers`, which are in order, that is in force at byte `at`.
    pub fn at(markers: &[LineMarker], at: u32) -> Option<&LineMarker> {
        markers.partition_point(|m| m.from <= at).checked_sub(1).and_then(|i| markers.get(i))
    }
}

/// Annotations on a declaration, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Annotations(pub Vec<Annotation>);

/// `@name`, `@name(...)` or `@name[...]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Annotation {
    /// Without the `@`.
    pub name: String,
    /// The body.
    pub body: AnnotationBody,
}

/// Body of an annotation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AnnotationBody {
    /// Nothing.
    Empty,
    /// Unstructured: the tokens between the parentheses; string literals without their quotes, marked as such.
    Tokens(Vec<AnnotationToken>),
    /// Structured list `@a[1, "x"]`.
    List(Vec<AnnotationValue>),
    /// Structured pairs `@a[k = v]`.
    Pairs(Vec<(String, AnnotationValue)>),
}

/// A token of an unstructured annotation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AnnotationToken {
    /// A string literal without its quotes; escapes are left as written.
    String(String),
    /// An integer literal: its value, without width and sign, and the literal as written.
    Int(num_bigint::BigInt, String),
    /// Any other token, as written.
    Other(String),
}

/// A value in a structured annotation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AnnotationValue {
    /// String.
    String(String),
    /// Integer.
    Int(num_bigint::BigInt),
    /// Boolean.
    Bool(bool),
}

impl Annotations {
    /// The first annotation called `name`.
    pub fn get(&self, name: &str) -> Option<&Annotation> {
        self.0.iter().find(|a| a.name == name)
    }

    /// Whether `name` is among them.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The single string of `@name("...")`, as `@name`, `@deprecated` or `@brief` carry it.
    pub fn string(&self, name: &str) -> Option<&str> {
        match &self.get(name)?.body {
            AnnotationBody::Tokens(t) => match t.as_slice() {
                [AnnotationToken::String(s)] => Some(s),
                _ => None,
            },
            _ => None,
        }
    }

    /// The single integer of `@name(n)`, as `@id` or `@priority` carry it.
    pub fn int(&self, name: &str) -> Option<&num_bigint::BigInt> {
        match &self.get(name)?.body {
            AnnotationBody::Tokens(t) => match t.as_slice() {
                [AnnotationToken::Int(i, _)] => Some(i),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Direction of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// None: action data, or a compile-time parameter.
    None,
    /// `in`.
    In,
    /// `out`.
    Out,
    /// `inout`.
    InOut,
}

/// A variable of a frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Var {
    /// Name as declared; temporaries start with `$`.
    pub name: String,
    /// Its type.
    pub ty: TypeId,
}

/// A parameter. Parameter `i` is variable `i` of the frame. `packet_in` and `packet_out` are never among them.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Name as declared.
    pub name: String,
    /// How it is passed.
    pub direction: Direction,
    /// Its type.
    pub ty: TypeId,
    /// On the parameter.
    pub annotations: Annotations,
}

/// Common to everything that is called: frame and code.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    /// Parameters.
    pub params: Vec<Param>,
    /// All variables; the first are the parameters. Each starts with its default value.
    pub vars: Vec<Var>,
}

/// An action.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// Fully qualified control-plane name (`ingress.lb.set_port`), `@name` applied.
    pub name: String,
    /// The control whose frame is [`VarRef::Outer`](crate::VarRef::Outer); `None` for top-level actions.
    pub control: Option<ControlId>,
    /// Parameters with direction come first; those without are the action data.
    pub frame: Frame,
    /// Code.
    pub body: Vec<Stmt>,
    /// On the declaration.
    pub annotations: Annotations,
    /// The place of its declaration.
    pub span: Span,
}

/// A function.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Name as declared.
    pub name: String,
    /// Parameters and locals.
    pub frame: Frame,
    /// `Void` for procedures.
    pub returns: TypeId,
    /// Code.
    pub body: Vec<Stmt>,
    /// The place of its declaration.
    pub span: Span,
}

/// How a key field is matched. Architectures declare `Range`, `Optional` and `Selector`, but their meaning is the same
/// in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // each is the match kind of that name
pub enum MatchKind {
    Exact,
    Lpm,
    Ternary,
    Range,
    Optional,
    /// Not matched: input of an action selector's hash.
    Selector,
}

impl MatchKind {
    /// Several entries may match a key of this kind, and only a priority says which of them counts.
    pub fn needs_priority(self) -> bool {
        matches!(self, MatchKind::Ternary | MatchKind::Range | MatchKind::Optional)
    }
}

/// A key field.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// Control-plane name: `@name`, or the expression's text as P4Runtime prescribes (`hdr.ipv4.dst_addr`,
    /// `hdr.stack[0].x`, `hdr.ipv4.$valid$` for `isValid()`, `meta.x[7:0]`).
    pub name: String,
    /// A scalar, in the frame of the table's control (variables are [`VarRef::Local`](crate::VarRef::Local)).
    pub expr: Expr,
    /// How it is matched.
    pub match_kind: MatchKind,
    /// On the key.
    pub annotations: Annotations,
}

/// An action in a table's list.
#[derive(Clone, Debug, PartialEq)]
pub struct TableAction {
    /// Which action.
    pub action: ActionId,
    /// Runs in the control's frame before the arguments are taken: statements that calls in them need (P4_16 section
    /// 14.2.1.2 evaluates them only when the action is invoked).
    pub setup: Vec<Stmt>,
    /// Arguments for its parameters with direction, in the control's frame.
    pub bound: Vec<crate::stmt::Arg>,
    /// `@defaultonly`.
    pub default_only: bool,
    /// `@tableonly`.
    pub table_only: bool,
    /// On the list element.
    pub annotations: Annotations,
}

/// A table instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Fully qualified control-plane name.
    pub name: String,
    /// The control whose frame keys and bound arguments are in.
    pub control: ControlId,
    /// May be empty: then every lookup misses.
    pub keys: Vec<Key>,
    /// In order of declaration.
    pub actions: Vec<TableAction>,
    /// `args` are the action data only; `action` indexes [`Table::actions`].
    pub default_action: ActionCall,
    /// `const default_action`.
    pub const_default: bool,
    /// Entries written in the program, highest precedence first, with the priorities that P4Runtime shows.
    pub entries: Vec<crate::table::Entry>,
    /// `const entries`: the control plane may not touch them, nor add any.
    pub const_entries: bool,
    /// `size`, if given; the architecture defines the meaning of 0.
    pub size: Option<u64>,
    /// Further properties whose value is an extern instance (`counters`, `implementation`, `meters` ...).
    pub extern_properties: Vec<(String, ExternInstanceId)>,
    /// Further properties whose value is a constant (`support_timeout` ...).
    pub const_properties: Vec<(String, Const)>,
    /// On the declaration.
    pub annotations: Annotations,
    /// The place of its declaration.
    pub span: Span,
}

/// Where a parser goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateRef {
    /// Index into [`Parser::states`].
    State(u32),
    /// Done.
    Accept,
    /// Failed; the error is set, or becomes `NoMatch` for a select without a matching case.
    Reject,
}

/// How a state ends.
#[derive(Clone, Debug, PartialEq)]
pub enum Transition {
    /// `transition s`.
    Goto(StateRef),
    /// `transition select(...)`. Nothing matches: reject with `NoMatch`.
    Select {
        /// The expressions to match.
        on: Vec<Expr>,
        /// In order; the first that matches wins.
        cases: Vec<SelectCase>,
    },
}

/// A case of a select.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectCase {
    /// One per expression of the select (a value set covers several).
    pub keys: Vec<KeySet>,
    /// Where it goes.
    pub next: StateRef,
}

/// A parser state.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Name as declared.
    pub name: String,
    /// Code.
    pub body: Vec<Stmt>,
    /// How it ends.
    pub transition: Transition,
    /// The place of its declaration.
    pub span: Span,
}

/// A parser instance. State 0 is `start`.
#[derive(Clone, Debug, PartialEq)]
pub struct Parser {
    /// Fully qualified name of the instance; for an argument of the package the name of its type.
    pub name: String,
    /// Parameters and locals.
    pub frame: Frame,
    /// Initialisers of locals; they run before `start`.
    pub init: Vec<Stmt>,
    /// The states.
    pub states: Vec<State>,
    /// On the declaration.
    pub annotations: Annotations,
    /// The place of its declaration.
    pub span: Span,
}

/// A control instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Control {
    /// Fully qualified name of the instance; for an argument of the package the name of its type.
    pub name: String,
    /// Parameters and locals.
    pub frame: Frame,
    /// Initialisers of locals, then the `apply` block.
    pub body: Vec<Stmt>,
    /// On the declaration.
    pub annotations: Annotations,
    /// The place of its declaration.
    pub span: Span,
}

/// The extern function that begins an `@atomic` block (P4_16, "Concurrency model"): the front end puts a call of it in
/// front of the block. The block ends with a call of [`ATOMIC_END`], or with the parser or control that the
/// architecture runs, if `exit` or `return` leads out of the block.
pub const ATOMIC_BEGIN: &str = "atomic_begin";

/// The extern function that ends an `@atomic` block.
pub const ATOMIC_END: &str = "atomic_end";

/// An extern function, or a method of an extern object.
#[derive(Clone, Debug, PartialEq)]
pub struct ExternFn {
    /// Object type for methods (`register`), `None` for functions.
    pub object: Option<String>,
    /// `read`, `hash`, `mark_to_drop` ...
    pub name: String,
    /// Names of the parameters: overloads of one name differ here.
    pub params: Vec<String>,
    /// The place of its declaration.
    pub span: Span,
}

/// An extern object instance.
#[derive(Clone, Debug, PartialEq)]
pub struct ExternInstance {
    /// Fully qualified control-plane name.
    pub name: String,
    /// `register`, `counter` ...
    pub object: String,
    /// Type arguments, written or inferred.
    pub type_args: Vec<TypeId>,
    /// Constructor arguments with the parameter's name.
    pub args: Vec<(String, Const)>,
    /// On the declaration.
    pub annotations: Annotations,
    /// The place of its declaration.
    pub span: Span,
}

/// The program's code for an abstract method of an extern object. What runs it is the object: executors need not know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Implementation {
    /// The object.
    pub object: ExternInstanceId,
    /// Name of the method.
    pub method: String,
    /// The code.
    pub function: FunctionId,
    /// Variables that it uses of the block around the object, by their place in the block's frame: its last parameters.
    pub captures: Vec<u32>,
}

/// A parser value set.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueSet {
    /// Fully qualified control-plane name.
    pub name: String,
    /// Type of its elements.
    pub elem: TypeId,
    /// How many it holds.
    pub size: u64,
    /// On the declaration.
    pub annotations: Annotations,
}

/// The package instance `main`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Package {
    /// Name of the package type (`V1Switch`).
    pub name: String,
    /// Arguments with the parameter's name, in order of the parameters.
    pub args: Vec<(String, PackageArg)>,
}

/// An argument of a package.
#[derive(Clone, Debug, PartialEq)]
pub enum PackageArg {
    /// A parser instance.
    Parser(ParserId),
    /// A control instance.
    Control(ControlId),
    /// An extern instance.
    Extern(ExternInstanceId),
    /// A nested package.
    Package(Package),
    /// A constant.
    Const(Const),
}

impl Package {
    /// The argument called `name`.
    pub fn arg(&self, name: &str) -> Option<&PackageArg> {
        self.args.iter().find(|(n, _)| n == name).map(|(_, a)| a)
    }
}

impl LValue {
    /// The whole variable `root` of type `ty`.
    pub fn var(root: crate::stmt::VarRef, ty: TypeId) -> Self {
        LValue { root, path: Vec::new(), ty }
    }
}
