//! Workers that do not come back, and when the coordinator waits for them no longer.

use std::sync::atomic::Ordering::Relaxed;

use storlab_base::Error;

use super::{Coordinator, Load, Plan};
use crate::arming::SILENCE_NS;

impl<L: Load> Coordinator<'_, L> {
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
