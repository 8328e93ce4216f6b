//! Hash table whose buckets are cache lines. Eight keys and their eight numbers share a line, so
//! that a lookup costs one cache miss and eight branch-free comparisons.

#![allow(unsafe_code)]

/// Number of lanes per line: each is a key with its number.
pub const LANES: usize = 8;
const WORDS: usize = 2 * LANES;
/// Index, among the words of a line, of the number in the last of the eight lanes.
pub const LAST: usize = WORDS - 1;

/// Line of the hash table: eight keys, then their numbers. Lanes are filled from the first one; a
/// free lane has the number 0.
pub type Line = [u32; WORDS];

/// Array of lines, aligned to cache lines. All lanes are free at first.
#[derive(Debug, Default)]
pub struct Lines {
    words: Vec<u32>,
    start: usize,
    count: usize,
}

impl Lines {
    /// Allocate `count` lines, at least one.
    pub fn new(count: usize) -> Self {
        let words = vec![0; Self::bytes(count) / size_of::<u32>()];
        let start = Self::boundary(&words);
        Lines { words, start, count }
    }

    /// Return the index of the first word that is aligned to a cache line. [`Lines::bytes`]
    /// includes a spare line for the words skipped.
    fn boundary(words: &[u32]) -> usize {
        words.as_ptr().align_offset(size_of::<Line>()).min(WORDS)
    }

    /// Return the memory that `count` lines need, in bytes.
    pub const fn bytes(count: usize) -> usize {
        (count + 1) * size_of::<Line>()
    }

    /// Double the number of lines in place, without a second copy of the table.
    ///
    /// The table has `entries` entries. Returns the entries that the caller must insert again,
    /// because they were not in the home line of their key.
    pub fn double(&mut self, entries: usize, hash: impl Fn(u32) -> u32) -> Vec<(u32, u32)> {
        let (before, start) = (self.count, self.start);
        self.words.reserve_exact(before * WORDS);
        self.words.resize(self.words.len() + before * WORDS, 0);
        self.count = 2 * before;
        self.start = Self::boundary(&self.words);
        self.words.copy_within(start..start + before * WORDS, self.start);
        let lines = self.as_mut_slice();
        let mut strays = Vec::with_capacity(entries);
        for at in (0..before).rev() {
            let line = lines[at];
            let mut halves = [[0; WORDS]; 2];
            let mut lengths = [0; 2];
            for lane in 0..LANES {
                let (key, number) = (line[lane], line[LANES + lane]);
                let into = home(hash(key), 2 * before);
                let stays = into / 2 == at && number != 0;
                // Always store, and increase the length only for entries that stay. A branch here
                // would mispredict.
                let (half, end) = (&mut halves[into % 2], &mut lengths[into % 2]);
                let lane = *end % LANES;
                half[lane] = if stays { key } else { half[lane] };
                half[LANES + lane] = if stays { number } else { half[LANES + lane] };
                *end += usize::from(stays);
                if !stays && number != 0 {
                    strays.push((key, number));
                }
            }
            lines[2 * at..2 * at + 2].copy_from_slice(&halves);
        }
        strays
    }

    /// Return the number of lines of the table.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Return all lines of the table.
    #[inline]
    pub fn as_slice(&self) -> &[Line] {
        self.words[self.start..].as_chunks().0.split_at(self.count).0
    }

    /// Return all lines of the table for modification.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [Line] {
        self.words[self.start..].as_chunks_mut().0.split_at_mut(self.count).0
    }
}

/// Return the home line of a key, at which the search for it begins. Lines are in the order of
/// hashes.
#[inline]
pub fn home(hash: u32, lines: usize) -> usize {
    ((u64::from(hash) * lines as u64) >> 32) as usize
}

/// Return the index of the next line, wrapping around.
#[inline]
pub fn next(at: usize, lines: usize) -> usize {
    if at + 1 < lines { at + 1 } else { 0 }
}

/// Return the number stored for a key in a line; 0 if the key is not in the line.
#[inline]
pub fn find(line: &Line, key: u32) -> u32 {
    let (keys, numbers) = line.split_at(LANES);
    let mut number = 0;
    for lane in 0..LANES {
        number |= if keys[lane] == key { numbers[lane] } else { 0 };
    }
    number
}

/// Return whether all lanes of a line are used, so that a key may be in the next line instead.
#[inline]
pub fn full(line: &Line) -> bool {
    last(line) != 0
}

/// Return the number of the last lane of a line; 0 if that lane is free.
#[inline]
pub fn last(line: &Line) -> u32 {
    line[LAST]
}

/// Store a key in the first free lane of a line that is not full.
#[inline]
pub fn put(line: &mut Line, key: u32, number: u32) {
    let lane = line[LANES..].iter().filter(|number| **number != 0).count();
    line[lane] = key;
    line[LANES + lane] = number;
}

/// Yield the keys of a line with their numbers, without free lanes.
#[inline]
pub fn entries(line: &Line) -> impl Iterator<Item = (u32, u32)> + '_ {
    let (keys, numbers) = line.split_at(LANES);
    let pairs = keys.iter().copied().zip(numbers.iter().copied());
    pairs.take_while(|(_, number)| *number != 0)
}

/// Prefetch a line into the CPU cache, if the line exists.
#[inline]
pub fn prefetch(lines: &[Line], at: usize) {
    if let Some(line) = lines.get(at) {
        storlab_base::prefetch(line);
    }
}

const FIRST: u32 = 0x9e37_79b1;
const SECOND: u32 = 0x85eb_ca6b;

/// Return the hash of a value. The function is a bijection, inverted by [`unmix`]. The upper bits
/// of the hash are mixed best.
#[inline]
pub const fn mix(value: u32) -> u32 {
    let once = value.wrapping_mul(FIRST);
    (once ^ (once >> 15)).wrapping_mul(SECOND)
}

/// Return the value that has this hash; the inverse of [`mix`].
#[inline]
pub const fn unmix(hash: u32) -> u32 {
    let once = hash.wrapping_mul(inverse(SECOND));
    (once ^ (once >> 15) ^ (once >> 30)).wrapping_mul(inverse(FIRST))
}

/// Return the inverse of an odd number modulo 2^32, by Newton's method. Each step doubles the
/// number of correct bits.
const fn inverse(odd: u32) -> u32 {
    let mut guess = odd;
    let mut step = 0;
    while step < 4 {
        guess = guess.wrapping_mul(2u32.wrapping_sub(odd.wrapping_mul(guess)));
        step += 1;
    }
    guess
}
