//! Shared memory accessed as atomic words.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64};

use memmap2::{MmapOptions, MmapRaw};

/// Zero-filled anonymous memory, or a shared file mapping that the kernel writes back.
#[derive(Debug)]
pub(super) struct Mapping(MmapRaw);

impl Mapping {
    /// Map zero-filled anonymous memory, page-aligned.
    pub(super) fn anonymous(bytes: usize) -> io::Result<Self> {
        Ok(Mapping(MmapOptions::new().len(bytes).no_reserve_swap().map_anon()?.into()))
    }

    /// Map the first `bytes` of a file, which must be at least that long.
    pub(super) fn shared(file: &File, bytes: usize) -> io::Result<Self> {
        Ok(Mapping(MmapOptions::new().len(bytes).map_raw(file)?))
    }

    #[allow(unsafe_code)]
    pub(super) fn words32(&self) -> &[AtomicU32] {
        // SAFETY: the memory is page-aligned, stays mapped as long as `self` lives, and holds zeros
        // or file content, of which any bits are valid. All other code that accesses the memory, in
        // any process, also uses atomics.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() / 4) }
    }

    #[allow(unsafe_code)]
    pub(super) fn words64(&self) -> &[AtomicU64] {
        // SAFETY: for the same reasons as in `words32`; page alignment also suits words of 8 bytes.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() / 8) }
    }

    /// Write the memory back to the file, and wait until that is done.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.0.flush()
    }
}
