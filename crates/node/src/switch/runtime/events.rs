//! What programs say in the log.

use super::Level;
use pointsman_v1model::{Event, EventKind};

/// The log line of an event.
pub(super) fn told(event: Event) -> (Level, String) {
    let level = match event.kind {
        EventKind::Log(_) => Level::Info,
        EventKind::AssertFailed(_) | EventKind::AssumeFailed(_) => Level::Warn,
    };
    (level, format!("[{:.6} s] {}", event.time.0 as f64 / 1e9, event.kind))
}
