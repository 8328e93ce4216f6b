//! Generator of click logs as text, with realistic shares of empty fields, cardinalities and skew.
//!
//! A column's values are numbered by rank, the most frequent first. Ranks are drawn by octaves:
//! rank 0, ranks 1 and 2, ranks 3 to 6, and so on. All ranks of an octave are equally likely, and
//! each octave has a fixed fraction of the weight of the previous one. This approximates a power
//! law with integer arithmetic only, so every machine draws the same values.

use rand_core::Rng as _;
use storlab_base::{Rng, stream};

#[cfg(test)]
mod tests;

/// Number of rows per block; each block has its own random stream.
pub const BLOCK_ROWS: u64 = 16_384;
/// Upper bound of the size of a row in bytes: label, integers of up to nine characters, categories
/// and separators.
pub const MOST_ROW_BYTES: usize = 2 + 13 * 10 + 26 * 9;

/// Number of rows per 1000 with label 1 (clicked).
const CLICKED: u64 = 32;

/// Integer columns: number of empty fields per 1000, largest value, and the weight of an octave in
/// sixteenths of the weight of the previous octave.
///
/// Shares of empty fields and largest values approximate Criteo's sample of seven days (the Kaggle
/// Display Advertising Challenge, train.txt). The weights are chosen so that the medians
/// approximate those of the sample.
const INTEGERS: [(u64, u64, u64); 13] = [
    (454, 5_775, 10),
    (0, 257_675, 12),
    (215, 65_535, 12),
    (217, 969, 12),
    (26, 23_159_456, 16),
    (224, 431_037, 14),
    (44, 56_311, 12),
    (1, 6_047, 13),
    (44, 29_019, 15),
    (454, 11, 8),
    (44, 231, 10),
    (765, 4_008, 8),
    (217, 7_393, 12),
];

/// Category columns: number of empty fields per 1000, and number of distinct values. The former
/// approximate Criteo's sample of seven days. The latter are those of Criteo's full set of 24 days,
/// as published with NVIDIA's DLRM without a frequency threshold.
const CATEGORIES: [(u64, u64); 26] = [
    (0, 227_605_432),
    (0, 39_060),
    (34, 17_295),
    (34, 7_424),
    (0, 20_265),
    (121, 3),
    (0, 7_122),
    (0, 1_543),
    (0, 63),
    (0, 130_229_467),
    (0, 3_067_956),
    (34, 405_282),
    (0, 10),
    (0, 2_209),
    (0, 11_938),
    (34, 155),
    (0, 4),
    (0, 976),
    (440, 14),
    (440, 292_775_614),
    (34, 40_790_948),
    (762, 187_188_510),
    (0, 590_152),
    (34, 12_973),
    (440, 108),
    (440, 36),
];
/// Category columns with fewer distinct values than this are drawn with more skew.
const MANY: u64 = 100_000;

/// Random generator for one column: draws the rank of a value (0 is the most frequent value).
struct Octaves {
    /// Cumulative bounds in units of 2^-32. Draws below the first bound are empty fields, draws
    /// below the second fall into the first octave, and so on.
    bounds: Vec<u64>,
    /// First rank and number of ranks of each octave (group of equally likely ranks).
    ranks: Vec<(u64, u64)>,
    /// For each value of the highest eight bits of a draw, the index of the first bound to compare
    /// it with.
    guide: [u8; 256],
}

impl Octaves {
    fn new(empty: u64, values: u64, decay: u64) -> Self {
        let mut weight: u128 = 1 << 64;
        let mut sums = vec![0];
        let mut ranks = Vec::new();
        let mut first = 0;
        while first < values {
            let whole = first + 1;
            let count = whole.min(values - first);
            sums.push(sums[ranks.len()] + weight * u128::from(count) / u128::from(whole));
            ranks.push((first, count));
            weight = weight * u128::from(decay) / 16;
            first += whole;
        }
        let (lowest, all) = ((empty << 32) / 1000, sums[ranks.len()]);
        let share = |sum: u128| (u128::from((1 << 32) - lowest) * sum / all) as u64;
        let bounds: Vec<u64> = sums.into_iter().map(|sum| lowest + share(sum)).collect();
        let guide = |top: usize| bounds.partition_point(|&bound| bound <= (top as u64) << 24) as u8;
        Octaves { guide: std::array::from_fn(guide), bounds, ranks }
    }

