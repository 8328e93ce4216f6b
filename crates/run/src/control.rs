//! Control of a run from outside its threads: start, stop and cancellation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use storlab_base::{lock, monotonic_ns};
use storlab_io::Wake;

use crate::arming::ProgressSignal;
use crate::sync_point::SyncPoint;

/// Start condition of the load.
#[derive(Clone, Copy, Default)]
enum Start {
    #[default]
    WhenReady,
    /// Wait until the start time is set.
    Held,
    At(u64),
}

/// Planned and actual start of the load of a held run.
#[derive(Clone, Copy)]
pub(crate) struct Opening {
    planned_ns: u64,
    /// Actual start: later than planned if the planned time had passed when the run became ready or
    /// the time was set.
    pub start_ns: u64,
}

impl Opening {
    /// Return how much later than planned the load starts.
    pub fn late_ns(&self) -> u64 {
        self.start_ns - self.planned_ns
    }
}

/// Start, stop and cancel signals of a run. It outlives the run's files: a handle to a finished run
/// keeps no file open.
#[derive(Default)]
pub struct Control {
    stop: AtomicBool,
    /// Whether the user cancelled the run (as opposed to an error ending it).
    cancelled: AtomicBool,
    wakers: Mutex<Vec<Arc<dyn Wake>>>,
    start: Mutex<Start>,
    /// Signals that `start` has changed or that the run ends.
    changed: Condvar,
    armed: AtomicBool,
    meeting: SyncPoint,
    /// Signs of progress from workers that are getting ready.
    pub(crate) signs: ProgressSignal,
}

impl Control {
    /// Create the control of a run. Its load starts when all workers are ready or, if `held`, at
    /// the time given to [`Control::open_at`].
    pub fn new(held: bool) -> Self {
        let control = Control::default();
        if held {
            control.hold();
        }
        control
    }

    /// Hold the load until [`Control::open_at`] is called. Call this before the run begins.
    pub fn hold(&self) {
        *lock(&self.start) = Start::Held;
    }

    /// Set the start time of a held run; a time in the past means now. Return false and change
    /// nothing if the run is not held or its time was already set.
    pub fn open_at(&self, start_ns: u64) -> bool {
        let mut start = lock(&self.start);
        let held = matches!(*start, Start::Held);
        if held {
            *start = Start::At(start_ns);
            self.changed.notify_all();
        }
        held
    }

    /// Signal that a worker that is slow to get ready still makes progress.
    pub fn goes_on(&self) {
        self.signs.give();
    }

    /// Return the synchronisation point with the other parts of a distributed run.
    pub fn meeting(&self) -> &SyncPoint {
        &self.meeting
    }

    /// Return whether a held run is completely ready.
    pub fn armed(&self) -> bool {
        self.armed.load(Ordering::Acquire)
    }

    /// Wait, if the run is held, until `lead_ns` before the start of its load. `arm` is called once
    /// all is ready. Return `None` if the load starts at once or the run is ending.
    pub(crate) fn wait_for_start(&self, lead_ns: u64, arm: impl FnOnce()) -> Option<Opening> {
        let mut start = lock(&self.start);
        if matches!(*start, Start::WhenReady) || self.stopping() {
            return None;
        }
        arm();
        self.armed.store(true, Ordering::Release);
        let mut opening = None;
        while !self.stopping() {
            let Start::At(planned_ns) = *start else {
                start = self.changed.wait(start).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let now = monotonic_ns();
            // Compute the start once: a thread that wakes late must not move the start of the load.
            let start_at =
                *opening.get_or_insert(Opening { planned_ns, start_ns: planned_ns.max(now) });
            let left_ns = start_at.start_ns.saturating_sub(lead_ns).saturating_sub(now);
            if left_ns == 0 {
                return opening;
            }
            let waited = self.changed.wait_timeout(start, Duration::from_nanos(left_ns));
            start = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }

    /// Return whether the run has been asked to end.
    #[inline]
    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Return whether the user cancelled the run.
    pub fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Wake all waiting workers, so that they check the clock and the stop flag.
    pub fn wake_all(&self) {
        for waker in lock(&self.wakers).iter() {
            waker.wake();
        }
    }

    /// Add a waiter to wake when the run ends.
    pub fn add_waker(&self, waker: Arc<dyn Wake>) {
        lock(&self.wakers).push(waker);
    }

    /// Ask all workers to end; this counts as an error unless [`Control::cancel`] was called.
    pub fn end_soon(&self) {
        self.stop.store(true, Ordering::Relaxed);
        // Taking the lock waits for a thread that has checked the flag but does not wait on the
        // condition variable yet; without it, the notification could be lost.
        drop(lock(&self.start));
        self.changed.notify_all();
        self.wake_all();
    }

    /// Cancel the run on behalf of the user.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
        self.end_soon();
    }
}
