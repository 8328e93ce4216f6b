//! Time limits for workers that prepare for a run.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use storlab_base::monotonic_ns;

/// Longest time in ns that workers may prepare without progress. Opening a file, allocating memory
/// or registering a file with a library takes less. A run whose workers make no progress for this
/// long fails.
pub const ARM_TIMEOUT_NS: u64 = 300_000_000_000;

/// Time in ns that an ending run waits for its threads after the run's other time-outs have passed.
/// Threads that still have not ended are then abandoned.
pub(crate) const SILENCE_NS: u64 = 5_000_000_000;

/// Time of the last progress of the workers that prepare for a run.
pub(crate) struct ProgressSignal {
    last_ns: AtomicU64,
}

impl Default for ProgressSignal {
    fn default() -> Self {
        ProgressSignal { last_ns: AtomicU64::new(monotonic_ns()) }
    }
}

impl ProgressSignal {
    /// Record that a worker has made progress.
    pub fn give(&self) {
        self.last_ns.store(monotonic_ns(), Relaxed);
    }

    /// Return how long the workers have made no progress at time `now`, in ns. Time before
    /// `since_ns` is not counted.
    pub fn silent_ns(&self, now: u64, since_ns: u64) -> u64 {
        now.saturating_sub(self.last_ns.load(Relaxed).max(since_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_from_the_last_sign_or_later() {
        let signs = ProgressSignal { last_ns: AtomicU64::new(1000) };
        assert_eq!((signs.silent_ns(1500, 0), signs.silent_ns(1500, 1400)), (500, 100));
        assert_eq!(signs.silent_ns(900, 0), 0);
        signs.give();
        assert!(signs.silent_ns(monotonic_ns(), 0) < 60_000_000_000);
    }
}
