//! Sleep that can be interrupted when the run ends.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use storlab_base::lock;
use storlab_io::Wake;

/// Interruptible sleep of one worker.
#[derive(Default)]
pub struct InterruptibleSleep {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl InterruptibleSleep {
    /// Sleep for `length`, or until [`Wake::wake`] is called; return at once if it was called since
    /// the last sleep.
    pub fn sleep(&self, length: Duration) {
        let woken = lock(&self.woken);
        let waited = self.changed.wait_timeout_while(woken, length, |woken| !*woken);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }
}

impl Wake for InterruptibleSleep {
    fn wake(&self) {
        *lock(&self.woken) = true;
        self.changed.notify_all();
    }
}
