//! Transmission of an object's content from its file to the socket.

use std::fs::File;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use rustix::fs::Advice;
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use s3s::StdError;
use s3s::stream::{ByteStream, RemainingLength};
use storlab_base::lock;
use tokio::task::JoinHandle;

/// Size of a read in bytes. Each connection uses two buffers of this size at a time, which both fit
/// into the CPU's cache.
pub const CHUNK_BYTES: usize = 256 * 1024;
/// Maximum number of free buffers that are kept for reuse.
const POOLED: usize = 64;
/// Number of bytes that the kernel is asked to read ahead if data must come from the device.
const AHEAD_BYTES: u64 = 8 * 1024 * 1024;

/// Pool of read buffers for reuse, because the first touch of fresh memory costs more than a read.
#[derive(Clone, Debug, Default)]
pub struct Pool(Arc<Mutex<Vec<Box<[u8]>>>>);

impl Pool {
    fn take(&self) -> Buffer {
        let kept = lock(&self.0).pop();
        let bytes = kept.unwrap_or_else(|| vec![0; CHUNK_BYTES].into_boxed_slice());
        Buffer { bytes, length: 0, pool: self.clone() }
    }
}

/// Read buffer that returns to its pool when dropped.
struct Buffer {
    bytes: Box<[u8]>,
    length: usize,
    pool: Pool,
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut kept = lock(&self.pool.0);
        if kept.len() < POOLED {
            kept.push(std::mem::take(&mut self.bytes));
        }
    }
}

/// Range of a file as the body of an HTTP answer.
///
/// Data in the page cache is read at once on the calling thread. A read that would wait for the
/// device is moved to a thread that may block.
pub struct FileBody {
    file: Arc<File>,
    offset: u64,
    remaining: u64,
    pool: Pool,
    waiting: Option<JoinHandle<io::Result<Buffer>>>,
}

impl FileBody {
    /// Create a body from `length` bytes of a file, starting at `offset`. The file must be long
    /// enough.
    pub fn new(file: File, offset: u64, length: u64, pool: Pool) -> Self {
        Self { file: Arc::new(file), offset, remaining: length, pool, waiting: None }
    }

    fn wanted(&self) -> usize {
        self.remaining.min(CHUNK_BYTES as u64) as usize
    }

    /// Read the next bytes if they are in the page cache. Otherwise return the empty buffer as the
    /// error.
    fn read_cached(&self) -> Result<Buffer, Buffer> {
        let mut buffer = self.pool.take();
        let into = &mut [IoSliceMut::new(&mut buffer.bytes[..self.wanted()])];
        match preadv2(&*self.file, into, self.offset, ReadWriteFlags::NOWAIT) {
            Ok(read) if read > 0 => {
                buffer.length = read;
                Ok(buffer)
            }
            // The blocking read that follows reports the end of the file and all other errors.
            Ok(_) | Err(Errno::AGAIN | Errno::OPNOTSUPP | _) => Err(buffer),
        }
    }

    fn read_blocking(&self, mut buffer: Buffer) -> JoinHandle<io::Result<Buffer>> {
        let (file, offset, wanted) = (self.file.clone(), self.offset, self.wanted());
        let ahead = self.remaining.min(AHEAD_BYTES);
        tokio::task::spawn_blocking(move || {
            // Read-ahead is optional, so an error is ignored.
            let _ = rustix::fs::fadvise(
                &*file,
                offset,
                std::num::NonZeroU64::new(ahead),
                Advice::WillNeed,
            );
            buffer.length = file.read_at(&mut buffer.bytes[..wanted], offset)?;
            if buffer.length == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the object's file became shorter while it was read",
                ));
            }
            Ok(buffer)
        })
    }
}

impl Stream for FileBody {
    type Item = Result<Bytes, StdError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.remaining == 0 {
            return Poll::Ready(None);
        }
        let buffer = loop {
            if let Some(waiting) = &mut self.waiting {
                let done = ready!(Pin::new(waiting).poll(cx));
                self.waiting = None;
                break done??;
            }
            match self.read_cached() {
                Ok(buffer) => break buffer,
                Err(buffer) => self.waiting = Some(self.read_blocking(buffer)),
            }
        };
        self.offset += buffer.length as u64;
        self.remaining -= buffer.length as u64;
        Poll::Ready(Some(Ok(Bytes::from_owner(buffer))))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, None)
    }
}

impl ByteStream for FileBody {
    fn remaining_length(&self) -> RemainingLength {
        RemainingLength::new_exact(self.remaining as usize)
    }
}
