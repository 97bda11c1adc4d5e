//! From a P4 program in files to what runs it: the front end with file access, followed by the architecture's checks; and the choice
//! of the executor.

#![forbid(unsafe_code)]

pub mod executor;
pub mod sources;

use crate::sources::{SourceError, read_source};
use pointsman_control::p4info::p4info;
use pointsman_frontend::diag::{Diagnostic, Severity};
use pointsman_frontend::source::{Loader, SourceMap};
use pointsman_frontend::{Checked, Compiled, Define, Failure, render};
use pointsman_ir::Span;
use pointsman_v1model::Pipeline;
use std::error::Error;
use std::fmt;
use std::path::Path;

/// The package of programs for v1model.
const PACKAGE: &str = "V1Switch";

/// Compiles a program for this switch: P4 source, or that inside of JSON ([`sources::as_json`]).
///
/// # Errors
/// It does not compile, or not for v1model.
pub fn compile(
    path: &str,
    text: &str,
    loader: &dyn Loader,
    defines: &[Define],
) -> Result<Compiled, Box<Failure>> {
    let carried = sources::carried(text);
    let text = carried.as_deref().unwrap_or(text);
    let Checked { source_map, mut diagnostics, package, program } = check(path, text, loader, defines);
    let right = diagnostics.iter().all(|d| d.severity != Severity::Error);
    match (package, program) {
        (Some((name, _)), Some(program)) if name == PACKAGE => {
            return Ok(Compiled { program, source_map, warnings: diagnostics });
        }
        (Some((name, span)), _) if right => {
            let message =
                format!("`main` is a `{name}`, not a V1Switch: the program targets another architecture");
            let error = Diagnostic::error("P1002", span, message);
            diagnostics.push(error.help(
                "`pointsman p4 check` checks it; only v1model programs run here: `V1Switch(...) main;`",
            ));
        }
        // A program without `main` is right, but cannot run.
        _ if right => {
            let no_main = |d: &&mut Diagnostic| d.code == "P0505";
            diagnostics.iter_mut().filter(no_main).for_each(|d| d.severity = Severity::Error);
        }
        _ => {}
    }
    Err(Box::new(Failure { source_map, diagnostics }))
}

/// How to translate a program from P4_14.
pub const TRANSLATE: &str =
    "translate it first: `p4c --std p4-14 --pp new.p4 old.p4`; p4c comes from https://github.com/p4lang/p4c";

/// The error for a text that is P4_14.
pub fn old_language(text: &str) -> Option<Diagnostic> {
    let span = p4_14(text)?;
    Some(Diagnostic::error("P1003", span, "this is P4_14, not P4_16").help(TRANSLATE))
}

/// Where a text is P4_14: the first declaration that only that language has.
fn p4_14(text: &str) -> Option<Span> {
    let declares = |line: &str, keyword: &str, names: &[&str]| {
        let rest = line.trim_start().strip_prefix(keyword)?;
        let name = rest.split('{').next().unwrap_or("").trim();
        let word = !name.is_empty() && name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
        (word && rest.starts_with(char::is_whitespace) && (names.is_empty() || names.contains(&name)))
            .then_some(())
    };
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let code = line.split("//").next().unwrap_or("").trim_end();
        if code.contains("#include <core.p4>") || code.contains("#include <v1model.p4>") {
            return None;
        }
        let old = declares(code, "header_type", &[])
            .or_else(|| declares(code, "control", &["ingress", "egress"]))
            .or_else(|| declares(code, "parser", &["start"]));
        if old.is_some() {
            let lo = at + (line.len() - line.trim_start().len());
            return Some(Span { file: 0, lo: lo as u32, hi: (at + code.len()) as u32 });
        }
        at += line.len();
    }
    None
}

/// Checks a program for any architecture, by the declarations that it includes. This switch must also be able to run a
/// program for v1model.
pub fn check(path: &str, text: &str, loader: &dyn Loader, defines: &[Define]) -> Checked {
    if let Some(error) = old_language(text) {
        let mut source_map = SourceMap::default();
        source_map.add(path.to_string(), text.to_string());
        return Checked { source_map, diagnostics: vec![error], package: None, program: None };
    }
    let mut checked = pointsman_frontend::check_program(path, text, loader, defines, &runs_here);
    finish(&mut checked);
    checked
}

