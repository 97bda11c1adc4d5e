//! The typed P4 program that the front end produces and the executors run.
//!
//! A [`Program`] is closed and instantiated: every name is an index, every type is known, every extern, parser, control
//! and table instance is separate, generics are expanded and compile-time expressions are constants.
//! Expressions have no side effects; everything that has one (calls, table application, extraction) is a statement.
//! That is what lets an executor evaluate an expression in any order, and compile it straight to native code.
//!
//! The crate names no architecture. Architectures meet programs in three places only: [`Package`] (which blocks were
//! passed to the package constructor), [`ExternFn`]s (called through [`Env::call_extern`]) and frame slots
//! ([`Executor`]), the variables that an architecture carries from block to block.
//!
//! A program that passes [`verify`](verify::verify) cannot make an executor panic.

pub mod bits;
pub mod cells;
pub mod exec;
pub mod meaning;
pub mod pass;
pub mod program;
pub mod stmt;
pub mod table;
pub mod text;
pub mod trace;
pub mod types;
pub mod value;
pub mod verify;

pub use bits::Bits;
pub use cells::{CellArray, CellKind, CellPlace, CellShape};
pub use exec::{
    ControlOutcome, CoreErrors, Env, Executor, ExternCall, FlatArgs, Generation, Known, LoadError, Lookup,
    MAX_LOOP_ROUNDS, MAX_TRANSITIONS, ParseOutcome, Spans,
};
pub use meaning::{Digest, DigestFn, Meaning};
pub use pass::{Coming, Convoy, KeptFields, Pass, PassExit, PassField, PassStep, PassValue, Passed, Passing};
pub use program::*;
pub use stmt::*;
pub use table::{
    ActionCall, Entry, EntryAction, EntryError, EntryHandle, HitCells, HitShape, KeyMatch, Misfit, TableStore,
};
pub use types::{EnumDef, Field, StructDef, Type, TypeId, Types};
pub use value::{Const, Value};
