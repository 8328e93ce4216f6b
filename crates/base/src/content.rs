//! Content of checkpoint and training files: incompressible data that encodes its own position, so
//! that a reader can verify it.
//!
//! Every buffer is filled once with its own pattern. For each 4 KiB block written, only a stamp at
//! its start changes. Chunk `k` of a file always lies in buffer `k` modulo the number of buffers,
//! so a reader can compute every byte.

use std::sync::Arc;

use rand_core::Rng as _;

use crate::error::{Error, Result};
use crate::random::stream;
use crate::stamped::{CHUNK_BYTES, ODD_2, STAMP_BYTES, Stamped};

/// Patterns of all buffers, and the seed of the stamps.
#[derive(Clone)]
pub struct Content {
    pattern: Arc<Vec<u8>>,
    slot_bytes: usize,
    seed: u64,
}

/// Identity of a file, from which the stamps in its blocks are computed.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Number of the checkpoint or other group that the file belongs to.
    pub number: u32,
    /// Index of the file in its group.
    pub file: usize,
    /// Length in bytes of a header at the file's start that is not verified.
    pub header: u64,
}

fn scramble(mut x: u64) -> u64 {
    x ^= x >> 32;
    x = x.wrapping_mul(ODD_2);
    x ^= x >> 32;
    x = x.wrapping_mul(ODD_2);
    x ^ (x >> 32)
}

impl Content {
    /// Create content for `slots` buffers of `slot_bytes` bytes each.
    pub fn new(seed: u64, slots: usize, slot_bytes: usize) -> Self {
        let mut pattern = vec![0; slots * slot_bytes];
        for (slot, part) in pattern.chunks_mut(slot_bytes).enumerate() {
            stream(seed, "content", slot as u64).fill_bytes(part);
        }
        Content { pattern: Arc::new(pattern), slot_bytes, seed }
    }

    /// Return the initial pattern of buffer `slot`, before its first stamp.
    pub fn pattern(&self, slot: usize) -> &[u8] {
        &self.pattern[slot * self.slot_bytes..(slot + 1) * self.slot_bytes]
    }

    /// Return content for as many buffers of the same size, but generated from `seed`.
    #[must_use]
    pub fn of_seed(&self, seed: u64) -> Self {
        if seed == self.seed {
            return self.clone();
        }
        Content::new(seed, self.pattern.len() / self.slot_bytes, self.slot_bytes)
    }

    /// Return the content of one file, for stamping or verifying parts of it.
    pub fn of(&self, whose: Identity) -> FileContent<'_> {
        let who = scramble(self.seed ^ (u64::from(whose.number) << 32 | whose.file as u64));
        FileContent { content: self, who }
    }

    /// Write the stamp of every block into a buffer that is about to be written at `offset` of the
    /// file.
    pub fn stamp_all(&self, whose: Identity, offset: u64, buffer: &mut [u8]) {
        let file = self.of(whose);
        let first = offset / CHUNK_BYTES as u64;
        for (number, block) in (first..).zip(buffer.chunks_mut(CHUNK_BYTES)) {
            let end = block.len().min(STAMP_BYTES);
            block[..end].copy_from_slice(&file.stamp(number)[..end]);
        }
    }

    /// Verify data that was read from a file at `offset`. The file's header is skipped.
    ///
    /// # Errors
    /// [`Error::Io`] of operation `verify` at the offset of the first block that differs from what
    /// was written.
    pub fn check(&self, whose: Identity, name: &str, offset: u64, data: &[u8]) -> Result<()> {
        let skipped = whose.header.saturating_sub(offset).min(data.len() as u64) as usize;
        let from = offset + skipped as u64;
        let Some(wrong) = self.of(whose).compare(from, &data[skipped..]) else { return Ok(()) };
        let what = "the data differs from what was written";
        let source = std::io::Error::new(std::io::ErrorKind::InvalidData, what);
        Err(Error::io("verify", name, wrong / CHUNK_BYTES as u64 * CHUNK_BYTES as u64, source))
    }
}

/// Content of one file. Any part of it can be generated or verified.
#[derive(Clone, Copy)]
pub struct FileContent<'c> {
    content: &'c Content,
    who: u64,
}

impl Stamped for FileContent<'_> {
    #[inline]
    fn stamp(&self, block: u64) -> [u8; STAMP_BYTES] {
        let (low, high) = (scramble(self.who ^ block), self.who.wrapping_add(block));
        (u128::from(low) | u128::from(high) << 64).to_le_bytes()
    }

    #[inline]
    fn block(&self, block: u64) -> &[u8] {
        let at = block as usize * CHUNK_BYTES % self.content.pattern.len();
        &self.content.pattern[at..at + CHUNK_BYTES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_block_of_the_same_file_passes() {
        let content = Content::new(7, 2, 8192);
        let whose = Identity { number: 1, file: 3, header: 0 };
        let mut buffer = content.pattern(1)[..5000].to_vec();
        content.stamp_all(whose, 8192, &mut buffer);
        assert!(content.check(whose, "f", 8192, &buffer).is_ok());
        for (number, file) in [(2, 3), (1, 4)] {
            let other = Identity { number, file, header: 0 };
            assert!(content.check(other, "f", 8192, &buffer).is_err());
        }
        assert!(content.check(whose, "f", 0, &buffer).is_err());
        for at in [0, 15, 16, 4095, 4096, 4999] {
            let mut torn = buffer.clone();
            torn[at] ^= 1;
            let error = content.check(whose, "f", 8192, &torn).unwrap_err();
            assert!(error.to_string().contains("verify of f"), "{error}");
        }
    }

    #[test]
    fn any_part_of_a_file_is_the_same_as_in_the_whole() {
        let content = Content::new(9, 3, 8192);
        let whose = Identity { number: 0, file: 4, header: 0 };
        let mut whole = vec![0; 60_000];
        content.of(whose).fill(0, &mut whole);
        for (offset, len) in [(0, 10), (5, 4096), (4090, 20), (8191, 30_000), (59_999, 1)] {
            let mut part = vec![0; len];
            content.of(whose).fill(offset, &mut part);
            assert_eq!(part, whole[offset as usize..offset as usize + len]);
        }
        let mut written = content.pattern(1).to_vec();
        content.stamp_all(whose, 8192, &mut written);
        assert_eq!(written, whole[8192..16_384]);
    }
}
