//! Gate at which workers wait for a message from the coordinator.

use std::sync::{Condvar, Mutex, PoisonError};

use storlab_base::lock;

/// Gate that is closed until it is opened once, with a message for all that wait.
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
    /// Open the gate and pass `message` to all waiting threads.
    pub fn open(&self, message: T) {
        *lock(&self.message) = Some(message);
        self.opened.notify_all();
    }

    /// Wait until the gate is open and return its message.
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
