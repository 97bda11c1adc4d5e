//! Reports of a test run: as text, JSON and JUnit XML.

use super::find::Test;
use super::{Finished, Outcome, Problem};
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;

/// One line for a completed test.
pub fn line(test: &Test, result: &Finished) -> String {
    let ms = result.time.as_secs_f64() * 1000.0;
    match &result.outcome {
        Outcome::Passed => format!("test {} ... ok ({ms:.1} ms)\n", test.name),
        Outcome::Failed(_) => format!("test {} ... FAILED ({ms:.1} ms)\n", test.name),
        Outcome::Skipped(reason) => format!("test {} ... skipped: {reason}\n", test.name),
    }
}

/// Numbers of passed, failed and skipped tests.
fn counts(results: &[Finished]) -> (usize, usize, usize) {
    let count = |of: fn(&Outcome) -> bool| results.iter().filter(|r| of(&r.outcome)).count();
    (
        count(|o| matches!(o, Outcome::Passed)),
        count(|o| matches!(o, Outcome::Failed(_))),
        count(|o| matches!(o, Outcome::Skipped(_))),
    )
}

/// A problem with its place.
fn described(test: &Test, problem: &Problem) -> String {
    let path = test.path.display();
    let mut text = match problem.line {
        0 => format!("{path}: {}", problem.message),
        n => format!("{path}:{n}: {}\n  {}", problem.statement, problem.message.replace('\n', "\n  ")),
    };
    for line in &problem.why {
        text.push_str(&format!("\n  {line}"));
    }
    text
}

/// The failures in detail.
pub fn details(tests: &[Test], results: &[Finished]) -> String {
    let mut out = String::new();
    let failed = || tests.iter().zip(results).filter(|(_, r)| matches!(r.outcome, Outcome::Failed(_)));
    for (test, result) in failed() {
        let Outcome::Failed(problems) = &result.outcome else { continue };
        let _ = writeln!(out, "\n---- {} ----", test.name);
        for p in problems {
            let _ = writeln!(out, "{}", described(test, p).trim_end());
        }
        if let Some(trace) = &result.trace {
            let _ = writeln!(out, "\n{}", trace.trim_end());
        }
    }
    if failed().count() > 1 {
        out.push_str("\nfailed:\n");
        failed().for_each(|(t, _)| out.push_str(&format!("    {}\n", t.name)));
    }
    out
}

/// The totals.
pub fn totals(results: &[Finished], total: Duration) -> String {
    let mut out = String::new();
    let (passed, failed, skipped) = counts(results);
    let packets: usize = results.iter().map(|r| r.packets).sum();
    let _ = writeln!(out, "\n{packets} packets in {:.2} s", total.as_secs_f64());
    let _ = writeln!(out, "{passed} passed, {failed} failed, {skipped} skipped");
    out
}

/// The results as a JSON document; docs/stf.md describes it.
pub fn json(tests: &[Test], results: &[Finished], total: Duration) -> String {
    let one = |(test, result): (&Test, &Finished)| {
        let (status, reason, failures) = match &result.outcome {
            Outcome::Passed => ("passed", Value::Null, Vec::new()),
            Outcome::Skipped(reason) => ("skipped", json!(reason), Vec::new()),
            Outcome::Failed(problems) => {
                let one = |p: &Problem| {
                    let line = (p.line != 0).then_some(p.line);
                    json!({ "line": line, "statement": p.statement, "message": p.message, "why": p.why })
                };
                ("failed", Value::Null, problems.iter().map(one).collect())
            }
        };
        json!({
            "name": test.name,
            "file": test.path.display().to_string(),
            "status": status,
            "reason": reason,
            "seconds": result.time.as_secs_f64(),
            "packets": result.packets,
            "unchecked_packets": result.unchecked,
            "failures": failures,
        })
    };
    let (passed, failed, skipped) = counts(results);
    let all = json!({
        "format": "pointsman-p4-test-1",
        "passed": passed,
        "failed": failed,
        "skipped": skipped,
        "seconds": total.as_secs_f64(),
        "tests": tests.iter().zip(results).map(one).collect::<Vec<_>>(),
    });
    format!("{all:#}\n")
}

/// Text inside XML: markup and line ends escaped, characters that XML cannot hold replaced.
fn escaped(text: &str) -> String {
    let foreign = |c: char| (c < ' ' && c != '\n' && c != '\t') || c == '\u{fffe}' || c == '\u{ffff}';
    pointsman_chart::escape(&text.replace(foreign, "\u{fffd}")).replace('\n', "&#10;")
}

/// The results as JUnit XML, as CI services read it.
pub fn junit(tests: &[Test], results: &[Finished], total: Duration) -> String {
    let (_, failed, skipped) = counts(results);
    let attributes = format!(
        "name=\"pointsman p4 test\" tests=\"{}\" failures=\"{failed}\" errors=\"0\" skipped=\"{skipped}\" time=\"{:.3}\"",
        tests.len(),
        total.as_secs_f64()
    );
    let mut out =
        format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite {attributes}>\n");
    for (test, result) in tests.iter().zip(results) {
        let folder = test.path.parent().map(|p| p.display().to_string()).unwrap_or_default();
        let name = test.path.file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let head = format!(
            "    <testcase classname=\"{}\" name=\"{}\" file=\"{}\" time=\"{:.3}\"",
            escaped(&folder),
            escaped(&name),
            escaped(&test.path.display().to_string()),
            result.time.as_secs_f64()
        );
        match &result.outcome {
            Outcome::Passed => out.push_str(&format!("{head}/>\n")),
            Outcome::Skipped(reason) => {
                let reason = escaped(reason);
                out.push_str(&format!("{head}>\n      <skipped message=\"{reason}\"/>\n    </testcase>\n"));
            }
            Outcome::Failed(problems) => {
                let first = problems.first().map_or("", |p| p.message.lines().next().unwrap_or(""));
                let all: Vec<_> = problems.iter().map(|p| described(test, p)).collect();
                let _ = writeln!(
                    out,
                    "{head}>\n      <failure message=\"{}\">{}</failure>\n    </testcase>",
                    escaped(first),
                    escaped(&all.join("\n"))
                );
            }
        }
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}
