//! Draw the kind, length and offset of the next operation, each from its own seeded random stream.

use storlab_base::{Offsets, OpKind, Result};
use storlab_run::mix::{KindDraw, SizeDraw};

use crate::layout::Layout;
use crate::spec::BlockJob;

/// Random generator of one job's operations: kind, length and offset.
pub struct Draw {
    kinds: KindDraw,
    sizes: SizeDraw,
    offsets: Offsets,
}

impl Draw {
    /// Create the generator for job number `index`; all operations fit into `layout`.
    pub fn new(job: &BlockJob, index: usize, layout: &Layout) -> Result<Self> {
        let share = layout.share;
        let unit = job.offsets.unit(job.unit(), layout.space);
        // The index of the job's first file or device is added to the high bits of the seed. So
        // jobs that start on different files permute the blocks differently; jobs that start on the
        // same file agree on which blocks are hot, but each draws its own offsets.
        let offsets = Offsets::new(
            &job.offsets,
            layout.space,
            unit,
            job.longest_block(),
            share,
            job.seed.wrapping_add(layout.members().next().map_or(0, u64::from) << 32),
        )?;
        Ok(Draw {
            kinds: KindDraw::new(&job.mix, job.seed, index),
            sizes: SizeDraw::new(&job.block_sizes, job.seed, index),
            offsets,
        })
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

    /// Draw an offset for an operation of `len` bytes, within the job's address space
    /// (`0..layout.space`).
    #[inline]
    pub fn offset(&mut self, len: u32) -> u64 {
        self.offsets.next(u64::from(len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::tests::job_json;
    use serde_json::json;
    use storlab_run::order::Order as _;

    fn draw(change: impl Fn(&mut serde_json::Value)) -> Draw {
        let mut job = job_json("jbod", 1, 1, None);
        change(&mut job);
        let job = BlockJob::from_json(&job.to_string()).unwrap();
        Draw::new(&job, 0, &Layout::for_job(&job, 0).unwrap()).unwrap()
    }

    #[test]
    fn mixes_hold_their_percentages() {
        let mut draw = draw(|j| j["mix"] = json!({"read": 70.0, "write": 25.0, "trim": 5.0}));
        let mut counts = [0u32; 4];
        for _ in 0..100_000 {
            counts[draw.kind() as usize] += 1;
        }
        // Tolerance: five standard deviations of a binomial with n = 100,000.
        for (count, percent) in counts.into_iter().zip([70.0, 25.0, 5.0, 0.0]) {
            let share = percent / 100.0;
            let sigma = (100_000.0f64 * share * (1.0 - share)).sqrt();
            assert!((f64::from(count) - 100_000.0 * share).abs() <= 5.0 * sigma, "{counts:?}");
        }
    }

    #[test]
    fn without_trims_none_is_drawn() {
        let mut draw = draw(|j| j["mix"] = json!({"read": 30.0, "write": 70.0, "trim": 0.0}));
        assert!((0..200_000).all(|_| draw.kind() != OpKind::Trim));
    }

    #[test]
    fn sizes_hold_their_weights_and_fit() {
        let mut draw = draw(|j| {
            j["block_sizes"] =
                json!([{"bytes": 4096, "weight": 3.0}, {"bytes": 65536, "weight": 1.0}]);
        });
        let mut small = 0;
        for _ in 0..40_000 {
            let len = draw.len();
            small += u32::from(len == 4096);
            let offset = draw.offset(len);
            assert!(offset + u64::from(len) <= 1 << 20 && offset % 4096 == 0);
        }
        assert!((29_500..30_500).contains(&small), "{small}");
    }
}
