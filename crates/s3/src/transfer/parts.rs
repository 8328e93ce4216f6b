//! Multipart bookkeeping: the parts of an object still to be moved, and the ETags of those sent.

use std::cell::{Cell, RefCell};

use bytes::Bytes;
use http::{Method, StatusCode, header};

use crate::{Call, Failure, Headers, xml};

/// Part of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    index: u64,
    /// Offset in bytes of the part in the object.
    pub at: u64,
    /// Length in bytes.
    pub len: u64,
}

impl Part {
    /// Return the part number in S3's numbering, which starts at 1.
    pub fn number(&self) -> String {
        (self.index + 1).to_string()
    }
}

/// Part that the store has confirmed.
struct Sent {
    index: u64,
    etag: String,
    crc32: Option<u32>,
}

/// Parts of one object still to be moved, and ETags and CRC32s of those sent. Several connections
/// of a thread share it.
pub struct Parts {
    bytes: u64,
    part_bytes: u64,
    next: Cell<u64>,
    sent: RefCell<Vec<Sent>>,
}

impl Parts {
    /// Create the parts of an object of `bytes` bytes.
    pub fn of(bytes: u64, part_bytes: u64) -> Self {
        Parts { bytes, part_bytes, next: Cell::new(0), sent: RefCell::default() }
    }

    /// Return the total number of parts.
    pub fn count(&self) -> usize {
        self.bytes.div_ceil(self.part_bytes) as usize
    }

    /// Take the next part that is to be moved.
    pub fn next(&self) -> Option<Part> {
        let index = self.next.get();
        let at = index * self.part_bytes;
        (at < self.bytes).then(|| {
            self.next.set(index + 1);
            Part { index, at, len: self.part_bytes.min(self.bytes - at) }
        })
    }

    /// Send parts of the upload `id` of `key` until none is left or `stopping` returns true.
    ///
    /// `send` returns the headers of the answer, and the CRC32 if the part was sent with one.
    ///
    /// # Errors
    /// The failure of `send`; [`Failure::Protocol`] for an answer without an ETag.
    pub async fn send_each(
        &self,
        key: &str,
        id: &str,
        stopping: &dyn Fn() -> bool,
        mut send: impl AsyncFnMut(Call<'_>, Part) -> Result<(Headers, Option<u32>), Failure>,
    ) -> Result<(), Failure> {
        while !stopping() {
            let Some(part) = self.next() else { break };
            let number = part.number();
            let query = [("partNumber", number.as_str()), ("uploadId", id)];
            let call = Call { query: &query, ..Call::new(Method::PUT, Some(key)) };
            let (headers, crc) = send(call, part).await?;
            self.sent(part, &headers, crc)?;
        }
        Ok(())
    }

    fn sent(&self, part: Part, headers: &Headers, crc: Option<u32>) -> Result<(), Failure> {
        let missing = || Failure::Protocol("a part without an ETag".into());
        let etag = headers.get(&header::ETAG).ok_or_else(missing)?;
        self.sent.borrow_mut().push(Sent { index: part.index, etag, crc32: crc });
        Ok(())
    }

    /// Build the request body that completes the upload.
    pub fn complete_body(&self) -> Bytes {
        let mut sent = self.sent.borrow_mut();
        sent.sort_unstable_by_key(|part| part.index);
        xml::complete(sent.iter().map(|part| (part.index as u32 + 1, &part.etag[..], part.crc32)))
    }
}

/// Return whether the store answered that the object or upload does not exist.
pub fn is_missing(failure: &Failure) -> bool {
    let gone = StatusCode::NOT_FOUND.as_u16();
    matches!(failure, Failure::Http { status, .. } if *status == gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_an_object_and_complete_it_in_order() {
        let parts = Parts::of(25, 10);
        assert_eq!(parts.count(), 3);
        let all: Vec<Part> = std::iter::from_fn(|| parts.next()).collect();
        let ranges: Vec<(u64, u64)> = all.iter().map(|part| (part.at, part.len)).collect();
        assert_eq!(ranges, [(0, 10), (10, 10), (20, 5)]);
        for part in all.into_iter().rev() {
            let headers = Headers::of(&format!("etag: tag{}\r\n", part.number()));
            parts.sent(part, &headers, None).unwrap();
        }
        let tags = [(1, "tag1", None), (2, "tag2", None), (3, "tag3", None)];
        assert_eq!(parts.complete_body(), xml::complete(tags.into_iter()));
        let refused = Parts::of(1, 1);
        let part = refused.next().unwrap();
        assert!(refused.sent(part, &Headers::of(""), None).is_err());
    }
}
