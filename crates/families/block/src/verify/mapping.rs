//! Memory that several threads share as plain atomic words, or that one owner reads into.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Zero-filled anonymous memory, or a file that is written back by the kernel.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: plain memory, bound to no thread. Shared references give atomics only; bytes need `&mut`.
#[allow(unsafe_code)]
unsafe impl Send for Mapping {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Zeros, page-aligned.
    pub(super) fn anonymous(bytes: usize) -> io::Result<Self> {
        Self::map(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1)
    }

    /// The first `bytes` of a file at least as long.
    pub(super) fn shared(file: &File, bytes: usize) -> io::Result<Self> {
        Self::map(bytes, libc::MAP_SHARED, file.as_raw_fd())
    }

    #[allow(unsafe_code)]
    fn map(bytes: usize, flags: i32, fd: i32) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, fd, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mmap gave 0"))?;
        Ok(Mapping { start, bytes })
    }

    #[allow(unsafe_code)]
    pub(super) fn words32(&self) -> &[AtomicU32] {
        // SAFETY: page-aligned, `bytes` long, zero or file content (any bits are valid), and alive
        // as long as `self`. Other users of the memory, in any process, use atomics too.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.bytes / 4) }
    }

    #[allow(unsafe_code)]
    pub(super) fn words64(&self) -> &[AtomicU64] {
        // SAFETY: as `words32`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.bytes / 8) }
    }

    /// Of an anonymous mapping.
    #[allow(unsafe_code)]
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: `&mut self` excludes every other reference into this private memory.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }

    /// Waits until the file holds what the memory holds.
    #[allow(unsafe_code)]
    pub(super) fn sync(&self) -> io::Result<()> {
        // SAFETY: exactly our own mapping.
        match unsafe { libc::msync(self.start.as_ptr().cast(), self.bytes, libc::MS_SYNC) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Mapping {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the mapping is ours alone and no reference outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
