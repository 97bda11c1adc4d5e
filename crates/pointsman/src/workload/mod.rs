//! `pointsman workload`: real applications, as server and load generator, over loopback or a given address.

mod load;
mod serve;

use crate::value::Expected;
use std::error::Error;
use std::process::ExitCode;

/// Serve real applications and send them requests, to measure a rack.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Answer requests with a real computation.
    Serve(serve::Args),
    /// Send requests on a fixed schedule (open loop), and account for every one.
    Load(load::Args),
}

/// Reads seconds: above 0, at most a day.
fn seconds(text: &str) -> Result<f64, Expected> {
    match text.parse::<f64>() {
        Ok(s) if s > 0.0 && s <= 86_400.0 => Ok(s),
        _ => Err(Expected("seconds above 0, at most 86400")),
    }
}

/// Runs the command.
///
/// # Errors
/// The reason for the failure.
pub fn run(command: Command) -> Result<ExitCode, Box<dyn Error>> {
    match command {
        Command::Serve(args) => serve::run(&args),
        Command::Load(args) => load::run(&args),
    }
}
