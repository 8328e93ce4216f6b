//! Building of signed requests from calls.

use std::fmt;

use http::Method;
use http::header::{HeaderName, HeaderValue};

use crate::chunked::{CRC32_TRAILER, ChunkSigner};
use crate::sign::{self, Field, Signer, Subject};
use crate::{checksum, uri};

const DECODED_LENGTH: &str = "x-amz-decoded-content-length";
/// Initial capacity for a request head; nearly all are shorter. Allocators serve sizes up to 1 KiB
/// from their thread-local cache.
const HEAD_BYTES: usize = 640;

/// Value of `x-amz-content-sha256`: how the signature covers the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadHash {
    /// `UNSIGNED-PAYLOAD`: a body that the signature does not cover.
    Unsigned,
    /// There is no body.
    Empty,
    /// SHA-256 of the body.
    Sha256([u8; 32]),
    /// `STREAMING-AWS4-HMAC-SHA256-PAYLOAD`: each chunk is signed, see [`Signed::chunks`]. Needs
    /// credentials.
    Streaming {
        /// Length of the object in bytes, without the framing.
        decoded_length: u64,
    },
    /// `STREAMING-UNSIGNED-PAYLOAD-TRAILER`: the CRC32 follows the body, see
    /// [`crate::chunked::CrcChunks`].
    TrailerCrc32 {
        /// Length of the object in bytes, without the framing.
        decoded_length: u64,
    },
}

impl PayloadHash {
    /// Return the header value; `hash` is the buffer for the hex digits of a SHA-256.
    fn value<'h>(&self, hash: &'h mut [u8; 64]) -> &'h [u8] {
        match self {
            PayloadHash::Unsigned => b"UNSIGNED-PAYLOAD",
            PayloadHash::Empty => checksum::SHA256_OF_NOTHING.as_bytes(),
            PayloadHash::Sha256(sum) => {
                *hash = checksum::hex(sum);
                hash
            }
            PayloadHash::Streaming { .. } => b"STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
            PayloadHash::TrailerCrc32 { .. } => b"STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        }
    }

    /// Return the length in bytes, without framing, of an object that is sent in chunks.
    fn decoded_length(&self) -> Option<u64> {
        match *self {
            PayloadHash::Streaming { decoded_length }
            | PayloadHash::TrailerCrc32 { decoded_length } => Some(decoded_length),
            PayloadHash::Unsigned | PayloadHash::Empty | PayloadHash::Sha256(_) => None,
        }
    }
}

/// Request before it is signed: method, key, query, headers, and a description of the body.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// HTTP method: GET, PUT, HEAD, DELETE or POST.
    pub method: Method,
    /// Object key; None addresses the bucket itself.
    pub key: Option<&'a str>,
    /// Query parameters, not URL-encoded, in any order.
    pub query: &'a [(&'a str, &'a str)],
    /// Further headers, such as `range`; all are signed.
    pub headers: &'a [(HeaderName, HeaderValue)],
    /// How the signature covers the body.
    pub payload: PayloadHash,
    /// Length of the body on the wire in bytes, including framing.
    pub content_length: u64,
}

impl<'a> Call<'a> {
    /// Return whether a second identical request leaves the store in the same state and gets the
    /// same answer.
    ///
    /// CreateMultipartUpload does not: each one begins an upload that takes space until it ends.
    /// Nor does a conditional write, whose second attempt is refused because of the first.
    pub fn is_idempotent(&self) -> bool {
        let begins_upload =
            self.method == Method::POST && self.query.iter().any(|(name, _)| *name == "uploads");
        let conditional = self
            .headers
            .iter()
            .any(|(name, _)| [http::header::IF_MATCH, http::header::IF_NONE_MATCH].contains(name));
        let reads = matches!(self.method, Method::GET | Method::HEAD);
        reads || !(begins_upload || conditional)
    }

