//! Reception of an object's content from the socket into a file.

use std::fs::File;
use std::future::poll_fn;
use std::io::Write;
use std::pin::Pin;

use futures_core::Stream;
use s3s::dto::{Checksum, StreamingBlob};
use s3s::{S3Result, TrailingHeaders, s3_error};

use crate::digest::Digests;
use crate::errors::{broken_body, failed};

/// Size in bytes from which the write of a received piece counts as blocking: the kernel may flush
/// dirty pages first. The runtime then moves the thread's other connections to another thread. That
/// costs a few microseconds, but otherwise all these connections would wait.
const SHORT_BYTES: usize = 64 * 1024;

/// Write a request's body to a file, and check it against the length and checksums in its headers.
///
/// Each piece is written as soon as it arrives, so that its buffer can be reused while it is still
/// in the CPU's cache. Fresh memory costs several times as much.
///
/// # Errors
/// `IncompleteBody` or `BadDigest` if the body does not match its headers, or the error for an
/// invalid chunk signature.
pub async fn receive(
    file: &mut File,
    body: Option<StreamingBlob>,
    length: Option<i64>,
    mut digests: Digests,
    trailing: Option<&TrailingHeaders>,
) -> S3Result<Checksum> {
    let mut received = 0;
    if let Some(mut body) = body {
        while let Some(piece) = poll_fn(|cx| Pin::new(&mut body).poll_next(cx)).await {
            let piece = piece.map_err(broken_body)?;
            digests.update(&piece);
            let mut write = || file.write_all(&piece);
            let written = if piece.len() < SHORT_BYTES {
                write()
            } else {
                tokio::task::block_in_place(write)
            };
            written.map_err(failed("write of an object"))?;
            received += piece.len() as i64;
        }
    }
    if length.is_some_and(|promised| promised != received) {
        return Err(s3_error!(
            IncompleteBody,
            "{received} bytes were received instead of {}",
            length.unwrap_or(0)
        ));
    }
    digests.check(trailing)
}
