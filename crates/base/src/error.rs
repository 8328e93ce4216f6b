//! The one error type of the Rust side. Python maps it once, in `crates/py`.

use std::io;
use std::path::Path;

/// What an I/O was, for messages and histograms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OpKind {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Deallocate.
    Trim,
    /// fsync or fdatasync.
    Sync,
}

impl OpKind {
    /// All kinds, in the order of their discriminants.
    pub const ALL: [OpKind; 4] = [OpKind::Read, OpKind::Write, OpKind::Trim, OpKind::Sync];

    /// The word used in results and messages.
    pub const fn name(self) -> &'static str {
        match self {
            OpKind::Read => "read",
            OpKind::Write => "write",
            OpKind::Trim => "trim",
            OpKind::Sync => "sync",
        }
    }
}

/// Why a run cannot start, or ended as failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The order itself is wrong. Names the field, what is wrong and the fix.
    #[error("{field}: {what}; {fix}")]
    Spec {
        /// The field of the job.
        field: String,
        /// What is wrong with it.
        what: String,
        /// What to do.
        fix: String,
    },
    /// The kernel refused an operation.
    #[error("{operation} of {path} at offset {offset} failed: {source}")]
    Io {
        /// read, write, trim, sync, open, ...
        operation: &'static str,
        /// As the study names it.
        path: String,
        /// In bytes, from the start of the file or device.
        offset: u64,
        /// With the errno.
        source: io::Error,
    },
    /// The device moved fewer bytes than it was asked to.
    #[error("{operation} of {path} at offset {offset} moved {moved} of {wanted} bytes")]
    Short {
        /// read or write.
        operation: &'static str,
        /// As the study names it.
        path: String,
        /// In bytes.
        offset: u64,
        /// Bytes moved.
        moved: u64,
        /// Bytes asked for.
        wanted: u64,
    },
    /// Operations were still in flight long after the load ended.
    #[error("{outstanding} operations of {place} did not complete within {waited_ms} ms")]
    Hung {
        /// Whose they are: a job, or what is read or written.
        place: String,
        /// How many operations.
        outstanding: usize,
        /// How long it waited.
        waited_ms: u64,
    },
    /// Workers said nothing for long while they got ready.
    #[error("{workers} of the workers did not get ready: nothing was heard for {waited_ms} ms")]
    NotReady {
        /// How many.
        workers: usize,
        /// How long.
        waited_ms: u64,
    },
    /// Workers said nothing for long after that: calls of theirs do not come back.
    #[error("{workers} of the workers said nothing for {waited_ms} ms")]
    Silent {
        /// How many.
        workers: usize,
        /// How long.
        waited_ms: u64,
    },
    /// Two, of which the first says why, and the later one what it left.
    #[error("{first}; then {later}")]
    Then {
        /// It came first.
        first: Box<Error>,
        /// While what was in flight with it ended.
        later: Box<Error>,
    },
    /// What the run rests on, such as an object store, a GPU or its driver, did not do what was
    /// asked of it.
    #[error("{what}")]
    Dependency {
        /// What was asked, and the answer.
        what: String,
        /// What to do.
        fix: String,
    },
    /// What a backend needs is not there.
    #[error("backend {backend}: {what}")]
    Backend {
        /// Its name.
        backend: &'static str,
        /// What is missing.
        what: String,
    },
}

impl Error {
    /// A wrong field of the order.
    pub fn spec(field: impl Into<String>, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Error::Spec { field: field.into(), what: what.into(), fix: fix.into() }
    }

    /// What the run rests on has failed.
    pub fn dependency(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Error::Dependency { what: what.into(), fix: fix.into() }
    }

    /// Device or file system answer no more: whoever asked them now would wait, too.
    pub fn hangs(&self) -> bool {
        match self {
            Error::Hung { .. } | Error::Silent { .. } => true,
            Error::Then { later, .. } => later.hangs(),
            _ => false,
        }
    }

    /// What came first, where something did, and then this.
    #[must_use]
    pub fn after(self, first: Option<Error>) -> Self {
        match first {
            Some(first) => Error::Then { first: Box::new(first), later: Box::new(self) },
            None => self,
        }
    }

    /// A refused operation.
    pub fn io(
        operation: &'static str,
        path: impl Into<String>,
        offset: u64,
        source: io::Error,
    ) -> Self {
        Error::Io { operation, path: path.into(), offset, source }
    }
}

/// Of this project.
pub type Result<T> = std::result::Result<T, Error>;
/// For `map_err`: an operation on a whole file or directory failed.
pub fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.display().to_string();
    move |source| Error::io(operation, path, 0, source)
}
