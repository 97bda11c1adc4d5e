//! What programs have in common that serve others until a signal ends them: a runtime, the way to their end, secrets.

use pointsman_console::signals;
use pointsman_ports::{FaultConfig, Faulty, Port, PortError, Waker};
use pointsman_wire::Random;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fmt, io};
use tokio::runtime::Runtime;

/// Ends a running service.
#[derive(Clone)]
pub struct Stopper {
    stop: Arc<AtomicBool>,
    waker: Waker,
}

impl Stopper {
    /// For a service that waits with this waker's poller.
    pub(crate) fn new(waker: Waker) -> Self {
        Stopper { stop: Arc::default(), waker }
    }

    /// Ends it.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        // A service that has ended needs no waking.
        let _ = self.waker.wake();
    }

    /// Whether it is to end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The kernel refuses what a runtime needs.
#[derive(Debug)]
pub(crate) struct RuntimeError(io::Error);

impl fmt::Display for RuntimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot start: {}", self.0)
    }
}

impl std::error::Error for RuntimeError {}

/// A runtime for connections next to the service's own thread.
pub(crate) fn runtime() -> Result<Runtime, RuntimeError> {
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    built.map_err(RuntimeError)
}

/// Calls `end`, which ends the service, at SIGINT or SIGTERM.
pub(crate) fn stop_at_signals(tokio: &Runtime, end: impl FnOnce() + Send + 'static) {
    let stop = {
        let _inside = tokio.enter();
        signals::stop()
    };
    tokio.spawn(async move {
        stop.await;
        end();
    });
}

/// Reasons why a secret cannot be read.
#[derive(Debug)]
pub enum SecretError {
    /// The file cannot be read.
    Unreadable(PathBuf, io::Error),
    /// The file has something else.
    Foreign(PathBuf),
}

impl fmt::Display for SecretError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SecretError::Unreadable(path, e) => write!(f, "cannot read {}: {e}", path.display()),
            SecretError::Foreign(path) => {
                let path = path.display();
                write!(
                    f,
                    "{path} is not a key of 16 hexadecimal digits: make one with `openssl rand -hex 8 > {path}`"
                )
            }
        }
    }
}

impl std::error::Error for SecretError {}

/// Reads a key of digests: 16 hexadecimal digits.
///
/// # Errors
/// The file is unreadable, or contains no secret.
pub fn read_secret(path: &Path) -> Result<[u8; 8], SecretError> {
    let text = std::fs::read_to_string(path).map_err(|e| SecretError::Unreadable(path.to_path_buf(), e))?;
    let digits = text.trim();
    let fine = digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    let number = if fine { u64::from_str_radix(digits, 16).ok() } else { None };
    number.map(u64::to_be_bytes).ok_or_else(|| SecretError::Foreign(path.to_path_buf()))
}

/// A port behind a cable with these faults.
pub(crate) fn behind(cable: FaultConfig, port: Box<dyn Port>) -> Result<Box<dyn Port>, PortError> {
    let none = FaultConfig::default();
    if (cable.receive, cable.transmit) == (none.receive, none.transmit) {
        return Ok(port);
    }
    let mut random = Random::new(seed());
    Ok(Box::new(Faulty::new(port, cable, move || random.next_u64())?))
}

/// Random bits that others do not know.
pub(crate) fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
