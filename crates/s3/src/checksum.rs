//! Checksums that S3 uses: SHA-256, HMAC, CRC32 and MD5.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::header::HeaderValue;
use md5::Digest as _;
use ring::{digest, hmac};

pub(super) const SHA256_OF_NOTHING: &str =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

pub(super) fn hmac_hex(key: &hmac::Key, data: &[u8]) -> [u8; 64] {
    let mut hash = [0; 32];
    hash.copy_from_slice(hmac::sign(key, data).as_ref());
    hex(&hash)
}

pub(super) fn hex(hash: &[u8; 32]) -> [u8; 64] {
    // The digit is computed, not looked up in a table, so that the compiler can vectorise the loop.
    let digit = |nibble: u8| nibble + b'0' + (b'a' - b'9' - 1) * u8::from(nibble > 9);
    let mut out = [0; 64];
    for (pair, byte) in out.chunks_exact_mut(2).zip(hash) {
        (pair[0], pair[1]) = (digit(byte >> 4), digit(byte & 15));
    }
    out
}

/// SHA-256 of data that arrives in pieces.
#[derive(Clone)]
pub struct Sha256(digest::Context);

impl Sha256 {
    /// Start a hash, without any data yet.
    pub fn new() -> Sha256 {
        Sha256(digest::Context::new(&digest::SHA256))
    }

    /// Add the next piece of data to the hash.
    pub fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    /// Return the SHA-256 of all added data.
    pub fn finish(self) -> [u8; 32] {
        let mut out = [0; 32];
        out.copy_from_slice(self.0.finish().as_ref());
        out
    }
}

impl Default for Sha256 {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sha256(..)")
    }
}

/// Return the SHA-256 of `data`.
pub fn sha256(data: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest::digest(&digest::SHA256, data).as_ref());
    out
}

/// Return the CRC32 (IEEE) of `data`.
pub fn crc32(data: &[u8]) -> u32 {
    crc32fast::hash(data)
}

/// Return the MD5 of a body as the value of the header `content-md5`, which multi-delete requires.
pub fn content_md5(body: &[u8]) -> HeaderValue {
    value(BASE64.encode(md5::Md5::digest(body)).into_bytes())
}

/// Encode a CRC32 in the form of the header `x-amz-checksum-crc32`: base64 of the big-endian bytes.
pub(super) fn crc32_base64(crc32: u32) -> String {
    BASE64.encode(crc32.to_be_bytes())
}

/// Convert bytes of visible ASCII to a header value; other bytes give an empty value.
pub(super) fn value(bytes: Vec<u8>) -> HeaderValue {
    HeaderValue::from_maybe_shared(Bytes::from(bytes))
        .unwrap_or_else(|_| HeaderValue::from_static(""))
}
