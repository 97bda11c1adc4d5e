//! P4_16 source in, a typed [`Program`](pointsman_ir::Program) or diagnostics out.
//!
//! The passes, each in its own module, and what holds after each:
//! 1. `lex`: text of one file into tokens with spans.
//! 2. `preprocess`: includes, macros and conditionals; one token stream, every token with the span where it was written.
//! 3. `parse`: tokens into the syntax tree of [`ast`]. Names are not resolved.
//! 4. `check`: names resolved, types known and checked, compile-time values evaluated; every rule of the language that
//!    does not depend on instantiation has been checked.
//! 5. `lower`: instances made, calls ordered into temporaries, everything written as `ir`.
//!
//! Nothing here reads files or prints: sources come through a [`source::Loader`], problems leave as
//! [`diag::Diagnostic`]s.

pub mod ast;
pub mod diag;
mod lex;
mod parse;
mod preprocess;
pub mod render;
pub mod source;

pub use preprocess::Define;

/// Reads a program: `main_text`, known as `main_path`, and what it includes, with macros defined as `defines` say.
///
/// The tree holds what could be read. If a diagnostic is an error, it is not all of the program, and only good for
/// looking for more errors.
pub fn parse_program(
    main_path: &str,
    main_text: &str,
    loader: &dyn source::Loader,
    defines: &[Define],
) -> (source::SourceMap, ast::Program, Vec<diag::Diagnostic>) {
    let (map, tokens, mut diags) = preprocess::preprocess(main_path, main_text, loader, defines);
    let (program, syntax) = parse::parse(tokens);
    diags.extend(syntax);
    (map, program, diags)
}
