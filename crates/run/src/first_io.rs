//! Delay of the workers' first operations. A load on many clients has started completely only when
//! the last worker of the last client has sent its first operation, so the largest delay is
//! recorded too.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Smallest and largest delay of the workers' first operations, counted from their due times.
pub struct FirstIo {
    earliest: AtomicU64,
    /// Largest delay plus one, so that 0 means that there is none.
    latest: AtomicU64,
}

impl Default for FirstIo {
    fn default() -> Self {
        FirstIo { earliest: AtomicU64::new(u64::MAX), latest: AtomicU64::new(0) }
    }
}

impl FirstIo {
    /// Record the first operation of a worker, sent at `at_ns`. It was due at `due_ns`: the start
    /// of the load, or later in an open loop. Each worker calls this once.
    pub fn submitted(&self, at_ns: u64, due_ns: u64) {
        let late_ns = at_ns.saturating_sub(due_ns);
        self.earliest.fetch_min(late_ns, Relaxed);
        self.latest.fetch_max(late_ns.saturating_add(1), Relaxed);
    }

    /// Return the smallest delay of a worker, in ns; `None` if no operation was sent.
    pub fn earliest_ns(&self) -> Option<u64> {
        Some(self.earliest.load(Relaxed)).filter(|&late_ns| late_ns < u64::MAX)
    }

    /// Return the largest delay of a worker, in ns; `None` if no operation was sent.
    pub fn latest_ns(&self) -> Option<u64> {
        self.latest.load(Relaxed).checked_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_worker_are_known() {
        let first = FirstIo::default();
        assert_eq!((first.earliest_ns(), first.latest_ns()), (None, None));
        for (at_ns, due_ns) in [(1300, 1000), (1100, 1000), (990, 1000), (5020, 5000)] {
            first.submitted(at_ns, due_ns);
        }
        assert_eq!((first.earliest_ns(), first.latest_ns()), (Some(0), Some(300)));
    }
}
