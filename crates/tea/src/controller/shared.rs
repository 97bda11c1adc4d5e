//! What the threads of a run share.

use crate::checker::Checker;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What the controller and the load share.
pub struct Shared {
    /// What is compared.
    pub checker: Mutex<Checker>,
    /// Packets may be sent.
    pub ready: AtomicBool,
    /// Entries no longer change.
    pub quiet: AtomicBool,
    /// Ordinary packets fill the link to the first memory server.
    pub fill_link: AtomicBool,
    /// Only one packet is under way at a time.
    pub alone: AtomicBool,
    /// A queue pair shall end.
    pub break_pair: AtomicBool,
    /// The table shall move.
    pub move_table: AtomicBool,
    /// The end.
    pub stop: AtomicBool,
    /// The zero of all times.
    pub start: Instant,
}

impl Shared {
    /// Nothing is asked for yet, and time begins now.
    pub fn new(checker: Checker) -> Self {
        Shared {
            checker: Mutex::new(checker),
            ready: AtomicBool::new(false),
            quiet: AtomicBool::new(false),
            fill_link: AtomicBool::new(false),
            alone: AtomicBool::new(false),
            break_pair: AtomicBool::new(false),
            move_table: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            start: Instant::now(),
        }
    }

    /// The checker, locked.
    pub fn checker(&self) -> MutexGuard<'_, Checker> {
        self.checker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nanoseconds since the start.
    pub fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}
