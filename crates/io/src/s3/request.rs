//! From what to do to a signed request.

use http::header::{HeaderName, HeaderValue};
use http::{Method, Request};

use crate::s3::chunked::ChunkSigner;

/// What the signature says about the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadHash {
    /// `UNSIGNED-PAYLOAD`: a body that the signature does not cover.
    Unsigned,
    /// There is no body.
    Empty,
    /// The body's SHA-256.
    Sha256([u8; 32]),
    /// `STREAMING-AWS4-HMAC-SHA256-PAYLOAD`: each chunk is signed, see [`Signed::chunks`].
    Streaming {
        /// Bytes of the object, without the framing.
        decoded_length: u64,
    },
    /// `STREAMING-UNSIGNED-PAYLOAD-TRAILER`: the CRC32 follows the body, see
    /// [`crate::s3::chunked::CrcChunks`].
    TrailerCrc32 {
        /// Bytes of the object, without the framing.
        decoded_length: u64,
    },
}

/// One request: what to do to which key, and with which body.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// GET, PUT, HEAD, DELETE, POST.
    pub method: Method,
    /// None: the bucket itself.
    pub key: Option<&'a str>,
    /// Not encoded; any order.
    pub query: &'a [(&'a str, &'a str)],
    /// Further headers, such as `range`; all are signed.
    pub headers: &'a [(HeaderName, HeaderValue)],
    /// About the body.
    pub payload: PayloadHash,
    /// Of the body, with its framing where it has one: bytes on the wire.
    pub content_length: u64,
}

impl<'a> Call<'a> {
    /// GET of a whole object.
    pub fn get(key: &'a str) -> Call<'a> {
        Call::new(Method::GET, Some(key))
    }

    /// Without query, further headers and body.
    pub fn new(method: Method, key: Option<&'a str>) -> Call<'a> {
        Call {
            method,
            key,
            query: &[],
            headers: &[],
            payload: PayloadHash::Empty,
            content_length: 0,
        }
    }
}

/// A request that can be sent.
#[derive(Debug)]
pub struct Signed<B> {
    /// With all its headers.
    pub request: Request<B>,
    /// For [`PayloadHash::Streaming`] with credentials: signs the body's chunks, in order.
    pub chunks: Option<ChunkSigner>,
}
