//! Bounce path: the kernel reads into pinned host memory, then the driver copies to the GPU. The
//! two steps run one after the other.

use std::fs::File;

use storlab_base::{OpKind, Result};

use super::{Io, Landing, OneByOne, WorkerResources, read_at, write_at};
use crate::cuda::{DeviceBuffer, PinnedBuffer};
use crate::errors::{Done, Fault};
use crate::files;
use crate::shared::Shared;

/// Data path through a bounce buffer in pinned host memory, one operation at a time.
pub struct Bounce {
    file: File,
    pinned: PinnedBuffer,
    buffer: Option<DeviceBuffer>,
    resources: WorkerResources,
}

impl Bounce {
    /// Open the worker's file and allocate its buffers.
    ///
    /// # Errors
    /// If the file cannot be opened, or memory cannot be allocated or pinned.
    pub fn new(shared: &Shared, resources: WorkerResources) -> Result<Self> {
        let job = &shared.job;
        let file = files::open(job, &job.members[resources.file])?;
        let pinned = PinnedBuffer::new(resources.cuda()?, resources.longest)?;
        let buffer = resources.read_buffers(job)?;
        Ok(Bounce { file, pinned, buffer, resources })
    }
}

impl OneByOne for Bounce {
    #[inline]
    fn move_now(&mut self, io: &Io) -> Done<u64> {
        let pinned = &mut self.pinned.bytes()[..io.bytes()];
        if io.kind == OpKind::Read {
            let moved = read_at(&self.file, pinned, io.offset)?;
            let buffer = self.buffer.as_ref().ok_or(Fault::Errno(libc::ENOBUFS))?;
            buffer.write(self.resources.at(io.slot), &pinned[..moved as usize])?;
            return Ok(moved);
        }
        let (source, at) = self.resources.source(io.offset)?;
        source.read(at, pinned)?;
        write_at(&self.file, pinned, io.offset)
    }

    fn landing(&mut self, slot: u16) -> Done<Landing<'_>> {
        self.resources.landing(self.buffer.as_ref(), slot)
    }
}
