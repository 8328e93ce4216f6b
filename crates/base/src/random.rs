//! Seeded random numbers. Each purpose has an independent stream, so that changing one use does not
//! alter the others.

pub use rand_xoshiro::Xoshiro256PlusPlus as Rng;

use rand_core::{Rng as _, SeedableRng};

/// Create the random generator of stream `index` for `purpose`.
pub fn stream(seed: u64, purpose: &str, index: u64) -> Rng {
    // FNV-1a hashes the purpose. SplitMix64 (inside seed_from_u64) then decorrelates neighbouring
    // values.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in purpose.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    Rng::seed_from_u64(
        seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ hash.rotate_left(17) ^ index.rotate_left(40),
    )
}

/// Draw a uniform number from `0..n` (Lemire 2019: multiply, and reject the few values that would
/// cause a bias).
#[inline]
pub fn below(random: &mut Rng, n: u64) -> u64 {
    let mut product = u128::from(random.next_u64()) * u128::from(n);
    if (product as u64) < n {
        let threshold = n.wrapping_neg() % n.max(1);
        while (product as u64) < threshold {
            product = u128::from(random.next_u64()) * u128::from(n);
        }
    }
    (product >> 64) as u64
}

/// Draw from the standard normal distribution by the method of Box and Muller (1958).
pub fn normal(random: &mut Rng) -> f64 {
    // Numbers of 53 random bits. The first is mapped to (0, 1], so that its logarithm is finite.
    let unit = |x: u64| (x >> 11) as f64 / (1u64 << 53) as f64;
    let radius = (-2.0 * (1.0 - unit(random.next_u64())).ln()).sqrt();
    radius * (std::f64::consts::TAU * unit(random.next_u64())).cos()
}
