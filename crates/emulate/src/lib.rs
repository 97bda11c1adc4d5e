//! `pointsman net`: networks of hosts and switches on this machine, from the topology files of p4lang/tutorials and p4-utils.
//!
//! [`read::read`] and [`runtime::read`] are pure: the text of a file in, a [`plan::Plan`] or P4Runtime's updates out, or all problems with
//! their places. [`network::Network`] builds what a plan says from the lab's namespaces and our switches.

#![forbid(unsafe_code)]

mod cells;
mod checks;
pub mod commands;
pub mod database;
pub mod entries;
mod exec;
pub mod fields;
mod fill;
pub mod json;
pub mod load;
pub mod network;
mod ping;
pub mod plan;
mod ports;
pub mod prompt;
pub mod read;
pub mod runtime;
mod schedule;
mod session;
mod storm;
pub mod tasks;

use clap::Subcommand;
use load::{Files, LoadError, read_text};
use network::{Network, Options};
use pointsman_compile::sources::Sources;
use pointsman_console::say;
use pointsman_lab::{Privileges, ensure_privileges, raise_open_file_limit};
use pointsman_node::switch::Texts;
use schedule::Schedule;
use session::{Session, dump};
use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc;
use tasks::Task;
use tokio::signal::unix::{SignalKind, signal};

/// The argument of a flag whose folder may be omitted, so that the topology behind the flag would be taken for it.
fn folder(text: &str) -> Result<PathBuf, IsFile> {
    let path = PathBuf::from(text);
    let is_file = path.is_file() || path.extension().is_some_and(|e| e == "p4" || e == "json");
    if is_file { Err(IsFile) } else { Ok(path) }
}

/// The argument of a flag that takes a folder is a file.
#[derive(Debug, PartialEq, Eq)]
struct IsFile;

impl fmt::Display for IsFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("that is a file; write FILE before this flag, or =DIR behind it")
    }
}

impl Error for IsFile {}

/// Run a network of hosts and switches on this machine, from a topology file of p4lang/tutorials or p4-utils.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Other>,
    /// The topology: `topology.json` of the tutorials, or `p4app.json` of p4-utils.
    #[arg(required = true)]
    file: Option<PathBuf>,
    /// Program of switches for which the topology names none: P4 source, or compiler output next to it.
    #[arg(short = 'j', long, value_name = "FILE")]
    program: Option<String>,
    /// Record all ports of switches in DIR (default: pcaps): SWITCH-ethPORT_in.pcap and SWITCH-ethPORT_out.pcap.
    #[arg(short, long, value_name = "DIR", num_args = 0..=1, default_missing_value = "pcaps", value_parser = folder)]
    pcap: Option<PathBuf>,
    /// Write the switches' logs to DIR (default: logs), with a line for each packet.
    #[arg(short, long, value_name = "DIR", num_args = 0..=1, default_missing_value = "logs", value_parser = folder)]
    log: Option<PathBuf>,
    /// Folder to search for included files. Repeatable.
    #[arg(short = 'I', value_name = "DIR")]
    include: Vec<PathBuf>,
    /// Check the topology and the files that it names, and run nothing.
    #[arg(long)]
    check: bool,
    /// Run until SIGINT or SIGTERM, without a prompt.
    #[arg(long)]
    no_prompt: bool,
}

