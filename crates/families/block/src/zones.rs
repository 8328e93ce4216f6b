//! Writes of zoned devices: each zone from its start to its end, and reset before it is written
//! again.
//!
//! A zone has at most one write in flight. So writes reach the device in order on every kernel and
//! scheduler, and a job has as many zones open as it keeps writes in flight.

use std::collections::VecDeque;

use storlab_base::{Error, Pattern, Result};
use storlab_io::{BackendKind, Zone, zones};
use storlab_run::order::{MemberKind, require};

use crate::layout::ZonesWritten;
use crate::spec::{BlockJob, LayoutKind};

/// Zones of a job that writes, as offsets in its address space.
pub struct ZoneWriter {
    capacity: u64,
    /// Offset of the next write of each zone that is being written but has no write in flight.
    idle: VecDeque<u64>,
    /// Other zones in the order in which they will be written.
    waiting: VecDeque<Waiting>,
    /// Zones that were reset, and the time that this took.
    pub resets: Resets,
}

struct Waiting {
    zone: u64,
    written: u64,
}

/// Number of zones that were reset during the load, and the time that this took in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resets {
    /// Number of zones.
    pub count: u64,
    /// Sum of the durations, in ns.
    pub time_ns: u64,
}

impl Resets {
    /// Add the resets of another job.
    pub fn add(&mut self, other: Resets) {
        self.count += other.count;
        self.time_ns += other.time_ns;
    }

    /// Return a note for the user; `None` if no zone was reset.
    pub fn note(self) -> Option<String> {
        (self.count > 0).then(|| {
            format!(
                "{} zones were reset during the load, which took {:.1} ms in all: a job sends \
                 nothing meanwhile, and the latency of its writes does not include it",
                self.count,
                self.time_ns as f64 / 1e6
            )
        })
    }
}

impl ZoneWriter {
    /// Create the writer of a job. Zones that are partly written are continued first, because a
    /// device limits their number; then empty ones are written, then full ones.
    pub fn new(zones: &ZonesWritten) -> Self {
        let capacity = zones.capacity;
        let zones = zones.written.iter().zip(0..);
        let mut waiting: Vec<_> = zones.map(|(&written, zone)| Waiting { zone, written }).collect();
        waiting.sort_by_key(|zone| match zone.written {
            0 => 1,
            written if written < capacity => 0,
            _ => 2,
        });
        let idle = VecDeque::with_capacity(waiting.len());
        ZoneWriter { capacity, idle, waiting: waiting.into(), resets: Resets::default() }
    }

    /// Return offset and length of the next write. `len` is its wished length: the last write of a
    /// zone may be shorter. `None` if all zones have a write in flight.
    ///
    /// Call `written` when the write has succeeded.
    ///
    /// # Errors
    /// The error of `reset`, which resets a zone and returns how long that took, in ns.
    pub fn next(
        &mut self,
        len: u32,
        reset: impl FnOnce(usize) -> Result<u64>,
    ) -> Result<Option<(u64, u32)>> {
        let next = match self.idle.pop_front() {
            // A zone is opened only if all open ones have a write in flight, so there are never
            // more than the queue depth.
            None => self.open(reset)?,
            idle => idle,
        };
        Ok(next.map(|at| {
            let room = self.capacity - at % self.capacity;
            (at, u64::from(len).min(room) as u32)
        }))
    }

    fn open(&mut self, reset: impl FnOnce(usize) -> Result<u64>) -> Result<Option<u64>> {
        let Some(Waiting { zone, mut written }) = self.waiting.pop_front() else { return Ok(None) };
        if written == self.capacity {
            self.resets.add(Resets { count: 1, time_ns: reset(zone as usize)? });
            written = 0;
        }
        Ok(Some(zone * self.capacity + written))
    }

    /// Record that a write has succeeded that ended at offset `end`.
    pub fn written(&mut self, end: u64) {
        if end.is_multiple_of(self.capacity) {
            let zone = end / self.capacity - 1;
            self.waiting.push_back(Waiting { zone, written: self.capacity });
        } else {
            self.idle.push_back(end);
        }
    }
}

