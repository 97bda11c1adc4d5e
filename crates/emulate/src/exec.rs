//! `pointsman net exec`: a command in a node of a network that runs in another terminal.

use pointsman_lab::announce::{Announced, announced};
use std::ffi::OsString;
use std::fmt;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Reasons why a node is not found.
#[derive(Debug)]
pub enum ExecError {
    /// No network runs, as far as this user sees.
    NoNetwork,
    /// No network has the node.
    NoNode(String, Vec<Announced>),
    /// Several have it.
    Several(String, Vec<Announced>),
    /// No network runs in this process.
    NoProcess(u32, Vec<Announced>),
    /// It cannot be entered.
    Lab(pointsman_lab::Error),
    /// The command cannot be started.
    Start(OsString, std::io::Error),
}

impl fmt::Display for ExecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |all: &[Announced]| {
            let one = |n: &Announced| {
                format!("process {} ({}) has {}", n.process, n.title, n.names().collect::<Vec<_>>().join(" "))
            };
            all.iter().map(one).collect::<Vec<_>>().join("; ")
        };
        match self {
            ExecError::NoNetwork => {
                f.write_str("no network of this user runs here: start one with `pointsman net FILE`")
            }
            ExecError::NoNode(name, all) => write!(f, "no network has the node `{name}`: {}", list(all)),
            ExecError::Several(name, all) => {
                write!(f, "several networks have the node `{name}`: choose one with --pid: {}", list(all))
            }
            ExecError::NoProcess(process, all) => {
                write!(f, "no network runs in process {process}: {}", list(all))
            }
            ExecError::Lab(e) => e.fmt(f),
            ExecError::Start(program, e) => write!(f, "cannot start {}: {e}", program.display()),
        }
    }
}

impl std::error::Error for ExecError {}

/// Becomes the command in the node. Returns only if that fails.
pub fn exec(node: &str, process: Option<u32>, words: &[OsString]) -> ExecError {
    let network = match choose(announced(), node, process) {
        Ok(network) => network,
        Err(e) => return e,
    };
    if let Err(e) = network.enter(node) {
        return ExecError::Lab(e);
    }
    let shell = || vec![std::env::var_os("SHELL").unwrap_or_else(|| "sh".into())];
    let words = if words.is_empty() { shell() } else { words.to_vec() };
    let error = Command::new(&words[0]).args(&words[1..]).env("POINTSMAN_NODE", node).exec();
    ExecError::Start(words[0].clone(), error)
}

/// The network that is meant.
fn choose(all: Vec<Announced>, node: &str, process: Option<u32>) -> Result<Announced, ExecError> {
    if all.is_empty() {
        return Err(ExecError::NoNetwork);
    }
    let of_process = |n: &&Announced| process.is_none_or(|p| p == n.process);
    let has = |n: &&Announced| n.names().any(|name| name == node);
    if let (Some(process), None) = (process, all.iter().find(of_process)) {
        return Err(ExecError::NoProcess(process, all));
    }
    let found: Vec<Announced> = all.iter().filter(of_process).filter(has).cloned().collect();
    match found.len() {
        0 => Err(ExecError::NoNode(node.to_string(), all)),
        1 => Ok(found.into_iter().next().unwrap_or_else(|| unreachable!("it has one"))),
        _ => Err(ExecError::Several(node.to_string(), found)),
    }
}
