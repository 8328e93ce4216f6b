//! Header at the start of every granule (verification block): 48 bytes, little-endian. Fields and
//! their lengths in bytes: magic 8, state id 8, offset 8, index of the file or device 4, generation
//! 4, length 4, header check 4, checksum 8.
//!
//! The header check detects a damaged header; the checksum covers header and body. Each further
//! sector of 512 bytes starts with an 8-byte tag derived from the header, so that a mix of two
//! generations is detected even if their payload is identical.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Length of a verification header in bytes.
pub(super) const HEADER_BYTES: usize = 48;

const MAGIC: u64 = u64::from_le_bytes(*b"storlab\x01");
const CHECK: usize = 36;
const CHECKSUM: usize = 40;
const TAG_STEP: u64 = 0x9e37_79b9_7f4a_7c15;
/// Unit that devices write atomically, in bytes.
const SECTOR_BYTES: usize = 512;

/// Fields of a verification header, which identify a block and its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) state: u64,
    pub(super) offset: u64,
    pub(super) member: u32,
    pub(super) generation: u32,
    pub(super) length: u32,
}

/// Content of a granule (verification block), judged by its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// No header: the whole granule is zero.
    Zeros,
    /// No header: the data was not written in verify mode.
    Foreign,
    /// A header with a valid magic number, possibly with the id of another state file. `sound`: the
    /// header itself is undamaged; `intact`: header and body are undamaged.
    Header { header: Header, sound: bool, intact: bool },
}

impl Header {
    /// Write the header over the start of `granule`, and a tag over the start of each further
    /// sector.
    pub(super) fn write(self, granule: &mut [u8]) {
        if granule.len() < HEADER_BYTES {
            return;
        }
        granule[0..8].copy_from_slice(&MAGIC.to_le_bytes());
        granule[8..16].copy_from_slice(&self.state.to_le_bytes());
        granule[16..24].copy_from_slice(&self.offset.to_le_bytes());
        granule[24..28].copy_from_slice(&self.member.to_le_bytes());
        granule[28..32].copy_from_slice(&self.generation.to_le_bytes());
        granule[32..36].copy_from_slice(&self.length.to_le_bytes());
        let check = xxh3_64(&granule[..CHECK]) as u32;
        granule[CHECK..CHECKSUM].copy_from_slice(&check.to_le_bytes());
        let mut tag = xxh3_64(&granule[..CHECKSUM]);
        for sector in granule.chunks_exact_mut(SECTOR_BYTES).skip(1) {
            tag = tag.wrapping_add(TAG_STEP);
            sector[..8].copy_from_slice(&tag.to_le_bytes());
        }
        let checksum = checksum(granule);
        granule[CHECKSUM..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Parse the header at the start of a granule (verification block), and verify its checksums.
    pub(super) fn read(granule: &[u8]) -> Found {
        if granule.len() < HEADER_BYTES || word64(granule, 0) != MAGIC {
            let zeros = granule.iter().all(|&byte| byte == 0);
            return if zeros { Found::Zeros } else { Found::Foreign };
        }
        let header = Header {
            state: word64(granule, 8),
            offset: word64(granule, 16),
            member: word32(granule, 24),
            generation: word32(granule, 28),
            length: word32(granule, 32),
        };
        let sound = word32(granule, CHECK) == xxh3_64(&granule[..CHECK]) as u32;
        let intact = sound
            && header.length as usize == granule.len()
            && word64(granule, CHECKSUM) == checksum(granule);
        Found::Header { header, sound, intact }
    }
}

fn checksum(granule: &[u8]) -> u64 {
    xxh3_64_with_seed(&granule[HEADER_BYTES..], xxh3_64(&granule[..CHECKSUM]))
}

fn word64(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}

fn word32(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER: Header =
        Header { state: 7, offset: 1 << 40, member: 3, generation: 9, length: 512 };

    proptest! {
        #[test]
        fn any_changed_bit_is_seen(body: [u8; 32], bit in 0usize..512 * 8) {
            let mut granule = body.repeat(16);
            HEADER.write(&mut granule);
            let whole = Found::Header { header: HEADER, sound: true, intact: true };
            prop_assert_eq!(Header::read(&granule), whole);
            granule[bit / 8] ^= 1 << (bit % 8);
            match Header::read(&granule) {
                Found::Foreign => prop_assert!(bit < 64),
                Found::Header { sound, intact, .. } => {
                    prop_assert!(!intact);
                    prop_assert_eq!(sound, bit >= CHECKSUM * 8);
                }
                Found::Zeros => prop_assert!(false),
            }
        }
    }

    #[test]
    fn what_is_no_header() {
        assert_eq!(Header::read(&[0; 512]), Found::Zeros);
        assert_eq!(Header::read(&[1; 512]), Found::Foreign);
        assert_eq!(Header::read(&[]), Found::Zeros);
        assert_eq!(Header::read(&MAGIC.to_le_bytes()), Found::Foreign);
    }
}
