//! The integration tests of this crate: one program, because each costs a link. Every file here is a module of it.

mod codes;
mod common;
mod diagnostics;
mod fmt;
mod forbidden;
mod fuzz_semantics;
mod fuzz_syntax;
mod invalid_headers;
mod language_table;
mod limits;
mod lowering;
mod p4c_corpus;
mod programs;
mod running;
mod speed;
