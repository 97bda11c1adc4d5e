//! What programs say in the log.

use super::Level;
use pointsman_v1model::{Event, EventKind};

/// The log line of an event.
pub(super) fn told(event: Event) -> (Level, String) {
    let (level, what) = match event.kind {
        EventKind::Log(message) => (Level::Info, message),
        EventKind::AssertFailed(place) => (Level::Warn, false_check("assert", place.as_deref())),
        EventKind::AssumeFailed(place) => (Level::Warn, false_check("assume", place.as_deref())),
    };
    (level, format!("[{:.6} s] {what}", event.time.0 as f64 / 1e9))
}

fn false_check(what: &str, place: Option<&str>) -> String {
    let at = place.map(|p| format!("{p}: ")).unwrap_or_default();
    format!("{at}an {what} was false; the packet was dropped")
}
