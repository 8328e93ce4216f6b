//! Content that encodes its position: a fixed pattern with a stamp at the start of each block. Any
//! part of it can be generated, or compared with data as it arrives.

/// Size in bytes of a chunk, the unit in which data is unique, compressible or a duplicate.
pub const CHUNK_BYTES: usize = 4096;

/// Length of the stamp at the start of every block, in bytes.
pub const STAMP_BYTES: usize = 16;

/// Odd multiplier without an obvious bit pattern (2^64 divided by the golden ratio).
pub const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Second odd multiplier without an obvious bit pattern.
pub const ODD_2: u64 = 0xd6e8_feb8_6659_fd93;

/// Content in blocks of [`CHUNK_BYTES`], each of which begins with a stamp.
pub trait Stamped {
    /// Return the stamp of block number `block`.
    fn stamp(&self, block: u64) -> [u8; STAMP_BYTES];

    /// Return the pattern of block number `block`, without its stamp.
    fn block(&self, block: u64) -> &[u8];

    /// Fill `buffer` with the content that belongs at `offset`.
    fn fill(&self, offset: u64, buffer: &mut [u8]) {
        let (mut at, mut rest) = (offset, buffer);
        while !rest.is_empty() {
            let (block, within) = split(at);
            let (chunk, after) = rest.split_at_mut(rest.len().min(CHUNK_BYTES - within));
            chunk.copy_from_slice(&self.block(block)[within..within + chunk.len()]);
            if within < STAMP_BYTES {
                let stamp = &self.stamp(block)[within..];
                let len = stamp.len().min(chunk.len());
                chunk[..len].copy_from_slice(&stamp[..len]);
            }
            at += chunk.len() as u64;
            rest = after;
        }
    }

    /// Compare received data with the content that belongs at `offset`. Return the offset of the
    /// first wrong byte; `None` if all bytes are right.
    fn compare(&self, offset: u64, arrived: &[u8]) -> Option<u64> {
        let (mut at, mut rest) = (offset, arrived);
        while !rest.is_empty() {
            let (block, within) = split(at);
            let (chunk, after) = rest.split_at(rest.len().min(CHUNK_BYTES - within));
            let stamped = chunk.len().min(STAMP_BYTES.saturating_sub(within));
            let (head, body) = chunk.split_at(stamped);
            let expected = &self.block(block)[within + stamped..within + chunk.len()];
            if stamped > 0 && head != &self.stamp(block)[within..within + stamped]
                || body != expected
            {
                return Some(at + first_difference(self, block, within, chunk));
            }
            at += chunk.len() as u64;
            rest = after;
        }
        None
    }
}

#[cold]
fn first_difference<C: Stamped + ?Sized>(
    content: &C,
    block: u64,
    within: usize,
    arrived: &[u8],
) -> u64 {
    let mut expected = [0; CHUNK_BYTES];
    content.fill(block * CHUNK_BYTES as u64, &mut expected);
    let pairs = arrived.iter().zip(&expected[within..]);
    pairs.take_while(|(a, b)| a == b).count() as u64
}

/// Return the number of the block that contains byte `offset`, and the byte's position within that
/// block.
#[inline]
fn split(offset: u64) -> (u64, usize) {
    (offset / CHUNK_BYTES as u64, (offset % CHUNK_BYTES as u64) as usize)
}

/// Scramble a value by a one-to-one mapping (the finaliser of `MurmurHash3`).
#[inline]
pub fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    value = (value ^ (value >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    value ^ (value >> 33)
}
