//! Bodies of PUTs. What is made for a request is the stamps alone, 16 bytes for each 4 KiB.
//!
//! A worker writes them into its own copy of the pattern, piece by piece, so that the kernel is
//! handed runs of 256 KiB. Pattern and stamps in turns, which is what is left for ranges that begin
//! within a piece, cost a sixth more (medians of 10 interleaved rounds of 4 MiB, loopback: 0.260
//! and 0.299 s of CPU per GB; a bare loop that sends 256 KiB again and again 0.232).

use std::cell::RefCell;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use bytes::{Buf, Bytes};
use storlab_base::{CHUNK_BYTES, STAMP_BYTES, Stamped as _};

use crate::checksum::Sha256;
use crate::chunked::{ChunkSigner, CrcChunks};
use crate::content::{Content, PIECE_BYTES, PIECES};

/// Pieces that a worker copies at most, 32 MiB. What is under way beyond them is gathered.
const COPIES: usize = 128;

thread_local! {
    static COPIED: RefCell<Copies> = RefCell::default();
}

/// A thread's own copies of the pattern's pieces, by number, that are in no body just now.
#[derive(Default)]
struct Copies {
    free: [Vec<Box<[u8]>>; PIECES],
    made: usize,
}

/// What a body consists of on its way out.
#[derive(Debug)]
pub enum Piece {
    /// XML, and what stands between chunks.
    Plain(Bytes),
    /// Of an object, in one run of memory.
    Whole(Whole),
    /// Of an object, gathered.
    Stamped(Stamped),
}

impl Piece {
    /// Bytes of an object, at most [`PIECE_BYTES`].
    fn of(content: Content, at: u64, end: u64) -> Self {
        Whole::take(content, at, end)
            .map_or_else(|| Piece::Stamped(Stamped::new(content, at, end)), Piece::Whole)
    }

    fn for_each_slice(&self, mut take: impl FnMut(&[u8])) {
        match self {
            Piece::Plain(bytes) => take(bytes),
            Piece::Whole(whole) => take(whole.chunk()),
            Piece::Stamped(stamped) => stamped.slices().for_each(take),
        }
    }
}

/// A piece of the pattern with an object's stamps in it. Its memory goes back to a thread's copies.
#[derive(Debug)]
pub struct Whole {
    bytes: Box<[u8]>,
    number: usize,
    at: usize,
    end: usize,
}

impl Whole {
    /// None where no piece of the pattern begins at `at`, and where too many are under way.
    fn take(content: Content, at: u64, end: u64) -> Option<Self> {
        let number = content.piece(at)?;
        let mut bytes = COPIED.with_borrow_mut(|copies| {
            let kept = copies.free[number].pop();
            kept.or_else(|| {
                let more = copies.made < COPIES;
                copies.made += usize::from(more);
                more.then(|| content.pattern_piece(number).into())
            })
        })?;
        let first = at / CHUNK_BYTES as u64;
        let length = (end - at) as usize;
        for (block, within) in (first..).zip((0..length).step_by(CHUNK_BYTES)) {
            bytes[within..within + STAMP_BYTES].copy_from_slice(&content.stamp(block));
        }
        Some(Self { bytes, number, at: 0, end: length })
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        // A thread that ends has no further use for it.
        let _ = COPIED.try_with(|copies| copies.borrow_mut().free[self.number].push(bytes));
    }
}

impl Buf for Whole {
    fn remaining(&self) -> usize {
        self.end - self.at
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes[self.at..self.end]
    }

    fn advance(&mut self, count: usize) {
        assert!(count <= self.remaining(), "past the end of a piece");
        self.at += count;
    }
}

/// At most [`PIECE_BYTES`] of an object: the pattern, and the stamps that lie over it.
#[derive(Debug)]
pub struct Stamped {
    content: Content,
    at: u64,
    end: u64,
    first_block: u64,
    stamps: Box<[[u8; STAMP_BYTES]]>,
}

impl Stamped {
    fn new(content: Content, at: u64, end: u64) -> Self {
        let block = CHUNK_BYTES as u64;
        let (first_block, last) = (at / block, end.div_ceil(block));
        let stamps = (first_block..last).map(|number| content.stamp(number)).collect();
        Stamped { content, at, end, first_block, stamps }
    }

    /// The longest run of bytes in memory from `at` on; empty at the end.
    #[inline]
    fn slice(&self, at: u64) -> &[u8] {
        let (block, within) = (at / CHUNK_BYTES as u64, (at % CHUNK_BYTES as u64) as usize);
        let left = (self.end - at).min(CHUNK_BYTES as u64) as usize;
        if left == 0 {
            return &[];
        }
        let whole = if within < STAMP_BYTES {
            &self.stamps[(block - self.first_block) as usize][within..]
        } else {
            &self.content.block(block)[within..]
        };
        &whole[..whole.len().min(left)]
    }

    fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let mut at = self.at;
        std::iter::from_fn(move || {
            let slice = self.slice(at);
            at += slice.len() as u64;
            (!slice.is_empty()).then_some(slice)
        })
    }
}

impl Buf for Stamped {
    fn remaining(&self) -> usize {
        (self.end - self.at) as usize
    }

    fn chunk(&self) -> &[u8] {
        self.slice(self.at)
    }

    fn advance(&mut self, count: usize) {
        assert!(count <= self.remaining(), "past the end of a piece");
        self.at += count as u64;
    }

    fn chunks_vectored<'a>(&'a self, into: &mut [IoSlice<'a>]) -> usize {
        let pairs = into.iter_mut().zip(self.slices());
        pairs.map(|(place, slice)| *place = IoSlice::new(slice)).count()
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        match self {
            Piece::Plain(bytes) => bytes.remaining(),
            Piece::Whole(whole) => whole.remaining(),
            Piece::Stamped(stamped) => stamped.remaining(),
        }
    }

    fn chunk(&self) -> &[u8] {
        match self {
            Piece::Plain(bytes) => bytes.chunk(),
            Piece::Whole(whole) => whole.chunk(),
            Piece::Stamped(stamped) => stamped.chunk(),
        }
    }

    fn advance(&mut self, count: usize) {
        match self {
            Piece::Plain(bytes) => bytes.advance(count),
            Piece::Whole(whole) => whole.advance(count),
            Piece::Stamped(stamped) => stamped.advance(count),
        }
    }

    fn chunks_vectored<'a>(&'a self, into: &mut [IoSlice<'a>]) -> usize {
        match self {
            Piece::Plain(bytes) => bytes.chunks_vectored(into),
            Piece::Whole(whole) => whole.chunks_vectored(into),
            Piece::Stamped(stamped) => stamped.chunks_vectored(into),
        }
    }
}

/// What stands between the chunks of an object.
pub enum Framing {
    /// Nothing.
    None,
    /// A signature before each.
    Signed(Box<ChunkSigner>),
    /// A checksum after the last, which is also told to whoever holds the number.
    Crc(CrcChunks, crc32fast::Hasher, Arc<AtomicU32>),
}

/// The body of any request.
pub struct RequestBody(State);

enum State {
    /// All is sent, or there is nothing.
    Over,
    Plain(Bytes),
    Object {
        content: Content,
        at: u64,
        end: u64,
        framing: Framing,
        /// Stands behind its header.
        next: Option<Piece>,
    },
}

impl RequestBody {
    /// Of a request without one.
    pub fn none() -> Self {
        RequestBody(State::Over)
    }

    /// XML, say.
    pub fn plain(bytes: Bytes) -> Self {
        RequestBody(State::Plain(bytes))
    }

    /// `len` bytes of an object from `at` on.
    pub fn object(content: Content, at: u64, len: u64, framing: Framing) -> Self {
        RequestBody(State::Object { content, at, end: at + len, framing, next: None })
    }

    /// Whether nothing is left to be sent.
    pub(crate) fn is_over(&self) -> bool {
        match &self.0 {
            State::Over => true,
            State::Plain(_) => false,
            State::Object { at, end, framing, next, .. } => {
                at == end && next.is_none() && matches!(framing, Framing::None)
            }
        }
    }

    /// What is to be sent next; None at the end.
    pub(crate) fn next_piece(&mut self) -> Option<Piece> {
        match std::mem::replace(&mut self.0, State::Over) {
            State::Over => None,
            State::Plain(bytes) => Some(Piece::Plain(bytes)),
            State::Object { content, at, end, framing, next: Some(piece) } => {
                self.0 = State::Object { content, at, end, framing, next: None };
                Some(piece)
            }
            State::Object { content, at, end, framing, next: None } => {
                self.next_of_object(content, at, end, framing)
            }
        }
    }

    fn next_of_object(
        &mut self,
        content: Content,
        at: u64,
        end: u64,
        mut framing: Framing,
    ) -> Option<Piece> {
        if at == end {
            return match framing {
                Framing::None => None,
                Framing::Signed(mut signer) => Some(Piece::Plain(signer.finish())),
                Framing::Crc(mut chunks, sum, told) => {
                    let crc = sum.finalize();
                    told.store(crc, Relaxed);
                    Some(Piece::Plain(chunks.finish(crc)))
                }
            };
        }
        let len = (end - at).min(PIECE_BYTES as u64);
        let piece = Piece::of(content, at, at + len);
        let header = match &mut framing {
            Framing::None => None,
            Framing::Signed(signer) => Some(signer.next(len, &hash(&piece))),
            Framing::Crc(chunks, sum, _) => {
                piece.for_each_slice(|slice| sum.update(slice));
                Some(chunks.next(len))
            }
        };
        let (now, next) = match header {
            None => (piece, None),
            Some(header) => (Piece::Plain(header), Some(piece)),
        };
        self.0 = State::Object { content, at: at + len, end, framing, next };
        Some(now)
    }
}

