//! A sleep that the end of the run cuts short.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use storlab_base::lock;
use storlab_io::Wake;

/// Of one worker.
#[derive(Default)]
pub struct Nap {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Nap {
    /// That long, or until somebody wakes it, or has since the last time.
    pub fn sleep(&self, length: Duration) {
        let woken = lock(&self.woken);
        let waited = self.changed.wait_timeout_while(woken, length, |woken| !*woken);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }
}

impl Wake for Nap {
    fn wake(&self) {
        *lock(&self.woken) = true;
        self.changed.notify_all();
    }
}
