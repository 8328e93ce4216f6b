//! How long workers may say nothing while they get ready, and when they are to end.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use storlab_base::monotonic_ns;

/// What nobody needs to open one file, to get memory, or to make a file known to a library: a run
/// whose workers have said nothing for so long will not begin.
pub const ARM_TIMEOUT_NS: u64 = 300_000_000_000;

/// Beyond its own time-outs, before a thread of a run that is to end is given up.
pub(crate) const SILENCE_NS: u64 = 5_000_000_000;

/// When a worker that is not ready was last known to go on.
pub(crate) struct Signs {
    last_ns: AtomicU64,
}

impl Default for Signs {
    fn default() -> Self {
        Signs { last_ns: AtomicU64::new(monotonic_ns()) }
    }
}

impl Signs {
    /// It goes on.
    pub fn give(&self) {
        self.last_ns.store(monotonic_ns(), Relaxed);
    }

    /// How long there was no sign, at `now`, of those that were given after `since_ns`.
    pub fn silent_ns(&self, now: u64, since_ns: u64) -> u64 {
        now.saturating_sub(self.last_ns.load(Relaxed).max(since_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_from_the_last_sign_or_later() {
        let signs = Signs { last_ns: AtomicU64::new(1000) };
        assert_eq!((signs.silent_ns(1500, 0), signs.silent_ns(1500, 1400)), (500, 100));
        assert_eq!(signs.silent_ns(900, 0), 0);
        signs.give();
        assert!(signs.silent_ns(monotonic_ns(), 0) < 60_000_000_000);
    }
}
