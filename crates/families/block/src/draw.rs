//! What the next operation is: its kind, length and place, each from its own seeded stream.

use rand_core::Rng as _;
use storlab_base::{Offsets, OpKind, Pattern, Result, Rng, stream};

use crate::layout::Layout;
use crate::spec::{BlockJob, gcd};

/// Draws operations for one job.
pub struct Draw {
    kinds: KindDraw,
    sizes: SizeDraw,
    offsets: Offsets,
    kind_rng: Rng,
    size_rng: Rng,
}

enum KindDraw {
    Always(OpKind),
    /// Read below the first bound, write below the second, else trim; of the whole range of u64.
    Mixed([u64; 2]),
}

enum SizeDraw {
    Always(u32),
    /// Length and cumulated bound.
    Weighted(Vec<(u64, u32)>),
}

impl Draw {
    /// For job `index`, over its layout's space.
    ///
    /// # Errors
    /// [`storlab_base::Error::Spec`] for a pattern that cannot be.
    pub fn new(job: &BlockJob, index: usize, layout: &Layout) -> Result<Self> {
        let share = layout.share;
        // A sequential pass reaches the end of the space, also where that is no multiple of the
        // block.
        let unit = match job.offsets {
            Pattern::Sequential => gcd(job.unit(), layout.space),
            _ => job.unit(),
        };
        // Independent offsets for every job, whatever it shares; the pattern's own permutations are
        // keyed by the seed alone, so that jobs agree on what is hot.
        let offsets = Offsets::new(
            &job.offsets,
            layout.space,
            unit,
            job.longest_block(),
            share,
            job.seed.wrapping_add(layout.members().next().map_or(0, u64::from) << 32),
        )?;
        Ok(Draw {
            kinds: KindDraw::new(job),
            sizes: SizeDraw::new(job),
            offsets,
            kind_rng: stream(job.seed, "kind", index as u64),
            size_rng: stream(job.seed, "size", index as u64),
        })
    }

    /// Kind of the next operation.
    #[inline]
    pub fn kind(&mut self) -> OpKind {
        match self.kinds {
            KindDraw::Always(kind) => kind,
            KindDraw::Mixed([read, write]) => match self.kind_rng.next_u64() {
                x if x < read => OpKind::Read,
                x if x < write => OpKind::Write,
                _ => OpKind::Trim,
            },
        }
    }

    /// Length of the next operation.
    #[inline]
    pub fn len(&mut self) -> u32 {
        match &self.sizes {
            SizeDraw::Always(len) => *len,
            SizeDraw::Weighted(bounds) => {
                let x = self.size_rng.next_u64();
                let found = bounds.iter().find(|(bound, _)| x < *bound);
                found.or(bounds.last()).map_or(0, |&(_, len)| len)
            }
        }
    }

    /// Place of an operation of `len` bytes, in the layout's flat space.
    #[inline]
    pub fn offset(&mut self, len: u32) -> u64 {
        self.offsets.next(u64::from(len))
    }
}

/// `share` of the range of u64.
fn bound(share: f64) -> u64 {
    (share.clamp(0.0, 1.0) * 2f64.powi(64)) as u64
}

impl KindDraw {
    fn new(job: &BlockJob) -> Self {
        let mix = &job.mix;
        for (percent, kind) in
            [(mix.read, OpKind::Read), (mix.write, OpKind::Write), (mix.trim, OpKind::Trim)]
        {
            if percent >= 100.0 {
                return KindDraw::Always(kind);
            }
        }
        // Without trims the last bound is the whole range, or rounding would let one through.
        let write = if mix.trim > 0.0 { bound((mix.read + mix.write) / 100.0) } else { u64::MAX };
        KindDraw::Mixed([bound(mix.read / 100.0), write])
    }
}

impl SizeDraw {
    fn new(job: &BlockJob) -> Self {
        if let [only] = &job.block_sizes[..] {
            return SizeDraw::Always(only.bytes as u32);
        }
        let total: f64 = job.block_sizes.iter().map(|s| s.weight).sum();
        let mut sum = 0.0;
        let bounds = job.block_sizes.iter().map(|size| {
            sum += size.weight / total;
            (bound(sum), size.bytes as u32)
        });
        SizeDraw::Weighted(bounds.collect())
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
        // Five standard deviations of a binomial with n = 100,000.
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
