//! Locks that a panic does not poison.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The data under a lock, whatever became of a thread that held it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
