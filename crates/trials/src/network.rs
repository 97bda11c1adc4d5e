//! Scenarios of networks: `pointsman sim` with a file that has a table `[network]`.

use super::{
    Args, FlagError, Job, Key, PointError, Shard, TrialError, complete, loader, network_lab, page, simulate,
    verdict,
};
use pointsman_console::results::{self, Origin};
use pointsman_engine::Engine;
use pointsman_fabric::{SCHEMES, Setting};
use pointsman_node::controller::compiled;
use pointsman_node::network::program;
use pointsman_sim::DataPlane;
use pointsman_sim::network::{self, NetworkOutcome, NetworkScenario, Work};
use serde_json::Value;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

/// Options that only simulations of racks have.
fn check(args: &Args) -> Result<(), FlagError> {
    let given = [
        ("--csv", args.csv.is_some()),
        ("--parquet", args.parquet.is_some()),
        ("--steps", args.steps.is_some()),
        ("--save-table", args.save_table.is_some()),
        ("--serve", args.serve),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(FlagError::Network(option)),
        None if args.scenario.len() > 1 => Err(FlagError::OneNetwork),
        None => Ok(()),
    }
}

/// A point of the sweep, with what its switches run.
pub struct Point {
    /// The point's scenario.
    pub scenario: NetworkScenario,
    data_plane: Arc<DataPlane<Engine>>,
    fingerprint: String,
}

/// All points. Programs that several have in common are compiled once; those in files are found in this folder.
///
/// # Errors
/// A program does not compile.
pub fn points(scenarios: Vec<NetworkScenario>, beside: &Path) -> Result<Vec<Point>, PointError> {
    let mut programs = BTreeMap::new();
    let mut points = Vec::new();
    for scenario in scenarios {
        let text = program(&scenario.choice, scenario.program.as_deref(), beside);
        let (name, text) = text.map_err(PointError::Unreadable)?;
        let data_plane = match programs.get(&name) {
            Some(known) => Arc::clone(known),
            None => {
                let (program, switch) = compiled(&name, text).map_err(PointError::Program)?;
                let made = Arc::new(DataPlane::new(program, Arc::new(switch)));
                programs.insert(name, Arc::clone(&made));
                made
            }
        };
        let fingerprint = scenario.fingerprint(&data_plane.program.device_config);
        points.push(Point { scenario, data_plane, fingerprint });
    }
    Ok(points)
}

/// A run of a point with one seed: simulated, or on this machine in real time. Their results have different fingerprints.
fn job(point: &Point, seed: u64, lab: bool) -> Job<'_> {
    let fingerprint = if lab { format!("lab-{}", point.fingerprint) } else { point.fingerprint.clone() };
    let of_job = fingerprint.clone();
    let simulate = move || {
        let began = Instant::now();
        let outcome = if lab {
            network_lab::run(&point.scenario, &point.data_plane.program, seed).map_err(TrialError::Lab)?
        } else {
            network::run(&point.scenario, &point.data_plane, seed)?
        };
        let (fingerprint, wall_s) = (fingerprint.clone(), began.elapsed().as_secs_f64());
        Ok(NetworkOutcome { fingerprint, wall_s, ..outcome }.json())
    };
    Job {
        point: point.scenario.point_text(),
        seed,
        fingerprint: of_job,
        memory_bytes: point.scenario.memory_bytes(),
        simulate: Box::new(simulate),
    }
}

/// Simulates all points with all seeds, on so many threads (0: one for each processor): for each point, the line of results of each seed.
/// With a file, results are read from it and added to it, as `pointsman sim --json` does. With a shard, only its simulations are run, and the
/// results of the others are null, unless the file has them.
///
/// # Errors
/// A simulation does not come up, or the file cannot be used.
pub fn simulate_all(
    points: &[Point],
    seeds: &[u64],
    threads: usize,
    (file, shard): (Option<&Path>, Option<Shard>),
) -> Result<Vec<Vec<Value>>, TrialError> {
    let pairs = points.iter().flat_map(|p| seeds.iter().map(move |seed| job(p, *seed, false)));
    let mut jobs: Vec<Job<'_>> = pairs.collect();
    let keys: Vec<Key> = jobs.iter().map(Job::key).collect();
    let mut number = 0..;
    jobs.retain(|_| number.next().is_some_and(|i| shard.is_none_or(|s| s.has(i))));
    let results = complete(file, false, threads, &jobs)?;
    let lines: Vec<Value> = keys.iter().map(|key| results.get(key).cloned().unwrap_or_default()).collect();
    Ok(lines.chunks(seeds.len().max(1)).map(<[Value]>::to_vec).collect())
}

/// All schemes with their settings, as text.
pub(super) fn schemes() -> String {
    let mut out = String::new();
    for scheme in SCHEMES {
        out += &format!("{:<16} {}\n", scheme.name, scheme.says);
        for setting in scheme.settings {
            let Setting { name, domain, says } = setting;
            out += &format!("  {name:<14} {says} [{}; {domain}]\n", setting.default());
        }
    }
    out
}

