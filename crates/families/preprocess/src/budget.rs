//! Memory budget of a run in bytes, shared by all its threads.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Memory budget: limit, current use and peak, in bytes.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    used: AtomicUsize,
    peak: AtomicUsize,
}

/// Reservation of bytes of a budget, released on drop.
#[derive(Debug)]
pub struct Held<'b> {
    budget: &'b Budget,
    bytes: usize,
}

impl Budget {
    /// Create a budget of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Budget { limit, used: AtomicUsize::new(0), peak: AtomicUsize::new(0) }
    }

    /// Reserve `bytes` bytes. Return false, with nothing reserved, if fewer are left.
    pub fn take(&self, bytes: usize) -> bool {
        let sum = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
        let taken = self.used.fetch_update(Relaxed, Relaxed, sum);
        taken.map(|used| self.peak.fetch_max(used + bytes, Relaxed)).is_ok()
    }

    /// Return reserved bytes to the budget.
    pub fn give(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Relaxed);
    }

    /// Reserve `bytes` bytes until the returned value is dropped; `None` if fewer are left.
    pub fn hold(&self, bytes: usize) -> Option<Held<'_>> {
        self.take(bytes).then(|| Held { budget: self, bytes })
    }

    /// Return the limit of the budget in bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Return the number of bytes that are reserved now.
    pub fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Return the highest number of bytes reserved so far.
    #[cfg(test)]
    pub fn peak(&self) -> usize {
        self.peak.load(Relaxed)
    }
}

impl Held<'_> {
    /// Enlarge this reservation by `bytes` bytes. Return false, with nothing changed, if fewer
    /// bytes are left.
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
