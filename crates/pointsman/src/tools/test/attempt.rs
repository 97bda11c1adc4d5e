//! One test: run, and explained if it fails.

use super::Args;
use super::coverage::Covered;
use super::find::{Target, Test};
use pointsman_compile::executor::Runner;
use pointsman_compile::sources::{Sources, read_source};
use pointsman_compile::{FileError, compile_file};
use pointsman_console::say;
use pointsman_explain::coverage::Coverage;
use pointsman_explain::why::{Recording, why};
use pointsman_explain::{Describer, show};
use pointsman_frontend::Define;
use pointsman_frontend::source::SourceMap;
use pointsman_ir::Program;
use pointsman_stf::{
    Failure, Line, Report, Rig, RigError, StfError, config, parse, run as run_lines, run_watched,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Outcome of a test.
pub enum Outcome {
    /// Everything was as expected.
    Passed,
    /// The failures.
    Failed(Vec<Problem>),
    /// Why it was not run.
    Skipped(String),
}

/// Something that makes a test fail.
pub struct Problem {
    /// Line of the test; 0 if it is about the whole.
    pub line: usize,
    /// That line.
    pub statement: String,
    /// What is wrong.
    pub message: String,
    /// Why, a line each.
    pub why: Vec<String>,
}

/// A completed test.
pub struct Finished {
    /// Its outcome.
    pub outcome: Outcome,
    /// Packets that arrived.
    pub packets: usize,
    /// Packets on ports that the test does not name.
    pub unchecked: usize,
    /// How long it took.
    pub time: Duration,
    /// The trace of a failed test, with `--trace`.
    pub trace: Option<String>,
    /// What it covered, with `--coverage`.
    pub covered: Option<Covered>,
    /// The program's files.
    pub files: Vec<PathBuf>,
}

/// Runs one test. A panic is a bug of ours and fails it, as any other wrong result would.
pub fn run_one(args: &Args, test: &Test) -> Finished {
    let start = Instant::now();
    let mut result = catch_unwind(AssertUnwindSafe(|| attempt(args, test)))
        .unwrap_or_else(|_| failed("the switch panicked: this is a bug in Pointsman"));
    result.time = start.elapsed();
    result
}

fn ended(outcome: Outcome) -> Finished {
    Finished {
        outcome,
        packets: 0,
        unchecked: 0,
        time: Duration::ZERO,
        trace: None,
        covered: None,
        files: Vec::new(),
    }
}

fn failed(message: impl Into<String>) -> Finished {
    let (message, statement) = (message.into(), String::new());
    ended(Outcome::Failed(vec![Problem { line: 0, statement, message, why: Vec::new() }]))
}

fn attempt(args: &Args, test: &Test) -> Finished {
    let text = match std::fs::read(&test.path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(e) => return failed(format!("cannot read {}: {e}", test.path.display())),
    };
    let refused = |e: StfError| {
        let statement = statement(&text, e.line);
        let problem = Problem { line: e.line, statement, message: e.message, why: Vec::new() };
        ended(Outcome::Failed(vec![problem]))
    };
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
            let files = match &e {
                FileError::Program(_, failure) => paths(&failure.source_map),
                FileError::Source(_) => Vec::new(),
            };
            let finished = match own_package(program, &sources, &args.define) {
                Some(package) => ended(Outcome::Skipped(format!(
                    "for a custom architecture (package {package}): this switch supports only v1model"
                ))),
                None => failed(e.to_string()),
            };
            return Finished { files, ..finished };
        }
    };
    let subject = Subject { program: compiled.program.into(), map: &compiled.source_map, lines: &lines };
    let finished = match subject.run(args, test) {
        Err(e) => failed(format!("cannot run {}: {e}", program.display())),
        Ok(Err(e)) => refused(e),
        Ok(Ok(report)) => subject.judge(args, program, &text, report),
    };
    Finished { files: paths(&compiled.source_map), ..finished }
}

/// That line of a test.
fn statement(text: &str, line: usize) -> String {
    line.checked_sub(1).and_then(|i| text.lines().nth(i)).unwrap_or("").trim().to_string()
}

/// The files of a program, without those in the binary.
fn paths(map: &SourceMap) -> Vec<PathBuf> {
    map.files.iter().filter(|f| !f.path.starts_with('<')).map(|f| f.path.clone().into()).collect()
}

/// A compiled program and the statements of a test.
struct Subject<'a> {
    program: Arc<Program>,
    map: &'a SourceMap,
    lines: &'a [Line],
}

impl Subject<'_> {
    /// Runs the test as the arguments say. The outer error is about the program, the inner one about the test.
    fn run(&self, args: &Args, test: &Test) -> Result<Result<Report, StfError>, RigError> {
        let switch = args.executor.switch(config(self.lines)).map_err(RigError::Config)?;
        let mut rig = Rig::with(self.program.clone(), switch)?;
        if let Some(warning) = rig.switch.executor().and_then(Runner::warning) {
            say(&format!("warning: {}: {warning}", test.name));
        }
        Ok(run_lines(&mut rig, self.lines))
    }

    /// The result of a run. The interpreter runs the test once more, with its packets traced, if it failed or its coverage is wanted.
    fn judge(&self, args: &Args, program: &Path, text: &str, report: Report) -> Finished {
        let mut finished =
            Finished { packets: report.packets_in, unchecked: report.unchecked, ..ended(Outcome::Passed) };
        let describer = Describer { program: &self.program, map: self.map, statements: true };
        let mut recording = Recording::default();
        let mut coverage = Coverage::default();
        let traced = !report.passed() || args.coverage.is_some();
        let again = traced.then(|| {
            self.traced(&mut |line, steps| {
                if args.coverage.is_some() {
                    coverage.add(&self.program, &steps);
                }
                if !report.passed() {
                    recording.add(line, steps);
                }
            })
        });
        if args.coverage.is_some() {
            let (path, program, map) = (program.to_path_buf(), self.program.clone(), self.map.clone());
            finished.covered = Some(Covered { path, program, map, coverage });
        }
        if report.passed() {
            return finished;
        }
        let same = again.flatten().is_some_and(|a| a.failures == report.failures);
        if args.trace {
            finished.trace = Some(show::text(&describer, recording.steps(), false));
        }
        let problem = |f: &Failure| Problem {
            line: f.line,
            statement: statement(text, f.line),
            message: f.message.clone(),
            why: match same {
                true => why(&describer, &recording, f),
                false => vec![
                    "with --executor interp the result is another one: this is a bug in Pointsman".into(),
                ],
            },
        };
        finished.outcome = Outcome::Failed(report.failures.iter().map(problem).collect());
        finished
    }

    /// Runs the test on the interpreter; `seen` gets the steps of each statement's packets.
    fn traced(
        &self,
        seen: &mut dyn FnMut(&Line, Vec<pointsman_v1model::trace::TraceStep>),
    ) -> Option<Report> {
        let mut rig = Rig::new(self.program.clone(), config(self.lines)).ok()?;
        rig.switch.set_tracing(true);
        run_watched(&mut rig, self.lines, &mut |line, rig| seen(line, rig.switch.take_trace())).ok()
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
