//! Parts of an object's transfer: those still to be transferred, and the ETags of those sent.

use std::cell::{Cell, RefCell};

use bytes::Bytes;
use http::{Method, StatusCode, header};

use crate::{Call, Failure, Headers, xml};

/// Part of an object to transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    index: u64,
    /// Offset of the part in the object, in bytes.
    pub at: u64,
    /// Length of the part in bytes.
    pub len: u64,
}

impl Part {
    /// Return the part number as S3 counts, from 1.
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

/// Parts of one object that are still to be transferred, and ETags and CRC32s of the parts sent.
/// Several connections of one thread share it.
pub struct Parts {
    bytes: u64,
    part_bytes: u64,
    next: Cell<u64>,
    sent: RefCell<Vec<Sent>>,
}

impl Parts {
    /// Divide an object of `bytes` bytes into parts of `part_bytes`; the last part may be shorter.
    pub fn of(bytes: u64, part_bytes: u64) -> Self {
        Parts { bytes, part_bytes, next: Cell::new(0), sent: RefCell::default() }
    }

    /// Return the total number of parts.
    pub fn count(&self) -> usize {
        self.bytes.div_ceil(self.part_bytes) as usize
    }

    /// Take the next part to transfer; None if none is left.
    pub fn next(&self) -> Option<Part> {
        let index = self.next.get();
        let at = index * self.part_bytes;
        (at < self.bytes).then(|| {
            self.next.set(index + 1);
            Part { index, at, len: self.part_bytes.min(self.bytes - at) }
        })
    }

    /// Send parts of the multipart upload `id` of the object `key` until none is left or `stopping`
    /// returns true.
    ///
    /// `send` sends one part. It returns the headers of the answer, and the CRC32 if the part was
    /// sent with one.
    ///
    /// # Errors
    /// The failure of `send`, or [`Failure::Protocol`] if an answer has no ETag.
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
        let missing = || Failure::Protocol("the answer to a part has no ETag".into());
        let etag = headers.get(&header::ETAG).ok_or_else(missing)?;
        self.sent.borrow_mut().push(Sent { index: part.index, etag, crc32: crc });
        Ok(())
    }

    /// Build the body of the request that completes the multipart upload.
    pub fn complete_body(&self) -> Bytes {
        let mut sent = self.sent.borrow_mut();
        sent.sort_unstable_by_key(|part| part.index);
        xml::complete(sent.iter().map(|part| (part.index as u32 + 1, &part.etag[..], part.crc32)))
    }
}

/// Return whether the failure means that the object or upload does not exist.
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
