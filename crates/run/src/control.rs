//! Control of a run from outside its threads: start, stop and cancellation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use storlab_base::{Signal, lock, monotonic_ns};
use storlab_io::Wake;

use crate::arming::ProgressSignal;
use crate::sync_point::SyncPoint;

/// Condition for the start of the load.
#[derive(Clone, Copy, Default)]
enum Start {
    #[default]
    WhenReady,
    /// The load waits until its start time is set.
    Held,
    At(u64),
}

/// Planned and actual start of the load of a held run, which waits for a set start time.
#[derive(Clone, Copy)]
pub(crate) struct Opening {
    planned_ns: u64,
    /// Actual start in ns on the run's clock. It is later than planned if the planned time had
    /// already passed when the run became ready or the time was set.
    pub start_ns: u64,
}

impl Opening {
    /// Return how much later than planned the load starts, in ns.
    pub fn late_ns(&self) -> u64 {
        self.start_ns - self.planned_ns
    }
}

/// Signals that start, stop and cancel a run. This struct does not refer to the run's files, so a
/// handle to a finished run keeps no file open.
#[derive(Default)]
pub struct Control {
    stop: AtomicBool,
    /// Whether the user cancelled the run. False if an error ended it.
    cancelled: AtomicBool,
    wakers: Mutex<Vec<Arc<dyn Wake>>>,
    /// Start condition. Waiting threads are woken when it changes and when the run ends.
    start: Signal<Start>,
    armed: AtomicBool,
    meeting: SyncPoint,
    /// Last progress of the workers that prepare for the run.
    pub(crate) signs: ProgressSignal,
}

impl Control {
    /// Create the control of a run. The load starts when all workers are ready. If `held` is set,
    /// it starts at the time passed to [`Control::open_at`].
    pub fn new(held: bool) -> Self {
        let control = Control::default();
        if held {
            control.hold();
        }
        control
    }

    /// Make the load wait for [`Control::open_at`]. Call this before the run begins.
    pub fn hold(&self) {
        *self.start.lock() = Start::Held;
    }

    /// Set the start time of a held run, in ns on the run's clock. A time in the past means now.
    /// Returns false, and changes nothing, if the run is not held or already has a start time.
    pub fn open_at(&self, start_ns: u64) -> bool {
        self.start.change(|start| {
            let held = matches!(start, Start::Held);
            if held {
                *start = Start::At(start_ns);
            }
            held
        })
    }

    /// Record that a worker that takes long to prepare has made progress.
    pub fn goes_on(&self) {
        self.signs.give();
    }

    /// Return the synchronisation point with the other parts of a distributed run.
    pub fn meeting(&self) -> &SyncPoint {
        &self.meeting
    }

    /// Return whether a held run, which waits for a set start time, has finished all preparations.
    pub fn armed(&self) -> bool {
        self.armed.load(Ordering::Acquire)
    }

    /// If the run is held, wait until `lead_ns` before the start of its load. `arm` is called when
    /// all preparations are finished. Returns `None` if the run is not held, or if it ends first.
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
        // The start is computed once: a thread that wakes late must not delay the start of the
        // load.
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

    /// Return whether the run should end.
    #[inline]
    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Return whether the user cancelled the run.
    pub fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Wake all waiting workers, so that they check the clock and whether the run should end.
    pub fn wake_all(&self) {
        for waker in lock(&self.wakers).iter() {
            waker.wake();
        }
    }

    /// Add a handle to call when waiting workers should wake.
    pub fn add_waker(&self, waker: Arc<dyn Wake>) {
        lock(&self.wakers).push(waker);
    }

    /// Make all workers end. The run counts as failed unless [`Control::cancel`] was called.
    pub fn end_soon(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.start.change(|_| ()); // wakes a thread that waits for the start
        self.wake_all();
    }

    /// Cancel the run for the user.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
        self.end_soon();
    }
}
