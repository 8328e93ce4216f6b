//! The content of an upload, from the socket into a file.

use std::fs::File;
use std::future::poll_fn;
use std::io::Write;
use std::pin::Pin;

use futures_core::Stream;
use s3s::dto::{Checksum, StreamingBlob};
use s3s::{S3Result, TrailingHeaders, s3_error};

use crate::digest::Digests;
use crate::errors::{broken_body, failed};

/// A piece below this is written at once. A longer one may have to wait until the kernel has
/// flushed others, so that the thread's connections are handed to another thread meanwhile; this
/// costs a few microseconds, and all other requests would wait without it.
const SHORT_BYTES: usize = 64 * 1024;

/// Writes a body into a file and checks it against what its headers promised.
///
/// Each piece is written as soon as it is there, so that the buffer it came in is free for the next
/// one: memory that is still in the CPU's cache costs a fraction of fresh memory.
///
/// # Errors
/// `IncompleteBody`, `BadDigest`, and those of the signature of each piece.
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
            "{received} bytes came of the {} that were promised",
            length.unwrap_or(0)
        ));
    }
    digests.check(trailing)
}
