//! Framing of `aws-chunked` request bodies: headers and trailers of chunks.
//!
//! The functions return only the framing, which the caller sends together with the data: the result
//! of `next` before each chunk, the result of `finish` after the last one.
//!
//! Source: the AWS documentation of Signature Version 4 for S3: transfer of the payload in multiple
//! chunks, and with trailing headers.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use ring::hmac;

use crate::checksum::{SHA256_OF_NOTHING, crc32_base64, hex, hmac_hex};

const SIGNATURE: &[u8] = b";chunk-signature=";
pub(super) const CRC32_TRAILER: &str = "x-amz-checksum-crc32";

/// Signer of the chunks of a `STREAMING-AWS4-HMAC-SHA256-PAYLOAD` body. Chunks must be signed in
/// order.
///
/// S3 requires chunks of at least 8 KiB, except for the last one.
#[derive(Clone)]
pub struct ChunkSigner {
    key: hmac::Key,
    stamp: [u8; 16],
    scope: Arc<str>,
    previous: [u8; 64],
    begun: bool,
}

impl ChunkSigner {
    pub(super) fn new(key: hmac::Key, stamp: [u8; 16], scope: Arc<str>, seed: [u8; 64]) -> Self {
        ChunkSigner { key, stamp, scope, previous: seed, begun: false }
    }

    /// Return the bytes to send before a chunk of `length` bytes (not 0): the line end of the
    /// previous chunk, if any, and a header with the signature. `sha256` is the hash of the chunk.
    pub fn next(&mut self, length: u64, sha256: &[u8; 32]) -> Bytes {
        let mut out = self.header(length, &hex(sha256));
        out.extend_from_slice(b"\r\n");
        out.into()
    }

    /// Return the bytes to send after the last chunk: its line end, and a signed empty chunk.
    pub fn finish(&mut self) -> Bytes {
        let mut out = self.header(0, SHA256_OF_NOTHING.as_bytes());
        out.extend_from_slice(b"\r\n\r\n");
        out.into()
    }

    fn header(&mut self, length: u64, hash: &[u8]) -> Vec<u8> {
        let mut text = Vec::with_capacity(320);
        for part in [
            b"AWS4-HMAC-SHA256-PAYLOAD\n",
            &self.stamp[..],
            b"\n",
            self.scope.as_bytes(),
            b"\n",
            &self.previous,
            b"\n",
            SHA256_OF_NOTHING.as_bytes(),
            b"\n",
            hash,
        ] {
            text.extend_from_slice(part);
        }
        self.previous = hmac_hex(&self.key, &text);
        let mut out = text;
        out.clear();
        begin_chunk(&mut out, &mut self.begun, length);
        out.extend_from_slice(SIGNATURE);
        out.extend_from_slice(&self.previous);
        out
    }
}

impl fmt::Debug for ChunkSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChunkSigner(..)")
    }
}

/// Framing of a `STREAMING-UNSIGNED-PAYLOAD-TRAILER` body, which has the CRC32 of its data in a
/// trailer.
#[derive(Clone, Debug, Default)]
pub struct CrcChunks {
    begun: bool,
}

impl CrcChunks {
    /// Return the bytes to send before a chunk of `length` bytes (not 0): the line end of the
    /// previous chunk, if any, and a header with the length.
    pub fn next(&mut self, length: u64) -> Bytes {
        let mut out = Vec::with_capacity(20);
        begin_chunk(&mut out, &mut self.begun, length);
        out.extend_from_slice(b"\r\n");
        out.into()
    }

    /// Return the bytes to send after the last chunk: its line end, an empty chunk, and the trailer
    /// with the CRC32 of all data.
    pub fn finish(&mut self, crc32: u32) -> Bytes {
        let mut out = Vec::with_capacity(48);
        begin_chunk(&mut out, &mut self.begun, 0);
        let trailer = format!("\r\n{CRC32_TRAILER}:{}\r\n\r\n", crc32_base64(crc32));
        out.extend_from_slice(trailer.as_bytes());
        out.into()
    }
}

