//! The bare forwarder: ports without processing in between.

use super::WireError;
use pointsman_lab::Namespace;
use pointsman_ports::{PollMode, PortError, Want, forward, open_interface};
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
    ///
    /// # Errors
    /// An interface cannot be a port.
    pub fn start(namespace: &Namespace, interfaces: [&str; 2], kind: Want) -> Result<Self, WireError> {
        let port = |interface| open_interface(interface, kind).map(|(port, _)| port);
        let open = || Ok::<_, PortError>([port(interfaces[0])?, port(interfaces[1])?]);
        let mut ports = namespace.enter(open)??;
        let stop = Arc::<AtomicBool>::default();
        let stopped = stop.clone();
        let run = move || forward(&mut ports, PollMode::Adaptive, &stopped);
        let thread = namespace.spawn("bare forwarder", run)?;
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
