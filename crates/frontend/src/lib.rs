//! P4_16 source in, a typed [`Program`](pointsman_ir::Program) or diagnostics out.
//!
//! The passes, each in its own module, and what holds after each:
//! 1. `lex`: text of one file into tokens with spans.
//! 2. `preprocess`: includes, macros and conditionals; one token stream, every token with the span where it was written.
//! 3. `parse`: tokens into the syntax tree of [`ast`]. Names are not resolved.
//! 4. `check`: names resolved, types checked, compile-time values evaluated; every rule of the language that
//!    does not depend on instantiation has been checked.
//! 5. `lint`: a program without errors gets warnings about probable mistakes. It changes nothing.
//! 6. `repeat`: nothing that outlives a packet happens again because the packet comes back.
//! 7. `lower`: instances created, calls ordered into temporaries, everything expressed in `ir`.
//!
//! Nothing here reads files or prints: sources come through a [`source::Loader`], problems leave as
//! [`diag::Diagnostic`]s.

#![forbid(unsafe_code)]

pub mod ast;
mod check;
pub mod codes;
pub mod diag;
pub mod fmt;
pub mod index;
mod lex;
mod lint;
mod lower;
mod parse;
mod preprocess;
pub mod render;
mod repeat;
pub mod source;

pub use parse::RESERVED;
pub use preprocess::Define;

/// Reads a program: `main_text`, known as `main_path`, and its includes, with the macros in `defines`.
///
/// The tree holds the readable parts. If a diagnostic is an error, it is incomplete, and only useful to find more
/// errors.
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

/// A program that compiled.
#[derive(Debug)]
pub struct Compiled {
    /// It passes [`pointsman_ir::verify::verify`].
    pub program: pointsman_ir::Program,
    /// The texts that spans refer to.
    pub source_map: source::SourceMap,
    /// Diagnostics that are not errors.
    pub warnings: Vec<diag::Diagnostic>,
}

/// Why a program did not compile.
#[derive(Debug)]
pub struct Failure {
    /// The texts that spans refer to.
    pub source_map: source::SourceMap,
    /// At least one is an error.
    pub diagnostics: Vec<diag::Diagnostic>,
}

/// Compiles a program: `main_text`, known as `main_path`, and its includes, with the macros in `defines`.
pub fn compile(
    main_path: &str,
    main_text: &str,
    loader: &dyn source::Loader,
    defines: &[Define],
) -> Result<Compiled, Failure> {
    let (checked, _) = passes(main_path, main_text, loader, defines, &|_| true, false);
    let (source_map, diagnostics) = (checked.source_map, checked.diagnostics);
    match checked.program {
        Some(program) => Ok(Compiled { program, source_map, warnings: diagnostics }),
        None => Err(Failure { source_map, diagnostics }),
    }
}

/// The result of [`check_program`].
#[derive(Debug)]
pub struct Checked {
    /// The texts that spans refer to.
    pub source_map: source::SourceMap,
    /// All diagnostics.
    pub diagnostics: Vec<diag::Diagnostic>,
    /// The package that `main` is an instance of, and where `main` is.
    pub package: Option<(String, pointsman_ir::Span)>,
    /// The program, if executors can run it.
    pub program: Option<pointsman_ir::Program>,
}

impl Checked {
    /// Whether the program is right. It need not have a [`Checked::program`] for that.
    pub fn is_right(&self) -> bool {
        !failed(&self.diagnostics)
    }
}

/// Checks a program for any architecture, by the declarations that it includes.
///
/// `runs` returns whether a package's programs are meant to run here. If so, constructs that executors do not support
/// are errors, as in [`compile`]. If not, only violations of the language are errors, and a program without `main` is
/// right if its declarations are, with a warning.
pub fn check_program(
    main_path: &str,
    main_text: &str,
    loader: &dyn source::Loader,
    defines: &[Define],
    runs: &dyn Fn(&str) -> bool,
) -> Checked {
    passes(main_path, main_text, loader, defines, &|package| package.is_some_and(runs), false).0
}

/// The result of [`analyze`].
#[derive(Debug)]
pub struct Analysis {
    /// As [`check_program`] says.
    pub checked: Checked,
    /// The tree; of a program with syntax errors, what can be read.
    pub tree: ast::Program,
    /// The names.
    pub index: index::Index,
}

/// [`check_program`] for editors: with the syntax tree and the meaning of names, also of programs that have errors.
pub fn analyze(
    main_path: &str,
    main_text: &str,
    loader: &dyn source::Loader,
    defines: &[Define],
    runs: &dyn Fn(&str) -> bool,
) -> Analysis {
    let strict = |package: Option<&str>| package.is_some_and(runs);
    let (checked, found) = passes(main_path, main_text, loader, defines, &strict, true);
    let (tree, index) = found.unwrap_or_default();
    Analysis { checked, tree, index }
}

