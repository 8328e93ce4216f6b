//! HTTP request that is being sent to the server.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::task::{Poll, ready};

use bytes::Buf;

use crate::body::{Piece, RequestBody};

/// Maximum number of body bytes generated before a write. They are generated just before it, so
/// that the kernel copies them from the processor's cache. PUTs of 4 MiB on loopback need 0.165 s
/// of CPU per GB, and 0.174 s with 512 KiB (medians of 7 alternating rounds).
pub(super) const READY_BYTES: usize = 256 << 10;
/// Maximum number of slices per write. It suffices for a head and [`READY_BYTES`] of a chunked
/// body.
const SLICES: usize = 16;

/// Part of a request, head and body, that is not sent yet.
pub struct Outgoing {
    head: Vec<u8>,
    /// Number of bytes of the head that the socket has accepted.
    head_sent: usize,
    body: RequestBody,
    ready: VecDeque<Piece>,
    ready_bytes: usize,
}

impl Outgoing {
    /// Create a request to send; nothing is sent yet.
    pub fn new(head: Vec<u8>, body: RequestBody) -> Self {
        Outgoing { head, head_sent: 0, body, ready: VecDeque::new(), ready_bytes: 0 }
    }

    /// Return the number of body bytes that are generated but not accepted by the socket yet.
    #[cfg(test)]
    pub fn waiting_bytes(&self) -> usize {
        self.ready_bytes
    }

    /// Return whether the socket has accepted the whole request.
    pub fn is_sent(&self) -> bool {
        self.head_sent == self.head.len() && self.ready.is_empty() && self.body.is_over()
    }

    /// Call `write` with the next bytes to send, as slices. `write` returns how many bytes the
    /// socket accepted.
    ///
    /// Call this only when the socket is writable, because it generates the body's bytes.
    pub fn poll_write(
        &mut self,
        write: impl FnOnce(&[IoSlice<'_>]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<()>> {
        self.refill();
        let mut slices = [IoSlice::new(&self.head[self.head_sent..]); SLICES];
        let mut count = usize::from(self.head_sent < self.head.len());
        for piece in &self.ready {
            count += piece.chunks_vectored(&mut slices[count..]);
        }
        let taken = ready!(write(&slices[..count]))?;
        self.advance(taken);
        Poll::Ready(Ok(()))
    }

    fn advance(&mut self, taken: usize) {
        let of_head = taken.min(self.head.len() - self.head_sent);
        self.head_sent += of_head;
        let mut left = taken - of_head;
        self.ready_bytes -= left;
        while let Some(piece) = self.ready.front_mut() {
            let step = left.min(piece.remaining());
            piece.advance(step);
            left -= step;
            if piece.has_remaining() {
                break;
            }
            self.ready.pop_front();
        }
    }

    fn refill(&mut self) {
        while self.ready_bytes < READY_BYTES {
            let Some(piece) = self.body.next_piece() else { break };
            self.ready_bytes += piece.remaining();
            self.ready.push_back(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::body::Framing;
    use crate::content::Content;

    proptest! {
        #[test]
        fn head_and_body_go_out_whole_however_they_are_taken(
            head in prop::collection::vec(any::<u8>(), 1..2_000),
            length in 0u64..900_000,
            takes in prop::collection::vec(prop::option::of(1usize..300_000), 1..9),
        ) {
            // If the socket never accepted anything, the test would not end.
            prop_assume!(takes.iter().any(Option::is_some));
            let content = Content::of("k");
            let body = RequestBody::object(content, 0, length, Framing::None);
            let mut outgoing = Outgoing::new(head.clone(), body);
            let (mut wire, mut takes) = (Vec::new(), takes.iter().cycle());
            while !outgoing.is_sent() {
                let written = outgoing.poll_write(|slices| {
                    let Some(mut left) = *takes.next().unwrap() else { return Poll::Pending };
                    let before = wire.len();
                    for slice in slices {
                        let step = left.min(slice.len());
                        wire.extend_from_slice(&slice[..step]);
                        left -= step;
                    }
                    Poll::Ready(Ok(wire.len() - before))
                });
                prop_assert!(!matches!(written, Poll::Ready(Err(_))));
            }
            let mut wanted = vec![0; length as usize];
            content.fill(0, &mut wanted);
            prop_assert!(wire == [head, wanted].concat());
        }
    }

    #[test]
    fn a_small_object_goes_out_with_its_head_at_once() {
        let body = RequestBody::plain(Bytes::from_static(b"body"));
        let mut outgoing = Outgoing::new(b"head ".to_vec(), body);
        let written = outgoing.poll_write(|slices| {
            let all: Vec<&[u8]> = slices.iter().map(|slice| &**slice).collect();
            assert_eq!(all, [&b"head "[..], b"body"]);
            Poll::Ready(Ok(9))
        });
        assert!(written.is_ready() && outgoing.is_sent());
    }
}
