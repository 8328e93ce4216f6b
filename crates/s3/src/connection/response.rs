//! HTTP answer whose body is being read.

use std::future::poll_fn;
use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http::header::HeaderName;

use super::Connection;
use super::framing::Framing;
use super::head::{Head, for_each_field};
use super::stream::READ_BYTES;
use super::tls_stream::RECORD_BYTES;
use crate::failure::Failure;
use crate::xml;

/// Maximum length in bytes of the body of an error answer. Bodies of S3 errors are far shorter.
const REFUSAL_BYTES: usize = 64 << 10;
/// Maximum wait for the body of an error answer. It is shorter than the request time-out, because a
/// server that withholds this body is faulty, not slow.
const REFUSAL_TIME: Duration = Duration::from_secs(5);
/// Number of body bytes, read without waiting, after which the reading task yields to other tasks
/// of its thread.
const TURN_BYTES: usize = 1 << 20;
/// Number of received bytes that wake the reader of a long body (`SO_RCVLOWAT`), so that it does
/// not wake for each segment or TLS record. GETs of 4 MiB on loopback with TLS then need 0.64 times
/// the CPU at the same rate (medians of 9 alternating rounds). With one request at a time they need
/// 0.37 times the CPU at 0.98 times the rate. Without TLS they need 0.91 times the CPU.
const WAKE_BYTES: u64 = 128 << 10;
/// Smallest receive buffer, in bytes, at which [`WAKE_BYTES`] is used. The kernel grows the buffer
/// if a connection needs it. With a smaller buffer, a distant server would stall while the reader
/// sleeps: 4 MiB over a round trip of 10 ms take 29 ms instead of 18 ms.
pub(super) const WAKE_BUFFER_BYTES: usize = 16 * WAKE_BYTES as usize;
/// Number of bytes by which the wake-up threshold stays below the rest of the body. Up to one TLS
/// record of the rest may already have been read from the socket, so the reader might wait in vain
/// for a higher number.
const TAIL_BYTES: u64 = 2 * RECORD_BYTES as u64;

/// Header fields of an answer, as received.
#[derive(Clone, Debug, Default)]
pub struct Headers(pub(super) Vec<u8>);

impl Headers {
    #[cfg(test)]
    pub(crate) fn of(lines: &str) -> Self {
        Headers(format!("HTTP/1.1 200 OK\r\n{lines}\r\n").into_bytes())
    }

    /// Return the first value of a field; None if there is none or it is not UTF-8.
    pub fn get(&self, name: &HeaderName) -> Option<String> {
        let mut first = None;
        for_each_field(&self.0, |key, value| {
            if first.is_none() && key.eq_ignore_ascii_case(name.as_str()) {
                first = Some(String::from_utf8(value.to_vec()).ok());
            }
        });
        first.flatten()
    }

    /// Return all fields in order, with names in lower case. Bytes that are not UTF-8 are replaced.
    pub fn to_pairs(&self) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        for_each_field(&self.0, |name, value| {
            let text = String::from_utf8_lossy(value).into_owned();
            pairs.push((name.to_ascii_lowercase(), text));
        });
        pairs
    }
}

/// HTTP answer, successful or not. It owns the connection until its body has been read.
#[derive(Debug)]
pub struct Response {
    connection: Connection,
    head: Head,
    /// Number of bytes of `connection.received` that have been consumed.
    used: usize,
    /// Number of body bytes read since this task last yielded to other tasks of the thread.
    turn_bytes: usize,
    /// Number of received bytes that currently wakes the reader.
    pub(super) wakes_at: u32,
}

impl Response {
    /// Create an answer from `connection`, which has already received its head.
    pub(super) fn new(connection: Connection, head: Head) -> Self {
        Response { used: head.length, connection, head, turn_bytes: 0, wakes_at: 1 }
    }

    /// Return the HTTP status code.
    pub fn status(&self) -> StatusCode {
        self.head.status
    }

    /// Return the header fields.
    pub fn headers(&self) -> Headers {
        Headers(self.connection.received[..self.head.length].to_vec())
    }

    /// Return whether the body's end is marked by a length or by chunks, not by closing the
    /// connection.
    pub fn says_its_end(&self) -> bool {
        !matches!(self.head.framing, Framing::UntilClose)
    }

