//! Layout of one job: maps a contiguous address space to the files or devices ("members") of the
//! target.

use storlab_base::{Error, Result, Share};
use storlab_io::Zone;

use crate::spec::{BlockJob, LayoutKind};

/// Maximum number of parts into which one operation is split. With more, a run would measure the
/// CPU time of splitting, not the devices.
const PARTS_MAX: u64 = 256;
/// Maximum number of pieces into which the data of zoned devices is divided for reads: a table of
/// 1 MiB per job, which is looked up once per operation.
const PIECES_MAX: u64 = 1 << 16;
/// Minimum number of blocks per piece if block sizes differ, so that few operations span two pieces.
const PIECE_BLOCKS: u64 = 16;

/// Part of an operation that lies on one file or device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Index of the file or device in [`BlockJob::members`].
    pub member: u16,
    /// Offset in the file or device, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub len: u32,
}

/// Mapping from one job's contiguous address space to its files or devices.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Index of each file or device that the job uses.
    files: Vec<u16>,
    /// Index of each file or device, and the offset of its usable region. A zoned device has an
    /// entry per zone that is written, or per piece of a zone that is read.
    members: Vec<(u16, u64)>,
    /// Bytes placed on one file or device before the next one follows; unused if there is only one.
    chunk: u64,
    /// Size of the job's address space in bytes.
    pub space: u64,
    /// Index of this job among the jobs that use the same address space, and number of these jobs.
    pub share: Share,
    /// Zones that the job writes; `None` if it writes no zoned device.
    pub zones: Option<ZonesWritten>,
}

/// Zones of zoned devices that a job writes, all of equal size.
#[derive(Clone, Debug)]
pub struct ZonesWritten {
    /// Distance between the starts of two zones in bytes.
    pub len: u64,
    /// Number of bytes of a zone that can be written.
    pub capacity: u64,
    /// Bytes below the write pointer of each zone, before the load.
    pub written: Vec<u64>,
}

impl Layout {
    /// Create the layout of job number `index`.
    ///
    /// With `jbod`, job `j` uses member `j % members` (a file or device). If there are fewer jobs
    /// than members, job `j` uses every member `m` with `m % jobs == j`, and its consecutive blocks
    /// lie on these members in turn.
    ///
    /// # Errors
    /// [`Error::Spec`] if there is no member for the job, its address space is smaller than a
    /// block, or the stripe chunk cuts a block into more than 256 parts.
    pub fn for_job(job: &BlockJob, index: usize) -> Result<Self> {
        let (chosen, share) = choose(job, index)?;
        let longest = job.longest_block();
        let chunk = match (job.layout, job.stripe_chunk) {
            (LayoutKind::Stripe, Some(chunk)) => chunk.max(1),
            _ => longest,
        };
        let smallest = chosen.iter().map(|&m| job.members[m].size).min().unwrap_or(0);
        let space = if chosen.len() == 1 {
            smallest / job.alignment() * job.alignment()
        } else {
            smallest / chunk * chunk * chosen.len() as u64
        };
        if space < longest {
            return Err(Error::spec(
                "size",
                format!("{space} bytes are less than one block of {longest} bytes"),
                "use a larger data set or smaller blocks",
            ));
        }
        if chosen.len() > 1 && longest.div_ceil(chunk) > PARTS_MAX {
            return Err(Error::spec(
                "stripe_chunk",
                format!(
                    "is so small that a block of {longest} bytes spans more than {PARTS_MAX} stripes"
                ),
                "use larger chunks",
            ));
        }
        let members: Vec<(u16, u64)> =
            chosen.iter().map(|&m| (m as u16, job.members[m].offset)).collect();
        let files = members.iter().map(|&(member, _)| member).collect();
        Ok(Layout { files, members, chunk, space, share, zones: None })
    }

