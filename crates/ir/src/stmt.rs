//! Expressions and statements.
//!
//! Expressions are trees, every node with its type; they read places and compute, and that is all. The front end
//! evaluates calls into temporaries first, in the order that P4_16 section 6.8 demands.

use crate::program::{
    ActionId, ControlId, ExternFnId, ExternInstanceId, FunctionId, ParserId, TableId, ValueSetId,
};
use crate::types::TypeId;
use crate::value::Value;

/// A place in P4 source, in bytes. `file` indexes the front end's source map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// Which file.
    pub file: u32,
    /// First byte.
    pub lo: u32,
    /// One past the last byte.
    pub hi: u32,
}

/// A variable: its frame and its index.
///
/// A callable (parser, control, action, function) has one flat list of variables, its frame: parameters first, then
/// locals and temporaries. Actions declared inside a control also see the control's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum VarRef {
    /// Of the callable itself.
    Local(u32),
    /// Of the control that encloses this action.
    Outer(u32),
}

/// A place that can be read and written.
#[derive(Clone, Debug, PartialEq)]
pub struct LValue {
    /// The variable.
    pub root: VarRef,
    /// From the variable to the place.
    pub path: Vec<Proj>,
    /// Type of the place.
    pub ty: TypeId,
}

/// One step into a variable.
#[derive(Clone, Debug, PartialEq)]
pub enum Proj {
    /// Field of a struct, header or header union, or element of a tuple.
    Field(u32),
    /// `stack[i]`. Out of range: a read gives an invalid header, a write is lost (P4_16 section 8.18 leaves it
    /// undefined; this is what BMv2 users see as harmless).
    Index(Expr),
    /// `stack.next`; past the end: error `StackOutOfBounds`, parser goes to reject. Only in parsers.
    Next,
    /// `stack.last`; empty: error `StackOutOfBounds`. Only in parsers.
    Last,
    /// `x[hi:lo]`; always the last step.
    Slice {
        /// Highest bit.
        hi: u32,
        /// Lowest bit.
        lo: u32,
    },
}

/// An expression without side effects.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// The kind of expression.
    pub kind: ExprKind,
    /// Type of its value.
    pub ty: TypeId,
    /// Its position in the source.
    pub span: Span,
}

/// Kinds of expression. Operand types are as P4_16 section 8 demands after implicit casts have been made explicit:
/// both operands of arithmetic and comparison have the same type.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// A constant.
    Const(Value),
    /// The value of a place. Reading a field of an invalid header gives an unspecified value.
    Read(LValue),
    /// One operand.
    Unary(UnaryOp, Box<Expr>),
    /// Two operands. `And` and `Or` do not evaluate the right one when the left one decides.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `cond ? a : b`.
    Mux(Box<Expr>, Box<Expr>, Box<Expr>),
    /// Conversion to this expression's type: bit/int of any widths (sign-extending from `int<W>`), bool to and from
    /// `bit<1>`, to and from enums with representation and new types.
    Cast(Box<Expr>),
    /// `x[hi:lo]` of a value that is not a place.
    Slice(Box<Expr>, u32, u32),
    /// Field of a value that is not a place.
    Field(Box<Expr>, u32),
    /// Struct, tuple or valid header from its fields.
    Aggregate(Vec<Expr>),
    /// `{#}`: an invalid header, or header union without a valid header.
    Invalid,
    /// `h.isValid()` of a header or header union.
    IsValid(LValue),
    /// `stack.lastIndex`.
    LastIndex(LValue),
}

/// Operators with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    /// `!`
    Not,
    /// `~`
    BitNot,
    /// `-`
    Neg,
}

/// Operators with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each is its P4 operator
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    /// Division and remainder survive only with compile-time operands of `int`; kept for widths known positive.
    Div,
    Mod,
    /// `|+|`
    SatAdd,
    /// `|-|`
    SatSub,
    BitAnd,
    BitOr,
    BitXor,
    Shl,
    /// Arithmetic on `int<W>`.
    Shr,
    /// `++`
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

/// How an argument is passed (P4_16 section 6.8: copy-in copy-out, left to right).
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    /// `in` and directionless.
    In(Expr),
    /// `out`: the callee starts from the default value.
    Out(LValue),
    /// `inout`.
    InOut(LValue),
}

