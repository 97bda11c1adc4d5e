//! `pointsman bench peers`: requests per second through our switch and through balancers packaged by Debian.
//!
//! Every balancer runs in the same rack, gets the same requests from the same client for the same servers, and
//! runs in turn, so that other load on the machine affects all alike.

mod requests;
mod setups;

use super::bed::Bed;
use super::report::{Machine, PeersReport};
use super::tcp::Served;
use super::write_report;
use pointsman_console::results;
use pointsman_console::say;
use pointsman_console::signals::end_process;
use pointsman_lab::{ensure_privileges, raise_open_file_limit};
use requests::{Scale, measure};
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// A request unanswered for this long is lost.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Compare requests per second with nftables, HAProxy and nginx on the same rack of namespaces.
#[derive(clap::Args)]
pub struct PeersArgs {
    /// Ports of our switch.
    #[arg(long, value_enum, default_value_t = super::Ports::Both)]
    ports: super::Ports,
    /// Duration of a run.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = super::parse_seconds)]
    seconds: f64,
    /// Runs of each measurement.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    /// Numbers of clients.
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 32],
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    clients: Vec<u16>,
    /// Write the figures, with every run, as JSON; `-` for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Show the log of switch and controller.
    #[arg(short, long)]
    verbose: bool,
}

/// Runs the command.
pub fn run(args: PeersArgs) -> Result<ExitCode, Box<dyn Error>> {
    results::check(&[(&args.json, "--json")])?;
    let privileges = ensure_privileges()?;
    end_process(|| {})?;
    raise_open_file_limit().map_err(|e| format!("cannot raise the limit of open files: {e}"))?;
    let mut machine = Machine::now(format!("{privileges:?}"));

    let mut skipped = Vec::new();
    let mut versions = Vec::new();
    let mut beds = vec![Served::start(Bed::direct(true)?)?];
    for kind in args.ports.kinds() {
        match Bed::balancer(*kind, false, args.verbose) {
            Ok(bed) => beds.push(Served::start(bed)?),
            Err(e) => skipped.push(format!("pointsman {}: {e}", kind.name())),
        }
    }
    for peer in setups::PEERS {
        match peer.start() {
            Ok((bed, version)) => {
                versions.push(version);
                beds.push(Served::start(bed)?);
            }
            Err(e) => skipped.push(format!("{}: {e}", peer.name)),
        }
    }
    for bed in &beds {
        bed.bed.warnings.iter().for_each(|w| say(&format!("warning: {}: {w}", bed.bed.name)));
    }
    let scale = Scale {
        clients: args.clients.iter().map(|n| usize::from(*n)).collect(),
        runs: usize::from(args.runs),
        duration: Duration::from_secs_f64(args.seconds),
        timeout: TIMEOUT,
    };
    let proxies: Vec<&str> = setups::PEERS.iter().filter(|p| p.proxy).map(|p| p.name).collect();
    let requests = measure(&mut beds, &scale, &proxies, say)?;
    machine.ended();
    let report = PeersReport {
        schema: "pointsman.bench.peers/1",
        machine,
        seconds: args.seconds,
        timeout: TIMEOUT.as_secs_f64(),
        versions,
        requests,
        skipped,
    };
    write_report(&args.json, &report.text(), &report)?;
    Ok(ExitCode::SUCCESS)
}
