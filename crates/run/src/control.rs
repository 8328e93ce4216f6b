//! Control of a run from outside its threads: start, stop and cancellation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use storlab_base::{Signal, lock, monotonic_ns};
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
    /// Signals its changes and that the run ends.
    start: Signal<Start>,
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
        *self.start.lock() = Start::Held;
    }

    /// Set the start time of a held run; a time in the past means now. Return false and change
    /// nothing if the run is not held or its time was already set.
    pub fn open_at(&self, start_ns: u64) -> bool {
        self.start.change(|start| {
            let held = matches!(start, Start::Held);
            if held {
                *start = Start::At(start_ns);
            }
            held
        })
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
        if matches!(*self.start.lock(), Start::WhenReady) || self.stopping() {
            return None;
        }
        arm();
        self.armed.store(true, Ordering::Release);
        let planned_ns = self.start.wait(|start| match *start {
            _ if self.stopping() => Some(None),
            Start::At(planned_ns) => Some(Some(planned_ns)),
            Start::WhenReady | Start::Held => None,
        })?;
        // Compute the start once: a thread that wakes late must not move the start of the load.
        let start_ns = planned_ns.max(monotonic_ns());
        while !self.stopping() {
            let left_ns = start_ns.saturating_sub(lead_ns).saturating_sub(monotonic_ns());
            if left_ns == 0 {
                return Some(Opening { planned_ns, start_ns });
            }
            let limit = Duration::from_nanos(left_ns);
            self.start.wait_for(limit, |_| self.stopping().then_some(()));
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
        self.start.change(|_| ()); // wakes a thread that waits for the start
        self.wake_all();
    }

    /// Cancel the run on behalf of the user.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
        self.end_soon();
    }
}
