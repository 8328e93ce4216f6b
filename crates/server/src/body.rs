//! Request body that the server passes to s3s.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::HeaderMap;
use hyper::body::Incoming;
use s3s::StdError;
use storlab_base::lock;

/// Maximum number of bytes that are read and discarded of a rejected request, so that its client
/// sees the answer.
const DRAIN_BYTES: usize = 64 * 1024 * 1024;
/// Number of bytes to keep of the end of a signed body. The last chunk (its header and two line
/// ends) is shorter.
const TAIL_BYTES: usize = 128;

/// Return whether the request's body consists of signed chunks without a trailer.
pub fn signed_in_chunks(headers: &HeaderMap) -> bool {
    let payload = headers.get("x-amz-content-sha256");
    payload.is_some_and(|value| value == "STREAMING-AWS4-HMAC-SHA256-PAYLOAD")
}

/// Body that can still be read after s3s has dropped it.
///
/// For a body in signed chunks, it also checks that the empty last chunk arrives. s3s does not
/// check this: once the content is complete, it accepts the end of the body without that chunk.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<Inner>>);

struct Inner {
    incoming: Incoming,
    /// Last bytes received so far; None if the body is not in signed chunks.
    tail: Option<Vec<u8>>,
}

impl Shared {
    /// Wrap the body of a request. `in_chunks` is the result of [`signed_in_chunks`].
    pub fn new(incoming: Incoming, in_chunks: bool) -> Self {
        Self(Arc::new(Mutex::new(Inner { incoming, tail: in_chunks.then(Vec::new) })))
    }

    /// Read and discard the rest of the body, up to a limit.
    ///
    /// If the connection were closed while the client is still sending, the client would see a
    /// reset instead of the answer.
    pub async fn drain(self) {
        let mut left = DRAIN_BYTES;
        let mut body = self;
        while let Some(Ok(frame)) =
            std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await
        {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                return;
            }
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        lock(&self.0)
    }
}

impl Body for Shared {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let mut inner = self.inner();
        let frame = Pin::new(&mut inner.incoming).poll_frame(cx).map_err(StdError::from);
        let Some(tail) = &mut inner.tail else { return frame };
        match &frame {
            Poll::Ready(Some(Ok(frame))) => keep(tail, frame.data_ref().map_or(&[], |data| data)),
            Poll::Ready(None) if !ends_with_the_last_chunk(tail) => {
                let cut = io::Error::other("the body does not end with an empty signed chunk");
                return Poll::Ready(Some(Err(cut.into())));
            }
            _ => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        let inner = self.inner();
        inner.tail.is_none() && inner.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner().incoming.size_hint()
    }
}

fn keep(tail: &mut Vec<u8>, piece: &[u8]) {
    tail.extend_from_slice(&piece[piece.len().saturating_sub(TAIL_BYTES)..]);
    tail.drain(..tail.len().saturating_sub(TAIL_BYTES));
}

/// Return whether the bytes end with the header of an empty chunk. s3s checks its signature.
fn ends_with_the_last_chunk(tail: &[u8]) -> bool {
    let text = tail.trim_ascii_end();
    let line = text.rsplit(|byte| *byte == b'\n').next().unwrap_or(text);
    let size = line.split(|byte| *byte == b';').next().unwrap_or(line);
    size.len() < line.len() && !size.is_empty() && size.iter().all(|digit| *digit == b'0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_empty_chunk_is_the_last_one() {
        let signature = "f".repeat(64);
        for (body, last) in [
            (format!("5;chunk-signature={signature}\r\nhello\r\n"), false),
            (format!("10;chunk-signature={signature}\r\n0123456789abcdef\r\n"), false),
            (format!("hello\r\n0;chunk-signature={signature}\r\n\r\n"), true),
            (format!("hello\r\n0;chunk-signature={signature}\r\n"), true),
            (format!("0;chunk-signature={signature}\r\n\r\n"), true),
            (String::new(), false),
        ] {
            for step in [1, 7, body.len().max(1)] {
                let mut tail = Vec::new();
                body.as_bytes().chunks(step).for_each(|piece| keep(&mut tail, piece));
                assert_eq!(ends_with_the_last_chunk(&tail), last, "{body:?} in steps of {step}");
            }
        }
    }
}
