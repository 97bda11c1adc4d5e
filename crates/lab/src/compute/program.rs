//! Requests whose work another program does, such as one that uses an accelerator: a process for each worker, by lines.
//!
//! A process writes `ready` when it can begin. Then it gets a line with a number for each request, and writes a line with the
//! result: an integer and, after a space, a score. The number is that of the query: equal numbers are equal queries. The process
//! ends at the end of its input. A request gets no answer if the process ends, or writes another line, instead: the
//! process is killed, and the next request starts another one.

use crate::error::{Error, Result};
use crate::sys;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a line at most: a program that writes more has not understood the question.
const LINE: u64 = 1024;

/// A running process.
struct Worker {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

#[derive(Default)]
struct State {
    idle: Vec<Worker>,
    /// Process groups that have not ended, idle or not.
    running: Vec<u32>,
    closed: bool,
}

/// A program as an application.
pub(super) struct Program {
    command: String,
    state: Mutex<State>,
}

fn invalid(what: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

impl Worker {
    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match (&mut self.output).take(LINE).read_line(&mut line)? {
            0 => Err(invalid("it ended".into())),
            _ => Ok(line.trim_end().into()),
        }
    }

    fn ready(&mut self) -> io::Result<()> {
        match self.line()?.as_str() {
            "ready" => Ok(()),
            other => Err(invalid(format!("it wrote {other:?} instead of `ready`"))),
        }
    }

    fn answer(&mut self, query: u64) -> io::Result<(u64, f64)> {
        self.input.write_all(format!("{query}\n").as_bytes())?;
        let line = self.line()?;
        let mut words = line.split(' ');
        let number = words.next().and_then(|w| w.parse().ok());
        let score = words.next().map_or(Some(0.0), |w| w.parse().ok());
        match (number, score, words.next()) {
            (Some(number), Some(score), None) => Ok((number, score)),
            _ => Err(invalid(format!("it answered {line:?}: an integer and a score were expected"))),
        }
    }
}

impl Program {
    /// Starts `workers` processes of a shell's `command`, and waits until all are ready.
    ///
    /// # Errors
    /// One cannot be started, or ends, or writes something else.
    pub fn start(command: &str, workers: usize) -> Result<Self> {
        let program = Program { command: command.into(), state: Mutex::default() };
        let failed = |e| Error::os(format!("`{command}`"), e);
        // All load their data at the same time.
        for _ in 0..workers {
            let worker = program.spawn().map_err(failed)?;
            program.lock().idle.push(worker);
        }
        program.lock().idle.iter_mut().try_for_each(Worker::ready).map_err(failed)?;
        Ok(program)
    }

    /// A worker that panicked leaves the state whole: every change of it is one statement.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spawn(&self) -> io::Result<Worker> {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(&self.command).process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut state = self.lock();
        if state.closed {
            return Err(invalid("the device has been stopped".into()));
        }
        let mut child = shell.spawn()?;
        state.running.push(child.id());
        match (child.stdin.take(), child.stdout.take()) {
            (Some(input), Some(output)) => Ok(Worker { child, input, output: BufReader::new(output) }),
            _ => Err(invalid("it has no pipes".into())),
        }
    }

    fn end(&self, mut worker: Worker) {
        let mut state = self.lock();
        let number = worker.child.id();
        state.running.retain(|n| *n != number);
        // One that has ended takes no signal.
        let _ = sys::signal_group(number, libc::SIGKILL);
        drop(state);
        let _ = worker.child.wait();
    }

    fn ask(&self, query: u64) -> io::Result<(u64, f64)> {
        let idle = self.lock().idle.pop();
        let mut worker = idle.map_or_else(|| self.spawn().map(|w| (w, true)), |w| Ok((w, false)))?;
        let begun = if worker.1 { worker.0.ready() } else { Ok(()) };
        let answer = begun.and_then(|()| worker.0.answer(query));
        match answer {
            Ok(_) => self.lock().idle.push(worker.0),
            Err(_) => self.end(worker.0),
        }
        answer
    }

    /// The program's answer to a query, unless it fails; then why is written to standard error.
    pub fn answer(&self, query: u64) -> Option<(u64, f64)> {
        let answer = self.ask(query);
        if let Err(e) = &answer
            && !self.lock().closed
        {
            eprintln!("`{}`, request {query}: {e}", self.command);
        }
        answer.ok()
    }

    /// Kills all processes, for good: requests in progress fail, and later ones.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        for number in &state.running {
            let _ = sys::signal_group(*number, libc::SIGKILL);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.close();
        let idle = std::mem::take(&mut self.lock().idle);
        idle.into_iter().for_each(|worker| self.end(worker));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds one to every number, and gives half of it as the score; answers 13 with words, and ends at 14.
    const ADDS: &str = "echo ready; while read n; do case $n in 13) echo no luck;; 14) exit;; *) echo $((n + 1)) 0.5;; esac; done";

    #[test]
    fn processes_answer_and_are_replaced() {
        let program = Program::start(ADDS, 2).expect("a shell");
        assert_eq!(program.lock().running.len(), 2);
        let answers: Vec<_> = [1, 13, 2, 14, 14, 14, 3].map(|q| program.answer(q)).to_vec();
        assert_eq!(answers, [Some((2, 0.5)), None, Some((3, 0.5)), None, None, None, Some((4, 0.5))]);
        let counts = |s: &State| (s.running.len(), s.idle.len());
        assert_eq!(counts(&program.lock()), (1, 1));
        program.close();
        assert_eq!((program.answer(1), program.answer(1)), (None, None));
    }

    #[test]
    fn a_process_that_does_not_answer_is_ended_from_another_thread() {
        let program = Program::start("echo ready; sleep 1000", 1).expect("a shell");
        std::thread::scope(|s| {
            let asks = s.spawn(|| program.answer(1));
            while !program.lock().idle.is_empty() {
                std::thread::yield_now();
            }
            program.close();
            assert_eq!(asks.join().expect("no panic"), None);
        });
    }

    #[test]
    fn programs_that_do_not_start_are_errors() {
        let error = |command| Program::start(command, 1).map(drop).expect_err("refused").to_string();
        assert!(error("echo hello").contains("\"hello\" instead of `ready`"), "{}", error("echo hello"));
        assert!(error("exit 3").contains("`exit 3`: it ended"), "{}", error("exit 3"));
        assert!(error("yes ready | tr -d '\\n'").contains("instead of"), "a line without an end");
    }
}
