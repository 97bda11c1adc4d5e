//! Programs of other people, run inside a namespace and never longer than this process.

use crate::cgroup::CpuGroup;
use crate::error::{Error, Result};
use crate::netns::Namespace;
use crate::sys;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A running program. Dropping it kills it.
///
/// It is also killed when the thread that started it ends, however that comes about (SIGKILL included): so start it on
/// the main thread, or on one that lives as long as the program shall.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    output: File,
    /// Its quota. Fields are dropped after the program has ended.
    group: Option<CpuGroup>,
}

/// A command that runs `program` in `namespace`. The program is killed when the thread that starts it ends, however that comes
/// about.
#[allow(unsafe_code)]
pub fn command(namespace: &Namespace, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    let (namespace, parent) = (namespace.clone(), std::process::id());
    // SAFETY: between fork and exec only system calls are made, and nothing is allocated; the descriptor is open as long as the
    // command, which owns it.
    unsafe { command.pre_exec(move || sys::confine_child(namespace.as_fd().as_raw_fd(), parent)) };
    command
}

impl Process {
    /// Starts `program` in `namespace`. Its standard input is a file that holds `input`, which it can also open as
    /// `/dev/stdin`; its standard output and standard error are kept for messages.
    pub fn start(namespace: &Namespace, program: &str, arguments: &[&str], input: &str) -> Result<Self> {
        let failed = |what: &str| {
            let what = format!("cannot {what} {program}");
            move |e| Error::os(what, e)
        };
        let mut file: File = sys::memory_file(c"pointsman").map_err(failed("make a file for"))?.into();
        file.write_all(input.as_bytes())
            .and_then(|()| file.seek(SeekFrom::Start(0)).map(drop))
            .map_err(failed("write the configuration of"))?;
        let output: File = sys::memory_file(c"pointsman").map_err(failed("make a file for"))?.into();
        let copies = || Ok((Stdio::from(output.try_clone()?), Stdio::from(output.try_clone()?)));
        let (stdout, stderr) = copies().map_err(failed("make a file for"))?;
        let mut command = command(namespace, program);
        command.args(arguments).stdin(Stdio::from(file)).stdout(stdout).stderr(stderr).process_group(0);
        let child = command.spawn().map_err(failed("start"))?;
        Ok(Self { name: program.to_owned(), child, output, group: None })
    }

    /// The process id.
    pub fn number(&self) -> u32 {
        self.child.id()
    }

    /// From now on it may use this part of a processor, or so many of them: a cgroup quota for its first thread, so for all of a program that has one. Needs
    /// root, and cgroups that may be written.
    pub fn limit(&mut self, cores: f64) -> Result<()> {
        let group = CpuGroup::create(&format!("process-{}", self.number()), cores)?;
        group.add_thread(self.number() as libc::pid_t)?;
        self.group = Some(group);
        Ok(())
    }

    /// Sends it a signal (`libc::SIGSTOP` and the like). One that has ended takes none.
    pub fn signal(&mut self, signal: i32) -> Result<()> {
        if self.ended().is_some() {
            return Ok(());
        }
        let failed = |e| Error::os(format!("cannot send signal {signal} to {}", self.name), e);
        sys::signal(self.child.id(), signal).map_err(failed)
    }

    /// Asks it and the programs that it started to end (SIGTERM). One that has ended takes no signal.
    pub fn ask_to_end(&mut self) {
        if self.ended().is_none() {
            // It may end meanwhile.
            let _ = sys::signal_group(self.child.id(), libc::SIGTERM);
        }
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Bytes that it wrote to standard output and standard error.
    pub fn output_bytes(&self) -> u64 {
        self.output.metadata().map_or(0, |m| m.len())
    }

    /// Waits until `ready` returns true. If the program ends before, its output is the error.
    pub fn wait_until(&mut self, patience: Duration, mut ready: impl FnMut() -> Result<bool>) -> Result<()> {
        let end = Instant::now() + patience;
        while !ready()? {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(Error::new(format!("{} ended ({status}): {}", self.name, self.said())));
            }
            if Instant::now() > end {
                let patience = patience.as_secs_f64();
                return Err(Error::new(format!(
                    "{} is not ready after {patience} s: {}",
                    self.name,
                    self.said()
                )));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Waits for its end, and kills it when `patience` has elapsed; if it fails, its output is the error.
    pub fn finish(mut self, patience: Duration) -> Result<String> {
        let end = Instant::now() + patience;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(self.said()),
                Ok(Some(status)) => {
                    return Err(Error::new(format!("{} failed ({status}): {}", self.name, self.said())));
                }
                Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(2)),
                Ok(None) => return Err(Error::new(format!("{} does not end", self.name))),
                Err(e) => return Err(Error::os(format!("cannot wait for {}", self.name), e)),
            }
        }
    }

    /// The last part of its output.
    fn output(&self) -> String {
        // Messages are all that it is for. The program writes to the same open file: its place must not be moved.
        let mut text = vec![0; 64 * 1024];
        let start = self.output_bytes().saturating_sub(text.len() as u64);
        let length = self.output.read_at(&mut text, start).unwrap_or(0);
        String::from_utf8_lossy(&text[..length]).into_owned()
    }

    /// Whether these words are in its output.
    pub fn has_said(&self, words: &str) -> bool {
        self.output().contains(words)
    }

    /// How many lines of its latest output have these words.
    pub fn lines_with(&self, words: &str) -> usize {
        self.output().lines().filter(|l| l.contains(words)).count()
    }

    /// The first line of its latest output with these words.
    pub fn line_with(&self, words: &str) -> Option<String> {
        self.output().lines().find(|l| l.contains(words)).map(String::from)
    }

    /// The last line of its output with these words.
    pub fn last_line_with(&self, words: &str) -> Option<String> {
        self.output().lines().rev().find(|l| l.contains(words)).map(String::from)
    }

    /// Waits until these words are in its output. If the program ends before, its output is the error.
    pub fn wait_until_said(&mut self, words: &str, patience: Duration) -> Result<()> {
        self.wait_until_said_again(words, 0, patience)
    }

    /// The same, until more than so many lines have them.
    pub fn wait_until_said_again(&mut self, words: &str, times: usize, patience: Duration) -> Result<()> {
        let end = Instant::now() + patience;
        while self.lines_with(words) <= times {
            if let Some(status) = self.ended() {
                return Err(Error::new(format!("{} ended ({status}): {}", self.name, self.said())));
            }
            if Instant::now() > end {
                return Err(Error::new(format!(
                    "{} is not ready after {patience:?}: {}",
                    self.name,
                    self.said()
                )));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// The last lines of its output, on one line.
    pub fn said(&self) -> String {
        let text = self.output();
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(5)..];
        if last.is_empty() { "no output".to_owned() } else { last.join(" | ") }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has been waited for has given its number back.
        if let Ok(None) = self.child.try_wait() {
            // Its own process group: helpers that it started go with it.
            sys::kill_group(self.child.id());
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Whether a program of this name is installed: looked for in PATH and where Debian keeps programs of administrators,
/// which an ordinary user's PATH lacks.
pub fn installed(program: &str) -> Option<String> {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').chain(["/usr/sbin", "/sbin", "/usr/local/sbin"]).find_map(|dir| {
        let file = format!("{dir}/{program}");
        std::fs::metadata(&file).is_ok_and(|m| m.is_file()).then_some(file)
    })
}
