//! How a run begins and is ended from outside its threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use storlab_base::{lock, monotonic_ns};
use storlab_io::Wake;

use crate::arming::Signs;
use crate::meeting::Meeting;

/// When the load starts.
#[derive(Clone, Copy, Default)]
enum Start {
    #[default]
    WhenReady,
    /// Not before its time is told.
    Held,
    At(u64),
}

/// When the load of a held run starts.
#[derive(Clone, Copy)]
pub(crate) struct Opening {
    planned_ns: u64,
    /// Later than planned, where that had passed when all was ready and it was told.
    pub start_ns: u64,
}

impl Opening {
    /// How much later than planned.
    pub fn late_ns(&self) -> u64 {
        self.start_ns - self.planned_ns
    }
}

/// How a run begins and is ended. Outlives the run's files, so that a handle to a run that is over
/// holds none of them.
#[derive(Default)]
pub struct Control {
    stop: AtomicBool,
    /// By the user, not by an error.
    cancelled: AtomicBool,
    wakers: Mutex<Vec<Arc<dyn Wake>>>,
    start: Mutex<Start>,
    /// `start` has, or the run ends.
    changed: Condvar,
    armed: AtomicBool,
    meeting: Meeting,
    /// Of those that get ready.
    pub(crate) signs: Signs,
}

impl Control {
    /// Of a run whose load starts when all is ready or, where it is held, when
    /// [`Control::open_at`] says.
    pub fn new(held: bool) -> Self {
        let control = Control::default();
        if held {
            control.hold();
        }
        control
    }

    /// The load waits for [`Control::open_at`]. To be called before the run begins.
    pub fn hold(&self) {
        *lock(&self.start) = Start::Held;
    }

    /// The load of a held run starts then, or at once where that has passed. False, and nothing
    /// has changed, where the run is not held or was told already.
    pub fn open_at(&self, start_ns: u64) -> bool {
        let mut start = lock(&self.start);
        let held = matches!(*start, Start::Held);
        if held {
            *start = Start::At(start_ns);
            self.changed.notify_all();
        }
        held
    }

    /// Of whoever takes its time to get ready: it goes on.
    pub fn goes_on(&self) {
        self.signs.give();
    }

    /// Where it meets the other parts of the work that it is a part of.
    pub fn meeting(&self) -> &Meeting {
        &self.meeting
    }

    /// True once all of a held run is ready.
    pub fn armed(&self) -> bool {
        self.armed.load(Ordering::Acquire)
    }

    /// All is ready: where the run is held, wait until `lead_ns` before its load is to start.
    /// `None`: it starts at once, also where the run is to end.
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
            // Who is woken late has a load that started on time.
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
        // Who has looked at the flag and not begun to wait yet holds the lock.
        drop(lock(&self.start));
        self.changed.notify_all();
        self.wake_all();
    }

    /// By the user.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
        self.end_soon();
    }
}
