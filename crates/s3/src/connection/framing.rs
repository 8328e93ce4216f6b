//! Framing of the body of an HTTP answer: by length, in chunks, or up to the close of the
//! connection.

use crate::failure::Failure;

/// Maximum length in bytes of the line that states a chunk's size, including extensions, which are
/// ignored.
const LINE_BYTES: usize = 4 << 10;

/// Part of an answer's body that is still to be received.
#[derive(Debug)]
pub enum Framing {
    /// Body of known length: number of bytes left.
    Length(u64),
    /// Body in chunks, each preceded by its size (RFC 9112, 7.1).
    Chunked(Chunks),
    /// Body that ends when the server closes the connection.
    UntilClose,
}

impl Framing {
    /// Start decoding a chunked body.
    pub fn chunked() -> Self {
        Framing::Chunked(Chunks { state: State::Size, line: Vec::new() })
    }

    /// Return whether the whole body has been received.
    pub fn is_over(&self) -> bool {
        matches!(self, Framing::Length(0) | Framing::Chunked(Chunks { state: State::Over, .. }))
    }

    /// Return the number of bytes that are still to come, or 0 if the body's length is unknown.
    pub fn bytes_left(&self) -> u64 {
        match self {
            Framing::Length(left) => *left,
            Framing::Chunked(_) | Framing::UntilClose => 0,
        }
    }

    /// Extract the body's data from `bytes`, which were received from the connection, and pass it
    /// to `take`.
    ///
    /// Returns how many bytes were used: all, unless the body ends before them.
    ///
    /// # Errors
    /// [`Failure::Protocol`] if the chunk framing is invalid.
    pub fn decode(&mut self, bytes: &[u8], take: &mut impl FnMut(&[u8])) -> Result<usize, Failure> {
        match self {
            Framing::Length(left) => {
                let used = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= used as u64;
                if used > 0 {
                    take(&bytes[..used]);
                }
                Ok(used)
            }
            Framing::Chunked(chunks) => chunks.decode(bytes, take),
            Framing::UntilClose => {
                take(bytes);
                Ok(bytes.len())
            }
        }
    }

    /// Handle the end of the connection.
    ///
    /// # Errors
    /// [`Failure::ShortBody`], unless the body is complete or ends with the connection.
    pub fn close(&mut self) -> Result<(), Failure> {
        match self {
            Framing::UntilClose => {
                *self = Framing::Length(0);
                Ok(())
            }
            _ => Err(Failure::ShortBody),
        }
    }
}

/// Decoder of a chunked body.
#[derive(Debug)]
pub struct Chunks {
    state: State,
    /// Bytes received so far of a line that is incomplete.
    line: Vec<u8>,
}

/// Part of a chunked body that the decoder expects next.
#[derive(Debug)]
enum State {
    /// Line with the size of a chunk.
    Size,
    /// Data of a chunk; the number is how many bytes are left.
    Data(u64),
    /// Line end after the data of a chunk.
    DataEnd,
    /// Trailer fields after the last chunk, up to an empty line.
    Trailer,
    /// End of the body: no data follows.
    Over,
}

impl Chunks {
    fn decode(&mut self, bytes: &[u8], take: &mut impl FnMut(&[u8])) -> Result<usize, Failure> {
        let mut at = 0;
        while at < bytes.len() && !matches!(self.state, State::Over) {
            let rest = &bytes[at..];
            if let State::Data(left) = &mut self.state {
                let used = rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                take(&rest[..used]);
                *left -= used as u64;
                at += used;
                if *left == 0 {
                    self.state = State::DataEnd;
                }
                continue;
            }
            let end = rest.iter().position(|&byte| byte == b'\n');
            let used = end.map_or(rest.len(), |end| end + 1);
            self.line.extend_from_slice(&rest[..used]);
            at += used;
            if self.line.len() > LINE_BYTES {
                return Err(odd("a chunk-size or trailer line exceeds 4 KiB"));
            }
            if end.is_some() {
                self.end_line()?;
            }
        }
        Ok(at)
    }

