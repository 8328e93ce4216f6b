//! TLS over a socket.
//!
//! By rustls' interface without buffers: records are opened where the socket's bytes lie, many with
//! one read. With buffers in between, every byte would be copied twice more.

use std::fmt;
use std::io::{self, ErrorKind::UnexpectedEof, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::ClientConfig;
use rustls::client::UnbufferedClientConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus,
};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

/// Sealed with one call: what is longer goes out in several.
const SEAL_BYTES: usize = 256 << 10;
/// The longest record, and what the first read of a handshake asks for.
pub const RECORD_BYTES: usize = 17 << 10;

/// See the module.
pub struct Sealed {
    socket: TcpStream,
    tls: UnbufferedClientConnection,
    /// The begin of a record whose rest has not come.
    begun: Vec<u8>,
    /// Records that the socket has not taken.
    out: Vec<u8>,
    /// How much of them it has.
    taken: usize,
    /// The server has said goodbye.
    over: bool,
}

impl Sealed {
    /// Shakes hands with the server, which has to be `server`.
    ///
    /// # Errors
    /// A [`rustls::Error`] within, UnexpectedEof where the server hangs up, and of the socket.
    pub async fn over(
        socket: TcpStream,
        config: &Arc<ClientConfig>,
        server: &ServerName<'static>,
    ) -> io::Result<Self> {
        let tls = UnbufferedClientConnection::new(config.clone(), server.clone());
        let tls = tls.map_err(io::Error::other)?;
        let (begun, out) = (Vec::new(), Vec::new());
        let mut sealed = Sealed { socket, tls, begun, out, taken: 0, over: false };
        loop {
            let mut records = std::mem::take(&mut sealed.begun);
            let (used, ready) = sealed.open(&mut records, &mut |_| ());
            records.drain(..used);
            sealed.begun = records;
            // Also what tells the server why it is not believed.
            let sent = sealed.socket.write_all(&sealed.out).await;
            sealed.out.clear();
            if ready? {
                return sent.map(|()| sealed);
            }
            sent?;
            sealed.begun.reserve(RECORD_BYTES);
            if sealed.socket.read_buf(&mut sealed.begun).await? == 0 {
                return Err(UnexpectedEof.into());
            }
        }
    }

