//! Null backend: completes every operation at once without I/O. It serves to measure the cost of
//! the engine itself.

use std::io;
use std::sync::Arc;
use std::thread::Thread;
use std::time::Duration;

use storlab_base::{OpKind, Result};

use crate::arena::Arena;
use crate::backend::{Backend, Completion, Op, Queue, Wake};
use crate::file::File;

/// Backend that completes every operation at once without I/O.
pub struct NullBackend {
    arena: Arena,
    done: Vec<Completion>,
}

impl NullBackend {
    /// Create the backend; it needs no files.
    ///
    /// # Errors
    /// Never; the signature is that of the other backends, which may fail.
    pub fn new(_: Arc<Vec<File>>, arena: Arena, _: Queue) -> Result<Self> {
        Ok(NullBackend { arena, done: Vec::new() })
    }

    /// Return 1: the worker's own thread.
    pub fn threads(_: Queue) -> usize {
        1
    }
}

/// Worker thread that may be parked until its next operation is due.
struct Parked(Thread);

impl Wake for Parked {
    fn wake(&self) {
        self.0.unpark();
    }
}

impl Backend for NullBackend {
    fn name(&self) -> &'static str {
        "null"
    }

    fn features(&self) -> Vec<&'static str> {
        Vec::new()
    }

    fn replace_file(&mut self, _index: usize, _file: &File) {}

    #[inline]
    fn push(&mut self, op: &Op) {
        let moved = if matches!(op.kind, OpKind::Read | OpKind::Write) { op.len as i32 } else { 0 };
        self.done.push(Completion { tag: op.tag, result: moved });
    }

    #[inline]
    fn submit(&mut self, wait: bool, timeout: Option<Duration>) -> io::Result<()> {
        if let (true, true, Some(timeout)) = (wait, self.done.is_empty(), timeout) {
            std::thread::park_timeout(timeout);
        }
        Ok(())
    }

    #[inline]
    fn reap(&mut self, into: &mut Vec<Completion>, limit: usize) {
        let count = self.done.len().min(limit);
        into.extend(self.done.drain(..count));
    }

    fn cancel_all(&mut self) {}

    fn arena(&self) -> &Arena {
        &self.arena
    }

    fn waker(&self) -> Arc<dyn Wake> {
        Arc::new(Parked(std::thread::current()))
    }

    fn abandon(self) {}
}
