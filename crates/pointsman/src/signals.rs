//! Signals that end a command or make it read its file again.

use tokio::signal::unix::{SignalKind, signal};

/// Returns at SIGINT or SIGTERM.
pub async fn wait_for_stop() {
    let (Ok(mut int), Ok(mut term)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        // Without handlers the default action ends the process, which is what was wanted.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = int.recv() => {}
        _ = term.recv() => {}
    }
}
