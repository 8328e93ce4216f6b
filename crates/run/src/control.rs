//! How a run is ended from outside its threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use storlab_base::lock;
use storlab_io::Wake;

/// How a run is ended. Outlives the run's files, so that a handle to a run that is over holds none
/// of them.
#[derive(Default)]
pub struct Control {
    stop: AtomicBool,
    /// By the user, not by an error.
    cancelled: AtomicBool,
    wakers: Mutex<Vec<Arc<dyn Wake>>>,
}

impl Control {
    /// The run ends soon, or has to.
    #[inline]
    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// True when the user ended the run.
    pub fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// End every worker's wait, so that it looks at clock and flag.
    pub fn wake_all(&self) {
        for waker in lock(&self.wakers).iter() {
            waker.wake();
        }
    }

    /// Something that waits, to be woken when the run ends.
    pub fn add_waker(&self, waker: Arc<dyn Wake>) {
        lock(&self.wakers).push(waker);
    }

    /// Ask all workers to end; by an error, unless [`Control::cancel`] was called.
    pub fn end_soon(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.wake_all();
    }

    /// By the user.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
        self.end_soon();
    }
}
