//! Error type of the Rust side. Python maps it to exceptions in one place, in `crates/py`.

use std::io;
use std::path::Path;

/// Kind of an I/O operation, for messages and histograms.
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

    /// Return the name used in results and messages.
    pub const fn name(self) -> &'static str {
        match self {
            OpKind::Read => "read",
            OpKind::Write => "write",
            OpKind::Trim => "trim",
            OpKind::Sync => "sync",
        }
    }
}

/// Error that prevents a run from starting or makes it fail.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A field of the order is invalid.
    #[error("{field}: {what}; {fix}")]
    Spec {
        /// Field of the order.
        field: String,
        /// Description of the problem.
        what: String,
        /// Fix, as advice to the user.
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
        /// Error of the kernel, with its errno.
        source: io::Error,
    },
    /// The device moved fewer bytes than requested.
    #[error("{operation} of {path} at offset {offset} moved {moved} of {wanted} bytes")]
    Short {
        /// Operation: read or write.
        operation: &'static str,
        /// Path as the study names it.
        path: String,
        /// Offset in bytes.
        offset: u64,
        /// Bytes moved.
        moved: u64,
        /// Bytes requested.
        wanted: u64,
    },
    /// Operations were still in flight long after the load ended.
    #[error("{outstanding} operations of {place} did not complete within {waited_ms} ms")]
    Hung {
        /// Owner of the operations: a job, or the file or object.
        place: String,
        /// Number of operations.
        outstanding: usize,
        /// Time waited, in ms.
        waited_ms: u64,
    },
    /// Workers gave no sign of progress for too long while they got ready.
    #[error("{workers} of the workers did not get ready: no progress for {waited_ms} ms")]
    NotReady {
        /// Number of workers.
        workers: usize,
        /// Time waited, in ms.
        waited_ms: u64,
    },
    /// Workers gave no sign of progress for too long during the run: their system calls do not
    /// return.
    #[error("{workers} of the workers did not respond for {waited_ms} ms")]
    Silent {
        /// Number of workers.
        workers: usize,
        /// Time waited, in ms.
        waited_ms: u64,
    },
    /// Two errors: the cause, and a later one during clean-up.
    #[error("{first}; then {later}")]
    Then {
        /// Error that came first, the cause.
        first: Box<Error>,
        /// Error while the remaining operations in flight were drained.
        later: Box<Error>,
    },
    /// A dependency of the run failed, such as an object store, a GPU or its driver.
    #[error("{what}")]
    Dependency {
        /// Request that failed, and the response to it.
        what: String,
        /// Fix, as advice to the user.
        fix: String,
    },
    /// A backend is not available on this machine, or has failed.
    #[error("backend {backend}: {what}")]
    Backend {
        /// Name of the backend.
        backend: &'static str,
        /// Description of the problem.
        what: String,
    },
}

impl Error {
    /// Build [`Error::Spec`] for a field of the order.
    pub fn spec(field: impl Into<String>, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Error::Spec { field: field.into(), what: what.into(), fix: fix.into() }
    }

    /// Build [`Error::Dependency`].
    pub fn dependency(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Error::Dependency { what: what.into(), fix: fix.into() }
    }

    /// Return whether the device or file system no longer answers, so that further requests would
    /// hang too.
    pub fn hangs(&self) -> bool {
        match self {
            Error::Hung { .. } | Error::Silent { .. } => true,
            Error::Then { later, .. } => later.hangs(),
            _ => false,
        }
    }

    /// Combine this error with an earlier one, if any, which becomes the cause.
    #[must_use]
    pub fn after(self, first: Option<Error>) -> Self {
        match first {
            Some(first) => Error::Then { first: Box::new(first), later: Box::new(self) },
            None => self,
        }
    }

    /// Build [`Error::Io`].
    pub fn io(
        operation: &'static str,
        path: impl Into<String>,
        offset: u64,
        source: io::Error,
    ) -> Self {
        Error::Io { operation, path: path.into(), offset, source }
    }
}

/// Result with the [`Error`] of this project.
pub type Result<T> = std::result::Result<T, Error>;
/// Return a closure for `map_err` that names the failed operation on a whole file or directory.
pub fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.display().to_string();
    move |source| Error::io(operation, path, 0, source)
}
