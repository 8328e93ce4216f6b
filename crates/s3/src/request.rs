//! From what to do to a signed request.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Uri};

use crate::chunked::{CRC32_TRAILER, ChunkSigner};
use crate::sign::{self, Signer, Subject};
use crate::{checksum, uri};

const DECODED_LENGTH: HeaderName = HeaderName::from_static("x-amz-decoded-content-length");
const TRAILER: HeaderName = HeaderName::from_static("x-amz-trailer");
const AWS_CHUNKED: HeaderValue = HeaderValue::from_static("aws-chunked");

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
    /// As in `x-amz-content-sha256`.
    fn value(&self) -> HeaderValue {
        match self {
            PayloadHash::Unsigned => HeaderValue::from_static("UNSIGNED-PAYLOAD"),
            PayloadHash::Empty => HeaderValue::from_static(checksum::SHA256_OF_NOTHING),
            PayloadHash::Sha256(hash) => checksum::value(checksum::hex(hash).to_vec()),
            PayloadHash::Streaming { .. } => {
                HeaderValue::from_static("STREAMING-AWS4-HMAC-SHA256-PAYLOAD")
            }
            PayloadHash::TrailerCrc32 { .. } => {
                HeaderValue::from_static("STREAMING-UNSIGNED-PAYLOAD-TRAILER")
            }
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

/// What the requests to one endpoint have in common.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) host: HeaderValue,
    /// What stands before a key's slash: the bucket in path style, else nothing.
    pub(super) path_prefix: String,
}

/// The request for a call, signed for `second` since 1970 where there is a signer.
pub(super) fn build<B>(
    origin: &Origin,
    signer: Option<&Signer>,
    second: u64,
    call: &Call<'_>,
    body: B,
) -> Signed<B> {
    let (target, path_len) = target(origin, call);
    let mut headers = HeaderMap::with_capacity(16);
    headers.insert(header::HOST, origin.host.clone());
    let payload = call.payload.value();
    headers.insert(sign::CONTENT_SHA256, payload.clone());
    match call.payload {
        PayloadHash::Streaming { decoded_length } => {
            headers.insert(header::CONTENT_ENCODING, AWS_CHUNKED);
            headers.insert(DECODED_LENGTH, decoded_length.into());
        }
        PayloadHash::TrailerCrc32 { decoded_length } => {
            headers.insert(header::CONTENT_ENCODING, AWS_CHUNKED);
            headers.insert(DECODED_LENGTH, decoded_length.into());
            headers.insert(TRAILER, HeaderValue::from_static(CRC32_TRAILER));
        }
        PayloadHash::Unsigned | PayloadHash::Empty | PayloadHash::Sha256(_) => {}
    }
    for (name, value) in call.headers {
        headers.append(name.clone(), value.clone());
    }
    let chunks = signer.and_then(|signer| {
        let (path, query) = target.split_at(path_len);
        let subject = Subject {
            method: call.method.as_str(),
            path,
            query: query.strip_prefix(b"?").unwrap_or(query),
            payload: payload.as_bytes(),
        };
        let streaming = matches!(call.payload, PayloadHash::Streaming { .. });
        signer.sign(second, &subject, &mut headers, streaming)
    });
    // Not signed: a proxy may change how the length is said.
    if call.content_length > 0 || matches!(call.method, Method::PUT | Method::POST) {
        headers.insert(header::CONTENT_LENGTH, call.content_length.into());
    }
    let mut request = Request::new(body);
    *request.method_mut() = call.method.clone();
    *request.uri_mut() = Uri::from_maybe_shared(Bytes::from(target))
        .expect("an encoded path and query of less than 64 KiB");
    *request.headers_mut() = headers;
    Signed { request, chunks }
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
