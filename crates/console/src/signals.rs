//! Signals that stop a command or make it reload its file.

use crate::show;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What cannot be done about signals, and why.
#[derive(Debug)]
pub struct SignalError(pub &'static str, pub io::Error);

impl fmt::Display for SignalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}", self.0, self.1)
    }
}

impl Error for SignalError {}

/// Catches SIGINT and SIGTERM from now on; the returned future is ready at the first one. Needs a tokio runtime.
pub fn stop() -> impl Future<Output = ()> + Send + 'static {
    let caught = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    async move {
        let (Ok(mut int), Ok(mut term)) = caught else {
            // Without handlers the default action ends the process, as intended.
            return std::future::pending().await;
        };
        tokio::select! {
            _ = int.recv() => {}
            _ = term.recv() => {}
        }
    }
}

/// Catches SIGHUP from now on, which would end the process. Needs a tokio runtime.
///
/// # Errors
/// The kernel does not let it.
pub fn hangup() -> Result<Signal, SignalError> {
    signal(SignalKind::hangup()).map_err(|e| SignalError("catch SIGHUP", e))
}

/// Catches SIGUSR1 from now on, which would end the process. Needs a tokio runtime.
///
/// # Errors
/// The kernel does not let it.
pub fn user() -> Result<Signal, SignalError> {
    signal(SignalKind::user_defined1()).map_err(|e| SignalError("catch SIGUSR1", e))
}

/// Returns at SIGINT or SIGTERM.
pub async fn wait_for_stop() {
    stop().await;
}

/// Ends the process at SIGINT or SIGTERM. `first` removes the resources that outlive the process (namespaces, and
/// programs that were started in them, end with it).
///
/// # Errors
/// No thread can be started for it.
pub fn end_process(first: impl FnOnce() + Send + 'static) -> Result<(), SignalError> {
    let failed = |e| SignalError("wait for signals", e);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let stopped = {
        // Here, not in the thread: a signal that comes before it runs is caught, too.
        let _entered = runtime.enter();
        stop()
    };
    let wait = move || {
        runtime.block_on(stopped);
        first();
        show("\npointsman: interrupted\n");
        // A shell's exit status for SIGINT.
        std::process::exit(130);
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait).map(drop).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, id};

    /// What a command has written before, and keeps, is not known here: the message says nothing about it.
    #[test]
    fn an_interruption_says_no_more() {
        const CHILD: &str = "POINTSMAN_TEST_INTERRUPTED";
        if std::env::var_os(CHILD).is_some() {
            end_process(|| {}).expect("a thread");
            Command::new("kill").args(["-s", "INT", &id().to_string()]).status().expect("kill");
            std::thread::sleep(std::time::Duration::from_secs(60));
        }
        let name = "signals::tests::an_interruption_says_no_more";
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        let output =
            command.args(["--exact", name, "--nocapture"]).env(CHILD, "1").output().expect("it runs");
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "\npointsman: interrupted\n");
    }
}
