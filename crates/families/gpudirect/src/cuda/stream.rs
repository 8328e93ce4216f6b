//! Streams, and events on them.

use super::{Cuda, Handle, NOT_READY, done};
use crate::errors::{Done, Fault};

/// Does not wait for the default stream, nor that for it.
const NON_BLOCKING: u32 = 1;
/// A waiting thread sleeps; no times are taken.
const PLAIN: u32 = 1 | 2;

/// Work of a GPU, one after the other.
pub struct Stream {
    cuda: &'static Cuda,
    handle: Handle,
}

impl Stream {
    /// On the GPU that this thread is on.
    pub fn new(cuda: &'static Cuda) -> Done<Self> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes one handle.
        done(unsafe { (cuda.functions.stream_create)(&raw mut handle, NON_BLOCKING) })?;
        Ok(Stream { cuda, handle })
    }

    /// The driver's name of it.
    #[inline]
    pub fn raw(&self) -> Handle {
        self.handle
    }

    /// All of it is done.
    #[inline]
    pub fn is_idle(&self) -> Done<bool> {
        // SAFETY: the handle is good until this is dropped.
        ready(unsafe { (self.cuda.functions.stream_query)(self.handle) })
    }

    /// Until all of it is done.
    pub fn wait(&self) -> Done<()> {
        // SAFETY: as above.
        done(unsafe { (self.cuda.functions.stream_synchronize)(self.handle) })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: it was made once; the driver lets work on it end.
        unsafe { (self.cuda.functions.stream_destroy)(self.handle) };
    }
}

/// A mark on a stream.
pub struct Event {
    cuda: &'static Cuda,
    handle: Handle,
}

impl Event {
    /// On the GPU that this thread is on.
    pub fn new(cuda: &'static Cuda) -> Done<Self> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes one handle.
        done(unsafe { (cuda.functions.event_create)(&raw mut handle, PLAIN) })?;
        Ok(Event { cuda, handle })
    }

    /// Behind what the stream has to do now.
    #[inline]
    pub fn mark(&self, stream: &Stream) -> Done<()> {
        // SAFETY: both handles are good until they are dropped.
        done(unsafe { (self.cuda.functions.event_record)(self.handle, stream.handle) })
    }

    /// Until the stream has come to it. The thread sleeps, where waiting for the stream itself
    /// would spin on a core.
    pub fn wait(&self) -> Done<()> {
        // SAFETY: as above.
        done(unsafe { (self.cuda.functions.event_synchronize)(self.handle) })
    }

    /// The stream has come to it.
    #[inline]
    pub fn has_passed(&self) -> Done<bool> {
        // SAFETY: as above.
        ready(unsafe { (self.cuda.functions.event_query)(self.handle) })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: it was made once.
        unsafe { (self.cuda.functions.event_destroy)(self.handle) };
    }
}

#[inline]
fn ready(result: i32) -> Done<bool> {
    match result {
        0 => Ok(true),
        NOT_READY => Ok(false),
        code => Err(Fault::Cuda(code)),
    }
}
