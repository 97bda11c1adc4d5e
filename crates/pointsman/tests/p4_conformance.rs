//! `pointsman p4 check` on p4c's test programs, if `P4C_DIR` is a checkout of p4c: the samples, whatever their
//! architecture, must be accepted, and those with errors must be refused, on p4c's line. Differences are listed in
//! `data/` with the reason, and docs/conformance.md has the lists and the resulting numbers.

use crate::support::{file, pointsman};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Samples that are refused.
const REFUSED: &str = include_str!("data/p4c_refused_samples.txt");
/// Wrong programs that are right here.
const ACCEPTED: &str = include_str!("data/p4c_accepted_errors.txt");
/// Wrong programs where no error is on the line that p4c names.
const ELSEWHERE: &str = include_str!("data/p4c_other_lines.txt");

/// No program of p4c's takes longer, on a slow and busy machine.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Name to reason.
fn listed(text: &'static str) -> BTreeMap<&'static str, &'static str> {
    text.lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
        .map(|l| l.split_once(": ").unwrap_or_else(|| panic!("{l}: write NAME: REASON")))
        .collect()
}

fn documentation() -> String {
    std::fs::read_to_string(file("docs/conformance.md")).expect("docs/conformance.md")
}

/// The command's verdict on a program.
struct Outcome {
    right: bool,
    errors: Vec<Value>,
    /// The program is for v1model.
    v1model: bool,
}

impl Outcome {
    /// Where errors are, as p4c writes it: `file(line)`. Then where their labels point.
    fn lines(&self) -> [Vec<String>; 2] {
        let line = |o: &Value| {
            let name = Path::new(o["file"].as_str().unwrap_or("")).file_name().unwrap_or_default();
            format!("{}({})", name.to_string_lossy(), o["line"])
        };
        let labels = self.errors.iter().filter_map(|e| e["related"].as_array()).flatten();
        [self.errors.iter().map(line).collect(), labels.map(line).collect()]
    }
}

/// Checks a program.
fn check(p4c: &Path, program: &Path) -> Outcome {
    let start = Instant::now();
    let mut command = pointsman(&["p4", "check", "--format", "json"]);
    for dir in ["testdata/p4_16_samples", "p4include"] {
        command.arg("--include").arg(p4c.join(dir));
    }
    let output = command.arg("--include").arg(file("p4/include")).arg(program).output().expect("it runs");
    assert!(start.elapsed() < TIME_LIMIT, "{} took {:?}", program.display(), start.elapsed());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // A crash is neither right nor wrong.
    assert!(
        matches!(output.status.code(), Some(0 | 1)),
        "{}: {:?}\n{said}",
        program.display(),
        output.status
    );
    let objects =
        said.lines().map(|l| serde_json::from_str::<Value>(l).unwrap_or_else(|e| panic!("{e}: {l}")));
    let text = std::fs::read(program).expect("readable");
    Outcome {
        right: output.status.success(),
        errors: objects.filter(|d| d["severity"] == "error").collect(),
        v1model: String::from_utf8_lossy(&text).contains("V1Switch"),
    }
}

/// The command's verdict on each program in `dirs`, by file name.
fn outcomes(p4c: &Path, dirs: &[&str]) -> BTreeMap<String, Outcome> {
    let mut out = BTreeMap::new();
    for dir in dirs {
        let dir = p4c.join("testdata").join(dir);
        let files = std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
        for path in files.filter_map(|e| e.ok().map(|e| e.path())) {
            if path.extension().is_some_and(|e| e == "p4") {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                out.insert(name, check(p4c, &path));
            }
        }
    }
    out
}

/// The first `file(line)` of an error in p4c's output.
fn first_error(said: &str) -> Option<String> {
    said.lines().find_map(|l| {
        let (at, rest) = l.split_once("):")?;
        let (file, line) = at.rsplit_once('(')?;
        let rest = rest.trim_start();
        let rest = rest.strip_prefix('[').and_then(|r| r.split_once("] ")).map_or(rest, |(_, r)| r);
        let error = rest.starts_with("error") || rest.starts_with("syntax error");
        (error && file.ends_with(".p4") && line.chars().all(|c| c.is_ascii_digit()))
            .then(|| format!("{file}({line})"))
    })
}

/// Compares the differences with the list.
fn only_listed(list: &'static str, differ: &BTreeMap<String, String>, what: &str) {
    let known = listed(list);
    let mut surprises: Vec<String> = Vec::new();
    for (name, detail) in differ {
        if !known.contains_key(name.as_str()) {
            surprises.push(format!("{name} {what}: {detail}"));
        }
    }
    for name in known.keys().filter(|n| !differ.contains_key(**n)) {
        surprises.push(format!("{name}: not {what} any longer, take it off the list"));
    }
    assert!(surprises.is_empty(), "{} surprises:\n{}", surprises.len(), surprises.join("\n"));
}

