//! By cuFile, one call for each operation.

use storlab_base::{OpKind, Result};

use super::{Io, OneByOne, Registered, Seat};
use crate::errors::Done;
use crate::shared::Shared;

/// See the module.
pub struct DirectSync {
    registered: Registered,
    seat: Seat,
}

impl DirectSync {
    /// Registers file and buffers.
    ///
    /// # Errors
    /// By name.
    pub fn new(shared: &Shared, seat: Seat) -> Result<Self> {
        Ok(DirectSync { registered: Registered::new(shared, &seat)?, seat })
    }
}

impl OneByOne for DirectSync {
    #[inline]
    fn move_now(&mut self, io: &Io) -> Done<u64> {
        let (buffer, at) = self.registered.place(&self.seat, io)?;
        let (handle, block) = (&self.registered.handle, self.seat.block);
        match io.kind {
            OpKind::Read => handle.read(io.offset, block, buffer, at),
            _ => handle.write(io.offset, block, buffer, at),
        }
    }

    fn copy_back(&mut self, slot: u16, into: &mut [u8]) -> Done<()> {
        self.registered.copy_back(&self.seat, slot, into)
    }
}
