//! Memory that all threads of a run share, in bytes.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What may be taken, and what is.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    used: AtomicUsize,
    peak: AtomicUsize,
}

/// Bytes of a budget, given back when dropped.
#[derive(Debug)]
pub struct Held<'b> {
    budget: &'b Budget,
    bytes: usize,
}

impl Budget {
    /// So many bytes in all.
    pub fn new(limit: usize) -> Self {
        Budget { limit, used: AtomicUsize::new(0), peak: AtomicUsize::new(0) }
    }

    /// Take `bytes`; false, with nothing taken, where that is more than is left.
    pub fn take(&self, bytes: usize) -> bool {
        let sum = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
        let taken = self.used.fetch_update(Relaxed, Relaxed, sum);
        taken.map(|used| self.peak.fetch_max(used + bytes, Relaxed)).is_ok()
    }

    /// Give back what was taken.
    pub fn give(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Relaxed);
    }

    /// Take `bytes` for as long as the answer lives; None where that is more than is left.
    pub fn hold(&self, bytes: usize) -> Option<Held<'_>> {
        self.take(bytes).then(|| Held { budget: self, bytes })
    }

    /// In all.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Taken now.
    pub fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// The most that was taken at any time.
    #[cfg(test)]
    pub fn peak(&self) -> usize {
        self.peak.load(Relaxed)
    }
}

impl Held<'_> {
    /// Take `bytes` more; false, with nothing taken, where that is more than is left.
    pub fn more(&mut self, bytes: usize) -> bool {
        let taken = self.budget.take(bytes);
        self.bytes += if taken { bytes } else { 0 };
        taken
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.budget.give(self.bytes);
    }
}
