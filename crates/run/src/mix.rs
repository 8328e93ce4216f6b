//! Mix of operation kinds and sizes of a load of reads and writes.

use rand_core::Rng as _;
use serde::Deserialize;
use storlab_base::{OpKind, Result, Rng, stream};

use crate::order::{WeightedSize, require};
use crate::sampling::Kind;

/// Shares of operations by kind, in percent.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Mix {
    /// Share of reads.
    pub read: f64,
    /// Share of writes.
    pub write: f64,
    /// Share of trims (deallocations).
    #[serde(default)]
    pub trim: f64,
}

impl Mix {
    /// Check that the shares add up to 100 %.
    ///
    /// # Errors
    /// [`storlab_base::Error::Spec`] if they do not, or if a share is negative.
    pub fn check(&self) -> Result<()> {
        let shares = [self.read, self.write, self.trim];
        let total: f64 = shares.iter().sum();
        let whole = (total - 100.0).abs() <= 1e-6 && shares.iter().all(|&share| share >= 0.0);
        require(whole, "mix", || format!("adds up to {total} %"), "make it 100 %")
    }

    /// Return whether the mix contains reads.
    pub fn reads(&self) -> bool {
        self.read > 0.0
    }

    /// Return whether the mix contains writes.
    pub fn writes(&self) -> bool {
        self.write > 0.0
    }

    /// Return the kinds of operation of this mix; `syncs` adds flushes.
    pub fn kinds(&self, syncs: bool) -> Vec<Kind> {
        let has = [self.reads(), self.writes(), self.trim > 0.0, syncs];
        let all = OpKind::ALL.map(|kind| Kind {
            place: kind as usize,
            name: kind.name(),
            moves: matches!(kind, OpKind::Read | OpKind::Write),
            apart: kind == OpKind::Sync,
        });
        all.into_iter().zip(has).filter_map(|(kind, has)| has.then_some(kind)).collect()
    }
}

/// Generator of operation kinds for one worker, with its own random stream.
pub struct KindDraw {
    shares: Shares,
    random: Rng,
}

enum Shares {
    Always(OpKind),
    /// Bounds in the range of u64: below the first is a read, below the second a write, the rest
    /// trims.
    Mixed([u64; 2]),
}

impl KindDraw {
    /// Create the generator of one worker of a run with this seed.
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
        // Without trims the last bound must cover the whole range: rounding could otherwise produce
        // a trim.
        let write = if mix.trim > 0.0 { bound((mix.read + mix.write) / 100.0) } else { u64::MAX };
        Shares::Mixed([bound(mix.read / 100.0), write])
    }
}

/// Generator of operation sizes for one worker, with its own random stream.
pub struct SizeDraw {
    sizes: Sizes,
    random: Rng,
}

enum Sizes {
    Always(u32),
    /// Cumulative bounds, each with its size in bytes.
    Weighted(Vec<(u64, u32)>),
}

impl SizeDraw {
    /// Create the generator of one worker of a run with this seed.
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

/// Scale a share between 0 and 1 to the range of u64.
fn bound(share: f64) -> u64 {
    (share.clamp(0.0, 1.0) * 2f64.powi(64)) as u64
}
