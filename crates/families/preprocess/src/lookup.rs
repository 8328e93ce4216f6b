//! Lookup of a value's id: see [`Lookup`].

pub mod lines;
#[cfg(test)]
mod tests;

use lines::{LAST, Lines, find, full, home, last, mix, next, prefetch, put};

/// Average load of a line's eight lanes: higher costs time, lower costs memory.
const ENTRIES_PER_LINE: u64 = 4;
/// Flag beside the id in the last lane of a full line: the search for an absent value goes on in
/// the next line.
const PASSED: u32 = 1 << 31;
/// Number of values whose lines are prefetched together.
const BATCH: usize = 64;
/// Tables up to this size are not prefetched: they fit into a near cache.
const NEAR_BYTES: usize = 1 << 18;

/// Hash table from values of a vocabulary to ids; built once, then shared by all workers.
#[derive(Debug)]
pub struct Lookup {
    lines: Lines,
}

impl Lookup {
    /// Return the memory in bytes of a table with this many entries.
    pub fn bytes_for(entries: u64) -> usize {
        Lines::bytes(Self::lines_for(entries))
    }

    fn lines_for(entries: u64) -> usize {
        (entries / ENTRIES_PER_LINE) as usize + 1
    }

    /// Build a table of the first `entries` of `values`, which must be distinct. Ids are
    /// consecutive from `first_id`, which is at least 1; all are below 2^31.
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

    /// Store the id of each value in `ids`, 0 if it has none. Both slices have the same length.
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
    // Combined arithmetically, so that this is a single, rarely taken branch instead of one per
    // condition.
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
