//! Runs the tasks of a network at their times.

use crate::network::Network;
use crate::tasks::{Step, Task, steps};
use pointsman_lab::process::Process;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The thread that runs them. Tasks end with it.
pub(crate) struct Schedule {
    /// Dropped to end it.
    stop: Sender<()>,
    /// Returns what failed.
    thread: JoinHandle<Vec<String>>,
}

impl Schedule {
    /// Starts now.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(network: Arc<Network>, tasks: Vec<Task>) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let run = move || run(&network, &tasks, &stopped);
        Ok(Schedule { stop, thread: std::thread::Builder::new().name("tasks".into()).spawn(run)? })
    }

    /// Ends all tasks; what those said that have failed by themselves.
    pub(crate) fn end(self) -> Vec<String> {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
}

fn run(network: &Network, tasks: &[Task], stopped: &Receiver<()>) -> Vec<String> {
    let began = Instant::now();
    let (mut running, mut ending) = (BTreeMap::new(), BTreeMap::new());
    let mut failed = Vec::new();
    for (at, step) in steps(tasks) {
        if stopped.recv_timeout(at.saturating_sub(began.elapsed())) != Err(RecvTimeoutError::Timeout) {
            break;
        }
        match step {
            Step::Start(i) => match start(network, &tasks[i]) {
                Ok(process) => drop(running.insert(i, process)),
                Err(why) => failed.push(format!("tasks_file: line {}: {why}", tasks[i].line)),
            },
            Step::End(i) => {
                let Some(mut process) = running.remove(&i) else { continue };
                match process.ended() {
                    Some(_) => failed.extend(failure(&tasks[i], process)),
                    None => {
                        process.ask_to_end();
                        ending.insert(i, process);
                    }
                }
            }
            Step::Kill(i) => drop(ending.remove(&i)),
        }
    }
    // The others end with the network.
    if !tasks.is_empty() {
        let _ = stopped.recv();
    }
    let ended = running.into_iter().filter_map(|(i, mut process)| process.ended().map(|_| (i, process)));
    failed.extend(ended.filter_map(|(i, process)| failure(&tasks[i], process)));
    failed
}

/// Why a task does not start.
enum StartError {
    NoCommand,
    NoNode(String),
    Lab(pointsman_lab::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::NoCommand => f.write_str("no command"),
            StartError::NoNode(node) => write!(f, "no node is called {node}"),
            StartError::Lab(e) => e.fmt(f),
        }
    }
}

fn start(network: &Network, task: &Task) -> Result<Process, StartError> {
    let [program, arguments @ ..] = &task.words[..] else { return Err(StartError::NoCommand) };
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let namespace = network.namespace(&task.node).ok_or_else(|| StartError::NoNode(task.node.clone()))?;
    Process::start(namespace, program, &arguments, "").map_err(StartError::Lab)
}

/// What a task that has ended says, if it has failed.
fn failure(task: &Task, process: Process) -> Option<String> {
    let failed = process.finish(Duration::ZERO).err()?;
    Some(format!("tasks_file: line {}: {failed}", task.line))
}