/// The flows of a run as CSV: start in seconds, numbers of the hosts, bytes.
fn plan(scenario: &NetworkScenario, seed: u64) -> Result<String, FlagError> {
    let Work::Flows(flows) = &scenario.work else {
        return Err(FlagError::NoFlows);
    };
    let mut text = String::from("start_s,from,to,bytes\n");
    for f in flows.plan(&scenario.topology, scenario.duration_ns, seed) {
        text += &format!("{:.9},{},{},{}\n", f.at as f64 / 1e9, f.from, f.to, f.bytes);
    }
    Ok(text)
}

/// Runs the command.
pub(super) fn run(args: &Args, path: &Path, text: &str) -> Result<ExitCode, Box<dyn Error>> {
    check(args)?;
    let scenarios = network::read(&path.display().to_string(), text, &loader(path))?;
    let points = points(scenarios, path.parent().unwrap_or(Path::new("")))?;
    let Some(first) = points.first() else { return Err(FlagError::NoPoints.into()) };
    for with_one_scheme in points.chunk_by(|a, b| a.scenario.choice == b.scenario.choice) {
        network::check(&with_one_scheme[0].scenario, &with_one_scheme[0].data_plane)?;
    }
    let first_seed = args.seed.unwrap_or(first.scenario.seed);
    if let Some(file) = &args.flows {
        results::write(file, "--flows", plan(&first.scenario, first_seed)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let threads = if args.lab { args.threads.max(1) } else { args.threads };
    if args.lab {
        pointsman_lab::raise_open_file_limit()
            .map_err(|e| format!("cannot raise the limit of open files: {e}"))?;
    }
    let all = points.iter().flat_map(|p| (0..args.seeds).map(move |i| (p, first_seed.wrapping_add(i))));
    let mine = (0..).zip(all).filter(|(i, _)| args.shard.is_none_or(|s| s.has(*i)));
    let jobs: Vec<Job<'_>> = mine.map(|(_, (point, seed))| job(point, seed, args.lab)).collect();
    let Some(results) = simulate(args, threads, &jobs)? else { return Ok(ExitCode::SUCCESS) };
    let mine: Vec<&Value> = jobs.iter().filter_map(|j| results.get(&j.key())).collect();
    if let Some(path) = &args.html {
        results::write(path, "--html", page::page(&first.scenario.name, &mine, &Origin::here()))?;
    }
    Ok(verdict(&mine))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    const SCENARIO: &str = "name = \"small\"\nduration_s = 0.001\n\
        [network]\nleaf_spine = { leaves = 2, spines = 2, hosts_per_leaf = 2 }\n\
        [flows]\nsize = [{ bytes = 20000 }]\narrivals = { process = \"poisson\", load = 0.5 }\n\
        [sweep]\nscheme = [\"ecmp\", { name = \"ecmp\", ecn_kib = 30 }]\nload = [0.2, 0.4]\n";

    /// A folder of this test alone, removed at its end.
    struct Folder(std::path::PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn run_with(scenario: &Path, options: &[&str]) -> Result<ExitCode, String> {
        let path = scenario.display().to_string();
        let command = Command::try_parse_from([&["sim", &path], options].concat()).expect("good options");
        let text = std::fs::read_to_string(scenario).expect("it was just written");
        run(&command.args, scenario, &text).map_err(|e| e.to_string())
    }

    fn lines(path: &Path) -> Vec<Value> {
        let text = std::fs::read_to_string(path).expect("results");
        text.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect()
    }

    /// Two parts have together what one run has; what is in the file is not run again.
    #[test]
    fn sweeps_are_split_and_continued() {
        let folder = Folder(std::env::temp_dir().join(format!("pointsman-sweep-{}", std::process::id())));
        std::fs::create_dir_all(&folder.0).expect("a folder");
        let at = |name: &str| folder.0.join(name);
        let (scenario, whole, parts) = (at("small.toml"), at("whole.jsonl"), at("parts.jsonl"));
        std::fs::write(&scenario, SCENARIO).expect("a file");
        let text = |path: &Path| path.display().to_string();
        let (whole_text, parts_text) = (text(&whole), text(&parts));
        run_with(&scenario, &["--seeds", "2", "--json", &whole_text]).expect("it runs");
        for part in ["1/3", "2/3"] {
            run_with(&scenario, &["--seeds", "2", "--json", &parts_text, "--shard", part]).expect("it runs");
        }
        assert!((1..8).contains(&lines(&parts).len()));
        run_with(&scenario, &["--seeds", "2", "--json", &parts_text]).expect("it continues");
        let sorted = |path: &Path| {
            let mut found: Vec<(String, String)> = Vec::new();
            for mut line in lines(path) {
                line["wall_s"] = 0.into();
                found.push((format!("{} {}", line["point"], line["seed"]), line.to_string()));
            }
            found.sort();
            found
        };
        let found = sorted(&whole);
        assert_eq!((found.len(), &found), (8, &sorted(&parts)));
        assert!(found.windows(2).all(|w| w[0].0 != w[1].0), "{found:?}");
    }
}
