//! A request on its way out.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};
use http::Request;

use crate::transfer::body::{Piece, RequestBody};

/// So much lies ready to be handed to the kernel at once, where the body has as much.
const READY_BYTES: usize = 128 << 10;
/// The kernel takes more in one call; a body that is gathered has two slices for each 4 KiB.
const SLICES: usize = 64;

/// Head and body, as far as the socket has not taken them.
pub struct Outgoing {
    body: RequestBody,
    ready: VecDeque<Piece>,
    ready_bytes: usize,
}

impl Outgoing {
    /// Nothing is sent yet.
    pub fn new(request: Request<RequestBody>) -> Self {
        let head = Piece::Plain(Bytes::from(head_of(&request)));
        let ready_bytes = head.remaining();
        let mut outgoing =
            Outgoing { body: request.into_body(), ready: [head].into(), ready_bytes };
        outgoing.refill();
        outgoing
    }

    /// Whether the socket has taken everything.
    pub fn is_sent(&self) -> bool {
        self.ready.is_empty()
    }

    /// Hands `write` what comes next. It says how much of that was taken: None, where nothing can be.
    pub fn write<E>(
        &mut self,
        write: impl FnOnce(&[IoSlice<'_>]) -> Result<Option<usize>, E>,
    ) -> Result<Option<usize>, E> {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let mut count = 0;
        for piece in &self.ready {
            count += piece.chunks_vectored(&mut slices[count..]);
        }
        let taken = write(&slices[..count])?;
        if let Some(taken) = taken {
            self.advance(taken);
        }
        Ok(taken)
    }

    fn advance(&mut self, taken: usize) {
        self.ready_bytes -= taken;
        let mut left = taken;
        while let Some(piece) = self.ready.front_mut() {
            let step = left.min(piece.remaining());
            piece.advance(step);
            left -= step;
            if piece.has_remaining() {
                break;
            }
            self.ready.pop_front();
        }
        self.refill();
    }

    fn refill(&mut self) {
        while self.ready_bytes < READY_BYTES {
            let Some(piece) = self.body.next_piece() else { break };
            self.ready_bytes += piece.remaining();
            self.ready.push_back(piece);
        }
    }
}

/// As it goes over the wire.
fn head_of(request: &Request<RequestBody>) -> Vec<u8> {
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    let mut head = Vec::with_capacity(1 << 10);
    for part in [request.method().as_str(), " ", target, " HTTP/1.1\r\n"] {
        head.extend_from_slice(part.as_bytes());
    }
    for (name, value) in request.headers() {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            head.extend_from_slice(part);
        }
    }
    head.extend_from_slice(b"\r\n");
    head
}
