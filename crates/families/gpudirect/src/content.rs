//! Content of writes: incompressible, and determined by seed, file and offset.
//!
//! The content is generated once, into a buffer (the pool) from which writes are sent. The offset
//! of a write selects the part of the pool, so nothing is copied or changed per write. The content
//! of the pool repeats after a prime number of blocks, and the content of each file starts at a
//! different position in the pool. Therefore data written to a wrong offset or file differs from
//! the expected data.

use storlab_base::{CHUNK_BYTES, Content, mix};

/// Number of blocks after which the content repeats; a prime.
const BLOCKS: u64 = 4093;
const PERIOD: u64 = BLOCKS * CHUNK_BYTES as u64;

/// Generator of the content of all files for one seed.
pub struct Source {
    seed: u64,
    content: Content,
}

impl Source {
    /// Create the generator for a seed.
    pub fn new(seed: u64) -> Self {
        Source { seed, content: Content::new(seed, 1, PERIOD as usize) }
    }

    /// Return the size in bytes that the pool (source buffer of writes) needs for writes of up to
    /// `block` bytes.
    pub fn pool_bytes(block: usize) -> usize {
        PERIOD as usize + block
    }

    /// Fill `part` with the content of the pool (source buffer of writes) from byte `at` on.
    pub fn fill(&self, at: usize, mut part: &mut [u8]) {
        let (pattern, mut at) = (self.content.pattern(0), at % PERIOD as usize);
        while !part.is_empty() {
            let len = part.len().min(pattern.len() - at);
            let (now, rest) = part.split_at_mut(len);
            now.copy_from_slice(&pattern[at..at + len]);
            (part, at) = (rest, 0);
        }
    }

    /// Return the position in the pool, in bytes, at which the content of file number `file`
    /// begins.
    pub fn begin_of(&self, file: usize) -> u64 {
        begin_of(self.seed, file)
    }

    /// Fill `part` with the bytes expected at `offset` of a file after a write.
    pub fn expect(&self, file: usize, offset: u64, part: &mut [u8]) {
        self.fill(place_of(self.begin_of(file), offset), part);
    }
}

/// Return the position in the pool, in bytes, at which the content of file number `file` begins.
fn begin_of(seed: u64, file: usize) -> u64 {
    mix(seed ^ mix(file as u64 + 1)) % BLOCKS * CHUNK_BYTES as u64
}

/// Return the position in the pool (source buffer) from which a write to `offset` of a file is
/// sent. `begin` is the position at which the file's content begins.
#[inline]
pub fn place_of(begin: u64, offset: u64) -> usize {
    ((begin + offset % PERIOD) % PERIOD) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_of_the_pool_is_what_belongs_to_its_place() {
        let source = Source::new(7);
        let mut pool = vec![0; Source::pool_bytes(8192)];
        source.fill(0, &mut pool);
        for (file, offset) in [(0, 0), (3, 4096), (3, PERIOD - 4096), (9, 5 * PERIOD + 512)] {
            let mut expected = vec![0; 8192];
            source.expect(file, offset, &mut expected);
            let at = place_of(source.begin_of(file), offset);
            assert_eq!(pool[at..at + 8192], expected);
            assert_eq!(at as u64 % 4096, offset % 4096);
        }
    }

    #[test]
    fn another_place_or_file_or_seed_has_other_bytes() {
        let part = |seed, file, offset| {
            let mut part = vec![0; 4096];
            Source::new(seed).expect(file, offset, &mut part);
            part
        };
        let here = part(7, 1, 1 << 20);
        assert_eq!(here, part(7, 1, 1 << 20));
        for other in
            [part(7, 1, 2 << 20), part(7, 1, 1 << 30), part(7, 2, 1 << 20), part(8, 1, 1 << 20)]
        {
            assert_ne!(here, other);
        }
    }
}
