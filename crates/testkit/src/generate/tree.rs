//! The generator's own form of a program. It has nothing in common with the compiler's: [`reference`](crate::reference)
//! decides the meaning of a program, from this tree alone.
//!
//! Names follow from indices (`v7`, `H2`, `f0`, `t1` ...), so dropping a part never leaves a name without meaning.

use num_bigint::BigInt;

/// Index into [`Program::vars`].
pub type VarId = usize;

/// The parsed headers: a struct, type 0.
pub const HDR: VarId = 0;
/// The user's metadata: a struct, type 1.
pub const META: VarId = 1;
/// standard_metadata: a struct, type 2, whose fields are [`STD_FIELDS`].
pub const STD: VarId = 2;

/// The fields of standard_metadata that programs use.
pub const STD_FIELDS: [&str; 5] =
    ["ingress_port", "egress_spec", "egress_port", "packet_length", "parser_error"];

/// Errors of core.p4 that can be seen in programs, in our order; a program's own ones follow.
pub const CORE_ERRORS: [&str; 7] = [
    "NoError",
    "PacketTooShort",
    "NoMatch",
    "StackOutOfBounds",
    "HeaderTooShort",
    "ParserTimeout",
    "ParserInvalidArgument",
];

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Ty {
    Bool,
    Bit(u32),
    Int(u32),
    /// An enum with a representation, by index into [`Program::sers`].
    Ser(usize),
    /// An enum without one: its number of members, by index into [`Program::enums`].
    Enum(usize),
    Error,
    /// With its greatest width.
    Varbit(u32),
    Struct(usize),
    Header(usize),
    Union(usize),
    /// Of headers or unions.
    Stack(Box<Ty>, u32),
    Tuple(Vec<Ty>),
}

impl Ty {
    /// Whether it is one value, not several.
    pub fn is_scalar(&self) -> bool {
        matches!(self, Ty::Bool | Ty::Bit(_) | Ty::Int(_) | Ty::Ser(_) | Ty::Enum(_) | Ty::Error)
    }
}

/// An enum with a representation.
#[derive(Clone, Debug)]
pub struct Ser {
    /// `bit<W>` or `int<W>`.
    pub repr: Ty,
    /// Values of the members, all different.
    pub values: Vec<BigInt>,
}

/// A step from a place to one inside it.
#[derive(Clone, Debug)]
pub enum Step {
    /// A field of a struct, header or union; an element of a tuple.
    Field(usize),
    /// An element of a stack.
    Index(Expr),
    /// `next` of a stack.
    Next,
    /// `last` of a stack.
    Last,
    /// Bits of a number, from the first to the second; the last step of an argument that is written.
    Slice(u32, u32),
}

/// Something that can be read, mostly also written.
#[derive(Clone, Debug)]
pub struct Place {
    /// Where it begins.
    pub root: VarId,
    /// From there.
    pub path: Vec<Step>,
    /// Type of the place that the path leads to.
    pub ty: Ty,
}

impl Place {
    /// A whole variable.
    pub fn var(root: VarId, ty: &Ty) -> Place {
        Place { root, path: Vec::new(), ty: ty.clone() }
    }

    /// One step further.
    pub fn step(&self, step: Step, ty: &Ty) -> Place {
        let mut path = self.path.clone();
        path.push(step);
        Place { root: self.root, path, ty: ty.clone() }
    }
}

/// `-`, `~`, `!`, `+`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Unary {
    Neg,
    Plus,
    BitNot,
    Not,
}

/// Operators with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Binary {
    Add,
    Sub,
    Mul,
    /// Only between values known at compile time.
    Div,
    /// Only between values known at compile time.
    Mod,
    SatAdd,
    SatSub,
    And,
    Or,
    Xor,
    Shl,
    Shr,
    Concat,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    AndAnd,
    OrOr,
}

/// An argument of a call.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Arg {
    In(Expr),
    /// For `out` and `inout` parameters.
    Out(Place),
}

/// An expression with its type. Calls may change variables.
#[derive(Clone, Debug)]
pub struct Expr {
    /// Type of the value.
    pub ty: Ty,
    /// How it is made.
    pub kind: Kind,
}

