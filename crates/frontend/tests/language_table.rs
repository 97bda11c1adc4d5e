//! docs/language.md is true: each row of its table has an example, and compiling it gives the diagnostic of the row, or
//! none.

use crate::common::Dirs;
use pointsman_frontend::compile;
use pointsman_frontend::diag::Severity;
use std::collections::BTreeMap;
use std::path::Path;

const PRELUDE: &str = "#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> x; bit<8> y; }
struct headers_t { h_t h; }
struct metadata_t { bit<8> m; }
";
const CONTROL: &str =
    "control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply {} }
";
const REST: &str = "#include \"skeleton.p4\"
";

/// Rows: name, and whether it is refused, with the code in the last column.
fn rows(text: &str) -> Vec<(String, bool, String)> {
    let mut out = Vec::new();
    for line in text.lines().filter(|l| l.starts_with("| [")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let name = cells[0].trim_start_matches('[').split(']').next().unwrap_or("").to_string();
        out.push((name, cells[1].starts_with("refused"), cells.last().unwrap_or(&"").to_string()));
    }
    out
}

/// Examples by their heading.
fn examples(text: &str) -> BTreeMap<String, String> {
    text.split("\n### ")
        .skip(1)
        .filter_map(|section| {
            let (name, rest) = section.split_once('\n')?;
            let code = rest.split_once("```p4\n")?.1.split_once("```")?.0;
            Some((name.trim().to_string(), code.to_string()))
        })
        .collect()
}

#[test]
fn the_table_is_true() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("../../docs/language.md")).expect("docs/language.md");
    let (rows, mut examples) = (rows(&text), examples(&text));
    assert!(rows.len() >= 10, "{rows:?}");
    let loader = Dirs(vec![root.join("../../p4/include"), root.join("tests/accept/include")]);
    let mut wrong = Vec::new();
    for (name, refused, code) in rows {
        let Some(example) = examples.remove(&name) else {
            wrong.push(format!("{name} has no example"));
            continue;
        };
        let control = if example.contains("control I(") { "" } else { CONTROL };
        let program = format!("{PRELUDE}{example}{control}{REST}");
        let (compiled, found) = match compile(&name, &program, &loader, &[]) {
            Ok(c) => (true, c.warnings),
            Err(f) => (false, f.diagnostics),
        };
        let level = if refused { Severity::Error } else { Severity::Warning };
        let said: Vec<&str> = found.iter().filter(|d| d.severity == level).map(|d| d.code).collect();
        let expected =
            if code == "-" { said.is_empty() } else { !said.is_empty() && said.iter().all(|c| *c == code) };
        if compiled == refused || !expected {
            wrong.push(format!("{name}: compiles: {compiled}, {code} expected, found {found:#?}"));
        }
    }
    wrong.extend(examples.keys().map(|name| format!("example {name} belongs to no row")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
