//! Hash table with the counts of one shard of a column.

use std::collections::HashMap;

use crate::budget::{Budget, Held};
use crate::lookup::lines::{LANES, Line, Lines, entries, full, home, next, prefetch, put, unmix};
use crate::merge::rank;

use super::{HASH_BITS, Heavy};

/// Average number of entries per cache line, which has room for eight, above which the table grows.
const ENTRIES_PER_LINE: usize = 5;
const FIRST_LINES: usize = 2;
/// Number of lines up to which tables are not prefetched: the tables of all shards of a column then
/// fit into a CPU cache close to the core.
const NEAR_LINES: usize = 16;
const HASH_MASK: u32 = (1 << HASH_BITS) - 1;

/// Hash table from keys to counts, with eight lanes (key and count) per cache line. A key is the
/// value's hash within its shard plus 1, so that 0 marks a free lane.
///
/// Counts above `limit` are moved to `carried`. That map is not part of the memory budget: it gains
/// at most one entry per `limit` rows.
#[derive(Debug, Default)]
pub struct Table<'b> {
    lines: Lines,
    entries: usize,
    carried: HashMap<u32, u64>,
    kept: usize,
    held: Option<Held<'b>>,
}

impl<'b> Table<'b> {
    /// Add pairs of a hash and a count, as `Scatter` collects them, to the table.
    ///
    /// Returns the number of pairs that could not be added because the budget is exhausted. They
    /// are then at the front of `pairs`.
    pub fn add(&mut self, pairs: &mut [u64], limit: u32, budget: &'b Budget) -> usize {
        if self.lines.count() == 0 && !self.grow(budget) {
            return pairs.len();
        }
        let lines = self.lines.as_slice();
        for pair in pairs.iter().filter(|_| lines.len() > NEAR_LINES) {
            prefetch(lines, home(hash(entry(*pair).0), lines.len()));
        }
        let mut left = self.add_known(pairs, limit);
        let lines = self.lines.as_mut_slice();
        for pair in &pairs[..left] {
            prefetch(lines, next(home(hash(entry(*pair).0), lines.len()), lines.len()));
        }
        while left > 0 && self.settle(pairs[left - 1], limit, budget) {
            left -= 1;
        }
        left
    }

    /// Add the pairs whose key is found in its home line (the cache line that is searched first).
    /// Return the number of pairs that were not added; they are then at the front of `pairs`.
    fn add_known(&mut self, pairs: &mut [u64], limit: u32) -> usize {
        let lines = self.lines.as_mut_slice();
        let mut left = 0;
        let mut above = false;
        for at in 0..pairs.len() {
            let (key, number) = entry(pairs[at]);
            let home = home(hash(key), lines.len());
            let count = bump(&mut lines[home], key, number);
            // Branch-free: both outcomes, found and not found, are common, so a branch would
            // mispredict.
            pairs[left] = pairs[at];
            left += usize::from(count == 0);
            above |= count > limit;
        }
        if above {
            self.carry_all(limit);
        }
        left
    }

    /// Add a pair whose key may be in any line, or not in the table. Return false if the table
    /// would have to grow but the budget is exhausted.
    fn settle(&mut self, pair: u64, limit: u32, budget: &'b Budget) -> bool {
        let (key, number) = entry(pair);
        let lines = self.lines.as_mut_slice();
        let mut at = home(hash(key), lines.len());
        let mut count = bump(&mut lines[at], key, number);
        while count == 0 && full(&lines[at]) {
            at = next(at, lines.len());
            count = bump(&mut lines[at], key, number);
        }
        if count == 0 {
            if self.entries < lines.len() * ENTRIES_PER_LINE {
                put(&mut lines[at], key, number);
            } else if self.grow(budget) {
                place(self.lines.as_mut_slice(), key, number);
            } else {
                return false;
            }
            self.entries += 1;
            count = number;
        }
        if count > limit {
            self.carry_all(limit);
        }
        true
    }

    /// Move all counts above `limit` to `carried`, but leave 1 of each in the table, so that its
    /// lane is not free.
    #[cold]
    fn carry_all(&mut self, limit: u32) {
        for line in self.lines.as_mut_slice() {
            let (keys, counts) = line.split_at_mut(LANES);
            for (key, count) in keys.iter().zip(counts).filter(|(_, count)| **count > limit) {
                let above = std::mem::replace(count, 1) - 1;
                *self.carried.entry(*key).or_default() += u64::from(above);
            }
        }
    }

