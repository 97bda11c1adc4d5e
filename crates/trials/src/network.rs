//! Scenarios of networks: `pointsman sim` with a file that has a table `[network]`.

use super::{Args, Job, loader, network_lab, simulate, summary, verdict, write};
use pointsman_compile::sources::{self, Sources};
use pointsman_console::print;
use pointsman_engine::Engine;
use pointsman_node::controller::compiled;
use pointsman_session::Program;
use pointsman_sim::network::{self, NetworkScenario, Work};
use serde_json::Value;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

/// Options that only simulations of racks have.
fn check(args: &Args) -> Result<(), String> {
    let given = [
        ("--csv", args.csv.is_some()),
        ("--steps", args.steps.is_some()),
        ("--save-table", args.save_table.is_some()),
        ("--html", args.html.is_some()),
        ("--serve", args.serve),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((option, _)) => {
            Err(format!("{option}: not for a scenario with a table [network]: omit it, or use --json"))
        }
        None if args.scenario.len() > 1 => Err("only one scenario with a table [network] is allowed".into()),
        None => Ok(()),
    }
}

/// The text of the switches' program.
fn program(scenario: &NetworkScenario, beside: &Path) -> Result<(String, String), String> {
    let Some(file) = &scenario.program else {
        let scheme = scenario.choice.scheme;
        return Ok((scheme.name.into(), scheme.program.into()));
    };
    let path = beside.join(file);
    let text = sources::flatten_file(&path, &Sources::default(), &[])
        .map_err(|e| format!("program.file: cannot read {}: {e}", path.display()))?;
    Ok((file.clone(), text))
}

/// Runs the scenario on this machine, once for each seed, and prints and writes the results.
fn lab(
    args: &Args,
    scenario: &NetworkScenario,
    program: &Program,
    first: u64,
    fingerprint: &str,
) -> Result<ExitCode, Box<dyn Error>> {
    let Work::Requests(traffic) = &scenario.work else {
        return Err(
            "--lab: flows run in the simulator only: write a table [traffic] instead of [flows]".into()
        );
    };
    pointsman_lab::raise_open_file_limit()
        .map_err(|e| format!("cannot raise the limit of open files: {e}"))?;
    let mut lines = Vec::new();
    for i in 0..args.seeds {
        let result = network_lab::run(scenario, traffic, program, first.wrapping_add(i), fingerprint)?;
        print(&summary(&result));
        lines.push(result);
    }
    if let Some(path) = &args.json {
        write(path, &lines.iter().map(|l| format!("{l}\n")).collect::<String>())?;
    }
    Ok(verdict(&lines.iter().collect::<Vec<_>>()))
}

/// Runs the command.
pub(super) fn run(args: &Args, path: &Path, text: &str) -> Result<ExitCode, Box<dyn Error>> {
    check(args)?;
    let scenario = network::read(&path.display().to_string(), text, &loader(path))?;
    let (name, text) = program(&scenario, path.parent().unwrap_or(Path::new("")))?;
    let (program, switch) = compiled(&name, text)?;
    let (scenario, switch) = (&scenario, &Arc::new(switch));
    let fingerprint = scenario.fingerprint(&program.device_config);
    let job = |seed: u64| {
        let (of, program) = (fingerprint.clone(), &program);
        let simulate = move || {
            let began = Instant::now();
            let mut outcome = network::run::<Engine>(scenario, program, switch, seed)?;
            outcome.wall_s = began.elapsed().as_secs_f64();
            outcome.fingerprint.clone_from(&of);
            Ok(outcome.json())
        };
        let (point, memory_bytes) = (String::new(), scenario.memory_bytes());
        Job { point, seed, fingerprint: fingerprint.clone(), memory_bytes, simulate: Box::new(simulate) }
    };
    let first = args.seed.unwrap_or(scenario.seed);
    if args.lab {
        return lab(args, scenario, &program, first, &fingerprint);
    }
    let seeds = (0..args.seeds).filter(|i| args.shard.is_none_or(|s| i % s.count == s.index - 1));
    let jobs: Vec<Job<'_>> = seeds.map(|i| job(first.wrapping_add(i))).collect();
    let Some(results) = simulate(args, &jobs)? else { return Ok(ExitCode::SUCCESS) };
    let mine: Vec<&Value> = jobs.iter().filter_map(|j| results.get(&j.key())).collect();
    Ok(verdict(&mine))
}