fn begin_chunk(into: &mut Vec<u8>, begun: &mut bool, length: u64) {
    if std::mem::replace(begun, true) {
        into.extend_from_slice(b"\r\n");
    }
    into.extend_from_slice(format!("{length:x}").as_bytes());
}

/// Return the length in bytes of a signed body including its framing. The data is `decoded_length`
/// bytes in chunks of `chunk` bytes (not 0).
pub fn signed_length(decoded_length: u64, chunk: u64) -> u64 {
    framed_length(decoded_length, chunk, SIGNATURE.len() as u64 + 64, 0)
}

/// Return the length in bytes of a body with a CRC32 trailer, including its framing. The data is
/// `decoded_length` bytes in chunks of `chunk` bytes (not 0).
pub fn crc_length(decoded_length: u64, chunk: u64) -> u64 {
    // The trailer is a line of the name, a colon, eight characters of base64 and the line end.
    framed_length(decoded_length, chunk, 0, CRC32_TRAILER.len() as u64 + 1 + 8 + 2)
}

/// Return the length in bytes of a chunked body including its framing.
///
/// Each chunk adds its length in hex, an extension of `extension` bytes and two line ends. The
/// empty last chunk adds the same, and a trailer of `trailer` bytes between its two line ends.
fn framed_length(decoded_length: u64, chunk: u64, extension: u64, trailer: u64) -> u64 {
    let digits = |length: u64| u64::from(length.checked_ilog(16).unwrap_or(0)) + 1;
    let frame = |length: u64| digits(length) + extension + 4;
    let (whole, rest) = (decoded_length / chunk, decoded_length % chunk);
    let last = if rest > 0 { frame(rest) } else { 0 };
    decoded_length + whole * frame(chunk) + last + frame(0) + trailer
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{crc32, sha256};

    fn signer() -> ChunkSigner {
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"key");
        ChunkSigner::new(key, *b"20130524T000000Z", "a/b/c/aws4_request".into(), [b'0'; 64])
    }

    fn crc_body(payload: &[u8], chunk: usize) -> Vec<u8> {
        let mut frame = CrcChunks::default();
        let mut out = Vec::new();
        for piece in payload.chunks(chunk) {
            out.extend_from_slice(&frame.next(piece.len() as u64));
            out.extend_from_slice(piece);
        }
        out.extend_from_slice(&frame.finish(crc32(payload)));
        out
    }

    #[test]
    fn a_trailer_follows_the_last_chunk() {
        let body = crc_body(b"123456789", 5);
        // cbf43926 is the published check value of CRC-32.
        let wanted: &[u8] =
            b"5\r\n12345\r\n4\r\n6789\r\n0\r\nx-amz-checksum-crc32:y/Q5Jg==\r\n\r\n";
        assert_eq!(body, wanted, "{}", String::from_utf8_lossy(&body));
        assert_eq!(crc_body(b"", 5), b"0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n");
    }

    #[test]
    fn the_documented_length_of_a_signed_body() {
        // 65 KiB in chunks of 64 KiB: the example of the AWS documentation.
        assert_eq!(signed_length(66_560, 65_536), 66_824);
    }

    proptest! {
        #[test]
        fn lengths_are_those_of_the_bodies(length in 0usize..5_000, chunk in 1usize..1_000) {
            let payload = vec![7u8; length];
            let body = crc_body(&payload, chunk);
            prop_assert_eq!(crc_length(length as u64, chunk as u64), body.len() as u64);
            let mut signer = signer();
            let mut signed = 0;
            for piece in payload.chunks(chunk) {
                signed += signer.next(piece.len() as u64, &sha256(piece)).len() + piece.len();
            }
            signed += signer.finish().len();
            prop_assert_eq!(signed_length(length as u64, chunk as u64), signed as u64);
        }
    }
}
