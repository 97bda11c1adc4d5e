//! In-memory packets through the complete switch.

use super::error::{FlagError, SettingError};
use super::experiment::{Experiment, config};
use super::program::{Load, Program};
use super::reference::Reference;
use super::scenario::Known;
use super::traffic::Mix;
use pointsman_compile::executor::Choice;
use pointsman_compile::sources::{Sources, balancer, parse_define, read_source};
use pointsman_console::results;
use pointsman_console::{say, show};
use pointsman_explain::filter::Filter;
use pointsman_frontend::{Compiled, Define};
use pointsman_ir::Executor;
use pointsman_node::switch::queues;
use pointsman_stf::{Line, parse};
use pointsman_v1model::{Switch, SwitchConfig};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// The flags.
#[derive(clap::Args)]
pub struct MemoryArgs {
    /// The program's main file, or `balancer` for the built-in one.
    file: Option<PathBuf>,
    /// Entries, groups and so on, as STF statements (`add`, `setdefault`, `mc_mgrp_create` ...). Its `packet` statements, if
    /// any, are the packets.
    #[arg(long, value_name = "FILE")]
    entries: Option<PathBuf>,
    /// Number of known flows; packets use them in random order.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub flows: u64,
    /// Packet mix: known flows, new flows, or nine known (one of which ends) to one new.
    #[arg(long, value_enum, default_value_t)]
    pub mix: Mix,
    /// Number of router routes or packet filter rules [default: 10000, 4000].
    #[arg(long, value_name = "N")]
    size: Option<usize>,
    /// Processor cores that share the packets.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub workers: usize,
    /// Number of measurements; program and reference alternate.
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u16).range(1..))]
    pub runs: u16,
    /// Packets per measurement [default: the number of flows, but at least 200000 and at most 1000000].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    packets: Option<u64>,
    /// Settings of the traffic manager, as of `pointsman switch`: all=100Gbit. Repeatable.
    #[arg(long, value_name = "SETTING")]
    pub queue: Vec<queues::Setting>,
    /// How the program runs: `engine` compiles to native code, `interp` interprets.
    #[arg(long, value_enum, default_value_t)]
    pub executor: Choice,
    /// Follow packets while measuring, as `pointsman p4 trace --follow` does (docs/trace.md): what a filter costs.
    #[arg(long, value_name = "FILTER", value_parser = Filter::parse)]
    follow: Option<Filter>,
    /// Write the figures as JSON; `-` for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Folder to search for included files. Repeatable.
    #[arg(short = 'I', long = "include", value_name = "DIR")]
    include: Vec<PathBuf>,
    /// Macro to define.
    #[arg(short = 'D', value_name = "NAME[=VALUE]", value_parser = parse_define)]
    define: Vec<Define>,
}

/// Memory that a flow takes at least: two places for it in the program's table and two to four in the reference's, its
/// packet, and its place in the order of packets.
const FLOW_BYTES: u64 = 320;

/// Ports that `--queue all=` stands for; our programs use no others.
const PORTS: u32 = 64;

/// Exit code of a command line that cannot be honoured.
const USAGE: u8 = 2;

/// Bytes that this machine has left.
fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Checks that this many flows can be measured.
fn check_flows(flows: u64) -> Result<(), FlagError> {
    if flows == 0 {
        return Err(FlagError::Zero("--flows"));
    }
    let needed = u128::from(flows) * u128::from(FLOW_BYTES);
    let most = available().unwrap_or(u64::MAX) / 10 * 9;
    if needed > u128::from(most) {
        return Err(FlagError::Memory { flows, needed, most, fit: most / FLOW_BYTES });
    }
    // Flows are numbers of 32 bits, and there must be some left for new ones.
    if flows > 1 << 30 {
        return Err(FlagError::Flows(flows, 1 << 30));
    }
    Ok(())
}

/// The macro that makes the balancer's connection table large enough: half of its places stay free.
fn places(flows: u64) -> Option<Define> {
    let bits = (17..31).find(|bits| 4u64 << bits >= 2 * flows)?;
    (bits > 17).then(|| Define::set(&format!("CONNECTION_PLACE_BITS={bits}")))
}

