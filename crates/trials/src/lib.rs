//! `pointsman sim`: runs scenarios over seeds and sweep points, and stores the results.

#![forbid(unsafe_code)]

mod error;
mod kept;
mod line;
pub mod network;
mod network_lab;
mod page;
pub mod parallel;
mod serve;
mod simulator;
pub mod stats;
mod table;
pub mod validate;
pub mod wire;
mod wire_error;

use error::{CaptureError, FileError, FlagError};
pub use error::{PointError, TrialError};
use kept::{Key, Results, check_no_results, finished, origin_json};
use line::summary;
pub use network_lab::LabError;
use pointsman_balance::ConfigErrors;
use pointsman_balance::program::ServerDevices;
use pointsman_console::progress::Progress;
use pointsman_console::results::{self, Flag, Origin};
use pointsman_console::{print, say};
pub use pointsman_node::controller::ProgramError;
use pointsman_sim::{Scenario, scenario};
use serde_json::Value;
pub use simulator::{Session, Simulator};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Simulate a rack: the same P4 program, controller and agents as on the wire, in virtual time.
#[derive(clap::Args)]
pub struct Args {
    /// Scenario, a TOML file (docs/simulator.md); with --lab several are allowed.
    #[arg(required_unless_present = "schemes", value_name = "SCENARIO")]
    scenario: Vec<PathBuf>,
    /// List the schemes by which switches of networks choose paths, with their settings.
    #[arg(long, exclusive = true)]
    schemes: bool,
    /// First seed [default: the scenario's].
    #[arg(long)]
    seed: Option<u64>,
    /// Number of consecutive seeds.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seeds: u64,
    /// Run only part I of N of all simulations, to split the work over N machines.
    #[arg(long, value_name = "I/N", value_parser = parse_shard)]
    shard: Option<Shard>,
    /// Write results as JSON lines, one per simulation; `-` for standard output. Simulations already in the file are
    /// skipped. With --lab, of racks: a line for each point; the file is replaced.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Of a network with flows: write those of the first seed as CSV (start, source, destination, bytes), for other simulators, and simulate
    /// nothing.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "csv", "parquet", "lab", "check", "shard"])]
    flows: Option<PathBuf>,
    /// Write results as CSV: a line for each simulation and device kind, a column for each setting of the sweep.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the table of --csv as Parquet, with types.
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
    /// Write the learners' decisions as CSV, one line each.
    #[arg(long, value_name = "FILE")]
    steps: Option<PathBuf>,
    /// Write the Q-table learnt by the first simulation.
    #[arg(long, value_name = "FILE")]
    save_table: Option<PathBuf>,
    /// Parallel simulations [default: one per processor]. With --lab: parallel racks or networks [default: 1].
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    threads: usize,
    /// Write an HTML page with charts: the sweep, events over time, the distribution of latency, learners.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Let another program set the weights, through JSON lines on standard input and output (docs/simulator.md).
    #[arg(long, conflicts_with_all = ["json", "csv", "parquet", "steps", "save_table", "html", "shard", "check"])]
    serve: bool,
    /// Also run on a rack of network namespaces in real time, and compare latency and throughput (docs/validation.md). A scenario
    /// with a table [network] runs only there (docs/simulator.md).
    #[arg(long, conflicts_with_all = ["csv", "parquet", "steps", "save_table", "html", "shard", "check", "serve"])]
    lab: bool,
    /// Only check the scenario and list the simulations.
    #[arg(long)]
    check: bool,
}

impl Args {
    /// The file of --json, and whether it is standard output instead.
    fn json(&self) -> (Option<&Path>, bool) {
        let to_stdout = self.json.as_deref().is_some_and(results::is_stdout);
        (self.json.as_deref().filter(|_| !to_stdout), to_stdout)
    }

    /// All files of results.
    fn results(&self) -> [Flag<'_>; 7] {
        [
            (&self.json, "--json"),
            (&self.flows, "--flows"),
            (&self.csv, "--csv"),
            (&self.parquet, "--parquet"),
            (&self.steps, "--steps"),
            (&self.save_table, "--save-table"),
            (&self.html, "--html"),
        ]
    }
}

/// Every N-th simulation, from the I-th on.
#[derive(Clone, Copy, Debug)]
pub struct Shard {
    index: u64,
    count: u64,
}

impl Shard {
    /// Whether the simulation of this number, from 0, is one of these.
    fn has(self, number: u64) -> bool {
        number % self.count == self.index - 1
    }
}

/// Reads `I/N`.
///
/// # Errors
/// It is another text, or I is not one of 1 to N.
pub fn parse_shard(text: &str) -> Result<Shard, NotShard> {
    let (index, count) = text.split_once('/').ok_or(NotShard)?;
    let number = |text: &str| text.parse().map_err(|_| NotShard);
    let shard = Shard { index: number(index)?, count: number(count)? };
    if shard.index == 0 || shard.index > shard.count { Err(NotShard) } else { Ok(shard) }
}

