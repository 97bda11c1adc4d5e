//! Generated programs on both executors against an independent evaluation.
//!
//! `POINTSMAN_DIFF_CASES` programs (by default [`CASES`]) from seed `POINTSMAN_DIFF_SEED` (by default 0) on. A failure says
//! its seed and shows a small program; `POINTSMAN_DIFF_SEED=n POINTSMAN_DIFF_CASES=1` repeats it.

use pointsman_engine::Engine;
use pointsman_interp::Interp;
use pointsman_ir::Executor;
use pointsman_testkit::differential::{Tally, run};

/// Programs of a run by default.
const CASES: u64 = 5000;

fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|e| panic!("{name}={text}: {e}")),
        Err(_) => default,
    }
}

#[test]
fn generated_programs() {
    check::<Interp>(CASES);
}

/// Fewer: every program becomes machine code.
#[test]
fn generated_programs_as_native_code() {
    check::<Engine>(CASES / 3);
}

fn check<E: Executor>(cases: u64) {
    let (first, cases) = (setting("POINTSMAN_DIFF_SEED", 0), setting("POINTSMAN_DIFF_CASES", cases));
    let mut tally = Tally::default();
    // A program that is made smaller may come to lack a type: trying it panics, which is caught.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut failures = Vec::new();
    for seed in first..first + cases {
        if let Err(report) = run::<E>(seed, &mut tally) {
            failures.push(report);
            if failures.len() == 3 {
                break;
            }
        }
    }
    std::panic::set_hook(hook);
    println!("{tally:?}");
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    // Nearly all programs must be supported.
    assert!(tally.unsupported * 100 <= tally.programs, "{tally:?}");
    assert!(tally.undefined * 3 < tally.programs || cases < 100, "{tally:?}");
    assert!(tally.sent * 3 > tally.packets || cases < 100, "{tally:?}");
}