    /// Double the size of the table. Return false, with nothing changed, if the budget is
    /// exhausted.
    fn grow(&mut self, budget: &'b Budget) -> bool {
        let before = self.lines.count();
        if before == 0 {
            let Some(held) = budget.hold(Lines::bytes(FIRST_LINES)) else { return false };
            self.held = Some(held);
            self.lines = Lines::new(FIRST_LINES);
            return true;
        }
        let more = Lines::bytes(2 * before) - Lines::bytes(before);
        let beside = budget.hold(self.entries * size_of::<(u32, u32)>());
        if beside.is_none() || !self.held.as_mut().is_some_and(|held| held.more(more)) {
            return false;
        }
        let strays = self.lines.double(self.entries, hash);
        let lines = self.lines.as_mut_slice();
        for (key, count) in strays {
            place(lines, key, count);
        }
        true
    }

    /// Return the number of distinct values.
    pub fn distinct(&self) -> u64 {
        self.entries as u64
    }

    /// Collect the values counted at least `threshold` times as sorted pairs (inverted count,
    /// value) at the front of the table's own memory. A value is returned instead if part of its
    /// count was moved to `carried`.
    pub fn finish(&mut self, shard: usize, threshold: u64) -> Vec<Heavy> {
        let mut heavy = Vec::new();
        let mut kept = 0;
        for at in 0..self.lines.count() {
            let line = self.lines.as_slice()[at];
            let pairs = self.lines.as_mut_slice().as_flattened_mut().as_chunks_mut().0;
            for (key, count) in entries(&line) {
                let value = unmix((shard as u32) << HASH_BITS | (key - 1));
                let above = self.carried.get(&key).copied();
                let total = u64::from(count) + above.unwrap_or(0);
                if above.is_some() && total >= threshold {
                    heavy.push(Heavy { count: total, value });
                } else if total >= threshold {
                    // A line yields at most eight pairs, so they never overwrite lines that have
                    // not been read yet.
                    pairs[kept] = [!count, value];
                    kept += 1;
                }
            }
        }
        self.kept = kept;
        let pairs = self.lines.as_mut_slice().as_flattened_mut().as_chunks_mut().0;
        pairs[..kept]
            .sort_unstable_by_key(|[above, value]| u64::from(*above) << 32 | u64::from(*value));
        heavy
    }

    /// Yield the sort keys of the values that [`Table::finish`] kept, in order.
    pub fn kept(&self) -> impl ExactSizeIterator<Item = u128> + '_ {
        let lines = self.lines.as_slice();
        let pairs = &lines.as_flattened().as_chunks().0[..self.kept];
        pairs.iter().enumerate().map(|(at, [above, value])| {
            // Prefetch explicitly: many shards are read in turn, so the CPU does not detect the
            // sequence.
            if at % LANES == 0 {
                prefetch(lines, at / LANES + 1);
            }
            rank(*value, u64::from(!*above))
        })
    }
}

/// Split a pair of hash and count into the table's key and the count.
#[inline]
fn entry(pair: u64) -> (u32, u32) {
    (((pair >> 32) as u32 & HASH_MASK) + 1, pair as u32)
}

/// Return the hash of a key, in the upper bits of a 32-bit number.
#[inline]
fn hash(key: u32) -> u32 {
    key.wrapping_sub(1) << (u32::BITS - HASH_BITS)
}

/// Store a key that is not in the table in the first free lane, from the key's home line (the line
/// that is searched first) on. At least one lane must be free.
fn place(lines: &mut [Line], key: u32, count: u32) {
    let mut at = home(hash(key), lines.len());
    while full(&lines[at]) {
        at = next(at, lines.len());
    }
    put(&mut lines[at], key, count);
}

/// Add `number` to the count of a key in a line, without branches. Return the new count; 0 if the
/// key is not in the line.
#[inline]
fn bump(line: &mut Line, key: u32, number: u32) -> u32 {
    let (keys, counts) = line.split_at_mut(LANES);
    let mut after = 0;
    for lane in 0..LANES {
        let here = if keys[lane] == key { u32::MAX } else { 0 };
        counts[lane] += number & here;
        after |= counts[lane] & here;
    }
    after
}
