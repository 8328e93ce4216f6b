//! Zipf-distributed ranks (0 is the most probable), drawn exactly and nearly always without
//! computing a power.
//!
//! Ranks are grouped into cells: each of the first ranks has its own cell; later ranks share cells,
//! which get wider as the rank grows. An alias table (Walker 1977, Vose 1991) draws a cell by its
//! exact probability. Inside a shared cell a rank is drawn uniformly and accepted in proportion to
//! its probability, which rarely has to be computed.

use rand_core::Rng as _;

use crate::random::Rng;

/// Number of ranks that have their own cell. Sums over later ranks by the Euler-Maclaurin formula
/// are exact to 1e-12.
const SINGLE_RANKS: u64 = 64;
/// Divisor that gives the width of a shared cell: its first rank divided by this number.
const CELL_FRACTION: u64 = 16;

#[derive(Clone, Copy, Debug)]
struct Cell {
    /// Threshold as a fraction of 2^64: a draw below it selects this cell, any other selects cell
    /// `alias`.
    keep: u64,
    alias: usize,
    first: u64,
    width: u64,
    /// Threshold as a fraction of 2^64: a draw below it accepts any rank of the cell, so the rank's
    /// probability need not be computed.
    accept: u64,
}

/// Generator of ranks `0..n` with probability proportional to `(rank + 1)^-theta`.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    theta: f64,
    cells: Vec<Cell>,
}

impl Zipf {
    /// Create a generator for `n` ranks, at least 1, and an exponent `theta` above 0.
    pub(super) fn new(n: u64, theta: f64) -> Self {
        let mut cells = Vec::new();
        let mut masses = Vec::new();
        let mut first = 1;
        while first <= n {
            let wanted = if first <= SINGLE_RANKS { 1 } else { first / CELL_FRACTION };
            let width = wanted.min(n - first + 1);
            let last = (first + width - 1) as f64;
            let accept = fraction((first as f64 / last).powf(theta));
            cells.push(Cell { keep: u64::MAX, alias: cells.len(), first, width, accept });
            masses.push(mass(first, width, theta));
            first += width;
        }
        share_out(&mut cells, &masses);
        Zipf { theta, cells }
    }

    /// Draw a rank; the most probable is 0.
    #[inline]
    pub(super) fn draw(&self, random: &mut Rng) -> u64 {
        let (index, rest) = split(random.next_u64(), self.cells.len() as u64);
        let mut cell = &self.cells[index as usize];
        if rest >= cell.keep {
            cell = &self.cells[cell.alias];
        }
        if cell.width == 1 {
            return cell.first - 1;
        }
        loop {
            let (step, rest) = split(random.next_u64(), cell.width);
            if rest < cell.accept || self.accepts(cell.first, cell.first + step, rest) {
                return cell.first + step - 1;
            }
        }
    }

    #[cold]
    fn accepts(&self, first: u64, rank: u64, rest: u64) -> bool {
        rest < fraction((first as f64 / rank as f64).powf(self.theta))
    }
}

/// Split a uniformly distributed `value` into an index below `n` and a remainder that is again
/// uniformly distributed.
#[inline]
fn split(value: u64, n: u64) -> (u64, u64) {
    let product = u128::from(value) * u128::from(n);
    ((product >> 64) as u64, product as u64)
}

/// Convert a probability to a fraction of 2^64, at most 2^64 - 1.
pub(super) fn fraction(probability: f64) -> u64 {
    (probability * 18_446_744_073_709_551_616.0) as u64
}

/// Return the sum of `k^-theta` over `width` ranks from `first`, by the Euler-Maclaurin formula up
/// to the third derivative.
fn mass(first: u64, width: u64, theta: f64) -> f64 {
    let (a, b) = (first as f64, (first + width) as f64);
    if width == 1 {
        return a.powf(-theta);
    }
    let (fa, fb) = (a.powf(-theta), b.powf(-theta));
    // The integral is written in a form that avoids cancellation near theta = 1.
    let log = (b / a).ln();
    let power = (1.0 - theta) * log;
    let integral = a * fa * log * if power.abs() < 1e-12 { 1.0 } else { power.exp_m1() / power };
    let slopes = theta * (fa / a - fb / b) / 12.0;
    let thirds = theta * (theta + 1.0) * (theta + 2.0) * (fa / a.powi(3) - fb / b.powi(3)) / 720.0;
    integral + (fa - fb) / 2.0 + slopes - thirds
}

/// Fill in `keep` and `alias` of all cells by Vose's algorithm.
fn share_out(cells: &mut [Cell], masses: &[f64]) {
    let mean = masses.iter().sum::<f64>() / masses.len() as f64;
    let mut load: Vec<f64> = masses.iter().map(|mass| mass / mean).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) =
        (0..load.len()).partition(|&index| load[index] < 1.0);
    while let (Some(&low), Some(&high)) = (small.last(), large.last()) {
        small.pop();
        cells[low].keep = fraction(load[low]);
        cells[low].alias = high;
        load[high] -= 1.0 - load[low];
        if load[high] < 1.0 {
            large.pop();
            small.push(high);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::stream;

    #[test]
    fn masses_equal_plain_sums() {
        for theta in [0.2, 0.99, 1.0, 1.000_001, 1.5, 3.0] {
            let sum: f64 = (1000..5000u64).map(|k| (k as f64).powf(-theta)).sum();
            let error = (mass(1000, 4000, theta) / sum - 1.0).abs();
            assert!(error < 1e-12, "theta {theta}: {error}");
        }
    }

    #[test]
    fn frequencies_follow_the_law() {
        // Chi-square over 400 groups of ranks with equal masses, so that no group gets only 1 or 2
        // draws.
        for theta in [0.5, 0.99, 1.0, 1.2, 2.0] {
            let (n, draws) = (5000u64, 400_000u64);
            let zipf = Zipf::new(n, theta);
            let mut random = stream(3, "zipf", 0);
            let mut counts = vec![0u64; n as usize];
            for _ in 0..draws {
                counts[zipf.draw(&mut random) as usize] += 1;
            }
            let total: f64 = (1..=n).map(|k| (k as f64).powf(-theta)).sum();
            let (mut chi, mut groups) = (0.0, 0.0);
            let (mut seen, mut expected) = (0.0, 0.0);
            for rank in 1..=n {
                seen += counts[rank as usize - 1] as f64;
                expected += (rank as f64).powf(-theta) / total * draws as f64;
                if expected >= 50.0 || rank == n {
                    chi += (seen - expected).powi(2) / expected.max(1.0);
                    groups += 1.0;
                    (seen, expected) = (0.0, 0.0);
                }
            }
            let freedom: f64 = groups - 1.0;
            assert!(
                chi < freedom + 5.0 * (2.0 * freedom).sqrt(),
                "theta {theta}: {chi} of {freedom}"
            );
        }
    }
}
