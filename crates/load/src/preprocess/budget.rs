//! Memory that all threads of a run share, in bytes.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What may be taken, and what is.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    used: AtomicUsize,
}

impl Budget {
    /// So many bytes in all.
    pub fn new(limit: usize) -> Self {
        Budget { limit, used: AtomicUsize::new(0) }
    }

    /// Take `bytes`; false, with nothing taken, where that is more than is left.
    pub fn take(&self, bytes: usize) -> bool {
        let all = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
        self.used.fetch_update(Relaxed, Relaxed, all).is_ok()
    }

    /// Give back what was taken.
    pub fn give(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Relaxed);
    }

    /// In all.
    pub fn limit(&self) -> usize {
        self.limit
    }
}