    /// What lies below.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Reads once into `buffer`, and shows `take` what is in the records that are whole. False at
    /// the end.
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
        most: usize,
        take: &mut dyn FnMut(&[u8]),
    ) -> Poll<io::Result<bool>> {
        let mut shown = false;
        while !shown && !self.over {
            let kept = self.begun.len();
            if kept >= buffer.len() {
                return Poll::Ready(Err(io::Error::other("a TLS message without an end")));
            }
            let end = buffer.len().min(kept + most.max(RECORD_BYTES));
            let mut read = ReadBuf::new(&mut buffer[kept..end]);
            ready!(Pin::new(&mut self.socket).poll_read(cx, &mut read))?;
            let count = read.filled().len();
            if count == 0 {
                return Poll::Ready(Err(UnexpectedEof.into()));
            }
            buffer[..kept].copy_from_slice(&self.begun);
            let records = &mut buffer[..kept + count];
            let (used, ready) = self.open(records, &mut |data| {
                shown = true;
                take(data);
            });
            self.begun.clear();
            self.begun.extend_from_slice(&records[used..]);
            // Keys are changed, say. What the socket does not take now goes before the next, which
            // also hears where it takes no more.
            let _ = self.poll_flush(cx);
            // rustls is asked for nothing more once it has failed.
            self.over |= ready.is_err();
            ready?;
        }
        Poll::Ready(Ok(shown))
    }

    /// Until the socket has all records, and may take more.
    pub fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_flush(cx))?;
        self.socket.poll_write_ready(cx)
    }

    /// Seals the first of `slices`, and writes what the socket takes: how many bytes are sealed.
    pub fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_flush(cx))?;
        let mut short = Vec::new();
        let data = gather(slices, &mut short);
        let sealed = self.seal(data);
        self.over |= sealed.is_err();
        sealed?;
        let count = data.len();
        let _ = self.poll_flush(cx)?;
        Poll::Ready(Ok(count))
    }

    /// All that was sealed is with the kernel.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.taken < self.out.len() {
            let rest = &self.out[self.taken..];
            self.taken += ready!(Pin::new(&mut self.socket).poll_write(cx, rest))?;
        }
        self.out.clear();
        self.taken = 0;
        Poll::Ready(Ok(()))
    }

    /// Opens what is whole of `records`, and shows it to `take`; what there is to say lies in
    /// `out`. How many bytes are used up, and whether data may be sent.
    fn open(
        &mut self,
        records: &mut [u8],
        take: &mut dyn FnMut(&[u8]),
    ) -> (usize, io::Result<bool>) {
        let mut used = 0;
        loop {
            let UnbufferedStatus { mut discard, state } =
                self.tls.process_tls_records(&mut records[used..]);
            let ready = match state {
                Err(e) => {
                    used += discard;
                    self.tell_why(&mut records[used..]);
                    return (used, Err(io::Error::other(e)));
                }
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(Ok(record)) = traffic.next_record() {
                        discard += record.discard;
                        take(record.payload);
                    }
                    None
                }
                Ok(ConnectionState::EncodeTlsData(data)) => {
                    encode(data, &mut self.out);
                    None
                }
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    data.done();
                    None
                }
                Ok(ConnectionState::WriteTraffic(_)) => Some(true),
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
                    self.over = true;
                    Some(false)
                }
                Ok(_) => Some(false),
            };
            used += discard;
            if let Some(ready) = ready {
                return (used, Ok(ready));
            }
        }
    }

    /// The server learns what is wrong with it: that lies ready, and nothing else may be asked of
    /// rustls once it has failed.
    fn tell_why(&mut self, records: &mut [u8]) {
        if let Ok(ConnectionState::EncodeTlsData(data)) =
            self.tls.process_tls_records(records).state
        {
            encode(data, &mut self.out);
        }
    }

    /// Appends `data` to `out`, as records.
    fn seal(&mut self, data: &[u8]) -> io::Result<()> {
        // A message of the server whose rest has not come has to lie where it lay.
        let UnbufferedStatus { state, .. } = self.tls.process_tls_records(&mut self.begun);
        let Ok(ConnectionState::WriteTraffic(mut traffic)) = state else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let begin = self.out.len();
        self.out.resize(begin + data.len() + data.len() / 64 + 64, 0);
        let mut sealed = traffic.encrypt(data, &mut self.out[begin..]);
        if let Err(EncryptError::InsufficientSize(size)) = &sealed {
            self.out.resize(begin + size.required_size, 0);
            sealed = traffic.encrypt(data, &mut self.out[begin..]);
        }
        // Keys seal so many records: with TLS 1.2, a connection has to end then.
        let length = sealed.map_err(|_| io::Error::from(io::ErrorKind::ConnectionAborted));
        self.out.truncate(begin + length?);
        Ok(())
    }
}

/// Appends what rustls has to say to `out`.
fn encode<Side>(mut data: EncodeTlsData<'_, Side>, out: &mut Vec<u8>) {
    if let Err(EncodeError::InsufficientSize(size)) = data.encode(&mut []) {
        let begin = out.len();
        out.resize(begin + size.required_size, 0);
        // It has the room that it asked for.
        let _ = data.encode(&mut out[begin..]);
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealed").field("socket", &self.socket).finish_non_exhaustive()
    }
}

/// The first slice, or a record of several that are short: a head and what follows it.
fn gather<'s>(slices: &'s [IoSlice<'_>], short: &'s mut Vec<u8>) -> &'s [u8] {
    let first = slices.first().map_or(&[][..], |slice| slice);
    if first.len() >= RECORD_BYTES || slices.len() < 2 {
        return &first[..first.len().min(SEAL_BYTES)];
    }
    for slice in slices {
        let room = (16 << 10) - short.len();
        short.extend_from_slice(&slice[..slice.len().min(room)]);
    }
    short
}