/// Return the usable zones of each file or device in the region of a job; `None` if no device is
/// zoned.
///
/// # Errors
/// [`Error::Spec`] if the job cannot run on zoned devices, [`Error::Io`] if a device does not report
/// its zones.
pub fn zones_of(job: &BlockJob, backend: BackendKind) -> Result<Option<Vec<Vec<Zone>>>> {
    if backend == BackendKind::Null {
        return Ok(None);
    }
    let mut every = Vec::new();
    for member in job.members.iter().filter(|m| m.kind == MemberKind::BlockDevice) {
        let reported = zones(&member.path)
            .map_err(|e| Error::io("report of the zones", member.name.clone(), 0, e))?;
        let region = member.offset..=member.offset + member.size;
        let inside = |z: &Zone| region.contains(&z.start) && region.contains(&(z.start + z.len));
        every.extend(reported.map(|zones| zones.into_iter().filter(inside).collect()));
    }
    if every.is_empty() {
        return Ok(None);
    }
    check(job, every.len())?;
    Ok(Some(every))
}

/// Check that a job can run on its devices, of which `zoned` are zoned.
fn check(job: &BlockJob, zoned: usize) -> Result<()> {
    let writes = job.mix.writes();
    for (good, field, what, fix) in [
        (
            zoned == job.members.len() && job.layout != LayoutKind::Stripe,
            "layout",
            "zoned devices cannot be striped, nor mixed with others",
            "use layout = \"jbod\" and zoned devices only",
        ),
        (
            !writes || job.offsets == Pattern::Sequential,
            "access",
            "a zoned device refuses random writes: each zone is written from its start to its end",
            "set access = \"sequential\"",
        ),
        (
            !(writes && job.mix.reads()),
            "read_percent",
            "on a zoned device a job cannot both read and write, because its reads must stay below \
             the write pointers",
            "use a group of jobs for reads and one for writes, each with its own region",
        ),
        (
            job.mix.trim <= 0.0 && job.verify.is_none(),
            "trim_percent, verify",
            "zoned devices have no trims, and resets of zones cannot be verified",
            "set trim_percent = 0 and verify = false",
        ),
        (
            !writes || job.direct,
            "direct",
            "the page cache does not write a zoned device in order",
            "set direct = true",
        ),
    ] {
        require(good, field, || what.to_owned(), fix)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;
    use crate::spec::tests::job_with;
    use proptest::prelude::*;

    const LEN: u64 = 1 << 20;
    const CAPACITY: u64 = 160 << 10;

    fn zones(written: &[u64]) -> Vec<Zone> {
        let zone = |(n, &written): (usize, &u64)| Zone {
            start: n as u64 * LEN,
            len: LEN,
            capacity: CAPACITY,
            written,
        };
        written.iter().enumerate().map(zone).collect()
    }

    fn writers(jobs: usize, depth: usize) -> BlockJob {
        let mut job = job_with("jbod", 1, jobs, None);
        (job.mix.read, job.mix.write, job.queue_depth) = (0.0, 100.0, depth);
        (job.direct, job.offsets) = (true, Pattern::Sequential);
        job
    }

    #[test]
    fn jobs_divide_the_zones_that_they_write() {
        let zones = [zones(&[0; 7])];
        let own: Vec<_> =
            (0..3).map(|n| Layout::on_zones(&writers(3, 2), n, &zones).unwrap()).collect();
        let starts = |layout: &Layout| -> Vec<u64> {
            let count = layout.zones.as_ref().unwrap().written.len();
            (0..count).map(|zone| layout.zone(zone).1 / LEN).collect()
        };
        let found: Vec<_> = own.iter().map(starts).collect();
        assert_eq!(found, [vec![0, 1, 2], vec![3, 4], vec![5, 6]]);
        assert_eq!(own[0].space, 3 * CAPACITY);
        let place = own[1].whole(0, 4096).unwrap_or_else(|| own[1].part(CAPACITY + 4096, 4096));
        assert_eq!((place.offset, place.len), (4 * LEN + 4096, 4096));
        let error = Layout::on_zones(&writers(3, 3), 1, &zones).unwrap_err().to_string();
        assert!(error.starts_with("queue_depth: 3 writes"), "{error}");
    }

    #[test]
    fn reads_stay_below_the_write_pointers() {
        let reported = zones(&[CAPACITY, 0, 70 << 10, CAPACITY]);
        let layout =
            Layout::on_zones(&job_with("jbod", 1, 1, None), 0, std::slice::from_ref(&reported))
                .unwrap();
        assert!(layout.zones.is_none());
        let mut pieces = Vec::new();
        for at in (0..layout.space).step_by(4096) {
            let part = layout.part(at, 4096);
            let zone = &reported[(part.offset / LEN) as usize];
            assert!(part.len == 4096 && part.offset + 4096 <= zone.start + zone.written);
            pieces.push(part.offset / LEN);
        }
        pieces.dedup();
        assert_eq!(pieces, [0, 2, 3]);
        let blank = Layout::on_zones(&job_with("jbod", 1, 1, None), 0, &[zones(&[0, 0])]).unwrap();
        assert_eq!(blank.space, 0);
    }

    #[test]
    fn partly_written_zones_are_continued_first_and_full_ones_reset_last() {
        let layout = Layout::on_zones(&writers(1, 1), 0, &[zones(&[CAPACITY, 0, 4096])]).unwrap();
        let mut writer = ZoneWriter::new(layout.zones.as_ref().unwrap());
        let (mut order, mut reset) = (Vec::new(), Vec::new());
        for _ in 0..3 * CAPACITY / 4096 {
            let done = |zone| {
                reset.push(zone);
                Ok(7)
            };
            let (at, len) = writer.next(4096, done).unwrap().unwrap();
            writer.written(at + u64::from(len));
            order.push(at / CAPACITY);
        }
        order.dedup();
        assert_eq!((order, reset), (vec![2, 1, 0, 2], vec![0, 2]));
        assert_eq!(writer.resets, Resets { count: 2, time_ns: 14 });
        assert!(writer.resets.note().unwrap().starts_with("2 zones"));
    }

    #[test]
    fn work_that_a_zoned_device_refuses_names_the_field() {
        let refused = |change: &dyn Fn(&mut BlockJob)| {
            let mut job = writers(1, 1);
            change(&mut job);
            check(&job, 1).unwrap_err().to_string()
        };
        check(&writers(1, 1), 1).unwrap();
        assert!(refused(&|j| j.offsets = Pattern::Uniform).starts_with("access: "));
        assert!(refused(&|j| j.mix.read = 50.0).starts_with("read_percent: "));
        assert!(refused(&|j| j.mix.trim = 5.0).starts_with("trim_percent"));
        assert!(refused(&|j| j.direct = false).starts_with("direct: "));
        assert!(refused(&|j| j.layout = LayoutKind::Stripe).starts_with("layout: "));
    }

    proptest! {
        #[test]
        fn zones_are_written_in_order_and_no_more_are_open_than_writes_in_flight(
            ended in proptest::collection::vec((0usize..8, 1u64..40), 1..400),
            depth in 1usize..5,
        ) {
            let layout = Layout::on_zones(&writers(1, depth), 0, &[zones(&[0; 8])]).unwrap();
            let mut writer = ZoneWriter::new(layout.zones.as_ref().unwrap());
            let mut pointers = [0u64; 8];
            let mut flying: Vec<(u64, u32)> = Vec::new();
            for (which, blocks) in ended {
                while flying.len() < depth {
                    let reset = |zone: usize| {
                        assert_eq!(pointers[zone], CAPACITY);
                        pointers[zone] = 0;
                        Ok(1)
                    };
                    let (at, len) = writer.next((blocks * 4096) as u32, reset).unwrap().unwrap();
                    let zone = (at / CAPACITY) as usize;
                    prop_assert_eq!(pointers[zone], at % CAPACITY);
                    prop_assert!(flying.iter().all(|(other, _)| other / CAPACITY != at / CAPACITY));
                    pointers[zone] += u64::from(len);
                    prop_assert!(len > 0 && pointers[zone] <= CAPACITY);
                    flying.push((at, len));
                }
                let open = pointers.iter().filter(|&&p| p > 0 && p < CAPACITY).count();
                prop_assert!(open <= depth);
                let (at, len) = flying.swap_remove(which % flying.len());
                writer.written(at + u64::from(len));
            }
        }
    }
}
