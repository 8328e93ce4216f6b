//! Sync path: one blocking cuFile call per operation.

use storlab_base::{OpKind, Result};

use super::{Io, Landing, OneByOne, Registered, WorkerResources};
use crate::errors::Done;
use crate::shared::Shared;

/// Data path between storage and GPU memory by cuFile's synchronous API.
pub struct DirectSync {
    registered: Registered,
    resources: WorkerResources,
}

impl DirectSync {
    /// Register the worker's file and buffers.
    ///
    /// # Errors
    /// If the file cannot be opened or registered, or memory cannot be allocated.
    pub fn new(shared: &Shared, resources: WorkerResources) -> Result<Self> {
        Ok(DirectSync { registered: Registered::new(shared, &resources)?, resources })
    }
}

impl OneByOne for DirectSync {
    #[inline]
    fn move_now(&mut self, io: &Io) -> Done<u64> {
        let (buffer, at) = self.registered.place(&self.resources, io)?;
        let (handle, len) = (&self.registered.handle, io.bytes());
        match io.kind {
            OpKind::Read => handle.read(io.offset, len, buffer, at),
            _ => handle.write(io.offset, len, buffer, at),
        }
    }

    fn landing(&mut self, slot: u16) -> Done<Landing<'_>> {
        self.registered.landing(&self.resources, slot)
    }
}
