//! Draw the kind, length and offset of the next operation, each from its own seeded random stream.

use storlab_base::{Offsets, OpKind, Result};
use storlab_run::mix::{KindDraw, SizeDraw};

use crate::spec::GpuDirectJob;

/// Random generator of one worker's operations: kind, length and offset.
pub struct Draw {
    offsets: Offsets,
    base: u64,
    kinds: KindDraw,
    sizes: SizeDraw,
}

impl Draw {
    /// Create the generator of worker number `worker`.
    ///
    /// # Errors
    /// If the file is too small for the workers that share it.
    pub fn new(job: &GpuDirectJob, worker: usize) -> Result<Self> {
        let (number, share) = job.place_of(worker);
        let member = &job.members[number];
        let (space, longest) = (job.space_of(member), job.longest_block());
        let unit = job.offsets.unit(job.unit(), space);
        let seed = job.seed.wrapping_add((number as u64) << 32);
        let offsets = Offsets::new(&job.offsets, space, unit, longest, share, seed)?;
        let kinds = KindDraw::new(&job.mix, job.seed, worker);
        let sizes = SizeDraw::new(&job.block_sizes, job.seed, worker);
        Ok(Draw { offsets, base: member.offset, kinds, sizes })
    }

    /// Draw the kind of the next operation.
    #[inline]
    pub fn kind(&mut self) -> OpKind {
        self.kinds.draw()
    }

    /// Draw the length of the next operation in bytes.
    #[inline]
    pub fn len(&mut self) -> u32 {
        self.sizes.draw()
    }

    /// Draw the file offset of the next operation, given its length.
    #[inline]
    pub fn offset(&mut self, len: u32) -> u64 {
        self.base + self.offsets.next(u64::from(len))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use crate::spec::tests::job;

    #[test]
    fn each_worker_walks_its_own_part_of_its_file() {
        let job = job(|j| {
            j["offsets"] = json!({"kind": "sequential"});
            j["workers"] = json!(3);
            j["workers_per_file"] = json!(2);
        });
        let blocks = |worker: usize| -> BTreeSet<u64> {
            let mut draw = Draw::new(&job, worker).unwrap();
            (0..128).map(|_| draw.offset(4096)).collect()
        };
        let (first, second) = (blocks(0), blocks(1));
        assert_eq!((first.len(), second.len()), (128, 128));
        assert!(first.is_disjoint(&second));
        assert_eq!(blocks(2).first(), Some(&0));
    }

    #[test]
    fn mixes_hold_their_percentages() {
        let job = job(|j| j["mix"] = json!({"read": 70.0, "write": 30.0}));
        let mut draw = Draw::new(&job, 0).unwrap();
        let reads = (0..100_000).filter(|_| draw.kind() == OpKind::Read).count();
        assert!((69_000..71_000).contains(&reads), "{reads}");
    }

    #[test]
    fn lengths_hold_their_weights_and_fit() {
        let job = job(|j| {
            j["block_sizes"] =
                json!([{"bytes": 4096, "weight": 3.0}, {"bytes": 65536, "weight": 1.0}]);
        });
        let mut draw = Draw::new(&job, 0).unwrap();
        let mut small = 0;
        for _ in 0..40_000 {
            let len = draw.len();
            small += u32::from(len == 4096);
            let offset = draw.offset(len);
            assert!(offset + u64::from(len) <= 1 << 20 && offset.is_multiple_of(4096));
        }
        assert!((29_500..30_500).contains(&small), "{small}");
    }

    #[test]
    fn the_region_of_a_member_begins_where_it_says() {
        let job = job(|j| j["members"][0]["offset"] = json!(1 << 30));
        let mut draw = Draw::new(&job, 0).unwrap();
        for _ in 0..1000 {
            let offset = draw.offset(4096);
            assert!(
                (1 << 30..(1 << 30) + (1 << 20)).contains(&offset) && offset.is_multiple_of(4096)
            );
        }
    }
}
