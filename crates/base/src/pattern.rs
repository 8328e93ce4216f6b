//! Generators of I/O offsets: seeded, reproducible, and cheap enough to draw for each I/O.

mod permute;
mod zipf;

use rand_core::Rng as _;
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::random::{Rng, below, stream};
use permute::Permutation;
use zipf::{Zipf, fraction};

/// Largest accepted exponent of a Zipf distribution. Steeper ones put all I/O on one block, and
/// powers stay exact in f64 up to here.
const THETA_MAX: f64 = 20.0;

/// Distribution of offsets. Mirrors `Offsets` of `storlab/model/job.py`; fields that the kind does
/// not use are ignored.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Pattern {
    /// Uniform: each position is equally likely.
    Uniform,
    /// Sequential: positions in ascending order.
    Sequential,
    /// Zipf: the `k`-th hottest position has a probability proportional to `k^-theta`.
    Zipf {
        /// Exponent, above 0.
        theta: f64,
    },
    /// Hot/cold: a share of the space receives a share of the operations.
    HotCold {
        /// Hot share of the space, in percent.
        hot_space_percent: f64,
        /// Share of operations that access the hot share of the space, in percent.
        hot_access_percent: f64,
    },
    /// Permutation: each block is visited once before any is visited again.
    Permutation,
}

impl Pattern {
    /// Return the unit in bytes of which all offsets are multiples, if block sizes are multiples of
    /// `block`. For a sequential pattern, the unit also divides `space`, because the last I/O of a
    /// pass ends exactly at the end of the space.
    pub fn unit(&self, block: u64, space: u64) -> u64 {
        match self {
            Pattern::Sequential => gcd(block, space),
            _ => block,
        }
    }
}

/// Return the greatest common divisor of `a` and `b`.
pub fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Index of a job among the jobs that access the same space (range of bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Index of the job, from 0.
    pub index: u64,
    /// Number of jobs that share the space.
    pub count: u64,
}

impl Share {
    /// Return how many of `all` items this job gets. If the items cannot be divided evenly, the
    /// first jobs get one more.
    pub fn of(self, all: u64) -> u64 {
        all / self.count + u64::from(self.index < all % self.count)
    }

    /// Return which of `all` items this job gets, as a range. If the items cannot be divided
    /// evenly, the first jobs get one more.
    pub fn range(self, all: u64) -> std::ops::Range<u64> {
        let edge = |index: u64| all / self.count * index + index.min(all % self.count);
        edge(self.index)..edge(self.index + 1)
    }
}

/// Stream of offsets of one job.
///
/// - uniform: offsets over the whole space, from an independent random stream per job.
/// - sequential: each job has an equal part of the space, in whole blocks of `max_len`, and starts
///   over at its end. The last I/O of a pass ends exactly at the end of the part, even if it then
///   overlaps the I/O before it, so every byte is visited.
/// - zipf, hot/cold: the seed scatters the hot positions over the space; they are the same for all
///   jobs.
/// - permutation: the space is divided into slots of `max_len` bytes. In each pass the jobs
///   together visit each slot once, in a new order. The remainder after the last whole slot is
///   never visited.
#[derive(Clone, Debug)]
pub struct Offsets {
    random: Rng,
    unit: u64,
    units: u64,
    /// Length of the last requested I/O. `starts` is the number of positions at which an I/O of
    /// this length can start.
    len: u64,
    starts: u64,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Uniform,
    Sequential { begin: u64, end: u64, cursor: u64 },
    Zipf { ranks: Zipf, order: Permutation },
    HotCold { hot: u64, hot_access: u64, order: Permutation },
    Permutation(Passes),
}

/// State of a job's permutation pattern. The job visits positions `index`, `index + count`, ... of
/// each pass.
#[derive(Clone, Debug)]
struct Passes {
    order: Permutation,
    slots: u64,
    slot_len: u64,
    share: Share,
    position: u64,
    pass: u64,
    seed: u64,
}

