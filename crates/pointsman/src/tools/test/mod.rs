//! `pointsman p4 test`: a runner for packet tests.

mod find;
mod report;

use self::find::{Target, Test};
use crate::tools::print;
use clap::Args as ClapArgs;
use pointsman_compile::compile_file;
use pointsman_compile::executor::{Choice, Runner};
use pointsman_compile::sources::{Sources, parse_define, read_source};
use pointsman_console::results;
use pointsman_console::say;
use pointsman_frontend::Define;
use pointsman_stf::{Rig, StfError, parse, run as run_lines};
use pointsman_v1model::SwitchConfig;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Run packet tests (STF files) against their P4 programs.
///
/// Folders are searched for `*.stf`. The program of NAME.stf is NAME.p4 in the same folder, else main.p4 there, else, for
/// tests in a folder `tests`, main.p4 in its parent. Programs for architectures other than v1model are skipped. The last
/// line is `N passed, N failed, N skipped`; the exit code is 0 if nothing failed.
#[derive(ClapArgs)]
pub struct Args {
    /// STF files, or folders of them.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Use this program for every test.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Folder to search for included files. Repeatable.
    #[arg(short = 'I', long = "include", value_name = "DIR")]
    include: Vec<PathBuf>,
    /// Macro to define.
    #[arg(short = 'D', value_name = "NAME[=VALUE]", value_parser = parse_define)]
    define: Vec<Define>,
    /// How the programs run: `engine` compiles to native code, `interp` interprets.
    #[arg(long, value_enum, default_value_t)]
    executor: Choice,
    /// Run only tests whose name contains TEXT. Repeatable.
    #[arg(long, value_name = "TEXT")]
    filter: Vec<String>,
    /// Only list the tests.
    #[arg(long)]
    list: bool,
    /// Parallel tests [default: one per processor].
    #[arg(short, long, value_name = "N")]
    jobs: Option<usize>,
    /// Write the results as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the results as JUnit XML.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

/// Outcome of a test.
enum Outcome {
    Passed,
    /// The failures.
    Failed(Vec<Problem>),
    /// Why it was not run.
    Skipped(String),
}

/// Something that makes a test fail.
struct Problem {
    /// Line of the test; 0 if it is about the whole.
    line: usize,
    /// That line.
    statement: String,
    message: String,
}

/// A completed test.
struct Finished {
    outcome: Outcome,
    packets: usize,
    /// Packets on ports that the test does not name.
    unchecked: usize,
    time: Duration,
}

/// Runs the tests.
///
/// # Errors
/// There is nothing to run, or a report cannot be written.
pub fn run(args: Args) -> Result<ExitCode, Box<dyn Error>> {
    let mut tests = find::find(&args.paths, args.program.as_deref())?;
    if !args.filter.is_empty() {
        tests.retain(|t| args.filter.iter().any(|f| t.name.contains(f)));
        if tests.is_empty() {
            return Err(format!("no test's name contains {}: see --list", args.filter.join(" or ")).into());
        }
    }
    if args.list {
        let names: String = tests.iter().map(|t| format!("{}\n", t.name)).collect();
        print(&names)?;
        return Ok(ExitCode::SUCCESS);
    }
    let start = Instant::now();
    let results = run_all(&args, &tests)?;
    let total = start.elapsed();
    if let Some(path) = &args.json {
        results::write(path, "--json", report::json(&tests, &results, total))?;
    }
    if let Some(path) = &args.junit {
        results::write(path, "--junit", report::junit(&tests, &results, total))?;
    }
    print(&report::summary(&tests, &results, total))?;
    let failed = results.iter().any(|r| matches!(r.outcome, Outcome::Failed(_)));
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Runs all tests on some threads; reports each outcome, in order, as soon as possible.
fn run_all(args: &Args, tests: &[Test]) -> Result<Vec<Finished>, String> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.unwrap_or(processors).clamp(1, tests.len().max(1));
    let next = AtomicUsize::new(0);
    let (done, finished) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            let (done, next) = (done.clone(), &next);
            // A deep program needs more stack than the default.
            let worker = move || {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(test) = tests.get(i) else { break };
                    if done.send((i, run_one(args, test))).is_err() {
                        break;
                    }
                }
            };
            std::thread::Builder::new()
                .stack_size(64 << 20)
                .spawn_scoped(scope, worker)
                .map_err(|e| format!("cannot start a thread: {e}"))?;
        }
        drop(done);
        let mut results: Vec<Option<Finished>> = tests.iter().map(|_| None).collect();
        let mut shown = 0;
        for (i, result) in finished {
            results[i] = Some(result);
            while let Some(Some(result)) = results.get(shown) {
                print(&report::line(&tests[shown], result))?;
                shown += 1;
            }
        }
        Ok(results.into_iter().flatten().collect())
    })
}

