//! Pointsman: accelerator-aware balancing of connections in the network, and the P4 switch under it.
//!
//! This crate is the only room with flags, files, threads, sockets and the wall clock.

mod p4;
mod sources;

use clap::{Parser, Subcommand};
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
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::P4(command) => p4::run(command),
    };
    match done {
        Ok(code) => code,
        Err(message) => {
            eprintln!("pointsman: {message}");
            ExitCode::FAILURE
        }
    }
}
