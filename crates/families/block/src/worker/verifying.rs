//! Verify mode in the worker: operations in flight never share a block, and reads are checked.

use storlab_base::{OpKind, TimeSource};
use storlab_io::Backend;

use super::{Flight, Worker};

/// Maximum number of offsets drawn to find one whose blocks no other operation in flight uses.
const CLAIM_TRIES: usize = 64;

impl<B: Backend, T: TimeSource> Worker<'_, B, T> {
    /// Draw an offset for an operation of `len` bytes. In verify mode, draw up to 64 times until no
    /// other operation in flight uses its blocks; `None` if all draws fail.
    #[inline]
    pub(super) fn place(&mut self, len: &mut u32) -> Option<u64> {
        if self.plain {
            return Some(self.draw.offset(*len));
        }
        if self.zones.is_some() {
            return self.place_in_zone(len);
        }
        let len = *len;
        (0..CLAIM_TRIES).find_map(|_| {
            let offset = self.draw.offset(len);
            self.claim(offset, len).then_some(offset)
        })
    }

    /// Claim all blocks of the `len` bytes at `offset`. Return false, with none claimed, if another
    /// operation in flight uses one of them.
    fn claim(&self, offset: u64, len: u32) -> bool {
        let Some(verifier) = &self.shared.verifier else { return true };
        for (at, part) in self.layout.parts(offset, len) {
            if !verifier.try_claim(usize::from(part.member), part.offset, u64::from(part.len)) {
                for (_, part) in self.layout.parts(offset, at) {
                    verifier.release(usize::from(part.member), part.offset, u64::from(part.len));
                }
                return false;
            }
        }
        true
    }

    /// Release the blocks or the zone of an operation that has ended, and check what it read.
    #[cold]
    pub(super) fn placed_finished(&mut self, number: u16) {
        match &mut self.zones {
            Some(zones) => {
                let Flight { kind, failed, offset, len, .. } = self.flights[usize::from(number)];
                if kind == OpKind::Write && !failed {
                    zones.written(offset + u64::from(len));
                }
            }
            None => self.verify_finished(number),
        }
    }

    fn verify_finished(&mut self, number: u16) {
        let flight = self.flights[usize::from(number)];
        let Some(verifier) = &self.shared.verifier else { return };
        if flight.kind == OpKind::Sync {
            return;
        }
        let check = self.job.verify.as_ref().is_some_and(|v| v.check_reads);
        let mut report = self.verify_report.take().unwrap_or_default();
        for (at, part) in self.layout.parts(flight.offset, flight.len) {
            let (member, len) = (usize::from(part.member), u64::from(part.len));
            if flight.kind == OpKind::Write && !flight.failed {
                verifier.after_write(member, part.offset, len);
            } else if flight.kind == OpKind::Read && !flight.failed && check {
                // SAFETY: the read has ended, and its buffer is not yet free for another operation.
                #[allow(unsafe_code)]
                let buffer = unsafe { self.backend.arena().slot_mut(flight.slot) };
                let piece = &buffer[at as usize..(at + part.len) as usize];
                verifier.check_read(member, part.offset, piece, &mut report);
            }
            verifier.release(member, part.offset, len);
        }
        self.verify_report = Some(report);
    }
}
