//! The command line of Pointsman.

use clap::{Parser, Subcommand};
use pointsman::{p4, switch};
use std::process::ExitCode;

/// Balances connections over servers and, inside each, over its CPU and accelerators, in a P4 switch.
#[derive(Parser)]
#[command(version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Work on P4 source: check it, show its P4Info or its typed form.
    #[command(subcommand)]
    P4(p4::Command),
    Switch(switch::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::P4(command) => p4::run(command),
        Command::Switch(args) => switch::run(args),
    };
    match done {
        Ok(code) => code,
        Err(message) => {
            eprintln!("pointsman: {message}");
            ExitCode::FAILURE
        }
    }
}
