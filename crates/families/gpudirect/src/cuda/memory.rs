//! Memory of a GPU, and memory of the host that it can copy from by itself.

use std::ffi::c_void;

use storlab_base::{Error, Result, page_bytes};
use storlab_io::Arena;

use super::{Cuda, Stream, done};
use crate::errors::Done;

/// What cuFile pins is counted in pages of so many bytes.
pub const GPU_PAGE: usize = 64 << 10;
/// What storage wants buffers to be aligned to.
const ALIGNMENT: u64 = 4096;
/// Pinned memory is pinned for all contexts.
const PORTABLE: u32 = 1;

/// Memory of the GPU that was current as it was made. To be used and dropped on threads of that.
pub struct DeviceBuffer {
    cuda: &'static Cuda,
    allocated: u64,
    start: u64,
    len: usize,
}

impl DeviceBuffer {
    /// Whole pages of the GPU.
    ///
    /// # Errors
    /// By name, as where there is no room.
    pub fn new(cuda: &'static Cuda, len: usize) -> Result<Self> {
        let len = len.next_multiple_of(GPU_PAGE);
        let buffer = Self::allocate(cuda, len, len)?;
        if buffer.start.is_multiple_of(ALIGNMENT) {
            return Ok(buffer);
        }
        drop(buffer);
        let mut buffer = Self::allocate(cuda, len + GPU_PAGE, len)?;
        buffer.start = buffer.start.next_multiple_of(GPU_PAGE as u64);
        Ok(buffer)
    }

    fn allocate(cuda: &'static Cuda, bytes: usize, len: usize) -> Result<Self> {
        let mut start = 0;
        // SAFETY: writes one address.
        done(unsafe { (cuda.functions.allocate)(&raw mut start, bytes) })
            .map_err(|fault| fault.of(&format!("a buffer of {bytes} bytes in GPU memory")))?;
        Ok(DeviceBuffer { cuda, allocated: start, start, len })
    }

    /// Its address, of no meaning to the host.
    pub fn address(&self) -> u64 {
        self.start
    }

    /// In bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    fn place(&self, at: usize, len: usize) -> u64 {
        assert!(at + len <= self.len, "bytes {at} to {} of {} on the GPU", at + len, self.len);
        self.start + at as u64
    }

    /// Copy into it from pinned memory, and wait for that.
    #[inline]
    pub fn write(&self, at: usize, from: &[u8]) -> Done<()> {
        let to = self.place(at, from.len());
        // SAFETY: both ranges were checked, and the call returns when it has read the source.
        done(unsafe { (self.cuda.functions.to_device)(to, from.as_ptr().cast(), from.len()) })
    }

    /// Copy into it from any memory, and wait until all of it lies there. Of memory that is not
    /// pinned a copy returns once the driver has read that: the last of it may land on what others
    /// than the driver bring later.
    pub fn put(&self, at: usize, from: &[u8]) -> Done<()> {
        self.write(at, from)?;
        // SAFETY: null is the default stream, which the copy was made on.
        done(unsafe { (self.cuda.functions.stream_synchronize)(std::ptr::null_mut()) })
    }

    /// Start a copy of `len` bytes to the beginning of this buffer from another of the same GPU.
    ///
    /// # Safety
    /// Neither buffer may be dropped before `by` has made the copy.
    #[inline]
    pub unsafe fn start_copy(
        &self,
        from: (&DeviceBuffer, usize),
        len: usize,
        by: &Stream,
    ) -> Done<()> {
        let (to, from) = (self.place(0, len), from.0.place(from.1, len));
        // SAFETY: both ranges were checked, and stay by the caller's promise.
        done(unsafe { (self.cuda.functions.on_device_async)(to, from, len, by.raw()) })
    }

    /// Copy from it, and wait for that.
    #[inline]
    pub fn read(&self, at: usize, into: &mut [u8]) -> Done<()> {
        let from = self.place(at, into.len());
        // SAFETY: both ranges were checked, and the call returns when all is there.
        done(unsafe { (self.cuda.functions.to_host)(into.as_mut_ptr().cast(), from, into.len()) })
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        // SAFETY: it was allocated once; nothing is in flight on it, or the process keeps it.
        unsafe { (self.cuda.functions.free)(self.allocated) };
    }
}

/// Memory of the host, pinned.
pub struct PinnedBuffer {
    cuda: &'static Cuda,
    start: *mut c_void,
    len: usize,
}

// SAFETY: it is plain memory, which one thread at a time has.
unsafe impl Send for PinnedBuffer {}

