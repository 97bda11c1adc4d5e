//! The bare forwarder: ports without processing in between.

use super::bed::PortKind;
use pointsman_lab::Namespace;
use pointsman_ports::{PollMode, PortError, forward};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

/// Takes frames from each of two ports to the other. Dropping it ends it.
pub struct Forwarder {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), PortError>>>,
}

impl Forwarder {
    /// Starts it on two interfaces of a namespace.
    pub fn start(namespace: &Namespace, interfaces: [&str; 2], kind: PortKind) -> Result<Self, String> {
        let text = |e: pointsman_lab::Error| e.to_string();
        let open = || Ok::<_, PortError>([kind.open(interfaces[0])?, kind.open(interfaces[1])?]);
        let mut ports = namespace.enter(open).map_err(text)?.map_err(|e| e.to_string())?;
        let stop = Arc::<AtomicBool>::default();
        let stopped = stop.clone();
        let run = move || forward(&mut ports, PollMode::Adaptive, &stopped);
        let thread = namespace.spawn("bare forwarder", run).map_err(text)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // Errors there show in the received frames.
            let _ = thread.join();
        }
    }
}
