//! Signals that end a command or make it read its file again.

use std::future::Future;
use tokio::signal::unix::{SignalKind, signal};

/// Catches SIGINT and SIGTERM from now on; what it returns is ready when one has come. Needs a tokio runtime.
pub fn stop() -> impl Future<Output = ()> + Send + 'static {
    let caught = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    async move {
        let (Ok(mut int), Ok(mut term)) = caught else {
            // Without handlers the default action ends the process, which is what was wanted.
            return std::future::pending().await;
        };
        tokio::select! {
            _ = int.recv() => {}
            _ = term.recv() => {}
        }
    }
}

/// Returns at SIGINT or SIGTERM.
pub async fn wait_for_stop() {
    stop().await;
}
