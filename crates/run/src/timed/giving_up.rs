//! Detection of workers that hang, and the time-outs after which the coordinator abandons them.

use std::sync::atomic::Ordering::Relaxed;

use storlab_base::Error;

use super::{Coordinator, Load, Plan};
use crate::arming::SILENCE_NS;
use crate::sampling::Report;

/// Longest time that the coordinator can sleep. A longer gap means that the process was stopped or
/// the machine suspended; workers could do nothing then, so the excess is not counted.
const AWAKE_NS: u64 = 2_000_000_000;
/// Time without any completed operation after which a device counts as dead; long enough even for a
/// flush of the whole page cache.
const IDLE_NS: u64 = 1_800_000_000_000;

/// Time without completed operations, counted while the coordinator was awake.
#[derive(Default)]
pub struct Idle {
    looked_ns: u64,
    idle_ns: u64,
}

impl Idle {
    /// Reset the timer: an operation completed.
    pub fn end(&mut self) {
        self.idle_ns = 0;
    }

    fn look(&mut self, now: u64) -> u64 {
        self.idle_ns += now.saturating_sub(self.looked_ns).min(AWAKE_NS);
        self.looked_ns = now;
        self.idle_ns
    }
}

impl<L: Load> Coordinator<'_, L> {
    /// Return whether a report shows progress. In open loop, and for preparation, any report does:
    /// long intervals may be empty.
    pub(super) fn says_something(&self, report: &Report) -> bool {
        let Plan { open_loop, prepares, .. } = self.timed.plan;
        open_loop || prepares || !report.is_empty()
    }

    /// Fail a run with a window by bytes if no operation has completed for too long; it would never
    /// end by itself.
    pub(super) fn give_up_on_the_idle(&mut self, now: u64) {
        let Plan { workers, window_ns, interval_ns, .. } = self.timed.plan;
        let idle_ns = self.idle.look(now);
        let limit_ns = IDLE_NS.saturating_add(interval_ns.saturating_mul(2));
        if window_ns.is_none() && idle_ns >= limit_ns {
            let (workers, waited_ms) = (workers - self.done, idle_ns / 1_000_000);
            self.timed.fail(Error::Silent { workers, waited_ms });
        }
    }

    /// Abandon workers that do not end in time, and fail the run. Threads stuck in the kernel
    /// cannot be joined.
    pub(super) fn give_up_on_the_silent(&mut self, now: u64, since_ns: u64) {
        let Plan { workers, drain_timeout_ns, .. } = self.timed.plan;
        let waited_ns = now.saturating_sub(since_ns);
        // Twice the drain time-out: an open loop may send its backlog for one time-out and drain
        // for another.
        if waited_ns < 2 * drain_timeout_ns + SILENCE_NS {
            return;
        }
        self.timed.gave_up.store(true, Relaxed);
        let (silent, waited_ms) = (workers - self.done, waited_ns / 1_000_000);
        self.timed.fail(Error::Silent { workers: silent, waited_ms });
        self.done = workers;
    }

    /// Abandon workers that have been getting ready without progress for too long, and end the run.
    pub(super) fn give_up_on_the_unready(&mut self, now: u64) {
        let Plan { workers, arm_timeout_ns, .. } = self.timed.plan;
        let (since_ns, limit_ns) = if self.stopping() {
            (*self.ending_since_ns.get_or_insert(now), arm_timeout_ns.min(SILENCE_NS))
        } else {
            (0, arm_timeout_ns)
        };
        let silent_ns = self.timed.control.signs.silent_ns(now, since_ns);
        if silent_ns < limit_ns {
            return;
        }
        let unready = workers - self.ready - self.done;
        self.timed.gave_up.store(true, Relaxed);
        if !self.stopping() {
            let waited_ms = silent_ns / 1_000_000;
            self.timed.fail(Error::NotReady { workers: unready, waited_ms });
        }
        // A worker that reaches the gate later finds that the run is over.
        self.open_window();
        self.done += unready;
    }
}
