//! A process of the rack with a supervisor: it is started again when it ends.

use pointsman_lab::process::Process;
use pointsman_lab::{Namespace, Result};
use std::time::{Duration, Instant};

/// How long after its end a process is started again.
const RESTART: Duration = Duration::from_millis(200);

/// A process of the rack. It ends with the thread that started it.
pub struct Child {
    /// Its name in results: `switch`, `agent s1/cpu`.
    pub name: String,
    namespace: Namespace,
    program: String,
    arguments: Vec<String>,
    process: Process,
    /// When it is started again, once it has ended.
    due: Option<Instant>,
    /// The siege ended it.
    killed: bool,
    /// It stays away.
    held: bool,
    /// Bytes that earlier processes of this name wrote.
    written: u64,
    /// Unexpected exits, with the last output.
    pub deaths: Vec<String>,
}

impl Child {
    /// Starts a program in a namespace.
    pub fn start(
        name: impl Into<String>,
        namespace: &Namespace,
        program: &str,
        arguments: Vec<String>,
    ) -> Result<Self> {
        let process = spawn(namespace, program, &arguments)?;
        Ok(Self {
            name: name.into(),
            namespace: namespace.clone(),
            program: program.to_owned(),
            arguments,
            process,
            due: None,
            killed: false,
            held: false,
            written: 0,
            deaths: Vec::new(),
        })
    }

    /// Sends a signal; `SIGKILL` counts as our doing.
    pub fn signal(&mut self, signal: i32) -> Result<()> {
        self.killed |= signal == libc::SIGKILL;
        self.process.signal(signal)
    }

    /// Keeps the process away once it has ended, or no longer.
    pub fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// Starts it again if it has ended long enough ago.
    pub fn supervise(&mut self, now: Instant) -> Result<()> {
        let Some(status) = self.process.ended() else { return Ok(()) };
        let due = *self.due.get_or_insert_with(|| {
            if !self.killed {
                self.deaths.push(format!("{} ended ({status}): {}", self.name, self.process.said()));
            }
            now + RESTART
        });
        if self.held || now < due {
            return Ok(());
        }
        self.written += self.process.output_bytes();
        self.process = spawn(&self.namespace, &self.program, &self.arguments)?;
        (self.due, self.killed) = (None, false);
        Ok(())
    }

    /// Bytes in its log so far.
    pub fn log_bytes(&self) -> u64 {
        // The output of a process that has been replaced is in `written`.
        self.written + self.process.output_bytes()
    }

    /// Memory in use, bytes. `None` while it does not run.
    pub fn memory(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.number())).ok()?;
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
        Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1024)
    }

    /// Whether it runs.
    pub fn runs(&mut self) -> bool {
        self.process.ended().is_none()
    }

    /// The last part of its output.
    pub fn said(&self) -> String {
        self.process.said()
    }
}

fn spawn(namespace: &Namespace, program: &str, arguments: &[String]) -> Result<Process> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Process::start(namespace, program, &arguments, "")
}
