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
    let mut failed = false;
    for (module, tests) in modules {
        for (name, test) in *tests {
            let name = format!("{module}::{name}");
            if only.as_ref().is_none_or(|o| name.contains(o)) {
                failed |= !passes(&name, *test);
            }
        }
    }
    ExitCode::from(u8::from(failed))
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
