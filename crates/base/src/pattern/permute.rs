//! Seeded permutation of `0..n` without a table, by a Feistel network with cycle walking.
//!
//! The network permutes a domain of `high * 2^low_bits` values, which exceeds `n` by less than
//! `2^low_bits`, about the square root of `n`. Results of `n` or more are permuted again, which is
//! rare. No division is needed.

use rand_core::Rng as _;

use crate::random::stream;

const ROUNDS: usize = 6;

/// Seeded permutation of `0..n`.
#[derive(Clone, Debug)]
pub(super) struct Permutation {
    n: u64,
    high: u64,
    low_bits: u32,
    low_mask: u64,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// Create a permutation of `0..n` for `n` of at least 1. Equal `seed`, `purpose` and `index`
    /// give equal permutations.
    pub(super) fn new(n: u64, seed: u64, purpose: &str, index: u64) -> Self {
        let mut random = stream(seed, purpose, index);
        let low_bits = n.max(1).ilog2() / 2;
        Permutation {
            n,
            high: n.div_ceil(1 << low_bits),
            low_bits,
            low_mask: (1 << low_bits) - 1,
            keys: std::array::from_fn(|_| random.next_u64()),
        }
    }

    /// Return the number in `0..n` to which the permutation maps `rank`, which must be below `n`.
    #[inline]
    pub(super) fn place(&self, rank: u64) -> u64 {
        let mut value = rank;
        loop {
            value = self.step(value);
            if value < self.n {
                return value;
            }
        }
    }

    #[inline]
    fn step(&self, value: u64) -> u64 {
        let mut high = value >> self.low_bits;
        let mut low = value & self.low_mask;
        for pair in self.keys.chunks_exact(2) {
            low ^= mix(high, pair[0]) & self.low_mask;
            let turn = scale(mix(low, pair[1]), self.high);
            high += turn;
            high = if high >= self.high { high - self.high } else { high };
        }
        (high << self.low_bits) | low
    }
}

/// Hash a value with a key: multiply to 128 bits and combine both halves.
#[inline]
fn mix(value: u64, key: u64) -> u64 {
    let product = u128::from(value ^ key) * u128::from(key.rotate_left(29) | 1);
    (product >> 64) as u64 ^ product as u64
}

/// Scale a 64-bit value down to `0..n`.
#[inline]
fn scale(value: u64, n: u64) -> u64 {
    ((u128::from(value) * u128::from(n)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_place_is_taken_once(n in 1u64..3000, seed: u64) {
            let order = Permutation::new(n, seed, "test", 0);
            let mut taken = vec![false; n as usize];
            for rank in 0..n {
                let place = order.place(rank) as usize;
                prop_assert!(!taken[place]);
                taken[place] = true;
            }
        }

        #[test]
        fn huge_domains_stay_in_bounds(n in (1u64 << 40)..(1u64 << 62), rank: u64, seed: u64) {
            let order = Permutation::new(n, seed, "test", 0);
            prop_assert!(order.place(rank % n) < n);
        }
    }

    #[test]
    fn neighbours_land_far_apart() {
        // The mean distance of two independent uniform positions is n / 3.
        let n = 100_003;
        let order = Permutation::new(n, 7, "test", 0);
        let total: u64 = (1..n).map(|rank| order.place(rank).abs_diff(order.place(rank - 1))).sum();
        let mean = total as f64 / (n - 1) as f64;
        assert!((mean / (n as f64 / 3.0) - 1.0).abs() < 0.02, "{mean}");
    }

    #[test]
    fn every_start_is_equally_likely_over_seeds() {
        let n = 12;
        let mut counts = vec![0u32; (n * n) as usize];
        let seeds = 12_000u64;
        for seed in 0..seeds {
            let order = Permutation::new(n, seed, "test", 0);
            for rank in 0..n {
                counts[(rank * n + order.place(rank)) as usize] += 1;
            }
        }
        // 121 degrees of freedom: mean 121, sigma 15.6.
        let expected = seeds as f64 / n as f64;
        let chi: f64 = counts.iter().map(|&c| (f64::from(c) - expected).powi(2) / expected).sum();
        assert!(chi < 121.0 + 5.0 * 15.6, "{chi}");
    }
}
