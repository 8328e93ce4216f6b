//! By cuFile, one call for each operation.

use storlab_base::{OpKind, Result};

use super::{Io, Landing, OneByOne, Registered, Seat};
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
        let (handle, len) = (&self.registered.handle, io.bytes());
        match io.kind {
            OpKind::Read => handle.read(io.offset, len, buffer, at),
            _ => handle.write(io.offset, len, buffer, at),
        }
    }

    fn landing(&mut self, slot: u16) -> Done<Landing<'_>> {
        self.registered.landing(&self.seat, slot)
    }
}
