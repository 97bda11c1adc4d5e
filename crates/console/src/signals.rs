//! Signals that stop a command or make it reload its file.

use crate::show;
use std::future::Future;
use tokio::signal::unix::{Signal, SignalKind, signal};

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
pub fn hangup() -> Result<Signal, String> {
    signal(SignalKind::hangup()).map_err(|e| format!("cannot catch SIGHUP: {e}"))
}

/// Catches SIGUSR1 from now on, which would end the process. Needs a tokio runtime.
///
/// # Errors
/// The kernel does not let it.
pub fn user() -> Result<Signal, String> {
    signal(SignalKind::user_defined1()).map_err(|e| format!("cannot catch SIGUSR1: {e}"))
}

/// Returns at SIGINT or SIGTERM.
pub async fn wait_for_stop() {
    stop().await;
}

/// Ends the process at SIGINT or SIGTERM. `first` removes the resources that outlive the process (namespaces, and
/// programs that were started in them, end with it).
pub fn end_process(first: impl FnOnce() + Send + 'static) -> Result<(), String> {
    let text = |e: std::io::Error| format!("cannot wait for signals: {e}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(text)?;
    let wait = move || {
        runtime.block_on(wait_for_stop());
        first();
        show("\npointsman: interrupted; nothing was written\n");
        // A shell's exit status for SIGINT.
        std::process::exit(130);
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait).map(drop).map_err(text)
}
