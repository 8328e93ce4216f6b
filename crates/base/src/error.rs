//! Error type of the Rust crates. `crates/py` maps it to Python exceptions.

use std::io;
use std::path::Path;

/// Kind of an I/O operation, as used in messages and histograms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OpKind {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Trim (deallocation).
    Trim,
    /// Flush: fsync or fdatasync.
    Sync,
}

impl OpKind {
    /// All kinds, in the order of their discriminants.
    pub const ALL: [OpKind; 4] = [OpKind::Read, OpKind::Write, OpKind::Trim, OpKind::Sync];

    /// Return the name of this kind in results and messages, such as `read`.
    pub const fn name(self) -> &'static str {
        match self {
            OpKind::Read => "read",
            OpKind::Write => "write",
            OpKind::Trim => "trim",
            OpKind::Sync => "sync",
        }
    }
}

/// Error that prevents a run from starting, or that makes it fail.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A field of the order (the JSON that describes the run) is invalid.
    #[error("{field}: {what}; {fix}")]
    Spec {
        /// Name of the invalid field.
        field: String,
        /// Description of the problem.
        what: String,
        /// Advice on how to fix it.
        fix: String,
    },
    /// The kernel returned an error for an operation.
    #[error("{operation} of {path} at offset {offset} failed: {source}")]
    Io {
        /// Operation: read, write, trim, sync, open, ...
        operation: &'static str,
        /// Path as the study names it.
        path: String,
        /// Offset in bytes from the start of the file or device.
        offset: u64,
        /// Error that the kernel returned, with its errno.
        source: io::Error,
    },
    /// A read or write transferred fewer bytes than requested.
    #[error("{operation} of {path} at offset {offset} moved {moved} of {wanted} bytes")]
    Short {
        /// Operation: read or write.
        operation: &'static str,
        /// Path as the study names it.
        path: String,
        /// Offset in bytes.
        offset: u64,
        /// Bytes transferred.
        moved: u64,
        /// Bytes requested.
        wanted: u64,
    },
    /// Operations were still in flight when the time limit after the end of the load had passed.
    #[error("{outstanding} operations of {place} did not complete within {waited_ms} ms")]
    Hung {
        /// Job, file or object that the operations belong to.
        place: String,
        /// Number of operations still in flight.
        outstanding: usize,
        /// Time waited for these operations to complete, in ms.
        waited_ms: u64,
    },
    /// Workers made no progress for too long while they prepared for the load.
    #[error("{workers} of the workers did not get ready: no progress for {waited_ms} ms")]
    NotReady {
        /// Number of workers that did not get ready.
        workers: usize,
        /// Time waited, in ms.
        waited_ms: u64,
    },
    /// Workers made no progress for too long during the run: their system calls do not return.
    #[error("{workers} of the workers did not respond for {waited_ms} ms")]
    Silent {
        /// Number of workers that did not respond.
        workers: usize,
        /// Time waited, in ms.
        waited_ms: u64,
    },
    /// Two errors: the first is the cause, the later one happened during clean-up.
    #[error("{first}; then {later}")]
    Then {
        /// First error, which is the cause.
        first: Box<Error>,
        /// Later error, which happened while the remaining operations were awaited.
        later: Box<Error>,
    },
    /// An external system that the run needs failed, such as an object store, a GPU or its driver.
    #[error("{what}")]
    Dependency {
        /// Request that failed, with the response to it.
        what: String,
        /// Advice on how to fix it.
        fix: String,
    },
    /// An I/O backend (io_uring, posix, ...) is not available on this machine, or it failed.
    #[error("backend {backend}: {what}")]
    Backend {
        /// Name of the backend.
        backend: &'static str,
        /// Description of the problem.
        what: String,
    },
}

impl Error {
    /// Build an [`Error::Spec`] for a field of the order.
    pub fn spec(field: impl Into<String>, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Error::Spec { field: field.into(), what: what.into(), fix: fix.into() }
    }

    /// Build an [`Error::Dependency`].
    pub fn dependency(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Error::Dependency { what: what.into(), fix: fix.into() }
    }

    /// Return whether the device or file system has stopped responding, so that further requests
    /// would hang too.
    pub fn hangs(&self) -> bool {
        match self {
            Error::Hung { .. } | Error::Silent { .. } => true,
            Error::Then { later, .. } => later.hangs(),
            _ => false,
        }
    }

    /// Return this error as a consequence of an earlier one, if there is one: [`Error::Then`] with
    /// `first` as the cause.
    #[must_use]
    pub fn after(self, first: Option<Error>) -> Self {
        match first {
            Some(first) => Error::Then { first: Box::new(first), later: Box::new(self) },
            None => self,
        }
    }

    /// Build an [`Error::Io`].
    pub fn io(
        operation: &'static str,
        path: impl Into<String>,
        offset: u64,
        source: io::Error,
    ) -> Self {
        Error::Io { operation, path: path.into(), offset, source }
    }
}

/// `Result` whose error is this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
/// Return a closure for `map_err` that turns the [`io::Error`] of an operation on a whole file or
/// directory into an [`Error::Io`] with its path.
pub fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.display().to_string();
    move |source| Error::io(operation, path, 0, source)
}
