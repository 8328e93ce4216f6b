//! Numerical features: ln(x + 3) of an integer as float16 or float32.

#[cfg(test)]
mod tests;

/// Number of bits after an integer's leading one bit that select its cell in the table. The
/// logarithms of a cell's integers round to at most two halves (float16 numbers): for integers with
/// more bits than this, halves are at least 2^-8 apart, which is more than the logarithm grows
/// within a cell.
const CELL_BITS: u32 = 8;
/// Number of integers whose logarithm is tabulated as float32.
const SMALL: usize = 1 << 12;

/// Tables for ln(x + 3). The result is defined as 0 for x <= -3.
#[derive(Debug)]
pub struct Dense {
    halves: Vec<Cell>,
    floats: Vec<f32>,
}

/// Integers with the same leading bits, whose logarithms round to one half (float16 number) or to
/// two.
#[derive(Clone, Copy, Debug)]
struct Cell {
    /// Smallest integer that rounds to the higher of the two halves.
    above: u32,
    half: u16,
}

impl Default for Dense {
    fn default() -> Self {
        Self::new()
    }
}

impl Dense {
    /// Build the tables, which takes about a millisecond.
    pub fn new() -> Self {
        let halves = (0..u32::BITS << CELL_BITS).map(Cell::new).collect();
        let floats = (0..SMALL).map(|n| f64::from(n.max(1) as u32).ln() as f32).collect();
        Dense { halves, floats }
    }

    /// Return ln(x + 3) as the bits of a float16, rounded once, to nearest, ties to even.
    #[inline]
    pub fn half(&self, x: i32) -> u16 {
        let n = shifted(x);
        let cell = self.halves[cell_of(n)];
        cell.half + u16::from(n >= cell.above)
    }

    /// Return ln(x + 3) as a float32, rounded once, to nearest, ties to even.
    #[inline]
    pub fn float(&self, x: i32) -> f32 {
        let n = shifted(x);
        self.floats.get(n as usize).copied().unwrap_or_else(|| f64::from(n).ln() as f32)
    }
}

/// Return x + 3; for x below -2 return 1, whose logarithm is 0.
#[inline]
fn shifted(x: i32) -> u32 {
    x.max(-2).wrapping_add(3) as u32
}

#[inline]
fn cell_of(n: u32) -> usize {
    let zeros = n.leading_zeros();
    let below = (u64::from(n) << (zeros + CELL_BITS + 1)) >> u32::BITS;
    ((u32::BITS - 1 - zeros) << CELL_BITS | (below as u32 & ((1 << CELL_BITS) - 1))) as usize
}

impl Cell {
    fn new(cell: u32) -> Self {
        let bits = cell >> CELL_BITS;
        let leading = u64::from(1 << CELL_BITS | cell & ((1 << CELL_BITS) - 1));
        // For integers with fewer bits than `CELL_BITS`, several cells round down to one integer;
        // cells that no integer selects are never looked up.
        let first = (leading << bits >> CELL_BITS) as u32;
        let last = (((leading + 1) << bits >> CELL_BITS) - 1).max(u64::from(first)) as u32;
        let half = half_of_ln(first);
        let (mut same, mut above) = (first, u64::from(last) + 1);
        while above - u64::from(same) > 1 {
            let middle = u64::midpoint(u64::from(same), above);
            if half_of_ln(middle as u32) == half {
                same = middle as u32;
            } else {
                above = middle;
            }
        }
        // In the last cell, the boundary may be larger than all integers.
        Cell { above: u32::try_from(above).unwrap_or(u32::MAX), half }
    }
}

fn half_of_ln(n: u32) -> u16 {
    if n == 1 {
        return 0;
    }
    half_bits(f64::from(n).ln())
}

/// Round to the nearest float16, ties to even, and return its bits. `number` must be in the normal
/// range of float16, 2^-14 to 65504.
fn half_bits(number: f64) -> u16 {
    const DROPPED: u32 = 52 - 10;
    const BIAS: u64 = (1023 - 15) << 10;
    let bits = number.to_bits();
    let odd = bits >> DROPPED & 1;
    let rounded = (bits + (1 << (DROPPED - 1)) - 1 + odd) >> DROPPED;
    (rounded - BIAS) as u16
}
