//! Real `pointsman` processes for tests.
#![allow(dead_code)]

pub mod captures;
pub mod certificates;
pub mod controller;
pub mod etcd;
pub mod many;
pub mod programs;
pub mod python;
pub mod store;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pointsman_node::http::client::{Ask, ask};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up on it. Generous, because test machines are busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file of the workspace.
pub fn file(path: &str) -> String {
    root().join(path).display().to_string()
}

/// The binary with these arguments.
pub fn pointsman(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pointsman"));
    command.args(args).stdin(Stdio::null());
    command
}

/// Exit status and output of a process.
#[derive(Debug)]
pub struct Finished {
    /// `None`: killed by a signal.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Runs a command to its end, which must come within [`PATIENCE`].
pub fn finish(mut command: Command) -> Finished {
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
    let out = Collector::of(child.stdout.take().expect("piped"));
    let err = Collector::of(child.stderr.take().expect("piped"));
    let code = wait(&mut child, &format!("{command:?}"));
    Finished { code, stdout: out.all(), stderr: err.all() }
}

/// The status and the text of what a server gives at a URL.
pub fn get(url: &str) -> (u16, String) {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let asked = Ask { method: "GET", url, ..Ask::default() };
    let (status, body) = tokio.block_on(ask(asked, PATIENCE)).expect("an answer");
    (status, String::from_utf8(body).expect("text"))
}

/// Runs the binary to its end.
pub fn run(args: &[&str]) -> Finished {
    finish(pointsman(args))
}

fn wait(child: &mut Child, what: &str) -> Option<i32> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return status.code();
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{what} did not end within {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The lines of a pipe, gathered by a thread.
#[derive(Clone)]
struct Collector(Arc<(Mutex<Gathered>, Condvar)>);

#[derive(Default)]
struct Gathered {
    lines: Vec<String>,
    ended: bool,
}

impl Collector {
    fn of(pipe: impl std::io::Read + Send + 'static) -> Self {
        let this = Collector(Arc::default());
        let shared = this.clone();
        std::thread::spawn(move || {
            let (state, news) = &*shared.0;
            for line in BufReader::new(pipe).split(b'\n') {
                let Ok(line) = line else { break };
                state.lock().unwrap().lines.push(String::from_utf8_lossy(&line).into_owned());
                news.notify_all();
            }
            state.lock().unwrap().ended = true;
            news.notify_all();
        });
        this
    }

    /// Waits until `found` gives something.
    fn wait_for<T>(&self, what: &str, mut found: impl FnMut(&[String]) -> Option<T>) -> T {
        let (state, news) = &*self.0;
        let deadline = Instant::now() + PATIENCE;
        let mut gathered = state.lock().unwrap();
        loop {
            if let Some(t) = found(&gathered.lines) {
                return t;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if gathered.ended || left.is_zero() {
                let text = gathered.lines.join("\n");
                // The thread that gathers lines must not find a poisoned lock.
                drop(gathered);
                panic!("no {what} in:\n{text}");
            }
            gathered = news.wait_timeout(gathered, left).unwrap().0;
        }
    }

    fn all(&self) -> String {
        let (state, news) = &*self.0;
        let mut gathered = state.lock().unwrap();
        while !gathered.ended {
            gathered = news.wait(gathered).unwrap();
        }
        gathered.lines.iter().map(|l| format!("{l}\n")).collect()
    }
}

/// A running `pointsman switch`. Dropping it kills it.
pub struct Switch {
    child: Child,
    stderr: Collector,
    /// Its P4Runtime address.
    pub address: SocketAddr,
}

impl Switch {
    /// Starts one with these arguments, in the calling thread's network namespace, on a free port of the loopback
    /// interface, and waits until it serves.
    pub fn start(args: &[&str]) -> Switch {
        Self::start_at("127.0.0.1:0", args)
    }

    /// The same, somewhere else.
    pub fn start_at(p4runtime: &str, args: &[&str]) -> Switch {
        let mut command = pointsman(&["switch", "--p4runtime", p4runtime]);
        let mut child = command
            .args(args)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the switch starts");
        let stderr = Collector::of(child.stderr.take().expect("piped"));
        let address = stderr.wait_for("address of the P4Runtime server", |lines| {
            let line = lines.iter().find_map(|l| l.strip_prefix("pointsman: P4Runtime on "))?;
            line.split(',').next()?.parse().ok()
        });
        Switch { child, stderr, address }
    }

    /// Waits for a line that contains `text`.
    pub fn wait_for(&self, text: &str) -> String {
        self.stderr.wait_for(text, |lines| lines.iter().find(|l| l.contains(text)).cloned())
    }

    /// The lines so far that contain `text`.
    pub fn lines(&self, text: &str) -> Vec<String> {
        self.stderr.0.0.lock().unwrap().lines.iter().filter(|l| l.contains(text)).cloned().collect()
    }

    /// A figure of its memory in MiB, as /proc names it: `VmRSS`, `VmHWM`.
    pub fn memory(&self, figure: &str) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|l| l.strip_prefix(figure)?.strip_prefix(':'));
        let kib = line.and_then(|l| l.trim().strip_suffix(" kB")?.parse::<f64>().ok());
        kib.expect("/proc has this figure") / 1024.0
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Sends a signal and waits for the end.
    pub fn stop(mut self, signal: Signal) -> Finished {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("the switch runs");
        let code = wait(&mut self.child, "the switch");
        Finished { code, stdout: String::new(), stderr: self.stderr.all() }
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Any running `pointsman`. Dropping it kills it.
pub struct Running {
    child: Child,
    stderr: Collector,
}

impl Running {
    /// Starts it with these arguments.
    pub fn start(args: &[&str]) -> Running {
        Running::of(pointsman(args))
    }

    /// Starts this command.
    pub fn of(mut command: Command) -> Running {
        let mut child =
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        let stderr = Collector::of(child.stderr.take().expect("piped"));
        Running { child, stderr }
    }

    /// Waits for a line that contains `text`.
    pub fn wait_for(&self, text: &str) -> String {
        self.wait_for_line(text, |l| l.contains(text))
    }

    /// Waits for a line that is `what`.
    pub fn wait_for_line(&self, what: &str, found: impl Fn(&str) -> bool) -> String {
        self.stderr.wait_for(what, |lines| lines.iter().find(|l| found(l)).cloned())
    }

    /// The lines so far that contain `text`.
    pub fn lines(&self, text: &str) -> Vec<String> {
        self.stderr.0.0.lock().unwrap().lines.iter().filter(|l| l.contains(text)).cloned().collect()
    }

    /// How many lines so far contain `text`.
    pub fn count(&self, text: &str) -> usize {
        self.lines(text).len()
    }

    /// Whether a line so far contains `text`.
    pub fn has(&self, text: &str) -> bool {
        self.count(text) > 0
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Sends a signal, waits for the end and returns the output.
    pub fn end(mut self, signal: Signal) -> Finished {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("it runs");
        let code = wait(&mut self.child, "the command");
        Finished { code, stdout: String::new(), stderr: self.stderr.all() }
    }

    /// Ends it at once.
    pub fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        self.stop();
    }
}

/// Prints a line that is visible even if the test passes: the harness captures `println`.
pub fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// A directory for one test, removed at the end.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("the target directory is writable");
        Scratch(path)
    }

    /// Writes a file and returns its path.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, content).expect("the target directory is writable");
        path.display().to_string()
    }

    /// The path of something in it.
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Asserts that no panic leaks into the output.
pub fn assert_no_panic(finished: &Finished) {
    for bad in ["panicked", "RUST_BACKTRACE", "unwrap()", "Err("] {
        assert!(!finished.stderr.contains(bad), "{bad} in:\n{}", finished.stderr);
    }
}
