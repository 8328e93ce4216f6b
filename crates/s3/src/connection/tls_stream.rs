//! TLS connection over a socket.
//!
//! Uses rustls' unbuffered interface, which decrypts many records in place after one read. The
//! buffered interface would copy every byte twice more.

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

/// Maximum number of bytes to encrypt with one call. Longer data takes several calls.
const SEAL_BYTES: usize = 256 << 10;
/// Length in bytes of the longest TLS record, and of the first read in a handshake.
pub const RECORD_BYTES: usize = 17 << 10;

/// TLS connection over a socket, without intermediate buffers for received data.
pub struct TlsStream {
    socket: TcpStream,
    tls: UnbufferedClientConnection,
    /// First bytes of a record whose rest has not been received yet.
    begun: Vec<u8>,
    /// Encrypted records to send.
    out: Vec<u8>,
    /// Number of bytes of `out` that the socket has accepted.
    taken: usize,
    /// Whether the connection was closed by a TLS close alert, or has failed.
    over: bool,
}

impl TlsStream {
    /// Perform the TLS handshake. The server's certificate must be valid for the name `server`.
    ///
    /// # Errors
    /// An error that wraps a [`rustls::Error`] if the handshake fails, UnexpectedEof if the server
    /// closes the connection, or the error of the socket.
    pub async fn over(
        socket: TcpStream,
        config: &Arc<ClientConfig>,
        server: &ServerName<'static>,
    ) -> io::Result<Self> {
        let tls = UnbufferedClientConnection::new(config.clone(), server.clone());
        let tls = tls.map_err(io::Error::other)?;
        let (begun, out) = (Vec::new(), Vec::new());
        let mut sealed = TlsStream { socket, tls, begun, out, taken: 0, over: false };
        loop {
            let mut records = std::mem::take(&mut sealed.begun);
            let (used, ready) = sealed.open(&mut records, &mut |_| ());
            records.drain(..used);
            sealed.begun = records;
            // If the server's certificate was rejected, this sends the alert with the reason.
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

    /// Return the socket under the TLS connection.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Read once into `buffer`, decrypt the complete records, and pass their content to `take`.
    ///
    /// Returns false at the end of the stream.
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
                return Poll::Ready(Err(io::Error::other("the server's TLS message is too long")));
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
            // Send replies such as key updates. If the socket does not accept them now, the next
            // write sends them first, and reports the socket's error if there is one.
            let _ = self.poll_flush(cx);
            // rustls must not be called after it has reported an error.
            self.over |= ready.is_err();
            ready?;
        }
        Poll::Ready(Ok(shown))
    }

    /// Wait until the socket has accepted all encrypted records and is writable.
    pub fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_flush(cx))?;
        self.socket.poll_write_ready(cx)
    }

    /// Encrypt the first bytes of `slices`, and write as much of the result as the socket accepts.
    ///
    /// Returns how many bytes of `slices` were encrypted.
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

    /// Wait until the kernel has accepted all encrypted data.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.taken < self.out.len() {
            let rest = &self.out[self.taken..];
            self.taken += ready!(Pin::new(&mut self.socket).poll_write(cx, rest))?;
        }
        self.out.clear();
        self.taken = 0;
        Poll::Ready(Ok(()))
    }

    /// Decrypt the complete records in `records`, and pass their content to `take`.
    ///
    /// TLS replies are appended to `out`. Returns the number of bytes used, and whether application
    /// data may be sent.
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

    /// Append the pending TLS alert to `self.out`. After a TLS failure, `rustls` allows only this
    /// call.
    fn tell_why(&mut self, records: &mut [u8]) {
        if let Ok(ConnectionState::EncodeTlsData(data)) =
            self.tls.process_tls_records(records).state
        {
            encode(data, &mut self.out);
        }
    }

    /// Encrypt `data`, and append the records to `out`.
    fn seal(&mut self, data: &[u8]) -> io::Result<()> {
        // Pass the incomplete message of the server, if any, again: rustls expects bytes that it
        // has not consumed in the buffer of the next call.
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
        // A key may encrypt only a limited number of records. With TLS 1.2, the connection must end
        // at that limit.
        let length = sealed.map_err(|_| io::Error::from(io::ErrorKind::ConnectionAborted));
        self.out.truncate(begin + length?);
        Ok(())
    }
}

/// Append a handshake message or alert to `out`.
fn encode<Side>(mut data: EncodeTlsData<'_, Side>, out: &mut Vec<u8>) {
    if let Err(EncodeError::InsufficientSize(size)) = data.encode(&mut []) {
        let begin = out.len();
        out.resize(begin + size.required_size, 0);
        // Cannot fail: the buffer has the required size.
        let _ = data.encode(&mut out[begin..]);
    }
}

impl fmt::Debug for TlsStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsStream").field("socket", &self.socket).finish_non_exhaustive()
    }
}

/// Return the data to encrypt next: the first slice, or up to one record's worth of several short
/// slices, such as a head and its body.
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