/// Whether programs whose `main` is an instance of this package are for this switch.
pub fn runs_here(package: &str) -> bool {
    package == PACKAGE
}

/// Adds what v1model has against a program that the front end has checked, and what prevents its P4Info.
pub fn finish(checked: &mut Checked) {
    let (Some((name, main)), Some(program)) = (&checked.package, &checked.program) else { return };
    if name != PACKAGE {
        return;
    }
    let found: Vec<Diagnostic> = match Pipeline::load(program.clone()) {
        Err(problems) => {
            problems.into_iter().map(|p| refused(p.span.unwrap_or_default(), p.message)).collect()
        }
        // Annotations of the package have its place.
        Ok(_) => {
            let flaw = p4info(program).err();
            flaw.map(|e| refused(e.span.unwrap_or(*main), e.to_string())).into_iter().collect()
        }
    };
    if !found.is_empty() {
        checked.diagnostics.extend(found);
        checked.program = None;
    }
}

fn refused(span: Span, message: String) -> Diagnostic {
    Diagnostic::error("P1001", span, message)
}

/// Diagnostics as text without colours, for a message.
pub fn rendered(failure: &Failure) -> String {
    render::all_to_text(&failure.source_map, &failure.diagnostics, false)
}

/// A file whose program cannot run.
#[derive(Debug)]
pub enum FileError {
    /// It cannot be read.
    Source(SourceError),
    /// The program in this file does not compile.
    Program(String, Box<Failure>),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::Source(e) => e.fmt(f),
            FileError::Program(name, failure) => write!(f, "cannot run {name}:\n{}", rendered(failure)),
        }
    }
}

impl Error for FileError {}

