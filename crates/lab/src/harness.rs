//! For tests in network namespaces: a `main` in place of the standard harness, because becoming root in a user namespace
//! must happen before the first thread.
//!
//! The test's manifest says `harness = false`. If namespaces cannot be made, the tests are skipped.

use crate::{ensure_privileges, raise_open_file_limit};
use std::error::Error;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// A test that fails with an error, see [`ensure!`](crate::ensure); it may also panic.
pub type Test = fn() -> Result<(), Box<dyn Error>>;

/// Tests with their names.
pub type Tests = [(&'static str, Test)];

/// Tests of modules, with the modules' names.
pub type Modules<'a> = [(&'a str, &'a Tests)];

/// How many tests run at the same time that may.
const LANES: usize = 3;

/// Runs the tests of `alone` one after the other, then those of `together` three at a time: these measure nothing and mostly wait. If the
/// command line has a first word, only tests whose name, `module::test`, contains it are run.
///
/// These tests wait for processes in real time, which other processes of the machine may delay. Therefore those that fail run once more
/// after all others, and the second result decides. Both results are printed.
pub fn run(who: &str, alone: &Modules, together: &Modules) -> ExitCode {
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
    let chosen = |modules: &Modules| -> Vec<(String, Test)> {
        let all = modules.iter().flat_map(|(module, tests)| {
            tests.iter().map(move |(name, test)| (format!("{module}::{name}"), *test))
        });
        all.filter(|(name, _)| only.as_ref().is_none_or(|o| name.contains(o))).collect()
    };
    ExitCode::from(u8::from(!pass(chosen(alone), chosen(together), passes)))
}

/// Whether all tests pass, those that fail in their second run.
fn pass(
    alone: Vec<(String, Test)>,
    together: Vec<(String, Test)>,
    passes: impl Fn(&str, Test) -> bool + Sync,
) -> bool {
    let mut failed: Vec<_> = alone.into_iter().filter(|(name, test)| !passes(name, *test)).collect();
    let waiting = Mutex::new(together.into_iter());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    let lane = || std::iter::from_fn(next).filter(|(name, test)| !passes(name, *test)).collect::<Vec<_>>();
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES).map(|_| scope.spawn(lane)).collect();
        failed.extend(lanes.into_iter().flat_map(|lane| lane.join().unwrap_or_default()));
    });
    if !failed.is_empty() {
        println!("{} failed: once more, with nothing else of these tests", failed.len());
    }
    // All of them run, so that the output has the result of each.
    failed.into_iter().fold(true, |good, (name, test)| passes(&name, test) && good)
}

/// Runs a test in a thread of its own: its mount table, if it makes one, ends with it.
fn passes(name: &str, test: Test) -> bool {
    let start = Instant::now();
    let run = move || test().map_err(|e| e.to_string());
    let word = match std::thread::Builder::new().name(name.into()).spawn(run).map(|thread| thread.join()) {
        Ok(Ok(Ok(()))) => "ok".to_string(),
        Ok(Ok(Err(e))) => format!("FAILED: {e}"),
        // The panic has been reported where it happened.
        Ok(Err(_)) => "FAILED".to_string(),
        Err(e) => format!("FAILED: cannot start a thread: {e}"),
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

    /// The tests of both kinds in the order in which they ran, and whether all count as passed, for tests that fail so many times first.
    fn runs(alone: &[(&str, u32)], together: &[(&str, u32)]) -> (Vec<String>, bool) {
        let left: BTreeMap<&str, u32> = alone.iter().chain(together).copied().collect();
        let state = Mutex::new((left, Vec::new()));
        let list =
            |of: &[(&str, u32)]| of.iter().map(|(n, _)| (n.to_string(), (|| Ok(())) as Test)).collect();
        let good = pass(list(alone), list(together), |name, _| {
            let mut state = state.lock().expect("no test panics");
            state.1.push(name.to_string());
            let failures = state.0.get_mut(name).expect("a test of the list");
            let passes = *failures == 0;
            *failures = failures.saturating_sub(1);
            passes
        });
        (state.into_inner().expect("no test panics").1, good)
    }

    #[test]
    fn a_second_run_decides() {
        assert_eq!(runs(&[("a", 0), ("b", 0)], &[]), (vec!["a".into(), "b".into()], true));
        assert_eq!(runs(&[("a", 1), ("b", 0)], &[]), (vec!["a".into(), "b".into(), "a".into()], true));
        let both = ["a", "b", "c", "a", "c"].map(String::from).to_vec();
        assert_eq!(runs(&[("a", 2), ("b", 0), ("c", 1)], &[]), (both, false));
    }

    #[test]
    fn tests_run_side_by_side_and_the_second_run_is_after_all() {
        let (order, good) = runs(&[("a", 1)], &[("b", 0), ("c", 1), ("d", 0)]);
        assert!(good && order[0] == "a" && order.len() == 6, "{order:?}");
        let mut middle = order[1..4].to_vec();
        middle.sort();
        assert_eq!((middle.concat(), order[4..].concat()), ("bcd".into(), "ac".into()));
        assert!(!runs(&[], &[("b", 2)]).1);
        // Two that wait for each other: they end only if they run at the same time.
        let both = std::sync::Barrier::new(2);
        let test = (|| Ok(())) as Test;
        assert!(pass(Vec::new(), vec![("a".into(), test), ("b".into(), test)], |_, _| {
            both.wait();
            true
        }));
    }

    #[test]
    fn panics_and_errors_are_failures() {
        assert!(passes("fine", || Ok(())));
        assert!(!passes("an error", || Err("no".into())));
        assert!(!passes("a panic", || panic!("no")));
    }
}
