//! CUDA streams, and events recorded on them.

use super::{Cuda, Handle, NOT_READY, done};
use crate::errors::{Done, Fault};

/// `CU_STREAM_NON_BLOCKING`: no implicit synchronisation with the default stream.
const NON_BLOCKING: u32 = 1;
/// `CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING`: threads sleep while they wait for the event,
/// and no times are recorded.
const PLAIN: u32 = 1 | 2;

/// CUDA stream: a queue of work that a GPU executes in order.
pub struct Stream {
    cuda: &'static Cuda,
    handle: Handle,
}

impl Stream {
    /// Create a stream on the GPU that is current on this thread.
    pub fn new(cuda: &'static Cuda) -> Done<Self> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the function writes one handle.
        done(unsafe { (cuda.functions.stream_create)(&raw mut handle, NON_BLOCKING) })?;
        Ok(Stream { cuda, handle })
    }

    /// Return the CUDA driver's handle of the stream.
    #[inline]
    pub fn raw(&self) -> Handle {
        self.handle
    }

    /// Return whether all work on the stream is done.
    #[inline]
    pub fn is_idle(&self) -> Done<bool> {
        // SAFETY: the handle is valid until `self` is dropped.
        ready(unsafe { (self.cuda.functions.stream_query)(self.handle) })
    }

    /// Wait until all work on the stream is done.
    pub fn wait(&self) -> Done<()> {
        // SAFETY: the handle is valid until `self` is dropped.
        done(unsafe { (self.cuda.functions.stream_synchronize)(self.handle) })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the stream was created once; the driver lets work in flight on it finish.
        unsafe { (self.cuda.functions.stream_destroy)(self.handle) };
    }
}

/// CUDA event: a marker in the work of a stream.
pub struct Event {
    cuda: &'static Cuda,
    handle: Handle,
}

impl Event {
    /// Create an event on the GPU that is current on this thread.
    pub fn new(cuda: &'static Cuda) -> Done<Self> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the function writes one handle.
        done(unsafe { (cuda.functions.event_create)(&raw mut handle, PLAIN) })?;
        Ok(Event { cuda, handle })
    }

    /// Record the event on `stream`, after all work enqueued so far.
    #[inline]
    pub fn mark(&self, stream: &Stream) -> Done<()> {
        // SAFETY: both handles are valid until their owners are dropped.
        done(unsafe { (self.cuda.functions.event_record)(self.handle, stream.handle) })
    }

    /// Wait until the stream has reached the event.
    ///
    /// The thread sleeps; waiting for the stream itself would spin on a core.
    pub fn wait(&self) -> Done<()> {
        // SAFETY: the handle is valid until `self` is dropped.
        done(unsafe { (self.cuda.functions.event_synchronize)(self.handle) })
    }

    /// Return whether the stream has reached the event.
    #[inline]
    pub fn has_passed(&self) -> Done<bool> {
        // SAFETY: the handle is valid until `self` is dropped.
        ready(unsafe { (self.cuda.functions.event_query)(self.handle) })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the event was created once.
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
