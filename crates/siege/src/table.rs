//! The human-readable table.

use crate::case::Case;
use crate::judge::Verdict;
use std::time::Duration;

/// The heading of the table.
pub const HEADING: &str =
    "case                          requests   lost hit/new  viol.  recov ms  MB  log KB  outcome";

fn ms(d: Duration) -> String {
    format!("{:.0}", d.as_secs_f64() * 1e3)
}

/// One line for a case, and one for each limit that it broke.
pub fn line(verdict: &Verdict) -> String {
    let v = verdict;
    let outcome = if v.broke.is_empty() { "ok" } else { "BROKEN" };
    let mut text = format!(
        "{:<28} {:>9} {:>6} {:>3}/{:<4} {:>5} {:>9} {:>4.0} {:>7.1}  {outcome}",
        v.name,
        v.requests,
        v.lost[0],
        v.hit_lost,
        v.lost[1] + v.lost[2],
        v.violations,
        ms(v.recovery),
        v.memory_mb,
        v.log_bytes as f64 / 1e3,
    );
    for why in &v.broke {
        text.push_str("\n    ");
        text.push_str(why);
    }
    text
}

/// All cases, as `--list` shows them.
pub fn list<'a>(cases: impl IntoIterator<Item = &'a Case>) -> String {
    let mut text = String::new();
    for case in cases {
        let quick = if case.quick { "quick" } else { "" };
        text.push_str(&format!("{:<28} {quick:<5}  {}\n", case.name, case.about));
    }
    text
}
