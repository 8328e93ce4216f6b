//! Signature version 4, and the checksums that S3 knows.

use http::HeaderValue;

/// SHA-256 of a body in pieces.
#[derive(Clone)]
pub struct Sha256(ring::digest::Context);

impl std::fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sha256(..)")
    }
}

impl Sha256 {
    /// Of nothing yet.
    pub fn new() -> Sha256 {
        Sha256(ring::digest::Context::new(&ring::digest::SHA256))
    }

    /// The next piece.
    pub fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    /// Of everything.
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

/// SHA-256 of a whole body.
pub fn sha256(data: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(data);
    hash.finish()
}

/// CRC32 (IEEE) of a whole body.
pub fn crc32(data: &[u8]) -> u32 {
    crc32fast::hash(data)
}

/// `content-md5` of a body, which multi-delete needs.
pub fn content_md5(body: &[u8]) -> HeaderValue {
    let _ = body;
    todo!()
}
