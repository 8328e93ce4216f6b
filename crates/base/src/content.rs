//! What files of fixed work hold: incompressible data that tells where it belongs, so that a reader
//! can tell whether it got what was written.
//!
//! Every buffer is filled once with a pattern of its own; for each block of 4 KiB that is written
//! only a stamp changes. Chunk `k` of a file always lies in buffer `k` modulo their number, so that
//! a reader knows what has to be in every byte.

use std::sync::Arc;

use rand_core::Rng as _;

use crate::error::{Error, Result};
use crate::random::stream;

const BLOCK: usize = 4096;
const STAMP: usize = 16;

/// The pattern of all buffers, and what a stamp is made of.
#[derive(Clone)]
pub struct Content {
    pattern: Arc<Vec<u8>>,
    slot_bytes: usize,
    seed: u64,
}

/// Which file.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Of the checkpoint, or of whatever files come in.
    pub number: u32,
    /// Among its files.
    pub file: usize,
    /// Bytes at the file's start that are no data.
    pub header: u64,
}

fn mix(mut x: u64) -> u64 {
    x ^= x >> 32;
    x = x.wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^= x >> 32;
    x = x.wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 32)
}

impl Content {
    /// For buffers of that size under a seed.
    pub fn new(seed: u64, slots: usize, slot_bytes: usize) -> Self {
        let mut pattern = vec![0; slots * slot_bytes];
        for (slot, part) in pattern.chunks_mut(slot_bytes).enumerate() {
            stream(seed, "content", slot as u64).fill_bytes(part);
        }
        Content { pattern: Arc::new(pattern), slot_bytes, seed }
    }

    /// What a buffer holds before the first stamp.
    pub fn pattern(&self, slot: usize) -> &[u8] {
        &self.pattern[slot * self.slot_bytes..(slot + 1) * self.slot_bytes]
    }

    /// The same buffers under another seed's stamps and pattern.
    pub fn of_seed(&self, seed: u64) -> Self {
        if seed == self.seed {
            return self.clone();
        }
        Content::new(seed, self.pattern.len() / self.slot_bytes, self.slot_bytes)
    }

    fn stamp(&self, whose: Identity, offset: u64) -> [u8; STAMP] {
        let who = mix(self.seed ^ (u64::from(whose.number) << 32 | whose.file as u64));
        let block = offset / BLOCK as u64;
        let mut stamp = [0; STAMP];
        stamp[..8].copy_from_slice(&mix(who ^ block).to_le_bytes());
        stamp[8..].copy_from_slice(&(who.wrapping_add(block)).to_le_bytes());
        stamp
    }

    /// Stamp the blocks of a buffer that is about to be written at `offset`.
    pub fn stamp_all(&self, whose: Identity, offset: u64, buffer: &mut [u8]) {
        for (i, block) in buffer.chunks_mut(BLOCK).enumerate() {
            let at = offset + (i * BLOCK) as u64;
            let end = block.len().min(STAMP);
            block[..end].copy_from_slice(&self.stamp(whose, at)[..end]);
        }
    }

    /// The bytes of a file from any offset on.
    pub fn bytes_at(&self, whose: Identity, offset: u64, part: &mut [u8]) {
        let (block_bytes, slot_bytes) = (BLOCK as u64, self.slot_bytes as u64);
        let slots = self.pattern.len() as u64 / slot_bytes;
        let mut done = 0;
        while done < part.len() {
            let at = offset + done as u64;
            let within = (at % block_bytes) as usize;
            let len = (BLOCK - within).min(part.len() - done);
            let slot = (at / slot_bytes % slots) as usize;
            let from = (at % slot_bytes) as usize;
            let out = &mut part[done..done + len];
            out.copy_from_slice(&self.pattern(slot)[from..from + len]);
            if within < STAMP {
                let end = (STAMP - within).min(len);
                out[..end].copy_from_slice(&self.stamp(whose, at)[within..within + end]);
            }
            done += len;
        }
    }

    /// Compare what was read at `offset` into buffer `slot` with what was written.
    ///
    /// # Errors
    /// [`Error::Io`] of operation `verify` at the first block that differs.
    pub fn check(
        &self,
        whose: Identity,
        name: &str,
        slot: usize,
        offset: u64,
        data: &[u8],
    ) -> Result<()> {
        let pattern = self.pattern(slot);
        for (i, block) in data.chunks(BLOCK).enumerate() {
            let at = offset + (i * BLOCK) as u64;
            if at < whose.header {
                continue;
            }
            let begin = i * BLOCK;
            let end = block.len().min(STAMP);
            let same = block[..end] == self.stamp(whose, at)[..end]
                && block[end..] == pattern[begin + end..begin + block.len()];
            if !same {
                let what = "the data is not what was written";
                let source = std::io::Error::new(std::io::ErrorKind::InvalidData, what);
                return Err(Error::io("verify", name, at, source));
            }
        }
        Ok(())
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
        assert!(content.check(whose, "f", 1, 8192, &buffer).is_ok());
        for (number, file) in [(2, 3), (1, 4)] {
            let other = Identity { number, file, header: 0 };
            assert!(content.check(other, "f", 1, 8192, &buffer).is_err());
        }
        assert!(content.check(whose, "f", 1, 0, &buffer).is_err());
        for at in [0, 15, 16, 4095, 4096, 4999] {
            let mut torn = buffer.clone();
            torn[at] ^= 1;
            let error = content.check(whose, "f", 1, 8192, &torn).unwrap_err();
            assert!(error.to_string().contains("verify of f"), "{error}");
        }
    }

    #[test]
    fn any_part_of_a_file_is_the_same_as_in_the_whole() {
        let content = Content::new(9, 3, 8192);
        let whose = Identity { number: 0, file: 4, header: 0 };
        let mut whole = vec![0; 60_000];
        content.bytes_at(whose, 0, &mut whole);
        for (offset, len) in [(0, 10), (5, 4096), (4090, 20), (8191, 30_000), (59_999, 1)] {
            let mut part = vec![0; len];
            content.bytes_at(whose, offset, &mut part);
            assert_eq!(part, whole[offset as usize..offset as usize + len]);
        }
        let mut written = content.pattern(1).to_vec();
        content.stamp_all(whose, 8192, &mut written);
        assert_eq!(written, whole[8192..16_384]);
    }
}