/// How a value is made.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A number of a type with digits (`8w5`).
    Num(BigInt),
    /// A number without a type, which gets one from its context.
    Untyped(BigInt),
    /// A calculation with numbers without a type, which the compiler does.
    Known(Box<Calc>),
    /// `true`, `false`
    Bool(bool),
    /// A member of an enum or an error, by its index.
    Member(usize),
    /// The value of a place.
    Read(Place),
    /// One operand.
    Unary(Unary, Box<Expr>),
    /// Two operands.
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// `c ? a : b`
    Mux(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `(type)e`
    Cast(Box<Expr>),
    /// `e[hi:lo]`
    Slice(Box<Expr>, u32, u32),
    /// `h.isValid()` of a header or a union.
    IsValid(Place),
    /// A function call.
    Call(usize, Vec<Arg>),
    /// `t.apply().hit`, or `miss`: of a table of the current control.
    Hit(usize, bool),
    /// A struct, header or tuple from its fields; `true`: written with names.
    Aggregate(Vec<Expr>, bool),
    /// `{#}`
    Invalid,
    /// `stack.lastIndex`
    LastIndex(Place),
    /// `packet.lookahead<T>()`
    Lookahead,
}

/// A calculation at compile time.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Calc {
    Num(BigInt),
    Op(Binary, Box<Calc>, Box<Calc>),
}

/// A statement.
#[derive(Clone, Debug)]
pub enum Stmt {
    /// A variable with its first value.
    Declare(VarId, Option<Expr>),
    /// `place = e`
    Assign(Place, Expr),
    /// `place[hi:lo] = e`
    AssignSlice(Place, u32, u32, Expr),
    /// `place op= e`
    Update(Binary, Place, Expr),
    /// A condition.
    If(Expr, Vec<Stmt>, Vec<Stmt>),
    /// A separate block.
    Block(Vec<Stmt>),
    /// `switch (e)`: labels with their block (`None`: falls through), and the default one.
    Switch(Expr, Vec<(Expr, Option<Vec<Stmt>>)>, Option<Vec<Stmt>>),
    /// `switch (t.apply().action_run)`: by index into the table's actions.
    SwitchAction(usize, Vec<(usize, Option<Vec<Stmt>>)>, Option<Vec<Stmt>>),
    /// `for (T v = 0; v < end; v = v + 1)`
    ForCount(VarId, Expr, Vec<Stmt>),
    /// `for (T v in lo .. hi)`
    ForRange(VarId, Expr, Expr, Vec<Stmt>),
    /// `for (T v in { a, b, ... })`
    ForList(VarId, Vec<Expr>, Vec<Stmt>),
    /// `for (h v in stack)`
    ForStack(VarId, Place, Vec<Stmt>),
    /// Ends a loop.
    Break,
    /// Ends a round of a loop.
    Continue,
    /// Ends a function, action or control.
    Return(Option<Expr>),
    /// Ends everything.
    Exit,
    /// A call of a function whose value is unused.
    Call(usize, Vec<Arg>),
    /// A direct call of an action of the current control.
    Action(usize, Vec<Arg>),
    /// `t.apply();`
    Table(usize),
    /// `c.apply(...)` of an instance of the current control.
    Control(usize, Vec<Arg>),
    /// `h.setValid()` or `h.setInvalid()`
    SetValid(Place, bool),
    /// `stack.push_front(n)`
    Push(Place, u32),
    /// `stack.pop_front(n)`
    Pop(Place, u32),
    /// `r.read(place, index)`
    RegisterRead(usize, Place, Expr),
    /// `r.write(index, value)`
    RegisterWrite(usize, Expr, Expr),
    /// `c.count(index)`
    Count(usize, Expr),
    /// `packet.extract(place)`, with the width of the varbit field for a header that has one.
    Extract(Place, Option<Expr>),
    /// `packet.advance(bits)`
    Advance(Expr),
    /// `verify(e, error)`
    Verify(Expr, usize),
    /// A call of an instance of another parser.
    Parser(usize, Vec<Arg>),
    /// `packet.emit(place)`
    Emit(Place),
}

/// Direction of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Dir {
    /// Of actions: from the table's entry.
    None,
    In,
    Out,
    InOut,
}

/// A function or an action.
#[derive(Clone, Debug)]
pub struct Callable {
    /// Parameters; those without a direction come last.
    pub params: Vec<(Dir, VarId)>,
    /// Type of the result, for functions.
    pub returns: Option<Ty>,
    /// Code.
    pub body: Vec<Stmt>,
}

/// How a key is matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum MatchKind {
    Exact,
    Lpm,
    Ternary,
    Range,
    Optional,
}

/// The match of an entry for a key, or of a select's case for its expression.
#[derive(Clone, Debug)]
pub enum Match {
    /// `_`
    Any,
    /// One value.
    Value(BigInt),
    /// `value &&& mask`
    Mask(BigInt, BigInt),
    /// `value &&& mask` with the given number of ones at the top.
    Prefix(BigInt, u32),
    /// `lo .. hi`
    Range(BigInt, BigInt),
    /// A value set of the parser.
    Set(usize),
}