/// All passes. `strict` says of the package of `main` whether the program must be one that executors run. `names`: also
/// returns the tree and the names.
fn passes(
    main_path: &str,
    main_text: &str,
    loader: &dyn source::Loader,
    defines: &[Define],
    strict: &dyn Fn(Option<&str>) -> bool,
    names: bool,
) -> (Checked, Option<(ast::Program, index::Index)>) {
    let (source_map, program, mut diagnostics) = parse_program(main_path, main_text, loader, defines);
    let indexed =
        |tree: &mut check::tree::Tree, record: Option<_>| record.map(|r| index::build(tree, r, &source_map));
    // A tree with holes would only give errors that follow from the first ones.
    if failed(&diagnostics) {
        let index = names.then(|| check::check(&program, &source_map, &mut Vec::new(), true));
        let index = index.and_then(|(mut tree, record)| indexed(&mut tree, record));
        let checked = Checked { source_map, diagnostics, package: None, program: None };
        return (checked, index.map(|i| (program, i)));
    }
    let (mut tree, record) = check::check(&program, &source_map, &mut diagnostics, names);
    let index = indexed(&mut tree, record);
    let checked = finish(tree, &program, source_map, diagnostics, strict);
    (checked, index.map(|i| (program, i)))
}

/// The passes after checking.
fn finish(
    mut tree: check::tree::Tree,
    program: &ast::Program,
    source_map: source::SourceMap,
    mut diagnostics: Vec<diag::Diagnostic>,
    strict: &dyn Fn(Option<&str>) -> bool,
) -> Checked {
    let package = tree.main_package();
    let strict = strict(package.as_ref().map(|(name, _)| name.as_str()));
    let relaxed = relax(&mut diagnostics, strict);
    if !failed(&diagnostics) {
        lint::lint(&mut tree, program, &source_map, &mut diagnostics);
        repeat::check(&tree, &mut diagnostics);
    }
    lint::silence(program, &mut diagnostics);
    if failed(&diagnostics) || relaxed {
        return Checked { source_map, diagnostics, package, program: None };
    }
    let mut lowered = lower::lower(tree, &mut diagnostics);
    let sources = source_map.files.iter().map(|f| pointsman_ir::Source::new(&f.path, &f.text, &f.markers));
    lowered.sources = sources.collect();
    if !failed(&diagnostics) {
        let problems = pointsman_ir::verify::verify(&lowered);
        diagnostics.extend(problems.into_iter().map(|p| verifier_problem(&lowered, p)));
    }
    let relaxed = relax(&mut diagnostics, strict);
    let program = (!failed(&diagnostics) && !relaxed).then_some(lowered);
    Checked { source_map, diagnostics, package, program }
}

fn failed(diagnostics: &[diag::Diagnostic]) -> bool {
    diagnostics.iter().any(|d| d.severity == diag::Severity::Error)
}

/// Unless `strict`, problems that only matter for running are no longer errors: an incomplete program becomes a
/// warning, constructs that executors do not support are not reported. Returns whether any was found.
fn relax(diagnostics: &mut Vec<diag::Diagnostic>, strict: bool) -> bool {
    if strict {
        return false;
    }
    let mut found = false;
    diagnostics.retain_mut(|d| match d.code {
        check::NO_MAIN => {
            d.severity = diag::Severity::Warning;
            found = true;
            true
        }
        check::UNSUPPORTED | TOO_LARGE => {
            found = true;
            false
        }
        _ => true,
    });
    found
}

/// The code of the verifier's findings.
const TOO_LARGE: &str = "P0903";

/// The verifier's finding, at the block that it names: a limit of the executors, or else a bug in the compiler.
fn verifier_problem(program: &pointsman_ir::Program, problem: String) -> diag::Diagnostic {
    let blocks = program.parsers.iter().map(|p| ("parser", &p.name, p.span));
    let blocks = blocks
        .chain(program.controls.iter().map(|c| ("control", &c.name, c.span)))
        .chain(program.actions.iter().map(|a| ("action", &a.name, a.span)))
        .chain(program.functions.iter().map(|f| ("function", &f.name, f.span)))
        .chain(program.tables.iter().map(|t| ("table", &t.name, t.span)));
    // The longest name that fits: `control I` also begins `control I2`.
    let named = |(kind, name, span): (&str, &String, pointsman_ir::Span)| {
        let block = format!("{kind} {name}");
        problem.starts_with(&block).then_some((block.len(), span))
    };
    let span = blocks.filter_map(named).max_by_key(|(n, _)| *n).map(|(_, s)| s).unwrap_or_default();
    diag::Diagnostic::error(TOO_LARGE, span, problem)
        .help("if this concerns size or depth, use smaller types or less nesting; otherwise it is a bug in this compiler")
}
