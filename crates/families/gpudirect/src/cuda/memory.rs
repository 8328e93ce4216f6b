//! Buffers in GPU memory, and pinned host memory that the GPU can copy from and to.

use std::ffi::c_void;

use storlab_base::{Error, Result, page_bytes};
use storlab_io::Arena;

use super::{Cuda, Stream, done};
use crate::errors::Done;

/// Granularity in bytes of the GPU memory that cuFile pins.
pub const GPU_PAGE: usize = 64 << 10;
/// Alignment of buffers for direct I/O, in bytes.
const ALIGNMENT: u64 = 4096;
/// `CU_MEMHOSTALLOC_PORTABLE`: the memory is pinned for all contexts.
const PORTABLE: u32 = 1;

/// Buffer in the memory of the GPU that was current when it was created.
///
/// Use and drop it only on threads on which that GPU is current.
pub struct DeviceBuffer {
    cuda: &'static Cuda,
    allocated: u64,
    start: u64,
    len: usize,
}

impl DeviceBuffer {
    /// Allocate at least `len` bytes, rounded up to whole GPU pages.
    ///
    /// # Errors
    /// If the GPU has no room or its context is lost.
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
        // SAFETY: the function writes one address.
        done(unsafe { (cuda.functions.allocate)(&raw mut start, bytes) })
            .map_err(|fault| fault.of(&format!("a buffer of {bytes} bytes in GPU memory")))?;
        Ok(DeviceBuffer { cuda, allocated: start, start, len })
    }

    /// Return the GPU address of the buffer; the host cannot dereference it.
    pub fn address(&self) -> u64 {
        self.start
    }

    /// Return the length of the buffer in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    fn place(&self, at: usize, len: usize) -> u64 {
        assert!(at + len <= self.len, "bytes {at} to {} of {} on the GPU", at + len, self.len);
        self.start + at as u64
    }

    /// Copy `from`, which must be pinned, into the buffer at offset `at`, and wait for the copy.
    #[inline]
    pub fn write(&self, at: usize, from: &[u8]) -> Done<()> {
        let to = self.place(at, from.len());
        // SAFETY: both ranges were checked, and the call returns when it has read the source.
        done(unsafe { (self.cuda.functions.to_device)(to, from.as_ptr().cast(), from.len()) })
    }

    /// Copy `from`, pinned or not, into the buffer at offset `at`, and wait until it is in GPU
    /// memory.
    ///
    /// A copy from memory that is not pinned returns once the driver has read the source. Without
    /// the wait, the last part of the copy might overwrite data that another DMA engine writes
    /// later.
    pub fn put(&self, at: usize, from: &[u8]) -> Done<()> {
        self.write(at, from)?;
        // SAFETY: null is the default stream, on which the copy was made.
        done(unsafe { (self.cuda.functions.stream_synchronize)(std::ptr::null_mut()) })
    }

    /// Enqueue a copy of `len` bytes on stream `by`: from `from` (a buffer of the same GPU, and an
    /// offset in it) to the start of this buffer.
    ///
    /// # Safety
    /// Neither buffer may be dropped before the stream has made the copy.
    #[inline]
    pub unsafe fn start_copy(
        &self,
        from: (&DeviceBuffer, usize),
        len: usize,
        by: &Stream,
    ) -> Done<()> {
        let (to, from) = (self.place(0, len), from.0.place(from.1, len));
        // SAFETY: both ranges were checked; the caller keeps both buffers until the copy is made.
        done(unsafe { (self.cuda.functions.on_device_async)(to, from, len, by.raw()) })
    }

    /// Copy from the buffer at offset `at` into host memory, and wait for the copy.
    #[inline]
    pub fn read(&self, at: usize, into: &mut [u8]) -> Done<()> {
        let from = self.place(at, into.len());
        // SAFETY: both ranges were checked, and the call returns when the copy is complete.
        done(unsafe { (self.cuda.functions.to_host)(into.as_mut_ptr().cast(), from, into.len()) })
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        // SAFETY: the memory was allocated once; a buffer with I/O in flight is leaked, not
        // dropped.
        unsafe { (self.cuda.functions.free)(self.allocated) };
    }
}

/// Pinned (page-locked) host memory, which the GPU can access by DMA.
pub struct PinnedBuffer {
    cuda: &'static Cuda,
    start: *mut c_void,
    len: usize,
}

// SAFETY: the buffer is plain memory with a single owner.
unsafe impl Send for PinnedBuffer {}

impl PinnedBuffer {
    /// Allocate `len` bytes, aligned to pages.
    ///
    /// # Errors
    /// If the driver cannot pin that much memory.
    pub fn new(cuda: &'static Cuda, len: usize) -> Result<Self> {
        let (mut start, bytes) = (std::ptr::null_mut(), len.next_multiple_of(page_bytes()));
        // SAFETY: the function writes one address.
        done(unsafe { (cuda.functions.host_allocate)(&raw mut start, bytes, PORTABLE) })
            .map_err(|fault| fault.of(&format!("{bytes} bytes of pinned memory")))?;
        if start.is_null() || !(start as u64).is_multiple_of(512) {
            return Err(Error::dependency(
                "the CUDA driver returned pinned memory that is not aligned to 512 bytes",
                "report this to storlab",
            ));
        }
        Ok(PinnedBuffer { cuda, start, len })
    }

    /// Return the pinned memory as a slice.
    #[inline]
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `len` bytes were allocated; this value owns them exclusively until it is dropped.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast(), self.len) }
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        // SAFETY: the memory was allocated once, and all copies from and to it are synchronous.
        unsafe { (self.cuda.functions.host_free)(self.start) };
    }
}

/// Registration of an I/O backend's buffers as pinned memory, for copies from and to the GPU.
pub struct PinnedArena {
    cuda: &'static Cuda,
    start: *mut c_void,
    pinned: bool,
}

impl PinnedArena {
    /// Pin all buffers ("slots") of an arena.
    ///
    /// # Errors
    /// If the arena has no slots, or the driver cannot pin that much memory.
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
            // SAFETY: the mapping has this many bytes, and the caller keeps it longer than this
            // value.
            done(unsafe { register(start, bytes, PORTABLE) })
                .map_err(|fault| fault.of(&format!("pinning {bytes} bytes of memory")))?;
            pinned = true;
        }
        Ok(PinnedArena { cuda, start, pinned })
    }

    /// Return whether the memory is pinned. If not, the driver copies through its own buffers.
    pub fn is_pinned(&self) -> bool {
        self.pinned
    }

    /// Start a copy of the first `len` bytes of buffer number `slot` to the GPU.
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

    /// Start a copy from the GPU into the first `len` bytes of buffer number `slot`.
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
            // SAFETY: the memory was registered once, and no copy is in flight: callers of
            // `start_*` keep the arena until their copies are made, and `self` is dropped before
            // the arena.
            unsafe { unregister(self.start) };
        }
    }
}
