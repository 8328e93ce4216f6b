//! What checkpoints hold: incompressible data that tells where it belongs, so that a restore can
//! tell whether it got what was written.
//!
//! Every buffer is filled once with a pattern of its own; for each block of 4 KiB that is written
//! only a stamp changes. Chunk `k` of a file always lies in buffer `k` modulo their number, so that
//! a reader knows what has to be in every byte.

use std::sync::Arc;

use rand_core::Rng as _;
use storlab_base::{stream, Error, Result};
use storlab_io::Chunk;

const BLOCK: usize = 4096;
const STAMP: usize = 16;

/// The pattern of all buffers, and what a stamp is made of.
#[derive(Clone)]
pub struct Content {
    pattern: Arc<Vec<u8>>,
    slot_bytes: usize,
    seed: u64,
}

/// Which file of which checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Of the checkpoint.
    pub number: u32,
    /// In the order's list.
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
            stream(seed, "checkpoint", slot as u64).fill_bytes(part);
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

    /// Compare what was read with what was written.
    ///
    /// # Errors
    /// [`Error::Io`] of operation `verify` at the first block that differs.
    pub fn check(&self, whose: Identity, name: &str, chunk: &Chunk<'_>) -> Result<()> {
        let pattern = self.pattern(chunk.slot);
        for (i, block) in chunk.data.chunks(BLOCK).enumerate() {
            let at = chunk.offset + (i * BLOCK) as u64;
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

/// The header of a safetensors file of `bytes` in all: its length in 8 bytes, then JSON, padded so
/// that the data begins on a block. `None` where the file is too small for it.
///
/// Source: the format's own description, <https://github.com/huggingface/safetensors>.
pub fn safetensors_header(name: &str, bytes: u64) -> Option<Vec<u8>> {
    let data = bytes.checked_sub(BLOCK as u64)?;
    let tensor = name.rsplit('/').next().unwrap_or(name);
    let tensor = tensor.strip_suffix(".safetensors").unwrap_or(tensor);
    let said = serde_json::json!({
        tensor: {"dtype": "U8", "shape": [data], "data_offsets": [0, data]},
        "__metadata__": {"made_by": "storlab"},
    });
    let mut header = vec![0; 8];
    header.extend(said.to_string().into_bytes());
    if header.len() > BLOCK {
        return None;
    }
    header.resize(BLOCK, b' ');
    header[..8].copy_from_slice(&((BLOCK - 8) as u64).to_le_bytes());
    Some(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(data: &[u8], offset: u64, slot: usize) -> Chunk<'_> {
        Chunk { offset, data, slot, latency_ns: 0, start_ns: 0 }
    }

    #[test]
    fn only_the_same_block_of_the_same_file_passes() {
        let content = Content::new(7, 2, 8192);
        let whose = Identity { number: 1, file: 3, header: 0 };
        let mut buffer = content.pattern(1)[..5000].to_vec();
        content.stamp_all(whose, 8192, &mut buffer);
        assert!(content.check(whose, "f", &chunk(&buffer, 8192, 1)).is_ok());
        for (number, file) in [(2, 3), (1, 4)] {
            let other = Identity { number, file, header: 0 };
            assert!(content.check(other, "f", &chunk(&buffer, 8192, 1)).is_err());
        }
        assert!(content.check(whose, "f", &chunk(&buffer, 0, 1)).is_err());
        for at in [0, 15, 16, 4095, 4096, 4999] {
            let mut torn = buffer.clone();
            torn[at] ^= 1;
            let error = content.check(whose, "f", &chunk(&torn, 8192, 1)).unwrap_err();
            assert!(error.to_string().contains("verify of f"), "{error}");
        }
    }

    #[test]
    fn a_safetensors_header_is_a_block_that_says_how_long_it_is() {
        let header = safetensors_header("layer_0/model.safetensors", 10_000).unwrap();
        assert_eq!(header.len(), 4096);
        let length = u64::from_le_bytes(header[..8].try_into().unwrap()) as usize;
        let said: serde_json::Value = serde_json::from_slice(&header[8..8 + length]).unwrap();
        assert_eq!(said["model"]["data_offsets"], serde_json::json!([0, 5904]));
        assert!(safetensors_header("m", 100).is_none());
    }
}
