//! Memory that several threads share as plain atomic words.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64};

use memmap2::{MmapOptions, MmapRaw};

/// Zero-filled anonymous memory, or a file that is written back by the kernel.
#[derive(Debug)]
pub(super) struct Mapping(MmapRaw);

impl Mapping {
    /// Zeros, page-aligned.
    pub(super) fn anonymous(bytes: usize) -> io::Result<Self> {
        Ok(Mapping(MmapOptions::new().len(bytes).no_reserve_swap().map_anon()?.into()))
    }

    /// The first `bytes` of a file at least as long.
    pub(super) fn shared(file: &File, bytes: usize) -> io::Result<Self> {
        Ok(Mapping(MmapOptions::new().len(bytes).map_raw(file)?))
    }

    #[allow(unsafe_code)]
    pub(super) fn words32(&self) -> &[AtomicU32] {
        // SAFETY: page-aligned, zero or file content (any bits are valid), and alive as long as
        // `self`. Other users of the memory, in any process, use atomics too.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() / 4) }
    }

    #[allow(unsafe_code)]
    pub(super) fn words64(&self) -> &[AtomicU64] {
        // SAFETY: as `words32`.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() / 8) }
    }

    /// Waits until the file holds what the memory holds.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.0.flush()
    }
}