impl PinnedBuffer {
    /// Aligned to pages.
    ///
    /// # Errors
    /// By name, as where there is no room.
    pub fn new(cuda: &'static Cuda, len: usize) -> Result<Self> {
        let (mut start, bytes) = (std::ptr::null_mut(), len.next_multiple_of(page_bytes()));
        // SAFETY: writes one address.
        done(unsafe { (cuda.functions.host_allocate)(&raw mut start, bytes, PORTABLE) })
            .map_err(|fault| fault.of(&format!("{bytes} bytes of pinned memory")))?;
        if start.is_null() || !(start as u64).is_multiple_of(512) {
            return Err(Error::dependency(
                "pinned memory is not aligned",
                "report this to storlab",
            ));
        }
        Ok(PinnedBuffer { cuda, start, len })
    }

    /// Its bytes.
    #[inline]
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: so much was allocated, nobody else has it, and it is gone with this only.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast(), self.len) }
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        // SAFETY: it was allocated once, and copies from and to it are waited for.
        unsafe { (self.cuda.functions.host_free)(self.start) };
    }
}

/// The buffers of a backend, pinned where they lie, so that the GPU copies from and to them.
pub struct PinnedArena {
    cuda: &'static Cuda,
    start: *mut c_void,
    pinned: bool,
}

impl PinnedArena {
    /// Pin all slots of an arena.
    ///
    /// # Errors
    /// If the arena has no slots, or the driver may pin no more memory.
    ///
    /// # Safety
    /// The arena must not be dropped before the returned value.
    pub unsafe fn new(cuda: &'static Cuda, arena: &Arena) -> Result<Self> {
        let (slots, slot_bytes) = (arena.slots(), arena.slot_bytes());
        if slots == 0 {
            return Err(Error::spec("queue_depth", "is 0", "use 1 or more"));
        }
        let start: *mut c_void = arena.address(0).cast();
        let last = arena.address(slots as u32 - 1) as usize;
        let bytes = (last + slot_bytes).next_multiple_of(page_bytes()) - start as usize;
        let mut pinned = false;
        if let Some(register) = cuda.functions.host_register.filter(|_| cuda.pins()) {
            // SAFETY: the mapping has these bytes, and outlives this by the caller's promise.
            done(unsafe { register(start, bytes, PORTABLE) })
                .map_err(|fault| fault.of(&format!("pinning {bytes} bytes of memory")))?;
            pinned = true;
        }
        Ok(PinnedArena { cuda, start, pinned })
    }

    /// Return whether the memory is pinned, so that copies need no help of the driver.
    pub fn is_pinned(&self) -> bool {
        self.pinned
    }

    /// Start a copy of a slot's first `len` bytes to the GPU.
    ///
    /// # Safety
    /// Until `stream` has made the copy, nothing may write to the slot, and neither `arena` nor the
    /// GPU buffer may be dropped.
    #[inline]
    pub unsafe fn start_to_device(
        &self,
        arena: &Arena,
        slot: u32,
        len: usize,
        to: (&DeviceBuffer, usize),
        stream: &Stream,
    ) -> Done<()> {
        let address = to.0.place(to.1, len);
        let from = arena.part(slot, 0, len as u32);
        // SAFETY: both ranges were checked; the caller keeps both until the copy is made.
        done(unsafe {
            let start = self.cuda.functions.to_device_async;
            start(address, from.cast(), len, stream.raw())
        })
    }

    /// Start a copy from the GPU into a slot's first `len` bytes.
    ///
    /// # Safety
    /// Until `stream` has made the copy, nothing may read or write the slot, and neither `arena`
    /// nor the GPU buffer may be dropped.
    #[inline]
    pub unsafe fn start_to_host(
        &self,
        arena: &Arena,
        slot: u32,
        len: usize,
        from: (&DeviceBuffer, usize),
        stream: &Stream,
    ) -> Done<()> {
        let address = from.0.place(from.1, len);
        let into = arena.part(slot, 0, len as u32);
        // SAFETY: both ranges were checked; the caller keeps both until the copy is made.
        done(unsafe {
            let start = self.cuda.functions.to_host_async;
            start(into.cast(), address, len, stream.raw())
        })
    }
}

impl Drop for PinnedArena {
    fn drop(&mut self) {
        if let Some(unregister) = self.cuda.functions.host_unregister.filter(|_| self.pinned) {
            // SAFETY: it was registered once, and its copies are made: the callers that started
            // them promised to keep the arena until then, which outlives this.
            unsafe { unregister(self.start) };
        }
    }
}