/// Runs one test. A panic is a bug of ours and fails it, as any other wrong result would.
fn run_one(args: &Args, test: &Test) -> Finished {
    let start = Instant::now();
    let mut result = catch_unwind(AssertUnwindSafe(|| attempt(args, test)))
        .unwrap_or_else(|_| failed("the switch panicked: this is a bug in Pointsman"));
    result.time = start.elapsed();
    result
}

fn ended(outcome: Outcome) -> Finished {
    Finished { outcome, packets: 0, unchecked: 0, time: Duration::ZERO }
}

fn failed(message: impl Into<String>) -> Finished {
    ended(Outcome::Failed(vec![Problem { line: 0, statement: String::new(), message: message.into() }]))
}

fn attempt(args: &Args, test: &Test) -> Finished {
    let text = match std::fs::read(&test.path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(e) => return failed(format!("cannot read {}: {e}", test.path.display())),
    };
    let problem = |e: &StfError| {
        let statement = e.line.checked_sub(1).and_then(|i| text.lines().nth(i)).unwrap_or("");
        Problem { line: e.line, statement: statement.trim().to_string(), message: e.message.clone() }
    };
    let refused = |e: StfError| ended(Outcome::Failed(vec![problem(&e)]));
    let lines = match parse(&text) {
        Ok(lines) => lines,
        Err(e) => return refused(e),
    };
    if lines.is_empty() {
        return ended(Outcome::Skipped("it has no statements".into()));
    }
    let program = match &test.target {
        Target::Program(path) => path,
        Target::Foreign(reason) => return ended(Outcome::Skipped(reason.clone())),
        Target::Missing(reason) => return failed(reason.clone()),
    };
    let sources = Sources { include_dirs: args.include.clone() };
    let compiled = match compile_file(program, &sources, &args.define) {
        Ok((compiled, _)) => compiled,
        Err(e) => {
            return match own_package(program, &sources, &args.define) {
                Some(package) => ended(Outcome::Skipped(format!(
                    "for a custom architecture (package {package}): this switch supports only v1model"
                ))),
                None => failed(e.to_string()),
            };
        }
    };
    let switch = args.executor.switch(SwitchConfig::default()).map_err(|e| e.to_string());
    let rig = |switch| Rig::with(compiled.program.into(), switch).map_err(|e| e.to_string());
    let mut rig = match switch.and_then(rig) {
        Ok(rig) => rig,
        Err(e) => return failed(format!("cannot run {}: {e}", program.display())),
    };
    if let Some(warning) = rig.switch.executor().and_then(Runner::warning) {
        say(&format!("warning: {}: {warning}", test.name));
    }
    match run_lines(&mut rig, &lines) {
        Err(e) => refused(e),
        Ok(r) => {
            let outcome = match r.passed() {
                true => Outcome::Passed,
                false => Outcome::Failed(r.failures.iter().map(problem).collect()),
            };
            Finished { packets: r.packets_in, unchecked: r.unchecked, ..ended(outcome) }
        }
    }
}

/// The package of a program that is right, but not for v1model.
fn own_package(program: &Path, sources: &Sources, defines: &[Define]) -> Option<String> {
    let text = read_source(program).ok()?;
    let compiled =
        pointsman_frontend::compile(&program.display().to_string(), &text, sources, defines).ok()?;
    let package = compiled.program.package.name;
    (package != "V1Switch").then_some(package)
}