/// The documentation says `count` of `total` in the row that starts with `row`.
fn documented(row: &str, count: usize, total: usize) {
    let doc = documentation();
    let line = doc.lines().find(|l| l.starts_with(&format!("| {row}")));
    let line = line.unwrap_or_else(|| panic!("docs/conformance.md has no row \"{row}\""));
    let numbers = format!("| {count} of {total} |");
    assert!(line.contains(&numbers), "measured {numbers}, but docs/conformance.md says {line}");
}

#[test]
fn samples_are_right() {
    let Some(p4c) = pointsman_needs::p4c("p4_conformance") else { return };
    let dirs = ["", "/dash", "/fabric_20190420", "/omec", "/pins", "/parser-inline", "/metrics"]
        .map(|d| format!("p4_16_samples{d}"));
    let outcomes = outcomes(&p4c, &dirs.each_ref().map(String::as_str));
    let first = |o: &Outcome| {
        o.errors.first().map_or_else(String::new, |e| format!("{} {}", e["code"], e["message"]))
    };
    let wrong: BTreeMap<String, String> =
        outcomes.iter().filter(|(_, o)| !o.right).map(|(name, o)| (name.clone(), first(o))).collect();
    only_listed(REFUSED, &wrong, "refused");
    let total = outcomes.len();
    documented("programs of `testdata/p4_16_samples`", total - wrong.len(), total);
    let v1model: Vec<&Outcome> = outcomes.values().filter(|o| o.v1model).collect();
    documented("of these for v1model", v1model.iter().filter(|o| o.right).count(), v1model.len());
    // The promised result.
    assert!(wrong.len() * 50 <= total, "less than 98 % are right");
}

#[test]
fn wrong_programs_are_refused_on_the_right_line() {
    let Some(p4c) = pointsman_needs::p4c("p4_conformance") else { return };
    let outcomes = outcomes(&p4c, &["p4_16_errors"]);
    let (mut accepted, mut elsewhere) = (BTreeMap::new(), BTreeMap::new());
    let (mut right, mut labelled, mut lines) = (0, 0, 0);
    for (name, o) in &outcomes {
        let output = p4c.join(format!("testdata/p4_16_errors_outputs/{name}-stderr"));
        let said = String::from_utf8_lossy(&std::fs::read(output).unwrap_or_default()).into_owned();
        let expected = first_error(&said);
        lines += usize::from(expected.is_some());
        if o.right {
            accepted.insert(name.clone(), expected.unwrap_or("p4c names no line".into()));
        } else if let Some(expected) = expected {
            let [ours, labels] = o.lines();
            if ours.contains(&expected) {
                right += 1;
            } else if labels.contains(&expected) {
                labelled += 1;
            } else {
                elsewhere.insert(name.clone(), format!("{expected} for p4c, here {ours:?}"));
            }
        }
    }
    only_listed(ACCEPTED, &accepted, "accepted");
    only_listed(ELSEWHERE, &elsewhere, "refused elsewhere");
    let total = outcomes.len();
    documented("programs of `p4_16_errors`", total - accepted.len(), total);
    documented("of those for which p4c names a line in its expected output: refused", right, lines);
    documented("or with an error that points at this line", right + labelled, lines);
    // The promised result.
    assert!((right + labelled) * 10 >= lines * 9, "less than 90 % on the right line");
}

/// Also without p4c: the documentation has the lists, and its numbers are those of the lists.
#[test]
fn the_documentation_has_the_lists() {
    let doc = documentation();
    for (list, row) in [
        (REFUSED, "programs of `testdata/p4_16_samples`"),
        (ACCEPTED, "programs of `p4_16_errors`"),
        (ELSEWHERE, ""),
    ] {
        let list = listed(list);
        for (name, reason) in &list {
            let row = format!("| {} | {reason} |", name.trim_end_matches(".p4"));
            assert!(doc.contains(&row), "not in docs/conformance.md: {row}");
        }
        if !row.is_empty() {
            let line = doc.lines().find(|l| l.starts_with(&format!("| {row}"))).unwrap_or(row);
            let numbers = line.split('|').find_map(|cell| {
                let (count, total) = cell.trim().split_once(" of ")?;
                Some((count.parse::<usize>().ok()?, total.parse::<usize>().ok()?))
            });
            let (count, total) = numbers.unwrap_or_else(|| panic!("no numbers in {line}"));
            assert_eq!(total - count, list.len(), "{line}");
        }
    }
}
