//! Values that packets change, and that several workers may share.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A value that one worker uses without a lock, and several with one. Locks are held for single calls and never nested.
#[derive(Debug, Default)]
pub(crate) struct Guarded<T>(Mutex<T>);

impl<T> Guarded<T> {
    pub fn new(value: T) -> Self {
        Guarded(Mutex::new(value))
    }

    /// For whoever has it alone.
    #[inline]
    pub fn alone(&mut self) -> &mut T {
        // A panic elsewhere does not make the value worse: every change is a single call.
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// For whoever shares it.
    pub fn shared(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> Clone for Guarded<T> {
    fn clone(&self) -> Self {
        Guarded::new(self.shared().clone())
    }
}