    /// Create the layout of job number `index` on zoned devices, whose usable zones are in `zones`.
    ///
    /// A job that writes has zones of its own, and its address space consists of their capacities.
    /// That of a job that reads consists of the data below the write pointers, in pieces of equal
    /// length; it is empty if nothing was written.
    ///
    /// # Errors
    /// [`Error::Spec`] if there is no zone, a block is larger than a zone, or the job has fewer
    /// zones than writes in flight.
    pub fn on_zones(job: &BlockJob, index: usize, zones: &[Vec<Zone>]) -> Result<Self> {
        let (chosen, mut share) = choose(job, index)?;
        let places = chosen.iter().map(|&m| zones[m].len()).max().unwrap_or(0);
        let at = |place| {
            let of = move |&m: &usize| zones[m].get(place).map(|&zone| (m as u16, zone));
            chosen.iter().filter_map(of)
        };
        let mut own: Vec<(u16, Zone)> = (0..places).flat_map(at).collect();
        // The last zone of a drive may be smaller.
        let capacity = own.iter().map(|(_, zone)| zone.capacity).max().unwrap_or(0);
        own.retain(|(_, zone)| zone.capacity == capacity);
        let longest = job.longest_block();
        if capacity < longest {
            return Err(Error::spec(
                "block_size, region_size",
                format!("no zone of the region holds a block of {longest} bytes"),
                "use smaller blocks, or a region of whole zones",
            ));
        }
        let (chunk, used) = if job.mix.writes() {
            let range = share.range(own.len() as u64);
            own = own[range.start as usize..range.end as usize].to_vec();
            share = Share { index: 0, count: 1 };
            if own.len() < job.queue_depth {
                return Err(Error::spec(
                    "queue_depth",
                    format!(
                        "{} writes in flight need as many zones, but job {index} has {}",
                        job.queue_depth,
                        own.len()
                    ),
                    "use a smaller queue_depth, fewer jobs or a larger region",
                ));
            }
            (capacity, capacity)
        } else {
            let least = if job.block_sizes.len() == 1 { longest } else { longest * PIECE_BLOCKS };
            let pieces = (PIECES_MAX / own.len() as u64).min(capacity / least).max(1);
            (capacity / pieces / longest * longest, 0)
        };
        let pieces = |&(member, zone): &(u16, Zone)| {
            let count = zone.written.max(used) / chunk;
            (0..count).map(move |piece| (member, zone.start + piece * chunk))
        };
        let members: Vec<(u16, u64)> = own.iter().flat_map(pieces).collect();
        let zones = job.mix.writes().then(|| ZonesWritten {
            len: own[0].1.len,
            capacity,
            written: own.iter().map(|(_, zone)| zone.written).collect(),
        });
        Ok(Layout {
            files: chosen.iter().map(|&m| m as u16).collect(),
            space: members.len() as u64 * chunk,
            members,
            chunk,
            share,
            zones,
        })
    }

    /// Return the file or device of a zone that the job writes, and the start of the zone on it.
    pub fn zone(&self, number: usize) -> (u16, u64) {
        self.members[number]
    }

    /// Map an operation to one part if the job uses a single file or device; `None` otherwise.
    #[inline]
    pub fn whole(&self, offset: u64, len: u32) -> Option<Part> {
        let [(member, base)] = self.members[..] else { return None };
        Some(Part { member, offset: base + offset, len })
    }

    /// Map the `len` bytes at `offset` of the job's address space to files or devices. Return the
    /// first part, which lies on one of them; it may be shorter than `len`.
    #[inline]
    pub fn part(&self, offset: u64, len: u32) -> Part {
        if let Some(part) = self.whole(offset, len) {
            return part;
        }
        let (chunk, within) = (offset / self.chunk, offset % self.chunk);
        let count = self.members.len() as u64;
        let (member, base) = self.members[(chunk % count) as usize];
        Part {
            member,
            offset: base + chunk / count * self.chunk + within,
            len: u64::from(len).min(self.chunk - within) as u32,
        }
    }

    /// Yield all parts of the `len` bytes at `offset` of the job's address space, each with its
    /// start within the operation.
    #[inline]
    pub fn parts(&self, offset: u64, len: u32) -> impl Iterator<Item = (u32, Part)> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            (at < len).then(|| {
                let (begin, part) = (at, self.part(offset + u64::from(at), len - at));
                at += part.len;
                (begin, part)
            })
        })
    }

    /// Return the maximum number of parts of an operation of `len` bytes.
    pub fn parts_max(&self, len: u64) -> usize {
        if self.members.len() == 1 { 1 } else { (len.div_ceil(self.chunk) + 1) as usize }
    }

    /// Yield the index of each file or device that the job uses.
    pub fn members(&self) -> impl ExactSizeIterator<Item = u16> + '_ {
        self.files.iter().copied()
    }
}