    /// Map 64 random bits to the rank of a value (0 is the most frequent); `None` means an empty
    /// field.
    #[inline]
    fn draw(&self, random: u64) -> Option<u32> {
        let high = random >> 32;
        let mut place = usize::from(self.guide[(high >> 24) as usize]);
        while self.bounds[place] <= high {
            place += 1;
        }
        let (first, count) = self.ranks[place.checked_sub(1)?];
        Some((first + (((random & 0xffff_ffff) * count) >> 32)) as u32)
    }
}

/// Generator of rows of a click log.
pub struct Text {
    integers: Vec<Octaves>,
    categories: Vec<Octaves>,
}

impl Text {
    /// Create the generator with the samplers of all columns.
    pub fn new() -> Self {
        let integer =
            |(empty, largest, decay): (u64, u64, u64)| Octaves::new(empty, largest + 1, decay);
        let category = |(empty, values): (u64, u64)| {
            Octaves::new(empty, values, if values < MANY { 12 } else { 15 })
        };
        Text { integers: INTEGERS.map(integer).into(), categories: CATEGORIES.map(category).into() }
    }

    /// Append the first `rows` rows of a block to `text`. The rows depend on the arguments only.
    pub fn write(&self, seed: u64, file: u32, block: u64, rows: u64, text: &mut Vec<u8>) {
        let mut rng = stream(seed, "clicks", (u64::from(file) << 32) | block);
        text.reserve(rows as usize * MOST_ROW_BYTES);
        for _ in 0..rows {
            self.row(&mut rng, text);
        }
    }

    fn row(&self, rng: &mut Rng, text: &mut Vec<u8>) {
        text.push(b'0' + u8::from((rng.next_u64() >> 32) < (CLICKED << 32) / 1000));
        for (column, octaves) in self.integers.iter().enumerate() {
            text.push(b'\t');
            if let Some(rank) = octaves.draw(rng.next_u64()) {
                write_decimal(integer(column, rank), text);
            }
        }
        for (column, octaves) in (0..).zip(&self.categories) {
            text.push(b'\t');
            if let Some(rank) = octaves.draw(rng.next_u64()) {
                text.extend_from_slice(&hexadecimal(category(column, rank)));
            }
        }
        text.push(b'\n');
    }
}

/// Map a rank (0 is the most frequent value) to the value of an integer column. Column I2 alone has
/// negative values: -1, -2 and -3 have the ranks after that of 0.
fn integer(column: usize, rank: u32) -> i32 {
    match (column, rank as i32) {
        (1, rank @ 1..=3) => -rank,
        (1, rank @ 4..) => rank - 3,
        (_, rank) => rank,
    }
}

/// Map a rank to a category value by an invertible hash, so that values are distinct and their
/// order is unrelated to their ranks.
fn category(column: u32, rank: u32) -> u32 {
    let mut value = rank.wrapping_add(column.wrapping_mul(0x9e37_79b9));
    for factor in [0x7feb_352d, 0x846c_a68b] {
        value = (value ^ (value >> 16)).wrapping_mul(factor);
    }
    value ^ (value >> 15)
}

fn write_decimal(value: i32, text: &mut Vec<u8>) {
    if value < 0 {
        text.push(b'-');
    }
    let mut rest = value.unsigned_abs();
    let mut digits = [0; 10];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    text.extend_from_slice(&digits[first..]);
}

/// Format a number as eight lowercase hexadecimal digits.
fn hexadecimal(value: u32) -> [u8; 8] {
    let mut digits = u64::from(value);
    for (shift, mask) in
        [(16, 0x0000_ffff_0000_ffff), (8, 0x00ff_00ff_00ff_00ff), (4, 0x0f0f_0f0f_0f0f_0f0f)]
    {
        digits = (digits | (digits << shift)) & mask;
    }
    // Find all bytes that need a letter at once: for digits from 10 on, adding 6 carries into the
    // upper half of the byte.
    let letters = ((digits + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
    let gap = u64::from(b'a' - b'9' - 1);
    (digits + 0x3030_3030_3030_3030 + letters * gap).to_be_bytes()
}
