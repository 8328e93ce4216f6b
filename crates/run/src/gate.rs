//! Where workers wait for what the coordinator will tell them.

use std::sync::{Condvar, Mutex, PoisonError};

use storlab_base::lock;

/// Closed until it is opened, and open from then on.
pub struct Gate<T> {
    message: Mutex<Option<T>>,
    opened: Condvar,
}

impl<T> Default for Gate<T> {
    fn default() -> Self {
        Gate { message: Mutex::new(None), opened: Condvar::new() }
    }
}

impl<T: Copy> Gate<T> {
    /// With what all who wait are to know.
    pub fn open(&self, message: T) {
        *lock(&self.message) = Some(message);
        self.opened.notify_all();
    }

    /// Until it is open.
    pub fn wait(&self) -> T {
        let mut message = lock(&self.message);
        loop {
            if let Some(what) = *message {
                return what;
            }
            message = self.opened.wait(message).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
