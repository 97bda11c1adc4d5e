//! Pointsman: accelerator-aware load balancing of connections in the network, and the P4 switch for it. The command line.

#![forbid(unsafe_code)]

mod devices;
mod handout;
mod history;
mod invoked;
mod learn;
mod p4;
mod policy;
mod reach;
mod siege;
mod tools;
mod top;
mod value;
mod workload;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser, Subcommand};
use pointsman_console::say;
use pointsman_node::{agent, controller, memory, rack_file, store, switch};
use std::process::ExitCode;

/// Load balancing in a P4 switch: over servers and, inside each server, over its CPU and accelerators.
#[derive(Parser)]
#[command(version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// P4 tools: check source, print P4Info or the typed form, run packet tests.
    #[command(subcommand)]
    P4(tools::P4),
    Switch(Box<switch::Args>),
    Controller(controller::Args),
    Policy(policy::Args),
    Status(devices::Status),
    Top(top::Args),
    Doctor(pointsman_doctor::Args),
    Health(pointsman_health::Args),
    Net(pointsman_emulate::Args),
    Drain(devices::Drain),
    Enable(devices::Enable),
    Agent(agent::Args),
    Keys(rack_file::Args),
    Store(store::Args),
    Memory(memory::Args),
    Demo(pointsman_demo::Args),
    Bench(pointsman_bench::Args),
    Siege(siege::Args),
    Failover(pointsman_failover::Args),
    Tea(pointsman_tea::Args),
    #[command(subcommand)]
    History(history::Command),
    #[command(subcommand)]
    Model(pointsman_model::Command),
    Sim(pointsman_trials::Args),
    Reproduce(pointsman_reproduce::Args),
    #[command(subcommand)]
    Workload(workload::Command),
    #[command(subcommand)]
    Learn(learn::Command),
    Completions(handout::Completions),
    Man(handout::Man),
}

/// The command line; without one that can be read, the process ends with the reason.
fn parsed() -> Cli {
    let words = switch::without_separator(invoked::command_line(std::env::args_os()));
    Cli::try_parse_from(words).unwrap_or_else(|mut e| {
        // An unknown flag is a mistake, not the name of a file.
        if let Some(ContextValue::StyledStrs(tips)) = e.get(ContextKind::Suggested)
            && tips.iter().all(|tip| tip.to_string().contains("as a value"))
        {
            e.remove(ContextKind::Suggested);
        }
        e.exit()
    })
}

fn main() -> ExitCode {
    let done = match parsed().command {
        Command::P4(command) => tools::run(command),
        Command::Switch(args) => switch::run(*args),
        Command::Controller(args) => controller::run(args),
        Command::Policy(args) => policy::run(args),
        Command::Status(args) => devices::run_status(&args),
        Command::Top(args) => top::run(&args),
        Command::Doctor(args) => pointsman_doctor::run(&args),
        Command::Health(args) => pointsman_health::run(args),
        Command::Net(args) => pointsman_emulate::run(args),
        Command::Drain(args) => devices::run_drain(&args),
        Command::Enable(args) => devices::run_enable(&args),
        Command::Agent(args) => agent::run(args),
        Command::Keys(args) => rack_file::run(args),
        Command::Store(args) => store::run(args),
        Command::Memory(args) => memory::run(args),
        Command::Demo(args) => pointsman_demo::run(args),
        Command::Bench(args) => pointsman_bench::run(args),
        Command::Siege(args) => siege::run(args),
        Command::Failover(args) => pointsman_failover::run(args),
        Command::Tea(args) => pointsman_tea::run(args),
        Command::History(command) => history::run(&command),
        Command::Model(command) => pointsman_model::run(command),
        Command::Sim(args) => pointsman_trials::run(args),
        Command::Reproduce(args) => pointsman_reproduce::run(args),
        Command::Workload(command) => workload::run(command),
        Command::Learn(command) => learn::run(&command),
        Command::Completions(args) => handout::run_completions(&args, Cli::command()),
        Command::Man(args) => handout::run_man(&args, Cli::command()),
    };
    match done {
        Ok(code) => code,
        Err(e) => {
            say(&e.to_string());
            ExitCode::FAILURE
        }
    }
}
