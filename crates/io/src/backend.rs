//! Interface of the I/O backends.

use std::sync::Arc;
use std::time::Duration;

use storlab_base::{OpKind, Signal};

use crate::arena::Arena;
use crate::file::File;

/// Operation on an open file.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// Kind of the operation.
    pub kind: OpKind,
    /// Index of the file in the backend.
    pub file: u16,
    /// For [`OpKind::Sync`]: flush only the data (`fdatasync`), not the metadata.
    pub data_only: bool,
    /// Buffer slot; ignored for trim and sync.
    pub slot: u32,
    /// Offset in bytes of the data in the slot.
    pub slot_offset: u32,
    /// Length in bytes.
    pub len: u32,
    /// Offset in bytes in the file.
    pub offset: u64,
    /// Value returned with the completion. [`WAKE_TAG`] is reserved.
    pub tag: u64,
}

/// Completion of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// Tag of the operation.
    pub tag: u64,
    /// Number of bytes moved, or a negative errno.
    pub result: i32,
}

/// Tag reserved for wake-ups; operations must not use it.
pub const WAKE_TAG: u64 = u64::MAX;

/// Handle that ends a wait of a backend from another thread.
pub trait Wake: Send + Sync {
    /// Make the current or the next wait return at once.
    fn wake(&self);
}

/// A signal that is true from a wake-up on, until the waiting thread resets it.
impl Wake for Signal<bool> {
    fn wake(&self) {
        self.change(|woken| *woken = true);
    }
}

/// I/O backend: moves bytes between buffers and files.
pub trait Backend {
    /// Return the name under which results list the backend.
    fn name(&self) -> &'static str;

    /// Return the kernel features that the backend uses.
    fn features(&self) -> Vec<&'static str>;

    /// Use `file` for operations on file `index` from now on. The index may be new.
    ///
    /// No operation may be in flight on the former file. The caller keeps the new one open while an
    /// operation is in flight on it.
    fn replace_file(&mut self, index: usize, file: &File);

    /// Queue an operation for the next [`Backend::submit`].
    ///
    /// # Panics
    /// If its bytes do not lie within its buffer slot, or the file index does not exist.
    fn push(&mut self, op: &Op);

    /// Submit all queued operations, and let the kernel post pending completions.
    ///
    /// The next [`Backend::reap`] sees these completions even if this call does not wait. With
    /// `wait`, waits for at least one completion, but no longer than `timeout`.
    ///
    /// # Errors
    /// The error of the submission itself; errors of operations are reported in their completions.
    fn submit(&mut self, wait: bool, timeout: Option<Duration>) -> std::io::Result<()>;

    /// Append up to `limit` available completions to `into`.
    fn reap(&mut self, into: &mut Vec<Completion>, limit: usize);

    /// Ask the kernel to cancel the operations in flight. Each one still gets a completion.
    fn cancel_all(&mut self);

    /// Return the number of helper threads that perform the I/O.
    fn helpers(&self) -> usize {
        0
    }

    /// Return the CPU time in nanoseconds that the helper threads have used.
    fn helper_cpu_ns(&self) -> u64 {
        0
    }

    /// Return the buffers whose slots the operations refer to.
    ///
    /// The reference is shared, so that safe code cannot replace memory that the kernel still reads
    /// or writes:
    ///
    /// ```compile_fail,E0308
    /// # use storlab_io::{Arena, Backend};
    /// fn swap(backend: &mut impl Backend, mut other: Arena) {
    ///     std::mem::swap(backend.arena(), &mut other);
    /// }
    /// ```
    fn arena(&self) -> &Arena;

    /// Return a handle that ends waits from other threads. Call this on the backend's own thread.
    fn waker(&self) -> Arc<dyn Wake>;

    /// Discard the backend while operations are in flight that will never be reaped. Their memory
    /// is leaked, because the kernel may still write to it.
    fn abandon(self);
}
