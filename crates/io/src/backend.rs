//! What every backend can do.

use std::sync::Arc;
use std::time::Duration;

use storlab_base::OpKind;

use crate::arena::Arena;
use crate::file::File;

/// One operation on one open file.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// What to do.
    pub kind: OpKind,
    /// Index of the file.
    pub file: u16,
    /// For [`OpKind::Sync`]: data only.
    pub data_only: bool,
    /// Buffer slot; none for trim and sync.
    pub slot: u32,
    /// Where in the slot the data begins.
    pub slot_offset: u32,
    /// Bytes.
    pub len: u32,
    /// In the file.
    pub offset: u64,
    /// Comes back with the completion. [`WAKE_TAG`] is taken.
    pub tag: u64,
}

/// An operation that ended.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// Of the operation.
    pub tag: u64,
    /// Bytes moved, or a negative errno.
    pub result: i32,
}

/// The tag that no operation may have.
pub const WAKE_TAG: u64 = u64::MAX;

/// Ends a wait of a backend from another thread.
pub trait Wake: Send + Sync {
    /// The current or the next wait returns at once.
    fn wake(&self);
}

/// Moves bytes between buffers and files.
pub trait Backend {
    /// Word for results.
    fn name(&self) -> &'static str;

    /// Which abilities of the kernel it uses.
    fn features(&self) -> Vec<&'static str>;

    /// Operations on file `index` go to this one from now on, where there was none, too. None is in
    /// flight on the former; the new one stays open as long as there is one on it.
    fn replace_file(&mut self, index: usize, file: &File);

    /// Queue an operation for the next [`Backend::submit`].
    ///
    /// # Panics
    /// Where its bytes do not lie within its buffer slot, or there is no such file.
    fn push(&mut self, op: &Op);

    /// Hand over what was pushed, and let the kernel finish what has ended: the next
    /// [`Backend::reap`] finds it, also where this call does not wait. Wait until at least one
    /// completion is there when `wait`, no longer than `timeout`.
    ///
    /// # Errors
    /// What the kernel says of the call itself; errors of operations come as completions.
    fn submit(&mut self, wait: bool, timeout: Option<Duration>) -> std::io::Result<()>;

    /// Append completions that are there, `limit` of them at most.
    fn reap(&mut self, into: &mut Vec<Completion>, limit: usize);

    /// Ask the kernel to give up what is in flight. Completions still come.
    fn cancel_all(&mut self);

    /// Threads that do its I/O.
    fn helpers(&self) -> usize {
        0
    }

    /// CPU that these threads have used, in ns.
    fn helper_cpu_ns(&self) -> u64 {
        0
    }

    /// Return the buffers that operations name by their slots.
    ///
    /// Shared, so that safe code cannot put other memory in place of what the kernel still reads
    /// and writes:
    ///
    /// ```compile_fail,E0308
    /// # use storlab_io::{Arena, Backend};
    /// fn swap(backend: &mut impl Backend, mut other: Arena) {
    ///     std::mem::swap(backend.arena(), &mut other);
    /// }
    /// ```
    fn arena(&self) -> &Arena;

    /// Ends waits from other threads. Asked for on the backend's own thread.
    fn waker(&self) -> Arc<dyn Wake>;

    /// Operations are still in flight and will never be reaped: keep their memory for good.
    fn abandon(self);
}
