//! `pointsman bench`: performance measurements.

#![forbid(unsafe_code)]

mod error;
mod experiment;
mod frame;
mod measure;
pub mod memory;
mod program;
mod reference;
mod report;
mod scenario;
mod stages;
mod traffic;
pub mod wire;
mod workers;

use std::error::Error;
use std::process::ExitCode;

/// Measure how fast a program runs: packets in memory pass through the complete switch, from parser to deparser, alternating
/// with a hand-written loop that balances connections.
///
/// Tables of the included programs (balancer, router, acl in p4/programs) are filled automatically, others from --entries.
/// Packets are generated to match the entries.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    over: Option<Over>,
    #[command(flatten)]
    memory: memory::MemoryArgs,
}

#[derive(clap::Subcommand)]
enum Over {
    Wire(wire::WireArgs),
    Peers(wire::peers::PeersArgs),
}

/// Runs the command.
///
/// # Errors
/// The reason why it cannot be measured.
pub fn run(args: Args) -> Result<ExitCode, Box<dyn Error>> {
    match args.over {
        Some(Over::Wire(args)) => wire::run(args),
        Some(Over::Peers(args)) => wire::peers::run(args),
        None => memory::run(args.memory),
    }
}
