//! An answer whose body has not been read.

use std::future::poll_fn;
use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http::header::HeaderName;

use super::Connection;
use super::framing::Framing;
use super::head::{Head, for_each_field};
use super::sealed::RECORD_BYTES;
use super::stream::READ_BYTES;
use crate::failure::Failure;
use crate::xml;

/// An error's body is short; what is longer is no error of S3.
const REFUSAL_BYTES: usize = 64 << 10;
/// Nor is it waited for as long as for an answer: a server that keeps it back is no slow one.
const REFUSAL_TIME: Duration = Duration::from_secs(5);
/// After so much of a body that is there at once, others of this thread have their turn.
const TURN_BYTES: usize = 1 << 20;
/// So much of a long body wakes its reader, and not each segment or record of TLS. GETs of 4 MiB
/// on loopback, medians of 9 in turns: with TLS 0.64 of the CPU that they need where each does, and
/// as many per second; 0.37 and 0.98 with one at a time. Without TLS 0.91.
const WAKE_BYTES: u64 = 128 << 10;
/// But only where the kernel lets so much come ahead of the reader. It does so once a connection
/// has shown that it needs it; until then a server far away would stop while the reader sleeps
/// (4 MiB over a round trip of 10 ms: 29 ms in place of 18).
pub(super) const WAKE_BUFFER_BYTES: usize = 16 * WAKE_BYTES as usize;
/// The last of a body wakes it as it comes: up to a record of it may be off the socket already.
const TAIL_BYTES: u64 = 2 * RECORD_BYTES as u64;

/// The fields of an answer's head, as they came.
#[derive(Clone, Debug, Default)]
pub struct Headers(pub(super) Vec<u8>);

impl Headers {
    #[cfg(test)]
    pub(crate) fn of(lines: &str) -> Self {
        Headers(format!("HTTP/1.1 200 OK\r\n{lines}\r\n").into_bytes())
    }

    /// The first value of this name, where it is text.
    pub fn get(&self, name: &HeaderName) -> Option<String> {
        let mut first = None;
        for_each_field(&self.0, |key, value| {
            if first.is_none() && key.eq_ignore_ascii_case(name.as_str()) {
                first = Some(String::from_utf8(value.to_vec()).ok());
            }
        });
        first.flatten()
    }

    /// All, in their order; names in lower case, values that are no text with replacement
    /// characters.
    pub fn to_pairs(&self) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        for_each_field(&self.0, |name, value| {
            let text = String::from_utf8_lossy(value).into_owned();
            pairs.push((name.to_ascii_lowercase(), text));
        });
        pairs
    }
}

/// An answer of any status. It has the connection until its body is read.
#[derive(Debug)]
pub struct Response {
    connection: Connection,
    head: Head,
    /// What of the connection's received bytes has been used.
    used: usize,
    /// Read since others of this thread had their turn.
    turn_bytes: usize,
    /// How many bytes wake the reader.
    pub(super) wakes_at: u32,
}

impl Response {
    /// `connection` has received the head.
    pub(super) fn new(connection: Connection, head: Head) -> Self {
        Response { used: head.length, connection, head, turn_bytes: 0, wakes_at: 1 }
    }

    /// Of HTTP.
    pub fn status(&self) -> StatusCode {
        self.head.status
    }

    /// Its header.
    pub fn headers(&self) -> Headers {
        Headers(self.connection.received[..self.head.length].to_vec())
    }

    /// Whether it says where its body ends, other than by ending the connection.
    pub fn says_its_end(&self) -> bool {
        !matches!(self.head.framing, Framing::UntilClose)
    }

    /// Waits for more of the body, and shows it to `take`, in any number of slices. False at the
    /// body's end.
    ///
    /// # Errors
    /// ShortBody, Reset, Tls, TimeOut, Protocol.
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
                // What follows an answer was not asked for.
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

    /// Reads the body to its end.
    ///
    /// # Errors
    /// What reading it gives, and Protocol where it is longer than `limit` bytes.
    pub async fn drain(&mut self, limit: usize) -> Result<Bytes, Failure> {
        let mut whole = BytesMut::new();
        self.drain_into(&mut whole, limit).await?;
        Ok(whole.freeze())
    }

    async fn drain_into(&mut self, whole: &mut BytesMut, limit: usize) -> Result<(), Failure> {
        while self.read(|data| whole.extend_from_slice(data)).await? {
            if whole.len() > limit {
                return Err(Failure::Protocol(format!("a body of more than {limit} bytes")));
            }
        }
        Ok(())
    }

    /// What an answer with an error status says: reads its body (64 KiB at most) for S3's code.
    pub async fn refusal(&mut self) -> Failure {
        let mut body = BytesMut::new();
        // The status is the news, even where the rest of the answer is lost, late, or a part of it.
        let rest = self.drain_into(&mut body, REFUSAL_BYTES);
        let _ = tokio::time::timeout(REFUSAL_TIME, rest).await;
        let refused = xml::error(&body);
        let message = match refused.region {
            Some(region) => format!("{} (the bucket is in region {region})", refused.message),
            None => refused.message,
        };
        Failure::Http { status: self.status().as_u16(), code: refused.code, message }
    }

    /// The connection, where another request can follow.
    pub fn into_connection(self) -> Option<Connection> {
        self.reusable().then_some(self.connection)
    }

    fn reusable(&self) -> bool {
        let Response { connection, head, used, .. } = self;
        // What came with the head and behind the body was not asked for.
        head.framing.is_over() && head.keeps && *used == connection.received.len()
    }
}

/// Sets how many bytes wake the reader of a body of which `left` are still to come.
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

/// How many bytes should wake it.
pub(super) fn wake_at(left: u64) -> u32 {
    if left < 2 * TAIL_BYTES { 1 } else { WAKE_BYTES.min(left - TAIL_BYTES) as u32 }
}
