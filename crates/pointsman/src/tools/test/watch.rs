//! `--watch`: the tests run again when one of their files changes.

use super::attempt::Finished;
use super::find::{Target, Test};
use super::{Args, chosen, run_and_report};
use pointsman_console::{results, say};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

/// Time between two looks at the files.
const POLL: Duration = Duration::from_millis(250);

/// Files with their time of change and length; `None`: not there.
type Seen = BTreeMap<PathBuf, Option<(SystemTime, u64)>>;

/// Runs the tests, again and again.
///
/// # Errors
/// The arguments name no tests at the start, or a report cannot be written.
pub fn watch(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let mut tests = chosen(args)?;
    loop {
        let before = look(files(&tests, &[]));
        let results = run_and_report(args, &tests)?;
        // A file that changed while the tests ran counts as changed; one that only they named is looked at from now on.
        let mut seen = look(files(&tests, &results));
        seen.extend(before);
        results::tell(&args.results(), &format!("\nwatching {} files; Ctrl-C ends\n", seen.len()))?;
        let changed = wait(args, &seen);
        results::tell(&args.results(), &format!("\n==== {} changed\n\n", changed.display()))?;
        tests = loop {
            match chosen(args) {
                Ok(tests) => break tests,
                Err(e) => say(&format!("{e}; waiting for one")),
            }
            wait(args, &look(Vec::new()));
        };
    }
}

/// The files of the tests and of their programs.
fn files(tests: &[Test], results: &[Finished]) -> Vec<PathBuf> {
    let of = |test: &Test| match &test.target {
        Target::Program(program) => vec![test.path.clone(), program.clone()],
        Target::Foreign(_) | Target::Missing(_) => vec![test.path.clone(), test.path.with_extension("p4")],
    };
    tests.iter().flat_map(of).chain(results.iter().flat_map(|r| r.files.clone())).collect()
}

fn look(files: Vec<PathBuf>) -> Seen {
    let one = |path: PathBuf| {
        let meta = std::fs::metadata(&path).and_then(|m| Ok((m.modified()?, m.len()))).ok();
        (path, meta)
    };
    files.into_iter().map(one).collect()
}

/// Waits for a change, and for the end of writing. Returns a file that changed: one of `seen`, or a new test.
fn wait(args: &Args, seen: &Seen) -> PathBuf {
    let change = |old: &Seen| {
        let new = look(old.keys().cloned().collect());
        let differs = old.iter().find(|(path, was)| new.get(*path) != Some(was));
        differs.map(|(path, _)| path.clone())
    };
    let added = || {
        let now = chosen(args).unwrap_or_default();
        now.into_iter().map(|t| t.path).find(|path| !seen.contains_key(path))
    };
    let path = loop {
        std::thread::sleep(POLL);
        if let Some(path) = change(seen).or_else(added) {
            break path;
        }
    };
    // An editor may write a file in several steps.
    loop {
        let now = look(vec![path.clone()]);
        std::thread::sleep(POLL / 5);
        if change(&now).is_none() {
            return path;
        }
    }
}
