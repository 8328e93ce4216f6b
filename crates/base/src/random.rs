//! Seeded random numbers. Each purpose has an independent stream, so that changing one use does not
//! alter the others.

pub use rand_xoshiro::Xoshiro256PlusPlus as Rng;

use rand_core::SeedableRng;

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