impl MemoryArgs {
    /// Checks the flags alone.
    fn review(&self) -> Result<&Path, FlagError> {
        let file = self.file.as_deref().ok_or(FlagError::NoProgram)?;
        check_flows(self.flows)?;
        if self.workers == 0 {
            return Err(FlagError::Zero("--workers"));
        }
        let most = self.flows.min(256);
        if self.workers as u64 > most {
            return Err(FlagError::Workers(self.workers, most));
        }
        if self.size == Some(0) {
            return Err(FlagError::Zero("--size"));
        }
        results::check(&[(&self.json, "--json")]).map_err(FlagError::Write)?;
        Ok(file)
    }

    fn compile(&self, file: &Path) -> Result<Compiled, Box<dyn Error>> {
        let sources = Sources { include_dirs: self.include.clone() };
        // User definitions come later and win.
        let defines: Vec<Define> = places(self.flows).into_iter().chain(self.define.clone()).collect();
        if file == Path::new("balancer") && !file.exists() {
            return pointsman_compile::compile("balancer", &balancer(), &sources, &defines)
                .map_err(|e| pointsman_compile::rendered(&e).into());
        }
        let (compiled, warnings) = pointsman_compile::compile_file(file, &sources, &defines)?;
        show(&warnings);
        Ok(compiled)
    }

    /// The statements of --entries.
    fn lines(&self) -> Result<Option<Vec<Line>>, Box<dyn Error>> {
        let Some(path) = &self.entries else { return Ok(None) };
        parse(&read_source(path)?).map(Some).map_err(|e| format!("{}: {e}", path.display()).into())
    }

    /// Puts the program on a new switch.
    pub fn program<E: Executor>(
        &self,
        compiled: &Compiled,
        switch: Switch<E>,
        lines: Option<&[Line]>,
        load: Load,
        reference: &mut Reference,
    ) -> Result<Program<E>, Box<dyn Error>> {
        let program = Program::new(compiled, switch, lines, load, reference);
        let mut program = program.map_err(|e| match &self.entries {
            Some(path) => format!("{}: {e}", path.display()).into(),
            None => Box::<dyn Error>::from(e),
        })?;
        if !self.queue.is_empty() {
            let config = SwitchConfig { ports: Some((0..PORTS).collect()), ..config() };
            queues::apply(program.switch(), &config, &self.queue)
                .map_err(|e| SettingError::Refused(e, PORTS))?;
        }
        if let Some(filter) = &self.follow {
            program.switch().follow(Some(filter.follow()));
        }
        Ok(program)
    }
}

/// Runs the command.
///
/// # Errors
/// The reason why it cannot be measured.
pub fn run(args: MemoryArgs) -> Result<ExitCode, Box<dyn Error>> {
    let file = match args.review() {
        Ok(file) => file.to_path_buf(),
        Err(e) => {
            say(&e.to_string());
            return Ok(ExitCode::from(USAGE));
        }
    };
    let lines = args.lines()?;
    let start = Instant::now();
    let compiled = args.compile(&file)?;
    let front_end_ms = start.elapsed().as_secs_f64() * 1e3;
    let known = Known::find(&compiled.program).filter(|_| lines.is_none());
    let load = Load {
        flows: args.flows as usize,
        mix: args.mix,
        size: args.size.unwrap_or(known.map_or(0, Known::size)),
    };
    let packets = args.packets.unwrap_or(args.flows.clamp(200_000, 1_000_000)) as usize;
    let experiment =
        Experiment { args: &args, compiled: &compiled, lines: lines.as_deref(), known, load, packets };
    let report = experiment.report(&file, front_end_ms)?;
    let files = [(&args.json, "--json")];
    results::tell(&files, &report.to_string())?;
    if let Some(path) = &args.json {
        results::write(path, "--json", report.json())?;
        results::tell(&files, &format!("figures: {}\n", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_bounded() {
        let check = |flows, part: &str| {
            let got = check_flows(flows).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(got.contains(part) && part.is_empty() == got.is_empty(), "{flows}: {got}");
        };
        check(1, "");
        check(0, "at least 1");
        check(u64::MAX, "GiB of memory");
    }

    #[test]
    fn tables_grow_with_flows() {
        let check = |flows, want: Option<&str>| {
            assert_eq!(places(flows), want.map(|bits| Define::set(&format!("CONNECTION_PLACE_BITS={bits}"))));
        };
        check(1000, None);
        check(262_144, None);
        check(262_145, Some("18"));
        check(1_000_000, Some("19"));
    }
}
