//! Workers that do not come back, and when the coordinator waits for them no longer.

use std::sync::atomic::Ordering::Relaxed;

use storlab_base::Error;

use super::{Coordinator, Load, Plan};
use crate::arming::SILENCE_NS;
use crate::sampling::Report;

/// The coordinator wakes at least this often. What it has not seen, because the process was stopped
/// or its machine suspended, is no time in which the workers could have done anything.
const AWAKE_NS: u64 = 2_000_000_000;
/// What no device needs to end one operation, and be it the flush of all that memory holds.
const IDLE_NS: u64 = 1_800_000_000_000;

/// How long nothing was done, as far as the coordinator was awake.
#[derive(Default)]
pub struct Idle {
    looked_ns: u64,
    idle_ns: u64,
}

impl Idle {
    /// Something was done.
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
    /// Of a schedule, and of a task that looks after its own requests, it is enough that the worker
    /// goes on: long intervals may have nothing in them.
    pub(super) fn says_something(&self, report: &Report) -> bool {
        let Plan { open_loop, prepares, .. } = self.timed.plan;
        open_loop || prepares || !report.is_empty()
    }

    /// A window by bytes does not end by itself on a device that answers nothing any more.
    pub(super) fn give_up_on_the_idle(&mut self, now: u64) {
        let Plan { workers, window_ns, interval_ns, .. } = self.timed.plan;
        let idle_ns = self.idle.look(now);
        let limit_ns = IDLE_NS.saturating_add(interval_ns.saturating_mul(2));
        if window_ns.is_none() && idle_ns >= limit_ns {
            let (workers, waited_ms) = (workers - self.done, idle_ns / 1_000_000);
            self.timed.fail(Error::Silent { workers, waited_ms });
        }
    }

    /// Threads that are stuck in the kernel cannot be joined: they are left behind, and the run
    /// says so.
    pub(super) fn give_up_on_the_silent(&mut self, now: u64, since_ns: u64) {
        let Plan { workers, drain_timeout_ns, .. } = self.timed.plan;
        let waited_ns = now.saturating_sub(since_ns);
        // Twice: an open loop may send its backlog for one time-out, and drain for another.
        if waited_ns < 2 * drain_timeout_ns + SILENCE_NS {
            return;
        }
        self.timed.gave_up.store(true, Relaxed);
        let (silent, waited_ms) = (workers - self.done, waited_ns / 1_000_000);
        self.timed.fail(Error::Silent { workers: silent, waited_ms });
        self.done = workers;
    }

    /// Those that get ready and have said nothing for too long: they are left behind, and the rest
    /// ends.
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
        // Whoever comes to the gate yet finds that the run is over.
        self.open_window();
        self.done += unready;
    }
}
