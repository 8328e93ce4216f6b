//! Content of the objects that storlab writes. It is unique, incompressible, and computed from the
//! object's key alone.
//!
//! Every object repeats one random pattern, XORed with a different 64-byte mask at each repetition.
//! No 16 bytes, aligned or not, occur twice within an object or across objects. Stores with
//! small-chunk deduplication or similarity detection therefore gain nothing. The pattern fits into
//! the L1 cache, so content is generated at the speed of memory writes. Verification needs no
//! stored hashes: any part of any object can be compared as it arrives.

use std::array::from_fn;
use std::sync::OnceLock;

use rand_core::Rng as _;
use storlab_base::{ODD, mix, stream};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Size in bytes of the pieces in which a request's body is generated.
pub const PIECE_BYTES: usize = 256 << 10;
/// Length in bytes of the repeated pattern; each repetition has its own mask. 16 KiB leaves most of
/// the L1 cache free. With 256 KiB, PUTs of 4 MiB on loopback needed 6 % more CPU (medians of 23
/// alternating rounds).
const PATTERN_BYTES: usize = 16 << 10;
const MASK_BYTES: usize = 64;
type Mask = [u8; MASK_BYTES];

/// Seed of the pattern. It never changes, because objects may be verified by a run that did not
/// write them. A change to the content also requires new names for pools of objects (`CONTENT` in
/// the object family's Python).
const PATTERN_SEED: u64 = 0x73_746f_726c_6162;

/// Return the pattern, which is generated once per process.
fn pattern() -> &'static [u8] {
    static PATTERN: OnceLock<Vec<u8>> = OnceLock::new();
    PATTERN.get_or_init(|| {
        let mut random = stream(PATTERN_SEED, "object-pattern", 0);
        let mut bytes = vec![0; PATTERN_BYTES];
        random.fill_bytes(&mut bytes);
        bytes
    })
}

/// Content of one object. It can be generated and compared in any part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    identity: u64,
    pattern: &'static [u8],
}

impl Content {
    /// Return the content of the object that has this key.
    pub fn of(key: &str) -> Self {
        let identity = xxh3_64_with_seed(key.as_bytes(), PATTERN_SEED);
        Content { identity, pattern: pattern() }
    }

    /// Fill `buffer` with the object's bytes, starting at `offset`.
    pub fn fill(self, offset: u64, buffer: &mut [u8]) {
        for (place, pattern, mask) in self.runs(offset, buffer.len()) {
            let (blocks, odd) = buffer[place..][..pattern.len()].as_chunks_mut::<MASK_BYTES>();
            let (from, odd_from) = pattern.as_chunks::<MASK_BYTES>();
            for (block, from) in blocks.iter_mut().zip(from) {
                *block = from_fn(|i| from[i] ^ mask[i]);
            }
            for ((byte, from), mask) in odd.iter_mut().zip(odd_from).zip(mask) {
                *byte = from ^ mask;
            }
        }
    }

    /// Compare received bytes with the object's bytes, starting at `offset`.
    ///
    /// Returns the offset in the object of the first wrong byte, or None if all are right.
    pub fn compare(self, offset: u64, arrived: &[u8]) -> Option<u64> {
        self.runs(offset, arrived.len()).find_map(|(place, pattern, mask)| {
            let run = &arrived[place..][..pattern.len()];
            differ(run, pattern, &mask).then(|| {
                let wanted = pattern.iter().zip(mask.iter().cycle()).map(|(p, mask)| p ^ mask);
                let right = run.iter().zip(wanted).take_while(|(byte, wanted)| *byte == wanted);
                offset + (place + right.count()) as u64
            })
        })
    }

    /// Split a range of the object where the pattern repeats, because each repetition has its own
    /// mask.
    ///
    /// Yields for each piece its start relative to `offset`, the matching bytes of the pattern, and
    /// the mask, rotated to begin at the start of the piece.
    fn runs(
        self,
        offset: u64,
        length: usize,
    ) -> impl Iterator<Item = (usize, &'static [u8], Mask)> {
        let mut place = 0;
        std::iter::from_fn(move || {
            let (pattern, mask) = self.run(offset + place as u64, length - place);
            let begin = place;
            place += pattern.len();
            (place > begin).then_some((begin, pattern, mask))
        })
    }

    fn run(self, at: u64, most: usize) -> (&'static [u8], Mask) {
        let (turn, within) = (at / PATTERN_BYTES as u64, (at % PATTERN_BYTES as u64) as usize);
        let words: [u64; MASK_BYTES / 8] = from_fn(|word| {
            let number = turn * (MASK_BYTES as u64 / 8) + word as u64;
            mix(self.identity ^ number.wrapping_mul(ODD))
        });
        let mut mask = from_fn(|i| words[i / 8].to_le_bytes()[i % 8]);
        mask.rotate_left(within % MASK_BYTES);
        (&self.pattern[within..PATTERN_BYTES.min(within + most)], mask)
    }
}

/// Return whether any byte differs from the masked pattern. There is no branch per byte, because
/// differences are very rare.
fn differ(arrived: &[u8], pattern: &[u8], mask: &Mask) -> bool {
    let (blocks, odd) = arrived.as_chunks::<MASK_BYTES>();
    let (wanted, odd_wanted) = pattern.as_chunks::<MASK_BYTES>();
    let mut wrong = [0; MASK_BYTES];
    for (block, wanted) in blocks.iter().zip(wanted) {
        for i in 0..MASK_BYTES {
            wrong[i] |= block[i] ^ wanted[i] ^ mask[i];
        }
    }
    let mut odd = odd.iter().zip(odd_wanted).zip(mask);
    wrong != [0; MASK_BYTES] || odd.any(|((byte, wanted), mask)| byte ^ wanted != *mask)
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
    fn no_16_bytes_come_twice() {
        // Runs past the end of the pattern, where it repeats, and compares unaligned positions too.
        let mut seen = HashSet::new();
        for key in ["a", "b", "c"] {
            assert!(
                whole(key, 1 << 20).as_chunks::<16>().0.iter().all(|c| seen.insert(*c)),
                "{key}"
            );
        }
        for at in 1..16 {
            let shifted = &whole("d", 1 << 20)[at..];
            assert!(shifted.as_chunks::<16>().0.iter().all(|c| !seen.contains(c)), "{at}");
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