/// The callee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callee {
    /// An action, called directly.
    Action(ActionId),
    /// A function.
    Function(FunctionId),
    /// `control.apply(...)`.
    Control(ControlId),
    /// `parser.apply(...)`: continues on the same packet; reject propagates.
    Parser(ParserId),
    /// An extern function, or a method of an instance.
    Extern {
        /// Which function or method.
        function: ExternFnId,
        /// The object, for methods.
        instance: Option<ExternInstanceId>,
    },
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    /// The kind of statement.
    pub kind: StmtKind,
    /// Its position in the source.
    pub span: Span,
}

/// Kinds of statement.
#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    /// `place = value`. Assigning a header copies its validity; writing a field of an invalid header has no effect
    /// that can be observed.
    Assign(LValue, Expr),
    /// `h.setValid()`: an invalid header starts with default values, a valid one keeps its fields. On a member of a
    /// header union the other members become invalid.
    SetValid(LValue),
    /// `h.setInvalid()`.
    SetInvalid(LValue),
    /// `stack.push_front(n)`.
    PushFront(LValue, u32),
    /// `stack.pop_front(n)`.
    PopFront(LValue, u32),
    /// A call; the result goes to `result`.
    Call {
        /// Where the returned value goes.
        result: Option<LValue>,
        /// The callee.
        callee: Callee,
        /// Type arguments of a generic extern, such as the `T` of `digest<T>`.
        type_args: Vec<TypeId>,
        /// In order of the parameters; the packet is never among them.
        args: Vec<Arg>,
    },
    /// `table.apply()`: key expressions are evaluated, the table looked up and the action run.
    Apply {
        /// Which table.
        table: TableId,
        /// `bool`: was an entry hit?
        hit: Option<LValue>,
        /// `bit<32>`: index in [`Table::actions`](crate::Table::actions) of the action that ran.
        action_run: Option<LValue>,
    },
    /// `if`.
    If(Expr, Vec<Stmt>, Vec<Stmt>),
    /// `switch` on values; the first case that has an equal label runs; no fall-through remains.
    Switch {
        /// Scalar.
        on: Expr,
        /// Labels (constants of the type of `on`) and what runs.
        cases: Vec<(Vec<Value>, Vec<Stmt>)>,
        /// Nothing matched.
        default: Vec<Stmt>,
    },
    /// `while (cond) { body; update }`; `Continue` jumps to `update`. From the loops of P4_16 1.2.5.
    Loop {
        /// Checked before each round.
        cond: Expr,
        /// The body.
        body: Vec<Stmt>,
        /// Runs after the body of each round.
        update: Vec<Stmt>,
    },
    /// Leave the innermost loop.
    Break,
    /// Next round of the innermost loop.
    Continue,
    /// Leave the callable (action, function, control, or parser state's block).
    Return(Option<Expr>),
    /// `exit`: leave the control and everything that called it, up to the architecture.
    Exit,
    /// `packet.extract(header)`; with `varbits` the width in bits of the one varbit field. Sets the header valid.
    /// Errors: `PacketTooShort`, `HeaderTooShort`, `StackOutOfBounds` by the path.
    Extract {
        /// A header place.
        header: LValue,
        /// `bit<32>`: width of the varbit field.
        varbits: Option<Expr>,
    },
    /// `packet.lookahead<T>()` into a place of type T (bits, struct or header).
    Lookahead(LValue),
    /// `packet.advance(bits)`: `bit<32>`.
    Advance(Expr),
    /// `packet.length()` in bytes into a `bit<32>` place.
    PacketLength(LValue),
    /// `verify(condition, error)` in a parser: if false, set the error and reject.
    Verify(Expr, Expr),
    /// `packet.emit(x)`: a header (if valid), or everything inside a struct, stack or union in order.
    Emit(Expr),
}

/// The values that match in a `select` case, an entry set or a value set (P4_16 section 8.14).
#[derive(Clone, Debug, PartialEq)]
pub enum KeySet {
    /// Equal.
    Value(Expr),
    /// `value &&& mask`.
    Mask(Expr, Expr),
    /// `lo .. hi`, both included.
    Range(Expr, Expr),
    /// `_` or `default`.
    Any,
    /// Members of a parser value set; covers as many keys as the set's element has fields.
    ValueSet(ValueSetId),
}