/// Compiles a file for this switch. Warnings are text.
///
/// # Errors
/// An error in the file or in the program.
pub fn compile_file(
    path: &Path,
    loader: &dyn Loader,
    defines: &[Define],
) -> Result<(Compiled, String), FileError> {
    let text = read_source(path).map_err(FileError::Source)?;
    let name = path.display().to_string();
    let compiled =
        compile(&name, &text, loader, defines).map_err(|failure| FileError::Program(name, failure))?;
    let warnings = render::all_to_text(&compiled.source_map, &compiled.warnings, false);
    Ok((compiled, warnings))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::Sources;

    /// A program with a counter that counts behind `place`.
    fn with_counter(text: &str, place: &str) -> String {
        let head = "\ncontrol ";
        assert!(text.contains(place) && text.contains(head), "the program is not that of this test");
        let counted = text.replacen(place, &format!("{place}\n        seen.count(0);"), 1);
        counted.replacen(head, &format!("\ncounter(1, CounterType.packets) seen;{head}"), 1)
    }

    #[test]
    fn an_effect_before_the_state_is_here_is_refused() {
        let program = include_str!("../../../p4/programs/flowcount/main.p4");
        let shared = [Define::set("REDPLANE_SHARED_READS")];
        let (before, between, behind) = (
            "if (hdr.ports.isValid() && standard_metadata.checksum_error == 0) {",
            "                        count_packet();",
            "                        routes.apply();",
        );
        let compiles = |place: &str, defines: &[Define]| {
            compile("flowcount.p4", &with_counter(program, place), &Sources::default(), defines)
                .map_err(|f| rendered(&f))
        };
        for (place, defines, by) in [(before, &[][..], "RedPlaneFind"), (between, &shared, "RedPlaneClaim")] {
            let text = compiles(place, defines).expect_err("counted twice");
            assert!(text.contains("error[P0611]") && text.contains(&format!("when `{by}` sends")), "{text}");
        }
        for (place, defines) in [(between, &[][..]), (behind, &shared)] {
            compiles(place, defines).unwrap_or_else(|text| panic!("{text}"));
        }
    }

    #[test]
    fn annotations_that_p4info_refuses_have_a_line() {
        let program = include_str!("../../../p4/programs/acl/main.p4");
        let table = "    table rules {";
        let main = "V1Switch(";
        for (place, annotation, why) in [
            (table, "@id(0x01000005)", "has the top byte 0x01"),
            (table, "@id(\"x\")", "@id"),
            (main, "@pkginfo(doc=\"dd\")", "@pkginfo: unknown key doc"),
            (main, "@platform_property(foo=5)", "@platform_property: unknown property foo"),
        ] {
            let annotated = program.replacen(place, &format!("{annotation}\n{place}"), 1);
            let found = check("main.p4", &annotated, &Sources::default(), &[]);
            let [d] = &found.diagnostics[..] else { panic!("{annotation}: {:?}", found.diagnostics) };
            assert!(!found.is_right() && d.message.contains(why), "{annotation}: {d:?}");
            let line = 2 + annotated.lines().position(|l| l == annotation).expect("a line");
            let (at, _) = found.source_map.line_column(d.span);
            assert!(at == line || at + 1 == line, "{annotation}: line {at} of {line}");
        }
        assert!(check("main.p4", program, &Sources::default(), &[]).is_right());
    }

    #[test]
    fn an_effect_before_a_look_up_is_refused() {
        let (before, behind) = ("virtual.apply();", "bool translates = meta.tea.found;");
        let libraries = Sources::default();
        let program = include_str!("../../../p4/programs/tea-lb/main.p4");
        let text = with_counter(program, before);
        let line = 1 + text.lines().position(|l| l.trim() == "seen.count(0);").expect("the counter");
        let failure = compile("lb.p4", &text, &libraries, &[]).expect_err("counted twice");
        let [d] = &failure.diagnostics[..] else { panic!("{}", rendered(&failure)) };
        assert_eq!((d.code, d.severity), ("P0611", Severity::Error));
        assert_eq!(failure.source_map.path(d.span), "lb.p4");
        assert_eq!(failure.source_map.line_column(d.span), (line, 9));
        let (look_up, _) = d.related[0];
        assert_eq!(failure.source_map.path(look_up), "<pointsman/tea/flow_switch.p4>");
        assert_eq!(failure.source_map.text(look_up), "find.apply(meta.tea, standard_metadata)");
        assert!(d.help.as_ref().is_some_and(|h| h.contains("behind `TeaFind`")), "{d:?}");
        assert_eq!(check("lb.p4", &text, &libraries, &[]).diagnostics, failure.diagnostics);

        let plain = Define::set("PLAIN");
        for (text, defines) in [(&text, &[plain][..]), (&with_counter(program, behind), &[])] {
            let result = compile("lb.p4", text, &libraries, defines);
            result.unwrap_or_else(|f| panic!("{}", rendered(&f)));
        }
    }

    #[test]
    fn the_older_language_is_recognised() {
        fn found(text: &str) -> Option<&str> {
            p4_14(text).map(|s| &text[s.lo as usize..s.hi as usize])
        }
        assert_eq!(found("// x\n  header_type h_t {\n fields { a : 8; } }"), Some("header_type h_t {"));
        assert_eq!(found("#include \"h.p4\"\nparser start {\n"), Some("parser start {"));
        assert_eq!(found("control ingress {\n"), Some("control ingress {"));
        assert_eq!(
            found("header_type h_t { fields { a : 8; } }"),
            Some("header_type h_t { fields { a : 8; } }")
        );
        assert_eq!(found("control ingress\n{\n"), Some("control ingress"));
        for new in [
            "",
            "#include <core.p4>\n#include <v1model.p4>\ncontrol ingress {",
            "control ingress(inout headers h) {",
            "header_types x {",
            "// header_type h_t {",
            "parser start(packet_in p) {",
            "control other {",
        ] {
            assert_eq!(found(new), None, "{new}");
        }
        let failure = compile("old.p4", "header_type h_t {\n", &Sources::default(), &[]).expect_err("P4_14");
        let text = rendered(&failure);
        assert!(
            text.contains("error[P1003]") && text.contains("old.p4:1") && text.contains("--std p4-14 --pp"),
            "{text}"
        );
    }
}
