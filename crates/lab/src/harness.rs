//! For tests in network namespaces: a `main` in place of the standard harness, because becoming root in a user namespace
//! must happen before the first thread.
//!
//! The test's manifest says `harness = false`. If namespaces cannot be made, the tests are skipped.

use crate::{ensure_privileges, raise_open_file_limit};
use std::error::Error;
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::Instant;

/// A test that fails with an error, see [`ensure!`](crate::ensure); it may also panic.
pub type Test = fn() -> Result<(), Box<dyn Error>>;

/// Tests with their names.
pub type Tests = [(&'static str, Test)];

/// Runs the tests of these modules one after the other, only those whose name, `module::test`, contains the command line's first word,
/// if given.
///
/// These tests wait for processes in real time, which other processes of the machine may delay. Therefore those that fail run once more
/// after all others, and the second result decides. Both results are printed.
pub fn run(who: &str, modules: &[(&str, &Tests)]) -> ExitCode {
    // Used by editors and by `cargo nextest`: they cannot run these tests one by one.
    if std::env::args().any(|a| a == "--list") {
        return ExitCode::SUCCESS;
    }
    if let Err(e) = ensure_privileges() {
        pointsman_needs::skip(who, &e.to_string());
        return ExitCode::SUCCESS;
    }
    if let Err(e) = raise_open_file_limit() {
        pointsman_needs::skip(who, &format!("cannot raise the limit of open files: {e}"));
        return ExitCode::SUCCESS;
    }
    let only = std::env::args().nth(1).filter(|a| !a.starts_with('-'));
    let all = modules.iter().flat_map(|(module, tests)| {
        tests.iter().map(move |(name, test)| (format!("{module}::{name}"), *test))
    });
    let chosen = all.filter(|(name, _)| only.as_ref().is_none_or(|o| name.contains(o)));
    ExitCode::from(u8::from(!pass(chosen.collect(), passes)))
}

/// Whether all tests pass, those that fail in their second run.
fn pass(tests: Vec<(String, Test)>, mut passes: impl FnMut(&str, Test) -> bool) -> bool {
    let failed: Vec<_> = tests.into_iter().filter(|(name, test)| !passes(name, *test)).collect();
    if !failed.is_empty() {
        println!("{} failed: once more, with nothing else of these tests", failed.len());
    }
    // All of them run, so that the output has the result of each.
    failed.into_iter().fold(true, |good, (name, test)| passes(&name, test) && good)
}

fn passes(name: &str, test: Test) -> bool {
    let start = Instant::now();
    let word = match catch_unwind(test) {
        Ok(Ok(())) => "ok".to_string(),
        Ok(Err(e)) => format!("FAILED: {e}"),
        // The panic has been reported where it happened.
        Err(_) => "FAILED".to_string(),
    };
    println!("test {name} ... {word} ({:.1} s)", start.elapsed().as_secs_f64());
    word == "ok"
}

/// Ends a test with the values that are to blame unless the condition holds.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($message:tt)*) => {
        let holds: bool = $condition;
        if !holds {
            return Err(format!("{}: {}", stringify!($condition), format!($($message)*)).into());
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// The tests in the order in which they ran, and whether all count as passed, for tests that fail so many times first.
    fn runs(failures: &[(&str, u32)]) -> (Vec<String>, bool) {
        let mut left: BTreeMap<&str, u32> = failures.iter().copied().collect();
        let mut order = Vec::new();
        let tests = failures.iter().map(|(name, _)| (name.to_string(), (|| Ok(())) as Test)).collect();
        let good = pass(tests, |name, _| {
            order.push(name.to_string());
            let failures = left.get_mut(name).expect("a test of the list");
            let passes = *failures == 0;
            *failures = failures.saturating_sub(1);
            passes
        });
        (order, good)
    }

    #[test]
    fn a_second_run_decides() {
        assert_eq!(runs(&[("a", 0), ("b", 0)]), (vec!["a".into(), "b".into()], true));
        assert_eq!(runs(&[("a", 1), ("b", 0)]), (vec!["a".into(), "b".into(), "a".into()], true));
        let both = ["a", "b", "c", "a", "c"].map(String::from).to_vec();
        assert_eq!(runs(&[("a", 2), ("b", 0), ("c", 1)]), (both, false));
    }
}