    /// Create a GET of a whole object.
    pub fn get(key: &'a str) -> Call<'a> {
        Call::new(Method::GET, Some(key))
    }

    /// Create a call without query, further headers or body.
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

/// Request line and header fields as they are sent.
#[derive(Clone)]
pub struct Head {
    pub(super) method: Method,
    pub(super) bytes: Vec<u8>,
}

impl Head {
    /// Return the bytes as they are sent. They contain the signature: never log them.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never print the bytes: they contain the signature.
        f.debug_struct("Head").field("method", &self.method).finish_non_exhaustive()
    }
}

/// Signed request, complete with all headers.
#[derive(Debug)]
pub struct Signed {
    /// Request line and header fields.
    pub head: Head,
    /// Signer of the body's chunks, in order; present for [`PayloadHash::Streaming`] with
    /// credentials.
    pub chunks: Option<ChunkSigner>,
}

/// Parts that all requests to one endpoint share.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) host: HeaderValue,
    /// Path before the slash of the key: `/` and the bucket in path style, otherwise empty.
    pub(super) path_prefix: String,
}

/// Build the request for a call, signed for `second` (Unix time) if there is a signer.
pub(super) fn build(
    origin: &Origin,
    signer: Option<&Signer>,
    second: u64,
    call: &Call<'_>,
) -> Signed {
    let (target, path_len) = target(origin, call);
    let method = call.method.as_str();
    let mut bytes = Vec::with_capacity(HEAD_BYTES + target.len());
    for part in [method.as_bytes(), b" ", &target, b" HTTP/1.1\r\n"] {
        bytes.extend_from_slice(part);
    }
    let (mut hash, stamp) = ([0; 64], sign::stamp(second));
    let payload = call.payload.value(&mut hash);
    let decoded_length = call.payload.decoded_length().map(|length| length.to_string());
    let mut fields: Vec<Field<'_>> = Vec::with_capacity(16);
    fields.extend([("host", origin.host.as_bytes()), (sign::CONTENT_SHA256, payload)]);
    if let Some(length) = &decoded_length {
        fields.extend([
            ("content-encoding", &b"aws-chunked"[..]),
            (DECODED_LENGTH, length.as_bytes()),
        ]);
    }
    if matches!(call.payload, PayloadHash::TrailerCrc32 { .. }) {
        fields.push(("x-amz-trailer", CRC32_TRAILER.as_bytes()));
    }
    fields.extend(call.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())));
    let chunks = signer.and_then(|signer| {
        fields.extend(signer.fields(&stamp));
        let (path, query) = target.split_at(path_len);
        let query = query.strip_prefix(b"?").unwrap_or(query);
        let subject = Subject { method, path, query, payload };
        let streaming = matches!(call.payload, PayloadHash::Streaming { .. });
        signer.sign(&stamp, &subject, &mut fields, streaming, &mut bytes)
    });
    for (name, value) in fields {
        push_line(&mut bytes, name, value);
    }
    // Not signed, because a proxy may change the way the length is transmitted.
    if call.content_length > 0 || matches!(call.method, Method::PUT | Method::POST) {
        push_line(&mut bytes, "content-length", call.content_length.to_string().as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    Signed { head: Head { method: call.method.clone(), bytes }, chunks }
}

fn push_line(into: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        into.extend_from_slice(part);
    }
}

/// Return the encoded path and query, and the length of the path.
fn target(origin: &Origin, call: &Call<'_>) -> (Vec<u8>, usize) {
    let key = call.key.unwrap_or_default();
    let mut out = Vec::with_capacity(origin.path_prefix.len() + key.len() + 64);
    out.extend_from_slice(origin.path_prefix.as_bytes());
    if call.key.is_some() || out.is_empty() {
        out.push(b'/');
        uri::push_key(&mut out, key);
    }
    let path_len = out.len();
    if !call.query.is_empty() {
        out.push(b'?');
        uri::push_sorted(&mut out, call.query);
    }
    (out, path_len)
}
