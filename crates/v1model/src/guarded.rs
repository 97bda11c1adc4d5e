//! Values that packets change, and that several workers may share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A value that one worker uses without a lock, and several with one. Locks are held for single calls and never nested.
#[derive(Debug, Default)]
pub(crate) struct Guarded<T>(Mutex<T>);

impl<T> Guarded<T> {
    pub fn new(value: T) -> Self {
        Guarded(Mutex::new(value))
    }

    /// For exclusive access.
    #[inline]
    pub fn alone(&mut self) -> &mut T {
        // A panic elsewhere does not make the value worse: every change is a single call.
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// For shared access.
    pub fn shared(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> Clone for Guarded<T> {
    fn clone(&self) -> Self {
        Guarded::new(self.shared().clone())
    }
}

/// A lock that is held by a value without borrowing it. Waiting threads spin first, since it is held only briefly.
#[derive(Debug, Default)]
pub(crate) struct Turn(AtomicBool);

/// While it lives, it holds its [`Turn`] exclusively.
#[derive(Debug)]
pub(crate) struct Held(Arc<Turn>);

impl Turn {
    /// Waits for the turn.
    pub fn take(turn: &Arc<Turn>) -> Held {
        let mut tries = 0;
        while turn.0.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            tries += 1;
            match tries % SPINS {
                // Whoever has it may wait for this processor.
                0 => std::thread::yield_now(),
                _ => std::hint::spin_loop(),
            }
        }
        Held(turn.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Release);
    }
}

/// Tries before others are let run.
const SPINS: u32 = 200;