/// The text does not name a part of the simulations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotShard;

impl fmt::Display for NotShard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write I/N with I from 1 to N, such as 2/8")
    }
}

impl Error for NotShard {}

/// Runs a simulation: the line of its results.
type Simulate<'a> = Box<dyn Fn() -> Result<String, TrialError> + Sync + 'a>;

/// One simulation to run.
struct Job<'a> {
    /// The point of the sweep, as text.
    point: String,
    seed: u64,
    fingerprint: String,
    memory_bytes: f64,
    simulate: Simulate<'a>,
}

impl Job<'_> {
    fn key(&self) -> Key {
        (self.fingerprint.clone(), self.point.clone(), self.seed)
    }
}

/// The simulation of a rack with one seed.
fn job<'a>(scenario: &'a Arc<Scenario>, simulator: &'a Simulator, seed: u64) -> Job<'a> {
    let fingerprint = simulator.fingerprint(scenario);
    let (point, memory_bytes) = (scenario.point_text(), scenario::memory_bytes(scenario));
    let of = fingerprint.clone();
    let simulate = move || {
        let began = Instant::now();
        let mut outcome = simulator.run(scenario, seed)?;
        outcome.wall_s = began.elapsed().as_secs_f64();
        outcome.fingerprint.clone_from(&of);
        Ok(outcome.json())
    };
    Job { point, seed, fingerprint, memory_bytes, simulate: Box::new(simulate) }
}

/// The text of a scenario.
fn text_of(path: &Path) -> Result<String, FileError> {
    std::fs::read_to_string(path).map_err(|e| FileError::Scenario(path.to_path_buf(), e))
}

/// Reads files that a scenario names, which are relative to its folder.
fn loader(path: &Path) -> impl Fn(&str) -> Result<String, Box<dyn Error>> {
    let beside = path.parent().unwrap_or(Path::new("")).to_path_buf();
    move |name: &str| {
        let file = beside.join(name);
        let bytes = std::fs::read(&file).map_err(|e| FileError::Named(file.clone(), e))?;
        if name.ends_with(".pcap") || name.ends_with(".pcapng") {
            return Ok(capture_times(&bytes).map_err(|e| FileError::Capture(file, e))?);
        }
        Ok(String::from_utf8(bytes).map_err(|_| FileError::NotText(file))?)
    }
}

fn read(path: &Path, text: &str) -> Result<Vec<Arc<Scenario>>, ConfigErrors> {
    let read = scenario::read(&path.display().to_string(), text, &loader(path))?;
    Ok(read.into_iter().map(Arc::new).collect())
}

/// The times of a capture's frames since the first, in order, as a CSV file with the column `time_s`.
fn capture_times(bytes: &[u8]) -> Result<String, CaptureError> {
    let mut reader = pointsman_ports::pcap::Reader::new(bytes)?;
    let (mut times, mut frame) = (Vec::new(), Vec::new());
    while let Some(record) = reader.read(&mut frame)? {
        times.push(record.time_ns);
    }
    times.sort_unstable();
    let first = times.first().copied().ok_or(CaptureError::Empty)?;
    let mut text = String::from("time_s\n");
    for t in times {
        let ns = t - first;
        text.push_str(&format!("{}.{:09}\n", ns / 1_000_000_000, ns % 1_000_000_000));
    }
    Ok(text)
}

/// Every decision of every learner.
fn steps_csv(path: &Path, results: &[&Value]) -> Result<(), Box<dyn Error>> {
    if results.iter().all(|r| r["learning"].is_null()) {
        return Err(FlagError::NoLearner.into());
    }
    Ok(results::write(path, "--steps", table::steps(results).csv())?)
}

/// The Q-table learnt by the first simulation.
fn save_table(path: &Path, results: &[&Value]) -> Result<(), Box<dyn Error>> {
    let mut tables = results.iter().filter_map(|r| r["learning"]["table"].as_str());
    let Some(first) = tables.next() else {
        return Err(FlagError::NoTable.into());
    };
    let more = tables.count();
    if more > 0 {
        say(&format!("{more} more simulations have a Q-table: only the first is kept"));
    }
    Ok(results::write(path, "--save-table", first)?)
}

