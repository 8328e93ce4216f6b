//! List of the I/O backends, and their selection at run time.

use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use storlab_base::Result;

use crate::arena::Arena;
use crate::backend::{Backend, Queue};
use crate::file::File;
use crate::null::NullBackend;
use crate::posix::PosixBackend;
use crate::probe::probe;
use crate::uring::UringBackend;

/// Work that can be done with any type of backend.
pub trait UseBackend {
    /// Result of the work.
    type Output;

    /// Do the work with a backend.
    ///
    /// # Errors
    /// The errors of the implementation.
    fn with<B: Backend + 'static>(self, backend: B) -> Result<Self::Output>;
}

/// Define [`BackendKind`]. For each backend, the macro gets a variant, a name in jobs and results,
/// and a type. The type has the functions `new(files, arena, queue)` and `threads(queue)`.
macro_rules! backends {
    ($($(#[$doc:meta])* $kind:ident $name:literal $backend:ty),+ $(,)?) => {
        /// Backend that submits the I/O of a run.
        #[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
        pub enum BackendKind {
            $($(#[$doc])* #[serde(rename = $name)] $kind),+
        }

        impl BackendKind {
            /// Return the backend's name in jobs and results.
            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $name),+ }
            }

            /// Return the number of threads that a worker with this queue uses, itself included.
            pub fn threads(self, queue: Queue) -> usize {
                match self { $(Self::$kind => <$backend>::threads(queue)),+ }
            }

            /// Create a backend on the calling thread, which must be the one that uses it, and
            /// pass it to `work`.
            ///
            /// # Errors
            /// [`storlab_base::Error::Backend`] or [`storlab_base::Error::Io`] if the backend
            /// cannot be created; the errors of `work`.
            pub fn open<U: UseBackend>(
                self,
                files: Arc<Vec<File>>,
                arena: Arena,
                queue: Queue,
                work: U,
            ) -> Result<U::Output> {
                match self {
                    $(Self::$kind => work.with(<$backend>::new(files, arena, queue)?)),+
                }
            }
        }
    };
}

backends! {
    /// Linux `io_uring`.
    Uring "uring" UringBackend,
    /// One thread per outstanding I/O.
    Posix "posix" PosixBackend,
    /// No I/O: operations complete immediately.
    Null "null" NullBackend,
}

impl BackendKind {
    /// Return the fastest backend that the kernel offers: `uring`, or else `posix`. The kernel is
    /// asked once per process.
    pub fn fastest() -> Self {
        static URING: OnceLock<bool> = OnceLock::new();
        if *URING.get_or_init(|| probe().uring) { Self::Uring } else { Self::Posix }
    }
}
