//! Interface of the I/O backends (io_uring, posix, null).

use std::sync::Arc;
use std::time::Duration;

use storlab_base::{OpKind, Signal};

use crate::arena::Arena;
use crate::file::File;

/// Size of a worker's queue, by which a backend sizes its rings and threads.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    /// Maximum number of operations in flight.
    pub depth: usize,
    /// Maximum number of operations submitted at a time.
    pub batch: usize,
    /// Maximum number of parts of an operation; each part is an I/O on one file.
    pub parts: usize,
}

impl Queue {
    /// Return the size of a queue of `depth` operations that access one file each and may all be
    /// submitted at once.
    pub fn of_depth(depth: usize) -> Self {
        Queue { depth, batch: depth, parts: 1 }
    }
}

/// I/O operation on an open file, to be queued in a [`Backend`].
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// Kind of operation: read, write, trim or sync.
    pub kind: OpKind,
    /// Index of the file in the list of the backend's files.
    pub file: u16,
    /// For [`OpKind::Sync`]: flush only the data (`fdatasync`), not the metadata.
    pub data_only: bool,
    /// Index of the buffer slot that the data is read into or written from; ignored for trim and
    /// sync.
    pub slot: u32,
    /// Offset in bytes of the data within the slot.
    pub slot_offset: u32,
    /// Length of the I/O in bytes.
    pub len: u32,
    /// Offset in bytes within the file.
    pub offset: u64,
    /// Number chosen by the caller, returned with the completion. [`WAKE_TAG`] is reserved.
    pub tag: u64,
}

/// Result of an operation that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// Tag that the operation was given.
    pub tag: u64,
    /// Number of bytes read or written, or a negative errno.
    pub result: i32,
}

/// Tag reserved for wake-ups. Operations must not use it.
pub const WAKE_TAG: u64 = u64::MAX;

/// Handle by which another thread wakes a worker that waits in its backend.
pub trait Wake: Send + Sync {
    /// Make the worker's current wait, or its next one, return at once.
    fn wake(&self);
}

/// Wakes a thread that waits for the signal to become true. The woken thread resets the signal.
impl Wake for Signal<bool> {
    fn wake(&self) {
        self.change(|woken| *woken = true);
    }
}

/// I/O backend: performs reads, writes, trims and flushes on files, with buffers of an [`Arena`].
pub trait Backend {
    /// Return the backend's name as it appears in results.
    fn name(&self) -> &'static str;

    /// Return the kernel features that the backend uses, as they appear in results.
    fn features(&self) -> Vec<&'static str>;

    /// Set the file that operations with file index `index` use from now on. The index may be new.
    ///
    /// No operation may be in flight on the former file. The caller must keep the new file open
    /// while an operation is in flight on it.
    fn replace_file(&mut self, index: usize, file: &File);

    /// Queue an operation for the next [`Backend::submit`].
    ///
    /// # Panics
    /// If the operation's bytes do not lie within its buffer slot, or if its file index does not
    /// exist.
    fn push(&mut self, op: &Op);

    /// Submit all queued operations, and let the kernel post completions that are pending.
    ///
    /// The next [`Backend::reap`] returns these completions even if this call did not wait. With
    /// `wait`, this call waits for at least one completion, but no longer than `timeout`.
    ///
    /// # Errors
    /// The error of the submission itself. Errors of operations are reported in their completions.
    fn submit(&mut self, wait: bool, timeout: Option<Duration>) -> std::io::Result<()>;

    /// Append up to `limit` available completions to `into`.
    fn reap(&mut self, into: &mut Vec<Completion>, limit: usize);

    /// Ask the kernel to cancel all operations in flight. Each one still gets a completion.
    fn cancel_all(&mut self);

    /// Return the number of helper threads that perform I/O for this backend.
    fn helpers(&self) -> usize {
        0
    }

    /// Return the total CPU time of the helper threads, in ns.
    fn helper_cpu_ns(&self) -> u64 {
        0
    }

    /// Return the arena whose slots hold the data of the operations.
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

    /// Return a handle by which other threads end this backend's waits. Must be called on the
    /// thread that uses the backend.
    fn waker(&self) -> Arc<dyn Wake>;

    /// Discard the backend although operations are in flight and will never be reaped. Their
    /// buffers are leaked, because the kernel may still write to them.
    fn abandon(self);
}