/// A table entry.
#[derive(Clone, Debug)]
pub struct Entry {
    /// One per key.
    pub matches: Vec<Match>,
    /// Index into the table's actions.
    pub action: usize,
    /// Values of its parameters without direction.
    pub args: Vec<BigInt>,
    /// Larger wins; 0 if the key decides.
    pub priority: u32,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Keys.
    pub keys: Vec<(Expr, MatchKind)>,
    /// Action of the control, with the arguments for its parameters with direction.
    pub actions: Vec<(usize, Vec<Arg>)>,
    /// Index into `actions` with the values of the parameters without direction.
    pub default: (usize, Vec<BigInt>),
    /// Written in the program.
    pub entries: Vec<Entry>,
    /// `const entries`
    pub constant: bool,
    /// Added by the control plane.
    pub added: Vec<Entry>,
}

/// A control.
#[derive(Clone, Debug, Default)]
pub struct Control {
    /// Of `apply`; empty for ingress and egress, which have those of the architecture.
    pub params: Vec<(Dir, VarId)>,
    /// Constructor parameters, known at compile time; variables that are never written.
    pub constructor: Vec<VarId>,
    /// Instances of earlier controls, with the values of their constructor parameters.
    pub instances: Vec<(usize, Vec<BigInt>)>,
    /// Variables of the whole control with their first values.
    pub locals: Vec<(VarId, Option<Expr>)>,
    /// Registers: width and size.
    pub registers: Vec<(u32, u32)>,
    /// Sizes of counters.
    pub counters: Vec<u32>,
    /// Actions.
    pub actions: Vec<Callable>,
    /// Tables.
    pub tables: Vec<Table>,
    /// Code.
    pub body: Vec<Stmt>,
}

/// Where a parser goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Next {
    State(usize),
    Accept,
    Reject,
}

/// A state of a parser.
#[derive(Clone, Debug)]
pub struct State {
    /// Code.
    pub body: Vec<Stmt>,
    /// The expressions to match; may be empty.
    pub on: Vec<Expr>,
    /// Cases in order.
    pub cases: Vec<(Vec<Match>, Next)>,
    /// `default` or the only transition; `None`: nothing matches.
    pub otherwise: Option<Next>,
}

/// A parser.
#[derive(Clone, Debug, Default)]
pub struct Parser {
    /// After the packet; empty for the main parser, which has those of the architecture.
    pub params: Vec<(Dir, VarId)>,
    /// Variables of the whole parser with their first values.
    pub locals: Vec<(VarId, Option<Expr>)>,
    /// Value sets: of a `bit<W>`, with the members that the control plane gives.
    pub sets: Vec<(u32, Vec<BigInt>)>,
    /// The first is `start`.
    pub states: Vec<State>,
}

/// A program and the packets that it gets.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Numbers of members of enums.
    pub enums: Vec<usize>,
    /// Enums with a representation.
    pub sers: Vec<Ser>,
    /// Types of fields of structs: 0 headers, 1 metadata, 2 standard metadata, then others.
    pub structs: Vec<Vec<Ty>>,
    /// Types of fields of headers.
    pub headers: Vec<Vec<Ty>>,
    /// Headers of header unions.
    pub unions: Vec<Vec<usize>>,
    /// Number of its own errors.
    pub errors: usize,
    /// Types of all variables.
    pub vars: Vec<Ty>,
    /// Functions; each calls only earlier ones.
    pub functions: Vec<Callable>,
    /// Sub-parsers, then the main one.
    pub parsers: Vec<Parser>,
    /// Sub-controls, then ingress, then egress.
    pub controls: Vec<Control>,
    /// Of the deparser.
    pub deparser: Vec<Stmt>,
    /// Port and bytes.
    pub packets: Vec<(u32, Vec<u8>)>,
}

impl Program {
    /// The type that is matched, compared and stored: the representation of an enum that has one.
    pub fn repr<'a>(&'a self, ty: &'a Ty) -> &'a Ty {
        match ty {
            Ty::Ser(i) => &self.sers[*i].repr,
            other => other,
        }
    }

    /// Width of a number type in bits; 1 for `bool`.
    pub fn width(&self, ty: &Ty) -> u32 {
        match self.repr(ty) {
            Ty::Bit(w) | Ty::Int(w) => *w,
            _ => 1,
        }
    }

    /// Types of the parts of a struct, header, union or tuple.
    pub fn fields(&self, ty: &Ty) -> Vec<Ty> {
        match ty {
            Ty::Struct(i) => self.structs[*i].clone(),
            Ty::Header(i) => self.headers[*i].clone(),
            Ty::Union(i) => self.unions[*i].iter().map(|h| Ty::Header(*h)).collect(),
            Ty::Tuple(t) => t.clone(),
            _ => Vec::new(),
        }
    }

    /// Index of the ingress control.
    pub fn ingress(&self) -> usize {
        self.controls.len() - 2
    }
}
