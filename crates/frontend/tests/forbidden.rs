//! Small programs with constructs that the specification forbids, one a line in `data/forbidden.txt`: each is refused
//! with its code, and only for one reason or its consequences.

use crate::common::Dirs;
use pointsman_frontend::check_program;
use pointsman_frontend::diag::Severity;
use std::path::Path;

#[test]
fn everything_forbidden_is_refused() {
    let loader = Dirs(vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4/include")]);
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in include_str!("data/forbidden.txt").lines().filter(|l| !l.starts_with('#')) {
        let (code, program) = line.split_once(' ').expect("CODE PROGRAM");
        count += 1;
        let text = format!("#include <core.p4>\n{program}\n");
        let checked = check_program("forbidden.p4", &text, &loader, &[], &|_| false);
        let errors: Vec<_> = checked.diagnostics.iter().filter(|d| d.severity == Severity::Error).collect();
        let explained =
            errors.iter().all(|d| d.help.is_some() || !d.label.is_empty() || !d.related.is_empty());
        if !errors.iter().any(|d| d.code == code) || errors.len() > 3 || !explained {
            wrong.push(format!("{code} expected for `{program}`: {errors:#?}"));
        }
    }
    assert!(count > 100, "{count} programs");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
