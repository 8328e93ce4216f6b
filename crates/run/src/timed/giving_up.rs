//! Detection of workers that hang. After time-outs the coordinator abandons them.

use std::sync::atomic::Ordering::Relaxed;

use storlab_base::Error;

use super::{Coordinator, Load, Plan};
use crate::arming::SILENCE_NS;
use crate::sampling::Report;

/// Time in ns that a sleep of the coordinator never exceeds. If more time passes, the process was
/// stopped or the machine suspended. Workers could not run then, so the excess does not count as
/// idle time.
const AWAKE_NS: u64 = 2_000_000_000;
/// Time in ns without any completed operation after which a device counts as dead. It is long
/// enough even for a flush of the whole page cache.
const IDLE_NS: u64 = 1_800_000_000_000;

/// Time without completed operations. It is counted only while the process could run.
#[derive(Default)]
pub struct Idle {
    looked_ns: u64,
    idle_ns: u64,
}

impl Idle {
    /// Reset the time, because an operation completed.
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
    /// Return whether a report of a worker shows progress. In an open loop, and when data is
    /// prepared, any report does, because intervals may be empty.
    pub(super) fn says_something(&self, report: &Report) -> bool {
        let Plan { open_loop, prepares, .. } = self.timed.plan;
        open_loop || prepares || !report.is_empty()
    }

    /// Fail a run whose window ends after a number of bytes if no operation has completed for too
    /// long. Without completions such a window would never end.
    pub(super) fn give_up_on_the_idle(&mut self, now: u64) {
        let Plan { workers, window_ns, interval_ns, .. } = self.timed.plan;
        let idle_ns = self.idle.look(now);
        let limit_ns = IDLE_NS.saturating_add(interval_ns.saturating_mul(2));
        if window_ns.is_none() && idle_ns >= limit_ns {
            let (workers, waited_ms) = (workers - self.done, idle_ns / 1_000_000);
            self.timed.fail(Error::Silent { workers, waited_ms });
        }
    }

    /// Fail the run, and abandon workers, if they do not end in time. Threads that are stuck in the
    /// kernel cannot be joined.
    pub(super) fn give_up_on_the_silent(&mut self, now: u64, since_ns: u64) {
        let Plan { workers, drain_timeout_ns, .. } = self.timed.plan;
        let waited_ns = now.saturating_sub(since_ns);
        // The limit is twice the drain time-out, because an open loop may send its backlog for one
        // time-out and then wait for completions for another.
        if waited_ns < 2 * drain_timeout_ns + SILENCE_NS {
            return;
        }
        self.timed.gave_up.store(true, Relaxed);
        let (silent, waited_ms) = (workers - self.done, waited_ns / 1_000_000);
        self.timed.fail(Error::Silent { workers: silent, waited_ms });
        self.done = workers;
    }

    /// End the run, and abandon workers, if they have prepared without progress for too long.
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
        // Workers that become ready later must find the window set, so that they see that the run
        // is over.
        self.open_window();
        self.done += unready;
    }
}