impl Offsets {
    /// Create a stream of offsets in a space of `space` bytes. All offsets are multiples of `unit`
    /// bytes. Every requested length must be a multiple of `unit` and at most `max_len`.
    ///
    /// # Errors
    /// [`Error::Spec`] if the space is too small for the blocks or the jobs, or if a parameter of
    /// the pattern is out of range.
    pub fn new(
        pattern: &Pattern,
        space: u64,
        unit: u64,
        max_len: u64,
        share: Share,
        seed: u64,
    ) -> Result<Offsets> {
        check_space(space, unit, max_len, share)?;
        let units = space / unit;
        let scattered = || Permutation::new(units, seed, "offsets-order", 0);
        let kind = match *pattern {
            Pattern::Uniform => Kind::Uniform,
            Pattern::Sequential => {
                let (begin, end) = part(units * unit, max_len, share);
                Kind::Sequential { begin, end, cursor: begin }
            }
            Pattern::Zipf { theta } => {
                check_theta(theta)?;
                Kind::Zipf { ranks: Zipf::new(units, theta), order: scattered() }
            }
            Pattern::HotCold { hot_space_percent, hot_access_percent } => {
                let (hot, hot_access) = hot_share(units, hot_space_percent, hot_access_percent)?;
                Kind::HotCold { hot, hot_access, order: scattered() }
            }
            Pattern::Permutation => Kind::Permutation(Passes::new(space, max_len, share, seed)),
        };
        let random = stream(seed, "offsets", share.index);
        let mut offsets = Offsets { random, unit, units, len: 0, starts: 0, kind };
        if matches!(pattern, Pattern::Sequential | Pattern::Permutation) {
            check_jobs(space, max_len, share)?;
        }
        offsets.fit(max_len);
        Ok(offsets)
    }

    /// Return the byte offset of the next I/O, of `len` bytes. It is at most `space - len`.
    // Inlined, because a sequential draw takes fewer instructions than a call would.
    #[allow(clippy::inline_always)]
    #[inline(always)]
    pub fn next(&mut self, len: u64) -> u64 {
        if len != self.len {
            self.fit(len);
        }
        match &mut self.kind {
            Kind::Uniform => below(&mut self.random, self.starts) * self.unit,
            Kind::Sequential { begin, end, cursor } => advance(*begin, *end, cursor, len),
            Kind::Permutation(passes) => passes.next(),
            Kind::Zipf { .. } | Kind::HotCold { .. } => self.scattered(),
        }
    }

    /// Draw an offset from a zipf or hot/cold pattern.
    fn scattered(&mut self) -> u64 {
        let place = match &mut self.kind {
            Kind::Zipf { ranks, order } => order.place(ranks.draw(&mut self.random)),
            Kind::HotCold { hot, hot_access, order } => {
                let rank = if self.random.next_u64() <= *hot_access {
                    below(&mut self.random, *hot)
                } else {
                    *hot + below(&mut self.random, self.units - *hot)
                };
                order.place(rank)
            }
            // Unreachable: `next` calls this for zipf and hot/cold patterns only.
            Kind::Uniform | Kind::Sequential { .. } | Kind::Permutation(_) => return 0,
        };
        // A position too near the end of the space for this I/O is moved to the front of the space.
        let place = if place < self.starts { place } else { place % self.starts };
        place * self.unit
    }

    #[cold]
    fn fit(&mut self, len: u64) {
        self.len = len;
        self.starts = self.units.saturating_sub(len.div_ceil(self.unit)) + 1;
    }
}

impl Passes {
    fn new(space: u64, slot_len: u64, share: Share, seed: u64) -> Self {
        let slots = space / slot_len;
        let order = Permutation::new(slots, seed, "offsets-pass", 0);
        Passes { order, slots, slot_len, share, position: share.index, pass: 0, seed }
    }

