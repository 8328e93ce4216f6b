//! Construction of signed requests.

use std::fmt;

use http::Method;
use http::header::{HeaderName, HeaderValue};

use crate::chunked::{CRC32_TRAILER, ChunkSigner};
use crate::sign::{self, Field, Signer, Subject};
use crate::{checksum, uri};

const DECODED_LENGTH: &str = "x-amz-decoded-content-length";
/// Initial capacity in bytes for the head of a request. Nearly all heads are shorter, and
/// allocators serve sizes up to 1 KiB from their thread-local cache.
const HEAD_BYTES: usize = 640;

/// Value of the header `x-amz-content-sha256`: how the signature covers the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadHash {
    /// `UNSIGNED-PAYLOAD`: the signature does not cover the body.
    Unsigned,
    /// The request has no body.
    Empty,
    /// The signature covers the SHA-256 of the body.
    Sha256([u8; 32]),
    /// `STREAMING-AWS4-HMAC-SHA256-PAYLOAD`: each chunk of the body is signed by
    /// [`Signed::chunks`]. Needs credentials.
    Streaming {
        /// Length of the data in bytes, without the framing.
        decoded_length: u64,
    },
    /// `STREAMING-UNSIGNED-PAYLOAD-TRAILER`: the CRC32 follows the body in a trailer, see
    /// [`crate::chunked::CrcChunks`].
    TrailerCrc32 {
        /// Length of the data in bytes, without the framing.
        decoded_length: u64,
    },
}

impl PayloadHash {
    /// Return the value of the header. `hash` is memory for the hex digits of a SHA-256.
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

    /// Return the length of the data in bytes, without framing, if the body is sent in chunks.
    fn decoded_length(&self) -> Option<u64> {
        match *self {
            PayloadHash::Streaming { decoded_length }
            | PayloadHash::TrailerCrc32 { decoded_length } => Some(decoded_length),
            PayloadHash::Unsigned | PayloadHash::Empty | PayloadHash::Sha256(_) => None,
        }
    }
}

/// Description of a request before it is signed.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// HTTP method: GET, PUT, HEAD, DELETE or POST.
    pub method: Method,
    /// Key of the object; None if the request is for the bucket itself.
    pub key: Option<&'a str>,
    /// Query parameters in any order, not URL-encoded.
    pub query: &'a [(&'a str, &'a str)],
    /// Further header fields, such as `range`. All are signed.
    pub headers: &'a [(HeaderName, HeaderValue)],
    /// How the signature covers the body.
    pub payload: PayloadHash,
    /// Length of the body in bytes, including framing.
    pub content_length: u64,
}

impl<'a> Call<'a> {
    /// Return whether sending the request twice has the same effect and answer as sending it once.
    ///
    /// CreateMultipartUpload is not idempotent: each one begins an upload, which takes space until
    /// it is completed or aborted. Neither is a conditional write: the first attempt can make the
    /// condition false for the second.
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

    /// Describe a GET of a whole object.
    pub fn get(key: &'a str) -> Call<'a> {
        Call::new(Method::GET, Some(key))
    }

    /// Describe a request without query, further headers or body.
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
    /// Return the bytes to send. They contain the signature, so never log them.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The bytes are not printed, because they contain the signature.
        f.debug_struct("Head").field("method", &self.method).finish_non_exhaustive()
    }
}

/// Signed request, with all headers.
#[derive(Debug)]
pub struct Signed {
    /// Request line and header fields.
    pub head: Head,
    /// Signer for the chunks of the body, in order. Present for [`PayloadHash::Streaming`] if there
    /// are credentials.
    pub chunks: Option<ChunkSigner>,
}

/// Properties that all requests to one endpoint have in common.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) host: HeaderValue,
    /// Start of the path, before the slash of the key: `/` and the bucket in path style, otherwise
    /// empty.
    pub(super) path_prefix: String,
}

/// Build the request that `call` describes. If there is a signer, it is signed for the time
/// `second` (Unix time).
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
    // The content length is not signed, because a proxy may change how the length is transmitted.
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

/// Return the encoded path and query, and the length of the path in bytes.
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