    /// Wait for more of the body, and pass it to `take` in one or more slices.
    ///
    /// Returns false at the end of the body.
    ///
    /// # Errors
    /// [`Failure::ShortBody`], [`Failure::Reset`], [`Failure::Lost`], [`Failure::Tls`] or
    /// [`Failure::TimeOut`] if the connection ends or fails; [`Failure::Protocol`] if the framing
    /// is invalid.
    pub async fn read(&mut self, mut take: impl FnMut(&[u8])) -> Result<bool, Failure> {
        let Response { connection, head, used, turn_bytes, wakes_at } = self;
        if head.framing.is_over() {
            return Ok(false);
        }
        if *turn_bytes >= TURN_BYTES {
            *turn_bytes = 0;
            tokio::task::yield_now().await;
        }
        let mut decoded = Ok(());
        let mut decode = |bytes: &[u8]| {
            if decoded.is_ok() {
                *turn_bytes += bytes.len();
                let count = head.framing.decode(bytes, &mut take);
                // The server sent bytes after the answer that belong to no request, so the
                // connection must not be reused.
                head.keeps &= count == Ok(bytes.len());
                decoded = count.map(drop);
            }
        };
        if *used < connection.received.len() {
            decode(&connection.received[*used..]);
            *used = connection.received.len();
            return decoded.map(|()| true);
        }
        let read = poll_fn(|cx| connection.stream.poll_read(cx, READ_BYTES, &mut decode)).await;
        decoded?;
        head.keeps &= matches!(read, Ok(true));
        let of_io = |e| Failure::of_io(&e, Failure::ShortBody);
        if !read.map_err(of_io)? {
            head.framing.close()?;
        }
        wake_seldom(connection, wakes_at, head.framing.bytes_left()).map_err(of_io)?;
        Ok(true)
    }

    /// Read the rest of the body into memory.
    ///
    /// # Errors
    /// The errors of [`Response::read`]; [`Failure::Protocol`] if the body is longer than `limit`
    /// bytes.
    pub async fn drain(&mut self, limit: usize) -> Result<Bytes, Failure> {
        let mut whole = BytesMut::new();
        self.drain_into(&mut whole, limit).await?;
        Ok(whole.freeze())
    }

    async fn drain_into(&mut self, whole: &mut BytesMut, limit: usize) -> Result<(), Failure> {
        while self.read(|data| whole.extend_from_slice(data)).await? {
            if whole.len() > limit {
                return Err(Failure::Protocol(format!("the answer's body exceeds {limit} bytes")));
            }
        }
        Ok(())
    }

    /// Read the body of an answer with an error status, up to 64 KiB, and return the failure with
    /// the S3 error code that it contains.
    pub async fn refusal(&mut self) -> Failure {
        let mut body = BytesMut::new();
        // The status alone describes the failure, so errors and delays of the body are ignored.
        let rest = self.drain_into(&mut body, REFUSAL_BYTES);
        let _ = tokio::time::timeout(REFUSAL_TIME, rest).await;
        let refused = xml::error(&body);
        let message = match refused.region {
            Some(region) => format!("{} (the bucket is in region {region})", refused.message),
            None => refused.message,
        };
        Failure::Http { status: self.status().as_u16(), code: refused.code, message }
    }

    /// Return the connection if it can be used for another request.
    pub fn into_connection(self) -> Option<Connection> {
        self.reusable().then_some(self.connection)
    }

    fn reusable(&self) -> bool {
        let Response { connection, head, used, .. } = self;
        // Unread bytes after the body belong to no request, so the connection must not be reused.
        head.framing.is_over() && head.keeps && *used == connection.received.len()
    }
}

/// Set how many received bytes wake the reader of a body of which `left` bytes are still to come.
fn wake_seldom(connection: &Connection, wakes_at: &mut u32, left: u64) -> io::Result<()> {
    let stream = &connection.stream;
    let mut at = wake_at(left);
    if at > *wakes_at && stream.buffer_bytes()? < connection.wake_buffer_bytes {
        at = 1;
    }
    if at != *wakes_at {
        stream.wake_at(at)?;
        *wakes_at = at;
    }
    Ok(())
}

/// Return how many received bytes should wake the reader if `left` bytes are still to come.
pub(super) fn wake_at(left: u64) -> u32 {
    if left < 2 * TAIL_BYTES { 1 } else { WAKE_BYTES.min(left - TAIL_BYTES) as u32 }
}
