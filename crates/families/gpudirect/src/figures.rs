//! Costs and results of the work before and after the load: registration with cuFile, and
//! verification.

use std::ops::AddAssign;

use serde::Serialize;
use storlab_base::{Result, monotonic_ns};

/// Cost of registering buffers and files with cuFile. Times are those of the slowest worker.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[allow(missing_docs)]
pub struct Registration {
    pub buffers: u64,
    pub bytes: u64,
    pub ns: u64,
    pub handles: u64,
    pub handles_ns: u64,
}

/// Result of comparing data with the expected bytes.
///
/// `wrong` counts the bytes of all I/Os with any difference. `earlier` counts files that an earlier
/// run compared and that have not changed since.
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
        self.ns = self.ns.max(more.ns); // workers register in parallel
        self.handles += more.handles;
        self.handles_ns = self.handles_ns.max(more.handles_ns);
    }
}

impl Registration {
    /// Add the cost of `earlier`, a registration that ended before this one began. The times add
    /// up, because the two did not run in parallel.
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
        self.ns = self.ns.max(more.ns); // workers compare in parallel
        self.wrong += more.wrong;
        self.earlier += more.earlier;
    }
}

/// Run `work`. Return its result and its duration in nanoseconds.
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
