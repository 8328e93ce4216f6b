//! Host path: reads and writes between storage and host memory, without a GPU.

use std::fs::File;

use memmap2::MmapMut;
use storlab_base::{OpKind, Result};

use super::{Io, Landing, OneByOne, WorkerResources, read_at, write_at};
use crate::content::place_of;
use crate::errors::{Done, Fault};
use crate::files;
use crate::shared::Shared;

/// Data path between storage and host memory, without a GPU.
pub struct Host {
    file: File,
    buffer: MmapMut,
    resources: WorkerResources,
}

impl Host {
    /// Open the worker's file and allocate its buffer.
    ///
    /// # Errors
    /// If the file cannot be opened or memory cannot be allocated.
    pub fn new(shared: &Shared, resources: WorkerResources) -> Result<Self> {
        let job = &shared.job;
        let file = files::open(job, &job.members[resources.file])?;
        let mut buffer = files::pages(resources.longest)?;
        buffer.fill(0); // fault the pages in here, not within the first operation
        Ok(Host { file, buffer, resources })
    }
}

impl OneByOne for Host {
    #[inline]
    fn move_now(&mut self, io: &Io) -> Done<u64> {
        let len = io.bytes();
        if io.kind == OpKind::Read {
            return read_at(&self.file, &mut self.buffer[..len], io.offset);
        }
        let pool = self.resources.stack.host_pool.as_ref().ok_or(Fault::Errno(libc::ENOBUFS))?;
        let at = place_of(self.resources.begin, io.offset);
        write_at(&self.file, &pool[at..at + len], io.offset)
    }

    fn landing(&mut self, _: u16) -> Done<Landing<'_>> {
        Ok(Landing::Host(&mut self.buffer))
    }
}
