//! RedPlane: two switches that run the compiled library on the interpreter, the store, and clients (docs/redplane.md).

mod history;
mod interned;
mod letter;
mod nodes;
mod program;
