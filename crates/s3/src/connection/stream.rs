//! What a connection runs over: a socket, or TLS over one.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use super::sealed::Sealed;

/// The most that one read brings. Its memory is a thread's and not a connection's, so that bytes
/// are looked at where they still lie in a processor's own cache. GETs of 4 MiB on loopback, CPU
/// per GB beside hyper's with reads of up to 1 MiB, medians: 1.10 with 256 KiB, 0.93 with 1 MiB.
pub const READ_BYTES: usize = 1 << 20;

thread_local! {
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into());
}

/// See the module.
#[derive(Debug)]
pub enum Stream {
    /// As it is.
    Plain(TcpStream),
    /// Encrypted.
    Sealed(Box<Sealed>),
}

impl Stream {
    /// Reads once, about `most` bytes, and shows them to `take`, in any number of slices. False at
    /// the stream's end.
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
        take: &mut dyn FnMut(&[u8]),
    ) -> Poll<io::Result<bool>> {
        BUFFER.with_borrow_mut(|buffer| match self {
            Stream::Plain(socket) => {
                let mut read = ReadBuf::new(&mut buffer[..most]);
                ready!(Pin::new(socket).poll_read(cx, &mut read))?;
                let open = !read.filled().is_empty();
                if open {
                    take(read.filled());
                }
                Poll::Ready(Ok(open))
            }
            Stream::Sealed(sealed) => sealed.poll_read(cx, buffer, most, take),
        })
    }

    /// From now on, who reads is woken when so many bytes have come, or the stream's end.
    ///
    /// # Errors
    /// Of the socket.
    #[allow(unsafe_code)]
    pub fn wake_at(&self, bytes: u32) -> io::Result<()> {
        let (socket, size) = (self.socket().as_raw_fd(), size_of_val(&bytes) as libc::socklen_t);
        let (level, option) = (libc::SOL_SOCKET, libc::SO_RCVLOWAT);
        let value = (&raw const bytes).cast();
        // Not by socket2, which has no such option.
        // SAFETY: the descriptor is open, and the value an int that the call only reads.
        let code = unsafe { libc::setsockopt(socket, level, option, value, size) };
        if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// How much the kernel lets this connection receive ahead of its reader, bytes.
    ///
    /// # Errors
    /// Of the socket.
    pub fn buffer_bytes(&self) -> io::Result<usize> {
        SockRef::from(self.socket()).recv_buffer_size()
    }

    fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Sealed(sealed) => sealed.socket(),
        }
    }

    /// Until a write may take something.
    pub fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(socket) => socket.poll_write_ready(cx),
            Stream::Sealed(sealed) => sealed.poll_writable(cx),
        }
    }

    /// Writes what the socket takes of `slices`.
    pub fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            Stream::Plain(socket) => poll_write_plain(socket, cx, slices),
            Stream::Sealed(sealed) => sealed.poll_write(cx, slices),
        }
    }

    /// All that was written is with the kernel.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(_) => Poll::Ready(Ok(())),
            Stream::Sealed(sealed) => sealed.poll_flush(cx),
        }
    }
}

fn poll_write_plain(
    socket: &mut TcpStream,
    cx: &mut Context<'_>,
    slices: &[IoSlice<'_>],
) -> Poll<io::Result<usize>> {
    if let [only] = slices {
        return Pin::new(socket).poll_write(cx, only);
    }
    let taken = ready!(Pin::new(&mut *socket).poll_write_vectored(cx, slices))?;
    if taken < slices.iter().map(|slice| slice.len()).sum() {
        // It is full. Of a single slice tokio sees that itself; of several it would have to be told
        // by a call in vain, and the rest of a body would be made too early.
        let full = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
        let _ = socket.try_io(Interest::WRITABLE, full);
    }
    Poll::Ready(Ok(taken))
}
