//! What a run tells of the work beside its load.

use std::ops::AddAssign;

use serde::Serialize;
use storlab_base::{Result, monotonic_ns};

/// What making buffers and files known to cuFile took; of several workers the longest.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[allow(missing_docs)]
pub struct Registration {
    pub buffers: u64,
    pub bytes: u64,
    pub ns: u64,
    pub handles: u64,
    pub handles_ns: u64,
}

/// What was compared byte for byte; `earlier`: files that an earlier run compared, and nobody has
/// changed since. `wrong`: bytes of operations that differ.
#[derive(Clone, Copy, Debug, Default, Serialize, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Compared {
    pub files: u64,
    pub bytes: u64,
    pub ns: u64,
    pub wrong: u64,
    pub earlier: u64,
}

impl AddAssign<&Registration> for Registration {
    fn add_assign(&mut self, more: &Registration) {
        self.buffers += more.buffers;
        self.bytes += more.bytes;
        self.ns = self.ns.max(more.ns); // workers register side by side
        self.handles += more.handles;
        self.handles_ns = self.handles_ns.max(more.handles_ns);
    }
}

impl Registration {
    /// With what had ended before it began.
    #[must_use]
    pub fn after(mut self, earlier: &Registration) -> Self {
        let (ns, handles_ns) = (self.ns + earlier.ns, self.handles_ns + earlier.handles_ns);
        self += earlier;
        Registration { ns, handles_ns, ..self }
    }
}

impl AddAssign<&Compared> for Compared {
    fn add_assign(&mut self, more: &Compared) {
        self.files += more.files;
        self.bytes += more.bytes;
        self.ns = self.ns.max(more.ns); // they go on side by side
        self.wrong += more.wrong;
        self.earlier += more.earlier;
    }
}

/// What it comes to, and how long it took.
pub fn timed<T>(work: impl FnOnce() -> Result<T>) -> (Result<T>, u64) {
    let begun_ns = monotonic_ns();
    (work(), monotonic_ns() - begun_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registration_takes_as_long_as_the_slowest_of_the_workers_after_what_they_share() {
        let of = |ns, handles_ns| Registration { buffers: 1, bytes: 8, ns, handles: 1, handles_ns };
        let mut workers = of(5, 20);
        workers += &of(7, 10);
        let shared = Registration { handles: 0, ..of(100, 0) };
        let whole = workers.after(&shared);
        assert_eq!((whole.ns, whole.handles_ns), (107, 20));
        assert_eq!((whole.buffers, whole.bytes, whole.handles), (3, 24, 2));
    }
}
