//! Lookup of the id of a value: see [`Lookup`].

pub mod lines;
#[cfg(test)]
mod tests;

use lines::{LAST, Lines, find, full, home, last, mix, next, prefetch, put};

/// Average number of entries per cache line, which has room for eight. A higher number costs time,
/// a lower one memory.
const ENTRIES_PER_LINE: u64 = 4;
/// Flag in the id stored in the last lane of a full cache line: some values did not fit and are in
/// later lines. A search that finds nothing in this line then continues in the next one.
const PASSED: u32 = 1 << 31;
/// Number of values whose cache lines are prefetched together.
const BATCH: usize = 64;
/// Size in bytes up to which tables are not prefetched: they fit into a CPU cache close to the
/// core.
const NEAR_BYTES: usize = 1 << 18;

/// Hash table from the values of a vocabulary to their ids. It is built once, then shared by all
/// workers.
#[derive(Debug)]
pub struct Lookup {
    lines: Lines,
}

impl Lookup {
    /// Return the size in bytes of a table with this many entries.
    pub fn bytes_for(entries: u64) -> usize {
        Lines::bytes(Self::lines_for(entries))
    }

    fn lines_for(entries: u64) -> usize {
        (entries / ENTRIES_PER_LINE) as usize + 1
    }

    /// Build a table of the first `entries` of `values`, which must be distinct. They get
    /// consecutive ids from `first_id` on, which must be at least 1; all ids must be below 2^31.
    pub fn build(entries: u64, values: impl Iterator<Item = u32>, first_id: u32) -> Self {
        let mut lines = Lines::new(Self::lines_for(entries));
        let all = lines.as_mut_slice();
        for (value, id) in values.take(entries as usize).zip(first_id..) {
            let mut at = home(mix(value), all.len());
            while full(&all[at]) {
                all[at][LAST] |= PASSED;
                at = next(at, all.len());
            }
            put(&mut all[at], value, id);
        }
        Lookup { lines }
    }

    /// Store the id of each value in `ids`, or 0 if it has none. Both slices must have the same
    /// length.
    pub fn find(&self, values: &[u32], ids: &mut [u32]) {
        let lines = self.lines.as_slice();
        if size_of_val(lines) <= NEAR_BYTES {
            for (value, id) in values.iter().zip(ids) {
                *id = look(lines, *value, home(mix(*value), lines.len()));
            }
            return;
        }
        let mut homes = [0; BATCH];
        for (values, ids) in values.chunks(BATCH).zip(ids.chunks_mut(BATCH)) {
            for (value, at) in values.iter().zip(&mut homes) {
                *at = home(mix(*value), lines.len());
                prefetch(lines, *at);
            }
            for ((value, id), at) in values.iter().zip(ids).zip(homes) {
                *id = look(lines, *value, at);
            }
        }
    }
}

#[inline]
fn look(lines: &[lines::Line], value: u32, at: usize) -> u32 {
    let line = &lines[at];
    let id = find(line, value) & !PASSED;
    // The value is not in this line, and the line has overflowed. Both conditions are combined
    // arithmetically into one branch, which is rarely taken.
    if id.wrapping_sub(1) & last(line) >= PASSED {
        return look_on(lines, value, at);
    }
    id
}

#[cold]
fn look_on(lines: &[lines::Line], value: u32, mut at: usize) -> u32 {
    loop {
        at = next(at, lines.len());
        let id = find(&lines[at], value) & !PASSED;
        if id != 0 || last(&lines[at]) < PASSED {
            return id;
        }
    }
}
