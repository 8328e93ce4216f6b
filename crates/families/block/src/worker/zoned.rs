//! Writes of zoned devices in the worker.

use storlab_base::TimeSource;
use storlab_io::Backend;
use storlab_run::groups::place_of_worker;

use super::Worker;

impl<B: Backend, T: TimeSource> Worker<'_, B, T> {
    /// Return the offset of the next write, and shorten it to what is left of its zone. `None` if
    /// the zone that it needs cannot be reset, which ends the run.
    #[inline(never)]
    pub(super) fn place_in_zone(&mut self, len: &mut u32) -> Option<u64> {
        let (layout, clock, shared, index) = (self.layout, &self.clock, self.shared, self.index);
        let reset = |zone: usize| {
            let begin = clock.now_ns();
            let (member, start) = layout.zone(zone);
            let (group, _) = place_of_worker(&shared.groups, index);
            let zone_len = layout.zones.as_ref().map_or(0, |zones| zones.len);
            shared.files[group][usize::from(member)].reset_zone(start, zone_len)?;
            Ok(clock.now_ns() - begin)
        };
        let placed = self.zones.as_mut()?.next(*len, reset).unwrap_or_else(|error| {
            shared.timed.fail(error);
            None
        });
        let (at, room) = placed?;
        *len = room;
        Some(at)
    }
}