/// Runs the scenarios in the simulator and in the lab, and compares.
fn in_lab(
    args: &Args,
    scenarios: &[Arc<Scenario>],
    simulator: &Simulator,
    seed: u64,
) -> Result<ExitCode, Box<dyn Error>> {
    let (file, to_stdout) = args.json();
    file.map(check_no_results).transpose()?;
    pointsman_lab::raise_open_file_limit()
        .map_err(|e| format!("cannot raise the limit of open files: {e}"))?;
    let show = if to_stdout { |_: &str| Ok(()) } else { print };
    let seeds: Vec<u64> = (0..args.seeds).map(|i| seed.wrapping_add(i)).collect();
    let (lines, violations) = validate::run(scenarios, simulator, &seeds, args.threads.max(1), show)?;
    let text = lines.join("\n") + "\n";
    match file {
        Some(path) => results::write(path, "--json", text)?,
        None if to_stdout => print(&text)?,
        None => {}
    }
    Ok(if violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Box<dyn Error>> {
    if args.schemes {
        pointsman_console::print(&network::schemes())?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.lab {
        // Before threads are started.
        pointsman_lab::ensure_privileges()?;
    }
    if args.scenario.len() > 1 && !args.lab {
        return Err(FlagError::OneRack.into());
    }
    results::check(&args.results())?;
    let mut texts = Vec::new();
    for path in &args.scenario {
        texts.push((path.as_path(), text_of(path)?));
    }
    let is_network = |(path, text): &&(&Path, String)| {
        pointsman_sim::network::is_network(&path.display().to_string(), text)
    };
    if let Some((path, text)) = texts.iter().find(is_network) {
        return network::run(&args, path, text);
    }
    if args.flows.is_some() {
        return Err(FlagError::RackFlows.into());
    }
    let mut scenarios = Vec::new();
    for (path, text) in &texts {
        scenarios.extend(read(path, text)?);
    }
    let Some(first) = scenarios.first() else { return Err(FlagError::NoPoints.into()) };
    let devices = scenarios.iter().map(|s| ServerDevices::of(&s.rack)).max().unwrap_or_default();
    let simulator = Simulator::new(&first.rack.switch.program, devices)?;
    if args.serve {
        if scenarios.len() > 1 {
            say("--serve: the scenario has a sweep: serving only its first point");
        }
        let mut server = serve::Server::new(first, &simulator)?;
        server.run(std::io::stdin().lock(), std::io::stdout().lock())?;
        return Ok(ExitCode::SUCCESS);
    }
    let seed = args.seed.unwrap_or(first.seed);
    if args.lab {
        return in_lab(&args, &scenarios, &simulator, seed);
    }
    let seeds = |s| (0..args.seeds).map(move |i| (s, seed.wrapping_add(i)));
    let all = scenarios.iter().flat_map(seeds);
    let mine = |(i, _): &(usize, _)| args.shard.is_none_or(|s| s.has(*i as u64));
    let jobs = all.enumerate().filter(mine).map(|(_, (s, seed))| job(s, &simulator, seed));
    let jobs: Vec<Job<'_>> = jobs.collect();
    let Some(results) = simulate(&args, args.threads, &jobs)? else { return Ok(ExitCode::SUCCESS) };
    let mine: Vec<&Value> = jobs.iter().filter_map(|j| results.get(&j.key())).collect();
    if let Some(path) = &args.csv {
        results::write(path, "--csv", table::results(&mine).csv())?;
    }
    if let Some(path) = &args.parquet {
        results::write(path, "--parquet", table::results(&mine).parquet())?;
    }
    if let Some(path) = &args.steps {
        steps_csv(path, &mine)?;
    }
    if let Some(path) = &args.html {
        results::write(path, "--html", page::page(&first.name, &mine, &Origin::here()))?;
    }
    if let Some(path) = &args.save_table {
        save_table(path, &mine)?;
    }
    Ok(verdict(&mine))
}

/// Names the violations that the results have.
fn verdict(results: &[&Value]) -> ExitCode {
    let mut violated = 0;
    for result in results {
        violated += result["checks"]["violations"].as_u64().unwrap_or(0);
        for text in result["checks"]["first"].as_array().into_iter().flatten() {
            say(&format!("seed {}: {}", result["seed"], text.as_str().unwrap_or_default()));
        }
    }
    if violated == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the simulations that the file of results does not have yet, and prints a line for each: all results. `None` with `--check`,
/// which only lists them. `threads` run at once; 0: one for each processor.
fn simulate(
    args: &Args,
    threads: usize,
    jobs: &[Job<'_>],
) -> Result<Option<BTreeMap<Key, Value>>, TrialError> {
    if args.check {
        for job in jobs {
            let mib = job.memory_bytes / f64::from(1 << 20);
            print(&format!("{} seed {}: about {mib:.0} MiB\n", job.point, job.seed))?;
        }
        return Ok(None);
    }
    let (file, to_stdout) = args.json();
    let done = complete(file, to_stdout, threads, jobs)?;
    if !results::takes_stdout(&args.results()) {
        let mine: Vec<&Value> = jobs.iter().filter_map(|j| done.get(&j.key())).collect();
        let mut texts = mine.iter().map(|r| summary(r)).chain(page::summary(&mine));
        texts.try_for_each(|text| print(&text))?;
    }
    Ok(Some(done))
}

/// Runs the simulations that the file of results does not have yet, and adds them to it: all results.
fn complete(
    file: Option<&Path>,
    to_stdout: bool,
    threads: usize,
    jobs: &[Job<'_>],
) -> Result<BTreeMap<Key, Value>, TrialError> {
    let done = file.map(finished).transpose()?.unwrap_or_default();
    let open = |path: &Path| {
        let cannot = |e| TrialError::Write(path.to_path_buf(), e);
        OpenOptions::new().create(true).append(true).open(path).map_err(cannot)
    };
    let todo: Vec<&Job<'_>> = jobs.iter().filter(|j| !done.contains_key(&j.key())).collect();
    if todo.len() < jobs.len() {
        say(&format!("{} of {} simulations are already finished", jobs.len() - todo.len(), jobs.len()));
    }
    let path = file.map(|path| path.display().to_string()).unwrap_or_default();
    let file = file.map(open).transpose()?;
    let results = Mutex::new(Results { file, to_stdout, done, origin: origin_json(), path });
    let bar = Progress::new(true);
    bar.begin(todo.len() as u64, "simulations");
    let one = |job: &&Job<'_>| -> Result<(), TrialError> {
        let line = (job.simulate)()?;
        let mut results = results.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        results.add(job.key(), &line)?;
        bar.inc(1);
        Ok(())
    };
    let ran = parallel::map(threads, &todo, one);
    bar.finish();
    ran?;
    Ok(results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn captures() {
        let mut file = Vec::new();
        let mut writer = pointsman_ports::pcap::Writer::new(&mut file).expect("memory");
        for time in [2_000_000_000, 1_500_000_001, 3_000_000_000] {
            writer.record(time, &[0; 60]).expect("memory");
        }
        writer.flush().expect("memory");
        drop(writer);
        let text = capture_times(&file).expect("a capture");
        assert_eq!(text, "time_s\n0.000000000\n0.499999999\n1.499999999\n");
        assert!(capture_times(&file[..30]).is_err() && capture_times(b"hello").is_err());
    }

    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn args(given: &[&str]) -> Args {
        let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/failure.toml");
        Command::parse_from([&["sim", scenario], given].concat()).args
    }

    /// An empty place for a file of this test.
    fn place(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("pointsman-trials-{}-{name}", std::process::id()));
        // Of an earlier run that failed.
        let _ = std::fs::remove_file(&path);
        path
    }

    #[test]
    fn files_are_tried_before_the_work() {
        let good = place("good.jsonl");
        for flag in ["--csv", "--parquet", "--steps", "--save-table", "--html"] {
            let given = ["--json", &good.display().to_string(), flag, "/nonexistent/x"];
            let error = run(args(&given)).expect_err("no such folder").to_string();
            assert!(error.contains("cannot write /nonexistent/x") && error.contains(flag), "{error}");
            assert!(!good.exists(), "{flag}: a simulation ran");
        }
    }

    #[test]
    fn the_lab_replaces_no_results() {
        let (file, simulator) = (place("results.jsonl"), simulator());
        let text = "{\"fingerprint\":\"f\",\"point\":{},\"seed\":1}\n";
        std::fs::write(&file, text).expect("a file");
        let lab = |json: &str| in_lab(&args(&["--lab", "--json", json]), &[], &simulator, 1);
        let name = file.display().to_string();
        let error = lab(&name).expect_err("it has results").to_string();
        assert!(error.contains("choose another file for --json"), "{error}");
        assert_eq!(std::fs::read_to_string(&file).expect("it is there"), text);
        // Comparisons are replaced.
        std::fs::write(&file, "{\"difference_percent\":{}}\n").expect("a file");
        lab(&name).expect("nothing to compare");
        assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "\n");
        std::fs::remove_file(&file).expect("it is there");
        lab("-").expect("nothing to compare");
        assert!(!Path::new("-").exists(), "standard output is not a file");
    }

    fn simulator() -> Simulator {
        let program = pointsman_balance::config::Program::BuiltIn;
        Simulator::new(&program, ServerDevices::default()).expect("it compiles")
    }

    #[test]
    fn shards() {
        for bad in ["", "1", "0/2", "3/2", "a/b", "1/0", "1/2/3"] {
            assert!(parse_shard(bad).is_err(), "{bad}");
        }
        assert!(parse_shard("2/8").is_ok_and(|s| (s.index, s.count) == (2, 8)));
    }
}
