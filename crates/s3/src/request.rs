//! From what to do to a signed request.

use std::fmt;

use http::Method;
use http::header::{HeaderName, HeaderValue};

use crate::chunked::{CRC32_TRAILER, ChunkSigner};
use crate::sign::{self, Field, Signer, Subject};
use crate::{checksum, uri};

const DECODED_LENGTH: &str = "x-amz-decoded-content-length";
/// A head is shorter, but for odd keys; allocators keep memory of up to 1 KiB at hand.
const HEAD_BYTES: usize = 640;

/// What the signature says about the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadHash {
    /// `UNSIGNED-PAYLOAD`: a body that the signature does not cover.
    Unsigned,
    /// There is no body.
    Empty,
    /// The body's SHA-256.
    Sha256([u8; 32]),
    /// `STREAMING-AWS4-HMAC-SHA256-PAYLOAD`: each chunk is signed, see [`Signed::chunks`]. Needs
    /// credentials.
    Streaming {
        /// Bytes of the object, without the framing.
        decoded_length: u64,
    },
    /// `STREAMING-UNSIGNED-PAYLOAD-TRAILER`: the CRC32 follows the body, see
    /// [`crate::chunked::CrcChunks`].
    TrailerCrc32 {
        /// Bytes of the object, without the framing.
        decoded_length: u64,
    },
}

impl PayloadHash {
    /// As in `x-amz-content-sha256`, where `hash` has room for the digits of one.
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

    /// Bytes of an object that goes out in chunks, without their framing.
    fn decoded_length(&self) -> Option<u64> {
        match *self {
            PayloadHash::Streaming { decoded_length }
            | PayloadHash::TrailerCrc32 { decoded_length } => Some(decoded_length),
            PayloadHash::Unsigned | PayloadHash::Empty | PayloadHash::Sha256(_) => None,
        }
    }
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
    /// Whether the store is in the same state, and answers the same, if the request comes twice.
    ///
    /// CreateMultipartUpload is not: each begins an upload that takes space until it ends. Nor is
    /// a write on a condition, whose second attempt is refused because of the first.
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

/// Request line and header, as they go over the wire.
#[derive(Clone)]
pub struct Head {
    pub(super) method: Method,
    pub(super) bytes: Vec<u8>,
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The signature is in it.
        f.debug_struct("Head").field("method", &self.method).finish_non_exhaustive()
    }
}

/// A request that can be sent.
#[derive(Debug)]
pub struct Signed {
    /// All but the body.
    pub head: Head,
    /// For [`PayloadHash::Streaming`] with credentials: signs the body's chunks, in order.
    pub chunks: Option<ChunkSigner>,
}

/// What the requests to one endpoint have in common.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) host: HeaderValue,
    /// What stands before a key's slash: the bucket in path style, else nothing.
    pub(super) path_prefix: String,
}

/// The request for a call, signed for `second` since 1970 where there is a signer.
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
    // Not signed: a proxy may change how the length is said.
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

/// Path and query, encoded, and the length of the path.
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
