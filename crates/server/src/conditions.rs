//! `If-Match` and its relatives.

use s3s::dto::{ETag, ETagCondition, Timestamp};
use s3s::{S3Result, s3_error};

use crate::object::Object;

/// What a request asks of the object that is there.
#[derive(Debug, Default)]
pub struct Conditions {
    /// Its version is this one.
    pub matches: Option<ETagCondition>,
    /// Its version is another one, or there is none.
    pub differs: Option<ETagCondition>,
    /// It was written after this second.
    pub since: Option<Timestamp>,
    /// It was not written after this second.
    pub not_since: Option<Timestamp>,
}

impl Conditions {
    /// Whether anything at all is asked.
    pub fn is_empty(&self) -> bool {
        self.matches.is_none()
            && self.differs.is_none()
            && self.since.is_none()
            && self.not_since.is_none()
    }

    /// Before a GET or HEAD.
    ///
    /// # Errors
    /// `PreconditionFailed` (412), `NotModified` (304). A version outweighs a time (RFC 9110).
    pub fn check_read(&self, object: &Object) -> S3Result<()> {
        let etag = object.etag();
        let written_after = |time: &Timestamp| object.modified_ns / NS > seconds(time);
        if let Some(wanted) = &self.matches {
            if !names(wanted, &etag) {
                return Err(s3_error!(PreconditionFailed));
            }
        } else if self.not_since.as_ref().is_some_and(written_after) {
            return Err(s3_error!(PreconditionFailed));
        }
        if let Some(known) = &self.differs {
            if names(known, &etag) {
                return Err(s3_error!(NotModified));
            }
        } else if self.since.as_ref().is_some_and(|time| !written_after(time)) {
            return Err(s3_error!(NotModified));
        }
        Ok(())
    }

    /// Before a PUT replaces what is there, or a DELETE removes it.
    ///
    /// # Errors
    /// `PreconditionFailed`; `NoSuchKey` where a version is asked of an object that is not there.
    pub fn check_write(&self, there: Option<&Object>) -> S3Result<()> {
        let etag = there.map(Object::etag);
        if let Some(wanted) = &self.matches {
            let Some(etag) = &etag else { return Err(s3_error!(NoSuchKey)) };
            if !names(wanted, etag) {
                return Err(s3_error!(PreconditionFailed));
            }
        }
        match (&self.differs, &etag) {
            (Some(known), Some(etag)) if names(known, etag) => Err(s3_error!(PreconditionFailed)),
            _ => Ok(()),
        }
    }
}

const NS: i64 = 1_000_000_000;

fn seconds(time: &Timestamp) -> i64 {
    let mut text = Vec::new();
    let written = time.format(s3s::dto::TimestampFormat::EpochSeconds, &mut text);
    debug_assert!(written.is_ok(), "a timestamp is written to memory");
    let text = String::from_utf8_lossy(&text);
    text.split('.').next().and_then(|whole| whole.parse().ok()).unwrap_or(0)
}

fn names(condition: &ETagCondition, etag: &ETag) -> bool {
    match condition {
        ETagCondition::Any => true,
        ETagCondition::ETag(wanted) => wanted.value() == etag.value(),
    }
}
