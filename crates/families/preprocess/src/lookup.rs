//! From a value to its id: see [`Lookup`].

pub mod lines;
#[cfg(test)]
mod tests;

use lines::{LAST, Lines, find, full, home, last, mix, next, prefetch, put};

/// Of the eight lanes of a line: more costs time, fewer memory.
const ENTRIES_PER_LINE: u64 = 4;
/// With the id in the last lane of a full line: values that belong here are in the next one.
const PASSED: u32 = 1 << 31;
/// Lines that are asked for together.
const BATCH: usize = 64;
/// Tables up to this size are in a near cache anyway.
const NEAR_BYTES: usize = 1 << 18;

/// The ids of a vocabulary, by value: made once, then shared by all workers.
#[derive(Debug)]
pub struct Lookup {
    lines: Lines,
}

impl Lookup {
    /// Memory of a vocabulary of so many entries, in bytes.
    pub fn bytes_for(entries: u64) -> usize {
        Lines::bytes(Self::lines_for(entries))
    }

    fn lines_for(entries: u64) -> usize {
        (entries / ENTRIES_PER_LINE) as usize + 1
    }

    /// Of the first `entries` of `values`, which are all different: the first has the id
    /// `first_id`, 1 or more, the next one the id after it. All are below 2^31.
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

    /// The id of each value; 0 where it has none. Both slices have one length.
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
    // As numbers, so that this is one branch, which is seldom taken, and not one for each reason.
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
