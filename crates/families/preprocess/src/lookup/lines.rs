//! A hash table of cache lines: eight keys and their eight numbers lie in one line, so that a look
//! costs one miss, and eight comparisons without a branch.

#![allow(unsafe_code)]

/// Keys of a line, and numbers of a line.
pub const LANES: usize = 8;
const WORDS: usize = 2 * LANES;
/// Where the number of the last lane is.
pub const LAST: usize = WORDS - 1;

/// Eight keys, then their numbers. Lanes fill from the first; a free one has the number 0.
pub type Line = [u32; WORDS];

/// Lines in a row that begins at a boundary of cache lines. All lanes are free at first.
#[derive(Debug, Default)]
pub struct Lines {
    words: Vec<u32>,
    start: usize,
    count: usize,
}

impl Lines {
    /// So many lines, one at least.
    pub fn new(count: usize) -> Self {
        let words = vec![0; Self::bytes(count) / size_of::<u32>()];
        let start = Self::boundary(&words);
        Lines { words, start, count }
    }

    /// `bytes` has one line over, which is all that alignment can ask for.
    fn boundary(words: &[u32]) -> usize {
        words.as_ptr().align_offset(size_of::<Line>()).min(WORDS)
    }

    /// Memory of `count` lines, in bytes.
    pub const fn bytes(count: usize) -> usize {
        (count + 1) * size_of::<Line>()
    }

    /// Twice as many where they stand, so that no second copy is needed. Says which of the
    /// `entries` are out of the table then: those that did not lie in the line where their key
    /// begins to be looked for.
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
                // All write, without a branch; only what stays moves the end.
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

    /// How many.
    pub fn count(&self) -> usize {
        self.count
    }

    /// All of them, to read.
    #[inline]
    pub fn as_slice(&self) -> &[Line] {
        self.words[self.start..].as_chunks().0.split_at(self.count).0
    }

    /// All of them, to change.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [Line] {
        self.words[self.start..].as_chunks_mut().0.split_at_mut(self.count).0
    }
}

/// Where a key begins to be looked for: in the order of hashes, over the whole of the lines.
#[inline]
pub fn home(hash: u32, lines: usize) -> usize {
    ((u64::from(hash) * lines as u64) >> 32) as usize
}

/// The line after, in a ring.
#[inline]
pub fn next(at: usize, lines: usize) -> usize {
    if at + 1 < lines { at + 1 } else { 0 }
}

/// The number of a key in a line; 0 where it is not there.
#[inline]
pub fn find(line: &Line, key: u32) -> u32 {
    let (keys, numbers) = line.split_at(LANES);
    let mut number = 0;
    for lane in 0..LANES {
        number |= if keys[lane] == key { numbers[lane] } else { 0 };
    }
    number
}

/// No lane is free: a key that is not here may be in the next line.
#[inline]
pub fn full(line: &Line) -> bool {
    last(line) != 0
}

/// The number of the last lane: 0 where one is free.
#[inline]
pub fn last(line: &Line) -> u32 {
    line[LAST]
}

/// Put a key into the first free lane of a line that is not full.
#[inline]
pub fn put(line: &mut Line, key: u32, number: u32) {
    let lane = line[LANES..].iter().filter(|number| **number != 0).count();
    line[lane] = key;
    line[LANES + lane] = number;
}

/// Keys and numbers of a line.
#[inline]
pub fn entries(line: &Line) -> impl Iterator<Item = (u32, u32)> + '_ {
    let (keys, numbers) = line.split_at(LANES);
    let pairs = keys.iter().copied().zip(numbers.iter().copied());
    pairs.take_while(|(_, number)| *number != 0)
}

/// Ask for a line, if there is one, before it is needed.
#[inline]
pub fn prefetch(lines: &[Line], at: usize) {
    if let Some(line) = lines.get(at) {
        storlab_base::prefetch(line);
    }
}

const FIRST: u32 = 0x9e37_79b1;
const SECOND: u32 = 0x85eb_ca6b;

/// A hash that no two values share: [`unmix`] goes back. Its high bits are its best.
#[inline]
pub const fn mix(value: u32) -> u32 {
    let once = value.wrapping_mul(FIRST);
    (once ^ (once >> 15)).wrapping_mul(SECOND)
}

/// The value of a hash.
#[inline]
pub const fn unmix(hash: u32) -> u32 {
    let once = hash.wrapping_mul(inverse(SECOND));
    (once ^ (once >> 15) ^ (once >> 30)).wrapping_mul(inverse(FIRST))
}

/// Of an odd number, modulo 2^32, by Newton's method: each step doubles the bits that are right.
const fn inverse(odd: u32) -> u32 {
    let mut guess = odd;
    let mut step = 0;
    while step < 4 {
        guess = guess.wrapping_mul(2u32.wrapping_sub(odd.wrapping_mul(guess)));
        step += 1;
    }
    guess
}
