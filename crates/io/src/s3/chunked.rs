//! `aws-chunked` bodies: what stands between the pieces of the payload. Pure functions, so that a
//! body only interleaves them with its buffers: `next` before each chunk, `finish` after the last.

use bytes::Bytes;

/// Signs the chunks of a `STREAMING-AWS4-HMAC-SHA256-PAYLOAD` body, in order. Chunks are at least
/// 8 KiB, but for the last one.
#[derive(Clone, Debug)]
pub struct ChunkSigner {}

impl ChunkSigner {
    /// What stands before a chunk: the line end of the chunk before it, if any, and its header.
    pub fn next(&mut self, length: u64, sha256: &[u8; 32]) -> Bytes {
        let _ = (length, sha256);
        todo!()
    }

    /// What stands after the last chunk.
    pub fn finish(&mut self) -> Bytes {
        todo!()
    }
}

/// The frame of a `STREAMING-UNSIGNED-PAYLOAD-TRAILER` body with its CRC32.
#[derive(Clone, Debug, Default)]
pub struct CrcChunks {
    begun: bool,
}

impl CrcChunks {
    /// What stands before a chunk.
    pub fn next(&mut self, length: u64) -> Bytes {
        let _ = (self.begun, length);
        todo!()
    }

    /// What stands after the last chunk; the CRC32 is that of the whole payload.
    pub fn finish(&mut self, crc32: u32) -> Bytes {
        let _ = crc32;
        todo!()
    }
}

/// Bytes on the wire of a signed chunked body, in chunks of `chunk` bytes.
pub fn signed_length(decoded_length: u64, chunk: u64) -> u64 {
    let _ = (decoded_length, chunk);
    todo!()
}

/// Bytes on the wire of a body with a CRC32 trailer, in chunks of `chunk` bytes.
pub fn crc_length(decoded_length: u64, chunk: u64) -> u64 {
    let _ = (decoded_length, chunk);
    todo!()
}
