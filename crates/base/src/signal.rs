//! A value with a condition variable: threads wait until the value satisfies a condition.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::lock;

/// Time between two evaluations of the condition in [`Signal::poll`].
const LOOK: Duration = Duration::from_millis(50);

/// Value that threads can wait on: each change wakes them to evaluate their condition again.
#[derive(Default)]
pub struct Signal<T> {
    value: Mutex<T>,
    changed: Condvar,
}

impl<T> Signal<T> {
    /// Lock the value. A change through the guard wakes no waiting thread; use [`Signal::change`]
    /// for that.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        lock(&self.value)
    }

    /// Change the value and wake all waiting threads.
    pub fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        // The lock is released before the notification, so that woken threads do not find it held.
        let result = change(&mut self.lock());
        self.changed.notify_all();
        result
    }

    /// Wait until `ready` returns a value, and return it; `None` if `limit` passes first.
    pub fn wait_for<R>(
        &self,
        limit: Duration,
        mut ready: impl FnMut(&mut T) -> Option<R>,
    ) -> Option<R> {
        let mut result = None;
        let waits = |value: &mut T| {
            result = ready(value);
            result.is_none()
        };
        let waited = self.changed.wait_timeout_while(self.lock(), limit, waits);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        result
    }

    /// Wait until `ready` returns a value, and return it. `ready` is evaluated only at the start
    /// and after each change.
    pub fn wait<R>(&self, mut ready: impl FnMut(&mut T) -> Option<R>) -> R {
        loop {
            if let Some(result) = self.wait_for(Duration::MAX, &mut ready) {
                return result;
            }
        }
    }

    /// Wait like [`Signal::wait`], but evaluate `ready` every 50 ms too. Use it if `ready` depends
    /// on state whose change does not wake this thread, such as the stop flag of a run.
    pub fn poll<R>(&self, mut ready: impl FnMut(&mut T) -> Option<R>) -> R {
        loop {
            if let Some(result) = self.wait_for(LOOK, &mut ready) {
                return result;
            }
        }
    }
}
