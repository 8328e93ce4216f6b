//! Objects in parts: which are still to be moved, and what the store said of each.

use std::cell::{Cell, RefCell};

use bytes::Bytes;
use http::StatusCode;
use http::header::{self, HeaderMap};

use crate::{Failure, xml};

/// A stretch of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    index: u64,
    /// Where it begins.
    pub at: u64,
    /// How long it is.
    pub len: u64,
}

impl Part {
    /// As S3 counts them, from 1.
    pub fn number(&self) -> String {
        (self.index + 1).to_string()
    }
}

/// What is still to be moved of one object, and what the store said about parts that were: their
/// ETags, and the CRC32 of those that were sent with one. Several connections of a thread share it.
pub struct Parts {
    bytes: u64,
    part_bytes: u64,
    next: Cell<u64>,
    told: RefCell<Vec<(u64, String, Option<u32>)>>,
}

impl Parts {
    /// All of an object of so many bytes.
    pub fn of(bytes: u64, part_bytes: u64) -> Self {
        Parts { bytes, part_bytes, next: Cell::new(0), told: RefCell::default() }
    }

    /// How many there are in all.
    pub fn count(&self) -> usize {
        self.bytes.div_ceil(self.part_bytes) as usize
    }

    /// Begin the next one.
    pub fn next(&self) -> Option<Part> {
        let index = self.next.get();
        let at = index * self.part_bytes;
        (at < self.bytes).then(|| {
            self.next.set(index + 1);
            Part { index, at, len: self.part_bytes.min(self.bytes - at) }
        })
    }

    /// One was sent; `headers` are those of the answer.
    ///
    /// # Errors
    /// [`Failure::Protocol`] for an answer without an ETag.
    pub fn sent(&self, part: Part, headers: &HeaderMap, crc: Option<u32>) -> Result<(), Failure> {
        self.told.borrow_mut().push((part.index, etag(headers)?, crc));
        Ok(())
    }

    /// The body that completes the upload.
    pub fn complete_body(&self) -> Bytes {
        let mut told = self.told.borrow_mut();
        told.sort_unstable_by_key(|&(index, ..)| index);
        xml::complete(told.iter().map(|(index, etag, crc)| (*index as u32 + 1, &etag[..], *crc)))
    }
}

fn etag(headers: &HeaderMap) -> Result<String, Failure> {
    let etag = headers.get(header::ETAG).and_then(|value| value.to_str().ok());
    etag.map(str::to_owned).ok_or_else(|| Failure::Protocol("a part without an ETag".into()))
}

/// The store's word for a thing that does not exist.
pub fn is_missing(failure: &Failure) -> bool {
    let gone = StatusCode::NOT_FOUND.as_u16();
    matches!(failure, Failure::Http { status, .. } if *status == gone)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn parts_cover_an_object_and_complete_it_in_order() {
        let parts = Parts::of(25, 10);
        assert_eq!(parts.count(), 3);
        let all: Vec<Part> = std::iter::from_fn(|| parts.next()).collect();
        let ranges: Vec<(u64, u64)> = all.iter().map(|part| (part.at, part.len)).collect();
        assert_eq!(ranges, [(0, 10), (10, 10), (20, 5)]);
        for part in all.into_iter().rev() {
            let tag = HeaderValue::from_str(&format!("tag{}", part.number())).unwrap();
            let headers = [(header::ETAG, tag)].into_iter().collect();
            parts.sent(part, &headers, None).unwrap();
        }
        let tags = [(1, "tag1"), (2, "tag2"), (3, "tag3")];
        assert_eq!(parts.complete_body(), xml::complete_body(&tags));
        let refused = Parts::of(1, 1);
        let part = refused.next().unwrap();
        assert!(refused.sent(part, &HeaderMap::new(), None).is_err());
    }
}
