//! What objects hold: unique, incompressible, and known from the key alone.
//!
//! Every object is a walk through one random pattern, from a piece that depends on its key, with a
//! stamp of 16 bytes at the start of each 4 KiB. Nothing is hashed or remembered to verify it: any
//! part of any object can be compared as it arrives.

use std::sync::OnceLock;

use rand_core::Rng as _;
use storlab_base::{CHUNK_BYTES, ODD, ODD_2, STAMP_BYTES, Stamped, mix, stream};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Objects take turns through the pattern in pieces of this many bytes.
pub const PIECE_BYTES: usize = 256 << 10;
/// There are so many pieces in the pattern.
pub const PIECES: usize = 32;
const PATTERN_BYTES: usize = PIECE_BYTES * PIECES;

/// The same in every run: a pool is verified by runs that did not fill it.
const PATTERN_SEED: u64 = 0x73_746f_726c_6162;

/// The pattern, made once in a process.
fn pattern() -> &'static [u8] {
    static PATTERN: OnceLock<Vec<u8>> = OnceLock::new();
    PATTERN.get_or_init(|| {
        let mut random = stream(PATTERN_SEED, "object-pattern", 0);
        let mut bytes = vec![0; PATTERN_BYTES];
        random.fill_bytes(&mut bytes);
        bytes
    })
}

/// What one object holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    identity: u64,
    pattern: &'static [u8],
}

impl Content {
    /// Of the object with this key.
    pub fn of(key: &str) -> Self {
        let identity = xxh3_64_with_seed(key.as_bytes(), PATTERN_SEED);
        Content { identity, pattern: pattern() }
    }

    /// The number of the pattern's piece below `offset`, where one begins there.
    pub fn piece(self, offset: u64) -> Option<usize> {
        let piece = (self.identity % PIECES as u64 + offset / PIECE_BYTES as u64) % PIECES as u64;
        offset.is_multiple_of(PIECE_BYTES as u64).then_some(piece as usize)
    }

    /// A piece of the pattern, no stamps applied.
    pub fn pattern_piece(self, number: usize) -> &'static [u8] {
        &self.pattern[number * PIECE_BYTES..][..PIECE_BYTES]
    }
}

impl Stamped for Content {
    /// At the start of block `block`. Different for each block of all objects, as far as 64 bits
    /// of a hash of the key can be.
    #[inline]
    fn stamp(&self, block: u64) -> [u8; STAMP_BYTES] {
        let low = mix(self.identity ^ block.wrapping_mul(ODD));
        let high = mix(self.identity.wrapping_add(ODD_2)).wrapping_add(block.wrapping_mul(ODD_2));
        (u128::from(low) | u128::from(high) << 64).to_le_bytes()
    }

    /// The pattern below block `block`, stamp not applied.
    #[inline]
    fn block(&self, block: u64) -> &[u8] {
        let start = self.identity % PIECES as u64 * PIECE_BYTES as u64;
        let at = (start + block * CHUNK_BYTES as u64) as usize % PATTERN_BYTES;
        &self.pattern[at..at + CHUNK_BYTES]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn whole(key: &str, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        Content::of(key).fill(0, &mut bytes);
        bytes
    }

    #[test]
    fn the_key_alone_decides() {
        assert_eq!(whole("pool-1/0000/00000001", 9000), whole("pool-1/0000/00000001", 9000));
        assert_ne!(whole("a", 16), whole("b", 16));
    }

    #[test]
    fn no_4_kib_comes_twice() {
        // 12 MiB: past the pattern's end, where it starts over.
        let mut seen = HashSet::new();
        for key in ["a", "b", "c"] {
            assert!(whole(key, 12 << 20).chunks(CHUNK_BYTES).all(|c| seen.insert(c.to_vec())));
        }
    }

    #[test]
    fn it_does_not_compress() {
        // The order-0 entropy of 1 MiB of random bytes is within 0.001 bits of 8.
        let bytes = whole("some/key", 1 << 20);
        let mut counts = [0f64; 256];
        for &b in &bytes {
            counts[usize::from(b)] += 1.0;
        }
        let share = |c: &f64| c / bytes.len() as f64;
        let bits: f64 = counts.iter().map(|c| -share(c) * share(c).log2()).sum();
        assert!(bits > 7.999, "{bits}");
    }

    proptest! {
        #[test]
        fn any_part_in_any_pieces_is_recognised(
            start in 0u64..20_000_000,
            lens in prop::collection::vec(1usize..20_000, 1..12),
        ) {
            let content = Content::of("k");
            let mut at = start;
            for len in lens {
                let mut piece = vec![0; len];
                content.fill(at, &mut piece);
                prop_assert_eq!(content.compare(at, &piece), None);
                at += len as u64;
            }
        }

        #[test]
        fn parts_and_whole_agree(start in 0usize..60_000, len in 0usize..9_000) {
            let mut part = vec![0; len];
            Content::of("k").fill(start as u64, &mut part);
            prop_assert_eq!(&part[..], &whole("k", 70_000)[start..start + len]);
        }

        #[test]
        fn one_wrong_bit_is_found_where_it_is(
            start in 0u64..1_000_000, len in 1usize..30_000, place in 0.0f64..1.0, bit in 0u8..8,
        ) {
            let mut bytes = vec![0; len];
            let content = Content::of("k");
            content.fill(start, &mut bytes);
            let at = ((len as f64 * place) as usize).min(len - 1);
            bytes[at] ^= 1 << bit;
            prop_assert_eq!(content.compare(start, &bytes), Some(start + at as u64));
        }
    }
}
