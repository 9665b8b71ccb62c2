//! Locking state that panics do not spoil.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks state that stays whole even if a holder panicked: every change is one assignment or one push.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