/// Return which files or devices job `index` uses, and its share of them.
fn choose(job: &BlockJob, index: usize) -> Result<(Vec<usize>, Share)> {
    let (count, jobs) = (job.members.len(), job.jobs);
    Ok(match job.layout {
        LayoutKind::PerJob if index >= count => {
            return Err(Error::spec(
                "layout",
                format!("job {index} needs its own file, but there are only {count} files"),
                "create one file per job",
            ));
        }
        LayoutKind::PerJob => (vec![index], Share { index: 0, count: 1 }),
        LayoutKind::Stripe => {
            ((0..count).collect(), Share { index: index as u64, count: jobs as u64 })
        }
        LayoutKind::Jbod if jobs >= count => {
            let member = index % count;
            let sharers = (jobs - member).div_ceil(count);
            let share = Share { index: (index / count) as u64, count: sharers as u64 };
            (vec![member], share)
        }
        LayoutKind::Jbod => ((index..count).step_by(jobs).collect(), Share { index: 0, count: 1 }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::tests::job_with;
    use proptest::prelude::*;

    fn layouts(kind: &str, members: usize, jobs: usize, chunk: Option<u64>) -> Vec<Layout> {
        let job = job_with(kind, members, jobs, chunk);
        (0..jobs).map(|j| Layout::for_job(&job, j).unwrap()).collect()
    }

    #[test]
    fn jbod_spreads_jobs_over_members() {
        let many = layouts("jbod", 3, 8, None);
        let used: Vec<u16> = many.iter().flat_map(|l| l.members().collect::<Vec<_>>()).collect();
        assert_eq!(used, [0, 1, 2, 0, 1, 2, 0, 1]);
        assert_eq!((many[7].share.index, many[7].share.count), (2, 3));
        assert_eq!((many[2].share.index, many[2].share.count), (0, 2));
    }

    #[test]
    fn jbod_with_few_jobs_leaves_no_member_idle() {
        let few = layouts("jbod", 5, 2, None);
        assert_eq!(few[0].members().collect::<Vec<_>>(), [0, 2, 4]);
        assert_eq!(few[1].members().collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn a_chunk_that_shreds_blocks_is_refused() {
        let error = Layout::for_job(&job_with("stripe", 2, 1, Some(8)), 0).unwrap_err();
        assert!(error.to_string().contains("stripe_chunk"), "{error}");
    }

    #[test]
    fn a_job_without_a_file_is_named() {
        let error = Layout::for_job(&job_with("per_job", 2, 3, None), 2).unwrap_err();
        assert!(error.to_string().contains("job 2"), "{error}");
    }

    proptest! {
        #[test]
        fn a_stripe_maps_every_byte_once(
            members in 1usize..5,
            chunk_blocks in 1u64..4,
            offset in 0u64..256,
            len in 1u64..17,
        ) {
            let chunk = chunk_blocks * 4096;
            let layout = &layouts("stripe", members, 1, Some(chunk))[0];
            let (offset, len) = (offset * 4096, (len * 4096) as u32);
            prop_assume!(offset + u64::from(len) <= layout.space);
            let (mut at, mut parts) = (0u32, 0);
            for (begin, part) in layout.parts(offset, len) {
                prop_assert!(begin == at && part.len > 0 && part.len <= len - at);
                for byte in [0, part.len - 1] {
                    let single = layout.part(offset + u64::from(at + byte), 1);
                    let expected = (part.member, part.offset + u64::from(byte));
                    prop_assert_eq!((single.member, single.offset), expected);
                }
                at += part.len;
                parts += 1;
            }
            prop_assert_eq!(at, len);
            prop_assert!(parts <= layout.parts_max(u64::from(len)));
        }
    }
}
