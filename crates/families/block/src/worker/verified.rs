//! The worker's side of verify mode: no two operations meet on a block, and each one's end is told.

use storlab_base::{OpKind, TimeSource};
use storlab_io::Backend;

use super::{Flight, Worker};

impl<B: Backend, T: TimeSource> Worker<'_, B, T> {
    /// True when nothing else is in flight on any block of the range, which is now ours.
    pub(super) fn claim(&self, offset: u64, len: u32) -> bool {
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

    #[cold]
    pub(super) fn verify_finished(&mut self, flight: &Flight) {
        let Some(verifier) = &self.shared.verifier else { return };
        let check = self.shared.job.verify.as_ref().is_some_and(|v| v.check_reads);
        let mut report = self.verify_report.take().unwrap_or_default();
        for (at, part) in self.layout.parts(flight.offset, flight.len) {
            let (member, len) = (usize::from(part.member), u64::from(part.len));
            if flight.kind == OpKind::Write && !flight.failed {
                verifier.after_write(member, part.offset, len);
            } else if flight.kind == OpKind::Read && !flight.failed && check {
                // SAFETY: the read is over and its slot not yet given back.
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
