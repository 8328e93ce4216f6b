//! Counting of a column's distinct values within a memory budget: see [`Counting`].

mod table;
#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::panic::resume_unwind;
use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, PoisonError};
use std::thread;

use storlab_base::{Error, Result, lock};

use super::budget::{Budget, Held};
use super::lookup::lines::mix;
use super::merge::{END, Tournament, Vocabulary};
use table::Table;

/// Number of shards of a column. The top bits of a value's hash determine its shard.
pub const SHARDS: usize = 256;
const HASH_BITS: u32 = u32::BITS - SHARDS.ilog2();

/// Number of (hash, count) pairs that a worker collects for a shard before it locks the shard.
const BLOCK: usize = 128;
/// Number of slots of a worker's own cache of frequent values.
const FREQUENT: usize = 1 << FREQUENT_BITS;
const FREQUENT_BITS: u32 = 12;
/// Number of values after which a worker checks again whether its cache of frequent values pays
/// off.
const CHUNK: usize = 4096;
/// Number of chunks of values for which a worker stops using its cache of frequent values after the
/// cache did not pay off.
const PAUSE: usize = 15;
/// Count above which a table moves counts to `carried`, a map with 64-bit counts.
const LIMIT: u32 = 1 << 31;
/// Maximum number of values that a worker collects, so that their count plus `LIMIT` fits into 32
/// bits.
const GATHERED: usize = 1 << 30;

/// One pass that counts the values of a column, shared by all workers.
///
/// The pass counts the shards `first..end`. If the budget is exhausted, the upper half of them is
/// discarded and left to a later pass, so `end` decreases. Shards below the final `end` were never
/// discarded, so their counts are complete.
#[derive(Debug)]
pub struct Counting<'b> {
    budget: &'b Budget,
    first: usize,
    end: AtomicUsize,
    shards: Vec<Mutex<Table<'b>>>,
    /// Locked while a worker discards shards, so that two workers do not discard shards for one
    /// shortage of memory.
    shedding: Mutex<()>,
    /// Number of times that shards were discarded; incremented after their memory was freed.
    sheds: AtomicUsize,
    limit: u32,
}

/// Buffer in which one worker collects counts before it adds them to the shards. An entry is a pair
/// of a hash (upper 32 bits) and a count.
#[derive(Debug)]
pub struct Scatter<'b> {
    blocks: Vec<[u64; BLOCK]>,
    lengths: [usize; SHARDS],
    frequent: Vec<u64>,
    /// Upper bound of every count in `frequent` and `blocks`.
    gathered: usize,
    pause: usize,
    _held: Held<'b>,
}

impl<'b> Counting<'b> {
    /// Create a pass that counts the shards from `first` on.
    pub fn new(budget: &'b Budget, first: usize) -> Self {
        Self::with_limit(budget, first, LIMIT)
    }

    fn with_limit(budget: &'b Budget, first: usize, limit: u32) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let end = AtomicUsize::new(SHARDS);
        let (shedding, sheds) = (Mutex::default(), AtomicUsize::new(0));
        Counting { budget, first, end, shards, shedding, sheds, limit }
    }