    fn end_line(&mut self) -> Result<(), Failure> {
        let empty = self.line.trim_ascii().is_empty();
        self.state = match self.state {
            // httparse would read a missing size as 0, which ends the body.
            State::Size if !self.line[0].is_ascii_hexdigit() => {
                return Err(odd("a chunk has no valid size"));
            }
            State::Size => match httparse::parse_chunk_size(&self.line) {
                Ok(httparse::Status::Complete((_, 0))) => State::Trailer,
                Ok(httparse::Status::Complete((_, size))) => State::Data(size),
                _ => return Err(odd("a chunk has no valid size")),
            },
            State::DataEnd if empty => State::Size,
            State::DataEnd => return Err(odd("a chunk is longer than its declared size")),
            _ if empty => State::Over,
            _ => State::Trailer,
        };
        self.line.clear();
        Ok(())
    }
}

fn odd(what: &str) -> Failure {
    Failure::Protocol(format!("the chunked encoding of the answer's body is invalid: {what}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Decode a body whose bytes arrive in pieces of `size()` bytes. Returns the body and the
    /// number of bytes used.
    fn decoded(
        framing: &mut Framing,
        wire: &[u8],
        mut size: impl FnMut() -> usize,
    ) -> Result<(Vec<u8>, usize), Failure> {
        let (mut body, mut at) = (Vec::new(), 0);
        while at < wire.len() && !framing.is_over() {
            let end = wire.len().min(at + size().max(1));
            at += framing.decode(&wire[at..end], &mut |data| body.extend_from_slice(data))?;
        }
        Ok((body, at))
    }

    proptest! {
        #[test]
        fn a_body_in_chunks_is_the_same_however_it_comes(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 0..9),
            sizes in prop::collection::vec(1usize..200, 1..9),
            trailer: bool,
        ) {
            let mut wire = Vec::new();
            for chunk in &chunks {
                wire.extend_from_slice(format!("{:X};x=\"y\"\r\n", chunk.len()).as_bytes());
                wire.extend_from_slice(chunk);
                wire.extend_from_slice(b"\r\n");
            }
            wire.extend_from_slice(if trailer { b"0\r\nx-sum: 1\r\n\r\n" } else { b"0\r\n\r\n" });
            let length = wire.len();
            wire.extend_from_slice(b"HTTP/1.1 200 OK");
            let mut framing = Framing::chunked();
            let mut sizes = sizes.iter().cycle();
            let (body, used) = decoded(&mut framing, &wire, || *sizes.next().unwrap()).unwrap();
            prop_assert_eq!(body, chunks.concat());
            prop_assert!(framing.is_over() && used == length);
            prop_assert_eq!(framing.close(), Err(Failure::ShortBody));
        }

        #[test]
        fn a_body_of_a_length_ends_there(
            length in 0u64..500, more in 0usize..50, size in 1usize..99,
        ) {
            let wire = vec![7; length as usize + more];
            let mut framing = Framing::Length(length);
            let (body, used) = decoded(&mut framing, &wire, || size).unwrap();
            prop_assert_eq!((body.len() as u64, used as u64), (length, length));
            prop_assert!(framing.is_over());
        }

        #[test]
        fn garbage_is_refused_or_goes_on(wire in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut framing = Framing::chunked();
            drop(decoded(&mut framing, &wire, || 7));
        }
    }

    #[test]
    fn what_are_no_chunks() {
        let long = [b'1'; LINE_BYTES + 1];
        for wire in [
            &b"xyz\r\n"[..],
            b"\r\n",
            b";x\r\n",
            b"-1\r\n",
            b"3\r\nabcd\r\n",
            b"fffffffffffffffff\r\n",
            &long,
        ] {
            let refused = decoded(&mut Framing::chunked(), wire, || 5).unwrap_err();
            assert_eq!(refused.kind(), "protocol", "{wire:?}");
        }
    }

    #[test]
    fn only_a_body_without_an_end_ends_with_its_connection() {
        let mut open = Framing::UntilClose;
        assert_eq!(decoded(&mut open, b"abc", || 2).unwrap(), (b"abc".to_vec(), 3));
        assert!(!open.is_over());
        assert_eq!(open.close(), Ok(()));
        assert!(open.is_over());
        assert_eq!(Framing::Length(1).close(), Err(Failure::ShortBody));
    }
}