    /// Return the next offset. Not inlined, so that the code of other patterns stays short.
    #[inline(never)]
    fn next(&mut self) -> u64 {
        if self.position >= self.slots {
            self.start_over();
        }
        let slot = self.order.place(self.position);
        self.position += self.share.count;
        slot * self.slot_len
    }

    #[cold]
    fn start_over(&mut self) {
        self.pass += 1;
        self.position = self.share.index;
        self.order = Permutation::new(self.slots, self.seed, "offsets-pass", self.pass);
    }
}

/// Return the next offset of sequential I/O in `[begin, end)`, starting over at `begin` after the
/// end.
#[inline]
fn advance(begin: u64, end: u64, cursor: &mut u64, len: u64) -> u64 {
    if *cursor >= end {
        *cursor = begin;
    }
    let at = (*cursor).min(end.saturating_sub(len)).max(begin);
    *cursor = at + len;
    at
}

/// Return begin and end of one job's part of a sequential space, in bytes. Parts are whole blocks.
/// If the blocks cannot be divided evenly, the first jobs get one more; the last job also gets the
/// remainder after the last whole block.
fn part(space: u64, max_len: u64, share: Share) -> (u64, u64) {
    let blocks = share.range(space / max_len);
    let end = if share.index + 1 == share.count { space } else { blocks.end * max_len };
    (blocks.start * max_len, end)
}

/// Return the number of hot units (smallest steps of an offset), and the probability that an I/O
/// accesses one of them, as a fraction of 2^64.
fn hot_share(units: u64, space_percent: f64, access_percent: f64) -> Result<(u64, u64)> {
    let field = "offsets.hot_space_percent";
    if !(space_percent > 0.0 && space_percent <= 100.0) {
        return Err(Error::spec(
            field,
            format!("{space_percent} is out of range"),
            "use a value above 0 and at most 100",
        ));
    }
    if !(0.0..=100.0).contains(&access_percent) {
        let field = "offsets.hot_access_percent";
        return Err(Error::spec(
            field,
            format!("{access_percent} is out of range"),
            "use 0 to 100",
        ));
    }
    let hot = ((units as f64 * space_percent / 100.0).round() as u64).clamp(1, units);
    if hot == units {
        return Ok((units, u64::MAX));
    }
    Ok((hot, fraction(access_percent / 100.0)))
}

fn check_theta(theta: f64) -> Result<()> {
    if theta > 0.0 && theta <= THETA_MAX {
        return Ok(());
    }
    let fix =
        format!("use a value above 0 and at most {THETA_MAX}; for no skew use kind = \"uniform\"");
    Err(Error::spec("offsets.theta", format!("{theta} is out of range"), fix))
}

fn check_space(space: u64, unit: u64, max_len: u64, share: Share) -> Result<()> {
    if unit == 0 || max_len == 0 || !max_len.is_multiple_of(unit) {
        let what = format!("{max_len} bytes is not a multiple of the alignment, {unit} bytes");
        let fix = "use block sizes that are multiples of the alignment";
        return Err(Error::spec("block_sizes", what, fix));
    }
    if space / unit * unit < max_len {
        let what = format!("a region of {space} bytes cannot hold one block of {max_len} bytes");
        return Err(Error::spec(
            "members.size",
            what,
            "use a larger region or a smaller block size",
        ));
    }
    if share.index >= share.count {
        let what = format!("job index {} is too high for {} jobs", share.index, share.count);
        return Err(Error::spec("jobs", what, "number the jobs from 0"));
    }
    Ok(())
}

fn check_jobs(space: u64, max_len: u64, share: Share) -> Result<()> {
    let blocks = space / max_len;
    if blocks >= share.count {
        return Ok(());
    }
    let what = format!("{} jobs share only {blocks} blocks of {max_len} bytes", share.count);
    Err(Error::spec("jobs", what, "use fewer jobs, a smaller block size or a larger region"))
}
