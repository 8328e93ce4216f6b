//! Random choice of kind and size of the operations of a load that reads and writes.

use rand_core::Rng as _;
use serde::Deserialize;
use storlab_base::{OpKind, Result, Rng, stream};

use crate::order::{WeightedSize, require};
use crate::sampling::Kind;

/// Percentages of the kinds of operation in a load.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Mix {
    /// Percentage of reads.
    pub read: f64,
    /// Percentage of writes.
    pub write: f64,
    /// Percentage of trims (deallocations).
    #[serde(default)]
    pub trim: f64,
}

impl Mix {
    /// Check that the percentages add up to 100.
    ///
    /// # Errors
    /// [`storlab_base::Error::Spec`] if they do not, or if one is negative.
    pub fn check(&self) -> Result<()> {
        let shares = [self.read, self.write, self.trim];
        let total: f64 = shares.iter().sum();
        let whole = (total - 100.0).abs() <= 1e-6 && shares.iter().all(|&share| share >= 0.0);
        require(
            whole,
            "mix",
            || format!("adds up to {total} %"),
            "use shares of 0 % or more that add up to 100 %",
        )
    }

    /// Return whether the load contains reads.
    pub fn reads(&self) -> bool {
        self.read > 0.0
    }

    /// Return whether the load contains writes.
    pub fn writes(&self) -> bool {
        self.write > 0.0
    }

    /// Return the kinds of operation in the load. `syncs` adds flushes.
    pub fn kinds(&self, syncs: bool) -> Vec<Kind> {
        let has = [self.reads(), self.writes(), self.trim > 0.0, syncs];
        let all = OpKind::ALL.map(|kind| Kind {
            place: kind as usize,
            name: kind.name(),
            moves: matches!(kind, OpKind::Read | OpKind::Write),
            apart: kind == OpKind::Sync,
            group: 0,
        });
        all.into_iter().zip(has).filter_map(|(kind, has)| has.then_some(kind)).collect()
    }
}

/// Random generator of operation kinds for one worker.
pub struct KindDraw {
    shares: Shares,
    random: Rng,
}

enum Shares {
    Always(OpKind),
    /// Two thresholds in the range of u64. A random number below the first means a read, below the
    /// second a write, and any other a trim.
    Mixed([u64; 2]),
}

impl KindDraw {
    /// Create the generator of worker number `worker`. Each worker has an independent random
    /// stream.
    pub fn new(mix: &Mix, seed: u64, worker: usize) -> Self {
        KindDraw { shares: Shares::of(mix), random: stream(seed, "kind", worker as u64) }
    }

    /// Draw the kind of the next operation.
    #[inline]
    pub fn draw(&mut self) -> OpKind {
        match self.shares {
            Shares::Always(kind) => kind,
            Shares::Mixed([read, write]) => match self.random.next_u64() {
                x if x < read => OpKind::Read,
                x if x < write => OpKind::Write,
                _ => OpKind::Trim,
            },
        }
    }
}

impl Shares {
    fn of(mix: &Mix) -> Self {
        for (percent, kind) in
            [(mix.read, OpKind::Read), (mix.write, OpKind::Write), (mix.trim, OpKind::Trim)]
        {
            if percent >= 100.0 {
                return Shares::Always(kind);
            }
        }
        // Without trims, the second threshold must cover the whole range: rounding could otherwise
        // produce a trim.
        let write = if mix.trim > 0.0 { bound((mix.read + mix.write) / 100.0) } else { u64::MAX };
        Shares::Mixed([bound(mix.read / 100.0), write])
    }
}

/// Random generator of operation sizes for one worker.
pub struct SizeDraw {
    sizes: Sizes,
    random: Rng,
}

enum Sizes {
    Always(u32),
    /// Thresholds in the range of u64, each with the size in bytes that is chosen below it.
    Weighted(Vec<(u64, u32)>),
}

impl SizeDraw {
    /// Create the generator of worker number `worker`. Each worker has an independent random
    /// stream.
    pub fn new(sizes: &[WeightedSize], seed: u64, worker: usize) -> Self {
        let mut sum = 0.0;
        let total: f64 = sizes.iter().map(|size| size.weight).sum();
        let bounded = |size: &WeightedSize| {
            sum += size.weight / total;
            (bound(sum), size.bytes as u32)
        };
        let sizes = match sizes {
            [only] => Sizes::Always(only.bytes as u32),
            _ => Sizes::Weighted(sizes.iter().map(bounded).collect()),
        };
        SizeDraw { sizes, random: stream(seed, "size", worker as u64) }
    }

    /// Draw the size of the next operation, in bytes.
    #[inline]
    pub fn draw(&mut self) -> u32 {
        match &self.sizes {
            Sizes::Always(len) => *len,
            Sizes::Weighted(bounds) => {
                let x = self.random.next_u64();
                let drawn = bounds.iter().find(|(bound, _)| x < *bound);
                drawn.or(bounds.last()).map_or(0, |&(_, len)| len)
            }
        }
    }
}

/// Convert a probability between 0 and 1 to a threshold in the range of u64.
fn bound(share: f64) -> u64 {
    (share.clamp(0.0, 1.0) * 2f64.powi(64)) as u64
}
