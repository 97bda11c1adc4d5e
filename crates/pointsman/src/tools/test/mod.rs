//! `pointsman p4 test`: a runner for packet tests.

mod attempt;
mod coverage;
mod find;
mod report;
mod watch;

use self::attempt::{Finished, Outcome, Problem, run_one};
use self::find::{FindError, Test};
use clap::Args as ClapArgs;
use pointsman_compile::executor::Choice;
use pointsman_compile::sources::parse_define;
use pointsman_console::{print, results};
use pointsman_frontend::Define;
use pointsman_trials::parallel::ThreadError;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Instant;

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
    /// Print the whole trace of failed tests, as `p4 trace` does.
    #[arg(long)]
    trace: bool,
    /// Run the tests again whenever a program, an included file or a test changes, until Ctrl-C.
    #[arg(long, conflicts_with = "list")]
    watch: bool,
    /// Report what the tests cover of each program: parser states, tables, actions, branches and lines.
    #[arg(long, value_enum, value_name = "FORMAT")]
    coverage: Option<coverage::Format>,
    /// The file of --coverage [default: coverage.html or coverage.info].
    #[arg(long, value_name = "FILE", requires = "coverage")]
    coverage_out: Option<PathBuf>,
    /// Write the results as JSON; `-` for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the results as JUnit XML; `-` for standard output.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

impl Args {
    fn results(&self) -> [results::Flag<'_>; 3] {
        [(&self.json, "--json"), (&self.junit, "--junit"), (&self.coverage_out, "--coverage-out")]
    }
}

/// Runs the tests.
///
/// # Errors
/// There is nothing to run, or a report cannot be written.
pub fn run(args: Args) -> Result<ExitCode, Box<dyn Error>> {
    results::check(&args.results())?;
    if args.watch {
        return watch::watch(&args);
    }
    let tests = chosen(&args)?;
    if args.list {
        let names: String = tests.iter().map(|t| format!("{}\n", t.name)).collect();
        print(&names)?;
        return Ok(ExitCode::SUCCESS);
    }
    let results = run_and_report(&args, &tests)?;
    let failed = results.iter().any(|r| matches!(r.outcome, Outcome::Failed(_)));
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The tests that the arguments name.
fn chosen(args: &Args) -> Result<Vec<Test>, FindError> {
    let mut tests = find::find(&args.paths, args.program.as_deref())?;
    if !args.filter.is_empty() {
        tests.retain(|t| args.filter.iter().any(|f| t.name.contains(f)));
        if tests.is_empty() {
            return Err(FindError::Filter(args.filter.clone()));
        }
    }
    Ok(tests)
}

/// Runs the tests and writes all reports.
fn run_and_report(args: &Args, tests: &[Test]) -> Result<Vec<Finished>, Box<dyn Error>> {
    let start = Instant::now();
    let results = run_all(args, tests)?;
    let total = start.elapsed();
    if let Some(path) = &args.json {
        results::write(path, "--json", report::json(tests, &results, total))?;
    }
    if let Some(path) = &args.junit {
        results::write(path, "--junit", report::junit(tests, &results, total))?;
    }
    let mut text = report::details(tests, &results);
    if let Some(format) = args.coverage {
        text.push_str(&coverage::write(format, args.coverage_out.as_deref(), &results)?);
    }
    text.push_str(&report::totals(&results, total));
    results::tell(&args.results(), &text)?;
    Ok(results)
}

/// Runs all tests on some threads; reports each outcome, in order, as soon as possible.
fn run_all(args: &Args, tests: &[Test]) -> Result<Vec<Finished>, Box<dyn Error>> {
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
                .map_err(ThreadError)?;
        }
        drop(done);
        let mut results: Vec<Option<Finished>> = tests.iter().map(|_| None).collect();
        let mut shown = 0;
        for (i, result) in finished {
            results[i] = Some(result);
            while let Some(Some(result)) = results.get(shown) {
                results::tell(&args.results(), &report::line(&tests[shown], result))?;
                shown += 1;
            }
        }
        Ok(results.into_iter().flatten().collect())
    })
}