#[derive(Subcommand)]
enum Other {
    /// Run a command, or a shell, in a node of a network that runs in another terminal.
    Exec {
        /// The process of the network, where several have the node.
        #[arg(long)]
        pid: Option<u32>,
        /// A host, a switch, or `c0`: the place of the P4Runtime servers.
        node: String,
        /// The command and its arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
}

/// Runs the command.
///
/// # Errors
/// The file is wrong, or the network cannot run on this machine.
pub fn run(args: Args) -> Result<ExitCode, Box<dyn Error>> {
    if let Some(Other::Exec { pid, node, words }) = &args.command {
        return Err(exec::exec(node, *pid, words).into());
    }
    let file = args.file.clone().ok_or("the topology is missing")?;
    let text = read_text(&file).map_err(|e| LoadError::File(file.clone(), e))?;
    let shown = file.display().to_string();
    let plan = read::read(&text).map_err(|problems| LoadError::Wrong(shown.clone(), problems))?;
    for warning in &plan.warnings {
        say(&format!("warning: {shown}: {warning}"));
    }
    let sources = Sources { include_dirs: args.include.clone() };
    let mut files = Files::of(&file, sources.clone());
    let starts = files.starts(&plan, args.program.as_deref())?;
    let tasks = files.tasks(&plan)?;
    for notice in checks::notices(&plan, &starts) {
        say(&format!("warning: {shown}: {notice}"));
    }
    let texts = Texts { sources, p4_for_json: None };
    if args.check {
        fill::check(&plan, starts, &texts)?;
        return Ok(ExitCode::SUCCESS);
    }
    let privileges = ensure_privileges()?;
    raise_open_file_limit().map_err(|e| format!("cannot raise the limit of open files: {e}"))?;
    let options = Options {
        title: shown,
        pcap: args.pcap.clone().or(plan.captures.then(|| "pcaps".into())),
        log: args.log.clone().or(plan.logs.then(|| "logs".into())),
        texts,
    };
    let files = database::files(&plan, &starts)?;
    let network = Arc::new(Network::start(plan, starts, &options)?);
    for warning in files.iter().filter_map(|file| database::write(file).err()) {
        say(&format!("warning: {warning}"));
    }
    for warning in &network.wiring.warnings {
        say(&format!("warning: {warning}"));
    }
    if privileges == Privileges::UserNamespace {
        say(
            "the P4Runtime servers are reached inside of the network only: run controllers with `pointsman net exec c0`, or run \
             this as root",
        );
    }
    attend(&network, tasks, &args)
}

/// Serves the prompt until it ends or a signal comes.
fn attend(network: &Arc<Network>, tasks: Vec<Task>, args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let interactive = std::io::stdin().is_terminal();
    let (tell, ended) = mpsc::channel();
    let prompt = (!args.no_prompt).then(|| (network.clone(), tell.clone()));
    network.on_signals(interactive && prompt.is_some(), tell)?;
    for warning in network.run_commands().into_iter().chain(network.run_scripts()) {
        say(&format!("warning: {warning}"));
    }
    let schedule = Schedule::start(network.clone(), tasks)?;
    network.tokio().spawn(storm::warn(network.clone()));
    pointsman_console::show(&dump(network));
    say("the network runs");
    if let Some((network, tell)) = prompt {
        let serve = move || {
            let good = Session::new(&network, interactive).run();
            let _ = tell.send(good);
        };
        std::thread::Builder::new().name("prompt".into()).spawn(serve)?;
    }
    let good = ended.recv()?;
    for failed in network.end_scripts().into_iter().chain(schedule.end()) {
        say(&format!("warning: {failed}"));
    }
    network.stop();
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Network {
    /// Sends true to `tell` at SIGTERM, SIGHUP, and at SIGINT unless a person has the prompt: there it is for the command that runs.
    fn on_signals(&self, prompt: bool, tell: mpsc::Sender<bool>) -> Result<(), Box<dyn Error>> {
        let _inside = self.tokio().enter();
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        self.tokio().spawn(async move {
            loop {
                tokio::select! {
                    _ = terminate.recv() => break,
                    _ = hangup.recv() => break,
                    _ = interrupt.recv() => if !prompt { break },
                }
            }
            let _ = tell.send(true);
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_not_taken_for_a_folder() {
        let topology = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/net/pair.json");
        for file in [topology, "none.json", "none.p4"] {
            assert!(folder(file).is_err_and(|why| why.to_string().contains("=DIR")), "{file}");
        }
        assert_eq!(folder("logs"), Ok("logs".into()));
    }
}