    /// Create the buffer of one worker. It takes about 300 kB of the budget.
    ///
    /// # Errors
    /// [`Error::Spec`] if the budget is too small even with a single shard.
    pub fn scatter(&self) -> Result<Scatter<'b>> {
        let bytes = (SHARDS * BLOCK + FREQUENT) * size_of::<u64>();
        let held = loop {
            let sheds = self.sheds.load(Acquire);
            if let Some(held) = self.budget.hold(bytes) {
                break held;
            }
            self.shed(sheds)?;
        };
        Ok(Scatter {
            blocks: vec![[0; BLOCK]; SHARDS],
            lengths: [0; SHARDS],
            frequent: vec![0; FREQUENT],
            gathered: 0,
            pause: 0,
            _held: held,
        })
    }

    /// Count `values`.
    ///
    /// # Errors
    /// [`Error::Spec`] if the budget is too small for a single shard.
    pub fn add(&self, scatter: &mut Scatter<'b>, values: &[u32]) -> Result<()> {
        for chunk in values.chunks(CHUNK) {
            if scatter.pause > 0 {
                scatter.pause -= 1;
                for value in chunk {
                    self.push(scatter, u64::from(mix(*value)) << 32 | 1)?;
                }
                continue;
            }
            if scatter.gathered + chunk.len() > GATHERED {
                self.flush(scatter)?;
            }
            scatter.gathered += chunk.len();
            if self.add_frequent(scatter, chunk)? > chunk.len() / 2 {
                scatter.pause = PAUSE;
            }
        }
        Ok(())
    }

    /// Count values in the worker's cache `frequent`, in which each value can use one slot only.
    /// Return the number of evicted entries.
    fn add_frequent(&self, scatter: &mut Scatter<'b>, values: &[u32]) -> Result<usize> {
        let mut evicted = 0;
        for value in values {
            let hash = mix(*value);
            let place = &mut scatter.frequent[(hash >> (u32::BITS - FREQUENT_BITS)) as usize];
            let before = *place;
            let same = (before >> 32) as u32 == hash;
            *place = if same { before + 1 } else { u64::from(hash) << 32 | 1 };
            // Always store, and increase the length only on eviction. A branch here would
            // mispredict.
            let leaves = usize::from(!same) * usize::from(before as u32 != 0);
            evicted += leaves;
            let shard = (before >> (32 + HASH_BITS)) as usize;
            let length = &mut scatter.lengths[shard];
            scatter.blocks[shard][*length] = before;
            *length += leaves;
            if *length == BLOCK {
                self.drain(scatter, shard)?;
            }
        }
        Ok(evicted)
    }

    #[inline]
    fn push(&self, scatter: &mut Scatter<'b>, pair: u64) -> Result<()> {
        let shard = (pair >> (32 + HASH_BITS)) as usize;
        let length = &mut scatter.lengths[shard];
        scatter.blocks[shard][*length] = pair;
        *length += 1;
        if *length == BLOCK {
            return self.drain(scatter, shard);
        }
        Ok(())
    }

    /// Move all entries of the worker's cache `frequent` to its blocks.
    fn settle(&self, scatter: &mut Scatter<'b>) -> Result<()> {
        for place in 0..FREQUENT {
            let pair = std::mem::take(&mut scatter.frequent[place]);
            if pair as u32 != 0 {
                self.push(scatter, pair)?;
            }
        }
        scatter.gathered = 0;
        Ok(())
    }

    /// Add everything that a worker has collected to the shards. It must be called for each worker
    /// before [`Counting::finish`].
    pub fn flush(&self, scatter: &mut Scatter<'b>) -> Result<()> {
        self.settle(scatter)?;
        (0..SHARDS).try_for_each(|shard| self.drain(scatter, shard))
    }

    fn drain(&self, scatter: &mut Scatter<'b>, shard: usize) -> Result<()> {
        let mut length = std::mem::take(&mut scatter.lengths[shard]);
        while length > 0 {
            let sheds = self.sheds.load(Acquire);
            let mut table = lock(&self.shards[shard]);
            if !(self.first..self.end.load(Relaxed)).contains(&shard) {
                break;
            }
            let pairs = &mut scatter.blocks[shard][..length];
            length = table.add(pairs, self.limit, self.budget);
            drop(table);
            if length > 0 {
                self.shed(sheds)?;
            }
        }
        Ok(())
    }

    /// Discard the upper half of the shards, because the budget is exhausted. Do nothing if another
    /// worker has done so since the caller read `sheds`.
    ///
    /// `end` is lowered before the shards are freed under their locks. So a worker that locks a
    /// shard later sees that it was discarded.
    fn shed(&self, sheds: usize) -> Result<()> {
        let _one = lock(&self.shedding);
        if self.sheds.load(Relaxed) > sheds {
            return Ok(());
        }
        let end = self.end.load(Relaxed);
        let middle = self.first + (end - self.first) / 2;
        if middle == self.first {
            return Err(too_little(self.budget));
        }
        self.end.store(middle, Relaxed);
        for shard in &self.shards[middle..end] {
            *lock(shard) = Table::default();
        }
        self.sheds.fetch_add(1, Release);
        Ok(())
    }

    /// Drop values counted fewer than `threshold` times and sort the rest, on `workers` threads.
    pub fn finish(self, threshold: u64, workers: usize) -> Sorted<'b> {
        let end = self.end.into_inner();
        let tables = self.shards.into_iter().take(end).skip(self.first);
        let mut tables: Vec<Table<'b>> = tables
            .map(|table| table.into_inner().unwrap_or_else(PoisonError::into_inner))
            .collect();
        let share = tables.len().div_ceil(workers.max(1)).max(1);
        let finish = |(number, tables): (usize, &mut [Table<'b>])| {
            let shards = self.first + number * share..;
            let heavy = tables.iter_mut().zip(shards);
            heavy.flat_map(|(table, shard)| table.finish(shard, threshold)).collect::<Vec<_>>()
        };
        let mut heavy: Vec<Heavy> = thread::scope(|scope| {
            let shares = tables.chunks_mut(share).enumerate();
            let threads: Vec<_> = shares.map(|share| scope.spawn(move || finish(share))).collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap_or_else(|cause| resume_unwind(cause)))
                .collect()
        });
        heavy.sort_unstable_by_key(|entry| (u64::MAX - entry.count, entry.value));
        Sorted { end, tables, heavy }
    }
}

/// Value whose count exceeded the limit of a table. Such values precede all others in the
/// vocabulary.
#[derive(Clone, Copy, Debug)]
struct Heavy {
    count: u64,
    value: u32,
}

/// Counts of one pass, sorted by descending count, then by ascending value.
#[derive(Debug)]
pub struct Sorted<'b> {
    /// First shard of the next pass; [`SHARDS`] if there is none.
    pub end: usize,
    tables: Vec<Table<'b>>,
    heavy: Vec<Heavy>,
}

impl Sorted<'_> {
    /// Return the number of values that were counted at least `threshold` times.
    pub fn kept(&self) -> u64 {
        let kept = self.tables.iter().map(|table| table.kept().len()).sum::<usize>();
        (kept + self.heavy.len()) as u64
    }

    /// Return the number of distinct values, whatever their count.
    pub fn distinct(&self) -> u64 {
        self.tables.iter().map(Table::distinct).sum()
    }

    /// Write values (32 bits) and counts (64 bits) in little endian. The order is by descending
    /// count, then by ascending value.
    pub fn write(self, values: &mut dyn Write, counts: &mut dyn Write) -> io::Result<()> {
        let mut vocabulary = Vocabulary::new(values, counts);
        for entry in &self.heavy {
            vocabulary.write(entry.value, entry.count)?;
        }
        let mut shards: Vec<_> = self.tables.iter().map(Table::kept).collect();
        let firsts = shards.iter_mut().map(|ranks| ranks.next().unwrap_or(END));
        let mut tournament = Tournament::new(firsts);
        while let Some((value, count, shard)) = tournament.winner() {
            vocabulary.write(value, count)?;
            tournament.replace(shards[shard].next().unwrap_or(END));
        }
        vocabulary.finish().map(drop)
    }
}

fn too_little(budget: &Budget) -> Error {
    let (limit, used) = (budget.limit(), budget.used());
    let what = format!("is {limit} bytes ({used} in use), too little to count a column with");
    Error::spec("memory_bytes", what, "set a larger memory")
}