fn hash(piece: &Piece) -> [u8; 32] {
    let mut hash = Sha256::new();
    piece.for_each_slice(|slice| hash.update(slice));
    hash.finish()
}

/// SHA-256 of `len` bytes of an object from `at` on.
pub fn hash_of(content: Content, at: u64, len: u64) -> [u8; 32] {
    let mut sum = Sha256::new();
    let (mut at, end) = (at, at + len);
    while at < end {
        let next = end.min(at + PIECE_BYTES as u64);
        Piece::of(content, at, next).for_each_slice(|slice| sum.update(slice));
        at = next;
    }
    sum.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What goes out, however the socket takes it.
    fn sent(mut body: RequestBody, mut takes: impl FnMut() -> usize) -> Vec<u8> {
        let mut out = Vec::new();
        while let Some(mut piece) = body.next_piece() {
            while piece.has_remaining() {
                let mut slices = [IoSlice::new(&[]); 7];
                let count = piece.chunks_vectored(&mut slices);
                let mut left = takes().max(1);
                let mut taken = 0;
                for slice in &slices[..count] {
                    let part = &slice[..slice.len().min(left)];
                    out.extend_from_slice(part);
                    (left, taken) = (left - part.len(), taken + part.len());
                }
                piece.advance(taken);
            }
        }
        out
    }

    proptest! {
        #[test]
        fn a_body_is_the_objects_bytes_however_they_are_taken(
            start in 0u64..700_000, aligned: bool, len in 0u64..700_000, takes in 1usize..300_000,
        ) {
            let at = if aligned { start / PIECE * PIECE } else { start };
            let content = Content::of("k");
            let body = RequestBody::object(content, at, len, Framing::None);
            let mut expected = vec![0; len as usize];
            content.fill(at, &mut expected);
            let mut step = takes;
            let out = sent(body, || { step = step * 7 % takes + 1; step });
            prop_assert!(out == expected);
            prop_assert_eq!(content.compare(at, &out), None);
        }
    }

    const PIECE: u64 = PIECE_BYTES as u64;

    #[test]
    fn a_piece_is_one_run_of_memory() {
        let len = 3 * PIECE + 5000;
        let mut body = RequestBody::object(Content::of("k"), PIECE, len, Framing::None);
        let mut runs = Vec::new();
        while let Some(piece) = body.next_piece() {
            let mut slices = [IoSlice::new(&[]); 64];
            let count = piece.chunks_vectored(&mut slices);
            runs.extend(slices[..count].iter().map(|slice| slice.len()));
        }
        assert_eq!(runs, [PIECE_BYTES, PIECE_BYTES, PIECE_BYTES, 5000]);
    }

    /// More than there are copies of the pattern's pieces, so that some are gathered; and in the
    /// second round, out of memory that has other objects' stamps in it.
    #[test]
    fn bodies_under_way_do_not_disturb_each_other() {
        let contents: Vec<Content> =
            (0..200).map(|number| Content::of(&format!("key {number}"))).collect();
        for len in [PIECE, 9000] {
            let pieces: Vec<Piece> = contents
                .iter()
                .map(|content| RequestBody::object(*content, 0, len, Framing::None).next_piece())
                .map(|piece| piece.expect("one piece"))
                .collect();
            let gathered = pieces.iter().filter(|piece| matches!(piece, Piece::Stamped(_)));
            assert_eq!(gathered.count(), 200 - COPIES);
            for (piece, content) in pieces.iter().zip(&contents) {
                let mut bytes = Vec::new();
                piece.for_each_slice(|slice| bytes.extend_from_slice(slice));
                assert_eq!(bytes.len() as u64, len);
                assert_eq!(content.compare(0, &bytes), None);
            }
        }
    }

    #[test]
    fn the_hash_is_of_the_objects_bytes() {
        let content = Content::of("k");
        for (at, len) in [(0, 0), (0, 5), (5 << 20, 600_001)] {
            let mut bytes = vec![0; len as usize];
            content.fill(at, &mut bytes);
            assert_eq!(hash_of(content, at, len), crate::sha256(&bytes));
        }
    }

    #[test]
    fn a_body_ends_when_its_last_piece_is_taken() {
        let mut body = RequestBody::plain(Bytes::from_static(b"<x/>"));
        assert_eq!(body.next_piece().expect("one").chunk(), b"<x/>");
        assert!(body.next_piece().is_none());
        assert!(RequestBody::none().next_piece().is_none());
    }
}
